/* batch.c: what changes from step to step, in one block of the device: the numbers of the
 * step, then a region for each micro-batch of this pipeline: ids, labels, positions, first and last
 * token of each token's document, which are pads, rows of table gradients in order, and where
 * sequences are cut who sees whom.
 *
 * The block goes up in one copy when a step begins; captured steps read it where it always lies.
 * There are two page-locked images of it: while a step runs, the next one's is filled. */
#include <stdlib.h>
#include <string.h>

#include "exec/cuda/bind.h"
#include "exec/data/batch.h"

enum { HEAD = 256, ARRAYS = 6 }; /* bytes of the numbers; ids .. pad */
_Static_assert(sizeof(gpu_step_block) <= HEAD, "the numbers of a step have room");

/* ---- sorted rows ---- */

static luo_data data_of(const luo_buffer *buffer)
{
    return strcmp(buffer->tensor, "positions") == 0 ? LUO_DATA_POSITIONS : LUO_DATA_IDS;
}

/* Tokens lo.. of a micro-batch that the buffer of ids holds. */
static luo_status first_token(gpu_binder *binder, const gpu_op *op, int64_t *lo)
{
    luo_frame frame;
    const luo_job *job = binder->job;
    const int64_t tokens = job->bound.role->seg[job->bound.seg_of[op->b->instr->id]].tokens;
    LUO_TRY(luo_frame_of(binder->tmp, gpu_in(job, op, 0), job->x->device, &frame, binder->err));
    *lo = frame.region.empty || tokens < 1 ? 0 : frame.region.dim[0].at[0].lo % tokens;
    return LUO_OK;
}

luo_status gpu_bind_order(gpu_binder *binder, gpu_op *op)
{
    luo_job *job = binder->job;
    gpu_batch *batch = &job->batch;
    gpu_order order = {.data = data_of(gpu_in(job, op, 0)), .rows = op->b->rows};
    order.tokens = job->bound.role->seg[job->bound.seg_of[op->b->instr->id]].tokens;
    LUO_TRY(first_token(binder, op, &order.lo));
    for (op->order = 0; op->order < batch->norders; op->order++) {
        const gpu_order *at = &batch->order[op->order];
        if (at->data == order.data && at->lo == order.lo && at->rows == order.rows &&
            at->tokens == order.tokens)
            return LUO_OK;
        if (at->tokens == order.tokens) order.at = at->at + at->rows;
    }
    const size_t n = (size_t)batch->norders * sizeof order;
    gpu_order *more = luo_arena_grow(job->arena, batch->order, n, n + sizeof order);
    if (!more) return luo_err_nomem(binder->err);
    batch->order = more;
    batch->order[batch->norders++] = order;
    return LUO_OK;
}

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* Positions 0..n-1 by (key, position): digit by digit, each pass keeps what the last one made. */
static void sort_rows(const int32_t *key, int32_t n, int32_t *out, int32_t *other)
{
    int32_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        out[i] = i;
        if (key[i] > most) most = key[i];
    }
    for (int shift = 0; shift < 31 && most >> shift > 0; shift += DIGIT) {
        int32_t count[DIGITS + 1] = {0};
        for (int32_t i = 0; i < n; i++) count[(key[i] >> shift & (DIGITS - 1)) + 1]++;
        for (int32_t d = 0; d < DIGITS; d++) count[d + 1] += count[d];
        for (int32_t i = 0; i < n; i++)
            other[count[key[out[i]] >> shift & (DIGITS - 1)]++] = out[i];
        memcpy(out, other, (size_t)n * sizeof *out);
    }
}

/* ---- layout ---- */

static int64_t region_values(const luo_job *job, int64_t tokens)
{
    int64_t n = ARRAYS * tokens;
    for (int32_t i = 0; i < job->batch.norders; i++)
        if (job->batch.order[i].tokens == tokens) n += job->batch.order[i].rows;
    for (int32_t i = 0; i < job->batch.nsights; i++)
        if (job->batch.sight[i].tokens == tokens) n += gpu_sight_values(&job->batch.sight[i]);
    return n;
}

/* Numbers of micro-batches in tasks. */
static int32_t count_numbers(const luo_program *program)
{
    int32_t n = 0;
    for (int32_t t = 0; t < program->ntask; t++)
        if (program->tasks[t].micro_batch >= n) n = program->tasks[t].micro_batch + 1;
    return n;
}

/* 0: this device does not run it. */
static int64_t tokens_in(const luo_job *job, int32_t number)
{
    int32_t pipeline, k;
    if (!job->batch.runs[number]) return 0;
    luo_batch_find(&job->bound.batch, job->bound.program->pipeline, number, &pipeline, &k);
    return luo_batch_padded(&job->bound.batch, pipeline, k);
}

static luo_status lay_out(luo_job *job, luo_err *err)
{
    gpu_batch *batch = &job->batch;
    const luo_program *program = job->bound.program;
    batch->nmicro = count_numbers(program);
    batch->runs = LUO_NEW_N(job->arena, bool, batch->nmicro);
    batch->tokens = LUO_NEW_N(job->arena, gpu_tokens, batch->nmicro);
    batch->first = LUO_NEW_N(job->arena, int64_t, batch->nmicro);
    for (int i = 0; i < 2; i++)
        if (!(batch->data_tokens[i] = LUO_NEW_N(job->arena, int64_t, batch->nmicro)))
            return luo_err_nomem(err);
    if (!batch->tokens || !batch->first || !batch->runs) return luo_err_nomem(err);
    for (int32_t t = 0; t < program->ntask; t++)
        if (program->tasks[t].micro_batch >= 0) batch->runs[program->tasks[t].micro_batch] = true;
    batch->bytes = HEAD;
    for (int32_t m = 0; m < batch->nmicro; m++) {
        batch->first[m] = batch->bytes;
        batch->bytes +=
            (region_values(job, tokens_in(job, m)) * (int64_t)sizeof(int32_t) + 63) / 64 * 64;
    }
    return LUO_OK;
}

static void point(luo_job *job)
{
    gpu_batch *batch = &job->batch;
    for (int32_t m = 0; m < batch->nmicro; m++) {
        const int64_t t = tokens_in(job, m);
        const int32_t *at = (const int32_t *)(const void *)(batch->block + batch->first[m]);
        int64_t orders = 0;
        for (int32_t i = 0; i < batch->norders; i++)
            if (batch->order[i].tokens == t) orders += batch->order[i].rows;
        batch->tokens[m] = (gpu_tokens){.of = {at, at + t, at + 2 * t},
                                        .start_of = at + 3 * t,
                                        .end_of = at + 4 * t,
                                        .pad = at + 5 * t,
                                        .order = at + ARRAYS * t,
                                        .sights = at + ARRAYS * t + orders};
    }
}

/* Pre: all operations are bound. */
luo_status gpu_batch_open(luo_job *job, luo_err *err)
{
    gpu_batch *batch = &job->batch;
    void *p;
    LUO_TRY(lay_out(job, err));
    LUO_TRY(gpu_alloc(batch->bytes, "the micro-batches of a step", &p, err));
    batch->block = p;
    for (int i = 0; i < 2; i++) {
        void *there;
        LUO_TRY(gpu_alloc_mapped(batch->bytes, "the micro-batches of a step", &p, &there, err));
        batch->staged[i] = p;
        batch->step[i] = -1;
    }
    point(job);
    batch->scratch =
        luo_arena_alloc(job->arena, luo_batch_bytes(&job->bound.batch, job->bound.longest));
    batch->sight_room = LUO_NEW_N(job->arena, int32_t, batch->nsights ? 2 * job->bound.longest : 0);
    return batch->scratch && batch->sight_room ? LUO_OK : luo_err_nomem(err);
}

void gpu_batch_close(luo_job *job)
{
    gpu_free(job->batch.block);
    gpu_free_mapped(job->batch.staged[0]);
    gpu_free_mapped(job->batch.staged[1]);
}

const gpu_step_block *gpu_batch_numbers(const luo_job *job)
{
    return (const gpu_step_block *)(const void *)job->batch.block;
}

/* ---- a step ---- */

static void fill_documents(const luo_documents *docs, int32_t *start_of, int32_t *end_of)
{
    for (int32_t i = 0; i < docs->n; i++)
        for (int32_t k = docs->start[i]; k < docs->start[i + 1]; k++) {
            start_of[k] = docs->start[i];
            end_of[k] = docs->start[i + 1];
        }
}

/* start_of, end_of: of the micro-batch. */
static void cut_documents(const luo_block *block, const int32_t *start_of, const int32_t *end_of,
                          int32_t *at)
{
    for (int64_t i = 0; i < block->nq; i++) {
        at[i] = start_of[block->q + i] - (int32_t)block->q;
        at[block->nq + i] = end_of[block->q + i] - (int32_t)block->q;
    }
}

/* region: of the micro-batch, whose documents are filled in. */
static void fill_sights(const gpu_batch *batch, const luo_micro_batch *mb, const int32_t *region,
                        int32_t *at)
{
    const int64_t t = mb->tokens;
    int32_t *order = batch->sight_room;
    if (mb->source && batch->nsights > 0) gpu_sights_order(mb, order, order + t);
    for (int32_t i = 0; i < batch->nsights; i++) {
        const gpu_sight *sight = &batch->sight[i];
        if (sight->tokens != t) continue;
        if (sight->whole)
            cut_documents(&sight->block, region + 3 * t, region + 4 * t, at + sight->at);
        else
            gpu_sights_fill(mb, order, &sight->block, sight->causal, sight->window, at + sight->at);
    }
}

static int64_t fill_region(luo_job *job, int64_t step, int32_t m, int32_t *at)
{
    const gpu_batch *batch = &job->batch;
    const int64_t t = tokens_in(job, m);
    luo_micro_batch mb;
    int32_t pipeline, k;
    luo_batch_find(&job->bound.batch, job->bound.program->pipeline, m, &pipeline, &k);
    luo_batch_fill(job->x->config.corpus, &job->bound.batch, step, pipeline, k, batch->scratch,
                   &mb);
    const size_t bytes = (size_t)t * sizeof *at;
    memcpy(at, mb.ids, bytes);
    memcpy(at + t, mb.labels, bytes);
    memcpy(at + 2 * t, mb.positions, bytes);
    if (!mb.source) fill_documents(&mb.docs, at + 3 * t, at + 4 * t);
    fill_sights(batch, &mb, at, at + (batch->tokens[m].sights - batch->tokens[m].of[0]));
    for (int64_t i = 0; i < t; i++) at[5 * t + i] = luo_batch_is_pad(&mb, i);
    const int64_t data_tokens = mb.data_tokens; /* sorting takes its memory */
    for (int32_t i = 0; i < batch->norders; i++) {
        const gpu_order *order = &batch->order[i];
        if (order->tokens != t) continue;
        sort_rows(at + order->data * t + order->lo, (int32_t)order->rows,
                  at + ARRAYS * t + order->at, batch->scratch);
    }
    return data_tokens;
}

/* Into the image that no step reads now. */
static int32_t fill(luo_job *job, int64_t step)
{
    gpu_batch *batch = &job->batch;
    const int32_t k = !batch->turn;
    if (batch->step[k] == step) return k;
    const int64_t targets = luo_batch_targets(job->x->config.corpus, &job->bound.batch, step);
    const gpu_step_block numbers = gpu_step_numbers(job, step, targets);
    memcpy(batch->staged[k], &numbers, sizeof numbers);
    for (int32_t m = 0; m < batch->nmicro; m++)
        if (batch->runs[m])
            batch->data_tokens[k][m] =
                fill_region(job, step, m, (int32_t *)(void *)(batch->staged[k] + batch->first[m]));
    batch->step[k] = step;
    batch->targets[k] = targets;
    return k;
}

void gpu_batch_ahead(luo_job *job, int64_t step)
{
    (void)fill(job, step);
}

/* What was made of a part, or before one, tells nothing of another. */
static void forget(gpu_batch *batch)
{
    batch->step[0] = batch->step[1] = -1;
}

luo_status gpu_batch_prepare(luo_rank *rank, const luo_step_order *order, int64_t *targets,
                             luo_err *err)
{
    luo_job *job = rank->job;
    gpu_batch *batch = &job->batch;
    const luo_step_part *part = &order->part;
    LUO_TRY(luo_batch_place(rank->scratch, &job->bound.batch, part->length, part->nsequences, err));
    if (part->n > 1) forget(batch);
    if (batch->step[batch->turn] != order->step) batch->turn = fill(job, order->step);
    if (part->n > 1) forget(batch);
    *targets = batch->targets[batch->turn];
    return LUO_OK;
}

luo_status gpu_batch_send(luo_rank *rank)
{
    const gpu_batch *batch = &rank->job->batch;
    return gpu_check(&rank->err,
                     cudaMemcpyAsync(batch->block, batch->staged[batch->turn], (size_t)batch->bytes,
                                     cudaMemcpyHostToDevice, rank->x->stream[LUO_STREAM_COMPUTE]),
                     "sending the micro-batches");
}
