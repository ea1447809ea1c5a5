/* Devices outside the plan, and when they may hold layers again
 * (docs/planners.md#when-it-plans-again (c), (d) and back-off; 13): when one of them may, the
 * policy is asked. */
#include "core/run/run.h"

enum { SOON_STEPS = 100, LEAST_PROBES = 10, MOST_PROBES = 160 };

luo_status luo_reentry_init(luo_run *r, luo_err *err)
{
    const int32_t n = r->sc->cluster->ndevices;
    luo_reentry *t = &r->reentry;
    t->candidate = LUO_NEW_N(r->arena, bool, n);
    t->outside = LUO_NEW_N(r->arena, luo_outside, n);
    if (!t->candidate || !t->outside) return luo_err_nomem(err);
    luo_reentry_plan(r, luo_run_plan(r), luo_run_plan(r));
    return LUO_OK;
}

/* Those of the plan are candidates as long as they are usable; others need to be healthy, and as
 * many good probes in a row as their past demands. */
static bool may_hold_layers(const luo_run *r, int32_t d)
{
    const luo_outside *o = &r->reentry.outside[d];
    if (!r->usable[d] || luo_run_plan(r)->member[d]) return r->usable[d];
    return r->detect.accepted[d] < r->spec->threshold_slowdown && o->good >= o->need;
}

static void look(luo_run *r, int32_t d)
{
    bool *candidate = &r->reentry.candidate[d];
    const bool now = may_hold_layers(r, d);
    if (now && !*candidate && !luo_run_plan(r)->member[d]) r->trigger |= LUO_TRIGGER_JOIN;
    *candidate = now;
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
    for (int32_t d = 0; d < r->sc->cluster->ndevices; d++) {
        luo_outside *o = &r->reentry.outside[d];
        const bool slow = r->detect.accepted[d] >= r->spec->threshold_slowdown;
        if (was->member[d] && !now->member[d] && r->usable[d] && slow) suspend(o, r->step);
        if (!was->member[d] && now->member[d]) o->entered = r->step;
        r->reentry.candidate[d] = may_hold_layers(r, d);
    }
}

void luo_reentry_change(luo_run *r, int32_t device)
{
    luo_outside *o = &r->reentry.outside[device];
    o->good = 0;
    if (o->need < r->spec->reentry_probes) o->need = r->spec->reentry_probes;
    look(r, device);
}

void luo_reentry_probe(luo_run *r, int32_t device, double sample)
{
    luo_outside *o = &r->reentry.outside[device];
    o->good = sample < r->spec->threshold_slowdown ? o->good + 1 : 0;
    look(r, device);
}
