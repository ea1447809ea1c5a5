/* Nodes with a failed device leave, and slow ones where that pays; pipelines are templates of whole
 * nodes, and the state of those that are new is copied from the pipelines that are left
 * (docs/policies.md). Choices of ours where docs/policies.md is silent:
 * - with a simulator the best list of templates, and the best with one pipeline fewer, one more
 *   and two, without slow nodes and with them, are simulated, and so are the plan of the scenario
 *   and the running one;
 * - unless a device failed or is about to leave, the time saved in the steps of
 *   luo_snapshot_payback has to pay for the switch (docs/planners.md#when-it-plans-again), whether
 * a node leaves, comes back or is fast again;
 * - state that has no copy left comes from the checkpoint, at the cost of a restart;
 * - after a crash of all processes, with every node still there, the same plan starts again. */
#include <stdio.h>
#include <string.h>

#include "core/plan/oobleck/oobleck.h"
#include "core/run/policy/groups.h"
#include "core/run/policy/offers.h"

enum { PIPELINES = 2 }; /* f + 1, f = 1 */

static luo_status make_stage(luo_arena *arena, const luo_groups *groups,
                             const luo_oobleck_pipe *pipe, int32_t s, int64_t first_layer,
                             luo_stage *out, luo_err *err)
{
    luo_range *layers = LUO_NEW(arena, luo_range);
    if (!layers) return luo_err_nomem(err);
    *layers = (luo_range){(int32_t)first_layer, (int32_t)(first_layer + pipe->layers[s])};
    *out = (luo_stage){.nlayers = 1,
                       .layers = layers,
                       .ndev = groups->tp,
                       .dev = groups->dev + (int64_t)(pipe->group + s) * groups->tp,
                       .context_parallel = 1,
                       .recompute = luo_groups_pattern(groups->now)->recompute,
                       .embedding = s == 0,
                       .head = s == pipe->stages - 1};
    return LUO_OK;
}

static luo_status make_pipeline(luo_arena *arena, const luo_groups *groups,
                                const luo_oobleck_pipe *pipe, luo_pipeline *out, luo_err *err)
{
    luo_stage *stages = LUO_NEW_N(arena, luo_stage, pipe->stages);
    int64_t first = 0;
    if (!stages) return luo_err_nomem(err);
    for (int32_t s = 0; s < pipe->stages; s++) {
        LUO_TRY(make_stage(arena, groups, pipe, s, first, &stages[s], err));
        first += pipe->layers[s];
    }
    *out = (luo_pipeline){.micro_batches = (int32_t)pipe->micro_batches,
                          .micro_batch_sequences = groups->now->base->micro_batch_sequences,
                          .nstages = pipe->stages,
                          .stages = stages};
    return LUO_OK;
}

static luo_status make_plan(luo_arena *arena, const luo_groups *groups,
                            const luo_oobleck_plan *oobleck_plan, const luo_plan **out,
                            luo_err *err)
{
    const luo_plan *base = groups->now->base;
    luo_plan *plan = LUO_NEW(arena, luo_plan);
    luo_pipeline *pipelines = LUO_NEW_N(arena, luo_pipeline, oobleck_plan->npipes);
    if (!plan || !pipelines) return luo_err_nomem(err);
    for (int32_t i = 0; i < oobleck_plan->npipes; i++)
        LUO_TRY(make_pipeline(arena, groups, &oobleck_plan->pipes[i], &pipelines[i], err));
    *plan = (luo_plan){.name = "oobleck",
                       .model = base->model,
                       .cluster = base->cluster,
                       .layers = base->layers,
                       .devices = base->devices,
                       .dtype = base->dtype,
                       .sequence_tokens = base->sequence_tokens,
                       .micro_batch_sequences = base->micro_batch_sequences,
                       .zero = base->zero,
                       .sequence_parallel = base->sequence_parallel,
                       .schedule = LUO_SCHED_1F1B,
                       .staggered = base->staggered,
                       .chunks = 1,
                       .npipelines = oobleck_plan->npipes,
                       .pipelines = pipelines};
    *out = plan;
    return LUO_OK;
}

/* The best of the lists with so many pipelines (0: any number); *count: how many it has. */
static luo_status offer(luo_arena *arena, const luo_groups *groups, int32_t least, int32_t most,
                        luo_offers *out, int32_t *count, luo_err *err)
{
    const luo_snapshot *now = groups->now;
    const luo_plan *plan = NULL;
    luo_oobleck_plan oobleck_plan;
    const luo_oobleck_in in = {.nnodes = groups->nnodes,
                               .first = groups->first,
                               .kind = groups->kind,
                               .y = groups->y,
                               .layers = now->scenario->model->layers,
                               .micro_batches = now->micro_batches,
                               .least_pipelines = least,
                               .most_pipelines = most,
                               .full_recompute =
                                   luo_groups_pattern(now)->recompute == LUO_RECOMPUTE_FULL,
                               .cap = luo_groups_cap,
                               .cap_ctx = groups};
    LUO_TRY(luo_oobleck(arena, &in, &oobleck_plan, err));
    LUO_TRY(make_plan(arena, groups, &oobleck_plan, &plan, err));
    luo_offers_add(out, "oobleck", plan, oobleck_plan.event);
    *count = oobleck_plan.npipes;
    return LUO_OK;
}

luo_status luo_offers_oobleck(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                              luo_offers *out, luo_err *err)
{
    luo_groups groups;
    int32_t n, other;
    LUO_TRY(luo_groups_find(arena, now, slow_too, &groups, err));
    if (groups.nnodes == 0)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "no usable node is left; two at least are needed.");
    LUO_TRY(offer(arena, &groups, PIPELINES, 0, out, &n, err));
    const int32_t others[] = {n - 1, n + 1, PIPELINES};
    for (int i = 0; i < 3 && now->step_s; i++) {
        luo_err why = {0};
        if (others[i] < PIPELINES || others[i] == n) continue;
        const luo_status st = offer(arena, &groups, others[i], others[i], out, &other, &why);
        if (st != LUO_OK && st != LUO_EINFEASIBLE) return luo_err_set(err, st, "%s", why.text);
    }
    return LUO_OK;
}

static void switch_to(luo_decision *out, luo_action action, const luo_plan *plan)
{
    out->action = action;
    out->plan = plan;
    snprintf(out->why, sizeof out->why, "%d pipelines of whole nodes", plan->npipelines);
    if (!out->figures[0]) snprintf(out->figures, sizeof out->figures, "%.6g s a step", out->new_s);
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    const bool failed = now->trigger & LUO_TRIGGER_FAIL;
    luo_err why = {0};
    luo_offers offers;
    double way_s;
    bool pays = true;
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1};
    if (failed && luo_snapshot_whole(now)) {
        switch_to(out, LUO_RESTART, now->plan);
        return LUO_OK;
    }
    const luo_status st = luo_offers_best(arena, now, luo_offers_oobleck, &offers, &why);
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
    if (!failed && !luo_snapshot_leaves(now)) {
        LUO_TRY(luo_snapshot_switch_s(arena, now, out->plan, &way_s, err));
        LUO_TRY(luo_decision_weigh(arena, now, way_s, out, &pays, err));
    }
    if (pays)
        switch_to(out, LUO_SWITCH, out->plan);
    else
        snprintf(out->why, sizeof out->why, "a switch does not pay");
    return LUO_OK;
}

/* Templates know stages of tensor-parallel devices only. */
static luo_status check(const luo_snapshot *now, luo_err *err)
{
    if (luo_plan_has_context(now->base))
        return luo_err_set(err, LUO_EINPUT, "the base plan cuts sequences among devices; "
                           "`context_parallel` 1 is expected.");
    return luo_policy_check_zero(now, err);
}

const luo_policy luo_policy_oobleck = {.name = "oobleck", .plans = true, .decide = decide,
                                       .check = check,
                                       .keys = "restart_s payback_steps payback rank"};
