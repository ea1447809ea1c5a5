#include "exec/data/batch.h"

#include <stdlib.h>

#include "exec/data/data_internal.h"

/* ---- rows of a micro-batch ---- */

static int32_t count_sequences(const luo_batch_shape *shape, int32_t i, int32_t k)
{
    return shape->sequence ? shape->first_sequence[i][k + 1] - shape->first_sequence[i][k] : 0;
}

typedef struct rows {
    const luo_corpus *c;
    const int64_t *before; /* of sequences by number; NULL: as the sequences say */
    int64_t row_tokens;
    bool whole;     /* shuffled rows; else one piece of the ring, or assigned sequences */
    int64_t next;   /* whole: place in the endless list; else position on the ring */
    int64_t tokens; /* of one */
    int64_t left;
    const luo_batch_sequence *sequence; /* the next one, `next` tokens behind `before`; NULL: none
                                           is assigned */
} rows;

static bool is_whole(const luo_batch_shape *shape, int32_t i, int32_t k)
{
    return shape->tokens[i][k] % shape->row_tokens == 0;
}

static int64_t on_ring(const luo_corpus *corpus, int64_t step, int64_t of_step, int64_t before)
{
    const unsigned __int128 at = (unsigned __int128)step * (uint64_t)of_step + (uint64_t)before;
    return (int64_t)(at % (uint64_t)corpus->tokens);
}

static rows rows_of(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step,
                    int32_t pipeline, int32_t micro_batch)
{
    const int64_t mine = shape->tokens[pipeline][micro_batch];
    rows r = {.c = corpus,
              .before = shape->whole.before,
              .row_tokens = shape->row_tokens,
              .whole = is_whole(shape, pipeline, micro_batch),
              .tokens = mine,
              .left = 1};
    int64_t before = 0, all = 0; /* tokens of micro-batches of the same sort */
    if (count_sequences(shape, pipeline, micro_batch) > 0) {
        r.whole = false;
        r.left = count_sequences(shape, pipeline, micro_batch);
        r.sequence = &shape->sequence[shape->first_sequence[pipeline][micro_batch]];
        r.next = on_ring(corpus, step, r.before ? shape->whole.tokens : shape->assigned_tokens, 0);
        return r;
    }
    for (int32_t i = 0; i < shape->npipelines; i++)
        for (int32_t k = 0; k < shape->nmicro[i]; k++) {
            if (is_whole(shape, i, k) != r.whole || count_sequences(shape, i, k) > 0) continue;
            all += shape->tokens[i][k];
            if (i < pipeline || (i == pipeline && k < micro_batch)) before += shape->tokens[i][k];
        }
    if (r.whole) {
        r.tokens = shape->row_tokens;
        r.left = mine / shape->row_tokens;
        r.next = step * (all / shape->row_tokens) + before / shape->row_tokens;
    } else {
        r.next = on_ring(corpus, step, all, before);
    }
    return r;
}

static bool rows_next(rows *r, luo_corpus_at *at)
{
    if (r->left == 0) return false;
    const int64_t n = r->c->tokens / r->row_tokens;
    int64_t start = r->next;
    if (r->whole) start = n ? luo_corpus_shuffled(r->c->seed, n, r->next) * r->row_tokens : 0;
    if (r->sequence) {
        const int64_t before = r->before ? r->before[r->sequence->number] : r->sequence->before;
        start = (r->next + before % r->c->tokens) % r->c->tokens;
        r->tokens = r->sequence++->tokens;
    }
    luo_corpus_seek(at, r->c, start);
    if (r->whole) r->next++;
    r->left--;
    return true;
}

/* The next token of the row; does a document begin with it? length: of the document so far, which
 * goes on. */
static int32_t take(const rows *r, luo_corpus_at *at, int64_t j, int64_t length, bool *begins)
{
    const int32_t id = luo_corpus_next(at, begins);
    if (r->sequence) *begins = false;
    if (j == 0 || length == r->row_tokens) *begins = true;
    return id;
}

/* ---- batches ---- */

size_t luo_batch_bytes(const luo_batch_shape *shape, int64_t tokens)
{
    /* as read; where sequences are cut also as they lie, where each came from, and runs: a piece
     * and a document each begin one, so there are no more than tokens */
    const int64_t words = shape->context ? 8 * tokens + 1 : 4 * tokens + 1;
    return (size_t)words * sizeof(int32_t) +
           (shape->context ? (size_t)tokens * sizeof(luo_run) : 0);
}

/* Sequences as they are read, and pads behind those that were assigned. */
static void read_batch(rows r, int32_t *memory, int64_t t, luo_micro_batch *out)
{
    int32_t *ids = memory, *labels = ids + t, *positions = labels + t, *start = positions + t;
    int32_t n = 0, docs = 0;
    luo_corpus_at at;
    while (rows_next(&r, &at))
        for (int64_t j = 0; j < r.tokens; j++, n++) {
            bool begins;
            ids[n] = take(&r, &at, j, n ? positions[n - 1] + 1 : 0, &begins);
            positions[n] = begins ? 0 : positions[n - 1] + 1;
            if (begins) start[docs++] = n;
            if (n) labels[n - 1] = begins ? -1 : ids[n];
        }
    if (n) labels[n - 1] = -1;
    const int32_t pads = n;
    for (; n < t; n++) {
        positions[n] = (int32_t)((n - pads) % r.row_tokens);
        if (positions[n] == 0) start[docs++] = n;
        ids[n] = 0;
        labels[n] = -1;
    }
    start[docs] = n;
    *out = (luo_micro_batch){t, pads, ids, labels, positions, {docs, start}, {0, NULL}, NULL};
}

/* Neighbours of a document, in the order in which they lie. source[p]: where place p is read from;
 * -1: a pad. */
static int32_t find_runs(const luo_micro_batch *read, const int32_t *source, int64_t padded,
                         luo_run *run)
{
    int32_t n = 0;
    for (int64_t p = 0; p < padded; p++) {
        if (source[p] < 0) continue;
        const int32_t position = read->positions[source[p]], first = source[p] - position;
        luo_run *last = n ? &run[n - 1] : NULL;
        if (last && last->document == first && last->at + last->n == p &&
            last->position + last->n == position)
            last->n++;
        else
            run[n++] = (luo_run){(int32_t)p, 1, first, position};
    }
    return n;
}

/* The micro-batch in the order of the ranks, with pads. memory: behind what was read. */
static void reorder(const luo_context *context, int64_t row_tokens, int64_t padded_row,
                    int64_t padded, int32_t *memory, const luo_micro_batch *read,
                    luo_micro_batch *out)
{
    int32_t *ids = memory, *labels = ids + padded, *positions = labels + padded;
    int32_t *source = positions + padded;
    luo_run *run = (luo_run *)(source + padded);
    luo_context_order(context, padded / padded_row, padded_row, source);
    for (int64_t p = 0; p < padded; p++) {
        const int64_t row = source[p] / padded_row, at = source[p] % padded_row;
        const bool pad = at >= row_tokens;
        const int64_t from = row * row_tokens + at;
        source[p] = pad ? -1 : (int32_t)from;
        ids[p] = pad ? 0 : read->ids[from];
        labels[p] = pad ? -1 : read->labels[from];
        positions[p] = pad ? 0 : read->positions[from];
    }
    const int32_t n = find_runs(read, source, padded, run);
    *out = (luo_micro_batch){padded,    read->data_tokens, ids,      labels,
                             positions, read->docs,        {n, run}, source};
}

void luo_batch_fill(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step,
                    int32_t pipeline, int32_t micro_batch, void *memory, luo_micro_batch *out)
{
    const int64_t t = shape->tokens[pipeline][micro_batch];
    const rows r = rows_of(corpus, shape, step, pipeline, micro_batch);
    read_batch(r, memory, t, out);
    if (!shape->context || !luo_context_is_on(&shape->context[pipeline])) return;
    const luo_micro_batch read = *out;
    const int64_t padded = luo_batch_padded(shape, pipeline, micro_batch);
    const int64_t row = is_whole(shape, pipeline, micro_batch) ? shape->row_tokens : t;
    reorder(&shape->context[pipeline], row, luo_context_pad(row, shape->multiple[pipeline]), padded,
            (int32_t *)memory + 4 * t + 1, &read, out);
}

static int64_t targets_of(rows r)
{
    int64_t targets = 0;
    luo_corpus_at at;
    while (rows_next(&r, &at)) {
        int64_t length = 0; /* of the document so far */
        for (int64_t j = 0; j < r.tokens; j++) {
            bool begins;
            take(&r, &at, j, length, &begins);
            length = begins ? 1 : length + 1;
            targets += j > 0 && length > 1;
        }
    }
    return targets;
}

int64_t luo_batch_targets(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step)
{
    int64_t targets = 0;
    if (shape->whole.before) return shape->whole.targets;
    for (int32_t i = 0; i < shape->npipelines; i++)
        for (int32_t k = 0; k < shape->nmicro[i]; k++)
            targets += targets_of(rows_of(corpus, shape, step, i, k));
    return targets;
}

static void put_ids(luo_str *out, const char *key, const int32_t *v, int64_t n)
{
    luo_str_addf(out, ",\"%s\":[", key);
    for (int64_t i = 0; i < n; i++) {
        if (i) luo_str_addc(out, ',');
        luo_str_addi(out, v[i]);
    }
    luo_str_addc(out, ']');
}

/* As read: the order in which ranks keep it is the plan's affair. */
static luo_status dump_one(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step,
                           int32_t i, int32_t k, luo_str *out)
{
    luo_micro_batch batch;
    luo_arena *arena = luo_arena_new(0);
    const int64_t t = shape->tokens[i][k];
    void *memory = arena ? luo_arena_alloc(arena, luo_batch_bytes(shape, t)) : NULL;
    if (memory) {
        read_batch(rows_of(corpus, shape, step, i, k), memory, t, &batch);
        luo_str_addf(out, "{\"step\":%lld,\"micro_batch\":%d,\"replica\":%d", (long long)step,
                     (int)k, (int)i);
        put_ids(out, "ids", batch.ids, batch.tokens);
        put_ids(out, "document_starts", batch.docs.start, batch.docs.n);
        luo_str_addf(out, ",\"pads\":%lld}\n", (long long)(batch.tokens - batch.data_tokens));
    }
    luo_arena_free(arena);
    return memory && !out->failed ? LUO_OK : LUO_ENOMEM;
}

luo_status luo_batch_dump(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step,
                          luo_str *out)
{
    for (int32_t i = 0; i < shape->npipelines; i++)
        for (int32_t k = 0; k < shape->nmicro[i]; k++)
            LUO_TRY(dump_one(corpus, shape, step, i, k, out));
    return LUO_OK;
}
