/* What a step tells of the speed of devices (docs/planners.md#measuring-rates-in-a-run): the
 * devices of the plan by their own compute over what was predicted, the others by a probe.
 *
 * Discarded are the samples of the first step after a plan change and of a step that begins with a
 * checkpoint: state is copied then. Of steps that all begin with one every second is used, or
 * nothing would ever be seen.
 * A probe of the simulator is PROBES timed products over the same at the start; the products have
 * the noise of other computations. Real backends have no process to probe with that is not in the
 * plan: what is known to be injected counts as measured there. */
#include <math.h>
#include <stdio.h>

#include "core/run/health/pace.h"

enum { PROBES = 20, BASE_ROUNDS = 4 };
static const double ODD_FROM_START = 0.10; /* off the mean of its type */

/* ---- probes ---- */

static double noise(luo_run *run, int32_t device, int32_t n)
{
    const double sigma = run->job.scenario->compute_sigma;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += exp(sigma * luo_rng_normal(&run->health.probe[device]) - sigma * sigma / 2);
    return sum / n;
}

static double probe(luo_run *run, int32_t device)
{
    const double slowdown = luo_events_world(run->clock.events)->slowdown[device];
    return run->health.probe
               ? slowdown * noise(run, device, PROBES) / run->health.probe_base[device]
               : slowdown;
}

/* Devices whose first probe is off the mean of their type
 * (docs/planners.md#measuring-rates-in-a-run). */
static luo_status odd_ones(luo_run *run, luo_err *err)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    const luo_world *world = luo_events_world(run->clock.events);
    double *sum = LUO_NEW_N(run->scratch, double, cluster->ngroups);
    int32_t *n = LUO_NEW_N(run->scratch, int32_t, cluster->ngroups);
    if (!sum || !n) return luo_err_nomem(err);
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        if (!world->up[d]) continue;
        sum[cluster->devices[d].group] += world->slowdown[d];
        n[cluster->devices[d].group]++;
    }
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        const double mean = sum[cluster->devices[d].group] / n[cluster->devices[d].group];
        if (world->up[d] && fabs(world->slowdown[d] / mean - 1) > ODD_FROM_START)
            LUO_TRY(luo_run_note(&run->job, err,
                                 "device %d: heterogeneous from start: %.6f of the mean of "
                                 "its group",
                                 d, world->slowdown[d] / mean));
    }
    luo_arena_reset(run->scratch, 0);
    return LUO_OK;
}

luo_status luo_run_sample_init(luo_run *run, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    LUO_TRY(odd_ones(run, err));
    if (run->job.real || run->job.scenario->compute_sigma <= 0) return LUO_OK;
    run->health.probe = LUO_NEW_N(run->arena, luo_rng, n);
    run->health.probe_base = LUO_NEW_N(run->arena, double, n);
    if (!run->health.probe || !run->health.probe_base) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) {
        char name[32];
        snprintf(name, sizeof name, "probe#%d", d);
        run->health.probe[d] = luo_rng_stream(run->job.scenario->seed, name);
        run->health.probe_base[d] = noise(run, d, BASE_ROUNDS * PROBES);
    }
    return LUO_OK;
}

/* ---- samples ---- */

static luo_status take(luo_run *run, int32_t device, double sample, luo_err *err)
{
    luo_rate_change change;
    if (sample <= 0 || !luo_detect_push(&run->health.detect, device, sample, &change))
        return LUO_OK;
    if (!luo_run_plan(&run->plans)->member[device])
        return LUO_OK; /* reentry.c asks when it is good enough */
    const bool corrected = luo_pace_correct(run, device);
    change.now = run->health.detect.accepted[device];
    if (corrected && change.was <= 1)
        return luo_run_note(&run->job, err,
                            "step %lld: device %d: nominal is %.6f of what was thought",
                            (long long)run->clock.step, device, change.now);
    run->decision.trigger |= LUO_TRIGGER_RATE;
    return luo_run_score_rate(run, device, &change, err);
}

/* q: per device of the plan. */
static luo_status take_all(luo_run *run, const double *q, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const luo_world *world = luo_events_world(run->clock.events);
    double *scratch = LUO_NEW_N(run->scratch, double, used->ndev);
    if (!scratch) return luo_err_nomem(err);
    const double common = luo_detect_common(&run->health.detect, used->dev, q, used->ndev, scratch);
    for (int32_t i = 0; i < used->ndev; i++)
        if (world->up[used->dev[i]]) LUO_TRY(take(run, used->dev[i], q[i] / common, err));
    return LUO_OK;
}

/* With real time the samples of the first steps wait until the pace of the machine is known. */
static luo_status take_members(luo_run *run, const luo_step_result *result, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    double *q = LUO_NEW_N(run->scratch, double, used->ndev);
    if (!q) return luo_err_nomem(err);
    if (!run->job.real || run->health.pace.known) {
        for (int32_t i = 0; i < used->ndev; i++) q[i] = luo_pace_ratio(run, result, i);
        return take_all(run, q, err);
    }
    if (!luo_pace_take(run, result)) return LUO_OK;
    for (int32_t k = 0; k < LUO_PACE_STEPS; k++) {
        for (int32_t i = 0; i < used->ndev; i++)
            q[i] = run->health.pace.sample[(int64_t)used->dev[i] * LUO_PACE_STEPS + k];
        LUO_TRY(take_all(run, q, err));
    }
    return LUO_OK;
}

static bool wanted(luo_run *run)
{
    const bool write = run->ledger.ckpt.writes != run->health.sampled_writes;
    const bool first = run->health.discard;
    run->health.sampled_writes = run->ledger.ckpt.writes;
    run->health.discard = false;
    if (first) return false;
    run->health.skipped = write && !run->health.skipped;
    return !run->health.skipped;
}

/* Equal samples beyond those that fill a device's ring move no median, and make no candidate of
 * one that was none; a few more are left for what is confirmed by one sample, or by a drift. */
static bool tells_nothing(luo_run *run)
{
    const luo_detect *detect = &run->health.detect;
    const int64_t happenings = luo_events_happenings(run->clock.events);
    if (run->job.real || run->health.probe || run->health.alike.happenings != happenings ||
        run->health.alike.accepts != detect->accepts)
        run->health.alike.n = 0;
    run->health.alike.happenings = happenings;
    run->health.alike.accepts = detect->accepts;
    return run->health.alike.n++ > 2 * detect->window + 2 * LUO_DRIFT_STEPS &&
           run->health.reentry.waiting == 0;
}

luo_status luo_run_sample_step(luo_run *run, const luo_step_result *result, bool repeats,
                               luo_err *err)
{
    const luo_world *world = luo_events_world(run->clock.events);
    if (!repeats) run->health.alike.n = 0;
    if (run->job.policy->bound || !wanted(run) || tells_nothing(run)) return LUO_OK;
    LUO_TRY(take_members(run, result, err));
    run->health.reentry.waiting = 0;
    for (int32_t d = 0; d < world->ndevices; d++) {
        if (!world->up[d] || luo_run_plan(&run->plans)->member[d]) continue;
        const double q = probe(run, d);
        LUO_TRY(take(run, d, q, err));
        luo_reentry_probe(run, d, q);
    }
    return luo_run_drift_step(run, err);
}
