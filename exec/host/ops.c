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

static void host_run_bias(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->bias(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                  host_buf(r, i->out[0], task));
}

static void host_run_bias_dw(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    r->x->k->bias_dw(op->rows, op->cols, host_buf(r, i->in[0], task), add,
                     host_buf(r, i->out[0], task));
}

static void host_run_embedding(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->embedding(op->rows, op->cols, op->lo, op->depth, host_buf(r, i->in[0], task),
                       host_buf(r, i->in[1], task), host_buf(r, i->out[0], task));
}

static void host_run_embedding_dw(luo_rank *r, const luo_bound_op *op, int32_t task)
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

static void host_run_norm(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->norm(op->rows, op->cols, r->x->config.model->norm_eps, host_buf(r, i->in[0], task),
                  host_buf(r, i->in[1], task), i->nin > 2 ? host_buf(r, i->in[2], task) : NULL,
                  host_buf(r, i->out[0], task));
}

static void host_run_norm_dx(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->norm_dx(op->rows, op->cols, r->x->config.model->norm_eps, centred(r),
                     host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                     host_buf(r, i->in[2], task), host_buf(r, i->out[0], task));
}

static void host_run_norm_dw(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    if (i->nout > 1) host_adds(r, i->out[1]);
    r->x->k->norm_dw(op->rows, op->cols, r->x->config.model->norm_eps, host_buf(r, i->in[0], task),
                     host_buf(r, i->in[1], task), add, host_buf(r, i->out[0], task),
                     i->nout > 1 ? host_buf(r, i->out[1], task) : NULL);
}

/* ---- matrix products ---- */

static void host_run_products(luo_rank *r, const luo_bound_op *op, int32_t task)
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

static void host_run_activation(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    if (i->nin == 1) {
        r->x->k->gelu(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->out[0], task));
        return;
    }
    r->x->k->swiglu(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                    host_buf(r, i->out[0], task), host_buf(r, i->out[1], task));
}

static void host_run_activation_dx(luo_rank *r, const luo_bound_op *op, int32_t task)
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

static void host_run_add(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const void *x[LUO_SUMMANDS];
    for (int32_t k = 0; k < i->nin; k++) x[k] = host_buf(r, i->in[k], task);
    r->x->k->add(op->rows, i->nin, x, host_buf(r, i->out[0], task));
}

/* A contribution that arrived by communication, onto the running sum. */
static void host_run_accumulate(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    void *sum = host_buf(r, i->out[0], task);
    const void *x[2] = {sum, host_buf(r, i->in[0], task)};
    const bool add = host_adds(r, i->out[0]);
    r->x->k->add(op->rows, add ? 2 : 1, add ? x : x + 1, sum);
}

/* ---- data ---- */

static void host_run_placeholder(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const int32_t *from = op->depth == LUO_DATA_IDS      ? r->mb.ids
                          : op->depth == LUO_DATA_LABELS ? r->mb.labels
                                                         : r->mb.positions;
    memcpy(host_buf(r, op->instr->out[0], task), from + op->lo, (size_t)op->rows * sizeof(int32_t));
}

/* ---- the table ---- */

#define host_run_none NULL /* communication and storage */

host_run host_run_of(luo_op_kind kind)
{
    static const host_run runs[LUO_OP_KINDS] = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, cost, size, keeps, bind,   \
               kernel)                                                                             \
    [LUO_OP_##kind] = host_run_##kernel,
#include "core/graph/ops.inc"
#undef LUO_OP
    };
    return runs[kind];
}
