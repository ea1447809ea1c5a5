/* check_deduce.c: deduction vectors (the computed vectors; K10 is D16, K16 is D07), every
 * sentence, permute, complete form and reshape. */
#include "core/graph/deduce.h"
#include "tests/check_main.h"
#include "tests/parked/deduce_reshape.h"

static const luo_ann *parse(luo_arena *arena, const char *text)
{
    const luo_ann *a = NULL;
    luo_err err = {0};
    ck_assert_msg(luo_ann_parse(arena, text, &a, &err) == LUO_OK, "%s: %s", text, err.text);
    return a;
}

/* The annotation, or the sentence of the refusal. */
static void check_result(luo_status st, const luo_ann *a, const luo_err *err, const char *id,
                         const char *want)
{
    luo_str s = {0};
    if (st == LUO_OK) luo_ann_print(&s, a);
    else luo_str_add(&s, err->text);
    ck_assert_msg(strcmp(luo_str_get(&s), want) == 0, "%s: %s", id, luo_str_get(&s));
    if (st == LUO_OK) {
        ck_assert_int_eq(luo_ann_check(a, NULL), LUO_OK);
        luo_arena *arena = luo_arena_new(0);
        ck_assert(luo_ann_equal(a, parse(arena, want)));
        luo_arena_free(arena);
    }
    luo_str_free(&s);
}

#define SAYS(text) "op 'y': " text "; insert a Reshard"
static const struct {
    const char *id;
    struct {
        const char *letters, *ann;
    } x[3];
    const char *out, *want;
} einsums[] = {
    {"D01", {{"ik", "[0-3]{0:2,-1:2}"}, {"kj", "[0-3]{-1:2,1:2}"}}, "ij", "[0-3]{0:2,1:2}"},
    {"D02", {{"ik", "[0-3]{0:2,1:2}"}, {"kj", "[0-3]{-1:2,0:2}"}}, "ij", "[0-3]{0:2,-2:2}"},
    {"D03", {{"ik", "[0-3]{-1:4}"}, {"kj", "[0-3]{-1:4}"}}, "ij", "[0-3]{-1:4}"},
    {"D04", {{"ik", "[0,1]{1:2}"}, {"kj", "[0,1]{1:2}"}}, "ij",
     SAYS("D_CUT: letter k is cut 2 by 'a' but 1 by 'b' on device 0")},
    {"D05", {{"ik", "h=0 [0,1]{-1:2} | [2]{}"}, {"kj", "h=-1 [0,1]{1:2} | [2]{}"}}, "ij",
     "h=0 [0,1]{1:2} | [2]{}"},
    {"D06", {{"mi", "h=0 [0,1]{-1:2} | [2]{}"}, {"mj", "h=0 [0,1]{1:2} | [2]{}"}}, "ij",
     "h=-2 [0,1]{1:2} | [2]{}"},
    {"D07", {{"ik", "h=-1 [0]{} | [1]{}"}, {"kj", "h=1 [0]{} | [1]{}"}}, "ij",
     "h=1 [0]{} | [1]{}"},
    {"D08", {{"bik", "[0-7]{0:2,2:2,-1:2}"}, {"bkj", "[0-7]{0:2,1:2,2:2}"}}, "bij",
     "[0-7]{0:2,-2:2,2:2}"},
    {"D09", {{"ik", "[0,1]{1:(3,1)}"}, {"kj", "[0,1]{0:2}"}}, "ij",
     SAYS("D_CUT: letter k is cut (3,1) by 'a' but 2 by 'b' on device 0")},
    {"D10", {{"ik", "[0-3]{0:2,-1:2}"}, {"kj", "[0,2,1,3]{1:2,-1:2}"}}, "ij", "[0-3]{0:2,1:2}"},
    {"D11", {{"ij", "[0-3]{0:2,1:2}"}}, "i", "[0-3]{0:2,-2:2}"},
    {"D12", {{"ij", "h=0i [0,1]{0:2} | [2]{}"}, {"ij", "h=0 [0,1]{0:2} | [2]{}"}}, "ij",
     SAYS("D_TOP: subgroups cut letter i of 'a' and of 'b' differently")},
    {"D13", {{"t", "[0,1]{-1:2}"}, {"vh", "[0,1]{0:2}"}}, "th", "[0,1]{-2:2}"},
    {"D14", {{"t", "[0,1]{-1:2}"}, {"vh", "[0,1]{1:2}"}}, "th", "[0,1]{1:2}"},
    {"D15", {{"t", "h=0 [0,1]{-1:2} | [2]{}"}, {"vh", "h=-1 [0,1]{0:2} | [2]{}"}}, "th",
     "h=0 [0,1]{-2:2} | [2]{}"},
    {"D16", {{"ik", "[0-3]{0:2,1:2}"}, {"kj", "[0-3]{1:2,0:2}"}}, "ij",
     SAYS("D_GRID: a block of the result is computed by no device of subgroup 0")},
    {"D17", {{"ik", "[0-3]{1:4}"}, {"kj", "[0-3]{0:2,-1:2}"}}, "ij",
     SAYS("D_CUT: letter k is cut 4 by 'a' but 2 by 'b' on device 0")},
    {"D18", {{"ikl", "[0-7]{1:2,0:2,2:2}"}, {"klj", "[0-7]{0:2,-1:2,1:2}"}}, "ij",
     "[0,1,4,5,2,3,6,7]{0:2,-2:4}"},
    {"D19", {{"ij", "[0-7]{-1:2,0:2,-2:2}"}}, "ij", SAYS("D_PARTIAL: 'a' is Partial")},
    {"D20", {{"ij", "h=0:(2,1) [0]{} | [1]{}"}, {"ij", "h=0 [0]{} | [1]{}"}}, "ij",
     SAYS("D_TOP: subgroups cut letter i of 'a' and of 'b' differently")},
    /* 4 x 4 parts to be summed, of 4 devices */
    {"two sums", {{"ab", "[0-3]{0:4}"}, {"cd", "[0-3]{0:4}"}}, "bd",
     SAYS("D_GRID: a block of the result is computed by no device of subgroup 0")},
    {"more sums", {{"ab", "[0-5]{0:3,-1:2}"}, {"cd", "[0-5]{0:3,-1:2}"}}, "bd",
     SAYS("D_GRID: a block of the result is computed by no device of subgroup 0")},
    /* plain matmul, all pairs of h */
    {"h 0 -1", {{"ik", "h=0 [0]{} | [1]{}"}, {"kj", "h=-1 [0]{} | [1]{}"}}, "ij",
     "h=0 [0]{} | [1]{}"},
    {"h 1 0", {{"ik", "h=1 [0]{} | [1]{}"}, {"kj", "h=0 [0]{} | [1]{}"}}, "ij",
     "h=-2 [0]{} | [1]{}"},
    {"h -1 -1", {{"ik", "h=-1 [0]{} | [1]{}"}, {"kj", "h=-1 [0]{} | [1]{}"}}, "ij",
     "h=-1 [0]{} | [1]{}"},
    {"h 0 1", {{"ik", "h=0 [0]{} | [1]{}"}, {"kj", "h=1 [0]{} | [1]{}"}}, "ij",
     SAYS("D_TOP: subgroups cut letter i of 'a' but letter j of 'b'")},
    {"h 0 0", {{"ik", "h=0 [0]{} | [1]{}"}, {"kj", "h=0 [0]{} | [1]{}"}}, "ij",
     SAYS("D_TOP: subgroups cut letter i of 'a' but letter k of 'b'")},
    {"h 1 1", {{"ik", "h=1 [0]{} | [1]{}"}, {"kj", "h=1 [0]{} | [1]{}"}}, "ij",
     SAYS("D_TOP: subgroups cut letter k of 'a' but letter j of 'b'")},
    {"h 1 -1", {{"ik", "h=1 [0]{} | [1]{}"}, {"kj", "h=-1 [0]{} | [1]{}"}}, "ij",
     SAYS("D_TOP: subgroups cut letter k of 'a' but not of 'b'")},
    {"h -1 0", {{"ik", "h=-1 [0]{} | [1]{}"}, {"kj", "h=0 [0]{} | [1]{}"}}, "ij",
     SAYS("D_TOP: subgroups cut letter k of 'b' but not of 'a'")},
    {"top shares", {{"ik", "h=0:(2,1) [0]{} | [1]{}"}, {"kj", "h=-1 [0]{} | [1]{}"}}, "ij",
     "h=0:(2,1) [0]{} | [1]{}"},
    {"h=-2", {{"i", "h=-2 [0]{} | [1]{}"}}, "i", SAYS("D_PARTIAL: 'a' is Partial")},
    {"union", {{"i", "[0,1]{0:2}"}, {"i", "h=0 [0]{} | [1]{}"}}, "i",
     SAYS("D_UNION: 'a' has 1 subgroups but 'b' has 2")},
    {"devices", {{"i", "[0,1]{0:2}"}, {"i", "[0,2]{0:2}"}}, "i",
     SAYS("D_DEVICES: device 1 of subgroup 0 is in 'a' but not in 'b'")},
    {"devices", {{"i", "[0,1]{0:2}"}, {"i", "[0-2]{0:3}"}}, "i",
     SAYS("D_DEVICES: device 2 of subgroup 0 is in 'b' but not in 'a'")},
    {"place", {{"i", "[0,1]{0:2}"}, {"i", "[1,0]{0:2}"}}, "i",
     SAYS("D_CUT: letter i: part 0 by 'a' but part 1 by 'b' on device 0")},
    {"unequal grid", {{"ik", "[0-5]{0:2,-1:3}"}, {"kj", "[0,1,3,2,4,5]{1:2,-1:3}"}}, "ij",
     SAYS("D_GRID: blocks of the result are computed by 1 to 2 devices of subgroup 0")},
    {"too many", {{"i", "[0-3]{0:4}"}, {"j", "[0-3]{0:4}"}, {"k", "[0-3]{0:4}"}}, "",
     SAYS("D_GRID: a block of the result is computed by no device of subgroup 0")},
    {"key", {{"i", "[0,1]{1:2}"}}, "i", "tensor 'a': key 1, but it has 1 dimensions"},
    {"letter", {{"i", "[0,1]{0:2}"}}, "ij", "op 'y': letter j of the result is in no operand"},
    {"long cut",
     {{"i", "[0-19]{0:(101,101,101,101,101,101,101,101,101,101,101,101,1,1,1,1,1,1,1,1)}"},
      {"i", "[0-19]{0:20}"}}, "i",
     SAYS("D_CUT: letter i is cut (101,101,101,101,101,101,101,101,101,101,101,..) by 'a' but 20 "
          "by 'b' on device 0")},
    /* a member that repeats the one before, and one that does not */
    {"repeat",
     {{"ik", "h=0 [0,1]{-1:2} | [2,3]{-1:2} | [4,5]{-1:2}"},
      {"kj", "h=-1 [0,1]{1:2} | [3,2]{1:2} | [4,5]{1:2}"}}, "ij",
     "h=0 [0,1]{1:2} | [3,2]{1:2} | [4,5]{1:2}"},
    /* attention with q heads cut 4, k and v uncut: dK is summed over the heads */
    {"dK", {{"bsnd", "[0-3]{2:4}"}, {"btgd", "[0-3]{-1:4}"}}, "btgd", "[0-3]{-2:4}"},
    /* dTable of an embedding, the table label-only */
    {"dTable", {{"t", "[0,1]{-1:2}"}, {"th", "[0,1]{-1:2}"}, {"vh", "[0,1]{0:2}"}}, "vh",
     "[0,1]{0:2}"},
};

START_TEST(einsum)
{
    static const char *const names[] = {"a", "b", "c"};
    luo_arena *arena = luo_arena_new(0);
    luo_operand x[3];
    int32_t n = 0;
    luo_err err = {0};
    const luo_ann *res = NULL;
    for (; n < 3 && einsums[_i].x[n].ann; n++)
        x[n] = (luo_operand){parse(arena, einsums[_i].x[n].ann), einsums[_i].x[n].letters,
                             names[n], false};
    const size_t used = luo_arena_used(arena);
    const luo_status st = luo_deduce_einsum(arena, x, n, einsums[_i].out, "y", &res, &err);
    check_result(st, res, &err, einsums[_i].id, einsums[_i].want);
    if (st != LUO_OK) ck_assert_uint_eq(luo_arena_used(arena), used);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *ann;
    int32_t rank, perm[3];
    const char *want;
} permutes[] = {
    {"h=0 [0]{} | [1]{}", 2, {1, 0}, "h=1 [0]{} | [1]{}"},
    {"[0-7]{2:2,-2:2,0:2}", 3, {2, 0, 1}, "[0-7]{0:2,-2:2,1:2}"},
    {"h=-2 [0,1]{0:(2,1)} | [2]{}", 1, {0}, "h=-2 [0,1]{0:(2,1)} | [2]{}"},
    {"[0,1]{2:2}", 2, {1, 0}, "tensor 'operand of permute': key 2, but it has 2 dimensions"},
};

START_TEST(permute)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_ann *res = NULL;
    const luo_status st = luo_deduce_permute(arena, parse(arena, permutes[_i].ann),
                                             permutes[_i].perm, permutes[_i].rank, &res, &err);
    check_result(st, res, &err, permutes[_i].ann, permutes[_i].want);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *ann, *want;
} completes[] = {
    {"[0-3]{0:2,-1:2}", "[0-3]{0:2,-1:2}"},
    {"[0-3]{-2:2,0:2}", "[0-3]{-1:2,0:2}"},
    {"h=-2 [0,1]{-2:2} | [2]{}", "h=-1 [0,1]{-1:2} | [2]{}"},
    {"[0-7]{-1:2,0:2,-2:2}", "[0,1,4,5,2,3,6,7]{0:2,-1:4}"},
    {"[0-7]{-2:2,-1:2,0:2}", "[0-7]{-1:4,0:2}"},
    {"[0-3]{-1:2,-2:2}", "[0-3]{-1:4}"},
};

START_TEST(complete)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_ann *res = NULL;
    const luo_status st = luo_deduce_complete(arena, parse(arena, completes[_i].ann), &res, &err);
    check_result(st, res, &err, completes[_i].ann, completes[_i].want);
    luo_arena_free(arena);
}
END_TEST

#define LOST(d, from, to)                                                                \
    "op 'y': D_RESHAPE: the cut of dimension " d " does not survive " from " to " to     \
    "; insert a Reshard"
static const struct {
    const char *ann, *from, *to, *want;
} reshapes[] = {
    {"[0-7]{0:2,1:4}", "6x512", "6x8x64", "[0-7]{0:2,1:4}"},
    {"[0-3]{1:4}", "6x512", "6x2x256", LOST("1", "6x512", "6x2x256")},
    {"[0-3]{1:4}", "6x8x64", "6x512", "[0-3]{1:4}"},
    {"[0,1]{2:2}", "6x8x64", "6x512", LOST("2", "6x8x64", "6x512")},
    {"[0,1]{0:2}", "4x6x8", "24x8", "[0,1]{0:2}"},
    {"[0,1]{1:2}", "4x6x8", "24x8", LOST("1", "4x6x8", "24x8")},
    {"[0,1]{0:(3,1)}", "512", "8x64", "[0,1]{0:(3,1)}"},
    {"[0-2]{0:3}", "10x4", "40", "[0-2]{0:(4,3,3)}"},
    {"h=0 [0,1]{0:2} | [2]{}", "6x4", "24", "h=0 [0,1]{0:(2,1)} | [2]{}"},
    {"h=0i [0,1]{0:2} | [2]{}", "8x4", "32", "h=0i [0,1]{0:2} | [2]{}"},
    {"h=0i [0,1]{0:2} | [2]{}", "6x4", "24", LOST("0", "6x4", "24")},
    {"h=0 [0]{} | [1]{}", "5x4", "20", "h=0:(3,2) [0]{} | [1]{}"},
    {"h=0 [0]{} | [1]{}", "5", "1x5", "h=1 [0]{} | [1]{}"},
    {"h=0 [0]{} | [1]{}", "6", "2x3", "h=0 [0]{} | [1]{}"},
    {"h=0 [0]{} | [1]{}", "6", "3x2", LOST("0", "6", "3x2")},
    {"h=1 [0]{} | [1]{}", "2x3", "6", LOST("1", "2x3", "6")},
    {"h=-2 [0,1]{-2:2} | [2,3]{0:2}", "4x1x6", "4x6", "h=-2 [0,1]{-2:2} | [2,3]{0:2}"},
    {"[0,1]{2:2}", "4x1x6", "4x6", "[0,1]{1:2}"},
    {"[0,1]{1:2}", "4x1x6", "4x6", LOST("1", "4x1x6", "4x6")},
    {"[0,1]{0:2}", "4x6", "4x6x1x1", "[0,1]{0:2}"},
    {"[0,1]{-1:2}", "1", "", "[0,1]{-1:2}"},
    {"[0,1]{-1:2}", "", "1x1", "[0,1]{-1:2}"},
    {"[0,1]{0:2}", "0x6", "0x2x3", "[0,1]{0:2}"},
    {"[0,1]{1:2}", "0x6", "0x2x3", LOST("1", "0x6", "0x2x3")},
    {"[0,1]{0:2}", "4x6", "5x5",
     "op 'y': D_RESHAPE: 4x6 to 5x5 changes the number of elements; mend the sizes"},
    {"[0,1]{0:2}", "4x6", "4x0",
     "op 'y': D_RESHAPE: 4x6 to 4x0 changes the number of elements; mend the sizes"},
    {"[0,1]{0:2}", "4", "1099511627775x1099511627775",
     "tensor 'y': more than 9223372036854775807 elements"},
};

START_TEST(reshape)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_ann *res = NULL;
    luo_shape from, to;
    ck_assert_int_eq(luo_shape_parse(reshapes[_i].from, &from, NULL), LUO_OK);
    ck_assert_int_eq(luo_shape_parse(reshapes[_i].to, &to, NULL), LUO_OK);
    const luo_status st = luo_deduce_reshape(arena, parse(arena, reshapes[_i].ann), &from, &to,
                                             "y", &res, &err);
    check_result(st, res, &err, reshapes[_i].from, reshapes[_i].want);
    luo_arena_free(arena);
}
END_TEST

/* One length per member on both sides. */
START_TEST(reshape_member_lengths)
{
    static const struct {
        int64_t from[2], to[2];
        bool given;
        const char *want;
    } rows[] = {
        {{4, 2}, {2, 1}, true, "h=0 [0]{} | [1]{}"},
        {{4, 2}, {2, 1}, false, "h=0 [0]{} | [1]{}"},
        {{2, 4}, {1, 2}, false, "h=0:(1,2) [0]{} | [1]{}"},
        {{2, 4}, {2, 1}, true, LOST("0", "6", "3x2")},
    };
    for (int k = 0; k < LUO_ROWS(rows); k++) {
        luo_arena *arena = luo_arena_new(0);
        luo_err err = {0};
        const luo_ann *res = NULL;
        const luo_shape from = {.rank = 1, .dim = {6}, .member_len = rows[k].from};
        const luo_shape to = {.rank = 2, .dim = {3, 2},
                              .member_len = rows[k].given ? rows[k].to : NULL};
        const luo_status st = luo_deduce_reshape(arena, parse(arena, "h=0 [0]{} | [1]{}"), &from,
                                                 &to, "y", &res, &err);
        check_result(st, res, &err, "member_len", rows[k].want);
        luo_arena_free(arena);
    }
}
END_TEST

static const struct {
    const char *ann;
    int32_t d;
    const char *says;
} wholes[] = {
    {"[0,1]{0:2}", 1, ""},
    {"[0,1]{1:2}", 1,
     "op 'y': D_UNCUT: dimension 1 of 'x' is cut; insert a Reshard that gathers the sequence"},
    {"h=1 [0]{} | [1]{}", 1,
     "op 'y': D_UNCUT: dimension 1 of 'x' is cut; insert a Reshard that gathers the sequence"},
    {"h=0 [0]{} | [1,2]{1:2}", 1,
     "op 'y': D_UNCUT: dimension 1 of 'x' is cut; insert a Reshard that gathers the sequence"},
    {"[0,1]{-2:2}", 1,
     "op 'y': D_PARTIAL: 'x' is Partial; insert a Reshard that gathers the sequence"},
};

START_TEST(want_whole)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    luo_deduce_want_whole(parse(arena, wholes[_i].ann), wholes[_i].d, "x", "y",
                          "insert a Reshard that gathers the sequence", &err);
    ck_assert_str_eq(err.text, wholes[_i].says);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("graph.deduce", LUO_T_N(einsum, LUO_ROWS(einsums)), LUO_T_N(permute, LUO_ROWS(permutes)),
          LUO_T_N(complete, LUO_ROWS(completes)), LUO_T_N(reshape, LUO_ROWS(reshapes)),
          LUO_T(reshape_member_lengths), LUO_T_N(want_whole, LUO_ROWS(wholes)))
