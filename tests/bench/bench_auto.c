/* bench_auto.c: automatic parallelisation, processor time. Prints `auto_dp_random_s` (96 layers of
 * 44 strategies each, 5,000 units, random memory, times and changes: nothing is alike),
 * `auto_dp_dear_s` (the same with changes dearer than any difference of times, so that every
 * predecessor is looked at), `auto_dp_model_s` (the same size, one layer of a model for all, most
 * changes free), `auto_search_s` (a 96-layer model on 8 nodes of 8, all stages and micro-batches,
 * checkpointing) and what the search worked on. Wanted: 2 s for a programme, 10 s for the search.
 */
#include <math.h>

#include "core/base/rng.h"
#include "core/plan/auto/dp.h"
#include "core/plan/auto/search.h"
#include "tests/bench/bench.h"

enum { LAYERS = 96, UNITS = 5000, STRATEGIES = 44, DEVICES = 64, PER_NODE = 8, REPEAT = 5 };

typedef struct tables {
    int32_t row[LAYERS];
    int64_t units[LAYERS * STRATEGIES];
    double seconds[LAYERS * STRATEGIES], change[LAYERS * STRATEGIES * STRATEGIES];
} tables;

static double programme(const tables *t)
{
    luo_arena *a = luo_arena_new(0);
    int32_t choice[LAYERS];
    luo_err err = {0};
    const luo_auto_dp_in in = {LAYERS, STRATEGIES, UNITS, t->row, t->units, t->seconds, t->change};
    const double start = luo_bench_cpu();
    if (luo_auto_dp(a, &in, choice, NULL, &err) != LUO_OK) luo_bench_fail("%s", err.text);
    const double took = luo_bench_cpu() - start;
    luo_arena_free(a);
    return took;
}

static void print_programme(const char *name, const tables *t)
{
    double took[REPEAT];
    for (int k = 0; k < REPEAT; k++) took[k] = programme(t);
    printf("auto_dp_%s_s %.3f s\n", name, luo_bench_median(took, REPEAT));
}

/* Changes of `dear` seconds and up to one more; memory from 0 on, so that no budget is left out. */
static void fill_random(tables *t, double dear)
{
    luo_rng rng = luo_rng_stream(1, "bench.auto");
    for (int32_t l = 0; l < LAYERS; l++) t->row[l] = l;
    for (int32_t i = 0; i < LAYERS * STRATEGIES; i++) {
        t->units[i] = luo_rng_pick(&rng, 105);
        t->seconds[i] = 1 + luo_rng_u(&rng);
    }
    for (int32_t i = 0; i < LAYERS * STRATEGIES * STRATEGIES; i++)
        t->change[i] = dear + luo_rng_u(&rng);
}

/* ---- a model of 96 layers on 64 devices of 80 GiB ---- */

typedef struct scene {
    luo_auto_layer layer[LAYERS + 2];
    double flops[DEVICES], limit[DEVICES];
    int32_t node[DEVICES], devices[DEVICES / PER_NODE];
    luo_auto_link inside[DEVICES / PER_NODE], between[DEVICES / PER_NODE];
    luo_auto_nodes nodes;
    luo_auto_cluster cluster;
} scene;

static void open_scene(scene *s)
{
    const luo_auto_widths w = {12288, 49152, 2048, 96, 51200};
    s->layer[0] = luo_auto_layer_embedding("embedding", &w);
    for (int l = 1; l <= LAYERS; l++) s->layer[l] = luo_auto_layer_transformer("layer", &w);
    s->layer[LAYERS + 1] = luo_auto_layer_head("head", &w);
    for (int d = 0; d < DEVICES; d++) {
        s->flops[d] = 200e12;
        s->limit[d] = 80.0 * (1 << 30);
        s->node[d] = d / PER_NODE;
    }
    for (int k = 0; k < DEVICES / PER_NODE; k++) {
        s->devices[k] = PER_NODE;
        s->inside[k] = (luo_auto_link){5e-6, 200e9};
        s->between[k] = (luo_auto_link){20e-6, 100e9};
    }
    s->nodes = (luo_auto_nodes){s->node, s->devices, s->inside, s->between};
    s->cluster = (luo_auto_cluster){DEVICES, s->flops, s->limit, luo_auto_link_nodes, &s->nodes};
}

static void fill_from_model(tables *t, const scene *s)
{
    luo_arena *a = luo_arena_new(0);
    luo_auto_strategy *strategy;
    luo_auto_cost cost;
    const luo_auto_env env = {.cluster = &s->cluster,
                              .devices = DEVICES,
                              .batch = 256,
                              .micro_batches = 1,
                              .in_flight = 1,
                              .slow_comm = LUO_AUTO_SLOW_COMM,
                              .slow_compute = LUO_AUTO_SLOW_COMPUTE};
    int32_t n;
    luo_auto_strategies(a, DEVICES, true, &strategy, &n, NULL);
    const luo_auto_link link = luo_auto_cost_stage_link(&env);
    int64_t *moved = LUO_NEW_N(a, int64_t, STRATEGIES * STRATEGIES);
    if (!moved || n < STRATEGIES) luo_bench_fail("no strategies");
    luo_auto_cost_moved(a, &env, strategy, STRATEGIES, moved, NULL);
    for (int32_t l = 0; l < LAYERS; l++) t->row[l] = 0;
    for (int32_t i = 0; i < STRATEGIES; i++) {
        luo_auto_cost_layer(a, &env, &s->layer[1], &strategy[i], &cost, NULL);
        t->seconds[i] = cost.skip == LUO_AUTO_TAKEN ? cost.step_s : INFINITY;
        t->units[i] = (int64_t)ceil(cost.bytes / (1 << 24));
    }
    for (int32_t i = 0; i < STRATEGIES * STRATEGIES; i++)
        t->change[i] = luo_auto_cost_change(&env, link, s->layer[1].boundary_bytes, moved[i]);
    luo_arena_free(a);
}

static void search(const scene *s)
{
    luo_arena *a = luo_arena_new(0);
    luo_auto_found found;
    luo_err err = {0};
    int64_t cells = 0;
    const luo_auto_job job = {.layer = s->layer,
                              .layers = LAYERS + 2,
                              .cluster = s->cluster,
                              .batch = 256,
                              .unit_bytes = 1 << 24,
                              .checkpointing = true,
                              .slow_comm = LUO_AUTO_SLOW_COMM,
                              .slow_compute = LUO_AUTO_SLOW_COMPUTE};
    const double start = luo_bench_cpu();
    if (luo_auto_search(a, &job, &found, &err) != LUO_OK) luo_bench_fail("%s", err.text);
    printf("auto_search_s %.3f s\n", luo_bench_cpu() - start);
    for (int32_t i = 0; i < found.ntried; i++) cells += found.tried[i].cells;
    printf("auto_search_pipelines %d 1\n", found.ntried);
    printf("auto_search_cells %lld 1\n", (long long)cells);
    printf("auto_search_stages %d 1\n", found.stages);
    printf("auto_search_micro_batches %d 1\n", found.micro_batches);
    printf("auto_search_step_s %.4f s\n", found.step_s);
    luo_arena_free(a);
}

int main(void)
{
    static tables t;
    static scene s;
    open_scene(&s);
    fill_random(&t, 0);
    print_programme("random", &t);
    fill_random(&t, 5);
    print_programme("dear", &t);
    fill_from_model(&t, &s);
    print_programme("model", &t);
    search(&s);
    return 0;
}
