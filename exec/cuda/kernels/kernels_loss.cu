/* kernels_loss.cu: cross-entropy over a vocabulary cut among devices. loss = max +
 * log(sum of exp(logit - max)) - the label's logit; the gradient is softmax - 1 at the label.
 *
 * A row of v logits begins anywhere, as v may be odd (50,257). Units are counted from the begin of
 * the array, not of the row, so those inside a row are whole and its two edges are not; arrays of
 * other types have the same units, since all begin at 16 bytes. */
#include "exec/cuda/kernels/rows.cuh"

namespace
{
enum { EACH = 4 /* units of a thread that are under way together */ };

struct span {              /* a row, in elements of the array */
    int64_t lo, hi, first; /* first: the thread's first unit */
    __device__ __forceinline__ span(int64_t row, int64_t t, int64_t v, int width)
        : lo(row * v), hi(row < t ? row * v + v : row * v),
          first(lo - lo % width + static_cast<int64_t>(threadIdx.x) * width)
    {
    }
};

__device__ __forceinline__ float capped(float x, float softcap)
{
    return softcap > 0 ? softcap * tanhf(x / softcap) : x;
}

template <int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    row_max(int64_t t, int64_t v, int64_t n, gpu_array logits, float *max, float softcap)
{
    constexpr int V = gpu_width<M>;
    __shared__ gpu_rendezvous<1> shared;
    int turn = 0;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const int64_t step = gpu_chunk<V>(1);
    const span p(row, t, v, V);
    const int64_t end = p.hi - (v - n); /* of tokens; no row: before its begin */
    float top[1] = {-INFINITY}; /* fmaxf passes over a NaN; the exp of it that follows is one */
    for (int64_t i = p.first; i < end; i += EACH * step) {
        gpu_unit<M, V> u[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++)
            u[k] = gpu_load<M, V>(logits, i + k * step, p.lo, end, -INFINITY);
#pragma unroll
        for (int k = 0; k < EACH; k++)
#pragma unroll
            for (int e = 0; e < V; e++) top[0] = fmaxf(top[0], gpu_value(u[k], e));
    }
    gpu_team_fold(top, shared, turn, [](float a, float b) { return fmaxf(a, b); });
    if (threadIdx.x == 0 && row < t) max[row] = n > 0 ? capped(top[0], softcap) : -INFINITY;
}

template <int M, int ME>
__global__ void __launch_bounds__(GPU_TEAM_MOST, M == GPU_ANY ? 2 : 4) /* else it spills */
    row_sum(int64_t t, int64_t v, int64_t n, gpu_array logits, const float *max, float *sum,
            float *exp, float softcap)
{
    constexpr int V = 4; /* of the results, which are f32 */
    __shared__ gpu_rendezvous<1> shared;
    int turn = 0;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const int64_t step = gpu_chunk<V>(1);
    const span p(row, t, v, V);
    const int64_t end = p.hi - (v - n); /* of tokens; no row: before its begin */
    const float top = row < t ? max[row] : 0;
    const gpu_array to = {exp, GPU_F32};
    float s[1] = {0};
    for (int64_t i = p.first; i < p.hi; i += EACH * step) {
        gpu_unit<M, V> u[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++)
            u[k] = gpu_load<M, V>(logits, i + k * step, p.lo, end, -INFINITY);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float y[V]; /* 0 outside the row, and of what pads it */
#pragma unroll
            for (int e = 0; e < V; e++) {
                const float x = gpu_value(u[k], e); /* -inf outside */
                y[e] = expf((x > -INFINITY ? capped(x, softcap) : x) - top);
            }
            gpu_store<ME, V>(to, i + k * step, p.lo, p.hi, y);
            s[0] += (y[0] + y[1]) + (y[2] + y[3]);
        }
    }
    gpu_team_sum(s, shared, turn);
    if (threadIdx.x == 0 && row < t) sum[row] = s[0];
}

__device__ __forceinline__ bool labelled(int32_t label, int64_t lo, int64_t v)
{
    return label >= 0 && label >= lo && label < lo + v;
}

__global__ void __launch_bounds__(GPU_TEAM_MOST)
    row_target(int64_t t, int64_t v, int64_t lo, gpu_array logits, const int32_t *labels,
               float *target, float softcap)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * GPU_TEAM_MOST + threadIdx.x;
    if (i >= t) return;
    const bool here = labelled(labels[i], lo, v);
    target[i] = here ? capped(gpu_get(logits, i * v + labels[i] - lo), softcap) : 0;
}

__global__ void __launch_bounds__(GPU_TEAM_MOST)
    loss(int64_t t, const float *max, const float *sum, const float *target, const int32_t *labels,
         const gpu_step_block *block, float *out)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * GPU_TEAM_MOST + threadIdx.x;
    if (i >= t) return;
    const double l = labels[i] < 0 ? 0
                                   : static_cast<double>(max[i]) - static_cast<double>(target[i]) +
                                         log(static_cast<double>(sum[i]));
    out[i] = static_cast<float>(block->scale * l);
}

template <int ME, int M>
__global__ void __launch_bounds__(GPU_TEAM_MOST)
    loss_dx(int64_t t, int64_t v, int64_t lo, const float *exp, const float *sum,
            const int32_t *labels, const gpu_step_block *block, gpu_array dlogits, const float *max,
            float softcap)
{
    constexpr int V = 4;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (row >= t) return;
    const int64_t step = gpu_chunk<V>(1);
    const span p(row, t, v, V);
    const int32_t label = labels[row];
    const float scale = static_cast<float>(block->scale);
    const float by = static_cast<float>(block->scale / static_cast<double>(sum[row]));
    const int64_t hit = labelled(label, lo, v) ? p.lo + label - lo : -1;
    const gpu_array from = {const_cast<float *>(exp), GPU_F32};
    for (int64_t i = p.first; i < p.hi; i += EACH * step) {
        gpu_unit<ME, V> u[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) u[k] = gpu_load<ME, V>(from, i + k * step, p.lo, p.hi);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float y[V];
#pragma unroll
            for (int e = 0; e < V; e++) {
                const float d = gpu_value(u[k], e) * by;
                y[e] = label < 0 ? 0 : i + k * step + e == hit ? d - scale : d;
                if (softcap == 0) continue; /* slope 1 - (y / c)^2, y = log exp + max */
                const float part = (logf(gpu_value(u[k], e)) + max[row]) / softcap;
                if (gpu_value(u[k], e) > 0) y[e] *= 1 - part * part; /* a pad has none */
            }
            gpu_store<M, V>(dlogits, i + k * step, p.lo, p.hi, y);
        }
    }
}

/* ---- the sum of all tokens' losses: one block, in f64 ---- */

enum { SUM_THREADS = 1024 };

__global__ void __launch_bounds__(SUM_THREADS)
    sum_of(int64_t n, const float *x, bool add, float *out)
{
    __shared__ double shared[SUM_THREADS / 32];
    const int thread = static_cast<int>(threadIdx.x);
    double s = 0;
#pragma unroll 4
    for (int64_t i = thread; i < n; i += SUM_THREADS) s += static_cast<double>(x[i]);
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) s += __shfl_xor_sync(0xffffffffu, s, lane);
    if (thread % 32 == 0) shared[thread / 32] = s;
    __syncthreads();
    if (thread > 0) return;
    for (int w = 1; w < SUM_THREADS / 32; w++) s += shared[w];
    *out = static_cast<float>(add ? static_cast<double>(*out) + s : s);
}

/* Units that a row of v elements can touch. */
int64_t units_of(int64_t v, int width)
{
    return v / width + 2;
}
} // namespace

cudaError_t gpu_row_max(cudaStream_t stream, int64_t t, int64_t v, int64_t n, gpu_array logits,
                        float *max, float softcap)
{
    const int mode = gpu_mode(logits);
    const dim3 team = gpu_team(units_of(v, gpu_width_of(mode)), EACH);
    return gpu_launch(GPU_OF_MODE(mode, row_max), gpu_blocks(t, team.y), team, 0, stream, t, v, n,
                      logits, max, softcap);
}

cudaError_t gpu_row_sum(cudaStream_t stream, int64_t t, int64_t v, int64_t n, gpu_array logits,
                        const float *max, float *sum, float *exp, float softcap)
{
    const int mode = gpu_aligned(exp) ? gpu_mode(logits) : static_cast<int>(GPU_ANY);
    const dim3 team = gpu_team(units_of(v, 4), EACH);
    auto *const kernel = mode == GPU_F32    ? row_sum<GPU_F32, GPU_F32>
                         : mode == GPU_BF16 ? row_sum<GPU_BF16, GPU_F32>
                                            : row_sum<GPU_ANY, GPU_ANY>;
    return gpu_launch(kernel, gpu_blocks(t, team.y), team, 0, stream, t, v, n, logits, max, sum,
                      exp, softcap);
}

cudaError_t gpu_row_target(cudaStream_t stream, int64_t t, int64_t v, int64_t lo, gpu_array logits,
                           const int32_t *labels, float *target, float softcap)
{
    return gpu_launch(row_target, gpu_blocks(t, GPU_TEAM_MOST), GPU_TEAM_MOST, 0, stream, t, v, lo,
                      logits, labels, target, softcap);
}

cudaError_t gpu_loss(cudaStream_t stream, int64_t t, const float *max, const float *sum,
                     const float *target, const int32_t *labels, const gpu_step_block *block,
                     float *out)
{
    return gpu_launch(loss, gpu_blocks(t, GPU_TEAM_MOST), GPU_TEAM_MOST, 0, stream, t, max, sum,
                      target, labels, block, out);
}

cudaError_t gpu_loss_dx(cudaStream_t stream, int64_t t, int64_t v, int64_t lo, const float *exp,
                        const float *sum, const int32_t *labels, const gpu_step_block *block,
                        gpu_array dlogits, const float *max, float softcap)
{
    const int mode = gpu_aligned(exp) ? gpu_mode(dlogits) : static_cast<int>(GPU_ANY);
    const dim3 team = gpu_team(units_of(v, 4), EACH);
    auto *const kernel = mode == GPU_F32    ? loss_dx<GPU_F32, GPU_F32>
                         : mode == GPU_BF16 ? loss_dx<GPU_F32, GPU_BF16>
                                            : loss_dx<GPU_ANY, GPU_ANY>;
    return gpu_launch(kernel, gpu_blocks(t, team.y), team, 0, stream, t, v, lo, exp, sum, labels,
                      block, dlogits, max, softcap);
}

cudaError_t gpu_sum(cudaStream_t stream, int64_t n, const float *x, bool add, float *out)
{
    return gpu_launch(sum_of, 1, SUM_THREADS, 0, stream, n, x, add, out);
}
