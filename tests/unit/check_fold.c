/* check_fold.c: the ZeRO-1 fold (the computed vectors; K9 is the third row). */
#include "core/hspmd/fold.h"
#include "core/hspmd/resolve.h"
#include "tests/check_main.h"

static const struct {
    const char *param, *shape, *want; /* want: annotation or sentence */
} rows[] = {
    {"h=-1 [0-3]{-1:2,0:2} | [4]{}", "10x4", "h=0i [0,2,1,3]{0:(3,2,3,2)} | [4]{}"},
    {"h=-1 [0-3]{-1:4} | [4]{}", "6", "h=0i [0-3]{0:(2,2,1,1)} | [4]{}"},
    {"[0-7]{-1:4,0:2}", "16", "[0,2,4,6,1,3,5,7]{0:8}"},
    {"[0-3]{-1:2,1:2}", "8x8", "[0-3]{0:2,1:2}"},
    {"[0-3]{0:(2,1),-1:2}", "9", "[0-3]{0:(3,3,2,1)}"},
    {"[0-7]{1:2,-1:2,0:2}", "8x8", "[0,2,1,3,4,6,5,7]{1:2,0:4}"},
    {"[0-3]{0:4}", "10", "[0-3]{0:4}"},
    {"[0,1]{-1:2}", "0", "[0,1]{0:2}"},
    {"[0,1]{-1:2}", "1", "[0,1]{0:(1,0)}"},
    {"[0]{}", "", "ZeRO-1 needs a parameter without Partial, with h absent or -1 and at least one "
                  "dimension"},
    {"[0,1]{-2:2}", "4", "ZeRO-1 needs a parameter without Partial, with h absent or -1 and at "
                         "least one dimension"},
    {"h=0 [0]{} | [1]{}", "4", "ZeRO-1 needs a parameter without Partial, with h absent or -1 and "
                               "at least one dimension"},
    {"[0-2]{-1:3}", "1099511627775", "[0-2]{0:3}"},
    {"[0,1]{-1:2}", "1099511627775", "[0,1]{0:2}"},
    {"[0-3]{0:(2,1),-1:2}", "1099511627773", "annotation: share 366503875925 is above the limit "
                                             "2147483647"},
};

START_TEST(fold)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a = NULL, *z = NULL;
    luo_shape shape;
    luo_err err = {0};
    luo_str s = {0};
    ck_assert_int_eq(luo_ann_parse(arena, rows[_i].param, &a, NULL), LUO_OK);
    ck_assert_int_eq(luo_shape_parse(rows[_i].shape, &shape, NULL), LUO_OK);
    if (luo_fold_zero(arena, a, &shape, &z, &err) == LUO_OK)
        luo_ann_print(&s, z);
    else luo_str_add(&s, err.text);
    ck_assert_str_eq(luo_str_get(&s), rows[_i].want);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

/* Copies inside a group of neighbours are cut, the groups stay copies of each other; `keep`: what a
 * member has copies of besides is not cut. */
static const struct {
    int32_t size;
    bool keep;
    const char *param, *shape, *want;
} groups[] = {
    {2, false, "h=-1 [0]{} | [1]{} | [2]{} | [3]{}", "10", "h=-1 [0,1]{0:2} | [2,3]{0:2}"},
    {2, true, "h=-1 [0]{} | [1]{} | [2]{} | [3]{}", "10", "h=-1 [0,1]{0:2} | [2,3]{0:2}"},
    {3, false, "h=-1 [0]{} | [1]{} | [2]{} | [3]{} | [4]{} | [5]{}", "7",
     "h=-1 [0-2]{0:(3,2,2)} | [3-5]{0:(3,2,2)}"},
    {2, false, "h=-1 [0,1]{0:2} | [2,3]{0:2} | [4,5]{0:2} | [6,7]{0:2}", "8",
     "h=-1 [0,2,1,3]{0:4} | [4,6,5,7]{0:4}"},
    {2, false, "h=-1 [0,1]{-1:2} | [2,3]{-1:2} | [4,5]{-1:2} | [6,7]{-1:2}", "8",
     "h=-1 [0-3]{0:4} | [4-7]{0:4}"},
    {2, true, "h=-1 [0,1]{-1:2} | [2,3]{-1:2} | [4,5]{-1:2} | [6,7]{-1:2}", "8",
     "h=-1 [0-3]{0:2,-1:2} | [4-7]{0:2,-1:2}"},
    {2, false, "h=-1 [0,1]{0:2} | [2,3]{1:2} | [4,5]{0:2} | [6,7]{1:2}", "8x8",
     "members 0 to 1 are cut in different ways; copies cut alike are expected."},
    {2, false, "h=-1 [0,1]{0:2} | [2,3]{0:2} | [4,5]{0:2} | [6,7]{1:2}", "8x8",
     "members 2 to 3 are cut in different ways; copies cut alike are expected."},
};

START_TEST(fold_in_groups)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a = NULL, *z = NULL;
    luo_shape shape;
    luo_err err = {0};
    luo_str s = {0};
    ck_assert_int_eq(luo_ann_parse(arena, groups[_i].param, &a, NULL), LUO_OK);
    ck_assert_int_eq(luo_shape_parse(groups[_i].shape, &shape, NULL), LUO_OK);
    if (luo_fold_zero_groups(arena, a, &shape, groups[_i].size, groups[_i].keep, &z, &err) ==
        LUO_OK)
        luo_ann_print(&s, z);
    else luo_str_add(&s, err.text);
    ck_assert_str_eq(luo_str_get(&s), groups[_i].want);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST
LUO_SUITE("hspmd.fold", LUO_T_N(fold, LUO_ROWS(rows)), LUO_T_N(fold_in_groups, LUO_ROWS(groups)))
