/* attention_plain.cuh: tiles of f32 in shared memory and their products on CUDA cores.
 *
 * A block of 16 x 16 threads makes tiles of 64 x 64 scores; thread (y, x) has rows 4 y + i and
 * columns x + 16 j. A tile of P or dS goes through shared memory to weigh rows of another array:
 * there a thread has the same rows and columns 4 x + j of each 64. Shared memory is read 16 bytes
 * at a time; the rows' pitch lets 8 neighbouring threads read 32 different banks.
 */
#ifndef LUO_EXEC_CUDA_KERNELS_ATTENTION_PLAIN_CUH
#define LUO_EXEC_CUDA_KERNELS_ATTENTION_PLAIN_CUH
#include "exec/cuda/kernels/attention.cuh"

enum {
    PLAIN = 64,       /* rows and columns of a tile */
    PLAIN_DEPTH = 32, /* columns of the operands of a score at a time */
    PLAIN_WIDTH = 2,  /* 64-wide columns of a block's result; more go to further blocks */
    PLAIN_THREADS = 256
};

typedef struct alignas(16) plain_shared {
    union {
        struct {
            float a[PLAIN][PLAIN_DEPTH + 4], b[PLAIN][PLAIN_DEPTH + 4];
        } scores;
        float rows[PLAIN][PLAIN];
    } in;
    float p[PLAIN][PLAIN + 4];
} plain_shared;

template <typename T> struct plain_array { /* rows `pitch` elements apart, d wide */
    const T *at;
    int64_t pitch;
    int32_t d;
    const int32_t *row; /* where they lie; NULL: as they are counted */
};

/* Head `head` of [t x heads x d]. */
template <typename T>
__device__ __forceinline__ plain_array<T> plain_head(const void *at, int32_t heads, int32_t head,
                                                     int32_t d, const int32_t *row)
{
    return {(const T *)at + (int64_t)head * d, (int64_t)heads * d, d, row};
}

static __device__ __forceinline__ float plain_get(float x)
{
    return x;
}
static __device__ __forceinline__ float plain_get(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ void plain_put(float *to, float x)
{
    *to = x;
}
static __device__ __forceinline__ void plain_put(__nv_bfloat16 *to, float x)
{
    *to = __float2bfloat16(x);
}

static __device__ __forceinline__ int plain_x()
{
    return (int)threadIdx.x % 16;
}
static __device__ __forceinline__ int plain_y()
{
    return (int)threadIdx.x / 16;
}

/* 64 rows from row0 and W columns from col0 on; zeros beyond row `end` and column d. */
template <int W, int PITCH, typename T>
__device__ __forceinline__ void plain_load(float (&to)[PLAIN][PITCH], const plain_array<T> &from,
                                           int32_t row0, int32_t end, int32_t col0)
{
    const int c = (int)threadIdx.x % W;
#pragma unroll 4
    for (int r = (int)threadIdx.x / W; r < PLAIN; r += PLAIN_THREADS / W) {
        const bool in = row0 + r < end && col0 + c < from.d;
        to[r][c] =
            in ? plain_get(from.at[gpu_row_at(from.row, row0 + r) * from.pitch + col0 + c]) : 0;
    }
}

/* s = A B^T: 64 rows of A from a0, 64 of B from b0. All threads of the block call it. */
template <typename T>
__device__ void plain_scores(plain_shared &shared, float (&s)[4][4], const plain_array<T> &a,
                             int32_t a0, int32_t a_end, const plain_array<T> &b, int32_t b0,
                             int32_t b_end)
{
#pragma unroll
    for (int i = 0; i < 16; i++) s[i / 4][i % 4] = 0;
    for (int32_t c = 0; c < a.d; c += PLAIN_DEPTH) {
        __syncthreads(); /* nobody reads what stood there */
        plain_load<PLAIN_DEPTH>(shared.in.scores.a, a, a0, a_end, c);
        plain_load<PLAIN_DEPTH>(shared.in.scores.b, b, b0, b_end, c);
        __syncthreads();
#pragma unroll 2
        for (int k = 0; k < PLAIN_DEPTH; k += 4) {
            float4 left[4], right[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                left[i] = *(const float4 *)&shared.in.scores.a[4 * plain_y() + i][k];
                right[i] = *(const float4 *)&shared.in.scores.b[plain_x() + 16 * i][k];
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    s[i][j] = fmaf(left[i].x, right[j].x, s[i][j]);
                    s[i][j] = fmaf(left[i].y, right[j].y, s[i][j]);
                    s[i][j] = fmaf(left[i].z, right[j].z, s[i][j]);
                    s[i][j] = fmaf(left[i].w, right[j].w, s[i][j]);
                }
        }
    }
}

/* Scores that are yet to be scaled, of which c tanh(x / c) is taken. */
static __device__ __forceinline__ void plain_cap(float (&s)[4][4], const gpu_attention_args &a)
{
    if (a.softcap == 0) return;
    const float in = a.scale / a.softcap, out = a.softcap / a.scale;
#pragma unroll
    for (int i = 0; i < 16; i++) s[i / 4][i % 4] = out * tanhf(in * s[i / 4][i % 4]);
}

/* The thread's scores as a tile that all threads read; the next barrier is plain_weigh's. */
static __device__ __forceinline__ void plain_share(plain_shared &shared, const float (&s)[4][4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) shared.p[4 * plain_y() + i][plain_x() + 16 * j] = s[i][j];
}

typedef float plain_sums[PLAIN_WIDTH][4][4]; /* [64-wide column][row][column] of a thread */

static __device__ __forceinline__ void plain_clear(plain_sums &sums)
{
#pragma unroll
    for (int i = 0; i < PLAIN_WIDTH * 16; i++) sums[i / 16][i / 4 % 4][i % 4] = 0;
}

/* sums += P X: 64 rows of X from row0, columns of this block (blockIdx.z). All threads call it. */
template <typename T>
__device__ void plain_weigh(plain_shared &shared, plain_sums &sums, const plain_array<T> &x,
                            int32_t row0, int32_t end)
{
    const int32_t col0 = (int32_t)blockIdx.z * PLAIN_WIDTH * PLAIN;
#pragma unroll
    for (int w = 0; w < PLAIN_WIDTH; w++) {
        if (w > 0 && col0 + w * PLAIN >= x.d) break;
        __syncthreads(); /* P is there, and nobody reads what stood in the rows' place */
        plain_load<PLAIN>(shared.in.rows, x, row0, end, col0 + w * PLAIN);
        __syncthreads();
#pragma unroll 2
        for (int k = 0; k < PLAIN; k += 4) {
            float4 left[4], right[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                left[i] = *(const float4 *)&shared.p[4 * plain_y() + i][k];
                right[i] = *(const float4 *)&shared.in.rows[k + i][4 * plain_x()];
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float by[4] = {left[i].x, left[i].y, left[i].z, left[i].w};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    sums[w][i][0] = fmaf(by[j], right[j].x, sums[w][i][0]);
                    sums[w][i][1] = fmaf(by[j], right[j].y, sums[w][i][1]);
                    sums[w][i][2] = fmaf(by[j], right[j].z, sums[w][i][2]);
                    sums[w][i][3] = fmaf(by[j], right[j].w, sums[w][i][3]);
                }
            }
        }
    }
}

/* The block's sums, times by[row], to rows row0..end-1. */
template <typename T>
__device__ void plain_store(const plain_sums &sums, const float (&by)[4], T *to, int64_t pitch,
                            int32_t d, int32_t row0, int32_t end, const int32_t *at)
{
    const int32_t col0 = (int32_t)blockIdx.z * PLAIN_WIDTH * PLAIN;
#pragma unroll
    for (int i = 0; i < PLAIN_WIDTH * 16; i++) {
        const int32_t row = row0 + 4 * plain_y() + i / 4 % 4;
        const int32_t col = col0 + i / 16 * PLAIN + 4 * plain_x() + i % 4;
        if (row < end && col < d)
            plain_put(to + gpu_row_at(at, row) * pitch + col,
                      sums[i / 16][i / 4 % 4][i % 4] * by[i / 4 % 4]);
    }
}

/* Scores outside the rows' spans become `hidden`. */
static __device__ __forceinline__ void plain_mask(float (&s)[4][4], const gpu_span (&seen)[4],
                                                  int32_t col0, float hidden)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int32_t col = col0 + plain_x() + 16 * j;
            if (col < seen[i].lo || col >= seen[i].hi) s[i][j] = hidden;
        }
}

/* Over the 16 threads that share rows. */
static __device__ __forceinline__ float plain_row_max(float x)
{
#pragma unroll
    for (int by = 1; by < 16; by *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, by));
    return x;
}
static __device__ __forceinline__ float plain_row_sum(float x)
{
#pragma unroll
    for (int by = 1; by < 16; by *= 2) x += __shfl_xor_sync(0xffffffffu, x, by);
    return x;
}
#endif
