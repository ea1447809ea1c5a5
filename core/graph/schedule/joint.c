#include "core/graph/schedule/joint.h"

typedef struct event { /* a task ends, or work is there from the start (time 0) */
    int64_t time;
    int32_t seq; /* of two at one time, the one that was known first */
    int32_t batch, stage;
    luo_task_phase phase;
} event;

typedef struct queue { /* micro-batches in the order of arrival; each comes once */
    int32_t *batch;
    int32_t first, n;
} queue;

enum { FORWARD, BACKWARD, WEIGHT, PARTS };

typedef struct station {
    queue wait[PARTS];
    int32_t in_flight;
    bool busy;
} station;

typedef struct scheduler {
    const luo_joint *in;
    station *at;
    luo_joint_order *order;
    event *heap;
    int32_t nheap, seq;
    int64_t now;
} scheduler;

static bool before(const event *a, const event *b)
{
    return a->time != b->time ? a->time < b->time : a->seq < b->seq;
}

static void push(scheduler *w, event e)
{
    e.seq = w->seq++;
    int32_t i = w->nheap++;
    for (; i > 0 && before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = e;
}

static event pop(scheduler *w)
{
    const event top = w->heap[0], last = w->heap[--w->nheap];
    int32_t i = 0;
    for (;;) {
        int32_t k = 2 * i + 1;
        if (k >= w->nheap) break;
        if (k + 1 < w->nheap && before(&w->heap[k + 1], &w->heap[k])) k++;
        if (!before(&w->heap[k], &last)) break;
        w->heap[i] = w->heap[k];
        i = k;
    }
    w->heap[i] = last;
    return top;
}

static station *station_of(scheduler *w, int32_t batch, int32_t stage)
{
    return &w->at[w->in->batch[batch].station[stage]];
}

static void arrive(scheduler *w, int32_t batch, int32_t stage, int32_t part)
{
    queue *q = &station_of(w, batch, stage)->wait[part];
    q->batch[q->first + q->n++] = batch;
}

/* The stage at which a station runs a micro-batch. */
static int32_t stage_at(const scheduler *w, int32_t s, int32_t batch)
{
    int32_t k = 0;
    while (w->in->batch[batch].station[k] != s) k++;
    return k;
}

/* What a station goes on with; PARTS: nothing is there. */
static int32_t choose(const scheduler *w, int32_t s)
{
    const station *x = &w->at[s];
    if (w->in->split && x->wait[WEIGHT].n > w->in->waiting[s]) return WEIGHT;
    if (x->wait[FORWARD].n > 0 && x->in_flight < w->in->kept[s]) return FORWARD;
    if (x->wait[BACKWARD].n > 0) return BACKWARD;
    return x->wait[WEIGHT].n > 0 ? WEIGHT : PARTS;
}

static void start(scheduler *w, int32_t s)
{
    station *x = &w->at[s];
    const int32_t part = x->busy ? PARTS : choose(w, s);
    if (part == PARTS) return;
    queue *q = &x->wait[part];
    const int32_t batch = q->batch[q->first++], stage = stage_at(w, s, batch);
    const luo_joint_batch *joint_batch = &w->in->batch[batch];
    const int64_t *const takes[PARTS] = {joint_batch->forward, joint_batch->backward,
                                         joint_batch->weight};
    const luo_task_phase phases[PARTS] = {LUO_TASK_F, w->in->split ? LUO_TASK_BI : LUO_TASK_B,
                                          LUO_TASK_BW};
    q->n--;
    x->busy = true;
    if (part == FORWARD) x->in_flight++;
    w->order[s].task[w->order[s].n++] = (luo_joint_task){batch, phases[part]};
    push(w, (event){.time = w->now + takes[part][stage], .batch = batch, .stage = stage,
                    .phase = phases[part]});
}

static void end(scheduler *w, const event *e)
{
    station *x = station_of(w, e->batch, e->stage);
    x->busy = false;
    if (e->phase == LUO_TASK_BW) return;
    if (e->phase == LUO_TASK_F) {
        const bool last = e->stage == w->in->batch[e->batch].nstages - 1;
        arrive(w, e->batch, last ? e->stage : e->stage + 1, last ? BACKWARD : FORWARD);
        return;
    }
    x->in_flight--;
    if (e->stage > 0) arrive(w, e->batch, e->stage - 1, BACKWARD);
    if (w->in->split) arrive(w, e->batch, e->stage, WEIGHT);
}

/* All that ends at one time is looked at before anything begins. */
static void run(scheduler *w)
{
    for (int32_t b = 0; b < w->in->nbatches; b++) arrive(w, b, 0, FORWARD);
    for (;;) {
        for (int32_t s = 0; s < w->in->nstations; s++) start(w, s);
        if (w->nheap == 0) return;
        w->now = w->heap[0].time;
        while (w->nheap > 0 && w->heap[0].time == w->now) {
            const event e = pop(w);
            end(w, &e);
        }
    }
}

static luo_status open(luo_arena *arena, scheduler *w, luo_err *err)
{
    const luo_joint *in = w->in;
    int32_t *visits = LUO_NEW_N(arena, int32_t, in->nstations), tasks = 0;
    w->at = LUO_NEW_N(arena, station, in->nstations);
    w->order = LUO_NEW_N(arena, luo_joint_order, in->nstations);
    if (!visits || !w->at || !w->order) return luo_err_nomem(err);
    for (int32_t b = 0; b < in->nbatches; b++)
        for (int32_t k = 0; k < in->batch[b].nstages; k++) {
            visits[in->batch[b].station[k]]++;
            tasks += PARTS;
        }
    w->heap = LUO_NEW_N(arena, event, tasks + 1);
    if (!w->heap) return luo_err_nomem(err);
    for (int32_t s = 0; s < in->nstations; s++) {
        for (int k = 0; k < PARTS; k++) {
            w->at[s].wait[k].batch = LUO_NEW_N(arena, int32_t, visits[s]);
            if (!w->at[s].wait[k].batch) return luo_err_nomem(err);
        }
        w->order[s].task = LUO_NEW_N(arena, luo_joint_task, PARTS * (int64_t)visits[s]);
        if (!w->order[s].task) return luo_err_nomem(err);
    }
    return LUO_OK;
}

luo_status luo_joint_schedule(luo_arena *arena, const luo_joint *in, luo_joint_order **out,
                              int64_t *makespan, luo_err *err)
{
    scheduler w = {.in = in};
    LUO_TRY(open(arena, &w, err));
    run(&w);
    *out = w.order;
    *makespan = w.now;
    return LUO_OK;
}
