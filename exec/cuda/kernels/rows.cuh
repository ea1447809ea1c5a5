/* rows.cuh: teams of threads, each with one row at a time.
 *
 * A block is blockDim.y teams of blockDim.x threads, a multiple of 32, so no warp has threads of
 * two teams. A thread holds K units of a row, blockDim.x units apart; a team that is too small for
 * its row goes over it in several chunks, and reads it again where it needs it twice. */
#ifndef LUO_EXEC_CUDA_KERNELS_ROWS_CUH
#define LUO_EXEC_CUDA_KERNELS_ROWS_CUH
#include "exec/cuda/kernels/units.cuh"

constexpr int GPU_TEAM_MOST = 256; /* threads */

/* The shape of a block for rows of `units` units, K of them a thread. */
static inline dim3 gpu_team(int64_t units, int k)
{
    const int64_t warps = (units + 32 * k - 1) / (32 * k);
    const int x = warps < 1                    ? 32
                  : warps * 32 > GPU_TEAM_MOST ? GPU_TEAM_MOST
                                               : static_cast<int>(warps) * 32;
    return dim3(static_cast<unsigned>(x), x >= 128 ? 1u : static_cast<unsigned>(128 / x));
}

/* Elements of a row of type M that a team holds at a time. */
template <int V> static __device__ __forceinline__ int64_t gpu_chunk(int k)
{
    return static_cast<int64_t>(blockDim.x) * V * k;
}

template <int M, int K> struct gpu_row { /* one thread's part of a chunk */
    static constexpr int V = gpu_width<M>;
    gpu_unit<M, V> u[K];
    /* i: the thread's first element, elements from hi on are 0. */
    __device__ __forceinline__ void load(gpu_array a, int64_t i, int64_t hi)
    {
#pragma unroll
        for (int k = 0; k < K; k++) u[k] = gpu_load_whole<M, V>(a, i + k * gpu_chunk<V>(1), hi);
    }
};

/* Between two passes over a row: what the first has unpacked is not kept for the second, which
 * would take twice the registers that the packed row takes. */
template <int M, int K> static __device__ __forceinline__ void gpu_pack_again(gpu_row<M, K> &row)
{
    if constexpr (M == GPU_BF16)
#pragma unroll
        for (int k = 0; k < K * gpu_width<M> / 2; k++) {
            uint32_t &word = row.u[k / (gpu_width<M> / 2)].at[k % (gpu_width<M> / 2)];
            word = static_cast<uint32_t>(gpu_anew(static_cast<int>(word)));
        }
}

/* f(a value of each row) for the thread's elements below hi. */
template <int M, int K, class F, class... Rows>
static __device__ __forceinline__ void gpu_each(int64_t i, int64_t hi, F f,
                                                const gpu_row<M, K> &row, const Rows &...rows)
{
    constexpr int V = gpu_width<M>;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int64_t at = i + k * gpu_chunk<V>(1);
        if (at >= hi) continue;
#pragma unroll
        for (int e = 0; e < V; e++)
            if (M != GPU_ANY || at + e < hi) f(gpu_value(row.u[k], e), gpu_value(rows.u[k], e)...);
    }
}

/* y = f(a value of each row), likewise. */
template <int M, int K, class F, class... Rows>
static __device__ __forceinline__ void gpu_write(gpu_array y, int64_t i, int64_t hi, F f,
                                                 const gpu_row<M, K> &row, const Rows &...rows)
{
    constexpr int V = gpu_width<M>;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int64_t at = i + k * gpu_chunk<V>(1);
        if (at >= hi) continue;
        float v[V];
#pragma unroll
        for (int e = 0; e < V; e++) v[e] = f(gpu_value(row.u[k], e), gpu_value(rows.u[k], e)...);
        gpu_store_whole<M, V>(y, at, hi, v);
    }
}

/* ---- sums and maxima over a team ---- */

/* Two places, taken in turn: whoever still reads one can't be overtaken by more than one barrier.
 */
template <int N> struct gpu_rendezvous {
    float at[2][32][N]; /* per warp of the block */
};

/* s[i] of all threads of the team together, in an order that only the shape of the block decides.
 * All threads of the block call it. */
template <int N, class F>
static __device__ __forceinline__ void gpu_team_fold(float (&s)[N], gpu_rendezvous<N> &shared,
                                                     int &turn, F f)
{
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int lane = 16; lane > 0; lane /= 2)
            s[i] = f(s[i], __shfl_xor_sync(0xffffffffu, s[i], lane));
    if (blockDim.x == 32) return;
    float(*place)[N] = shared.at[turn];
    turn ^= 1;
    for (int i = 0; thread % 32 == 0 && i < N; i++) place[thread / 32][i] = s[i];
    __syncthreads();
    const int warps = static_cast<int>(blockDim.x / 32);
    const int first = static_cast<int>(threadIdx.y) * warps;
#pragma unroll
    for (int i = 0; i < N; i++) s[i] = place[first][i];
    for (int w = 1; w < warps; w++)
#pragma unroll
        for (int i = 0; i < N; i++) s[i] = f(s[i], place[first + w][i]);
}
template <int N>
static __device__ __forceinline__ void gpu_team_sum(float (&s)[N], gpu_rendezvous<N> &shared,
                                                    int &turn)
{
    gpu_team_fold(s, shared, turn, [](float a, float b) { return a + b; });
}
/* ---- on the host ---- */

/* Does a team of this shape hold a row of n elements in K units a thread? */
static inline bool gpu_team_holds(dim3 team, int mode, int k, int64_t n)
{
    return n <= static_cast<int64_t>(team.x) * k * gpu_width_of(mode);
}

/* kernel<mode, flag, true for rows longer than a team holds>; GPU_ANY, which need not be fast, has
 * but the one for long rows. */
#define GPU_OF_ROWS_(mode, kernel, flag, longer)                                                   \
    ((mode) == GPU_F32 ? ((longer) ? kernel<GPU_F32, flag, true> : kernel<GPU_F32, flag, false>)   \
     : (mode) == GPU_BF16                                                                          \
         ? ((longer) ? kernel<GPU_BF16, flag, true> : kernel<GPU_BF16, flag, false>)               \
         : kernel<GPU_ANY, flag, true>)
#define GPU_OF_ROWS(mode, kernel, flag, longer)                                                    \
    ((flag) ? GPU_OF_ROWS_(mode, kernel, true, longer) : GPU_OF_ROWS_(mode, kernel, false, longer))
#endif
