/* check_ann.c: text of annotations; every sentence is provoked. */
#include "core/hspmd/ann.h"
#include "tests/check_main.h"

static const struct {
    const char *text, *canonical;
} canon[] = {
    {"[0,1,2,3]{0:2,-1:1,1:2}", "[0-3]{0:2,1:2}"},
    {"[3,2,1,0]{0:(2,2,2,2)}", "[3,2,1,0]{0:4}"},
    {"h=0:(2,2) [0]{}|[1]{}", "h=0 [0]{} | [1]{}"},
    {"[0-1,4-6,9]{0:(6,4,2,2,2,2)}", "[0,1,4-6,9]{0:(3,2,1,1,1,1)}"},
    {"h=0i[0,1]{0:2}|[2]{}", "h=0i [0,1]{0:2} | [2]{}"},
    {"h = -2\t[ 5 , 1 ] { -1 : 2 } | [0,2]{1:2}", "h=-2 [5,1]{-1:2} | [0,2]{1:2}"},
    {"h=1:(33,31) [0]{} | [7]{}", "h=1:(33,31) [0]{} | [7]{}"},
    {"h=0:(0,4) [0]{} | [7]{}", "h=0:(0,1) [0]{} | [7]{}"},
    {"[0]{-0:1}", "[0]{}"},
    {"[007,8]{0:(3,0)}", "[7,8]{0:(1,0)}"},
    {"[0-1048575]{-1:1048576}", "[0-1048575]{-1:1048576}"},
    {"[0,1]{0:(2147483647,1)}", "[0,1]{0:(2147483647,1)}"},
};

START_TEST(canonical)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_ann *a = NULL, *b = NULL;
    luo_str s = {0};
    ck_assert_int_eq(luo_ann_parse(arena, canon[_i].text, &a, &err), LUO_OK);
    luo_ann_print(&s, a);
    ck_assert_str_eq(luo_str_get(&s), canon[_i].canonical);
    ck_assert_int_eq(luo_ann_parse(arena, canon[_i].canonical, &b, &err), LUO_OK);
    ck_assert(luo_ann_equal(a, b));
    ck_assert_uint_eq(luo_ann_hash(a), luo_ann_hash(b));
    ck_assert_int_eq(luo_ann_check(a, &err), LUO_OK);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *id, *text;
    luo_status st;
    const char *says;
} wrong[] = {
    {"SYNTAX", "[0,1]{0:2", LUO_EPARSE, "annotation, column 10: expected '}', found the end"},
    {"SYNTAX", "", LUO_EPARSE, "annotation, column 1: expected '[', found the end"},
    {"SYNTAX", "[0,1]{0:2} x", LUO_EPARSE,
     "annotation, column 12: expected '|' or the end, found 'x'"},
    {"SYNTAX", "[0]{0:(3)}", LUO_EPARSE,
     "annotation, column 9: expected ',' and a second share, found ')'"},
    {"SYNTAX", "[0,]{-1=2}", LUO_EPARSE, "annotation, column 4: expected a device id, found ']'"},
    {"SYNTAX", "[0]{1=2}", LUO_EPARSE, "annotation, column 6: expected ':' after key, found '='"},
    {"SYNTAX", "[0]{0:- 1}", LUO_EPARSE,
     "annotation, column 7: expected a count or '(', found '-'"},
    {"SYNTAX", "h0 [0]{}", LUO_EPARSE, "annotation, column 2: expected '=' after h, found '0'"},
    {"SYNTAX", "h=0i:(2,1) [0]{} | [1]{}", LUO_EPARSE,
     "annotation, column 5: expected '[', found ':'"},
    {"SYNTAX", "[0]{}\n", LUO_EPARSE,
     "annotation, column 6: expected '|' or the end, found byte 0x0a"},
    {"SYNTAX", "[9999999]{", LUO_EPARSE, "annotation, column 11: expected a key, found the end"},
    {"LIMIT", "[0,4294967296]{0:2}", LUO_E2BIG,
     "annotation: device id 4294967296 is above the limit 1048575"},
    {"LIMIT", "[0,1]{0:(2147483648,1)}", LUO_E2BIG,
     "annotation: share 2147483648 is above the limit 2147483647"},
    {"LIMIT", "[0]{8:1}", LUO_E2BIG, "annotation: key 8 is above the limit 7"},
    {"LIMIT", "h=8 [0]{}|[1]{}", LUO_E2BIG, "annotation: h 8 is above the limit 7"},
    {"LIMIT", "[0]{0:1048577}", LUO_E2BIG, "annotation: count 1048577 is above the limit 1048576"},
    {"LIMIT", "[0]{-99999999999999999999:1}", LUO_E2BIG,
     "annotation: key -99999999999999999999 is below the limit -2147483647"},
    {"LIMIT", "[0]{-2:1,-1:1,0:1,1:1,2:1,3:1,4:1,5:1,6:1,7:1,0:1}", LUO_E2BIG,
     "annotation: 11 entries in subgroup 0 are above the limit 10"},
    {"RANGE", "[3-1]{0:3}", LUO_EINPUT,
     "annotation: device range 3-1 goes down; write the ids one by one"},
    {"NODEV", "[]{}", LUO_EINPUT, "annotation: subgroup 0 has no devices"},
    {"NODEV", "h=0 [0,0]{}|[]{}", LUO_EINPUT, "annotation: subgroup 1 has no devices"},
    {"DUPDEV", "[0,0]{0:2}", LUO_EINPUT, "annotation: device 0 is listed twice (subgroup 0)"},
    {"DUPDEV", "h=0 [1,3]{0:2}|[3]{}", LUO_EINPUT,
     "annotation: device 3 is listed twice (subgroups 0 and 1)"},
    {"DUPDEV", "[0-1048575,7,0-1048575]{0:2}", LUO_EINPUT,
     "annotation: device 7 is listed twice (subgroup 0)"},
    {"KEY", "[0,1]{-3:2}", LUO_EINPUT,
     "annotation: -3 is neither a dimension nor -1 (duplicate) nor -2 (partial)"},
    {"KEY", "h=-3 [0]{} | [1]{}", LUO_EINPUT,
     "annotation: -3 is neither a dimension nor -1 (duplicate) nor -2 (partial)"},
    {"DUPKEY", "[0-3]{0:2,0:2}", LUO_EINPUT,
     "annotation: key 0 appears twice in subgroup 0; merge the entries or permute the device "
     "list"},
    {"ZERO", "[0,1]{0:0}", LUO_EINPUT, "annotation: key 0 in subgroup 0 has count 0"},
    {"COUNT", "[0-3]{0:2}", LUO_EINPUT,
     "annotation: subgroup 0 lists 4 devices but its counts multiply to 2"},
    {"COUNT", "[0]{0:1048576,1:1048576}", LUO_EINPUT,
     "annotation: subgroup 0 lists 1 devices but its counts multiply to above 2147483647"},
    {"SHARES", "[0,1]{0:(0,0)}", LUO_EINPUT,
     "annotation: shares of key 0 in subgroup 0 are all zero"},
    {"SHAREKEY", "[0,1]{-1:(2,1)}", LUO_EINPUT,
     "annotation: shares are allowed on a split dimension only, not on -1"},
    {"SHAREKEY", "[0,1]{-2:(1,1)}", LUO_EINPUT,
     "annotation: shares are allowed on a split dimension only, not on -2"},
    {"HMISS", "[0]{} | [1]{}", LUO_EINPUT, "annotation: 2 subgroups need h="},
    {"HMISS", "[0]{}|[1]{}|[2]{}", LUO_EINPUT, "annotation: 3 subgroups need h="},
    {"HONE", "h=0 [0,1]{0:2}", LUO_EINPUT, "annotation: h=0 with a single subgroup; drop h"},
    {"INNER", "h=-1i [0]{} | [1]{}", LUO_EINPUT,
     "annotation: the inner pattern needs h >= 0 and no top shares"},
    {"HSHARES", "h=0:(2,1,1) [0]{} | [1]{}", LUO_EINPUT,
     "annotation: 3 top shares for 2 subgroups"},
    {"HSHARES", "h=-1:(2,1) [0]{} | [1]{}", LUO_EINPUT,
     "annotation: top shares need h >= 0, not h=-1"},
    {"HSHARES", "h=0:(0,0) [0]{} | [1]{}", LUO_EINPUT, "annotation: the top shares are all zero"},
};

START_TEST(refused)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_ann *a = NULL;
    ck_assert_msg(luo_ann_parse(arena, wrong[_i].text, &a, &err) == wrong[_i].st, "%s %s",
                  wrong[_i].id, err.text);
    ck_assert_str_eq(err.text, wrong[_i].says);
    ck_assert_int_eq(err.st, wrong[_i].st);
    ck_assert_ptr_null(a);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *text, *shape;
    luo_bind_mode mode;
    const char *says;
} binds[] = {
    {"[0,1]{2:2}", "4x4", LUO_BIND_ROUND, "tensor 'x': key 2, but it has 2 dimensions"},
    {"h=1 [0]{} | [1]{}", "4", LUO_BIND_ROUND, "tensor 'x': key 1, but it has 1 dimensions"},
    {"[0,1]{0:2}", "", LUO_BIND_ROUND, "tensor 'x': key 0, but it has 0 dimensions"},
    {"[0,1]{-1:2}", "", LUO_BIND_EXACT, ""},
    {"[0-2]{0:3}", "10", LUO_BIND_ROUND, ""},
    {"[0-2]{0:3}", "10", LUO_BIND_EXACT,
     "tensor 'x': dimension 0 of size 10 does not cut exactly by 3"},
    {"[0-2]{0:3}", "9", LUO_BIND_EXACT, ""},
    {"[0,1]{0:(3,1)}", "4x4", LUO_BIND_EXACT, ""},
    {"[0,1]{0:(3,1)}", "6x4", LUO_BIND_EXACT,
     "tensor 'x': dimension 0 of size 6 does not cut exactly by 4"},
    {"[0,1]{0:(1,0)}", "5", LUO_BIND_EXACT, ""},
    {"[0,1]{0:2}", "0", LUO_BIND_EXACT,
     "tensor 'x': dimension 0 of size 0 does not cut exactly by 2"},
    {"h=0 [0,1]{0:2} | [2]{}", "6", LUO_BIND_EXACT,
     "tensor 'x': dimension 0 of size 3 does not cut exactly by 2"},
    {"h=0:(2,1) [0,1]{0:2} | [2]{}", "6", LUO_BIND_EXACT, ""},
    {"h=0:(1,0) [0,1]{0:2} | [2,3]{0:2}", "6", LUO_BIND_EXACT, ""},
    {"h=0:(2,1) [0,1]{1:2} | [2]{}", "5x2", LUO_BIND_EXACT,
     "tensor 'x': dimension 0 of size 5 does not cut exactly by 3"},
    {"h=0i [0,1]{0:2} | [2]{}", "8", LUO_BIND_EXACT, ""},
    {"h=0i [0,1]{0:2} | [2]{}", "6", LUO_BIND_EXACT,
     "tensor 'x': dimension 0 of size 3 does not cut exactly by 2"},
    {"[0]{}", "1099511627775x1099511627775", LUO_BIND_ROUND,
     "tensor 'x': more than 9223372036854775807 elements"},
};

START_TEST(bind)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_ann *a = NULL;
    luo_shape shape;
    ck_assert_int_eq(luo_ann_parse(arena, binds[_i].text, &a, &err), LUO_OK);
    ck_assert_int_eq(luo_shape_parse(binds[_i].shape, &shape, &err), LUO_OK);
    const luo_status st = luo_ann_bind(a, &shape, binds[_i].mode, "x", &err);
    ck_assert_str_eq(err.text, binds[_i].says);
    ck_assert_int_eq(st == LUO_OK, !*binds[_i].says);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *text, *ann;
    int64_t len[2];
    const char *says;
} members[] = {
    {"7x2", "h=0 [0]{} | [1]{}", {5, 2}, ""},
    {"7x2", "h=0 [0]{} | [1]{}", {5, 3},
     "tensor 'x': the sizes of the members sum to 8, dimension 0 has 7"},
    {"7x2", "h=0i [0]{} | [1]{}", {5, 2},
     "tensor 'x': one size per member needs h >= 0, neither inner nor with top shares"},
    {"7x2", "h=-1 [0]{} | [1]{}", {5, 2},
     "tensor 'x': one size per member needs h >= 0, neither inner nor with top shares"},
    {"7x2", "h=0 [0]{} | [1]{}", {8, -1},
     "tensor 'x': member 1 has size -1; sizes are 0 to 1099511627775"},
};

START_TEST(member_lengths)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_ann *a = NULL;
    luo_shape shape;
    ck_assert_int_eq(luo_ann_parse(arena, members[_i].ann, &a, &err), LUO_OK);
    ck_assert_int_eq(luo_shape_parse(members[_i].text, &shape, &err), LUO_OK);
    shape.member_len = members[_i].len;
    luo_ann_bind(a, &shape, LUO_BIND_ROUND, "x", &err);
    ck_assert_str_eq(err.text, members[_i].says);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *text;
    int32_t rank;
    const char *says;
} shapes[] = {
    {"8x4", 2, ""},
    {"", 0, ""},
    {"0", 1, ""},
    {"8x", -1, "shape `8x`, column 3: a size is expected."},
    {"8y4", -1, "shape `8y4`, column 2: `x` is expected."},
    {"1099511627776", -1, "shape `1099511627776`: sizes are 0 to 1099511627775."},
    {"1x1x1x1x1x1x1x1x1", -1, "shape `1x1x1x1x1x1x1x1x1`: 8 dimensions are the limit."},
};

START_TEST(shape_text)
{
    luo_err err = {0};
    luo_shape s = {.rank = 99};
    luo_shape_parse(shapes[_i].text, &s, &err);
    ck_assert_str_eq(err.text, shapes[_i].says);
    ck_assert_int_eq(s.rank, shapes[_i].rank < 0 ? 99 : shapes[_i].rank);
}
END_TEST

/* What the text cannot say: structures built by hand. */
START_TEST(by_hand)
{
    const int32_t dev[] = {0, 1, -1, 1 << 20};
    const luo_ent minus = {.key = 0, .n = -1}, two = {.key = 0, .n = 2}, key9 = {.key = 9, .n = 2};
    const struct {
        luo_grp grp;
        int32_t u;
        const char *says;
    } rows[] = {
        {{2, dev, 1, &two}, 1, ""},
        {{2, dev, 1, &minus}, 1, "annotation: key 0 in subgroup 0 has count -1"},
        {{2, dev + 1, 1, &two}, 1, "annotation: device id -1 is below the limit 0"},
        {{1, dev + 3, 0, NULL}, 1, "annotation: device id 1048576 is above the limit 1048575"},
        {{2, dev, 1, &key9}, 1, "annotation: key 9 is above the limit 7"},
        {{2, dev, 1, &two}, 0, "annotation: it has no subgroups"},
    };
    for (int k = 0; k < LUO_ROWS(rows); k++) {
        luo_err err = {0};
        const luo_ann a = {.u = rows[k].u, .h = LUO_H_NONE, .grp = &rows[k].grp};
        luo_ann_check(&a, &err);
        ck_assert_str_eq(err.text, rows[k].says);
    }
}
END_TEST

START_TEST(questions)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a = NULL, *b = NULL;
    ck_assert_int_eq(luo_ann_parse(arena, "h=0 [0-5]{0:(1,2,3),-2:2} | [6,7]{1:2}", &a, NULL),
                     LUO_OK);
    const luo_grp *g = &a->grp[0];
    ck_assert_int_eq(luo_ann_ndev(a), 8);
    ck_assert_int_eq(luo_grp_count(g, 0), 3);
    ck_assert_int_eq(luo_grp_count(g, 1), 1);
    ck_assert_int_eq(luo_grp_share(g, 0)[2], 3);
    ck_assert_ptr_null(luo_grp_share(g, LUO_PARTIAL));
    ck_assert_int_eq(luo_grp_stride(g, 0), 2);
    ck_assert_int_eq(luo_grp_stride(g, 5), 0);
    ck_assert_int_eq(luo_grp_coord(g, 5, 0), 2);
    ck_assert_int_eq(luo_grp_coord(g, 5, LUO_PARTIAL), 1);
    ck_assert_int_eq(luo_grp_coord(g, 5, 1), 0);
    ck_assert(luo_ann_has_partial(a));
    ck_assert_int_eq(luo_ann_parse(arena, "h=0 [0-5]{0:(1,2,3),-1:2} | [6,7]{1:2}", &b, NULL),
                     LUO_OK);
    ck_assert(!luo_ann_has_partial(b));
    ck_assert(!luo_ann_equal(a, b));
    ck_assert_uint_ne(luo_ann_hash(a), luo_ann_hash(b));
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("hspmd.ann", LUO_T_N(canonical, LUO_ROWS(canon)), LUO_T_N(refused, LUO_ROWS(wrong)),
          LUO_T_N(bind, LUO_ROWS(binds)), LUO_T_N(member_lengths, LUO_ROWS(members)),
          LUO_T_N(shape_text, LUO_ROWS(shapes)), LUO_T(by_hand), LUO_T(questions))
