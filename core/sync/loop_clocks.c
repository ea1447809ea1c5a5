/* loop_clocks.c: bsp, ssp, asp. */
#include <math.h>

#include "core/sync/loop_internal.h"

static void start(loop *l, int32_t worker, double t_s)
{
    luo_loop_queue_push(&l->queue, worker, luo_loop_compute(l, worker, t_s) + l->opts->sync_s);
}

/* Those who may start do. */
static void release(loop *l, double t_s)
{
    const int32_t *started;
    const int32_t n = luo_clock_release(&l->clock, &started);
    for (int32_t i = 0; i < n; i++) {
        const int32_t w = started[i];
        l->wait_s[w] = t_s - l->since_s[w];
        l->out->wait_s[w] += l->wait_s[w];
        start(l, w, t_s);
    }
}

static luo_status finish(loop *l, double t_s, luo_err *err)
{
    const luo_loop_event *batch;
    const int32_t n = luo_loop_queue_take(&l->queue, &batch);
    for (int32_t i = 0; i < n; i++) {
        const int32_t w = batch[i].worker;
        const luo_loop_row row = {.worker = w,
                                  .iteration = l->clock.clock[w],
                                  .start_s = l->start_s[w],
                                  .end_s = t_s,
                                  .compute_s = l->compute_s[w],
                                  .wait_s = l->wait_s[w],
                                  .group = -1};
        LUO_TRY(luo_loop_count(l, &row, err));
        l->since_s[w] = t_s;
    }
    for (int32_t i = 0; i < n; i++) LUO_TRY(luo_loop_count_ahead(l, batch[i].worker, err));
    release(l, t_s);
    return LUO_OK;
}

luo_status luo_loop_clocks(loop *l, luo_err *err)
{
    for (int32_t w = 0; w < l->opts->workers; w++) start(l, w, 0);
    for (;;) {
        const double t_s = luo_loop_queue_next(&l->queue), death_s = luo_loop_next_death(l);
        if (fmin(t_s, death_s) > l->end_s) return LUO_OK;
        if (t_s <= death_s + luo_loop_tie(death_s)) {
            LUO_TRY(finish(l, t_s, err));
            continue;
        }
        if (luo_loop_die(l) < 0) return LUO_OK;
        release(l, death_s);
    }
}
