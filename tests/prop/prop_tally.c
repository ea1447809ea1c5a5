/* prop_tally.c: counted values against all of them sorted, and runs of tries against a
 * number per step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/tally.h"
#include "core/run/tries.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As docs/results.md has it, of all values. */
static double slow_quantile(const double *at, int64_t n, double p)
{
    const double x = (double)(n - 1) * p;
    const int64_t i = (int64_t)x;
    return i + 1 < n ? at[i] + (x - (double)i) * (at[i + 1] - at[i]) : at[n - 1];
}

static void compare(luo_tally *t, double *all, int64_t n)
{
    static const double at[] = {0, 0.1, 0.5, 0.9, 0.99, 1};
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += all[i];
    qsort(all, (size_t)n, sizeof *all, ascending);
    ck_assert_int_eq(t->count, n);
    ck_assert(fabs(t->sum - sum) <= 1e-9 * sum && t->largest == all[n - 1]);
    for (int i = 0; i < LUO_ROWS(at); i++) {
        const double slow = slow_quantile(all, n, at[i]), fast = luo_tally_quantile(t, at[i]);
        if (luo_tally_off(t) == 0) ck_assert(fast == slow);
        else ck_assert(fabs(fast - slow) <= (luo_tally_off(t) + 1e-15) * slow);
    }
}

/* Few values: exact. Many: off by no more than is said, and never more than so many are held. */
START_TEST(quantiles_of_counts)
{
    enum { MOST = 800000 };
    double *all = malloc(MOST * sizeof *all);
    int exact = 0, cut = 0;
    LUO_PROP_FOR(seed, luo_prop_few(5, 8)) {
        luo_rng r = luo_rng_seed(seed);
        luo_tally t = {0}, part = {0};
        const bool few = luo_rng_pick(&r, 2);
        const int64_t n = few ? 1 + luo_rng_pick(&r, 30000) : 300000 + luo_rng_pick(&r, 500000);
        const int32_t kinds = 1 + (int32_t)luo_rng_pick(&r, 200);
        for (int64_t i = 0; i < n; i++) {
            const double kind = (double)luo_rng_pick(&r, kinds), u = luo_rng_u(&r);
            all[i] = few ? 1 + 0.37 * kind : 0.01 + u;
            ck_assert(luo_tally_add(luo_rng_pick(&r, 2) ? &t : &part, all[i]));
            if (luo_rng_pick(&r, 5000) == 0) ck_assert(luo_tally_take(&t, &part));
            ck_assert_int_le(t.n, LUO_TALLY_MOST + LUO_TALLY_NEW);
        }
        ck_assert(luo_tally_take(&t, &part));
        compare(&t, all, n);
        exact += luo_tally_off(&t) == 0;
        cut += luo_tally_off(&t) > 0;
        ck_assert(luo_tally_off(&t) < 1e-5);
        luo_tally_free(&t);
        luo_tally_free(&part);
    }
    free(all);
    if (!getenv("LUO_CASES")) ck_assert(exact > 1 && cut > 1);
}
END_TEST

/* Steps are tried, tried again, gone back to and forgotten; the twin has a number per step. */
START_TEST(tries_of_steps)
{
    enum { STEPS = 400 };
    int again = 0;
    LUO_PROP_FOR(seed, 300) {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(0);
        luo_tries t = {0};
        int32_t twin[STEPS] = {0}, before;
        int64_t step = 0, to = 0;
        while (step < STEPS) {
            ck_assert(luo_tries_add(a, &t, step, 0, &before));
            ck_assert_int_eq(before, twin[step]++);
            again += before > 0;
            if (step == to) to++;
            const int64_t what = luo_rng_pick(&r, 40);
            if (what == 0) step = t.from; /* back to the checkpoint */
            else if (what < 3) continue;  /* the attempt failed */
            else step++;
            if (luo_rng_pick(&r, 60) == 0 && step >= t.from) luo_tries_forget(&t, step);
        }
        ck_assert_int_le(t.n, 200);
        luo_arena_free(a);
    }
    if (!getenv("LUO_CASES")) ck_assert_int_gt(again, 1000);
}
END_TEST

LUO_SUITE("prop.tally", LUO_T(quantiles_of_counts), LUO_T(tries_of_steps))
