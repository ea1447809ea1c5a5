/* Failures, decisions and how they are carried out (ARCHITECTURE.md;
 * docs/planners.md#who-waits-for-the-planner).
 *
 * A failure is known detect_fail_s after the attempt that it broke; then the policy is asked while
 * all devices wait. Anything else (a new rate, a device that came back, an announcement) is
 * planned as `plan_mode` says: beside the training, and the answer is carried out at the first
 * boundary after planner_s, or while all wait, and at once. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/events/reach.h"
#include "core/run/run.h"

/* ---- what is new ---- */

static void look_at_devices(luo_run *r)
{
    const bool *member = luo_run_plan(&r->plans)->member;
    for (int32_t d = 0; d < r->job.scenario->cluster->ndevices; d++) {
        if (r->health.usable[d] == r->health.was_usable[d]) continue;
        if (!r->health.usable[d] && member[d]) r->decision.trigger |= LUO_TRIGGER_FAIL;
        if (r->health.usable[d]) luo_detect_accept(&r->health.detect, d, 1);
        luo_reentry_change(r, d);
    }
}

void luo_run_trigger(luo_run *r)
{
    int32_t n;
    const luo_change *changes = luo_events_changes(r->clock.events, &n);
    for (int32_t i = 0; i < n; i++)
        if (changes[i].kind == LUO_CHANGE_DOWN) r->health.emptied[changes[i].target] = true;
    luo_account_changes(r);
    luo_ckpt_changes(r);
    luo_score_new(r);
    const bool *leaving = luo_events_leaving(r->clock.events);
    for (int32_t d = 0; d < r->job.scenario->cluster->ndevices; d++) {
        if (leaving[d] && !r->health.was_leaving[d] && luo_run_plan(&r->plans)->member[d])
            r->decision.trigger |= LUO_TRIGGER_NOTICE;
        r->health.was_leaving[d] = leaving[d];
    }
    if (n == 0) return;
    memcpy(r->health.was_usable, r->health.usable,
           (size_t)r->job.scenario->cluster->ndevices * sizeof *r->health.usable);
    luo_reach(r->job.scenario->cluster, luo_events_world(r->clock.events), r->health.usable);
    look_at_devices(r);
}

/* ---- carrying it out ---- */

static luo_status switched_row(luo_run *r, int32_t from, const char *source,
                               const luo_row_switch *times, luo_err *err)
{
    if (!r->job.sink->switched) return LUO_OK;
    luo_row_switch row = *times;
    row.t_s = r->clock.t_s;
    row.from_plan = from;
    row.to_plan = r->plans.running;
    row.event = r->decision.cause;
    row.source = source;
    row.total_s = row.detect_s + row.plan_s + row.specialize_s + row.move_s;
    return r->job.sink->switched(r->job.sink->ctx, &row, err);
}

/* Who leaves the plan is probed from now on, and a probe shows a slowdown as it is: what was
 * measured of a known one gives way to it, since the difference is no trigger. */
static void expect_probes(luo_run *r, const luo_used_plan *was, const luo_used_plan *now)
{
    const luo_world *w = luo_events_world(r->clock.events);
    for (int32_t i = 0; r->job.real && i < was->ndev; i++) {
        const int32_t d = was->dev[i];
        if (!now->member[d] && w->slowdown[d] > 1 && r->health.detect.accepted[d] > 1)
            luo_detect_accept(&r->health.detect, d, w->slowdown[d]);
    }
}

static luo_status start_plan(luo_run *r, int32_t plan, luo_err *err)
{
    const luo_used_plan *was = luo_run_plan(&r->plans), *now = r->plans.list[plan];
    bool fresh = false;
    for (int32_t i = 0; i < now->ndev; i++) fresh |= !was->member[now->dev[i]];
    r->plans.running = plan;
    memset(r->health.emptied, 0,
           (size_t)r->job.scenario->cluster->ndevices * sizeof *r->health.emptied);
    r->health.has_predicted = false;
    r->health.discard = true;
    luo_detect_forget(&r->health.detect);
    r->health.drift = (luo_drift){0};
    luo_pace_forget(&r->health);
    expect_probes(r, was, now);
    luo_reentry_plan(r, was, now);
    luo_events_set_job(r->clock.events, now->dev, now->ndev);
    return fresh ? luo_run_span(r, LUO_SPAN_WAIT, r->job.cost.replacement_s, 0, err) : LUO_OK;
}

/* Nobody's state moves: the same devices hold the same layers, only micro-batches differ. */
static bool same_places(const luo_plan *a, const luo_plan *b)
{
    if (a->npipelines != b->npipelines || a->zero != b->zero) return false;
    for (int32_t i = 0; i < a->npipelines; i++) {
        const luo_pipeline *x = &a->pipelines[i], *y = &b->pipelines[i];
        if (x->nstages != y->nstages) return false;
        for (int32_t s = 0; s < x->nstages; s++) {
            const luo_stage *p = &x->stages[s], *q = &y->stages[s];
            if (p->nlayers != q->nlayers || p->ndev != q->ndev) return false;
            if (memcmp(p->layers, q->layers, (size_t)p->nlayers * sizeof *p->layers) ||
                memcmp(p->dev, q->dev, (size_t)p->ndev * sizeof *p->dev))
                return false;
        }
    }
    return true;
}

/* Communicators first, then the moves (docs/annotations.md#a-whole-switch). A device that fails
 * during the moves undoes them: sources are freed only after all is received. */
static luo_status switch_to(luo_run *r, int32_t plan, double detected_s, double planned_s,
                            luo_err *err)
{
    const int32_t from = r->plans.running;
    double making;
    bool broken = false;
    luo_row_switch row = {.detect_s = detected_s, .plan_s = planned_s, .max_sender = -1};
    LUO_TRY(luo_run_making(r, r->plans.list[plan]->set, true, &making, err));
    const double began = r->clock.t_s;
    if (r->job.real) LUO_TRY(luo_real_bind(r, plan, err));
    LUO_TRY(luo_run_span(r, LUO_SPAN_SPECIALIZE, making, 0, err));
    row.specialize_s = r->clock.t_s - began;
    if (r->job.real || !same_places(luo_run_plan(&r->plans)->plan, r->plans.list[plan]->plan))
        LUO_TRY(luo_run_move(r, from, plan, &row, &broken, err));
    if (broken) {
        r->decision.trigger |= LUO_TRIGGER_FAIL;
        r->decision.failed_since_s = r->clock.t_s;
        return LUO_OK;
    }
    LUO_TRY(start_plan(r, plan, err));
    r->decision.switches++;
    LUO_TRY(luo_run_event(r, "switched", r->decision.cause, r->decision.acting->name, "", false, 0,
                          "state from devices", err));
    return switched_row(r, from, "devices", &row, err);
}

/* All processes start again: communicators anew, state read, steps since the checkpoint redone. */
static luo_status restart_with(luo_run *r, int32_t plan, double detected_s, double planned_s,
                               luo_err *err)
{
    const int32_t from = r->plans.running;
    double making;
    luo_row_switch row = {.detect_s = detected_s, .plan_s = planned_s, .max_sender = -1};
    LUO_TRY(start_plan(r, plan, err));
    luo_map_clear(&r->plans.communicators);
    LUO_TRY(luo_run_making(r, r->plans.list[plan]->set, true, &making, err));
    int64_t step = luo_ckpt_restore(r, &row.move_s);
    const bool saved = r->ledger.ckpt.valid_plan >= 0 || r->clock.first_step > 0;
    const double began = r->clock.t_s;
    double seconds = r->job.spec->restart_s;
    if (seconds >= 0) {
        row.move_s = seconds;
    } else {
        row.specialize_s = r->job.cost.process_start_s + making;
        seconds = row.specialize_s + row.move_s;
    }
    if (r->job.real) LUO_TRY(luo_real_load(r, &step, err));
    LUO_TRY(luo_run_span_until(r, LUO_SPAN_RESTART, began + seconds,
                               luo_run_plan(&r->plans)->state_bytes, err));
    if (r->job.real) row.move_s = r->clock.t_s - began - row.specialize_s;
    luo_account_rollback(r, step);
    r->decision.restarts++;
    LUO_TRY(luo_run_event(r, "restarted", r->decision.cause, r->decision.acting->name, "", false, 0,
                          saved ? "state from checkpoint" : "state from the beginning", err));
    return switched_row(r, from, "checkpoint", &row, err);
}

/* Time that going back to the last checkpoint would waste. */
static double open_seconds(const luo_run_ledger *ledger)
{
    return ledger->account.open.seconds + ledger->account.fresh.seconds;
}

static luo_status carry_out(luo_run *r, const luo_decision *d, bool failed, double detected_s,
                            double planned_s, luo_err *err)
{
    int32_t plan;
    LUO_TRY(luo_run_use_plan(r, d->plan, luo_run_tokens(r, d->plan), &plan, err));
    const bool restart = r->backend.died || !luo_real_has_processes(r, d->plan);
    if (d->action == LUO_SWITCH && !restart) {
        const luo_status st = switch_to(r, plan, detected_s, planned_s, err);
        if (st != LUO_ELOST) return st;
        LUO_TRY(luo_run_warn(r, err,
                             "state was lost with its devices; policy `%s` went back to a "
                             "checkpoint",
                             r->decision.acting->name));
        failed = true;
    }
    /* nothing is lost yet: state is saved first when that is cheaper than redoing */
    if (!failed && !r->backend.died && luo_run_plan(&r->plans)->write_s < open_seconds(&r->ledger))
        LUO_TRY(luo_ckpt_write(r, err));
    return restart_with(r, plan, detected_s, planned_s, err);
}

static luo_status give_up(luo_run *r, const char *why, luo_err *err)
{
    if (r->backend.unplanned) return luo_real_give_up(r, why, err);
    r->clock.state = LUO_LOST;
    return luo_run_event(r, "lost", r->decision.cause, r->decision.acting->name, "", false, 0, why,
                         err);
}

enum { SHRINKS = 4 };

/* Asks, and carries the answer out. A plan that the closed form of memory let through and that does
 * not fit is planned again with less memory. *planned_s < 0: all devices wait for the planner, and
 * are charged once; a device may fail meanwhile, then the policy is asked again. */
static luo_status decide_and_do(luo_run *r, int trigger, bool failed, double detected_s,
                                double *planned_s, luo_decision *d, luo_err *err)
{
    r->decision.memory_factor = 1;
    for (int i = 0; i <= SHRINKS;) {
        luo_err why = {0};
        double seconds;
        const double asked_s = r->clock.t_s;
        LUO_TRY(luo_run_ask(r, trigger, d, &seconds, err));
        if (*planned_s < 0) {
            LUO_TRY(luo_run_span(r, LUO_SPAN_PLAN, seconds, 0, err));
            *planned_s = r->clock.t_s - asked_s;
            if (d->plan && !luo_plan_within(d->plan, r->health.usable)) continue;
        }
        if (d->action != LUO_SWITCH && d->action != LUO_RESTART) return LUO_OK;
        const luo_status st = carry_out(r, d, failed, detected_s, *planned_s, &why);
        if (st == LUO_OK) return LUO_OK;
        if (st != LUO_EOOM) return luo_err_set(err, st, "%s", why.text);
        if (i++ == SHRINKS)
            LUO_TRY(luo_run_warn(r, err, "no plan of policy `%s` fits: %s",
                                 r->decision.acting->name, why.text));
        r->decision.memory_factor *= 0.9;
    }
    d->action = failed ? LUO_WAIT : LUO_KEEP;
    return LUO_OK;
}

static luo_status answer_failure(luo_run *r, luo_err *err)
{
    luo_decision d = {.action = LUO_WAIT};
    luo_refusals refusals = {0};
    const double since = r->decision.failed_since_s, asked = r->clock.t_s;
    double planned_s = -1;
    r->decision.pending.on = false;
    LUO_TRY(luo_run_span(r, LUO_SPAN_DETECT, r->job.cost.detect_fail_s, 0, err));
    LUO_TRY(luo_score_failure(r, since, err));
    const double detected_s = r->clock.t_s - asked;
    while (d.action == LUO_WAIT && !luo_run_is_over(r)) {
        bool hope;
        r->decision.trigger = 0;
        LUO_TRY(decide_and_do(r, LUO_TRIGGER_FAIL, true, detected_s, &planned_s, &d, err));
        if (d.action == LUO_LOSE) return give_up(r, d.why, err);
        if (d.action == LUO_KEEP)
            return luo_err_set(err, LUO_EBUG,
                               "policy `%s` keeps a plan that "
                               "has failed.",
                               r->decision.acting->name);
        if (d.action != LUO_WAIT) break;
        LUO_TRY(luo_run_wait(r, &refusals, &hope, err));
        if (!hope) return give_up(r, "no plan is possible, and not enough comes back", err);
    }
    return LUO_OK;
}

/* Nothing has failed: the devices wait for the planner or train on meanwhile. With real time they
 * have waited already, since the planner runs here at the boundary. */
static luo_status ask_in_peace(luo_run *r, luo_err *err)
{
    luo_decision d;
    double seconds;
    const int trigger = r->decision.trigger;
    r->decision.trigger = 0;
    r->decision.memory_factor = 1;
    const double asked_s = r->clock.t_s;
    LUO_TRY(luo_run_ask(r, trigger, &d, &seconds, err));
    const bool wait = luo_run_waits_for_planner(&r->job, &d, seconds);
    if (wait || r->job.real) LUO_TRY(luo_run_span(r, LUO_SPAN_PLAN, wait ? seconds : 0, 0, err));
    if (d.action != LUO_SWITCH && d.action != LUO_RESTART) return LUO_OK;
    luo_plan *copy;
    LUO_TRY(luo_plan_copy(r->arena, d.plan, &copy, err));
    d.plan = copy;
    r->decision.pending.on = true;
    r->decision.pending.d = d;
    r->decision.pending.trigger = trigger;
    r->decision.pending.planned_s = fmax(r->clock.t_s - asked_s, seconds);
    r->decision.pending.ready_s = asked_s + r->decision.pending.planned_s;
    if (r->decision.pending.ready_s <= r->clock.t_s) return LUO_OK;
    return luo_run_timeline(r, LUO_SPAN_PLAN, r->clock.t_s, r->decision.pending.ready_s, false,
                            false, 0, err);
}

/* The plan that is ready now; when the world has changed under it, the policy is asked again. */
static luo_status finish_pending(luo_run *r, luo_err *err)
{
    luo_err why = {0};
    r->decision.pending.on = false;
    if (!luo_plan_within(r->decision.pending.d.plan, r->health.usable)) {
        r->decision.trigger |= r->decision.pending.trigger;
        return LUO_OK;
    }
    double planned_s = r->decision.pending.planned_s;
    const luo_status st = carry_out(r, &r->decision.pending.d, false, 0, planned_s, &why);
    if (st != LUO_EOOM) return st == LUO_OK ? LUO_OK : luo_err_set(err, st, "%s", why.text);
    luo_decision d;
    return decide_and_do(r, r->decision.pending.trigger, false, 0, &planned_s, &d, err);
}

luo_status luo_run_apply(luo_run *r, luo_err *err)
{
    if (r->job.policy->bound) r->decision.trigger = 0;
    while (r->clock.state == LUO_RUNNING && !luo_run_is_over(r)) {
        if (!r->job.policy->bound &&
            !luo_plan_within(luo_run_plan(&r->plans)->plan, r->health.usable)) {
            if (!(r->decision.trigger & LUO_TRIGGER_FAIL))
                r->decision.failed_since_s = r->clock.t_s;
            r->decision.trigger |= LUO_TRIGGER_FAIL;
        }
        if (r->decision.trigger & LUO_TRIGGER_FAIL)
            LUO_TRY(answer_failure(r, err));
        else if (r->decision.pending.on && r->decision.pending.ready_s <= r->clock.t_s)
            LUO_TRY(finish_pending(r, err));
        else if (r->decision.trigger && !r->job.policy->plans)
            r->decision.trigger = 0;
        else if (r->decision.trigger && !r->decision.pending.on)
            LUO_TRY(ask_in_peace(r, err));
        else break;
        if (r->decision.pending.on && r->decision.pending.ready_s > r->clock.t_s &&
            !(r->decision.trigger & LUO_TRIGGER_FAIL))
            break;
    }
    luo_arena_reset(r->scratch, 0);
    return LUO_OK;
}
