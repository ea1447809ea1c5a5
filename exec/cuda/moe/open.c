/* open.c: memory of layers with experts, and the loss that they add to the step's. */
#include <stdlib.h>

#include "exec/cuda/moe/moe.h"

gpu_gate gpu_gate_of(const luo_gate *g)
{
    const bool sigmoid = g->kind == LUO_GATE_SIGMOID || g->kind == LUO_GATE_BALANCED;
    const int32_t groups = g->groups > 0 ? g->groups : 1;
    return (gpu_gate){.experts = g->experts,
                      .k = g->k,
                      .prototypes = g->kind == LUO_GATE_KTOP1 ? g->k : 1,
                      .groups = groups,
                      .kept = g->groups_kept > 0 ? g->groups_kept : groups,
                      .sigmoid = sigmoid,
                      .sam = g->kind == LUO_GATE_SAM,
                      .divides = luo_gate_divides(g),
                      .scale = luo_gate_scale(g)};
}

/* ---- counts ---- */

static const luo_bound_trade *trade_of(const luo_bound_op *op)
{
    return op->comm ? op->comm->trade : NULL;
}

/* Copies of a buffer that tasks use. */
static int32_t copies_of(const luo_job *j, int32_t buffer)
{
    const luo_layout *l = &j->bound.layout;
    int32_t most = 0;
    for (int32_t t = 0; l->stride[buffer] && t < l->ntask; t++) {
        const int32_t copy = l->copy[(int64_t)l->life[buffer] * l->ntask + t];
        if (copy > most) most = copy;
    }
    return most + 1;
}

static void want(luo_job *j, int32_t buffer, int64_t between)
{
    struct gpu_moe *moe = j->moe;
    int32_t *k = &moe->mirror_of[buffer];
    if (*k < 0) {
        *k = moe->nmirrors++;
        moe->mirror[*k] = (gpu_mirror){.buffer = buffer,
                                       .copies = copies_of(j, buffer),
                                       .n = luo_bound_volume(luo_bound_desc(&j->bound, buffer))};
    }
    if (between > moe->mirror[*k].between) moe->mirror[*k].between = between;
}

static void want_all(luo_job *j)
{
    for (int32_t i = 0; i < j->bound.role->ninstr; i++) {
        const luo_bound_op *op = &j->bound.op[i];
        const luo_bound_trade *t = trade_of(op);
        if (op->experts) want(j, op->experts->counts, 0);
        if (!t) continue;
        want(j, t->home, 0);
        want(j, t->there, gpu_trade_between(t));
    }
}

/* The steps before the last leave counts in the middle. */
static void find_makers(luo_job *j)
{
    for (int32_t i = 0; i < j->bound.role->ninstr; i++) {
        const luo_instr *x = &j->bound.role->instr[i];
        const luo_bound_trade *t = trade_of(&j->bound.op[i]);
        int32_t *makes = &j->moe->makes[i];
        *makes = -1;
        if (t && i < t->last) continue;
        if (t && t->counts) *makes = j->moe->mirror_of[t->there];
        for (int32_t k = 0; k < x->nout && !t; k++)
            if (j->moe->mirror_of[x->out[k]] >= 0) *makes = j->moe->mirror_of[x->out[k]];
    }
}

static luo_status open_mirror(luo_job *j, gpu_mirror *m, luo_err *err)
{
    void *at, *there;
    m->event = LUO_NEW_N(j->arena, cudaEvent_t, m->copies);
    m->awaited = LUO_NEW_N(j->arena, bool, m->copies);
    if (!m->event || !m->awaited) return luo_err_nomem(err);
    for (int32_t c = 0; c < m->copies; c++)
        LUO_TRY(gpu_check(err, cudaEventCreateWithFlags(&m->event[c], cudaEventDisableTiming),
                          "making events"));
    const int64_t n = (m->n + m->between) * m->copies;
    LUO_TRY(gpu_alloc_mapped(n * (int64_t)sizeof *m->at, "counts of rows", &at, &there, err));
    m->at = at;
    return LUO_OK;
}

static luo_status open_counts(luo_job *j, luo_err *err)
{
    struct gpu_moe *moe = j->moe;
    const int32_t nbuf = j->bound.role->nbuf;
    moe->mirror_of = LUO_NEW_N(j->arena, int32_t, nbuf);
    moe->mirror = LUO_NEW_N(j->arena, gpu_mirror, nbuf);
    moe->makes = LUO_NEW_N(j->arena, int32_t, j->bound.role->ninstr);
    if (!moe->mirror_of || !moe->mirror || !moe->makes) return luo_err_nomem(err);
    for (int32_t b = 0; b < nbuf; b++) moe->mirror_of[b] = -1;
    want_all(j);
    find_makers(j);
    for (int32_t k = 0; k < moe->nmirrors; k++) LUO_TRY(open_mirror(j, &moe->mirror[k], err));
    return LUO_OK;
}

/* ---- exchanges, balanced assignment, the loss ---- */

static luo_status open_trades(luo_job *j, luo_err *err)
{
    struct gpu_moe *moe = j->moe;
    int64_t messages = 0, blocks = 0;
    void *p;
    for (int32_t i = 0; i < j->bound.role->ninstr; i++) {
        const luo_bound_op *op = &j->bound.op[i];
        if (!trade_of(op)) continue;
        const int64_t n = gpu_trade_messages(trade_of(op)), bytes = gpu_trade_mid_bytes(op->comm);
        const int64_t arriving = gpu_trade_blocks(trade_of(op));
        if (n > messages) messages = n;
        if (arriving > blocks) blocks = arriving;
        if (bytes > moe->mid_bytes) moe->mid_bytes = bytes;
    }
    moe->message = LUO_NEW_N(j->arena, gpu_message, messages);
    moe->start = LUO_NEW_N(j->arena, int64_t, blocks);
    if (!moe->message || !moe->start) return luo_err_nomem(err);
    LUO_TRY(gpu_alloc(moe->mid_bytes, "rows between two steps of an exchange", &p, err));
    moe->mid = p;
    return LUO_OK;
}

static luo_status open_dealing(luo_job *j, luo_err *err)
{
    struct gpu_moe *moe = j->moe;
    const int64_t n = j->bound.longest;
    void *p, *there;
    if (moe->gate.kind != LUO_GATE_BALANCED) return LUO_OK;
    moe->batch_memory = luo_arena_alloc(j->arena, luo_batch_bytes(&j->bound.batch, n));
    if (!moe->batch_memory) return luo_err_nomem(err);
    LUO_TRY(gpu_check(err, cudaEventCreateWithFlags(&moe->logits_are_here, cudaEventDisableTiming),
                      "making events"));
    LUO_TRY(gpu_alloc_mapped(n * moe->gate.experts * (int64_t)sizeof *moe->logits,
                             "logits of a micro-batch", &p, &there, err));
    moe->logits = p;
    LUO_TRY(
        gpu_alloc_mapped(n * (int64_t)sizeof *moe->dealt, "experts of tokens", &p, &there, err));
    moe->dealt = p;
    LUO_TRY(gpu_alloc(n * (int64_t)sizeof *moe->dealt, "experts of tokens", &p, err));
    moe->dealt_there = p;
    return LUO_OK;
}

static luo_status open_loss(luo_job *j, luo_err *err)
{
    const int64_t one = (int64_t)sizeof(double);
    void *p, *there;
    LUO_TRY(gpu_alloc((1 + GPU_BALANCE_PARTS) * one, "the loss of unbalanced experts", &p, err));
    j->moe->loss = p;
    j->moe->parts = j->moe->loss + 1;
    LUO_TRY(gpu_alloc_mapped(one, "the loss of unbalanced experts", &p, &there, err));
    j->moe->loss_here = p;
    *j->moe->loss_here = 0;
    return LUO_OK;
}

luo_status gpu_moe_open(luo_job *j, luo_err *err)
{
    const luo_model *model = j->x->config.model;
    if (!model->moe.experts) return LUO_OK;
    struct gpu_moe *moe = j->moe = LUO_NEW(j->arena, struct gpu_moe);
    if (!moe) return luo_err_nomem(err);
    moe->gate = luo_model_gate(model);
    moe->asked = gpu_gate_of(&moe->gate);
    LUO_TRY(open_counts(j, err));
    LUO_TRY(open_trades(j, err));
    LUO_TRY(open_dealing(j, err));
    return open_loss(j, err);
}

void gpu_moe_close(luo_job *j)
{
    struct gpu_moe *moe = j->moe;
    if (!moe) return;
    for (int32_t k = 0; k < moe->nmirrors; k++) {
        const gpu_mirror *m = &moe->mirror[k];
        for (int32_t c = 0; m->event && c < m->copies; c++)
            if (m->event[c]) (void)cudaEventDestroy(m->event[c]);
        gpu_free_mapped(m->at);
    }
    if (moe->logits_are_here) (void)cudaEventDestroy(moe->logits_are_here);
    gpu_free_mapped(moe->logits);
    gpu_free_mapped(moe->dealt);
    gpu_free_mapped(moe->loss_here);
    gpu_free(moe->dealt_there);
    gpu_free(moe->loss);
    gpu_free(moe->mid);
}

/* ---- a step ---- */

luo_status gpu_moe_begin(luo_rank *r)
{
    struct gpu_moe *moe = r->job->moe;
    if (!moe) return LUO_OK;
    moe->mid_user = NULL;
    return gpu_check(
        &r->err, cudaMemsetAsync(moe->loss, 0, sizeof *moe->loss, r->x->stream[LUO_STREAM_COMPUTE]),
        "the loss of unbalanced experts");
}

luo_status gpu_moe_end(luo_rank *r)
{
    const struct gpu_moe *moe = r->job->moe;
    if (!moe) return LUO_OK;
    return gpu_check(&r->err,
                     cudaMemcpyAsync(moe->loss_here, moe->loss, sizeof *moe->loss,
                                     cudaMemcpyDeviceToHost, r->x->stream[LUO_STREAM_COMPUTE]),
                     "the loss of unbalanced experts");
}

int64_t gpu_moe_bytes(const luo_job *j)
{
    if (!j->moe) return 0;
    return j->moe->mid_bytes + (1 + GPU_BALANCE_PARTS) * (int64_t)sizeof(double) +
           (j->moe->dealt_there ? j->bound.longest * (int64_t)sizeof *j->moe->dealt : 0);
}

double gpu_moe_loss(const luo_job *j)
{
    return j->moe ? *j->moe->loss_here : 0;
}
