/* Fault tolerance step by step (torchft, github.com/pytorch/torchft: replicas
 * of the model join and leave a quorum from one step to the next). A replica with a failed device
 * leaves at once and takes its devices with it; what it had of the batch is dealt to the others or
 * lost (`lost_batch`). When all its devices are usable again it comes back and gets its state from
 * a peer. Nothing else moves, nobody restarts. Choices of ours where docs/policies.md is silent:
 * - a replica is a pipeline; with ZeRO-3 `hybrid` it is a group of pipelines that share shards;
 * - a batch is dealt evenly, lower pipelines first, in units that the schedule takes;
 * - slow devices stay;
 * - state that is cut over all replicas (ZeRO-1 to 3) has no copy: it comes from the checkpoint;
 * - without any replica left the run waits. */
#include <math.h>
#include <stdio.h>

#include "core/run/policy/offers.h"

static bool is_alive(const luo_snapshot *now, const luo_pipeline *pl, bool slow_too)
{
    const double most = slow_too ? (double)INFINITY : now->spec->threshold_slowdown;
    for (int32_t s = 0; s < pl->nstages; s++)
        for (int32_t k = 0; k < pl->stages[s].ndev; k++) {
            const int32_t d = pl->stages[s].dev[k];
            if (now->rate[d] >= most || now->leaving[d]) return false;
        }
    return true;
}

static int32_t pipelines_of_a_replica(const luo_plan *plan)
{
    const bool hybrid = plan->zero == 3 && plan->sharding.kind == LUO_SHARD_HYBRID;
    return hybrid ? plan->sharding.pipelines : 1;
}

static luo_status find_alive(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                             bool **alive, int32_t *n, luo_err *err)
{
    const luo_plan *plan = now->base;
    const int32_t each = pipelines_of_a_replica(plan);
    *alive = LUO_NEW_N(arena, bool, plan->npipelines);
    *n = 0;
    if (!*alive) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i += each) {
        bool all = true;
        for (int32_t k = i; k < i + each && k < plan->npipelines; k++)
            all = all && is_alive(now, &plan->pipelines[k], slow_too);
        for (int32_t k = i; k < i + each && k < plan->npipelines; k++) (*alive)[k] = all;
        *n += all ? each : 0;
    }
    return LUO_OK;
}

/* Micro-batches that come and go together. */
static int32_t unit_of(const luo_plan *plan)
{
    return luo_sched_takes_chunks(plan->schedule) ? plan->pipelines[0].nstages : 1;
}

static luo_status without(luo_arena *arena, const luo_plan *base, const bool *alive, int32_t n,
                          bool deals, const luo_plan **out, luo_err *err)
{
    const int32_t unit = unit_of(base);
    luo_plan *plan;
    LUO_TRY(luo_plan_copy(arena, base, &plan, err));
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, n);
    if (!pl) return luo_err_nomem(err);
    int32_t lost = 0, at = 0;
    for (int32_t i = 0; i < base->npipelines; i++)
        if (alive[i])
            pl[at++] = plan->pipelines[i];
        else lost += base->pipelines[i].micro_batches;
    for (at = 0; deals && lost > 0; at = (at + 1) % n, lost -= unit)
        pl[at].micro_batches += unit;
    plan->npipelines = n;
    plan->pipelines = pl;
    plan->name = "drop_replica";
    plan->meta_json = NULL;
    *out = plan;
    return LUO_OK;
}

static luo_status check_for(const luo_snapshot *now, bool deals, luo_err *err)
{
    const luo_plan *plan = now->base;
    if (plan->npipelines <= pipelines_of_a_replica(plan))
        return luo_err_set(err, LUO_EINPUT, "policy `drop_replica` goes on with the replicas that "
                           "are left, and the base plan has one; several pipelines are expected.");
    if (plan->nannotations > 0 || plan->nassignment > 0 || plan->ngroups > 0 ||
        plan->state_layout.ndev > 0)
        return luo_err_set(err, LUO_EINPUT, "policy `drop_replica` takes pipelines out of the base "
                           "plan, but the plan speaks of them; one without `annotations`, "
                           "`assignment`, `experts` groups and `state_layout` is expected.");
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].micro_batch_tokens && deals)
            return luo_err_set(err, LUO_EINPUT, "policy `drop_replica` deals micro-batches that "
                               "are alike, and pipeline %d has lengths of its own; `lost_batch: "
                               "lose` is expected.", i);
    return deals ? luo_policy_check_zero(now, err) : LUO_OK;
}

static luo_status check(const luo_snapshot *now, luo_err *err)
{
    return check_for(now, now->spec->deals_batch, err);
}

luo_status luo_offers_drop_replica(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                                   luo_offers *out, luo_err *err)
{
    const luo_plan *plan;
    bool *alive;
    int32_t n;
    if (check_for(now, true, NULL) != LUO_OK) return LUO_OK;
    LUO_TRY(find_alive(arena, now, slow_too, &alive, &n, err));
    if (n == 0 || n == now->base->npipelines) return LUO_OK;
    LUO_TRY(without(arena, now->base, alive, n, true, &plan, err));
    luo_offers_add(out, "drop_replica", plan, 0);
    return LUO_OK;
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    const luo_plan *base = now->base;
    bool *alive;
    int32_t n;
    *out = (luo_decision){.action = LUO_SWITCH, .plan = base, .old_s = -1, .new_s = -1};
    LUO_TRY(find_alive(arena, now, true, &alive, &n, err));
    if (n == 0) {
        luo_decision_stay(now, "no replica has all its devices", out);
        return LUO_OK;
    }
    if (n < base->npipelines)
        LUO_TRY(without(arena, base, alive, n, now->spec->deals_batch, &out->plan, err));
    if (luo_plan_hash(out->plan) == luo_plan_hash(now->plan)) {
        luo_decision_stay(
            now, now->trigger & LUO_TRIGGER_FAIL ? "" : "the replicas stay as they are", out);
        return LUO_OK;
    }
    const int32_t each = pipelines_of_a_replica(base);
    snprintf(out->why, sizeof out->why, "%d of %d replicas%s", n / each, base->npipelines / each,
             n == base->npipelines      ? ""
             : now->spec->deals_batch ? "; the batch of the others is dealt to them"
                                        : "; the batch of the others is lost");
    return LUO_OK;
}

const luo_policy luo_policy_drop_replica = {.name = "drop_replica", .plans = true,
                                            .decide = decide, .check = check,
                                            .keys = "restart_s lost_batch"};
