/* check_auto_search.c: automatic parallelisation beside its vectors: boundaries, mixed devices,
 * fixed choices, links by nodes, and every sentence that a user can meet. */
#include "core/plan/auto/dp.h"
#include "tests/auto_fixture.h"
#include "tests/parked/eliminate.h"

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

/* Both ways are tried; shares by speed win, and memory limits that differ are kept. Of devices that
 * are alike there is one way. */
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
    m.flops[0] = m.flops[1];
    ck_assert_int_eq(luo_auto_search(a, &job, &both, NULL), LUO_OK);
    ck_assert_int_eq(both.ntried, even.ntried);
    luo_arena_free(a);
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
    ck_assert_str_eq(err.text, "batch 7 cannot be divided by any number of micro-batches and data "
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
    layer[0].parameters = 10 * gib / 16; /* a stage that fits says nothing */
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

LUO_SUITE("plan.auto.search", LUO_T(layer_without_strategy), LUO_T(boundary), LUO_T(scaled_memory),
          LUO_T(mixed_search), LUO_T(core_too_large), LUO_T(batch_sentence), LUO_T(memory_sentence),
          LUO_T(fixed_choices), LUO_T_N(bad_layer, LUO_ROWS(bad)), LUO_T(ends_of_the_model),
          LUO_T(links_by_nodes))
