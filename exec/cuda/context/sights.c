#include "exec/cuda/context/sights.h"

int64_t gpu_sights_values(const luo_block *block)
{
    return 3 * (block->nq + block->nk);
}

void gpu_sights_order(const luo_micro_batch *mb, int32_t *order, int32_t *room)
{
    int64_t n = 0;
    for (int64_t p = 0; p < mb->tokens; p++) room[p] = -1; /* by place in the data */
    for (int64_t p = 0; p < mb->tokens; p++)
        if (mb->source[p] >= 0) room[mb->source[p]] = (int32_t)p;
    for (int64_t p = 0; p < mb->tokens; p++)
        if (room[p] >= 0) order[n++] = room[p];
    for (int64_t p = 0; p < mb->tokens; p++)
        if (mb->source[p] < 0) order[n++] = (int32_t)p;
}

typedef struct side { /* the queries of a block, or its keys */
    const luo_micro_batch *mb;
    int64_t first, n; /* tokens of the micro-batch */
    int32_t *row;     /* in the order of the data */
    int32_t real;     /* those that are no pads */
} side;

static side pick(const luo_micro_batch *mb, const int32_t *order, int64_t first, int64_t n,
                 int32_t *row)
{
    side s = {mb, first, n, row, 0};
    int64_t at = 0;
    for (int64_t i = 0; i < mb->tokens && at < n; i++) {
        const int64_t p = order[i];
        if (p < first || p >= first + n) continue;
        row[at++] = (int32_t)(p - first);
        s.real += mb->source[p] >= 0;
    }
    return s;
}

static int32_t place_of(const side *s, int32_t i) /* in the data */
{
    return s->mb->source[s->first + s->row[i]];
}

static int32_t document_of(const side *s, int32_t i) /* its first token's place */
{
    return place_of(s, i) - s->mb->positions[s->first + s->row[i]];
}

/* Of every a those b's of its document that lie `back` places behind it or less, and `ahead` in
 * front; -1: as many as there are. */
static void span(const side *a, const side *b, int64_t back, int64_t ahead, int32_t *lo,
                 int32_t *hi)
{
    int32_t begin = 0, end = 0;
    for (int32_t i = 0; i < a->real; i++) {
        const int64_t place = place_of(a, i), document = document_of(a, i);
        const int64_t first = back >= 0 && place - back > document ? place - back : document;
        while (begin < b->real && place_of(b, begin) < first) begin++;
        while (end < b->real && document_of(b, end) <= document &&
               (ahead < 0 || place_of(b, end) <= place + ahead))
            end++;
        lo[i] = begin;
        hi[i] = end;
    }
    for (int64_t i = a->real; i < a->n; i++) lo[i] = hi[i] = b->real;
}

void gpu_sights_fill(const luo_micro_batch *mb, const int32_t *order, const luo_block *block,
                     bool causal, int64_t window, int32_t *out)
{
    int32_t *query = out, *key = out + 3 * block->nq;
    const side q = pick(mb, order, block->q, block->nq, query),
               k = pick(mb, order, block->k, block->nk, key);
    span(&q, &k, window - 1, causal ? 0 : -1, query + block->nq, query + 2 * block->nq);
    span(&k, &q, causal ? 0 : -1, window - 1, key + block->nk, key + 2 * block->nk);
}
