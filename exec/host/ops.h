/* exec/host/ops.h: binding of operations, shared by the files that know one family each: ops.c (the
 * table, rows, pointwise, data), products.c, attention.c, loss.c; for exec/host only. */
#ifndef LUO_EXEC_HOST_OPS_H
#define LUO_EXEC_HOST_OPS_H
#include "exec/host/job.h"

static inline const luo_buffer *host_in(const luo_job *j, const host_op *op, int32_t i)
{
    return host_desc(j, op->instr->in[i]);
}
static inline const luo_buffer *host_out(const luo_job *j, const host_op *op, int32_t i)
{
    return host_desc(j, op->instr->out[i]);
}
luo_status host_wrong(const luo_job *j, const host_op *op, luo_err *err); /* LUO_EBUG */
/* Frame of a buffer along one dimension, as a single interval. Errors: LUO_EUNSUP it has gaps. */
luo_status host_interval(luo_job *j, int32_t buffer, int32_t dim, luo_span *out, luo_err *err);
/* First token of a buffer inside its own micro-batch. */
luo_status host_first_token(luo_job *j, const host_op *op, int32_t buffer, int64_t *out,
                            luo_err *err);
/* The first contribution to a gradient of a step overwrites what the last step left: false then,
 * and for results that are no gradient. */
bool host_adds(luo_rank *r, int32_t buffer);
static inline int64_t host_width(const luo_buffer *b) /* elements of a token */
{
    int64_t n = 1;
    for (int32_t d = 1; d < b->rank; d++) n *= b->dim[d];
    return n;
}

luo_status host_bind_matmul(luo_job *j, host_op *op, luo_err *err);
luo_status host_bind_matmul_dx(luo_job *j, host_op *op, luo_err *err);
luo_status host_bind_matmul_dw(luo_job *j, host_op *op, luo_err *err);
luo_status host_bind_rope(luo_job *j, host_op *op, luo_err *err);
luo_status host_bind_attention(luo_job *j, host_op *op, luo_err *err);
luo_status host_bind_attention_dx(luo_job *j, host_op *op, luo_err *err);
/* row_max, row_sum, row_target, loss_dx */
luo_status host_bind_logits(luo_job *j, host_op *op, luo_err *err);
luo_status host_bind_loss(luo_job *j, host_op *op, luo_err *err);
luo_status host_bind_sum(luo_job *j, host_op *op, luo_err *err);

void host_run_products(luo_rank *r, const host_op *op, int32_t task);
void host_run_rope(luo_rank *r, const host_op *op, int32_t task);
void host_run_rope_dx(luo_rank *r, const host_op *op, int32_t task);
void host_run_attention(luo_rank *r, const host_op *op, int32_t task);
void host_run_attention_dx(luo_rank *r, const host_op *op, int32_t task);
void host_run_row_max(luo_rank *r, const host_op *op, int32_t task);
void host_run_row_sum(luo_rank *r, const host_op *op, int32_t task);
void host_run_row_target(luo_rank *r, const host_op *op, int32_t task);
void host_run_loss(luo_rank *r, const host_op *op, int32_t task);
void host_run_loss_dx(luo_rank *r, const host_op *op, int32_t task);
void host_run_sum(luo_rank *r, const host_op *op, int32_t task);
#endif
