/* attention.cu: attention, forward: which kernel, and bf16 on tensor cores.
 *
 * A block owns 128 queries of one head, a warp 32 of them, and goes through the keys that they see,
 * 64 at a time. Keys are copied while the last tile's values are used, and values while the keys
 * are: one buffer each is enough. Heavy tiles (the last, if causal) come first.
 */
#include <atomic>

#include "exec/cuda/kernels/attention_tile.cuh"

enum { FWD_QUERIES = 128, FWD_KEYS = 64, FWD_MT = FWD_QUERIES / (16 * ATTN_WARPS) };

template <int D> constexpr int forward_bytes()
{
    return (FWD_QUERIES + 2 * FWD_KEYS) * 2 * D;
}

/* Queries as left operands, kept in registers where there is room: spares a fifth of what the
 * loop reads from shared memory. */
template <int D> struct query_operands {
    static constexpr int kept = D <= 64 ? D / 16 : 0; /* of D / 16 */
    uint32_t at[D / 16][FWD_MT][4];
};

template <int D>
__device__ __forceinline__ void forward_keep(query_operands<D> &q, const unsigned char *sq)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++)
        if (k < query_operands<D>::kept)
            tile_left<D, FWD_MT>(q.at[k], sq, (int)threadIdx.x % 32, k);
}
/* s = Q K^T. */
template <int D>
__device__ __forceinline__ void forward_scores(float (&s)[FWD_MT][FWD_KEYS / 8][4],
                                               query_operands<D> &q, const unsigned char *sq,
                                               const unsigned char *sk)
{
    const int lane = gpu_anew((int)threadIdx.x % 32);
    tile_clear(s);
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        if (k >= query_operands<D>::kept) tile_left<D, FWD_MT>(q.at[k], sq, lane, k);
        tile_step_nt<D, FWD_MT, FWD_KEYS>(s, q.at[k], sk, lane, k);
    }
}

typedef float row_values[FWD_MT][2]; /* of a lane: one per row it has a part in */

/* Scores become exp2(score - m); m, l and o follow. l: of this lane's columns only. */
template <int D>
__device__ __forceinline__ void forward_softmax(float scale, float (&s)[FWD_MT][FWD_KEYS / 8][4],
                                                row_values &most, row_values &sum,
                                                float (&o)[FWD_MT][D / 8][4])
{
#pragma unroll
    for (int m = 0; m < FWD_MT; m++)
#pragma unroll
        for (int h = 0; h < 4; h += 2) {
            float top = most[m][h / 2];
#pragma unroll
            for (int j = 0; j < FWD_KEYS / 8; j++)
                top = fmaxf(top, fmaxf(s[m][j][h], s[m][j][h + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            /* Nothing seen so far: any finite number will do. */
            const float base = top == -INFINITY ? 0 : top * scale;
            const float shrink = gpu_exp2(fmaf(most[m][h / 2], scale, -base));
            float all = 0;
#pragma unroll
            for (int j = 0; j < FWD_KEYS / 8; j++)
#pragma unroll
                for (int i = h; i < h + 2; i++) {
                    s[m][j][i] = gpu_exp2(fmaf(s[m][j][i], scale, -base));
                    all += s[m][j][i];
                }
            sum[m][h / 2] = fmaf(sum[m][h / 2], shrink, all);
            if (top == most[m][h / 2]) continue;
            most[m][h / 2] = top;
#pragma unroll
            for (int j = 0; j < D / 8; j++) o[m][j][h] *= shrink, o[m][j][h + 1] *= shrink;
        }
}

/* 1 / l for each row, 0 for one that sees nobody, and its statistic. */
template <bool BLOCK>
__device__ __forceinline__ void forward_finish(const gpu_attention_args &a, int32_t head,
                                               int32_t row0, const row_values &most,
                                               const row_values &sum, row_values &by)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < FWD_MT; m++)
#pragma unroll
        for (int low = 0; low < 2; low++) {
            float all = sum[m][low];
            all += __shfl_xor_sync(0xffffffffu, all, 1);
            all += __shfl_xor_sync(0xffffffffu, all, 2);
            by[m][low] = BLOCK && !(all > 0) ? 0 : 1 / all;
            const int32_t row = row0 + 16 * m + 8 * low + lane / 4;
            if (lane % 4 == 0 && row < a.t)
                a.rows[tile_row<BLOCK>(a.query_row, row) * a.n + head] =
                    (most[m][low] * a.scale_log2 + log2f(all)) * GPU_LN_2;
        }
}

template <int D, bool WHOLE, bool BLOCK>
__global__ void __launch_bounds__(ATTN_THREADS, 2) attention_forward(gpu_attention_args a)
{
    const int32_t d = WHOLE ? D : a.d;
    unsigned char *sq = gpu_dynamic_shared(), *sk = sq + FWD_QUERIES * 2 * D,
                  *sv = sk + FWD_KEYS * 2 * D;
    const int32_t head = (int32_t)blockIdx.y, kv = __ldg(a.kv_of + head);
    const int32_t row0 = (int32_t)(gridDim.x - 1 - blockIdx.x) * FWD_QUERIES;
    const int32_t ldq = a.n * d, ldk = a.g * d;
    const __nv_bfloat16 *q = (const __nv_bfloat16 *)a.q + head * d;
    const __nv_bfloat16 *k = (const __nv_bfloat16 *)a.k + kv * d;
    const __nv_bfloat16 *v = (const __nv_bfloat16 *)a.v + kv * d;
    tile_fetch<D, FWD_QUERIES, BLOCK>(sq, q, a.query_row, ldq, d, row0, a.t);

    gpu_span (*const keys_of)(const gpu_attention_args &, int32_t) =
        BLOCK ? gpu_block_keys_of : gpu_keys_of;
    const int32_t begin = keys_of(a, row0).lo, end = keys_of(a, row0 + FWD_QUERIES - 1).hi;
    const int32_t own = row0 + (int32_t)threadIdx.x / 32 * 16 * FWD_MT;
    const tile_sight sight = {keys_of(a, own), keys_of(a, own + 16 * FWD_MT - 1)};
    float o[FWD_MT][D / 8][4];
    tile_clear(o);
    query_operands<D> kept;
    row_values most, sum, by;
#pragma unroll
    for (int m = 0; m < FWD_MT; m++) most[m][0] = most[m][1] = -INFINITY, sum[m][0] = sum[m][1] = 0;

    tile_fetch<D, FWD_KEYS, BLOCK>(sk, k, a.key_row, ldk, d, begin, end);
    gpu_copy_async_commit();
    for (int32_t k0 = begin; k0 < end; k0 += FWD_KEYS) {
        const bool sees = tile_sees(sight, k0, FWD_KEYS);
        float s[FWD_MT][FWD_KEYS / 8][4];
        gpu_copy_async_wait<0>();
        __syncthreads(); /* keys are here, and nobody reads the last values any more */
        tile_fetch<D, FWD_KEYS, BLOCK>(sv, v, a.key_row, ldk, d, k0, end);
        gpu_copy_async_commit();
        if (k0 == begin) forward_keep(kept, sq);
        if (sees) forward_scores<D>(s, kept, sq, sk);
        gpu_copy_async_wait<0>();
        __syncthreads(); /* values are here, and nobody reads these keys any more */
        if (k0 + FWD_KEYS < end)
            tile_fetch<D, FWD_KEYS, BLOCK>(sk, k, a.key_row, ldk, d, k0 + FWD_KEYS, end);
        gpu_copy_async_commit();
        if (sees) {
            if (tile_cut(sight, k0, FWD_KEYS)) tile_mask(s, a, keys_of, own, k0, -INFINITY);
            forward_softmax<D>(a.scale_log2, s, most, sum, o);
            tile_product_nn<D, FWD_MT, FWD_KEYS>(o, s, sv);
        }
    }
    if constexpr (BLOCK) { /* queries are here even if they see nobody */
        gpu_copy_async_wait<0>();
        __syncthreads();
    }
    forward_finish<BLOCK>(a, head, own, most, sum, by);
    tile_store<D, FWD_MT, BLOCK>(sq, o, by, (__nv_bfloat16 *)a.out + head * d, a.query_row, ldq, d,
                                 row0, a.t);
}

/* ---- the choice ---- */

bool gpu_attention_aligned(const void *const *at, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if ((uintptr_t)at[i] % 16 != 0) return false;
    return true;
}

enum { DEVICES = 64 };
static std::atomic<int> major_of[DEVICES]; /* 0: not asked yet */

cudaError_t gpu_attention_tensor_cores(bool *out)
{
    int device = 0;
    cudaError_t code = cudaGetDevice(&device);
    if (code != cudaSuccess) return code;
    int major = device < DEVICES ? major_of[device].load(std::memory_order_relaxed) : 0;
    if (major == 0)
        code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (code != cudaSuccess) return code;
    if (device < DEVICES) major_of[device].store(major, std::memory_order_relaxed);
    *out = major >= 8;
    return cudaSuccess;
}

template <int D> static cudaError_t launch_forward(cudaStream_t stream, const gpu_attention_args &a)
{
    const dim3 grid((unsigned)gpu_tiles(a.t, FWD_QUERIES), (unsigned)a.n);
    auto *const kernel = a.key_lo   ? attention_forward<D, false, true>
                         : a.d == D ? attention_forward<D, true, false>
                                    : attention_forward<D, false, false>;
    return gpu_launch(kernel, grid, ATTN_THREADS, (size_t)forward_bytes<D>(), stream, a);
}

cudaError_t gpu_attention_forward(cudaStream_t stream, const gpu_attention_args &a, gpu_type type)
{
    const void *const at[] = {a.q, a.k, a.v, a.out};
    bool cores = false;
    const cudaError_t code = gpu_attention_tensor_cores(&cores);
    if (code != cudaSuccess) return code;
    if (!cores || a.softcap > 0 || !gpu_attention_has_tiles(type, a.d, a.u) ||
        !gpu_attention_aligned(at, 4))
        return gpu_attention_simple(stream, a, type);
    return a.d <= 64 ? launch_forward<64>(stream, a) : launch_forward<128>(stream, a);
}

cudaError_t gpu_attention(cudaStream_t stream, int64_t t, const gpu_heads *heads,
                          const int32_t *start_of, const int32_t *end_of, gpu_array q, gpu_array k,
                          gpu_array v, gpu_array o, float *rows)
{
    if (t == 0 || heads->n == 0) return cudaSuccess;
    if (!gpu_attention_fits(t, heads) || k.type != q.type || v.type != q.type || o.type != q.type)
        return cudaErrorInvalidValue;
    gpu_attention_args a = gpu_attention_arguments(t, heads, start_of, end_of);
    a.q = q.at, a.k = k.at, a.v = v.at, a.out = o.at, a.rows = rows;
    return gpu_attention_forward(stream, a, q.type);
}
