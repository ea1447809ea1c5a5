#include "core/sync/loop.h"

#include <math.h>

#include "core/base/vec.h"
#include "core/sync/loop_internal.h"

static const char *const modes[] = {LUO_LOOP_MODE_LIST(LUO_WORD_TEXT)};

const char *luo_loop_mode_name(luo_loop_mode mode)
{
    return modes[mode];
}

bool luo_loop_mode_groups(luo_loop_mode mode)
{
    return mode >= LUO_LOOP_ALLREDUCE;
}

double luo_loop_compute(loop *l, int32_t worker, double t_s)
{
    const luo_loop_opts *opts = l->opts;
    l->start_s[worker] = t_s;
    l->compute_s[worker] = luo_straggler_seconds(&opts->straggler, opts->seed, worker,
                                                 l->clock.clock[worker], opts->compute_s[worker]);
    return t_s + l->compute_s[worker];
}

luo_status luo_loop_count(loop *l, const luo_loop_row *row, luo_err *err)
{
    const luo_loop_sink *sink = &l->opts->sink;
    if (l->out->updates == l->most)
        return luo_work_over(l->opts->limits, LUO_WORK_ITERATIONS, "the time up to the horizon has",
                             err);
    l->out->updates++;
    l->out->iterations[row->worker]++;
    LUO_TRY(luo_clock_finish(&l->clock, row->worker, err));
    return sink->iteration ? sink->iteration(sink->ctx, row, err) : LUO_OK;
}

luo_status luo_loop_count_ahead(loop *l, int32_t worker, luo_err *err)
{
    const int64_t ahead = l->clock.clock[worker] - l->clock.least;
    luo_loop_summary *out = l->out;
    while (out->nahead <= ahead) {
        if (!LUO_VEC_ROOM_IN(l->arena, out->ahead, out->nahead, l->ahead_cap))
            return luo_err_nomem(err);
        out->ahead[out->nahead++] = 0;
    }
    out->ahead[ahead]++;
    return LUO_OK;
}

double luo_loop_next_death(const loop *l)
{
    return l->ndied < l->opts->ndeaths ? l->opts->death[l->ndied].t_s : INFINITY;
}

int32_t luo_loop_die(loop *l)
{
    const luo_loop_death *death = &l->opts->death[l->ndied++];
    if (death->who >= 0) {
        luo_loop_queue_drop(&l->queue, death->who);
        luo_clock_leave(&l->clock, death->who);
        if (l->clock.living > 0) return death->who;
    }
    l->out->lost = true;
    l->out->lost_by = death->who;
    l->out->t_s = death->t_s;
    return -1;
}

/* When the death of a server, of the controller or of the last worker ends the run: what ends later
 * does not count, as after the horizon. A group that has closed may end after all its members. */
static double lost_at(const luo_loop_opts *opts)
{
    int32_t living = opts->workers;
    for (int32_t i = 0; i < opts->ndeaths; i++)
        if (opts->death[i].who < 0 || --living == 0) return opts->death[i].t_s;
    return INFINITY;
}

static luo_status open(loop *l, luo_err *err)
{
    const luo_loop_opts *opts = l->opts;
    const int32_t n = opts->workers;
    luo_loop_summary *out = l->out;
    const int64_t staleness = opts->mode == LUO_LOOP_BSP   ? 0
                              : opts->mode == LUO_LOOP_SSP ? opts->staleness
                                                           : -1;
    LUO_TRY(luo_loop_queue_new(l->arena, n, &l->queue, err));
    LUO_TRY(luo_clock_new(l->arena, n, staleness, &l->clock, err));
    l->start_s = LUO_NEW_N(l->arena, double, n);
    l->compute_s = LUO_NEW_N(l->arena, double, n);
    l->since_s = LUO_NEW_N(l->arena, double, n);
    l->wait_s = LUO_NEW_N(l->arena, double, n);
    out->iterations = LUO_NEW_N(l->arena, int64_t, n);
    out->wait_s = LUO_NEW_N(l->arena, double, n);
    out->sizes = LUO_NEW_N(l->arena, int64_t, n + 1);
    if (!l->start_s || !l->compute_s || !l->since_s || !l->wait_s || !out->iterations ||
        !out->wait_s || !out->sizes)
        return luo_err_nomem(err);
    l->most = luo_work_most(opts->limits, LUO_WORK_ITERATIONS);
    l->end_s = fmin(opts->horizon_s, lost_at(opts));
    l->end_s += luo_loop_tie(l->end_s);
    return LUO_OK;
}

luo_status luo_loop_run(luo_arena *arena, const luo_loop_opts *opts, luo_loop_summary *out,
                        luo_err *err)
{
    luo_loop_summary summary = {.t_s = opts->horizon_s, .lambda2 = NAN};
    loop l = {.opts = opts, .arena = arena, .out = &summary};
    LUO_TRY(open(&l, err));
    LUO_TRY(luo_loop_mode_groups(opts->mode) ? luo_loop_groups(&l, err) : luo_loop_clocks(&l, err));
    *out = summary;
    return LUO_OK;
}

/* The value of place i among all, ascending. */
static double ahead_at(const luo_loop_summary *summary, int64_t i)
{
    int64_t v = 0;
    for (; i >= summary->ahead[v]; v++) i -= summary->ahead[v];
    return (double)v;
}

double luo_loop_ahead_quantile(const luo_loop_summary *summary, double p)
{
    if (summary->updates == 0) return 0;
    const double at = (double)(summary->updates - 1) * p;
    const int64_t low = (int64_t)floor(at);
    const int64_t high = low + 1 < summary->updates ? low + 1 : low;
    const double a = ahead_at(summary, low);
    return a + (ahead_at(summary, high) - a) * (at - (double)low);
}
