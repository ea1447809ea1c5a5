#include "core/run/policy/offers.h"

#include <math.h>
#include <string.h>

#include "core/run/policy/groups.h"
#include "core/run/policy/judge.h"

void luo_offers_add(luo_offers *offers, const char *from, const luo_plan *plan, double objective_s)
{
    const uint64_t hash = luo_plan_hash(plan);
    for (int32_t i = 0; i < offers->n; i++)
        if (luo_plan_hash(offers->at[i].plan) == hash) return;
    if (offers->n < LUO_OFFERS)
        offers->at[offers->n++] = (luo_offer){from, plan, objective_s, -1, 0};
}

/* A policy without a plan for the snapshot offers none. */
static luo_status unless_infeasible(luo_status st, const luo_err *why, luo_err *err)
{
    if (st == LUO_OK || st == LUO_EINFEASIBLE || st == LUO_EINPUT) return LUO_OK;
    return luo_err_set(err, st, "%s", why->text);
}

/* ---- order ---- */

static double rank_of(const luo_offer *offer)
{
    return offer->step_s >= 0 ? offer->step_s + offer->risk_s : (double)INFINITY;
}

static double objective_of(const luo_offer *offer)
{
    return offer->objective_s + offer->risk_s;
}

/* Stable. */
static void sort_offers(luo_offers *offers, double (*key)(const luo_offer *))
{
    for (int32_t i = 1; i < offers->n; i++) {
        const luo_offer offer = offers->at[i];
        int32_t place = i;
        for (; place > 0 && key(&offers->at[place - 1]) > key(&offer); place--)
            offers->at[place] = offers->at[place - 1];
        offers->at[place] = offer;
    }
}

/* ---- the planner's own ---- */

enum { OWN = 3, OWN_OTHER = 1, OF_EACH = 4 }; /* the best by the objective of four times as many */

static bool is_large(const luo_malleus_job *job)
{
    return job->cluster->ndevices > LUO_JUDGE_DEVICES;
}

static luo_status find_objective(luo_arena *arena, const luo_snapshot *now,
                                 const luo_malleus_job *job, luo_offer *offer, luo_err *err)
{
    luo_step_cost step;
    if (!luo_plan_step_knows(offer->plan)) {
        LUO_TRY(luo_malleus_event_s(arena, job, offer->plan, &offer->objective_s, err));
    } else {
        LUO_TRY(luo_malleus_step(arena, job, offer->plan, &step, err));
        offer->objective_s = step.step;
    }
    offer->risk_s = luo_snapshot_risk_s(now, offer->plan, offer->objective_s);
    return LUO_OK;
}

static luo_status own_offers(luo_arena *arena, const luo_snapshot *now, const luo_malleus_job *job,
                             int32_t pipelines, int32_t most, luo_offers *out, luo_err *err)
{
    luo_malleus_job malleus_job = *job;
    luo_malleus_answer answer;
    luo_offers own = {0};
    luo_err why = {0};
    malleus_job.pipelines = pipelines;
    malleus_job.quick = most < OWN; /* another number of pipelines than the base plan's */
    malleus_job.offers = is_large(job) ? most : OF_EACH * most;
    const luo_status st = luo_plan_malleus(arena, &malleus_job, &answer, &why);
    if (st != LUO_OK) return unless_infeasible(st, &why, err);
    for (int32_t i = 0; i < answer.noffers; i++)
        luo_offers_add(&own, "malleus", answer.offer[i], 0);
    for (int32_t i = 0; i < own.n; i++) LUO_TRY(find_objective(arena, now, job, &own.at[i], err));
    sort_offers(&own, objective_of);
    for (int32_t i = 0; i < own.n && i < most; i++)
        luo_offers_add(out, "malleus", own.at[i].plan, own.at[i].objective_s);
    return LUO_OK;
}

/* Most numbers of pipelines that are searched; of large clusters, where a search takes long, and of
 * those of more than MANY_DEVICES. */
enum { COUNTS = 8, FEW_COUNTS = 4, LEAST_COUNTS = 3, MANY_DEVICES = 2048 };

typedef struct counts { /* numbers of pipelines that were searched */
    int32_t at[COUNTS], n;
} counts;

static bool is_new(counts *c, int32_t most, int32_t pipelines)
{
    if (pipelines < 1) return false;
    for (int32_t i = 0; i < c->n; i++)
        if (c->at[i] == pipelines) return false;
    if (c->n >= most) return false;
    c->at[c->n++] = pipelines;
    return true;
}

/* One fewer and one more, then as the best of the others have. */
static luo_status other_counts(luo_arena *arena, const luo_snapshot *now,
                               const luo_malleus_job *job, luo_offers *out, luo_err *err)
{
    const int32_t dp = job->base->npipelines, n = out->n;
    const int32_t most = job->cluster->ndevices > MANY_DEVICES ? LEAST_COUNTS
                         : is_large(job)                       ? FEW_COUNTS
                                                               : COUNTS;
    counts tried = {{dp}, 1};
    int32_t ask[COUNTS], nask = 0;
    sort_offers(out, objective_of);
    for (int32_t more = -1; more <= 1; more += 2)
        if (is_new(&tried, most, dp + more)) ask[nask++] = dp + more;
    for (int32_t i = 0; i < n; i++)
        if (is_new(&tried, most, out->at[i].plan->npipelines))
            ask[nask++] = out->at[i].plan->npipelines;
    for (int32_t i = 0; i < nask; i++)
        LUO_TRY(own_offers(arena, now, job, ask[i], OWN_OTHER, out, err));
    for (int32_t i = n; i < out->n; i++) LUO_TRY(find_objective(arena, now, job, &out->at[i], err));
    return LUO_OK;
}

luo_status luo_offers_all(luo_arena *arena, const luo_snapshot *now, const luo_malleus_job *job,
                          luo_offers *out, luo_err *err)
{
    const bool uneven = luo_policy_check_zero(now, NULL) == LUO_OK; /* pipelines may be */
    const bool templates = luo_policy_oobleck.check(now, NULL) == LUO_OK;
    luo_err why = {0};
    *out = (luo_offers){0};
    LUO_TRY(own_offers(arena, now, job, job->base->npipelines, OWN, out, err));
    for (int slow_too = 0; slow_too < 2; slow_too++) {
        luo_err a = {0}, b = {0};
        LUO_TRY(unless_infeasible(luo_offers_restart(arena, now, slow_too, out, &a), &a, err));
        if (!templates || (slow_too && is_large(job)))
            continue; /* a template for every window of nodes */
        LUO_TRY(unless_infeasible(luo_offers_oobleck(arena, now, slow_too, out, &b), &b, err));
    }
    LUO_TRY(unless_infeasible(luo_offers_uniform(arena, now, out, &why), &why, err));
    if (uneven) LUO_TRY(luo_offers_rebalance(arena, now, out, err));
    LUO_TRY(luo_offers_spares(arena, now, out, err));
    for (int slow_too = 0; slow_too < 2; slow_too++)
        LUO_TRY(luo_offers_drop_replica(arena, now, slow_too, out, err));
    LUO_TRY(luo_offers_reroute(arena, now, out, err));
    luo_offers_add(out, "base", now->base, 0);
    luo_offers_add(out, "running", now->plan, 0);
    for (int32_t i = 0; i < out->n; i++) LUO_TRY(find_objective(arena, now, job, &out->at[i], err));
    return other_counts(arena, now, job, out, err);
}

/* ---- by simulation ---- */

/* The objective may be so much above the simulated step; 1.063 was the most of the plans of
 * tests/diff/diff_offers.c, which holds it to this. */
static const double HOPE = 1.08;

luo_status luo_offers_judge(luo_offers *offers, const luo_snapshot *now, luo_err *err)
{
    luo_err why = {0};
    double best = INFINITY, second = INFINITY; /* the runner-up is told, too */
    sort_offers(offers, objective_of);
    if (!now->step_s && offers->n > 0) return LUO_OK;
    for (int32_t i = 0; i < offers->n; i++) {
        luo_offer *offer = &offers->at[i];
        if (offer->step_s >= 0 || (second < INFINITY && objective_of(offer) > HOPE * best))
            continue;
        if (now->closed_form) {
            offer->step_s = offer->objective_s;
            continue;
        }
        const luo_status st = now->step_s(now->run, offer->plan, &offer->step_s, &why);
        if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
        second = fmin(second, fmax(best, rank_of(offer)));
        best = fmin(best, rank_of(offer));
    }
    sort_offers(offers, rank_of);
    if (offers->n > 0 && isfinite(rank_of(&offers->at[0]))) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE, "no plan can run on the devices that are left%s%s",
                       why.text[0] ? "; " : ".", why.text);
}

/* ---- with slow nodes or without ---- */

static bool is_slow(const luo_snapshot *now, int32_t d)
{
    return !isinf(now->rate[d]) && now->rate[d] >= now->spec->threshold_slowdown;
}

/* Are all devices of the running plan there, and as fast as they should be? */
static bool is_well(const luo_snapshot *now)
{
    const luo_plan *plan = now->plan;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++)
                if (is_slow(now, plan->pipelines[i].stages[s].dev[k])) return false;
    return luo_snapshot_whole(now) && !luo_snapshot_leaves(now);
}

static bool is_any_slow(const luo_snapshot *now)
{
    for (int32_t d = 0; d < now->scenario->cluster->ndevices; d++)
        if (is_slow(now, d)) return true;
    return false;
}

/* A plan that was made before, where its devices are there and stay. */
static luo_status offer_made(luo_arena *arena, const luo_snapshot *now, const char *from,
                             const luo_plan *plan, luo_offers *out, luo_err *err)
{
    luo_snapshot then = *now;
    double event_s;
    then.plan = plan;
    if (!luo_snapshot_whole(&then) || luo_snapshot_leaves(&then)) return LUO_OK;
    LUO_TRY(luo_groups_event(arena, &then, &event_s, err));
    luo_offers_add(out, from, plan, event_s);
    return LUO_OK;
}

/* Adds what the policy (`own`) would take: plans without slow nodes, then plans with them. Where
 * nothing is simulated, offers are ranked by a closed form of computation that leaves out what
 * communication costs. Then no plan of its own stands beside the plan of the scenario while all
 * devices of that are well, and plans with slow nodes are added only if there are none without. */
static luo_status offer_own(luo_arena *arena, const luo_snapshot *now, luo_offers_own own,
                            luo_offers *out, luo_err *err)
{
    const bool simulated = now->step_s && !now->closed_form;
    const int32_t made = out->n;
    luo_snapshot then = *now;
    luo_err why = {0};
    then.plan = now->base;
    if (!simulated && is_well(&then)) return LUO_OK;
    LUO_TRY(unless_infeasible(own(arena, now, false, out, &why), &why, err));
    if (is_any_slow(now) && (simulated || out->n == made))
        LUO_TRY(unless_infeasible(own(arena, now, true, out, &why), &why, err));
    if (out->n == 0) return luo_err_set(err, LUO_EINFEASIBLE, "%s", why.text);
    return LUO_OK;
}

luo_status luo_offers_best(luo_arena *arena, const luo_snapshot *now, luo_offers_own own,
                           luo_offers *out, luo_err *err)
{
    *out = (luo_offers){0};
    LUO_TRY(offer_made(arena, now, "base", now->base, out, err));
    LUO_TRY(offer_made(arena, now, "running", now->plan, out, err));
    LUO_TRY(offer_own(arena, now, own, out, err));
    for (int32_t i = 0; i < out->n && now->closed_form; i++)
        LUO_TRY(now->step_s(now->run, out->at[i].plan, &out->at[i].objective_s, err));
    return luo_offers_judge(out, now, err);
}
