/* The straggler planner as a policy (docs/planners.md#when-it-plans-again): a plan for today's
 * snapshot, from memory or planned anew, and whether to switch to it. When and how it is asked, and
 * back-off, is the driver's. Choices of ours where docs/policies.md is silent:
 * - with a simulator the plans of all policies are simulated (offers.h), and of the best few that
 *   one is taken with which the steps of luo_snapshot_payback and the way to it take least;
 * - where failures are expected, a plan of which a node holds the last copy of some state counts as
 *   slower, by its share of the way back to the checkpoint (luo_snapshot_risk_s);
 * - without, when the base plan is as fast as the one that was found, the cheaper of the two to
 *   switch to is taken: the communicators of the base plan exist;
 * - when no plan is possible after a failure, devices that were to stay outside are taken in;
 * - devices announced to leave count as gone, but can send their state. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/plan/malleus/malleus_job.h"
#include "core/run/policy/offers.h"
#include "core/run/policy/plan_cache.h"

static const double AS_FAST = 1e-9; /* relative: rounding */

typedef struct view { /* the snapshot as the planner sees it */
    const luo_snapshot *now;
    double *rate;    /* INFINITY: not for layers */
    bool *candidate;
    bool *stays; /* usable, and not announced to leave */
    luo_malleus_job job;
    int32_t n; /* plans for it, best first */
    const luo_plan *plan[LUO_PLAN_CACHE_PLANS];
    luo_offer best, next; /* of those simulated now; plan NULL: none was */
} view;

luo_malleus_job luo_offers_job(const luo_snapshot *now, const luo_plan *start)
{
    const luo_policy_spec *spec = now->spec;
    return (luo_malleus_job){.model = now->scenario->model,
                             .cluster = now->scenario->cluster,
                             .stack = &now->scenario->stack,
                             .base = start,
                             .prev = now->plan,
                             .sequence_tokens = now->sequence_tokens,
                             .micro_batches = now->micro_batches,
                             .rate = now->rate,
                             .memory_factor = now->memory_factor,
                             .threshold = spec->threshold_slowdown,
                             .rank = spec->rank,
                             .top_k = spec->top_k,
                             .split2 = spec->split2,
                             .dp_auto = spec->dp_auto,
                             .seed = now->scenario->seed};
}

static luo_status recall(const luo_snapshot *now, luo_plan_cache **out, luo_err *err)
{
    if (!*now->memory) *now->memory = LUO_NEW(now->keep, luo_plan_cache);
    *out = *now->memory;
    return *out ? LUO_OK : luo_err_nomem(err);
}

static luo_status look(luo_arena *arena, const luo_snapshot *now, view *v, luo_err *err)
{
    const int32_t n = now->scenario->cluster->ndevices;
    luo_plan_cache *known;
    LUO_TRY(recall(now, &known, err));
    if (!known->start)
        LUO_TRY(luo_offers_start(now->keep, now->scenario, now->base, &known->start, err));
    *v = (view){.now = now,
                .rate = LUO_NEW_N(arena, double, n),
                .candidate = LUO_NEW_N(arena, bool, n),
                .stays = LUO_NEW_N(arena, bool, n),
                .job = luo_offers_job(now, known->start)};
    if (!v->rate || !v->candidate || !v->stays) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) {
        v->rate[d] = now->leaving[d] ? INFINITY : now->rate[d];
        v->stays[d] = !isinf(v->rate[d]);
        v->candidate[d] = now->candidate[d] && v->stays[d];
    }
    v->job.rate = v->rate;
    v->job.candidate = v->candidate;
    return LUO_OK;
}

static void take_all(view *v)
{
    for (int32_t d = 0; d < v->now->scenario->cluster->ndevices; d++)
        v->candidate[d] = !isinf(v->rate[d]);
}

/* ---- the plan for a snapshot ---- */

/* Other policies would take devices that are to stay outside. */
static luo_status offers_of_all(luo_arena *arena, const view *v, luo_offers *offers, luo_err *err)
{
    luo_snapshot seen = *v->now;
    const int32_t n = seen.scenario->cluster->ndevices;
    double *rate = LUO_NEW_N(arena, double, n);
    if (!rate) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) rate[d] = v->candidate[d] ? v->rate[d] : (double)INFINITY;
    seen.rate = rate;
    LUO_TRY(luo_offers_all(arena, &seen, &v->job, offers, err));
    for (int32_t i = 0; i < offers->n; i++)
        if (!luo_plan_within(offers->at[i].plan, v->candidate)) offers->at[i].step_s = INFINITY;
    return luo_offers_judge(offers, v->now, err);
}

static luo_status best_plans(luo_arena *arena, view *v, luo_err *err)
{
    luo_malleus_answer answer;
    luo_offers offers;
    v->n = 0;
    if (!v->now->step_s) {
        const luo_status st = luo_plan_malleus(arena, &v->job, &answer, err);
        if (st == LUO_EINPUT && err) err->st = LUO_EINFEASIBLE; /* no plan that it starts from */
        if (st == LUO_OK) v->plan[v->n++] = answer.plan;
        return st == LUO_EINPUT ? LUO_EINFEASIBLE : st;
    }
    LUO_TRY(offers_of_all(arena, v, &offers, err));
    for (int32_t i = 0; i < offers.n && v->n < LUO_PLAN_CACHE_PLANS; i++)
        if (offers.at[i].step_s >= 0 && isfinite(offers.at[i].step_s))
            v->plan[v->n++] = offers.at[i].plan;
    v->best = offers.at[0];
    if (v->n > 1) v->next = offers.at[1];
    return LUO_OK;
}

static luo_status plan_anew(luo_arena *arena, view *v, luo_err *err)
{
    const bool failed = v->now->trigger & LUO_TRIGGER_FAIL;
    luo_err why = {0};
    luo_status st = best_plans(arena, v, &why);
    if (st == LUO_EINFEASIBLE && failed) {
        take_all(v);
        st = best_plans(arena, v, &why);
    }
    return st == LUO_OK ? st : luo_err_set(err, st, "%s", why.text);
}

/* Of a plan on today's devices: simulated, or event time. */
static luo_status step_of(luo_arena *arena, const view *v, const luo_plan *plan, double *seconds,
                          luo_err *err)
{
    if (!v->now->step_s) return luo_malleus_event_s(arena, &v->job, plan, seconds, err);
    *seconds = INFINITY;
    return luo_plan_within(plan, v->stays) ? v->now->step_s(v->now->run, plan, seconds, err)
                                           : LUO_OK;
}

/* Into v->plan, best first. *known: they were made before. */
static luo_status find_plans(luo_arena *arena, view *v, bool *known, luo_err *err)
{
    const luo_snapshot *now = v->now;
    const luo_snapshot_key key = {.n = now->scenario->cluster->ndevices,
                                  .rate = v->rate,
                                  .candidate = v->candidate,
                                  .memory_factor = now->memory_factor,
                                  .sequence_tokens = now->sequence_tokens,
                                  .micro_batches = now->micro_batches,
                                  .failures = now->failure_s > 0};
    luo_plan_cache *snapshots;
    LUO_TRY(recall(now, &snapshots, err));
    const luo_snapshot_known *was =
        luo_plan_cache_find(snapshots, &key, now->spec->replan_gap, now->spec->threshold_slowdown);
    *known = was != NULL;
    if (was) {
        v->n = was->n;
        memcpy(v->plan, was->plan, (size_t)was->n * sizeof *was->plan);
        return LUO_OK;
    }
    LUO_TRY(plan_anew(arena, v, err));
    return luo_plan_cache_add(snapshots, now->keep, &key, v->plan, v->n, err);
}

/* ---- what a switch costs and brings ---- */

static luo_status prefer_base(luo_arena *arena, const view *v, const luo_plan **plan,
                              double *event_s, luo_err *err)
{
    const luo_plan *base = v->now->base;
    double base_s, to_base, to_plan;
    if (!luo_plan_within(base, v->candidate) || luo_plan_hash(base) == luo_plan_hash(*plan))
        return LUO_OK;
    LUO_TRY(luo_malleus_event_s(arena, &v->job, base, &base_s, err));
    if (base_s > *event_s * (1 + AS_FAST)) return LUO_OK;
    LUO_TRY(luo_snapshot_switch_s(arena, v->now, base, &to_base, err));
    LUO_TRY(luo_snapshot_switch_s(arena, v->now, *plan, &to_plan, err));
    if (base_s >= *event_s * (1 - AS_FAST) && to_base > to_plan) return LUO_OK;
    *plan = base;
    *event_s = base_s;
    return LUO_OK;
}

/* What going over to a plan takes. */
static luo_status cost_of(luo_arena *arena, const view *v, const luo_plan *plan, double *out,
                          luo_err *err)
{
    *out = 0;
    if (luo_plan_hash(plan) == luo_plan_hash(v->now->plan)) return LUO_OK;
    return luo_snapshot_switch_s(arena, v->now, plan, out, err);
}

typedef struct choice {
    const luo_plan *plan;
    double step_s;
    double safe_s;    /* with its risk */
    double least_s;   /* with its share of the way there as well */
    double fastest_s; /* of all with their risk, whatever the way takes */
} choice;

static luo_status consider(luo_arena *arena, const view *v, const luo_plan *plan, choice *c,
                           luo_err *err)
{
    double step_s, cost = 0;
    LUO_TRY(step_of(arena, v, plan, &step_s, err));
    const double safe_s = step_s + luo_snapshot_risk_s(v->now, plan, step_s);
    c->fastest_s = fmin(c->fastest_s, safe_s);
    if (safe_s >= c->least_s) return LUO_OK;
    LUO_TRY(cost_of(arena, v, plan, &cost, err));
    if (v->now->spec->always_switch) cost = 0;
    const double all_s = safe_s + cost / fmax(1, luo_snapshot_payback(v->now, step_s));
    if (all_s < c->least_s * (1 - AS_FAST) || isinf(c->least_s))
        *c = (choice){plan, step_s, safe_s, all_s, c->fastest_s};
    return LUO_OK;
}

/* Of plans that are known to be good, that one with which the next steps, as many as a choice has
 * to pay in, and the way to it take least. Of equal ones the running plan, then the base plan. */
static luo_status choose(luo_arena *arena, view *v, choice *out, luo_err *err)
{
    *out = (choice){
        .step_s = INFINITY, .safe_s = INFINITY, .least_s = INFINITY, .fastest_s = INFINITY};
    if (v->now->step_s) {
        LUO_TRY(consider(arena, v, v->now->plan, out, err));
        LUO_TRY(consider(arena, v, v->now->base, out, err));
    }
    for (int32_t i = 0; i < v->n; i++) LUO_TRY(consider(arena, v, v->plan[i], out, err));
    if (out->plan) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE, "no plan is known that can run on these devices.");
}

/* ---- the decision ---- */

/* What the choice was made of. */
static void say_offers(const view *v, luo_decision *out)
{
    const size_t at = strlen(out->figures);
    if (!v->best.plan) return;
    snprintf(out->figures + at, sizeof out->figures - at, "; %s: of %s %.6g s (objective %.6g s)",
             v->now->closed_form ? "by closed form" : "simulated", v->best.from, v->best.step_s,
             v->best.objective_s);
    const size_t end = strlen(out->figures);
    if (v->next.plan)
        snprintf(out->figures + end, sizeof out->figures - end, ", next of %s %.6g s (%.6g s)",
                 v->next.from, v->next.step_s, v->next.objective_s);
}

static void say_switch(const view *v, luo_decision *out, double cost_s)
{
    int32_t n = 0;
    const luo_plan *plan = out->plan;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            n += plan->pipelines[i].stages[s].ndev;
    snprintf(out->why, sizeof out->why, "%d pipelines on %d devices%s", plan->npipelines, n,
             out->known ? ", known" : "");
    snprintf(out->figures, sizeof out->figures, "%.6g -> %.6g s a step, a switch of about %.6g s",
             out->old_s, out->new_s, cost_s);
    say_offers(v, out);
}

static luo_status adopt(luo_arena *arena, const view *v, luo_decision *out, luo_err *err)
{
    const luo_snapshot *now = v->now;
    double cost = 0;
    LUO_TRY(step_of(arena, v, now->plan, &out->old_s, err));
    if (!isinf(out->old_s)) LUO_TRY(luo_snapshot_switch_s(arena, now, out->plan, &cost, err));
    const double steps = luo_snapshot_payback(now, out->new_s);
    const double risk = luo_snapshot_risk_s(now, now->plan, out->old_s) -
                        luo_snapshot_risk_s(now, out->plan, out->new_s);
    const double gain = (out->old_s - out->new_s + risk) * steps;
    if (now->spec->always_switch || isinf(out->old_s) || gain > cost) {
        out->action = LUO_SWITCH;
        say_switch(v, out, cost);
        return LUO_OK;
    }
    luo_decision_stay(now, "a switch does not pay", out);
    snprintf(out->figures, sizeof out->figures, "%.6g s saved in %.0f steps for %.6g s", gain,
             steps, cost);
    say_offers(v, out);
    return LUO_OK;
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    view v;
    choice best;
    luo_err why = {0};
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1};
    LUO_TRY(look(arena, now, &v, err));
    luo_status st = find_plans(arena, &v, &out->known, &why);
    if (st == LUO_OK) st = choose(arena, &v, &best, &why);
    if (st == LUO_EINFEASIBLE) {
        luo_decision_stay(now, why.text, out);
        return LUO_OK;
    }
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    out->plan = best.plan;
    out->new_s = best.step_s;
    if (!now->step_s) LUO_TRY(prefer_base(arena, &v, &out->plan, &out->new_s, err));
    if (luo_plan_hash(out->plan) == luo_plan_hash(now->plan)) {
        const bool failed =
            now->trigger & LUO_TRIGGER_FAIL; /* and all are back: the processes died */
        const bool faster = best.fastest_s < best.safe_s * (1 - AS_FAST);
        luo_decision_stay(now,
                          failed   ? ""
                          : faster ? "a switch does not pay"
                                   : "the running plan is the best one",
                          out);
        return LUO_OK;
    }
    return adopt(arena, &v, out, err);
}

/* Any plan is kept while all is well; what the planner starts from is found when it must plan. Only
 * which sequences a micro-batch has cannot be told of another plan. */
static luo_status check(const luo_snapshot *now, luo_err *err)
{
    const luo_plan *plan = now->base;
    bool says = plan->nassignment > 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        says |= plan->pipelines[i].micro_batch_tokens != NULL;
    if (!says) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "policy `malleus` makes other plans for the same batch, and "
                       "the base plan says which sequences go where; one without `assignment` and "
                       "`micro_batch_tokens` is expected.");
}

const luo_policy luo_policy_malleus = {
    .name = "malleus", .plans = true, .decide = decide, .check = check,
    .objectives = true, .plan_mode = LUO_PLAN_AUTO, .reentry_probes = 5,
    .keys = "restart_s payback_steps payback rank always_switch top_k grouping plan_mode "
            "reentry_probes dp"};
