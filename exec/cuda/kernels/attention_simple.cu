/* attention_simple.cu: attention, forward, on CUDA cores: f32, bf16 of any head size and
 * alignment, and GPUs without bf16 tensor cores. A block owns 64 queries of one head and up to 128
 * columns of the result. */
#include "exec/cuda/kernels/attention_plain.cuh"

/* Scores become exp2(score - m); m, l and o follow. */
static __device__ __forceinline__ void
simple_softmax(float scale, float (&s)[4][4], float (&most)[4], float (&sum)[4], plain_sums &o)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float here = fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3]));
        const float top = fmaxf(most[i], plain_row_max(here) * scale);
        const float base = top == -INFINITY ? 0 : top; /* nothing seen so far: any number will do */
        const float shrink = exp2f(most[i] - base);
        float all = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            s[i][j] = exp2f(fmaf(s[i][j], scale, -base));
            all += s[i][j];
        }
        sum[i] = fmaf(sum[i], shrink, all);
        most[i] = top;
#pragma unroll
        for (int j = 0; j < PLAIN_WIDTH * 4; j++) o[j / 4][i][j % 4] *= shrink;
    }
}

template <typename T>
__global__ void __launch_bounds__(PLAIN_THREADS) attention_simple_forward(gpu_attention_args a)
{
    __shared__ plain_shared shared;
    const int32_t head = (int32_t)blockIdx.y, kv = __ldg(a.kv_of + head);
    const int32_t row0 = (int32_t)(gridDim.x - 1 - blockIdx.x) * PLAIN;
    const plain_array<T> q = plain_head<T>(a.q, a.n, head, a.d, a.query_row),
                         k = plain_head<T>(a.k, a.g, kv, a.d, a.key_row),
                         v = plain_head<T>(a.v, a.g, kv, a.u, a.key_row);
    gpu_span seen[4];
    float most[4], sum[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        seen[i] = gpu_any_keys_of(a, row0 + 4 * plain_y() + i);
        most[i] = -INFINITY, sum[i] = 0;
    }
    plain_sums o;
    plain_clear(o);
    const int32_t end = gpu_any_keys_of(a, row0 + PLAIN - 1).hi;
    for (int32_t k0 = gpu_any_keys_of(a, row0).lo; k0 < end; k0 += PLAIN) {
        float s[4][4];
        plain_scores(shared, s, q, row0, a.t, k, k0, end);
        plain_cap(s, a);
        plain_mask(s, seen, k0, -INFINITY);
        simple_softmax(a.scale_log2, s, most, sum, o);
        plain_share(shared, s);
        plain_weigh(shared, o, v, k0, end);
    }
    float by[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float all = plain_row_sum(sum[i]);
        const int32_t row = row0 + 4 * plain_y() + i;
        by[i] = all > 0 ? 1 / all : 0; /* in a block a query may see nobody */
        if (plain_x() == 0 && blockIdx.z == 0 && row < a.t)
            a.rows[(int64_t)gpu_row_at(a.query_row, row) * a.n + head] =
                (most[i] + log2f(all)) * GPU_LN_2;
    }
    plain_store(o, by, (T *)a.out + (int64_t)head * a.u, (int64_t)a.n * a.u, a.u, row0, a.t,
                a.query_row);
}

cudaError_t gpu_attention_simple(cudaStream_t stream, const gpu_attention_args &a, gpu_type type)
{
    const dim3 grid((unsigned)gpu_tiles(a.t, PLAIN), (unsigned)a.n,
                    (unsigned)gpu_tiles(a.u, PLAIN_WIDTH * PLAIN));
    return type == GPU_F32
               ? gpu_launch(attention_simple_forward<float>, grid, PLAIN_THREADS, 0, stream, a)
               : gpu_launch(attention_simple_forward<__nv_bfloat16>, grid, PLAIN_THREADS, 0, stream,
                            a);
}
