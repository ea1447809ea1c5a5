#include "core/run/policy/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/plan/malleus/malleus_job.h"
#include "core/plan/replan/reroute.h"
#include "core/run/driver.h"
#include "core/run/policy/groups.h"

#define ROW(name) &luo_policy_##name,
#define NAME(name) #name,
#define LUO_LENGTH_POLICY(policy, word, keys) &luo_policy_of_lengths[LUO_LENGTH_POLICY_##policy],
static const luo_policy *const table[] = {LUO_POLICIES(ROW)
#include "core/plan/length_policies/length_policies.inc"
};
#undef LUO_LENGTH_POLICY
#define LUO_LENGTH_POLICY(policy, word, keys) word,
static const char *const names[] = {LUO_POLICIES(NAME)
#include "core/plan/length_policies/length_policies.inc"
};
#undef LUO_LENGTH_POLICY
enum { NPOLICIES = sizeof table / sizeof *table };

const luo_policy *luo_policy_find(const char *name)
{
    for (int32_t i = 0; i < NPOLICIES; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

luo_status luo_policy_accepts(const luo_scenario *sc, const luo_policy_spec *spec,
                              const luo_plan *base, luo_err *err)
{
    const luo_policy *policy = luo_policy_find(spec->name);
    const luo_snapshot now = {.scenario = sc, .spec = spec, .base = base, .plan = base};
    if (!policy) return LUO_OK; /* told by whoever starts the run */
    if (policy->plans && luo_plan_is_rerouted(base))
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` starts from a plan of which every stage "
                           "has devices, and the base plan has a stage without; give it some.",
                           policy->name);
    return policy->check ? policy->check(&now, err) : LUO_OK;
}

static bool is_word_of(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return true;
    return false;
}

bool luo_policy_has_key(const luo_policy *policy, const char *key)
{
    return is_word_of(policy->keys, key) ||
           (!policy->lengths && is_word_of(LUO_POLICY_KEYS_ALL, key)) ||
           (policy->plans && is_word_of("planner_time planner_s", key)) ||
           (!policy->bound && is_word_of("threshold_slowdown replan_gap window_steps", key));
}

luo_status luo_policy_check_zero(const luo_snapshot *now, luo_err *err)
{
    if (now->base->zero < 2) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "the base plan has zero %d, which needs pipelines of equal "
                       "borders and micro-batches; zero 0 or 1 is expected.", (int)now->base->zero);
}

double luo_snapshot_payback(const luo_snapshot *now, double step_s)
{
    const double least = now->spec->payback_steps;
    if (now->spec->payback_given || !(step_s > 0)) return least;
    return fmax(least, now->expected_s / step_s);
}

/* ---- without a node ---- */

static bool is_on_node(const luo_stage *stage, const luo_cluster *cluster, int32_t node)
{
    for (int32_t k = 0; k < stage->ndev; k++)
        if (cluster->devices[stage->dev[k]].node == node) return true;
    return false;
}

static bool holds_layer(const luo_stage *stage, int32_t layer)
{
    for (int32_t k = 0; k < stage->nlayers; k++)
        if (layer >= stage->layers[k].lo && layer < stage->layers[k].hi) return true;
    return false;
}

static bool has_copy_elsewhere(const luo_plan *plan, const luo_cluster *cluster, int32_t layer,
                               int32_t node)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const luo_stage *stage = &plan->pipelines[i].stages[s];
            if (holds_layer(stage, layer) && !is_on_node(stage, cluster, node)) return true;
        }
    return false;
}

bool luo_policy_plan_survives_node(const luo_plan *plan, const luo_cluster *cluster)
{
    if (plan->zero > 0) return false;
    for (int32_t node = 0; node < cluster->nnodes; node++)
        for (int32_t layer = 0; layer < plan->layers; layer++)
            if (!has_copy_elsewhere(plan, cluster, layer, node)) return false;
    return true;
}

double luo_snapshot_risk_s(const luo_snapshot *now, const luo_plan *plan, double step_s)
{
    const luo_policy_spec *spec = now->spec;
    if (!(now->failure_s > 0) || !now->setback_s || spec->always_switch || !isfinite(step_s) ||
        luo_policy_plan_survives_node(plan, now->scenario->cluster))
        return 0;
    const double until_s = fmax(now->failure_s, spec->payback_steps * step_s);
    return now->setback_s(now->run, step_s, until_s) * step_s / until_s;
}

luo_status luo_snapshot_step_s(luo_arena *scratch, const luo_snapshot *now, const luo_plan *plan,
                               double *seconds, luo_err *err)
{
    luo_snapshot then = *now;
    if (now->step_s) return now->step_s(now->run, plan, seconds, err);
    then.plan = plan;
    return luo_groups_event(scratch, &then, seconds, err);
}

luo_status luo_snapshot_switch_s(luo_arena *scratch, const luo_snapshot *now, const luo_plan *to,
                                 double *seconds, luo_err *err)
{
    const luo_cluster *cluster = now->scenario->cluster;
    int32_t *dead = LUO_NEW_N(scratch, int32_t, cluster->ndevices), ndead = 0;
    luo_transition transition = {0};
    luo_err why = {0};
    double specialize = 0;
    if (!dead) return luo_err_nomem(err);
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (isinf(now->rate[d])) dead[ndead++] = d;
    const luo_status st = luo_transition_cost(scratch, now->plan, to, now->scenario->model, cluster,
                                              ndead, dead, &transition, &why);
    if (st == LUO_ELOST) return now->restart_s(now->run, to, seconds, err);
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    LUO_TRY(now->specialize_s(now->run, to, &specialize, err));
    *seconds = transition.seconds + specialize;
    return LUO_OK;
}

luo_status luo_decision_weigh(luo_arena *scratch, const luo_snapshot *now, double way_s,
                              luo_decision *out, bool *pays, luo_err *err)
{
    LUO_TRY(luo_snapshot_step_s(scratch, now, now->plan, &out->old_s, err));
    const double steps = luo_snapshot_payback(now, out->new_s);
    const double gain = (out->old_s - out->new_s) * steps;
    *pays = gain > way_s;
    snprintf(out->figures, sizeof out->figures, "%.6g s saved in %.0f steps for %.6g s", gain,
             steps, way_s);
    return LUO_OK;
}

bool luo_snapshot_whole(const luo_snapshot *now)
{
    const luo_plan *plan = now->plan;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++)
                if (isinf(now->rate[plan->pipelines[i].stages[s].dev[k]])) return false;
    for (int32_t k = 0; k < plan->state_layout.ndev; k++)
        if (isinf(now->rate[plan->state_layout.dev[k]])) return false;
    return true;
}

bool luo_snapshot_leaves(const luo_snapshot *now)
{
    const luo_plan *plan = now->plan;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++)
                if (now->leaving[plan->pipelines[i].stages[s].dev[k]]) return true;
    return false;
}

void luo_decision_stay(const luo_snapshot *now, const char *why, luo_decision *out)
{
    const bool failed = now->trigger & LUO_TRIGGER_FAIL;
    if (!failed || !luo_snapshot_whole(now)) {
        out->action = failed ? LUO_WAIT : LUO_KEEP;
        snprintf(out->why, sizeof out->why, "%.150s", why);
        return;
    }
    out->action = LUO_RESTART;
    out->plan = now->plan;
    snprintf(out->why, sizeof out->why, "%.120s%srestart on the same devices", why,
             *why ? "; " : "");
}

const char *const *luo_policy_names(int32_t *n)
{
    *n = NPOLICIES;
    return names;
}

bool luo_policy_is_upper_bound(const char *name)
{
    const luo_policy *policy = luo_policy_find(name);
    return policy && policy->bound;
}
