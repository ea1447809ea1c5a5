/* The step loop (ARCHITECTURE.md). */
#include "core/run/driver.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/quantity.h"
#include "core/base/vec.h"
#include "core/run/events/reach.h"
#include "core/run/jobs/jobs.h"
#include "core/run/lengths/lengths_run.h"
#include "core/run/policy/policy.h"
#include "core/run/real.h"
#include "core/run/training/training.h"

/* ---- helpers of all files ---- */

luo_status luo_run_timeline(luo_run *run, luo_span_kind kind, double start_s, double end_s,
                            bool blocking, bool redone, int64_t bytes, luo_err *err)
{
    if (!run->job.sink->timeline) return LUO_OK;
    const luo_row_timeline row = {
        .start_s = start_s,
        .end_s = end_s,
        .kind = kind,
        .blocking = blocking,
        .redone = redone,
        .step = run->clock.step,
        .bytes = bytes,
        .plan = run->plans.running,
        .event = kind == LUO_SPAN_STEP || kind == LUO_SPAN_CHECKPOINT ? "" : run->decision.cause};
    return run->job.sink->timeline(run->job.sink->ctx, &row, err);
}

luo_status luo_run_event(luo_run *run, luo_event_phase phase, const char *id, const char *kind,
                         const char *target, bool has, double value, const char *detail,
                         luo_err *err)
{
    if (!run->job.sink->event) return LUO_OK;
    const luo_row_event row = {.t_s = run->clock.t_s,
                               .value = value,
                               .step = run->clock.step,
                               .has_value = has,
                               .id = id,
                               .phase = phase,
                               .kind = kind,
                               .target = target,
                               .detail = detail};
    return run->job.sink->event(run->job.sink->ctx, &row, err);
}

luo_status luo_run_note(luo_run_job *job, luo_err *err, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    if (!job->sink->note) return LUO_OK;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return job->sink->note(job->sink->ctx, text, err);
}

luo_status luo_run_tell(luo_run_job *job, luo_err *err, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    if (!job->sink->tell) return LUO_OK;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return job->sink->tell(job->sink->ctx, text, err);
}

luo_status luo_run_warn(luo_run *run, luo_err *err, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (int32_t i = 0; i < run->ledger.nwarnings; i++)
        if (strcmp(run->ledger.warnings[i], text) == 0) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(run->arena, run->ledger.warnings, run->ledger.nwarnings,
                         run->ledger.cap_warnings))
        return luo_err_nomem(err);
    const char *copy = luo_arena_strdup(run->arena, text);
    if (!copy) return luo_err_nomem(err);
    run->ledger.warnings[run->ledger.nwarnings++] = copy;
    return LUO_OK;
}

/* Beyond it a time in nanoseconds would not fit into 63 bits. */
static luo_status within_run_time(const luo_run_clock *clock, luo_err *err)
{
    const double most = luo_quantity_at(LUO_Q_RUN_TIME)->highest;
    if (clock->t_s <= most) return LUO_OK;
    return luo_err_set(err, LUO_E2BIG, "step %" PRId64 " is at %.3g s; a run lasts up to %.3g s.",
                       clock->step, clock->t_s, most);
}

luo_status luo_run_follow_lengths(luo_run *run, luo_err *err)
{
    const int64_t tokens = luo_events_tokens(run->clock.events);
    return luo_step_lengths_note(run->arena, &run->clock.lengths, run->clock.tried, tokens)
               ? LUO_OK
               : luo_err_nomem(err);
}

luo_status luo_run_advance(luo_run *run, double t_s, luo_err *err)
{
    LUO_TRY(within_run_time(&run->clock, err));
    LUO_TRY(luo_events_advance(run->clock.events, t_s, run->clock.step, err));
    LUO_TRY(luo_run_follow_lengths(run, err));
    luo_run_trigger(run);
    if (!luo_events_hushed(run->clock.events)) return LUO_OK;
    return luo_run_warn(run, err,
                        "processes wrote %d rows between two steps that ended well; what "
                        "they did after that counts, but is not in events.csv and truth.csv",
                        LUO_EVENT_ROWS);
}

luo_status luo_run_span_until(luo_run *run, luo_span_kind kind, double end_s, int64_t bytes,
                              luo_err *err)
{
    const double start_s = run->clock.t_s;
    if (run->job.real && run->backend.table->now)
        end_s = fmax(end_s, run->backend.table->now(run->backend.state) - run->clock.t0);
    if (end_s <= start_s) return LUO_OK;
    run->clock.t_s = end_s;
    if (run->backend.table->sleep_until) {
        LUO_TRY(run->backend.table->sleep_until(run->backend.state, run->clock.t0 + end_s));
        if (run->backend.table->now)
            run->clock.t_s =
                fmax(end_s, run->backend.table->now(run->backend.state) - run->clock.t0);
    }
    LUO_TRY(within_run_time(&run->clock, err));
    run->ledger.account.span[kind] += run->clock.t_s - start_s;
    LUO_TRY(luo_run_timeline(run, kind, start_s, run->clock.t_s, true, false, bytes, err));
    return luo_run_advance(run, run->clock.t_s, err);
}

luo_status luo_run_span(luo_run *run, luo_span_kind kind, double seconds, int64_t bytes,
                        luo_err *err)
{
    return luo_run_span_until(run, kind, run->clock.t_s + seconds, bytes, err);
}

/* ---- setting up ---- */

static luo_status log_event(void *ctx, const luo_row_event *row, luo_err *err)
{
    luo_run *run = ctx;
    return run->job.sink->event ? run->job.sink->event(run->job.sink->ctx, row, err) : LUO_OK;
}

static luo_status unknown_policy(const char *name, luo_err *err)
{
    int32_t n;
    const char *const *names = luo_policy_names(&n);
    luo_str text = {0};
    for (int32_t i = 0; i < n; i++)
        luo_str_addf(&text, "%s`%s`", i == 0 ? "" : i == n - 1 ? " or " : ", ", names[i]);
    const luo_status st = luo_err_set(err, LUO_EINPUT,
                                      "policy `%s` cannot run here; %s is "
                                      "expected.",
                                      name, luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

static luo_status check_options(luo_run *run, luo_err *err)
{
    const luo_policy_spec *spec = run->job.spec;
    const bool steps = run->job.scenario->steps > 0, seconds = run->job.scenario->duration_s > 0;
    run->job.policy = run->job.opts->policy ? run->job.opts->policy : luo_policy_find(spec->name);
    run->decision.acting = run->job.policy;
    if (!run->job.policy) return unknown_policy(spec->name, err);
    if (steps == seconds)
        return luo_err_set(err, LUO_EINPUT,
                           "`extent` has %s; exactly one of `steps` and "
                           "`duration_s` is expected.",
                           steps ? "both" : "neither");
    if (spec->planner_measured && !run->job.opts->clock)
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` has `planner_time` `measured`, and there "
                           "is no clock here; use `fixed`.",
                           spec->name);
    if (spec->window_steps < 1 || spec->window_steps > LUO_WINDOW_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` has `window_steps` %d; 1 to %d is "
                           "expected.",
                           spec->name, spec->window_steps, LUO_WINDOW_MAX);
    return LUO_OK;
}

luo_backend_config luo_run_config(const luo_run *run)
{
    const luo_scenario *sc = run->job.scenario;
    return (luo_backend_config){.cluster = sc->cluster,
                                .stack = &sc->stack,
                                .model = sc->model,
                                .dtype = luo_run_plan(&run->plans)->plan->dtype,
                                .options = run->job.opts->options,
                                .comm = run->job.opts->comm,
                                .fold = run->job.opts->fold,
                                .one_comm_stream = run->job.opts->one_comm_stream,
                                .compute_sigma = run->job.policy->bound ? 0 : sc->compute_sigma,
                                .comm_sigma = run->job.policy->bound ? 0 : sc->comm_sigma,
                                .seed = sc->seed,
                                .interrupted = run->job.opts->interrupted};
}

static luo_status open_backend(luo_run *run, luo_err *err)
{
    const luo_backend_config config = luo_run_config(run);
    luo_run_set_judge(run);
    LUO_TRY(run->backend.table->open(&config, &run->backend.state, err));
    run->clock.t0 = run->backend.table->now ? run->backend.table->now(run->backend.state) : 0;
    return run->job.real ? luo_real_begin(run, err) : LUO_OK;
}

static luo_status make_arrays(luo_run *run, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    run->health.usable = LUO_NEW_N(run->arena, bool, n);
    run->health.was_usable = LUO_NEW_N(run->arena, bool, n);
    run->health.was_leaving = LUO_NEW_N(run->arena, bool, n);
    run->health.emptied = LUO_NEW_N(run->arena, bool, n);
    run->health.rate = LUO_NEW_N(run->arena, double, n);
    run->health.predicted = LUO_NEW_N(run->arena, double, n);
    run->ledger.nlinks = run->job.scenario->cluster->nlinks;
    run->ledger.links = LUO_NEW_N(run->arena, luo_link_use, run->ledger.nlinks);
    run->ledger.windows = (luo_link_windows){
        .nlinks = run->ledger.nlinks,
        .up = LUO_NEW_N(run->arena, double, (int64_t)run->ledger.nlinks * LUO_LINK_WINDOWS),
        .down = LUO_NEW_N(run->arena, double, (int64_t)run->ledger.nlinks * LUO_LINK_WINDOWS)};
    if (!run->health.usable || !run->health.was_usable || !run->health.was_leaving ||
        !run->health.emptied || !run->health.rate || !run->health.predicted || !run->ledger.links ||
        !run->ledger.windows.up || !run->ledger.windows.down)
        return luo_err_nomem(err);
    luo_reach(run->job.scenario->cluster, luo_events_world(run->clock.events), run->health.usable);
    return LUO_OK;
}

static luo_status warn_of_links(luo_run *run, luo_err *err)
{
    bool links = false;
    for (int32_t i = 0; i < run->job.scenario->nevents; i++)
        links |= luo_event_traits_of(run->job.scenario->events[i].kind).hits == LUO_HITS_LINKS;
    if (!links || run->backend.table->caps & LUO_CAP_LINK_EVENTS) return LUO_OK;
    return luo_run_warn(run, err,
                        "backend `%s` does not slow links down; link events only break "
                        "them",
                        run->backend.table->name);
}

static luo_status check_work(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    static const luo_work defaults = {0};
    const luo_work *most = run->job.opts->work ? run->job.opts->work : &defaults;
    const double span = sc->duration_s > 0 ? sc->duration_s : INFINITY;
    const double changes = luo_events_expected(run->clock.events, span);
    luo_events_set_work(run->clock.events, most);
    LUO_TRY(luo_work_check(most, LUO_WORK_EVENTS, sc->nevents, "the scenario has", err));
    LUO_TRY(luo_work_check(most, LUO_WORK_CHANGES, changes, "the scenario asks for", err));
    return luo_work_check(most, LUO_WORK_SEQUENCES, (double)sc->batch_sequences,
                          "the scenario has", err);
}

/* Steps that are named are traced or refused; else too large ones are left out (plans.c). */
static luo_status check_operations(const luo_run *run, luo_err *err)
{
    const int kind = (int)run->job.opts->trace.kind;
    if (kind != LUO_TRACE_ALL && kind != LUO_TRACE_LIST) return LUO_OK;
    return luo_work_check(run->job.opts->work, LUO_WORK_OPERATIONS,
                          luo_run_plan(&run->plans)->operations, "the plan has", err);
}

static luo_status check_ranks(const luo_run *run, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    if (run->job.opts->ranks == 0 || used->ndev <= run->job.opts->ranks) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "plan %016" PRIx64 " has %d devices and there are %d "
                       "ranks; a larger `--ranks` is needed.",
                       used->hash, used->ndev, run->job.opts->ranks);
}

static luo_status prepare_plan(luo_run *run, luo_err *err)
{
    LUO_TRY(check_options(run, err));
    LUO_TRY(luo_real_init(run, err));
    LUO_TRY(luo_events_new(run->arena, run->job.scenario, (luo_event_log){run, log_event},
                           &run->clock.events, err));
    LUO_TRY(check_work(run, err));
    return luo_run_first_plan(run, err);
}

/* All that can be known before anything is started; `check` asks the same. */
static luo_status prepare(luo_run *run, luo_err *err)
{
    double ignored;
    LUO_TRY(prepare_plan(run, err));
    LUO_TRY(check_ranks(run, err));
    LUO_TRY(check_operations(run, err));
    LUO_TRY(luo_detect_init(run->arena, run->job.scenario->cluster->ndevices,
                            run->job.spec->window_steps, run->job.spec->replan_gap,
                            &run->health.detect, err));
    run->health.detect.slow = run->job.spec->threshold_slowdown;
    LUO_TRY(make_arrays(run, err));
    LUO_TRY(luo_run_sample_init(run, err));
    LUO_TRY(luo_run_oracle_init(run, err));
    LUO_TRY(luo_reentry_init(run, err));
    LUO_TRY(luo_policy_accepts(run->job.scenario, run->job.spec,
                               luo_run_plan_of(run->plans.list[0]), err));
    if (run->job.spec->training.mode) LUO_TRY(luo_training_check(run, err));
    LUO_TRY(luo_account_init(run, err));
    LUO_TRY(luo_ckpt_init(run, err));
    const luo_used_plan *used = luo_run_plan(&run->plans);
    LUO_TRY(luo_run_making(run, used->set, true, &ignored, err)); /* before the run begins */
    luo_events_set_job(run->clock.events, used->dev, used->ndev);
    return warn_of_links(run, err);
}

/* ---- the loop ---- */

bool luo_run_is_over(const luo_run *run)
{
    if (run->job.scenario->steps > 0) return run->clock.step >= run->job.scenario->steps;
    if (run->job.opts->jobs) return run->clock.step >= run->job.opts->jobs->steps;
    return run->clock.t_s >= run->job.scenario->duration_s;
}

/* A change of lengths takes another program of the same plan; state stays where it is. */
static luo_status bind_lengths(luo_run *run, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const int64_t tokens = luo_run_tokens(run, used->plan);
    if (tokens == used->sequence_tokens) return LUO_OK;
    int32_t plan;
    LUO_TRY(luo_run_use_plan(run, used->plan, tokens, &plan, err));
    if (run->job.real) return luo_run_rebind(run, used, plan, err);
    run->plans.running = plan;
    run->health.has_predicted = false;
    return LUO_OK;
}

/* The world has moved on at this boundary; with plans of batches, those of the step that this leads
 * to, which may take time again. */
static luo_status apply_late(luo_run *run, luo_err *err)
{
    for (;;) {
        LUO_TRY(luo_run_apply(run, err));
        if (!run->lengths || run->clock.state != LUO_RUNNING || luo_run_is_over(run)) return LUO_OK;
        const double applied = run->clock.t_s;
        LUO_TRY(luo_run_lengths_boundary(run, err));
        if (run->clock.t_s == applied && !(run->decision.trigger & LUO_TRIGGER_FAIL)) return LUO_OK;
    }
}

static luo_status boundary(luo_run *run, luo_err *err)
{
    const double before = run->clock.t_s;
    LUO_TRY(luo_events_step(run->clock.events, run->clock.step, run->clock.t_s, err));
    LUO_TRY(luo_run_follow_lengths(run, err));
    luo_run_trigger(run);
    if (luo_real_strikes(run)) return LUO_OK; /* the attempt fails, and is answered after it */
    LUO_TRY(luo_run_apply(run, err));
    if (run->clock.state != LUO_RUNNING || luo_run_is_over(run)) return LUO_OK;
    LUO_TRY(run->lengths ? luo_run_lengths_boundary(run, err) : bind_lengths(run, err));
    if (run->decision.trigger & LUO_TRIGGER_FAIL)
        return apply_late(run, err); /* it broke on the way */
    LUO_TRY(luo_ckpt_boundary(run, err));
    if (run->clock.t_s > before)
        LUO_TRY(apply_late(run, err));
    return LUO_OK;
}

bool luo_run_interrupted(const luo_run_job *job)
{
    return job->opts->interrupted && *job->opts->interrupted;
}

/* Another job has begun or ended, in the step that is done. */
static luo_status tell_job(void *ctx, const char *job, bool ended, double t_s, luo_err *err)
{
    luo_run *run = ctx;
    const luo_row_event row = {.t_s = t_s,
                               .step = run->clock.step - 1,
                               .id = job,
                               .phase = ended ? LUO_EVENT_PHASE_ENDED : LUO_EVENT_PHASE_FIRED,
                               .kind = "job",
                               .target = "",
                               .detail = ""};
    return log_event(run, &row, err);
}

static luo_status steps(luo_run *run, luo_err *err)
{
    while (!luo_run_is_over(run)) {
        if (luo_run_interrupted(&run->job)) {
            run->clock.state = LUO_INTERRUPTED;
            return LUO_OK;
        }
        LUO_TRY(boundary(run, err));
        if (run->clock.state != LUO_RUNNING) return LUO_OK;
        if (luo_run_is_over(run)) break;
        LUO_TRY(luo_run_step(run, err));
        if (run->clock.state != LUO_RUNNING) return LUO_OK;
        if (run->job.opts->jobs)
            LUO_TRY(luo_jobs_tell(run->job.opts->jobs, run->clock.t_s, tell_job, run, err));
        if (run->job.sink->boundary)
            LUO_TRY(run->job.sink->boundary(run->job.sink->ctx, run->clock.step,
                                            run->job.scenario->steps, run->clock.t_s,
                                            luo_events_fired(run->clock.events), err));
    }
    run->clock.state = LUO_COMPLETE;
    return luo_ckpt_last(run, err);
}

/* What is stopped in the middle of a step leaves no trace of that step. */
static luo_status loop(luo_run *run, luo_err *err)
{
    const luo_status st =
        run->job.spec->training.mode ? luo_training_run(run, err) : steps(run, err);
    if (st != LUO_ECANCELED || !luo_run_interrupted(&run->job)) return st;
    run->clock.state = LUO_INTERRUPTED;
    return LUO_OK;
}

/* Compiled plans kept at once: whoever simulates forks this process, which takes the longer the
 * more it holds. */
static const int64_t PROGRAM_BYTES = INT64_C(256) << 20;

static luo_status begin(luo_run *run, const luo_scenario *scenario, int32_t policy,
                        const luo_run_opts *opts, const luo_sink *sink,
                        luo_status (*part)(luo_run *run, luo_err *err), luo_err *err)
{
    *run = (luo_run){.arena = luo_arena_new(1 << 20),
                     .scratch = luo_arena_new(1 << 16),
                     .job.scenario = scenario,
                     .job.spec = &scenario->policies[policy],
                     .job.opts = opts,
                     .job.sink = sink,
                     .backend.table = opts->backend,
                     .decision.cause = "",
                     .clock.last_event_step = -1,
                     .clock.up_at = -1,
                     .clock.seen = -1,
                     .health.within.plan = -1,
                     .decision.memory_factor = 1,
                     .plans.program_bytes = PROGRAM_BYTES};
    return run->arena && run->scratch ? part(run, err) : luo_err_nomem(err);
}

static void end(luo_run *run)
{
    luo_judge_free(&run->decision.judge);
    luo_map_free(&run->decision.bound.fastest);
    luo_run_free_plans(&run->plans);
    luo_run_lengths_free(run->lengths);
    luo_account_free(&run->ledger);
    luo_arena_free(run->scratch);
    luo_arena_free(run->arena);
}

luo_status luo_run_check(const luo_scenario *scenario, int32_t policy, const luo_run_opts *opts,
                         luo_err *err)
{
    static const luo_sink nobody = {0};
    luo_run run;
    if (scenario->njobs > 0) return luo_jobs_run_check(scenario, policy, opts, err);
    const luo_status st = begin(&run, scenario, policy, opts, &nobody, prepare, err);
    end(&run);
    return st;
}

luo_status luo_run_first_of(luo_arena *arena, const luo_run_job *job, int32_t policy,
                            const luo_plan **out, luo_err *err)
{
    static const luo_sink nobody = {0};
    luo_run run;
    luo_plan *copy = NULL;
    luo_status st = begin(&run, job->scenario, policy, job->opts, &nobody, prepare_plan, err);
    if (st == LUO_OK) st = luo_plan_copy(arena, luo_run_plan(&run.plans)->plan, &copy, err);
    *out = copy;
    end(&run);
    return st;
}

luo_status luo_run_policy(const luo_scenario *scenario, int32_t policy, const luo_run_opts *opts,
                          const luo_sink *sink, luo_err *err)
{
    luo_run run;
    if (scenario->njobs > 0) return luo_jobs_run_policy(scenario, policy, opts, sink, err);
    luo_status st = begin(&run, scenario, policy, opts, sink, prepare, err);
    if (st == LUO_OK) st = open_backend(&run, err);
    if (st == LUO_OK) st = loop(&run, err);
    if (run.backend.state && st == LUO_OK)
        st = luo_run_report_end(&run, err);
    else if (run.backend.state && run.clock.state == LUO_FAILED)
        luo_run_report_end(&run, &(luo_err){0}); /* st tells why */
    if (run.backend.state) run.backend.table->close(run.backend.state);
    if (st == LUO_OK && run.clock.state == LUO_LOST)
        st = luo_err_set(err, LUO_ENO,
                         "policy `%s` lost the run in step %" PRId64 " at %.3f s; a "
                         "policy that survives failures is needed.",
                         run.job.spec->name, run.clock.step, run.clock.t_s);
    end(&run);
    return st;
}
