/* Event time, and the policy that moves nothing but micro-batches. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/plan/replan/replan.h"

/* An event simulation on cut-off transfers takes forward a third of a stage's time, a quarter with
 * full recompute (docs/architecture/schedules.md#orders). */
static luo_status pipe_time(luo_arena *scratch, const luo_pipe_time *time, bool full, double *out,
                            luo_err *err)
{
    double *f = LUO_NEW_N(scratch, double, 2 * time->stages);
    if (!f) return luo_err_nomem(err);
    for (int32_t j = 0; j < time->stages; j++) {
        f[j] = time->t[j] / (full ? 4 : 3);
        f[time->stages + j] = time->t[j] - f[j];
    }
    return luo_sched_makespan(scratch, LUO_SCHED_1F1B, time->stages, (int32_t)time->micro_batches,
                              1, f, f + time->stages, NULL, NULL, false, out, err);
}

static bool same(const luo_pipe_time *a, const luo_pipe_time *b)
{
    return a->stages == b->stages && a->micro_batches == b->micro_batches &&
           memcmp(a->t, b->t, (size_t)a->stages * sizeof *a->t) == 0;
}

luo_status luo_replan_event_time(luo_arena *scratch, const luo_pipe_time *pipes, int32_t n,
                                 bool full_recompute, double *seconds, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    luo_status st = LUO_OK;
    double worst = 0;
    for (int32_t i = 0; i < n && st == LUO_OK; i++) {
        double t = 0;
        if (i > 0 && same(&pipes[i - 1], &pipes[i])) continue;
        st = pipe_time(scratch, &pipes[i], full_recompute, &t, err);
        worst = fmax(worst, t);
        luo_arena_reset(scratch, mark);
    }
    if (st == LUO_OK) *seconds = worst;
    return st;
}

typedef struct offer {
    luo_pipe_time *pipes; /* with the micro-batches tried */
    double *o, *fill;
    int64_t *lo, *m;
} offer;

static luo_status make_offer(luo_arena *scratch, const luo_pipe_time *pipes, int32_t n, int64_t M,
                             offer *out, luo_err *err)
{
    offer f = {LUO_NEW_N(scratch, luo_pipe_time, n), LUO_NEW_N(scratch, double, n),
               LUO_NEW_N(scratch, double, n), LUO_NEW_N(scratch, int64_t, n),
               LUO_NEW_N(scratch, int64_t, n)};
    int64_t stages = 0;
    if (!f.pipes || !f.o || !f.fill || !f.lo || !f.m) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        f.pipes[i] = pipes[i];
        for (int32_t j = 0; j < pipes[i].stages; j++) {
            f.o[i] = fmax(f.o[i], pipes[i].t[j]);
            f.fill[i] += pipes[i].t[j];
        }
        stages += pipes[i].stages;
    }
    for (int32_t i = 0; i < n; i++) f.lo[i] = stages <= M ? pipes[i].stages : 1;
    *out = f;
    return LUO_OK;
}

luo_status luo_replan_rebalance(luo_arena *scratch, const luo_pipe_time *pipes, int32_t n,
                                int64_t M, bool full_recompute, int64_t *m, double *event,
                                luo_err *err)
{
    assert(n >= 1);
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    offer f = {0};
    double best = INFINITY;
    LUO_TRY_OUT(make_offer(scratch, pipes, n, M, &f, err));
    for (int filled = 1; filled >= 0; filled--) {
        double t;
        LUO_TRY_OUT(luo_plan_split_micro_batches(n, f.o, f.fill, filled, M, f.lo, f.m, err));
        for (int32_t i = 0; i < n; i++) f.pipes[i].micro_batches = f.m[i];
        LUO_TRY_OUT(luo_replan_event_time(scratch, f.pipes, n, full_recompute, &t, err));
        if (t >= best) continue;
        best = t;
        memcpy(m, f.m, (size_t)n * sizeof *m);
    }
    *event = best;
out:
    luo_arena_reset(scratch, mark);
    return st;
}
