/* Nodes with a failed device leave, and slow ones where that pays; the rest restarts from a
 * checkpoint with the best uniform plan (docs/policies.md). Choices of ours where docs/policies.md
 * is silent:
 * - the plan of the scenario, the running one and the best few by event time, without slow nodes
 *   and with them, are simulated, where there is a simulator, and the fastest is the one to take;
 * - unless a device failed or is about to leave, the time saved in the steps of
 *   luo_snapshot_payback has to pay for the restart (docs/planners.md#when-it-plans-again), whether
 *   a node leaves, comes back or is fast again;
 * - nodes announced to leave count as gone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/plan/grid.h"
#include "core/run/policy/groups.h"
#include "core/run/policy/offers.h"

static luo_status make_plan(luo_arena *arena, const luo_groups *groups,
                            const luo_restart_plan *restart_plan, const luo_plan **out,
                            luo_err *err)
{
    const luo_snapshot *now = groups->now;
    int32_t *dev = LUO_NEW_N(arena, int32_t,
                             (int64_t)restart_plan->pipelines * restart_plan->stages * groups->tp);
    if (!dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < restart_plan->pipelines; d++)
        for (int32_t s = 0; s < restart_plan->stages; s++)
            memcpy(dev + ((int64_t)d * restart_plan->stages + s) * groups->tp,
                   groups->dev +
                       (int64_t)restart_plan->group[d + restart_plan->pipelines * s] * groups->tp,
                   (size_t)groups->tp * sizeof *dev);
    const luo_grid grid = {.name = "restart",
                           .model = now->scenario->model,
                           .cluster = now->scenario->cluster,
                           .dtype = now->base->dtype,
                           .sequence_tokens = now->base->sequence_tokens,
                           .micro_batches = restart_plan->micro_batches,
                           .micro_batch_sequences = now->base->micro_batch_sequences,
                           .zero = now->base->zero,
                           .pipelines = restart_plan->pipelines,
                           .stages = restart_plan->stages,
                           .tp = groups->tp,
                           .sequence_parallel = now->base->sequence_parallel,
                           .staggered = now->base->staggered,
                           .recompute = luo_groups_pattern(now)->recompute,
                           .dev = dev,
                           .layers = restart_plan->layers};
    luo_plan *plan;
    LUO_TRY(luo_plan_grid(arena, &grid, &plan, err));
    *out = plan;
    return LUO_OK;
}

enum { OFFERS = 4 };

luo_status luo_offers_restart(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                              luo_offers *out, luo_err *err)
{
    luo_groups groups;
    luo_restart_plan restart_plan[OFFERS];
    int32_t n = 0;
    const bool full = luo_groups_pattern(now)->recompute == LUO_RECOMPUTE_FULL;
    LUO_TRY(luo_groups_find(arena, now, slow_too, &groups, err));
    if (groups.n == 0)
        return luo_err_set(err, LUO_EINFEASIBLE, "no usable node is left; one at least is needed.");
    const luo_restart_in in = {.ngroups = groups.n,
                               .y = groups.y,
                               .layers = now->scenario->model->layers,
                               .micro_batches = now->micro_batches,
                               .strict_uniform = now->spec->strict_uniform,
                               .full_recompute = full,
                               .cap = luo_groups_cap,
                               .cap_ctx = &groups};
    LUO_TRY(luo_replan_restart_shapes(arena, &in, OFFERS, restart_plan, &n, err));
    for (int32_t i = 0; i < n; i++) {
        const luo_plan *plan = NULL;
        LUO_TRY(make_plan(arena, &groups, &restart_plan[i], &plan, err));
        luo_offers_add(out, "restart", plan, restart_plan[i].event);
    }
    return LUO_OK;
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    const bool failed = now->trigger & LUO_TRIGGER_FAIL;
    luo_err why = {0};
    luo_offers offers;
    double way_s;
    bool pays;
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1};
    const luo_status st = luo_offers_best(arena, now, luo_offers_restart, &offers, &why);
    if (st == LUO_EINFEASIBLE) {
        luo_decision_stay(now, why.text, out);
        return LUO_OK;
    }
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    out->plan = offers.at[0].plan;
    out->new_s = now->step_s ? offers.at[0].step_s : offers.at[0].objective_s;
    if (!failed && luo_plan_hash(out->plan) == luo_plan_hash(now->plan)) {
        snprintf(out->why, sizeof out->why, "the running plan is the best one");
        return LUO_OK;
    }
    if (failed || luo_snapshot_leaves(now)) {
        out->action = LUO_RESTART;
        snprintf(out->why, sizeof out->why, "restart on %d pipelines", out->plan->npipelines);
        snprintf(out->figures, sizeof out->figures, "%.6g s a step", out->new_s);
        return LUO_OK;
    }
    LUO_TRY(now->restart_s(now->run, out->plan, &way_s, err));
    LUO_TRY(luo_decision_weigh(arena, now, way_s, out, &pays, err));
    out->action = pays ? LUO_RESTART : LUO_KEEP;
    snprintf(out->why, sizeof out->why, pays ? "restart on %d pipelines" : "a restart does not pay",
             out->plan->npipelines);
    return LUO_OK;
}

const luo_policy luo_policy_restart = {
    .name = "restart", .plans = true, .decide = decide,
    .keys = "restart_s strict_uniform payback_steps payback rank"};
