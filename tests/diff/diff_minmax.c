/* diff_minmax.c: the threshold form against brute force and against the plain greedy
 * rule of docs/planners.md#layers-and-micro-batches; and the canonical split against every
 * split. */
#include <math.h>

#include "core/plan/planners.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { ROWS = 4, WIDE = 40 };

typedef struct problem {
    int32_t n;
    double w[ROWS], off[ROWS];
    int64_t lo[ROWS], hi[ROWS], total;
} problem;

static int met_feasible, met_infeasible, met_ties;

static problem draw(luo_rng *r)
{
    problem p = {.n = 1 + (int32_t)luo_rng_pick(r, ROWS)};
    int64_t lo = 0, room = 0;
    for (int32_t j = 0; j < p.n; j++) {
        p.w[j] = luo_rng_u(r) < 0.5 ? (double)(1 + luo_rng_pick(r, 3)) : 0.1 + luo_rng_u(r);
        p.off[j] = luo_rng_u(r) < 0.5 ? 0 : 4 * luo_rng_u(r) - 1;
        p.lo[j] = luo_rng_pick(r, 3);
        p.hi[j] = p.lo[j] + luo_rng_pick(r, 6);
        lo += p.lo[j];
        room += p.hi[j] - p.lo[j];
    }
    p.total = lo + luo_rng_pick(r, room + 2); /* sometimes one too many */
    return p;
}

static double worst(const problem *p, const int64_t *n)
{
    double t = -INFINITY;
    for (int32_t j = 0; j < p->n; j++) t = fmax(t, p->w[j] * (double)n[j] + p->off[j]);
    return t;
}

static double brute(const problem *p, int32_t j, int64_t left, int64_t *n)
{
    if (j == p->n) return left == 0 ? worst(p, n) : INFINITY;
    double best = INFINITY;
    for (n[j] = p->lo[j]; n[j] <= p->hi[j] && n[j] <= left; n[j]++) {
        best = fmin(best, brute(p, j + 1, left - n[j], n));
    }
    return best;
}

static bool greedy(const problem *p, int64_t *n)
{
    int64_t left = p->total;
    for (int32_t j = 0; j < p->n; j++) left -= n[j] = p->lo[j];
    for (; left > 0; left--) {
        int32_t to = -1;
        for (int32_t j = 0; j < p->n; j++) {
            if (n[j] >= p->hi[j]) continue;
            const double v = p->w[j] * (double)(n[j] + 1) + p->off[j];
            const double t = to < 0 ? INFINITY : p->w[to] * (double)(n[to] + 1) + p->off[to];
            met_ties += to >= 0 && v == t;
            if (v < t) to = j;
        }
        if (to < 0) return false;
        n[to]++;
    }
    return true;
}

START_TEST(alloc_is_exact)
{
    LUO_PROP_FOR(seed, 2000)
    {
        luo_rng r = luo_rng_seed(seed);
        const problem p = draw(&r);
        int64_t n[ROWS], g[ROWS], b[ROWS];
        double best = 0;
        const luo_status st = luo_plan_minmax(p.n, p.w, p.off, p.total, p.lo, p.hi, n, &best, NULL);
        const bool ok = greedy(&p, g);
        ck_assert_int_eq(st, ok ? LUO_OK : LUO_EINFEASIBLE);
        met_feasible += ok;
        met_infeasible += !ok;
        if (!ok) continue;
        for (int32_t j = 0; j < p.n; j++) ck_assert_msg(n[j] == g[j], "seed %d", (int)seed);
        ck_assert_double_eq(best, worst(&p, n));
        ck_assert_double_eq(best, brute(&p, 0, p.total, b));
    }
    ck_assert_int_gt(met_feasible, 0);
    ck_assert_int_gt(met_infeasible, 0);
    ck_assert_int_gt(met_ties, 0);
}
END_TEST

/* Many units on many rows: the threshold is found in few passes, the answer is the greedy one. */
START_TEST(alloc_is_exact_when_large)
{
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng r = luo_rng_seed(seed);
        const int32_t n = 1 + (int32_t)luo_rng_pick(&r, WIDE);
        double w[WIDE], off[WIDE];
        int64_t lo[WIDE], hi[WIDE], out[WIDE], want[WIDE], left = 0, total = 0;
        for (int32_t j = 0; j < n; j++) {
            w[j] = luo_rng_u(&r) < 0.5 ? (double)(1 + luo_rng_pick(&r, 3)) : 0.1 + luo_rng_u(&r);
            off[j] = luo_rng_u(&r) < 0.5 ? 0 : 100 * luo_rng_u(&r);
            lo[j] = luo_rng_pick(&r, 8);
            hi[j] = luo_rng_u(&r) < 0.3 ? lo[j] + luo_rng_pick(&r, 20) : 1000;
            want[j] = lo[j];
            total += lo[j];
            left += hi[j] - lo[j];
        }
        left = luo_rng_pick(&r, left + 1);
        total += left;
        for (; left > 0; left--) {
            int32_t to = -1;
            for (int32_t j = 0; j < n; j++)
                if (want[j] < hi[j] && (to < 0 || w[j] * (double)(want[j] + 1) + off[j] <
                                                      w[to] * (double)(want[to] + 1) + off[to]))
                    to = j;
            want[to]++;
        }
        ck_assert_int_eq(luo_plan_minmax(n, w, off, total, lo, hi, out, NULL, NULL), LUO_OK);
        for (int32_t j = 0; j < n; j++)
            ck_assert_msg(out[j] == want[j], "seed %d row %d", (int)seed, j);
    }
}
END_TEST

/* The canonical split keeps the optimum and no other optimal split has a smaller sum of times. */
static double least_sum(const problem *p, double slowest, int32_t j, int64_t left, int64_t *n)
{
    if (j == p->n) {
        if (left != 0 || worst(p, n) > slowest * (1 + 1e-12)) return INFINITY;
        double sum = 0;
        for (int32_t k = 0; k < p->n; k++) sum += p->w[k] * (double)n[k];
        return sum;
    }
    double best = INFINITY;
    for (n[j] = 0; n[j] <= p->hi[j] && n[j] <= left; n[j]++)
        best = fmin(best, least_sum(p, slowest, j + 1, left - n[j], n));
    return best;
}

START_TEST(split_is_canonical)
{
    luo_arena *a = luo_arena_new(4096);
    LUO_PROP_FOR(seed, 1000)
    {
        luo_rng r = luo_rng_seed(seed);
        problem p = draw(&r);
        int64_t n[ROWS], b[ROWS];
        double best, sum = 0;
        memset(p.off, 0, sizeof p.off);
        memset(p.lo, 0, sizeof p.lo);
        if (luo_plan_minmax(p.n, p.w, NULL, p.total, NULL, p.hi, n, &best, NULL) != LUO_OK)
            continue;
        ck_assert_int_eq(luo_plan_split_layers(a, p.n, p.w, p.total, p.hi, n, NULL), LUO_OK);
        for (int32_t j = 0; j < p.n; j++) {
            ck_assert(n[j] >= 0 && n[j] <= p.hi[j]);
            sum += p.w[j] * (double)n[j];
        }
        ck_assert_double_le(worst(&p, n), best * (1 + 1e-12));
        ck_assert_double_eq_tol(sum, least_sum(&p, best, 0, p.total, b), 1e-9);
    }
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("plan.minmax", LUO_T(alloc_is_exact), LUO_T(alloc_is_exact_when_large),
          LUO_T(split_is_canonical))
