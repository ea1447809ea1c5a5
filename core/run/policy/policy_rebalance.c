/* Groups and layers stay, only micro-batches move (docs/policies.md). State stays where it is,
 * so a failure, which takes state away, ends the run, as with `static`. */
#include <math.h>
#include <stdio.h>

#include "core/plan/replan/replan.h"
#include "core/plan/replan/reroute.h"
#include "core/run/policy/groups.h"
#include "core/run/policy/offers.h"

/* Seconds of a stage for one micro-batch: predicted compute of its devices times their rates. */
static double stage_seconds(const luo_snapshot *now, const luo_pipeline *pl, const luo_stage *st)
{
    double t = 0;
    for (int32_t k = 0; k < st->ndev; k++)
        t = fmax(t, now->predicted_s[st->dev[k]] * now->rate[st->dev[k]]);
    return t / pl->micro_batches;
}

static luo_status stage_times(luo_arena *arena, const luo_snapshot *now, luo_pipe_time **out,
                              luo_err *err)
{
    const luo_plan *plan = now->plan;
    *out = LUO_NEW_N(arena, luo_pipe_time, plan->npipelines);
    if (!*out) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        double *t = LUO_NEW_N(arena, double, pl->nstages);
        if (!t) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) t[s] = stage_seconds(now, pl, &pl->stages[s]);
        (*out)[i] = (luo_pipe_time){pl->nstages, t, pl->micro_batches};
    }
    return LUO_OK;
}

/* Micro-batches can only move between pipelines whose micro-batches are alike. Estimates are those
 * of 1F1B: under zb_h1 and zb_h2 a micro-batch keeps a stage busy as long, and waits less. */
static bool alike(const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].micro_batch_sequences != plan->pipelines[0].micro_batch_sequences ||
            plan->pipelines[i].micro_batch_tokens)
            return false;
    const bool known = plan->schedule == LUO_SCHED_1F1B || luo_sched_splits(plan->schedule);
    return plan->npipelines > 1 && known && !luo_plan_is_rerouted(plan);
}

static luo_status with_micro_batches(luo_arena *arena, const luo_plan *plan, const int64_t *m,
                                     const luo_plan **out, luo_err *err)
{
    luo_plan *copy;
    LUO_TRY(luo_plan_copy(arena, plan, &copy, err));
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, plan->npipelines);
    if (!pl) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        pl[i] = copy->pipelines[i];
        pl[i].micro_batches = (int32_t)m[i];
    }
    copy->pipelines = pl;
    copy->name = "rebalanced";
    copy->meta_json = NULL;
    *out = copy;
    return LUO_OK;
}

typedef struct dealt { /* micro-batches of the running plan, dealt again */
    int64_t *m;
    double old_s, new_s; /* event times */
} dealt;

static luo_status deal(luo_arena *arena, const luo_snapshot *now, dealt *out, luo_err *err)
{
    const luo_plan *plan = now->plan;
    const bool full = plan->pipelines[0].stages[0].recompute == LUO_RECOMPUTE_FULL;
    int64_t batch = 0;
    luo_pipe_time *pipes;
    for (int32_t i = 0; i < plan->npipelines; i++) batch += plan->pipelines[i].micro_batches;
    out->m = LUO_NEW_N(arena, int64_t, plan->npipelines);
    if (!out->m) return luo_err_nomem(err);
    LUO_TRY(now->predicted_s ? stage_times(arena, now, &pipes, err)
                             : luo_groups_times(arena, now, &pipes, err));
    LUO_TRY(luo_replan_event_time(arena, pipes, plan->npipelines, full, &out->old_s, err));
    return luo_replan_rebalance(arena, pipes, plan->npipelines, batch, full, out->m,
                                &out->new_s, err);
}

luo_status luo_offers_rebalance(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                                luo_err *err)
{
    dealt d;
    const luo_plan *plan;
    if (!alike(now->plan) || !luo_snapshot_whole(now)) return LUO_OK;
    LUO_TRY(deal(arena, now, &d, err));
    LUO_TRY(with_micro_batches(arena, now->plan, d.m, &plan, err));
    luo_offers_add(out, "rebalance", plan, d.new_s);
    return LUO_OK;
}

static luo_status deal_again(luo_arena *arena, const luo_snapshot *now, luo_decision *out,
                             luo_err *err)
{
    const luo_plan *plan = now->plan;
    dealt d;
    LUO_TRY(deal(arena, now, &d, err));
    out->old_s = d.old_s;
    out->new_s = d.new_s;
    if (out->new_s >= out->old_s * (1 - 1e-9)) {
        snprintf(out->why, sizeof out->why, "micro-batches stay");
        snprintf(out->figures, sizeof out->figures, "%.6g s a step", out->old_s);
        return LUO_OK;
    }
    out->action = LUO_SWITCH;
    snprintf(out->why, sizeof out->why, "micro-batches dealt again");
    snprintf(out->figures, sizeof out->figures, "%.6g -> %.6g s a step", out->old_s, out->new_s);
    return with_micro_batches(arena, plan, d.m, &out->plan, err);
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1};
    if (now->trigger & LUO_TRIGGER_FAIL) {
        out->action = LUO_LOSE;
        snprintf(out->why, sizeof out->why, "rebalance has no answer to a failure");
        return LUO_OK;
    }
    if (now->trigger & LUO_TRIGGER_RATE && now->predicted_s && alike(now->plan))
        return deal_again(arena, now, out, err);
    snprintf(out->why, sizeof out->why, "rebalance keeps its plan");
    return LUO_OK;
}

const luo_policy luo_policy_rebalance = {.name = "rebalance", .plans = true, .decide = decide,
                                         .check = luo_policy_check_zero};
