/* Exact allocation of a total to rows that get slower with every unit
 * (docs/planners.md#layers-and-micro-batches).
 *
 * Giving one unit at a time to the smallest w*(n+1)+off picks the smallest elements of sorted
 * rows. The same elements are found faster by a threshold: all elements up to it are taken at
 * once, and only the last few units, fewer than rows, are given one at a time. */
#include <assert.h>
#include <math.h>

#include "core/plan/planners.h"

enum { HALVINGS = 120, LEFT = 4 };

typedef struct rows {
    int32_t n;
    const double *w, *off, *fill; /* off NULL: 0; fill not NULL: fill - w */
    const int64_t *lo, *hi;       /* NULL: 0, no bound */
    int64_t need;                 /* total - sum lo */
} rows;

static int64_t low(const rows *r, int32_t j)
{
    return r->lo ? r->lo[j] : 0;
}

static double offset(const rows *r, int32_t j)
{
    if (r->fill) return r->fill[j] - r->w[j];
    return r->off ? r->off[j] : 0;
}

static double value(const rows *r, int32_t j, int64_t n)
{
    return r->w[j] * (double)n + offset(r, j);
}

/* No row can get more than all that is to give, so that no product grows without bound. */
static int64_t high(const rows *r, int32_t j)
{
    const int64_t most = low(r, j) + r->need;
    return r->hi && r->hi[j] < most ? r->hi[j] : most;
}

/* Largest n in [lo, hi] whose element, or lo, is not above the threshold. Corrected by exact
 * comparisons, so that the answer does not depend on how the quotient rounds. */
static int64_t reach(const rows *r, int32_t j, double threshold)
{
    const int64_t lo = low(r, j), hi = high(r, j);
    const double q = r->w[j] > 0 ? (threshold - offset(r, j)) / r->w[j] : (double)hi;
    int64_t n = q <= (double)lo ? lo : q >= (double)hi ? hi : (int64_t)q;
    while (n < hi && value(r, j, n + 1) <= threshold) n++;
    while (n > lo && value(r, j, n) > threshold) n--;
    return n;
}

typedef struct count {
    int64_t taken; /* units up to the threshold, above lo */
    double slope;  /* units per threshold of the rows that can take more */
} count;

static count count_at(const rows *r, double threshold)
{
    count c = {0, 0};
    for (int32_t j = 0; j < r->n; j++) {
        const int64_t lo = low(r, j), n = reach(r, j, threshold);
        c.taken += n - lo;
        if (n < high(r, j) && r->w[j] > 0) c.slope += 1 / r->w[j];
    }
    return c;
}

/* A threshold up to which at most `need` elements lie, so close to the largest such that few are
 * left to give one at a time. Newton's step goes nearly all the way at once; halving the interval
 * in turn with it bounds the number of passes. */
static double find_threshold(const rows *r)
{
    double below = INFINITY, above = -INFINITY;
    count c = {0, 0};
    for (int32_t j = 0; j < r->n; j++) {
        const double first = value(r, j, low(r, j)), last = value(r, j, high(r, j));
        if (first < below) below = first;
        if (last > above) above = last;
        if (r->w[j] > 0) c.slope += 1 / r->w[j];
    }
    below = nextafter(below, -INFINITY);
    for (int i = 0; i < HALVINGS && below < above && r->need - c.taken > LEFT; i++) {
        const double ahead = below + (double)(r->need - c.taken) / c.slope;
        const double mid = i % 2 == 0 && ahead < above ? ahead : below + (above - below) / 2;
        if (!(mid > below && mid < above)) break;
        const count at = count_at(r, mid);
        if (at.taken <= r->need) {
            below = mid;
            c = at;
        } else {
            above = mid;
        }
    }
    return below;
}

static void give_one(const rows *r, int64_t *out)
{
    int32_t to = -1;
    double least = INFINITY;
    for (int32_t j = 0; j < r->n; j++) {
        if (out[j] >= high(r, j)) continue;
        const double v = value(r, j, out[j] + 1);
        if (to >= 0 && v >= least) continue;
        to = j;
        least = v;
    }
    assert(to >= 0);
    out[to]++;
}

static luo_status solve(rows *r, int64_t total, int64_t *out, double *best, luo_err *err)
{
    int64_t least = 0, room = 0;
    for (int32_t j = 0; j < r->n; j++) least += low(r, j);
    r->need = total - least;
    if (r->need < 0)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "%lld units do not reach the least of %lld; fewer rows are needed.",
                           (long long)total, (long long)least);
    for (int32_t j = 0; j < r->n; j++) {
        if (high(r, j) < low(r, j))
            return luo_err_set(err, LUO_EINFEASIBLE,
                               "row %d takes at most %lld units and needs %lld; larger bounds are "
                               "needed.", j, (long long)high(r, j), (long long)low(r, j));
        room += high(r, j) - low(r, j);
    }
    if (room < r->need)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "%lld units do not fit into bounds of %lld; larger bounds are needed.",
                           (long long)total, (long long)(room + least));
    const double threshold = find_threshold(r);
    int64_t left = r->need;
    for (int32_t j = 0; j < r->n; j++) {
        out[j] = reach(r, j, threshold);
        left -= out[j] - low(r, j);
    }
    for (; left > 0; left--) give_one(r, out);
    if (best) *best = -INFINITY;
    for (int32_t j = 0; best && j < r->n; j++) {
        const double v = value(r, j, out[j]);
        if (v > *best) *best = v;
    }
    return LUO_OK;
}

luo_status luo_plan_minmax(int32_t n, const double *w, const double *off, int64_t total,
                           const int64_t *lo, const int64_t *hi, int64_t *out, double *best,
                           luo_err *err)
{
    assert(n >= 1);
    rows r = {.n = n, .w = w, .off = off, .lo = lo, .hi = hi};
    return solve(&r, total, out, best, err);
}

luo_status luo_plan_split_micro_batches(int32_t pipelines, const double *o, const double *fill,
                                        bool filled, int64_t M, const int64_t *lo, int64_t *out,
                                        luo_err *err)
{
    assert(pipelines >= 1);
    rows r = {.n = pipelines, .w = o, .fill = filled ? fill : NULL, .lo = lo};
    return solve(&r, M, out, NULL, err);
}
