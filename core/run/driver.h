/* driver.h: the step loop: events, steps, detection, policy, switch, log
 * (ARCHITECTURE.md). The same for all backends. */
#ifndef LUO_CORE_RUN_DRIVER_H
#define LUO_CORE_RUN_DRIVER_H
#include "core/base/work.h"
#include "core/run/rows.h"
#include "core/run/scenario.h"

/* By itself a step of more than LARGE operations is traced once and around events: figures need no
 * more; of one of more than WHOLE a few devices are kept. OPS operations are kept of all steps
 * behind the first. */
enum { LUO_TRACE_WHOLE = 4000, LUO_TRACE_LARGE = 40000, LUO_TRACE_OPS = 50000 };

typedef struct luo_trace_steps { /* --trace-steps */
    enum { LUO_TRACE_AUTO, LUO_TRACE_NONE, LUO_TRACE_ALL, LUO_TRACE_LIST } kind;
    int32_t nranges;
    const luo_range *ranges; /* steps lo <= s < hi */
} luo_trace_steps;

typedef struct luo_run_opts {
    const luo_backend *backend;
    const struct luo_policy *policy; /* acts for the one that the scenario names; NULL: that one */
    const luo_backend *simulator; /* plans are ranked by its steps; NULL: by closed forms */
    luo_comm_mode comm;
    bool fold, one_comm_stream;
    luo_trace_steps trace;
    double limit_s;             /* wall clock; 0: none. Checked through `interrupted` only */
    const volatile int *interrupted; /* not 0: finish the row and end with state interrupted */
    double (*clock)(void); /* wall seconds, for `planner_time: measured`; NULL: that is refused */
    /* For backends with data: */
    const void *options;     /* of the backend, luo_backend_config.options */
    const char *checkpoints; /* their folder, named in sentences; NULL: none is known */
    bool resume;             /* begin with a checkpoint, at its step */
    bool answer_deaths;      /* policy static: a process that dies is answered by a restart on the
                                devices that are left, with their best uniform plan */
    int32_t max_restarts;    /* processes that may die without an event */
    const luo_work *work; /* limits of work; NULL: the defaults */
    bool range;    /* at the end of a simulated run: how sure its step is; some forty steps more */
    int32_t draws; /* with range: steps with drawn constants */
    int32_t ranks;           /* processes, and so devices of a plan, at most; 0: any */
    struct luo_jobs *jobs;   /* those beside which the run is one; NULL: none */
} luo_run_opts;

/* Runs scenario under policy number `policy`; rows go to sink as they arise. An event that no
 * policy survives ends the run with state `lost` and LUO_ENO.
 * Errors: LUO_EINFEASIBLE no plan; LUO_EOOM the plan does not fit (before anything runs);
 *         LUO_ESTUCK; LUO_EBACKEND; LUO_EINPUT; LUO_EIO from the sink; LUO_ENOMEM.
 * Memory: constant in the number of steps but for 8 bytes a step (quantiles). */
luo_status luo_run_policy(const luo_scenario *scenario, int32_t policy, const luo_run_opts *opts,
                          const luo_sink *sink, luo_err *err);

/* What luo_run_policy finds wrong before it opens the backend: options, targets of events, limits
 * of work, the first plan (made, checked, compiled, weighed), what the policy asks of it. Nothing
 * is started.
 * Errors: those of luo_run_policy. */
luo_status luo_run_check(const luo_scenario *scenario, int32_t policy, const luo_run_opts *opts,
                         luo_err *err);
#endif
