/* kernels_rows.cu: a row added to every row, and back: sums over rows. */
#include "exec/cuda/kernels/columns.cuh"
#include "exec/cuda/kernels/rows.cuh"

namespace
{
enum { BIAS_EACH = 2 };

template <int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    bias(int64_t t, int64_t n, gpu_array x, gpu_array b, gpu_array y)
{
    constexpr int V = gpu_width<M>;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (row >= t) return;
    const int64_t lo = row * n;
    for (int64_t i = threadIdx.x * V; i < n; i += gpu_chunk<V>(BIAS_EACH)) {
        gpu_row<M, BIAS_EACH> u, shift;
        u.load(x, lo + i, lo + n);
        shift.load(b, i, n);
        gpu_write(
            y, lo + i, lo + n, [](float v, float s) { return v + s; }, u, shift);
    }
}

/* ---- sums over rows: a block has 32 units of columns and a part of the rows, 8 at a time ---- */

enum { LANES = 32, GROUPS = 8, ROWS = 4 /* read before the first is added */ };

template <int M>
__global__ void __launch_bounds__(LANES *GROUPS, 3)
    column_parts(int64_t t, int64_t n, int64_t tiles, int64_t rows, gpu_array dy, float *work)
{
    constexpr int V = gpu_width<M>;
    __shared__ float shared[GROUPS][V][LANES];
    const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
    const int64_t part = blockIdx.x / tiles, j = (blockIdx.x % tiles * LANES + lane) * V;
    const int64_t end = (part + 1) * rows < t ? (part + 1) * rows : t;
    float s[V] = {};
    for (int64_t i = part * rows + group; j < n && i < end; i += GROUPS * ROWS) {
        gpu_unit<M, V> u[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            const int64_t at = (i + k * GROUPS) * n;
            u[k] = gpu_load<M, V>(dy, at + j, at, i + k * GROUPS < end ? at + n : at);
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++)
#pragma unroll
            for (int e = 0; e < V; e++) s[e] += gpu_value(u[k], e);
    }
#pragma unroll
    for (int e = 0; e < V; e++) shared[group][e][lane] = s[e];
    __syncthreads();
    for (int k = group * LANES + lane; k < LANES * V; k += LANES * GROUPS) {
        const int64_t column = blockIdx.x % tiles * LANES * V + k;
        float sum = 0;
        for (int g = 0; g < GROUPS; g++) sum += shared[g][k % V][k / V];
        if (column < n) work[part * n + column] = sum;
    }
}

__global__ void __launch_bounds__(LANES *GROUPS)
    columns_finish(int64_t parts, int64_t n, const float *work, int64_t stride, bool add,
                   gpu_array out)
{
    __shared__ float shared[GROUPS][LANES];
    const int64_t j = static_cast<int64_t>(blockIdx.x) * LANES + threadIdx.x;
    float s = 0;
    if (j < n) {
#pragma unroll 8
        for (int64_t p = threadIdx.y; p < parts; p += GROUPS) s += work[p * stride + j];
    }
    shared[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y > 0 || j >= n) return;
    for (int g = 1; g < GROUPS; g++) s += shared[g][threadIdx.x];
    gpu_put(out, j, add ? gpu_get(out, j) + s : s);
}
} // namespace

cudaError_t gpu_bias(cudaStream_t stream, int64_t t, int64_t n, gpu_array x, gpu_array b,
                     gpu_array y)
{
    const int mode = gpu_row_mode(gpu_mode(x, b, y), n);
    const dim3 team = gpu_team(gpu_blocks(n, gpu_width_of(mode)), BIAS_EACH);
    const unsigned grid = n > 0 ? gpu_blocks(t, team.y) : 0;
    return gpu_launch(GPU_OF_MODE(mode, bias), grid, team, 0, stream, t, n, x, b, y);
}

size_t gpu_columns_work(int64_t t, int64_t n)
{
    return static_cast<size_t>(gpu_parts(t) * n) * sizeof(float);
}

cudaError_t gpu_columns_finish(cudaStream_t stream, int64_t parts, int64_t n, const float *work,
                               int64_t stride, bool add, gpu_array out)
{
    return gpu_launch(columns_finish, gpu_blocks(n, LANES), dim3(LANES, GROUPS), 0, stream, parts,
                      n, work, stride, add, out);
}

/* As many parts as fill the GPU about eight blocks deep. */
cudaError_t gpu_bias_dw(cudaStream_t stream, int64_t t, int64_t n, gpu_array dy, bool add,
                        gpu_array db, void *work)
{
    const int mode = gpu_row_mode(gpu_mode(dy), n);
    const int64_t tiles = gpu_blocks(n, LANES * gpu_width_of(mode));
    if (tiles == 0) return cudaSuccess;
    const int64_t want = (GPU_PARTS_MOST * 4 + tiles - 1) / tiles, most = gpu_parts(t);
    const int64_t blocks = want < most ? want : most;
    const int64_t rows = t > 0 ? (t + blocks - 1) / blocks : 1;
    const int64_t parts = (t + rows - 1) / rows;
    float *const sums = static_cast<float *>(work);
    const cudaError_t code =
        gpu_launch(GPU_OF_MODE(mode, column_parts), gpu_blocks(parts * tiles, 1),
                   dim3(LANES, GROUPS), 0, stream, t, n, tiles, rows, dy, sums);
    return code != cudaSuccess ? code : gpu_columns_finish(stream, parts, n, sums, n, add, db);
}
