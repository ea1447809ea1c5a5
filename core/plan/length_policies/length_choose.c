/* What the rivals choose once: each gets its best settings. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/plan/length_policies/length_policy.h"

luo_status luo_length_mean(luo_arena *scratch, const luo_length_rivals *rivals,
                           luo_length_policy policy, const luo_length_sample *samples, int32_t n,
                           double *mean, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    luo_status st = LUO_OK;
    *mean = 0;
    for (int32_t s = 0; s < n && st == LUO_OK; s++) {
        double ms;
        st = luo_length_policy_step(scratch, rivals, policy, -1, samples[s].length, samples[s].n,
                                    &ms, NULL, err);
        if (st == LUO_OK) *mean += ms / n;
    }
    luo_arena_reset(scratch, mark);
    if (st != LUO_EINFEASIBLE) return st;
    *mean = INFINITY;
    return LUO_OK;
}

enum { BUCKET_POINTS = 32 }; /* grid points between which buckets end, about */

/* ---- HotSPa's buckets ---- */

typedef struct cell { /* least time of all lengths up to a grid point, the last bucket by an entry
                       */
    double ms;
    int32_t from, before; /* grid point and entry of the bucket before; before -1: none */
} cell;

typedef struct buckets {
    const luo_pool *pool;
    int32_t devices, points; /* grid points, 0 included */
    const luo_propose_grid *grid;
    double switch_ms;
    const double *span; /* [(from * points + to) * entries + entry]; INFINITY: does not fit */
    cell *at;           /* [point * entries + entry] */
} buckets;

static int64_t point(const luo_propose_grid *grid, int32_t j)
{
    return j == 0 ? 0 : grid->end[j - 1];
}

/* Does the entry hold a bucket up to that length? Devices that are too few for one more replica
 * idle. */
static bool takes(const luo_pool *pool, int32_t devices, int32_t entry, int64_t high)
{
    const luo_pool_entry *pool_entry = &pool->entry[entry];
    return pool_entry->cap >= high && luo_pool_devices(pool_entry) <= devices;
}

static void reach(buckets *x, int32_t j, int32_t k)
{
    cell *to = &x->at[(int64_t)j * x->pool->n + k];
    *to = (cell){INFINITY, 0, -1};
    for (int32_t i = 0; i < j; i++) {
        const double own = x->span[((int64_t)i * x->points + j) * x->pool->n + k];
        if (i == 0 && own < to->ms) *to = (cell){own, 0, -1};
        for (int32_t q = 0; i > 0 && q < x->pool->n; q++) {
            const double ms =
                x->at[(int64_t)i * x->pool->n + q].ms + own + (q == k ? 0 : x->switch_ms);
            if (ms < to->ms) *to = (cell){ms, i, q};
        }
    }
}

static luo_status trace(luo_arena *arena, const buckets *x, int32_t entry, luo_length_bucket **out,
                        int32_t *n, luo_err *err)
{
    luo_length_bucket *bucket = LUO_NEW_N(arena, luo_length_bucket, x->points);
    int32_t count = 0;
    if (!bucket) return luo_err_nomem(err);
    for (int32_t j = x->points - 1, k = entry; k >= 0;) {
        const cell c = x->at[(int64_t)j * x->pool->n + k];
        bucket[count++] = (luo_length_bucket){point(x->grid, c.from), point(x->grid, j), k};
        j = c.from;
        k = c.before;
    }
    *out = bucket;
    *n = count;
    return LUO_OK;
}

/* The programme over a table of spans. */
static luo_status solve(luo_arena *arena, buckets *x, luo_length_bucket **out, int32_t *n,
                        double *ms, luo_err *err)
{
    const luo_pool *pool = x->pool;
    int32_t best = -1;
    x->at = LUO_NEW_N(arena, cell, (int64_t)x->points * pool->n);
    if (!x->at) return luo_err_nomem(err);
    for (int32_t j = 1; j < x->points; j++)
        for (int32_t k = 0; k < pool->n; k++) reach(x, j, k);
    const cell *last = &x->at[(int64_t)(x->points - 1) * pool->n];
    for (int32_t k = 0; k < pool->n; k++)
        if (isfinite(last[k].ms) && (best < 0 || last[k].ms < last[best].ms)) best = k;
    if (best < 0)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "no equal replicas on %d devices hold %lld tokens; more memory is "
                           "needed.",
                           x->devices, (long long)point(x->grid, x->points - 1));
    *ms = last[best].ms;
    return trace(arena, x, best, out, n, err);
}

luo_status luo_length_buckets(luo_arena *arena, const luo_pool *pool, int32_t devices,
                              const luo_histogram *histogram, const luo_propose_grid *grid,
                              double switch_ms, luo_length_bucket **out, int32_t *n, double *ms,
                              luo_err *err)
{
    buckets x = {pool, devices, grid->n + 1, grid, switch_ms, NULL, NULL};
    double *span = LUO_NEW_N(arena, double, (int64_t)x.points *x.points * pool->n);
    if (!span) return luo_err_nomem(err);
    for (int32_t i = 0; i < x.points; i++)
        for (int32_t j = i + 1; j < x.points; j++)
            for (int32_t k = 0; k < pool->n; k++) {
                const luo_pool_entry *entry = &pool->entry[k];
                span[((int64_t)i * x.points + j) * pool->n + k] =
                    !takes(pool, devices, k, point(grid, j))
                        ? INFINITY
                        : luo_propose_span(entry, histogram, point(grid, i), point(grid, j),
                                           devices / luo_pool_devices(entry), LUO_PROPOSE_FLOOR);
            }
    x.span = span;
    return solve(arena, &x, out, n, ms, err);
}

/* The same with borders at powers of two and spans that are dispatched and packed on the samples:
 * what a span of the histogram says of few sequences is rough. */
static luo_status sampled_buckets(luo_arena *arena, const luo_length_rivals *rivals,
                                  const luo_length_sample *samples, int32_t nsamples,
                                  luo_length_bucket **out, int32_t *n, luo_err *err)
{
    static const int64_t borders[] = {2048, 4096, 8192, 16384};
    enum { BORDERS = sizeof borders / sizeof *borders };
    int64_t end[BORDERS + 1];
    int32_t count = 0;
    for (int32_t k = 0; k < BORDERS; k++)
        if (borders[k] < rivals->ctx) end[count++] = borders[k];
    end[count++] = rivals->ctx;
    const luo_propose_grid grid = {count, end};
    buckets x = {rivals->pool, rivals->devices, count + 1, &grid, rivals->switch_ms, NULL, NULL};
    double *span = LUO_NEW_N(arena, double, (int64_t)x.points *x.points * rivals->pool->n), ms;
    if (!span) return luo_err_nomem(err);
    for (int32_t i = 0; i < x.points; i++)
        for (int32_t j = i + 1; j < x.points; j++)
            for (int32_t k = 0; k < rivals->pool->n; k++) {
                double *to = &span[((int64_t)i * x.points + j) * rivals->pool->n + k];
                const luo_length_bucket one = {point(&grid, i), point(&grid, j), k};
                luo_length_rivals alone = *rivals;
                alone.bucket = &one;
                alone.nbuckets = 1;
                alone.step.kicks = 0;
                *to = INFINITY;
                if (!takes(rivals->pool, rivals->devices, k, one.high)) continue;
                LUO_TRY(luo_length_mean(arena, &alone, LUO_LENGTH_POLICY_HOTSPA, samples, nsamples,
                                        to, err));
            }
    x.span = span;
    return solve(arena, &x, out, n, &ms, err);
}

/* ---- one strategy, one plan ---- */

/* Does the entry hold the context, on these devices? */
static bool holds(const luo_length_rivals *rivals, int32_t k)
{
    const luo_pool_entry *entry = &rivals->pool->entry[k];
    return entry->cap >= rivals->ctx && luo_pool_devices(entry) <= rivals->devices;
}

static void choose_uniform(luo_length_rivals *rivals)
{
    double best = INFINITY;
    rivals->uniform = -1;
    for (int32_t k = 0; k < rivals->pool->n; k++) {
        const luo_pool_entry *entry = &rivals->pool->entry[k];
        if (!holds(rivals, k)) continue;
        const double ms =
            luo_propose_span(entry, &rivals->candidates->histogram, 0, rivals->ctx,
                             rivals->devices / luo_pool_devices(entry), LUO_PROPOSE_FLOOR);
        if (ms >= best) continue;
        best = ms;
        rivals->uniform = k;
    }
}

static luo_status choose_alike(luo_arena *scratch, const luo_length_sample *samples, int32_t n,
                               luo_length_rivals *rivals, luo_err *err)
{
    double best = INFINITY;
    int32_t found = rivals->uniform;
    for (int32_t k = 0; k < rivals->pool->n; k++) {
        double mean;
        if (!holds(rivals, k)) continue;
        rivals->alike = k;
        LUO_TRY(luo_length_mean(scratch, rivals, LUO_LENGTH_POLICY_PACK_DYNAMIC, samples, n, &mean,
                                err));
        if (mean >= best) continue;
        best = mean;
        found = k;
    }
    rivals->alike = found;
    return LUO_OK;
}

static luo_status choose_plan(luo_arena *scratch, const luo_length_sample *samples, int32_t n,
                              luo_length_rivals *rivals, luo_err *err)
{
    double best = INFINITY;
    int32_t found = 0;
    for (int32_t p = 0; p < rivals->candidates->n; p++) {
        double mean;
        rivals->plan = p;
        if (rivals->candidates->longest[p] < rivals->ctx)
            continue; /* later batches may have longer ones */
        LUO_TRY(
            luo_length_mean(scratch, rivals, LUO_LENGTH_POLICY_ONE_PLAN, samples, n, &mean, err));
        if (mean >= best) continue;
        best = mean;
        found = p;
    }
    rivals->plan = found;
    return LUO_OK;
}

static luo_status choose_buckets(luo_arena *arena, const luo_length_sample *samples, int32_t n,
                                 const luo_propose_grid *grid, luo_length_rivals *rivals,
                                 luo_err *err)
{
    luo_length_bucket *bucket[2];
    int32_t count[2];
    double mean[2], ms;
    rivals->nbuckets = 0;
    if (rivals->uniform < 0) return LUO_OK; /* nothing holds the longest bucket either */
    LUO_TRY(luo_length_buckets(arena, rivals->pool, rivals->devices, &rivals->candidates->histogram,
                               grid, rivals->switch_ms, &bucket[0], &count[0], &ms, err));
    LUO_TRY(sampled_buckets(arena, rivals, samples, n, &bucket[1], &count[1], err));
    for (int k = 0; k < 2; k++) {
        rivals->bucket = bucket[k];
        rivals->nbuckets = count[k];
        LUO_TRY(
            luo_length_mean(arena, rivals, LUO_LENGTH_POLICY_HOTSPA, samples, n, &mean[k], err));
    }
    const int best = mean[1] < mean[0];
    rivals->bucket = bucket[best];
    rivals->nbuckets = count[best];
    return LUO_OK;
}

luo_status luo_length_rivals_choose(luo_arena *arena, const luo_length_sample *samples,
                                    int32_t nsamples, int64_t grid_step, luo_length_rivals *rivals,
                                    luo_err *err)
{
    if (grid_step < rivals->ctx / BUCKET_POINTS) grid_step = rivals->ctx / BUCKET_POINTS;
    const int64_t points = (rivals->ctx + grid_step - 1) / grid_step;
    int64_t *end = LUO_NEW_N(arena, int64_t, points);
    if (!end) return luo_err_nomem(err);
    for (int64_t j = 0; j < points; j++) end[j] = (j + 1) * grid_step;
    end[points - 1] = rivals->ctx;
    const luo_propose_grid grid = {(int32_t)points, end};
    choose_uniform(rivals);
    if (rivals->alike < 0) LUO_TRY(choose_alike(arena, samples, nsamples, rivals, err));
    LUO_TRY(choose_plan(arena, samples, nsamples, rivals, err));
    return choose_buckets(arena, samples, nsamples, &grid, rivals, err);
}
