/* The reference line that policies are seen against (docs/policies.md, `oracle`).
 * At each time it runs at the speed of the better of
 * - the fastest plan that any policy of this build finds for the devices as they are, by simulated
 *   step (offers.h; up to LUO_JUDGE_DEVICES devices, or with `rank: simulated`), and
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

/* Seconds of a layer on one healthy device of each node group. */
static luo_status layer_seconds(const luo_run *r, double *per_group, luo_err *err)
{
    const luo_cluster *c = r->job.scenario->cluster;
    const luo_plan *p = luo_run_plan(&r->plans)->plan;
    const luo_cost_ctx ctx = {.cluster = c, .stack = &r->job.scenario->stack, .dtype = p->dtype};
    const luo_layer_shape s = {.model = r->job.scenario->model,
                               .layer = r->job.scenario->model->layers - 1,
                               .tokens = luo_run_tokens(r, p),
                               .tp = 1,
                               .sequence_tokens = luo_run_tokens(r, p)};
    for (int32_t d = 0; d < c->ndevices; d++) {
        luo_layer_cost cost;
        const int32_t g = c->devices[d].group;
        if (per_group[g] > 0) continue;
        LUO_TRY(luo_cost_layer(&ctx, &s, &d, LUO_RECOMPUTE_NONE, &cost, err));
        per_group[g] = cost.forward + cost.backward;
    }
    return LUO_OK;
}

luo_status luo_oracle_init(luo_run *r, luo_err *err)
{
    const luo_cluster *c = r->job.scenario->cluster;
    const luo_used_plan *u = luo_run_plan(&r->plans);
    if (!r->job.policy->bound) return LUO_OK;
    if (r->job.real)
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` is a bound and not a run, which backend "
                           "`%s` cannot make; leave it out, or simulate it.",
                           r->job.spec->name, r->backend.table->name);
    r->decision.bound.work = LUO_NEW_N(r->arena, double, c->ndevices);
    double *per_group = LUO_NEW_N(r->scratch, double, c->ngroups);
    if (!r->decision.bound.work || !per_group) return luo_err_nomem(err);
    LUO_TRY(luo_world_new(r->arena, c, &r->decision.bound.healthy, err));
    LUO_TRY(layer_seconds(r, per_group, err));
    for (int32_t d = 0; d < c->ndevices; d++) {
        r->decision.bound.work[d] = 1 / per_group[c->devices[d].group];
        r->decision.bound.healthy->slowdown[d] = 1;
        r->decision.bound.healthy->up[d] = true;
    }
    for (int32_t i = 0; i < u->ndev; i++)
        r->decision.bound.base += r->decision.bound.work[u->dev[i]];
    luo_arena_reset(r->scratch, 0);
    return LUO_OK;
}

/* Of what the devices of the base plan do when all are well. */
static double work_per_time(const luo_run *r)
{
    const luo_world *w = luo_events_world(r->clock.events);
    double sum = 0;
    for (int32_t d = 0; d < w->ndevices; d++)
        if (r->health.usable[d]) sum += r->decision.bound.work[d] / w->slowdown[d];
    return sum / r->decision.bound.base;
}

/* ---- the fastest plan ---- */

static luo_status find_fastest(luo_run *r, luo_offer *best, luo_err *err)
{
    const int32_t n = r->job.scenario->cluster->ndevices;
    bool *leaving = LUO_NEW_N(r->scratch, bool, n), *usable = LUO_NEW_N(r->scratch, bool, n);
    double *rate = LUO_NEW_N(r->scratch, double, n);
    luo_offers o;
    if (!leaving || !usable || !rate) return luo_err_nomem(err);
    memcpy(rate, r->health.rate, (size_t)n * sizeof *rate);
    luo_snapshot now = luo_run_snapshot(r, 0); /* puts what a detector believes into r->rate */
    memcpy(r->health.rate, rate, (size_t)n * sizeof *rate);
    for (int32_t d = 0; d < n; d++) usable[d] = !isinf(r->health.rate[d]);
    now.leaving = leaving;
    now.candidate = usable;
    now.predicted_s = NULL;
    if (r->decision.bound.best) now.plan = r->decision.bound.best;
    luo_malleus_job job = luo_snapshot_job(&now);
    job.candidate = usable;
    job.search_healthy = true;
    LUO_TRY(luo_offers_all(r->scratch, &now, &job, &o, err));
    LUO_TRY(luo_offers_judge(&o, &now, err));
    *best = o.at[0];
    return LUO_OK;
}

/* Of r->rate. INFINITY: no plan is found, or plans are not simulated in this run. */
static luo_status fastest_s(luo_run *r, double *out, const luo_plan **plan, luo_err *err)
{
    const size_t mark = luo_arena_mark(r->scratch);
    const luo_malleus_job job = {.base = r->plans.list[0]->plan};
    const uint64_t key =
        luo_hash_bytes(LUO_HASH_EMPTY, r->health.rate,
                       (size_t)r->job.scenario->cluster->ndevices * sizeof *r->health.rate);
    luo_offer best = {.step_s = INFINITY};
    luo_plan *copy = NULL;
    luo_err why = {0};
    int64_t *known = luo_map_at(&r->decision.bound.fastest, key ? key : 1, luo_judge_bits(-1));
    if (!known) return luo_err_nomem(err);
    *out = luo_judge_number(*known);
    if (*out >= 0) return LUO_OK;
    luo_status st = LUO_OK;
    if (luo_run_judges(r) && luo_malleus_check(&job, &why) == LUO_OK)
        st = find_fastest(r, &best, &why);
    if (st == LUO_EINFEASIBLE) st = LUO_OK;
    if (st == LUO_OK && best.plan && plan) st = luo_plan_copy(r->arena, best.plan, &copy, &why);
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    if (plan) *plan = copy;
    *out = best.step_s;
    *known = luo_judge_bits(*out);
    luo_arena_reset(r->scratch, mark);
    return LUO_OK;
}

static luo_status fastest_now(luo_run *r, double *out, luo_err *err)
{
    const luo_world *w = luo_events_world(r->clock.events);
    for (int32_t d = 0; d < w->ndevices; d++)
        r->health.rate[d] = r->health.usable[d] ? fmax(1, w->slowdown[d]) : (double)INFINITY;
    return fastest_s(r, out, NULL, err);
}

static luo_status fastest_healthy(luo_run *r, double base_s, luo_err *err)
{
    double s;
    const luo_plan *plan = NULL;
    for (int32_t d = 0; d < r->job.scenario->cluster->ndevices; d++) r->health.rate[d] = 1;
    LUO_TRY(fastest_s(r, &s, &plan, err));
    r->decision.bound.best_s = fmin(base_s, s);
    if (s < base_s) r->decision.bound.best = plan;
    return LUO_OK;
}

/* Nobody works: can anybody come back? */
static luo_status is_hope(luo_run *r, bool *hope, luo_err *err)
{
    const int32_t n = r->job.scenario->cluster->ndevices;
    const size_t mark = luo_arena_mark(r->scratch);
    luo_event_returns back;
    bool *usable = LUO_NEW_N(r->scratch, bool, n);
    if (!usable) return luo_err_nomem(err);
    LUO_TRY(luo_events_returns(r->scratch, r->clock.events, &back, err));
    luo_reach(r->job.scenario->cluster, back.world, usable);
    *hope = false;
    for (int32_t d = 0; d < n; d++) *hope |= usable[d];
    luo_arena_reset(r->scratch, mark);
    return LUO_OK;
}

/* The work of one step done, through all changes that fall into it. */
static luo_status pass(luo_run *r, luo_err *err)
{
    double left = r->decision.bound.best_s;
    while (left > 0) {
        double step_s;
        LUO_TRY(fastest_now(r, &step_s, err));
        const double rate = fmax(work_per_time(r), r->decision.bound.best_s / step_s);
        const double next = luo_events_next(r->clock.events);
        const double end_s = rate > 0 ? r->clock.t_s + left / rate : INFINITY;
        bool hope = rate > 0;
        if (!hope) LUO_TRY(is_hope(r, &hope, err));
        if (!hope) {
            r->clock.state = LUO_LOST;
            return luo_run_event(r, "lost", r->decision.cause, r->job.policy->name, "", false, 0,
                                 "no device is left, and nothing comes back", err);
        }
        left = end_s <= next ? 0 : left - (next - r->clock.t_s) * rate;
        r->clock.t_s = fmin(end_s, next);
        LUO_TRY(luo_run_advance(r, r->clock.t_s, err));
    }
    return LUO_OK;
}

static luo_status stretch(luo_run *r, luo_step_result *s, double factor, luo_err *err)
{
    luo_parts *parts = LUO_NEW_N(r->scratch, luo_parts, s->n);
    if (!parts) return luo_err_nomem(err);
    for (int32_t i = 0; i < s->n; i++) {
        const luo_parts *p = &s->parts[i];
        parts[i] = (luo_parts){
            factor * p->compute_s, factor * p->recompute_s, factor * p->tp_s, factor * p->ep_s,
            factor * p->cp_s,      factor * p->pp_s,        factor * p->dp_s, factor * p->move_s,
            factor * p->io_s,      factor * p->bubble_s};
    }
    s->parts = parts;
    return LUO_OK;
}

luo_status luo_oracle_step(luo_run *r, luo_step_result *s, luo_err *err)
{
    const luo_recipe recipe = luo_run_recipe(luo_run_plan(&r->plans));
    const luo_step_request q = {.programs = luo_run_plan(&r->plans)->set,
                                .recipe = &recipe,
                                .world = r->decision.bound.healthy,
                                .step = r->clock.step};
    const double start_s = r->clock.t_s;
    LUO_TRY(r->backend.table->run_ranks(r->backend.state, &q, s, err));
    if (s->status != LUO_OK) return luo_err_set(err, s->status, "%s", s->text);
    const double healthy_s = s->end_s - s->start_s;
    if (r->decision.bound.best_s == 0) LUO_TRY(fastest_healthy(r, healthy_s, err));
    LUO_TRY(pass(r, err));
    if (r->backend.table->now) r->clock.t0 = r->backend.table->now(r->backend.state) - r->clock.t_s;
    return stretch(r, s, healthy_s > 0 ? (r->clock.t_s - start_s) / healthy_s : 1, err);
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
