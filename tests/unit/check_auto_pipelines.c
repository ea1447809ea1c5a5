/* check_auto_pipelines.c: what the search over layers and strategies finds, as plans. */
#include <math.h>

#include "core/plan/auto/pipelines.h"
#include "core/run/policy/judge.h"
#include "sim/sim.h"
#include "tests/driver_fixture.h"

static const int32_t eight[] = {0, 1, 2, 3, 4, 5, 6, 7};
static luo_model small;

static luo_auto_pipelines_in prepare_search(void)
{
    prepare("static", 1, 0);
    small = model;
    small.layers = 6;
    return (luo_auto_pipelines_in){.model = &small, .cluster = sc.cluster, .stack = &sc.stack,
                                   .batch_sequences = 16, .sequence_tokens = 256,
                                   .devices = eight, .ndevices = 8, .zero = -1,
                                   .sequence_parallel = true};
}

/* Each can be checked, compiled and run; it uses all devices and the whole batch. */
static int32_t check_plans(const luo_auto_pipelines_in *in, luo_auto_pipelines_plan *out)
{
    const luo_judge judge = {.simulator = &luo_sim_backend, .model = in->model,
                             .cluster = in->cluster, .stack = in->stack,
                             .bucket = in->stack->bucket, .comm = LUO_COMM_FLOW};
    luo_err err = {0};
    int32_t n;
    ck_assert_msg(luo_auto_pipelines(arena, in, out, &n, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_le(n, LUO_AUTO_PIPELINES);
    for (int32_t i = 0; i < n; i++) {
        luo_plan_finding *f;
        luo_judgement step;
        int32_t nf, nd, *dev;
        ck_assert_msg(luo_plan_check(arena, out[i].plan, in->model, in->cluster, &f, &nf) == LUO_OK,
                      "%s", nf ? f[0].text : "");
        ck_assert_int_eq(luo_judge_plan(&judge, out[i].plan, 256, NULL, &step, &err), LUO_OK);
        ck_assert_msg(isfinite(step.seconds), "%s", err.text);
        ck_assert_int_eq(luo_plan_sequences(out[i].plan), in->batch_sequences);
        ck_assert_int_eq(luo_plan_devices(arena, out[i].plan, &dev, &nd, &err), LUO_OK);
        ck_assert_int_eq(nd, in->ndevices);
        ck_assert(isfinite(out[i].step_s) && out[i].step_s > 0);
        if (i > 0) ck_assert(out[i - 1].step_s <= out[i].step_s);
    }
    return n;
}

START_TEST(plans_can_run)
{
    luo_auto_pipelines_in in = prepare_search();
    luo_auto_pipelines_plan out[LUO_AUTO_PIPELINES];
    bool wide = false, sharded = false;
    const int32_t n = check_plans(&in, out);
    ck_assert_int_eq(n, 4); /* tensor degrees 1 and 2, each with copies and with shards */
    for (int32_t i = 0; i < n; i++) {
        wide |= luo_stage_tp(&out[i].plan->pipelines[0].stages[0]) == 2;
        sharded |= out[i].plan->zero == 3;
    }
    ck_assert(wide && sharded);
}
END_TEST

START_TEST(sizes_are_kept)
{
    luo_auto_pipelines_in in = prepare_search();
    luo_auto_pipelines_plan out[LUO_AUTO_PIPELINES];
    in.tp = 2;
    in.pp = 2;
    in.zero = _i;
    const int32_t n = check_plans(&in, out);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(luo_stage_tp(&out[0].plan->pipelines[0].stages[0]), 2);
    ck_assert_int_eq(out[0].plan->pipelines[0].nstages, 2);
    ck_assert_int_eq(out[0].plan->npipelines, 2);
    ck_assert_int_eq(out[0].plan->zero, _i);
}
END_TEST

/* A pipeline has its own tensor group of every stage, on one node each. */
START_TEST(groups_stay_in_nodes)
{
    luo_auto_pipelines_in in = prepare_search();
    luo_auto_pipelines_plan out[LUO_AUTO_PIPELINES];
    in.tp = 2;
    const int32_t n = check_plans(&in, out);
    for (int32_t i = 0; i < n; i++)
        for (int32_t p = 0; p < out[i].plan->npipelines; p++)
            for (int32_t s = 0; s < out[i].plan->pipelines[p].nstages; s++) {
                const luo_stage *st = &out[i].plan->pipelines[p].stages[s];
                ck_assert_int_eq(sc.cluster->devices[st->dev[0]].node,
                                 sc.cluster->devices[st->dev[1]].node);
            }
}
END_TEST

/* The less memory, the more layers are checkpointed; none of the plans outgrows a device. */
START_TEST(memory_brings_checkpoints)
{
    luo_auto_pipelines_plan out[LUO_AUTO_PIPELINES];
    int32_t before = -1, rising = 0;
    for (int k = 0; k < 4; k++) {
        luo_auto_pipelines_in in = prepare_search();
        luo_profile *prof = (luo_profile *)in.cluster->groups[0].profile;
        int32_t marked = 0, n;
        luo_err err = {0};
        small.hidden = 2048, small.ffn_hidden = 8192, small.heads = 16, small.kv_heads = 16;
        small.head_dim = 128;
        in.sequence_tokens = 4096;
        small.max_sequence_tokens = 4096;
        in.tp = 2, in.zero = 3, in.pp = 1;
        prof->memory_bytes = (double[]){80e9, 6e9, 4e9, 2.4e9}[k] + prof->reserved_bytes;
        ck_assert_msg(luo_auto_pipelines(arena, &in, out, &n, &err) == LUO_OK, "%s", err.text);
        if (n == 0) break;
        const luo_stage *st = &out[0].plan->pipelines[0].stages[0];
        for (int32_t r = 0; r < st->nrecompute; r++)
            marked += st->recompute_layers[r].hi - st->recompute_layers[r].lo;
        if (st->recompute == LUO_RECOMPUTE_FULL && !st->nrecompute) marked = 6;
        ck_assert_int_ge(marked, before);
        rising += before >= 0 && marked > before;
        before = marked;
    }
    ck_assert_int_ge(rising, 1);
}
END_TEST

LUO_SUITE("plan.auto.pipelines", LUO_T(plans_can_run), LUO_T_N(sizes_are_kept, 2),
          LUO_T(groups_stay_in_nodes), LUO_T(memory_brings_checkpoints))
