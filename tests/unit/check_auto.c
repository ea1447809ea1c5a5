/* check_auto.c: the vectors AP1 to AP10 of automatic parallelisation, links by nodes, and every
 * sentence that a user can meet. */
#include <math.h>

#include "core/graph/schedule/sched.h"
#include "core/plan/auto/cut.h"
#include "core/plan/auto/dp.h"
#include "core/plan/auto/eliminate.h"
#include "core/plan/auto/search.h"
#include "tests/check_main.h"

#define MIB (1 << 20)

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

#define ck_near(a, b) ck_assert_msg(near(a, b), "%s: %.12g is not %.12g", #a, (double)(a), (b))

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

START_TEST(layer_without_strategy)
{
    static const int64_t units[] = {1, 1};
    static const double seconds[] = {INFINITY, INFINITY};
    luo_arena *a = luo_arena_new(0);
    const luo_auto_dp_in in = {1, 2, 9, NULL, units, seconds, NULL};
    int32_t choice[1];
    luo_err err = {0};
    ck_assert_int_eq(luo_auto_dp(a, &in, choice, NULL, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "a layer has no strategy; at least one is expected.");
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

enum { MOST = 64 };
typedef struct machine { /* equal devices on one link */
    double flops[MOST], limit[MOST];
    luo_auto_link link;
    luo_auto_cluster cluster;
} machine;

static void make_machine(machine *m, int32_t devices, double flops, double limit, double latency,
                         double bytes_per_s)
{
    for (int32_t d = 0; d < devices; d++) {
        m->flops[d] = flops;
        m->limit[d] = limit;
    }
    m->link = (luo_auto_link){latency, bytes_per_s};
    m->cluster = (luo_auto_cluster){devices, m->flops, m->limit, luo_auto_link_flat, &m->link};
}

static luo_auto_env make_env(const machine *m, int64_t batch, int32_t micro_batches)
{
    return (luo_auto_env){.cluster = &m->cluster,
                          .devices = m->cluster.devices,
                          .batch = batch,
                          .micro_batches = micro_batches,
                          .in_flight = 1,
                          .slow_comm = LUO_AUTO_SLOW_COMM,
                          .slow_compute = LUO_AUTO_SLOW_COMPUTE};
}

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

typedef struct case7 {
    machine m;
    luo_auto_layer layer[4];
    luo_auto_job job;
} case7;

static void make_case7(case7 *x, double limit)
{
    const luo_auto_widths w = {1024, 4096, 512, 16, 0};
    make_machine(&x->m, 4, 60e12, limit, 5e-6, 50e9);
    for (int l = 0; l < 4; l++) x->layer[l] = luo_auto_layer_transformer("l", &w);
    x->job = (luo_auto_job){.layer = x->layer,
                            .layers = 4,
                            .cluster = x->m.cluster,
                            .batch = 8,
                            .unit_bytes = MIB,
                            .stages = 1,
                            .micro_batches = 2,
                            .checkpointing = true,
                            .uneven = LUO_AUTO_BOTH,
                            .slow_comm = LUO_AUTO_SLOW_COMM,
                            .slow_compute = LUO_AUTO_SLOW_COMPUTE};
}

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

/* Two stages, one micro-batch: there and back over a boundary of 3 samples of 2 bytes at 1 byte/s,
 * latency 0.25. */
START_TEST(boundary)
{
    luo_arena *a = luo_arena_new(0);
    luo_auto_layer layer[2] = {{.boundary_bytes = 2}, {.boundary_bytes = 100}};
    const luo_auto_stage stage[2] = {
        {.layers = 1, .forward_s = 1, .backward_s = 2, .samples_out = 2},
        {.first_layer = 1,
         .layers = 1,
         .first_device = 1,
         .forward_s = 1,
         .backward_s = 2,
         .samples_in = 3}};
    machine m;
    double got;
    make_machine(&m, 2, 1, 1, .25, 1);
    const luo_auto_job job = {.layer = layer, .layers = 2, .cluster = m.cluster};
    ck_assert_int_eq(luo_auto_search_score(a, &job, stage, 2, 1, &got, NULL), LUO_OK);
    ck_near(got, 1 + 6.25 + 1 + 2 + 6.25 + 2);
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
    luo_auto_deal_by_speed(shares[_i].total, shares[_i].speed, shares[_i].n, out);
    for (int i = 0; i < shares[_i].n; i++) ck_assert_int_eq(out[i], shares[_i].want[i]);
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

/* A device of three times the speed and three times the memory holds three quarters of the layer,
 * which is no more to it than a quarter to the other. */
START_TEST(scaled_memory)
{
    static const luo_auto_strategy tp2 = {1, {{LUO_AUTO_TP, 2}}, false};
    luo_arena *a = luo_arena_new(0);
    const luo_auto_layer layer = {.parameters = 1, .heads = 8};
    luo_auto_cost c;
    machine m;
    make_machine(&m, 2, 1, 10, 0, 1);
    m.flops[0] = 3;
    m.limit[0] = 30;
    luo_auto_env env = make_env(&m, 1, 1);
    env.uneven = true;
    ck_assert_int_eq(luo_auto_cost_layer(a, &env, &layer, &tp2, &c, NULL), LUO_OK);
    ck_near(c.bytes, 12.0);
    ck_near(c.scaled_bytes, 4.0);
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

/* Both ways are tried; shares by speed win, and memory limits that differ are kept. */
START_TEST(mixed_search)
{
    const luo_auto_widths w = {512, 2048, 256, 8, 0};
    luo_arena *a = luo_arena_new(0);
    luo_auto_layer layer[4];
    luo_auto_found even, both;
    machine m;
    make_machine(&m, 2, 1e12, 1e9, 1e-6, 100e9);
    m.flops[0] = 3e12;
    for (int l = 0; l < 4; l++) layer[l] = luo_auto_layer_transformer("l", &w);
    luo_auto_job job = {.layer = layer,
                        .layers = 4,
                        .cluster = m.cluster,
                        .batch = 8,
                        .unit_bytes = MIB,
                        .uneven = LUO_AUTO_EVEN,
                        .slow_comm = 1.3,
                        .slow_compute = 1.2};
    ck_assert_int_eq(luo_auto_search(a, &job, &even, NULL), LUO_OK);
    job.uneven = LUO_AUTO_BOTH;
    ck_assert_int_eq(luo_auto_search(a, &job, &both, NULL), LUO_OK);
    ck_assert(both.uneven && !even.uneven);
    ck_assert(both.step_s < even.step_s * .9);
    ck_assert_int_eq(both.ntried, 2 * even.ntried);
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

/* Every node joined to all before it: nothing can be folded. */
START_TEST(core_too_large)
{
    enum { N = 31 };
    static const double node[2] = {0, 0}, edge[4] = {0, 1, 1, 0};
    luo_arena *arena = luo_arena_new(0);
    luo_auto_graph_edge all[N * N];
    const double *cost[N];
    int32_t configs[N], config[N], n = 0;
    luo_err err = {0};
    for (int k = 0; k < N; k++) {
        configs[k] = 2;
        cost[k] = node;
        for (int i = 0; i < k; i++) all[n++] = (luo_auto_graph_edge){i, k, edge};
    }
    luo_auto_graph graph = {N, configs, cost, n, all};
    ck_assert_int_eq(luo_auto_eliminate(arena, &graph, config, NULL, NULL, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text,
                     "graph core of 31 nodes is too large for elimination; use --method dp.");
    all[0] = (luo_auto_graph_edge){1, 0, edge};
    all[1] = (luo_auto_graph_edge){0, 1, edge};
    ck_assert_int_eq(luo_auto_eliminate(arena, &graph, config, NULL, NULL, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "node 0 of the graph is in a circle or behind one; a graph without "
                               "circles is expected.");
    luo_arena_free(arena);
}
END_TEST

/* ---- sentences, fixed choices, links ---- */

START_TEST(batch_sentence)
{
    luo_arena *a = luo_arena_new(0);
    case7 x;
    luo_auto_found found;
    luo_err err = {0};
    make_case7(&x, 80e9);
    for (int l = 0; l < 4; l++) x.layer[l].heads = 7;
    x.job.stages = x.job.micro_batches = 0;
    x.job.batch = 7;
    ck_assert_int_eq(luo_auto_search(a, &x.job, &found, &err), LUO_EUSAGE);
    ck_assert_str_eq(err.text, "batch 7 can not be divided by any number of micro-batches and data "
                               "degree; try 8.");
    x.job.batch = 8;
    ck_assert_int_eq(luo_auto_search(a, &x.job, &found, &err), LUO_OK);
    luo_arena_free(a);
}
END_TEST

/* Layers of 40.6 and 52 GiB of state: halved on one stage they are closer to 40 than on two. */
START_TEST(memory_sentence)
{
    const double gib = 1 << 30;
    luo_arena *a = luo_arena_new(0);
    luo_auto_layer layer[2] = {{.parameters = 40.6 * gib / 16}, {.parameters = 52 * gib / 16}};
    luo_auto_found found;
    luo_err err = {0};
    machine m;
    make_machine(&m, 2, 1, 40 * gib, 0, 1);
    luo_auto_job job = {.layer = layer,
                        .layers = 2,
                        .cluster = m.cluster,
                        .batch = 4,
                        .unit_bytes = MIB,
                        .slow_comm = 1.3,
                        .slow_compute = 1.2};
    ck_assert_int_eq(luo_auto_search(a, &job, &found, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text,
                     "no strategy fits 40.0 GiB on device 0; the smallest needs 46.3 GiB.");
    job.stages = 2;
    ck_assert_int_eq(luo_auto_search(a, &job, &found, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text,
                     "no strategy fits 40.0 GiB on device 1; the smallest needs 52.0 GiB.");
    luo_arena_free(a);
}
END_TEST

static bool allow_none(const void *ctx, int32_t layer, const luo_auto_strategy *s)
{
    (void)ctx;
    (void)layer;
    (void)s;
    return false;
}

static bool allow_copies(const void *ctx, int32_t layer, const luo_auto_strategy *s)
{
    (void)ctx;
    return layer != 2 || luo_auto_strategy_data(s) == 4;
}

START_TEST(fixed_choices)
{
    luo_arena *a = luo_arena_new(0);
    case7 x;
    luo_auto_found found;
    luo_err err = {0};
    make_case7(&x, 500e6);
    x.job.allow = allow_copies;
    ck_assert_int_eq(luo_auto_search(a, &x.job, &found, &err), LUO_OK);
    ck_assert_int_eq(luo_auto_strategy_data(&found.strategy[2]), 4);
    x.job.allow = allow_none;
    ck_assert_int_eq(luo_auto_search(a, &x.job, &found, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "no strategy suits all layers on any number of stages; other heads "
                               "or widths, or fewer fixed choices, are needed.");
    luo_arena_free(a);
}
END_TEST

static const struct {
    double time, parameters;
    const char *says;
} bad[] = {
    {-1, 1, "time of layer 'l3' is negative; a number of at least 0 is expected."},
    {1, -5, "parameter count of layer 'l3' is negative; a number of at least 0 is expected."},
    {NAN, 1, "time of layer 'l3' is not a finite number; a number of at least 0 is expected."},
};

START_TEST(bad_layer)
{
    luo_arena *a = luo_arena_new(0);
    case7 x;
    luo_auto_found found = {.stages = 99};
    luo_err err = {0};
    make_case7(&x, 1e9);
    x.layer[3].name = "l3";
    x.layer[3].forward_flop = bad[_i].time;
    x.layer[3].parameters = bad[_i].parameters;
    ck_assert_int_eq(luo_auto_search(a, &x.job, &found, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, bad[_i].says);
    ck_assert_int_eq(found.stages, 99);
    luo_arena_free(a);
}
END_TEST

/* Embedding and head are in the first and the last stage; one device has one strategy. */
START_TEST(ends_of_the_model)
{
    const luo_auto_widths w = {1024, 4096, 512, 16, 32000};
    luo_arena *a = luo_arena_new(0);
    luo_auto_layer layer[4] = {
        luo_auto_layer_embedding("embedding", &w), luo_auto_layer_transformer("l0", &w),
        luo_auto_layer_transformer("l1", &w), luo_auto_layer_head("head", &w)};
    luo_auto_found found;
    machine m;
    make_machine(&m, 2, 60e12, 8e9, 5e-6, 50e9);
    luo_auto_job job = {.layer = layer,
                        .layers = 4,
                        .cluster = m.cluster,
                        .batch = 8,
                        .unit_bytes = MIB,
                        .stages = 2,
                        .slow_comm = 1.3,
                        .slow_compute = 1.2};
    ck_assert(layer[3].forward_flop == 2.0 * 512 * 1024 * 32000);
    ck_assert(layer[0].parameters == 1024 * 32000 && layer[0].forward_flop == 0);
    ck_assert_int_eq(luo_auto_search(a, &job, &found, NULL), LUO_OK);
    ck_assert_int_eq(found.stages, 2);
    ck_assert_int_eq(found.stage[0].first_layer, 0);
    ck_assert_int_eq(found.stage[0].layers + found.stage[1].layers, 4);
    job.cluster.devices = 1;
    job.stages = 0;
    ck_assert_int_eq(luo_auto_search(a, &job, &found, NULL), LUO_OK);
    ck_assert_int_eq(found.stages, 1);
    ck_assert_int_eq(found.strategy[0].n, 0);
    luo_arena_free(a);
}
END_TEST

/* 2 nodes of 4: pairs of neighbours stay inside; groups across nodes get a part of the network. */
START_TEST(links_by_nodes)
{
    static const int32_t node[] = {0, 0, 0, 0, 1, 1, 1, 1}, devices[] = {4, 4};
    static const luo_auto_link inside[] = {{1e-6, 100}, {1e-6, 90}},
                               between[] = {{9e-6, 40}, {9e-6, 20}};
    static const luo_auto_nodes nodes = {node, devices, inside, between};
    static const struct {
        luo_auto_groups groups;
        double latency, speed;
    } want[] = {{{0, 8, 2, 1}, 1e-6, 90},
                {{0, 4, 4, 1}, 1e-6, 100},
                {{0, 8, 2, 4}, 9e-6, 5},
                {{0, 8, 8, 1}, 9e-6, 20},
                {{0, 8, 4, 2}, 9e-6, 10}};
    for (int i = 0; i < LUO_ROWS(want); i++) {
        const luo_auto_link got = luo_auto_link_nodes(&nodes, want[i].groups);
        ck_near(got.latency_s, want[i].latency);
        ck_near(got.bytes_per_s, want[i].speed);
    }
}
END_TEST

LUO_SUITE("plan.auto", LUO_T_N(ap1_counts, LUO_ROWS(counts)), LUO_T(ap1_list),
          LUO_T_N(ap2_budgets, LUO_ROWS(budgets)), LUO_T(ap4_zero_memory),
          LUO_T(layer_without_strategy), LUO_T_N(ap5_overlap, LUO_ROWS(overlaps)),
          LUO_T_N(ap6_layer, LUO_ROWS(costs)), LUO_T_N(ap7_stage, LUO_ROWS(stages)),
          LUO_T_N(ap8_events, LUO_ROWS(events)), LUO_T(boundary),
          LUO_T_N(ap9_shares, LUO_ROWS(shares)), LUO_T(ap9_forward), LUO_T(scaled_memory),
          LUO_T(samples_by_speed), LUO_T_N(ap9_layers, LUO_ROWS(cuts)), LUO_T(mixed_search),
          LUO_T(ap10_diamond), LUO_T(core_too_large), LUO_T(batch_sentence), LUO_T(memory_sentence),
          LUO_T(fixed_choices), LUO_T_N(bad_layer, LUO_ROWS(bad)), LUO_T(ends_of_the_model),
          LUO_T(links_by_nodes))
