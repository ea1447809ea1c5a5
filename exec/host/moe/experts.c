/* experts.c: choices of tokens, and products of as many rows as every expert got. */
#include <string.h>

#include "exec/bind/deal.h"
#include "exec/host/job.h"

static luo_gate gate_of(const luo_rank *rank)
{
    return luo_model_gate(rank->x->config.model);
}

size_t host_experts_work(const luo_job *job)
{
    const luo_moe *moe = &job->x->config.model->moe;
    return moe->experts ? 8 * (size_t)(6 * moe->experts + moe->experts_per_token + 4) : 0;
}

/* Values of an array as the gate has them, in room for as many. */
static const double *doubles_of(const luo_rank *rank, const void *from, int64_t n, double *room)
{
    for (int64_t i = 0; i < n; i++)
        room[i] = rank->x->k->elem == sizeof(float) ? (double)((const float *)from)[i]
                                                    : ((const double *)from)[i];
    return room;
}

/* Which of the device's tokens are pads; NULL: the micro-batch has none. */
static const unsigned char *pads_of(const luo_rank *rank, const luo_bound_op *op)
{
    const luo_micro_batch *mb = &rank->mb;
    if (mb->data_tokens == mb->tokens) return NULL;
    for (int64_t i = 0; i < op->rows; i++) rank->job->pads[i] = luo_batch_is_pad(mb, op->lo + i);
    return rank->job->pads;
}

static void by_hash(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_gate gate = gate_of(rank);
    rank->x->k->route_hash(op->rows, &gate, rank->mb.ids + op->lo,
                           host_buf(rank, op->instr->out[0], task), rank->job->attention_work);
}

/* Out of memory the rank gives up the step, with choices that block nobody. */
static void by_balance(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    luo_arena *arena = luo_arena_new(0);
    int32_t *own = rank->job->dealt;
    memset(own, 0, (size_t)op->rows * sizeof *own);
    if (!arena ||
        luo_deal_tokens(arena, &rank->mb, gate_of(rank).experts, host_buf(rank, instr->in[1], task),
                        rank->x->k->elem, op->lo, op->rows, own, &rank->err) != LUO_OK)
        rank->drain = true;
    rank->x->k->route_dealt(op->rows, gate_of(rank).experts, own,
                            host_buf(rank, instr->in[0], task), host_buf(rank, instr->out[0], task),
                            host_buf(rank, instr->out[1], task),
                            host_buf(rank, instr->out[2], task));
    luo_arena_free(arena);
}

void host_run_route(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    luo_gate gate = gate_of(rank);
    double *work = rank->job->attention_work;
    if (instr->nout == 1) {
        by_hash(rank, op, task);
        return;
    }
    if (gate.kind == LUO_GATE_BALANCED) {
        by_balance(rank, op, task);
        return;
    }
    if (instr->nin > 1)
        gate.bias = doubles_of(rank, host_buf(rank, instr->in[1], task), gate.experts, work);
    void *load = instr->nout > 3 ? host_buf(rank, instr->out[3], task) : NULL;
    if (load) memset(load, 0, (size_t)luo_bound_desc(&rank->job->b, instr->out[3])->bytes);
    rank->x->k->route(op->rows, &gate, host_buf(rank, instr->in[0], task), pads_of(rank, op),
                      host_buf(rank, instr->out[0], task), host_buf(rank, instr->out[1], task),
                      host_buf(rank, instr->out[2], task), load, work + gate.experts);
}

/* How often tokens here chose experts, to what the step has so far: what moves their bias. */
static void add_choices(luo_rank *rank, int32_t from, int32_t to, int32_t experts, int32_t task)
{
    const void *x[2] = {host_buf(rank, to, task), host_buf(rank, from, task)};
    const bool add = host_adds(rank, to);
    rank->x->k->add(experts, add ? 2 : 1, add ? x : x + 1, host_buf(rank, to, task));
}

void host_run_route_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_gate gate = gate_of(rank);
    const unsigned char *pad = pads_of(rank, op);
    const void *p = host_buf(rank, instr->in[3], task);
    const bool counts = instr->nout > 1;
    const void *load = instr->nin > 4 && !counts ? host_buf(rank, instr->in[4], task) : NULL;
    if (counts) add_choices(rank, instr->in[4], instr->out[1], gate.experts, task);
    const double weight =
        luo_gate_aux_weight(&gate, rank->x->config.model->moe.aux_loss, rank->mb.data_tokens,
                            luo_batch_data_tokens(&rank->job->b.batch));
    rank->x->k->route_dx(op->rows, &gate, host_buf(rank, instr->in[0], task),
                         host_buf(rank, instr->in[1], task), host_buf(rank, instr->in[2], task), p,
                         pad, load, weight, host_buf(rank, instr->out[0], task));
    if (weight > 0 && op->depth == 0)
        rank->aux_loss +=
            weight *
            rank->x->k->balance(op->rows, &gate, host_buf(rank, instr->in[2], task), p, pad, load);
}

/* ---- tokens and rows ---- */

/* Of the device's rows of counts all but the first are 0. */
void host_run_pack(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_gate gate = gate_of(rank);
    void *counts = host_buf(rank, instr->out[1], task);
    memset(counts, 0, (size_t)luo_bound_desc(&rank->job->b, instr->out[1])->bytes);
    rank->x->k->pack(op->rows, op->cols, gate.experts, gate.k, host_buf(rank, instr->in[0], task),
                     host_buf(rank, instr->in[1], task), host_buf(rank, instr->out[0], task),
                     counts, rank->job->attention_work);
}

static void combine(luo_rank *rank, const luo_bound_op *op, int32_t task, const void *weights)
{
    const luo_instr *instr = op->instr;
    const luo_gate gate = gate_of(rank);
    rank->x->k->combine(op->rows, op->cols, gate.experts, gate.k,
                        host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task),
                        weights, host_buf(rank, instr->out[0], task), rank->job->attention_work);
}

void host_run_pack_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    combine(rank, op, task, NULL);
}

void host_run_combine(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    combine(rank, op, task, instr->nin > 2 ? host_buf(rank, instr->in[2], task) : NULL);
}

void host_run_combine_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_gate gate = gate_of(rank);
    const bool weighed = instr->nin > 2;
    rank->x->k->combine_dx(
        op->rows, op->cols, gate.experts, gate.k, host_buf(rank, instr->in[0], task),
        host_buf(rank, instr->in[1], task), weighed ? host_buf(rank, instr->in[2], task) : NULL,
        weighed ? host_buf(rank, instr->in[3], task) : NULL, host_buf(rank, instr->out[0], task),
        weighed ? host_buf(rank, instr->out[1], task) : NULL, rank->job->attention_work);
}

/* ---- shared experts ---- */

void host_run_token_gate(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->token_gate(op->rows, op->cols, host_buf(rank, instr->in[0], task),
                           host_buf(rank, instr->in[1], task), host_buf(rank, instr->out[0], task));
}

void host_run_token_gate_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    rank->x->k->token_gate_dx(
        op->rows, op->cols, host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task),
        host_buf(rank, instr->in[2], task), host_buf(rank, instr->out[0], task),
        host_buf(rank, instr->out[1], task));
}

/* ---- what experts compute ---- */

static int64_t rows_of(const luo_rank *rank, const luo_expert_rows *rows, const void *counts,
                       int64_t e)
{
    double n = 0;
    for (int64_t s = 0; s < rows->sources; s++) {
        const int64_t at = s * rows->experts + e;
        n += rank->x->k->elem == sizeof(float) ? (double)((const float *)counts)[at]
                                               : ((const double *)counts)[at];
    }
    return (int64_t)n;
}

/* Products of one weight of all experts. */
static void products(luo_rank *rank, const luo_bound_op *op, const luo_product *product,
                     int32_t task)
{
    const luo_kernels *kernels = rank->x->k;
    const void *counts = host_buf(rank, op->experts->counts, task);
    const int64_t elem = (int64_t)kernels->elem;
    const bool add = product->add || host_adds(rank, product->c);
    const char *a = host_buf(rank, product->a, task), *b = host_buf(rank, product->b, task);
    char *c = host_buf(rank, product->c, task);
    for (int64_t e = 0; e < op->experts->experts; e++) {
        const int64_t n = rows_of(rank, op->experts, counts, e);
        kernels->gemm(product->ta, product->tb, product->ta ? product->m : n, product->n,
                      product->ta ? n : product->k, a, product->lda, b, product->ldb, add, c,
                      product->ldc);
        a += n * product->lda * elem;
        b += (product->ta ? n * product->ldb : product->n * product->k) * elem;
        c += (product->ta ? product->m : n) * product->ldc * elem;
    }
}

void host_run_grouped(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    for (int32_t k = 0; k < op->nproducts; k++) products(rank, op, &op->product[k], task);
}

static int64_t cells_of(const luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const void *counts = host_buf(rank, op->experts->counts, task);
    int64_t n = 0;
    for (int64_t e = 0; e < op->experts->experts; e++) n += rows_of(rank, op->experts, counts, e);
    return n * op->cols;
}

void host_run_rows_activation(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    host_activate(rank, op->instr, cells_of(rank, op, task), task);
}

void host_run_rows_activation_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    host_activate_dx(rank, op->instr, cells_of(rank, op, task), task);
}
