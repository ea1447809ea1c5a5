/* check_expr.c: symbolic sizes (computed vectors). */
#include "tests/parked/expr.h"
#include "tests/check_main.h"

static const luo_symbol symbols[] = {{"S", 4096},    {"O", 4097},     {"P", 0},  {"T", 6},
                                     {"A", 3},       {"B", 5},        {"G", 1 << 30},
                                     {"S@u", 7},     {"N", -3},       {"H", INT64_C(1) << 39},
                                     {"M", INT64_MAX}, {"L", INT64_MIN}};

static const struct {
    const char *text, *print; /* print: NULL if like text */
    int64_t value;            /* -1: LUO_ESHAPE with the sentence */
    const char *says;
} rows[] = {
    {"S/2", NULL, 2048, ""},
    {"O/2", NULL, -1, "shape: O/2: 4097 is not divisible by 2 (tensor 'x', dim 0)"},
    {"(O+7)//8*8", NULL, 4104, ""},
    {"T/P", NULL, -1, "shape: T/P: division by 0 (tensor 'x', dim 0)"},
    {"T//P", NULL, -1, "shape: T//P: division by 0 (tensor 'x', dim 0)"},
    {"T%P", NULL, -1, "shape: T%P: division by 0 (tensor 'x', dim 0)"},
    {"A-B", NULL, -1, "shape: A-B = -2 (tensor 'x', dim 0)"},
    {"G*G", NULL, -1,
     "shape: G*G = 1152921504606846976 is above the limit 1099511627775 (tensor 'x', dim 0)"},
    {"G*G*G", NULL, -1,
     "shape: G*G*G is above the limit 1099511627775 (tensor 'x', dim 0)"},
    {"G*G//G", NULL, 1 << 30, ""},
    {"H+H", NULL, -1,
     "shape: H+H = 1099511627776 is above the limit 1099511627775 (tensor 'x', dim 0)"},
    {"H+(H-1)", NULL, INT64_C(1099511627775), ""},
    {"M+M", NULL, -1,
     "shape: M = 9223372036854775807 is above the limit 1099511627775 (tensor 'x', dim 0)"},
    {"L//N", NULL, -1, "shape: L = -9223372036854775808 (tensor 'x', dim 0)"},
    {"X+1", NULL, -1, "shape: X is not set (tensor 'x', dim 0)"},
    {"S@u+1", NULL, 8, ""},
    {"S@3", NULL, -1, "shape: S@3 is not set (tensor 'x', dim 0)"},
    {" 2 * 4 * S ", "8*S", 32768, ""},
    {"S*(2*4)", "S*8", 32768, ""},
    {"7//2*4+10%4-(3-1)", "12", 12, ""},
    {"4/3", NULL, -1, "shape: 4/3: 4 is not divisible by 3 (tensor 'x', dim 0)"},
    {"1-2", NULL, -1, "shape: 1-2 = -1 (tensor 'x', dim 0)"},
    {"S+(1-2)", NULL, 4095, ""},
    {"(A-B)//2+9", "(A-B)//2+9", 8, ""},
    {"N//2+9", NULL, 7, ""},
    {"N%5", NULL, 2, ""},
    {"(A-B)%5", NULL, 3, ""},
    {"min(S,O)", NULL, 4096, ""},
    {"max( S , O*2 )%10", "max(S,O*2)%10", 4, ""},
    {"min(3,5)+max(3,5)", "8", 8, ""},
    {"minimum", NULL, -1, "shape: minimum is not set (tensor 'x', dim 0)"},
    {"S-(A-B)", NULL, 4098, ""},
    {"S-A-B", NULL, 4088, ""},
    {"S/(A-1)", NULL, 2048, ""},
    {"T-(S/(B-1))", "T-S/(B-1)", -1, "shape: T-S/(B-1) = -1018 (tensor 'x', dim 0)"},
};

START_TEST(value)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_expr *e = NULL, *again = NULL;
    char text[256];
    int64_t got = -7;
    ck_assert_msg(luo_expr_parse(arena, rows[_i].text, &e, &err) == LUO_OK, "%s", err.text);
    luo_expr_print(text, sizeof text, e);
    ck_assert_str_eq(text, rows[_i].print ? rows[_i].print : rows[_i].text);
    ck_assert_int_eq(luo_expr_parse(arena, text, &again, &err), LUO_OK);
    ck_assert(luo_expr_equal(e, again));
    const luo_status st = luo_expr_eval(e, symbols, LUO_ROWS(symbols), "x", 0, &got, &err);
    ck_assert_str_eq(err.text, rows[_i].says);
    ck_assert_int_eq(st, rows[_i].value < 0 ? LUO_ESHAPE : LUO_OK);
    ck_assert_int_eq(got, rows[_i].value < 0 ? -7 : rows[_i].value);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *text;
    luo_status st;
    const char *says;
} wrong[] = {
    {"", LUO_EPARSE, "expression ``, column 1: a symbol, a number or `(` is expected."},
    {"S+", LUO_EPARSE, "expression `S+`, column 3: a symbol, a number or `(` is expected."},
    {"-S", LUO_EPARSE, "expression `-S`, column 1: a symbol, a number or `(` is expected."},
    {"S T", LUO_EPARSE, "expression `S T`, column 3: an operator or the end is expected."},
    {"(S", LUO_EPARSE, "expression `(S`, column 3: `)` is expected."},
    {"min(S)", LUO_EPARSE, "expression `min(S)`, column 6: `,` is expected."},
    {"min", LUO_EPARSE, "expression `min`, column 4: `(` is expected."},
    {"S@", LUO_EPARSE, "expression `S@`, column 3: a member behind `@` is expected."},
    {"1099511627776", LUO_E2BIG,
     "expression `1099511627776`: constants are 0 to 1099511627775."},
};

START_TEST(refused)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    const luo_expr *e = NULL;
    ck_assert_int_eq(luo_expr_parse(arena, wrong[_i].text, &e, &err), wrong[_i].st);
    ck_assert_str_eq(err.text, wrong[_i].says);
    ck_assert_ptr_null(e);
    ck_assert_uint_eq(luo_arena_used(arena), 0);
    luo_arena_free(arena);
}
END_TEST

/* Deep texts are refused, whichever way they are deep. */
START_TEST(deep)
{
    enum { MANY = 1000 };
    static const char *const step[] = {"(", "S+", "S*("};
    luo_arena *arena = luo_arena_new(0);
    for (int k = 0; k < LUO_ROWS(step); k++) {
        char text[4 * MANY + 1] = "";
        luo_err err = {0};
        const luo_expr *e = NULL;
        for (int i = 0; i < MANY; i++) strcat(text, step[k]);
        ck_assert_int_eq(luo_expr_parse(arena, text, &e, &err), LUO_E2BIG);
    }
    luo_arena_free(arena);
}
END_TEST

START_TEST(short_buffer)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_expr *e = NULL;
    char text[8];
    int64_t got;
    luo_err err = {0};
    ck_assert_int_eq(luo_expr_parse(arena, "A+B+S+T", &e, NULL), LUO_OK);
    luo_expr_print(text, 8, e);
    ck_assert_str_eq(text, "A+B+S+T");
    luo_expr_print(text, 7, e);
    ck_assert_str_eq(text, "A+B+..");
    luo_expr_print(text, 1, e);
    ck_assert_str_eq(text, "");
    ck_assert(luo_expr_equal(luo_expr_const(arena, 5), luo_expr_const(arena, 5)));
    ck_assert(!luo_expr_equal(luo_expr_const(arena, 5), e));
    ck_assert_int_eq(luo_expr_eval(e, symbols, 2, NULL, 0, &got, &err), LUO_ESHAPE);
    ck_assert_str_eq(err.text, "shape: A is not set");
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("graph.expr", LUO_T_N(value, LUO_ROWS(rows)), LUO_T_N(refused, LUO_ROWS(wrong)),
          LUO_T(deep), LUO_T(short_buffer))
