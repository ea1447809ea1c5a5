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
static luo_status shift(luo_run *run, const luo_change **changes, int32_t n, luo_err *err)
{
    const bool *member = luo_run_plan(&run->plans)->member;
    if (n == 0 || (run->clock.t0 == 0 && !run->job.real)) return LUO_OK;
    luo_change *shifted = LUO_NEW_N(run->scratch, luo_change, n);
    if (!shifted) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        luo_change *change = &shifted[i];
        *change = (*changes)[i];
        change->at_s += run->clock.t0;
        /* who does not take part fails silently: his process would take the others with it */
        change->hard = change->kind == LUO_CHANGE_DOWN && change->hard && member[change->target];
    }
    *changes = shifted;
    return LUO_OK;
}

static luo_status more(luo_ahead *ahead, double until_s, const luo_change **changes, int32_t *n,
                       luo_err *err)
{
    luo_run *run = ahead->run;
    const double wanted_s = until_s - run->clock.t0;
    double run_s = wanted_s;
    if (luo_run_interrupted(&run->job))
        return luo_err_set(err, LUO_ECANCELED, "the run was interrupted in step %lld.",
                           (long long)run->clock.step);
    LUO_TRY(luo_events_peek_on(run->clock.events, &run_s, changes, n, err));
    ahead->whole_s =
        run_s >= wanted_s ? fmax(until_s, run_s + run->clock.t0) : run_s + run->clock.t0;
    ahead->given += *n;
    LUO_TRY(luo_events_check_work(run->clock.events, ahead->given, err));
    return shift(run, changes, *n, err);
}

/* One look further, to to_s or as far as it gets. */
static luo_status append(luo_run *run, luo_ahead *ahead, double to_s, luo_step_request *request,
                         luo_err *err)
{
    const luo_change *change;
    int32_t n;
    LUO_TRY(more(ahead, to_s, &change, &n, err));
    luo_change *all = LUO_NEW_N(run->scratch, luo_change, request->nchanges + n);
    if (!all) return luo_err_nomem(err);
    if (request->nchanges > 0)
        memcpy(all, request->changes, (size_t)request->nchanges * sizeof *all);
    if (n > 0) memcpy(all + request->nchanges, change, (size_t)n * sizeof *all);
    request->changes = all;
    request->nchanges += n;
    return LUO_OK;
}

luo_status luo_run_look_ahead(luo_run *run, luo_ahead *ahead, luo_step_request *request,
                              luo_err *err)
{
    const double last = luo_run_plan(&run->plans)->step_s;
    const double span = last > 0 ? AHEAD * last : FIRST_STEP_S;
    const double to_s = run->clock.t_s + (run->job.real ? fmax(span, FIRST_STEP_S) : span);
    double until_s = to_s;
    LUO_TRY(
        luo_events_peek(run->clock.events, &until_s, &request->changes, &request->nchanges, err));
    *ahead = (luo_ahead){
        .whole_s = until_s + run->clock.t0, .more = more, .run = run, .given = request->nchanges};
    request->ahead = ahead;
    LUO_TRY(shift(run, &request->changes, request->nchanges, err));
    while (run->job.real && ahead->whole_s < to_s + run->clock.t0)
        LUO_TRY(append(run, ahead, to_s + run->clock.t0, request, err));
    return run->job.real ? append(run, ahead, run->clock.t0 + EVER_S, request, err) : LUO_OK;
}

/* Ranks were told up to whole_s; what came after that until the end acts from the end on. */
static luo_status warn_of_late(luo_run *run, const luo_ahead *ahead, double end_s, luo_err *err)
{
    double until_s = ahead->whole_s - run->clock.t0;
    const luo_change *change;
    int32_t n;
    LUO_TRY(luo_events_peek(run->clock.events, &until_s, &change, &n, err));
    while (until_s < ahead->whole_s - run->clock.t0) {
        until_s = ahead->whole_s - run->clock.t0;
        LUO_TRY(luo_events_peek_on(run->clock.events, &until_s, &change, &n, err));
    }
    until_s = end_s;
    LUO_TRY(luo_events_peek_on(run->clock.events, &until_s, &change, &n, err));
    if (n == 0) return LUO_OK;
    return luo_run_warn(run, err,
                        "step %lld lasted longer than its ranks were told the changes for; "
                        "%d or more changes of devices and links act from its end on",
                        (long long)run->clock.step, n);
}

/* Date of the failure of the device that ended what ended at end_s; -INFINITY: none. */
static luo_status find_failure(luo_run_clock *clock, int32_t device, double end_s, double *out,
                               luo_err *err)
{
    double until_s = end_s + SKEW_S;
    const luo_change *change;
    int32_t n;
    *out = -INFINITY;
    LUO_TRY(luo_events_peek(clock->events, &until_s, &change, &n, err));
    for (;;) {
        for (int32_t i = 0; i < n; i++)
            if (change[i].kind == LUO_CHANGE_DOWN && change[i].target == device) {
                *out = change[i].at_s;
                return LUO_OK;
            }
        if (until_s >= end_s + SKEW_S) return LUO_OK;
        until_s = end_s + SKEW_S;
        LUO_TRY(luo_events_peek_on(clock->events, &until_s, &change, &n, err));
    }
}

luo_status luo_run_end_of(luo_run *run, const luo_ahead *ahead, const luo_step_result *result,
                          luo_err *err)
{
    const int32_t d = result->failed_device;
    const double end_s = result->end_s - run->clock.t0;
    double fell_s = -INFINITY;
    if (result->status == LUO_EPEER && d >= 0 && luo_events_world(run->clock.events)->up[d])
        LUO_TRY(find_failure(&run->clock, d, end_s, &fell_s, err));
    run->clock.t_s = fmax(end_s, fell_s);
    return run->job.real && result->end_s > ahead->whole_s
               ? warn_of_late(run, ahead, run->clock.t_s, err)
               : LUO_OK;
}
