/* rows.cu: rows of tokens by (expert, token) and together again. Where each lies is worked out
 * first, a block an expert; then teams of threads move rows. */
#include "exec/cuda/kernels/rows.cuh"
#include "exec/cuda/moe/counting.cuh"
#include "exec/cuda/moe/experts.h"

namespace
{
enum { UNITS = 2 /* of a thread at a time */ };

/* Choices of experts before this one, then its own one after the other: a token has at most one row
 * of an expert. The first block says of dropped ones that they have none. */
__global__ void __launch_bounds__(COUNTERS)
    places(int64_t n, const float *ids, int32_t *row_of, float *counts)
{
    __shared__ int32_t shared[COUNTERS / 32];
    const float own = static_cast<float>(blockIdx.x);
    int32_t start = 0;
    for (int64_t i = threadIdx.x; i < n; i += COUNTERS) {
        start += ids[i] >= 0 && ids[i] < own;
        if (blockIdx.x == 0 && ids[i] < 0) row_of[i] = -1;
    }
    const int32_t first = gpu_count_all(start, shared);
    int32_t at = first;
    for (int64_t i = threadIdx.x; i - threadIdx.x < n; i += COUNTERS) {
        const bool mine = i < n && ids[i] == own;
        int32_t all = 0;
        const int32_t rank = gpu_rank_among(mine, shared, &all);
        if (mine) row_of[i] = at + rank;
        at += all;
    }
    if (counts && threadIdx.x == 0) counts[blockIdx.x] = static_cast<float>(at - first);
}

__device__ __forceinline__ int64_t team_row()
{
    return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

template <int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    pack(int64_t n, int64_t h, int32_t k, const int32_t *row_of, gpu_array x, gpu_array rows)
{
    constexpr int V = gpu_width<M>;
    const int64_t choice = team_row();
    if (choice >= n || row_of[choice] < 0) return;
    const int64_t from = choice / k * h, to = row_of[choice] * h;
    for (int64_t i = threadIdx.x * V; i < h; i += gpu_chunk<V>(UNITS)) {
        gpu_row<M, UNITS> u;
        u.load(x, from + i, from + h);
        gpu_write(
            rows, to + i, to + h, [](float v) { return v; }, u);
    }
}

template <int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    combine(int64_t t, int64_t h, int32_t k, const int32_t *row_of, const float *weights,
            gpu_array rows, gpu_array y)
{
    constexpr int V = gpu_width<M>;
    const int64_t token = team_row();
    if (token >= t) return;
    for (int64_t i = threadIdx.x * V; i < h; i += gpu_chunk<V>(1)) {
        float sum[V] = {};
        for (int64_t at = token * k; at < (token + 1) * k; at++) {
            if (row_of[at] < 0) continue;
            const float w = weights ? weights[at] : 1;
            const int64_t from = row_of[at] * h;
            const gpu_unit<M, V> u = gpu_load_whole<M, V>(rows, from + i, from + h);
#pragma unroll
            for (int e = 0; e < V; e++) sum[e] = fmaf(w, gpu_value(u, e), sum[e]);
        }
        gpu_store_whole<M, V>(y, token * h + i, (token + 1) * h, sum);
    }
}

/* flag: gradients of weights, too. */
template <int M, bool WEIGHED>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    combine_dx(int64_t n, int64_t h, int32_t k, const int32_t *row_of, const float *weights,
               gpu_array dy, gpu_array rows, gpu_array drows, float *dweights)
{
    constexpr int V = gpu_width<M>;
    __shared__ gpu_rendezvous<1> shared;
    const int64_t choice = team_row();
    const int64_t row = choice < n ? row_of[choice] : -1;
    float sum[1] = {0};
    if (row >= 0) {
        const float w = weights ? weights[choice] : 1;
        const int64_t from = choice / k * h, to = row * h;
        for (int64_t i = threadIdx.x * V; i < h; i += gpu_chunk<V>(1)) {
            const gpu_unit<M, V> d = gpu_load_whole<M, V>(dy, from + i, from + h);
            float v[V];
#pragma unroll
            for (int e = 0; e < V; e++) v[e] = w * gpu_value(d, e);
            if (WEIGHED) {
                const gpu_unit<M, V> r = gpu_load_whole<M, V>(rows, to + i, to + h);
#pragma unroll
                for (int e = 0; e < V; e++) /* beyond the row both are 0 */
                    sum[0] = fmaf(gpu_value(d, e), gpu_value(r, e), sum[0]);
            }
            gpu_store_whole<M, V>(drows, to + i, to + h, v);
        }
    }
    if (!WEIGHED) return;
    int turn = 0;
    gpu_team_sum(sum, shared, turn);
    if (threadIdx.x == 0 && choice < n) dweights[choice] = sum[0];
}

/* ---- shared experts: every token by a sigmoid ---- */

__device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

template <int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    token_gate(int64_t t, int64_t h, const float *logits, gpu_array x, gpu_array y)
{
    constexpr int V = gpu_width<M>;
    const int64_t token = team_row(), lo = token * h;
    if (token >= t) return;
    const float by = sigmoid(logits[token]);
    for (int64_t i = threadIdx.x * V; i < h; i += gpu_chunk<V>(UNITS)) {
        gpu_row<M, UNITS> u;
        u.load(x, lo + i, lo + h);
        gpu_write(
            y, lo + i, lo + h, [by](float v) { return by * v; }, u);
    }
}

template <int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    token_gate_dx(int64_t t, int64_t h, gpu_array dy, const float *logits, gpu_array x,
                  float *dlogits, gpu_array dx)
{
    constexpr int V = gpu_width<M>;
    __shared__ gpu_rendezvous<1> shared;
    const int64_t token = team_row(), lo = token * h, end = token < t ? h : 0;
    const float logit = token < t ? logits[token] : 0, by = sigmoid(logit);
    float sum[1] = {0};
    for (int64_t i = threadIdx.x * V; i < end; i += gpu_chunk<V>(UNITS)) {
        gpu_row<M, UNITS> d, u;
        d.load(dy, lo + i, lo + h);
        u.load(x, lo + i, lo + h);
        gpu_each(
            lo + i, lo + h, [&sum](float g, float v) { sum[0] = fmaf(g, v, sum[0]); }, d, u);
        gpu_write(
            dx, lo + i, lo + h, [by](float g) { return by * g; }, d);
    }
    int turn = 0;
    gpu_team_sum(sum, shared, turn);
    if (threadIdx.x == 0 && token < t) dlogits[token] = sum[0] * by * sigmoid(-logit);
}

/* Teams for rows of h elements, in units of this mode. */
dim3 team_of(int64_t h, int mode)
{
    return gpu_team(gpu_blocks(h, gpu_width_of(mode)), UNITS);
}
} // namespace

cudaError_t gpu_places(cudaStream_t stream, int64_t t, int32_t k, int32_t experts, const float *ids,
                       int32_t *row_of, float *counts)
{
    return gpu_launch(places, gpu_blocks(experts, 1), COUNTERS, 0, stream, t * k, ids, row_of,
                      counts);
}

cudaError_t gpu_pack(cudaStream_t stream, int64_t t, int64_t h, int32_t k, const int32_t *row_of,
                     gpu_array x, gpu_array rows)
{
    const int mode = gpu_row_mode(gpu_mode(x, rows), h);
    const dim3 team = team_of(h, mode);
    return gpu_launch(GPU_OF_MODE(mode, pack), h > 0 ? gpu_blocks(t * k, team.y) : 0, team, 0,
                      stream, t * k, h, k, row_of, x, rows);
}

cudaError_t gpu_combine(cudaStream_t stream, int64_t t, int64_t h, int32_t k, const int32_t *row_of,
                        const float *weights, gpu_array rows, gpu_array y)
{
    const int mode = gpu_row_mode(gpu_mode(rows, y), h);
    const dim3 team = team_of(h, mode);
    return gpu_launch(GPU_OF_MODE(mode, combine), h > 0 ? gpu_blocks(t, team.y) : 0, team, 0,
                      stream, t, h, k, row_of, weights, rows, y);
}

#define COMBINE_DX(mode, weighed)                                                                  \
    ((mode) == GPU_F32    ? combine_dx<GPU_F32, weighed>                                           \
     : (mode) == GPU_BF16 ? combine_dx<GPU_BF16, weighed>                                          \
                          : combine_dx<GPU_ANY, weighed>)

cudaError_t gpu_combine_dx(cudaStream_t stream, int64_t t, int64_t h, int32_t k,
                           const int32_t *row_of, const float *weights, gpu_array dy,
                           gpu_array rows, gpu_array drows, float *dweights)
{
    const gpu_array none = {nullptr, GPU_F32}, read = dweights ? rows : none;
    const int mode = gpu_row_mode(gpu_mode(dy, read, drows), h);
    const dim3 team = team_of(h, mode);
    return gpu_launch(dweights ? COMBINE_DX(mode, true) : COMBINE_DX(mode, false),
                      gpu_blocks(t * k, team.y), team, 0, stream, t * k, h, k, row_of, weights, dy,
                      read, drows, dweights);
}

cudaError_t gpu_token_gate(cudaStream_t stream, int64_t t, int64_t h, const float *logits,
                           gpu_array x, gpu_array y)
{
    const int mode = gpu_row_mode(gpu_mode(x, y), h);
    const dim3 team = team_of(h, mode);
    return gpu_launch(GPU_OF_MODE(mode, token_gate), h > 0 ? gpu_blocks(t, team.y) : 0, team, 0,
                      stream, t, h, logits, x, y);
}

cudaError_t gpu_token_gate_dx(cudaStream_t stream, int64_t t, int64_t h, gpu_array dy,
                              const float *logits, gpu_array x, float *dlogits, gpu_array dx)
{
    const int mode = gpu_row_mode(gpu_mode(dy, x, dx), h);
    const dim3 team = team_of(h, mode);
    return gpu_launch(GPU_OF_MODE(mode, token_gate_dx), gpu_blocks(t, team.y), team, 0, stream, t,
                      h, dy, logits, x, dlogits, dx);
}
