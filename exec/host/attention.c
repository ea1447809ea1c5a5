/* attention.c: rotary positions and attention on the documents of a micro-batch. */
#include "exec/host/job.h"

static void rope(luo_rank *rank, const luo_bound_op *op, int32_t task, bool back)
{
    const luo_instr *instr = op->instr;
    for (int32_t k = 0; k < 2; k++) {
        const luo_buffer *buffer = luo_bound_desc(&rank->job->b, instr->in[k]);
        rank->x->k->rope(buffer->dim[0], buffer->dim[1], buffer->dim[2],
                         *op->turns, back,
                         rank->mb.positions + (k ? op->depth : op->lo),
                         host_buf(rank, instr->in[k], task), host_buf(rank, instr->out[k], task));
    }
}

void host_run_rope(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    rope(rank, op, task, false);
}

void host_run_rope_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    rope(rank, op, task, true);
}

void host_run_latent(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_buffer *buffer = luo_bound_desc(&rank->job->b, instr->in[0]);
    const int64_t turned = luo_bound_desc(&rank->job->b, instr->in[2])->dim[1];
    rank->x->k->latent(buffer->dim[0], buffer->dim[1], buffer->dim[2], turned, *op->turns,
                       rank->mb.positions + op->lo, host_buf(rank, instr->in[0], task),
                       host_buf(rank, instr->in[1], task), host_buf(rank, instr->in[2], task),
                       host_buf(rank, instr->out[0], task), host_buf(rank, instr->out[1], task));
}

void host_run_latent_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_buffer *buffer = luo_bound_desc(&rank->job->b, instr->in[0]);
    const luo_buffer *shared = luo_bound_desc(&rank->job->b, instr->out[2]);
    rank->x->k->latent_dx(shared->dim[0], buffer->dim[1], buffer->dim[2], shared->dim[1],
                          *op->turns, rank->mb.positions + op->lo,
                          host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task),
                          host_buf(rank, instr->out[0], task), host_buf(rank, instr->out[1], task),
                          host_buf(rank, instr->out[2], task));
}

size_t host_attention_work(const luo_job *job)
{
    size_t most = 0;
    for (int32_t i = 0; i < job->b.role->ninstr; i++) {
        const luo_bound_op *op = &job->b.op[i];
        if (!op->heads) continue;
        const int32_t whole[2] = {0, (int32_t)op->rows};
        const luo_documents one = {1, whole};
        const bool back = op->kind == LUO_OP_ATTENTION_DX;
        const size_t n = op->block ? job->x->k->block_work(op->block, op->heads, back)
                                   : job->x->k->attention_work(op->rows, op->heads, &one, back);
        if (n > most) most = n;
    }
    return most;
}

static luo_block block_of(const luo_rank *rank, const luo_bound_op *op)
{
    luo_block block = *op->block;
    block.runs = &rank->mb.runs;
    return block;
}

/* Documents among the tokens that are here. Pre: none is parted. */
static luo_documents documents_of(const luo_rank *rank, const luo_bound_op *op)
{
    const luo_documents *all = &rank->mb.docs;
    int32_t *start = rank->job->local_start, first = 0, n = 0;
    if (op->rows == rank->mb.tokens) return *all;
    while (first < all->n && all->start[first] < op->lo) first++;
    for (; first + n < all->n && all->start[first + n] < op->lo + op->rows; n++)
        start[n] = all->start[first + n] - (int32_t)op->lo;
    start[n] = (int32_t)op->rows;
    return (luo_documents){n, start};
}

void host_run_attention(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    void *q = host_buf(rank, instr->in[0], task), *k = host_buf(rank, instr->in[1], task);
    void *v = host_buf(rank, instr->in[2], task), *o = host_buf(rank, instr->out[0], task);
    void *rows = host_buf(rank, instr->out[1], task), *work = rank->job->attention_work;
    if (!op->block) {
        const luo_documents docs = documents_of(rank, op);
        rank->x->k->attention(op->rows, op->heads, &docs, q, k, v, o, rows, work);
        return;
    }
    const luo_block block = block_of(rank, op);
    rank->x->k->attention_block(&block, op->heads, q, k, v, o, rows, work);
}

void host_run_attention_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const void *in[6];
    void *out[3], *work = rank->job->attention_work;
    for (int32_t k = 0; k < 6; k++) in[k] = host_buf(rank, instr->in[k], task);
    for (int32_t k = 0; k < 3; k++) out[k] = host_buf(rank, instr->out[k], task);
    if (!op->block) {
        const luo_documents docs = documents_of(rank, op);
        rank->x->k->attention_dx(op->rows, op->heads, &docs, in[0], in[1], in[2], in[3], in[4],
                                 in[5], out[0], out[1], out[2], work);
        return;
    }
    const luo_block block = block_of(rank, op);
    rank->x->k->attention_block_dx(&block, op->heads, in[0], in[1], in[2], in[3], in[4], in[5],
                                   out[0], out[1], out[2], work);
}
