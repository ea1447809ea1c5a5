/* exec/host/attention.c: rotary positions and attention: which heads lie here, which documents the
 * micro-batch holds. */
#include "exec/host/ops.h"

luo_status host_bind_rope(luo_job *j, host_op *op, luo_err *err)
{
    return host_first_token(j, op, op->instr->in[0], &op->lo, err);
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

void host_run_rope(luo_rank *r, const host_op *op, int32_t task)
{
    rope(r, op, task, false);
}

void host_run_rope_dx(luo_rank *r, const host_op *op, int32_t task)
{
    rope(r, op, task, true);
}

/* Which of the local key-value heads each local query head reads. */
static luo_status bind_heads(luo_job *j, host_op *op, int32_t q, int32_t k, luo_err *err)
{
    const luo_model *m = j->x->config.model;
    luo_span sq = {0, 0}, sk = {0, 0};
    LUO_TRY(host_interval(j, q, 1, &sq, err));
    LUO_TRY(host_interval(j, k, 1, &sk, err));
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

void host_run_attention(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    r->x->k->attention(op->rows, op->heads, &r->mb.docs, host_buf(r, i->in[0], task),
                       host_buf(r, i->in[1], task), host_buf(r, i->in[2], task),
                       host_buf(r, i->out[0], task), host_buf(r, i->out[1], task),
                       r->job->attention_work);
}

void host_run_attention_dx(luo_rank *r, const host_op *op, int32_t task)
{
    const luo_instr *i = op->instr;
    const void *in[6];
    void *out[3];
    for (int32_t k = 0; k < 6; k++) in[k] = host_buf(r, i->in[k], task);
    for (int32_t k = 0; k < 3; k++) out[k] = host_buf(r, i->out[k], task);
    r->x->k->attention_dx(op->rows, op->heads, &r->mb.docs, in[0], in[1], in[2], in[3], in[4],
                          in[5], out[0], out[1], out[2], r->job->attention_work);
}

luo_status host_bind_attention(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    return bind_heads(j, op, i->in[0], i->in[1], err);
}

luo_status host_bind_attention_dx(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    return bind_heads(j, op, i->in[3], i->in[4], err);
}
