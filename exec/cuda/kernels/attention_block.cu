/* attention_block.cu: attention of a block of queries on a block of keys, whose rows lie out of
 * order and are a part of what queries see: the kernels of attention over lists of rows, and what
 * they give merged into what other blocks gave:
 *   l = log(exp l0 + exp l'), o = exp(l0 - l) o0 + exp(l' - l) o'. */
#include "exec/cuda/kernels/attention.cuh"
#include "exec/cuda/kernels/units.cuh"

namespace
{
enum { MERGE_THREADS = 256, MERGE_LANES = 8, MERGE_ROWS = MERGE_THREADS / MERGE_LANES };

/* n rows of d elements; 8 threads a row. A row that sees nobody here stays as it was. */
template <int M>
__global__ void __launch_bounds__(MERGE_THREADS)
    attention_merge(int64_t n, int32_t d, gpu_array fresh, const float *fresh_rows, gpu_array o,
                    float *rows)
{
    const int32_t part = static_cast<int32_t>(threadIdx.x) % MERGE_LANES;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * MERGE_ROWS + threadIdx.x / MERGE_LANES;
    const float had = row < n ? rows[row] : -INFINITY;
    const float got = row < n ? fresh_rows[row] : -INFINITY;
    __syncwarp(); /* all of a row's threads know what it had */
    if (got == -INFINITY) return;
    const float top = fmaxf(had, got), sum = top + logf(expf(had - top) + expf(got - top));
    const float keep = expf(had - sum), add = expf(got - sum);
    constexpr int V = gpu_width<M>;
    const int64_t hi = (row + 1) * d;
    for (int64_t i = row * d + part * V; i < hi; i += MERGE_LANES * V) {
        const gpu_unit<M, V> x = gpu_load_whole<M, V>(o, i, hi);
        const gpu_unit<M, V> y = gpu_load_whole<M, V>(fresh, i, hi);
        float v[V];
#pragma unroll
        for (int e = 0; e < V; e++) v[e] = keep * gpu_value(x, e) + add * gpu_value(y, e);
        gpu_store_whole<M, V>(o, i, hi, v);
    }
    if (part == 0) rows[row] = sum;
}

/* ---- memory: what a block gives that is merged ---- */

int64_t aligned(int64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

int64_t queries_bytes(const gpu_block *b, const gpu_heads *h, gpu_type type)
{
    return aligned(b->nq * h->n * h->d * (type == GPU_F32 ? 4 : 2));
}

int64_t room_bytes(const gpu_block *b, const gpu_heads *h, gpu_type type)
{
    return aligned(static_cast<int64_t>(gpu_attention_dx_room(b->nq, b->nk, h, type)));
}

gpu_attention_args arguments(const gpu_block *b, const gpu_heads *heads)
{
    gpu_attention_args a = gpu_attention_arguments(b->nq, heads, nullptr, nullptr);
    a.keys = static_cast<int32_t>(b->nk);
    a.query_row = b->sights, a.key_lo = a.query_row + b->nq, a.key_hi = a.key_lo + b->nq;
    a.key_row = a.key_hi + b->nq, a.query_lo = a.key_row + b->nk, a.query_hi = a.query_lo + b->nk;
    return a;
}

bool fits(const gpu_block *b, const gpu_heads *heads, gpu_array q, gpu_array k, gpu_array v)
{
    return gpu_attention_fits(b->nq, heads) && gpu_attention_fits(b->nk, heads) &&
           k.type == q.type && v.type == q.type;
}
} // namespace

size_t gpu_attention_block_work(const gpu_block *block, const gpu_heads *heads, gpu_type type,
                                bool back)
{
    int64_t bytes = back ? room_bytes(block, heads, type) : 0;
    if (block->first_keys) return static_cast<size_t>(bytes);
    bytes += queries_bytes(block, heads, type);
    if (!back) bytes += block->nq * heads->n * static_cast<int64_t>(sizeof(float));
    return static_cast<size_t>(bytes);
}

cudaError_t gpu_attention_block(cudaStream_t stream, const gpu_block *block, const gpu_heads *heads,
                                gpu_array q, gpu_array k, gpu_array v, gpu_array o, float *rows,
                                void *work)
{
    if (block->nq == 0 || heads->n == 0) return cudaSuccess;
    if (!fits(block, heads, q, k, v) || o.type != q.type) return cudaErrorInvalidValue;
    gpu_attention_args a = arguments(block, heads);
    const gpu_array fresh = {work, o.type};
    float *const fresh_rows =
        reinterpret_cast<float *>(static_cast<char *>(work) + queries_bytes(block, heads, o.type));
    a.q = q.at, a.k = k.at, a.v = v.at;
    a.out = block->first_keys ? o.at : work, a.rows = block->first_keys ? rows : fresh_rows;
    const cudaError_t code = gpu_attention_forward(stream, a, q.type);
    if (code != cudaSuccess || block->first_keys) return code;
    const int64_t n = block->nq * heads->n;
    const int mode = gpu_row_mode(gpu_mode(o, fresh), a.d);
    return gpu_launch(GPU_OF_MODE(mode, attention_merge), gpu_blocks(n, MERGE_ROWS), MERGE_THREADS,
                      0, stream, n, a.d, fresh, static_cast<const float *>(fresh_rows), o, rows);
}

cudaError_t gpu_attention_block_dx(cudaStream_t stream, const gpu_block *block,
                                   const gpu_heads *heads, gpu_array dout, gpu_array o,
                                   const float *rows, gpu_array q, gpu_array k, gpu_array v,
                                   gpu_array dq, gpu_array dk, gpu_array dv, void *work)
{
    const gpu_array all[] = {dout, o, dq, dk, dv};
    if (!fits(block, heads, q, k, v)) return cudaErrorInvalidValue;
    for (const gpu_array &x : all)
        if (x.type != q.type) return cudaErrorInvalidValue;
    if (block->nq == 0) { /* nobody sees these keys */
        const size_t bytes =
            static_cast<size_t>(block->nk * heads->g * heads->d) * (q.type == GPU_F32 ? 4 : 2);
        const cudaError_t code = cudaMemsetAsync(dk.at, 0, bytes, stream);
        return code == cudaSuccess ? cudaMemsetAsync(dv.at, 0, bytes, stream) : code;
    }
    gpu_attention_args a = arguments(block, heads);
    const gpu_array fresh = {static_cast<char *>(work) + room_bytes(block, heads, q.type), q.type};
    a.q = q.at, a.k = k.at, a.v = v.at, a.o = o.at, a.dout = dout.at;
    a.dq = block->first_keys ? dq.at : fresh.at, a.dk = dk.at, a.dv = dv.at;
    a.rows = const_cast<float *>(rows); /* only read */
    const cudaError_t code = gpu_attention_backward(stream, a, q.type, work);
    if (code != cudaSuccess || block->first_keys) return code;
    const gpu_array both[] = {dq, fresh};
    return gpu_add(stream, block->nq * heads->n * heads->d, 2, both, dq);
}
