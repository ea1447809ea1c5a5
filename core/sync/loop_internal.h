/* loop_internal.h: what the loops of clocks and of groups share; for loop*.c alone. */
#ifndef LUO_CORE_SYNC_LOOP_INTERNAL_H
#define LUO_CORE_SYNC_LOOP_INTERNAL_H
#include "core/sync/clock.h"
#include "core/sync/loop.h"
#include "core/sync/loop_queue.h"

typedef struct loop {
    const luo_loop_opts *opts;
    luo_arena *arena;
    luo_loop_summary *out;
    luo_loop_queue queue;
    luo_clock clock;             /* groups: without a bound, to know who is how far ahead */
    double *start_s, *compute_s; /* by worker, of the iteration under way */
    double *since_s;             /* by worker: it waits since then */
    double *wait_s;              /* by worker, clocks: before the iteration under way */
    int64_t ahead_cap, most;
    double end_s; /* the horizon with its tie */
    int32_t ndied;
} loop;

/* The worker computes its next iteration from t on; returns when it is done. */
double luo_loop_compute(loop *l, int32_t worker, double t_s);
/* Counts an iteration that has ended: clock, row, limit. */
luo_status luo_loop_count(loop *l, const luo_loop_row *row, luo_err *err);
/* Counts how far ahead a worker is now. */
luo_status luo_loop_count_ahead(loop *l, int32_t worker, luo_err *err);
/* When the next death is; INFINITY: none. */
double luo_loop_next_death(const loop *l);
/* Carries it out but for groups; -1: it has ended the run, else who died. */
int32_t luo_loop_die(loop *l);

luo_status luo_loop_clocks(loop *l, luo_err *err);
luo_status luo_loop_groups(loop *l, luo_err *err);
#endif
