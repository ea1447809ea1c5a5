/* turns.cuh: the sines of rotary positions. Angles are worked out in f64, as an angle may be as
 * large as the position, and brought below a half turn before sine and cosine in f32. */
#ifndef LUO_EXEC_CUDA_KERNELS_TURNS_CUH
#define LUO_EXEC_CUDA_KERNELS_TURNS_CUH
#include "exec/cuda/kernels/units.cuh"

/* Turns of pair i of d elements from one position to the next: base^(-2i/d) / (2 pi). */
static __device__ __forceinline__ double gpu_turns_of(int64_t i, int64_t d, double base)
{
    return exp2(-2.0 * static_cast<double>(i) / static_cast<double>(d) * log2(base)) *
           0.15915494309189533577;
}

static __device__ __forceinline__ void gpu_turn(int32_t position, double turns, bool back,
                                                float *sine, float *cosine)
{
    const double at = position * turns;
    const float half = static_cast<float>(2 * (at - rint(at))); /* in half turns */
    sincospif(back ? -half : half, sine, cosine);
}
#endif
