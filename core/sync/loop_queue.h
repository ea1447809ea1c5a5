/* loop_queue.h: what comes next: at most one time a worker, the earliest first, at equal times the
 * lowest worker. A heap that knows where each worker stands in it. */
#ifndef LUO_CORE_SYNC_LOOP_QUEUE_H
#define LUO_CORE_SYNC_LOOP_QUEUE_H
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_loop_event {
    double t_s;
    int32_t worker;
} luo_loop_event;

typedef struct luo_loop_queue { /* fields are private but for n */
    int32_t n;
    luo_loop_event *heap;
    int32_t *place; /* by worker: index in heap; -1: not in it */
    luo_loop_event *batch;
} luo_loop_queue;

/* Times are alike when they are this close: sums of the same numbers in another order. */
double luo_loop_tie(double t_s);
/* Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_loop_queue_new(luo_arena *arena, int32_t workers, luo_loop_queue *out, luo_err *err);
/* Pre: the worker is not in it. Cost: O(log n). */
void luo_loop_queue_push(luo_loop_queue *queue, int32_t worker, double t_s);
/* Nothing if the worker is not in it. Cost: O(log n). */
void luo_loop_queue_drop(luo_loop_queue *queue, int32_t worker);
/* INFINITY: it is empty. */
double luo_loop_queue_next(const luo_loop_queue *queue);
/* Takes all that are as early as the next (luo_loop_tie), by worker ascending. Returns how many;
 * *batch until the next call. Pre: n > 0. Cost: O(log n) each. */
int32_t luo_loop_queue_take(luo_loop_queue *queue, const luo_loop_event **batch);
#endif
