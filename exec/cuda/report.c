/* report.c: what became of a step, from what its kernels left in mapped memory: the
 * answer, and the stamps. Times are seconds since the start of the step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/cuda/moe/moe.h"

static double since_start(const luo_rank *rank, uint64_t stamp)
{
    return gpu_clock_host_s(rank->x, stamp) - rank->start_s;
}

/* The time in which the compute stream was held up counts as communication, but waiting for what
 * the stage before has not made yet is the pipeline's bubble. */
static luo_status add_wait(luo_rank *rank, const gpu_mark *mark, double from, double to)
{
    const gpu_op *op = &rank->job->op[mark->instr];
    if (op->b->comm->awaits) return LUO_OK;
    rank->use[mark->instr].exposed_s += to - from;
    return luo_ledger_add(&rank->ledger, luo_part_of(op->b->instr), from, to, mark->instr);
}

static luo_status add_marks(luo_rank *rank, double *busy_s)
{
    const gpu_stamps *stamps = &rank->job->stamps;
    for (int32_t i = 0; i + 1 < stamps->now->nmarks; i++) {
        const gpu_mark *mark = &stamps->now->mark[i];
        const double from = since_start(rank, gpu_mark_stamp(stamps, i));
        const double to = since_start(rank, gpu_mark_stamp(stamps, i + 1));
        if (mark->kind == GPU_MARK_WAIT) {
            LUO_TRY(add_wait(rank, mark, from, to));
            continue;
        }
        *busy_s += to - from;
        LUO_TRY(luo_ledger_add(
            &rank->ledger, mark->kind == GPU_MARK_RECOMPUTE ? LUO_PART_RECOMPUTE : LUO_PART_COMPUTE,
            from, to, -1));
    }
    return LUO_OK;
}

static int32_t add_spans(luo_rank *rank)
{
    const gpu_stamps *stamps = &rank->job->stamps;
    int32_t n = 0;
    for (int32_t i = 0; i < stamps->now->nspans; i++) {
        const gpu_span *at = &stamps->now->span[i];
        const gpu_op *op = &rank->job->op[at->instr];
        const double from = since_start(rank, gpu_span_stamp(stamps, i, false));
        const double to = since_start(rank, gpu_span_stamp(stamps, i, true));
        if (rank->order->trace)
            rank->record[n++] =
                (luo_op_record){rank->x->device, at->task, at->instr, from, to, LUO_OK};
        if (op->run) continue;
        luo_comm_use *use = &rank->use[at->instr];
        use->calls++;
        use->bytes += op->b->instr->bytes;
        use->busy_s += to - from;
    }
    return n;
}

static void judge(const luo_rank *rank, const gpu_step_answer *answer, luo_step_report *out)
{
    const bool updated = answer->outcome == GPU_UPDATED || !rank->job->updates;
    out->has_loss = rank->has_loss && updated;
    out->loss = (double)answer->loss;
    out->aux_loss = updated ? gpu_moe_loss(rank->job) : 0;
    out->grad_norm = updated ? sqrt((double)answer->squares) : 0;
    if (updated) return;
    out->status = answer->outcome == GPU_DRAINED ? LUO_ECANCELED : LUO_EBACKEND;
    if (answer->outcome == GPU_DRAINED) return;
    snprintf(out->text, sizeof out->text,
             answer->outcome == GPU_NOT_FINITE
                 ? "the gradients of step %lld are not finite; a smaller "
                   "model or other data may train."
                 : "the update of step %lld never ran.",
             (long long)rank->order->step);
}

luo_status gpu_report(luo_rank *rank, luo_step_report *out, luo_err *err)
{
    const luo_job *job = rank->job;
    const double end = luo_clock_s();
    const gpu_step_answer answer = *(const volatile gpu_step_answer *)job->answer;
    luo_arena_reset(rank->scratch, 0);
    rank->ledger = (luo_ledger){.arena = rank->scratch};
    memset(rank->use, 0, (size_t)job->bound.role->ninstr * sizeof *rank->use);
    *out = (luo_step_report){.status = LUO_OK,
                             .start_s = rank->start_s,
                             .end_s = end,
                             .predicted_s = luo_bound_predicted(&job->bound),
                             .records = rank->record,
                             .comm = rank->used,
                             .memory_bytes = job->slab_bytes + job->message_bytes +
                                             job->work_bytes + job->table_bytes + job->batch.bytes +
                                             gpu_sum_bytes(job->x) + gpu_moe_bytes(job)};
    judge(rank, &answer, out);
    if (add_marks(rank, &out->compute_s) != LUO_OK) return luo_err_nomem(err);
    out->nrecords = add_spans(rank);
    out->ncomm = luo_bound_use(&job->bound, rank->use, rank->used);
    if (luo_ledger_close(&rank->ledger, rank->scratch, end - rank->start_s, &out->parts, NULL) !=
        LUO_OK)
        return luo_err_nomem(err);
    return LUO_OK;
}
