/* Policies for uneven lengths (docs/policies.md#uneven-lengths): what a step does is decided batch
 * by batch in core/run/lengths; here is what a change of the devices does. Optimizer state is cut
 * over all devices without a copy, so a failure goes back to the checkpoint, with replicas for the
 * devices that are left. For devices that came all wait for the planner: the next step is planned
 * for them. */
#include <math.h>
#include <stdio.h>

#include "core/run/policy/policy.h"

static int32_t count_usable(const luo_snapshot *now)
{
    int32_t n = 0;
    for (int32_t d = 0; d < now->scenario->cluster->ndevices; d++) n += !isinf(now->rate[d]);
    return n;
}

static luo_status plan_anew(const luo_snapshot *now, luo_action action, luo_decision *out,
                            luo_err *err)
{
    const int32_t n = count_usable(now);
    luo_err why = {0};
    if (n == 0) {
        luo_decision_stay(now, "no device is usable", out);
        return LUO_OK;
    }
    out->action = action;
    out->plan = now->plan;
    snprintf(out->why, sizeof out->why, "replicas for %d devices", n);
    if (!now->plan_lengths) return LUO_OK;
    const luo_status st = now->plan_lengths(now->run, &out->plan, &why);
    if (st == LUO_ENOMEM || st == LUO_ECANCELED) return luo_err_set(err, st, "%s", why.text);
    if (st != LUO_OK) luo_decision_stay(now, why.text, out);
    if (st == LUO_OK && !out->plan) luo_decision_stay(now, "no device came or went", out);
    return LUO_OK;
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    (void)arena;
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1};
    if (now->trigger & LUO_TRIGGER_FAIL) return plan_anew(now, LUO_RESTART, out, err);
    if (now->trigger & LUO_TRIGGER_JOIN) return plan_anew(now, LUO_SWITCH, out, err);
    out->known = true; /* it takes time where it is planned: luo_run_lengths_boundary */
    snprintf(out->why, sizeof out->why, "the next batch is dealt by the speeds of now");
    return LUO_OK;
}

#define KEYS "context_parallel ahead workers "
const luo_policy luo_policy_of_lengths[LUO_LENGTH_POLICIES] = {
#define LUO_LENGTH_POLICY(policy, word, own)                                                       \
    [LUO_LENGTH_POLICY_##policy] = {.name = word,                                                  \
                                    .keys = KEYS own,                                              \
                                    .plans = true,                                                 \
                                    .lengths = true,                                               \
                                    .plan_mode = LUO_PLAN_SYNC,                                    \
                                    .rule = LUO_LENGTH_POLICY_##policy,                            \
                                    .decide = decide},
#include "core/plan/length_policies/length_policies.inc"
#undef LUO_LENGTH_POLICY
};
