/* turns.cuh: the sines of rotary positions. Angles are worked out in f64, as an angle may be as
 * large as the position, and brought below a half turn before sine and cosine in f32. */
#ifndef LUO_EXEC_CUDA_KERNELS_TURNS_CUH
#define LUO_EXEC_CUDA_KERNELS_TURNS_CUH
#include "exec/cuda/kernels/units.cuh"

/* Turns of pair i of d elements from one position to the next: radians over 2 pi. */
static __device__ __forceinline__ double gpu_turns_of(int64_t i, int64_t d, const luo_turns &by)
{
    const double each = 0.15915494309189533577;
    if (by.frequency) return by.frequency[i] * each;
    return exp2(-2.0 * static_cast<double>(i) / static_cast<double>(d) * log2(by.base)) * each;
}

static __device__ __forceinline__ void gpu_turn(int32_t position, double turns, float factor,
                                                bool back, float *sine, float *cosine)
{
    const double at = position * turns;
    const float half = static_cast<float>(2 * (at - rint(at))); /* in half turns */
    sincospif(back ? -half : half, sine, cosine);
    *sine *= factor;
    *cosine *= factor;
}

static __device__ __forceinline__ float gpu_turn_factor(const luo_turns &by)
{
    return by.factor > 0 ? static_cast<float>(by.factor) : 1;
}
#endif
