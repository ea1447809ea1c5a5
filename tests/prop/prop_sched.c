/* prop_sched.c: the closed forms of docs/architecture/schedules.md#orders, and that orders are
 * complete. */
#include <stdlib.h>

#include "core/graph/schedule/sched.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { S_MAX = 6, M_MAX = 12, V_MAX = 4 };

static double span(luo_arena *arena, luo_sched_kind kind, int32_t S, int32_t m, int32_t v,
                   const double *f, const double *b, const double *hop)
{
    double got = -1;
    ck_assert_int_eq(luo_sched_makespan(arena, kind, S, m, v, f, b, NULL, hop, false, &got, NULL),
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
        const luo_sched_kind kind = (luo_sched_kind)luo_rng_pick(&rng, 4);
        const int32_t S = 1 + (int32_t)luo_rng_pick(&rng, S_MAX);
        const int32_t s = (int32_t)luo_rng_pick(&rng, S);
        int32_t m = 1 + (int32_t)luo_rng_pick(&rng, M_MAX), v = 1, n, alive = 0, most = 0;
        if (kind == LUO_SCHED_INTERLEAVED) {
            v = 1 + (int32_t)luo_rng_pick(&rng, V_MAX);
            m = S * (1 + (int32_t)luo_rng_pick(&rng, 3));
        }
        int waiting = 0, most_waiting = 0;
        int seen[LUO_TASK_BW + 1][V_MAX][S_MAX * M_MAX] = {{{0}}};
        const luo_task *t;
        ck_assert_int_eq(luo_sched_make(arena, kind, S, s, m, v, &t, &n, NULL), LUO_OK);
        ck_assert_int_eq(n, luo_sched_phases(kind) * m * v);
        for (int32_t k = 0; k < n; k++) {
            ck_assert(t[k].chunk >= 0 && t[k].chunk < v);
            ck_assert(t[k].micro_batch >= 0 && t[k].micro_batch < m);
            const luo_task_phase phase = t[k].phase;
            const int32_t c = t[k].chunk, i = t[k].micro_batch;
            ck_assert_int_eq(seen[phase][c][i]++, 0);
            if (phase != LUO_TASK_F) ck_assert_int_eq(luo_sched_splits(kind), phase != LUO_TASK_B);
            if (phase != LUO_TASK_F) ck_assert_int_eq(seen[LUO_TASK_F][c][i], 1);
            if (phase == LUO_TASK_BW) ck_assert_int_eq(seen[LUO_TASK_BI][c][i], 1);
            if (phase == LUO_TASK_BI && waiting > most_waiting) most_waiting = waiting;
            waiting += phase == LUO_TASK_BI ? 1 : phase == LUO_TASK_BW ? -1 : 0;
            if (phase != LUO_TASK_BW) alive += phase == LUO_TASK_F ? 1 : -1;
            if (alive > most) most = alive;
            /* what is kept whole or in part: no more than 1F1B's first stage keeps */
            if (luo_sched_splits(kind)) ck_assert_int_le(alive + waiting, S);
        }
        ck_assert_int_eq(most, luo_sched_kept(kind, S, s, m, v));
        ck_assert_int_eq(most_waiting, luo_sched_waiting(kind, s, m));
        luo_arena_free(arena);
    }
}
END_TEST

/* Slow twin of zb_h1 and zb_h2: the three kinds of tasks as the paper's definition orders them (F
 * and input gradients as 1F1B's, weight gradients of stage s behind the input gradients s later;
 * deep: one F less than twice as many before the first, 2s later), each begun when its stage and
 * what it waits for are done; looked at again and again until nothing moves. */
typedef struct h1 {
    int32_t S, m;
    const double *t[3], *hop;
    double end[3][S_MAX][M_MAX], free[S_MAX]; /* end: negative: not done */
    double sent[2][S_MAX];                    /* when the wire behind a stage is free */
    bool deep;
} h1;

static bool h1_try(h1 *x, int32_t s, int k, int32_t i)
{
    double from = 0;
    if (x->end[k][s][i] >= 0) return false;
    if (k == 0 && s > 0) from = x->end[0][s - 1][i];
    if (k == 1 && s == x->S - 1) from = x->end[0][s][i];
    if (k == 1 && s < x->S - 1) from = x->end[1][s + 1][i];
    if (from < 0) return false;
    const int32_t wire = k == 0 ? s - 1 : s;
    if (k < 2 && wire >= 0 && wire < x->S - 1) {
        if (x->sent[k][wire] > from) from = x->sent[k][wire];
        x->sent[k][wire] = from += x->hop[wire];
    }
    x->end[k][s][i] = (from > x->free[s] ? from : x->free[s]) + x->t[k][s];
    x->free[s] = x->end[k][s][i];
    return true;
}

/* The task that stage s has to do next: -1: none. */
static int h1_next(const h1 *x, int32_t s, int32_t *micro_batch)
{
    int32_t done[3] = {0};
    for (int k = 0; k < 3; k++)
        while (done[k] < x->m && x->end[k][s][done[k]] >= 0) done[k]++;
    const int32_t ahead = x->deep ? 2 * (x->S - s) - 1 : x->S - s;
    const int32_t late = done[1] == x->m ? 0 : x->deep ? 2 * s : s;
    const int k = done[2] < done[1] - late ? 2
                  : done[0] < x->m && done[0] - done[1] < ahead ? 0
                  : done[1] < x->m ? 1 : 2;
    *micro_batch = done[k];
    return done[k] < x->m ? k : -1;
}

static double h1_span(h1 *x)
{
    bool moved = true;
    double last = 0;
    for (int k = 0; k < 3; k++)
        for (int32_t s = 0; s < x->S; s++)
            for (int32_t i = 0; i < x->m; i++) x->end[k][s][i] = -1;
    while (moved) {
        moved = false;
        for (int32_t s = 0; s < x->S; s++) {
            int32_t i;
            const int k = h1_next(x, s, &i);
            if (k >= 0) moved |= h1_try(x, s, k, i);
        }
    }
    for (int32_t s = 0; s < x->S; s++) {
        ck_assert(x->end[2][s][x->m - 1] >= 0);
        if (x->free[s] > last) last = x->free[s];
    }
    return last;
}

/* Agrees with the slow twin; with equal stages and free wires never slower than 1F1B of the same
 * work; where F = BI = BW and m >= S the bubble is (S-1) (F + BI - BW), a third. */
START_TEST(zero_bubble)
{
    luo_arena *arena = luo_arena_new(0);
    int alike = 0, thirds = 0;
    LUO_PROP_FOR(seed, 3000)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int32_t S = 1 + (int32_t)luo_rng_pick(&rng, S_MAX);
        const int32_t m = 1 + (int32_t)luo_rng_pick(&rng, M_MAX);
        const bool equal = luo_rng_pick(&rng, 2), unit = equal && luo_rng_pick(&rng, 2);
        double f[S_MAX], b[S_MAX], w[S_MAX], both[S_MAX], hop[S_MAX] = {0}, got;
        for (int32_t s = 0; s < S; s++) {
            const double x[3] = {0.1 + luo_rng_u(&rng), 0.1 + luo_rng_u(&rng),
                                 0.1 + luo_rng_u(&rng)};
            f[s] = equal && s > 0 ? f[0] : x[0];
            b[s] = unit ? f[s] : equal && s > 0 ? b[0] : x[1];
            w[s] = unit ? f[s] : equal && s > 0 ? w[0] : x[2];
            both[s] = b[s] + w[s];
            hop[s] = equal ? 0 : luo_rng_u(&rng) / 2;
        }
        ck_assert_int_eq(luo_sched_makespan(arena, LUO_SCHED_ZB_H1, S, m, 1, f, b, w, hop, false,
                                            &got, NULL), LUO_OK);
        h1 x = {.S = S, .m = m, .t = {f, b, w}, .hop = hop};
        ck_assert_msg(near(got, h1_span(&x)), "LUO_SEED=%llu LUO_CASES=1",
                      (unsigned long long)seed);
        double deep;
        ck_assert_int_eq(luo_sched_makespan(arena, LUO_SCHED_ZB_H2, S, m, 1, f, b, w, hop, false,
                                            &deep, NULL), LUO_OK);
        h1 y = {.S = S, .m = m, .t = {f, b, w}, .hop = hop, .deep = true};
        ck_assert_msg(near(deep, h1_span(&y)), "zb_h2: LUO_SEED=%llu LUO_CASES=1",
                      (unsigned long long)seed);
        if (!equal) continue;
        const double whole = span(arena, LUO_SCHED_1F1B, S, m, 1, f, both, NULL);
        ck_assert_msg(got <= whole * (1 + 1e-9), "LUO_SEED=%llu LUO_CASES=1",
                      (unsigned long long)seed);
        alike++;
        if (!unit || m < S) continue;
        ck_assert_msg(near(got, m * 3 * f[0] + (S - 1) * f[0]), "LUO_SEED=%llu LUO_CASES=1",
                      (unsigned long long)seed);
        thirds += S > 1;
    }
    if (!getenv("LUO_CASES")) ck_assert(alike > 500 && thirds > 200);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("prop.sched", LUO_T(zero_bubble), LUO_T(uniform_stages), LUO_T(any_stages),
          LUO_T(complete))
