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

#include "core/base/hash.h"
#include "core/run/events/reach.h"
#include "core/run/health/pace.h"
#include "core/run/real.h"

/* ---- what is new ---- */

static void look_at_devices(luo_run *run)
{
    const bool *member = luo_run_plan(&run->plans)->member;
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) {
        if (run->health.usable[d] == run->health.was_usable[d]) continue;
        if (!run->health.usable[d] && member[d]) run->decision.trigger |= LUO_TRIGGER_FAIL;
        if (run->health.usable[d]) luo_detect_accept(&run->health.detect, d, 1);
        luo_reentry_change(run, d);
    }
}

void luo_run_trigger(luo_run *run)
{
    int32_t n;
    const luo_change *changes = luo_events_changes(run->clock.events, &n);
    for (int32_t i = 0; i < n; i++)
        if (changes[i].kind == LUO_CHANGE_DOWN) run->health.emptied[changes[i].target] = true;
    luo_account_changes(run);
    luo_ckpt_changes(run);
    luo_run_score_new(run);
    const bool *leaving = luo_events_leaving(run->clock.events);
    if (n == 0 && run->clock.seen == luo_events_happenings(run->clock.events)) return;
    run->clock.seen = luo_events_happenings(run->clock.events);
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) {
        if (leaving[d] && !run->health.was_leaving[d] && luo_run_plan(&run->plans)->member[d])
            run->decision.trigger |= LUO_TRIGGER_NOTICE;
        run->health.was_leaving[d] = leaving[d];
    }
    if (n == 0) return;
    memcpy(run->health.was_usable, run->health.usable,
           (size_t)run->job.scenario->cluster->ndevices * sizeof *run->health.usable);
    luo_reach(run->job.scenario->cluster, luo_events_world(run->clock.events), run->health.usable);
    look_at_devices(run);
}

/* ---- carrying it out ---- */

static luo_status switched_row(luo_run *run, int32_t from, const char *source,
                               const luo_row_switch *times, luo_err *err)
{
    if (!run->job.sink->switched) return LUO_OK;
    luo_row_switch row = *times;
    row.t_s = run->clock.t_s;
    row.from_plan = from;
    row.to_plan = run->plans.running;
    row.event = run->decision.cause;
    row.source = source;
    row.total_s = row.detect_s + row.plan_s + row.specialize_s + row.move_s;
    return run->job.sink->switched(run->job.sink->ctx, &row, err);
}

/* Who leaves the plan is probed from now on, and a probe shows a slowdown as it is: what was
 * measured of a known one gives way to it, since the difference is no trigger. */
static void expect_probes(luo_run *run, const luo_used_plan *was, const luo_used_plan *now)
{
    const luo_world *world = luo_events_world(run->clock.events);
    for (int32_t i = 0; run->job.real && i < was->ndev; i++) {
        const int32_t d = was->dev[i];
        if (!now->member[d] && world->slowdown[d] > 1 && run->health.detect.accepted[d] > 1)
            luo_detect_accept(&run->health.detect, d, world->slowdown[d]);
    }
}

static luo_status start_plan(luo_run *run, int32_t plan, luo_err *err)
{
    const luo_used_plan *was = luo_run_plan(&run->plans), *now = run->plans.list[plan];
    bool fresh = false;
    for (int32_t i = 0; i < now->ndev; i++) fresh |= !was->member[now->dev[i]];
    run->plans.running = plan;
    memset(run->health.emptied, 0,
           (size_t)run->job.scenario->cluster->ndevices * sizeof *run->health.emptied);
    run->health.has_predicted = false;
    run->health.discard = true;
    luo_detect_forget(&run->health.detect);
    run->health.drift = (luo_drift){0};
    luo_pace_forget(&run->health);
    expect_probes(run, was, now);
    luo_reentry_plan(run, was, now);
    luo_events_set_job(run->clock.events, now->dev, now->ndev);
    return fresh ? luo_run_span(run, LUO_SPAN_WAIT, run->job.cost.replacement_s, 0, err) : LUO_OK;
}

/* Nobody's state moves: the same devices hold the same layers, only micro-batches differ. */
static bool same_places(const luo_plan *a, const luo_plan *b)
{
    if (a->npipelines != b->npipelines || a->zero != b->zero) return false;
    for (int32_t i = 0; i < a->npipelines; i++) {
        const luo_pipeline *pipeline = &a->pipelines[i], *y = &b->pipelines[i];
        if (pipeline->nstages != y->nstages) return false;
        for (int32_t s = 0; s < pipeline->nstages; s++) {
            const luo_stage *stage = &pipeline->stages[s], *q = &y->stages[s];
            if (stage->nlayers != q->nlayers || stage->ndev != q->ndev) return false;
            if (memcmp(stage->layers, q->layers, (size_t)stage->nlayers * sizeof *stage->layers) ||
                memcmp(stage->dev, q->dev, (size_t)stage->ndev * sizeof *stage->dev))
                return false;
        }
    }
    return true;
}

/* Communicators first, then the moves (docs/annotations.md#a-whole-switch). A device that fails
 * during the moves undoes them: sources are freed only after all is received. */
static luo_status switch_to(luo_run *run, int32_t plan, double detected_s, double planned_s,
                            luo_err *err)
{
    const int32_t from = run->plans.running;
    double making;
    bool broken = false;
    luo_row_switch row = {.detect_s = detected_s, .plan_s = planned_s, .max_sender = -1};
    LUO_TRY(luo_run_making(run, run->plans.list[plan]->set, true, &making, err));
    const double began = run->clock.t_s;
    if (run->job.real) LUO_TRY(luo_real_bind(run, plan, err));
    LUO_TRY(luo_run_span(run, LUO_SPAN_SPECIALIZE, making, 0, err));
    row.specialize_s = run->clock.t_s - began;
    if (run->job.real || !same_places(luo_run_plan(&run->plans)->plan, run->plans.list[plan]->plan))
        LUO_TRY(luo_run_move(run, run->plans.list[from], plan, &row, &broken, err));
    if (broken) {
        run->decision.trigger |= LUO_TRIGGER_FAIL;
        run->decision.failed_since_s = run->clock.t_s;
        return LUO_OK;
    }
    LUO_TRY(start_plan(run, plan, err));
    run->decision.switches++;
    LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_SWITCHED, run->decision.cause,
                          run->decision.acting->name, "", false, 0, "state from devices", err));
    return switched_row(run, from, "devices", &row, err);
}

/* All processes start again: communicators anew, state read, steps since the checkpoint redone. */
static luo_status restart_with(luo_run *run, int32_t plan, double detected_s, double planned_s,
                               luo_err *err)
{
    const int32_t from = run->plans.running;
    double making;
    luo_row_switch row = {.detect_s = detected_s, .plan_s = planned_s, .max_sender = -1};
    LUO_TRY(start_plan(run, plan, err));
    luo_map_clear(&run->plans.communicators);
    LUO_TRY(luo_run_making(run, run->plans.list[plan]->set, true, &making, err));
    int64_t step = luo_ckpt_restore(run, &row.move_s);
    const bool saved = run->ledger.ckpt.valid_plan >= 0 || run->clock.first_step > 0;
    const double began = run->clock.t_s;
    double seconds = run->job.spec->restart_s;
    if (seconds >= 0) {
        row.move_s = seconds;
    } else {
        row.specialize_s = run->job.cost.process_start_s + making;
        seconds = row.specialize_s + row.move_s;
    }
    if (run->job.real) LUO_TRY(luo_real_load(run, &step, err));
    LUO_TRY(luo_run_span_until(run, LUO_SPAN_RESTART, began + seconds,
                               luo_run_plan(&run->plans)->state_bytes, err));
    if (run->job.real) row.move_s = run->clock.t_s - began - row.specialize_s;
    luo_account_rollback(run, step);
    run->decision.restarts++;
    LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_RESTARTED, run->decision.cause,
                          run->decision.acting->name, "", false, 0,
                          saved ? "state from checkpoint" : "state from the beginning", err));
    return switched_row(run, from, "checkpoint", &row, err);
}

/* Between ranks no state moves to a plan that pads the vocabulary to another number of rows; files
 * have no such rows. */
static luo_status pads_otherwise(luo_run *run, const luo_plan *plan, bool *out, luo_err *err)
{
    const luo_model *model = run->job.scenario->model;
    const int64_t now = luo_plan_vocab(luo_run_plan(&run->plans)->plan, model);
    *out = run->job.real && luo_plan_vocab(plan, model) != now;
    if (!*out) return LUO_OK;
    return luo_run_warn(run, err,
                        "plan `%s` pads the vocabulary to another number of rows; policy `%s` goes "
                        "through a checkpoint, which has the %lld of the model.",
                        plan->name, run->decision.acting->name, (long long)model->vocab);
}

static luo_status carry_out(luo_run *run, const luo_decision *decision, bool failed,
                            double detected_s, double planned_s, luo_err *err)
{
    int32_t plan;
    LUO_TRY(luo_run_use_plan(run, decision->plan, luo_run_tokens(run, decision->plan), &plan, err));
    bool restart = run->backend.died || !luo_real_has_processes(run, decision->plan);
    if (decision->action == LUO_SWITCH && !restart)
        LUO_TRY(pads_otherwise(run, decision->plan, &restart, err));
    if (decision->action == LUO_SWITCH && !restart) {
        const luo_status st = switch_to(run, plan, detected_s, planned_s, err);
        if (st != LUO_ELOST) return st;
        LUO_TRY(luo_run_warn(run, err,
                             "state was lost with its devices; policy `%s` went back to a "
                             "checkpoint",
                             run->decision.acting->name));
        failed = true;
    }
    /* nothing is lost yet: state is saved first when that is cheaper than redoing */
    if (!failed && !run->backend.died &&
        luo_run_plan(&run->plans)->write_s < luo_account_open_s(&run->ledger))
        LUO_TRY(luo_ckpt_write(run, err));
    return restart_with(run, plan, detected_s, planned_s, err);
}

static luo_status give_up(luo_run *run, const char *why, luo_err *err)
{
    if (run->backend.unplanned) return luo_real_give_up(run, why, err);
    run->clock.state = LUO_LOST;
    return luo_run_event(run, LUO_EVENT_PHASE_LOST, run->decision.cause, run->decision.acting->name,
                         "", false, 0, why, err);
}

enum { SHRINKS = 4 };

/* Asks, and carries the answer out. A plan that the closed form of memory let through and that does
 * not fit is planned again with less memory. *planned_s < 0: all devices wait for the planner, and
 * are charged once; a device may fail meanwhile, then the policy is asked again. */
static luo_status decide_and_do(luo_run *run, int trigger, bool failed, double detected_s,
                                double *planned_s, luo_decision *decision, luo_err *err)
{
    run->decision.memory_factor = 1;
    for (int i = 0; i <= SHRINKS;) {
        luo_err why = {0};
        double seconds;
        const double asked_s = run->clock.t_s;
        LUO_TRY(luo_run_ask(run, trigger, decision, &seconds, err));
        if (*planned_s < 0) {
            LUO_TRY(luo_run_span(run, LUO_SPAN_PLAN, seconds, 0, err));
            *planned_s = run->clock.t_s - asked_s;
            if (decision->plan && !luo_plan_within(decision->plan, run->health.usable)) continue;
        }
        if (decision->action != LUO_SWITCH && decision->action != LUO_RESTART) return LUO_OK;
        const luo_status st = carry_out(run, decision, failed, detected_s, *planned_s, &why);
        if (st == LUO_OK) return LUO_OK;
        if (st != LUO_EOOM) return luo_err_set(err, st, "%s", why.text);
        if (i++ == SHRINKS)
            LUO_TRY(luo_run_warn(run, err, "no plan of policy `%s` fits: %s",
                                 run->decision.acting->name, why.text));
        run->decision.memory_factor *= 0.9;
    }
    decision->action = failed ? LUO_WAIT : LUO_KEEP;
    return LUO_OK;
}

/* A name of their set. */
static uint64_t usable_devices(const luo_run *run)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    return luo_hash_bytes(LUO_HASH_EMPTY, run->health.usable, (size_t)n * sizeof(bool));
}

static luo_status answer_failure(luo_run *run, luo_err *err)
{
    luo_decision decision = {.action = LUO_WAIT};
    luo_refusals refusals = {0};
    const double since = run->decision.failed_since_s, asked = run->clock.t_s;
    double planned_s = -1;
    run->decision.pending.on = false;
    LUO_TRY(luo_run_span(run, LUO_SPAN_DETECT, run->job.cost.detect_fail_s, 0, err));
    LUO_TRY(luo_run_score_failure(run, since, err));
    const double detected_s = run->clock.t_s - asked;
    while (decision.action == LUO_WAIT && !luo_run_is_over(run)) {
        bool hope;
        const uint64_t usable = usable_devices(run);
        run->decision.trigger = 0;
        LUO_TRY(decide_and_do(run, LUO_TRIGGER_FAIL, true, detected_s, &planned_s, &decision, err));
        if (decision.action == LUO_LOSE) return give_up(run, decision.why, err);
        if (decision.action == LUO_KEEP)
            return luo_err_set(err, LUO_EBUG,
                               "policy `%s` keeps a plan that "
                               "has failed.",
                               run->decision.acting->name);
        if (decision.action != LUO_WAIT) break;
        if (usable_devices(run) != usable) continue; /* who is awaited came while it was asked */
        LUO_TRY(luo_run_wait(run, &refusals, &hope, err));
        if (!hope) return give_up(run, "no plan is possible, and not enough comes back", err);
    }
    return LUO_OK;
}

/* Nothing has failed: the devices wait for the planner or train on meanwhile. With real time they
 * have waited already, since the planner runs here at the boundary. */
static luo_status ask_in_peace(luo_run *run, luo_err *err)
{
    luo_decision decision;
    double seconds;
    const int trigger = run->decision.trigger;
    run->decision.trigger = 0;
    run->decision.memory_factor = 1;
    const double asked_s = run->clock.t_s;
    LUO_TRY(luo_run_ask(run, trigger, &decision, &seconds, err));
    const bool wait = luo_run_waits_for_planner(&run->job, &decision, seconds);
    if (wait || run->job.real)
        LUO_TRY(luo_run_span(run, LUO_SPAN_PLAN, wait ? seconds : 0, 0, err));
    if (decision.action != LUO_SWITCH && decision.action != LUO_RESTART) return LUO_OK;
    luo_plan *copy;
    LUO_TRY(luo_plan_copy(run->arena, decision.plan, &copy, err));
    decision.plan = copy;
    run->decision.pending.on = true;
    run->decision.pending.d = decision;
    run->decision.pending.trigger = trigger;
    run->decision.pending.planned_s = fmax(run->clock.t_s - asked_s, seconds);
    run->decision.pending.ready_s = asked_s + run->decision.pending.planned_s;
    if (run->decision.pending.ready_s <= run->clock.t_s) return LUO_OK;
    return luo_run_timeline(run, LUO_SPAN_PLAN, run->clock.t_s, run->decision.pending.ready_s,
                            false, false, 0, err);
}

/* The plan that is ready now; when the world has changed under it, the policy is asked again. */
static luo_status finish_pending(luo_run *run, luo_err *err)
{
    luo_err why = {0};
    run->decision.pending.on = false;
    if (!luo_plan_within(run->decision.pending.d.plan, run->health.usable)) {
        run->decision.trigger |= run->decision.pending.trigger;
        return LUO_OK;
    }
    double planned_s = run->decision.pending.planned_s;
    const luo_status st = carry_out(run, &run->decision.pending.d, false, 0, planned_s, &why);
    if (st != LUO_EOOM) return st == LUO_OK ? LUO_OK : luo_err_set(err, st, "%s", why.text);
    luo_decision decision;
    return decide_and_do(run, run->decision.pending.trigger, false, 0, &planned_s, &decision, err);
}

/* Are all devices of the running plan usable? */
static bool is_whole(luo_run *run)
{
    const int64_t seen = run->clock.seen;
    if (run->health.within.plan == run->plans.running && run->health.within.seen == seen)
        return run->health.within.whole;
    run->health.within.plan = run->plans.running;
    run->health.within.seen = seen;
    run->health.within.whole =
        luo_plan_within(luo_run_plan(&run->plans)->plan, run->health.usable);
    return run->health.within.whole;
}

luo_status luo_run_apply(luo_run *run, luo_err *err)
{
    if (run->job.policy->bound) run->decision.trigger = 0;
    while (run->clock.state == LUO_RUNNING && !luo_run_is_over(run)) {
        if (!run->job.policy->bound && !is_whole(run)) {
            if (!(run->decision.trigger & LUO_TRIGGER_FAIL))
                run->decision.failed_since_s = run->clock.t_s;
            run->decision.trigger |= LUO_TRIGGER_FAIL;
        }
        if (run->decision.trigger & LUO_TRIGGER_FAIL)
            LUO_TRY(answer_failure(run, err));
        else if (run->decision.pending.on && run->decision.pending.ready_s <= run->clock.t_s)
            LUO_TRY(finish_pending(run, err));
        else if (run->decision.trigger && !run->job.policy->plans)
            run->decision.trigger = 0;
        else if (run->decision.trigger && !run->decision.pending.on)
            LUO_TRY(ask_in_peace(run, err));
        else break;
        if (run->decision.pending.on && run->decision.pending.ready_s > run->clock.t_s &&
            !(run->decision.trigger & LUO_TRIGGER_FAIL))
            break;
    }
    luo_arena_reset(run->scratch, 0);
    return LUO_OK;
}
