/* makespan.c: event simulation of one pipeline (docs/cost-model.md#pipelines,
 * docs/architecture/schedules.md#orders).
 *
 * Every stage walks its own order; a task that waits for an arrival is taken up again when its
 * neighbour has produced it, so each task is looked at a constant number of times. */
#include "core/graph/schedule/sched.h"

enum { FORWARD, BACKWARD, DIRECTIONS, WEIGHT = DIRECTIONS, KINDS };

typedef struct pipe {
    luo_sched_kind kind;
    int32_t S, m, v;
    const double *seconds[KINDS]; /* [(s*v + c)*per_chunk + i*per_micro_batch] */
    size_t per_chunk, per_micro_batch;
    const double *transfer[DIRECTIONS];
    bool blocking;
    luo_turn_fn turn;
    void *ctx;
    const luo_task **order;
    int32_t *done;                   /* tasks of stage s already run */
    double *free;                    /* when stage s is free */
    double *link_free[DIRECTIONS];   /* when link k is free */
    double *arrival[DIRECTIONS];     /* [(virtual stage)*m + i]; negative: not yet */
    int32_t *queue, n_queue;         /* stages that may go on, each at most once */
    bool *queued;
    double latest;
    double *last; /* start of the last B or BW of every virtual stage; NULL: not asked */
} pipe;

static bool make_room(luo_arena *arena, pipe *p)
{
    const size_t S = (size_t)p->S, cells = S * (size_t)p->v * (size_t)p->m;
    p->order = LUO_NEW_N(arena, const luo_task *, S);
    p->done = LUO_NEW_N(arena, int32_t, S);
    p->free = LUO_NEW_N(arena, double, S);
    p->queue = LUO_NEW_N(arena, int32_t, S);
    p->queued = LUO_NEW_N(arena, bool, S);
    if (!p->order || !p->done || !p->free || !p->queue || !p->queued) return false;
    for (int d = 0; d < DIRECTIONS; d++) {
        p->link_free[d] = LUO_NEW_N(arena, double, S);
        p->arrival[d] = LUO_NEW_N(arena, double, cells);
        if (!p->link_free[d] || !p->arrival[d]) return false;
        for (size_t k = 0; k < cells; k++) p->arrival[d][k] = -1;
    }
    for (int32_t i = 0; i < p->m; i++) p->arrival[FORWARD][i] = 0; /* input is there at once */
    return true;
}

static double *arrival_of(pipe *p, int d, int32_t virtual_stage, int32_t i)
{
    return &p->arrival[d][(size_t)virtual_stage * (size_t)p->m + (size_t)i];
}

static void wake(pipe *p, int32_t s)
{
    if (p->queued[s]) return;
    p->queued[s] = true;
    p->queue[p->n_queue++] = s;
}

static int kind_of(const luo_task *task)
{
    return task->phase == LUO_TASK_F ? FORWARD : task->phase == LUO_TASK_BW ? WEIGHT : BACKWARD;
}

/* Moves the result of a task that ended at `end` to its neighbour; returns when a stage that waits
 * for that is free again. The last forward hands over to its own backward, the first backward and
 * weight gradients to nobody. */
static double hand_over(pipe *p, int32_t s, const luo_task *task, double end)
{
    const int d = kind_of(task);
    const int32_t here = task->chunk * p->S + s, last = p->S * p->v - 1;
    if (d == FORWARD && here == last) {
        *arrival_of(p, BACKWARD, here, task->micro_batch) = end;
        return end;
    }
    if (d == WEIGHT || (d == BACKWARD && here == 0)) return end;
    const int32_t next = d == BACKWARD ? here - 1 : here + 1;
    const int32_t link = (d == BACKWARD ? next : here) % p->S;
    double start = end;
    if (p->link_free[d][link] > start) start = p->link_free[d][link];
    const double there = start + (p->transfer[d] ? p->transfer[d][link] : 0);
    p->link_free[d][link] = there;
    *arrival_of(p, d, next, task->micro_batch) = there;
    wake(p, next % p->S);
    return there;
}

/* Runs the next task of stage s if its input has come. */
static bool step(pipe *p, int32_t s)
{
    if (p->done[s] == luo_sched_phases(p->kind) * p->m * p->v) return false;
    const luo_task *task = &p->order[s][p->done[s]];
    const int d = kind_of(task); /* weight gradients follow their BI on the same stage */
    const double there =
        d == WEIGHT ? 0 : *arrival_of(p, d, task->chunk * p->S + s, task->micro_batch);
    if (there < 0) return false;
    const double start = there > p->free[s] ? there : p->free[s];
    const size_t at = ((size_t)s * (size_t)p->v + (size_t)task->chunk) * p->per_chunk +
                      (size_t)task->micro_batch * p->per_micro_batch;
    luo_turn turn = {.free = p->free[s], .start = start};
    if (p->turn)
        p->turn(p->ctx, s, task, &turn);
    else
        turn.free = turn.end = start + (p->seconds[d] ? p->seconds[d][at] : 0);
    if (turn.free > p->latest) p->latest = turn.free;
    if (d == (luo_sched_splits(p->kind) ? WEIGHT : BACKWARD) && p->last)
        p->last[task->chunk * p->S + s] = turn.start;
    const double sent = hand_over(p, s, task, turn.end);
    p->free[s] = p->blocking && sent > turn.free ? sent : turn.free;
    p->done[s]++;
    return true;
}

static void run(pipe *p)
{
    for (int32_t s = p->S; s-- > 0;) wake(p, s);
    while (p->n_queue) {
        const int32_t s = p->queue[--p->n_queue];
        p->queued[s] = false;
        while (step(p, s)) {}
    }
}

static luo_status simulate(luo_arena *scratch, pipe *p, double *makespan, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    if (!make_room(scratch, p)) LUO_TRY_OUT(luo_err_nomem(err));
    for (int32_t s = 0; s < p->S; s++) {
        int32_t n;
        LUO_TRY_OUT(luo_sched_make(scratch, p->kind, p->S, s, p->m, p->v, &p->order[s], &n, err));
    }
    run(p);
    *makespan = p->latest;
out:
    luo_arena_reset(scratch, mark);
    return st;
}

luo_status luo_sched_makespan(luo_arena *scratch, luo_sched_kind kind, int32_t S, int32_t m,
                              int32_t v, const double *forward, const double *backward,
                              const double *weight, const double *transfer, bool blocking,
                              double *makespan, luo_err *err)
{
    pipe p = {.kind = kind, .S = S, .m = m, .v = v, .seconds = {forward, backward, weight},
              .per_chunk = 1, .transfer = {transfer, transfer}, .blocking = blocking};
    LUO_TRY(luo_sched_check(kind, S, m, v, err));
    return simulate(scratch, &p, makespan, err);
}

luo_status luo_sched_makespan_each(luo_arena *scratch, luo_sched_kind kind, int32_t S, int32_t m,
                                   int32_t v, const double *forward, const double *backward,
                                   const double *weight, const double *transfer, bool blocking,
                                   double *makespan, double *last, luo_err *err)
{
    pipe p = {.kind = kind, .S = S, .m = m, .v = v, .seconds = {forward, backward, weight},
              .per_chunk = (size_t)m, .per_micro_batch = 1, .transfer = {transfer, transfer},
              .blocking = blocking, .last = last};
    LUO_TRY(luo_sched_check(kind, S, m, v, err));
    return simulate(scratch, &p, makespan, err);
}

luo_status luo_sched_course(luo_arena *scratch, const luo_course *course, double *makespan,
                            luo_err *err)
{
    pipe p = {.kind = course->kind,
              .S = course->S,
              .m = course->m,
              .v = course->v,
              .transfer = {course->transfer, course->back ? course->back : course->transfer},
              .blocking = course->blocking,
              .turn = course->turn,
              .ctx = course->ctx,
              .last = course->last};
    LUO_TRY(luo_sched_check(course->kind, course->S, course->m, course->v, err));
    return simulate(scratch, &p, makespan, err);
}
