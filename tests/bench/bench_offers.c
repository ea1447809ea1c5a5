/* bench_offers.c: a choice by the closed form of a step (`--rank objective`): the
 * searches of the straggler planner, the plans of the other policies and the objectives of all.
 * 70B on 64 and 1,024 H100, 405B on 16,384 with 64 and with 1,000 slow devices; rates 2.57, 5.42,
 * 12.53 and 1.5 by turns on devices at equal distances. Prints `plan_objective_DEVICES_SLOW_ms`,
 * median of three up to 1,024 devices. Wanted: 50 ms, 1 s, 10 s (docs/speed.md and issue text). */
#include <math.h>
#include <stdio.h>

#include "core/io/read/read.h"
#include "core/plan/grid.h"
#include "core/run/policy/offers.h"
#include "tests/bench/bench.h"

typedef struct row {
    const char *cluster, *model;
    int32_t devices, slow, dp, pp;
    int64_t micro_batches;
    int repeat;
} row;
static const row rows[] = {{"h100-1024", "llama-70b", 64, 3, 2, 4, 64, 3},
                           {"h100-1024", "llama-70b", 1024, 16, 32, 4, 1024, 3},
                           {"h100-16384", "llama-405b", 16384, 64, 128, 16, 4096, 1},
                           {"h100-16384", "llama-405b", 16384, 1000, 128, 16, 4096, 1}};

static void *must(void *p, const char *what)
{
    if (!p) luo_bench_fail("%s cannot be read; run from the root of the repository", what);
    return p;
}

static const luo_plan *base_plan(luo_arena *a, const row *r, const luo_model *m,
                                 const luo_cluster *c)
{
    luo_plan *p;
    luo_err err = {0};
    int32_t *dev = LUO_NEW_N(a, int32_t, r->devices);
    int64_t *layers = LUO_NEW_N(a, int64_t, r->pp);
    for (int32_t i = 0; i < r->devices; i++) dev[i] = i;
    for (int32_t s = 0; s < r->pp; s++) layers[s] = m->layers / r->pp + (s < m->layers % r->pp);
    const luo_grid g = {.name = "base", .model = m, .cluster = c, .dtype = LUO_BF16,
                        .sequence_tokens = 4096, .micro_batches = r->micro_batches / r->dp,
                        .micro_batch_sequences = 1, .zero = 1, .pipelines = r->dp,
                        .stages = r->pp, .tp = 8, .sequence_parallel = true, .dev = dev,
                        .layers = layers};
    if (luo_plan_grid(a, &g, &p, &err) != LUO_OK) luo_bench_fail("%s", err.text);
    return p;
}

static luo_status asked(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    (void)run;
    (void)p;
    (void)err;
    *seconds = INFINITY; /* nothing is asked: the closed form decides */
    return LUO_OK;
}

static double choose(const row *r, const luo_model *m, const luo_cluster *c, double *took)
{
    static const double rates[] = {2.57, 5.42, 12.53, 1.5};
    luo_arena *a = luo_arena_new(1 << 20);
    luo_scenario sc = {.model = m, .cluster = (luo_cluster *)c};
    luo_policy_spec spec;
    luo_offers o;
    luo_err err = {0};
    double *rate = LUO_NEW_N(a, double, c->ndevices);
    bool *none = LUO_NEW_N(a, bool, c->ndevices), *all = LUO_NEW_N(a, bool, c->ndevices);
    luo_stack_default(&sc.stack);
    luo_read_policy_defaults(&spec, "malleus");
    for (int32_t d = 0; d < c->ndevices; d++) {
        all[d] = d < r->devices;
        rate[d] = all[d] ? 1 : (double)INFINITY;
    }
    for (int32_t i = 0; i < r->slow; i++) rate[r->devices / r->slow * i] = rates[i % 4];
    const luo_plan *base = base_plan(a, r, m, c);
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = base, .plan = base,
                             .rate = rate, .leaving = none, .candidate = all,
                             .micro_batches = r->micro_batches, .sequence_tokens = 4096,
                             .memory_factor = 1, .step_s = asked, .closed_form = true};
    const luo_malleus_job job = luo_offers_job(&now, now.base);
    const double start = luo_bench_now();
    if (luo_offers_all(a, &now, &job, &o, &err) != LUO_OK ||
        luo_offers_judge(&o, &now, &err) != LUO_OK)
        luo_bench_fail("%s", err.text);
    *took = luo_bench_now() - start;
    const double best = o.at[0].step_s;
    luo_arena_free(a);
    return best;
}

int main(int argc, char **argv)
{
    const int only = argc > 1 ? argv[1][0] - '0' : -1;
    for (int k = 0; k < (int)(sizeof rows / sizeof *rows); k++) {
        const row *r = &rows[k];
        luo_arena *a = luo_arena_new(1 << 20);
        luo_diags diags;
        luo_cluster *c = NULL;
        luo_model *m = NULL;
        double took[3], best = 0;
        if (only >= 0 && k != only) continue;
        luo_diags_init(&diags, a);
        luo_read_cluster(a, luo_arena_printf(a, "scenarios/clusters/%s.yaml", r->cluster), &c,
                         &diags);
        luo_read_model(a, luo_arena_printf(a, "scenarios/models/%s.yaml", r->model), &m, &diags);
        must(c, r->cluster);
        must(m, r->model);
        for (int i = 0; i < r->repeat; i++) best = choose(r, m, c, &took[i]);
        printf("plan_objective_%d_%d_ms %.1f ms\n", r->devices, r->slow,
               1e3 * luo_bench_median(took, r->repeat));
        printf("plan_objective_%d_%d_step %.4f s\n", r->devices, r->slow, best);
        luo_arena_free(a);
    }
    return 0;
}
