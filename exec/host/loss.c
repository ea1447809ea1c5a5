/* exec/host/loss.c: cross-entropy over a vocabulary cut among devices. */
#include "exec/host/ops.h"

luo_status host_bind_logits(luo_job *j, host_op *op, luo_err *err)
{
    luo_span s = {0, 0};
    LUO_TRY(host_interval(j, op->instr->in[0], 1, &s, err));
    op->rows = host_in(j, op, 0)->dim[0];
    op->cols = host_in(j, op, 0)->dim[1];
    op->lo = s.lo;
    return LUO_OK;
}

void host_run_row_max(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_max(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->out[0], task));
}

void host_run_row_sum(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_sum(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                     host_buf(r, i->out[0], task), host_buf(r, i->out[1], task));
}

void host_run_row_target(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_target(op->rows, op->cols, op->lo, host_buf(r, i->in[0], task),
                        host_buf(r, i->in[1], task), host_buf(r, i->out[0], task));
}

/* The graph's loss knows no labels; which tokens are targets is known to the data loader. */
luo_status host_bind_loss(luo_job *j, host_op *op, luo_err *err)
{
    op->rows = host_in(j, op, 0)->dim[0];
    return host_first_token(j, op, op->instr->in[0], &op->lo, err);
}

void host_run_loss(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->loss(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                  host_buf(r, i->in[2], task), r->mb.labels + op->lo, r->scale,
                  host_buf(r, i->out[0], task));
}

void host_run_loss_dx(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->loss_dx(op->rows, op->cols, op->lo, host_buf(r, i->in[0], task),
                     host_buf(r, i->in[1], task), host_buf(r, i->in[2], task), r->scale,
                     host_buf(r, i->out[0], task));
}

void host_run_sum(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    r->x->k->sum(op->rows, host_buf(r, i->in[0], task), add, host_buf(r, i->out[0], task));
}

luo_status host_bind_sum(luo_job *j, host_op *op, luo_err *err)
{
    (void)err;
    op->rows = host_volume(host_in(j, op, 0));
    return LUO_OK;
}
