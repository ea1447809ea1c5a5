/* The closed form of a step by hand: which plans it knows, rates of devices, recompute of some
 * layers, pipelines that differ. */
#include <math.h>

#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"
#include "core/plan/step/step.h"
#include "tests/cost_fixture.h"
#include "tests/plan_make.h"

typedef struct scene {
    luo_arena *arena;
    luo_profile profile;
    luo_node_group group;
    luo_cluster cluster;
    luo_stack stack;
    luo_model model;
    luo_cost_ctx ctx;
} scene;

static void open_scene(scene *s)
{
    s->arena = luo_arena_new(0);
    s->profile = luo_ref_profile();
    s->group = luo_test_group("a", 1, 8, &s->profile);
    s->cluster = luo_test_cluster(s->arena, &s->group, 1);
    s->model = luo_test_llama(8, 1024, 2816, 16, 4096);
    luo_stack_default(&s->stack);
    s->ctx = (luo_cost_ctx){.cluster = &s->cluster, .stack = &s->stack, .dtype = LUO_BF16};
}

static luo_step_cost step_of(scene *s, const luo_plan *plan, const double *rate)
{
    const luo_step_in in = {.model = &s->model, .cluster = &s->cluster, .stack = &s->stack,
                            .sequence_tokens = plan->sequence_tokens, .rate = rate};
    luo_step_cost out;
    luo_err err = {0};
    ck_assert(luo_plan_step_knows(plan));
    ck_assert_msg(luo_plan_step(s->arena, &in, plan, &out, &err) == LUO_OK, "%s", err.text);
    return out;
}

START_TEST(knows)
{
    static const uint32_t uneven[] = {3, 1};
    static const int64_t tokens[] = {4096};
    luo_arena *a = luo_arena_new(0);
    luo_plan *alike = luo_test_plan(a, "4: [0,1]*4 [2,3]*4 || 4: [4,5]*4 [6,7]*4");
    luo_plan *differ = luo_test_plan(a, "4: [0,1]*4 [2,3]*4 || 4: [4,5]*8");
    luo_stage *first = (luo_stage *)(uintptr_t)alike->pipelines[0].stages; /* ours */
    luo_pipeline *pipe = (luo_pipeline *)(uintptr_t)alike->pipelines;
    for (int32_t zero = 0; zero <= 3; zero++) {
        alike->zero = differ->zero = zero;
        ck_assert(luo_plan_step_knows(alike));
        ck_assert_int_eq(luo_plan_step_knows(differ), zero < 2);
    }
    alike->schedule = LUO_SCHED_ZB_H1;
    ck_assert(!luo_plan_step_knows(alike));
    alike->zero = 1;
    ck_assert(luo_plan_step_knows(alike));
    alike->schedule = LUO_SCHED_ZB_H2;
    ck_assert(luo_plan_step_knows(alike));
    alike->schedule = LUO_SCHED_1F1B;
    first->shares = uneven;
    ck_assert(!luo_plan_step_knows(alike));
    first->shares = NULL;
    pipe->micro_batch_tokens = tokens;
    ck_assert(!luo_plan_step_knows(alike));
    luo_arena_free(a);
}
END_TEST

/* One device: all work is slowed, and the update; one that is gone ends it. */
START_TEST(rates_of_devices)
{
    scene s;
    double rate[8] = {2, 1, 1, 1, 1, 1, 1, 1};
    open_scene(&s);
    const luo_plan *plan = luo_test_plan(s.arena, "4: [0]*8");
    const luo_step_cost well = step_of(&s, plan, NULL), slow = step_of(&s, plan, rate);
    luo_near(slow.pipeline, 2 * well.pipeline, 1e-12, "pipeline");
    luo_near(slow.optimizer, 2 * well.optimizer, 1e-12, "update");
    rate[0] = 1;
    luo_near(step_of(&s, plan, rate).step, well.step, 1e-12, "as it was");
    rate[0] = INFINITY;
    ck_assert(isinf(step_of(&s, plan, rate).step));
    luo_arena_free(s.arena);
}
END_TEST

/* A tensor group waits for its slow device, and its sums take what they took. */
START_TEST(calls_of_a_group_are_not_slowed)
{
    scene s;
    const double rate[8] = {1, 3, 1, 1, 1, 1, 1, 1};
    const int32_t dev[2] = {0, 1};
    luo_layer_cost c;
    open_scene(&s);
    const luo_plan *plan = luo_test_plan(s.arena, "1: [0,1]*8");
    const luo_context none = {.c = 1, .inner = 1};
    const luo_layer_shape shape = luo_layer_of(&s.model, 1, 4096, 2, none, true);
    ck_assert_int_eq(luo_cost_layer(&s.ctx, &shape, dev, 0, &c, NULL), LUO_OK);
    luo_pair_cost head, embedding;
    luo_cost_head(&s.ctx, &shape, dev, &head, NULL);
    luo_cost_embedding(&s.ctx, &shape, dev, &embedding, NULL);
    const double calls = c.forward_comm + c.backward_comm;
    const double ends =
        head.forward + head.backward + embedding.forward + embedding.backward;
    ck_assert_double_gt(calls, 0);
    luo_near(step_of(&s, plan, rate).pipeline,
             8 * (3 * (c.forward + c.backward - calls) + calls) + 3 * ends, 1e-12, "pipeline");
    luo_arena_free(s.arena);
}
END_TEST

START_TEST(some_layers_compute_again)
{
    static const luo_range half[] = {{2, 6}};
    scene s;
    open_scene(&s);
    luo_plan *plan = luo_test_plan(s.arena, "4: [0]*8");
    luo_stage *stage = (luo_stage *)(uintptr_t)plan->pipelines[0].stages; /* ours */
    const double none = step_of(&s, plan, NULL).pipeline;
    stage->recompute = LUO_RECOMPUTE_FULL;
    const double all = step_of(&s, plan, NULL).pipeline;
    stage->nrecompute = 1;
    stage->recompute_layers = half;
    luo_near(step_of(&s, plan, NULL).pipeline, (none + all) / 2, 1e-12, "half of the layers");
    luo_arena_free(s.arena);
}
END_TEST

/* Two devices share all layers with one: the lone one has both slices, one after the other on one
 * lane, each as long as a ring of two. */
START_TEST(a_narrow_stage_serves_every_slice)
{
    scene s;
    double ring = 0;
    const int32_t dev[2] = {0, 2};
    open_scene(&s);
    s.stack.dp_overlap = false;
    s.stack.grad_comm_bytes = 2;
    luo_plan *plan = luo_test_plan(s.arena, "1: [0,1]*8 || 8: [2]*8");
    plan->bucket = (luo_bucketing){.rule = LUO_BUCKET_DEEPSPEED, .lanes = 1}; /* one */
    const luo_step_cost cost = step_of(&s, plan, NULL);
    const int64_t matrices = 8 * (4 * 1024 * 1024 + 3 * 1024 * 2816);
    const int64_t tables = 2 * 1024 * luo_mem_vocab(&s.model, 2);
    const int64_t norms = (2 * 8 + 1) * 1024; /* whole on both: a bucket apart */
    ring = luo_cost_group_seconds(&s.ctx, LUO_COLL_AR, dev, 2, 2 * (matrices + tables) / 2, 0) +
           luo_cost_group_seconds(&s.ctx, LUO_COLL_AR, dev, 2, 2 * norms, 0);
    luo_near(cost.dp, 2 * ring, 0.01, "gradients");
    luo_arena_free(s.arena);
}
END_TEST

LUO_SUITE("step", LUO_T(knows), LUO_T(rates_of_devices), LUO_T(calls_of_a_group_are_not_slowed),
          LUO_T(some_layers_compute_again), LUO_T(a_narrow_stage_serves_every_slice))
