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

#include "core/run/run.h"

enum { PROBES = 20, BASE_ROUNDS = 4 };
static const double ODD_FROM_START = 0.10; /* off the mean of its type */

/* ---- probes ---- */

static double noise(luo_run *r, int32_t device, int32_t n)
{
    const double sigma = r->job.scenario->compute_sigma;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += exp(sigma * luo_rng_normal(&r->health.probe[device]) - sigma * sigma / 2);
    return sum / n;
}

static double probe(luo_run *r, int32_t device)
{
    const double slowdown = luo_events_world(r->clock.events)->slowdown[device];
    return r->health.probe ? slowdown * noise(r, device, PROBES) / r->health.probe_base[device]
                           : slowdown;
}

/* Devices whose first probe is off the mean of their type
 * (docs/planners.md#measuring-rates-in-a-run). */
static luo_status odd_ones(luo_run *r, luo_err *err)
{
    const luo_cluster *c = r->job.scenario->cluster;
    const luo_world *w = luo_events_world(r->clock.events);
    double *sum = LUO_NEW_N(r->scratch, double, c->ngroups);
    int32_t *n = LUO_NEW_N(r->scratch, int32_t, c->ngroups);
    if (!sum || !n) return luo_err_nomem(err);
    for (int32_t d = 0; d < c->ndevices; d++) {
        if (!w->up[d]) continue;
        sum[c->devices[d].group] += w->slowdown[d];
        n[c->devices[d].group]++;
    }
    for (int32_t d = 0; d < c->ndevices; d++) {
        const double mean = sum[c->devices[d].group] / n[c->devices[d].group];
        if (w->up[d] && fabs(w->slowdown[d] / mean - 1) > ODD_FROM_START)
            LUO_TRY(luo_run_note(&r->job, err,
                                 "device %d: heterogeneous from start: %.6f of the mean of "
                                 "its group",
                                 d, w->slowdown[d] / mean));
    }
    luo_arena_reset(r->scratch, 0);
    return LUO_OK;
}

luo_status luo_sample_init(luo_run *r, luo_err *err)
{
    const int32_t n = r->job.scenario->cluster->ndevices;
    LUO_TRY(odd_ones(r, err));
    if (r->job.real || r->job.scenario->compute_sigma <= 0) return LUO_OK;
    r->health.probe = LUO_NEW_N(r->arena, luo_rng, n);
    r->health.probe_base = LUO_NEW_N(r->arena, double, n);
    if (!r->health.probe || !r->health.probe_base) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) {
        char name[32];
        snprintf(name, sizeof name, "probe#%d", d);
        r->health.probe[d] = luo_rng_stream(r->job.scenario->seed, name);
        r->health.probe_base[d] = noise(r, d, BASE_ROUNDS * PROBES);
    }
    return LUO_OK;
}

/* ---- samples ---- */

static luo_status take(luo_run *r, int32_t device, double sample, luo_err *err)
{
    luo_rate_change c;
    if (sample <= 0 || !luo_detect_push(&r->health.detect, device, sample, &c)) return LUO_OK;
    if (!luo_run_plan(&r->plans)->member[device])
        return LUO_OK; /* reentry.c asks when it is good enough */
    const bool corrected = luo_pace_correct(r, device);
    c.now = r->health.detect.accepted[device];
    if (corrected && c.was <= 1)
        return luo_run_note(&r->job, err,
                            "step %lld: device %d: nominal is %.6f of what was thought",
                            (long long)r->clock.step, device, c.now);
    r->decision.trigger |= LUO_TRIGGER_RATE;
    return luo_score_rate(r, device, &c, err);
}

/* q: per device of the plan. */
static luo_status take_all(luo_run *r, const double *q, luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    const luo_world *w = luo_events_world(r->clock.events);
    double *scratch = LUO_NEW_N(r->scratch, double, u->ndev);
    if (!scratch) return luo_err_nomem(err);
    const double common = luo_detect_common(&r->health.detect, u->dev, q, u->ndev, scratch);
    for (int32_t i = 0; i < u->ndev; i++)
        if (w->up[u->dev[i]]) LUO_TRY(take(r, u->dev[i], q[i] / common, err));
    return LUO_OK;
}

/* With real time the samples of the first steps wait until the pace of the machine is known. */
static luo_status take_members(luo_run *r, const luo_step_result *s, luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    double *q = LUO_NEW_N(r->scratch, double, u->ndev);
    if (!q) return luo_err_nomem(err);
    if (!r->job.real || r->health.pace.known) {
        for (int32_t i = 0; i < u->ndev; i++) q[i] = luo_pace_ratio(r, s, i);
        return take_all(r, q, err);
    }
    if (!luo_pace_take(r, s)) return LUO_OK;
    for (int32_t k = 0; k < LUO_PACE_STEPS; k++) {
        for (int32_t i = 0; i < u->ndev; i++)
            q[i] = r->health.pace.sample[(int64_t)u->dev[i] * LUO_PACE_STEPS + k];
        LUO_TRY(take_all(r, q, err));
    }
    return LUO_OK;
}

static bool wanted(luo_run *r)
{
    const bool write = r->ledger.ckpt.writes != r->health.sampled_writes;
    const bool first = r->health.discard;
    r->health.sampled_writes = r->ledger.ckpt.writes;
    r->health.discard = false;
    if (first) return false;
    r->health.skipped = write && !r->health.skipped;
    return !r->health.skipped;
}

luo_status luo_sample_step(luo_run *r, const luo_step_result *s, luo_err *err)
{
    const luo_world *w = luo_events_world(r->clock.events);
    if (r->job.policy->bound || !wanted(r)) return LUO_OK;
    LUO_TRY(take_members(r, s, err));
    for (int32_t d = 0; d < w->ndevices; d++) {
        if (!w->up[d] || luo_run_plan(&r->plans)->member[d]) continue;
        const double q = probe(r, d);
        LUO_TRY(take(r, d, q, err));
        luo_reentry_probe(r, d, q);
    }
    return luo_drift_step(r, err);
}
