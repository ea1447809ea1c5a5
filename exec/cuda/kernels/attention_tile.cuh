/* attention_tile.cuh: tiles of bf16 in shared memory and their products on tensor cores.
 *
 * A tile has rows of D elements, D a multiple of 64, in chunks of 16 bytes: chunk c of row r lies
 * at place c ^ (r & 7) of its row. So 8 rows of one chunk, which ldmatrix reads at once, and 8
 * chunks of one row, which a copy writes at once, each cover all 32 banks once
 * (tests/cuda/check_attention_banks.cu counts).
 *
 * A warp owns MT times 16 rows of a product. Its sums lie as the instruction leaves them: of tile
 * column j (8 wide), a lane holds columns 2 (lane % 4) and the next of row lane / 4 in [j][0..1],
 * of the row 8 further down in [j][2..3]. Two neighbouring columns of sums, rounded to bf16, are
 * the left operand of the next product as they lie (Dao 2023): P and dS never leave registers.
 */
#ifndef LUO_EXEC_CUDA_KERNELS_ATTENTION_TILE_CUH
#define LUO_EXEC_CUDA_KERNELS_ATTENTION_TILE_CUH
#include "exec/cuda/kernels/attention.cuh"

enum { ATTN_WARPS = 4, ATTN_THREADS = 32 * ATTN_WARPS };

/* ---- where things lie: pure functions, bytes from the start of the tile ---- */

template <int D> __host__ __device__ __forceinline__ uint32_t tile_at(int row, int chunk)
{
    return (uint32_t)(row * 2 * D + ((chunk ^ (row & 7)) << 4));
}
/* What the lanes of a warp point at when they load four 8 x 8 matrices from row0, a multiple of 8,
 * and columns 16 k16..: the left operand (16 rows, by halves of k); .. */
template <int D>
__host__ __device__ __forceinline__ uint32_t tile_left_at(int lane, int row0, int k16)
{
    return tile_at<D>(row0 + (lane & 15), 2 * k16 ^ (lane >> 4));
}
/* .. the right operand of A B^T (rows of B are columns of the product: two times 8 of them); .. */
template <int D>
__host__ __device__ __forceinline__ uint32_t tile_right_at(int lane, int row0, int k16)
{
    return tile_at<D>(row0 + (lane & 7) + (lane >> 4) * 8, 2 * k16 ^ (lane >> 3 & 1));
}
/* .. that of A B, transposed as it is loaded (row0: of k; columns 16 n16.. of the product); .. */
template <int D>
__host__ __device__ __forceinline__ uint32_t tile_across_at(int lane, int row0, int n16)
{
    return tile_left_at<D>(lane, row0, n16);
}
/* .. and where a lane's sums go, column j of the product, `low` 1: the lower eight rows. */
template <int D>
__host__ __device__ __forceinline__ uint32_t tile_sums_at(int lane, int row0, int low, int j)
{
    return tile_at<D>(row0 + lane / 4 + 8 * low, j) + (uint32_t)(lane % 4) * 4;
}

/* ---- copies ---- */

/* ROWS rows of `width` elements, a multiple of 8, from row0 on of an array whose rows are `pitch`
 * elements apart; zeros from row `end` and from column `width` on, which add nothing to products.
 * Issued only: the caller commits, waits and synchronises. */
template <int D, int ROWS>
__device__ __forceinline__ void tile_load(unsigned char *tile, const __nv_bfloat16 *from,
                                          int32_t pitch, int32_t width, int32_t row0, int32_t end)
{
    constexpr int chunks = D / 8, step = ATTN_THREADS / chunks;
    static_assert(step % 8 == 0 && ROWS % step == 0, "rows of a step share their places");
    const int r = (int)threadIdx.x / chunks, c = (int)threadIdx.x % chunks;
    const __nv_bfloat16 *at = from + (int64_t)(row0 + r) * pitch + c * 8;
    unsigned char *to = tile + tile_at<D>(r, c);
    const int32_t last = c * 8 < width ? end : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i += step)
        gpu_copy_async(to + i * 2 * D, at + (int64_t)i * pitch, row0 + r + i < last);
}

/* The same of a block: rows lie where `row` says. */
template <int D, int ROWS>
__device__ __forceinline__ void tile_load_rows(unsigned char *tile, const __nv_bfloat16 *from,
                                               const int32_t *row, int32_t pitch, int32_t width,
                                               int32_t row0, int32_t end)
{
    constexpr int chunks = D / 8, step = ATTN_THREADS / chunks;
    const int r = (int)threadIdx.x / chunks, c = (int)threadIdx.x % chunks;
    unsigned char *to = tile + tile_at<D>(r, c);
    const int32_t last = c * 8 < width ? end : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i += step) {
        const bool in = row0 + r + i < last;
        const int64_t at = in ? __ldg(row + row0 + r + i) : 0;
        gpu_copy_async(to + i * 2 * D, from + at * pitch + c * 8, in);
    }
}
template <int D, int ROWS, bool BLOCK>
__device__ __forceinline__ void tile_fetch(unsigned char *tile, const __nv_bfloat16 *from,
                                           const int32_t *row, int32_t pitch, int32_t width,
                                           int32_t row0, int32_t end)
{
    if constexpr (BLOCK)
        tile_load_rows<D, ROWS>(tile, from, row, pitch, width, row0, end);
    else
        tile_load<D, ROWS>(tile, from, pitch, width, row0, end);
}
/* Where row i goes. */
template <bool BLOCK> __device__ __forceinline__ int64_t tile_row(const int32_t *row, int32_t i)
{
    if constexpr (BLOCK)
        return __ldg(row + i);
    else
        return i;
}

/* A warp's sums, times by[MT][2], through its own rows of a tile that nobody else reads any more,
 * to rows row0.. of an array; none from row `end` and from column `width` on. */
template <int D, int MT, bool BLOCK>
__device__ __forceinline__ void tile_store(unsigned char *tile, const float (&sums)[MT][D / 8][4],
                                           const float (&by)[MT][2], __nv_bfloat16 *to,
                                           const int32_t *row, int64_t pitch, int32_t width,
                                           int32_t row0, int32_t end)
{
    constexpr int chunks = D / 8, step = 32 / chunks;
    const int lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * 16 * MT;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int j = 0; j < D / 8; j++)
#pragma unroll
            for (int low = 0; low < 2; low++)
                *(uint32_t *)(tile + tile_sums_at<D>(lane, own + 16 * m, low, j)) = gpu_pack_bf16(
                    sums[m][j][2 * low] * by[m][low], sums[m][j][2 * low + 1] * by[m][low]);
    __syncwarp();
    const int r = own + lane / chunks, c = lane % chunks;
    for (int i = 0; i < 16 * MT; i += step)
        if (row0 + r + i < end && c * 8 < width)
            *(uint4 *)(to + tile_row<BLOCK>(row, row0 + r + i) * pitch + c * 8) =
                *(const uint4 *)(tile + tile_at<D>(r + i, c));
}

/* The same in f32 as they are, from registers: 8 bytes a lane, 32 a row at once. */
template <int D, int MT, bool BLOCK>
__device__ __forceinline__ void tile_keep(const float (&sums)[MT][D / 8][4], float *to,
                                          const int32_t *list, int64_t pitch, int32_t width,
                                          int32_t row0, int32_t end)
{
    const int lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * 16 * MT;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int low = 0; low < 2; low++) {
            const int32_t row = row0 + own + 16 * m + 8 * low + lane / 4;
            if (row >= end) continue;
            float *const at = to + tile_row<BLOCK>(list, row) * pitch;
#pragma unroll
            for (int j = 0; j < D / 8; j++)
                if (8 * j < width)
                    gpu_store_8(at + 8 * j + 2 * (lane % 4),
                                make_uint2(__float_as_uint(sums[m][j][2 * low]),
                                           __float_as_uint(sums[m][j][2 * low + 1])));
        }
}

/* ---- products ---- */

/* The warp's rows of a tile, columns 16 k.., as a left operand. */
template <int D, int MT>
__device__ __forceinline__ void tile_left(uint32_t (&left)[MT][4], const unsigned char *a, int lane,
                                          int k)
{
    const int own = (int)threadIdx.x / 32 * 16 * MT;
#pragma unroll
    for (int m = 0; m < MT; m++)
        gpu_ldmatrix_x4(left[m], a + tile_left_at<D>(lane, own + 16 * m, k));
}
/* sums += A B^T over columns 16 k.. of both; the first N rows of tile B. */
template <int D, int MT, int N>
__device__ __forceinline__ void tile_step_nt(float (&sums)[MT][N / 8][4],
                                             const uint32_t (&left)[MT][4], const unsigned char *b,
                                             int lane, int k)
{
#pragma unroll
    for (int j = 0; j < N / 16; j++) {
        uint32_t right[4];
        gpu_ldmatrix_x4(right, b + tile_right_at<D>(lane, 16 * j, k));
#pragma unroll
        for (int m = 0; m < MT; m++) {
            gpu_mma_bf16(sums[m][2 * j], left[m], right[0], right[1]);
            gpu_mma_bf16(sums[m][2 * j + 1], left[m], right[2], right[3]);
        }
    }
}
/* sums += A B^T: the warp's rows of tile A, the first N rows of tile B. */
template <int D, int MT, int N>
__device__ __forceinline__ void tile_product_nt(float (&sums)[MT][N / 8][4], const unsigned char *a,
                                                const unsigned char *b)
{
    const int lane = gpu_anew((int)threadIdx.x % 32);
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t left[MT][4];
        tile_left<D, MT>(left, a, lane, k);
        tile_step_nt<D, MT, N>(sums, left, b, lane, k);
    }
}

/* sums += A B: A the warp's own sums of another product, rounded to bf16; K rows of tile B. */
template <int D, int MT, int K>
__device__ __forceinline__ void
tile_product_nn(float (&sums)[MT][D / 8][4], const float (&a)[MT][K / 8][4], const unsigned char *b)
{
    const int lane = gpu_anew((int)threadIdx.x % 32);
#pragma unroll
    for (int k = 0; k < K / 16; k++) {
        uint32_t left[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                left[m][i] = gpu_pack_bf16(a[m][2 * k + i / 2][i % 2 * 2],
                                           a[m][2 * k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            uint32_t right[4];
            gpu_ldmatrix_x4_trans(right, b + tile_across_at<D>(lane, 16 * k, j));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                gpu_mma_bf16(sums[m][2 * j], left[m], right[0], right[1]);
                gpu_mma_bf16(sums[m][2 * j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

template <int MT, int N> __device__ __forceinline__ void tile_clear(float (&sums)[MT][N][4])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[m][j][i] = 0;
}

/* ---- who sees whom ---- */

/* Of the rows a warp owns: the span of the first and of the last. */
typedef struct tile_sight {
    gpu_span first, last;
} tile_sight;

static __device__ __forceinline__ bool tile_sees(const tile_sight &s, int32_t col0, int32_t cols)
{
    return col0 < s.last.hi && col0 + cols > s.first.lo;
}
/* Some row sees only a part of the columns: its sums have to be masked. */
static __device__ __forceinline__ bool tile_cut(const tile_sight &s, int32_t col0, int32_t cols)
{
    return col0 < s.last.lo || col0 + cols > s.first.hi;
}
/* Sums of columns outside a row's span become `hidden`; `of` gives a row's span. */
template <int MT, int N>
__device__ __forceinline__ void tile_mask(float (&sums)[MT][N][4], const gpu_attention_args &a,
                                          gpu_span (*of)(const gpu_attention_args &, int32_t),
                                          int32_t row0, int32_t col0, float hidden)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int low = 0; low < 2; low++) {
            const gpu_span seen = of(a, row0 + 16 * m + 8 * low + lane / 4);
#pragma unroll
            for (int j = 0; j < N; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int32_t col = col0 + 8 * j + 2 * (lane % 4) + i;
                    if (col < seen.lo || col >= seen.hi) sums[m][j][2 * low + i] = hidden;
                }
        }
}
#endif
