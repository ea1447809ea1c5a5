/* loss.c: cross-entropy over a vocabulary cut among devices. */
#include "exec/host/job.h"

void host_run_row_max(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->row_max(op->rows, op->cols, host_buf(rank, instr->in[0], task),
                        host_buf(rank, instr->out[0], task));
}

void host_run_row_sum(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->row_sum(op->rows, op->cols, host_buf(rank, instr->in[0], task),
                        host_buf(rank, instr->in[1], task), host_buf(rank, instr->out[0], task),
                        host_buf(rank, instr->out[1], task));
}

void host_run_row_target(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->row_target(op->rows, op->cols, op->lo, host_buf(rank, instr->in[0], task),
                           host_buf(rank, instr->in[1], task), host_buf(rank, instr->out[0], task));
}

void host_run_loss(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->loss(op->rows, host_buf(rank, instr->in[0], task),
                     host_buf(rank, instr->in[1], task), host_buf(rank, instr->in[2], task),
                     rank->mb.labels + op->lo, rank->scale, host_buf(rank, instr->out[0], task));
}

void host_run_loss_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->loss_dx(op->rows, op->cols, op->lo, host_buf(rank, instr->in[0], task),
                        host_buf(rank, instr->in[1], task), host_buf(rank, instr->in[2], task),
                        rank->scale, host_buf(rank, instr->out[0], task));
}

void host_run_sum(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const bool add = host_adds(rank, instr->out[0]);
    rank->x->k->sum(op->rows, host_buf(rank, instr->in[0], task), add,
                    host_buf(rank, instr->out[0], task));
}
