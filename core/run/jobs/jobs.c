/* jobs.c: a job of several as a scenario of its own, and the programs of all of them. */
#include "core/run/jobs/jobs.h"

#include <math.h>
#include <stdint.h>

#include "core/plan/compile.h"

/* What the driver knows of it: its model, its steps, its policy. */
static luo_scenario own_scenario(const luo_scenario *scenario, const luo_policy_spec *spec)
{
    luo_scenario own = *scenario;
    own.model = scenario->jobs[spec->job - 1].model;
    own.steps = scenario->jobs[spec->job - 1].steps;
    own.duration_s = own.steps > 0 ? 0 : scenario->jobs[spec->job - 1].duration_s;
    own.policies = spec;
    own.npolicies = 1;
    own.njobs = 0;
    return own;
}

luo_status luo_jobs_accepts(const luo_run_opts *opts, luo_err *err)
{
    if (!opts->backend->jobs)
        return luo_err_set(err, LUO_EINPUT,
                           "backend `%s` runs one job at a time; `luoshu sim` simulates `jobs`, "
                           "and a scenario with the model and the plan of one of them runs "
                           "that one.",
                           opts->backend->name);
    if (opts->comm == LUO_COMM_MODEL)
        return luo_err_set(err, LUO_EINPUT,
                           "with `--comm model` jobs would not meet on links; `flow` or `message` "
                           "is expected.");
    return LUO_OK;
}

/* As the driver compiles them (core/run/plans.c). */
static luo_status compile(luo_arena *arena, const luo_scenario *scenario, int32_t job,
                          const luo_programs **out, luo_err *err)
{
    luo_programs *set;
    luo_plan plan = *scenario->jobs[job].plan;
    plan.bucket = luo_bucketing_over(plan.bucket, scenario->stack.bucket);
    const luo_compile_opts opts = {.sequence_tokens = plan.sequence_tokens,
                                   .memory = luo_stack_memory(&scenario->stack)};
    const luo_status st = luo_plan_compile(arena, &plan, scenario->jobs[job].model,
                                           scenario->cluster, &opts, &set, err);
    if (st != LUO_OK) return luo_err_prefix(err, st, "job `%s`", scenario->jobs[job].name);
    *out = set;
    if (!set->staggered) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "plan `%s` of job `%s` has a staggered optimizer step, whose steps overlap; "
                       "one that ends each step is expected of `jobs`.",
                       plan.name, scenario->jobs[job].name);
}

static luo_status make_jobs(luo_arena *arena, const luo_scenario *scenario, int32_t own,
                            luo_jobs *out, luo_err *err)
{
    const int32_t n = scenario->njobs;
    *out = (luo_jobs){.scenario = scenario,
                      .own = own,
                      .set = LUO_NEW_N(arena, const luo_programs *, n),
                      .began_s = LUO_NEW_N(arena, double, n),
                      .ended_s = LUO_NEW_N(arena, double, n),
                      .told_began = LUO_NEW_N(arena, bool, n),
                      .told_ended = LUO_NEW_N(arena, bool, n)};
    if (!out->set || !out->began_s || !out->ended_s || !out->told_began || !out->told_ended)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        out->began_s[i] = out->ended_s[i] = HUGE_VAL;
        LUO_TRY(compile(arena, scenario, i, &out->set[i], err));
    }
    return LUO_OK;
}

/* By themselves the first two of a run are traced (core/run/attempt.c). */
static int64_t traced_steps(const luo_run_opts *opts, const luo_sink *sink)
{
    if (!sink->ops || opts->trace.kind == LUO_TRACE_NONE) return 0;
    return opts->trace.kind == LUO_TRACE_AUTO ? 2 : INT64_MAX;
}

luo_status luo_jobs_run_policy(const luo_scenario *scenario, int32_t policy,
                               const luo_run_opts *opts, const luo_sink *sink, luo_err *err)
{
    const luo_policy_spec *spec = &scenario->policies[policy];
    const luo_scenario own = own_scenario(scenario, spec);
    luo_run_opts how = *opts;
    luo_jobs jobs;
    LUO_TRY(luo_jobs_accepts(opts, err));
    if (spec->alone) return luo_run_policy(&own, 0, &how, sink, err);
    luo_arena *arena = luo_arena_new(1 << 20);
    if (!arena) return luo_err_nomem(err);
    how.backend = opts->backend->jobs;
    how.options = how.jobs = &jobs;
    luo_status st = make_jobs(arena, scenario, spec->job - 1, &jobs, err);
    jobs.traced = traced_steps(opts, sink);
    jobs.steps = INT64_MAX;
    if (st == LUO_OK) st = luo_run_policy(&own, 0, &how, sink, err);
    luo_arena_free(arena);
    return st;
}

luo_status luo_jobs_run_check(const luo_scenario *scenario, int32_t policy,
                              const luo_run_opts *opts, luo_err *err)
{
    const luo_policy_spec *spec = &scenario->policies[policy];
    const luo_scenario own = own_scenario(scenario, spec);
    const luo_programs *set;
    LUO_TRY(luo_jobs_accepts(opts, err));
    luo_arena *arena = luo_arena_new(1 << 20);
    if (!arena) return luo_err_nomem(err);
    luo_status st = compile(arena, scenario, spec->job - 1, &set, err);
    luo_arena_free(arena);
    return st == LUO_OK ? luo_run_check(&own, 0, opts, err) : st;
}

/* Of the dates that are not told the first; false: none until t_s. Who has ended before the run is
 * none of it, who has begun before it runs when it begins. */
static bool next_date(luo_jobs *jobs, double t_s, int32_t *job, bool *ended, double *at_s)
{
    const double begin = jobs->scenario->jobs[jobs->own].start_s;
    *at_s = HUGE_VAL;
    for (int32_t i = 0; i < jobs->scenario->njobs; i++) {
        const bool begun = jobs->told_began[i];
        const double at = begun ? jobs->ended_s[i] - begin : fmax(0, jobs->began_s[i] - begin);
        if (i == jobs->own || jobs->told_ended[i] || jobs->ended_s[i] < begin || at >= *at_s)
            continue;
        *job = i;
        *ended = begun;
        *at_s = at;
    }
    return *at_s <= t_s;
}

luo_status luo_jobs_tell(luo_jobs *jobs, double t_s, luo_jobs_tell_fn *tell, void *ctx,
                         luo_err *err)
{
    int32_t job = 0;
    bool ended = false;
    double at_s;
    while (next_date(jobs, t_s, &job, &ended, &at_s)) {
        *(ended ? &jobs->told_ended[job] : &jobs->told_began[job]) = true;
        LUO_TRY(tell(ctx, jobs->scenario->jobs[job].name, ended, at_s, err));
    }
    return LUO_OK;
}
