/* step.c: submit and wait of one rank, and a whole step. Nothing here waits for the
 * device but the end of a step, and who asks for counts of rows (moe/counts.c). */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "exec/cuda/moe/moe.h"

/* ---- submit and wait ---- */

static luo_status zero_unwritten(luo_rank *rank, int32_t buffer, int32_t task)
{
    luo_job *job = rank->job;
    if (!job->fresh[buffer]) return LUO_OK;
    const size_t bytes = (size_t)luo_bound_desc(&job->bound, buffer)->bytes;
    job->fresh[buffer] = false;
    return gpu_check(
        &rank->err,
        cudaMemsetAsync(gpu_buf(job, buffer, task), 0, bytes, rank->x->stream[LUO_STREAM_COMPUTE]),
        "a gradient of nothing");
}

/* Before an early call: Post, which zeroes what nobody has written, begins behind it. */
static luo_status zero_operands(luo_rank *rank, const luo_issue *issue)
{
    const luo_instr *in = issue->instr;
    for (int32_t i = 0; i < in->nin; i++) LUO_TRY(zero_unwritten(rank, in->in[i], issue->task));
    for (int32_t i = 0; i < in->nout; i++) LUO_TRY(zero_unwritten(rank, in->out[i], issue->task));
    return LUO_OK;
}

/* A mark for every task, so that also a rank that waits for nobody is seen to go on. */
static luo_status turn_to(luo_rank *rank, int32_t task)
{
    const luo_bound *bound = &rank->job->bound;
    const luo_segment *segment = &bound->role->seg[bound->program->tasks[task].seg];
    if (rank->task >= 0) LUO_TRY(gpu_finish_task(rank));
    rank->task = task;
    gpu_lanes_turn(rank, task);
    LUO_TRY(gpu_mark_now(rank, GPU_MARK_COMPUTE, task, segment->first));
    for (int32_t i = 0; segment->phase == LUO_PHASE_POST && i < bound->role->nbuf; i++)
        LUO_TRY(zero_unwritten(rank, i, task));
    return LUO_OK;
}

/* What goes ahead is handed over when the task before its own begins: its room is empty then. */
static luo_status start_ahead(luo_rank *rank, const gpu_op *op, const luo_issue *issue,
                              int64_t *ticket)
{
    if (issue->task - 1 != rank->task) LUO_TRY(turn_to(rank, issue->task - 1));
    return gpu_start(rank, op, issue->task, ticket);
}

luo_status gpu_keep_loss(luo_rank *rank, const gpu_op *op, int32_t task, cudaStream_t stream)
{
    rank->has_loss = true;
    return gpu_check(&rank->err,
                     cudaMemcpyAsync(&rank->job->device_answer->loss,
                                     gpu_buf(rank->job, op->b->instr->out[0], task), sizeof(float),
                                     cudaMemcpyDefault, stream),
                     "keeping the loss");
}

static luo_status compute(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_instr *instr = op->b->instr;
    const cudaStream_t stream = rank->x->stream[LUO_STREAM_COMPUTE];
    int32_t span = -1;
    LUO_TRY(gpu_mark_now(rank, instr->recompute ? GPU_MARK_RECOMPUTE : GPU_MARK_COMPUTE, task,
                         instr->id));
    if (rank->order->trace) LUO_TRY(gpu_span_begin(rank, stream, task, instr->id, &span));
    LUO_TRY(gpu_pace_before(rank));
    LUO_TRY(op->run(rank, op, task));
    LUO_TRY(gpu_pace_after(rank));
    LUO_TRY(gpu_counts_made(rank, op, task, stream));
    if (op->b->is_loss) LUO_TRY(gpu_keep_loss(rank, op, task, stream));
    return span < 0 ? LUO_OK : gpu_span_end(rank, stream, span);
}

static luo_status submit(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    const gpu_op *op = &rank->job->op[issue->instr->id];
    if (rank->captures) gpu_watch_goes_on(rank->x);
    if (issue->early && op->transfer->b->ahead) return start_ahead(rank, op, issue, ticket);
    if (issue->early)
        LUO_TRY(zero_operands(rank, issue));
    else if (issue->task != rank->task)
        LUO_TRY(turn_to(rank, issue->task));
    LUO_TRY(gpu_settle(rank, op, issue));
    if (!op->run) return gpu_start(rank, op, issue->task, ticket);
    *ticket = 0;
    return compute(rank, op, issue->task);
}

static luo_status wait(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    if (n == 0) return gpu_finish_all(rank);
    for (int32_t i = 0; i < n; i++) LUO_TRY(gpu_finish(rank, tickets[i]));
    return LUO_OK;
}

static const luo_executor step_executor = {.submit = submit, .wait = wait};

/* ---- a step ---- */

static bool given_up(const luo_rank *rank)
{
    const _Atomic bool *abort = rank->x->config.abort;
    return abort && atomic_load_explicit(abort, memory_order_relaxed);
}

static void tell_device(luo_rank *rank)
{
    if (given_up(rank)) ((volatile gpu_step_answer *)rank->job->answer)->drain = 1;
}

static luo_status walk(luo_rank *rank)
{
    luo_job *job = rank->job;
    for (int32_t b = 0; b < job->bound.role->nbuf; b++)
        job->fresh[b] = job->bound.role->buf[b].buffer_class == LUO_BUFFER_GRADIENT;
    rank->task = -1;
    LUO_TRY(gpu_lanes_begin(rank));
    LUO_TRY(gpu_copy_weights(rank));
    LUO_TRY(gpu_moe_begin(rank));
    const luo_status st =
        luo_interp_program(&step_executor, rank, job->bound.set, job->bound.program,
                           rank->x->config.calls_beside, rank->walk);
    if (st != LUO_OK) return rank->err.st == LUO_OK ? luo_err_nomem(&rank->err) : st;
    LUO_TRY(gpu_moe_end(rank));
    return gpu_mark_now(rank, GPU_MARK_END, -1, -1);
}

static luo_status begin(luo_rank *rank, const luo_step_order *order, luo_err *err)
{
    luo_job *job = rank->job;
    rank->order = order;
    rank->has_loss = rank->summed = false;
    rank->err = (luo_err){0};
    memset(job->answer, 0, sizeof *job->answer);
    tell_device(rank);
    LUO_TRY(gpu_clock_read(rank->x, 2, err));
    return gpu_pace_begin(rank, err);
}

static luo_status launch(luo_rank *rank, luo_err *err)
{
    luo_status st = gpu_batch_send(rank);
    if (st == LUO_OK) st = gpu_graph_launch(rank, walk, err);
    if (st == LUO_OK)
        st = gpu_check(&rank->err,
                       cudaEventRecord(rank->job->ended, rank->x->stream[LUO_STREAM_COMPUTE]),
                       "the end of a step");
    return st != LUO_OK && rank->err.st != LUO_OK ? luo_err_set(err, st, "%s", rank->err.text) : st;
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
luo_status gpu_await(luo_rank *rank, cudaEvent_t event, double spin_s, const char *what,
                     luo_err *err)
{
    const double began = luo_clock_s();
    for (;;) {
        const cudaError_t code = cudaEventQuery(event);
        if (code != cudaErrorNotReady) return gpu_check(err, code, what);
        tell_device(rank);
        gpu_watch_peek(rank->x);
        pause_after(luo_clock_s() - began, spin_s);
    }
}

static luo_status run(luo_rank *rank, luo_err *err)
{
    luo_job *job = rank->job;
    luo_progress_report *report = rank->x->config.where;
    if (report) atomic_store(&report->job, job->id);
    gpu_watch_at(rank->x, job);
    luo_status st = launch(rank, err);
    if (st == LUO_OK && rank->order->part.n < 2) gpu_batch_ahead(job, rank->order->step + 1);
    if (st == LUO_OK) st = gpu_await(rank, job->ended, 50e-6, "a step", err);
    gpu_watch_at(rank->x, NULL);
    if (report) atomic_store(&report->waiting, false);
    if (report) atomic_store(&report->job, -1);
    return st;
}

static luo_status run_watched(luo_rank *rank, luo_step_report *out, luo_err *err)
{
    luo_err verdict = {0};
    gpu_watcher_arm(rank->x->watcher, rank->x->stuck_s);
    const luo_status st = run(rank, err);
    const luo_status seen = gpu_watcher_disarm(rank->x->watcher, &verdict);
    rank->job->broken = st != LUO_OK || seen != LUO_OK;
    if (seen == LUO_OK) return st == LUO_OK ? gpu_report(rank, out, err) : st;
    *out = (luo_step_report){.status = seen, .start_s = rank->start_s, .end_s = luo_clock_s()};
    memcpy(out->text, verdict.text, sizeof out->text);
    return LUO_OK;
}

static luo_status check(luo_rank *rank, const luo_step_order *order, luo_err *err)
{
    int64_t targets;
    if (rank->job->broken)
        return luo_err_set(err, LUO_EBACKEND,
                           "a step of this plan failed half-way; the processes have to start "
                           "again.");
    LUO_TRY(gpu_batch_prepare(rank, order, &targets, err));
    if (targets > 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "step %lld has nothing to predict: all its documents are single tokens; "
                       "data with longer ones is needed.",
                       (long long)order->step);
}

luo_status gpu_step(luo_job *job, const luo_step_order *order, luo_step_report *out, luo_err *err)
{
    luo_rank *rank = &job->rank;
    const bool last = luo_step_part_is_last(&order->part);
    LUO_TRY(gpu_begin_part(job, &order->part, err));
    if (!job->bound.program) { /* stands by */
        const double now = luo_clock_s();
        *out = (luo_step_report){.status = LUO_OK, .start_s = now, .end_s = now};
        if (last) job->state.step = order->step + 1;
        return LUO_OK;
    }
    rank->start_s = luo_clock_s();
    LUO_TRY(check(rank, order, err));
    LUO_TRY(begin(rank, order, err));
    const luo_status st = run_watched(rank, out, err);
    rank->order = NULL; /* it was the caller's */
    if (st == LUO_OK && out->status == LUO_OK && last) job->state.step = order->step + 1;
    return st;
}
