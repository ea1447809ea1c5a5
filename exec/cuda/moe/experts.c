/* experts.c: choices of tokens, rows by expert, and activations of them.
 * What each operation reads and makes stands in core/graph/ops.inc. */
#include "exec/bind/deal.h"
#include "exec/cuda/moe/moe.h"

static cudaStream_t compute(const luo_rank *rank)
{
    return rank->x->stream[LUO_STREAM_COMPUTE];
}

static void *in_at(const luo_rank *rank, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_buf(rank->job, op->b->instr->in[i], task);
}

static void *out_at(const luo_rank *rank, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_buf(rank->job, op->b->instr->out[i], task);
}

static gpu_array in_of(const luo_rank *rank, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(rank->job, op->b->instr->in[i], task);
}

static gpu_array out_of(const luo_rank *rank, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(rank->job, op->b->instr->out[i], task);
}

static luo_status done(luo_rank *rank, const gpu_op *op, cudaError_t code)
{
    return gpu_check(&rank->err, code, luo_op_kind_name(op->b->kind));
}

static int32_t number_of(const luo_rank *rank, int32_t task)
{
    return rank->job->bound.program->tasks[task].micro_batch;
}

static const gpu_tokens *tokens_of(const luo_rank *rank, int32_t task)
{
    return &rank->job->batch.tokens[number_of(rank, task)];
}

/* ---- choices ---- */

static luo_status drop(luo_rank *rank, const gpu_op *op, float *weights, float *ids)
{
    const luo_gate *gate = &rank->job->moe->gate;
    if (!(gate->capacity_factor > 0)) return LUO_OK;
    return done(rank, op,
                gpu_drop(compute(rank), op->b->rows, gate->k, gate->experts,
                         luo_gate_capacity(gate, op->b->rows), weights, ids));
}

static luo_status by_hash(luo_rank *rank, const gpu_op *op, int32_t task)
{
    float *ids = out_at(rank, op, 0, task);
    LUO_TRY(done(rank, op,
                 gpu_route_hash(compute(rank), op->b->rows, rank->job->moe->gate.experts,
                                tokens_of(rank, task)->of[LUO_DATA_IDS] + op->b->lo, ids)));
    return drop(rank, op, NULL, ids);
}

/* On the host, since an auction is one bid after the other; the device waits for it. What it bids
 * by is what the host has waited for, so that nobody reads the experts of the last one any more. */
static luo_status deal(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_job *job = rank->job;
    const struct gpu_moe *moe = job->moe;
    const size_t bytes = (size_t)luo_bound_desc(&job->bound, op->b->instr->in[1])->bytes;
    luo_micro_batch mb;
    int32_t pipeline, k;
    LUO_TRY(done(rank, op,
                 cudaMemcpyAsync(moe->logits, in_at(rank, op, 1, task), bytes,
                                 cudaMemcpyDeviceToHost, compute(rank))));
    LUO_TRY(done(rank, op, cudaEventRecord(moe->logits_are_here, compute(rank))));
    luo_batch_find(&job->bound.batch, job->bound.program->pipeline, number_of(rank, task),
                   &pipeline, &k);
    luo_batch_fill(rank->x->config.corpus, &job->bound.batch, rank->order->step, pipeline, k,
                   moe->batch_memory, &mb);
    LUO_TRY(
        gpu_await(rank, moe->logits_are_here, GPU_SPIN_S, "logits of a micro-batch", &rank->err));
    luo_arena *arena = luo_arena_new(0);
    const luo_status st =
        arena ? luo_deal_tokens(arena, &mb, moe->gate.experts, moe->logits, sizeof(float),
                                op->b->lo, op->b->rows, moe->dealt, &rank->err)
              : luo_err_nomem(&rank->err);
    luo_arena_free(arena);
    LUO_TRY(st);
    return done(rank, op,
                cudaMemcpyAsync(moe->dealt_there, moe->dealt,
                                (size_t)op->b->rows * sizeof *moe->dealt, cudaMemcpyHostToDevice,
                                compute(rank)));
}

static luo_status by_balance(luo_rank *rank, const gpu_op *op, int32_t task)
{
    LUO_TRY(deal(rank, op, task));
    return done(rank, op,
                gpu_route_dealt(compute(rank), op->b->rows, rank->job->moe->gate.experts,
                                rank->job->moe->dealt_there, in_at(rank, op, 0, task),
                                out_at(rank, op, 0, task), out_at(rank, op, 1, task),
                                out_at(rank, op, 2, task)));
}

static const int32_t *pads_of(const luo_rank *rank, const gpu_op *op, int32_t task)
{
    return tokens_of(rank, task)->pad + op->b->lo;
}

/* Of the device's rows of counts all but the first are 0. */
static luo_status clear(luo_rank *rank, const gpu_op *op, int32_t i, int32_t task)
{
    const size_t bytes = (size_t)gpu_out(rank->job, op, i)->bytes;
    return done(rank, op, cudaMemsetAsync(out_at(rank, op, i, task), 0, bytes, compute(rank)));
}

luo_status gpu_run_route(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const struct gpu_moe *moe = rank->job->moe;
    const luo_instr *instr = op->b->instr;
    if (instr->nout == 1) return by_hash(rank, op, task);
    if (moe->gate.kind == LUO_GATE_BALANCED) return by_balance(rank, op, task);
    float *weights = out_at(rank, op, 0, task), *ids = out_at(rank, op, 1, task);
    LUO_TRY(done(rank, op,
                 gpu_route(compute(rank), op->b->rows, &moe->asked, in_at(rank, op, 0, task),
                           instr->nin > 1 ? in_at(rank, op, 1, task) : NULL, weights, ids,
                           out_at(rank, op, 2, task))));
    if (instr->nout > 3) {
        LUO_TRY(clear(rank, op, 3, task));
        LUO_TRY(done(rank, op,
                     gpu_count_choices(compute(rank), op->b->rows, moe->gate.k, moe->gate.experts,
                                       ids, pads_of(rank, op, task), out_at(rank, op, 3, task))));
    }
    return drop(rank, op, weights, ids);
}

/* How often tokens here chose experts, to what the step has so far: what moves their bias. */
static luo_status add_choices(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_array sum = out_of(rank, op, 1, task), array[2] = {sum, in_of(rank, op, 4, task)};
    const bool add = gpu_adds(rank, op->b->instr->out[1]);
    return done(rank, op,
                gpu_add(compute(rank), rank->job->moe->gate.experts, add ? 2 : 1,
                        add ? array : array + 1, sum));
}

static double aux_weight(const luo_rank *rank, int32_t task)
{
    const luo_job *job = rank->job;
    const gpu_batch *batch = &job->batch;
    return luo_gate_aux_weight(&job->moe->gate, rank->x->config.model->moe.aux_loss,
                               batch->data_tokens[batch->turn][number_of(rank, task)],
                               luo_batch_data_tokens(&job->bound.batch));
}

luo_status gpu_run_route_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const struct gpu_moe *moe = rank->job->moe;
    const luo_instr *instr = op->b->instr;
    const bool counts = instr->nout > 1;
    const float *load = instr->nin > 4 && !counts ? in_at(rank, op, 4, task) : NULL;
    const float *ids = in_at(rank, op, 2, task), *p = in_at(rank, op, 3, task);
    const int32_t *pad = pads_of(rank, op, task);
    const double weight = aux_weight(rank, task);
    if (counts) LUO_TRY(add_choices(rank, op, task));
    LUO_TRY(done(rank, op,
                 gpu_route_dx(compute(rank), op->b->rows, &moe->asked, in_at(rank, op, 0, task),
                              in_at(rank, op, 1, task), ids, p, pad, load, (float)weight,
                              out_at(rank, op, 0, task))));
    if (!(weight > 0) || op->b->depth > 0) return LUO_OK;
    return done(rank, op,
                gpu_balance(compute(rank), op->b->rows, &moe->asked, ids, p, pad, load, weight,
                            moe->loss, moe->parts));
}

/* ---- tokens and rows ---- */

luo_status gpu_bind_places(gpu_binder *binder, gpu_op *op)
{
    const int64_t k = binder->job->x->config.model->moe.experts_per_token;
    const int64_t bytes = op->b->rows * k * (int64_t)sizeof(int32_t);
    if (op->b->rows * k > INT32_MAX)
        return luo_err_set(binder->err, LUO_E2BIG,
                           "a micro-batch has over 2^31 choices of experts.");
    if (bytes > binder->job->work_bytes) binder->job->work_bytes = bytes;
    return LUO_OK;
}

/* Where the rows of choices lie, in the working memory. */
static luo_status place(luo_rank *rank, const gpu_op *op, const float *ids, float *counts)
{
    const luo_gate *gate = &rank->job->moe->gate;
    return done(rank, op,
                gpu_places(compute(rank), op->b->rows, gate->k, gate->experts, ids, rank->job->work,
                           counts));
}

luo_status gpu_run_pack(luo_rank *rank, const gpu_op *op, int32_t task)
{
    LUO_TRY(clear(rank, op, 1, task));
    LUO_TRY(place(rank, op, in_at(rank, op, 1, task), out_at(rank, op, 1, task)));
    return done(rank, op,
                gpu_pack(compute(rank), op->b->rows, op->b->cols, rank->job->moe->gate.k,
                         rank->job->work, in_of(rank, op, 0, task), out_of(rank, op, 0, task)));
}

static luo_status combine(luo_rank *rank, const gpu_op *op, int32_t task, const float *weights)
{
    LUO_TRY(place(rank, op, in_at(rank, op, 1, task), NULL));
    return done(rank, op,
                gpu_combine(compute(rank), op->b->rows, op->b->cols, rank->job->moe->gate.k,
                            rank->job->work, weights, in_of(rank, op, 0, task),
                            out_of(rank, op, 0, task)));
}

luo_status gpu_run_pack_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return combine(rank, op, task, NULL);
}

luo_status gpu_run_combine(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return combine(rank, op, task, op->b->instr->nin > 2 ? in_at(rank, op, 2, task) : NULL);
}

luo_status gpu_run_combine_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const bool weighed = op->b->instr->nin > 2;
    const gpu_array none = {0};
    LUO_TRY(place(rank, op, in_at(rank, op, 1, task), NULL));
    return done(rank, op,
                gpu_combine_dx(compute(rank), op->b->rows, op->b->cols, rank->job->moe->gate.k,
                               rank->job->work, weighed ? in_at(rank, op, 2, task) : NULL,
                               in_of(rank, op, 0, task), weighed ? in_of(rank, op, 3, task) : none,
                               out_of(rank, op, 0, task),
                               weighed ? out_at(rank, op, 1, task) : NULL));
}

/* ---- shared experts ---- */

luo_status gpu_run_token_gate(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return done(rank, op,
                gpu_token_gate(compute(rank), op->b->rows, op->b->cols, in_at(rank, op, 0, task),
                               in_of(rank, op, 1, task), out_of(rank, op, 0, task)));
}

luo_status gpu_run_token_gate_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return done(rank, op,
                gpu_token_gate_dx(compute(rank), op->b->rows, op->b->cols, in_of(rank, op, 0, task),
                                  in_at(rank, op, 1, task), in_of(rank, op, 2, task),
                                  out_at(rank, op, 0, task), out_of(rank, op, 1, task)));
}

/* ---- what experts compute ---- */

static luo_status cells_of(luo_rank *rank, const gpu_op *op, int32_t task, int64_t *cells)
{
    const float *counts;
    LUO_TRY(gpu_counts_at(rank, op->b->experts->counts, task, &counts, NULL));
    *cells = 0;
    for (int64_t e = 0; e < op->b->experts->experts; e++)
        *cells += gpu_expert_rows(op->b->experts, counts, e) * op->b->cols;
    return LUO_OK;
}

luo_status gpu_run_rows_activation(luo_rank *rank, const gpu_op *op, int32_t task)
{
    int64_t n;
    LUO_TRY(cells_of(rank, op, task, &n));
    return gpu_activate(rank, op, n, task);
}

luo_status gpu_run_rows_activation_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    int64_t n;
    LUO_TRY(cells_of(rank, op, task, &n));
    return gpu_activate_dx(rank, op, n, task);
}
