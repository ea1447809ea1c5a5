/* Dynamic programme over layers, memory and strategies. */
#include "core/plan/auto/dp.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int32_t row_of(const luo_auto_dp_in *in, int32_t l)
{
    return in->row ? in->row[l] : l;
}

static const int64_t *units_of(const luo_auto_dp_in *in, int32_t l)
{
    return in->units + (int64_t)row_of(in, l) * in->strategies;
}

static const double *seconds_of(const luo_auto_dp_in *in, int32_t l)
{
    return in->seconds + (int64_t)row_of(in, l) * in->strategies;
}

int64_t luo_auto_dp_least(const luo_auto_dp_in *in)
{
    int64_t sum = 0;
    for (int32_t l = 0; l < in->layers; l++) {
        int64_t least = -1;
        for (int32_t s = 0; s < in->strategies; s++)
            if (isfinite(seconds_of(in, l)[s]) && (least < 0 || units_of(in, l)[s] < least))
                least = units_of(in, l)[s];
        if (least < 0) return -1;
        sum += least;
    }
    return sum;
}

/* Least and most units of a layer's strategies that could be chosen. Pre: there is one. */
static void range_of(const luo_auto_dp_in *in, int32_t l, int64_t *least, int64_t *most)
{
    *least = INT64_MAX;
    *most = 0;
    for (int32_t s = 0; s < in->strategies; s++) {
        const int64_t units = units_of(in, l)[s];
        if (isinf(seconds_of(in, l)[s]) || units > in->budget) continue;
        if (units < *least) *least = units;
        if (units > *most) *most = units;
    }
}

/* Rows that matter: behind layer l the answer reads no budget below `low` or above `high`, since
 * the layers that follow take no more and no less than they can. */
typedef struct rows {
    int64_t budget;            /* no more than all layers can use */
    int64_t least, most;       /* units of all layers */
    int64_t least_to, most_to; /* of those up to this one */
    int64_t low, high;
} rows;

static rows first_rows(const luo_auto_dp_in *in)
{
    rows r = {0};
    for (int32_t l = 0; l < in->layers; l++) {
        int64_t least, most;
        range_of(in, l, &least, &most);
        r.least += least;
        r.most += most;
    }
    r.budget = r.most < in->budget ? r.most : in->budget;
    return r;
}

static void next_rows(const luo_auto_dp_in *in, int32_t l, rows *r)
{
    int64_t least, most;
    range_of(in, l, &least, &most);
    r->least_to += least;
    r->most_to += most;
    r->low = r->budget - (r->most - r->most_to);
    if (r->low < r->least_to) r->low = r->least_to;
    r->high = r->budget - (r->least - r->least_to);
}

static bool fits(const luo_auto_dp_in *in)
{
    const int64_t least = luo_auto_dp_least(in);
    return least >= 0 && least <= in->budget;
}

int64_t luo_auto_dp_cells(const luo_auto_dp_in *in)
{
    int64_t cells = 0;
    if (!fits(in)) return 0;
    rows r = first_rows(in);
    for (int32_t l = 0; l < in->layers; l++) {
        next_rows(in, l, &r);
        cells += (r.high - r.low + 1) * in->strategies;
    }
    return cells;
}

typedef struct table {
    const luo_auto_dp_in *in;
    int64_t budget;
    double *before, *now; /* [c][s]: f of the layer before and of this one */
    uint16_t *mark;       /* [layer][c][s]: strategy of the layer before */
    int32_t *order;       /* strategies by rising f of one row of `before` .. */
    double *sorted;       /* .. and their f */
} table;

static bool make_room(luo_arena *scratch, table *t)
{
    const size_t cells = (size_t)(t->budget + 1) * (size_t)t->in->strategies;
    if (cells > SIZE_MAX / sizeof(double) / (size_t)t->in->layers) return false;
    t->before = luo_arena_alloc(scratch, cells * sizeof *t->before);
    t->now = luo_arena_alloc(scratch, cells * sizeof *t->now);
    t->mark = luo_arena_alloc(scratch, cells * (size_t)t->in->layers * sizeof *t->mark);
    t->order = LUO_NEW_N(scratch, int32_t, t->in->strategies);
    t->sorted = LUO_NEW_N(scratch, double, t->in->strategies);
    for (int32_t s = 0; t->order && s < t->in->strategies; s++) t->order[s] = s;
    return t->before && t->now && t->mark && t->order && t->sorted;
}

/* Neighbouring rows are in nearly the same order, so that insertion is nearly linear. */
static void sort_row(const table *t, const double *f)
{
    for (int32_t i = 0; i < t->in->strategies; i++) {
        const int32_t s = t->order[i];
        int32_t k = i;
        for (; k > 0 && t->sorted[k - 1] > f[s]; k--) {
            t->order[k] = t->order[k - 1];
            t->sorted[k] = t->sorted[k - 1];
        }
        t->order[k] = s;
        t->sorted[k] = f[s];
    }
}

/* The cheapest predecessor of strategy s, lowest on ties. Changes cost 0 at least, so none whose f
 * is above the best sum can be better. change: from strategy 0 to s. */
static double reach(const table *t, const double *change, uint16_t *from)
{
    const int32_t n = t->in->strategies;
    double best = INFINITY;
    int32_t by = 0;
    for (int32_t i = 0; i < n && t->sorted[i] <= best && t->sorted[i] < INFINITY; i++) {
        const int32_t k = t->order[i];
        const double sum = t->sorted[i] + (change ? change[(int64_t)k * n] : 0);
        if (sum > best || (sum == best && k > by)) continue;
        best = sum;
        by = k;
    }
    *from = (uint16_t)by;
    return best;
}

static void first_layer(const table *t, const rows *r)
{
    const int32_t n = t->in->strategies;
    for (int64_t c = r->low; c <= r->high; c++)
        for (int32_t s = 0; s < n; s++)
            t->now[c * n + s] = c < units_of(t->in, 0)[s] ? INFINITY : seconds_of(t->in, 0)[s];
}

/* From a row of the layer before to all cells of layer l that come from it. */
static void go_on(const table *t, int32_t l, int64_t c, const rows *r)
{
    const luo_auto_dp_in *in = t->in;
    const int64_t n = in->strategies, *units = units_of(in, l);
    const double *seconds = seconds_of(in, l);
    const double *change = in->change ? in->change + row_of(in, l - 1) * n * n : NULL;
    uint16_t *mark = t->mark + l * (t->budget + 1) * n;
    sort_row(t, t->before + c * n);
    if (isinf(t->sorted[0])) return;
    for (int32_t s = 0; s < n; s++) {
        const int64_t to = c + units[s];
        if (units[s] > r->high || to > r->high || to < r->low || isinf(seconds[s])) continue;
        t->now[to * n + s] = reach(t, change ? change + s : NULL, &mark[to * n + s]) + seconds[s];
    }
}

static void next_layer(table *t, int32_t l, rows *r)
{
    double *f = t->before;
    const int64_t low = r->low, high = r->high, n = t->in->strategies;
    t->before = t->now;
    t->now = f;
    next_rows(t->in, l, r);
    for (int64_t i = r->low * n; i < (r->high + 1) * n; i++) f[i] = INFINITY;
    for (int64_t c = low; c <= high; c++) go_on(t, l, c, r);
}

static int32_t cheapest(const table *t)
{
    const double *f = t->now + t->budget * t->in->strategies;
    int32_t best = 0;
    for (int32_t s = 1; s < t->in->strategies; s++)
        if (f[s] < f[best]) best = s;
    return best;
}

static void walk_back(const table *t, int32_t s, int32_t *choice)
{
    const int64_t n = t->in->strategies;
    int64_t c = t->budget;
    for (int32_t l = t->in->layers; l-- > 0;) {
        choice[l] = s;
        const int64_t at = (l * (t->budget + 1) + c) * n + s;
        c -= units_of(t->in, l)[s];
        if (l > 0) s = t->mark[at];
    }
}

static luo_status refuse(const luo_auto_dp_in *in, luo_err *err)
{
    const int64_t least = luo_auto_dp_least(in);
    if (least < 0)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "a layer has no strategy; at least one is expected.");
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "no strategies of %d layers fit %lld units of memory; %lld are needed.",
                       in->layers, (long long)in->budget, (long long)least);
}

luo_status luo_auto_dp(luo_arena *scratch, const luo_auto_dp_in *in, int32_t *choice,
                       double *seconds, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    table t = {.in = in};
    assert(in->layers >= 1 && in->strategies >= 1);
    assert(in->strategies <= LUO_AUTO_DP_STRATEGIES_MOST);
    if (!fits(in)) return refuse(in, err);
    rows r = first_rows(in);
    t.budget = r.budget;
    if (!make_room(scratch, &t)) LUO_TRY_OUT(luo_err_nomem(err));
    next_rows(in, 0, &r);
    first_layer(&t, &r);
    for (int32_t l = 1; l < in->layers; l++) next_layer(&t, l, &r);
    const int32_t last = cheapest(&t);
    if (seconds) *seconds = t.now[t.budget * in->strategies + last];
    walk_back(&t, last, choice);
out:
    luo_arena_reset(scratch, mark);
    return st;
}
