/* attention_simple_dx.cu: attention, backward, on CUDA cores: what attention_simple.cu is
 * for forward. Blocks own keys (dK, dV) or queries (dQ) as in attention_dx.cu. */
#include "exec/cuda/kernels/attention_plain.cuh"

/* s becomes P, dp becomes dS / scale; stat, dots of element (i, j): at index i * by_row + j. The
 * slope of c tanh(x / c) is 1 - (s / c)^2. */
static __device__ __forceinline__ void simple_dscores(float (&s)[4][4], float (&dp)[4][4],
                                                      const gpu_attention_args &a, int by_row,
                                                      const float *stat, const float *dots)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int at = by_row ? i : j;
            const float part = a.softcap > 0 ? s[i][j] * a.scale / a.softcap : 0;
            s[i][j] = exp2f(fmaf(s[i][j], a.scale_log2, -stat[at]));
            const float slope = s[i][j] > 0 ? 1 - part * part : 1; /* unseen: -inf */
            dp[i][j] = s[i][j] * (dp[i][j] - dots[at]) * slope;
        }
}

template <typename T>
__global__ void __launch_bounds__(PLAIN_THREADS) attention_simple_queries(gpu_attention_args a)
{
    __shared__ plain_shared shared;
    const int32_t head = (int32_t)blockIdx.y, kv = __ldg(a.kv_of + head);
    const int32_t row0 = (int32_t)(gridDim.x - 1 - blockIdx.x) * PLAIN;
    const plain_array<T> q = plain_head<T>(a.q, a.n, head, a.d, a.query_row),
                         dout = plain_head<T>(a.dout, a.n, head, a.u, a.query_row),
                         k = plain_head<T>(a.k, a.g, kv, a.d, a.key_row),
                         v = plain_head<T>(a.v, a.g, kv, a.u, a.key_row);
    gpu_span seen[4];
    float stat[4], dots[4], by[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int32_t row = row0 + 4 * plain_y() + i;
        seen[i] = gpu_any_keys_of(a, row);
        stat[i] = a.rows_log2[head * a.padded + row], dots[i] = a.dots[head * a.padded + row];
        by[i] = a.scale;
    }
    plain_sums dq;
    plain_clear(dq);
    const int32_t end = gpu_any_keys_of(a, row0 + PLAIN - 1).hi;
    for (int32_t k0 = gpu_any_keys_of(a, row0).lo; k0 < end; k0 += PLAIN) {
        float s[4][4], dp[4][4];
        plain_scores(shared, s, q, row0, a.t, k, k0, end);
        plain_scores(shared, dp, dout, row0, a.t, v, k0, end);
        plain_cap(s, a);
        plain_mask(s, seen, k0, -INFINITY);
        simple_dscores(s, dp, a, 1, stat, dots);
        plain_share(shared, dp);
        plain_weigh(shared, dq, k, k0, end);
    }
    plain_store(dq, by, (T *)a.dq + (int64_t)head * a.d, q.pitch, a.d, row0, a.t, a.query_row);
}

/* One tile of queries of one head: what it adds to dK and dV. */
template <typename T>
__device__ void simple_keys_tile(const gpu_attention_args &a, plain_shared &shared, int32_t kv,
                                 int32_t row0, const gpu_span (&seen)[4], int32_t head, int32_t q0,
                                 plain_sums &dk, plain_sums &dv)
{
    const plain_array<T> q = plain_head<T>(a.q, a.n, head, a.d, a.query_row),
                         dout = plain_head<T>(a.dout, a.n, head, a.u, a.query_row),
                         k = plain_head<T>(a.k, a.g, kv, a.d, a.key_row),
                         v = plain_head<T>(a.v, a.g, kv, a.u, a.key_row);
    float s[4][4], dp[4][4], stat[4], dots[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int64_t at = head * a.padded + q0 + plain_x() + 16 * j;
        stat[j] = a.rows_log2[at], dots[j] = a.dots[at];
    }
    plain_scores(shared, s, k, row0, a.keys, q, q0, a.t);
    plain_scores(shared, dp, v, row0, a.keys, dout, q0, a.t);
    plain_cap(s, a);
    plain_mask(s, seen, q0, -INFINITY);
    simple_dscores(s, dp, a, 0, stat, dots);
    plain_share(shared, s);
    plain_weigh(shared, dv, dout, q0, a.t);
    __syncthreads(); /* nobody reads P any more */
    plain_share(shared, dp);
    plain_weigh(shared, dk, q, q0, a.t);
}

template <typename T>
__global__ void __launch_bounds__(PLAIN_THREADS) attention_simple_keys(gpu_attention_args a)
{
    __shared__ plain_shared shared;
    const int32_t kv = (int32_t)blockIdx.y, row0 = (int32_t)blockIdx.x * PLAIN;
    gpu_span seen[4];
#pragma unroll
    for (int i = 0; i < 4; i++) seen[i] = gpu_any_queries_of(a, row0 + 4 * plain_y() + i);
    const int32_t first = gpu_any_queries_of(a, row0).lo / PLAIN * PLAIN;
    const int32_t end = gpu_any_queries_of(a, row0 + PLAIN - 1).hi;
    plain_sums dk, dv;
    plain_clear(dk);
    plain_clear(dv);
    const int32_t heads_end = __ldg(a.heads_of_first + kv + 1);
    for (int32_t i = __ldg(a.heads_of_first + kv); i < heads_end; i++)
        for (int32_t q0 = first; q0 < end; q0 += PLAIN)
            simple_keys_tile<T>(a, shared, kv, row0, seen, __ldg(a.heads_of + i), q0, dk, dv);
    const float one[4] = {1, 1, 1, 1}, scale[4] = {a.scale, a.scale, a.scale, a.scale};
    plain_store(dk, scale, (T *)a.dk + (int64_t)kv * a.d, (int64_t)a.g * a.d, a.d, row0, a.keys,
                a.key_row);
    plain_store(dv, one, (T *)a.dv + (int64_t)kv * a.u, (int64_t)a.g * a.u, a.u, row0, a.keys,
                a.key_row);
}

cudaError_t gpu_attention_simple_dx(cudaStream_t stream, const gpu_attention_args &a, gpu_type type)
{
    const unsigned wide = (unsigned)gpu_tiles(a.d, PLAIN_WIDTH * PLAIN);
    const unsigned widest = (unsigned)gpu_tiles(a.u > a.d ? a.u : a.d, PLAIN_WIDTH * PLAIN);
    const dim3 keys((unsigned)gpu_tiles(a.keys, PLAIN), (unsigned)a.g, widest);
    const dim3 queries((unsigned)gpu_tiles(a.t, PLAIN), (unsigned)a.n, wide);
    const bool f32 = type == GPU_F32;
    const cudaError_t code =
        gpu_launch(f32 ? attention_simple_keys<float> : attention_simple_keys<__nv_bfloat16>, keys,
                   PLAIN_THREADS, 0, stream, a);
    if (code != cudaSuccess) return code;
    return gpu_launch(f32 ? attention_simple_queries<float>
                          : attention_simple_queries<__nv_bfloat16>,
                      queries, PLAIN_THREADS, 0, stream, a);
}
