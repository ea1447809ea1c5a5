/* kernels_norm.cu: RMSNorm and LayerNorm. With xhat = (x - mean) r and
 * r = (variance + eps)^-1/2, RMSNorm being the case mean = 0:
 *   y = xhat w + b,  dw = sum of dy xhat,  db = sum of dy,
 *   dx = r (g - mean(g) - xhat mean(g xhat)) with g = dy w (RMSNorm has no mean(g)).
 * A team holds its row in registers, so that it is read once; rows of more than 256 threads x K
 * units are gone over in chunks.
 */
#include "exec/cuda/kernels/columns.cuh"
#include "exec/cuda/kernels/rows.cuh"

namespace
{
/* Units a thread; launch bounds keep registers so low that enough loads are under way. */
enum { K = 4, K_DW = 2 };

/* The rows of a team: row `row` of x is elements lo..hi-1; a row beyond the last is empty. */
struct place {
    int64_t lo, hi, own; /* own: the thread's first element of a chunk */
    __device__ __forceinline__ place(int64_t row, int64_t rows, int64_t h, int v)
        : lo(row * h), hi(row < rows ? row * h + h : row * h), own(threadIdx.x * v)
    {
    }
};

/* Mean (if CENTRED) and r of a row; `u` holds its first chunk. A row of several chunks is read
 * again, and `u` holds its last one then. All threads of the block call it. */
template <bool CENTRED, bool LONG, int M, int N>
__device__ __forceinline__ void row_stats(gpu_array x, const place &p, int64_t h, float eps,
                                          gpu_row<M, N> &u, gpu_rendezvous<1> &shared, int &turn,
                                          float &mean, float &r)
{
    const int64_t chunk = gpu_chunk<gpu_width<M>>(N);
    float s[1] = {0};
    for (int64_t c = 0; CENTRED && c < (LONG ? h : 1); c += chunk) {
        if (LONG) u.load(x, p.lo + c + p.own, p.hi);
        gpu_each(
            p.lo + c + p.own, p.hi, [&](float v) { s[0] += v; }, u);
    }
    if (CENTRED) gpu_team_sum(s, shared, turn);
    const float m = CENTRED ? s[0] / static_cast<float>(h) : 0;
    gpu_pack_again(u);
    s[0] = 0;
    for (int64_t c = 0; c < (LONG ? h : 1); c += chunk) {
        if (LONG) u.load(x, p.lo + c + p.own, p.hi);
        gpu_each(
            p.lo + c + p.own, p.hi, [&](float v) { s[0] += (v - m) * (v - m); }, u);
    }
    gpu_team_sum(s, shared, turn);
    gpu_pack_again(u);
    mean = m;
    r = 1 / sqrtf(s[0] / static_cast<float>(h) + eps);
}

template <int M, bool CENTRED, bool LONG>
__global__ void __launch_bounds__(GPU_TEAM_MOST, 3)
    norm(int64_t rows, int64_t h, float eps, float one, gpu_array x, gpu_array w, gpu_array b,
         gpu_array y)
{
    constexpr int V = gpu_width<M>;
    __shared__ gpu_rendezvous<1> shared;
    int turn = 0;
    const place p(static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y, rows, h, V);
    const int64_t chunk = gpu_chunk<V>(K);
    gpu_row<M, K> u, weight, shift;
    u.load(x, p.lo + p.own, p.hi);
    weight.load(w, p.own, h);
    if (CENTRED) shift.load(b, p.own, h);
    float mean, r;
    row_stats<CENTRED, LONG>(x, p, h, eps, u, shared, turn, mean, r);
    for (int64_t c = 0; c < (LONG ? h : 1); c += chunk) {
        const int64_t i = p.lo + c + p.own;
        if (LONG) {
            u.load(x, i, p.hi);
            weight.load(w, c + p.own, h);
            if (CENTRED) shift.load(b, c + p.own, h);
        }
        if constexpr (CENTRED)
            gpu_write(
                y, i, p.hi,
                [=](float v, float a, float s) { return (v - mean) * r * (one + a) + s; }, u,
                weight, shift);
        else
            gpu_write(
                y, i, p.hi, [=](float v, float a) { return v * r * (one + a); }, u, weight);
    }
}

template <int M> struct dx_rows {
    gpu_row<M, K> x, dy, w;
};
template <int M>
__device__ __forceinline__ void load_dx(dx_rows<M> &u, gpu_array x, gpu_array dy, gpu_array w,
                                        const place &p, int64_t c, int64_t h)
{
    u.x.load(x, p.lo + c + p.own, p.hi);
    u.dy.load(dy, p.lo + c + p.own, p.hi);
    u.w.load(w, c + p.own, h);
}

template <int M, bool CENTRED, bool LONG>
__global__ void __launch_bounds__(GPU_TEAM_MOST, 2)
    norm_dx(int64_t rows, int64_t h, float eps, float one, gpu_array dy, gpu_array x, gpu_array w,
            gpu_array dx)
{
    constexpr int V = gpu_width<M>;
    __shared__ gpu_rendezvous<1> shared;
    __shared__ gpu_rendezvous<2> shared2;
    int turn = 0, turn2 = 0;
    const place p(static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y, rows, h, V);
    const int64_t chunk = gpu_chunk<V>(K);
    dx_rows<M> u;
    load_dx(u, x, dy, w, p, 0, h);
    float mean, r, g[2] = {0, 0};
    row_stats<CENTRED, LONG>(x, p, h, eps, u.x, shared, turn, mean, r);
    for (int64_t c = 0; c < (LONG ? h : 1); c += chunk) {
        if (LONG) load_dx(u, x, dy, w, p, c, h);
        gpu_each(
            p.lo + c + p.own, p.hi,
            [&](float v, float d, float a) {
                g[0] += d * (one + a);
                g[1] += d * (one + a) * (v - mean);
            },
            u.x, u.dy, u.w);
    }
    gpu_team_sum(g, shared2, turn2);
    gpu_pack_again(u.x), gpu_pack_again(u.dy), gpu_pack_again(u.w);
    const float all = CENTRED ? g[0] / static_cast<float>(h) : 0;
    const float along = g[1] * r * r / static_cast<float>(h);
    for (int64_t c = 0; c < (LONG ? h : 1); c += chunk) {
        if (LONG) load_dx(u, x, dy, w, p, c, h);
        gpu_write(
            dx, p.lo + c + p.own, p.hi,
            [=](float v, float d, float a) {
                return r * (d * (one + a) - all - (v - mean) * along);
            },
            u.x, u.dy, u.w);
    }
}

/* ---- gradients of the weight: a block sums a part of the rows, its teams a row each at a time --
 */

template <int N, int V> struct sums { /* of a thread's columns */
    float dw[N][V], db[N][V];
};

/* The sums of the block's other teams are added to the first's, in their order. */
template <int N, int V, bool CENTRED>
__device__ __forceinline__ void gather(sums<N, V> &s, float *shared)
{
    const int x = static_cast<int>(blockDim.x), own = static_cast<int>(threadIdx.x);
    for (unsigned team = 1; team < blockDim.y; team++) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < N * V; k++) {
            if (threadIdx.y != team) continue;
            shared[k * x + own] = s.dw[k / V][k % V];
            if (CENTRED) shared[(N * V + k) * x + own] = s.db[k / V][k % V];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < N * V; k++) {
            if (threadIdx.y != 0) continue;
            s.dw[k / V][k % V] += shared[k * x + own];
            if (CENTRED) s.db[k / V][k % V] += shared[(N * V + k) * x + own];
        }
    }
}

template <int M, int N, int V>
__device__ __forceinline__ void write_part(const float (&s)[N][V], int64_t c, int64_t h, float *to)
{
    constexpr int MS = M == GPU_ANY ? M : int{GPU_F32};
    if (threadIdx.y != 0) return;
    const gpu_array out = {to, GPU_F32};
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int64_t j = c + threadIdx.x * V + k * gpu_chunk<V>(1);
        if (j < h) gpu_store_whole<MS, V>(out, j, h, s[k]);
    }
}

template <int M, bool CENTRED, bool LONG>
__global__ void __launch_bounds__(GPU_TEAM_MOST, 2)
    norm_dw(int64_t rows, int64_t h, float eps, int64_t each, gpu_array dy, gpu_array x,
            float *work)
{
    constexpr int V = gpu_width<M>, N = K_DW;
    __shared__ gpu_rendezvous<1> shared;
    __shared__ float between[(CENTRED ? 2 : 1) * N * V * GPU_TEAM_MOST / 2];
    int turn = 0;
    const int64_t chunk = gpu_chunk<V>(N), width = CENTRED ? 2 * h : h;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * each;
    const int64_t last = first + each < rows ? first + each : rows;
    for (int64_t c = 0; c < (LONG ? h : 1); c += chunk) { /* once, unless rows are long */
        sums<N, V> s = {};
        gpu_row<M, N> u, d, u2, d2;
        place p(first + threadIdx.y, last, h, V);
        u2.load(x, p.lo + c + p.own, p.hi);
        d2.load(dy, p.lo + c + p.own, p.hi);
        for (int64_t i = first; i < last; i += blockDim.y) {
            u = u2, d = d2;
            p = place(i + threadIdx.y, last, h, V);
            const place next(i + blockDim.y + threadIdx.y, last, h, V);
            u2.load(x, next.lo + c + next.own, next.hi);
            d2.load(dy, next.lo + c + next.own, next.hi);
            float mean, r;
            row_stats<CENTRED, LONG>(x, p, h, eps, u, shared, turn, mean, r);
            if (p.hi == p.lo) continue; /* nothing below waits for others */
            if (LONG) u.load(x, p.lo + c + p.own, p.hi);
#pragma unroll
            for (int k = 0; k < N * V; k++) {
                const float e = gpu_value(d.u[k / V], k % V); /* 0 beyond the end */
                s.dw[k / V][k % V] += e * ((gpu_value(u.u[k / V], k % V) - mean) * r);
                if (CENTRED) s.db[k / V][k % V] += e;
            }
        }
        gather<N, V, CENTRED>(s, between);
        write_part<M>(s.dw, c, h, work + blockIdx.x * width);
        if (CENTRED) write_part<M>(s.db, c, h, work + blockIdx.x * width + h);
    }
}
} // namespace

cudaError_t gpu_norm(cudaStream_t stream, int64_t rows, int64_t h, float eps, float one,
                     gpu_array x, gpu_array w, gpu_array b, gpu_array y)
{
    const int mode = gpu_row_mode(gpu_mode(b, x, w, y), h);
    const dim3 team = gpu_team(gpu_blocks(h, gpu_width_of(mode)), K);
    const unsigned grid = h > 0 ? gpu_blocks(rows, team.y) : 0;
    const bool longer = !gpu_team_holds(team, mode, K, h);
    return gpu_launch(GPU_OF_ROWS(mode, norm, b.at, longer), grid, team, 0, stream, rows, h, eps,
                      one, x, w, b, y);
}

cudaError_t gpu_norm_dx(cudaStream_t stream, int64_t rows, int64_t h, float eps, float one,
                        bool centred, gpu_array dy, gpu_array x, gpu_array w, gpu_array dx)
{
    const int mode = gpu_row_mode(gpu_mode(dy, x, w, dx), h);
    const dim3 team = gpu_team(gpu_blocks(h, gpu_width_of(mode)), K);
    const unsigned grid = h > 0 ? gpu_blocks(rows, team.y) : 0;
    const bool longer = !gpu_team_holds(team, mode, K, h);
    return gpu_launch(GPU_OF_ROWS(mode, norm_dx, centred, longer), grid, team, 0, stream, rows, h,
                      eps, one, dy, x, w, dx);
}

cudaError_t gpu_norm_dw(cudaStream_t stream, int64_t rows, int64_t h, float eps, gpu_array dy,
                        gpu_array x, bool add, gpu_array dw, gpu_array db, void *work)
{
    const int mode = gpu_aligned(work) ? gpu_row_mode(gpu_mode(dy, x), h)
                                       : static_cast<int>(GPU_ANY);
    dim3 team = gpu_team(gpu_blocks(h, gpu_width_of(mode)), K_DW);
    if (team.x < GPU_TEAM_MOST) team.y = GPU_TEAM_MOST / team.x;
    const int64_t most = gpu_parts(rows), each = rows > 0 ? (rows + most - 1) / most : 1;
    const int64_t parts = (rows + each - 1) / each;
    float *const sums = static_cast<float *>(work);
    const bool centred = db.at != nullptr;
    if (h == 0) return cudaSuccess;
    const bool longer = !gpu_team_holds(team, mode, K_DW, h);
    cudaError_t code = gpu_launch(GPU_OF_ROWS(mode, norm_dw, centred, longer), gpu_blocks(parts, 1),
                                  team, 0, stream, rows, h, eps, each, dy, x, sums);
    if (code != cudaSuccess) return code;
    code = gpu_columns_finish(stream, parts, h, sums, centred ? 2 * h : h, add, dw);
    if (code != cudaSuccess || !centred) return code;
    return gpu_columns_finish(stream, parts, h, sums + h, 2 * h, add, db);
}
