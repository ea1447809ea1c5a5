#include "core/sync/loop_queue.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

double luo_loop_tie(double t_s)
{
    return 1e-12 * fmax(1, t_s);
}

luo_status luo_loop_queue_new(luo_arena *arena, int32_t workers, luo_loop_queue *out, luo_err *err)
{
    luo_loop_queue queue = {0};
    queue.heap = LUO_NEW_N(arena, luo_loop_event, workers);
    queue.place = LUO_NEW_N(arena, int32_t, workers);
    queue.batch = LUO_NEW_N(arena, luo_loop_event, workers);
    if (!queue.heap || !queue.place || !queue.batch) return luo_err_nomem(err);
    for (int32_t w = 0; w < workers; w++) queue.place[w] = -1;
    *out = queue;
    return LUO_OK;
}

static bool earlier(const luo_loop_event *a, const luo_loop_event *b)
{
    return a->t_s != b->t_s ? a->t_s < b->t_s : a->worker < b->worker;
}

static void put(luo_loop_queue *queue, int32_t at, luo_loop_event event)
{
    queue->heap[at] = event;
    queue->place[event.worker] = at;
}

static void rise(luo_loop_queue *queue, int32_t at, luo_loop_event event)
{
    while (at > 0 && earlier(&event, &queue->heap[(at - 1) / 2])) {
        put(queue, at, queue->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(queue, at, event);
}

static void sink(luo_loop_queue *queue, int32_t at, luo_loop_event event)
{
    for (int32_t child = 2 * at + 1; child < queue->n; child = 2 * at + 1) {
        child += child + 1 < queue->n && earlier(&queue->heap[child + 1], &queue->heap[child]);
        if (!earlier(&queue->heap[child], &event)) break;
        put(queue, at, queue->heap[child]);
        at = child;
    }
    put(queue, at, event);
}

void luo_loop_queue_push(luo_loop_queue *queue, int32_t worker, double t_s)
{
    rise(queue, queue->n++, (luo_loop_event){t_s, worker});
}

void luo_loop_queue_drop(luo_loop_queue *queue, int32_t worker)
{
    luo_loop_queue *loop_queue = queue;
    const int32_t at = loop_queue->place[worker];
    if (at < 0) return;
    loop_queue->place[worker] = -1;
    const luo_loop_event last = loop_queue->heap[--loop_queue->n];
    if (at == loop_queue->n) return;
    if (at > 0 && earlier(&last, &loop_queue->heap[(at - 1) / 2]))
        rise(loop_queue, at, last);
    else
        sink(loop_queue, at, last);
}

double luo_loop_queue_next(const luo_loop_queue *queue)
{
    return queue->n > 0 ? queue->heap[0].t_s : INFINITY;
}

static int by_worker(const void *a, const void *b)
{
    const int32_t x = ((const luo_loop_event *)a)->worker;
    const int32_t y = ((const luo_loop_event *)b)->worker;
    return (x > y) - (x < y);
}

int32_t luo_loop_queue_take(luo_loop_queue *queue, const luo_loop_event **batch)
{
    const double until = queue->heap[0].t_s + luo_loop_tie(queue->heap[0].t_s);
    int32_t n = 0;
    bool ascending = true;
    while (queue->n > 0 && queue->heap[0].t_s <= until) {
        ascending = ascending && (n == 0 || queue->batch[n - 1].worker < queue->heap[0].worker);
        queue->batch[n++] = queue->heap[0];
        luo_loop_queue_drop(queue, queue->heap[0].worker);
    }
    if (!ascending) qsort(queue->batch, (size_t)n, sizeof *queue->batch, by_worker);
    *batch = queue->batch;
    return n;
}
