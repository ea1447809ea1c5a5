/* attention.cuh: what the attention kernels share: their argument, and who sees whom.
 *
 *   attention.cu             forward: the choice of kernel, bf16 on tensor cores
 *   attention_dx.cu          backward: the choice, rows' sums, bf16 on tensor cores
 *   attention_simple.cu      f32, other head sizes and older GPUs, forward ..
 *   attention_simple_dx.cu   .. and backward
 *   attention_block.cu       blocks of queries and keys out of order, by all of these
 *   attention_tile.cuh       tiles of bf16 in shared memory and their products
 *   attention_plain.cuh      tiles of f32 in shared memory and their products
 *
 * Formulas as in exec/host/kernels_attention.inc. Exponentials are powers of 2: scores carry
 * scale * log2(e). Backward is two kernels, one that owns keys (dK, dV) and one that owns queries
 * (dQ): both make the scores again, which costs 7 products instead of 5 and needs neither atomic
 * sums nor an order among blocks. A small third one adds what parts of a group have summed.
 */
#ifndef LUO_EXEC_CUDA_KERNELS_ATTENTION_CUH
#define LUO_EXEC_CUDA_KERNELS_ATTENTION_CUH
#include <cuda_bf16.h>
#include <math.h>

#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/kernels.h"
#include "exec/cuda/kernels/launch.cuh"

/* dK and dV sum over the query heads of a group. Where key tiles alone are too few blocks for a
 * GPU, the heads of a group are cut into parts of `heads`, each with blocks and sums of its own,
 * which are added in order afterwards. */
typedef struct gpu_head_parts {
    int32_t parts, heads; /* parts 1: no sums beside */
} gpu_head_parts;

typedef struct gpu_attention_args { /* one argument of every kernel */
    int32_t t, n, g, d, u;          /* u: of values and results */
    int32_t keys;                   /* t but in a block */
    bool causal;
    int32_t window;   /* tokens; 0: none. No more than t */
    float scale;      /* of scores */
    float scale_log2; /* .. times log2(e) */
    float softcap;    /* c tanh(x / c) of them; 0: as they are; the simple kernels */
    const int32_t *kv_of, *heads_of, *heads_of_first, *start_of, *end_of;
    const void *q, *k, *v, *o, *dout;
    void *out, *dq, *dk, *dv;
    float *rows;             /* forward writes it, backward reads it */
    float *dots, *rows_log2; /* [n x padded]: D, and rows * log2(e); of the work memory */
    int64_t padded; /* t rounded up, so that tiles of queries read past t: 0 and +inf there */
    /* Of a block, in the order of the data: rows of queries and of keys, and who sees whom; NULL:
     * they lie in that order, and start_of and end_of say it. */
    const int32_t *query_row, *key_row, *key_lo, *key_hi, *query_lo, *query_hi;
    gpu_head_parts cut;
    float *part_sums; /* [2 x parts x t x g x d]: dK / scale and dV of each part */
} gpu_attention_args;

enum { GPU_ATTENTION_PAD = 128 }; /* a multiple of every tile of queries */
#define GPU_LOG2_E 1.4426950408889634f
#define GPU_LN_2 0.6931471805599453f

/* Tokens lo..hi-1. */
typedef struct gpu_span {
    int32_t lo, hi;
} gpu_span;

/* Keys that query i sees; both ends ascend with i. Beyond the last token: as the last one, whose
 * tile has room for more: nobody reads what comes of it. */
static __device__ __forceinline__ gpu_span gpu_keys_of(const gpu_attention_args &a, int32_t i)
{
    const int32_t at = i < a.t ? i : a.t - 1, start = __ldg(a.start_of + at);
    const bool cut = a.window > 0 && at - start >= a.window;
    const gpu_span s = {cut ? at + 1 - a.window : start, a.causal ? at + 1 : __ldg(a.end_of + at)};
    return s;
}

/* Queries that see key j; both ends ascend with j. */
static __device__ __forceinline__ gpu_span gpu_queries_of(const gpu_attention_args &a, int32_t j)
{
    const int32_t at = j < a.t ? j : a.t - 1, end = __ldg(a.end_of + at);
    const bool cut = a.window > 0 && end - at > a.window;
    const gpu_span s = {a.causal ? at : __ldg(a.start_of + at), cut ? at + a.window : end};
    return s;
}

/* The same in a block, where rows are counted in the order of the data .. */
static __device__ __forceinline__ gpu_span gpu_block_keys_of(const gpu_attention_args &a, int32_t i)
{
    const int32_t at = i < a.t ? i : a.t - 1;
    const gpu_span s = {__ldg(a.key_lo + at), __ldg(a.key_hi + at)};
    return s;
}
static __device__ __forceinline__ gpu_span gpu_block_queries_of(const gpu_attention_args &a,
                                                                int32_t j)
{
    const int32_t at = j < a.keys ? j : a.keys - 1;
    const gpu_span s = {__ldg(a.query_lo + at), __ldg(a.query_hi + at)};
    return s;
}
/* .. and where what it is is known at run time alone: the simple kernels. */
static __device__ __forceinline__ gpu_span gpu_any_keys_of(const gpu_attention_args &a, int32_t i)
{
    return a.key_lo ? gpu_block_keys_of(a, i) : gpu_keys_of(a, i);
}
static __device__ __forceinline__ gpu_span gpu_any_queries_of(const gpu_attention_args &a,
                                                              int32_t j)
{
    return a.query_lo ? gpu_block_queries_of(a, j) : gpu_queries_of(a, j);
}
/* Where the i-th row in the order of the data lies. */
static __device__ __forceinline__ int32_t gpu_row_at(const int32_t *row, int32_t i)
{
    return row ? __ldg(row + i) : i;
}

static inline int32_t gpu_tiles(int64_t n, int64_t tile)
{
    return (int32_t)((n + tile - 1) / tile);
}

/* As many parts as make GPU_KEY_BLOCKS blocks, about eight for each place that H100 and H200 have.
 * It is the same everywhere: the shape alone decides which bits come out. tiles: of keys. */
enum { GPU_KEY_BLOCKS = 2048 };
static inline gpu_head_parts gpu_attention_parts(int64_t tiles, int64_t n, int64_t g)
{
    const int64_t group = (n + g - 1) / g;
    const int64_t heads = (tiles * g * group + GPU_KEY_BLOCKS - 1) / GPU_KEY_BLOCKS;
    const gpu_head_parts p = {(int32_t)((group + heads - 1) / heads), (int32_t)heads};
    return p;
}
/* Those of a group's heads first..last-1 that are of this part: the last one takes the rest of a
 * group that is larger than others. */
static __host__ __device__ __forceinline__ gpu_span gpu_heads_of_part(gpu_head_parts p,
                                                                      int32_t part, int32_t first,
                                                                      int32_t last)
{
    const int32_t lo = first + part * p.heads, hi = lo + p.heads;
    const gpu_span s = {lo < last ? lo : last, part < p.parts - 1 && hi < last ? hi : last};
    return s;
}

/* Tokens and sizes fit the 32-bit indices of the kernels. */
static inline bool gpu_attention_fits(int64_t t, const gpu_heads *heads)
{
    const int64_t most = INT32_MAX - 2 * GPU_ATTENTION_PAD;
    const int64_t widest = heads->u > heads->d ? heads->u : heads->d;
    return t <= most && heads->d > 0 && heads->n <= most / widest && heads->g <= most / widest;
}
static inline gpu_attention_args gpu_attention_arguments(int64_t t, const gpu_heads *heads,
                                                         const int32_t *start_of,
                                                         const int32_t *end_of)
{
    gpu_attention_args a = {};
    a.t = a.keys = (int32_t)t, a.n = (int32_t)heads->n, a.g = (int32_t)heads->g,
    a.d = (int32_t)heads->d;
    a.u = (int32_t)(heads->u > 0 ? heads->u : heads->d);
    a.causal = heads->causal;
    a.window = (int32_t)(heads->window < t ? heads->window : t);
    const double scale = heads->scale > 0 ? heads->scale : 1 / sqrt((double)heads->d);
    a.scale = (float)scale;
    a.scale_log2 = (float)(1.4426950408889634 * scale);
    a.softcap = (float)heads->softcap;
    a.kv_of = heads->kv_of, a.heads_of = heads->heads_of;
    a.heads_of_first = heads->heads_of_first;
    a.start_of = start_of, a.end_of = end_of;
    return a;
}

/* Whether the kernels of tensor cores have tiles for such heads: those of 64 and of 128 columns
 * take smaller ones too, filled up with zeros. */
static inline bool gpu_attention_has_tiles(gpu_type type, int64_t d, int64_t u)
{
    return type == GPU_BF16 && d % 8 == 0 && d <= 128 && u == d;
}
/* The simple kernels; launched by gpu_attention and gpu_attention_dx. `type`: of all arrays. */
cudaError_t gpu_attention_simple(cudaStream_t stream, const gpu_attention_args &a, gpu_type type);
cudaError_t gpu_attention_simple_dx(cudaStream_t stream, const gpu_attention_args &a,
                                    gpu_type type);
/* Arrays and sizes of `a` are set; the kernels are chosen by them. `type`: of all arrays. */
cudaError_t gpu_attention_forward(cudaStream_t stream, const gpu_attention_args &a, gpu_type type);
/* room: gpu_attention_dx_room bytes, at a multiple of 16 for the fast kernels. */
size_t gpu_attention_dx_room(int64_t t, int64_t keys, const gpu_heads *heads, gpu_type type);
cudaError_t gpu_attention_backward(cudaStream_t stream, gpu_attention_args a, gpu_type type,
                                   void *room);
/* Whether all of them can be copied 16 bytes at a time. */
bool gpu_attention_aligned(const void *const *at, int32_t count);
/* Whether this device has bf16 tensor cores; asked once per device. */
cudaError_t gpu_attention_tensor_cores(bool *out);
#endif
