/* step_beside.c: tasks of pipelines that differ, and what their stages send, beside the calls that
 * gather weights at the begin of a step and those that sum gradients at its end. On slow networks
 * each holds up the other. Tasks in between cost what their course says. */
#include <math.h>

#include "core/plan/step/step_internal.h"

typedef struct sent {         /* from a stage to the next, or back */
    const step_slice *slices; /* of any message; NULL: none was sent */
    int32_t n, first;         /* first: part of the latest; -1: none */
} sent;

typedef struct beside {
    stepper *w;
    step_player *player;
    step_links links;
    int32_t pipeline;
    bool gathers;
    int32_t *lo, *hi;         /* by stage: turns that are played */
    int32_t **begins, **ends; /* by stage and turn from lo: parts */
    sent *sent;               /* [2 * stage + back] */
} beside;

/* A moment takes no time and no link. */
static const step_slice moment = {0};

static const step_pipe *pipe_of(const beside *x)
{
    return &x->w->pipe[x->pipeline];
}

static bool is_back(const luo_task *task)
{
    return task->phase != LUO_TASK_F;
}

/* ---- tasks ---- */

static luo_status put_call_before(const beside *x, const step_call *call, int32_t part, double lag)
{
    for (int32_t slice = 0; slice < x->w->run[call->run].widest; slice++)
        LUO_TRY(step_put_before(x->player, call->part + slice, part, lag));
    return LUO_OK;
}

/* A first forward ends when all weights have come that it reads; without overlap of the gathers it
 * begins when the stage has all of its own. */
static luo_status wait_for_weights(const beside *x, const step_stage *stage,
                                   const step_chunk *chunk, int32_t begin, int32_t end)
{
    const stepper *w = x->w;
    const bool overlap = w->in->stack->dp_overlap;
    const int32_t part = overlap ? end : begin;
    for (int32_t k = 0; k < chunk->nruns; k++) {
        const step_run *run = &w->run[chunk->first_run + k];
        const int32_t n = step_reads(w, run, stage, chunk, w->room);
        for (int32_t i = 0; i < n; i++)
            LUO_TRY(put_call_before(x, &w->calls[run->brought_by[i]], part,
                                    overlap ? chunk->forward - w->room[i].at : 0));
    }
    for (int32_t i = 0; i < w->ncalls && chunk->head; i++)
        if (w->calls[i].run == w->nruns)
            LUO_TRY(put_call_before(x, &w->calls[i], part,
                                    overlap ? stage->head.forward - stage->head.read : 0));
    return LUO_OK;
}

/* Turn k of stage s: the moments at which it begins and ends. */
static luo_status add_task(beside *x, int32_t s, int32_t k)
{
    step_stage *stage = &pipe_of(x)->stage[s];
    step_turn *turn = &stage->turns[k];
    const step_chunk *chunk = &stage->chunk[turn->task.chunk];
    const bool first =
        x->gathers && x->w->plan->zero >= 1 && !is_back(&turn->task) && turn->task.micro_batch == 0;
    const int32_t at = k - x->lo[s];
    x->begins[s][at] = x->player->nparts;
    LUO_TRY(step_add_part(x->player, &moment, 0, 0, x->gathers ? &turn->began : NULL));
    x->ends[s][at] = x->player->nparts;
    LUO_TRY(step_add_part(x->player, &moment, 0, 0, x->gathers ? &turn->done : &stage->end));
    LUO_TRY(step_put_before(x->player, x->begins[s][at], x->ends[s][at],
                            first ? chunk->forward : turn->end - turn->start));
    if (at > 0)
        LUO_TRY(step_put_before(x->player, x->ends[s][at - 1], x->begins[s][at], 0));
    else if (!x->gathers)
        x->player->parts[x->begins[s][at]].date = turn->start;
    return first ? wait_for_weights(x, stage, chunk, x->begins[s][at], x->ends[s][at]) : LUO_OK;
}

/* ---- messages ---- */

/* Who gets the result of a task; false: nobody, or the stage itself. */
static bool find_receiver(const beside *x, int32_t s, const luo_task *task, int32_t *to,
                          luo_task *next)
{
    const int32_t S = pipe_of(x)->n, here = task->chunk * S + s;
    const int32_t there = here + (is_back(task) ? -1 : 1);
    if (task->phase == LUO_TASK_BW || there < 0 || there >= S * x->w->plan->chunks) return false;
    *to = there % S;
    *next = (luo_task){task->phase, task->micro_batch, there / S};
    return true;
}

static int32_t place_of(const beside *x, int32_t s, const luo_task *task)
{
    const int32_t m = x->w->plan->pipelines[x->pipeline].micro_batches;
    return *step_place(&pipe_of(x)->stage[s], task, x->w->plan->chunks, m);
}

/* Messages of a direction follow each other. */
static luo_status send_result(beside *x, int32_t s, int32_t k)
{
    step_turn *turn = &pipe_of(x)->stage[s].turns[k];
    const bool back = is_back(&turn->task), blocks = x->w->in->stack->p2p_blocking;
    int32_t to;
    luo_task next;
    if (!find_receiver(x, s, &turn->task, &to, &next)) return LUO_OK;
    const int32_t link = back ? to : s;
    sent *way = &x->sent[2 * link + back];
    if (!way->slices)
        LUO_TRY(step_price_message(&x->links, x->pipeline, link, back, &way->slices, &way->n));
    const int32_t first = x->player->nparts, other = place_of(x, to, &next);
    for (int32_t i = 0; i < way->n; i++) {
        LUO_TRY(step_add_part(x->player, &way->slices[i], 1, 0, x->gathers ? &turn->there : NULL));
        LUO_TRY(step_put_before(x->player, x->ends[s][k - x->lo[s]], first + i, 0));
        if (way->first >= 0) LUO_TRY(step_put_before(x->player, way->first + i, first + i, 0));
        if (other >= x->lo[to] && other < x->hi[to])
            LUO_TRY(step_put_before(x->player, first + i, x->begins[to][other - x->lo[to]], 0));
        if (blocks && k + 1 < x->hi[s])
            LUO_TRY(step_put_before(x->player, first + i, x->begins[s][k + 1 - x->lo[s]], 0));
    }
    way->first = first;
    return LUO_OK;
}

/* What comes from a task that is not played is there when its course says. */
static void take_result(const beside *x, int32_t s, int32_t k)
{
    const step_turn *turn = &pipe_of(x)->stage[s].turns[k];
    int32_t to;
    luo_task next;
    if (!find_receiver(x, s, &turn->task, &to, &next)) return;
    const int32_t other = place_of(x, to, &next);
    if (other >= x->lo[to] && other < x->hi[to])
        x->player->parts[x->begins[to][other - x->lo[to]]].date =
            pipe_of(x)->stage[to].turns[other].start;
}

/* ---- pipelines ---- */

static luo_status open_pipeline(beside *x, double date)
{
    const step_pipe *pipe = pipe_of(x);
    luo_arena *scratch = x->w->scratch;
    x->lo = LUO_NEW_N(scratch, int32_t, pipe->n);
    x->hi = LUO_NEW_N(scratch, int32_t, pipe->n);
    x->begins = LUO_NEW_N(scratch, int32_t *, pipe->n);
    x->ends = LUO_NEW_N(scratch, int32_t *, pipe->n);
    x->sent = LUO_NEW_N(scratch, sent, 2 * (int64_t)pipe->n);
    if (!x->lo || !x->hi || !x->begins || !x->ends || !x->sent) return luo_err_nomem(x->w->err);
    for (int32_t s = 0; s < pipe->n; s++) {
        const step_stage *stage = &pipe->stage[s];
        x->sent[2 * s].first = x->sent[2 * s + 1].first = -1;
        x->hi[s] = stage->nturns;
        while (x->gathers && x->hi[s] > 0 && stage->turns[x->hi[s] - 1].start > date) x->hi[s]--;
        while (!x->gathers && x->lo[s] < x->hi[s] && stage->turns[x->lo[s]].end < date) x->lo[s]++;
        x->begins[s] = LUO_NEW_N(scratch, int32_t, x->hi[s] - x->lo[s] + 1);
        x->ends[s] = LUO_NEW_N(scratch, int32_t, x->hi[s] - x->lo[s] + 1);
        if (!x->begins[s] || !x->ends[s]) return luo_err_nomem(x->w->err);
    }
    return LUO_OK;
}

static luo_status add_pipeline(beside *x, double date)
{
    LUO_TRY(open_pipeline(x, date));
    for (int32_t s = 0; s < pipe_of(x)->n; s++)
        for (int32_t k = x->lo[s]; k < x->hi[s]; k++) LUO_TRY(add_task(x, s, k));
    for (int32_t s = 0; s < pipe_of(x)->n; s++) {
        for (int32_t k = 0; k < x->lo[s]; k++) take_result(x, s, k);
        for (int32_t k = x->lo[s]; k < x->hi[s]; k++) LUO_TRY(send_result(x, s, k));
    }
    return LUO_OK;
}

luo_status step_add_gathering(stepper *w, step_player *player, double date)
{
    beside x = {.w = w, .player = player, .gathers = true};
    LUO_TRY(step_open_links(w, true, &x.links));
    for (x.pipeline = 0; x.pipeline < w->plan->npipelines; x.pipeline++)
        LUO_TRY(add_pipeline(&x, date));
    return LUO_OK;
}

/* Gradients are complete in the last backward of each pipeline. */
static luo_status wait_for_gradients(const beside *x, int32_t ncalls)
{
    const stepper *w = x->w;
    const luo_task_phase phase = luo_sched_splits(w->plan->schedule) ? LUO_TASK_BW : LUO_TASK_B;
    for (int32_t i = 0; i < ncalls; i++) {
        const step_call *call = &w->calls[i];
        const step_run *run = &w->run[call->run == w->nruns ? 0 : call->run];
        const int32_t s = run->stage[x->pipeline];
        const luo_task last = {phase, w->plan->pipelines[x->pipeline].micro_batches - 1,
                               run->chunk[x->pipeline]};
        const int32_t k = place_of(x, s, &last);
        if (k < x->lo[s]) continue;
        const int32_t begins = x->begins[s][k - x->lo[s]],
                      ends = x->ends[s][x->hi[s] - 1 - x->lo[s]];
        for (int32_t slice = 0; slice < w->run[call->run].widest; slice++) {
            LUO_TRY(
                step_put_before(x->player, begins, call->part + slice, call->after[x->pipeline]));
            if (!w->in->stack->dp_overlap)
                LUO_TRY(step_put_before(x->player, ends, call->part + slice, 0));
        }
    }
    return LUO_OK;
}

luo_status step_add_summing(stepper *w, step_player *player, double date)
{
    const int32_t ncalls = w->ncalls;
    beside x = {.w = w, .player = player};
    LUO_TRY(step_open_links(w, false, &x.links));
    for (x.pipeline = 0; x.pipeline < w->plan->npipelines; x.pipeline++) {
        LUO_TRY(add_pipeline(&x, date));
        LUO_TRY(wait_for_gradients(&x, ncalls));
    }
    return LUO_OK;
}
