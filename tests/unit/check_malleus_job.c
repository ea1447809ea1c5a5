/* check_malleus_job.c: the straggler planner on models and clusters: memory
 * (docs/planners.md#memory), the public settings through the whole chain, plans that compile,
 * mixed GPUs, the cost of a transition (12). */
#include <math.h>

#include "core/cost/step/memory.h"
#include "core/io/read/read.h"
#include "core/plan/compile.h"
#include "core/plan/grid.h"
#include "core/plan/malleus/malleus_job_internal.h"
#include "tests/cluster_fixture.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

static luo_arena *arena;
static luo_err err;

static void setup(void)
{
    arena = luo_arena_new(1 << 20);
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    luo_arena_free(arena);
}

/* ---- settings of the public files ---- */

static const double k32[] = {4608.02, 4124.24, 3641.99, 3129.95};
static const double k70[] = {2895, 2685, 2485, 2295, 2110, 1933, 1769, 1647};
static const double k110[] = {4240, 3930, 3630, 3338, 3068, 2830, 2597, 2438};
static const double alpha2[] = {1, 2}, alpha70[] = {1, 1.90, 3.66, 7.22};
static const double alpha110[] = {1, 1.91, 3.77, 7.35};

typedef struct setting {
    const char *name;
    int64_t hidden, ffn, layers;
    int32_t dp, tp, pp;
    double emb, extra;
    int32_t nk, nalpha;
    const double *k, *alpha;
} setting;

static const setting settings[] = {
    {"K32", 6656, 17920, 60, 4, 2, 4, 1200, 5500, 4, 2, k32, alpha2},
    {"K70", 8192, 28672, 80, 2, 8, 4, 600, 4700, 8, 4, k70, alpha70},
    {"K110", 8192, 49152, 80, 2, 8, 4, 500, 4900, 8, 4, k110, alpha110},
};

typedef struct job {
    luo_model model;
    luo_stack stack;
    luo_malleus_params params;
    luo_malleus_job in;
    double *rate;
} job;

static luo_plan *grid_plan(const luo_model *m, const luo_cluster *c, int32_t dp, int32_t pp,
                           int32_t tp, int64_t micro_batches, int32_t zero)
{
    int32_t *dev = LUO_NEW_N(arena, int32_t, dp * pp * tp);
    luo_plan *p;
    for (int32_t i = 0; i < dp * pp * tp; i++) dev[i] = i;
    const luo_grid g = {.name = "base", .model = m, .cluster = c, .dtype = m->dtype,
                        .sequence_tokens = 4096, .micro_batches = micro_batches,
                        .micro_batch_sequences = 1, .zero = zero, .pipelines = dp, .stages = pp,
                        .tp = tp, .sequence_parallel = tp > 1, .dev = dev};
    ck_assert_int_eq(luo_plan_grid(arena, &g, &p, &err), LUO_OK);
    return p;
}

static void start(job *j, const luo_cluster *c, const luo_plan *base)
{
    luo_stack_default(&j->stack);
    j->rate = LUO_NEW_N(arena, double, c->ndevices);
    for (int32_t d = 0; d < c->ndevices; d++) j->rate[d] = 1;
    j->in = (luo_malleus_job){.model = &j->model, .cluster = c, .stack = &j->stack, .base = base,
                              .rate = j->rate};
}

/* Pipeline i, stage j on node 4i+j with tp 8; pipeline i on node i with 32B. */
static void start_setting(job *j, const setting *s, bool table)
{
    memset(j, 0, sizeof *j);
    j->model = luo_test_llama(s->layers, s->hidden, s->ffn, 64, 32000);
    const luo_cluster *c = fixture_cluster(arena, 1, s->dp * s->tp * s->pp / 8, 8);
    start(j, c, grid_plan(&j->model, c, s->dp, s->pp, s->tp, 64 / s->dp, 1));
    j->params = (luo_malleus_params){.nalpha = s->nalpha, .alpha = s->alpha, .tau_s = 0.01,
                                     .gap_mib = -1, .bound_mib = 81252};
    if (table) {
        j->params.nk = s->nk;
        j->params.k_mib = s->k;
        j->params.emb_mib = s->emb;
        j->params.extra_mib = s->extra;
        j->in.memory_table = true;
    }
    j->in.params = &j->params;
}

static luo_malleus_answer plan(const luo_malleus_job *in)
{
    luo_malleus_answer a;
    luo_plan_finding *f;
    int32_t n;
    ck_assert_msg(luo_plan_malleus(arena, in, &a, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_plan_check(arena, a.plan, in->model, in->cluster, &f, &n) == LUO_OK, "%s",
                  f[0].text);
    return a;
}

/* ---- memory ---- */

START_TEST(model_reproduces_the_tables)
{
    const setting *s = &settings[_i];
    job j;
    luo_kinds k;
    start_setting(&j, s, false);
    ck_assert_int_eq(luo_kinds_make(arena, &j.in, &k, &err), LUO_OK);
    for (int32_t r = 1; r <= s->nk; r++) { /* r micro-batches in flight: stage nk - r of nk */
        const int32_t stage = s->nk - r;
        const double got = luo_kinds_mib(&k, 0, s->tp, s->nk, stage, s->dp, 1) -
                           luo_kinds_mib(&k, 0, s->tp, s->nk, stage, s->dp, 0);
        const double ratio = got / s->k[s->nk - r];
        ck_assert_msg(fabs(ratio - 1) <= 0.085, "%s, %d in flight: %.2f MiB, the table has %.2f",
                      s->name, r, got, s->k[s->nk - r]);
    }
}
END_TEST

/* The model against the public tables: 488, 176 and 256 MiB per micro-batch more in flight. */
START_TEST(model_increments)
{
    static const double want[] = {488, 176, 256};
    const setting *s = &settings[_i];
    job j;
    luo_kinds k;
    start_setting(&j, s, false);
    ck_assert_int_eq(luo_kinds_make(arena, &j.in, &k, &err), LUO_OK);
    const double more = luo_kinds_mib(&k, 0, s->tp, 4, 1, s->dp, 1) -
                        luo_kinds_mib(&k, 0, s->tp, 4, 1, s->dp, 0);
    const double less = luo_kinds_mib(&k, 0, s->tp, 4, 2, s->dp, 1) -
                        luo_kinds_mib(&k, 0, s->tp, 4, 2, s->dp, 0);
    ck_assert_double_eq_tol(more - less, want[_i], 1e-3);
}
END_TEST

/* A stage that recomputes holds one layer more, the one run again, whole; the table says what a
 * layer takes, and nothing is added to it. */
START_TEST(layer_run_again)
{
    const setting *s = &settings[0];
    const double mib = 1 << 20;
    double fixed[2];
    job j;
    luo_kinds k;
    for (int full = 0; full < 2; full++) {
        start_setting(&j, s, _i);
        for (int32_t i = 0; i < j.in.base->npipelines; i++)
            for (int32_t at = 0; at < j.in.base->pipelines[i].nstages; at++)
                ((luo_stage *)j.in.base->pipelines[i].stages)[at].recompute =
                    full ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
        ck_assert_int_eq(luo_kinds_make(arena, &j.in, &k, &err), LUO_OK);
        fixed[full] = luo_kinds_mib(&k, 0, s->tp, s->nk, 1, s->dp, 0);
    }
    const luo_mem_spec x = {.model = &j.model,
                            .sequence_tokens = 4096,
                            .tp = s->tp,
                            .micro_batch_tokens = 4096,
                            .sequence_parallel = j.in.base->sequence_parallel,
                            .attention_fused = j.stack.attention_fused};
    ck_assert_double_eq_tol(fixed[1] - fixed[0], _i ? 0 : luo_mem_layer_activations(&x, 0) / mib,
                            1e-6);
}
END_TEST

typedef struct cap_row {
    int setting, stages;
    int32_t size[6]; /* per stage */
    int64_t want[6];
} cap_row;

static const cap_row cap_rows[] = {
    {0, 4, {2, 2, 2, 2}, {15, 17, 19, 22}},
    {0, 4, {1, 2, 2, 2}, {7, 17, 19, 22}},
    {1, 4, {8, 8, 8, 8}, {34, 37, 40, 43}},
    {1, 5, {1, 2, 4, 8, 8}, {3, 8, 18, 40, 43}},
    {1, 6, {1, 2, 4, 8, 8, 8}, {3, 7, 17, 37, 40, 43}},
    {2, 4, {8, 8, 8, 8}, {23, 25, 27, 29}},
};

START_TEST(table_caps) /* C1 to C3 */
{
    const cap_row *r = &cap_rows[_i];
    job j;
    luo_kinds k;
    start_setting(&j, &settings[r->setting], true);
    ck_assert_int_eq(luo_kinds_make(arena, &j.in, &k, &err), LUO_OK);
    for (int32_t s = 0; s < r->stages; s++) {
        const int64_t cap = luo_kinds_cap(&k, 0, r->size[s], r->stages, s, 2);
        ck_assert_int_eq(cap, r->want[s]);
        const double room = 81252 - 4096;
        ck_assert_double_le(luo_kinds_mib(&k, 0, r->size[s], r->stages, s, 2, cap), room);
        ck_assert_double_gt(luo_kinds_mib(&k, 0, r->size[s], r->stages, s, 2, cap + 1), room);
    }
}
END_TEST

START_TEST(model_caps_of_32b)
{
    static const int64_t table[] = {15, 17, 19, 22};
    job j;
    luo_kinds k;
    start_setting(&j, &settings[0], false);
    ck_assert_int_eq(luo_kinds_make(arena, &j.in, &k, &err), LUO_OK);
    for (int32_t s = 0; s < 4; s++) {
        const int64_t cap = luo_kinds_cap(&k, 0, 2, 4, s, 4);
        ck_assert_msg(llabs(cap - table[s]) <= 2, "stage %d: %lld", s, (long long)cap);
    }
}
END_TEST

/* ---- public settings through model, cluster, placement and plan ---- */

typedef struct pl_row {
    const char *id;
    int setting;
    int32_t n, device[4];
    double rate[4], bound, filled, event, oracle; /* oracle 0: not listed */
} pl_row;

static const pl_row pl_rows[] = {
    {"PL1", 1, 1, {0}, {2.57}, 644.995, 734.40, 734.40, 1.0096},
    {"PL1, node 5", 1, 1, {44}, {2.57}, 644.995, 734.40, 734.40, 1.0096},
    {"PL1, 12.53", 1, 1, {0}, {12.53}, 644.995, 734.40, 734.40, 1.0146},
    {"PL2", 1, 1, {0}, {1.25}, 644.995, 721.75, 721.00, 1.0031},
    {"PL3", 2, 1, {0}, {2.57}, 646.068, 737.08, 737.08, 0},
    {"PL4", 0, 1, {0}, {2.57}, 247.742, 300, 300, 1.0195},
    {"PL7", 1, 3, {0, 8, 16}, {12.53, 12.53, 2.57}, 655.223, 787.96, 787.96, 1.0398},
    {"PL12", 0, 2, {0, 1}, {12.53, 12.53}, 254.645, 315, 315, 0},
};

START_TEST(public_settings)
{
    const pl_row *r = &pl_rows[_i];
    job j;
    start_setting(&j, &settings[r->setting], true);
    for (int32_t i = 0; i < r->n; i++) j.rate[r->device[i]] = r->rate[i];
    const luo_malleus_answer a = plan(&j.in);
    const luo_malleus_plan *p = &a.found->plans[0];
    double event;
    ck_assert_double_eq_tol(a.healthy_steady, r->setting == 0 ? 240 : 640, 1e-6);
    ck_assert_double_eq_tol(a.healthy_event, r->setting == 0 ? 285 : 700, 1e-6);
    ck_assert_double_eq_tol(a.found->bound, r->bound, 5e-4);
    ck_assert_msg(p->filled <= r->filled + 1e-6, "%s: filled %.3f", r->id, p->filled);
    ck_assert_msg(p->event <= r->event + 1e-6, "%s: event %.3f", r->id, p->event);
    ck_assert_double_ge(p->steady, r->bound - 1e-3);
    if (r->oracle > 0) ck_assert_double_eq_tol(a.oracle / a.healthy_event, r->oracle, 5e-5);
    ck_assert_int_eq(luo_malleus_event_s(arena, &j.in, a.plan, &event, &err), LUO_OK);
    ck_assert_double_eq_tol(event, p->event * 0.01, 1e-9);
}
END_TEST

/* Nothing slow, nothing missing, or all alike: the base plan itself, by its hash. */
START_TEST(healthy_is_the_base_plan)
{
    job j;
    start_setting(&j, &settings[1], true);
    for (int32_t d = 0; d < 64; d++)
        j.rate[d] = _i == 0 ? 1 : _i == 1 ? 1 + 0.01 * (d % 10) : 2.57;
    const luo_malleus_answer a = plan(&j.in);
    ck_assert(a.found->search.skipped);
    ck_assert(luo_plan_hash(a.plan) == luo_plan_hash(j.in.base));
    ck_assert_double_eq_tol(a.found->plans[0].event, _i == 2 ? 700 * 2.57 : 700, 1e-6);
    ck_assert_double_eq_tol(a.oracle / a.healthy_event, _i == 0 ? 1 : a.oracle / 700, 1e-12);
}
END_TEST

/* Healthy groups of PL1 keep their devices in order, and each holds more of what it had than it
 * would at any other place of its class; the same snapshot on top of the new plan moves nothing. */
START_TEST(placement_keeps_what_is_there)
{
    job j;
    luo_transition once, again;
    start_setting(&j, &settings[1], true);
    j.rate[0] = 5.42;
    const luo_malleus_answer a = plan(&j.in);
    for (int32_t i = 0; i < a.plan->npipelines; i++)
        for (int32_t s = 0; s < a.plan->pipelines[i].nstages; s++) {
            const luo_stage *st = &a.plan->pipelines[i].stages[s];
            for (int32_t d = 0; d < st->ndev && st->ndev == 8; d++)
                ck_assert_int_eq(st->dev[d], st->dev[0] + d);
        }
    ck_assert_int_eq(luo_transition_cost(arena, j.in.base, a.plan, &j.model, j.in.cluster, 0, NULL,
                                         &once, &err), LUO_OK);
    ck_assert_int_gt(once.bytes_remote, 0);
    j.in.prev = a.plan;
    const luo_malleus_answer b = plan(&j.in);
    ck_assert(luo_plan_hash(b.plan) == luo_plan_hash(a.plan));
    ck_assert_int_eq(luo_transition_cost(arena, a.plan, b.plan, &j.model, j.in.cluster, 0, NULL,
                                         &again, &err), LUO_OK);
    ck_assert_int_eq(again.bytes_remote + again.bytes_local + again.messages, 0);
    ck_assert_double_eq(again.seconds, 0);
}
END_TEST

/* Bytes that the plan moves when its healthy full groups stand at these places. */
static int64_t moved(const job *j, luo_plan *p, luo_stage **full, const int32_t **dev,
                     const int32_t *order, int32_t n)
{
    luo_transition t;
    for (int32_t i = 0; i < n; i++) full[i]->dev = dev[order[i]];
    ck_assert_int_eq(luo_transition_cost(arena, j->in.base, p, &j->model, j->in.cluster, 0, NULL,
                                         &t, &err), LUO_OK);
    return t.bytes_local + t.bytes_remote;
}

static int64_t least_moved(const job *j, luo_plan *p, luo_stage **full, const int32_t **dev,
                           int32_t *order, int32_t at, int32_t n)
{
    if (at == n) return moved(j, p, full, dev, order, n);
    int64_t least = INT64_MAX;
    for (int32_t i = at; i < n; i++) {
        const int32_t here = order[at];
        order[at] = order[i];
        order[i] = here;
        const int64_t m = least_moved(j, p, full, dev, order, at + 1, n);
        if (m < least) least = m;
        order[i] = order[at];
        order[at] = here;
    }
    return least;
}

/* No other placement of the healthy full groups moves less, but for what embedding and head weigh,
 * which overlap in layers does not see. */
START_TEST(no_placement_moves_less)
{
    LUO_PROP_FOR(seed, 12)
    {
        luo_rng rng = luo_rng_seed(seed);
        job j = {.model = luo_test_llama(13, 256, 704, 8, 128)};
        const luo_cluster *c = fixture_cluster(arena, 1, 6, 4);
        luo_stage *full[6];
        const int32_t *dev[6];
        int32_t order[6], n = 0;
        start(&j, c, grid_plan(&j.model, c, 2, 1, 4, 8, 0));
        j.in.base = luo_test_plan(arena, "6: [0-3]*4 [4-7]*4 [8-11]*5 || 6: [12-15]*5 [16-19]*4 "
                                         "[20-23]*4");
        for (int k = 0; k < 2; k++)
            j.rate[luo_rng_pick(&rng, 24)] = 1.5 + 6 * luo_rng_u(&rng);
        luo_plan *p = plan(&j.in).plan;
        for (int32_t i = 0; i < p->npipelines; i++)
            for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
                luo_stage *st = (luo_stage *)&p->pipelines[i].stages[s];
                double worst = 1;
                for (int32_t d = 0; d < st->ndev; d++) worst = fmax(worst, j.rate[st->dev[d]]);
                if (st->ndev != 4 || worst > 1) continue;
                full[n] = st;
                order[n] = n;
                dev[n++] = st->dev;
            }
        ck_assert_int_ge(n, 3);
        const int64_t tables = 12 * 2 * (128 * 256 + 256) * j.in.base->npipelines;
        const int64_t placed = moved(&j, p, full, dev, order, n);
        const int64_t least = least_moved(&j, p, full, dev, order, 0, n);
        ck_assert_msg(placed <= least + tables, "seed %llu: %lld bytes, possible are %lld",
                      (unsigned long long)seed, (long long)placed, (long long)least);
    }
}
END_TEST

/* ---- small jobs at random: valid, compiled, complete ---- */

static void everyone_once(const luo_malleus_job *in, const luo_malleus_answer *a)
{
    const luo_malleus_plan *p = &a->found->plans[0];
    int32_t *seen = LUO_NEW_N(arena, int32_t, in->cluster->ndevices);
    for (int32_t i = 0; i < p->npipes; i++)
        for (int32_t s = 0; s < p->pipes[i].nstages; s++) {
            const luo_malleus_stage *st = &p->pipes[i].stages[s];
            const luo_stage *made = &a->plan->pipelines[i].stages[s];
            ck_assert_int_le(st->hi - st->lo, st->cap);
            ck_assert_int_eq(made->ndev, st->group->size);
            for (int32_t d = 0; d < st->group->size; d++) {
                seen[st->group->devices[d]]++;
                ck_assert_int_eq(made->dev[d], st->group->devices[d]);
            }
        }
    for (int32_t i = 0; i < p->nstandby; i++) seen[p->standby[i]]++;
    for (int32_t i = 0; i < a->nexcluded; i++) seen[a->excluded[i]]++;
    for (int32_t d = 0; d < in->cluster->ndevices; d++) ck_assert_int_eq(seen[d], 1);
}

START_TEST(random_rates_compile)
{
    LUO_PROP_FOR(seed, 25)
    {
        luo_arena *outer = arena;
        luo_rng rng = luo_rng_seed(seed);
        luo_programs *set;
        luo_memory *m;
        double ratio, event;
        int32_t worst;
        job j = {.model = luo_test_llama(12, 2048, 5504, 16, 8192)};
        arena = luo_arena_new(1 << 20);
        const luo_cluster *c = fixture_cluster(arena, 1, 4, 4);
        start(&j, c, grid_plan(&j.model, c, 2, 2, 4, 8, (int32_t)luo_rng_pick(&rng, 2)));
        bool *candidate = LUO_NEW_N(arena, bool, 16);
        for (int32_t d = 0; d < 16; d++) {
            const double u = luo_rng_u(&rng);
            j.rate[d] = u < 0.1 ? (double)INFINITY : u < 0.3 ? 1 + 9 * luo_rng_u(&rng) : 1;
            candidate[d] = d == 0 || luo_rng_pick(&rng, 12) > 0;
        }
        j.rate[0] = 1;
        j.in.candidate = candidate;
        const luo_malleus_answer a = plan(&j.in);
        everyone_once(&j.in, &a);
        const luo_compile_opts opts = {.check = true};
        ck_assert_msg(luo_plan_compile(arena, a.plan, &j.model, c, &opts, &set, &err) == LUO_OK,
                      "seed %llu: %s", (unsigned long long)seed, err.text);
        m = LUO_NEW_N(arena, luo_memory, set->n);
        ck_assert_int_eq(luo_plan_memory(arena, set, m, &err), LUO_OK);
        ck_assert_msg(luo_plan_fits(a.plan, c, set, m, &ratio, &worst, &err) == LUO_OK,
                      "%s", err.text);
        ck_assert_int_eq(luo_malleus_event_s(arena, &j.in, a.plan, &event, &err), LUO_OK);
        ck_assert_double_eq_tol(event / a.tau_s / a.found->plans[0].event, 1, 1e-9);
        luo_arena_free(arena);
        arena = outer;
    }
}
END_TEST

/* ---- 16 H800 and 32 H20, stragglers of both kinds, in one call ---- */

START_TEST(mixed_gpus_with_stragglers)
{
    luo_diags diags;
    luo_cluster *c;
    luo_model *m;
    luo_programs *set;
    job j = {0};
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_read_cluster(arena, "scenarios/clusters/mixed48.yaml", &c, &diags),
                     LUO_OK);
    ck_assert_int_eq(luo_read_model(arena, "scenarios/models/llama-32b.yaml", &m, &diags), LUO_OK);
    j.model = *m;
    luo_plan *base = luo_test_plan(
        arena, "16: [0-3]*7 [4-7]*7 [32-35]*23 [36-39]*23 || 16: [8-11]*7 [12-15]*7 [40-43]*23 "
               "[44-47]*23 || 16: [16-19]*15 [20-23]*15 [24-27]*15 [28-31]*15");
    base->devices = 48;
    start(&j, c, base);
    const luo_malleus_answer h = plan(&j.in);
    ck_assert(!h.found->search.skipped); /* types differ */
    ck_assert_int_eq(h.in.nkinds, 2);
    ck_assert_double_gt(h.in.kinds[0].base, 1.5); /* H20 against H800 */
    ck_assert_double_eq(h.in.kinds[1].base, 1);
    ck_assert_double_le(h.found->plans[0].event, h.healthy_event + 1e-9);
    j.rate[5] = 2.57;
    j.rate[17] = 1.1; /* noise */
    j.rate[34] = 5.42;
    j.rate[47] = (double)INFINITY;
    const luo_malleus_answer a = plan(&j.in);
    everyone_once(&j.in, &a);
    ck_assert_int_eq(a.nexcluded, 1);
    ck_assert_int_eq(a.excluded[0], 47);
    ck_assert_double_ge(a.found->plans[0].steady, a.found->bound);
    ck_assert_double_ge(a.found->plans[0].event, h.found->plans[0].event);
    double running;
    j.rate[47] = 1; /* the base plan bears the two slow devices, at a price */
    ck_assert_int_eq(luo_malleus_event_s(arena, &j.in, base, &running, &err), LUO_OK);
    ck_assert_double_lt(a.found->plans[0].event * a.tau_s, running);
    const luo_compile_opts opts = {.check = true};
    ck_assert_msg(luo_plan_compile(arena, a.plan, m, c, &opts, &set, &err) == LUO_OK, "%s",
                  err.text);
}
END_TEST

/* Groups alike in speed and memory are one kind, whatever their name. */
START_TEST(alike_groups_are_one_kind)
{
    job j = {.model = luo_test_llama(8, 1024, 2816, 16, 1024)};
    luo_cluster *c = fixture_cluster(arena, 3, 1, 4);
    luo_kinds k;
    c->groups[2].base_slowdown = 1.5;
    start(&j, c, grid_plan(&j.model, c, 3, 1, 4, 8, 0));
    ck_assert_int_eq(luo_kinds_make(arena, &j.in, &k, &err), LUO_OK);
    ck_assert_int_eq(k.n, 2);
    ck_assert_int_eq(k.of_kind[0], k.of_kind[1]);
    ck_assert_double_eq(k.at[k.of_kind[0]].base, 1);
    ck_assert_double_gt(k.at[k.of_kind[2]].base, 1.2);
    ck_assert_double_le(k.at[k.of_kind[2]].base, 1.5 + 1e-12); /* collectives stay as they are */
    for (int32_t s = 1; s < 3; s++)
        ck_assert_double_gt(k.at[0].alpha[s], k.at[0].alpha[s - 1]);
}
END_TEST

/* Slots of two types turn by turn: no group has both, the faster ones hold more layers, and what
 * the base plan's groups of both hold is what the smaller type has room for. */
START_TEST(groups_have_one_type)
{
    job j = {.model = luo_test_llama(24, 1024, 2816, 16, 1024)};
    luo_cluster *c = fixture_cluster(arena, 1, 2, 4);
    luo_profile *type[2] = {fixture_profile(arena, "fast"), fixture_profile(arena, "slow")};
    const luo_profile *slots[4] = {type[0], type[1], type[0], type[1]};
    luo_malleus_answer a;
    int64_t layers[2] = {0, 0};
    int32_t wide = 0;
    type[1]->peak_flops[LUO_BF16] /= 4;
    type[1]->memory_bytes /= 4;
    c->groups[0].profiles = slots;
    c->groups[0].scale_up = LUO_SCALE_UP_NONE;
    c->groups[0].has_pcie = true;
    c->groups[0].pcie_bytes_per_s = 64e9;
    ck_assert_int_eq(luo_cluster_finish(arena, c, &err), LUO_OK);
    start(&j, c, grid_plan(&j.model, c, 1, 4, 2, 16, 0));
    ck_assert_int_eq(luo_plan_malleus(arena, &j.in, &a, &err), LUO_OK);
    const luo_malleus_pipe *pipe = &a.found->plans[0].pipes[0];
    for (int32_t s = 0; s < pipe->nstages; s++) {
        const luo_malleus_stage *st = &pipe->stages[s];
        for (int32_t i = 1; i < st->group->size; i++)
            ck_assert_int_eq(st->group->devices[i] % 2, st->group->devices[0] % 2);
        wide += st->group->size > 1;
        if (st->hi - st->lo > layers[st->group->devices[0] % 2])
            layers[st->group->devices[0] % 2] = st->hi - st->lo;
    }
    ck_assert_int_gt(wide, 0);
    ck_assert_int_gt(layers[0], layers[1]);
    ck_assert_int_eq(luo_malleus_take(arena, &a, j.in.base, &err), LUO_OK);
    pipe = &a.found->plans[0].pipes[0];
    for (int32_t s = 0; s < pipe->nstages; s++)
        ck_assert_int_eq(pipe->stages[s].cap,
                         a.in.cap(a.in.cap_ctx, luo_kinds_of(a.in.cap_ctx, 1), 2, 4, s, 1));
}
END_TEST

/* ---- sentences ---- */

static void fails(const luo_malleus_job *in, luo_status st, const char *text)
{
    luo_malleus_answer a;
    ck_assert_int_eq(luo_plan_malleus(arena, in, &a, &err), st);
    ck_assert_str_eq(err.text, text);
}

START_TEST(what_can_not_be_planned)
{
    job j = {.model = luo_test_llama(8, 1024, 2816, 16, 1024)};
    const luo_cluster *c = fixture_cluster(arena, 1, 2, 4);
    luo_plan *base = grid_plan(&j.model, c, 2, 1, 4, 8, 0);
    start(&j, c, base);
    j.in.micro_batches = 1;
    fails(&j.in, LUO_EINPUT,
          "the batch gives 1 micro-batches for 2 pipelines; at least one each is needed.");
    j.in.micro_batches = 0;
    for (int32_t d = 0; d < 8; d++) j.rate[d] = (double)INFINITY;
    fails(&j.in, LUO_EINFEASIBLE, "no usable device is left; 8 of 8 have failed.");
    bool candidate[8] = {false};
    j.rate[3] = 1;
    j.in.candidate = candidate;
    fails(&j.in, LUO_EINFEASIBLE,
          "no usable device is left; 7 of 8 have failed, the others are on standby.");
    j.in.candidate = NULL;
    base->schedule = LUO_SCHED_GPIPE;
    fails(&j.in, LUO_EINPUT, "the base plan has another schedule than `1f1b`; planner `malleus` "
                             "needs `1f1b` with one chunk.");
}
END_TEST

START_TEST(memory_sentence)
{
    job j = {.model = luo_test_llama(80, 8192, 28672, 64, 32000)};
    const luo_cluster *c = fixture_cluster(arena, 1, 1, 8);
    luo_malleus_answer a;
    start(&j, c, grid_plan(&j.model, c, 1, 1, 8, 8, 0));
    ck_assert_int_eq(luo_plan_malleus(arena, &j.in, &a, &err), LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "no plan fits in memory; the tightest stage (device 0) needs 191.6 "
                               "GiB of 74.1; try more stages, `recompute` or `zero` 1.");
}
END_TEST

/* ---- transitions ---- */

START_TEST(a_transition_by_hand)
{
    const luo_model m = luo_test_llama(4, 64, 192, 4, 256);
    const luo_cluster *c = fixture_cluster(arena, 1, 2, 2);
    const luo_plan *from = luo_test_plan(arena, "4: [0]*2 [1]*2");
    const luo_plan *to = luo_test_plan(arena, "4: [0]*2 [2]*2");
    luo_transition t;
    int64_t layer = 4 * 64 * 64 + 3 * 64 * 192 + 2 * 64;
    const int64_t head = 256 * 64 + 64;
    ck_assert_int_eq(luo_transition_cost(arena, from, to, &m, c, 0, NULL, &t, &err), LUO_OK);
    ck_assert_int_eq(t.bytes_remote, 12 * (2 * layer + head)); /* 1 to 2: another node */
    ck_assert_int_eq(t.bytes_local, 0);
    ck_assert_int_eq(t.messages, 1);
    ck_assert_double_eq_tol(t.seconds, (double)t.bytes_remote / 25e9 + 20e-6, 1e-12);
    to = luo_test_plan(arena, "4: [0]*1 [1]*3");
    ck_assert_int_eq(luo_transition_cost(arena, from, to, &m, c, 0, NULL, &t, &err), LUO_OK);
    ck_assert_int_eq(t.bytes_local, 12 * layer); /* 0 to 1: the same node */
    ck_assert_int_eq(t.bytes_remote, 0);
    ck_assert_double_eq_tol(t.seconds, (double)(12 * layer) / 200e9 + 20e-6, 1e-12);
}
END_TEST

/* Device 0 sends to its own rack and to the other one: two classes of links, one NIC. */
START_TEST(racks_share_a_nic)
{
    const luo_model m = luo_test_llama(4, 64, 192, 4, 256);
    const luo_cluster *c = fixture_cluster(arena, 1, 3, 1);
    const luo_plan *from = luo_test_plan(arena, "2: [0]*4");
    const luo_plan *to = luo_test_plan(arena, "2: [0]*1 [1]*1 [2]*2");
    luo_transition t;
    const int64_t layer = 4 * 64 * 64 + 3 * 64 * 192 + 2 * 64;
    ck_assert_int_eq(luo_cluster_link_class(c, 0, 1), 3);
    ck_assert_int_eq(luo_cluster_link_class(c, 0, 2), 2);
    ck_assert_int_eq(luo_transition_cost(arena, from, to, &m, c, 0, NULL, &t, &err), LUO_OK);
    ck_assert_int_eq(t.messages, 2);
    ck_assert_double_eq_tol(t.seconds, (double)t.bytes_remote / 25e9 + 2 * 20e-6, 1e-12);
    ck_assert_int_ge(t.bytes_remote, 12 * 3 * layer);
}
END_TEST

/* A copy that lives on can send; a shard that ZeRO cut has one owner, and dies with it. */
START_TEST(what_dies_is_lost_or_not)
{
    static const int32_t dead[] = {1};
    const luo_model m = luo_test_llama(4, 64, 192, 4, 256);
    const luo_cluster *c = fixture_cluster(arena, 1, 2, 2);
    luo_plan *from = luo_test_plan(arena, "2: [0]*2 [1]*2 || 2: [2]*2 [3]*2");
    luo_plan *to = luo_test_plan(arena, "2: [0]*4 || 2: [2]*2 [3]*2");
    luo_transition t;
    ck_assert_int_eq(luo_transition_cost(arena, from, to, &m, c, 1, dead, &t, &err), LUO_OK);
    ck_assert_int_gt(t.bytes_remote, 0);
    from->zero = to->zero = 1;
    ck_assert_int_eq(luo_transition_cost(arena, from, to, &m, c, 1, dead, &t, &err), LUO_ELOST);
    ck_assert_int_eq(luo_transition_cost(arena, from, to, &m, c, 0, NULL, &t, &err), LUO_OK);
}
END_TEST

/* The fallen device is in the plan: no time is finite. */
START_TEST(event_of_a_broken_plan)
{
    job j = {.model = luo_test_llama(8, 1024, 2816, 16, 1024)};
    const luo_cluster *c = fixture_cluster(arena, 1, 2, 4);
    double s;
    start(&j, c, grid_plan(&j.model, c, 2, 1, 4, 8, 0));
    ck_assert_int_eq(luo_malleus_event_s(arena, &j.in, j.in.base, &s, &err), LUO_OK);
    ck_assert(s > 0 && isfinite(s));
    j.rate[6] = (double)INFINITY;
    ck_assert_int_eq(luo_malleus_event_s(arena, &j.in, j.in.base, &s, &err), LUO_OK);
    ck_assert(isinf(s));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("malleus_job");
    TCase *tc = tcase_create("malleus_job");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, model_reproduces_the_tables, 0, LUO_ROWS(settings));
    tcase_add_loop_test(tc, model_increments, 0, LUO_ROWS(settings));
    tcase_add_loop_test(tc, layer_run_again, 0, 2);
    tcase_add_loop_test(tc, table_caps, 0, LUO_ROWS(cap_rows));
    tcase_add_test(tc, model_caps_of_32b);
    tcase_add_loop_test(tc, public_settings, 0, LUO_ROWS(pl_rows));
    tcase_add_loop_test(tc, healthy_is_the_base_plan, 0, 3);
    tcase_add_test(tc, placement_keeps_what_is_there);
    tcase_add_test(tc, no_placement_moves_less);
    tcase_add_test(tc, random_rates_compile);
    tcase_add_test(tc, mixed_gpus_with_stragglers);
    tcase_add_test(tc, alike_groups_are_one_kind);
    tcase_add_test(tc, groups_have_one_type);
    tcase_add_test(tc, what_can_not_be_planned);
    tcase_add_test(tc, memory_sentence);
    tcase_add_test(tc, a_transition_by_hand);
    tcase_add_test(tc, racks_share_a_nic);
    tcase_add_test(tc, what_dies_is_lost_or_not);
    tcase_add_test(tc, event_of_a_broken_plan);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
