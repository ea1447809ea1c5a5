/* check_hap_compat.c: the arithmetic of the published planner, vectors CH1 to CH6, and which rules
 * it has. Speeds and bandwidths are multiplied by 1,000, so that no column of its linear programme
 * meets the bound of one second. */
#include <math.h>

#include "core/plan/hap/baseline.h"
#include "core/plan/hap/compat.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"

enum { SCALE = 1000 };

static const struct {
    const char *id;
    luo_hap_mlp_in graph;
    double speed[2], line[3];     /* ag = rs, ar, a2a: elements per second */
    double first, last, share[2]; /* J of the first search; at the end */
    const char *text;
    bool narrow; /* the work of the middle layer is counted as if it were as wide as the input */
} rows[] = {
    {"CH1",
     {64, 1, {4, 4}, false, false, false},
     {300, 100},
     {10, 5, 20},
     56.96,
     56.96,
     {.75, .25},
     "b w0:I/AR\nb\n",
     false},
    {"CH2",
     {4, 1, {32, 32}, false, false, false},
     {300, 100},
     {10, 5, 20},
     126.72,
     126.72,
     {.75, .25},
     "c w0:G1\nb h0:A2A10\n",
     false},
    {"CH3",
     {4, 2, {32, 32, 32}, false, false, false},
     {300, 100},
     {10, 5, 20},
     240.96,
     240.96,
     {.75, .25},
     "c w0:G1\nc\nc w1:G0\nb h1:RS0\n",
     false},
    {"CH4",
     {4, 2, {32, 32, 32}, false, false, false},
     {3e6, 1e6},
     {10, 5, 20},
     38.420256,
     25.640512,
     {.5, .5},
     NULL,
     false},
    /* the vector counts the middle layer so; by the rule of the others it is the row after it */
    {"CH5",
     {8, 3, {16, 64, 64, 16}, false, false, false},
     {4000, 1000},
     {10, 5, 20},
     252.1088,
     246.272,
     {.5, .5},
     NULL,
     true},
    {"CH5, counted as the others",
     {8, 3, {16, 64, 64, 16}, false, false, false},
     {4000, 1000},
     {10, 5, 20},
     296.3456,
     296.3456,
     {.8, .2},
     NULL,
     false},
    {"CH6",
     {4, 1, {4, 8}, false, false, false},
     {10000, 1000},
     {10, 3, 10},
     10.911030303,
     10.911030303,
     {.909090909, .090909091},
     "b w0:I/AR\nb\n",
     false},
};

static luo_hap_numbers numbers_of(int row)
{
    const double *line = rows[row].line;
    const double speed[] = {SCALE * rows[row].speed[0], SCALE * rows[row].speed[1]};
    return luo_hap_graphs_toy(NULL, speed, 1, SCALE * line[0], SCALE * line[1], SCALE * line[2]);
}

START_TEST(row)
{
    luo_arena *a = luo_arena_new(0);
    luo_hap_graph *graph = luo_hap_graphs_mlp(a, &rows[_i].graph);
    const luo_hap_numbers numbers = numbers_of(_i);
    const luo_hap_job job = {.opts = {.compat = true, .compat_sums = true}};
    luo_hap_result *result;
    luo_str text = {0};
    if (rows[_i].narrow) graph->op[2].compat *= (double)rows[_i].graph.d[0] / 64;
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, NULL), LUO_OK);
    luo_hap_program_print(&text, result->program);
    ck_assert_msg(fabs(SCALE * result->round[0].program_s - rows[_i].first) <=
                      1e-9 * rows[_i].first,
                  "%s: search %.12g\n%s", rows[_i].id, SCALE * result->round[0].program_s,
                  luo_str_get(&text));
    ck_assert_msg(fabs(SCALE * result->cost_s - rows[_i].last) <= 1e-9 * rows[_i].last,
                  "%s: %.12g\n%s", rows[_i].id, SCALE * result->cost_s, luo_str_get(&text));
    for (int t = 0; t < 2; t++)
        ck_assert_msg(fabs(result->shares[t] - rows[_i].share[t]) < 1e-6, "%s: share %.9g",
                      rows[_i].id, result->shares[t]);
    if (rows[_i].text) ck_assert_str_eq(luo_str_get(&text), rows[_i].text);
    luo_str_free(&text);
    luo_arena_free(a);
}
END_TEST

START_TEST(even_start) /* CH6 */
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &rows[6].graph);
    const luo_hap_numbers numbers = numbers_of(6);
    const luo_hap_job job = {.opts = {.compat = true, .compat_sums = true}};
    luo_hap_result *result;
    ck_assert_int_eq(luo_hap_alternate_once(a, graph, &numbers, &job, &job.opts, LUO_HAP_START_EVEN,
                                            &result, NULL),
                     LUO_OK);
    ck_assert_double_eq_tol(SCALE * result->cost_s, 7.744, 1e-9);
    luo_arena_free(a);
}
END_TEST

/* CH1's program is data parallelism by speed: the baseline costs the same. What it holds is
 * counted: 16 bytes for each of 16 weights, its part of x and h, and the loss. */
START_TEST(baselines_and_memory)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &rows[0].graph);
    const luo_hap_numbers numbers = numbers_of(0);
    const luo_hap_job job = {.opts = {.compat = true, .compat_sums = true}};
    luo_hap_result *result, *baseline;
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, NULL), LUO_OK);
    ck_assert_int_eq(
        luo_hap_baseline_find(a, graph, &numbers, &job, LUO_HAP_DP_CP, &baseline, NULL), LUO_OK);
    ck_assert_double_eq_tol(SCALE * baseline->cost_s, 56.96, 1e-9);
    for (int t = 0; t < 2; t++) {
        ck_assert_double_gt(result->memory_bytes[t], 16 * 16 + rows[0].share[t] * 64 * 4 * 4 * 2);
        ck_assert_double_lt(result->memory_bytes[t], 16 * 16 + rows[0].share[t] * 64 * 4 * 4 * 4);
    }
    luo_arena_free(a);
}
END_TEST

/* Neither factors nor ZeRO, whatever the job says. */
START_TEST(nothing_of_ours)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &rows[0].graph);
    const luo_hap_numbers numbers = numbers_of(0);
    const luo_hap_job plain = {.opts = {.compat = true}};
    luo_hap_job job = plain;
    luo_hap_result *want, *got;
    job.opts.factors = true;
    job.zero = LUO_HAP_ZERO_ON;
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &plain, &want, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &got, NULL), LUO_OK);
    ck_assert_int_eq(got->space->ntriples, want->space->ntriples);
    luo_arena_free(a);
}
END_TEST

/* A column of more than a second, which the published programme does not have. */
START_TEST(seconds_are_capped)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &rows[0].graph);
    const double speed[] = {rows[0].speed[0], rows[0].speed[1]};
    const luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, speed, 1, 10, 5, 20);
    const luo_hap_job job = {.opts = {.compat = true}};
    luo_hap_result *result;
    luo_err err = {0};
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, &err), LUO_EINFEASIBLE);
    ck_assert_ptr_nonnull(strstr(err.text, "longer than a second"));
    luo_arena_free(a);
}
END_TEST

START_TEST(rules_of_kinds)
{
    static const struct {
        const char *op, *rules;
    } kinds[] = {
        {"0.q", "b rep"},          {"0.o", "b rep"},        {"0.z", "b rep"},      {"x0", "b s m"},
        {"x1", "b s m rep lin01"}, {"0.n1", "b s rep"},     {"0.f0", "b s f rep"}, {"1.g", "b rep"},
        {"1.u", "b s m E c rep"},  {"1.f2", "b E c m rep"}, {"loss", "b s rep"},
    };
    luo_arena *a = luo_arena_new(0);
    const luo_hap_encoder sizes = {4, 8, 16, 2, 32, 32, 4, 3};
    const luo_hap_graph *graph = luo_hap_network_bert(a, &sizes, 2);
    for (int k = 0; k < LUO_ROWS(kinds); k++) {
        char text[64] = "", name[8];
        int32_t o = 0, n;
        luo_hap_rule *rule;
        while (strcmp(graph->op[o].name, kinds[k].op) != 0) o++;
        ck_assert_int_eq(luo_hap_rules(a, &graph->op[o], &rule, &n, NULL), LUO_OK);
        for (int32_t r = 0; r < n; r++) {
            if (!luo_hap_compat_rule(&graph->op[o], &rule[r], false)) continue;
            if (*text) strcat(text, " ");
            strcat(text, luo_hap_rule_name(&rule[r], name));
        }
        ck_assert_str_eq(text, kinds[k].rules);
    }
    luo_arena_free(a);
}
END_TEST

/* One sample: its loss is not a sum over devices. A table of one word of one element: nothing to
 * cut, and the published planner does not copy tables. */
START_TEST(no_program)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_mlp_in in = {1, 1, {4, 4}, false, false, false};
    const luo_hap_encoder sizes = {1, 1, 1, 1, 2, 1, 0, 0};
    const luo_hap_numbers numbers = numbers_of(0);
    const luo_hap_job job = {.opts = {.compat = true}};
    luo_hap_result *result;
    luo_err err = {0};
    ck_assert_int_eq(
        luo_hap_alternate(a, luo_hap_graphs_mlp(a, &in), &numbers, &job, &result, &err),
        LUO_ENORULE);
    ck_assert_str_eq(err.text, "no legal program: no choice of rules leads to the loss; see "
                               "--rules.");
    ck_assert_int_eq(
        luo_hap_alternate(a, luo_hap_network_bert(a, &sizes, 1), &numbers, &job, &result, &err),
        LUO_ENORULE);
    ck_assert_str_eq(err.text, "no legal program: op `x0` has no rule whose inputs can be made; "
                               "see --rules.");
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.compat", LUO_T_N(row, LUO_ROWS(rows)), LUO_T(even_start),
          LUO_T(baselines_and_memory), LUO_T(nothing_of_ours), LUO_T(seconds_are_capped),
          LUO_T(rules_of_kinds), LUO_T(no_program))
