/* jobs.h: training jobs that share a cluster (docs/formats.md#jobs).
 *
 * Every job is a run of its own, with its own clock, beside a simulation of all of them; each is
 * also run alone, to compare with. The reader makes two policies of each job, `static` both: one
 * beside the others and one alone (luo_policy_spec.job, .alone). */
#ifndef LUO_CORE_RUN_JOBS_JOBS_H
#define LUO_CORE_RUN_JOBS_JOBS_H
#include "core/run/driver.h"

/* luo_backend_config.options of a luo_backend.jobs. Dates are seconds of the cluster's clock, on
 * which the first job begins at its `start_s`. */
typedef struct luo_jobs {
    const luo_scenario *scenario;
    int32_t own;                /* the job that is run */
    const luo_programs **set;   /* [njobs] */
    double *began_s, *ended_s;  /* [njobs] filled by the backend as it comes to know them, in their
                                   order; HUGE_VAL before */
    bool *told_began, *told_ended; /* [njobs] in events */
    int64_t steps; /* of `own`, as soon as the backend knows its end; INT64_MAX before */
    int64_t traced; /* so many steps may be asked for with a trace each time steps are simulated */
} luo_jobs;

/* Can jobs be run so? Errors: LUO_EINPUT the backend runs one job at a time, or collectives have no
 * contention (`--comm model`). */
luo_status luo_jobs_accepts(const luo_run_opts *opts, luo_err *err);

/* luo_run_policy and luo_run_check of a policy of a job. Pre: scenario->njobs > 0.
 * Errors: theirs, and those of luo_jobs_accepts. Cost: every job simulates all of them. */
luo_status luo_jobs_run_policy(const luo_scenario *scenario, int32_t policy,
                               const luo_run_opts *opts, const luo_sink *sink, luo_err *err);
luo_status luo_jobs_run_check(const luo_scenario *scenario, int32_t policy,
                              const luo_run_opts *opts, luo_err *err);

/* The dates that lie in the run of `own` until t_s of its clock, ascending and each told once, to
 * `tell`: another job has begun, or ended. One that runs when `own` begins has begun at 0. */
typedef luo_status luo_jobs_tell_fn(void *ctx, const char *job, bool ended, double t_s,
                                    luo_err *err);
luo_status luo_jobs_tell(luo_jobs *jobs, double t_s, luo_jobs_tell_fn *tell, void *ctx,
                         luo_err *err);
#endif
