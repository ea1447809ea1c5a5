/* prop_recompute.c: layers and recompute of stages beside every way there is, on random small
 * pipelines (docs/planners.md#auto). */
#include <math.h>

#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"
#include "core/plan/auto/recompute.h"
#include "tests/driver_fixture.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

enum { STAGES = 4, MOST = 12 };

typedef struct problem {
    luo_model model;
    const luo_cluster *cluster;
    luo_stack stack;
    luo_plan *plan;
    int32_t stages, layers;
    double factor;
    double layer, again, ends[STAGES];     /* seconds */
} problem;

static luo_plan *make_plan(luo_rng *rng, int32_t stages, int32_t layers)
{
    static const char *const groups[2][STAGES] = {{"[0]", "[1]", "[2]", "[3]"},
                                                  {"[0,1]", "[2,3]", "[4,5]", "[6,7]"}};
    const int wide = (int)luo_rng_pick(rng, 2);
    luo_str s = {0};
    luo_str_addf(&s, "%d:", stages + (int)luo_rng_pick(rng, 6));
    for (int32_t k = 0; k < stages; k++)
        luo_str_addf(&s, " %s*%d", groups[wide][k],
                     layers / stages + (k < layers % stages));
    luo_plan *plan = luo_test_plan(arena, luo_str_get(&s));
    luo_str_free(&s);
    plan->sequence_parallel = wide;
    plan->zero = (int32_t)luo_rng_pick(rng, 2);
    plan->sequence_tokens = 256;
    plan->devices = 8; /* of the cluster */
    return plan;
}

static luo_mem memory_of(const problem *p, int32_t s, int32_t layers, int32_t again)
{
    const luo_pipeline *pl = &p->plan->pipelines[0];
    const luo_memory_rules rules = luo_stack_memory(&p->stack);
    const luo_mem_spec of = {.model = &p->model, .layers = layers, .recompute_layers = again,
                               .recompute = LUO_RECOMPUTE_FULL, .sequence_tokens = 256,
                               .micro_batch_tokens = 256 * pl->micro_batch_sequences,
                               .tp = pl->stages[s].ndev, .context = {.c = 1}, .stage = s,
                               .stages = p->stages, .chunks = 1,
                               .micro_batches = pl->micro_batches, .replicas = 1,
                               .zero = p->plan->zero, .schedule = LUO_SCHED_1F1B,
                               .bucket = luo_bucketing_of((luo_bucketing){0}, p->stack.bucket),
                               .gathered = 2, .embedding = s == 0, .head = s == p->stages - 1,
                               .sequence_parallel = p->plan->sequence_parallel,
                               .attention_fused = p->stack.attention_fused, .rules = &rules};
    luo_mem m;
    luo_mem_stage(&of, &m);
    return m;
}

static bool has_room(const problem *p, int32_t s, int32_t layers, int32_t again)
{
    const luo_profile *prof = luo_cluster_profile(p->cluster, 0);
    return (double)memory_of(p, s, layers, again).needed <=
           p->factor * prof->memory_bytes - prof->reserved_bytes;
}

static void price(problem *p)
{
    const luo_cost_ctx ctx = {.cluster = p->cluster, .stack = &p->stack, .dtype = LUO_BF16};
    const luo_stage *st = &p->plan->pipelines[0].stages[0];
    const luo_layer_shape shape = {.model = &p->model, .tokens = 256, .sequence_tokens = 256,
                                   .tp = st->ndev,
                                   .sequence_parallel = p->plan->sequence_parallel};
    luo_layer_cost plain, full;
    luo_pair_cost first, last;
    luo_err err = {0};
    ck_assert_int_eq(luo_cost_layer(&ctx, &shape, st->dev, 0, &plain, &err), LUO_OK);
    ck_assert_int_eq(luo_cost_layer(&ctx, &shape, st->dev, 2, &full, &err), LUO_OK);
    ck_assert_int_eq(luo_cost_embedding(&ctx, &shape, st->dev, &first, &err), LUO_OK);
    ck_assert_int_eq(luo_cost_head(&ctx, &shape, st->dev, &last, &err), LUO_OK);
    p->layer = plain.forward + plain.backward;
    p->again = full.backward - plain.backward;
    memset(p->ends, 0, sizeof p->ends);
    p->ends[0] += first.forward + first.backward;
    p->ends[p->stages - 1] += last.forward + last.backward;
}

typedef struct answer {
    double most, sum;
} answer;

/* Every number of layers of stage s and those behind it, every number that is recomputed. */
static void try_all(const problem *p, int32_t s, int32_t left, answer so_far, answer *best)
{
    if (s == p->stages) {
        if (left == 0 && (so_far.most < best->most ||
                          (so_far.most == best->most && so_far.sum < best->sum)))
            *best = so_far;
        return;
    }
    for (int32_t n = 1; n <= left - (p->stages - 1 - s); n++)
        for (int32_t again = 0; again <= n; again++) {
            const double t = n * p->layer + again * p->again + p->ends[s];
            if (!has_room(p, s, n, again)) continue;
            try_all(p, s + 1, left - n, (answer){fmax(so_far.most, t), so_far.sum + t}, best);
        }
}

/* Between what is needed with everything recomputed, and without. */
static void choose_memory(problem *p, luo_rng *rng)
{
    const luo_profile *prof = luo_cluster_profile(p->cluster, 0);
    const int32_t each = p->layers / p->stages;
    const double least = (double)memory_of(p, 0, each, each).needed;
    const double most = (double)memory_of(p, 0, each + 1, 0).needed;
    const double wanted = least + (most - least) * (luo_rng_u(rng) * 1.2 - 0.1);
    p->factor = (wanted + prof->reserved_bytes) / prof->memory_bytes;
}

START_TEST(as_good_as_every_way)
{
    int32_t fitting = 0, recomputing = 0;
    LUO_PROP_FOR(seed, 60)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_auto_recomputed out;
        luo_err err = {0};
        answer best = {INFINITY, INFINITY};
        prepare("static", 1, 0);
        problem p = {.model = model, .cluster = sc.cluster, .stack = sc.stack};
        p.stages = 1 + (int32_t)luo_rng_pick(&rng, STAGES);
        p.layers = p.stages + (int32_t)luo_rng_pick(&rng, MOST - p.stages);
        p.model.layers = p.layers;
        p.plan = make_plan(&rng, p.stages, p.layers);
        choose_memory(&p, &rng);
        price(&p);
        ck_assert(luo_auto_recompute_knows(p.plan, &p.model));
        const luo_auto_recompute_in in = {.model = &p.model, .cluster = p.cluster,
                                          .stack = &p.stack, .sequence_tokens = 256,
                                          .memory_factor = p.factor};
        const luo_status st = luo_auto_recompute(arena, &in, p.plan, &out, &err);
        try_all(&p, 0, p.layers, (answer){0, 0}, &best);
        if (st == LUO_EINFEASIBLE) {
            ck_assert_msg(isinf(best.most), "seed %d", (int)seed);
            continue;
        }
        ck_assert_msg(st == LUO_OK, "seed %d: %s", (int)seed, err.text);
        ck_assert_msg(fabs(out.slowest_s - best.most) <= 1e-12 * best.most,
                      "seed %d: %.17g, best %.17g", (int)seed, out.slowest_s, best.most);
        ck_assert_msg(fabs(out.sum_s - best.sum) <= 1e-12 * best.sum, "seed %d: sum %g, best %g",
                      (int)seed, out.sum_s, best.sum);
        luo_plan_finding *f;
        int32_t n, at = 0;
        ck_assert_msg(luo_plan_check(arena, out.plan, &p.model, p.cluster, &f, &n) == LUO_OK,
                      "seed %d: %s", (int)seed, n ? f[0].text : "");
        for (int32_t s = 0; s < p.stages; s++) { /* the plan says what was priced */
            const luo_stage *stage = &out.plan->pipelines[0].stages[s];
            const int32_t own = stage->layers[0].hi - stage->layers[0].lo;
            const int32_t again = stage->recompute == LUO_RECOMPUTE_NONE ? 0
                                  : stage->nrecompute ? stage->recompute_layers[0].hi - at
                                                      : own;
            ck_assert_int_eq(stage->layers[0].lo, at);
            ck_assert_msg(has_room(&p, s, own, again), "seed %d, stage %d", (int)seed, s);
            ck_assert(own * p.layer + again * p.again + p.ends[s] <= best.most * (1 + 1e-12));
            at += own;
            recomputing += again > 0;
        }
        ck_assert_int_eq(at, p.layers);
        fitting++;
    }
    printf("fitting %d, stages that recompute %d\n", fitting, recomputing);
    ck_assert_int_gt(fitting, 20);
    ck_assert_int_gt(recomputing, 10);
}
END_TEST

static int32_t layers_in(const luo_range *at, int32_t n)
{
    int32_t layers = 0;
    for (int32_t i = 0; i < n; i++) layers += at[i].hi - at[i].lo;
    return layers;
}

/* Several chunks keep their layers, and the plan says what was priced: as many layers recomputed of
 * a stage, in each chunk as many as in the others or one more, the first ones. */
START_TEST(of_chunks)
{
    int32_t partly = 0, all = 0, none = 0;
    for (int k = 0; k <= 40; k++) {
        luo_auto_recomputed out;
        luo_err err = {0};
        double slowest = 0;
        prepare("static", 1, 0);
        problem p = {.model = model, .cluster = sc.cluster, .stack = sc.stack, .stages = 2};
        p.layers = 6 * (1 + _i);
        p.model.layers = p.layers;
        p.plan = luo_test_plan(arena, _i ? "8: [0]*2+2+2 [1]*2+2+2" : "8: [0]*1+1+1 [1]*1+1+1");
        p.plan->sequence_tokens = 256;
        p.plan->devices = 8;
        price(&p);
        const luo_profile *prof = luo_cluster_profile(p.cluster, 0);
        const double least = (double)memory_of(&p, 0, p.layers / 2, p.layers / 2).needed;
        const double most = 3 * (double)memory_of(&p, 0, p.layers / 2, 0).needed;
        p.factor = (least + (most - least) * pow(k / 40.0, 3) + prof->reserved_bytes) /
                   prof->memory_bytes;
        const luo_auto_recompute_in in = {.model = &p.model, .cluster = p.cluster,
                                          .stack = &p.stack, .sequence_tokens = 256,
                                          .memory_factor = p.factor};
        if (luo_auto_recompute(arena, &in, p.plan, &out, &err) != LUO_OK) continue;
        for (int32_t s = 0; s < 2; s++) {
            const luo_stage *st = &out.plan->pipelines[0].stages[s];
            const int32_t own = layers_in(st->layers, st->nlayers);
            const int32_t again = st->recompute == LUO_RECOMPUTE_NONE ? 0
                                  : st->nrecompute ? layers_in(st->recompute_layers, st->nrecompute)
                                                   : own;
            ck_assert_int_eq(own, p.layers / 2);
            for (int32_t r = 0; r < st->nrecompute; r++) {
                const luo_range *x = &st->recompute_layers[r];
                ck_assert_int_eq(x->lo, st->layers[r].lo);
                ck_assert_int_eq(x->hi - x->lo, again / 3 + (r < again % 3));
            }
            slowest = fmax(slowest, own * p.layer + again * p.again + p.ends[s]);
            partly += again > 0 && again < own;
            all += again == own;
            none += again == 0;
        }
        ck_assert_msg(fabs(out.slowest_s - slowest) <= 1e-12 * slowest, "%d: %g, priced %g", k,
                      slowest, out.slowest_s);
    }
    printf("stages that recompute some layers %d, all %d, none %d\n", partly, all, none);
    ck_assert(partly > 0 && none > 0);
}
END_TEST

LUO_SUITE("plan.auto.recompute", LUO_T(as_good_as_every_way), LUO_T_N(of_chunks, 2))
