/* Adaptive pipelining (ReCycle: Gandhi et al., SOSP 2024, arXiv 2405.14009):
 * when a device fails, the micro-batches of its stage run on the devices of the same stage in other
 * pipelines, inside their bubbles. No parameters move, nothing restarts: what it costs is to find
 * out, the communicators that are not there yet, and the interrupted step. A device that comes back
 * is taken in again by a copy from a peer. Choices of ours where docs/policies.md is silent:
 * - as in ReCycle backward parts are split while micro-batches are rerouted, so that weight
 *   gradients fill bubbles: a base plan with schedule 1f1b goes on with zb_h1, where that fits into
 *   memory and its simulated step is shorter, or where there is no simulator; with a staggered
 *   optimizer zb_h2 is asked as well, which takes more memory and has less to wait for;
 * - of a tensor-parallel group of which one device fails, all leave the stage;
 * - slow devices stay; devices announced to leave count as gone;
 * - state that has no copy (ZeRO-1 cuts it over pipelines) comes from the checkpoint, at the cost
 *   of a restart;
 * - when a stage has no devices left in any pipeline, the run waits;
 * - the optimizer is staggered, as in ReCycle, where the scenario or the plan says so. */
#include <math.h>
#include <stdio.h>

#include "core/plan/replan/reroute.h"
#include "core/run/policy/offers.h"

static luo_status find_usable(luo_arena *arena, const luo_snapshot *now, bool **usable,
                              luo_err *err)
{
    const int32_t n = now->scenario->cluster->ndevices;
    *usable = LUO_NEW_N(arena, bool, n);
    if (!*usable) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) (*usable)[d] = !isinf(now->rate[d]) && !now->leaving[d];
    return LUO_OK;
}

static luo_status check(const luo_snapshot *now, luo_err *err)
{
    const char *why = luo_plan_not_reroutable(now->base);
    if (why)
        return luo_err_set(err, LUO_EINPUT, "policy `reroute` cannot take a base plan with %s; "
                           "schedule 1f1b or zb_h1 and zero 0 or 1 without such are expected.",
                           why);
    if (now->base->npipelines < 2)
        return luo_err_set(err, LUO_EINPUT, "policy `reroute` goes on with the other pipelines, "
                           "and the base plan has one; several are expected.");
    return LUO_OK;
}

/* The same with split backward parts, where it has others; nothing where that did not fit. */
static luo_status offer_split(luo_arena *arena, const luo_snapshot *now, const luo_plan *plan,
                              luo_offers *out, luo_err *err)
{
    static const luo_sched_kind kinds[] = {LUO_SCHED_ZB_H1, LUO_SCHED_ZB_H2};
    const int n = plan->staggered && !now->issue_order ? 2 : 1; /* zb_h2 is made for it */
    if (now->memory_factor < 0.95 || (n == 1 && luo_sched_splits(plan->schedule))) return LUO_OK;
    for (int i = 0; i < n; i++) {
        luo_plan *to = kinds[i] == plan->schedule ? NULL : LUO_NEW(arena, luo_plan);
        if (kinds[i] == plan->schedule) continue;
        if (!to) return luo_err_nomem(err);
        *to = *plan;
        to->schedule = kinds[i];
        luo_offers_add(out, "reroute", to, 0);
    }
    return LUO_OK;
}

/* *lost: stages of the base plan without devices; 0: it is whole, and the offer. */
static luo_status offer(luo_arena *arena, const luo_snapshot *now, luo_offers *out, int32_t *lost,
                        luo_err *err)
{
    const luo_plan *plan;
    bool *usable;
    LUO_TRY(find_usable(arena, now, &usable, err));
    LUO_TRY(luo_plan_reroute(arena, now->base, usable, &plan, err));
    *lost = luo_plan_lost_stages(plan);
    if (*lost) LUO_TRY(offer_split(arena, now, plan, out, err));
    luo_offers_add(out, "reroute", plan, 0);
    return LUO_OK;
}

luo_status luo_offers_reroute(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                              luo_err *err)
{
    luo_err why = {0};
    int32_t lost;
    if (check(now, NULL) != LUO_OK || luo_plan_is_rerouted(now->base)) return LUO_OK;
    const luo_status st = offer(arena, now, out, &lost, &why);
    return st == LUO_OK || st == LUO_EINFEASIBLE ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}

static void say(luo_decision *out, int32_t lost)
{
    const luo_plan *plan = out->plan;
    if (lost)
        snprintf(out->why, sizeof out->why, "micro-batches of %d lost stage%s run on peers, %s",
                 lost, lost > 1 ? "s" : "", luo_sched_name(plan->schedule));
    else
        snprintf(out->why, sizeof out->why, "all stages have their devices again");
    if (out->new_s > 0)
        snprintf(out->figures, sizeof out->figures, "%.6g s a step", out->new_s);
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    luo_err why = {0};
    luo_offers offers = {0};
    int32_t lost = 0;
    *out = (luo_decision){.action = LUO_SWITCH, .old_s = -1, .new_s = -1};
    luo_status st = offer(arena, now, &offers, &lost, &why);
    if (st == LUO_OK && offers.n > 1) st = luo_offers_judge(&offers, now, &why);
    if (st == LUO_EINFEASIBLE) {
        luo_decision_stay(now, why.text, out);
        return LUO_OK;
    }
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    out->plan = offers.at[0].plan;
    out->new_s = offers.at[0].step_s;
    if (luo_plan_hash(out->plan) == luo_plan_hash(now->plan)) {
        luo_decision_stay(now, now->trigger & LUO_TRIGGER_FAIL ? "" : "the stages stay as they are",
                          out);
        return LUO_OK;
    }
    say(out, lost);
    return LUO_OK;
}

const luo_policy luo_policy_reroute = {.name = "reroute", .plans = true, .decide = decide,
                                       .check = check, .keys = "restart_s"};
