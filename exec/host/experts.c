/* experts.c: choices of tokens, and products of as many rows as every expert got. */
#include <string.h>

#include "exec/host/job.h"

static luo_gate gate_of(const luo_rank *rank)
{
    const luo_moe *moe = &rank->x->config.model->moe;
    return (luo_gate){.kind = LUO_GATE_TOPK,
                      .experts = (int32_t)moe->experts,
                      .k = (int32_t)moe->experts_per_token,
                      .capacity_factor = moe->capacity_factor};
}

size_t host_experts_work(const luo_job *job)
{
    const luo_moe *moe = &job->x->config.model->moe;
    return moe->experts ? 8 * (size_t)(4 * moe->experts + moe->experts_per_token + 4) : 0;
}

void host_run_route(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_gate gate = gate_of(rank);
    rank->x->k->route(op->rows, &gate, host_buf(rank, instr->in[0], task),
                      host_buf(rank, instr->out[0], task), host_buf(rank, instr->out[1], task),
                      host_buf(rank, instr->out[2], task), rank->job->attention_work);
}

void host_run_route_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_gate gate = gate_of(rank);
    rank->x->k->route_dx(op->rows, &gate, host_buf(rank, instr->in[0], task),
                         host_buf(rank, instr->in[2], task), host_buf(rank, instr->in[3], task),
                         host_buf(rank, instr->out[0], task));
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
    combine(rank, op, task, host_buf(rank, op->instr->in[2], task));
}

void host_run_combine_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const luo_gate gate = gate_of(rank);
    rank->x->k->combine_dx(op->rows, op->cols, gate.experts, gate.k,
                           host_buf(rank, instr->in[0], task), host_buf(rank, instr->in[1], task),
                           host_buf(rank, instr->in[2], task), host_buf(rank, instr->in[3], task),
                           host_buf(rank, instr->out[0], task), host_buf(rank, instr->out[1], task),
                           rank->job->attention_work);
}

/* ---- what experts compute ---- */

static int64_t rows_of(const luo_rank *rank, const luo_expert_rows *x, const void *counts,
                       int64_t e)
{
    double n = 0;
    for (int64_t s = 0; s < x->sources; s++) {
        const int64_t at = s * x->experts + e;
        n += rank->x->k->elem == sizeof(float) ? (double)((const float *)counts)[at]
                                               : ((const double *)counts)[at];
    }
    return (int64_t)n;
}

/* Products of one weight of all experts. */
static void products(luo_rank *rank, const luo_bound_op *op, const luo_product *p, int32_t task)
{
    const luo_kernels *k = rank->x->k;
    const void *counts = host_buf(rank, op->experts->counts, task);
    const int64_t elem = (int64_t)k->elem;
    const bool add = p->add || host_adds(rank, p->c);
    const char *a = host_buf(rank, p->a, task), *b = host_buf(rank, p->b, task);
    char *c = host_buf(rank, p->c, task);
    for (int64_t e = 0; e < op->experts->experts; e++) {
        const int64_t n = rows_of(rank, op->experts, counts, e);
        k->gemm(p->ta, p->tb, p->ta ? p->m : n, p->n, p->ta ? n : p->k, a, p->lda, b, p->ldb, add,
                c, p->ldc);
        a += n * p->lda * elem;
        b += (p->ta ? n * p->ldb : p->n * p->k) * elem;
        c += (p->ta ? p->m : n) * p->ldc * elem;
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
    const luo_instr *instr = op->instr;
    const int64_t n = cells_of(rank, op, task);
    void *y = host_buf(rank, instr->out[0], task);
    const void *x = host_buf(rank, instr->in[0], task);
    if (instr->nin == 2)
        rank->x->k->gelu(n, x, y);
    else
        rank->x->k->swiglu(n, x, host_buf(rank, instr->in[1], task), y,
                           host_buf(rank, instr->out[1], task));
}

void host_run_rows_activation_dx(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_instr *instr = op->instr;
    const int64_t n = cells_of(rank, op, task);
    void *dx = host_buf(rank, instr->out[0], task);
    const void *dy = host_buf(rank, instr->in[0], task), *x = host_buf(rank, instr->in[1], task);
    if (instr->nout == 1)
        rank->x->k->gelu_dx(n, dy, x, dx);
    else
        rank->x->k->swiglu_dx(n, dy, x, host_buf(rank, instr->in[2], task),
                              host_buf(rank, instr->in[3], task), dx,
                              host_buf(rank, instr->out[1], task));
}
