/* check_auto.c: the vectors AP1 to AP10 of automatic parallelisation. AP3, the programme beside
 * brute force, is in tests/prop/prop_auto.c; what is no vector in check_auto_search.c. */
#include "core/graph/schedule/sched.h"
#include "core/plan/auto/cut.h"
#include "core/plan/auto/dp.h"
#include "core/plan/auto/search.h"
#include "tests/auto_fixture.h"
#include "tests/parked/eliminate.h"

/* ---- AP1: strategies ---- */

static const struct {
    int32_t devices, together, ruled; /* over all numbers of stages */
} counts[] = {{2, 4, 4}, {4, 13, 11}, {6, 22, 18}, {8, 34, 22}, {12, 76, 44}, {16, 73, 37}};

START_TEST(ap1_counts)
{
    int32_t together = 0, ruled = 0;
    for (int32_t g = 1; g <= counts[_i].devices; g++) {
        if (counts[_i].devices % g) continue;
        together += luo_auto_strategies_count(g, true);
        ruled += luo_auto_strategies_count(g, false);
    }
    ck_assert_int_eq(together, counts[_i].together);
    ck_assert_int_eq(ruled, counts[_i].ruled);
}
END_TEST

START_TEST(ap1_list)
{
    static const char *const want[] = {"dp4",      "sdp4",    "tp4",     "dp2 tp2",
                                       "sdp2 tp2", "tp2 dp2", "tp2 sdp2"};
    luo_arena *a = luo_arena_new(0);
    luo_auto_strategy *s;
    int32_t n;
    char text[64];
    ck_assert_int_eq(luo_auto_strategies_count(2, true), 3);
    ck_assert_int_eq(luo_auto_strategies_count(2, false), 3);
    ck_assert_int_eq(luo_auto_strategies_count(4, true), 9);
    ck_assert_int_eq(luo_auto_strategies(a, 4, false, &s, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, LUO_ROWS(want));
    for (int32_t i = 0; i < n; i++)
        ck_assert_str_eq(luo_auto_strategy_print(&s[i], text, sizeof text), want[i]);
    ck_assert_int_eq(luo_auto_strategies(a, 4, true, &s, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, 2 * LUO_ROWS(want));
    for (int32_t i = 1; i < n; i++)
        ck_assert_int_lt(luo_auto_strategy_compare(&s[i - 1], &s[i]), 0);
    ck_assert_str_eq(luo_auto_strategy_print(&s[7], text, sizeof text), "dp2 tp2 checkpoint");
    ck_assert_int_eq(luo_auto_strategies(a, 1, true, &s, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, 2);
    ck_assert_str_eq(luo_auto_strategy_print(&s[0], text, sizeof text), "one");
    luo_arena_free(a);
}
END_TEST

/* ---- AP2 to AP4: the programme ---- */

static const struct {
    const char *id;
    int64_t budget;
    double seconds; /* 0: LUO_EINFEASIBLE */
    int32_t choice[3];
} budgets[] = {
    {"AP2", 12, 3.0, {0, 0, 0}}, {"AP2", 11, 5.5, {1, 0, 0}}, {"AP2", 8, 7.5, {1, 1, 0}},
    {"AP2", 6, 9.0, {1, 1, 1}},  {"AP2", 5, 0, {0}},
};

START_TEST(ap2_budgets)
{
    static const int32_t row[] = {0, 0, 0};
    static const int64_t units[] = {4, 2};
    static const double seconds[] = {1, 3}, change[] = {0, .5, .5, 0};
    luo_arena *a = luo_arena_new(0);
    const luo_auto_dp_in in = {3, 2, budgets[_i].budget, row, units, seconds, change};
    int32_t choice[3] = {9, 9, 9};
    double sum = -1;
    luo_err err = {0};
    const luo_status st = luo_auto_dp(a, &in, choice, &sum, &err);
    ck_assert_int_eq(st, budgets[_i].seconds > 0 ? LUO_OK : LUO_EINFEASIBLE);
    ck_assert_int_eq(luo_auto_dp_least(&in), 6);
    if (st == LUO_OK) {
        ck_near(sum, budgets[_i].seconds);
        ck_assert_mem_eq(choice, budgets[_i].choice, sizeof choice);
    } else {
        ck_assert_str_eq(err.text,
                         "no strategies of 3 layers fit 5 units of memory; 6 are needed.");
        ck_assert_int_eq(choice[0], 9);
        ck_assert(sum == -1);
    }
    luo_arena_free(a);
}
END_TEST

/* In place, layer 1 would read the 5.0 of strategy 1 of its own row and answer 6.0. */
START_TEST(ap4_zero_memory)
{
    static const int64_t units[] = {2, 0, 2, 0};
    static const double seconds[] = {1, 5, 9, 1};
    luo_arena *a = luo_arena_new(0);
    const luo_auto_dp_in in = {2, 2, 2, NULL, units, seconds, NULL};
    int32_t choice[2];
    double sum;
    ck_assert_int_eq(luo_auto_dp(a, &in, choice, &sum, NULL), LUO_OK);
    ck_near(sum, 2.0);
    ck_assert_int_eq(choice[0], 0);
    ck_assert_int_eq(choice[1], 1);
    luo_arena_free(a);
}
END_TEST

/* ---- AP5, AP6: cost of a layer ---- */

static const struct {
    double comm, compute, kc, kb, want;
} overlaps[] = {
    {4, 10, 1.3, 1.2, 10.8666666667},
    {20, 10, 1.3, 1.2, 22.7692307692},
    {0, 10, 1.3, 1.2, 10},
    {10, 0, 1.3, 1.2, 10},
    {4, 10, 1, 1, 10},
};

START_TEST(ap5_overlap)
{
    const double got = luo_auto_cost_overlap(overlaps[_i].comm, overlaps[_i].compute,
                                             overlaps[_i].kc, overlaps[_i].kb);
    ck_near(got, overlaps[_i].want);
}
END_TEST

static const struct {
    luo_auto_strategy s;
    double forward, tp, gathers, micro_batch, sync, bytes;
} costs[] = {
    {{1, {{LUO_AUTO_DP, 8}}, false}, .00744460998, 0, 0, .02233382994, .004768862933, 4178378752},
    {{1, {{LUO_AUTO_SDP, 8}}, true},
     .00744460998,
     0,
     .004768862933,
     .03454730285,
     .002384431467,
     419536896},
    {{1, {{LUO_AUTO_TP, 8}}, false}, .00744460998, .006543493973, 0, .02887732391, 0, 1946263552},
    {{2, {{LUO_AUTO_DP, 2}, {LUO_AUTO_TP, 4}}, false},
     .00744460998,
     .00280435456,
     0,
     .0251381845,
     .0006812661333,
     2013478912},
    {{2, {{LUO_AUTO_TP, 2}, {LUO_AUTO_SDP, 4}}, true},
     .00744460998,
     .00140217728,
     .0020437984,
     .0332244156,
     .0010218992,
     436314112},
};

START_TEST(ap6_layer)
{
    const luo_auto_widths w = {4096, 16384, 2048, 32, 0};
    const luo_auto_layer layer = luo_auto_layer_transformer("l0", &w);
    luo_arena *a = luo_arena_new(0);
    luo_auto_cost c;
    machine m;
    make_machine(&m, 8, 120e12, 80e9, 5e-6, 150e9);
    const luo_auto_env env = make_env(&m, 32, 4);
    ck_assert(layer.parameters == 201379840);
    ck_assert(layer.forward_flop == 893353197568);
    ck_assert(layer.boundary_bytes == 16777216);
    ck_assert_int_eq(luo_auto_cost_layer(a, &env, &layer, &costs[_i].s, &c, NULL), LUO_OK);
    ck_assert_int_eq(c.skip, LUO_AUTO_TAKEN);
    ck_near(c.forward_s, costs[_i].forward);
    ck_near(c.tp_s, costs[_i].tp);
    ck_near(c.gather_s, costs[_i].gathers);
    ck_near(c.micro_batch_s, costs[_i].micro_batch);
    ck_near(c.sync_s, costs[_i].sync);
    ck_assert(c.bytes == costs[_i].bytes);
    ck_assert(c.scaled_bytes == c.bytes);
    luo_arena_free(a);
}
END_TEST

/* ---- AP7: a whole stage, by itself and as a search ---- */

static const struct {
    double limit, seconds; /* 0: none fits */
    const char *strategies[4];
    int64_t units;
} stages[] = {
    {900e6, .007403755114, {"dp2 tp2", "dp4", "dp4", "dp4"}, 829},
    {500e6, .008463583597, {"sdp2 tp2", "sdp2 tp2", "dp2 tp2", "dp2 tp2"}, 460},
    {230e6,
     .01214677235,
     {"sdp2 tp2 checkpoint", "sdp2 tp2 checkpoint", "sdp2 tp2 checkpoint", "sdp2 tp2 checkpoint"},
     204},
    {170e6, 0, {0}, 200},
};

START_TEST(ap7_stage)
{
    luo_arena *a = luo_arena_new(0);
    case7 x;
    luo_auto_found found;
    char text[64];
    luo_err err = {0};
    make_case7(&x, stages[_i].limit);
    const luo_status st = luo_auto_search(a, &x.job, &found, &err);
    if (stages[_i].seconds == 0) {
        ck_assert_int_eq(st, LUO_EINFEASIBLE);
        ck_assert_str_eq(err.text, "no strategy fits 0.16 GiB on device 0; the smallest needs "
                                   "0.20 GiB.");
    } else {
        ck_assert_msg(st == LUO_OK, "%s", err.text);
        ck_near(found.stage[0].step_s, stages[_i].seconds);
        ck_near(found.step_s, stages[_i].seconds); /* one stage: events and programme agree */
        ck_assert_int_eq(found.stage[0].used, stages[_i].units);
        for (int l = 0; l < 4; l++)
            ck_assert_str_eq(luo_auto_strategy_print(&found.strategy[l], text, sizeof text),
                             stages[_i].strategies[l]);
    }
    luo_arena_free(a);
}
END_TEST

/* ---- AP8: 1F1B by events ---- */

static const struct {
    int32_t stages, micro_batches;
    double forward[4], backward[4], want;
} events[] = {
    {4, 8, {1, 1, 1, 1}, {2, 2, 2, 2}, 33},
    {3, 4, {1, 2, 1}, {2, 4, 2}, 28}, /* the closed form has 30 */
    {3, 4, {1, 1, 2}, {2, 2, 4}, 30},
};

/* No bytes, no latency: what is left are the stages. One of them shows 0.5 s of synchronization. */
START_TEST(ap8_events)
{
    luo_arena *a = luo_arena_new(0);
    luo_auto_stage stage[4] = {0};
    luo_auto_layer layer[4] = {0};
    machine m;
    double got;
    make_machine(&m, 4, 1, 1, 0, 1);
    const luo_auto_job job = {.layer = layer, .layers = 4, .cluster = m.cluster};
    for (int i = 0; i < events[_i].stages; i++)
        stage[i] = (luo_auto_stage){.first_layer = i,
                                    .layers = 1,
                                    .first_device = i,
                                    .forward_s = events[_i].forward[i],
                                    .backward_s = events[_i].backward[i],
                                    .samples_in = 1,
                                    .samples_out = 1};
    ck_assert_int_eq(luo_auto_search_score(a, &job, stage, events[_i].stages,
                                           events[_i].micro_batches, &got, NULL),
                     LUO_OK);
    ck_near(got, events[_i].want);
    stage[1].exposed_s = .5;
    ck_assert_int_eq(luo_auto_search_score(a, &job, stage, events[_i].stages,
                                           events[_i].micro_batches, &got, NULL),
                     LUO_OK);
    ck_near(got, events[_i].want + .5);
    luo_arena_free(a);
}
END_TEST

/* ---- AP9: mixed types ---- */

static const struct {
    int64_t total;
    int32_t n;
    double speed[3];
    int64_t want[3];
} shares[] = {{8, 2, {3, 1}, {6, 2}}, {6, 2, {3, 1}, {5, 1}}, {7, 3, {5, 3, 2}, {4, 2, 1}}};

START_TEST(ap9_shares)
{
    int64_t out[3];
    luo_arena *a = luo_arena_new(0);
    const luo_status st = luo_auto_deal_by_speed(a, shares[_i].total, shares[_i].speed,
                                                 shares[_i].n, out, NULL);
    ck_assert_int_eq(st, LUO_OK);
    for (int i = 0; i < shares[_i].n; i++) ck_assert_int_eq(out[i], shares[_i].want[i]);
    luo_arena_free(a);
}
END_TEST

/* F lb = 1 and speeds 3 and 1. */
START_TEST(ap9_forward)
{
    static const luo_auto_strategy tp2 = {1, {{LUO_AUTO_TP, 2}}, false};
    luo_arena *a = luo_arena_new(0);
    luo_auto_layer layer = {.forward_flop = 1, .heads = 8};
    luo_auto_cost c;
    machine m;
    make_machine(&m, 2, 1, 1, 0, 1);
    m.flops[0] = 3;
    luo_auto_env env = make_env(&m, 1, 1);
    ck_assert_int_eq(luo_auto_cost_layer(a, &env, &layer, &tp2, &c, NULL), LUO_OK);
    ck_near(c.forward_s, .5);
    env.uneven = true;
    ck_assert_int_eq(luo_auto_cost_layer(a, &env, &layer, &tp2, &c, NULL), LUO_OK);
    ck_near(c.forward_s, .25);
    layer.heads = 1; /* nothing would be left for the slow one */
    ck_assert_int_eq(luo_auto_cost_layer(a, &env, &layer, &tp2, &c, NULL), LUO_OK);
    ck_assert_int_eq(c.skip, LUO_AUTO_SKIP_WIDTH);
    luo_arena_free(a);
}
END_TEST

/* dp2 of tp pairs with speeds 3+1 and 2+2 is even, with heads by speed; 3+3 and 1+1 deals 8 samples
 * as 6 and 2, with even heads. */
START_TEST(samples_by_speed)
{
    static const luo_auto_strategy s = {2, {{LUO_AUTO_DP, 2}, {LUO_AUTO_TP, 2}}, false};
    static const double flops[2][4] = {{3, 1, 2, 2}, {3, 3, 1, 1}};
    static const int64_t half[2] = {4, 6}, part_of[2][4] = {{6, 2, 4, 4}, {4, 4, 4, 4}};
    luo_arena *a = luo_arena_new(0);
    for (int k = 0; k < 2; k++) {
        int64_t lo[4], hi[4], part[4];
        luo_auto_skip skip;
        machine m;
        make_machine(&m, 4, 1, 1, 0, 1);
        memcpy(m.flops, flops[k], sizeof flops[k]);
        luo_auto_env env = make_env(&m, 16, 2);
        env.uneven = true;
        ck_assert_int_eq(luo_auto_deal_samples(a, &env, &s, lo, hi, &skip, NULL), LUO_OK);
        ck_assert_int_eq(skip, LUO_AUTO_TAKEN);
        ck_assert_int_eq(luo_auto_deal_units(a, &env, &s, 8, part, &skip, NULL), LUO_OK);
        ck_assert_int_eq(skip, LUO_AUTO_TAKEN);
        for (int r = 0; r < 4; r++) {
            ck_assert_int_eq(part[r], part_of[k][r]);
            ck_assert_int_eq(lo[r], r < 2 ? 0 : half[k]);
            ck_assert_int_eq(hi[r], r < 2 ? half[k] : 8);
        }
    }
    luo_arena_free(a);
}
END_TEST

static const struct {
    int32_t layers, stages;
    double speed[3];
    int32_t want[3];
} cuts[] = {
    {12, 2, {3, 1}, {9, 3}},
    {10, 3, {4, 2, 1}, {6, 3, 1}},
    {5, 3, {1, 1, 1}, {1, 2, 2}}, /* earlier stages are shorter */
};

START_TEST(ap9_layers)
{
    luo_arena *a = luo_arena_new(0);
    double work[12];
    int32_t count[3];
    for (int l = 0; l < 12; l++) work[l] = 0.1;
    ck_assert_int_eq(
        luo_auto_cut(a, work, cuts[_i].layers, cuts[_i].speed, cuts[_i].stages, count, NULL, NULL),
        LUO_OK);
    for (int i = 0; i < cuts[_i].stages; i++) ck_assert_int_eq(count[i], cuts[_i].want[i]);
    luo_arena_free(a);
}
END_TEST

/* ---- AP10: elimination ---- */

START_TEST(ap10_diamond)
{
    static const double a[] = {3, 1}, b[] = {2, 4}, c[] = {5, 2}, d[] = {1, 3};
    static const double two[] = {0, 2, 2, 0}, one[] = {0, 1, 1, 0}, three[] = {0, 3, 3, 0};
    static const double *const node[] = {a, b, c, d};
    static const int32_t configs[] = {2, 2, 2, 2};
    static const luo_auto_graph_edge edge[] = {
        {0, 1, two}, {1, 3, two}, {0, 2, one}, {2, 3, three}};
    luo_arena *arena = luo_arena_new(0);
    int32_t config[4], core;
    double cost;
    const luo_auto_graph graph = {4, configs, node, 4, edge};
    ck_assert_int_eq(luo_auto_eliminate(arena, &graph, config, &cost, &core, NULL), LUO_OK);
    ck_near(cost, 10.0);
    for (int k = 0; k < 4; k++) ck_assert_int_eq(config[k], 1);
    ck_assert_int_eq(core, 2);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("plan.auto", LUO_T_N(ap1_counts, LUO_ROWS(counts)), LUO_T(ap1_list),
          LUO_T_N(ap2_budgets, LUO_ROWS(budgets)), LUO_T(ap4_zero_memory),
          LUO_T_N(ap5_overlap, LUO_ROWS(overlaps)), LUO_T_N(ap6_layer, LUO_ROWS(costs)),
          LUO_T_N(ap7_stage, LUO_ROWS(stages)), LUO_T_N(ap8_events, LUO_ROWS(events)),
          LUO_T_N(ap9_shares, LUO_ROWS(shares)), LUO_T(ap9_forward), LUO_T(samples_by_speed),
          LUO_T_N(ap9_layers, LUO_ROWS(cuts)), LUO_T(ap10_diamond))
