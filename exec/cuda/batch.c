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

static luo_data data_of(const luo_buffer *b)
{
    return strcmp(b->tensor, "positions") == 0 ? LUO_DATA_POSITIONS : LUO_DATA_IDS;
}

/* Tokens lo.. of a micro-batch that the buffer of ids holds. */
static luo_status first_token(gpu_binder *b, const gpu_op *op, int64_t *lo)
{
    luo_frame f;
    const luo_job *j = b->job;
    const int64_t tokens = j->bound.role->seg[j->bound.seg_of[op->b->instr->id]].tokens;
    LUO_TRY(luo_frame_of(b->tmp, gpu_in(j, op, 0), j->x->device, &f, b->err));
    *lo = f.region.empty || tokens < 1 ? 0 : f.region.dim[0].at[0].lo % tokens;
    return LUO_OK;
}

luo_status gpu_bind_order(gpu_binder *b, gpu_op *op)
{
    luo_job *j = b->job;
    gpu_batch *d = &j->batch;
    gpu_order o = {.data = data_of(gpu_in(j, op, 0)), .rows = op->b->rows};
    o.tokens = j->bound.role->seg[j->bound.seg_of[op->b->instr->id]].tokens;
    LUO_TRY(first_token(b, op, &o.lo));
    for (op->order = 0; op->order < d->norders; op->order++) {
        const gpu_order *at = &d->order[op->order];
        if (at->data == o.data && at->lo == o.lo && at->rows == o.rows && at->tokens == o.tokens)
            return LUO_OK;
        if (at->tokens == o.tokens) o.at = at->at + at->rows;
    }
    const size_t n = (size_t)d->norders * sizeof o;
    gpu_order *more = luo_arena_grow(j->arena, d->order, n, n + sizeof o);
    if (!more) return luo_err_nomem(b->err);
    d->order = more;
    d->order[d->norders++] = o;
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

static int64_t region_values(const luo_job *j, int64_t tokens)
{
    int64_t n = ARRAYS * tokens;
    for (int32_t i = 0; i < j->batch.norders; i++)
        if (j->batch.order[i].tokens == tokens) n += j->batch.order[i].rows;
    for (int32_t i = 0; i < j->batch.nsights; i++)
        if (j->batch.sight[i].tokens == tokens) n += gpu_sight_values(&j->batch.sight[i]);
    return n;
}

/* Numbers of micro-batches in tasks. */
static int32_t count_numbers(const luo_program *p)
{
    int32_t n = 0;
    for (int32_t t = 0; t < p->ntask; t++)
        if (p->tasks[t].micro_batch >= n) n = p->tasks[t].micro_batch + 1;
    return n;
}

/* 0: this device does not run it. */
static int64_t tokens_in(const luo_job *j, int32_t number)
{
    int32_t pipeline, k;
    if (!j->batch.runs[number]) return 0;
    luo_batch_find(&j->bound.batch, j->bound.program->pipeline, number, &pipeline, &k);
    return luo_batch_padded(&j->bound.batch, pipeline, k);
}

static luo_status lay_out(luo_job *j, luo_err *err)
{
    gpu_batch *d = &j->batch;
    const luo_program *p = j->bound.program;
    d->nmicro = count_numbers(p);
    d->runs = LUO_NEW_N(j->arena, bool, d->nmicro);
    d->tokens = LUO_NEW_N(j->arena, gpu_tokens, d->nmicro);
    d->first = LUO_NEW_N(j->arena, int64_t, d->nmicro);
    for (int i = 0; i < 2; i++)
        if (!(d->data_tokens[i] = LUO_NEW_N(j->arena, int64_t, d->nmicro)))
            return luo_err_nomem(err);
    if (!d->tokens || !d->first || !d->runs) return luo_err_nomem(err);
    for (int32_t t = 0; t < p->ntask; t++)
        if (p->tasks[t].micro_batch >= 0) d->runs[p->tasks[t].micro_batch] = true;
    d->bytes = HEAD;
    for (int32_t m = 0; m < d->nmicro; m++) {
        d->first[m] = d->bytes;
        d->bytes += (region_values(j, tokens_in(j, m)) * (int64_t)sizeof(int32_t) + 63) / 64 * 64;
    }
    return LUO_OK;
}

static void point(luo_job *j)
{
    gpu_batch *d = &j->batch;
    for (int32_t m = 0; m < d->nmicro; m++) {
        const int64_t t = tokens_in(j, m);
        const int32_t *at = (const int32_t *)(const void *)(d->block + d->first[m]);
        int64_t orders = 0;
        for (int32_t i = 0; i < d->norders; i++)
            if (d->order[i].tokens == t) orders += d->order[i].rows;
        d->tokens[m] = (gpu_tokens){.of = {at, at + t, at + 2 * t},
                                    .start_of = at + 3 * t,
                                    .end_of = at + 4 * t,
                                    .pad = at + 5 * t,
                                    .order = at + ARRAYS * t,
                                    .sights = at + ARRAYS * t + orders};
    }
}

/* Pre: all operations are bound. */
luo_status gpu_batch_open(luo_job *j, luo_err *err)
{
    gpu_batch *d = &j->batch;
    void *p;
    LUO_TRY(lay_out(j, err));
    LUO_TRY(gpu_alloc(d->bytes, "the micro-batches of a step", &p, err));
    d->block = p;
    for (int i = 0; i < 2; i++) {
        void *there;
        LUO_TRY(gpu_alloc_mapped(d->bytes, "the micro-batches of a step", &p, &there, err));
        d->staged[i] = p;
        d->step[i] = -1;
    }
    point(j);
    d->scratch = luo_arena_alloc(j->arena, luo_batch_bytes(&j->bound.batch, j->bound.longest));
    d->sight_room = LUO_NEW_N(j->arena, int32_t, d->nsights ? 2 * j->bound.longest : 0);
    return d->scratch && d->sight_room ? LUO_OK : luo_err_nomem(err);
}

void gpu_batch_close(luo_job *j)
{
    gpu_free(j->batch.block);
    gpu_free_mapped(j->batch.staged[0]);
    gpu_free_mapped(j->batch.staged[1]);
}

const gpu_step_block *gpu_batch_numbers(const luo_job *j)
{
    return (const gpu_step_block *)(const void *)j->batch.block;
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
static void cut_documents(const luo_block *b, const int32_t *start_of, const int32_t *end_of,
                          int32_t *at)
{
    for (int64_t i = 0; i < b->nq; i++) {
        at[i] = start_of[b->q + i] - (int32_t)b->q;
        at[b->nq + i] = end_of[b->q + i] - (int32_t)b->q;
    }
}

/* region: of the micro-batch, whose documents are filled in. */
static void fill_sights(const gpu_batch *d, const luo_micro_batch *mb, const int32_t *region,
                        int32_t *at)
{
    const int64_t t = mb->tokens;
    int32_t *order = d->sight_room;
    if (mb->source && d->nsights > 0) gpu_sights_order(mb, order, order + t);
    for (int32_t i = 0; i < d->nsights; i++) {
        const gpu_sight *s = &d->sight[i];
        if (s->tokens != t) continue;
        if (s->whole)
            cut_documents(&s->block, region + 3 * t, region + 4 * t, at + s->at);
        else
            gpu_sights_fill(mb, order, &s->block, s->causal, s->window, at + s->at);
    }
}

static int64_t fill_region(luo_job *j, int64_t step, int32_t m, int32_t *at)
{
    const gpu_batch *d = &j->batch;
    const int64_t t = tokens_in(j, m);
    luo_micro_batch mb;
    int32_t pipeline, k;
    luo_batch_find(&j->bound.batch, j->bound.program->pipeline, m, &pipeline, &k);
    luo_batch_fill(j->x->config.corpus, &j->bound.batch, step, pipeline, k, d->scratch, &mb);
    const size_t bytes = (size_t)t * sizeof *at;
    memcpy(at, mb.ids, bytes);
    memcpy(at + t, mb.labels, bytes);
    memcpy(at + 2 * t, mb.positions, bytes);
    if (!mb.source) fill_documents(&mb.docs, at + 3 * t, at + 4 * t);
    fill_sights(d, &mb, at, at + (d->tokens[m].sights - d->tokens[m].of[0]));
    for (int64_t i = 0; i < t; i++) at[5 * t + i] = luo_batch_is_pad(&mb, i);
    const int64_t data_tokens = mb.data_tokens; /* sorting takes its memory */
    for (int32_t i = 0; i < d->norders; i++) {
        const gpu_order *o = &d->order[i];
        if (o->tokens != t) continue;
        sort_rows(at + o->data * t + o->lo, (int32_t)o->rows, at + ARRAYS * t + o->at, d->scratch);
    }
    return data_tokens;
}

/* Into the image that no step reads now. */
static int32_t fill(luo_job *j, int64_t step)
{
    gpu_batch *d = &j->batch;
    const int32_t k = !d->turn;
    if (d->step[k] == step) return k;
    const int64_t targets = luo_batch_targets(j->x->config.corpus, &j->bound.batch, step);
    const gpu_step_block numbers = gpu_step_numbers(j, step, targets);
    memcpy(d->staged[k], &numbers, sizeof numbers);
    for (int32_t m = 0; m < d->nmicro; m++)
        if (d->runs[m])
            d->data_tokens[k][m] =
                fill_region(j, step, m, (int32_t *)(void *)(d->staged[k] + d->first[m]));
    d->step[k] = step;
    d->targets[k] = targets;
    return k;
}

void gpu_batch_ahead(luo_job *j, int64_t step)
{
    (void)fill(j, step);
}

/* What was made of a part, or before one, tells nothing of another. */
static void forget(gpu_batch *d)
{
    d->step[0] = d->step[1] = -1;
}

luo_status gpu_batch_prepare(luo_rank *r, const luo_step_order *order, int64_t *targets,
                             luo_err *err)
{
    luo_job *j = r->job;
    gpu_batch *d = &j->batch;
    const luo_step_part *part = &order->part;
    LUO_TRY(luo_batch_place(r->scratch, &j->bound.batch, part->length, part->nsequences, err));
    if (part->n > 1) forget(d);
    if (d->step[d->turn] != order->step) d->turn = fill(j, order->step);
    if (part->n > 1) forget(d);
    *targets = d->targets[d->turn];
    return LUO_OK;
}

luo_status gpu_batch_send(luo_rank *r)
{
    const gpu_batch *d = &r->job->batch;
    return gpu_check(&r->err,
                     cudaMemcpyAsync(d->block, d->staged[d->turn], (size_t)d->bytes,
                                     cudaMemcpyHostToDevice, r->x->stream[LUO_STREAM_COMPUTE]),
                     "sending the micro-batches");
}
