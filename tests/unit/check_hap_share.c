/* check_hap_share.c: whole lengths, vectors HR1 to HR7. */
#include "core/plan/hap_graph/share.h"
#include "tests/check_main.h"

enum { MOST = 64 };

static const struct {
    const char *id;
    int64_t extent;
    int32_t n;
    int64_t weight[8], len[8], last[8]; /* last: ties to the highest index */
} rows[] = {
    {"HR1", 10, 3, {5, 3, 2}, {5, 3, 2}, {5, 3, 2}},
    {"HR2", 7, 3, {5, 3, 2}, {4, 2, 1}, {4, 2, 1}},
    {"HR3", 3, 4, {1, 1, 1, 1}, {1, 1, 1, 0}, {0, 1, 1, 1}},
    {"HR5",
     256,
     8,
     {18, 18, 10, 10, 10, 10, 10, 10},
     {48, 48, 27, 27, 27, 27, 26, 26},
     {48, 48, 26, 26, 27, 27, 27, 27}},
    {"HR6", 9, 3, {6, 4, 0}, {5, 4, 0}, {5, 4, 0}},
    {"HR7", 2, 2, {786432, 262144}, {2, 0}, {1, 1}},
    {"one", 1, 3, {1, 5, 1}, {0, 1, 0}, {1, 1, 1}},
};

START_TEST(row)
{
    int64_t len[8];
    luo_err err;
    ck_assert_int_eq(luo_share_round(rows[_i].extent, rows[_i].weight, rows[_i].n, len, &err),
                     LUO_OK);
    for (int32_t i = 0; i < rows[_i].n; i++)
        ck_assert_msg(len[i] == rows[_i].len[i], "%s: device %d", rows[_i].id, i);
    ck_assert_int_eq(luo_share_round_last(rows[_i].extent, rows[_i].weight, rows[_i].n, len, &err),
                     LUO_OK);
    for (int32_t i = 0; i < rows[_i].n; i++)
        ck_assert_msg(len[i] == rows[_i].last[i], "%s, ties last: device %d", rows[_i].id, i);
}
END_TEST

/* HR4: 12 heads on 64 devices: only 12 have work. */
START_TEST(few_heads)
{
    int64_t weight[MOST], len[MOST];
    for (int32_t i = 0; i < MOST; i++) weight[i] = i < 16 ? 18 : 10;
    ck_assert_int_eq(luo_share_round(12, weight, MOST, len, NULL), LUO_OK);
    for (int32_t i = 0; i < MOST; i++) ck_assert_int_eq(len[i], i < 12);
}
END_TEST

/* HR7: what a linear program returns for 0.75. */
START_TEST(snap)
{
    const double share[] = {0.749999999, 0.250000001};
    int64_t weight[2];
    ck_assert_int_eq(luo_share_snap(share, 2, weight, NULL), LUO_OK);
    ck_assert_int_eq(weight[0], 786432);
    ck_assert_int_eq(weight[1], 262144);
}
END_TEST

static const struct {
    int64_t extent, weight[2];
    const char *says;
} bad[] = {
    {0, {1, 1}, "extent 0 cannot be cut; 1 to 2147483647 is expected."},
    {4, {1, -1}, "share -1 of device 1 is not usable; 0 to 2147483647 is expected."},
    {4, {0, 0}, "shares sum to 0; a sum of 1 to 2147483647 is expected."},
};

START_TEST(bad_row)
{
    int64_t len[2] = {7, 7};
    luo_err err = {0};
    ck_assert_int_eq(luo_share_round(bad[_i].extent, bad[_i].weight, 2, len, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, bad[_i].says);
    ck_assert_int_eq(len[0], 7);
    ck_assert_int_eq(luo_share_round_last(bad[_i].extent, bad[_i].weight, 2, len, &err),
                     LUO_EINPUT);
}
END_TEST

START_TEST(bad_shares)
{
    const double none[] = {0, 1e-9}, wrong[] = {0.5, -0.5};
    int64_t weight[2];
    luo_err err = {0};
    ck_assert_int_eq(luo_share_snap(none, 2, weight, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "all shares are 0; one above half a millionth is needed.");
    ck_assert_int_eq(luo_share_snap(wrong, 2, weight, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "share -0.5 of device 1 is not usable; 0 to 1 is expected.");
}
END_TEST

LUO_SUITE("hap.share", LUO_T_N(row, LUO_ROWS(rows)), LUO_T(few_heads), LUO_T(snap),
          LUO_T_N(bad_row, LUO_ROWS(bad)), LUO_T(bad_shares))
