/* Simulated steps decide among plans for uneven lengths. */
#include "core/run/policy/judge_lengths.h"

#include <math.h>
#include <string.h>

static luo_status simulate(luo_arena *arena, const luo_judge *judge, const luo_step_place *place,
                           const luo_pool *pool, const luo_replicas *replicas,
                           const int64_t *length, int32_t n, const double *rate,
                           luo_judged_lengths *now, luo_err *err)
{
    luo_judgement judged;
    luo_err why = {0};
    LUO_TRY(
        luo_step_plan_make(arena, place, pool, replicas, &now->step, length, NULL, n, &now->plan,
                           err));
    const luo_status st = luo_judge_plan(judge, now->plan, place->ctx, rate, &judged, &why);
    if (err && why.st != LUO_OK) *err = why;
    now->seconds = st == LUO_OK ? judged.seconds : INFINITY;
    return st;
}

luo_status luo_judge_lengths(luo_arena *arena, const luo_judge *judge, const luo_step_place *place,
                             const luo_pool *pool, const luo_replicas *plans, int32_t nplans,
                             const int64_t *length, int32_t n, const luo_step_opts *opts,
                             const double *rate, double *extra_ms, luo_judged_lengths *out,
                             luo_err *err)
{
    luo_judged_lengths best = {.seconds = INFINITY};
    bool *tried = LUO_NEW_N(arena, bool, nplans);
    double *extra = LUO_NEW_N(arena, double, nplans);
    luo_step_opts with = *opts;
    if (!tried || !extra) return luo_err_nomem(err);
    memcpy(extra, extra_ms, (size_t)nplans * sizeof *extra);
    with.extra_ms = extra;
    for (int32_t k = 0; k < LUO_JUDGE_LENGTHS; k++) {
        luo_judged_lengths now = {.simulated = k + 1};
        LUO_TRY(luo_step_choose(arena, pool, plans, nplans, length, n, &with, &now.step, err));
        const int32_t p = now.step.plan;
        if (tried[p]) break;
        tried[p] = true;
        LUO_TRY(simulate(arena, judge, place, pool, &plans[p], length, n, rate, &now, err));
        /* What does not fit this batch may fit the next one. */
        extra[p] = isfinite(now.seconds) ? fmax(0, 1e3 * now.seconds - now.step.event) : INFINITY;
        if (isfinite(extra[p])) extra_ms[p] = extra[p];
        if (k == 0 || now.seconds < best.seconds) best = now;
        best.simulated = k + 1;
    }
    *out = best;
    return LUO_OK;
}
