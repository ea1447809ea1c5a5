#include "exec/data/batch.h"

#include "core/plan/replan/reroute.h"
#include "exec/data/data_internal.h"

/* ---- shape ---- */

/* Tokens of a micro-batch as luo_plan_compile counts them. */
static int64_t tokens_of(const luo_plan *plan, int64_t row_tokens, int32_t i, int32_t k)
{
    const luo_pipeline *pipe = &plan->pipelines[i];
    int64_t assigned = 0;
    if (pipe->micro_batch_tokens) return pipe->micro_batch_tokens[k];
    for (int32_t a = 0; a < plan->nassignment; a++)
        if (plan->assignment[a].pipeline == i && plan->assignment[a].micro_batch == k)
            assigned += plan->assignment[a].length_tokens;
    return assigned ? assigned : pipe->micro_batch_sequences * row_tokens;
}

static luo_status cut_sequences(luo_arena *arena, const luo_plan *plan, bool causal,
                                luo_batch_shape *out, luo_err *err)
{
    if (!luo_plan_has_context(plan)) return LUO_OK;
    luo_context *context = LUO_NEW_N(arena, luo_context, plan->npipelines);
    int64_t *multiple = LUO_NEW_N(arena, int64_t, plan->npipelines);
    if (!context || !multiple) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        context[i] = luo_plan_context(plan, causal, i);
        multiple[i] = luo_plan_context_multiple(plan, causal, i);
    }
    out->context = context;
    out->multiple = multiple;
    return LUO_OK;
}

static luo_status number(luo_arena *arena, const luo_plan *plan, luo_batch_shape *out, luo_err *err)
{
    if (!luo_plan_is_rerouted(plan)) return LUO_OK;
    int32_t *first = LUO_NEW_N(arena, int32_t, plan->npipelines);
    if (!first) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) first[i] = luo_plan_first_number(plan, i);
    out->first = first;
    return LUO_OK;
}

void luo_batch_find(const luo_batch_shape *shape, int32_t pipeline, int32_t number,
                    int32_t *of_pipeline, int32_t *micro_batch)
{
    *of_pipeline = pipeline;
    *micro_batch = number;
    for (int32_t i = 0; shape->first && i < shape->npipelines; i++) {
        const int32_t first = shape->first[i];
        if (first == 0 || number < first || number - first >= shape->nmicro[i]) continue;
        *of_pipeline = i;
        *micro_batch = number - first;
    }
}

int64_t luo_batch_padded(const luo_batch_shape *shape, int32_t pipeline, int32_t micro_batch)
{
    const int64_t t = shape->tokens[pipeline][micro_batch];
    if (!shape->context) return t;
    return luo_plan_padded(t, shape->row_tokens, shape->multiple[pipeline]);
}

luo_status luo_batch_shape_of(luo_arena *arena, const luo_plan *plan, bool causal,
                              int64_t sequence_tokens, luo_batch_shape *out, luo_err *err)
{
    const int64_t row = sequence_tokens ? sequence_tokens : plan->sequence_tokens;
    int32_t *nmicro = LUO_NEW_N(arena, int32_t, plan->npipelines);
    const int64_t **tokens = LUO_NEW_N(arena, const int64_t *, plan->npipelines);
    int64_t total = 0;
    if (!nmicro || !tokens) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        int64_t *at = LUO_NEW_N(arena, int64_t, plan->pipelines[i].micro_batches);
        if (!at) return luo_err_nomem(err);
        nmicro[i] = plan->pipelines[i].micro_batches;
        tokens[i] = at;
        for (int32_t k = 0; k < nmicro[i]; k++) {
            at[k] = tokens_of(plan, row, i, k);
            if (at[k] >= INT32_MAX)
                return luo_err_set(err, LUO_E2BIG,
                                   "micro-batch %d of pipeline %d has %lld tokens; below 2^31 are "
                                   "expected.",
                                   (int)k, (int)i, (long long)at[k]);
            total += at[k];
        }
    }
    *out = (luo_batch_shape){plan->npipelines, nmicro, tokens, row, total, NULL, NULL, NULL};
    LUO_TRY(number(arena, plan, out, err));
    return cut_sequences(arena, plan, causal, out, err);
}

/* ---- rows of a micro-batch ---- */

typedef struct rows {
    const luo_corpus *c;
    int64_t row_tokens;
    bool whole;     /* shuffled rows; else one piece of the ring */
    int64_t next;   /* whole: place in the endless list; else position on the ring */
    int64_t tokens; /* of one */
    int64_t left;
} rows;

static bool is_whole(const luo_batch_shape *shape, int32_t i, int32_t k)
{
    return shape->tokens[i][k] % shape->row_tokens == 0;
}

static rows rows_of(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step,
                    int32_t pipeline, int32_t micro_batch)
{
    const int64_t mine = shape->tokens[pipeline][micro_batch];
    rows r = {corpus, shape->row_tokens, is_whole(shape, pipeline, micro_batch), 0, mine, 1};
    int64_t before = 0, all = 0; /* tokens of micro-batches of the same sort */
    for (int32_t i = 0; i < shape->npipelines; i++)
        for (int32_t k = 0; k < shape->nmicro[i]; k++) {
            if (is_whole(shape, i, k) != r.whole) continue;
            all += shape->tokens[i][k];
            if (i < pipeline || (i == pipeline && k < micro_batch)) before += shape->tokens[i][k];
        }
    if (r.whole) {
        r.tokens = shape->row_tokens;
        r.left = mine / shape->row_tokens;
        r.next = step * (all / shape->row_tokens) + before / shape->row_tokens;
    } else {
        const unsigned __int128 at = (unsigned __int128)step * (uint64_t)all + (uint64_t)before;
        r.next = (int64_t)(at % (uint64_t)corpus->tokens);
    }
    return r;
}

static bool rows_next(rows *r, luo_corpus_at *at)
{
    if (r->left == 0) return false;
    const int64_t n = r->c->tokens / r->row_tokens;
    int64_t start = r->next;
    if (r->whole) start = n ? luo_corpus_shuffled(r->c->seed, n, r->next) * r->row_tokens : 0;
    luo_corpus_seek(at, r->c, start);
    r->next++;
    r->left--;
    return true;
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

/* Sequences as they are read. */
static void read_batch(rows r, int32_t *memory, int64_t t, luo_micro_batch *out)
{
    int32_t *ids = memory, *labels = ids + t, *positions = labels + t, *start = positions + t;
    int32_t n = 0, docs = 0;
    luo_corpus_at at;
    while (rows_next(&r, &at))
        for (int64_t j = 0; j < r.tokens; j++, n++) {
            bool begins;
            ids[n] = luo_corpus_next(&at, &begins);
            if (j == 0 || positions[n - 1] + 1 == r.row_tokens) begins = true;
            positions[n] = begins ? 0 : positions[n - 1] + 1;
            if (begins) start[docs++] = n;
            if (n) labels[n - 1] = begins ? -1 : ids[n];
        }
    if (n) labels[n - 1] = -1;
    start[docs] = n;
    *out = (luo_micro_batch){t, ids, labels, positions, {docs, start}, {0, NULL}};
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
    *out = (luo_micro_batch){padded, ids, labels, positions, read->docs, {n, run}};
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
    reorder(&shape->context[pipeline], r.tokens,
            luo_context_pad(r.tokens, shape->multiple[pipeline]), padded,
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
            luo_corpus_next(&at, &begins);
            length = begins || length == r.row_tokens ? 1 : length + 1;
            targets += j > 0 && length > 1;
        }
    }
    return targets;
}

int64_t luo_batch_targets(const luo_corpus *corpus, const luo_batch_shape *shape, int64_t step)
{
    int64_t targets = 0;
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
    luo_micro_batch b;
    luo_arena *arena = luo_arena_new(0);
    const int64_t t = shape->tokens[i][k];
    void *memory = arena ? luo_arena_alloc(arena, luo_batch_bytes(shape, t)) : NULL;
    if (memory) {
        read_batch(rows_of(corpus, shape, step, i, k), memory, t, &b);
        luo_str_addf(out, "{\"step\":%lld,\"micro_batch\":%d,\"replica\":%d", (long long)step,
                     (int)k, (int)i);
        put_ids(out, "ids", b.ids, b.tokens);
        put_ids(out, "document_starts", b.docs.start, b.docs.n);
        luo_str_add(out, "}\n");
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
