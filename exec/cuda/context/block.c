/* block.c: attention where a device has a part of the tokens: some whole documents, or a block of
 * queries on a block of keys at a time. Which tokens these are is the program's; who sees whom is
 * the micro-batch's, and travels with it. */
#include "exec/cuda/bind.h"

int64_t gpu_sight_values(const gpu_sight *sight)
{
    return sight->whole ? 2 * sight->block.nq : gpu_sights_values(&sight->block);
}

static int64_t tokens_of(const luo_job *job, const gpu_op *op)
{
    return job->bound.role->seg[job->bound.seg_of[op->b->instr->id]].tokens;
}

static bool are_same(const gpu_sight *x, const gpu_sight *y)
{
    return x->whole == y->whole && x->window == y->window && x->block.q == y->block.q &&
           x->block.nq == y->block.nq && x->block.k == y->block.k && x->block.nk == y->block.nk;
}

/* What is the same for several layers shares its lists. */
static luo_status find_sight(gpu_binder *binder, gpu_op *op, gpu_sight s)
{
    luo_job *job = binder->job;
    gpu_batch *batch = &job->batch;
    s.tokens = tokens_of(job, op);
    s.causal = op->b->heads->causal;
    s.window = s.whole ? 0 : op->b->heads->window; /* kernels look at that of whole documents */
    for (op->sight = 0; op->sight < batch->nsights; op->sight++) {
        const gpu_sight *x = &batch->sight[op->sight];
        if (x->tokens != s.tokens) continue;
        if (are_same(x, &s)) return LUO_OK;
        s.at = x->at + gpu_sight_values(x);
    }
    const size_t n = (size_t)batch->nsights * sizeof s;
    gpu_sight *more = luo_arena_grow(job->arena, batch->sight, n, n + sizeof s);
    if (!more) return luo_err_nomem(binder->err);
    batch->sight = more;
    batch->sight[batch->nsights++] = s;
    return LUO_OK;
}

/* ---- whole documents ---- */

luo_status gpu_bind_documents(gpu_binder *binder, gpu_op *op)
{
    op->sight = -1;
    if (op->b->rows == tokens_of(binder->job, op)) return LUO_OK;
    return find_sight(binder, op,
                      (gpu_sight){.whole = true, .block = {.q = op->b->lo, .nq = op->b->rows}});
}

static const gpu_tokens *micro_batch_of(const luo_rank *rank, int32_t task)
{
    return &rank->job->batch.tokens[rank->job->bound.program->tasks[task].micro_batch];
}

gpu_documents gpu_documents_of(const luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_tokens *tokens = micro_batch_of(rank, task);
    if (op->sight < 0) return (gpu_documents){tokens->start_of, tokens->end_of};
    const int32_t *at = tokens->sights + rank->job->batch.sight[op->sight].at;
    return (gpu_documents){at, at + op->b->rows};
}

/* ---- blocks ---- */

static gpu_block block_of(const luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_sight *sight = &rank->job->batch.sight[op->sight];
    return (gpu_block){.nq = sight->block.nq,
                       .nk = sight->block.nk,
                       .first_keys = op->b->block->first_keys,
                       .sights = micro_batch_of(rank, task)->sights + sight->at};
}

static luo_status run_block(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_instr *instr = op->b->instr;
    const luo_job *job = rank->job;
    const gpu_block block = block_of(rank, op, task);
    return gpu_check(
        &rank->err,
        gpu_attention_block(rank->x->stream[LUO_STREAM_COMPUTE], &block, &op->heads,
                            gpu_at(job, instr->in[0], task), gpu_at(job, instr->in[1], task),
                            gpu_at(job, instr->in[2], task), gpu_at(job, instr->out[0], task),
                            gpu_buf(job, instr->out[1], task), job->work),
        "attention of a block");
}

static luo_status run_block_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_instr *instr = op->b->instr;
    const luo_job *job = rank->job;
    const gpu_block block = block_of(rank, op, task);
    gpu_array in[6], out[3];
    for (int32_t k = 0; k < 6; k++) in[k] = gpu_at(job, instr->in[k], task);
    for (int32_t k = 0; k < 3; k++) out[k] = gpu_at(job, instr->out[k], task);
    return gpu_check(&rank->err,
                     gpu_attention_block_dx(rank->x->stream[LUO_STREAM_COMPUTE], &block, &op->heads,
                                            in[0], in[1], in[2].at, in[3], in[4], in[5], out[0],
                                            out[1], out[2], job->work),
                     "attention of a block");
}

luo_status gpu_bind_block(gpu_binder *binder, gpu_op *op, bool back)
{
    const gpu_type type = gpu_type_of(gpu_in(binder->job, op, back ? 4 : 1)->elem_bytes);
    const gpu_block block = {
        .nq = op->b->block->nq, .nk = op->b->block->nk, .first_keys = op->b->block->first_keys};
    const int64_t work = (int64_t)gpu_attention_block_work(&block, &op->heads, type, back);
    if (work > binder->job->work_bytes) binder->job->work_bytes = work;
    op->run = back ? run_block_dx : run_block;
    return find_sight(binder, op, (gpu_sight){.block = *op->b->block});
}
