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

/* More than every layer's largest strategy could never be used. */
static int64_t usable(const luo_auto_dp_in *in)
{
    int64_t sum = 0;
    for (int32_t l = 0; l < in->layers && sum < in->budget; l++) {
        int64_t most = 0;
        for (int32_t s = 0; s < in->strategies; s++) {
            const int64_t units = units_of(in, l)[s];
            if (isfinite(seconds_of(in, l)[s]) && units <= in->budget && units > most) most = units;
        }
        sum += most;
    }
    return sum < in->budget ? sum : in->budget;
}

int64_t luo_auto_dp_cells(const luo_auto_dp_in *in)
{
    return in->budget < 0 ? 0 : in->layers * (usable(in) + 1) * in->strategies;
}

typedef struct table {
    const luo_auto_dp_in *in;
    int64_t budget;
    double *before, *now; /* [c][s]: f of the layer before and of this one */
    uint16_t *mark;       /* [layer][c][s]: strategy of the layer before */
    int32_t *order;       /* strategies by rising f of one row of `before` */
} table;

static bool make_room(luo_arena *scratch, table *t)
{
    const size_t cells = (size_t)(t->budget + 1) * (size_t)t->in->strategies;
    if (cells > SIZE_MAX / sizeof(double) / (size_t)t->in->layers) return false;
    t->before = luo_arena_alloc(scratch, cells * sizeof *t->before);
    t->now = luo_arena_alloc(scratch, cells * sizeof *t->now);
    t->mark = luo_arena_alloc(scratch, cells * (size_t)t->in->layers * sizeof *t->mark);
    t->order = LUO_NEW_N(scratch, int32_t, t->in->strategies);
    for (int32_t s = 0; t->order && s < t->in->strategies; s++) t->order[s] = s;
    return t->before && t->now && t->mark && t->order;
}

/* Neighbouring rows are in nearly the same order, so that insertion is nearly linear. */
static void sort_row(const table *t, const double *f)
{
    for (int32_t i = 1; i < t->in->strategies; i++) {
        const int32_t s = t->order[i];
        int32_t k = i;
        for (; k > 0 && f[t->order[k - 1]] > f[s]; k--) t->order[k] = t->order[k - 1];
        t->order[k] = s;
    }
}

/* The cheapest predecessor of strategy s, lowest on ties. Changes cost 0 at least, so none whose f
 * is above the best sum can be better. */
static double reach(const table *t, const double *f, const double *change, int32_t s,
                    uint16_t *from)
{
    double best = INFINITY;
    for (int32_t i = 0; i < t->in->strategies; i++) {
        const int32_t k = t->order[i];
        if (f[k] > best || isinf(f[k])) break;
        const double sum = change ? f[k] + change[(int64_t)k * t->in->strategies + s] : f[k];
        if (sum > best || (sum == best && k > *from)) continue;
        best = sum;
        *from = (uint16_t)k;
    }
    return best;
}

static void first_layer(const table *t)
{
    const int32_t n = t->in->strategies;
    for (int64_t c = 0; c <= t->budget; c++)
        for (int32_t s = 0; s < n; s++)
            t->now[c * n + s] = c < units_of(t->in, 0)[s] ? INFINITY : seconds_of(t->in, 0)[s];
}

/* From a row of the layer before to all cells of layer l that come from it. */
static void go_on(const table *t, int32_t l, int64_t c)
{
    const luo_auto_dp_in *in = t->in;
    const int64_t n = in->strategies, *units = units_of(in, l);
    const double *seconds = seconds_of(in, l), *f = t->before + c * n;
    const double *change = in->change ? in->change + row_of(in, l - 1) * n * n : NULL;
    uint16_t *mark = t->mark + l * (t->budget + 1) * n;
    sort_row(t, f);
    if (isinf(f[t->order[0]])) return;
    for (int32_t s = 0; s < n; s++) {
        if (units[s] > t->budget - c || isinf(seconds[s])) continue;
        const int64_t to = (c + units[s]) * n + s;
        t->now[to] = reach(t, f, change, s, &mark[to]) + seconds[s];
    }
}

static void next_layer(table *t, int32_t l)
{
    double *f = t->before;
    const int64_t cells = (t->budget + 1) * t->in->strategies;
    t->before = t->now;
    t->now = f;
    for (int64_t i = 0; i < cells; i++) f[i] = INFINITY;
    for (int64_t c = 0; c <= t->budget; c++) go_on(t, l, c);
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
    const int64_t least = luo_auto_dp_least(in);
    if (least < 0 || least > in->budget) return refuse(in, err);
    t.budget = usable(in);
    if (!make_room(scratch, &t)) LUO_TRY_OUT(luo_err_nomem(err));
    first_layer(&t);
    for (int32_t l = 1; l < in->layers; l++) next_layer(&t, l);
    const int32_t last = cheapest(&t);
    if (seconds) *seconds = t.now[t.budget * in->strategies + last];
    walk_back(&t, last, choice);
out:
    luo_arena_reset(scratch, mark);
    return st;
}
