/* Every assignment of a mix's groups to pipelines (docs/planners.md#groups-to-pipelines): pipeline
 * i takes a sub-multiset that is not above that of pipeline i-1, the last takes the rest. What
 * cannot be among the K best any more is left out, which changes no answer. */
#include <math.h>
#include <string.h>

#include "core/plan/malleus/malleus_internal.h"

/* Per mix; vectors also over all mixes. SOLVED and ALL_VECTORS are ours: where many devices have
 * rates of their own, every vector is a new pipeline and every mix ends its budget. */
enum { PLANS = 20000, VECTORS = 1000000, ALL_VECTORS = 4000000, SOLVED = 50000, LIGHT = 50 };

typedef struct deal {
    luo_mal_search *s;
    luo_mal_mix *mix;
    int64_t plans, vectors; /* budgets left */
    int32_t most;           /* pipelines in the memo */
    int32_t *taken, *rest;  /* row i of ncls: what pipeline i takes; what is left before it */
    int32_t *ids;
    double *rate, *start; /* before pipeline i: sum 1/o, and micro-batches lost by filling */
    double *weight;       /* sum 1/y of what is left before pipeline i */
} deal;

static int32_t *row(const deal *d, int32_t *rows, int32_t i)
{
    return rows + (size_t)i * (size_t)d->mix->ncls;
}

/* No completion of the first n pipelines beats this: pipeline i runs at most (T - fill)/o + 1
 * micro-batches in time T, and groups of weight W make no pipelines with sum 1/o above W/L. */
static double least_time(const deal *d, int32_t n)
{
    const luo_malleus_in *in = d->s->in;
    const double rate = d->rate[n] + d->weight[n] / (double)in->layers;
    return ((double)in->micro_batches + d->start[n]) / rate;
}

static bool hopeless(const deal *d, int32_t n)
{
    return least_time(d, n) > luo_mal_worst(d->s) * (1 + 1e-9);
}

/* Takes pipeline i = taken[i] into the sums; false: it is not feasible. */
static bool take(deal *d, int32_t i)
{
    const int32_t *v = row(d, d->taken, i);
    d->vectors--;
    d->s->count.vectors++;
    d->ids[i] = luo_mal_pipe_of(d->s, d->mix, v);
    const luo_mal_pipe *pipe = &d->mix->pipes[d->ids[i]];
    if (pipe->lack) return false;
    d->rate[i + 1] = d->rate[i] + 1 / pipe->o;
    d->start[i + 1] = d->start[i];
    if (d->s->in->rank != LUO_RANK_STEADY) d->start[i + 1] += pipe->fill / pipe->o - 1;
    d->weight[i + 1] = d->weight[i];
    for (int32_t c = 0; c < d->mix->ncls; c++) d->weight[i + 1] -= v[c] / d->mix->cls[c].y;
    return true;
}

static bool pipeline(deal *d, int32_t i);

/* Counts of classes c.. of pipeline i, falling; tight: equal to pipeline i-1 up to here. False:
 * the budget ended. */
static bool counts(deal *d, int32_t i, int32_t c, bool tight)
{
    int32_t *v = row(d, d->taken, i);
    const int32_t *rest = row(d, d->rest, i);
    if (c == d->mix->ncls) {
        if (d->vectors <= 0 || d->plans <= 0 || d->mix->npipes > d->most) return false;
        if (!take(d, i) || hopeless(d, i + 1)) return true;
        int32_t *next = row(d, d->rest, i + 1);
        for (int32_t k = 0; k < d->mix->ncls; k++) next[k] = rest[k] - v[k];
        return pipeline(d, i + 1);
    }
    const int32_t before = tight && i > 0 ? row(d, d->taken, i - 1)[c] : rest[c];
    const int32_t left = d->s->dp - i; /* all of them take no more of class 0 than this one */
    const int32_t least = c == 0 ? (rest[c] + left - 1) / left : 0;
    for (v[c] = before < rest[c] ? before : rest[c]; v[c] >= least; v[c]--)
        if (!counts(d, i, c + 1, tight && v[c] == before)) return false;
    return true;
}

static bool above(const int32_t *a, const int32_t *b, int32_t n)
{
    for (int32_t c = 0; c < n; c++)
        if (a[c] != b[c]) return a[c] > b[c];
    return false;
}

static bool pipeline(deal *d, int32_t i)
{
    const int32_t n = d->mix->ncls;
    if (i < d->s->dp - 1) return counts(d, i, 0, i > 0);
    int32_t *v = row(d, d->taken, i);
    memcpy(v, row(d, d->rest, i), (size_t)n * sizeof *v);
    if (i > 0 && above(v, row(d, d->taken, i - 1), n)) return true;
    if (!take(d, i) || hopeless(d, i + 1)) return true;
    d->plans--;
    luo_mal_offer(d->s, d->mix, d->ids);
    return true;
}

bool luo_mal_deal(luo_mal_search *search, luo_mal_mix *mix)
{
    const size_t n = (size_t)search->dp + 1;
    const int32_t part = search->light ? LIGHT : 1;
    const int64_t left = ALL_VECTORS - search->count.vectors, vectors = VECTORS / part;
    deal d = {.s = search,
              .mix = mix,
              .plans = PLANS / part,
              .vectors = left < vectors ? left : vectors,
              .most = mix->npipes + SOLVED / part,
              .taken = LUO_NEW_N(search->arena, int32_t, n * (size_t)mix->ncls),
              .rest = LUO_NEW_N(search->arena, int32_t, n * (size_t)mix->ncls),
              .ids = LUO_NEW_N(search->arena, int32_t, n),
              .rate = LUO_NEW_N(search->arena, double, n),
              .start = LUO_NEW_N(search->arena, double, n),
              .weight = LUO_NEW_N(search->arena, double, n)};
    if (!d.taken || !d.rest || !d.ids || !d.rate || !d.start || !d.weight) {
        search->nomem = true;
        return false;
    }
    for (int32_t c = 0; c < mix->ncls; c++) d.rest[c] = mix->cls[c].n;
    d.weight[0] = mix->weight;
    return pipeline(&d, 0);
}
