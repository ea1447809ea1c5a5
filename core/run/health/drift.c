/* Small slow-downs (docs/planners.md#when-it-plans-again): none of them is a change of its own, but
 * together they make the plan slower by a tenth; or a device is slow that counts as healthy, and
 * makes it slower by a fiftieth. Then the medians of today count as accepted, and the policy is
 * asked.
 *
 * Event times are those of the running plan from the compute that was predicted for its last step:
 * only their ratio matters. Rates below the threshold are noise, as they are for planners. */
#include <math.h>

#include "core/plan/replan/replan.h"
#include "core/run/run.h"

static double rho(const luo_run_job *job, double rate)
{
    return rate < job->spec->threshold_slowdown ? 1 : rate;
}

static double known(const luo_run *run, int32_t d)
{
    return rho(&run->job, run->health.detect.accepted[d]);
}

static double today(const luo_run *run, int32_t d)
{
    return rho(&run->job, luo_detect_median(&run->health.detect, d));
}

/* The rate of today of a device that counted as healthy and is slow; of others the known one. Noise
 * does not lift a median over the threshold, but moves that of a slow device by some percent. */
static double fresh(const luo_run *run, int32_t d)
{
    return known(run, d) > 1 ? known(run, d) : today(run, d);
}

/* Without a device that is slower by as much the event times cannot be so far apart. */
static bool possible(const luo_run *run)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    for (int32_t i = 0; i < used->ndev; i++) {
        const int32_t d = used->dev[i];
        if (today(run, d) >= LUO_DRIFT_ALL * known(run, d) || fresh(run, d) > known(run, d))
            return true;
    }
    return false;
}

static luo_status event_time(luo_run *run, double (*rate)(const luo_run *, int32_t), double *out,
                             luo_err *err)
{
    const luo_plan *plan = luo_run_plan(&run->plans)->plan;
    luo_pipe_time *pipes = LUO_NEW_N(run->scratch, luo_pipe_time, plan->npipelines);
    if (!pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        double *t = LUO_NEW_N(run->scratch, double, pl->nstages);
        if (!t) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++)
            for (int32_t k = 0; k < pl->stages[s].ndev; k++) {
                const int32_t d = pl->stages[s].dev[k];
                t[s] = fmax(t[s], run->health.predicted[d] * rate(run, d) / pl->micro_batches);
            }
        pipes[i] = (luo_pipe_time){pl->nstages, t, pl->micro_batches};
    }
    const bool full = plan->pipelines[0].stages[0].recompute == LUO_RECOMPUTE_FULL;
    return luo_replan_event_time(run->scratch, pipes, plan->npipelines, full, out, err);
}

luo_status luo_run_drift_step(luo_run *run, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    double now_s = 1, fresh_s = 1, known_s = 1;
    if (!run->job.policy->plans || !run->health.has_predicted) return LUO_OK;
    if (possible(run)) {
        LUO_TRY(event_time(run, today, &now_s, err));
        LUO_TRY(event_time(run, fresh, &fresh_s, err));
        LUO_TRY(event_time(run, known, &known_s, err));
    }
    if (!luo_drift_push(&run->health.drift, now_s, fresh_s, known_s)) return LUO_OK;
    for (int32_t i = 0; i < used->ndev; i++)
        luo_detect_accept(&run->health.detect, used->dev[i],
                          luo_detect_median(&run->health.detect, used->dev[i]));
    run->decision.trigger |= LUO_TRIGGER_RATE;
    run->decision.cause = "";
    LUO_TRY(luo_run_note(&run->job, err,
                         "step %lld: drift: a step of %.6g s is expected and not %.6g s",
                         (long long)run->clock.step, fmax(now_s, fresh_s), known_s));
    return luo_run_event(run, LUO_EVENT_PHASE_DETECTED, "", "straggler", "", false, 0,
                         "drift of several devices", err);
}
