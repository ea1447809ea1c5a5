/* check_demo.c: the demo's scenario and the shipped traces are read without a word, and
 * hold what their README says. Run from the root of the repository. */
#include <math.h>

#include "core/io/read/read.h"
#include "tests/check_main.h"

static void no_words(const luo_diags *d)
{
    for (const luo_diag *x = d->first; x; x = x->next)
        ck_abort_msg("%s:%d:%d: %s", x->err.path, x->err.line, x->err.col, x->err.text);
}

static luo_scenario *demo(luo_arena *arena, luo_diags *d)
{
    luo_scenario *sc = NULL;
    luo_diags_init(d, arena);
    luo_read_scenario(arena, "scenarios/demo/demo.yaml", NULL, &sc, NULL, d);
    no_words(d);
    return sc;
}

START_TEST(scenario)
{
    static const char *const policies[] = {"static", "restart", "malleus"};
    luo_arena *arena = luo_arena_new(0);
    luo_diags d;
    const luo_scenario *sc = demo(arena, &d);
    ck_assert_int_eq(sc->npolicies, LUO_ROWS(policies));
    for (int i = 0; i < LUO_ROWS(policies); i++)
        ck_assert_str_eq(sc->policies[i].label, policies[i]);
    ck_assert_int_eq(sc->cluster->ndevices, 48);
    ck_assert_double_eq(sc->duration_s, 86400);
    /* A failure ends static: the stragglers stand before the first one. */
    double first_fail = HUGE_VAL;
    int slow = 0, exact = 0, joins = 0;
    for (int32_t i = 0; i < sc->nevents; i++) {
        const luo_event *e = &sc->events[i];
        if (e->kind == LUO_EVENT_FAIL) first_fail = fmin(first_fail, e->at[0]);
        joins += e->kind == LUO_EVENT_JOIN;
    }
    for (int32_t i = 0; i < sc->nevents; i++) {
        const luo_event *e = &sc->events[i];
        if (e->kind != LUO_EVENT_STRAGGLER) continue;
        slow++;
        exact += e->trigger == LUO_AT_S;
        if (e->trigger == LUO_AT_S) ck_assert_double_lt(e->at[0], first_fail - 3600);
    }
    ck_assert_int_ge(exact, 3);
    ck_assert_int_gt(slow, exact);
    ck_assert_int_eq(joins, 1);
    ck_assert_double_ge(first_fail, 12 * 3600);
    luo_arena_free(arena);
}
END_TEST

START_TEST(traces)
{
    static const struct {
        const char *file;
        int rows;
    } files[] = {{"traces/stragglers.csv", 9}, {"traces/spot.csv", 8}};
    luo_arena *arena = luo_arena_new(0);
    luo_diags d;
    luo_err err = {0};
    luo_source src;
    const luo_scenario *sc = demo(arena, &d);
    for (int i = 0; i < LUO_ROWS(files); i++) {
        luo_event *events;
        int32_t n;
        ck_assert_int_eq(luo_source_read(arena, files[i].file, &src, &err), LUO_OK);
        luo_read_event_trace(arena, &src, sc->cluster, 0, 1, &events, &n, &d);
        no_words(&d);
        ck_assert_int_eq(n, files[i].rows);
        for (int32_t k = 1; k < n; k++) ck_assert_double_ge(events[k].at[0], events[k - 1].at[0]);
    }
    luo_arena_free(arena);
}
END_TEST

START_TEST(causes)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags d;
    luo_err err = {0};
    luo_source src;
    luo_cause *rows;
    int32_t n;
    int64_t sum[4] = {0};
    luo_diags_init(&d, arena);
    ck_assert_int_eq(luo_source_read(arena, "traces/causes.csv", &src, &err), LUO_OK);
    luo_read_causes(arena, &src, &rows, &n, &d);
    no_words(&d);
    ck_assert_int_eq(n, 18);
    for (int32_t i = 0; i < n; i++) {
        sum[rows[i].scope] += rows[i].count;
        ck_assert_int_eq(rows[i].kind, LUO_EVENT_FAIL);
        ck_assert_double_eq(rows[i].life_median_s, rows[i].scope == LUO_SCOPE_JOB ? 0 : 3600);
    }
    /* Llama 3, table 5: 419 in all; software 54, unknown 7, dependency 2; network 35. */
    ck_assert_int_eq(sum[LUO_SCOPE_JOB], 63);
    ck_assert_int_eq(sum[LUO_SCOPE_LINK], 35);
    ck_assert_int_eq(sum[LUO_SCOPE_DEVICE], 0);
    ck_assert_int_eq(sum[LUO_SCOPE_NODE], 419 - 63 - 35);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("demo", LUO_T(scenario), LUO_T(traces), LUO_T(causes))
