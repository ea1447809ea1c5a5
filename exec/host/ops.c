/* exec/host/ops.c: what each operation of the graph computes (core/graph/graph.h has their
 * operands), bound to buffers and sizes once, then run by a function per kind. */
#include <string.h>

#include "exec/host/job.h"

/* ---- sizes ---- */

static const luo_buffer *in_of(const luo_job *j, const host_op *op, int32_t i)
{
    return host_desc(j, op->instr->in[i]);
}

static const luo_buffer *out_of(const luo_job *j, const host_op *op, int32_t i)
{
    return host_desc(j, op->instr->out[i]);
}

static luo_status wrong(const luo_job *j, const host_op *op, luo_err *err)
{
    const luo_op_info *o = &j->set->ops[op->instr->op];
    return luo_err_set(err, LUO_EBUG,
                       "operation `%s` (%s) of instruction %d has operands that "
                       "this executor does not know.",
                       o->name, o->kind, (int)op->instr->id);
}

static luo_status count(const luo_job *j, const host_op *op, int32_t nin, int32_t nout,
                        luo_err *err)
{
    return op->instr->nin >= nin && op->instr->nout >= nout ? LUO_OK : wrong(j, op, err);
}

/* Frame of a buffer along one dimension, as a single interval. */
static luo_status interval(luo_job *j, int32_t buffer, int32_t dim, luo_span *out, luo_err *err)
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

/* First token of a buffer inside its own micro-batch. */
static luo_status first_token(luo_job *j, const host_op *op, int32_t buffer, int64_t *out,
                              luo_err *err)
{
    luo_span s = {0, 0};
    const int64_t tokens = j->role->seg[j->seg_of[op->instr->id]].tokens;
    LUO_TRY(interval(j, buffer, 0, &s, err));
    *out = tokens > 0 ? s.lo % tokens : 0;
    return LUO_OK;
}

/* ---- matrix products ---- */

/* A weight is stored [out x in] when its letters begin with those of the result. */
static bool out_major(const luo_buffer *w, const luo_buffer *y)
{
    const char *tail = y->letters + 1;
    return strncmp(w->letters, tail, strlen(tail)) == 0;
}

static host_product *products(luo_job *j, host_op *op, int32_t n)
{
    host_product *p = LUO_NEW_N(j->arena, host_product, n);
    op->product = p;
    op->nproducts = n;
    return p;
}

static int64_t width(const luo_buffer *b) /* elements of a token */
{
    int64_t n = 1;
    for (int32_t d = 1; d < b->rank; d++) n *= b->dim[d];
    return n;
}

static luo_status bind_matmul(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    if (i->nin != 1 + i->nout) return wrong(j, op, err);
    host_product *p = products(j, op, i->nout);
    if (!p) return luo_err_nomem(err);
    const luo_buffer *x = in_of(j, op, 0);
    for (int32_t k = 0; k < i->nout; k++) {
        const luo_buffer *w = in_of(j, op, 1 + k), *y = out_of(j, op, k);
        const bool tb = out_major(w, y);
        const int64_t n = width(y), depth = width(x);
        p[k] = (host_product){.a = i->in[0],
                              .b = i->in[1 + k],
                              .c = i->out[k],
                              .tb = tb,
                              .m = x->dim[0],
                              .n = n,
                              .k = depth,
                              .lda = depth,
                              .ldb = tb ? depth : n,
                              .ldc = n};
    }
    return LUO_OK;
}

static luo_status bind_matmul_dx(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    if (i->nout != 1 || i->nin % 2) return wrong(j, op, err);
    host_product *p = products(j, op, i->nin / 2);
    if (!p) return luo_err_nomem(err);
    const luo_buffer *dx = out_of(j, op, 0);
    for (int32_t k = 0; k < i->nin / 2; k++) {
        const luo_buffer *dy = in_of(j, op, 2 * k), *w = in_of(j, op, 2 * k + 1);
        const bool plain = out_major(w, dy);
        const int64_t n = width(dx), depth = width(dy);
        p[k] = (host_product){.a = i->in[2 * k],
                              .b = i->in[2 * k + 1],
                              .c = i->out[0],
                              .tb = !plain,
                              .add = k > 0,
                              .m = dx->dim[0],
                              .n = n,
                              .k = depth,
                              .lda = depth,
                              .ldb = plain ? n : depth,
                              .ldc = n};
    }
    return LUO_OK;
}

static luo_status bind_matmul_dw(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    if (i->nin != 1 + i->nout) return wrong(j, op, err);
    host_product *p = products(j, op, i->nout);
    if (!p) return luo_err_nomem(err);
    const luo_buffer *x = in_of(j, op, 0);
    for (int32_t k = 0; k < i->nout; k++) {
        const luo_buffer *dy = in_of(j, op, 1 + k), *dw = out_of(j, op, k);
        const bool plain = out_major(dw, dy);
        const int64_t nx = width(x), ny = width(dy);
        p[k] = (host_product){.a = plain ? i->in[1 + k] : i->in[0],
                              .b = plain ? i->in[0] : i->in[1 + k],
                              .c = i->out[k],
                              .ta = true,
                              .m = plain ? ny : nx,
                              .n = plain ? nx : ny,
                              .k = x->dim[0],
                              .lda = plain ? ny : nx,
                              .ldb = plain ? nx : ny,
                              .ldc = plain ? nx : ny};
    }
    return LUO_OK;
}

/* The first contribution to a gradient of a step overwrites what the last step left. */
static bool adds(luo_rank *r, int32_t buffer)
{
    if (host_desc(r->job, buffer)->buffer_class != LUO_BUFFER_GRADIENT) return false;
    const bool add = !r->job->fresh[buffer];
    r->job->fresh[buffer] = false;
    return add;
}

static void run_products(luo_rank *r, const host_op *op, int32_t task)
{
    for (int32_t k = 0; k < op->nproducts; k++) {
        const host_product *p = &op->product[k];
        const bool add = p->add || adds(r, p->c);
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

/* ---- bias, embedding, norm ---- */

static luo_status bind_rows(luo_job *j, host_op *op, luo_err *err)
{
    const luo_buffer *x = in_of(j, op, 0);
    LUO_TRY(count(j, op, 1, 1, err));
    op->rows = x->dim[0];
    op->cols = width(x);
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
    const bool add = adds(r, i->out[0]);
    r->x->k->bias_dw(op->rows, op->cols, host_buf(r, i->in[0], task), add,
                     host_buf(r, i->out[0], task));
}

/* ids, table -> y, or ids, dy, table (label only) -> dtable: rows lo.. of the table lie here. */
static luo_status bind_embedding(luo_job *j, host_op *op, bool backward, luo_err *err)
{
    luo_span s = {0, 0};
    LUO_TRY(count(j, op, 2, 1, err));
    const int32_t table = backward ? op->instr->out[0] : op->instr->in[1];
    LUO_TRY(interval(j, table, 0, &s, err));
    op->rows = in_of(j, op, 0)->dim[0];
    op->cols = host_desc(j, table)->dim[1];
    op->lo = s.lo;
    op->depth = s.hi;
    return LUO_OK;
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
    const bool add = adds(r, i->out[0]);
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
    LUO_TRY(count(j, op, 2, 1, err));
    const luo_buffer *x = in_of(j, op, 0);
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
    const bool add = adds(r, i->out[0]);
    if (i->nout > 1) adds(r, i->out[1]);
    r->x->k->norm_dw(op->rows, op->cols, r->x->config.model->norm_eps, host_buf(r, i->in[0], task),
                     host_buf(r, i->in[1], task), add, host_buf(r, i->out[0], task),
                     i->nout > 1 ? host_buf(r, i->out[1], task) : NULL);
}

/* ---- attention ---- */

static luo_status bind_rope(luo_job *j, host_op *op, luo_err *err)
{
    LUO_TRY(count(j, op, 2, 2, err));
    return first_token(j, op, op->instr->in[0], &op->lo, err);
}

static void rope(luo_rank *r, const host_op *op, int32_t task, bool back)
{
    const luo_instr *i = op->instr;
    for (int32_t k = 0; k < 2; k++) {
        const luo_buffer *x = host_desc(r->job, i->in[k]);
        r->x->k->rope(x->dim[0], x->dim[1], x->dim[2], r->x->config.model->rope_base, back,
                      r->mb.positions + op->lo, host_buf(r, i->in[k], task),
                      host_buf(r, i->out[k], task));
    }
}

static void run_rope(luo_rank *r, const host_op *op, int32_t task)
{
    rope(r, op, task, false);
}

static void run_rope_dx(luo_rank *r, const host_op *op, int32_t task)
{
    rope(r, op, task, true);
}

/* Which of the local key-value heads each local query head reads. */
static luo_status bind_heads(luo_job *j, host_op *op, int32_t q, int32_t k, luo_err *err)
{
    const luo_model *m = j->x->config.model;
    luo_span sq = {0, 0}, sk = {0, 0};
    LUO_TRY(interval(j, q, 1, &sq, err));
    LUO_TRY(interval(j, k, 1, &sk, err));
    luo_heads *h = LUO_NEW(j->arena, luo_heads);
    int32_t *kv = LUO_NEW_N(j->arena, int32_t, sq.hi - sq.lo);
    if (!h || !kv) return luo_err_nomem(err);
    const int64_t share = m->heads / m->kv_heads;
    for (int64_t n = sq.lo; n < sq.hi; n++) {
        const int64_t g = n / share;
        if (g < sk.lo || g >= sk.hi)
            return luo_err_set(err, LUO_EUNSUP,
                               "query head %lld and its key-value head %lld lie "
                               "on different devices; shares that keep them together can be run.",
                               (long long)n, (long long)g);
        kv[n - sq.lo] = (int32_t)(g - sk.lo);
    }
    *h = (luo_heads){sq.hi - sq.lo, sk.hi - sk.lo, host_desc(j, q)->dim[2], kv, m->causal};
    op->heads = h;
    op->rows = host_desc(j, q)->dim[0];
    return LUO_OK;
}

size_t host_attention_work(const luo_job *j)
{
    size_t most = 0;
    for (int32_t i = 0; i < j->role->ninstr; i++) {
        const host_op *op = &j->op[i];
        if (!op->heads) continue;
        const int32_t whole[2] = {0, (int32_t)op->rows};
        const luo_documents one = {1, whole};
        const size_t n =
            j->x->k->attention_work(op->rows, op->heads, &one, op->kind == LUO_OP_ATTENTION_DX);
        if (n > most) most = n;
    }
    return most;
}

static void run_attention(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->attention(op->rows, op->heads, &r->mb.docs, host_buf(r, i->in[0], task),
                       host_buf(r, i->in[1], task), host_buf(r, i->in[2], task),
                       host_buf(r, i->out[0], task), host_buf(r, i->out[1], task),
                       r->job->attention_work);
}

static void run_attention_dx(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const void *in[6];
    void *out[3];
    for (int32_t k = 0; k < 6; k++) in[k] = host_buf(r, i->in[k], task);
    for (int32_t k = 0; k < 3; k++) out[k] = host_buf(r, i->out[k], task);
    r->x->k->attention_dx(op->rows, op->heads, &r->mb.docs, in[0], in[1], in[2], in[3], in[4],
                          in[5], out[0], out[1], out[2], r->job->attention_work);
}

/* ---- pointwise ---- */

static luo_status bind_volume(luo_job *j, host_op *op, luo_err *err)
{
    LUO_TRY(count(j, op, 1, 1, err));
    op->rows = host_volume(out_of(j, op, 0));
    return LUO_OK;
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
    return op->instr->nin <= SUMMANDS ? LUO_OK : wrong(j, op, err);
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
    const bool add = adds(r, i->out[0]);
    r->x->k->add(op->rows, add ? 2 : 1, add ? x : x + 1, sum);
}

/* ---- loss ---- */

static luo_status bind_logits(luo_job *j, host_op *op, luo_err *err)
{
    luo_span s = {0, 0};
    LUO_TRY(count(j, op, 1, 1, err));
    LUO_TRY(interval(j, op->instr->in[0], 1, &s, err));
    op->rows = in_of(j, op, 0)->dim[0];
    op->cols = in_of(j, op, 0)->dim[1];
    op->lo = s.lo;
    return LUO_OK;
}

static void run_row_max(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_max(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->out[0], task));
}

static void run_row_sum(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_sum(op->rows, op->cols, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                     host_buf(r, i->out[0], task), host_buf(r, i->out[1], task));
}

static void run_row_target(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->row_target(op->rows, op->cols, op->lo, host_buf(r, i->in[0], task),
                        host_buf(r, i->in[1], task), host_buf(r, i->out[0], task));
}

/* The graph's loss knows no labels; which tokens are targets is known to the data loader. */
static luo_status bind_loss(luo_job *j, host_op *op, luo_err *err)
{
    LUO_TRY(count(j, op, 3, 1, err));
    op->rows = in_of(j, op, 0)->dim[0];
    return first_token(j, op, op->instr->in[0], &op->lo, err);
}

static void run_loss(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->loss(op->rows, host_buf(r, i->in[0], task), host_buf(r, i->in[1], task),
                  host_buf(r, i->in[2], task), r->mb.labels + op->lo, r->scale,
                  host_buf(r, i->out[0], task));
}

static void run_loss_dx(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->loss_dx(op->rows, op->cols, op->lo, host_buf(r, i->in[0], task),
                     host_buf(r, i->in[1], task), host_buf(r, i->in[2], task), r->scale,
                     host_buf(r, i->out[0], task));
}

static void run_sum(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const bool add = adds(r, i->out[0]);
    r->x->k->sum(op->rows, host_buf(r, i->in[0], task), add, host_buf(r, i->out[0], task));
}

static luo_status bind_sum(luo_job *j, host_op *op, luo_err *err)
{
    LUO_TRY(count(j, op, 1, 1, err));
    op->rows = host_volume(in_of(j, op, 0));
    return LUO_OK;
}

/* ---- data ---- */

enum { DATA_IDS, DATA_LABELS, DATA_POSITIONS };

static luo_status bind_placeholder(luo_job *j, host_op *op, luo_err *err)
{
    static const char *const names[] = {"ids", "labels", "positions"};
    LUO_TRY(count(j, op, 0, 1, err));
    const luo_buffer *b = out_of(j, op, 0);
    op->depth = -1;
    for (int i = 0; i < 3; i++)
        if (strcmp(b->tensor, names[i]) == 0) op->depth = i;
    if (op->depth < 0) return wrong(j, op, err);
    op->rows = b->dim[0];
    return first_token(j, op, op->instr->out[0], &op->lo, err);
}

static void run_placeholder(luo_rank *r, const host_op *op, int32_t task)
{
    const int32_t *from = op->depth == DATA_IDS      ? r->mb.ids
                          : op->depth == DATA_LABELS ? r->mb.labels
                                                     : r->mb.positions;
    memcpy(host_buf(r, op->instr->out[0], task), from + op->lo, (size_t)op->rows * sizeof(int32_t));
}

/* ---- the table ---- */

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
    switch (op->kind) {
    case LUO_OP_PLACEHOLDER:
        op->run = run_placeholder;
        return bind_placeholder(j, op, err);
    case LUO_OP_MATMUL:
        op->run = run_products;
        return bind_matmul(j, op, err);
    case LUO_OP_MATMUL_DX:
        op->run = run_products;
        return bind_matmul_dx(j, op, err);
    case LUO_OP_MATMUL_DW:
        op->run = run_products;
        return bind_matmul_dw(j, op, err);
    case LUO_OP_BIAS:
        op->run = run_bias;
        return bind_rows(j, op, err);
    case LUO_OP_BIAS_DW:
        op->run = run_bias_dw;
        return bind_rows(j, op, err);
    case LUO_OP_EMBEDDING:
        op->run = run_embedding;
        return bind_embedding(j, op, false, err);
    case LUO_OP_EMBEDDING_DW:
        op->run = run_embedding_dw;
        return bind_embedding(j, op, true, err);
    case LUO_OP_NORM:
        op->run = run_norm;
        return bind_norm(j, op, err);
    case LUO_OP_NORM_DX:
        op->run = run_norm_dx;
        return bind_norm(j, op, err);
    case LUO_OP_NORM_DW:
        op->run = run_norm_dw;
        return bind_norm(j, op, err);
    case LUO_OP_ROPE:
        op->run = run_rope;
        return bind_rope(j, op, err);
    case LUO_OP_ROPE_DX:
        op->run = run_rope_dx;
        return bind_rope(j, op, err);
    case LUO_OP_ATTENTION:
        op->run = run_attention;
        LUO_TRY(count(j, op, 3, 2, err));
        return bind_heads(j, op, i->in[0], i->in[1], err);
    case LUO_OP_ATTENTION_DX:
        op->run = run_attention_dx;
        LUO_TRY(count(j, op, 6, 3, err));
        return bind_heads(j, op, i->in[3], i->in[4], err);
    case LUO_OP_ACTIVATION:
        op->run = run_activation;
        return bind_volume(j, op, err);
    case LUO_OP_ACTIVATION_DX:
        op->run = run_activation_dx;
        return bind_volume(j, op, err);
    case LUO_OP_ADD:
        op->run = run_add;
        return bind_add(j, op, err);
    case LUO_OP_ROW_MAX:
        op->run = run_row_max;
        return bind_logits(j, op, err);
    case LUO_OP_ROW_SUM:
        op->run = run_row_sum;
        LUO_TRY(count(j, op, 2, 2, err));
        return bind_logits(j, op, err);
    case LUO_OP_ROW_TARGET:
        op->run = run_row_target;
        return bind_logits(j, op, err);
    case LUO_OP_LOSS:
        op->run = run_loss;
        return bind_loss(j, op, err);
    case LUO_OP_LOSS_DX:
        op->run = run_loss_dx;
        return bind_logits(j, op, err);
    case LUO_OP_SUM:
        op->run = run_sum;
        return bind_sum(j, op, err);
    case LUO_OP_ACCUMULATE:
        op->run = run_accumulate;
        return bind_volume(j, op, err);
    case LUO_OP_GRAD_NORM:
        op->run = host_run_norm;
        return LUO_OK;
    case LUO_OP_UPDATE:
        op->run = host_run_update;
        return LUO_OK;
    case LUO_OP_STATE:
    case LUO_OP_RESHARD:
    case LUO_OP_KINDS:
        break;
    }
    return wrong(j, op, err);
}
