/* kernels_update.cu: the norm of all gradients, and AdamW on all parameters in one
 * kernel. A block takes a chunk of the table; a chunk whose arrays do not begin at 16 bytes is read
 * element by element. What is decided of a step is decided as in exec/host/update.c. */
#include "exec/cuda/kernels/units.cuh"

namespace
{
enum { THREADS = 256, EACH = 2 /* units of a thread that are under way together */ };

/* ---- the norm: sums of chunks in f64, then of these in their order ---- */

/* The sum over the block, known to thread 0. */
__device__ __forceinline__ double block_sum(double s, double *shared)
{
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) s += __shfl_xor_sync(0xffffffffu, s, lane);
    if (thread % 32 == 0) shared[thread / 32] = s;
    __syncthreads();
    for (unsigned w = 1; thread == 0 && w < blockDim.x / 32; w++) s += shared[w];
    return s;
}

template <int M> __device__ __forceinline__ double chunk_squares(gpu_array grad, int64_t n)
{
    constexpr int V = gpu_width<M>, MANY = 2 * EACH;
    double s[MANY] = {};
    for (int64_t i = threadIdx.x * V; i < n; i += MANY * THREADS * V) {
        gpu_unit<M, V> u[MANY];
#pragma unroll
        for (int k = 0; k < MANY; k++) u[k] = gpu_load<M, V>(grad, i + k * THREADS * V, 0, n);
#pragma unroll
        for (int k = 0; k < MANY; k++)
#pragma unroll
            for (int e = 0; e < V; e++) {
                const double g = static_cast<double>(gpu_value(u[k], e));
                s[k] += g * g;
            }
    }
    return (s[0] + s[1]) + (s[2] + s[3]);
}

template <int M>
__global__ void __launch_bounds__(THREADS)
    squares_of_chunks(const gpu_norm_chunk *chunk, double *sums)
{
    __shared__ double shared[THREADS / 32];
    const gpu_norm_chunk c = chunk[blockIdx.x];
    const gpu_array grad = {gpu_global(const_cast<void *>(c.grad)), static_cast<gpu_type>(M)};
    const bool wide = reinterpret_cast<uintptr_t>(c.grad) % 16 == 0;
    const double s =
        block_sum(wide ? chunk_squares<M>(grad, c.n) : chunk_squares<GPU_ANY>(grad, c.n), shared);
    if (threadIdx.x == 0) sums[blockIdx.x] = s;
}

enum { LAST_THREADS = 1024 };

/* What is not finite counts as the most there is, a rank that drains as -inf. */
__global__ void __launch_bounds__(LAST_THREADS)
    squares_of_all(int64_t chunks, const double *sums, const gpu_step_block *block,
                   const volatile int32_t *drain, float *squares)
{
    __shared__ double shared[LAST_THREADS / 32];
    double s = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < chunks; i += LAST_THREADS) s += sums[i];
    s = block_sum(s, shared);
    if (threadIdx.x > 0) return;
    const float most = static_cast<float>(block->most_squares), sum = static_cast<float>(s);
    *squares = *drain ? -INFINITY : sum < most ? sum : most; /* NaN is not below */
}

/* ---- AdamW: w -= lr (mhat / (sqrt(vhat) + eps) + weight_decay w), where mhat = m / (1 -
 * beta1^step) and vhat = v / (1 - beta2^step) ---- */

struct adam {
    bool goes;
    float by, b1, b2, c1, c2, eps, keep, rate, unbias;
};

__device__ __forceinline__ gpu_outcome outcome_of(float squares, const gpu_step_block *b)
{
    if (squares >= 0 && squares < static_cast<float>(b->most_squares)) return GPU_UPDATED;
    return squares < 0 ? GPU_DRAINED : GPU_NOT_FINITE;
}

__device__ __forceinline__ adam adam_of(float squares, const gpu_step_block *b, bool decays)
{
    const double norm = sqrt(static_cast<double>(squares));
    const double scale = b->clip_norm / (norm + b->clip_eps);
    adam a;
    a.goes = outcome_of(squares, b) == GPU_UPDATED;
    a.by = static_cast<float>(scale < 1 ? scale : 1);
    a.b1 = static_cast<float>(b->beta1), a.c1 = static_cast<float>(1 - b->beta1);
    a.b2 = static_cast<float>(b->beta2), a.c2 = static_cast<float>(1 - b->beta2);
    a.eps = static_cast<float>(b->eps);
    a.keep = static_cast<float>(1 - b->lr * (decays ? b->weight_decay : 0));
    a.rate = static_cast<float>(b->lr / b->correction1);
    a.unbias = static_cast<float>(1 / sqrt(b->correction2));
    return a;
}

/* What lies in the table, and that it is in global memory. */
__device__ __forceinline__ gpu_update_chunk chunk_of(const gpu_update_chunk *at)
{
    gpu_update_chunk c = *at;
    c.grad = gpu_global(c.grad), c.weight = gpu_global(c.weight);
    c.master = gpu_global(c.master), c.m = gpu_global(c.m), c.v = gpu_global(c.v);
    return c;
}

/* MG: of the gradient; M: of the state; MW: of the copy of the weight, if there is one. */
template <int MG, int M, int MW>
__device__ __forceinline__ void update_chunk(const gpu_update_chunk &c, gpu_type type,
                                             const adam &a)
{
    constexpr int V = 4;
    const gpu_array grad = {const_cast<void *>(c.grad), type}, master = {c.master, GPU_F32};
    const gpu_array m = {c.m, GPU_F32}, v = {c.v, GPU_F32}, weight = {c.weight, GPU_BF16};
    for (int64_t first = threadIdx.x * V; first < c.n; first += EACH * THREADS * V) {
        gpu_unit<MG, V> g[EACH];
        gpu_unit<M, V> w[EACH], m1[EACH], v1[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int64_t i = first + k * THREADS * V;
            g[k] = gpu_load<MG, V>(grad, i, 0, c.n);
            m1[k] = gpu_load<M, V>(m, i, 0, c.n);
            v1[k] = gpu_load<M, V>(v, i, 0, c.n);
            w[k] = gpu_load<M, V>(master, i, 0, c.n);
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int64_t i = first + k * THREADS * V;
            float now[V], now_m[V], now_v[V];
#pragma unroll
            for (int e = 0; e < V; e++) {
                const float d = gpu_value(g[k], e) * a.by;
                now_m[e] = a.b1 * gpu_value(m1[k], e) + a.c1 * d;
                now_v[e] = a.b2 * gpu_value(v1[k], e) + a.c2 * (d * d);
                const float root = sqrtf(now_v[e]) * a.unbias;
                now[e] = a.keep * gpu_value(w[k], e) - a.rate * (now_m[e] / (root + a.eps));
            }
            gpu_store<M, V>(m, i, 0, c.n, now_m);
            gpu_store<M, V>(v, i, 0, c.n, now_v);
            gpu_store<M, V>(master, i, 0, c.n, now);
            if (c.weight) gpu_store<MW, V>(weight, i, 0, c.n, now);
        }
    }
}

template <int MG>
__global__ void __launch_bounds__(THREADS)
    update(int64_t chunks, const gpu_update_chunk *chunk, const float *squares,
           const gpu_step_block *block, gpu_step_answer *answer)
{
    __shared__ adam a;
    if (threadIdx.x == 0) {
        a = adam_of(*squares, block, blockIdx.x < chunks && chunk[blockIdx.x].decays);
        if (blockIdx.x == 0) {
            answer->squares = *squares;
            answer->outcome = outcome_of(*squares, block);
        }
    }
    __syncthreads();
    if (!a.goes || blockIdx.x >= chunks) return;
    const adam own = a;
    const gpu_update_chunk c = chunk_of(chunk + blockIdx.x);
    const uintptr_t all = reinterpret_cast<uintptr_t>(c.grad) | reinterpret_cast<uintptr_t>(c.m) |
                          reinterpret_cast<uintptr_t>(c.v) | reinterpret_cast<uintptr_t>(c.master) |
                          reinterpret_cast<uintptr_t>(c.weight);
    if (all % 16 == 0)
        update_chunk<MG, GPU_F32, GPU_BF16>(c, static_cast<gpu_type>(MG), own);
    else
        update_chunk<GPU_ANY, GPU_ANY, GPU_ANY>(c, static_cast<gpu_type>(MG), own);
}

template <int M, int MW> __device__ __forceinline__ void round_chunk(const gpu_update_chunk &c)
{
    constexpr int V = 4;
    const gpu_array master = {c.master, GPU_F32}, weight = {c.weight, GPU_BF16};
    for (int64_t first = threadIdx.x * V; first < c.n; first += EACH * THREADS * V) {
        gpu_unit<M, V> w[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++)
            w[k] = gpu_load<M, V>(master, first + k * THREADS * V, 0, c.n);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float v[V];
#pragma unroll
            for (int e = 0; e < V; e++) v[e] = gpu_value(w[k], e);
            gpu_store<MW, V>(weight, first + k * THREADS * V, 0, c.n, v);
        }
    }
}

/* A block a bias: up where fewer tokens than the mean chose the expert, down where more did. */
__global__ void __launch_bounds__(THREADS)
    move_bias(const gpu_counted *piece, double rate, const float *squares,
              const gpu_step_block *block)
{
    __shared__ double shared[THREADS / 32];
    __shared__ double mean;
    const gpu_counted p = piece[blockIdx.x];
    const float *const count = gpu_global(p.count);
    float *const bias = gpu_global(p.bias);
    if (outcome_of(*squares, block) != GPU_UPDATED) return;
    double s = 0;
    for (int64_t i = threadIdx.x; i < p.n; i += THREADS) s += static_cast<double>(count[i]);
    s = block_sum(s, shared);
    if (threadIdx.x == 0) mean = s / static_cast<double>(p.n);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < p.n; i += THREADS) {
        const double more = mean - static_cast<double>(count[i]);
        bias[i] = static_cast<float>(static_cast<double>(bias[i]) +
                                     rate * ((more > 0) - (more < 0)));
    }
}

__global__ void __launch_bounds__(THREADS) round_weights(const gpu_update_chunk *chunk)
{
    const gpu_update_chunk c = chunk_of(chunk + blockIdx.x);
    if (!c.weight) return;
    if ((reinterpret_cast<uintptr_t>(c.master) | reinterpret_cast<uintptr_t>(c.weight)) % 16 == 0)
        round_chunk<GPU_F32, GPU_BF16>(c);
    else
        round_chunk<GPU_ANY, GPU_ANY>(c);
}

/* ---- a step in parts ---- */

/* MG: of the gradient; M: of the sums. */
template <int MG, int M>
__device__ __forceinline__ void sum_chunk(gpu_array grad, gpu_array sums, int64_t n,
                                          gpu_sum_way way)
{
    constexpr int V = 4;
    for (int64_t first = threadIdx.x * V; first < n; first += EACH * THREADS * V) {
        gpu_unit<MG, V> g[EACH];
        gpu_unit<M, V> s[EACH] = {};
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int64_t i = first + k * THREADS * V;
            g[k] = gpu_load<MG, V>(grad, i, 0, n);
            if (way != GPU_SUM_FIRST) s[k] = gpu_load<M, V>(sums, i, 0, n);
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float v[V];
#pragma unroll
            for (int e = 0; e < V; e++)
                v[e] = way == GPU_SUM_FIRST ? gpu_value(g[k], e)
                                            : gpu_value(s[k], e) + gpu_value(g[k], e);
            const int64_t i = first + k * THREADS * V;
            if (way == GPU_SUM_TAKE)
                gpu_store<MG, V>(grad, i, 0, n, v);
            else
                gpu_store<M, V>(sums, i, 0, n, v);
        }
    }
}

template <int MG>
__global__ void __launch_bounds__(THREADS)
    sum_gradients(int64_t chunks, const gpu_update_chunk *chunk, const int64_t *at, float *sums,
                  gpu_sum_way way, const float *squares, const gpu_step_block *block,
                  gpu_step_answer *answer)
{
    if (way != GPU_SUM_TAKE) {
        const gpu_outcome outcome = outcome_of(*squares, block);
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            answer->squares = *squares;
            answer->outcome = outcome;
        }
        if (outcome != GPU_UPDATED) return;
    }
    if (blockIdx.x >= chunks) return;
    const gpu_update_chunk c = chunk_of(chunk + blockIdx.x);
    const gpu_array grad = {const_cast<void *>(c.grad), static_cast<gpu_type>(MG)};
    const gpu_array sum = {gpu_global(sums + at[blockIdx.x]), GPU_F32};
    if ((reinterpret_cast<uintptr_t>(c.grad) | reinterpret_cast<uintptr_t>(sum.at)) % 16 == 0)
        sum_chunk<MG, GPU_F32>(grad, sum, c.n, way);
    else
        sum_chunk<GPU_ANY, GPU_ANY>(grad, sum, c.n, way);
}
} // namespace

cudaError_t gpu_grad_norm(cudaStream_t stream, int64_t chunks, const gpu_norm_chunk *chunk,
                          gpu_type grad, const gpu_step_block *block, const gpu_step_answer *answer,
                          double *work, float *squares)
{
    auto *const kernel = grad == GPU_F32 ? squares_of_chunks<GPU_F32> : squares_of_chunks<GPU_BF16>;
    const cudaError_t code =
        gpu_launch(kernel, gpu_blocks(chunks, 1), THREADS, 0, stream, chunk, work);
    if (code != cudaSuccess) return code;
    return gpu_launch(squares_of_all, 1, LAST_THREADS, 0, stream, chunks, work, block,
                      &answer->drain, squares);
}

cudaError_t gpu_update(cudaStream_t stream, int64_t chunks, const gpu_update_chunk *chunk,
                       gpu_type grad, const float *squares, const gpu_step_block *block,
                       gpu_step_answer *answer)
{
    auto *const kernel = grad == GPU_F32 ? update<GPU_F32> : update<GPU_BF16>;
    return gpu_launch(kernel, chunks > 0 ? gpu_blocks(chunks, 1) : 1, THREADS, 0, stream, chunks,
                      chunk, squares, block, answer);
}

cudaError_t gpu_move_bias(cudaStream_t stream, int64_t n, const gpu_counted *piece, double rate,
                          const float *squares, const gpu_step_block *block)
{
    return gpu_launch(move_bias, gpu_blocks(n, 1), THREADS, 0, stream, piece, rate, squares, block);
}

cudaError_t gpu_round_weights(cudaStream_t stream, int64_t chunks, const gpu_update_chunk *chunk)
{
    return gpu_launch(round_weights, gpu_blocks(chunks, 1), THREADS, 0, stream, chunk);
}

cudaError_t gpu_sum_gradients(cudaStream_t stream, int64_t chunks, const gpu_update_chunk *chunk,
                              const int64_t *at, float *sums, gpu_type grad, gpu_sum_way way,
                              const float *squares, const gpu_step_block *block,
                              gpu_step_answer *answer)
{
    auto *const kernel = grad == GPU_F32 ? sum_gradients<GPU_F32> : sum_gradients<GPU_BF16>;
    return gpu_launch(kernel, chunks > 0 ? gpu_blocks(chunks, 1) : 1, THREADS, 0, stream, chunks,
                      chunk, at, sums, way, squares, block, answer);
}
