/* check_vocab.c: vocabularies that tensor parallelism does not divide: rows under plans of every
 * form, tables of programs and of switches between plans that pad differently. */
#include "core/plan/migrate.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"

static const struct {
    const char *plan;
    int64_t vocab, rows;
} padded[] = {
    {"4: [0]*4", 50257, 50257},
    {"4: [0,1]*4", 50257, 50432},
    {"4: [0-3]*4", 50257, 50688},
    {"4: [0-7]*4", 50257, 51200},
    {"4: [0,1]*4", 50258, 50258}, /* cut as it is */
    {"4: [0-3]*4", 50258, 50688},
    {"4: [0-2]*4", 50257, 50304},
    {"4: [0,1]:(3,1)*4", 50257, 50688}, /* quarters */
    {"4: [0,1]*2 [2]*2", 50257, 50432},
    {"4: [0]*2 [1-4]*2", 50257, 50688},
    {"4: [0]*1 [1-4]*2 [5]*1", 50257, 50257}, /* nothing of the table there */
    {"4: [0,1]*4 | 4: [2-4]*4", 50257, 50688}, /* 768 */
    {"4: [0,1]*4 | 4: [2-4]*4", 50256, 50256},
};

START_TEST(rows_of_plans)
{
    luo_arena *arena = luo_arena_new(0);
    luo_model m = luo_test_llama(4, 64, 96, 24, padded[_i].vocab);
    const luo_plan *p = luo_test_plan(arena, padded[_i].plan);
    const luo_model *made;
    luo_err err;
    ck_assert_int_eq(luo_plan_vocab(p, &m), padded[_i].rows);
    ck_assert_int_eq(luo_plan_model(arena, p, &m, &made, &err), LUO_OK);
    ck_assert_int_eq(made->vocab, padded[_i].rows);
    ck_assert_int_eq(m.vocab, padded[_i].vocab);
    ck_assert((made == &m) == (padded[_i].rows == padded[_i].vocab));
    luo_arena_free(arena);
}
END_TEST

static int64_t rows_of_table(luo_arena *arena, const luo_plan *p, const luo_model *m)
{
    luo_param *param;
    luo_err err;
    int32_t n;
    ck_assert_msg(luo_plan_params(arena, p, m, &param, &n, &err) == LUO_OK, "%s", err.text);
    for (int32_t i = 0; i < n; i++)
        if (strcmp(param[i].name, "wte.weight") == 0) return param[i].shape.dim[0];
    return 0;
}

/* Tables of what is compiled, of what a switch moves, and findings of the check. */
START_TEST(tables_of_programs)
{
    static const char *const plans[] = {"4: [0]*4", "4: [0,1]*4", "4: [0-3]*4", "4: [0]*2 [1-4]*2"};
    static const int64_t rows[] = {50257, 50432, 50688, 50688};
    luo_arena *arena = luo_arena_new(0);
    luo_model m = luo_test_llama(4, 64, 96, 8, 50257);
    luo_err err;
    for (int i = 0; i < LUO_ROWS(plans); i++) {
        const luo_plan *p = luo_test_plan(arena, plans[i]);
        luo_plan_finding *f;
        int32_t n;
        ck_assert_msg(luo_plan_check(arena, p, &m, NULL, &f, &n) == LUO_OK, "%s", f[0].text);
        ck_assert_int_eq(rows_of_table(arena, p, &m), rows[i]);
        for (int k = 0; k < LUO_ROWS(plans); k++) {
            luo_switch_tensor *t;
            const luo_plan *q = luo_test_plan(arena, plans[k]);
            ck_assert_int_eq(luo_switching_tensors(arena, p, q, &m, &t, &n, &err), LUO_OK);
            const int64_t most = rows[i] > rows[k] ? rows[i] : rows[k];
            for (int32_t j = 0; j < n; j++)
                if (strcmp(t[j].name, "wte.weight") == 0)
                    ck_assert_int_eq(t[j].shape.dim[0], most);
        }
    }
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("plan.vocab", LUO_T_N(rows_of_plans, LUO_ROWS(padded)), LUO_T(tables_of_programs))
