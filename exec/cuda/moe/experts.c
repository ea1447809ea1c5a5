/* experts.c: choices of tokens, rows by expert, and activations of them.
 * What each operation reads and makes stands in core/graph/ops.inc. */
#include "exec/bind/deal.h"
#include "exec/cuda/moe/moe.h"

static cudaStream_t compute(const luo_rank *r)
{
    return r->x->stream[LUO_STREAM_COMPUTE];
}

static void *in_at(const luo_rank *r, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_buf(r->job, op->b->instr->in[i], task);
}

static void *out_at(const luo_rank *r, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_buf(r->job, op->b->instr->out[i], task);
}

static gpu_array in_of(const luo_rank *r, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(r->job, op->b->instr->in[i], task);
}

static gpu_array out_of(const luo_rank *r, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(r->job, op->b->instr->out[i], task);
}

static luo_status done(luo_rank *r, const gpu_op *op, cudaError_t code)
{
    return gpu_check(&r->err, code, luo_op_kind_name(op->b->kind));
}

static int32_t number_of(const luo_rank *r, int32_t task)
{
    return r->job->bound.program->tasks[task].micro_batch;
}

static const gpu_tokens *tokens_of(const luo_rank *r, int32_t task)
{
    return &r->job->batch.tokens[number_of(r, task)];
}

/* ---- choices ---- */

static luo_status drop(luo_rank *r, const gpu_op *op, float *weights, float *ids)
{
    const luo_gate *gate = &r->job->moe->gate;
    if (!(gate->capacity_factor > 0)) return LUO_OK;
    return done(r, op,
                gpu_drop(compute(r), op->b->rows, gate->k, gate->experts,
                         luo_gate_capacity(gate, op->b->rows), weights, ids));
}

static luo_status by_hash(luo_rank *r, const gpu_op *op, int32_t task)
{
    float *ids = out_at(r, op, 0, task);
    LUO_TRY(done(r, op,
                 gpu_route_hash(compute(r), op->b->rows, r->job->moe->gate.experts,
                                tokens_of(r, task)->of[LUO_DATA_IDS] + op->b->lo, ids)));
    return drop(r, op, NULL, ids);
}

/* On the host, since an auction is one bid after the other; the device waits for it. What it bids
 * by is what the host has waited for, so that nobody reads the experts of the last one any more. */
static luo_status deal(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_job *j = r->job;
    const struct gpu_moe *moe = j->moe;
    const size_t bytes = (size_t)luo_bound_desc(&j->bound, op->b->instr->in[1])->bytes;
    luo_micro_batch mb;
    int32_t pipeline, k;
    LUO_TRY(done(r, op,
                 cudaMemcpyAsync(moe->logits, in_at(r, op, 1, task), bytes, cudaMemcpyDeviceToHost,
                                 compute(r))));
    LUO_TRY(done(r, op, cudaEventRecord(moe->logits_are_here, compute(r))));
    luo_batch_find(&j->bound.batch, j->bound.program->pipeline, number_of(r, task), &pipeline, &k);
    luo_batch_fill(r->x->config.corpus, &j->bound.batch, r->order->step, pipeline, k,
                   moe->batch_memory, &mb);
    LUO_TRY(gpu_await(r, moe->logits_are_here, GPU_SPIN_S, "logits of a micro-batch", &r->err));
    luo_arena *arena = luo_arena_new(0);
    const luo_status st =
        arena ? luo_deal_tokens(arena, &mb, moe->gate.experts, moe->logits, sizeof(float),
                                op->b->lo, op->b->rows, moe->dealt, &r->err)
              : luo_err_nomem(&r->err);
    luo_arena_free(arena);
    LUO_TRY(st);
    return done(r, op,
                cudaMemcpyAsync(moe->dealt_there, moe->dealt,
                                (size_t)op->b->rows * sizeof *moe->dealt, cudaMemcpyHostToDevice,
                                compute(r)));
}

static luo_status by_balance(luo_rank *r, const gpu_op *op, int32_t task)
{
    LUO_TRY(deal(r, op, task));
    return done(r, op,
                gpu_route_dealt(compute(r), op->b->rows, r->job->moe->gate.experts,
                                r->job->moe->dealt_there, in_at(r, op, 0, task),
                                out_at(r, op, 0, task), out_at(r, op, 1, task),
                                out_at(r, op, 2, task)));
}

static const int32_t *pads_of(const luo_rank *r, const gpu_op *op, int32_t task)
{
    return tokens_of(r, task)->pad + op->b->lo;
}

/* Of the device's rows of counts all but the first are 0. */
static luo_status clear(luo_rank *r, const gpu_op *op, int32_t i, int32_t task)
{
    const size_t bytes = (size_t)gpu_out(r->job, op, i)->bytes;
    return done(r, op, cudaMemsetAsync(out_at(r, op, i, task), 0, bytes, compute(r)));
}

luo_status gpu_run_route(luo_rank *r, const gpu_op *op, int32_t task)
{
    const struct gpu_moe *moe = r->job->moe;
    const luo_instr *i = op->b->instr;
    if (i->nout == 1) return by_hash(r, op, task);
    if (moe->gate.kind == LUO_GATE_BALANCED) return by_balance(r, op, task);
    float *weights = out_at(r, op, 0, task), *ids = out_at(r, op, 1, task);
    LUO_TRY(done(r, op,
                 gpu_route(compute(r), op->b->rows, &moe->asked, in_at(r, op, 0, task),
                           i->nin > 1 ? in_at(r, op, 1, task) : NULL, weights, ids,
                           out_at(r, op, 2, task))));
    if (i->nout > 3) {
        LUO_TRY(clear(r, op, 3, task));
        LUO_TRY(done(r, op,
                     gpu_count_choices(compute(r), op->b->rows, moe->gate.k, moe->gate.experts, ids,
                                       pads_of(r, op, task), out_at(r, op, 3, task))));
    }
    return drop(r, op, weights, ids);
}

/* How often tokens here chose experts, to what the step has so far: what moves their bias. */
static luo_status add_choices(luo_rank *r, const gpu_op *op, int32_t task)
{
    const gpu_array sum = out_of(r, op, 1, task), x[2] = {sum, in_of(r, op, 4, task)};
    const bool add = gpu_adds(r, op->b->instr->out[1]);
    return done(r, op,
                gpu_add(compute(r), r->job->moe->gate.experts, add ? 2 : 1, add ? x : x + 1, sum));
}

static double aux_weight(const luo_rank *r, int32_t task)
{
    const luo_job *j = r->job;
    const gpu_batch *b = &j->batch;
    return luo_gate_aux_weight(&j->moe->gate, r->x->config.model->moe.aux_loss,
                               b->data_tokens[b->turn][number_of(r, task)],
                               luo_batch_data_tokens(&j->bound.batch));
}

luo_status gpu_run_route_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    const struct gpu_moe *moe = r->job->moe;
    const luo_instr *i = op->b->instr;
    const bool counts = i->nout > 1;
    const float *load = i->nin > 4 && !counts ? in_at(r, op, 4, task) : NULL;
    const float *ids = in_at(r, op, 2, task), *p = in_at(r, op, 3, task);
    const int32_t *pad = pads_of(r, op, task);
    const double weight = aux_weight(r, task);
    if (counts) LUO_TRY(add_choices(r, op, task));
    LUO_TRY(done(r, op,
                 gpu_route_dx(compute(r), op->b->rows, &moe->asked, in_at(r, op, 0, task),
                              in_at(r, op, 1, task), ids, p, pad, load, (float)weight,
                              out_at(r, op, 0, task))));
    if (!(weight > 0) || op->b->depth > 0) return LUO_OK;
    return done(r, op,
                gpu_balance(compute(r), op->b->rows, &moe->asked, ids, p, pad, load, weight,
                            moe->loss, moe->parts));
}

/* ---- tokens and rows ---- */

luo_status gpu_bind_places(gpu_binder *b, gpu_op *op)
{
    const int64_t k = b->job->x->config.model->moe.experts_per_token;
    const int64_t bytes = op->b->rows * k * (int64_t)sizeof(int32_t);
    if (op->b->rows * k > INT32_MAX)
        return luo_err_set(b->err, LUO_E2BIG, "a micro-batch has over 2^31 choices of experts.");
    if (bytes > b->job->work_bytes) b->job->work_bytes = bytes;
    return LUO_OK;
}

/* Where the rows of choices lie, in the working memory. */
static luo_status place(luo_rank *r, const gpu_op *op, const float *ids, float *counts)
{
    const luo_gate *gate = &r->job->moe->gate;
    return done(
        r, op,
        gpu_places(compute(r), op->b->rows, gate->k, gate->experts, ids, r->job->work, counts));
}

luo_status gpu_run_pack(luo_rank *r, const gpu_op *op, int32_t task)
{
    LUO_TRY(clear(r, op, 1, task));
    LUO_TRY(place(r, op, in_at(r, op, 1, task), out_at(r, op, 1, task)));
    return done(r, op,
                gpu_pack(compute(r), op->b->rows, op->b->cols, r->job->moe->gate.k, r->job->work,
                         in_of(r, op, 0, task), out_of(r, op, 0, task)));
}

static luo_status combine(luo_rank *r, const gpu_op *op, int32_t task, const float *weights)
{
    LUO_TRY(place(r, op, in_at(r, op, 1, task), NULL));
    return done(r, op,
                gpu_combine(compute(r), op->b->rows, op->b->cols, r->job->moe->gate.k, r->job->work,
                            weights, in_of(r, op, 0, task), out_of(r, op, 0, task)));
}

luo_status gpu_run_pack_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    return combine(r, op, task, NULL);
}

luo_status gpu_run_combine(luo_rank *r, const gpu_op *op, int32_t task)
{
    return combine(r, op, task, op->b->instr->nin > 2 ? in_at(r, op, 2, task) : NULL);
}

luo_status gpu_run_combine_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    const bool weighed = op->b->instr->nin > 2;
    const gpu_array none = {0};
    LUO_TRY(place(r, op, in_at(r, op, 1, task), NULL));
    return done(r, op,
                gpu_combine_dx(compute(r), op->b->rows, op->b->cols, r->job->moe->gate.k,
                               r->job->work, weighed ? in_at(r, op, 2, task) : NULL,
                               in_of(r, op, 0, task), weighed ? in_of(r, op, 3, task) : none,
                               out_of(r, op, 0, task), weighed ? out_at(r, op, 1, task) : NULL));
}

/* ---- shared experts ---- */

luo_status gpu_run_token_gate(luo_rank *r, const gpu_op *op, int32_t task)
{
    return done(r, op,
                gpu_token_gate(compute(r), op->b->rows, op->b->cols, in_at(r, op, 0, task),
                               in_of(r, op, 1, task), out_of(r, op, 0, task)));
}

luo_status gpu_run_token_gate_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    return done(r, op,
                gpu_token_gate_dx(compute(r), op->b->rows, op->b->cols, in_of(r, op, 0, task),
                                  in_at(r, op, 1, task), in_of(r, op, 2, task),
                                  out_at(r, op, 0, task), out_of(r, op, 1, task)));
}

/* ---- what experts compute ---- */

static luo_status cells_of(luo_rank *r, const gpu_op *op, int32_t task, int64_t *cells)
{
    const float *counts;
    LUO_TRY(gpu_counts_at(r, op->b->experts->counts, task, &counts, NULL));
    *cells = 0;
    for (int64_t e = 0; e < op->b->experts->experts; e++)
        *cells += gpu_expert_rows(op->b->experts, counts, e) * op->b->cols;
    return LUO_OK;
}

luo_status gpu_run_rows_activation(luo_rank *r, const gpu_op *op, int32_t task)
{
    int64_t n;
    LUO_TRY(cells_of(r, op, task, &n));
    return gpu_activate(r, op, n, task);
}

luo_status gpu_run_rows_activation_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    int64_t n;
    LUO_TRY(cells_of(r, op, task, &n));
    return gpu_activate_dx(r, op, n, task);
}
