/* open.c: memory of layers with experts, and the loss that they add to the step's. */
#include <stdlib.h>

#include "exec/cuda/moe/moe.h"

gpu_gate gpu_gate_of(const luo_gate *gate)
{
    const bool sigmoid = gate->kind == LUO_GATE_SIGMOID || gate->kind == LUO_GATE_BALANCED;
    const int32_t groups = gate->groups > 0 ? gate->groups : 1;
    return (gpu_gate){.experts = gate->experts,
                      .k = gate->k,
                      .prototypes = gate->kind == LUO_GATE_KTOP1 ? gate->k : 1,
                      .groups = groups,
                      .kept = gate->groups_kept > 0 ? gate->groups_kept : groups,
                      .sigmoid = sigmoid,
                      .sam = gate->kind == LUO_GATE_SAM,
                      .divides = luo_gate_divides(gate),
                      .scale = luo_gate_scale(gate)};
}

/* ---- counts ---- */

static const luo_bound_trade *trade_of(const luo_bound_op *op)
{
    return op->comm ? op->comm->trade : NULL;
}

/* Copies of a buffer that tasks use. */
static int32_t copies_of(const luo_job *job, int32_t buffer)
{
    const luo_layout *layout = &job->bound.layout;
    int32_t most = 0;
    for (int32_t t = 0; layout->stride[buffer] && t < layout->ntask; t++) {
        const int32_t copy = layout->copy[(int64_t)layout->life[buffer] * layout->ntask + t];
        if (copy > most) most = copy;
    }
    return most + 1;
}

static void want(luo_job *job, int32_t buffer, int64_t between)
{
    struct gpu_moe *moe = job->moe;
    int32_t *k = &moe->mirror_of[buffer];
    if (*k < 0) {
        *k = moe->nmirrors++;
        moe->mirror[*k] = (gpu_mirror){.buffer = buffer,
                                       .copies = copies_of(job, buffer),
                                       .n = luo_bound_volume(luo_bound_desc(&job->bound, buffer))};
    }
    if (between > moe->mirror[*k].between) moe->mirror[*k].between = between;
}

static void want_all(luo_job *job)
{
    for (int32_t i = 0; i < job->bound.role->ninstr; i++) {
        const luo_bound_op *op = &job->bound.op[i];
        const luo_bound_trade *trade = trade_of(op);
        if (op->experts) want(job, op->experts->counts, 0);
        if (!trade) continue;
        want(job, trade->home, 0);
        want(job, trade->there, gpu_trade_between(trade));
    }
}

/* The steps before the last leave counts in the middle. */
static void find_makers(luo_job *job)
{
    for (int32_t i = 0; i < job->bound.role->ninstr; i++) {
        const luo_instr *instr = &job->bound.role->instr[i];
        const luo_bound_trade *trade = trade_of(&job->bound.op[i]);
        int32_t *makes = &job->moe->makes[i];
        *makes = -1;
        if (trade && i < trade->last) continue;
        if (trade && trade->counts) *makes = job->moe->mirror_of[trade->there];
        for (int32_t k = 0; k < instr->nout && !trade; k++)
            if (job->moe->mirror_of[instr->out[k]] >= 0)
                *makes = job->moe->mirror_of[instr->out[k]];
    }
}

static luo_status open_mirror(luo_job *job, gpu_mirror *mirror, luo_err *err)
{
    void *at, *there;
    mirror->event = LUO_NEW_N(job->arena, cudaEvent_t, mirror->copies);
    mirror->awaited = LUO_NEW_N(job->arena, bool, mirror->copies);
    if (!mirror->event || !mirror->awaited) return luo_err_nomem(err);
    for (int32_t c = 0; c < mirror->copies; c++)
        LUO_TRY(gpu_check(err, cudaEventCreateWithFlags(&mirror->event[c], cudaEventDisableTiming),
                          "making events"));
    const int64_t n = (mirror->n + mirror->between) * mirror->copies;
    LUO_TRY(gpu_alloc_mapped(n * (int64_t)sizeof *mirror->at, "counts of rows", &at, &there, err));
    mirror->at = at;
    return LUO_OK;
}

static luo_status open_counts(luo_job *job, luo_err *err)
{
    struct gpu_moe *moe = job->moe;
    const int32_t nbuf = job->bound.role->nbuf;
    moe->mirror_of = LUO_NEW_N(job->arena, int32_t, nbuf);
    moe->mirror = LUO_NEW_N(job->arena, gpu_mirror, nbuf);
    moe->makes = LUO_NEW_N(job->arena, int32_t, job->bound.role->ninstr);
    if (!moe->mirror_of || !moe->mirror || !moe->makes) return luo_err_nomem(err);
    for (int32_t b = 0; b < nbuf; b++) moe->mirror_of[b] = -1;
    want_all(job);
    find_makers(job);
    for (int32_t k = 0; k < moe->nmirrors; k++) LUO_TRY(open_mirror(job, &moe->mirror[k], err));
    return LUO_OK;
}

/* ---- exchanges, balanced assignment, the loss ---- */

static luo_status open_trades(luo_job *job, luo_err *err)
{
    struct gpu_moe *moe = job->moe;
    int64_t messages = 0, blocks = 0;
    void *p;
    for (int32_t i = 0; i < job->bound.role->ninstr; i++) {
        const luo_bound_op *op = &job->bound.op[i];
        if (!trade_of(op)) continue;
        const int64_t n = gpu_trade_messages(trade_of(op)), bytes = gpu_trade_mid_bytes(op->comm);
        const int64_t arriving = gpu_trade_blocks(trade_of(op));
        if (n > messages) messages = n;
        if (arriving > blocks) blocks = arriving;
        if (bytes > moe->mid_bytes) moe->mid_bytes = bytes;
    }
    moe->message = LUO_NEW_N(job->arena, gpu_message, messages);
    moe->start = LUO_NEW_N(job->arena, int64_t, blocks);
    if (!moe->message || !moe->start) return luo_err_nomem(err);
    LUO_TRY(gpu_alloc(moe->mid_bytes, "rows between two steps of an exchange", &p, err));
    moe->mid = p;
    return LUO_OK;
}

static luo_status open_dealing(luo_job *job, luo_err *err)
{
    struct gpu_moe *moe = job->moe;
    const int64_t n = job->bound.longest;
    void *p, *there;
    if (moe->gate.kind != LUO_GATE_BALANCED) return LUO_OK;
    moe->batch_memory = luo_arena_alloc(job->arena, luo_batch_bytes(&job->bound.batch, n));
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

static luo_status open_loss(luo_job *job, luo_err *err)
{
    const int64_t one = (int64_t)sizeof(double);
    void *p, *there;
    LUO_TRY(gpu_alloc((1 + GPU_BALANCE_PARTS) * one, "the loss of unbalanced experts", &p, err));
    job->moe->loss = p;
    job->moe->parts = job->moe->loss + 1;
    LUO_TRY(gpu_alloc_mapped(one, "the loss of unbalanced experts", &p, &there, err));
    job->moe->loss_here = p;
    *job->moe->loss_here = 0;
    return LUO_OK;
}

luo_status gpu_moe_open(luo_job *job, luo_err *err)
{
    const luo_model *model = job->x->config.model;
    if (!model->moe.experts) return LUO_OK;
    struct gpu_moe *moe = job->moe = LUO_NEW(job->arena, struct gpu_moe);
    if (!moe) return luo_err_nomem(err);
    moe->gate = luo_model_gate(model);
    moe->asked = gpu_gate_of(&moe->gate);
    LUO_TRY(open_counts(job, err));
    LUO_TRY(open_trades(job, err));
    LUO_TRY(open_dealing(job, err));
    return open_loss(job, err);
}

void gpu_moe_close(luo_job *job)
{
    struct gpu_moe *moe = job->moe;
    if (!moe) return;
    for (int32_t k = 0; k < moe->nmirrors; k++) {
        const gpu_mirror *mirror = &moe->mirror[k];
        for (int32_t c = 0; mirror->event && c < mirror->copies; c++)
            if (mirror->event[c]) (void)cudaEventDestroy(mirror->event[c]);
        gpu_free_mapped(mirror->at);
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

luo_status gpu_moe_begin(luo_rank *rank)
{
    struct gpu_moe *moe = rank->job->moe;
    if (!moe) return LUO_OK;
    moe->mid_user = NULL;
    return gpu_check(
        &rank->err,
        cudaMemsetAsync(moe->loss, 0, sizeof *moe->loss, rank->x->stream[LUO_STREAM_COMPUTE]),
        "the loss of unbalanced experts");
}

luo_status gpu_moe_end(luo_rank *rank)
{
    const struct gpu_moe *moe = rank->job->moe;
    if (!moe) return LUO_OK;
    return gpu_check(&rank->err,
                     cudaMemcpyAsync(moe->loss_here, moe->loss, sizeof *moe->loss,
                                     cudaMemcpyDeviceToHost, rank->x->stream[LUO_STREAM_COMPUTE]),
                     "the loss of unbalanced experts");
}

int64_t gpu_moe_bytes(const luo_job *job)
{
    if (!job->moe) return 0;
    return job->moe->mid_bytes + (1 + GPU_BALANCE_PARTS) * (int64_t)sizeof(double) +
           (job->moe->dealt_there ? job->bound.longest * (int64_t)sizeof *job->moe->dealt : 0);
}

double gpu_moe_loss(const luo_job *job)
{
    return job->moe ? *job->moe->loss_here : 0;
}
