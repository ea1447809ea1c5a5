/* Devices outside the plan, and when they may hold layers again
 * (docs/planners.md#when-it-plans-again (c), (d) and back-off; 13): when one of them may, the
 * policy is asked. */
#include "core/run/run.h"

enum { SOON_STEPS = 100, LEAST_PROBES = 10, MOST_PROBES = 160 };

luo_status luo_reentry_init(luo_run *r, luo_err *err)
{
    const int32_t n = r->job.scenario->cluster->ndevices;
    luo_reentry *t = &r->health.reentry;
    t->candidate = LUO_NEW_N(r->arena, bool, n);
    t->outside = LUO_NEW_N(r->arena, luo_outside, n);
    if (!t->candidate || !t->outside) return luo_err_nomem(err);
    luo_reentry_plan(r, luo_run_plan(&r->plans), luo_run_plan(&r->plans));
    return LUO_OK;
}

/* Healthy, with as many good probes in a row as its past demands. */
static bool is_back(const luo_run *r, int32_t d)
{
    const luo_outside *o = &r->health.reentry.outside[d];
    return r->health.usable[d] && r->health.detect.accepted[d] < r->job.spec->threshold_slowdown &&
           o->good >= o->need;
}

/* Those of the plan are candidates as long as they are usable. A device that was put out is one
 * with its slow rate, as it was when it was put out: what is best may have become another plan.
 * Not one that came back once and was put out again soon. */
static bool may_hold_layers(const luo_run *r, int32_t d)
{
    const luo_outside *o = &r->health.reentry.outside[d];
    if (!r->health.usable[d] || luo_run_plan(&r->plans)->member[d]) return r->health.usable[d];
    const bool slow = r->health.detect.accepted[d] >= r->job.spec->threshold_slowdown;
    return is_back(r, d) || (slow && o->suspended && o->backoff == 0);
}

static void look(luo_run *r, int32_t d)
{
    luo_outside *o = &r->health.reentry.outside[d];
    const bool back = is_back(r, d);
    if (back && !o->back && !luo_run_plan(&r->plans)->member[d])
        r->decision.trigger |= LUO_TRIGGER_JOIN;
    o->back = back;
    r->health.reentry.candidate[d] = may_hold_layers(r, d);
}

/* Back-off: who is suspended again soon after coming back has to show more the next time. */
static void suspend(luo_outside *o, int64_t step)
{
    const bool again = o->suspended && step - o->entered <= SOON_STEPS;
    o->backoff = !again ? 0 : o->backoff == 0 ? LEAST_PROBES : 2 * o->backoff;
    if (o->backoff > MOST_PROBES) o->backoff = MOST_PROBES;
    o->need = o->backoff;
    o->good = 0;
    o->suspended = true;
}

void luo_reentry_plan(luo_run *r, const luo_used_plan *was, const luo_used_plan *now)
{
    for (int32_t d = 0; d < r->job.scenario->cluster->ndevices; d++) {
        luo_outside *o = &r->health.reentry.outside[d];
        const bool slow = r->health.detect.accepted[d] >= r->job.spec->threshold_slowdown;
        if (was->member[d] && !now->member[d] && r->health.usable[d] && slow)
            suspend(o, r->clock.step);
        if (!was->member[d] && now->member[d]) o->entered = r->clock.step;
        o->back = is_back(r, d);
        r->health.reentry.candidate[d] = may_hold_layers(r, d);
    }
}

void luo_reentry_change(luo_run *r, int32_t device)
{
    luo_outside *o = &r->health.reentry.outside[device];
    o->good = 0;
    if (o->need < r->job.spec->reentry_probes) o->need = r->job.spec->reentry_probes;
    look(r, device);
}

void luo_reentry_probe(luo_run *r, int32_t device, double sample)
{
    luo_outside *o = &r->health.reentry.outside[device];
    o->good = sample < r->job.spec->threshold_slowdown ? o->good + 1 : 0;
    look(r, device);
}
