/* The reference line that policies are seen against (docs/policies.md, `oracle`).
 * At each time it runs at the speed of the better of
 * - the fastest plan that any policy of this build finds for the devices as they are, whichever
 *   plan of a policy of the scenario it begins with, by simulated step (offers.h; up to
 *   LUO_JUDGE_DEVICES devices, or with `rank: simulated`), and
 * - the fastest plan on healthy devices, at the share of its work per time that the devices there
 *   are now can do.
 * Slowdowns are known the moment they begin; nothing is lost, moved, planned or saved. It is no
 * run: no device could do what it says, so real backends refuse it.
 *
 * Work per time of a device is 1 / (b * slowdown), b from the time of a layer on its type; devices
 * that cannot be used do none, devices outside the base plan do theirs. */
#include <math.h>
#include <string.h>

#include "core/cost/step/layer.h"
#include "core/run/policy/offers.h"
#include "core/run/events/reach.h"
#include "core/run/run.h"

/* Seconds of a layer on one healthy device of each kind. */
static luo_status layer_seconds(const luo_run *run, double *per_kind, luo_err *err)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    const luo_plan *plan = luo_run_plan(&run->plans)->plan;
    const luo_cost_ctx ctx = {
        .cluster = cluster, .stack = &run->job.scenario->stack, .dtype = plan->dtype};
    const luo_context none = {.c = 1, .inner = 1};
    luo_layer_shape shape = luo_layer_of(run->job.scenario->model, 1, luo_run_tokens(run, plan), 1,
                                         none, false);
    shape.layer = run->job.scenario->model->layers - 1;
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        luo_layer_cost cost;
        const int32_t k = cluster->devices[d].kind;
        if (per_kind[k] > 0) continue;
        LUO_TRY(luo_cost_layer(&ctx, &shape, &d, LUO_RECOMPUTE_NONE, &cost, err));
        per_kind[k] = cost.forward + cost.backward;
    }
    return LUO_OK;
}

luo_status luo_run_oracle_init(luo_run *run, luo_err *err)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    const luo_used_plan *used = luo_run_plan(&run->plans);
    if (!run->job.policy->bound) return LUO_OK;
    if (run->job.real)
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` is a bound and not a run, which backend "
                           "`%s` cannot make; leave it out, or simulate it.",
                           run->job.spec->name, run->backend.table->name);
    run->decision.bound.work = LUO_NEW_N(run->arena, double, cluster->ndevices);
    double *per_kind = LUO_NEW_N(run->scratch, double, cluster->nkinds);
    if (!run->decision.bound.work || !per_kind) return luo_err_nomem(err);
    LUO_TRY(luo_world_new(run->arena, cluster, &run->decision.bound.healthy, err));
    LUO_TRY(layer_seconds(run, per_kind, err));
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        run->decision.bound.work[d] = 1 / per_kind[cluster->devices[d].kind];
        run->decision.bound.healthy->slowdown[d] = 1;
        run->decision.bound.healthy->up[d] = true;
    }
    for (int32_t i = 0; i < used->ndev; i++)
        run->decision.bound.base += run->decision.bound.work[used->dev[i]];
    luo_arena_reset(run->scratch, 0);
    return LUO_OK;
}

/* ---- what policies begin with ---- */

static const luo_plan *given_plan(const luo_scenario *sc, const luo_policy_spec *spec)
{
    return spec->plan ? spec->plan : spec->planner ? NULL : sc->plan;
}

static const char *planner_of(const luo_scenario *sc, const luo_policy_spec *spec)
{
    const char *planner = spec->planner ? spec->planner : sc->planner;
    return planner ? planner : "uniform";
}

/* Does the other begin as this run does? `auto` makes plans that a policy can work on. */
static bool begins_alike(const luo_run_job *job, const luo_policy *policy,
                         const luo_policy_spec *other)
{
    const luo_scenario *sc = job->scenario;
    const luo_plan *given = given_plan(sc, other);
    const bool any = strcmp(planner_of(sc, other), "auto") != 0 || !policy->check;
    if (given != given_plan(sc, job->spec) || other->optimizer_step != job->spec->optimizer_step)
        return false;
    return given || (strcmp(planner_of(sc, other), planner_of(sc, job->spec)) == 0 &&
                     any && other->judged == job->spec->judged);
}

static luo_status add_start(luo_run *run, const luo_plan *plan, luo_err *err)
{
    const double own = (double)luo_plan_sequences(luo_run_plan(&run->plans)->plan) *
                       (double)luo_run_tokens(run, luo_run_plan(&run->plans)->plan);
    const double other = (double)luo_plan_sequences(plan) * (double)luo_run_tokens(run, plan);
    luo_bound_start *start = &run->decision.bound.start[run->decision.bound.nstarts];
    for (int32_t i = 0; i < run->decision.bound.nstarts; i++)
        if (luo_plan_hash(run->decision.bound.start[i].plan) == luo_plan_hash(plan)) return LUO_OK;
    *start = (luo_bound_start){.plan = plan, .share = own / other};
    run->decision.bound.nstarts++;
    if (!luo_run_judges(run)) return LUO_OK;
    return luo_offers_start(run->arena, run->job.scenario, plan, &start->from, err);
}

/* A policy that cannot begin says so itself. */
static luo_status list_starts(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    run->decision.bound.start = LUO_NEW_N(run->arena, luo_bound_start, sc->npolicies + 1);
    if (!run->decision.bound.start) return luo_err_nomem(err);
    LUO_TRY(add_start(run, luo_run_plan(&run->plans)->plan, err));
    for (int32_t i = 0; i < sc->npolicies; i++) {
        const luo_policy *policy = luo_policy_find(sc->policies[i].name);
        const luo_plan *plan = NULL;
        luo_err why = {0};
        if (!policy || policy->bound || policy->lengths ||
            begins_alike(&run->job, policy, &sc->policies[i]))
            continue;
        const luo_status st = luo_run_first_of(run->arena, &run->job, i, &plan, &why);
        if (st == LUO_ENOMEM || st == LUO_ECANCELED) return luo_err_set(err, st, "%s", why.text);
        if (st == LUO_OK) LUO_TRY(add_start(run, plan, err));
    }
    return LUO_OK;
}

/* Of what the devices of the base plan do when all are well. */
static double work_per_time(const luo_run *run)
{
    const luo_world *world = luo_events_world(run->clock.events);
    double sum = 0;
    for (int32_t d = 0; d < world->ndevices; d++)
        if (run->health.usable[d]) sum += run->decision.bound.work[d] / world->slowdown[d];
    return sum / run->decision.bound.base;
}

/* ---- the fastest plan ---- */

/* Of what policies would take that begin with start[k]. */
static luo_status find_from(luo_run *run, int32_t k, const bool *usable, const bool *nobody,
                            luo_offer *best, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    const luo_bound_start *start = &run->decision.bound.start[k];
    luo_offers offers;
    double *rate = LUO_NEW_N(run->scratch, double, n);
    if (!rate) return luo_err_nomem(err);
    memcpy(rate, run->health.rate, (size_t)n * sizeof *rate);
    luo_snapshot now = luo_run_snapshot(run, 0); /* puts what a detector believes into run->rate */
    memcpy(run->health.rate, rate, (size_t)n * sizeof *rate);
    now.leaving = nobody;
    now.candidate = usable;
    now.predicted_s = NULL;
    now.failure_s = 0; /* a step is what counts */
    now.base = now.plan = start->plan;
    now.sequence_tokens = luo_run_tokens(run, start->plan);
    now.micro_batches = 0;
    for (int32_t i = 0; i < start->plan->npipelines; i++)
        now.micro_batches += start->plan->pipelines[i].micro_batches;
    if (run->decision.bound.best && k == run->decision.bound.best_start)
        now.plan = run->decision.bound.best;
    luo_malleus_job job = luo_offers_job(&now, start->from);
    job.candidate = usable;
    job.search_healthy = true;
    LUO_TRY(luo_offers_all(run->scratch, &now, &job, &offers, err));
    LUO_TRY(luo_offers_judge(&offers, &now, err));
    *best = offers.at[0];
    best->step_s *= start->share;
    return LUO_OK;
}

/* *from: whose policies have found it. */
static luo_status find_fastest(luo_run *run, luo_offer *best, int32_t *from, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    bool *nobody = LUO_NEW_N(run->scratch, bool, n), *usable = LUO_NEW_N(run->scratch, bool, n);
    if (!nobody || !usable) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) usable[d] = !isinf(run->health.rate[d]);
    for (int32_t k = 0; k < run->decision.bound.nstarts; k++) {
        luo_offer offer = {.step_s = INFINITY};
        luo_err why = {0};
        const luo_status st = find_from(run, k, usable, nobody, &offer, &why);
        if (st != LUO_OK && st != LUO_EINFEASIBLE) return luo_err_set(err, st, "%s", why.text);
        if (offer.step_s >= best->step_s) continue;
        *best = offer;
        *from = k;
    }
    return LUO_OK;
}

/* Of run->rate. INFINITY: no plan is found, or plans are not simulated in this run. */
static luo_status fastest_s(luo_run *run, double *out, bool keep, luo_err *err)
{
    const size_t mark = luo_arena_mark(run->scratch);
    const uint64_t key =
        luo_hash_bytes(LUO_HASH_EMPTY, run->health.rate,
                       (size_t)run->job.scenario->cluster->ndevices * sizeof *run->health.rate);
    luo_offer best = {.step_s = INFINITY};
    luo_plan *copy = NULL;
    int32_t from = 0;
    int64_t *known = luo_map_at(&run->decision.bound.fastest, key ? key : 1, luo_judge_bits(-1));
    if (!known) return luo_err_nomem(err);
    *out = luo_judge_number(*known);
    if (*out >= 0) return LUO_OK;
    if (luo_run_judges(run)) LUO_TRY(find_fastest(run, &best, &from, err));
    if (keep && best.plan) LUO_TRY(luo_plan_copy(run->arena, best.plan, &copy, err));
    if (keep) run->decision.bound.best = copy;
    if (keep) run->decision.bound.best_start = from;
    *out = best.step_s;
    *known = luo_judge_bits(*out);
    luo_arena_reset(run->scratch, mark);
    return LUO_OK;
}

static luo_status fastest_now(luo_run *run, double *out, luo_err *err)
{
    const luo_world *world = luo_events_world(run->clock.events);
    for (int32_t d = 0; d < world->ndevices; d++)
        run->health.rate[d] =
            run->health.usable[d] ? fmax(1, world->slowdown[d]) : (double)INFINITY;
    return fastest_s(run, out, false, err);
}

/* Where plans are not simulated, those that policies begin with are all the same. */
static luo_status fastest_start(luo_run *run, double *out, luo_err *err)
{
    for (int32_t k = 1; k < run->decision.bound.nstarts && run->decision.judge.simulator; k++) {
        const luo_bound_start *start = &run->decision.bound.start[k];
        double s;
        LUO_TRY(luo_judge_step(&run->decision.judge, start->plan, luo_run_tokens(run, start->plan),
                               run->health.rate, &s, err));
        *out = fmin(*out, s * start->share);
    }
    return LUO_OK;
}

static luo_status fastest_healthy(luo_run *run, double base_s, luo_err *err)
{
    double s;
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) run->health.rate[d] = 1;
    LUO_TRY(fastest_s(run, &s, true, err));
    if (s >= base_s) run->decision.bound.best = NULL;
    run->decision.bound.best_s = fmin(base_s, s);
    if (!luo_run_judges(run)) return fastest_start(run, &run->decision.bound.best_s, err);
    return LUO_OK;
}

/* Nobody works: can anybody come back? */
static luo_status is_hope(luo_run *run, bool *hope, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    const size_t mark = luo_arena_mark(run->scratch);
    luo_event_returns back;
    bool *usable = LUO_NEW_N(run->scratch, bool, n);
    if (!usable) return luo_err_nomem(err);
    LUO_TRY(luo_events_returns(run->scratch, run->clock.events, &back, err));
    luo_reach(run->job.scenario->cluster, back.world, usable);
    *hope = false;
    for (int32_t d = 0; d < n; d++) *hope |= usable[d];
    luo_arena_reset(run->scratch, mark);
    return LUO_OK;
}

/* The work of one step done, through all changes that fall into it. */
static luo_status pass(luo_run *run, luo_err *err)
{
    double left = run->decision.bound.best_s;
    while (left > 0) {
        double step_s;
        LUO_TRY(fastest_now(run, &step_s, err));
        const double rate = fmax(work_per_time(run), run->decision.bound.best_s / step_s);
        const double next = luo_events_next(run->clock.events);
        const double end_s = rate > 0 ? run->clock.t_s + left / rate : INFINITY;
        bool hope = rate > 0;
        if (!hope) LUO_TRY(is_hope(run, &hope, err));
        if (!hope) {
            run->clock.state = LUO_LOST;
            return luo_run_event(run, LUO_EVENT_PHASE_LOST, run->decision.cause,
                                 run->job.policy->name, "", false, 0,
                                 "no device is left, and nothing comes back", err);
        }
        left = end_s <= next ? 0 : left - (next - run->clock.t_s) * rate;
        run->clock.t_s = fmin(end_s, next);
        LUO_TRY(luo_run_advance(run, run->clock.t_s, err));
    }
    return LUO_OK;
}

static luo_status stretch(luo_run *run, luo_step_result *result, double factor, luo_err *err)
{
    luo_parts *parts = LUO_NEW_N(run->scratch, luo_parts, result->n);
    if (!parts) return luo_err_nomem(err);
    for (int32_t i = 0; i < result->n; i++) {
        const luo_parts *p = &result->parts[i];
        parts[i] = (luo_parts){
            factor * p->compute_s, factor * p->recompute_s, factor * p->tp_s, factor * p->ep_s,
            factor * p->cp_s,      factor * p->pp_s,        factor * p->dp_s, factor * p->move_s,
            factor * p->io_s,      factor * p->bubble_s};
    }
    result->parts = parts;
    return LUO_OK;
}

luo_status luo_run_oracle_step(luo_run *run, luo_step_result *result, luo_err *err)
{
    const luo_recipe recipe = luo_run_recipe(luo_run_plan(&run->plans));
    const luo_step_request request = {.programs = luo_run_plan(&run->plans)->set,
                                      .recipe = &recipe,
                                      .world = run->decision.bound.healthy,
                                      .step = run->clock.step};
    const double start_s = run->clock.t_s;
    LUO_TRY(run->backend.table->run_ranks(run->backend.state, &request, result, err));
    if (result->status != LUO_OK) return luo_err_set(err, result->status, "%s", result->text);
    const double healthy_s = result->end_s - result->start_s;
    if (run->decision.bound.best_s == 0) {
        LUO_TRY(list_starts(run, err));
        LUO_TRY(fastest_healthy(run, healthy_s, err));
    }
    LUO_TRY(pass(run, err));
    if (run->backend.table->now)
        run->clock.t0 = run->backend.table->now(run->backend.state) - run->clock.t_s;
    return stretch(run, result, healthy_s > 0 ? (run->clock.t_s - start_s) / healthy_s : 1, err);
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    (void)arena;
    (void)now;
    (void)err;
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1};
    return LUO_OK;
}

const luo_policy luo_policy_oracle = {.name = "oracle", .keys = "rank", .bound = true,
                                      .decide = decide};
