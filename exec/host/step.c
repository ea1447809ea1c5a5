/* step.c: submit and wait of one rank, and a whole step. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exec/host/job.h"

static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what changes in mid-step ---- */

void host_look(luo_rank *r)
{
    if (r->x->config.abort && atomic_load_explicit(r->x->config.abort, memory_order_relaxed))
        r->drain = true;
}

static double slowdown_at(const luo_step_order *o, double now)
{
    double f = 1;
    for (int32_t i = 0; i < o->npace && o->pace[i].at_s <= now; i++) f = o->pace[i].slowdown;
    return f;
}

/* Wakes up now and then to look whether the step was given up. */
static void sleep_until(luo_rank *r, double until)
{
    const double slice_s = 10e-3;
    for (double now = host_now(); now < until && !r->drain; now = host_now()) {
        const double to = fmin(until, now + slice_s);
        const struct timespec t = {(time_t)to, (long)(fmod(to, 1) * 1e9)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        host_look(r);
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
static void pace(luo_rank *r, host_op *op, double worked_s)
{
    const double least_s = 200e-6, now = host_now(), slowdown = slowdown_at(r->order, now);
    const double usual = usual_s(op, worked_s, slowdown > 1);
    const double owed = slowdown > 1 ? usual * slowdown - worked_s : 0;
    r->owed_s += owed;
    r->compute_s += worked_s + owed;
    if (r->owed_s < least_s) return;
    const double until = now + r->owed_s;
    sleep_until(r, until);
    r->owed_s = until - host_now(); /* below 0 when it slept too long */
}

/* ---- micro-batches ---- */

static void zero_unwritten(luo_rank *r, int32_t task)
{
    for (int32_t b = 0; b < r->job->b.role->nbuf; b++) {
        if (!r->job->fresh[b]) continue;
        memset(host_buf(r, b, task), 0, (size_t)luo_bound_desc(&r->job->b, b)->bytes);
        r->job->fresh[b] = false;
    }
}

/* The data of a micro-batch, before its first instruction here. */
static luo_status turn_to(luo_rank *r, int32_t task)
{
    LUO_TRY(host_finish_task(r));
    const luo_program *p = r->job->b.program;
    const luo_run_task *t = &p->tasks[task];
    r->task = task;
    if (r->job->b.role->seg[t->seg].phase == LUO_PHASE_POST) zero_unwritten(r, task);
    if (t->micro_batch < 0) return LUO_OK;
    int32_t pipeline, k;
    luo_batch_find(&r->job->b.batch, p->pipeline, t->micro_batch, &pipeline, &k);
    luo_batch_fill(r->x->config.corpus, &r->job->b.batch, r->order->step, pipeline, k,
                   r->job->batch_memory, &r->mb);
    return LUO_OK;
}

/* ---- submit and wait ---- */

static double value_of(const luo_rank *r, const void *at)
{
    return r->x->k->elem == sizeof(float) ? (double)*(const float *)at : *(const double *)at;
}

void host_keep_loss(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    r->loss = value_of(r, host_buf(r, op->instr->out[0], task));
    r->has_loss = true;
}

/* What a rank that drains does all the same: it moves cells on, and takes part in the decision. */
static bool always(const luo_bound_op *op)
{
    return op->kind == LUO_OP_RESHARD || op->kind == LUO_OP_GRAD_NORM ||
           op->kind == LUO_OP_UPDATE || op->kind == LUO_OP_AMEND;
}

static luo_status compute(luo_rank *r, host_run run, const luo_bound_op *op, int32_t task)
{
    const double began = host_now(), worked = processor_s();
    if (!r->drain || always(op)) run(r, op, task);
    if (!r->drain) pace(r, &r->job->op[op->instr->id], processor_s() - worked);
    const double end = host_now();
    if (op->is_loss) host_keep_loss(r, op, task);
    if (r->order->trace && r->nrecords < r->cap_records)
        r->record[r->nrecords++] = (luo_op_record){
            r->x->device, task, op->instr->id, began - r->start_s, end - r->start_s, LUO_OK};
    return luo_ledger_add(&r->ledger, luo_part_of(op->instr), began - r->start_s, end - r->start_s,
                          -1);
}

static luo_status submit(luo_rank *r, const luo_issue *issue, int64_t *ticket)
{
    const host_op *op = &r->job->op[issue->instr->id];
    luo_progress_report *w = r->x->config.where;
    if (issue->task != r->task) LUO_TRY(turn_to(r, issue->task));
    host_look(r);
    for (int32_t i = 0; i < issue->ndep; i++) LUO_TRY(host_finish(r, issue->dep[i]));
    if (op->comm) LUO_TRY(host_settle(r, op));
    if (w) {
        atomic_store(&w->task, issue->task);
        atomic_store(&w->instr, issue->instr->id);
    }
    if (!op->run) return host_start(r, op, issue->task, ticket);
    LUO_TRY(host_progress(r));
    *ticket = 0;
    LUO_TRY(compute(r, op->run, op->b, issue->task));
    if (w) atomic_fetch_add(&w->done, 1);
    return LUO_OK;
}

static luo_status wait(luo_rank *r, const int64_t *tickets, int32_t n)
{
    if (n == 0) return host_finish_all(r);
    for (int32_t i = 0; i < n; i++) LUO_TRY(host_finish(r, tickets[i]));
    return LUO_OK;
}

const luo_executor luo_host_step_executor = {.submit = submit, .wait = wait};

/* ---- a step ---- */

static void begin(luo_rank *r, const luo_step_order *order)
{
    const luo_job *j = r->job;
    r->order = order;
    r->task = -1;
    r->has_loss = r->drain = false;
    r->outcome = HOST_UPDATED;
    r->loss = r->grad_norm = r->compute_s = r->owed_s = 0;
    r->nrecords = 0;
    r->err = (luo_err){0};
    luo_arena_reset(r->scratch, 0);
    r->ledger = (luo_ledger){.arena = r->scratch};
    for (int32_t b = 0; b < j->b.role->nbuf; b++)
        j->fresh[b] = j->b.role->buf[b].buffer_class == LUO_BUFFER_GRADIENT;
    memset(r->use, 0, (size_t)j->b.role->ninstr * sizeof *r->use);
    const int64_t targets = luo_batch_targets(r->x->config.corpus, &j->b.batch, order->step);
    r->scale = targets > 0 ? 1.0 / (double)targets : 0;
    r->start_s = host_now();
}

static luo_status report(luo_rank *r, luo_step_report *out, luo_err *err)
{
    const luo_job *j = r->job;
    const double end = host_now();
    *out = (luo_step_report){.status = LUO_OK,
                             .start_s = r->start_s,
                             .end_s = end,
                             .compute_s = r->compute_s,
                             .predicted_s = luo_bound_predicted(&j->b),
                             .has_loss = r->has_loss && r->outcome == HOST_UPDATED,
                             .loss = r->loss,
                             .grad_norm = r->grad_norm,
                             .nrecords = r->nrecords,
                             .records = r->record,
                             .memory_bytes = j->slab_bytes + j->message_bytes +
                                             (j->undo ? host_undo_bytes(j) : 0)};
    out->ncomm = luo_bound_use(&j->b, r->use, r->used);
    out->comm = r->used;
    if (luo_ledger_close(&r->ledger, r->scratch, end - r->start_s, &out->parts, NULL) != LUO_OK)
        return luo_err_nomem(err);
    if (r->outcome == HOST_DRAINED) out->status = LUO_ECANCELED;
    if (r->outcome != HOST_NOT_FINITE) return LUO_OK;
    out->status = LUO_EBACKEND;
    snprintf(out->text, sizeof out->text,
             "the gradients of step %lld are not finite; a smaller "
             "model or other data may train.",
             (long long)r->order->step);
    return LUO_OK;
}

static luo_status walk(luo_job *j, luo_step_report *out, luo_err *err)
{
    luo_rank *r = &j->rank;
    luo_progress_report *w = r->x->config.where;
    if (w) atomic_store(&w->job, j->id);
    const luo_status st =
        luo_interpret(&luo_host_step_executor, r, j->b.set, j->b.program, r->walk);
    if (w) atomic_store(&w->job, -1);
    if (st == LUO_OK) return report(r, out, err);
    if (r->err.st == LUO_OK) return luo_err_nomem(err);
    return luo_err_set(err, r->err.st, "%s", r->err.text);
}

luo_status host_step(luo_job *j, const luo_step_order *order, luo_step_report *out, luo_err *err)
{
    luo_rank *r = &j->rank;
    if (!j->b.program) { /* stands by */
        const double now = host_now();
        *out = (luo_step_report){.status = LUO_OK, .start_s = now, .end_s = now};
        j->state.step = order->step + 1;
        return LUO_OK;
    }
    if (j->broken)
        return luo_err_set(err, LUO_EBACKEND,
                           "a step of this plan failed half-way; the processes have to start "
                           "again.");
    begin(r, order);
    if (r->scale == 0) /* the same on every rank, before anything is sent */
        return luo_err_set(err, LUO_EINPUT,
                           "step %lld has nothing to predict: all its documents are single tokens; "
                           "data with longer ones is needed.",
                           (long long)order->step);
    const luo_status st = walk(j, out, err);
    r->order = NULL; /* it was the caller's */
    j->broken = st != LUO_OK;
    if (st == LUO_OK && out->status == LUO_OK) j->state.step = order->step + 1;
    return st;
}
