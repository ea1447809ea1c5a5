/* prop_lanes.c: the order that luo_lanes_schedule finds for random calls, against every
 * order there is (docs/architecture/tests.md, test 4): in one lane at most 1.15 times the best of
 * them, and what its timetable says is what a plain machine does in that order. And every call that
 * starts, against all that could have instead. */
#include <stdio.h>

#include "tests/check_main.h"
#include "tests/lanes_twin.h"
#include "tests/prop/prop.h"

enum { CASES = 150, CALLS = 6, DEVICES = 6, MS = 1000000 };
#define NEAR 1.15

typedef struct deal {
    luo_lane_call call[CALLS];
    int32_t dev[CALLS][2], group[CALLS], n;
} deal;

/* Stage of a layer: how many of the borders it is behind. */
static int32_t stage_of(const int32_t *border, int32_t n, int32_t layer)
{
    int32_t stage = 0;
    for (int32_t i = 0; i < n; i++) stage += layer >= border[i];
    return stage;
}

/* A bucket a layer between two pipelines of one to three stages with borders of their own; layers
 * end backward one after another on each device, from the last (the computed vectors, L2). Calls of
 * the same devices are of one group. */
static void draw(luo_rng *r, deal *x)
{
    const int64_t backward = 1 + (int64_t)luo_rng_pick(r, 3), bytes = (int64_t)luo_rng_pick(r, 6);
    int32_t border[2][2], stages[2];
    int64_t busy[DEVICES] = {0};
    *x = (deal){.n = 2 + (int32_t)luo_rng_pick(r, CALLS - 1)};
    for (int p = 0; p < 2; p++) {
        stages[p] = (int32_t)luo_rng_pick(r, 3);
        for (int i = 0; i < 2; i++) border[p][i] = (int32_t)luo_rng_pick(r, (uint64_t)x->n);
    }
    for (int32_t i = 0; i < x->n; i++) {
        int64_t ready = 0;
        for (int p = 0; p < 2; p++) {
            const int32_t d = 3 * p + stage_of(border[p], stages[p], x->n - 1 - i);
            x->dev[i][p] = d;
            busy[d] += backward * MS;
            if (busy[d] > ready) ready = busy[d];
        }
        x->group[i] = x->dev[i][0] * DEVICES + x->dev[i][1];
        x->call[i] = (luo_lane_call){.ready = ready, .fixed = MS, .moving = bytes * MS, .ndev = 2,
                                     .ngroup = 1, .dev = x->dev[i], .group = &x->group[i]};
    }
}

/* Shortest step over all orders of the calls from position k on. */
static void best_of(const deal *x, int32_t lanes, int32_t *order, int32_t k, int64_t *best)
{
    static twin t;
    if (k == x->n) {
        const int64_t end = twin_run(&t, x->call, x->n, lanes, order, NULL);
        if (end >= 0 && (*best < 0 || end < *best)) *best = end;
        return;
    }
    for (int32_t i = k; i < x->n; i++) {
        const int32_t a = order[k], b = order[i];
        order[k] = b;
        order[i] = a;
        best_of(x, lanes, order, k + 1, best);
        order[k] = a;
        order[i] = b;
    }
}

/* In one lane no timetable is further from the best than NEAR; two lanes, which share links, are
 * told apart: there a call that waits could have had the link alone. */
START_TEST(near_the_best_order)
{
    const int32_t lanes = _i + 1;
    double worst = 1, sum = 0;
    int n = 0, above = 0, far = 0;
    LUO_PROP_FOR(seed, CASES)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 14);
        deal x;
        luo_timetable t;
        luo_err err = {0};
        static twin w;
        int32_t order[CALLS];
        int64_t best = -1;
        draw(&r, &x);
        for (int32_t i = 0; i < x.n; i++) order[i] = i;
        ck_assert_msg(luo_lanes_schedule(a, x.call, x.n, DEVICES, DEVICES * DEVICES, lanes, &t,
                                         &err) == LUO_OK, "%s", err.text);
        ck_assert_int_eq(twin_run(&w, x.call, x.n, lanes, t.order, &t), t.end_ns);
        for (int32_t i = 0; i < x.n; i++) ck_assert_int_eq(w.end[i], t.end[i]);
        best_of(&x, lanes, order, 0, &best);
        const double ratio = (double)t.end_ns / (double)best;
        sum += ratio;
        n++;
        above += ratio > 1;
        far += ratio > NEAR;
        if (ratio > worst) worst = ratio;
        luo_arena_free(a);
    }
    printf("%d timetables in %d lanes: %.4f times the best order in the mean, worst %.4f, %d above "
           "it, %d above %g\n", n, (int)lanes, sum / n, worst, above, far, NEAR);
    fflush(stdout); /* before what fails ends the process */
    ck_assert(above > 0 || n < CASES); /* else the cases show nothing */
    if (lanes == 1) ck_assert_int_eq(far, 0);
    else ck_assert(worst <= 1.3 && far * 100 <= n); /* seen: 4 of 1,000, worst 1.286 */
}
END_TEST

/* ---- the rule of choice, of every call that starts, against all that could have ---- */

/* When call k of the order starts: those before it have, and the others have not. */
static bool could_start(const deal *x, const luo_timetable *t, int32_t lanes, int32_t k, int32_t j)
{
    const luo_lane_call *c = &x->call[j];
    const int64_t now = t->start[t->order[k]];
    int32_t busy[2] = {0};
    bool can = c->ready <= now;
    for (int32_t i = 0; i < k; i++) {
        const int32_t o = t->order[i];
        if (o == j || (t->end[o] > now && x->group[o] == x->group[j])) can = false;
        for (int d = 0; d < 2 && t->end[o] > now; d++)
            busy[d] += twin_share(x->call[o].dev, 2, &c->dev[d], 1);
    }
    return can && busy[0] < lanes && busy[1] < lanes;
}

/* What is left to do on the busier device of a call. */
static int64_t way_of(const deal *x, const luo_timetable *t, int32_t k, int32_t j)
{
    int64_t left[2] = {0};
    for (int32_t i = k; i < x->n; i++) {
        const luo_lane_call *c = &x->call[t->order[i]];
        for (int d = 0; d < 2; d++)
            if (twin_share(c->dev, 2, &x->dev[j][d], 1)) left[d] += c->fixed + c->moving;
    }
    return x->call[j].tail + (left[0] > left[1] ? left[0] : left[1]);
}

static bool goes_before(const deal *x, const luo_timetable *t, int32_t k, int32_t j, int32_t i)
{
    const int64_t a = way_of(x, t, k, j), b = way_of(x, t, k, i);
    if (a != b) return a > b;
    if (x->call[j].ready != x->call[i].ready) return x->call[j].ready < x->call[i].ready;
    return j < i;
}

START_TEST(starts_by_the_rule)
{
    const int32_t lanes = _i + 1;
    int64_t others = 0;
    LUO_PROP_FOR(seed, 4 * CASES)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 14);
        deal x;
        luo_timetable t;
        luo_err err = {0};
        draw(&r, &x);
        for (int32_t i = 0; i < x.n; i++) x.call[i].ready -= x.call[i].ready % (4 * (int64_t)MS);
        ck_assert_msg(luo_lanes_schedule(a, x.call, x.n, DEVICES, DEVICES * DEVICES, lanes, &t,
                                         &err) == LUO_OK, "%s", err.text);
        for (int32_t k = 0; k < x.n; k++)
            for (int32_t j = 0; j < x.n; j++) {
                const int32_t i = t.order[k];
                if (j == i || !twin_share(x.dev[i], 2, x.dev[j], 2)) continue;
                if (!could_start(&x, &t, lanes, k, j)) continue;
                ck_assert_msg(!goes_before(&x, &t, k, j, i), "seed %llu: call %d starts, not %d",
                              (unsigned long long)seed, i, j);
                others++;
            }
        luo_arena_free(a);
    }
    ck_assert(others > 0); /* else there was never a choice */
}
END_TEST

LUO_SUITE("prop.lanes", LUO_T_N(near_the_best_order, 2), LUO_T_N(starts_by_the_rule, 2))
