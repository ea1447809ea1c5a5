/* report.c: what became of a step, from what its kernels left in mapped memory: the
 * answer, and the stamps. Times are seconds since the start of the step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/cuda/moe/moe.h"

static double since_start(const luo_rank *r, uint64_t stamp)
{
    return gpu_clock_host_s(r->x, stamp) - r->start_s;
}

/* The time in which the compute stream was held up counts as communication, but waiting for what
 * the stage before has not made yet is the pipeline's bubble. */
static luo_status add_wait(luo_rank *r, const gpu_mark *m, double from, double to)
{
    const gpu_op *op = &r->job->op[m->instr];
    if (op->b->comm->awaits) return LUO_OK;
    r->use[m->instr].exposed_s += to - from;
    return luo_ledger_add(&r->ledger, luo_part_of(op->b->instr), from, to, m->instr);
}

static luo_status add_marks(luo_rank *r, double *busy_s)
{
    const gpu_stamps *s = &r->job->stamps;
    for (int32_t i = 0; i + 1 < s->now->nmarks; i++) {
        const gpu_mark *m = &s->now->mark[i];
        const double from = since_start(r, gpu_mark_stamp(s, i));
        const double to = since_start(r, gpu_mark_stamp(s, i + 1));
        if (m->kind == GPU_MARK_WAIT) {
            LUO_TRY(add_wait(r, m, from, to));
            continue;
        }
        *busy_s += to - from;
        LUO_TRY(luo_ledger_add(
            &r->ledger, m->kind == GPU_MARK_RECOMPUTE ? LUO_PART_RECOMPUTE : LUO_PART_COMPUTE, from,
            to, -1));
    }
    return LUO_OK;
}

static int32_t add_spans(luo_rank *r)
{
    const gpu_stamps *s = &r->job->stamps;
    int32_t n = 0;
    for (int32_t i = 0; i < s->now->nspans; i++) {
        const gpu_span *at = &s->now->span[i];
        const gpu_op *op = &r->job->op[at->instr];
        const double from = since_start(r, gpu_span_stamp(s, i, false));
        const double to = since_start(r, gpu_span_stamp(s, i, true));
        if (r->order->trace)
            r->record[n++] = (luo_op_record){r->x->device, at->task, at->instr, from, to, LUO_OK};
        if (op->run) continue;
        luo_comm_use *use = &r->use[at->instr];
        use->calls++;
        use->bytes += op->b->instr->bytes;
        use->busy_s += to - from;
    }
    return n;
}

static void judge(const luo_rank *r, const gpu_step_answer *a, luo_step_report *out)
{
    const bool updated = a->outcome == GPU_UPDATED || !r->job->updates;
    out->has_loss = r->has_loss && updated;
    out->loss = (double)a->loss;
    out->aux_loss = updated ? gpu_moe_loss(r->job) : 0;
    out->grad_norm = updated ? sqrt((double)a->squares) : 0;
    if (updated) return;
    out->status = a->outcome == GPU_DRAINED ? LUO_ECANCELED : LUO_EBACKEND;
    if (a->outcome == GPU_DRAINED) return;
    snprintf(out->text, sizeof out->text,
             a->outcome == GPU_NOT_FINITE ? "the gradients of step %lld are not finite; a smaller "
                                            "model or other data may train."
                                          : "the update of step %lld never ran.",
             (long long)r->order->step);
}

luo_status gpu_report(luo_rank *r, luo_step_report *out, luo_err *err)
{
    const luo_job *j = r->job;
    const double end = luo_clock_s();
    const gpu_step_answer answer = *(const volatile gpu_step_answer *)j->answer;
    luo_arena_reset(r->scratch, 0);
    r->ledger = (luo_ledger){.arena = r->scratch};
    memset(r->use, 0, (size_t)j->bound.role->ninstr * sizeof *r->use);
    *out = (luo_step_report){.status = LUO_OK,
                             .start_s = r->start_s,
                             .end_s = end,
                             .predicted_s = luo_bound_predicted(&j->bound),
                             .records = r->record,
                             .comm = r->used,
                             .memory_bytes = j->slab_bytes + j->message_bytes + j->work_bytes +
                                             j->table_bytes + j->batch.bytes +
                                             gpu_sum_bytes(j->x) + gpu_moe_bytes(j)};
    judge(r, &answer, out);
    if (add_marks(r, &out->compute_s) != LUO_OK) return luo_err_nomem(err);
    out->nrecords = add_spans(r);
    out->ncomm = luo_bound_use(&j->bound, r->use, r->used);
    if (luo_ledger_close(&r->ledger, r->scratch, end - r->start_s, &out->parts, NULL) != LUO_OK)
        return luo_err_nomem(err);
    return LUO_OK;
}
