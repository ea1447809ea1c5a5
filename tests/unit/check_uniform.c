/* check_uniform.c: what the uniform planner offers is valid, ordered and not worse than
 * any of its own choices made by hand; devices, order and sentences. */
#include <math.h>

#include "core/plan/compile.h"
#include "core/plan/planners.h"
#include "tests/cluster_fixture.h"

static const luo_model llama = {.name = "llama-test", .family = LUO_FAMILY_LLAMA, .layers = 24,
                                .hidden = 4096, .ffn_hidden = 11008, .heads = 32, .kv_heads = 32,
                                .head_dim = 128, .vocab = 32000, .max_sequence_tokens = 4096,
                                .causal = true, .rope_base = 10000, .norm_eps = 1e-6,
                                .dtype = LUO_BF16};

static luo_uniform_opts search_all(int64_t batch)
{
    return (luo_uniform_opts){.batch_sequences = batch, .sequence_tokens = 2048, .top = 12,
                              .zero = -1, .recompute = -1};
}

static luo_uniform_result *plan(luo_arena *a, const luo_cluster *c, const luo_uniform_opts *o,
                                int32_t *n)
{
    luo_uniform_result *r = NULL;
    luo_err err = {0};
    ck_assert_msg(luo_plan_uniform(a, &llama, c, o, &r, n, &err) == LUO_OK, "%s", err.text);
    return r;
}

START_TEST(offers_are_valid_and_ordered)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_cluster *c = fixture_cluster(a, 1, 2, 8);
    const luo_uniform_opts o = search_all(64);
    int32_t n;
    const luo_uniform_result *r = plan(a, c, &o, &n);
    ck_assert_int_eq(n, 12);
    for (int32_t i = 0; i < n; i++) {
        luo_plan_finding *f;
        int32_t nf;
        ck_assert_msg(luo_plan_check(a, r[i].plan, &llama, c, &f, &nf) == LUO_OK, "%s", f[0].text);
        ck_assert_int_eq(luo_plan_sequences(r[i].plan), 64);
        ck_assert_double_le(r[i].memory_ratio, 1);
        ck_assert_double_ge(r[i].objective_s, r[i].bound_s);
        if (i > 0) ck_assert_double_ge(r[i].objective_s, r[i - 1].objective_s);
    }
    luo_arena_free(a);
}
END_TEST

/* As `check` judges it. */
static luo_status compiled_fits(const luo_plan *p, const luo_cluster *c, const luo_stack *stack,
                                luo_err *err)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_compile_opts opts = {.memory = luo_stack_memory(stack), .unnamed = true};
    luo_programs *set;
    luo_memory m[8];
    double ratio;
    int32_t device;
    luo_status st = luo_plan_compile(a, p, &llama, c, &opts, &set, err);
    if (st == LUO_OK) st = luo_plan_memory(a, set, m, err);
    if (st == LUO_OK) st = luo_plan_fits(p, c, set, m, &ratio, &device, err);
    luo_arena_free(a);
    return st;
}

/* Communicators take what plans need: others are offered, which fit when they are compiled. */
START_TEST(communicators_are_counted)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_cluster *c = fixture_cluster(a, 1, 1, 8);
    luo_uniform_opts o = search_all(64);
    luo_stack stack;
    luo_err err = {0};
    int32_t n, refused = 0;
    luo_stack_default(&stack);
    o.stack = &stack;
    const luo_uniform_result *r = plan(a, c, &o, &n);
    ck_assert_int_eq(luo_stack_set(&stack, "communicator_mib", 12288, &err), LUO_OK);
    for (int32_t i = 0; i < n; i++) {
        const luo_status st = compiled_fits(r[i].plan, c, &stack, &err);
        ck_assert_msg(st == LUO_OK || (st == LUO_EOOM && strstr(err.text, "communicators ")), "%s",
                      err.text);
        refused += st == LUO_EOOM;
    }
    ck_assert_int_gt(refused, n / 2);
    r = plan(a, c, &o, &n);
    ck_assert_int_gt(n, 0);
    for (int32_t i = 0; i < n; i++)
        ck_assert_msg(compiled_fits(r[i].plan, c, &stack, &err) == LUO_OK, "%s", err.text);
    luo_arena_free(a);
}
END_TEST

/* Sizes fixed by hand are never better than the search. */
START_TEST(search_beats_every_choice)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_cluster *c = fixture_cluster(a, 2, 1, 8);
    const luo_uniform_opts all = search_all(32);
    int32_t n, tried = 0;
    const double best = plan(a, c, &all, &n)->objective_s;
    for (int32_t tp = 1; tp <= 8; tp *= 2)
        for (int32_t pp = 1; pp <= 8; pp *= 2)
            for (int32_t b = 1; b <= 4; b *= 2) {
                luo_uniform_opts o = all;
                luo_uniform_result *r;
                o.tp = tp;
                o.pp = pp;
                o.micro_batch_sequences = b;
                if (luo_plan_uniform(a, &llama, c, &o, &r, &n, NULL) != LUO_OK) continue;
                ck_assert_double_ge(r->objective_s, best);
                ck_assert_int_eq(r->plan->pipelines[0].nstages, pp);
                ck_assert_int_eq(r->plan->pipelines[0].stages[0].ndev, tp);
                tried++;
            }
    ck_assert_int_gt(tried, 10);
    luo_arena_free(a);
}
END_TEST

/* Long sequences are cut among ranks where that is best; sizes fixed by hand are never better, and
 * what is offered is a plan. */
START_TEST(sequences_are_cut)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_cluster *c = fixture_cluster(a, 1, 4, 8);
    luo_uniform_opts o = search_all(8);
    int32_t n, cut = 0, best_cp;
    o.sequence_tokens = 32768;
    luo_model m = llama;
    m.max_sequence_tokens = o.sequence_tokens;
    o.cp = -1;
    o.zero_most = 3;
    luo_uniform_result *r = NULL;
    ck_assert_int_eq(luo_plan_uniform(a, &m, c, &o, &r, &n, NULL), LUO_OK);
    const double best = r[0].objective_s;
    best_cp = r[0].plan->pipelines[0].stages[0].context_parallel;
    for (int32_t i = 0; i < n; i++) {
        luo_plan_finding *f;
        int32_t nf;
        cut += r[i].plan->pipelines[0].stages[0].context_parallel > 1;
        ck_assert_msg(luo_plan_check(a, r[i].plan, &m, c, &f, &nf) == LUO_OK, "%s", f[0].text);
    }
    ck_assert_int_gt(cut, 0); /* 8 sequences on 32 devices */
    for (int32_t cp = 1; cp <= 32; cp *= 2) {
        luo_uniform_opts by_hand = o;
        by_hand.cp = cp;
        if (luo_plan_uniform(a, &m, c, &by_hand, &r, &n, NULL) != LUO_OK) continue;
        ck_assert_int_eq(r->plan->pipelines[0].stages[0].context_parallel, cp);
        if (cp > 8) continue; /* less than 4096 tokens a rank: not searched */
        ck_assert_double_ge(r->objective_s, best);
        if (cp == best_cp) ck_assert_double_eq(r->objective_s, best);
    }
    o.sequence_tokens = 4096;
    ck_assert_int_eq(luo_plan_uniform(a, &m, c, &o, &r, &n, NULL), LUO_OK);
    for (int32_t i = 0; i < n; i++)
        ck_assert_int_eq(r[i].plan->pipelines[0].stages[0].context_parallel, 1);
    luo_arena_free(a);
}
END_TEST

/* the computed vectors, V-M1: 8 devices, tp 2, pp 2. */
START_TEST(device_order)
{
    static const int32_t want[2][2][2][2] = {{{{0, 1}, {4, 5}}, {{2, 3}, {6, 7}}},
                                             {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}};
    luo_arena *a = luo_arena_new(1 << 16);
    luo_uniform_opts o = search_all(8);
    int32_t n;
    o.tp = o.pp = 2;
    o.tp_pp_dp = _i == 1;
    const luo_plan *p = plan(a, fixture_cluster(a, 1, 2, 4), &o, &n)->plan;
    ck_assert_int_eq(p->npipelines, 2);
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < 2; i++)
                ck_assert_int_eq(p->pipelines[d].stages[s].dev[i], want[_i][d][s][i]);
    luo_arena_free(a);
}
END_TEST

/* Standby, dead and left-over devices stay out; a group never crosses nodes. */
START_TEST(who_takes_part)
{
    static const int32_t standby[] = {15};
    static const luo_health down = {.target = "device:1", .down = true};
    luo_arena *a = luo_arena_new(1 << 16);
    luo_cluster *c = fixture_cluster(a, 1, 2, 8);
    c->standby = standby;
    c->nstandby = 1;
    c->health = &down;
    c->nhealth = 1;
    luo_uniform_opts o = search_all(12);
    o.tp = 2;
    o.pp = 2;
    int32_t n, ndev, *dev;
    const luo_plan *p = plan(a, c, &o, &n)->plan;
    ck_assert_int_eq(luo_plan_devices(a, p, &dev, &ndev, NULL), LUO_OK);
    ck_assert_int_eq(p->npipelines, 3); /* 0,2|3,4|5,6|8,9|10,11|12,13: 7 and 14 left over */
    for (int32_t i = 0; i < ndev; i++)
        ck_assert(dev[i] != 1 && dev[i] != 15 && dev[i] != 7 && dev[i] != 14);
    luo_arena_free(a);
}
END_TEST

/* With ZeRO-3 over two nodes shards inside them are offered, too: an eighth of the state each, not
 * a sixteenth. */
START_TEST(shards_inside_nodes)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_cluster *c = fixture_cluster(a, 1, 2, 8);
    const luo_uniform_opts o = {.batch_sequences = 64, .sequence_tokens = 4096, .tp = 1, .pp = 1,
                                .dp = 16, .zero = 3, .recompute = -1, .top = 64};
    int32_t n, whole = 0, inside = 0;
    const luo_uniform_result *r = plan(a, c, &o, &n);
    double least[2] = {INFINITY, INFINITY};
    for (int32_t i = 0; i < n; i++) {
        const luo_sharding *s = &r[i].plan->sharding;
        const bool hybrid = s->kind == LUO_SHARD_HYBRID;
        if (hybrid) ck_assert_int_eq(s->pipelines, 8);
        *(hybrid ? &inside : &whole) += 1;
        least[hybrid] = fmin(least[hybrid], r[i].memory_ratio);
    }
    ck_assert(inside > 0 && inside <= whole);
    ck_assert_double_gt(least[1], least[0]);
    luo_arena_free(a);
}
END_TEST

static const struct {
    luo_uniform_opts o;
    luo_status st;
    const char *says;
} bad[] = {
    {{.batch_sequences = 0, .sequence_tokens = 4}, LUO_EINPUT,
     "the batch holds 0 sequences of 4 tokens; at least one of each is expected."},
    {{.batch_sequences = 8, .sequence_tokens = 4, .tp = 3}, LUO_EINPUT,
     "tensor parallelism of 3 does not divide the 32 heads of `llama-test`; `1`, `2` or `4` "
     "would, in nodes of 4."},
    {{.batch_sequences = 8, .sequence_tokens = 4, .pp = 5}, LUO_EINPUT,
     "5 stages do not divide 24 layers; stages of equally many are asked for."},
    {{.batch_sequences = 3, .sequence_tokens = 4, .dp = 2}, LUO_EINFEASIBLE,
     "2 pipelines with micro-batches of 1 do not divide a batch of 3 sequences; a multiple of 2 is "
     "needed."},
    {{.batch_sequences = 8, .sequence_tokens = 4, .tp = 8}, LUO_EINFEASIBLE,
     "tensor parallelism of 8 is more than the 4 usable devices of node `g0-0`, and no node has "
     "more; its groups do not cross nodes."},
    {{.batch_sequences = 8, .sequence_tokens = 5, .tp = 2, .sequence_parallel = true},
     LUO_EINFEASIBLE,
     "tensor parallelism of 2 does not divide the 5 tokens of a sequence, which sequence "
     "parallelism cuts; another length is needed."},
    {{.batch_sequences = 8, .sequence_tokens = 4, .tp = 2, .pp = 4, .layers = LUO_UNIFORM_BOTH},
     LUO_EINFEASIBLE,
     "8 devices are needed (tensor 2 x pipeline 4 x context 1 x data 1), and the cluster has 4."},
    {{.batch_sequences = 64, .sequence_tokens = 4096, .tp = 1, .pp = 1,
      .micro_batch_sequences = 16},
     LUO_EINFEASIBLE, NULL},
};

START_TEST(bad_row)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_uniform_result *r = NULL;
    luo_err err = {0};
    int32_t n = -1;
    ck_assert_int_eq(luo_plan_uniform(a, &llama, fixture_cluster(a, 1, 1, 4), &bad[_i].o, &r, &n,
                                      &err), bad[_i].st);
    if (bad[_i].says) ck_assert_str_eq(err.text, bad[_i].says);
    else ck_assert_ptr_nonnull(strstr(err.text, "no plan fits in memory; the tightest stage"));
    ck_assert_int_eq(n, -1);
    luo_arena_free(a);
}
END_TEST

/* Experts that eight devices share: whole stages of them side by side, in one pipeline or with ZeRO
 * 0 or 1, and weighed with their rows and whole experts, which the model of fewer does not have. */
START_TEST(shares_of_experts)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_cluster *c = fixture_cluster(a, 1, 2, 8);
    luo_model all = llama, fewer;
    all.family = LUO_FAMILY_MOE;
    all.moe = (luo_moe){.experts = 16, .experts_per_token = 4, .expert_ffn_hidden = 1024};
    fewer = all;
    fewer.moe.experts = fewer.moe.experts_per_token = 2;
    luo_uniform_opts o = search_all(64);
    luo_uniform_result *r = NULL;
    luo_err err = {0};
    int32_t n, other = 0;
    o.zero_most = 3;
    o.top = 1000;
    ck_assert_int_eq(luo_plan_uniform(a, &fewer, c, &o, &r, &n, &err), LUO_OK);
    for (int32_t i = 0; i < n; i++) other += r[i].plan->zero > 1 || r[i].plan->npipelines < 8;
    ck_assert_int_gt(other, 0); /* there is something to leave out */
    o.shared = &all;
    o.share = 8;
    ck_assert_int_eq(luo_plan_uniform(a, &fewer, c, &o, &r, &n, &err), LUO_OK);
    ck_assert_int_gt(n, 3);
    for (int32_t i = 0; i < n; i++) {
        const luo_plan *p = r[i].plan;
        const int32_t width = p->pipelines[0].stages[0].ndev;
        ck_assert_int_eq(8 % width, 0);
        ck_assert_int_eq(p->npipelines % (8 / width), 0);
        ck_assert(width == 8 || p->zero < 2);
    }
    all.moe.experts_per_token = 1 << 16; /* rows without end */
    ck_assert_int_eq(luo_plan_uniform(a, &fewer, c, &o, &r, &n, &err), LUO_EINFEASIBLE);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("plan.uniform", LUO_T(offers_are_valid_and_ordered), LUO_T(communicators_are_counted),
          LUO_T(search_beats_every_choice), LUO_T(sequences_are_cut),
          LUO_T_N(device_order, 2), LUO_T(who_takes_part),
          LUO_T(shards_inside_nodes), LUO_T(shares_of_experts), LUO_T_N(bad_row, LUO_ROWS(bad)))
