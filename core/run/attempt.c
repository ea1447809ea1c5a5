/* One attempt of a step: the backend runs it, and the result becomes rows, totals and samples. */
#include <string.h>

#include "core/run/run.h"

enum { FAILURES_IN_A_ROW = 1000 };

/* --trace-steps auto: the first 2 steps, and from 1 before to 2 after each event. */
static bool wants_trace(const luo_run *r)
{
    const luo_trace_steps *t = &r->job.opts->trace;
    if (!r->job.sink->ops || luo_run_plan(&r->plans)->operations >
                                 (double)luo_work_most(r->job.opts->work, LUO_WORK_OPERATIONS))
        return false;
    switch (t->kind) {
    case LUO_TRACE_NONE: return false;
    case LUO_TRACE_ALL: return true;
    case LUO_TRACE_LIST:
        for (int32_t i = 0; i < t->nranges; i++)
            if (r->clock.step >= t->ranges[i].lo && r->clock.step < t->ranges[i].hi) return true;
        return false;
    case LUO_TRACE_AUTO: break;
    }
    const double step_s = luo_run_plan(&r->plans)->step_s;
    return r->clock.step < 2 ||
           (r->clock.last_event_step >= 0 && r->clock.step <= r->clock.last_event_step + 2) ||
           (step_s > 0 && luo_events_next(r->clock.events) <= r->clock.t_s + 2 * step_s);
}

/* Device whose compute was slowest against what was predicted; ties, up to rounding, go to the
 * smaller id. */
static void find_slowest(const luo_run *r, const luo_step_result *s, luo_row_step *row)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    const double pace = luo_pace_of_step(r, s);
    row->slowest_device = u->ndev > 0 ? u->dev[0] : -1;
    row->max_slowdown = 1;
    for (int32_t i = 0; i < u->ndev; i++) {
        const double q = luo_pace_ratio(r, s, i) / pace;
        if (q <= row->max_slowdown * (1 + 1e-9)) continue;
        row->max_slowdown = q;
        row->slowest_device = u->dev[i];
    }
}

static int32_t count_up(const luo_run_clock *clock)
{
    const luo_world *w = luo_events_world(clock->events);
    int32_t n = 0;
    for (int32_t d = 0; d < w->ndevices; d++) n += w->up[d];
    return n;
}

static luo_status step_row(luo_run *r, const luo_step_result *s, int32_t attempt, double start_s,
                           luo_err *err)
{
    if (!r->job.sink->step) return LUO_OK;
    const luo_used_plan *u = luo_run_plan(&r->plans);
    const double seconds = r->clock.t_s - start_s;
    luo_row_step row = {.step = r->clock.step,
                        .sequences = u->sequences,
                        .tokens = u->tokens,
                        .attempt = attempt,
                        .plan = r->plans.running,
                        .devices_used = u->ndev,
                        .devices_up = count_up(&r->clock),
                        .start_s = start_s,
                        .end_s = r->clock.t_s,
                        .tokens_per_s = seconds > 0 ? (double)u->tokens / seconds : 0,
                        .has_loss = s->has_loss,
                        .loss = s->loss,
                        .grad_norm = s->grad_norm};
    find_slowest(r, s, &row);
    luo_account_mean(&r->plans, s, seconds, &row.parts);
    return r->job.sink->step(r->job.sink->ctx, &row, err);
}

static luo_status keep(luo_run *r, const luo_step_result *s, int32_t attempt, double start_s,
                       luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    LUO_TRY(luo_run_timeline(r, LUO_SPAN_STEP, start_s, r->clock.t_s, true, attempt > 0, 0, err));
    LUO_TRY(luo_account_step(r, s, start_s, r->clock.t_s, err));
    LUO_TRY(step_row(r, s, attempt, start_s, err));
    if (r->job.sink->ops && s->nrecords > 0)
        LUO_TRY(r->job.sink->ops(r->job.sink->ctx, r->clock.step, attempt, s->start_s - r->clock.t0,
                                 r->plans.running, u->set, s, err));
    LUO_TRY(luo_run_measured(&r->job, luo_run_plan(&r->plans), s, err));
    memset(r->health.predicted, 0,
           (size_t)r->job.scenario->cluster->ndevices * sizeof *r->health.predicted);
    for (int32_t i = 0; i < u->ndev; i++) r->health.predicted[u->dev[i]] = s->predicted_s[i];
    r->health.has_predicted = true;
    LUO_TRY(luo_sample_step(r, s, err));
    luo_events_progress(r->clock.events);
    r->decision.failures = 0;
    r->clock.step++;
    return LUO_OK;
}

/* The attempt failed: its time is lost, and what failed becomes known only after a while. */
static luo_status lose(luo_run *r, const luo_step_result *s, int32_t attempt, double start_s,
                       luo_err *err)
{
    if (r->clock.t_s > start_s)
        LUO_TRY(luo_run_timeline(r, LUO_SPAN_STEP, start_s, r->clock.t_s, true, true, 0, err));
    r->ledger.account.span[LUO_SPAN_STEP] += r->clock.t_s - start_s;
    r->ledger.account.redone++;
    if (r->job.sink->ops && s->nrecords > 0)
        LUO_TRY(r->job.sink->ops(r->job.sink->ctx, r->clock.step, attempt, s->start_s - r->clock.t0,
                                 r->plans.running, luo_run_plan(&r->plans)->set, s, err));
    if (s->status != LUO_EPEER) {
        if (r->job.real) r->clock.state = LUO_FAILED;
        return luo_err_set(err, s->status, "%s", s->text);
    }
    if (++r->decision.failures > FAILURES_IN_A_ROW) {
        r->clock.state = LUO_LOST;
        return luo_run_event(r, "lost", r->decision.cause, r->decision.acting->name, "", false, 0,
                             "no attempt of the step comes through", err);
    }
    r->decision.trigger |= LUO_TRIGGER_FAIL;
    r->decision.failed_since_s = start_s;
    if (r->backend.unplanned && r->backend.deaths > r->job.opts->max_restarts)
        return luo_real_give_up(r, "no more restarts are allowed", err);
    return LUO_OK;
}

static luo_status bound_step(luo_run *r, luo_err *err)
{
    luo_step_result s = {0};
    int32_t attempt;
    const double start_s = r->clock.t_s;
    LUO_TRY(luo_account_attempt(r, &attempt, err));
    LUO_TRY(luo_oracle_step(r, &s, err));
    if (r->clock.state == LUO_RUNNING) return keep(r, &s, attempt, start_s, err);
    r->ledger.account.span[LUO_SPAN_STEP] += r->clock.t_s - start_s;
    if (r->clock.t_s == start_s) return LUO_OK;
    return luo_run_timeline(r, LUO_SPAN_STEP, start_s, r->clock.t_s, true, true, 0, err);
}

luo_status luo_run_step(luo_run *r, luo_err *err)
{
    if (r->job.policy->bound) return bound_step(r, err);
    const luo_recipe recipe = luo_run_recipe(luo_run_plan(&r->plans));
    luo_step_request q = {.programs = luo_run_plan(&r->plans)->set,
                          .recipe = &recipe,
                          .world = luo_events_world(r->clock.events),
                          .step = r->clock.step,
                          .trace = wants_trace(r)};
    luo_step_result s = {0};
    const double start_s = r->clock.t_s;
    luo_ahead ahead;
    LUO_TRY(luo_run_look_ahead(r, &ahead, &q, err));
    LUO_TRY(luo_real_strike(r, &q, err));
    LUO_TRY(luo_account_attempt(r, &q.attempt, err));
    LUO_TRY(r->backend.table->run_ranks(r->backend.state, &q, &s, err));
    LUO_TRY(luo_run_end_of(r, &ahead, &s, err));
    luo_arena_reset(r->scratch, 0);
    if (s.note) LUO_TRY(luo_run_warn(r, err, "%s", s.note));
    LUO_TRY(luo_run_advance(r, r->clock.t_s, err));
    if (s.status == LUO_EPEER && s.died) LUO_TRY(luo_real_died(r, &s, err));
    return s.status == LUO_OK ? keep(r, &s, q.attempt, start_s, err)
                              : lose(r, &s, q.attempt, start_s, err);
}
