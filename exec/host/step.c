/* step.c: submit and wait of one rank, and a whole step. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exec/data/batch.h"
#include "exec/host/job.h"

static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what changes in mid-step ---- */

void host_look(luo_rank *rank)
{
    if (rank->x->config.abort && atomic_load_explicit(rank->x->config.abort, memory_order_relaxed))
        rank->drain = true;
}

static double slowdown_at(const luo_step_order *order, double now)
{
    double f = 1;
    for (int32_t i = 0; i < order->npace && order->pace[i].at_s <= now; i++)
        f = order->pace[i].slowdown;
    return f;
}

/* Wakes up now and then to look whether the step was given up. */
static void sleep_until(luo_rank *rank, double until)
{
    const double slice_s = 10e-3;
    for (double now = host_now(); now < until && !rank->drain; now = host_now()) {
        const double to = fmin(until, now + slice_s);
        const struct timespec t = {(time_t)to, (long)(fmod(to, 1) * 1e9)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        host_look(rank);
    }
}

/* Processor time that an instruction takes without a straggler event. One that slept before it
 * finds cold caches and takes longer, by half at most; a slowdown is not of that. What takes longer
 * still has more tokens. */
static double usual_s(host_op *op, double worked_s, bool slowed)
{
    const double cold = 1.5;
    const bool known = op->usual_s > 0;
    if (slowed && known) return fmax(fmin(worked_s, op->usual_s), worked_s / cold);
    if (!slowed) op->usual_s += known ? (worked_s - op->usual_s) / 8 : worked_s;
    return worked_s;
}

/* A straggler: what an instruction takes is made slowdown times as much by sleeping when it is
 * done. Short sleeps are saved up, since no clock wakes a thread to the microsecond. */
static void pace(luo_rank *rank, host_op *op, double worked_s)
{
    const double least_s = 200e-6, now = host_now(), slowdown = slowdown_at(rank->order, now);
    const double usual = usual_s(op, worked_s, slowdown > 1);
    const double owed = slowdown > 1 ? usual * slowdown - worked_s : 0;
    rank->owed_s += owed;
    rank->compute_s += worked_s + owed;
    if (rank->owed_s < least_s) return;
    const double until = now + rank->owed_s;
    sleep_until(rank, until);
    rank->owed_s = until - host_now(); /* below 0 when it slept too long */
}

/* ---- micro-batches ---- */

static void zero_unwritten(luo_rank *rank, int32_t buffer, int32_t task)
{
    if (!rank->job->fresh[buffer]) return;
    memset(host_buf(rank, buffer, task), 0, (size_t)luo_bound_desc(&rank->job->b, buffer)->bytes);
    rank->job->fresh[buffer] = false;
}

/* Before an early call: Post, which zeroes what nobody has written, begins behind it. */
static void zero_operands(luo_rank *rank, const luo_issue *issue)
{
    const luo_instr *in = issue->instr;
    for (int32_t i = 0; i < in->nin; i++) zero_unwritten(rank, in->in[i], issue->task);
    for (int32_t i = 0; i < in->nout; i++) zero_unwritten(rank, in->out[i], issue->task);
}

/* The data of a micro-batch, before its first instruction here. */
static luo_status turn_to(luo_rank *rank, int32_t task)
{
    LUO_TRY(host_finish_task(rank));
    const luo_program *program = rank->job->b.program;
    const luo_run_task *run_task = &program->tasks[task];
    rank->task = task;
    host_turn(rank, task);
    const bool post = rank->job->b.role->seg[run_task->seg].phase == LUO_PHASE_POST;
    for (int32_t b = 0; post && b < rank->job->b.role->nbuf; b++) zero_unwritten(rank, b, task);
    if (run_task->micro_batch < 0) return LUO_OK;
    int32_t pipeline, k;
    luo_batch_find(&rank->job->b.batch, program->pipeline, run_task->micro_batch, &pipeline, &k);
    luo_batch_fill(rank->x->config.corpus, &rank->job->b.batch, rank->order->step, pipeline, k,
                   rank->job->batch_memory, &rank->mb);
    return LUO_OK;
}

/* What goes ahead is handed over when the task before its own begins: its room is empty then. */
static luo_status start_ahead(luo_rank *rank, const host_op *op, const luo_issue *issue,
                              int64_t *ticket)
{
    if (issue->task - 1 != rank->task) LUO_TRY(turn_to(rank, issue->task - 1));
    return host_start(rank, op, issue, ticket);
}

/* ---- submit and wait ---- */

static double value_of(const luo_rank *rank, const void *at)
{
    return rank->x->k->elem == sizeof(float) ? (double)*(const float *)at : *(const double *)at;
}

void host_keep_loss(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    rank->loss = value_of(rank, host_buf(rank, op->instr->out[0], task));
    rank->has_loss = true;
}

/* What a rank that drains does all the same: it moves cells on, rows of experts by counts that have
 * to be right, and takes part in the decision. */
static bool always(const luo_bound_op *op)
{
    return op->kind == LUO_OP_RESHARD || op->kind == LUO_OP_ROUTE || op->kind == LUO_OP_PACK ||
           op->kind == LUO_OP_GRAD_NORM ||
           op->kind == LUO_OP_UPDATE || op->kind == LUO_OP_AMEND;
}

int32_t host_record(luo_rank *rank, int32_t task, int32_t instr)
{
    if (!rank->order->trace || rank->nrecords == rank->cap_records) return -1;
    rank->record[rank->nrecords] =
        (luo_op_record){.device = rank->x->device, .task = task, .instr = instr, .status = LUO_OK};
    return rank->nrecords++;
}

void host_record_times(luo_rank *rank, int32_t record, double start_s, double end_s)
{
    if (record < 0) return;
    rank->record[record].start_s = start_s;
    rank->record[record].end_s = end_s;
}

static luo_status compute(luo_rank *rank, host_run run, const luo_bound_op *op, int32_t task)
{
    const int32_t record = host_record(rank, task, op->instr->id);
    const double began = host_now(), worked = processor_s();
    if (!rank->drain || always(op)) run(rank, op, task);
    if (!rank->drain) pace(rank, &rank->job->op[op->instr->id], processor_s() - worked);
    const double end = host_now();
    if (op->is_loss) host_keep_loss(rank, op, task);
    host_record_times(rank, record, began - rank->start_s, end - rank->start_s);
    return luo_ledger_add(&rank->ledger, luo_part_of(op->instr), began - rank->start_s,
                          end - rank->start_s, -1);
}

static luo_status submit(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    const host_op *op = &rank->job->op[issue->instr->id];
    luo_progress_report *report = rank->x->config.where;
    if (issue->early && op->b->comm->ahead) return start_ahead(rank, op, issue, ticket);
    if (issue->early) zero_operands(rank, issue);
    else if (issue->task != rank->task) LUO_TRY(turn_to(rank, issue->task));
    host_look(rank);
    if (!op->run && op->b->comm->beside) return host_start(rank, op, issue, ticket);
    LUO_TRY(host_settle(rank, op, issue));
    if (op->run) LUO_TRY(host_progress(rank));
    if (report) {
        atomic_store(&report->task, issue->task);
        atomic_store(&report->instr, issue->instr->id);
    }
    if (!op->run) return host_start(rank, op, issue, ticket);
    *ticket = 0;
    LUO_TRY(compute(rank, op->run, op->b, issue->task));
    if (report) atomic_fetch_add(&report->done, 1);
    return LUO_OK;
}

static luo_status wait(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    if (n == 0) return host_finish_all(rank);
    for (int32_t i = 0; i < n; i++) LUO_TRY(host_finish(rank, tickets[i]));
    return LUO_OK;
}

const luo_executor luo_host_step_executor = {.submit = submit, .wait = wait};

/* ---- a step ---- */

static luo_status begin(luo_rank *rank, const luo_step_order *order, luo_err *err)
{
    luo_job *job = rank->job;
    rank->order = order;
    rank->task = -1;
    rank->has_loss = rank->drain = rank->summed = false;
    rank->outcome = HOST_UPDATED;
    rank->loss = rank->aux_loss = rank->grad_norm = rank->compute_s = rank->owed_s = 0;
    rank->nrecords = 0;
    rank->err = (luo_err){0};
    luo_arena_reset(rank->scratch, 0);
    rank->ledger = (luo_ledger){.arena = rank->scratch};
    for (int32_t b = 0; b < job->b.role->nbuf; b++)
        job->fresh[b] = job->b.role->buf[b].buffer_class == LUO_BUFFER_GRADIENT;
    memset(rank->use, 0, (size_t)job->b.role->ninstr * sizeof *rank->use);
    LUO_TRY(luo_batch_place(rank->scratch, &job->b.batch, order->part.length,
                            order->part.nsequences, err));
    const int64_t targets = luo_batch_targets(rank->x->config.corpus, &job->b.batch, order->step);
    rank->scale = targets > 0 ? 1.0 / (double)targets : 0;
    rank->start_s = host_now();
    return LUO_OK;
}

/* Weights whose state lies here in a layout of its own. */
static void copy_weights(luo_job *job)
{
    const int64_t elem = (int64_t)job->x->k->elem;
    for (int32_t i = 0; i < job->b.ncopies; i++) {
        const luo_bound_copy *copy = &job->b.copy[i];
        char *to = job->slab + job->b.layout.at[copy->weight];
        for (int32_t k = 0; k < copy->ncells; k++)
            memcpy(to + copy->cells[k].weight * elem,
                   (const char *)copy->piece->weight + copy->cells[k].state * elem,
                   (size_t)(copy->cells[k].n * elem));
    }
}

static luo_status report(luo_rank *rank, luo_step_report *out, luo_err *err)
{
    const luo_job *job = rank->job;
    const double end = host_now();
    *out = (luo_step_report){.status = LUO_OK,
                             .start_s = rank->start_s,
                             .end_s = end,
                             .compute_s = rank->compute_s,
                             .predicted_s = luo_bound_predicted(&job->b),
                             .has_loss = rank->has_loss && rank->outcome == HOST_UPDATED,
                             .loss = rank->loss,
                             .aux_loss = rank->outcome == HOST_UPDATED ? rank->aux_loss : 0,
                             .grad_norm = rank->grad_norm,
                             .nrecords = rank->nrecords,
                             .records = rank->record,
                             .memory_bytes = job->slab_bytes + job->message_bytes +
                                             host_sum_bytes(job->x) +
                                             (job->undo ? host_undo_bytes(job) : 0)};
    out->ncomm = luo_bound_use(&job->b, rank->use, rank->used);
    out->comm = rank->used;
    if (luo_ledger_close(&rank->ledger, rank->scratch, end - rank->start_s, &out->parts, NULL) !=
        LUO_OK)
        return luo_err_nomem(err);
    if (rank->outcome == HOST_DRAINED) out->status = LUO_ECANCELED;
    if (rank->outcome != HOST_NOT_FINITE) return LUO_OK;
    out->status = LUO_EBACKEND;
    snprintf(out->text, sizeof out->text,
             "the gradients of step %lld are not finite; a smaller "
             "model or other data may train.",
             (long long)rank->order->step);
    return LUO_OK;
}

static luo_status walk(luo_job *job, luo_step_report *out, luo_err *err)
{
    luo_rank *rank = &job->rank;
    luo_progress_report *w = rank->x->config.where;
    if (w) atomic_store(&w->job, job->id);
    const luo_status st =
        luo_interp_program(&luo_host_step_executor, rank, job->b.set, job->b.program,
                           rank->x->config.calls_beside, rank->walk);
    if (w) atomic_store(&w->job, -1);
    if (st == LUO_OK) return report(rank, out, err);
    if (rank->err.st == LUO_OK) return luo_err_nomem(err);
    return luo_err_set(err, rank->err.st, "%s", rank->err.text);
}

luo_status host_step(luo_job *job, const luo_step_order *order, luo_step_report *out, luo_err *err)
{
    luo_rank *rank = &job->rank;
    LUO_TRY(host_begin_part(job, &order->part, err));
    if (!job->b.program) { /* stands by */
        const double now = host_now();
        *out = (luo_step_report){.status = LUO_OK, .start_s = now, .end_s = now};
        if (luo_step_part_is_last(&order->part)) job->state.step = order->step + 1;
        return LUO_OK;
    }
    if (job->broken)
        return luo_err_set(err, LUO_EBACKEND,
                           "a step of this plan failed half-way; the processes have to start "
                           "again.");
    LUO_TRY(begin(rank, order, err));
    if (rank->scale == 0) /* the same on every rank, before anything is sent */
        return luo_err_set(err, LUO_EINPUT,
                           "step %lld has nothing to predict: all its documents are single tokens; "
                           "data with longer ones is needed.",
                           (long long)order->step);
    copy_weights(job);
    const luo_status st = walk(job, out, err);
    rank->order = NULL; /* it was the caller's */
    job->broken = st != LUO_OK;
    if (st == LUO_OK && out->status == LUO_OK && luo_step_part_is_last(&order->part))
        job->state.step = order->step + 1;
    return st;
}
