/* step.c: submit and wait of one rank, and a whole step. Nothing here waits for the
 * device but the end of a step, and who asks for counts of rows (moe/counts.c). */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "exec/cuda/moe/moe.h"

/* ---- submit and wait ---- */

static luo_status zero_unwritten(luo_rank *r, int32_t buffer, int32_t task)
{
    luo_job *j = r->job;
    if (!j->fresh[buffer]) return LUO_OK;
    const size_t bytes = (size_t)luo_bound_desc(&j->bound, buffer)->bytes;
    j->fresh[buffer] = false;
    return gpu_check(
        &r->err,
        cudaMemsetAsync(gpu_buf(j, buffer, task), 0, bytes, r->x->stream[LUO_STREAM_COMPUTE]),
        "a gradient of nothing");
}

/* Before an early call: Post, which zeroes what nobody has written, begins behind it. */
static luo_status zero_operands(luo_rank *r, const luo_issue *issue)
{
    const luo_instr *in = issue->instr;
    for (int32_t i = 0; i < in->nin; i++) LUO_TRY(zero_unwritten(r, in->in[i], issue->task));
    for (int32_t i = 0; i < in->nout; i++) LUO_TRY(zero_unwritten(r, in->out[i], issue->task));
    return LUO_OK;
}

/* A mark for every task, so that also a rank that waits for nobody is seen to go on. */
static luo_status turn_to(luo_rank *r, int32_t task)
{
    const luo_bound *b = &r->job->bound;
    const luo_segment *s = &b->role->seg[b->program->tasks[task].seg];
    if (r->task >= 0) LUO_TRY(gpu_finish_task(r));
    r->task = task;
    gpu_lanes_turn(r, task);
    LUO_TRY(gpu_mark_now(r, GPU_MARK_COMPUTE, task, s->first));
    for (int32_t i = 0; s->phase == LUO_PHASE_POST && i < b->role->nbuf; i++)
        LUO_TRY(zero_unwritten(r, i, task));
    return LUO_OK;
}

/* What goes ahead is handed over when the task before its own begins: its room is empty then. */
static luo_status start_ahead(luo_rank *r, const gpu_op *op, const luo_issue *issue,
                              int64_t *ticket)
{
    if (issue->task - 1 != r->task) LUO_TRY(turn_to(r, issue->task - 1));
    return gpu_start(r, op, issue->task, ticket);
}

luo_status gpu_keep_loss(luo_rank *r, const gpu_op *op, int32_t task, cudaStream_t stream)
{
    r->has_loss = true;
    return gpu_check(&r->err,
                     cudaMemcpyAsync(&r->job->device_answer->loss,
                                     gpu_buf(r->job, op->b->instr->out[0], task), sizeof(float),
                                     cudaMemcpyDefault, stream),
                     "keeping the loss");
}

static luo_status compute(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_instr *i = op->b->instr;
    const cudaStream_t stream = r->x->stream[LUO_STREAM_COMPUTE];
    int32_t span = -1;
    LUO_TRY(gpu_mark_now(r, i->recompute ? GPU_MARK_RECOMPUTE : GPU_MARK_COMPUTE, task, i->id));
    if (r->order->trace) LUO_TRY(gpu_span_begin(r, stream, task, i->id, &span));
    LUO_TRY(gpu_pace_before(r));
    LUO_TRY(op->run(r, op, task));
    LUO_TRY(gpu_pace_after(r));
    LUO_TRY(gpu_counts_made(r, op, task, stream));
    if (op->b->is_loss) LUO_TRY(gpu_keep_loss(r, op, task, stream));
    return span < 0 ? LUO_OK : gpu_span_end(r, stream, span);
}

static luo_status submit(luo_rank *r, const luo_issue *issue, int64_t *ticket)
{
    const gpu_op *op = &r->job->op[issue->instr->id];
    if (r->captures) gpu_watch_goes_on(r->x);
    if (issue->early && op->transfer->b->ahead) return start_ahead(r, op, issue, ticket);
    if (issue->early) LUO_TRY(zero_operands(r, issue));
    else if (issue->task != r->task) LUO_TRY(turn_to(r, issue->task));
    LUO_TRY(gpu_settle(r, op, issue));
    if (!op->run) return gpu_start(r, op, issue->task, ticket);
    *ticket = 0;
    return compute(r, op, issue->task);
}

static luo_status wait(luo_rank *r, const int64_t *tickets, int32_t n)
{
    if (n == 0) return gpu_finish_all(r);
    for (int32_t i = 0; i < n; i++) LUO_TRY(gpu_finish(r, tickets[i]));
    return LUO_OK;
}

static const luo_executor step_executor = {.submit = submit, .wait = wait};

/* ---- a step ---- */

static bool given_up(const luo_rank *r)
{
    const _Atomic bool *abort = r->x->config.abort;
    return abort && atomic_load_explicit(abort, memory_order_relaxed);
}

static void tell_device(luo_rank *r)
{
    if (given_up(r)) ((volatile gpu_step_answer *)r->job->answer)->drain = 1;
}

static luo_status walk(luo_rank *r)
{
    luo_job *j = r->job;
    for (int32_t b = 0; b < j->bound.role->nbuf; b++)
        j->fresh[b] = j->bound.role->buf[b].buffer_class == LUO_BUFFER_GRADIENT;
    r->task = -1;
    LUO_TRY(gpu_lanes_begin(r));
    LUO_TRY(gpu_copy_weights(r));
    LUO_TRY(gpu_moe_begin(r));
    const luo_status st =
        luo_interp_program(&step_executor, r, j->bound.set, j->bound.program,
                           r->x->config.calls_beside, r->walk);
    if (st != LUO_OK) return r->err.st == LUO_OK ? luo_err_nomem(&r->err) : st;
    LUO_TRY(gpu_moe_end(r));
    return gpu_mark_now(r, GPU_MARK_END, -1, -1);
}

static luo_status begin(luo_rank *r, const luo_step_order *order, luo_err *err)
{
    luo_job *j = r->job;
    r->order = order;
    r->has_loss = r->summed = false;
    r->err = (luo_err){0};
    memset(j->answer, 0, sizeof *j->answer);
    tell_device(r);
    LUO_TRY(gpu_clock_read(r->x, 2, err));
    return gpu_pace_begin(r, err);
}

static luo_status launch(luo_rank *r, luo_err *err)
{
    luo_status st = gpu_batch_send(r);
    if (st == LUO_OK) st = gpu_graph_launch(r, walk, err);
    if (st == LUO_OK)
        st = gpu_check(&r->err, cudaEventRecord(r->job->ended, r->x->stream[LUO_STREAM_COMPUTE]),
                       "the end of a step");
    return st != LUO_OK && r->err.st != LUO_OK ? luo_err_set(err, st, "%s", r->err.text) : st;
}

static void pause_after(double waited_s, double spin_s)
{
    const double least_s = 10e-6, most_s = 200e-6;
    if (waited_s < spin_s) {
        sched_yield();
        return;
    }
    const double s = fmax(least_s, fmin(most_s, waited_s / 8));
    nanosleep(&(struct timespec){0, (long)(s * 1e9)}, NULL);
}

/* The watchdog's thread looks at the stamps too, so that this rank is seen even when a library does
 * not return here. */
luo_status gpu_await(luo_rank *r, cudaEvent_t event, double spin_s, const char *what, luo_err *err)
{
    const double began = luo_clock_s();
    for (;;) {
        const cudaError_t code = cudaEventQuery(event);
        if (code != cudaErrorNotReady) return gpu_check(err, code, what);
        tell_device(r);
        gpu_watch_peek(r->x);
        pause_after(luo_clock_s() - began, spin_s);
    }
}

static luo_status run(luo_rank *r, luo_err *err)
{
    luo_job *j = r->job;
    luo_progress_report *w = r->x->config.where;
    if (w) atomic_store(&w->job, j->id);
    gpu_watch_at(r->x, j);
    luo_status st = launch(r, err);
    if (st == LUO_OK && r->order->part.n < 2) gpu_batch_ahead(j, r->order->step + 1);
    if (st == LUO_OK) st = gpu_await(r, j->ended, 50e-6, "a step", err);
    gpu_watch_at(r->x, NULL);
    if (w) atomic_store(&w->waiting, false);
    if (w) atomic_store(&w->job, -1);
    return st;
}

static luo_status run_watched(luo_rank *r, luo_step_report *out, luo_err *err)
{
    luo_err verdict = {0};
    gpu_watcher_arm(r->x->watcher, r->x->stuck_s);
    const luo_status st = run(r, err);
    const luo_status seen = gpu_watcher_disarm(r->x->watcher, &verdict);
    r->job->broken = st != LUO_OK || seen != LUO_OK;
    if (seen == LUO_OK) return st == LUO_OK ? gpu_report(r, out, err) : st;
    *out = (luo_step_report){.status = seen, .start_s = r->start_s, .end_s = luo_clock_s()};
    memcpy(out->text, verdict.text, sizeof out->text);
    return LUO_OK;
}

static luo_status check(luo_rank *r, const luo_step_order *order, luo_err *err)
{
    int64_t targets;
    if (r->job->broken)
        return luo_err_set(err, LUO_EBACKEND,
                           "a step of this plan failed half-way; the processes have to start "
                           "again.");
    LUO_TRY(gpu_batch_prepare(r, order, &targets, err));
    if (targets > 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "step %lld has nothing to predict: all its documents are single tokens; "
                       "data with longer ones is needed.",
                       (long long)order->step);
}

luo_status gpu_step(luo_job *j, const luo_step_order *order, luo_step_report *out, luo_err *err)
{
    luo_rank *r = &j->rank;
    const bool last = luo_step_part_is_last(&order->part);
    LUO_TRY(gpu_begin_part(j, &order->part, err));
    if (!j->bound.program) { /* stands by */
        const double now = luo_clock_s();
        *out = (luo_step_report){.status = LUO_OK, .start_s = now, .end_s = now};
        if (last) j->state.step = order->step + 1;
        return LUO_OK;
    }
    r->start_s = luo_clock_s();
    LUO_TRY(check(r, order, err));
    LUO_TRY(begin(r, order, err));
    const luo_status st = run_watched(r, out, err);
    r->order = NULL; /* it was the caller's */
    if (st == LUO_OK && out->status == LUO_OK && last) j->state.step = order->step + 1;
    return st;
}
