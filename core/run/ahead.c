/* What will change while a step or a move lasts. How long that is, nobody knows before; so the
 * backend is given a first list and asks for more as far as it gets. */
#include <math.h>
#include <string.h>

#include "core/run/run.h"

static const double SKEW_S = 0.1; /* between clocks of one run's machines */

/* The first list reaches this many times the last step. Ranks of other processes are told once,
 * before the step begins, so for them it reaches an hour at least, and from there on as far as one
 * more look gets, LUO_AHEAD_MAX changes or thirty years. A step of more than an hour with more
 * changes than that is the one case in which changes can act late, and that is said. */
enum { AHEAD = 4, FIRST_STEP_S = 3600, EVER_S = 1000000000 };

/* Dated in the backend's clock. */
static luo_status shift(luo_run *r, const luo_change **changes, int32_t n, luo_err *err)
{
    const bool *member = luo_run_plan(&r->plans)->member;
    if (n == 0 || (r->clock.t0 == 0 && !r->job.real)) return LUO_OK;
    luo_change *shifted = LUO_NEW_N(r->scratch, luo_change, n);
    if (!shifted) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        luo_change *c = &shifted[i];
        *c = (*changes)[i];
        c->at_s += r->clock.t0;
        /* who does not take part fails silently: his process would take the others with it */
        c->hard = c->kind == LUO_CHANGE_DOWN && c->hard && member[c->target];
    }
    *changes = shifted;
    return LUO_OK;
}

static luo_status more(luo_ahead *a, double until_s, const luo_change **changes, int32_t *n,
                       luo_err *err)
{
    luo_run *r = a->run;
    const double wanted_s = until_s - r->clock.t0;
    double run_s = wanted_s;
    if (luo_run_interrupted(&r->job))
        return luo_err_set(err, LUO_ECANCELED, "the run was interrupted in step %lld.",
                           (long long)r->clock.step);
    LUO_TRY(luo_events_peek_on(r->clock.events, &run_s, changes, n, err));
    a->whole_s = run_s >= wanted_s ? fmax(until_s, run_s + r->clock.t0) : run_s + r->clock.t0;
    a->given += *n;
    LUO_TRY(luo_events_check_work(r->clock.events, a->given, err));
    return shift(r, changes, *n, err);
}

/* One look further, to to_s or as far as it gets. */
static luo_status append(luo_run *r, luo_ahead *a, double to_s, luo_step_request *q, luo_err *err)
{
    const luo_change *c;
    int32_t n;
    LUO_TRY(more(a, to_s, &c, &n, err));
    luo_change *all = LUO_NEW_N(r->scratch, luo_change, q->nchanges + n);
    if (!all) return luo_err_nomem(err);
    if (q->nchanges > 0) memcpy(all, q->changes, (size_t)q->nchanges * sizeof *all);
    if (n > 0) memcpy(all + q->nchanges, c, (size_t)n * sizeof *all);
    q->changes = all;
    q->nchanges += n;
    return LUO_OK;
}

luo_status luo_run_look_ahead(luo_run *r, luo_ahead *a, luo_step_request *q, luo_err *err)
{
    const double last = luo_run_plan(&r->plans)->step_s;
    const double span = last > 0 ? AHEAD * last : FIRST_STEP_S;
    const double to_s = r->clock.t_s + (r->job.real ? fmax(span, FIRST_STEP_S) : span);
    double until_s = to_s;
    LUO_TRY(luo_events_peek(r->clock.events, &until_s, &q->changes, &q->nchanges, err));
    *a =
        (luo_ahead){.whole_s = until_s + r->clock.t0, .more = more, .run = r, .given = q->nchanges};
    q->ahead = a;
    LUO_TRY(shift(r, &q->changes, q->nchanges, err));
    while (r->job.real && a->whole_s < to_s + r->clock.t0)
        LUO_TRY(append(r, a, to_s + r->clock.t0, q, err));
    return r->job.real ? append(r, a, r->clock.t0 + EVER_S, q, err) : LUO_OK;
}

/* Ranks were told up to whole_s; what came after that until the end acts from the end on. */
static luo_status warn_of_late(luo_run *r, const luo_ahead *a, double end_s, luo_err *err)
{
    double until_s = a->whole_s - r->clock.t0;
    const luo_change *c;
    int32_t n;
    LUO_TRY(luo_events_peek(r->clock.events, &until_s, &c, &n, err));
    while (until_s < a->whole_s - r->clock.t0) {
        until_s = a->whole_s - r->clock.t0;
        LUO_TRY(luo_events_peek_on(r->clock.events, &until_s, &c, &n, err));
    }
    until_s = end_s;
    LUO_TRY(luo_events_peek_on(r->clock.events, &until_s, &c, &n, err));
    if (n == 0) return LUO_OK;
    return luo_run_warn(r, err,
                        "step %lld lasted longer than its ranks were told the changes for; "
                        "%d or more changes of devices and links act from its end on",
                        (long long)r->clock.step, n);
}

/* Date of the failure of the device that ended what ended at end_s; -INFINITY: none. */
static luo_status find_failure(luo_run_clock *clock, int32_t device, double end_s, double *out,
                               luo_err *err)
{
    double until_s = end_s + SKEW_S;
    const luo_change *c;
    int32_t n;
    *out = -INFINITY;
    LUO_TRY(luo_events_peek(clock->events, &until_s, &c, &n, err));
    for (;;) {
        for (int32_t i = 0; i < n; i++)
            if (c[i].kind == LUO_CHANGE_DOWN && c[i].target == device) {
                *out = c[i].at_s;
                return LUO_OK;
            }
        if (until_s >= end_s + SKEW_S) return LUO_OK;
        until_s = end_s + SKEW_S;
        LUO_TRY(luo_events_peek_on(clock->events, &until_s, &c, &n, err));
    }
}

luo_status luo_run_end_of(luo_run *r, const luo_ahead *a, const luo_step_result *s, luo_err *err)
{
    const int32_t d = s->failed_device;
    const double end_s = s->end_s - r->clock.t0;
    double fell_s = -INFINITY;
    if (s->status == LUO_EPEER && d >= 0 && luo_events_world(r->clock.events)->up[d])
        LUO_TRY(find_failure(&r->clock, d, end_s, &fell_s, err));
    r->clock.t_s = fmax(end_s, fell_s);
    return r->job.real && s->end_s > a->whole_s ? warn_of_late(r, a, r->clock.t_s, err) : LUO_OK;
}
