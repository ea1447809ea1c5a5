#include "core/base/stats.h"
#include "core/base/vec.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

double luo_stats_quantile(const double *v, int64_t n, double p)
{
    const double at = (double)(n - 1) * p;
    const int64_t lo = (int64_t)floor(at);
    if (lo + 1 >= n) return v[n - 1];
    return v[lo] + (at - (double)lo) * (v[lo + 1] - v[lo]);
}

void luo_stats_sort(double *values, int64_t n)
{
    if (n > 0) qsort(values, (size_t)n, sizeof *values, luo_vec_by_double);
}

double luo_stats_median(double *values, int32_t n)
{
    luo_stats_sort(values, n);
    return luo_stats_quantile(values, n, 0.5);
}

typedef struct ranked {
    double value;
    int32_t at;
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Ranks from 1; equal values get the mean of theirs. */
static void rank_of(ranked *room, const double *v, int32_t n, double *rank)
{
    for (int32_t i = 0; i < n; i++) room[i] = (ranked){v[i], i};
    qsort(room, (size_t)n, sizeof *room, by_value);
    for (int32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && room[end].value == room[i].value;) end++;
        for (int32_t k = i; k < end; k++) rank[room[k].at] = 0.5 * (i + 1 + end);
    }
}

static double pearson(const double *x, const double *y, int32_t n, bool *exists)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (int32_t i = 0; i < n; i++) {
        mx += x[i] / n;
        my += y[i] / n;
    }
    for (int32_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    *exists = n >= 3 && xx > 0 && yy > 0;
    return *exists ? xy / sqrt(xx * yy) : 0;
}

luo_status luo_stats_spearman(luo_arena *scratch, const double *x, const double *y, int32_t n,
                              double *out, bool *exists, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    ranked *room = LUO_NEW_N(scratch, ranked, n);
    double *rx = LUO_NEW_N(scratch, double, n), *ry = LUO_NEW_N(scratch, double, n);
    if (!room || !rx || !ry) return luo_err_nomem(err);
    rank_of(room, x, n, rx);
    rank_of(room, y, n, ry);
    *out = pearson(rx, ry, n, exists);
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}

luo_status luo_errors_of(luo_arena *scratch, const double *predicted, const double *measured,
                         int32_t n, luo_errors *out, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    double *off = LUO_NEW_N(scratch, double, n);
    if (!off) return luo_err_nomem(err);
    *out = (luo_errors){.n = n};
    if (n == 0) return LUO_OK;
    for (int32_t i = 0; i < n; i++) {
        const double e = predicted[i] / measured[i] - 1;
        off[i] = fabs(e);
        out->mean += off[i] / n;
        out->bias += e / n;
    }
    out->median = luo_stats_median(off, n);
    out->p90 = luo_stats_quantile(off, n, 0.9);
    out->largest = off[n - 1];
    luo_arena_reset(scratch, mark);
    return luo_stats_spearman(scratch, predicted, measured, n, &out->spearman, &out->ranked, err);
}

/* ---- Student's t ---- */

double luo_stats_student_within(int32_t df, double t)
{
    const double angle = atan(t / sqrt(df)), c = cos(angle) * cos(angle);
    const bool odd = df % 2 == 1;
    double term = odd ? cos(angle) : 1, sum = 0;
    for (int32_t k = odd ? 3 : 2; k <= df; k += 2) {
        sum += term;
        term *= c * (k - 1) / k;
    }
    return odd ? 2 / M_PI * (angle + sin(angle) * sum) : sin(angle) * sum;
}

double luo_stats_student_width(int32_t df, double level)
{
    double low = 0, high = 1;
    while (luo_stats_student_within(df, high) < level && high < 1e15) high *= 2;
    for (int i = 0; i < 100; i++) {
        const double mid = 0.5 * (low + high);
        if (luo_stats_student_within(df, mid) < level)
            low = mid;
        else high = mid;
    }
    return 0.5 * (low + high);
}

luo_interval luo_interval_of_mean(const double *x, int32_t n, double level)
{
    luo_interval out = {n, NAN, NAN, NAN, NAN};
    double sum = 0, square = 0;
    for (int32_t i = 0; i < n; i++) sum += x[i];
    if (n < 1) return out;
    out.mean = sum / n;
    if (n < 2) return out;
    for (int32_t i = 0; i < n; i++) square += (x[i] - out.mean) * (x[i] - out.mean);
    const double error = sqrt(square / (n - 1) / n);
    const double half = luo_stats_student_width(n - 1, level) * error;
    out.low = out.mean - half;
    out.high = out.mean + half;
    out.p = error > 0 ? 1 - luo_stats_student_within(n - 1, fabs(out.mean) / error) : out.mean == 0;
    return out;
}
