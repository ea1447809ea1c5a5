/* Devices outside the plan, and when they may hold layers again
 * (docs/planners.md#when-it-plans-again (c), (d) and back-off; 13): when one of them may, the
 * policy is asked. */
#include "core/run/run.h"

enum { SOON_STEPS = 100, LEAST_PROBES = 10, MOST_PROBES = 160 };

luo_status luo_reentry_init(luo_run *run, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    luo_reentry *reentry = &run->health.reentry;
    reentry->candidate = LUO_NEW_N(run->arena, bool, n);
    reentry->outside = LUO_NEW_N(run->arena, luo_outside, n);
    if (!reentry->candidate || !reentry->outside) return luo_err_nomem(err);
    luo_reentry_plan(run, luo_run_plan(&run->plans), luo_run_plan(&run->plans));
    return LUO_OK;
}

/* Healthy, with as many good probes in a row as its past demands. */
static bool is_back(const luo_run *run, int32_t d)
{
    const luo_outside *outside = &run->health.reentry.outside[d];
    return run->health.usable[d] &&
           run->health.detect.accepted[d] < run->job.spec->threshold_slowdown &&
           outside->good >= outside->need;
}

/* Those of the plan are candidates as long as they are usable. A device that was put out is one
 * with its slow rate, as it was when it was put out: what is best may have become another plan.
 * Not one that came back once and was put out again soon. */
static bool may_hold_layers(const luo_run *run, int32_t d)
{
    const luo_outside *outside = &run->health.reentry.outside[d];
    if (!run->health.usable[d] || luo_run_plan(&run->plans)->member[d])
        return run->health.usable[d];
    const bool slow = run->health.detect.accepted[d] >= run->job.spec->threshold_slowdown;
    return is_back(run, d) || (slow && outside->suspended && outside->backoff == 0);
}

static void look(luo_run *run, int32_t d)
{
    luo_outside *outside = &run->health.reentry.outside[d];
    const bool back = is_back(run, d);
    if (back && !outside->back && !luo_run_plan(&run->plans)->member[d])
        run->decision.trigger |= LUO_TRIGGER_JOIN;
    outside->back = back;
    run->health.reentry.candidate[d] = may_hold_layers(run, d);
}

/* Back-off: who is suspended again soon after coming back has to show more the next time. */
static void suspend(luo_outside *outside, int64_t step)
{
    const bool again = outside->suspended && step - outside->entered <= SOON_STEPS;
    outside->backoff = !again ? 0 : outside->backoff == 0 ? LEAST_PROBES : 2 * outside->backoff;
    if (outside->backoff > MOST_PROBES) outside->backoff = MOST_PROBES;
    outside->need = outside->backoff;
    outside->good = 0;
    outside->suspended = true;
}

void luo_reentry_plan(luo_run *run, const luo_used_plan *was, const luo_used_plan *now)
{
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) {
        luo_outside *outside = &run->health.reentry.outside[d];
        const bool slow = run->health.detect.accepted[d] >= run->job.spec->threshold_slowdown;
        if (was->member[d] && !now->member[d] && run->health.usable[d] && slow)
            suspend(outside, run->clock.step);
        if (!was->member[d] && now->member[d]) outside->entered = run->clock.step;
        outside->back = is_back(run, d);
        run->health.reentry.candidate[d] = may_hold_layers(run, d);
    }
}

void luo_reentry_change(luo_run *run, int32_t device)
{
    luo_outside *outside = &run->health.reentry.outside[device];
    outside->good = 0;
    if (outside->need < run->job.spec->reentry_probes)
        outside->need = run->job.spec->reentry_probes;
    look(run, device);
}

void luo_reentry_probe(luo_run *run, int32_t device, double sample)
{
    luo_outside *outside = &run->health.reentry.outside[device];
    outside->good = sample < run->job.spec->threshold_slowdown ? outside->good + 1 : 0;
    run->health.reentry.waiting += outside->good > 0 && outside->good < outside->need;
    look(run, device);
}
