/* tests/prop/prop_sched.c: the closed forms of HSPMD 12, and that orders are complete. */
#include "core/graph/sched.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { S_MAX = 6, M_MAX = 12, V_MAX = 4 };

static double span(luo_arena *arena, luo_sched_kind kind, int32_t S, int32_t m, int32_t v,
                   const double *f, const double *b, const double *hop)
{
    double got = -1;
    ck_assert_int_eq(luo_sched_makespan(arena, kind, S, m, v, f, b, hop, false, &got, NULL),
                     LUO_OK);
    return got;
}

static bool near(double a, double b)
{
    const double d = a - b, big = a > b ? a : b;
    return d < 1e-9 * big && d > -1e-9 * big;
}

static void fill(double *x, int n, double value)
{
    for (int k = 0; k < n; k++) x[k] = value;
}

START_TEST(uniform_stages)
{
    luo_arena *arena = luo_arena_new(0);
    luo_rng rng = luo_rng_seed(1);
    double f[S_MAX * V_MAX], b[S_MAX * V_MAX], hop[S_MAX];
    for (int32_t S = 1; S <= S_MAX; S++)
        for (int32_t m = 1; m <= M_MAX; m++) {
            const double tf = 0.1 + luo_rng_u(&rng), tb = 0.1 + luo_rng_u(&rng);
            const double c = luo_rng_u(&rng), whole = (m + S - 1) * (tf + tb);
            fill(f, S, tf);
            fill(b, S, tb);
            fill(hop, S, c);
            ck_assert(near(span(arena, LUO_SCHED_GPIPE, S, m, 1, f, b, NULL), whole));
            ck_assert(near(span(arena, LUO_SCHED_1F1B, S, m, 1, f, b, NULL), whole));
            /* A hop longer than a task would make the link the bottleneck. */
            if (c <= tf && c <= tb)
                ck_assert(near(span(arena, LUO_SCHED_GPIPE, S, m, 1, f, b, hop),
                               whole + 2 * (S - 1) * c));
            for (int32_t v = 2; v <= V_MAX && m % S == 0; v++) {
                fill(f, S * v, tf / v);
                fill(b, S * v, tb / v);
                ck_assert(near(span(arena, LUO_SCHED_INTERLEAVED, S, m, v, f, b, NULL),
                               m * (tf + tb) + (S - 1) * (tf + tb) / v));
            }
        }
    luo_arena_free(arena);
}
END_TEST

static double max_of(const double *x, int32_t n)
{
    double most = 0;
    for (int32_t k = 0; k < n; k++)
        if (x[k] > most) most = x[k];
    return most;
}

START_TEST(any_stages)
{
    luo_arena *arena = luo_arena_new(0);
    int above = 0;
    LUO_PROP_FOR(seed, 5000)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int32_t S = 1 + (int32_t)luo_rng_pick(&rng, S_MAX);
        const int32_t m = 1 + (int32_t)luo_rng_pick(&rng, M_MAX);
        double f[S_MAX], b[S_MAX], sum = 0, bound = 0, before = 0;
        for (int32_t s = 0; s < S; s++) {
            f[s] = luo_rng_u(&rng);
            b[s] = luo_rng_u(&rng);
            sum += f[s] + b[s];
        }
        const double gpipe = sum + (m - 1) * (max_of(f, S) + max_of(b, S));
        ck_assert_msg(near(span(arena, LUO_SCHED_GPIPE, S, m, 1, f, b, NULL), gpipe),
                      "LUO_SEED=%llu LUO_CASES=1", (unsigned long long)seed);
        for (int32_t s = 0; s < S; s++) {
            const double at = before + m * (f[s] + b[s]);
            if (at > bound) bound = at;
            before += f[s] + b[s];
        }
        const double got = span(arena, LUO_SCHED_1F1B, S, m, 1, f, b, NULL);
        ck_assert_msg(got >= bound * (1 - 1e-9), "LUO_SEED=%llu LUO_CASES=1",
                      (unsigned long long)seed);
        above += got > bound * (1 + 1e-9);
    }
    ck_assert_int_gt(above, 0);
    luo_arena_free(arena);
}
END_TEST

/* Every task once, a backward after its forward, and at most `kept` alive. */
START_TEST(complete)
{
    LUO_PROP_FOR(seed, 3000)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        const luo_sched_kind kind = (luo_sched_kind)luo_rng_pick(&rng, 3);
        const int32_t S = 1 + (int32_t)luo_rng_pick(&rng, S_MAX);
        const int32_t s = (int32_t)luo_rng_pick(&rng, S);
        int32_t m = 1 + (int32_t)luo_rng_pick(&rng, M_MAX), v = 1, n, alive = 0, most = 0;
        if (kind == LUO_SCHED_INTERLEAVED) {
            v = 1 + (int32_t)luo_rng_pick(&rng, V_MAX);
            m = S * (1 + (int32_t)luo_rng_pick(&rng, 3));
        }
        int seen[2][V_MAX][S_MAX * M_MAX] = {{{0}}};
        const luo_task *t;
        ck_assert_int_eq(luo_sched_make(arena, kind, S, s, m, v, &t, &n, NULL), LUO_OK);
        ck_assert_int_eq(n, 2 * m * v);
        for (int32_t k = 0; k < n; k++) {
            ck_assert(t[k].chunk >= 0 && t[k].chunk < v);
            ck_assert(t[k].micro_batch >= 0 && t[k].micro_batch < m);
            ck_assert_int_eq(seen[t[k].backward][t[k].chunk][t[k].micro_batch]++, 0);
            if (t[k].backward) ck_assert_int_eq(seen[0][t[k].chunk][t[k].micro_batch], 1);
            alive += t[k].backward ? -1 : 1;
            if (alive > most) most = alive;
        }
        ck_assert_int_eq(most, luo_sched_kept(kind, S, s, m, v));
        luo_arena_free(arena);
    }
}
END_TEST

LUO_SUITE("prop.sched", LUO_T(uniform_stages), LUO_T(any_stages), LUO_T(complete))
