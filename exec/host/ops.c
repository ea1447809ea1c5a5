/* ops.c: a function per kind of operation, on what exec/bind/bound_ops.c says of it. */
#include <string.h>

#include "exec/host/job.h"

bool host_adds(luo_rank *r, int32_t buffer)
{
    if (luo_bound_desc(&r->job->b, buffer)->buffer_class != LUO_BUFFER_GRADIENT) return false;
    const bool add = !r->job->fresh[buffer];
    r->job->fresh[buffer] = false;
    return add;
}

/* ---- bias, embedding, norm ---- */

static void run_bias(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->bias(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                  host_buf(r, i->out[0], task));
}

static void run_bias_dw(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    r->x->k->bias_dw(op->rows, op->cols, host_buf(r, i->in[0], task), add,
                     host_buf(r, i->out[0], task));
}

static void run_embedding(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->embedding(op->rows, op->cols, op->lo, op->depth, host_buf(r, i->in[0], task),
                       host_buf(r, i->in[1], task), host_buf(r, i->out[0], task));
}

static void run_embedding_dw(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    r->x->k->embedding_dw(op->rows, op->cols, op->lo, op->depth, host_buf(r, i->in[0], task),
                          host_buf(r, i->in[1], task), add, host_buf(r, i->out[0], task));
}

static bool centred(const luo_rank *r)
{
    return r->x->config.model->norm == LUO_NORM_LAYER;
}

static void run_norm(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->norm(op->rows, op->cols, r->x->config.model->norm_eps, host_buf(r, i->in[0], task),
                  host_buf(r, i->in[1], task), i->nin > 2 ? host_buf(r, i->in[2], task) : NULL,
                  host_buf(r, i->out[0], task));
}

static void run_norm_dx(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->norm_dx(op->rows, op->cols, r->x->config.model->norm_eps, centred(r),
                     host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                     host_buf(r, i->in[2], task), host_buf(r, i->out[0], task));
}

static void run_norm_dw(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    if (i->nout > 1) host_adds(r, i->out[1]);
    r->x->k->norm_dw(op->rows, op->cols, r->x->config.model->norm_eps, host_buf(r, i->in[0], task),
                     host_buf(r, i->in[1], task), add, host_buf(r, i->out[0], task),
                     i->nout > 1 ? host_buf(r, i->out[1], task) : NULL);
}

/* ---- matrix products ---- */

static void run_products(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    for (int32_t k = 0; k < op->nproducts; k++) {
        const luo_product *p = &op->product[k];
        const bool add = p->add || host_adds(r, p->c);
        char *c = host_buf(r, p->c, task);
        if (p->m == 0 || p->n == 0) continue;
        if (p->k == 0) {
            if (!add) memset(c, 0, (size_t)(p->m * p->n) * r->x->k->elem);
            continue;
        }
        r->x->k->gemm(p->ta, p->tb, p->m, p->n, p->k, host_buf(r, p->a, task), p->lda,
                      host_buf(r, p->b, task), p->ldb, add, c, p->ldc);
    }
}

/* ---- pointwise ---- */

static void run_activation(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    if (i->nin == 1) {
        r->x->k->gelu(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->out[0], task));
        return;
    }
    r->x->k->swiglu(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                    host_buf(r, i->out[0], task), host_buf(r, i->out[1], task));
}

static void run_activation_dx(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    if (i->nout == 1) {
        r->x->k->gelu_dx(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                         host_buf(r, i->out[0], task));
        return;
    }
    r->x->k->swiglu_dx(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                       host_buf(r, i->in[2], task), host_buf(r, i->in[3], task),
                       host_buf(r, i->out[0], task), host_buf(r, i->out[1], task));
}

static void run_add(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const void *x[LUO_SUMMANDS];
    for (int32_t k = 0; k < i->nin; k++) x[k] = host_buf(r, i->in[k], task);
    r->x->k->add(op->rows, i->nin, x, host_buf(r, i->out[0], task));
}

/* A contribution that arrived by communication, onto the running sum. */
static void run_accumulate(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    void *sum = host_buf(r, i->out[0], task);
    const void *x[2] = {sum, host_buf(r, i->in[0], task)};
    const bool add = host_adds(r, i->out[0]);
    r->x->k->add(op->rows, add ? 2 : 1, add ? x : x + 1, sum);
}

/* ---- data ---- */

static void run_placeholder(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const int32_t *from = op->depth == LUO_DATA_IDS      ? r->mb.ids
                          : op->depth == LUO_DATA_LABELS ? r->mb.labels
                                                         : r->mb.positions;
    memcpy(host_buf(r, op->instr->out[0], task), from + op->lo, (size_t)op->rows * sizeof(int32_t));
}

/* ---- the table ---- */

host_run host_run_of(luo_op_kind kind)
{
    static const host_run runs[LUO_OP_KINDS] = {
        [LUO_OP_PLACEHOLDER] = run_placeholder,
        [LUO_OP_MATMUL] = run_products,
        [LUO_OP_MATMUL_DX] = run_products,
        [LUO_OP_MATMUL_DW] = run_products,
        [LUO_OP_BIAS] = run_bias,
        [LUO_OP_BIAS_DW] = run_bias_dw,
        [LUO_OP_EMBEDDING] = run_embedding,
        [LUO_OP_EMBEDDING_DW] = run_embedding_dw,
        [LUO_OP_NORM] = run_norm,
        [LUO_OP_NORM_DX] = run_norm_dx,
        [LUO_OP_NORM_DW] = run_norm_dw,
        [LUO_OP_ROPE] = host_run_rope,
        [LUO_OP_ROPE_DX] = host_run_rope_dx,
        [LUO_OP_ATTENTION] = host_run_attention,
        [LUO_OP_ATTENTION_DX] = host_run_attention_dx,
        [LUO_OP_ACTIVATION] = run_activation,
        [LUO_OP_ACTIVATION_DX] = run_activation_dx,
        [LUO_OP_ADD] = run_add,
        [LUO_OP_ROW_MAX] = host_run_row_max,
        [LUO_OP_ROW_SUM] = host_run_row_sum,
        [LUO_OP_ROW_TARGET] = host_run_row_target,
        [LUO_OP_LOSS] = host_run_loss,
        [LUO_OP_LOSS_DX] = host_run_loss_dx,
        [LUO_OP_SUM] = host_run_sum,
        [LUO_OP_ACCUMULATE] = run_accumulate,
        [LUO_OP_GRAD_NORM] = host_run_norm,
        [LUO_OP_UPDATE] = host_run_update,
        [LUO_OP_AMEND] = host_run_amend,
    };
    return runs[kind];
}
