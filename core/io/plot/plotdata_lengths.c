/* plotdata_lengths.c: the distribution of lengths, by sequences and by tokens. */
#include <math.h>
#include <stdlib.h>

#include "core/io/plot/plotdata.h"
#include "core/io/result/table.h"

enum { POINTS = 600, EDGES = 300 };

typedef struct point {
    int64_t length;
    double sequences, tokens; /* that are not longer */
} point;

typedef struct curve {
    const luo_plot_lengths *of;
    int32_t number;
    const char *name; /* that it is synthetic included */
    luo_table *table;
    double sequences, tokens; /* of all */
} curve;

static luo_status put(curve *c, point p, luo_err *err)
{
    luo_table_int(c->table, LUO_COL_PLOT_LENGTHCDF_curve, c->number);
    luo_table_text(c->table, LUO_COL_PLOT_LENGTHCDF_source, c->name);
    luo_table_int(c->table, LUO_COL_PLOT_LENGTHCDF_length_tokens, p.length);
    luo_table_num(c->table, LUO_COL_PLOT_LENGTHCDF_sequences_ratio, p.sequences / c->sequences);
    luo_table_num(c->table, LUO_COL_PLOT_LENGTHCDF_tokens_ratio, p.tokens / c->tokens);
    return luo_table_end(c->table, err);
}

static int by_length(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

/* ---- lengths one by one: given, or drawn ---- */

static luo_status collect(luo_arena *arena, const luo_plot_lengths *of, int64_t **out, int64_t *n,
                          luo_err *err)
{
    const luo_lengths *lengths = of->lengths;
    const bool given = lengths->kind == LUO_LENGTH_FILE;
    luo_length_source source = luo_length_source_open(of->seed);
    *n = given ? lengths->ngiven : LUO_HISTOGRAM_DRAWS;
    *out = LUO_NEW_N(arena, int64_t, *n);
    if (!*out) return luo_err_nomem(err);
    for (int64_t i = 0; i < *n; i++) {
        if (given)
            (*out)[i] = lengths->given[i];
        else
            LUO_TRY(luo_lengths_draw(lengths, &source, &(*out)[i], err));
    }
    qsort(*out, (size_t)*n, sizeof **out, by_length);
    return LUO_OK;
}

/* Is more than 1/POINTS of the height between two points? */
static bool rises(const curve *c, const point *from, const point *to)
{
    return to->sequences - from->sequences > c->sequences / POINTS ||
           to->tokens - from->tokens > c->tokens / POINTS;
}

/* Points of a line; where one length alone makes it rise, it does so upright. */
static luo_status put_sorted(curve *c, const int64_t *at, int64_t n, luo_err *err)
{
    const double width = log((double)at[n - 1] / (double)at[0]) / POINTS;
    point last = {.length = at[0]}, p = {0};
    c->sequences = (double)n;
    for (int64_t i = 0; i < n; i++) c->tokens += (double)at[i];
    LUO_TRY(put(c, last, err));
    for (int64_t i = 0, k; i < n; i = k) {
        const point below = {at[i], p.sequences, p.tokens};
        for (k = i; k < n && at[k] == at[i]; k++) p.tokens += (double)at[i];
        p.sequences = (double)k;
        p.length = at[i];
        const bool upright = rises(c, &below, &p);
        if (upright && i > 0) LUO_TRY(put(c, below, err));
        if (!upright && k < n && !rises(c, &last, &p) &&
            log((double)p.length / (double)last.length) < width)
            continue;
        LUO_TRY(put(c, p, err));
        last = p;
    }
    return LUO_OK;
}

/* ---- classes, in which each length is as likely as the others ---- */

static int64_t width_of(const luo_length_row *row)
{
    return row->high > row->low ? row->high - row->low : 1;
}

static point share_at(const luo_lengths *lengths, int64_t length)
{
    point p = {.length = length};
    for (int32_t i = 0; i < lengths->nrows; i++) {
        const luo_length_row *row = &lengths->rows[i];
        const int64_t width = width_of(row);
        const int64_t k = length < row->low            ? 0
                          : length >= row->low + width ? width
                                                       : length - row->low + 1;
        const double part = row->count * (double)k / (double)width;
        p.sequences += part;
        p.tokens += part * ((double)row->low + 0.5 * (double)(k - 1));
    }
    return p;
}

/* Lengths at which a curve bends, and others between them, equally far apart on a log axis. */
static int64_t grid_of(const luo_lengths *lengths, int64_t *at)
{
    int64_t n = 0, low = INT64_MAX, high = 1;
    for (int32_t i = 0; i < lengths->nrows; i++) {
        const luo_length_row *row = &lengths->rows[i];
        const int64_t last = row->low + width_of(row) - 1;
        if (row->count <= 0) continue;
        if (row->low < low) low = row->low;
        if (last > high) high = last;
        if (lengths->nrows > EDGES) continue;
        at[n++] = row->low - 1;
        at[n++] = row->low;
        at[n++] = last;
    }
    const double range = log((double)high / (double)low);
    for (int k = 0; k <= POINTS; k++)
        at[n++] = (int64_t)((double)low * exp(range * k / POINTS) + 0.5);
    for (int64_t i = 0; i < n; i++) at[i] = at[i] < low ? low : at[i] > high ? high : at[i];
    qsort(at, (size_t)n, sizeof *at, by_length);
    return n;
}

static luo_status put_classes(curve *c, const luo_lengths *lengths, luo_err *err)
{
    int64_t at[3 * EDGES + POINTS + 1];
    const int64_t n = grid_of(lengths, at);
    const point all = share_at(lengths, at[n - 1]);
    c->sequences = all.sequences;
    c->tokens = all.tokens;
    LUO_TRY(put(c, (point){.length = at[0]}, err));
    for (int64_t i = 0; i < n; i++)
        if (i + 1 == n || at[i + 1] > at[i]) LUO_TRY(put(c, share_at(lengths, at[i]), err));
    return LUO_OK;
}

static luo_status put_curve(luo_arena *arena, curve *c, luo_err *err)
{
    int64_t *at, n;
    c->name = luo_lengths_synthetic(c->of->lengths)
                  ? luo_arena_printf(arena, "%s (synthetic)", c->of->name)
                  : c->of->name;
    if (!c->name) return luo_err_nomem(err);
    const size_t mark = luo_arena_mark(arena);
    if (c->of->lengths->kind == LUO_LENGTH_HISTOGRAM) return put_classes(c, c->of->lengths, err);
    LUO_TRY(collect(arena, c->of, &at, &n, err));
    const luo_status st = put_sorted(c, at, n, err);
    luo_arena_reset(arena, mark);
    return st;
}

luo_status luo_plotdata_lengthcdf(luo_arena *arena, luo_plot_lengths *lengths, int32_t n,
                                  const char *out, luo_diags *diags)
{
    luo_table table = {0};
    luo_err err = {0};
    luo_status st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_PLOT_LENGTHCDF), &err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++) {
        curve c = {.of = &lengths[i], .number = i + 1, .table = &table};
        st = put_curve(arena, &c, &err);
        lengths[i].sequences = c.sequences;
        lengths[i].mean = st == LUO_OK ? c.tokens / c.sequences : 0;
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? &err : NULL);
    if (st == LUO_OK) st = closed;
    if (err.st != LUO_OK) luo_diags_err(diags, &err);
    return st;
}
