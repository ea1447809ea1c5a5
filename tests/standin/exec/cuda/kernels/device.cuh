/* device.cuh: the functions of exec/cuda/kernels/device.cuh on processors; what
 * each of them promises stands there. Implemented in tests/standin/warp.c. */
#ifndef LUO_EXEC_CUDA_DEVICE_CUH
#define LUO_EXEC_CUDA_DEVICE_CUH
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define GPU_HAS_MMA_BF16 1

extern "C" {
unsigned char *standin_dynamic_shared(void);
void standin_mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1);
void standin_ldmatrix(uint32_t *r, const void *row, int transposed);
void standin_copy_async(void *shared, const void *global, int valid);
void standin_copy_async_commit(void);
void standin_copy_async_wait(int groups);
}

static inline unsigned char *gpu_dynamic_shared()
{
    return standin_dynamic_shared();
}
static inline uint64_t gpu_clock_ns()
{
    return standin_clock_ns();
}
static inline int gpu_anew(int x)
{
    return x;
}
template <class T> static inline T *gpu_global(T *at)
{
    return at;
}
static inline float gpu_exp2(float x)
{
    const float y = exp2f(x);
    return y < 1.17549435e-38f ? 0 : y;
}
static inline uint32_t gpu_pack_bf16(float lo, float hi)
{
    return standin_bits<uint32_t>(__floats2bfloat162_rn(lo, hi));
}
static inline void gpu_store_16(void *to, uint4 w)
{
    *static_cast<uint4 *>(to) = w;
}
static inline void gpu_store_8(void *to, uint2 w)
{
    *static_cast<uint2 *>(to) = w;
}
static inline void gpu_mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    standin_mma_bf16(c, a, b0, b1);
}
static inline void gpu_ldmatrix_x4(uint32_t (&r)[4], const void *row)
{
    standin_ldmatrix(r, row, 0);
}
static inline void gpu_ldmatrix_x4_trans(uint32_t (&r)[4], const void *row)
{
    standin_ldmatrix(r, row, 1);
}
static inline void gpu_copy_async(void *shared, const void *global, bool valid = true)
{
    standin_copy_async(shared, global, valid);
}
static inline void gpu_copy_async_commit()
{
    standin_copy_async_commit();
}
template <int N> static inline void gpu_copy_async_wait()
{
    standin_copy_async_wait(N);
}
#endif
