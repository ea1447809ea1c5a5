/* The dynamic programme. */
#include "core/plan/hydraulis/propose.h"

#include <assert.h>
#include <math.h>

static const double LESS = 1e-12; /* ms: what replaces an entry of the table */

typedef struct choice { /* how a cell was reached: i NONE: as with fewer devices */
    int32_t i, entry, copies;
} choice;
enum { NONE = -1 };

typedef struct table {
    const luo_pool *pool;
    int32_t rows, cols, step; /* devices / step + 1; grid points + 1 */
    luo_propose_mode mode;
    const int64_t *end; /* end[0] = 0 */
    double *time;
    choice *choice;
    /* Per entry and grid point: work of all lengths up to it; per grid point: the longest length
     * in use up to it, to whose cost `one` belongs. */
    double *work, *one;
    int64_t *longest;
} table;

static double span_of(const luo_pool_entry *entry, double work, double one, int32_t copies,
                      luo_propose_mode mode)
{
    if (mode == LUO_PROPOSE_PUBLISHED) return (work + (entry->pp - 1) * one) / copies;
    return fmax(work / copies, one) + (entry->pp - 1) * one;
}

double luo_propose_span(const luo_pool_entry *entry, const luo_histogram *histogram, int64_t low,
                        int64_t high, int32_t copies, luo_propose_mode mode)
{
    double work = 0, one = 0;
    for (int32_t i = 0; i < histogram->n; i++) {
        if (histogram->length[i] <= low || histogram->length[i] > high) continue;
        one = luo_pool_cost(entry, histogram->length[i]) + entry->c;
        work += histogram->count[i] * one;
    }
    return span_of(entry, work, one, copies, mode);
}

/* ---- tables of work ---- */

static luo_status make_work(luo_arena *arena, table *t, const luo_histogram *histogram,
                            luo_err *err)
{
    const int64_t cells = (int64_t)t->pool->n * t->cols;
    t->work = LUO_NEW_N(arena, double, cells);
    t->one = LUO_NEW_N(arena, double, cells);
    t->longest = LUO_NEW_N(arena, int64_t, t->cols);
    if (!t->work || !t->one || !t->longest) return luo_err_nomem(err);
    for (int32_t k = 0; k < t->pool->n; k++) {
        const luo_pool_entry *entry = &t->pool->entry[k];
        double work = 0, one = 0;
        int32_t at = 0;
        for (int32_t j = 0; j < t->cols; j++) {
            for (; at < histogram->n && histogram->length[at] <= t->end[j]; at++) {
                one = luo_pool_cost(entry, histogram->length[at]) + entry->c;
                work += histogram->count[at] * one;
                t->longest[j] = histogram->length[at];
            }
            if (j > 0 && t->longest[j] == 0) t->longest[j] = t->longest[j - 1];
            t->work[(int64_t)k * t->cols + j] = work;
            t->one[(int64_t)k * t->cols + j] = one;
        }
    }
    return LUO_OK;
}

static double span(const table *t, int32_t k, int32_t i, int32_t j, int32_t copies)
{
    const int64_t at = (int64_t)k * t->cols;
    /* No sequence between the two: the longest one up to e_j is up to e_i. */
    const double one = t->longest[j] > t->end[i] ? t->one[at + j] : 0;
    const double work = one > 0 ? t->work[at + j] - t->work[at + i] : 0;
    return span_of(&t->pool->entry[k], work, one, copies, t->mode);
}

/* ---- the programme ---- */

static double *cell(const table *t, int32_t n, int32_t j)
{
    return &t->time[(int64_t)n * t->cols + j];
}

typedef struct offer { /* an entry for (e_i, e_j] on part of n rows of devices */
    int32_t n, i, j, entry;
    int32_t unit, rows; /* fewest copies on whole steps of devices, and their rows */
} offer;

static double time_with(const table *t, const offer *x, int32_t units)
{
    return fmax(*cell(t, x->n - units * x->rows, x->i),
                span(t, x->entry, x->i, x->j, units * x->unit));
}

/* The fewest units whose span is within `ms`; hi has one. */
static int32_t fewest_within(const table *t, const offer *x, double ms, int32_t hi)
{
    int32_t lo = 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (span(t, x->entry, x->i, x->j, mid * x->unit) <= ms)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* The rest gets slower with every copy, the copies get faster: the best number is where the two
 * meet, on one side or the other; of numbers alike, the smallest, so that devices are left over. */
static void try_offer(table *t, const offer *x)
{
    int32_t lo = 1, hi = x->n / x->rows;
    if (hi < 1) return;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (*cell(t, x->n - mid * x->rows, x->i) >= span(t, x->entry, x->i, x->j, mid * x->unit))
            hi = mid;
        else
            lo = mid + 1;
    }
    double time = time_with(t, x, lo);
    if (lo > 1 && time_with(t, x, lo - 1) <= time) time = time_with(t, x, --lo);
    if (!(time < *cell(t, x->n, x->j) - LESS)) return;
    *cell(t, x->n, x->j) = time;
    t->choice[(int64_t)x->n * t->cols + x->j] =
        (choice){x->i, x->entry, x->unit * fewest_within(t, x, time, lo)};
}

static void try_entry(table *t, int32_t n, int32_t j, int32_t k)
{
    const int32_t g = luo_pool_devices(&t->pool->entry[k]);
    offer x = {.n = n, .j = j, .entry = k, .unit = 1};
    if (t->pool->entry[k].cap < t->end[j]) return;
    while ((int64_t)x.unit * g % t->step != 0) x.unit++;
    x.rows = x.unit * g / t->step;
    for (x.i = 0; x.i < j; x.i++) try_offer(t, &x);
}

static void fill(table *t)
{
    for (int32_t j = 1; j < t->cols; j++) {
        *cell(t, 0, j) = INFINITY;
        t->choice[j] = (choice){NONE, NONE, 0};
    }
    for (int32_t n = 1; n < t->rows; n++)
        for (int32_t j = 1; j < t->cols; j++) {
            *cell(t, n, j) = *cell(t, n - 1, j);
            t->choice[(int64_t)n * t->cols + j] = (choice){NONE, NONE, 0};
            for (int32_t k = 0; k < t->pool->n; k++) try_entry(t, n, j, k);
        }
}

static luo_status trace(luo_arena *arena, const table *t, int32_t j, luo_proposal *out,
                        luo_err *err)
{
    luo_propose_part *part = LUO_NEW_N(arena, luo_propose_part, j);
    int32_t count = 0, at = j, first = j;
    if (!part) return luo_err_nomem(err);
    for (int32_t n = t->rows - 1; at > 0;) {
        const choice c = t->choice[(int64_t)n * t->cols + at];
        if (c.i == NONE) {
            n--;
            continue;
        }
        part[--first] = (luo_propose_part){c.entry, c.copies, t->end[c.i], t->end[at]};
        n -= c.copies * luo_pool_devices(&t->pool->entry[c.entry]) / t->step;
        at = c.i;
        count++;
    }
    *out = (luo_proposal){t->end[j], *cell(t, t->rows - 1, j), count, part + first};
    return LUO_OK;
}

luo_status luo_propose(luo_arena *arena, const luo_pool *pool, const luo_histogram *histogram,
                       int32_t devices, int32_t device_step, const luo_propose_grid *grid,
                       luo_propose_mode mode, luo_proposal **out, int32_t *n, luo_err *err)
{
    assert(device_step >= 1 && devices % device_step == 0 && grid->n >= 1);
    table t = {.pool = pool,
               .rows = devices / device_step + 1,
               .cols = grid->n + 1,
               .step = device_step,
               .mode = mode};
    int64_t *end = LUO_NEW_N(arena, int64_t, t.cols);
    luo_proposal *found = LUO_NEW_N(arena, luo_proposal, grid->n);
    int32_t count = 0;
    t.time = LUO_NEW_N(arena, double, (int64_t)t.rows *t.cols);
    t.choice = LUO_NEW_N(arena, choice, (int64_t)t.rows * t.cols);
    if (!end || !found || !t.time || !t.choice) return luo_err_nomem(err);
    for (int32_t j = 1; j < t.cols; j++) end[j] = grid->end[j - 1];
    t.end = end;
    LUO_TRY(make_work(arena, &t, histogram, err));
    fill(&t);
    for (int32_t j = 1; j < t.cols; j++)
        if (isfinite(*cell(&t, t.rows - 1, j))) LUO_TRY(trace(arena, &t, j, &found[count++], err));
    if (count == 0)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "no strategy holds sequences of %lld tokens on %d devices; more memory, "
                           "more devices or a finer grid are needed.",
                           (long long)grid->end[0], devices);
    *out = found;
    *n = count;
    return LUO_OK;
}
