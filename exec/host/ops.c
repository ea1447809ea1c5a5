/* ops.c: a function per kind of operation, on what exec/bind/bound_ops.c says of it. */
#include <string.h>

#include "exec/host/job.h"

bool host_adds(luo_rank *rank, int32_t buffer)
{
    if (luo_bound_desc(&rank->job->b, buffer)->buffer_class != LUO_BUFFER_GRADIENT) return false;
    const bool add = !rank->job->fresh[buffer];
    rank->job->fresh[buffer] = false;
    return add;
}

/* ---- bias, embedding, norm ---- */

static void host_run_bias(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    if (op->left_out) {
        memmove(host_buf(rank, instr->out[0], task), host_buf(rank, instr->in[0], task),
                (size_t)(op->rows * op->cols) * rank->x->k->elem);
        return;
    }
    rank->x->k->bias(op->rows, op->cols, host_buf(rank, instr->in[0], task),
                     host_buf(rank, instr->in[1], task), host_buf(rank, instr->out[0], task));
}

static void host_run_bias_dw(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const bool add = host_adds(rank, instr->out[0]);
    rank->x->k->bias_dw(op->rows, op->cols, host_buf(rank, instr->in[0], task), add,
                        host_buf(rank, instr->out[0], task));
}

static void host_run_embedding(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->embedding(op->rows, op->cols, op->lo, op->depth, op->scale,
                          host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task),
                          host_buf(rank, instr->out[0], task));
}

static void host_run_embedding_dw(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const bool add = host_adds(rank, instr->out[0]);
    rank->x->k->embedding_dw(op->rows, op->cols, op->lo, op->depth, op->scale,
                             host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task),
                             add, host_buf(rank, instr->out[0], task));
}

static bool centred(const luo_rank *rank)
{
    return rank->x->config.model->norm == LUO_NORM_LAYER;
}

/* What norms add to their weight. */
static double one_of(const luo_rank *rank)
{
    return rank->x->config.model->norm_offset ? 1 : 0;
}

static void host_run_norm(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->norm(op->rows, op->cols, rank->x->config.model->norm_eps, one_of(rank),
                     host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task),
                     instr->nin > 2 ? host_buf(rank, instr->in[2], task) : NULL,
                     host_buf(rank, instr->out[0], task));
}

static void host_run_norm_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->norm_dx(op->rows, op->cols, rank->x->config.model->norm_eps, one_of(rank),
                        centred(rank), host_buf(rank, instr->in[0], task),
                        host_buf(rank, instr->in[1], task), host_buf(rank, instr->in[2], task),
                        host_buf(rank, instr->out[0], task));
}

static void host_run_norm_dw(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    bool add = host_adds(rank, instr->out[0]);
    const bool adds = instr->nout > 1 ? host_adds(rank, instr->out[1]) : add;
    if (add != adds) { /* one is summed over micro-batches, the other not: it begins with zeros */
        memset(host_buf(rank, instr->out[add], task), 0, (size_t)op->cols * rank->x->k->elem);
        add = true;
    }
    rank->x->k->norm_dw(op->rows, op->cols, rank->x->config.model->norm_eps,
                        host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task), add,
                        host_buf(rank, instr->out[0], task),
                        instr->nout > 1 ? host_buf(rank, instr->out[1], task) : NULL);
}

/* ---- matrix products ---- */

static void host_run_products(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    for (int32_t k = 0; k < op->nproducts; k++) {
        const luo_product *product = &op->product[k];
        const bool add = product->add || host_adds(rank, product->c);
        char *c = host_buf(rank, product->c, task);
        if (product->m == 0 || product->n == 0) continue;
        if (product->k == 0) {
            if (!add) memset(c, 0, (size_t)(product->m * product->n) * rank->x->k->elem);
            continue;
        }
        rank->x->k->gemm(product->ta, product->tb, product->m, product->n, product->k,
                         host_buf(rank, product->a, task), product->lda,
                         host_buf(rank, product->b, task), product->ldb, add, c, product->ldc);
    }
}

/* ---- pointwise ---- */

void host_activate(const luo_rank *rank, const luo_instr *instr, int64_t n, int32_t task)
{
    const luo_kernels *kernels = rank->x->k;
    const luo_activation kind = rank->x->config.model->activation;
    const void *x = host_buf(rank, instr->in[0], task);
    void *y = host_buf(rank, instr->out[0], task);
    if (kind == LUO_ACT_GELU)
        kernels->gelu(n, x, y);
    else if (kind == LUO_ACT_GELU_ERF)
        kernels->gelu_erf(n, x, y);
    else if (kind == LUO_ACT_RELU)
        kernels->relu(n, x, y);
    else
        (kind == LUO_ACT_GEGLU ? kernels->geglu : kernels->swiglu)(
            n, x, host_buf(rank, instr->in[1], task), y, host_buf(rank, instr->out[1], task));
}

void host_activate_dx(const luo_rank *rank, const luo_instr *instr, int64_t n, int32_t task)
{
    const luo_kernels *kernels = rank->x->k;
    const luo_activation kind = rank->x->config.model->activation;
    const void *dy = host_buf(rank, instr->in[0], task), *x = host_buf(rank, instr->in[1], task);
    void *dx = host_buf(rank, instr->out[0], task);
    if (kind == LUO_ACT_GELU)
        kernels->gelu_dx(n, dy, x, dx);
    else if (kind == LUO_ACT_GELU_ERF)
        kernels->gelu_erf_dx(n, dy, x, dx);
    else if (kind == LUO_ACT_RELU)
        kernels->relu_dx(n, dy, x, dx);
    else
        (kind == LUO_ACT_GEGLU ? kernels->geglu_dx : kernels->swiglu_dx)(
            n, dy, x, host_buf(rank, instr->in[2], task), host_buf(rank, instr->in[3], task), dx,
            host_buf(rank, instr->out[1], task));
}

static void host_run_activation(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    host_activate(rank, op->instr, op->rows, task);
}

static void host_run_activation_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    host_activate_dx(rank, op->instr, op->rows, task);
}

static void host_run_add(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const void *x[LUO_SUMMANDS];
    int32_t n = 0;
    for (int32_t k = 0; k < instr->nin; k++)
        if (!(op->left_out >> k & 1)) x[n++] = host_buf(rank, instr->in[k], task);
    rank->x->k->add(op->rows, n, x, host_buf(rank, instr->out[0], task));
}

/* A contribution that arrived by communication, onto the running sum. */
static void host_run_accumulate(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    void *sum = host_buf(rank, instr->out[0], task);
    const void *x[2] = {sum, host_buf(rank, instr->in[0], task)};
    const bool add = host_adds(rank, instr->out[0]);
    rank->x->k->add(op->rows, add ? 2 : 1, add ? x : x + 1, sum);
}

/* ---- data ---- */

static void host_run_placeholder(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const int32_t *from = op->depth == LUO_DATA_IDS      ? rank->mb.ids
                          : op->depth == LUO_DATA_LABELS ? rank->mb.labels
                                                         : rank->mb.positions;
    memcpy(host_buf(rank, op->instr->out[0], task), from + op->lo,
           (size_t)op->rows * sizeof(int32_t));
}

/* ---- the loss: cross-entropy over a vocabulary cut among devices ---- */

static double softcap_of(const luo_rank *rank)
{
    return rank->x->config.model->logit_softcap;
}

static void host_run_row_max(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->row_max(op->rows, op->cols, op->depth, host_buf(rank, instr->in[0], task),
                        host_buf(rank, instr->out[0], task), softcap_of(rank));
}

static void host_run_row_sum(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->row_sum(op->rows, op->cols, op->depth, host_buf(rank, instr->in[0], task),
                        host_buf(rank, instr->in[1], task), host_buf(rank, instr->out[0], task),
                        host_buf(rank, instr->out[1], task), softcap_of(rank));
}

static void host_run_row_target(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->row_target(op->rows, op->cols, op->lo, host_buf(rank, instr->in[0], task),
                           host_buf(rank, instr->in[1], task), host_buf(rank, instr->out[0], task),
                           softcap_of(rank));
}

static void host_run_loss(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->loss(op->rows, host_buf(rank, instr->in[0], task),
                     host_buf(rank, instr->in[1], task), host_buf(rank, instr->in[2], task),
                     rank->mb.labels + op->lo, rank->scale, host_buf(rank, instr->out[0], task));
}

static void host_run_loss_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->loss_dx(op->rows, op->cols, op->lo, host_buf(rank, instr->in[0], task),
                        host_buf(rank, instr->in[1], task), host_buf(rank, instr->in[2], task),
                        rank->scale, host_buf(rank, instr->out[0], task),
                        instr->nin > 3 ? host_buf(rank, instr->in[3], task) : NULL,
                        softcap_of(rank));
}

static void host_run_sum(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const bool add = host_adds(rank, instr->out[0]);
    rank->x->k->sum(op->rows, host_buf(rank, instr->in[0], task), add,
                    host_buf(rank, instr->out[0], task));
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
