/* check_stats.c: errors of predictions, and ranks. Vectors ACC-S1 and ACC-S2. */
#include <math.h>

#include "core/base/rng.h"
#include "core/base/stats.h"
#include "tests/check_main.h"

static bool near(double a, double b)
{
    return fabs(a - b) < 5e-11;
}

START_TEST(vectors)
{
    const double p[] = {1, 2.2, 2.7, 4.4, 5}, m[] = {1, 2, 3, 4, 5.5};
    const double x[] = {3, 1, 2, 2, 5}, y[] = {10, 20, 20, 30, 40};
    luo_arena *arena = luo_arena_new(0);
    luo_errors e;
    double rank;
    bool exists;
    ck_assert_int_eq(luo_errors_of(arena, p, m, 5, &e, NULL), LUO_OK);
    ck_assert(near(e.mean, 0.07818181818181818) && near(e.median, 0.1) && near(e.p90, 0.1));
    ck_assert(near(e.largest, 0.1) && near(e.bias, 0.0018181818181818));
    ck_assert(e.ranked && near(e.spearman, 1));
    ck_assert_int_eq(luo_stats_spearman(arena, x, y, 5, &rank, &exists, NULL), LUO_OK);
    ck_assert(exists && near(rank, 0.2894736842105263));
    luo_arena_free(arena);
}
END_TEST

START_TEST(edges)
{
    const double same[] = {2, 2, 2}, other[] = {1, 2, 3};
    luo_arena *arena = luo_arena_new(0);
    luo_errors e;
    double rank;
    bool exists = true;
    ck_assert_int_eq(luo_errors_of(arena, NULL, NULL, 0, &e, NULL), LUO_OK);
    ck_assert(e.n == 0 && e.mean == 0 && !e.ranked);
    ck_assert_int_eq(luo_stats_spearman(arena, same, other, 3, &rank, &exists, NULL), LUO_OK);
    ck_assert(!exists);
    ck_assert_int_eq(luo_stats_spearman(arena, other, other, 2, &rank, &exists, NULL), LUO_OK);
    ck_assert(!exists);
    luo_arena_free(arena);
}
END_TEST

/* The slow twin: a rank is one more than what is smaller, and half of what is equal. */
static void slow_ranks(const double *v, int32_t n, double *rank)
{
    for (int32_t i = 0; i < n; i++) {
        rank[i] = 1;
        for (int32_t k = 0; k < n; k++)
            rank[i] += v[k] < v[i] ? 1 : v[k] == v[i] && k != i ? 0.5 : 0;
    }
}

static double slow_pearson(const double *x, const double *y, int32_t n)
{
    double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
    for (int32_t i = 0; i < n; i++) {
        sx += x[i];
        sy += y[i];
        sxx += x[i] * x[i];
        syy += y[i] * y[i];
        sxy += x[i] * y[i];
    }
    return (n * sxy - sx * sy) / sqrt((n * sxx - sx * sx) * (n * syy - sy * sy));
}

enum { N = 40 };
START_TEST(ranks_as_counted)
{
    luo_rng r = luo_rng_stream((uint64_t)_i, "stats");
    luo_arena *arena = luo_arena_new(0);
    double x[N], y[N], rx[N], ry[N], rank;
    bool exists;
    const int32_t n = 3 + (int32_t)(luo_rng_u(&r) * (N - 3));
    for (int32_t i = 0; i < n; i++) {
        x[i] = floor(8 * luo_rng_u(&r));
        y[i] = floor(8 * luo_rng_u(&r)) + 0.25 * x[i];
    }
    x[0] = -1; /* neither side is constant */
    y[0] = -2;
    slow_ranks(x, n, rx);
    slow_ranks(y, n, ry);
    ck_assert_int_eq(luo_stats_spearman(arena, x, y, n, &rank, &exists, NULL), LUO_OK);
    ck_assert_msg(exists && fabs(rank - slow_pearson(rx, ry, n)) < 1e-9, "seed %d", _i);
    luo_arena_free(arena);
}
END_TEST

/* The slow twin: Simpson's rule over the density. */
static double slow_within(int32_t df, double t)
{
    enum { STEPS = 20000 };
    const double scale = exp(lgamma((df + 1) / 2.0) - lgamma(df / 2.0)) / sqrt(df * M_PI);
    double sum = 0;
    for (int i = 0; i <= STEPS; i++) {
        const double x = t * i / STEPS, y = scale * pow(1 + x * x / df, -(df + 1) / 2.0);
        sum += y * (i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2);
    }
    return 2 * sum * t / STEPS / 3;
}

START_TEST(student)
{
    static const struct {
        int32_t df;
        double width; /* of 95 %, as printed in any table */
    } rows[] = {{1, 12.7062}, {2, 4.3027}, {3, 3.1824}, {7, 2.3646}, {10, 2.2281}, {30, 2.0423},
                {1000, 1.9623}};
    luo_rng r = luo_rng_seed(5);
    for (int i = 0; i < LUO_ROWS(rows); i++)
        ck_assert_double_eq_tol(luo_stats_student_width(rows[i].df, 0.95), rows[i].width, 5e-5);
    for (int i = 0; i < 200; i++) {
        const int32_t df = 1 + (int32_t)luo_rng_pick(&r, 60);
        const double t = 8 * luo_rng_u(&r);
        ck_assert_double_eq_tol(luo_stats_student_within(df, t), slow_within(df, t), 1e-9);
    }
}
END_TEST

START_TEST(intervals)
{
    const double x[] = {1, 2, 3}, same[] = {4, 4, 4};
    luo_interval v = luo_interval_of_mean(x, 3, 0.95); /* 2 +- 4.3027 / sqrt 3 */
    ck_assert(v.n == 3 && v.mean == 2);
    ck_assert_double_eq_tol(v.high - 2, 4.302653 / sqrt(3), 1e-6);
    ck_assert_double_eq_tol(2 - v.low, v.high - 2, 1e-12);
    ck_assert_double_eq_tol(v.p, 1 - slow_within(2, 2 * sqrt(3)), 1e-9);
    v = luo_interval_of_mean(same, 3, 0.95);
    ck_assert(v.low == 4 && v.high == 4 && v.p == 0);
    v = luo_interval_of_mean(x, 1, 0.95);
    ck_assert(v.mean == 1 && isnan(v.low) && isnan(v.p));
    ck_assert(isnan(luo_interval_of_mean(x, 0, 0.95).mean));
}
END_TEST

/* The interval has the true mean as often as it says, of normal draws. */
START_TEST(covers_as_often_as_it_says)
{
    enum { CASES = 4000 };
    luo_rng r = luo_rng_seed(11);
    int hits = 0;
    for (int i = 0; i < CASES; i++) {
        double x[5];
        for (int k = 0; k < 5; k++)
            x[k] = 3 + sqrt(-2 * log(1 - luo_rng_u(&r))) * cos(2 * M_PI * luo_rng_u(&r));
        const luo_interval v = luo_interval_of_mean(x, 5, 0.95);
        hits += v.low <= 3 && 3 <= v.high;
    }
    ck_assert_msg(abs(hits - CASES * 95 / 100) < 60, "%d of %d", hits, CASES); /* 4 sigma */
}
END_TEST

LUO_SUITE("base.stats", LUO_T(vectors), LUO_T(edges), LUO_T_N(ranks_as_counted, 200),
          LUO_T(student), LUO_T(intervals), LUO_T(covers_as_often_as_it_says))
