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
#include "core/run/run.h"

/* ---- helpers of all files ---- */

luo_status luo_run_timeline(luo_run *r, luo_span_kind kind, double start_s, double end_s,
                            bool blocking, bool redone, int64_t bytes, luo_err *err)
{
    if (!r->job.sink->timeline) return LUO_OK;
    const luo_row_timeline row = {
        .start_s = start_s,
        .end_s = end_s,
        .kind = kind,
        .blocking = blocking,
        .redone = redone,
        .step = r->clock.step,
        .bytes = bytes,
        .plan = r->plans.running,
        .event = kind == LUO_SPAN_STEP || kind == LUO_SPAN_CHECKPOINT ? "" : r->decision.cause};
    return r->job.sink->timeline(r->job.sink->ctx, &row, err);
}

luo_status luo_run_event(luo_run *r, const char *phase, const char *id, const char *kind,
                         const char *target, bool has, double value, const char *detail,
                         luo_err *err)
{
    if (!r->job.sink->event) return LUO_OK;
    const luo_row_event row = {.t_s = r->clock.t_s,
                               .value = value,
                               .step = r->clock.step,
                               .has_value = has,
                               .id = id,
                               .phase = phase,
                               .kind = kind,
                               .target = target,
                               .detail = detail};
    return r->job.sink->event(r->job.sink->ctx, &row, err);
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

luo_status luo_run_warn(luo_run *r, luo_err *err, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (int32_t i = 0; i < r->ledger.nwarnings; i++)
        if (strcmp(r->ledger.warnings[i], text) == 0) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(r->arena, r->ledger.warnings, r->ledger.nwarnings, r->ledger.cap_warnings))
        return luo_err_nomem(err);
    const char *copy = luo_arena_strdup(r->arena, text);
    if (!copy) return luo_err_nomem(err);
    r->ledger.warnings[r->ledger.nwarnings++] = copy;
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

luo_status luo_run_advance(luo_run *r, double t_s, luo_err *err)
{
    LUO_TRY(within_run_time(&r->clock, err));
    LUO_TRY(luo_events_advance(r->clock.events, t_s, r->clock.step, err));
    luo_run_trigger(r);
    if (!luo_events_hushed(r->clock.events)) return LUO_OK;
    return luo_run_warn(r, err,
                        "processes wrote %d rows between two steps that ended well; what "
                        "they did after that counts, but is not in events.csv and truth.csv",
                        LUO_EVENT_ROWS);
}

luo_status luo_run_span_until(luo_run *r, luo_span_kind kind, double end_s, int64_t bytes,
                              luo_err *err)
{
    const double start_s = r->clock.t_s;
    if (r->job.real && r->backend.table->now)
        end_s = fmax(end_s, r->backend.table->now(r->backend.state) - r->clock.t0);
    if (end_s <= start_s) return LUO_OK;
    r->clock.t_s = end_s;
    if (r->backend.table->sleep_until) {
        LUO_TRY(r->backend.table->sleep_until(r->backend.state, r->clock.t0 + end_s));
        if (r->backend.table->now)
            r->clock.t_s = fmax(end_s, r->backend.table->now(r->backend.state) - r->clock.t0);
    }
    LUO_TRY(within_run_time(&r->clock, err));
    r->ledger.account.span[kind] += r->clock.t_s - start_s;
    LUO_TRY(luo_run_timeline(r, kind, start_s, r->clock.t_s, true, false, bytes, err));
    return luo_run_advance(r, r->clock.t_s, err);
}

luo_status luo_run_span(luo_run *r, luo_span_kind kind, double seconds, int64_t bytes, luo_err *err)
{
    return luo_run_span_until(r, kind, r->clock.t_s + seconds, bytes, err);
}

/* ---- setting up ---- */

static luo_status log_event(void *ctx, const luo_row_event *row, luo_err *err)
{
    luo_run *r = ctx;
    return r->job.sink->event ? r->job.sink->event(r->job.sink->ctx, row, err) : LUO_OK;
}

static luo_status unknown_policy(const char *name, luo_err *err)
{
    int32_t n;
    const char *const *names = luo_policy_names(&n);
    luo_str s = {0};
    for (int32_t i = 0; i < n; i++)
        luo_str_addf(&s, "%s`%s`", i == 0 ? "" : i == n - 1 ? " or " : ", ", names[i]);
    const luo_status st = luo_err_set(err, LUO_EINPUT,
                                      "policy `%s` cannot run here; %s is "
                                      "expected.",
                                      name, luo_str_get(&s));
    luo_str_free(&s);
    return st;
}

static luo_status check_options(luo_run *r, luo_err *err)
{
    const luo_policy_spec *p = r->job.spec;
    const bool steps = r->job.scenario->steps > 0, seconds = r->job.scenario->duration_s > 0;
    r->job.policy = r->job.opts->policy ? r->job.opts->policy : luo_policy_find(p->name);
    r->decision.acting = r->job.policy;
    if (!r->job.policy) return unknown_policy(p->name, err);
    if (steps == seconds)
        return luo_err_set(err, LUO_EINPUT,
                           "`extent` has %s; exactly one of `steps` and "
                           "`duration_s` is expected.",
                           steps ? "both" : "neither");
    if (p->planner_measured && !r->job.opts->clock)
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` has `planner_time` `measured`, and there "
                           "is no clock here; use `fixed`.",
                           p->name);
    if (p->window_steps < 1 || p->window_steps > LUO_WINDOW_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` has `window_steps` %d; 1 to %d is "
                           "expected.",
                           p->name, p->window_steps, LUO_WINDOW_MAX);
    return LUO_OK;
}

luo_backend_config luo_run_config(const luo_run *r)
{
    const luo_scenario *sc = r->job.scenario;
    return (luo_backend_config){.cluster = sc->cluster,
                                .stack = &sc->stack,
                                .model = sc->model,
                                .dtype = luo_run_plan(&r->plans)->plan->dtype,
                                .options = r->job.opts->options,
                                .comm = r->job.opts->comm,
                                .fold = r->job.opts->fold,
                                .one_comm_stream = r->job.opts->one_comm_stream,
                                .compute_sigma = r->job.policy->bound ? 0 : sc->compute_sigma,
                                .comm_sigma = r->job.policy->bound ? 0 : sc->comm_sigma,
                                .seed = sc->seed,
                                .interrupted = r->job.opts->interrupted};
}

static luo_status open_backend(luo_run *r, luo_err *err)
{
    const luo_backend_config config = luo_run_config(r);
    luo_run_set_judge(r);
    LUO_TRY(r->backend.table->open(&config, &r->backend.state, err));
    r->clock.t0 = r->backend.table->now ? r->backend.table->now(r->backend.state) : 0;
    return r->job.real ? luo_real_begin(r, err) : LUO_OK;
}

static luo_status make_arrays(luo_run *r, luo_err *err)
{
    const int32_t n = r->job.scenario->cluster->ndevices;
    r->health.usable = LUO_NEW_N(r->arena, bool, n);
    r->health.was_usable = LUO_NEW_N(r->arena, bool, n);
    r->health.was_leaving = LUO_NEW_N(r->arena, bool, n);
    r->health.emptied = LUO_NEW_N(r->arena, bool, n);
    r->health.rate = LUO_NEW_N(r->arena, double, n);
    r->health.predicted = LUO_NEW_N(r->arena, double, n);
    r->ledger.nlinks = r->job.scenario->cluster->nlinks;
    r->ledger.links = LUO_NEW_N(r->arena, luo_link_use, r->ledger.nlinks);
    if (!r->health.usable || !r->health.was_usable || !r->health.was_leaving ||
        !r->health.emptied || !r->health.rate || !r->health.predicted || !r->ledger.links)
        return luo_err_nomem(err);
    luo_reach(r->job.scenario->cluster, luo_events_world(r->clock.events), r->health.usable);
    return LUO_OK;
}

static luo_status warn_of_links(luo_run *r, luo_err *err)
{
    bool links = false;
    for (int32_t i = 0; i < r->job.scenario->nevents; i++)
        links |= r->job.scenario->events[i].kind == LUO_EVENT_LINK ||
                 r->job.scenario->events[i].kind == LUO_EVENT_FLAP;
    if (!links || r->backend.table->caps & LUO_CAP_LINK_EVENTS) return LUO_OK;
    return luo_run_warn(r, err,
                        "backend `%s` does not slow links down; link events only break "
                        "them",
                        r->backend.table->name);
}

static luo_status check_work(luo_run *r, luo_err *err)
{
    const luo_scenario *sc = r->job.scenario;
    static const luo_work defaults = {0};
    const luo_work *most = r->job.opts->work ? r->job.opts->work : &defaults;
    const double span = sc->duration_s > 0 ? sc->duration_s : INFINITY;
    const double changes = luo_events_expected(r->clock.events, span);
    luo_events_set_work(r->clock.events, most);
    LUO_TRY(luo_work_check(most, LUO_WORK_EVENTS, sc->nevents, "the scenario has", err));
    LUO_TRY(luo_work_check(most, LUO_WORK_CHANGES, changes, "the scenario asks for", err));
    return luo_work_check(most, LUO_WORK_SEQUENCES, (double)sc->batch_sequences,
                          "the scenario has", err);
}

/* Steps that are named are traced or refused; else too large ones are left out (plans.c). */
static luo_status check_operations(const luo_run *r, luo_err *err)
{
    const int kind = (int)r->job.opts->trace.kind;
    if (kind != LUO_TRACE_ALL && kind != LUO_TRACE_LIST) return LUO_OK;
    return luo_work_check(r->job.opts->work, LUO_WORK_OPERATIONS,
                          luo_run_plan(&r->plans)->operations, "the plan has", err);
}

static luo_status check_ranks(const luo_run *r, luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    if (r->job.opts->ranks == 0 || u->ndev <= r->job.opts->ranks) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "plan %016" PRIx64 " has %d devices and there are %d "
                       "ranks; a larger `--ranks` is needed.",
                       u->hash, u->ndev, r->job.opts->ranks);
}

/* All that can be known before anything is started; `check` asks the same. */
static luo_status prepare(luo_run *r, luo_err *err)
{
    double ignored;
    LUO_TRY(check_options(r, err));
    LUO_TRY(luo_real_init(r, err));
    LUO_TRY(luo_events_new(r->arena, r->job.scenario, (luo_event_log){r, log_event},
                           &r->clock.events, err));
    LUO_TRY(check_work(r, err));
    LUO_TRY(luo_run_first_plan(r, err));
    LUO_TRY(check_ranks(r, err));
    LUO_TRY(check_operations(r, err));
    LUO_TRY(luo_detect_init(r->arena, r->job.scenario->cluster->ndevices, r->job.spec->window_steps,
                            r->job.spec->replan_gap, &r->health.detect, err));
    LUO_TRY(make_arrays(r, err));
    LUO_TRY(luo_sample_init(r, err));
    LUO_TRY(luo_oracle_init(r, err));
    LUO_TRY(luo_reentry_init(r, err));
    LUO_TRY(luo_run_check_policy(r, err));
    LUO_TRY(luo_account_init(r, err));
    LUO_TRY(luo_ckpt_init(r, err));
    const luo_used_plan *u = luo_run_plan(&r->plans);
    LUO_TRY(luo_run_making(r, u->set, true, &ignored, err)); /* before the run begins */
    luo_events_set_job(r->clock.events, u->dev, u->ndev);
    return warn_of_links(r, err);
}

/* ---- the loop ---- */

bool luo_run_is_over(const luo_run *r)
{
    if (r->job.scenario->steps > 0) return r->clock.step >= r->job.scenario->steps;
    return r->clock.t_s >= r->job.scenario->duration_s;
}

/* A change of lengths takes another program of the same plan; state stays where it is. */
static luo_status bind_lengths(luo_run *r, luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    const int64_t tokens = luo_run_tokens(r, u->plan);
    if (tokens == u->sequence_tokens) return LUO_OK;
    int32_t plan;
    LUO_TRY(luo_run_use_plan(r, u->plan, tokens, &plan, err));
    if (r->job.real) return luo_run_rebind(r, plan, err);
    r->plans.running = plan;
    r->health.has_predicted = false;
    return LUO_OK;
}

static luo_status boundary(luo_run *r, luo_err *err)
{
    const double before = r->clock.t_s;
    LUO_TRY(luo_events_step(r->clock.events, r->clock.step, r->clock.t_s, err));
    luo_run_trigger(r);
    if (luo_real_strikes(r)) return LUO_OK; /* the attempt fails, and is answered after it */
    LUO_TRY(luo_run_apply(r, err));
    if (r->clock.state != LUO_RUNNING || luo_run_is_over(r)) return LUO_OK;
    LUO_TRY(bind_lengths(r, err));
    if (r->decision.trigger & LUO_TRIGGER_FAIL)
        return luo_run_apply(r, err); /* it broke on the way */
    LUO_TRY(luo_ckpt_boundary(r, err));
    if (r->clock.t_s > before) LUO_TRY(luo_run_apply(r, err)); /* the world moved on meanwhile */
    return LUO_OK;
}

bool luo_run_interrupted(const luo_run_job *job)
{
    return job->opts->interrupted && *job->opts->interrupted;
}

static luo_status steps(luo_run *r, luo_err *err)
{
    while (!luo_run_is_over(r)) {
        if (luo_run_interrupted(&r->job)) {
            r->clock.state = LUO_INTERRUPTED;
            return LUO_OK;
        }
        LUO_TRY(boundary(r, err));
        if (r->clock.state != LUO_RUNNING) return LUO_OK;
        if (luo_run_is_over(r)) break;
        LUO_TRY(luo_run_step(r, err));
        if (r->clock.state != LUO_RUNNING) return LUO_OK;
        if (r->job.sink->boundary)
            LUO_TRY(r->job.sink->boundary(r->job.sink->ctx, r->clock.step, r->job.scenario->steps,
                                          r->clock.t_s, luo_events_fired(r->clock.events), err));
    }
    r->clock.state = LUO_COMPLETE;
    return luo_ckpt_last(r, err);
}

/* What is stopped in the middle of a step leaves no trace of that step. */
static luo_status loop(luo_run *r, luo_err *err)
{
    const luo_status st = steps(r, err);
    if (st != LUO_ECANCELED || !luo_run_interrupted(&r->job)) return st;
    r->clock.state = LUO_INTERRUPTED;
    return LUO_OK;
}

/* Compiled plans kept at once: whoever simulates forks this process, which takes the longer the
 * more it holds. */
static const int64_t PROGRAM_BYTES = INT64_C(256) << 20;

static luo_status begin(luo_run *r, const luo_scenario *scenario, int32_t policy,
                        const luo_run_opts *opts, const luo_sink *sink, luo_err *err)
{
    *r = (luo_run){.arena = luo_arena_new(1 << 20),
                   .scratch = luo_arena_new(1 << 16),
                   .job.scenario = scenario,
                   .job.spec = &scenario->policies[policy],
                   .job.opts = opts,
                   .job.sink = sink,
                   .backend.table = opts->backend,
                   .decision.cause = "",
                   .clock.last_event_step = -1,
                   .decision.memory_factor = 1,
                   .plans.program_bytes = PROGRAM_BYTES};
    return r->arena && r->scratch ? prepare(r, err) : luo_err_nomem(err);
}

static void end(luo_run *r)
{
    luo_judge_free(&r->decision.judge);
    luo_map_free(&r->decision.bound.fastest);
    luo_run_free_plans(&r->plans);
    luo_account_free(&r->ledger);
    luo_arena_free(r->scratch);
    luo_arena_free(r->arena);
}

luo_status luo_run_check(const luo_scenario *scenario, int32_t policy, const luo_run_opts *opts,
                         luo_err *err)
{
    static const luo_sink nobody = {0};
    luo_run r;
    const luo_status st = begin(&r, scenario, policy, opts, &nobody, err);
    end(&r);
    return st;
}

luo_status luo_run_policy(const luo_scenario *scenario, int32_t policy, const luo_run_opts *opts,
                          const luo_sink *sink, luo_err *err)
{
    luo_run r;
    luo_status st = begin(&r, scenario, policy, opts, sink, err);
    if (st == LUO_OK) st = open_backend(&r, err);
    if (st == LUO_OK) st = loop(&r, err);
    if (r.backend.state && st == LUO_OK)
        st = luo_report_end(&r, err);
    else if (r.backend.state && r.clock.state == LUO_FAILED)
        luo_report_end(&r, &(luo_err){0}); /* st tells why */
    if (r.backend.state) r.backend.table->close(r.backend.state);
    if (st == LUO_OK && r.clock.state == LUO_LOST)
        st = luo_err_set(err, LUO_ENO,
                         "policy `%s` lost the run in step %" PRId64 " at %.3f s; a "
                         "policy that survives failures is needed.",
                         r.job.spec->name, r.clock.step, r.clock.t_s);
    end(&r);
    return st;
}
