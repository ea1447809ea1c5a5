/* check_replan.c: columns `static`, `rebalance` and `restart` of the computed vectors (event
 * time in tau, y given), and the 1F1B ratios. */
#include <math.h>

#include "core/plan/replan/replan.h"
#include "tests/check_main.h"
#include "tests/malleus_fixture.h"

enum { MAX = 32 };

static const struct {
    const table *t;
    int64_t layers;
    int32_t S;
    int64_t cap[8];
} caps[] = { /* 19.2 with h 1 */
    {&k32, 60, 4, {15, 17, 19, 22}},
    {&k70, 80, 4, {34, 37, 40, 43}},
    {&k110, 80, 4, {23, 25, 27, 29}},
};

START_TEST(cap_rows)
{
    for (int32_t j = 0; j < caps[_i].S; j++)
        ck_assert_int_eq(group_cap(caps[_i].t, 0, caps[_i].S, j, 1, 1), caps[_i].cap[j]);
}
END_TEST

/* pipelines x stages of the base plan and the slowdowns of its groups by node */
typedef struct row {
    const char *id;
    const table *t;
    int64_t layers;
    int32_t dp, pp, groups_per_node;
    double slow[4]; /* of node i, all its groups or (first) only its first group */
    bool first;
    double fixed, rebalanced;
    int64_t m[4];
    double restarted;
    int32_t rdp, rpp;
} row;
static const row rows[] = {
    {"B1", &k70, 80, 2, 4, 1, {2.57}, 0, 1653.40, 980, {18, 46}, 836, 1, 7},
    {"B2", &k70, 80, 2, 4, 1, {12.53}, 0, 8019.20, 1260, {4, 60}, 836, 1, 7},
    {"B3", &k70, 80, 2, 4, 1, {1.25}, 0, 845.00, 780, {28, 36}, 836, 1, 7},
    {"B4", &k70, 80, 2, 4, 1, {12.53, 12.53, 2.57}, 0, 8269.80, 1260, {0}, 1088, 1, 5},
    {"B5", &k70, 80, 2, 4, 1, {6.87, 5.42}, 0, 4476.20, 1180, {8, 56}, 917, 2, 3},
    {"B6", &k110, 80, 2, 4, 1, {5.42}, 0, 3468.80, 1140, {10, 54}, 836, 1, 7},
    {"B7", &k32, 60, 4, 4, 4, {2.57}, 1, 623.25, 330, {7, 19, 19, 19}, 525, 2, 4},
    {"B8", &k32, 60, 4, 4, 4, {2.35}, 0, 669.75, 345, {6, 20, 19, 19}, 525, 2, 4},
};

static double slowdown(const row *r, int32_t group)
{
    const int32_t node = group / r->groups_per_node;
    const double s = node < 4 ? r->slow[node] : 0;
    return s == 0 || (r->first && group % r->groups_per_node) ? 1 : s;
}

/* Healthy groups of the nodes without a slow device; they are alike, so only the count matters. */
static int32_t groups_left(const row *r)
{
    const int32_t n = r->dp * r->pp;
    int32_t left = 0;
    for (int32_t g = 0; g < n; g++) {
        const int32_t node = g / r->groups_per_node;
        left += node >= 4 || r->slow[node] < 1.2;
    }
    return left;
}

static void base_pipes(const row *r, double t[][MAX], luo_pipe_time *pipes)
{
    for (int32_t i = 0; i < r->dp; i++) {
        for (int32_t j = 0; j < r->pp; j++)
            t[i][j] = (double)(r->layers / r->pp) * slowdown(r, i * r->pp + j);
        pipes[i] = (luo_pipe_time){r->pp, t[i], 64 / r->dp};
    }
}

START_TEST(policy_row)
{
    const row *r = &rows[_i];
    luo_arena *a = luo_arena_new(1 << 16);
    double t[4][MAX], event;
    luo_pipe_time pipes[4];
    int64_t m[4];
    base_pipes(r, t, pipes);
    ck_assert_int_eq(luo_replan_event_time(a, pipes, r->dp, false, &event, NULL), LUO_OK);
    ck_assert_double_eq_tol(event, r->fixed, 1e-6);
    ck_assert_int_eq(luo_replan_rebalance(a, pipes, r->dp, 64, false, m, &event, NULL), LUO_OK);
    ck_assert_double_eq_tol(event, r->rebalanced, 1e-6);
    for (int32_t i = 0; i < r->dp && r->m[0]; i++) ck_assert_int_eq(m[i], r->m[i]);

    double y[MAX];
    for (int i = 0; i < MAX; i++) y[i] = 1;
    luo_restart_in in = {.ngroups = groups_left(r), .y = y, .layers = r->layers,
                         .micro_batches = 64, .cap = group_cap, .cap_ctx = r->t};
    luo_restart_plan p;
    ck_assert_int_eq(luo_replan_restart_shape(a, &in, &p, NULL), LUO_OK);
    ck_assert_double_eq_tol(p.event, r->restarted, 1e-6);
    ck_assert_int_eq(p.pipelines, r->rdp);
    ck_assert_int_eq(p.stages, r->rpp);
    if (_i < 3) { /* 19.6: strict gives 1088 for B1-B3 */
        in.strict_uniform = true;
        ck_assert_int_eq(luo_replan_restart_shape(a, &in, &p, NULL), LUO_OK);
        ck_assert_double_eq_tol(p.event, 1088, 1e-6);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(event_ratios)
{
    static const struct { int64_t m; double ratio; } ratio[] = {
        {4, 1.75}, {8, 1.375}, {16, 1.1875}, {32, 1.09375}, {64, 1.046875}};
    luo_arena *a = luo_arena_new(1 << 16);
    const double t[] = {1, 1, 1, 1};
    for (int i = 0; i < LUO_ROWS(ratio); i++) {
        double event;
        const luo_pipe_time p = {4, t, ratio[i].m};
        ck_assert_int_eq(luo_replan_event_time(a, &p, 1, false, &event, NULL), LUO_OK);
        ck_assert_double_eq_tol(event / (double)ratio[i].m, ratio[i].ratio, 1e-12);
    }
    luo_arena_free(a);
}
END_TEST

/* Slow groups stay out, the others keep their order; stages take groups pipeline by pipeline. */
START_TEST(slow_groups_stay_out)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const double y[] = {1, 9, 1, 1, 1};
    const luo_restart_in in = {.ngroups = 5, .y = y, .layers = 8, .micro_batches = 8};
    luo_restart_plan p;
    ck_assert_int_eq(luo_replan_restart_shape(a, &in, &p, NULL), LUO_OK);
    ck_assert_int_eq(p.pipelines, 4); /* (8/4 micro-batches) * 8 layers = 16, no pipeline to fill */
    ck_assert_int_eq(p.stages, 1);
    ck_assert_double_eq(p.event, 16);
    static const int32_t want[] = {0, 2, 3, 4};
    for (int i = 0; i < 4; i++) ck_assert_int_eq(p.group[i], want[i]);
    luo_arena_free(a);
}
END_TEST

START_TEST(nothing_fits)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_err err = {0};
    const double y[] = {1};
    const luo_restart_in in = {.ngroups = 1, .y = y, .layers = 80, .micro_batches = 8,
                               .cap = group_cap, .cap_ctx = &k70};
    luo_restart_plan p;
    ck_assert_int_eq(luo_replan_restart_shape(a, &in, &p, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "no uniform plan of 80 layers fits on 1 groups; more groups, "
                               "`recompute` or `zero` 1 are needed.");
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("plan.replan", LUO_T_N(cap_rows, LUO_ROWS(caps)), LUO_T_N(policy_row, LUO_ROWS(rows)),
          LUO_T(event_ratios), LUO_T(slow_groups_stay_out), LUO_T(nothing_fits))
