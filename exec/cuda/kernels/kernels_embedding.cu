/* kernels_embedding.cu: rows of a table by id, and back. */
#include "exec/cuda/kernels/rows.cuh"

namespace
{
enum { EACH = 2 };

template <int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    embedding(int64_t t, int64_t h, int64_t lo, int64_t hi, float scale, const int32_t *ids,
              gpu_array table, gpu_array y)
{
    constexpr int V = gpu_width<M>;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (row >= t) return;
    const bool here = ids[row] >= lo && ids[row] < hi;
    const int64_t from = here ? (ids[row] - lo) * h : 0, to = row * h;
    for (int64_t i = threadIdx.x * V; i < h; i += gpu_chunk<V>(EACH)) {
        gpu_row<M, EACH> u;
        u.load(table, from + i, here ? from + h : from); /* else 0 */
        gpu_write(
            y, to + i, to + h, [=](float v) { return scale * v; }, u);
    }
}

/* ---- back: a run of equal ids in `order` is a row of the table's gradient ----
 *
 * A block has one warp for each of 8 neighbours in the order, and SPAN units of columns. The warp
 * whose position begins a run adds the rows of the run, one after the other; a run that is longer
 * than a warp looks ahead is left to the whole block, each warp adding every eighth row of it, and
 * the eight sums following in order. Which way a run goes depends on its length alone. */

enum { WARPS = 8, SPAN = 2 /* units a lane */, ROWS = 4 /* read before the first is added */ };

struct run {
    const int32_t *ids, *order;
    int64_t t;
    float scale;
    __device__ __forceinline__ int32_t id(int64_t k) const
    {
        return ids[order[k]];
    }
};

/* s += rows order[k], order[k + step].. below end, columns from j on of dy. */
template <int M, int V>
__device__ __forceinline__ void add_rows(const run &r, int64_t k, int64_t end, int64_t step,
                                         gpu_array dy, int64_t j, int64_t h, float (&s)[SPAN][V])
{
    for (; k < end; k += ROWS * step) {
        gpu_unit<M, V> u[ROWS][SPAN];
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const bool there = k + i * step < end;
            const int64_t at = there ? r.order[k + i * step] * h : 0;
#pragma unroll
            for (int a = 0; a < SPAN; a++)
                u[i][a] = gpu_load_whole<M, V>(dy, at + j + a * 32 * V, there ? at + h : 0);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int a = 0; a < SPAN; a++)
#pragma unroll
                for (int e = 0; e < V; e++) s[a][e] += gpu_value(u[i][a], e);
    }
}

/* One row of the table's gradient: (+)= scale s. */
template <int MT, int V>
__device__ __forceinline__ void put_row(gpu_array dtable, int64_t at, int64_t j, int64_t h,
                                        bool add, float scale, float (&s)[SPAN][V])
{
#pragma unroll
    for (int a = 0; a < SPAN; a++) {
#pragma unroll
        for (int e = 0; e < V; e++) s[a][e] *= scale;
        const int64_t i = at + j + a * 32 * V;
        if (i >= at + h) continue;
        if (add) {
            const gpu_unit<MT, V> old = gpu_load_whole<MT, V>(dtable, i, at + h);
#pragma unroll
            for (int e = 0; e < V; e++) s[a][e] += gpu_value(old, e);
        }
        gpu_store_whole<MT, V>(dtable, i, at + h, s[a]);
    }
}

/* How many of positions k.. up to k + 32 have the id of k; the whole warp. */
__device__ __forceinline__ int look_ahead(const run &r, int64_t k, int32_t id, int lane)
{
    const int64_t i = k + 1 + lane;
    int same = i < r.t && r.id(i) == id ? 32 : lane;
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        const int other = __shfl_xor_sync(0xffffffffu, same, by);
        same = other < same ? other : same;
    }
    return 1 + same; /* 33: there may be more */
}

/* Position after the last with the id of k, by bisection: ids ascend along the order. */
__device__ __forceinline__ int64_t run_end(const run &r, int64_t k, int32_t id)
{
    int64_t in = k, out = r.t;
    while (out - in > 1) {
        const int64_t middle = in + (out - in) / 2;
        if (r.id(middle) == id)
            in = middle;
        else
            out = middle;
    }
    return out;
}

template <int M, int MT>
__global__ void __launch_bounds__(WARPS * 32)
    embedding_dw(int64_t h, int64_t lo, int64_t hi, int64_t tiles, run r, gpu_array dy, bool add,
                 gpu_array dtable)
{
    constexpr int V = M == GPU_BF16 && MT == GPU_BF16 ? 8 : 4;
    __shared__ float sums[WARPS][SPAN * V][32];
    __shared__ int is_long[WARPS];
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const int64_t first = blockIdx.x / tiles * WARPS, k = first + warp;
    const int64_t j = (blockIdx.x % tiles * SPAN * 32 + lane) * V;
    const int32_t id = k < r.t ? r.id(k) : -1;
    const bool begins = k < r.t && id >= lo && id < hi && (k == 0 || r.id(k - 1) != id);
    const int n = begins ? look_ahead(r, k, id, lane) : 0; /* alike for the warp */
    if (lane == 0) is_long[warp] = n > 32;
    if (n > 0 && n <= 32) {
        float s[SPAN][V] = {};
        add_rows<M, V>(r, k, k + n, 1, dy, j, h, s);
        put_row<MT, V>(dtable, (id - lo) * h, j, h, add, r.scale, s);
    }
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        if (!is_long[w]) continue; /* alike for the block */
        const int32_t same = r.id(first + w);
        float s[SPAN][V] = {};
        add_rows<M, V>(r, first + w + warp, run_end(r, first + w, same), WARPS, dy, j, h, s);
#pragma unroll
        for (int e = 0; e < SPAN * V; e++) sums[warp][e][lane] = s[e / V][e % V];
        __syncthreads();
        if (warp == 0) {
            for (int from = 1; from < WARPS; from++)
#pragma unroll
                for (int e = 0; e < SPAN * V; e++) s[e / V][e % V] += sums[from][e][lane];
            put_row<MT, V>(dtable, (same - lo) * h, j, h, add, r.scale, s);
        }
        __syncthreads();
    }
}

template <int M, int MT>
cudaError_t launch_dw(cudaStream_t stream, int64_t h, int64_t lo, int64_t hi, const run &r,
                      gpu_array dy, bool add, gpu_array dtable)
{
    constexpr int V = M == GPU_BF16 && MT == GPU_BF16 ? 8 : 4;
    const int64_t tiles = gpu_blocks(h, SPAN * 32 * V);
    const unsigned grid = gpu_blocks(gpu_blocks(r.t, WARPS) * tiles, 1);
    return gpu_launch(embedding_dw<M, MT>, grid, WARPS * 32, 0, stream, h, lo, hi, tiles, r, dy,
                      add, dtable);
}
} // namespace

cudaError_t gpu_embedding(cudaStream_t stream, int64_t t, int64_t h, int64_t lo, int64_t hi,
                          float scale, const int32_t *ids, gpu_array table, gpu_array y)
{
    const int mode = gpu_row_mode(gpu_mode(table, y), h);
    const dim3 team = gpu_team(gpu_blocks(h, gpu_width_of(mode)), EACH);
    const unsigned grid = h > 0 ? gpu_blocks(t, team.y) : 0;
    return gpu_launch(GPU_OF_MODE(mode, embedding), grid, team, 0, stream, t, h, lo, hi, scale, ids,
                      table, y);
}

cudaError_t gpu_embedding_dw(cudaStream_t stream, int64_t t, int64_t h, int64_t lo, int64_t hi,
                             float scale, const int32_t *ids, const int32_t *order, gpu_array dy,
                             bool add, gpu_array dtable)
{
    if (!add && hi > lo && h > 0) {
        const size_t bytes = static_cast<size_t>((hi - lo) * h) * (dtable.type == GPU_F32 ? 4 : 2);
        const cudaError_t code = cudaMemsetAsync(dtable.at, 0, bytes, stream);
        if (code != cudaSuccess) return code;
    }
    const run r = {ids, order, t, scale};
    const int from = gpu_mode(dy), to = gpu_mode(dtable);
    if (h % 8 == 0 && from == GPU_BF16 && to == GPU_BF16)
        return launch_dw<GPU_BF16, GPU_BF16>(stream, h, lo, hi, r, dy, add, dtable);
    if (h % 4 == 0 && from == GPU_BF16 && to == GPU_F32)
        return launch_dw<GPU_BF16, GPU_F32>(stream, h, lo, hi, r, dy, add, dtable);
    if (h % 4 == 0 && from == GPU_F32 && to == GPU_F32)
        return launch_dw<GPU_F32, GPU_F32>(stream, h, lo, hi, r, dy, add, dtable);
    return launch_dw<GPU_ANY, GPU_ANY>(stream, h, lo, hi, r, dy, add, dtable);
}
