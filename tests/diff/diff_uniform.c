/* diff_uniform.c: the uniform planner against slow twins: every shape priced one by one,
 * and every answer simulated. LUO_SEED and LUO_CASES play cases again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/rng.h"
#include "core/cost/step/memory.h"
#include "core/io/read/read.h"
#include "core/plan/grid.h"
#include "core/plan/planners.h"
#include "core/plan/step/step.h"
#include "core/run/parts.h"
#include "core/run/policy/judge.h"
#include "sim/sim.h"
#include "tests/cluster_fixture.h"
#include "tests/prop/prop.h"

static int64_t env(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static int64_t cases(uint64_t few, uint64_t all)
{
    return env("LUO_CASES", (int64_t)luo_prop_few(few, all));
}

typedef struct setting {
    luo_arena *a;
    luo_model m;
    luo_cluster *c;
    luo_stack stack;
    luo_uniform_opts o;
    luo_rng rng;
} setting;

static int64_t pick(setting *s, int64_t n)
{
    return luo_rng_pick(&s->rng, n);
}

static luo_uniform_opts all_of_it(void)
{
    return (luo_uniform_opts){.top = 8, .families = 3, .zero = -1, .cp = 0, .zero_most = 3,
                              .shard = -1, .recompute = -1, .schedule = -1,
                              .layers = LUO_UNIFORM_BOTH, .types = true,
                              .sequence_parallel = true};
}

/* Sizes such that some plans fit and some do not. */
static void draw(setting *s, uint64_t seed, int32_t groups)
{
    *s = (setting){.a = luo_arena_new(1 << 16)};
    s->rng = luo_rng_stream(seed, "diff_uniform");
    s->m = (luo_model){.name = "drawn", .family = LUO_FAMILY_LLAMA, .layers = 4 + pick(s, 9),
                       .hidden = 1024 << pick(s, 3), .ffn_hidden = 8192, .heads = 16,
                       .kv_heads = 8, .head_dim = 128, .vocab = 32000,
                       .max_sequence_tokens = 4096, .causal = true, .rope_base = 10000,
                       .norm_eps = 1e-6, .dtype = LUO_BF16};
    s->c = fixture_cluster(s->a, groups, 1 + (int32_t)pick(s, 2), 2 << pick(s, 2));
    for (int32_t g = 0; g < groups; g++) {
        luo_profile *p = (luo_profile *)(uintptr_t)s->c->groups[g].profile; /* just made */
        p->memory_bytes = (double)(1 + pick(s, 40)) * 1073741824.0;
        p->peak_flops[LUO_BF16] *= 1 + (double)pick(s, 3);
    }
    luo_stack_default(&s->stack);
    s->stack.attention_fused = pick(s, 2) == 0;
    s->o = all_of_it();
    s->o.batch_sequences = 8 << pick(s, 3);
    s->o.sequence_tokens = 2048;
    s->o.stack = &s->stack;
}

/* ---- every shape is priced ---- */

/* A list that never fills leaves no hope out. */
static void same_as_all(setting *s, int64_t *nfound)
{
    luo_uniform_result *some = NULL, *every = NULL;
    luo_uniform_opts slow = s->o;
    luo_err err = {0}, why = {0};
    int32_t n = 0, nevery = 0;
    slow.top = 1 << 20;
    slow.families = 0;
    const luo_status st = luo_plan_uniform(s->a, &s->m, s->c, &s->o, &some, &n, &err);
    ck_assert_int_eq(luo_plan_uniform(s->a, &s->m, s->c, &slow, &every, &nevery, &why), st);
    if (st != LUO_OK) {
        ck_assert_str_eq(err.text, why.text);
        return;
    }
    const int32_t same = s->o.top < nevery ? s->o.top : nevery;
    ck_assert_int_ge(n, same);
    for (int32_t i = 0; i < same; i++)
        ck_assert_uint_eq(luo_plan_hash(some[i].plan), luo_plan_hash(every[i].plan));
    ck_assert_int_le(some->priced, every->priced);
    *nfound += nevery;
}

/* ---- an own grid, own loops ---- */

typedef struct hand {
    setting *s;
    int32_t tp, pp, dp, b, v, zero, recompute; /* v chunks; 0: zb_h1 */
    int64_t m;
    int32_t dev[256];
} hand;

static luo_sched_kind kind_of(const hand *h)
{
    return h->v == 0 ? LUO_SCHED_ZB_H1 : h->v > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B;
}

static bool fits(const hand *h)
{
    const luo_memory_rules rules = luo_stack_memory(&h->s->stack);
    for (int32_t p = 0; p < h->pp; p++) {
        const luo_mem_spec spec = {
            .model = &h->s->m, .layers = (double)h->s->m.layers / h->pp, .recompute_layers = -1,
            .recompute = h->recompute, .sequence_tokens = h->s->o.sequence_tokens,
            .micro_batch_tokens = h->s->o.sequence_tokens * h->b, .tp = h->tp, .stage = p,
            .stages = h->pp, .chunks = h->v ? h->v : 1, .micro_batches = (int32_t)h->m,
            .replicas = h->dp,
            .zero = h->zero, .bucket = luo_bucketing_of((luo_bucketing){0}, h->s->stack.bucket),
            .gathered = LUO_PREFETCH_DEFAULT + 1, .context = {.c = 1, .inner = 1},
            .schedule = kind_of(h), .embedding = p == 0,
            .head = p == h->pp - 1, .sequence_parallel = true,
            .attention_fused = h->s->stack.attention_fused, .rules = &rules};
        const luo_profile *prof = luo_cluster_profile(h->s->c, 0);
        luo_mem m;
        luo_mem_stage(&spec, &m);
        if ((double)m.needed + prof->reserved_bytes > prof->memory_bytes) return false;
    }
    return true;
}

static double price(hand *h)
{
    for (int32_t d = 0; d < h->dp; d++)
        for (int32_t p = 0; p < h->pp; p++)
            for (int32_t i = 0; i < h->tp; i++)
                h->dev[(d * h->pp + p) * h->tp + i] = (d + h->dp * p) * h->tp + i;
    const luo_grid grid = {
        .name = "hand", .model = &h->s->m, .cluster = h->s->c, .dtype = LUO_BF16,
        .sequence_tokens = h->s->o.sequence_tokens, .micro_batch_sequences = h->b,
        .micro_batches = h->m, .tp = h->tp, .stages = h->pp, .pipelines = h->dp, .chunks = h->v,
        .recompute = (luo_recompute)h->recompute, .zero = h->zero, .sequence_parallel = true,
        .dev = h->dev};
    const luo_step_in in = {.model = &h->s->m, .cluster = h->s->c, .stack = &h->s->stack,
                            .sequence_tokens = h->s->o.sequence_tokens};
    luo_step_cost cost;
    luo_plan *plan;
    ck_assert_int_eq(luo_plan_grid(h->s->a, &grid, &plan, NULL), LUO_OK);
    plan->schedule = kind_of(h);
    ck_assert_int_eq(luo_plan_step(h->s->a, &in, plan, &cost, NULL), LUO_OK);
    return cost.step;
}

static double best_by_hand(setting *s, int64_t *refused)
{
    double best = INFINITY;
    hand h = {.s = s};
    for (h.tp = 1; h.tp <= s->c->groups[0].devices_per_node && h.tp <= 8; h.tp *= 2)
        for (h.pp = 1; h.pp * h.tp <= s->c->ndevices; h.pp++)
            for (h.b = 1; h.b <= 16; h.b *= 2)
                for (h.recompute = 0; h.recompute < 3; h.recompute++)
                    for (h.zero = 0; h.zero < 4; h.zero++)
                        for (h.v = 0; h.v <= s->m.layers; h.v++) {
                            h.dp = s->c->ndevices / (h.tp * h.pp);
                            while (h.dp > 1 && s->o.batch_sequences % (h.dp * h.b)) h.dp--;
                            h.m = s->o.batch_sequences / (h.dp * h.b);
                            const bool good = h.v == 0   ? h.pp > 1 && h.zero < 2
                                              : h.v == 1 ? true
                                                         : h.pp > 1 && h.m % h.pp == 0;
                            if (s->o.batch_sequences % (h.dp * h.b) || !good ||
                                s->m.layers % (h.pp * (h.v ? h.v : 1)) || (h.zero > 0 && h.dp == 1))
                                continue;
                            if (fits(&h)) best = fmin(best, price(&h));
                            else ++*refused;
                        }
    return best;
}

START_TEST(all_shapes_priced)
{
    const int64_t seed = env("LUO_SEED", 1), n = cases(10, 30);
    int64_t found = 0;
    for (int64_t i = seed; i < seed + n; i++) {
        setting s;
        draw(&s, (uint64_t)i, 1 + (int32_t)(i % 3));
        printf("%s%lld%s", i == seed ? "seeds " : "", (long long)i, i == seed + n - 1 ? "\n" : " ");
        same_as_all(&s, &found);
        luo_arena_free(s.a);
    }
    printf("%lld plans in all\n", (long long)found);
    ck_assert_int_gt(found, n);
}
END_TEST

START_TEST(same_as_by_hand)
{
    const int64_t seed = env("LUO_SEED", 1), n = cases(10, 25);
    int64_t refused = 0, none = 0;
    for (int64_t i = seed; i < seed + n; i++) {
        setting s;
        luo_uniform_result *r = NULL;
        int32_t nr = 0;
        draw(&s, (uint64_t)i, 1);
        s.o.shard = 1 + (int32_t)LUO_SHARD_FULL;
        s.o.layers = LUO_UNIFORM_EQUAL;
        const luo_status st = luo_plan_uniform(s.a, &s.m, s.c, &s.o, &r, &nr, NULL);
        const double least = best_by_hand(&s, &refused);
        ck_assert_msg((st == LUO_OK) == !isinf(least), "seed %lld", (long long)i);
        none += st != LUO_OK;
        if (st == LUO_OK)
            ck_assert_msg(r->objective_s == least, "seed %lld: %.9g, by hand %.9g", (long long)i,
                          r->objective_s, least);
        luo_arena_free(s.a);
    }
    printf("%lld do not fit, %lld settings without a plan\n", (long long)refused, (long long)none);
    ck_assert_int_gt(refused, 0);
}
END_TEST

/* ---- by simulation ---- */

static luo_judge judge_of(const luo_model *m, const luo_cluster *c, const luo_stack *stack)
{
    return (luo_judge){.simulator = &luo_sim_backend, .model = m, .cluster = c, .stack = stack,
                       .bucket = stack->bucket, .comm = LUO_COMM_FLOW};
}

/* No answer that can run is faster than the first. */
static void first_is_fastest(luo_arena *a, const luo_judge *j, const luo_model *m,
                             const luo_uniform_opts *o, luo_judged_plan *first)
{
    luo_uniform_result *r = NULL;
    luo_judged_plan *p = NULL;
    luo_err err = {0};
    int32_t n = 0, np = 0;
    ck_assert_msg(luo_plan_uniform(a, m, j->cluster, o, &r, &n, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_judge_uniform(a, j, r, n, o->sequence_tokens, NULL, &p, &np, &err) == LUO_OK,
                  "%s", err.text);
    for (int32_t i = 0; i < n; i++) {
        luo_judgement x;
        ck_assert_int_eq(luo_judge_plan(j, r[i].plan, o->sequence_tokens, NULL, &x, &err), LUO_OK);
        ck_assert_double_ge(x.seconds, p[0].step.seconds);
        if (isinf(x.seconds)) continue;
        ck_assert_double_le(x.memory_ratio, 1);
        ck_assert_double_eq_tol(luo_parts_total(&x.mean), x.seconds, 1e-6 * x.seconds);
        ck_assert(x.imbalance_s >= 0 && x.imbalance_s <= x.mean.bubble_s);
    }
    *first = p[0];
}

START_TEST(answers_simulated)
{
    const int64_t seed = env("LUO_SEED", 1), n = cases(4, 12);
    printf("seeds %lld..%lld\n", (long long)seed, (long long)(seed + n - 1));
    for (int64_t i = seed; i < seed + n; i++) {
        setting s;
        luo_judged_plan first;
        luo_uniform_result *r;
        int32_t nr;
        draw(&s, (uint64_t)i, 1 + (int32_t)(i % 2));
        const luo_judge j = judge_of(&s.m, s.c, &s.stack);
        if (luo_plan_uniform(s.a, &s.m, s.c, &s.o, &r, &nr, NULL) == LUO_OK)
            first_is_fastest(s.a, &j, &s.m, &s.o, &first);
        luo_arena_free(s.a);
    }
}
END_TEST

typedef struct shipped {
    luo_arena *a;
    luo_model *m;
    luo_cluster *c;
    luo_stack stack;
} shipped;

static void read_shipped(shipped *x, const char *model)
{
    luo_diags diags;
    *x = (shipped){.a = luo_arena_new(1 << 20)};
    luo_diags_init(&diags, x->a);
    luo_stack_default(&x->stack);
    ck_assert_int_eq(luo_read_model(x->a, model, &x->m, &diags), LUO_OK);
    ck_assert_int_eq(luo_read_cluster(x->a, "scenarios/clusters/h100-1024.yaml", &x->c, &diags),
                     LUO_OK);
}

/* 70B, TP 8, PP 8, DP 16: interleaving is found, and is not slower than that by hand. */
START_TEST(finds_interleaving)
{
    shipped x;
    luo_judged_plan first;
    luo_uniform_result *given = NULL;
    luo_judgement by_hand;
    luo_err err = {0};
    int32_t n = 0;
    read_shipped(&x, "scenarios/models/llama-70b.yaml");
    const luo_judge j = judge_of(x.m, x.c, &x.stack);
    luo_uniform_opts o = all_of_it();
    o.batch_sequences = 256;
    o.sequence_tokens = 4096;
    o.tp = o.pp = 8;
    o.dp = 16;
    o.stack = &x.stack;
    o.top = 3;
    luo_uniform_opts one = o;
    one.schedule = 1 + (int)LUO_SCHED_INTERLEAVED;
    one.chunks = 5;
    one.micro_batch_sequences = 1;
    one.zero = 1;
    one.top = 1;
    one.families = 0;
    one.layers = LUO_UNIFORM_EQUAL;
    first_is_fastest(x.a, &j, x.m, &o, &first);
    ck_assert_int_eq(luo_plan_uniform(x.a, x.m, x.c, &one, &given, &n, NULL), LUO_OK);
    ck_assert_int_eq(luo_judge_plan(&j, given->plan, 4096, NULL, &by_hand, &err), LUO_OK);
    ck_assert_int_eq(first.result->plan->schedule, LUO_SCHED_INTERLEAVED);
    ck_assert_double_le(first.step.seconds, by_hand.seconds);
    luo_arena_free(x.a);
}
END_TEST

/* DP 128: where closed form and simulator differ most, the fastest of those simulated is taken. */
START_TEST(many_replicas)
{
    shipped x;
    luo_judged_plan first;
    int32_t dev[256];
    read_shipped(&x, "scenarios/models/llama-7b.yaml");
    const luo_judge j = judge_of(x.m, x.c, &x.stack);
    luo_uniform_opts o = all_of_it();
    for (int32_t i = 0; i < 256; i++) dev[i] = i;
    o.devices = dev;
    o.ndevices = 256;
    o.batch_sequences = 512;
    o.sequence_tokens = 4096;
    o.dp = 128;
    o.stack = &x.stack;
    o.top = 6;
    o.families = 2;
    first_is_fastest(x.a, &j, x.m, &o, &first);
    ck_assert_int_eq(first.result->plan->npipelines, 128);
    luo_arena_free(x.a);
}
END_TEST
LUO_SUITE("diff.uniform", LUO_T(all_shapes_priced), LUO_T(same_as_by_hand),
          LUO_T(answers_simulated), LUO_T(finds_interleaving), LUO_T(many_replicas))
