/* What a step holds on average. */
#include <assert.h>
#include <stdlib.h>

#include "core/plan/lengths/lengths.h"

typedef struct pair {
    int64_t length;
    double count;
} pair;

static int by_length(const void *x, const void *y)
{
    const int64_t a = ((const pair *)x)->length, b = ((const pair *)y)->length;
    return a < b ? -1 : a > b;
}

/* Pairs as they come: rows, given lengths, or draws. */
static luo_status collect(const luo_lengths *lengths, uint64_t seed, pair *out, int64_t n,
                          luo_err *err)
{
    luo_length_source source = {.rng = luo_rng_stream(seed, "lengths.histogram")};
    for (int64_t i = 0; i < n; i++) {
        out[i].count = 1;
        if (lengths->kind == LUO_LENGTH_HISTOGRAM) {
            const luo_length_row *row = &lengths->rows[i];
            out[i] = (pair){(row->low + row->high) / 2, row->count};
        } else if (lengths->kind == LUO_LENGTH_FILE) {
            out[i].length = lengths->given[i];
        } else {
            LUO_TRY(luo_lengths_draw(lengths, &source, &out[i].length, err));
        }
    }
    return LUO_OK;
}

static int64_t pairs_of(const luo_lengths *lengths)
{
    switch (lengths->kind) {
    case LUO_LENGTH_HISTOGRAM:
        return lengths->nrows;
    case LUO_LENGTH_FILE:
        return lengths->ngiven;
    case LUO_LENGTH_FIXED:
        return 1;
    case LUO_LENGTH_UNIFORM:
    case LUO_LENGTH_LOGNORMAL:
    case LUO_LENGTH_MIXTURE:
        return LUO_HISTOGRAM_DRAWS;
    case LUO_LENGTH_KINDS:
        break;
    }
    assert(0);
    return 0;
}

luo_status luo_lengths_histogram(luo_arena *arena, const luo_lengths *lengths, uint64_t seed,
                                 double budget, int64_t ctx, luo_histogram *out, luo_err *err)
{
    const int64_t n = pairs_of(lengths);
    pair *at = LUO_NEW_N(arena, pair, n);
    luo_histogram histogram = {.length = LUO_NEW_N(arena, int64_t, n),
                               .count = LUO_NEW_N(arena, double, n)};
    if (!at || !histogram.length || !histogram.count) return luo_err_nomem(err);
    LUO_TRY(collect(lengths, seed, at, n, err));
    for (int64_t i = 0; i < n; i++)
        if (at[i].length > ctx) at[i].length = ctx;
    qsort(at, (size_t)n, sizeof *at, by_length);
    for (int64_t i = 0; i < n; i++) {
        if (at[i].count <= 0) continue;
        if (histogram.n == 0 || histogram.length[histogram.n - 1] != at[i].length)
            histogram.length[histogram.n++] = at[i].length;
        histogram.count[histogram.n - 1] += at[i].count;
        histogram.tokens += at[i].count * (double)at[i].length;
    }
    const double scale = histogram.tokens > 0 ? budget / histogram.tokens : 0;
    for (int32_t i = 0; i < histogram.n; i++) histogram.count[i] *= scale;
    histogram.tokens *= scale;
    *out = histogram;
    return LUO_OK;
}
