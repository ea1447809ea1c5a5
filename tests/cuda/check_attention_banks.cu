/* check_attention_banks.cu: how the attention kernels lay tiles out in shared memory:
 * every place once, and no two lanes in one bank, counted as the hardware serves them: 32 banks of
 * 4 bytes, a warp's accesses of 16 bytes in four turns of 8 lanes, of 4 bytes in one; lanes that
 * read the same word share it. And how the heads of a group are cut into parts. */
#include "exec/cuda/kernels/attention_plain.cuh"
#include "exec/cuda/kernels/attention_tile.cuh"
#include "tests/check_main.h"

enum { LANES = 32, BANKS = 32 };

/* Turns that an access takes beyond those it needs; at: bytes, wide: bytes of a lane. */
static int conflicts(const uint32_t (&at)[LANES], int wide)
{
    const int lanes = LANES * 4 / wide; /* of a turn */
    int extra = 0;
    for (int turn = 0; turn < LANES; turn += lanes) {
        uint32_t word[BANKS][LANES];
        int n[BANKS] = {}, most = 1;
        for (int lane = turn; lane < turn + lanes; lane++)
            for (uint32_t w = at[lane] / 4; w < (at[lane] + (uint32_t)wide) / 4; w++) {
                const uint32_t b = w % BANKS;
                bool met = false;
                for (int i = 0; i < n[b]; i++) met = met || word[b][i] == w;
                if (!met) word[b][n[b]++] = w;
                if (n[b] > most) most = n[b];
            }
        extra += most - 1;
    }
    return extra;
}

START_TEST(the_count_sees_conflicts)
{
    uint32_t at[LANES];
    for (int lane = 0; lane < LANES; lane++) at[lane] = (uint32_t)lane * 4;
    ck_assert_int_eq(conflicts(at, 4), 0);
    for (int lane = 0; lane < LANES; lane++) at[lane] = (uint32_t)lane * 128;
    ck_assert_int_eq(conflicts(at, 4), 31);
    for (int lane = 0; lane < LANES; lane++) at[lane] = 64;
    ck_assert_int_eq(conflicts(at, 16), 0);
    for (int lane = 0; lane < LANES; lane++) at[lane] = (uint32_t)lane * 256; /* rows of d 128 */
    ck_assert_int_eq(conflicts(at, 16), 4 * 7);
}
END_TEST

template <int D> static void places_are_taken_once()
{
    static bool taken[128 * D / 8];
    memset(taken, 0, sizeof taken);
    for (int row = 0; row < 128; row++)
        for (int chunk = 0; chunk < D / 8; chunk++) {
            const uint32_t at = tile_at<D>(row, chunk);
            ck_assert_uint_eq(at % 16, 0);
            ck_assert_uint_lt(at, 128 * D * 2);
            ck_assert_uint_eq(at / (2 * D), (uint32_t)row);
            ck_assert(!taken[at / 16]);
            taken[at / 16] = true;
        }
}

template <int D> static void operands_meet_no_bank_twice()
{
    uint32_t left[LANES], right[LANES], across[LANES], sums[LANES];
    for (int row0 = 0; row0 + 16 <= 128; row0 += 16)
        for (int k = 0; k < D / 16; k++) {
            for (int lane = 0; lane < LANES; lane++) {
                left[lane] = tile_left_at<D>(lane, row0, k);
                right[lane] = tile_right_at<D>(lane, row0, k);
                across[lane] = tile_across_at<D>(lane, row0, k);
                /* What a lane points at is row lane % 8 of matrix lane / 8. */
                const int matrix = lane / 8, row = row0 + lane % 8;
                ck_assert_uint_eq(left[lane], tile_at<D>(row + matrix % 2 * 8, 2 * k + matrix / 2));
                ck_assert_uint_eq(right[lane],
                                  tile_at<D>(row + matrix / 2 * 8, 2 * k + matrix % 2));
                ck_assert_uint_eq(across[lane],
                                  tile_at<D>(row + matrix % 2 * 8, 2 * k + matrix / 2));
            }
            ck_assert_int_eq(conflicts(left, 16), 0);
            ck_assert_int_eq(conflicts(right, 16), 0);
            ck_assert_int_eq(conflicts(across, 16), 0);
            for (int part = 0; part < 2; part++)
                for (int j = 2 * k; j < 2 * k + 2; j++) {
                    for (int lane = 0; lane < LANES; lane++)
                        sums[lane] = tile_sums_at<D>(lane, row0, part, j);
                    ck_assert_int_eq(conflicts(sums, 4), 0);
                }
        }
}

/* Copies in and rows out: neighbouring lanes take neighbouring chunks. */
template <int D> static void rows_meet_no_bank_twice()
{
    uint32_t at[LANES];
    constexpr int chunks = D / 8;
    for (int first = 0; first < 128 * chunks; first += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            at[lane] = tile_at<D>((first + lane) / chunks, (first + lane) % chunks);
        ck_assert_int_eq(conflicts(at, 16), 0);
    }
}

START_TEST(tiles_of_bf16)
{
    places_are_taken_once<64>();
    places_are_taken_once<128>();
    operands_meet_no_bank_twice<64>();
    operands_meet_no_bank_twice<128>();
    rows_meet_no_bank_twice<64>();
    rows_meet_no_bank_twice<128>();
}
END_TEST

/* The simple kernels: lanes 0..15 have thread row y, 16..31 the next. */
START_TEST(tiles_of_f32)
{
    static plain_shared s;
    const char *base = (const char *)&s;
    for (int y = 0; y < 16; y += 2)
        for (int i = 0; i < 4; i++) {
            uint32_t a[LANES], b[LANES], p[LANES], rows[LANES], put[4][LANES];
            for (int lane = 0; lane < LANES; lane++) {
                const int row = 4 * (y + lane / 16) + i, x = lane % 16;
                a[lane] = (uint32_t)((const char *)&s.in.scores.a[row][4] - base);
                b[lane] = (uint32_t)((const char *)&s.in.scores.b[x + 16 * i][4] - base);
                p[lane] = (uint32_t)((const char *)&s.p[row][4] - base);
                rows[lane] = (uint32_t)((const char *)&s.in.rows[4 * y + i][4 * x] - base);
                for (int j = 0; j < 4; j++)
                    put[j][lane] = (uint32_t)((const char *)&s.p[row][x + 16 * j] - base);
            }
            ck_assert_int_eq(conflicts(a, 16), 0);
            ck_assert_int_eq(conflicts(b, 16), 0);
            ck_assert_int_eq(conflicts(p, 16), 0);
            ck_assert_int_eq(conflicts(rows, 16), 0);
            for (int j = 0; j < 4; j++) ck_assert_int_eq(conflicts(put[j], 4), 0);
        }
}
END_TEST

/* ---- parts of groups of heads ---- */

START_TEST(parts_are_enough_and_few)
{
    for (int64_t tiles = 1; tiles < 5000; tiles += 1 + tiles / 3)
        for (int64_t g = 1; g <= 64; g *= 2)
            for (int64_t n = g; n <= 40 * g; n += 1 + n / 4) {
                const gpu_head_parts p = gpu_attention_parts(tiles, n, g);
                const int64_t group = (n + g - 1) / g, blocks = tiles * g * p.parts;
                ck_assert_int_ge(p.heads, 1);
                ck_assert_int_ge(p.parts, 1);
                ck_assert_int_ge((int64_t)p.parts * p.heads, group);
                ck_assert_int_lt((int64_t)(p.parts - 1) * p.heads, group);
                if (p.parts > 1) ck_assert_int_lt(blocks, 2 * GPU_KEY_BLOCKS);
                if (p.heads > 1) ck_assert_int_gt(3 * blocks, GPU_KEY_BLOCKS);
                if (n == g) ck_assert_int_eq(p.parts, 1);
            }
}
END_TEST

/* Also of groups that are larger or smaller than the others. */
START_TEST(parts_have_each_head_once)
{
    for (int32_t parts = 1; parts < 7; parts++)
        for (int32_t heads = 1; heads < 5; heads++)
            for (int32_t last = 3; last < 60; last++) {
                int32_t next = 3;
                for (int32_t i = 0; i < parts; i++) {
                    const gpu_span s = gpu_heads_of_part({parts, heads}, i, 3, last);
                    ck_assert_int_eq(s.lo, next);
                    ck_assert_int_ge(s.hi, s.lo);
                    if (i < parts - 1) ck_assert_int_le(s.hi - s.lo, heads);
                    next = s.hi;
                }
                ck_assert_int_eq(next, last);
            }
}
END_TEST

LUO_SUITE("cuda.attention_banks", LUO_T(the_count_sees_conflicts), LUO_T(tiles_of_bf16),
          LUO_T(tiles_of_f32), LUO_T(parts_are_enough_and_few), LUO_T(parts_have_each_head_once))
