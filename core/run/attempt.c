/* One attempt of a step: the backend runs it, and the result becomes rows, totals and samples. */
#include <string.h>

#include "core/run/health/pace.h"
#include "core/run/lengths/lengths_run.h"
#include "core/run/lengths/result_sum.h"
#include "core/run/real.h"

enum { FAILURES_IN_A_ROW = 1000 };

/* The last step of the run, as far as that is known before it. */
static bool is_last(const luo_run *run, double step_s)
{
    const luo_scenario *sc = run->job.scenario;
    if (sc->steps > 0) return run->clock.step + 1 >= sc->steps;
    return step_s > 0 && run->clock.t_s + step_s >= sc->duration_s;
}

/* --trace-steps auto: the first two steps and the last one (of large ones the first alone), and
 * from one before to two after each event. */
static bool wants_trace(const luo_run *run)
{
    const luo_trace_steps *steps = &run->job.opts->trace;
    if (!run->job.sink->ops || luo_run_plan(&run->plans)->operations >
                                   (double)luo_work_most(run->job.opts->work, LUO_WORK_OPERATIONS))
        return false;
    switch (steps->kind) {
    case LUO_TRACE_NONE: return false;
    case LUO_TRACE_ALL: return true;
    case LUO_TRACE_LIST:
        for (int32_t i = 0; i < steps->nranges; i++)
            if (run->clock.step >= steps->ranges[i].lo && run->clock.step < steps->ranges[i].hi)
                return true;
        return false;
    case LUO_TRACE_AUTO: break;
    }
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const bool large = used->operations > LUO_TRACE_LARGE;
    const double step_s = used->step_s;
    return run->clock.step < (large ? 1 : 2) || (!large && is_last(run, step_s)) ||
           (run->clock.last_event_step >= 0 && run->clock.step <= run->clock.last_event_step + 2) ||
           (step_s > 0 && luo_events_next(run->clock.events) <= run->clock.t_s + 2 * step_s);
}

static int32_t count_up(luo_run_clock *clock)
{
    const luo_world *world = luo_events_world(clock->events);
    const int64_t happenings = luo_events_happenings(clock->events);
    if (clock->up_at == happenings) return clock->up;
    clock->up_at = happenings;
    clock->up = 0;
    for (int32_t d = 0; d < world->ndevices; d++) clock->up += world->up[d];
    return clock->up;
}

static luo_status step_row(luo_run *run, const luo_step_result *result, int32_t attempt,
                           double start_s, luo_err *err)
{
    if (!run->job.sink->step) return LUO_OK;
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const double seconds = run->clock.t_s - start_s;
    luo_row_step row = {.step = run->clock.step,
                        .sequences = used->sequences,
                        .tokens = used->tokens,
                        .attempt = attempt,
                        .plan = run->plans.running,
                        .devices_used = used->ndev,
                        .devices_up = count_up(&run->clock),
                        .start_s = start_s,
                        .end_s = run->clock.t_s,
                        .tokens_per_s = seconds > 0 ? (double)used->tokens / seconds : 0,
                        .has_loss = result->has_loss,
                        .loss = result->loss,
                        .grad_norm = result->grad_norm};
    row.slowest_device = run->ledger.account.repeat.slowest;
    row.max_slowdown = run->ledger.account.repeat.max_slowdown;
    luo_account_mean(&run->ledger.account, seconds, &row.parts);
    return run->job.sink->step(run->job.sink->ctx, &row, err);
}

static void take_predicted(luo_run *run, const luo_step_result *result)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    memset(run->health.predicted, 0,
           (size_t)run->job.scenario->cluster->ndevices * sizeof *run->health.predicted);
    for (int32_t i = 0; i < used->ndev; i++)
        run->health.predicted[used->dev[i]] = result->predicted_s[i];
    run->health.has_predicted = true;
}

luo_status luo_run_keep(luo_run *run, const luo_step_result *result, int32_t attempt,
                        double start_s, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const bool repeats = luo_account_repeats(run, result);
    LUO_TRY(
        luo_run_timeline(run, LUO_SPAN_STEP, start_s, run->clock.t_s, true, attempt > 0, 0, err));
    LUO_TRY(luo_account_step(run, result, start_s, run->clock.t_s, err));
    LUO_TRY(step_row(run, result, attempt, start_s, err));
    if (run->job.sink->ops && result->nrecords > 0)
        LUO_TRY(run->job.sink->ops(run->job.sink->ctx, run->clock.step, attempt,
                                   result->start_s - run->clock.t0, run->plans.running, used->set,
                                   result, err));
    LUO_TRY(luo_run_measured(&run->job, luo_run_plan(&run->plans), result, err));
    if (!repeats || !run->health.has_predicted) take_predicted(run, result);
    LUO_TRY(luo_run_sample_step(run, result, repeats, err));
    if (run->lengths) {
        LUO_TRY(luo_run_lengths_rows(run, err));
        luo_run_lengths_learn(run, result, run->clock.t_s - start_s);
    }
    luo_events_progress(run->clock.events);
    run->decision.failures = 0;
    run->clock.step++;
    return LUO_OK;
}

/* The attempt failed: its time is lost, and what failed becomes known only after a while. */
static luo_status lose(luo_run *run, const luo_step_result *result, int32_t attempt, double start_s,
                       luo_err *err)
{
    if (run->clock.t_s > start_s)
        LUO_TRY(luo_run_timeline(run, LUO_SPAN_STEP, start_s, run->clock.t_s, true, true, 0, err));
    run->ledger.account.span[LUO_SPAN_STEP] += run->clock.t_s - start_s;
    run->ledger.account.redone++;
    if (run->job.sink->ops && result->nrecords > 0)
        LUO_TRY(run->job.sink->ops(run->job.sink->ctx, run->clock.step, attempt,
                                   result->start_s - run->clock.t0, run->plans.running,
                                   luo_run_plan(&run->plans)->set, result, err));
    if (result->status != LUO_EPEER) {
        if (run->job.real) run->clock.state = LUO_FAILED;
        return luo_err_set(err, result->status, "%s", result->text);
    }
    if (++run->decision.failures > FAILURES_IN_A_ROW) {
        run->clock.state = LUO_LOST;
        return luo_run_event(run, LUO_EVENT_PHASE_LOST, run->decision.cause,
                             run->decision.acting->name, "", false, 0,
                             "no attempt of the step comes through", err);
    }
    run->decision.trigger |= LUO_TRIGGER_FAIL;
    run->decision.failed_since_s = start_s;
    if (run->backend.unplanned && run->backend.deaths > run->job.opts->max_restarts)
        return luo_real_give_up(run, "no more restarts are allowed", err);
    return LUO_OK;
}

static luo_status bound_step(luo_run *run, luo_err *err)
{
    luo_step_result result = {0};
    int32_t attempt;
    const double start_s = run->clock.t_s;
    LUO_TRY(luo_account_attempt(run, &attempt, err));
    LUO_TRY(luo_run_oracle_step(run, &result, err));
    if (run->clock.state == LUO_RUNNING) return luo_run_keep(run, &result, attempt, start_s, err);
    run->ledger.account.span[LUO_SPAN_STEP] += run->clock.t_s - start_s;
    if (run->clock.t_s == start_s) return LUO_OK;
    return luo_run_timeline(run, LUO_SPAN_STEP, start_s, run->clock.t_s, true, true, 0, err);
}

/* One run of the running plan's programs, with the changes that come meanwhile. */
static luo_status run_once(luo_run *run, const luo_step_part *part, int32_t attempt, bool trace,
                           luo_step_result *result, luo_err *err)
{
    LUO_TRY(luo_run_follow_load(run, err));
    const luo_recipe recipe = luo_run_recipe(luo_run_plan(&run->plans));
    luo_step_request request = {.programs = luo_run_plan(&run->plans)->set,
                                .recipe = &recipe,
                                .world = luo_events_world(run->clock.events),
                                .world_name = 1 + luo_events_happenings(run->clock.events),
                                .step = run->clock.step,
                                .part = *part,
                                .attempt = attempt,
                                .trace = trace};
    luo_ahead ahead;
    LUO_TRY(luo_run_look_ahead(run, &ahead, &request, err));
    LUO_TRY(luo_real_strike(run, &request, err));
    LUO_TRY(run->backend.table->run_ranks(run->backend.state, &request, result, err));
    LUO_TRY(luo_run_end_of(run, &ahead, result, err));
    luo_arena_reset(run->scratch, 0);
    if (result->note) LUO_TRY(luo_run_warn(run, err, "%s", result->note));
    return luo_run_advance(run, run->clock.t_s, err);
}

/* *broken: a process or a link failed meanwhile. Where a process is to be killed nothing changes:
 * the part at hand fails, and is answered after it. */
static luo_status change_part(luo_run *run, int32_t part, bool *broken, luo_err *err)
{
    *broken = false;
    if (part == 0 || luo_real_strikes(run)) return LUO_OK;
    run->lengths->in_step = true;
    const luo_status st = luo_run_lengths_bind(run, part, err);
    run->lengths->in_step = false;
    *broken = run->plans.running != run->lengths->used;
    return st;
}

/* The parts of a step, one after the other; *result is their sum. */
static luo_status run_parts(luo_run *run, int32_t attempt, luo_step_result *result, luo_err *err)
{
    const luo_run_lengths *lengths = run->lengths;
    luo_result_sum sum = {.arena = lengths->step_arena};
    luo_step_part part = {
        .n = lengths->plans.n, .nsequences = lengths->n, .length = lengths->length};
    for (int32_t k = part.index = 0; k < part.n; part.index = ++k) {
        bool broken;
        LUO_TRY(change_part(run, k, &broken, err));
        if (broken) {
            *result = (luo_step_result){.status = LUO_EPEER};
            return LUO_OK;
        }
        LUO_TRY(run_once(run, &part, attempt, false, result, err));
        if (result->status != LUO_OK) return LUO_OK;
        const luo_used_plan *used = luo_run_plan(&run->plans);
        LUO_TRY(luo_traffic_add(used->traffic, used->set, result->comm, result->ncomm, err));
        LUO_TRY(luo_result_add(&sum, result, err));
    }
    *result = sum.result;
    luo_run_lengths_whole(run);
    return LUO_OK;
}

luo_status luo_run_step(luo_run *run, luo_err *err)
{
    if (run->job.policy->bound) return bound_step(run, err);
    const bool parts = run->lengths && run->lengths->plans.n > 1;
    const luo_step_part whole = {0};
    luo_step_result result = {0};
    int32_t attempt;
    const double start_s = run->clock.t_s;
    const bool trace = !parts && wants_trace(run);
    LUO_TRY(luo_account_attempt(run, &attempt, err));
    LUO_TRY(parts ? run_parts(run, attempt, &result, err)
                  : run_once(run, &whole, attempt, trace, &result, err));
    if (result.status == LUO_EPEER && result.died) LUO_TRY(luo_real_died(run, &result, err));
    if (result.status != LUO_OK) return lose(run, &result, attempt, start_s, err);
    const luo_status st = luo_run_keep(run, &result, attempt, start_s, err);
    if (parts) run->plans.running = run->lengths->used; /* which holds the state */
    return st;
}
