/* parts.c: intervals by part; the sweep gives an instant to the first busy part. */
#include "core/run/parts.h"

#include <math.h>
#include <stdlib.h>

enum { CHUNK = 42 }; /* a chunk is then about 1 KiB */
struct luo_busy_chunk {
    struct luo_busy_chunk *next;
    int32_t n;
    luo_busy at[CHUNK];
};

luo_part luo_part_of(const luo_instr *in)
{
    switch ((luo_stream)in->stream) {
    case LUO_STREAM_COMPUTE: return in->recompute ? LUO_PART_RECOMPUTE : LUO_PART_COMPUTE;
    case LUO_STREAM_PP: return LUO_PART_PP;
    case LUO_STREAM_DP: return LUO_PART_DP;
    case LUO_STREAM_MOVE: return LUO_PART_MOVE;
    case LUO_STREAM_IO: return LUO_PART_IO;
    case LUO_STREAM_TP:
    case LUO_STREAMS: break;
    }
    if (luo_instr_trades(in)) return LUO_PART_EP;
    return in->kind == LUO_INSTR_P2P ? LUO_PART_CP : LUO_PART_TP;
}

/* What was the newest goes to the others. */
static luo_status put_away(luo_arena *arena, struct luo_busy_list *list)
{
    luo_busy_chunk *chunk = list->last;
    if (!chunk || chunk->n == CHUNK) {
        chunk = luo_arena_alloc(arena, sizeof *chunk);
        if (!chunk) return LUO_ENOMEM;
        chunk->next = NULL;
        chunk->n = 0;
        if (list->last)
            list->last->next = chunk;
        else
            list->first = chunk;
        list->last = chunk;
    }
    chunk->at[chunk->n++] = list->newest;
    return LUO_OK;
}

luo_status luo_ledger_add(luo_ledger *ledger, luo_part part, double start_s, double end_s,
                          int32_t tag)
{
    struct luo_busy_list *list = &ledger->part[part];
    if (!(end_s > start_s)) return LUO_OK;
    if (list->n > 0) {
        if (list->newest.end == start_s && list->newest.tag == tag) {
            list->newest.end = end_s;
            return LUO_OK;
        }
        if (start_s < list->newest.start) list->unsorted = true;
        LUO_TRY(put_away(ledger->arena, list));
    }
    list->newest = (luo_busy){start_s, end_s, tag};
    list->n++;
    return LUO_OK;
}

static int by_start(const void *a, const void *b)
{
    const luo_busy *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

static int32_t add_cut(luo_busy *out, int32_t n, const luo_busy *busy, double end_s)
{
    out[n] = (luo_busy){busy->start > 0 ? busy->start : 0, busy->end < end_s ? busy->end : end_s,
                        busy->tag};
    return n + (out[n].start < out[n].end);
}

/* The intervals of a list in order of start, cut at end_s. */
static luo_busy *flatten(const struct luo_busy_list *list, luo_arena *scratch, double end_s,
                         int32_t *n)
{
    luo_busy *out = luo_arena_alloc(scratch, (size_t)list->n * sizeof *out);
    *n = 0;
    if (!out) return NULL;
    for (const luo_busy_chunk *chunk = list->first; chunk; chunk = chunk->next)
        for (int32_t i = 0; i < chunk->n; i++) *n = add_cut(out, *n, &chunk->at[i], end_s);
    *n = add_cut(out, *n, &list->newest, end_s);
    if (list->unsorted) qsort(out, (size_t)*n, sizeof *out, by_start);
    return out;
}

/* Time of busy[0..n) not covered by cover[0..m), per tag. cover is ascending and disjoint. */
static void add_exposed(const luo_busy *busy, int32_t n, const luo_busy *cover, int32_t m,
                        double *exposed)
{
    int32_t from = 0;
    for (int32_t i = 0; i < n; i++) {
        if (busy[i].tag < 0) continue;
        while (from < m && cover[from].end <= busy[i].start) from++;
        double hidden = 0;
        for (int32_t k = from; k < m && cover[k].start < busy[i].end; k++)
            hidden += fmin(busy[i].end, cover[k].end) - fmax(busy[i].start, cover[k].start);
        exposed[busy[i].tag] += fmax(0, busy[i].end - busy[i].start - hidden);
    }
}

/* Appends [start, end) to the disjoint ascending list out[0..n). */
static int32_t cover_add(luo_busy *out, int32_t n, const luo_busy *busy)
{
    if (n > 0 && busy->start <= out[n - 1].end) {
        if (busy->end > out[n - 1].end) out[n - 1].end = busy->end;
        return n;
    }
    out[n] = *busy;
    return n + 1;
}

static int32_t cover_union(const luo_busy *a, int32_t n, const luo_busy *b, int32_t m,
                           luo_busy *out)
{
    int32_t count = 0, j = 0;
    for (int32_t i = 0; i < n || j < m;) {
        const bool first = j >= m || (i < n && a[i].start <= b[j].start);
        count = cover_add(out, count, first ? &a[i++] : &b[j++]);
    }
    return count;
}

static double cover_total(const luo_busy *busy, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += busy[i].end - busy[i].start;
    return sum;
}

static double *part_of(luo_parts *parts, luo_part part)
{
    double *const at[LUO_PARTS] = {&parts->compute_s, &parts->recompute_s, &parts->tp_s,
                                   &parts->ep_s,      &parts->cp_s,        &parts->pp_s,
                                   &parts->dp_s,      &parts->move_s,      &parts->io_s};
    return at[part];
}

luo_status luo_ledger_close(const luo_ledger *ledger, luo_arena *scratch, double end_s,
                            luo_parts *out, double *exposed)
{
    const size_t mark = luo_arena_mark(scratch);
    luo_parts parts = {0};
    luo_busy *cover = NULL;
    const luo_busy *work = NULL; /* compute and recompute only */
    int32_t ncover = 0, nwork = 0;
    double covered = 0;
    for (luo_part p = 0; p < LUO_PARTS; p++) {
        if (ledger->part[p].n == 0) continue;
        int32_t n = 0;
        luo_busy *list = flatten(&ledger->part[p], scratch, end_s, &n);
        luo_busy *merged = luo_arena_alloc(scratch, (size_t)(n + ncover) * sizeof *merged);
        if (!list || !merged) {
            luo_arena_reset(scratch, mark);
            return LUO_ENOMEM;
        }
        if (p > LUO_PART_RECOMPUTE && exposed) add_exposed(list, n, work, nwork, exposed);
        ncover = cover_union(cover, ncover, list, n, merged);
        cover = merged;
        if (p <= LUO_PART_RECOMPUTE) {
            work = cover;
            nwork = ncover;
        }
        const double total = cover_total(cover, ncover);
        *part_of(&parts, p) = fmax(0, total - covered);
        covered = total;
    }
    parts.bubble_s = fmax(0, end_s - covered);
    *out = parts;
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}

double luo_parts_total(const luo_parts *parts)
{
    return parts->compute_s + parts->recompute_s + parts->tp_s + parts->ep_s + parts->cp_s +
           parts->pp_s + parts->dp_s + parts->move_s + parts->io_s + parts->bubble_s;
}

luo_parts luo_parts_mean(const luo_parts *parts, int32_t n)
{
    luo_parts m = {0};
    for (int32_t i = 0; i < n; i++) {
        m.compute_s += parts[i].compute_s / n;
        m.recompute_s += parts[i].recompute_s / n;
        m.tp_s += parts[i].tp_s / n;
        m.ep_s += parts[i].ep_s / n;
        m.cp_s += parts[i].cp_s / n;
        m.pp_s += parts[i].pp_s / n;
        m.dp_s += parts[i].dp_s / n;
        m.move_s += parts[i].move_s / n;
        m.io_s += parts[i].io_s / n;
        m.bubble_s += parts[i].bubble_s / n;
    }
    return m;
}

void luo_parts_add(luo_parts *to, const luo_parts *parts, double factor)
{
    to->compute_s += factor * parts->compute_s;
    to->recompute_s += factor * parts->recompute_s;
    to->tp_s += factor * parts->tp_s;
    to->ep_s += factor * parts->ep_s;
    to->cp_s += factor * parts->cp_s;
    to->pp_s += factor * parts->pp_s;
    to->dp_s += factor * parts->dp_s;
    to->move_s += factor * parts->move_s;
    to->io_s += factor * parts->io_s;
    to->bubble_s += factor * parts->bubble_s;
}
