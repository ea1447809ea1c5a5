/* Adaptive pipelining (Malleus, amendment 7; ReCycle: Gandhi et al., SOSP 2024, arXiv 2405.14009):
 * when a device fails, the micro-batches of its stage run on the devices of the same stage in other
 * pipelines, inside their bubbles. No parameters move, nothing restarts: what it costs is to find
 * out, the communicators that are not there yet, and the interrupted step. A device that comes back
 * is taken in again by a copy from a peer. Choices of ours where the page is silent:
 * - of a tensor-parallel group of which one device fails, all leave the stage;
 * - slow devices stay; devices announced to leave count as gone;
 * - state that has no copy (ZeRO-1 cuts it over pipelines) comes from the checkpoint, at the cost
 *   of a restart;
 * - when a stage has no devices left in any pipeline, the run waits;
 * - steps follow each other: no stage begins the next one before the norm of all gradients is
 *   known, which ReCycle's staggered optimizer goes past (core/graph/joint.h). */
#include <math.h>
#include <stdio.h>

#include "core/plan/reroute.h"
#include "core/run/offers.h"

static luo_status find_usable(luo_arena *arena, const luo_picture *now, bool **usable, luo_err *err)
{
    const int32_t n = now->scenario->cluster->ndevices;
    *usable = LUO_NEW_N(arena, bool, n);
    if (!*usable) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) (*usable)[d] = !isinf(now->rate[d]) && !now->leaving[d];
    return LUO_OK;
}

static int32_t count_lost(const luo_plan *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            n += p->pipelines[i].stages[s].nreroute > 0;
    return n;
}

static luo_status check(const luo_picture *now, luo_err *err)
{
    const char *why = luo_plan_not_reroutable(now->base);
    if (why)
        return luo_err_set(err, LUO_EINPUT, "policy `reroute` can not take a base plan with %s; "
                           "schedule 1f1b or zb_h1 and zero 0 or 1 without such are expected.",
                           why);
    if (now->base->npipelines < 2)
        return luo_err_set(err, LUO_EINPUT, "policy `reroute` goes on with the other pipelines, "
                           "and the base plan has one; several are expected.");
    return LUO_OK;
}

luo_status luo_reroute_offers(luo_arena *arena, const luo_picture *now, luo_offers *out,
                              luo_err *err)
{
    const luo_plan *p;
    bool *usable;
    luo_err why = {0};
    if (check(now, NULL) != LUO_OK || luo_plan_is_rerouted(now->base)) return LUO_OK;
    LUO_TRY(find_usable(arena, now, &usable, err));
    const luo_status st = luo_plan_reroute(arena, now->base, usable, &p, &why);
    if (st == LUO_EINFEASIBLE) return LUO_OK;
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    luo_offers_add(out, "reroute", p, 0);
    return LUO_OK;
}

static luo_status decide(luo_arena *arena, const luo_picture *now, luo_decision *out, luo_err *err)
{
    bool *usable;
    luo_err why = {0};
    *out = (luo_decision){.verb = LUO_SWITCH, .old_s = -1, .new_s = -1};
    LUO_TRY(find_usable(arena, now, &usable, err));
    const luo_status st = luo_plan_reroute(arena, now->base, usable, &out->plan, &why);
    if (st == LUO_EINFEASIBLE) {
        luo_decide_to_stay(now, why.text, out);
        return LUO_OK;
    }
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    if (luo_plan_hash(out->plan) == luo_plan_hash(now->plan)) {
        luo_decide_to_stay(now, now->news & LUO_NEWS_FAIL ? "" : "the stages stay as they are",
                           out);
        return LUO_OK;
    }
    const int32_t lost = count_lost(out->plan);
    if (lost)
        snprintf(out->why, sizeof out->why, "micro-batches of %d lost stage%s run on peers", lost,
                 lost > 1 ? "s" : "");
    else
        snprintf(out->why, sizeof out->why, "all stages have their devices again");
    return LUO_OK;
}

const luo_policy luo_policy_reroute = {.name = "reroute", .plans = true, .decide = decide,
                                       .check = check, .keys = "restart_s"};
