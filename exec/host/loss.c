/* loss.c: cross-entropy over a vocabulary cut among devices. */
#include "exec/host/job.h"

void host_run_row_max(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_max(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->out[0], task));
}

void host_run_row_sum(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_sum(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                     host_buf(r, i->out[0], task), host_buf(r, i->out[1], task));
}

void host_run_row_target(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_target(op->rows, op->cols, op->lo, host_buf(r, i->in[0], task),
                        host_buf(r, i->in[1], task), host_buf(r, i->out[0], task));
}

void host_run_loss(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->loss(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                  host_buf(r, i->in[2], task), r->mb.labels + op->lo, r->scale,
                  host_buf(r, i->out[0], task));
}

void host_run_loss_dx(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->loss_dx(op->rows, op->cols, op->lo, host_buf(r, i->in[0], task),
                     host_buf(r, i->in[1], task), host_buf(r, i->in[2], task), r->scale,
                     host_buf(r, i->out[0], task));
}

void host_run_sum(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    r->x->k->sum(op->rows, host_buf(r, i->in[0], task), add, host_buf(r, i->out[0], task));
}
