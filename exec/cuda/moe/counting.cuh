/* counting.cuh: a block counts, in the order of its threads. */
#ifndef LUO_EXEC_CUDA_MOE_COUNTING_CUH
#define LUO_EXEC_CUDA_MOE_COUNTING_CUH
#include "exec/cuda/kernels/device.cuh"

constexpr int COUNTERS = 256; /* threads of the block */

/* n of all threads together; the whole block calls it. */
static __device__ __forceinline__ int32_t gpu_count_all(int32_t n, int32_t (&shared)[COUNTERS / 32])
{
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) n += __shfl_xor_sync(0xffffffffu, n, lane);
    __syncthreads(); /* others still read the last call's */
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = n;
    __syncthreads();
    int32_t all = 0;
#pragma unroll
    for (int w = 0; w < COUNTERS / 32; w++) all += shared[w];
    return all;
}

/* How many threads before this one are `mine`; *all: how many there are. The whole block calls it.
 */
static __device__ __forceinline__ int32_t gpu_rank_among(bool mine,
                                                         int32_t (&shared)[COUNTERS / 32],
                                                         int32_t *all)
{
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const unsigned yes = __ballot_sync(0xffffffffu, mine);
    __syncthreads(); /* others still read the last call's */
    if (lane == 0) shared[warp] = __popc(yes);
    __syncthreads();
    int32_t before = __popc(yes & ((1u << lane) - 1)), n = 0;
#pragma unroll
    for (int w = 0; w < COUNTERS / 32; w++) {
        before += w < warp ? shared[w] : 0;
        n += shared[w];
    }
    *all = n;
    return before;
}
#endif
