/* tests/unit/check_stats.c: errors of predictions, and ranks. Vectors ACC-S1 and ACC-S2. */
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
    ck_assert_int_eq(luo_spearman(arena, x, y, 5, &rank, &exists, NULL), LUO_OK);
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
    ck_assert_int_eq(luo_spearman(arena, same, other, 3, &rank, &exists, NULL), LUO_OK);
    ck_assert(!exists);
    ck_assert_int_eq(luo_spearman(arena, other, other, 2, &rank, &exists, NULL), LUO_OK);
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
    ck_assert_int_eq(luo_spearman(arena, x, y, n, &rank, &exists, NULL), LUO_OK);
    ck_assert_msg(exists && fabs(rank - slow_pearson(rx, ry, n)) < 1e-9, "seed %d", _i);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("base.stats", LUO_T(vectors),
          LUO_T(edges),
          LUO_T_N(ranks_as_counted, 200))
