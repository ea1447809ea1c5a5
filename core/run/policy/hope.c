/* Waiting for what a plan needs: is there hope, and when to ask again?
 *
 * Hope is what the policy itself says of the best snapshot there can still be: everything up that
 * can come back. So an event that brings nothing back is no hope, however often it comes, and
 * neither is a device that comes back where that is not enough. Two things are taken for granted,
 * as they hold for all policies: more devices never make a plan impossible, and slowness alone
 * never does (slow devices are everybody's last resort), so that the end of a straggler is no hope.
 * Lengths that will change are hope: another plan may fit then. */
#include <math.h>
#include <string.h>

#include "core/run/events/reach.h"
#include "core/run/run.h"

/* One look at the future goes over so many lists of changes; a look that found nothing new counts
 * as an answer, and after so many of these in a row there is no hope. */
enum { LOOKS = 64, WAITS_IN_A_ROW = 1000 };

static void take_leaving(bool *usable, const bool *leaving, int32_t n)
{
    for (int32_t d = 0; d < n; d++) usable[d] = usable[d] && !leaving[d];
}

static bool is_within(const bool *a, const bool *b, int32_t n)
{
    for (int32_t d = 0; d < n; d++)
        if (a[d] && !b[d]) return false;
    return true;
}

static bool was_refused(const luo_run_job *job, const luo_refusals *refusals, const bool *usable)
{
    for (const luo_refusal *refusal = refusals->last; refusal; refusal = refusal->before)
        if (is_within(usable, refusal->usable, job->scenario->cluster->ndevices)) return true;
    return false;
}

static luo_status refuse(luo_run *run, luo_refusals *refusals, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    luo_refusal *refusal = LUO_NEW(run->scratch, luo_refusal);
    bool *usable = LUO_NEW_N(run->scratch, bool, n);
    if (!refusal || !usable) return luo_err_nomem(err);
    memcpy(usable, run->health.usable, (size_t)n * sizeof *usable);
    take_leaving(usable, luo_events_leaving(run->clock.events), n);
    *refusal = (luo_refusal){usable, refusals->last};
    refusals->last = refusal;
    refusals->n++;
    return LUO_OK;
}

static luo_status is_hope(luo_run *run, const luo_refusals *refusals, double *lengths_s, bool *hope,
                          luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    luo_event_returns back;
    luo_decision decision;
    bool *usable = LUO_NEW_N(run->scratch, bool, n);
    if (!usable) return luo_err_nomem(err);
    LUO_TRY(luo_events_returns(run->scratch, run->clock.events, &back, err));
    *lengths_s = back.lengths_s;
    *hope = back.any && back.lengths_s < INFINITY;
    if (!back.any || *hope || refusals->n >= WAITS_IN_A_ROW) return LUO_OK;
    luo_reach(run->job.scenario->cluster, back.world, usable);
    LUO_TRY(luo_run_ask_what_if(run, usable, back.leaving, &decision, err));
    take_leaving(usable, back.leaving, n);
    *hope = decision.action != LUO_WAIT && decision.action != LUO_LOSE &&
            !was_refused(&run->job, refusals, usable);
    return LUO_OK;
}

/* The world as it will be, change by change; *until_s: the first date at which something is there
 * that was not at any refusal, or how far was looked. */
static luo_status find_trigger(luo_run *run, const luo_refusals *refusals, double limit_s,
                               double *until_s, luo_err *err)
{
    const int32_t n = run->job.scenario->cluster->ndevices;
    luo_world *world;
    const luo_change *change;
    int32_t nc;
    bool *usable = LUO_NEW_N(run->scratch, bool, n), *leaving = LUO_NEW_N(run->scratch, bool, n);
    if (!usable || !leaving) return luo_err_nomem(err);
    LUO_TRY(luo_world_new(run->scratch, run->job.scenario->cluster, &world, err));
    luo_world_copy(world, luo_events_world(run->clock.events));
    memcpy(leaving, luo_events_leaving(run->clock.events), (size_t)n * sizeof *leaving);
    *until_s = limit_s;
    LUO_TRY(luo_events_peek(run->clock.events, until_s, &change, &nc, err));
    for (int look = 0; look < LOOKS; look++) {
        for (int32_t i = 0; i < nc; i++) {
            luo_world_apply(world, &change[i]);
            if (change[i].kind == LUO_CHANGE_DOWN) leaving[change[i].target] = false;
            if (change[i].kind != LUO_CHANGE_UP && change[i].kind != LUO_CHANGE_LINK) continue;
            luo_reach(run->job.scenario->cluster, world, usable);
            take_leaving(usable, leaving, n);
            if (was_refused(&run->job, refusals, usable)) continue;
            *until_s = change[i].at_s;
            return LUO_OK;
        }
        if (*until_s >= limit_s) return LUO_OK;
        *until_s = limit_s;
        LUO_TRY(luo_events_peek_on(run->clock.events, until_s, &change, &nc, err));
    }
    return LUO_OK;
}

luo_status luo_run_wait(luo_run *run, luo_refusals *refusals, bool *hope, luo_err *err)
{
    double until_s, limit_s;
    if (luo_run_interrupted(&run->job))
        return luo_err_set(err, LUO_ECANCELED, "the run was interrupted while it waited.");
    LUO_TRY(refuse(run, refusals, err));
    LUO_TRY(is_hope(run, refusals, &limit_s, hope, err));
    if (!*hope) return LUO_OK;
    if (run->job.scenario->duration_s > 0) limit_s = fmin(limit_s, run->job.scenario->duration_s);
    LUO_TRY(find_trigger(run, refusals, limit_s, &until_s, err));
    *hope = until_s < INFINITY;
    if (!*hope) return LUO_OK;
    return luo_run_span_until(run, LUO_SPAN_WAIT, until_s, 0, err);
}
