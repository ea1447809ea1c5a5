/* attention_dx.cu: attention, backward: which kernel, and bf16 on tensor cores.
 *
 * dK, dV: a block owns keys of one key-value head and goes through the queries that see them, of
 * the query heads of its group or of a part of them (gpu_attention_parts). It makes S^T = K Q^T and
 * dP^T = V dO^T, so that P^T and dS^T are left operands as they lie. dQ: a block owns queries of
 * one head and goes through the keys that they see. In both each operand of the loop has one
 * buffer, copied while the other is used.
 */
#include "exec/cuda/kernels/attention_tile.cuh"
#include "exec/cuda/kernels/units.cuh"

/* MT x 16 rows a warp: what 128 sums a lane of dK and dV (of dQ) leave room for. */
template <int D> struct keys_shape {
    static constexpr int mt = 128 / D, keys = 16 * ATTN_WARPS * mt, queries = 64 / mt;
    static constexpr int tile = queries * 2 * D, own = keys * 2 * D;
    static constexpr int bytes = 2 * own + 2 * tile + 2 * queries * (int)sizeof(float);
};
template <int D> struct queries_shape {
    static constexpr int mt = 2, queries = 16 * ATTN_WARPS * mt, keys = 4096 / D;
    static constexpr int own = queries * 2 * D, tile = keys * 2 * D, bytes = 2 * own + 2 * tile;
};

/* Scores become P = exp2(score - rows); stat: of the columns (queries) of this tile. */
template <int MT, int N>
__device__ __forceinline__ void exp_columns(float (&s)[MT][N][4], float scale, const float *stat)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < N; j++) {
        const float2 less = *(const float2 *)(stat + 8 * j + 2 * (lane % 4));
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 4; h += 2) {
                s[m][j][h] = gpu_exp2(fmaf(s[m][j][h], scale, -less.x));
                s[m][j][h + 1] = gpu_exp2(fmaf(s[m][j][h + 1], scale, -less.y));
            }
    }
}
/* dp becomes dS / scale = P (dP - D). */
template <int MT, int N>
__device__ __forceinline__ void dscores_columns(float (&dp)[MT][N][4], const float (&p)[MT][N][4],
                                                const float *dots)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < N; j++) {
        const float2 less = *(const float2 *)(dots + 8 * j + 2 * (lane % 4));
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 4; h += 2) {
                dp[m][j][h] = p[m][j][h] * (dp[m][j][h] - less.x);
                dp[m][j][h + 1] = p[m][j][h + 1] * (dp[m][j][h + 1] - less.y);
            }
    }
}

/* One number per query of a tile. */
template <int N> __device__ __forceinline__ void stat_load(float *to, const float *from)
{
    if (threadIdx.x < N / 4) gpu_copy_async(to + 4 * threadIdx.x, from + 4 * threadIdx.x, true);
}

/* Where the loop over queries of a group of heads stands. */
typedef struct query_walk {
    int32_t i, end; /* index of the head in heads_of */
    int32_t head, q0, first;
} query_walk;

template <int D, bool WHOLE, bool BLOCK>
__global__ void __launch_bounds__(ATTN_THREADS, 2) attention_keys(gpu_attention_args a)
{
    const int32_t d = WHOLE ? D : a.d;
    using S = keys_shape<D>;
    unsigned char *sk = gpu_dynamic_shared(), *sv = sk + S::own, *sq = sv + S::own,
                  *sdo = sq + S::tile;
    float *slog = (float *)(sdo + S::tile), *sdots = slog + S::queries;
    const int32_t kv = (int32_t)blockIdx.y / a.cut.parts, part = (int32_t)blockIdx.y % a.cut.parts;
    const int32_t row0 = (int32_t)blockIdx.x * S::keys;
    const int32_t ldq = a.n * d, ldk = a.g * d;
    const __nv_bfloat16 *q = (const __nv_bfloat16 *)a.q, *dout = (const __nv_bfloat16 *)a.dout;
    tile_fetch<D, S::keys, BLOCK>(sk, (const __nv_bfloat16 *)a.k + kv * d, a.key_row, ldk, d, row0,
                                  a.keys);
    tile_fetch<D, S::keys, BLOCK>(sv, (const __nv_bfloat16 *)a.v + kv * d, a.key_row, ldk, d, row0,
                                  a.keys);

    gpu_span (*const queries_of)(const gpu_attention_args &, int32_t) =
        BLOCK ? gpu_block_queries_of : gpu_queries_of;
    const int32_t end = queries_of(a, row0 + S::keys - 1).hi;
    const int32_t own = row0 + (int32_t)threadIdx.x / 32 * 16 * S::mt;
    const tile_sight sight = {queries_of(a, own), queries_of(a, own + 16 * S::mt - 1)};
    const gpu_span heads = gpu_heads_of_part(a.cut, part, __ldg(a.heads_of_first + kv),
                                             __ldg(a.heads_of_first + kv + 1));
    query_walk w = {heads.lo, heads.hi, 0, 0, queries_of(a, row0).lo / S::queries * S::queries};
    w.q0 = w.first;
    if (BLOCK && w.first >= end) w.i = w.end; /* nobody sees these keys */
    float dk[S::mt][D / 8][4], dv[S::mt][D / 8][4];
    tile_clear(dk);
    tile_clear(dv);
    if (w.i < w.end) {
        w.head = __ldg(a.heads_of + w.i);
        tile_fetch<D, S::queries, BLOCK>(sdo, dout + w.head * d, a.query_row, ldq, d, w.q0, a.t);
        stat_load<S::queries>(sdots, a.dots + w.head * a.padded + w.q0);
    }
    gpu_copy_async_commit();
    while (w.i < w.end) {
        const int32_t q0 = w.q0;
        const bool sees = tile_sees(sight, q0, S::queries);
        float s[S::mt][S::queries / 8][4], dp[S::mt][S::queries / 8][4];
        gpu_copy_async_wait<0>();
        __syncthreads(); /* dO is here, and nobody reads the last Q any more */
        tile_fetch<D, S::queries, BLOCK>(sq, q + w.head * d, a.query_row, ldq, d, q0, a.t);
        stat_load<S::queries>(slog, a.rows_log2 + w.head * a.padded + q0);
        gpu_copy_async_commit();
        if (sees) {
            tile_clear(dp);
            tile_product_nt<D, S::mt, S::queries>(dp, sv, sdo);
        }
        gpu_copy_async_wait<0>();
        __syncthreads(); /* Q is here */
        if (sees) {
            tile_clear(s);
            tile_product_nt<D, S::mt, S::queries>(s, sk, sq);
            if (tile_cut(sight, q0, S::queries)) tile_mask(s, a, queries_of, own, q0, -INFINITY);
            exp_columns(s, a.scale_log2, slog);
            dscores_columns(dp, s, sdots);
            tile_product_nn<D, S::mt, S::queries>(dv, s, sdo);
        }
        w.q0 += S::queries;
        if (w.q0 >= end) {
            w.q0 = w.first;
            if (++w.i < w.end) w.head = __ldg(a.heads_of + w.i);
        }
        __syncthreads(); /* nobody reads this dO any more */
        if (w.i < w.end) {
            tile_fetch<D, S::queries, BLOCK>(sdo, dout + w.head * d, a.query_row, ldq, d, w.q0,
                                             a.t);
            stat_load<S::queries>(sdots, a.dots + w.head * a.padded + w.q0);
        }
        gpu_copy_async_commit();
        if (sees) tile_product_nn<D, S::mt, S::queries>(dk, dp, sq);
    }
    gpu_copy_async_wait<0>();
    if (a.cut.parts > 1) {
        const int64_t all = (int64_t)a.keys * ldk;
        float *const to = a.part_sums + part * all + kv * d;
        tile_keep<D, S::mt, BLOCK>(dk, to, a.key_row, ldk, d, row0, a.keys);
        tile_keep<D, S::mt, BLOCK>(dv, to + a.cut.parts * all, a.key_row, ldk, d, row0, a.keys);
        return;
    }
    __syncthreads(); /* K and V are here even if no query sees them */
    float one[S::mt][2], scale[S::mt][2];
#pragma unroll
    for (int m = 0; m < S::mt; m++) one[m][0] = one[m][1] = 1, scale[m][0] = scale[m][1] = a.scale;
    tile_store<D, S::mt, BLOCK>(sk, dk, scale, (__nv_bfloat16 *)a.dk + kv * d, a.key_row, ldk, d,
                                row0, a.keys);
    tile_store<D, S::mt, BLOCK>(sv, dv, one, (__nv_bfloat16 *)a.dv + kv * d, a.key_row, ldk, d,
                                row0, a.keys);
}

enum { JOIN_THREADS = 256, JOIN_WIDTH = 8 };

/* dK (blockIdx.y 0) and dV: the parts' sums in their order, rounded once. n: elements of each. */
__global__ void __launch_bounds__(JOIN_THREADS) attention_join(gpu_attention_args a, int64_t n)
{
    constexpr int V = JOIN_WIDTH;
    const int64_t i = ((int64_t)blockIdx.x * JOIN_THREADS + threadIdx.x) * V;
    const bool keys = blockIdx.y == 0;
    const gpu_array from = {a.part_sums + (keys ? 0 : a.cut.parts * n), GPU_F32};
    float s[V] = {};
#pragma unroll 4
    for (int32_t p = 0; p < a.cut.parts; p++) {
        const gpu_unit<GPU_F32, V> u = gpu_load_whole<GPU_F32, V>(from, p * n + i, p * n + n);
#pragma unroll
        for (int e = 0; e < V; e++) s[e] += gpu_value(u, e);
    }
#pragma unroll
    for (int e = 0; e < V; e++) s[e] *= keys ? a.scale : 1;
    gpu_store_whole<GPU_BF16, V>({keys ? a.dk : a.dv, GPU_BF16}, i, n, s);
}

/* dp becomes dS / scale; stat, dots: of the lane's rows. */
template <int MT, int N>
__device__ __forceinline__ void dscores_rows(float (&dp)[MT][N][4], float (&s)[MT][N][4],
                                             float scale, const float (&stat)[MT][2],
                                             const float (&dots)[MT][2])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                dp[m][j][i] = gpu_exp2(fmaf(s[m][j][i], scale, -stat[m][i / 2])) *
                              (dp[m][j][i] - dots[m][i / 2]);
}

template <int D, bool WHOLE, bool BLOCK>
__global__ void __launch_bounds__(ATTN_THREADS, 2) attention_queries(gpu_attention_args a)
{
    const int32_t d = WHOLE ? D : a.d;
    using S = queries_shape<D>;
    unsigned char *sq = gpu_dynamic_shared(), *sdo = sq + S::own, *sk = sdo + S::own,
                  *sv = sk + S::tile;
    const int lane = (int)threadIdx.x % 32;
    const int32_t head = (int32_t)blockIdx.y, kv = __ldg(a.kv_of + head);
    const int32_t row0 = (int32_t)(gridDim.x - 1 - blockIdx.x) * S::queries;
    const int32_t ldq = a.n * d, ldk = a.g * d;
    const __nv_bfloat16 *k = (const __nv_bfloat16 *)a.k + kv * d;
    const __nv_bfloat16 *v = (const __nv_bfloat16 *)a.v + kv * d;
    tile_fetch<D, S::queries, BLOCK>(sq, (const __nv_bfloat16 *)a.q + head * d, a.query_row, ldq, d,
                                     row0, a.t);
    tile_fetch<D, S::queries, BLOCK>(sdo, (const __nv_bfloat16 *)a.dout + head * d, a.query_row,
                                     ldq, d, row0, a.t);

    gpu_span (*const keys_of)(const gpu_attention_args &, int32_t) =
        BLOCK ? gpu_block_keys_of : gpu_keys_of;
    const int32_t begin = keys_of(a, row0).lo, end = keys_of(a, row0 + S::queries - 1).hi;
    const int32_t own = row0 + (int32_t)threadIdx.x / 32 * 16 * S::mt;
    const tile_sight sight = {keys_of(a, own), keys_of(a, own + 16 * S::mt - 1)};
    float dq[S::mt][D / 8][4], stat[S::mt][2], dots[S::mt][2], by[S::mt][2];
    tile_clear(dq);
#pragma unroll
    for (int m = 0; m < S::mt; m++)
#pragma unroll
        for (int low = 0; low < 2; low++) {
            const int64_t at = head * a.padded + own + 16 * m + 8 * low + lane / 4;
            stat[m][low] = a.rows_log2[at], dots[m][low] = a.dots[at], by[m][low] = a.scale;
        }
    tile_fetch<D, S::keys, BLOCK>(sv, v, a.key_row, ldk, d, begin, end);
    gpu_copy_async_commit();
    for (int32_t k0 = begin; k0 < end; k0 += S::keys) {
        const bool sees = tile_sees(sight, k0, S::keys);
        float s[S::mt][S::keys / 8][4], dp[S::mt][S::keys / 8][4];
        gpu_copy_async_wait<0>();
        __syncthreads(); /* values are here, and nobody reads the last keys any more */
        tile_fetch<D, S::keys, BLOCK>(sk, k, a.key_row, ldk, d, k0, end);
        gpu_copy_async_commit();
        if (sees) {
            tile_clear(dp);
            tile_product_nt<D, S::mt, S::keys>(dp, sdo, sv);
        }
        gpu_copy_async_wait<0>();
        __syncthreads(); /* keys are here, and nobody reads these values any more */
        if (k0 + S::keys < end)
            tile_fetch<D, S::keys, BLOCK>(sv, v, a.key_row, ldk, d, k0 + S::keys, end);
        gpu_copy_async_commit();
        if (sees) {
            tile_clear(s);
            tile_product_nt<D, S::mt, S::keys>(s, sq, sk);
            if (tile_cut(sight, k0, S::keys)) tile_mask(s, a, keys_of, own, k0, -INFINITY);
            dscores_rows(dp, s, a.scale_log2, stat, dots);
            tile_product_nn<D, S::mt, S::keys>(dq, dp, sk);
        }
    }
    if constexpr (BLOCK) { /* queries are here even if they see nobody */
        gpu_copy_async_wait<0>();
        __syncthreads();
    }
    tile_store<D, S::mt, BLOCK>(sq, dq, by, (__nv_bfloat16 *)a.dq + head * d, a.query_row, ldq, d,
                                row0, a.t);
}

/* ---- rows' sums ---- */

enum { STAT_THREADS = 256, STAT_LANES = 8, STAT_ROWS = STAT_THREADS / STAT_LANES };

/* D = sum of dO o, and rows * log2(e), a list per head; 8 threads a row. Where a query of a block
 * sees nobody rows are -inf, and weights have to be 0: +inf, as beyond the last row. */
template <int M>
__global__ void __launch_bounds__(STAT_THREADS)
    attention_rows(gpu_attention_args a, gpu_array dout, gpu_array o)
{
    constexpr int V = gpu_width<M>;
    const int32_t head = (int32_t)blockIdx.y, part = (int32_t)threadIdx.x % STAT_LANES;
    const int32_t row = (int32_t)blockIdx.x * STAT_ROWS + (int32_t)threadIdx.x / STAT_LANES;
    const int32_t at = row < a.t ? gpu_row_at(a.query_row, row) : row;
    const int64_t lo = ((int64_t)at * a.n + head) * a.u, hi = row < a.t ? lo + a.u : lo;
    float s = 0;
    for (int64_t i = lo + part * V; i < hi; i += STAT_LANES * V) {
        const gpu_unit<M, V> x = gpu_load_whole<M, V>(dout, i, hi);
        const gpu_unit<M, V> y = gpu_load_whole<M, V>(o, i, hi);
#pragma unroll
        for (int e = 0; e < V; e++) s = fmaf(gpu_value(x, e), gpu_value(y, e), s);
    }
#pragma unroll
    for (int by = 1; by < STAT_LANES; by *= 2) s += __shfl_xor_sync(0xffffffffu, s, by);
    if (part > 0) return;
    const float stat = row < a.t ? a.rows[(int64_t)at * a.n + head] : INFINITY;
    a.dots[head * a.padded + row] = s;
    a.rows_log2[head * a.padded + row] = stat == -INFINITY ? INFINITY : stat * GPU_LOG2_E;
}

static cudaError_t launch_rows(cudaStream_t stream, const gpu_attention_args &a, gpu_array dout,
                               gpu_array o)
{
    const int mode = gpu_row_mode(gpu_mode(dout, o), a.u);
    const dim3 grid((unsigned)(a.padded / STAT_ROWS), (unsigned)a.n);
    return gpu_launch(GPU_OF_MODE(mode, attention_rows), grid, STAT_THREADS, 0, stream, a, dout, o);
}

/* ---- the choice ---- */

static int64_t padded_rows(int64_t t)
{
    return (t + GPU_ATTENTION_PAD - 1) / GPU_ATTENTION_PAD * GPU_ATTENTION_PAD;
}

/* How the heads of groups are cut where tensor cores are used; t: keys. */
static gpu_head_parts parts_of(int64_t t, int64_t n, int64_t g, int64_t d)
{
    const int64_t keys = d <= 64 ? keys_shape<64>::keys : keys_shape<128>::keys;
    if (t == 0) return {1, 1};
    return gpu_attention_parts(gpu_tiles(t, keys), n, g);
}

size_t gpu_attention_dx_room(int64_t t, int64_t keys, const gpu_heads *heads, gpu_type type)
{
    const int64_t u = heads->u > 0 ? heads->u : heads->d;
    int64_t n = 2 * padded_rows(t) * heads->n;
    if (keys > 0 && gpu_attention_has_tiles(type, heads->d, u)) {
        const int64_t parts = parts_of(keys, heads->n, heads->g, heads->d).parts;
        if (parts > 1) n += 2 * parts * keys * heads->g * heads->d;
    }
    return (size_t)n * sizeof(float);
}

size_t gpu_attention_dx_work(int64_t t, const gpu_heads *heads, gpu_type type)
{
    return gpu_attention_dx_room(t, t, heads, type);
}

template <int D>
static cudaError_t launch_backward(cudaStream_t stream, const gpu_attention_args &a)
{
    const dim3 keys((unsigned)gpu_tiles(a.keys, keys_shape<D>::keys),
                    (unsigned)(a.g * a.cut.parts));
    const dim3 queries((unsigned)gpu_tiles(a.t, queries_shape<D>::queries), (unsigned)a.n);
    const int64_t n = (int64_t)a.keys * a.g * a.d;
    const dim3 join(gpu_blocks(n, JOIN_THREADS * JOIN_WIDTH), a.cut.parts > 1 ? 2 : 0);
    auto *const of_keys = a.key_lo   ? attention_keys<D, false, true>
                          : a.d == D ? attention_keys<D, true, false>
                                     : attention_keys<D, false, false>;
    auto *const of_queries = a.key_lo   ? attention_queries<D, false, true>
                             : a.d == D ? attention_queries<D, true, false>
                                        : attention_queries<D, false, false>;
    cudaError_t code =
        gpu_launch(of_keys, keys, ATTN_THREADS, (size_t)keys_shape<D>::bytes, stream, a);
    if (code == cudaSuccess) code = gpu_launch(attention_join, join, JOIN_THREADS, 0, stream, a, n);
    if (code != cudaSuccess) return code;
    return gpu_launch(of_queries, queries, ATTN_THREADS, (size_t)queries_shape<D>::bytes, stream,
                      a);
}

cudaError_t gpu_attention_backward(cudaStream_t stream, gpu_attention_args a, gpu_type type,
                                   void *room)
{
    const gpu_array dout = {const_cast<void *>(a.dout), type}, o = {const_cast<void *>(a.o), type};
    a.padded = padded_rows(a.t);
    a.dots = (float *)room, a.rows_log2 = a.dots + a.padded * a.n;
    bool cores = false;
    cudaError_t code = gpu_attention_tensor_cores(&cores);
    if (code == cudaSuccess) code = launch_rows(stream, a, dout, o);
    if (code != cudaSuccess) return code;
    const void *const at[] = {a.q, a.k, a.v, a.dout, a.dq, a.dk, a.dv, room};
    if (!cores || a.softcap > 0 || !gpu_attention_has_tiles(type, a.d, a.u) ||
        !gpu_attention_aligned(at, 8))
        return gpu_attention_simple_dx(stream, a, type);
    a.cut = parts_of(a.keys, a.n, a.g, a.d);
    a.part_sums = a.rows_log2 + a.padded * a.n;
    return a.d <= 64 ? launch_backward<64>(stream, a) : launch_backward<128>(stream, a);
}

cudaError_t gpu_attention_dx(cudaStream_t stream, int64_t t, const gpu_heads *heads,
                             const int32_t *start_of, const int32_t *end_of, gpu_array dout,
                             gpu_array o, const float *rows, gpu_array q, gpu_array k, gpu_array v,
                             gpu_array dq, gpu_array dk, gpu_array dv, void *work)
{
    if (t == 0) return cudaSuccess;
    const gpu_array all[] = {dout, o, q, k, v, dq, dk, dv};
    if (!gpu_attention_fits(t, heads)) return cudaErrorInvalidValue;
    for (const gpu_array &x : all)
        if (x.type != q.type) return cudaErrorInvalidValue;
    gpu_attention_args a = gpu_attention_arguments(t, heads, start_of, end_of);
    a.q = q.at, a.k = k.at, a.v = v.at, a.o = o.at, a.dout = dout.at;
    a.dq = dq.at, a.dk = dk.at, a.dv = dv.at;
    a.rows = (float *)rows; /* only read */
    return gpu_attention_backward(stream, a, q.type, work);
}
