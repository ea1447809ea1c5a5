/* exec/host/ops.c: what each operation of the graph computes (core/graph/graph.h has their
 * operands), bound to buffers and sizes once, then run by a function per kind. */
#include <string.h>

#include "exec/host/ops.h"

/* ---- sizes ---- */

luo_status host_wrong(const luo_job *j, const host_op *op, luo_err *err)
{
    const luo_op_info *o = &j->set->ops[op->instr->op];
    return luo_err_set(err, LUO_EBUG,
                       "operation `%s` (%s) of instruction %d has operands that "
                       "this executor does not know.",
                       o->name, o->kind, (int)op->instr->id);
}

luo_status host_interval(luo_job *j, int32_t buffer, int32_t dim, luo_span *out, luo_err *err)
{
    luo_frame f;
    LUO_TRY(luo_frame_of(j->arena, host_desc(j, buffer), j->x->device, &f, err));
    if (f.region.empty) {
        *out = (luo_span){0, 0};
        return LUO_OK;
    }
    if (f.region.dim[dim].n != 1)
        return luo_err_set(err, LUO_EUNSUP,
                           "tensor `%s` lies in %d separate slices on device %d; "
                           "plans whose shares are contiguous can be run.",
                           host_desc(j, buffer)->tensor, (int)f.region.dim[dim].n,
                           (int)j->x->device);
    *out = f.region.dim[dim].at[0];
    return LUO_OK;
}

luo_status host_first_token(luo_job *j, const host_op *op, int32_t buffer, int64_t *out,
                            luo_err *err)
{
    luo_span s = {0, 0};
    const int64_t tokens = j->role->seg[j->seg_of[op->instr->id]].tokens;
    LUO_TRY(host_interval(j, buffer, 0, &s, err));
    *out = tokens > 0 ? s.lo % tokens : 0;
    return LUO_OK;
}

bool host_adds(luo_rank *r, int32_t buffer)
{
    if (host_desc(r->job, buffer)->buffer_class != LUO_BUFFER_GRADIENT) return false;
    const bool add = !r->job->fresh[buffer];
    r->job->fresh[buffer] = false;
    return add;
}

/* ---- bias, embedding, norm ---- */

static luo_status bind_rows(luo_job *j, host_op *op, luo_err *err)
{
    const luo_buffer *x = host_in(j, op, 0);
    (void)err;
    op->rows = x->dim[0];
    op->cols = host_width(x);
    return LUO_OK;
}

static void run_bias(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->bias(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                  host_buf(r, i->out[0], task));
}

static void run_bias_dw(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    r->x->k->bias_dw(op->rows, op->cols, host_buf(r, i->in[0], task), add,
                     host_buf(r, i->out[0], task));
}

/* Rows lo.. of the table lie here. */
static luo_status bind_table(luo_job *j, host_op *op, int32_t table, luo_err *err)
{
    luo_span s = {0, 0};
    LUO_TRY(host_interval(j, table, 0, &s, err));
    op->rows = host_in(j, op, 0)->dim[0];
    op->cols = host_desc(j, table)->dim[1];
    op->lo = s.lo;
    op->depth = s.hi;
    return LUO_OK;
}

static luo_status bind_embedding(luo_job *j, host_op *op, luo_err *err)
{
    return bind_table(j, op, op->instr->in[1], err);
}

static luo_status bind_embedding_dw(luo_job *j, host_op *op, luo_err *err)
{
    return bind_table(j, op, op->instr->out[0], err);
}

static void run_embedding(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->embedding(op->rows, op->cols, op->lo, op->depth, host_buf(r, i->in[0], task),
                       host_buf(r, i->in[1], task), host_buf(r, i->out[0], task));
}

static void run_embedding_dw(luo_rank *r, const host_op *op, int32_t task)
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

/* Over the last dimension: heads are rows too. */
static luo_status bind_norm(luo_job *j, host_op *op, luo_err *err)
{
    const luo_buffer *x = host_in(j, op, 0);
    (void)err;
    op->cols = x->dim[x->rank - 1];
    op->rows = op->cols ? host_volume(x) / op->cols : 0;
    return LUO_OK;
}

static void run_norm(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->norm(op->rows, op->cols, r->x->config.model->norm_eps, host_buf(r, i->in[0], task),
                  host_buf(r, i->in[1], task), i->nin > 2 ? host_buf(r, i->in[2], task) : NULL,
                  host_buf(r, i->out[0], task));
}

static void run_norm_dx(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->norm_dx(op->rows, op->cols, r->x->config.model->norm_eps, centred(r),
                     host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                     host_buf(r, i->in[2], task), host_buf(r, i->out[0], task));
}

static void run_norm_dw(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = host_adds(r, i->out[0]);
    if (i->nout > 1) host_adds(r, i->out[1]);
    r->x->k->norm_dw(op->rows, op->cols, r->x->config.model->norm_eps, host_buf(r, i->in[0], task),
                     host_buf(r, i->in[1], task), add, host_buf(r, i->out[0], task),
                     i->nout > 1 ? host_buf(r, i->out[1], task) : NULL);
}

/* ---- pointwise ---- */

static luo_status bind_volume(luo_job *j, host_op *op, luo_err *err)
{
    (void)err;
    op->rows = host_volume(host_out(j, op, 0));
    return LUO_OK;
}

/* x -> y, or gate, up -> y, silu. */
static luo_status bind_activation(luo_job *j, host_op *op, luo_err *err)
{
    if (op->instr->nin > 1 && op->instr->nout < 2) return host_wrong(j, op, err);
    return bind_volume(j, op, err);
}

/* dy, x -> dx, or dy, gate, up, silu -> dgate, dup. */
static luo_status bind_activation_dx(luo_job *j, host_op *op, luo_err *err)
{
    if (op->instr->nout > 1 && op->instr->nin < 4) return host_wrong(j, op, err);
    return bind_volume(j, op, err);
}

static void run_activation(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    if (i->nin == 1) {
        r->x->k->gelu(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->out[0], task));
        return;
    }
    r->x->k->swiglu(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                    host_buf(r, i->out[0], task), host_buf(r, i->out[1], task));
}

static void run_activation_dx(luo_rank *r, const host_op *op, int32_t task)
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

enum { SUMMANDS = 8 }; /* no operation of the graph has more operands */

static luo_status bind_add(luo_job *j, host_op *op, luo_err *err)
{
    LUO_TRY(bind_volume(j, op, err));
    return op->instr->nin <= SUMMANDS ? LUO_OK : host_wrong(j, op, err);
}

static void run_add(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const void *x[SUMMANDS];
    for (int32_t k = 0; k < i->nin; k++) x[k] = host_buf(r, i->in[k], task);
    r->x->k->add(op->rows, i->nin, x, host_buf(r, i->out[0], task));
}

/* A contribution that arrived by communication, onto the running sum. */
static void run_accumulate(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    void *sum = host_buf(r, i->out[0], task);
    const void *x[2] = {sum, host_buf(r, i->in[0], task)};
    const bool add = host_adds(r, i->out[0]);
    r->x->k->add(op->rows, add ? 2 : 1, add ? x : x + 1, sum);
}

/* ---- data ---- */

enum { DATA_IDS, DATA_LABELS, DATA_POSITIONS };

static luo_status bind_placeholder(luo_job *j, host_op *op, luo_err *err)
{
    static const char *const names[] = {"ids", "labels", "positions"};
    const luo_buffer *b = host_out(j, op, 0);
    op->depth = -1;
    for (int i = 0; i < 3; i++)
        if (strcmp(b->tensor, names[i]) == 0) op->depth = i;
    if (op->depth < 0) return host_wrong(j, op, err);
    op->rows = b->dim[0];
    return host_first_token(j, op, op->instr->out[0], &op->lo, err);
}

static void run_placeholder(luo_rank *r, const host_op *op, int32_t task)
{
    const int32_t *from = op->depth == DATA_IDS      ? r->mb.ids
                          : op->depth == DATA_LABELS ? r->mb.labels
                                                     : r->mb.positions;
    memcpy(host_buf(r, op->instr->out[0], task), from + op->lo, (size_t)op->rows * sizeof(int32_t));
}

/* ---- the table ---- */

static luo_status bind_nothing(luo_job *j, host_op *op, luo_err *err)
{
    (void)j, (void)op, (void)err;
    return LUO_OK;
}

static const struct row {
    host_run run;
    luo_status (*bind)(luo_job *j, host_op *op, luo_err *err);
    int32_t nin, nout; /* operands and results at least */
} rows[LUO_OP_KINDS] = {
    [LUO_OP_PLACEHOLDER] = {run_placeholder, bind_placeholder, 0, 1},
    [LUO_OP_MATMUL] = {host_run_products, host_bind_matmul, 2, 1},
    [LUO_OP_MATMUL_DX] = {host_run_products, host_bind_matmul_dx, 2, 1},
    [LUO_OP_MATMUL_DW] = {host_run_products, host_bind_matmul_dw, 2, 1},
    [LUO_OP_BIAS] = {run_bias, bind_rows, 2, 1},
    [LUO_OP_BIAS_DW] = {run_bias_dw, bind_rows, 1, 1},
    [LUO_OP_EMBEDDING] = {run_embedding, bind_embedding, 2, 1},
    [LUO_OP_EMBEDDING_DW] = {run_embedding_dw, bind_embedding_dw, 2, 1},
    [LUO_OP_NORM] = {run_norm, bind_norm, 2, 1},
    [LUO_OP_NORM_DX] = {run_norm_dx, bind_norm, 3, 1},
    [LUO_OP_NORM_DW] = {run_norm_dw, bind_norm, 2, 1},
    [LUO_OP_ROPE] = {host_run_rope, host_bind_rope, 2, 2},
    [LUO_OP_ROPE_DX] = {host_run_rope_dx, host_bind_rope, 2, 2},
    [LUO_OP_ATTENTION] = {host_run_attention, host_bind_attention, 3, 2},
    [LUO_OP_ATTENTION_DX] = {host_run_attention_dx, host_bind_attention_dx, 6, 3},
    [LUO_OP_ACTIVATION] = {run_activation, bind_activation, 1, 1},
    [LUO_OP_ACTIVATION_DX] = {run_activation_dx, bind_activation_dx, 2, 1},
    [LUO_OP_ADD] = {run_add, bind_add, 1, 1},
    [LUO_OP_ROW_MAX] = {host_run_row_max, host_bind_logits, 1, 1},
    [LUO_OP_ROW_SUM] = {host_run_row_sum, host_bind_logits, 2, 2},
    [LUO_OP_ROW_TARGET] = {host_run_row_target, host_bind_logits, 2, 1},
    [LUO_OP_LOSS] = {host_run_loss, host_bind_loss, 3, 1},
    [LUO_OP_LOSS_DX] = {host_run_loss_dx, host_bind_logits, 3, 1},
    [LUO_OP_SUM] = {host_run_sum, host_bind_sum, 1, 1},
    [LUO_OP_ACCUMULATE] = {run_accumulate, bind_volume, 1, 1},
    [LUO_OP_GRAD_NORM] = {host_run_norm, bind_nothing, 0, 1},
    [LUO_OP_UPDATE] = {host_run_update, host_bind_update, 1, 0},
};

static luo_op_kind kind_of(const char *name)
{
    for (int k = 0; k < LUO_OP_KINDS; k++)
        if (strcmp(luo_op_kind_name((luo_op_kind)k), name) == 0) return (luo_op_kind)k;
    return LUO_OP_KINDS;
}

luo_status host_bind_op(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    op->kind = kind_of(j->set->ops[i->op].kind);
    const struct row *row = op->kind < LUO_OP_KINDS ? &rows[op->kind] : NULL;
    if (!row || !row->run || i->nin < row->nin || i->nout < row->nout)
        return host_wrong(j, op, err);
    op->run = row->run;
    return row->bind(j, op, err);
}
