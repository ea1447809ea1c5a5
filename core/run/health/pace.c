/* How fast this machine is against the profile that predictions come from.
 *
 * A real backend measures processor seconds, and the profile may be of another machine. The first
 * LUO_PACE_STEPS good steps under a plan fix what a nominal device is here:
 * - profiles of kind `cpu` are taken to have the proportions right: one factor for all devices,
 * that of the median device, each against the rate it was last known to have. A device that is slow
 *   from the start is seen as slow;
 * - profiles of GPUs say little about the proportions between stages on processors: every device is
 *   held against itself, and one that is slow from the start is not seen.
 * Of the steps the fastest counts, since the first ones are cold; a device that turns out faster
 * than nominal was measured cold as well, and its factor is set right. The factor is fixed anew
 * under every plan: sizes and the number of busy cores change with it. Samples of the first steps
 * enter the detector when the factor is known, so that its windows are as full as they would be on
 * the simulator. */
#include <math.h>
#include <stdlib.h>

#include "core/base/stats.h"
#include "core/run/health/pace.h"

luo_status luo_pace_init(luo_run *run, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    run->health.pace.sample = LUO_NEW_N(run->arena, double, (int64_t)n *LUO_PACE_STEPS);
    run->health.pace.factor = LUO_NEW_N(run->arena, double, n);
    return run->health.pace.sample && run->health.pace.factor ? LUO_OK : luo_err_nomem(err);
}

/* The lower one; sorts. 1: nothing was measured. */
static double median(double *at, int32_t n)
{
    if (n <= 0) return 1;
    luo_stats_sort(at, n);
    return at[(n - 1) / 2];
}

double luo_pace_ratio(const luo_run *run, const luo_step_result *result, int32_t i)
{
    const int32_t d = luo_run_plan(&run->plans)->dev[i];
    if (result->predicted_s[i] <= 0) return -1;
    const double ratio = result->compute_s[i] / result->predicted_s[i];
    return run->job.real && run->health.pace.known ? ratio / run->health.pace.factor[d] : ratio;
}

double luo_pace_of_step(const luo_run *run, const luo_step_result *result)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    if (!run->job.real || run->health.pace.known) return 1;
    double *ratio = LUO_NEW_N(run->scratch, double, used->ndev);
    int32_t n = 0;
    for (int32_t i = 0; ratio && i < used->ndev; i++)
        if (luo_pace_ratio(run, result, i) > 0)
            ratio[n++] = luo_pace_ratio(run, result, i) / run->health.detect.accepted[used->dev[i]];
    return median(ratio, n);
}

void luo_pace_forget(luo_run_health *health)
{
    health->pace.known = false;
    health->pace.n = 0;
}

static double *sample(const luo_run_health *health, int32_t device)
{
    return health->pace.sample + (int64_t)device * LUO_PACE_STEPS;
}

/* The fastest step of a device against its last known rate; <= 0: nothing was predicted. */
static double fastest(const luo_run_health *health, int32_t device)
{
    double least = sample(health, device)[0];
    for (int32_t k = 1; k < LUO_PACE_STEPS; k++) least = fmin(least, sample(health, device)[k]);
    return least / health->detect.accepted[device];
}

static bool held_against_itself(const luo_run *run)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    for (int32_t i = 0; i < used->ndev; i++)
        if (!luo_cluster_profile(run->job.scenario->cluster, used->dev[i])->cpu) return true;
    return false;
}

static void fix_factors(luo_run *run)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    double *all = LUO_NEW_N(run->scratch, double, used->ndev);
    const bool own = held_against_itself(run);
    int32_t n = 0;
    for (int32_t i = 0; all && i < used->ndev; i++)
        if (fastest(&run->health, used->dev[i]) > 0) all[n++] = fastest(&run->health, used->dev[i]);
    const double shared = median(all, n);
    if (run->health.pace.first == 0) run->health.pace.first = shared;
    for (int32_t i = 0; i < used->ndev; i++) {
        const int32_t d = used->dev[i];
        run->health.pace.factor[d] =
            own && fastest(&run->health, d) > 0 ? fastest(&run->health, d) : shared;
        for (int32_t k = 0; k < LUO_PACE_STEPS; k++)
            sample(&run->health, d)[k] /= run->health.pace.factor[d];
    }
    run->health.pace.own = own;
    run->health.pace.known = true;
}

bool luo_pace_correct(luo_run *run, int32_t device)
{
    const double rate = run->health.detect.accepted[device];
    if (!run->job.real || rate >= 1) return false;
    run->health.pace.factor[device] *= rate;
    luo_detect_accept(&run->health.detect, device, 1);
    return true;
}

bool luo_pace_take(luo_run *run, const luo_step_result *result)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    for (int32_t i = 0; i < used->ndev; i++)
        sample(&run->health, used->dev[i])[run->health.pace.n] = luo_pace_ratio(run, result, i);
    if (++run->health.pace.n < LUO_PACE_STEPS) return false;
    fix_factors(run);
    return true;
}
