/* check_region.c: cuts and regions; each row is a case; each sentence a
 * user can meet is provoked. */
#include "core/hspmd/bounds.h"
#include "core/hspmd/region.h"
#include "tests/check_main.h"

enum { CUT_MAX = 4 };
static const struct {
    const char *id;
    int64_t len;
    int32_t n;
    uint32_t share[CUT_MAX];
    int64_t want[CUT_MAX + 1];
} cuts[] = {
    {"B1", 10, 4, {1, 1, 1, 1}, {0, 3, 6, 8, 10}},
    {"B2", 8, 2, {3, 1}, {0, 6, 8}},
    {"B3", 10, 3, {1, 1, 1}, {0, 4, 7, 10}},
    {"B4", 9, 3, {6, 4, 0}, {0, 5, 9, 9}},
    {"B5", 3, 4, {1, 1, 1, 1}, {0, 1, 2, 3, 3}},
    {"B6", 2, 2, {3, 1}, {0, 2, 2}},
    {"B7", 100, 3, {3, 3, 1}, {0, 43, 86, 100}},
    {"B8", 5, 3, {1, 0, 1}, {0, 3, 3, 5}},
    {"B9", 6656, 4, {3, 3, 2, 2}, {0, 1997, 3994, 5325, 6656}},
    {"B10", 1, 2, {1, 1}, {0, 1, 1}},
    {"B11", 11, 4, {2, 2, 2, 1}, {0, 3, 6, 9, 11}},
    {"wide", (INT64_C(1) << 40) - 1, 2, {2147483647, 2147483646}, {0, 549755814016, 1099511627775}},
    {"none", 0, 2, {3, 1}, {0, 0, 0}},
};

START_TEST(cut)
{
    int64_t got[CUT_MAX + 1];
    luo_bounds_cut(cuts[_i].len, cuts[_i].n, cuts[_i].share, got);
    for (int32_t k = 0; k <= cuts[_i].n; k++)
        ck_assert_msg(got[k] == cuts[_i].want[k], "%s: bound %d is %lld", cuts[_i].id, k,
                      (long long)got[k]);
    for (int32_t k = 1; k < cuts[_i].n; k++)
        if (cuts[_i].share[k] != cuts[_i].share[0]) return;
    luo_bounds_cut(cuts[_i].len, cuts[_i].n, NULL, got); /* even shares = no shares */
    for (int32_t k = 0; k <= cuts[_i].n; k++) ck_assert_int_eq(got[k], cuts[_i].want[k]);
}
END_TEST

static const struct {
    const char *id, *ann, *shape, *holdings, *feet;
} grids[] = {
    {"G1", "[0-3]{0:2,1:2}", "4x4",
     "0 [0:2)x[0:2); 1 [0:2)x[2:4); 2 [2:4)x[0:2); 3 [2:4)x[2:4)", "[0:4)x[0:4)"},
    {"G2", "h=0i [0,1]{0:2} | [2]{}", "8", "0 [0:2); 1 [4:6); 2 [2:4)+[6:8)",
     "[0:2)+[4:6) | [2:4)+[6:8)"},
    {"G3", "h=0:(3,1) [0,1]{0:2} | [2]{}", "16", "0 [0:6); 1 [6:12); 2 [12:16)",
     "[0:12) | [12:16)"},
    {"G4", "h=0i [0-2]{0:3} | [3,4]{0:2}", "12",
     "0 [0:2); 1 [4:5)+[6:7); 2 [8:10); 3 [2:4)+[5:6); 4 [7:8)+[10:12)",
     "[0:2)+[4:5)+[6:7)+[8:10) | [2:4)+[5:6)+[7:8)+[10:12)"},
    {"G5", "[0-3]{0:4}", "3", "0 [0:1); 1 [1:2); 2 [2:3); 3 -", "[0:3)"},
    {"G6", "h=0 [0-2]{0:3} | [3]{}", "10", "0 [0:2); 1 [2:4); 2 [4:5); 3 [5:10)",
     "[0:5) | [5:10)"},
    {"G7", "h=-2 [5,1]{-1:2} | [0,2]{1:2}", "2x6",
     "5 [0:2)x[0:6); 1 [0:2)x[0:6); 0 [0:2)x[0:3); 2 [0:2)x[3:6)", "[0:2)x[0:6) | [0:2)x[0:6)"},
    {"G8", "h=0i [0]{} | [1]{}", "5", "0 [0:3); 1 [3:5)", "[0:3) | [3:5)"},
    {"merge", "h=0i [0-3]{0:4} | [4]{}", "4", "0 [0:1); 1 [1:2); 2 [2:3); 3 [3:4); 4 -",
     "[0:4) | -"},
    {"rank0", "[3,4]{-1:2}", "", "3 ; 4 ", ""},
    {"zero", "[0,1]{0:2}", "4x0", "0 -; 1 -", "-"},
};

static void print_holding(luo_str *s, int32_t dev, const luo_region *r)
{
    if (s->len) luo_str_add(s, "; ");
    luo_str_addf(s, "%d ", dev);
    luo_region_print(s, r);
}

/* luo_holdings_make, luo_region_of and luo_region_footprint agree with the table. */
START_TEST(grid)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a = NULL;
    luo_shape shape;
    luo_holdings h;
    luo_str all = {0}, single = {0}, feet = {0};
    ck_assert_int_eq(luo_ann_parse(arena, grids[_i].ann, &a, NULL), LUO_OK);
    ck_assert_int_eq(luo_shape_parse(grids[_i].shape, &shape, NULL), LUO_OK);
    ck_assert_int_eq(luo_ann_bind(a, &shape, LUO_BIND_ROUND, "x", NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(arena, a, &shape, &h, NULL), LUO_OK);
    for (int32_t k = 0; k < h.n; k++) {
        luo_region r;
        ck_assert_int_eq(luo_region_of(arena, a, &shape, h.at[k].u, h.at[k].i, &r, NULL), LUO_OK);
        print_holding(&all, h.at[k].dev, &h.at[k].region);
        print_holding(&single, a->grp[h.at[k].u].dev[h.at[k].i], &r);
    }
    for (int32_t u = 0; u < a->u; u++) {
        luo_region f;
        ck_assert_int_eq(luo_region_footprint(arena, a, &shape, u, &f, NULL), LUO_OK);
        if (u) luo_str_add(&feet, " | ");
        luo_region_print(&feet, &f);
    }
    ck_assert_str_eq(luo_str_get(&all), grids[_i].holdings);
    ck_assert_str_eq(luo_str_get(&single), grids[_i].holdings);
    ck_assert_str_eq(luo_str_get(&feet), grids[_i].feet);
    luo_str_free(&all);
    luo_str_free(&single);
    luo_str_free(&feet);
    luo_arena_free(arena);
}
END_TEST

START_TEST(partial)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a = NULL;
    const luo_shape shape = {.rank = 1, .dim = {4}};
    luo_holdings h;
    ck_assert_int_eq(luo_ann_parse(arena, "h=-1 [4-7]{-2:2,0:2} | [9]{}", &a, NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(arena, a, &shape, &h, NULL), LUO_OK);
    static const int want[5][5] = {
        {4, 0, 0, 0, 2}, {5, 0, 1, 0, 2}, {6, 0, 2, 1, 2}, {7, 0, 3, 1, 2}, {9, 1, 0, 0, 1}};
    ck_assert_int_eq(h.n, 5);
    for (int k = 0; k < 5; k++) {
        ck_assert_int_eq(h.at[k].dev, want[k][0]);
        ck_assert_int_eq(h.at[k].u, want[k][1]);
        ck_assert_int_eq(h.at[k].i, want[k][2]);
        ck_assert_int_eq(h.at[k].part, want[k][3]);
        ck_assert_int_eq(h.at[k].parts, want[k][4]);
    }
    luo_arena_free(arena);
}
END_TEST

/* One length per member: T is their prefix sum. */
START_TEST(member_lengths)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a = NULL;
    const int64_t len[] = {7, 2};
    const luo_shape shape = {.rank = 1, .dim = {9}, .member_len = len};
    luo_holdings h;
    luo_region r;
    luo_str s = {0};
    ck_assert_int_eq(luo_ann_parse(arena, "h=0 [0,1]{0:2} | [2]{}", &a, NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(arena, a, &shape, &h, NULL), LUO_OK);
    for (int32_t k = 0; k < h.n; k++) print_holding(&s, h.at[k].dev, &h.at[k].region);
    ck_assert_str_eq(luo_str_get(&s), "0 [0:4); 1 [4:7); 2 [7:9)");
    luo_str_clear(&s);
    ck_assert_int_eq(luo_region_footprint(arena, a, &shape, 0, &r, NULL), LUO_OK);
    luo_region_print(&s, &r);
    ck_assert_int_eq(luo_region_of(arena, a, &shape, 0, 1, &r, NULL), LUO_OK);
    print_holding(&s, 1, &r);
    ck_assert_str_eq(luo_str_get(&s), "[0:7); 1 [4:7)");
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *text;
    int32_t rank;
    int64_t volume; /* -1: LUO_EPARSE with this sentence */
    const char *says;
} texts[] = {
    {"[0:2)x[4:6)+[7:8)", 2, 6, ""},
    {"-", 2, 0, ""},
    {"", 0, 1, ""},
    {"-", 0, 0, ""},
    {"[0:1099511627776)", 1, INT64_C(1099511627776), ""},
    {"[0:2", 1, -1, "region `[0:2`, column 5: `)` is expected."},
    {"[0:2)", 2, -1, "region `[0:2)`, column 6: `x` is expected."},
    {"[0:b)", 1, -1, "region `[0:b)`, column 4: an index is expected."},
    {"[0:1099511627777)", 1, -1,
     "region `[0:1099511627777)`, column 4: indices end at 1099511627776."},
    {"[0:2)x[1:2)", 1, -1, "region `[0:2)x[1:2)` has more than 1 dimensions; cut it at column 6."},
    {"[0:2)+[2:3)", 1, -1,
     "region `[0:2)+[2:3)`, column 1: intervals must ascend with gaps; sort and merge them."},
    {"[0:1)x[2:2)", 2, -1,
     "region `[0:1)x[2:2)`, column 7: intervals must ascend with gaps; sort and merge them."},
};

START_TEST(parse_row)
{
    luo_arena *arena = luo_arena_new(4096);
    luo_region r = {.rank = 99};
    luo_err err = {0};
    luo_str s = {0};
    const luo_status st = luo_region_parse(arena, texts[_i].text, texts[_i].rank, &r, &err);
    ck_assert_int_eq(st, texts[_i].volume < 0 ? LUO_EPARSE : LUO_OK);
    ck_assert_str_eq(err.text, texts[_i].says);
    if (st == LUO_OK) {
        ck_assert_int_eq(luo_region_volume(&r), texts[_i].volume);
        luo_region_print(&s, &r);
        ck_assert_str_eq(luo_str_get(&s), texts[_i].text);
    }
    if (st != LUO_OK) ck_assert_int_eq(r.rank, 99); /* untouched */
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

static void add_box(void *ctx, const int64_t *lo, const int64_t *hi)
{
    luo_str_addf(ctx, "%d:%dx%d:%d ", (int)lo[0], (int)hi[0], (int)lo[1], (int)hi[1]);
}

START_TEST(boxes)
{
    luo_arena *arena = luo_arena_new(0);
    luo_region r;
    luo_str s = {0};
    int64_t lo[2], hi[2];
    ck_assert_int_eq(luo_region_parse(arena, "[0:2)+[3:4)x[4:6)+[7:8)", 2, &r, NULL), LUO_OK);
    luo_region_each_box(&r, add_box, &s);
    ck_assert_str_eq(luo_str_get(&s), "0:2x4:6 0:2x7:8 3:4x4:6 3:4x7:8 ");
    luo_region_box(&r, lo, hi);
    ck_assert(lo[0] == 0 && hi[0] == 4 && lo[1] == 4 && hi[1] == 8);
    luo_str_clear(&s);
    ck_assert_int_eq(luo_region_parse(arena, "-", 2, &r, NULL), LUO_OK);
    luo_region_each_box(&r, add_box, &s);
    ck_assert_str_eq(luo_str_get(&s), "");
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

START_TEST(copies_have_spans_of_their_own)
{
    static const char *const text[] = {"[0:2)x[1:3)+[5:8)", "-"};
    luo_arena *arena = luo_arena_new(0);
    for (int i = 0; i < 2; i++) {
        luo_region from, to;
        ck_assert_int_eq(luo_region_parse(arena, text[i], 2, &from, NULL), LUO_OK);
        ck_assert_int_eq(luo_region_copy(arena, &from, &to, NULL), LUO_OK);
        ck_assert(luo_region_equal(&from, &to));
        ck_assert(from.empty || (from.dim[0].at != to.dim[0].at && from.dim[1].at != to.dim[1].at));
    }
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("hspmd.region", LUO_T_N(cut, LUO_ROWS(cuts)), LUO_T_N(grid, LUO_ROWS(grids)),
          LUO_T(partial), LUO_T(member_lengths), LUO_T_N(parse_row, LUO_ROWS(texts)), LUO_T(boxes),
          LUO_T(copies_have_spans_of_their_own))
