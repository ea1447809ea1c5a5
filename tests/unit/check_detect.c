/* check_detect.c: vectors DV1 to DV9, NV1 and NV2 of the computed vectors, and the rules around
 * them by arithmetic. Bands under noise and the slow twin: tests/prop/prop_detect.c. */
#include <math.h>

#include "core/run/health/detect.h"
#include "tests/check_main.h"

enum { SAMPLES = 24 };
static const struct {
    const char *id;
    double accepted, sample[SAMPLES]; /* 0 ends */
    int at;                           /* index at which the change is confirmed, -1: none */
    double rate;
} rows[] = {
    {"DV1", 1, {1, 1, 1, 1, 1, 2.5, 2.5, 2.5, 2.5, 2.5}, 8, 2.5},
    {"DV2", 1, {1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1}, -1, 1},
    {"DV3", 1, {1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1}, -1, 1},
    {"DV4", 1, {1, 1, 1, 1, 1, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25}, -1, 1},
    {"DV5", 1, {1, 1, 1, 1, 1, 3, 3, 3, 1, 1, 1, 1, 1, 1}, -1, 1},
    {"DV6", 2.57, {2.57, 2.57, 2.57, 2.57, 2.57, 1, 1, 1, 1, 1, 1}, 8, 1},
    {"DV7", 1, {1, 1.04, 1.08, 1.12, 1.16, 1.2, 1.24, 1.28, 1.32, 1.36, 1.4, 1.44, 1.48}, 11, 1.36},
    {"DV8", 1, {1.02, .97, 1.01, 3.1, .99, 1.48, 1.55, 1.51, 1.47, 1.52, 1.5}, 7, 1.51},
    {"DV9", 6.87, {6.87, 6.2, 7.5, 6.9, 7.8, 6.1, 7.7, 6.5, 7.9, 7.6}, -1, 6.87},
    {"needs a full window", 1, {3, 3, 3, 3}, -1, 1},
    {"a full window is a candidate only", 1, {3, 3, 3, 3, 3}, -1, 1},
    {"slow from the start", 1, {3, 3, 3, 3, 3, 3}, 5, 3},
    {"half of the gap confirms", 1, {1, 1, 1, 2, 2, 2, 1.16}, 6, 2},
    {"less does not", 1, {1, 1, 1, 2, 2, 2, 1.14, 1}, -1, 1},
    {"the step after a candidate can be one", 1, {1, 1, 2, 2, 2, 1, 2, 2}, 6, 2},
    {"the other side does not confirm", 2, {2, 2, 2, 3, 3, 3, 1, 1}, -1, 2},
    {"the wide gap of a high rate", 6, {6, 6, 6, 6, 6, 6.89, 6.89, 6.89, 6.89}, -1, 6},
    {"and beyond it", 6, {6, 6, 6, 6, 6, 6.91, 6.91, 6.91, 6.91}, 8, 6.91},
};

START_TEST(detect_row)
{
    luo_arena *a = luo_arena_new(4096);
    luo_detect d;
    luo_rate_change c = {0};
    ck_assert_int_eq(luo_detect_init(a, 3, 5, 0.3, &d, NULL), LUO_OK);
    luo_detect_accept(&d, 1, rows[_i].accepted);
    int at = -1;
    for (int i = 0; i < SAMPLES && rows[_i].sample[i] > 0; i++) {
        ck_assert(!luo_detect_push(&d, 0, 1, NULL)); /* a neighbour is not touched */
        if (luo_detect_push(&d, 1, rows[_i].sample[i], &c) && at < 0) at = i;
    }
    ck_assert_msg(at == rows[_i].at, "%s: %d", rows[_i].id, at);
    ck_assert_double_eq_tol(d.accepted[1], rows[_i].rate, 1e-12);
    if (at >= 0) {
        ck_assert_double_eq(c.was, rows[_i].accepted);
        ck_assert_double_eq(c.now, d.accepted[1]);
        ck_assert_int_eq(c.n, at + 1 < 10 ? at + 1 : 10);
        ck_assert_int_ge(c.n - c.split, 3);
        ck_assert_double_eq(c.sample[c.n - 1], rows[_i].sample[at]);
    }
    luo_arena_free(a);
}
END_TEST

/* Pool entry (4,1) of the 7B model, the computed vectors: ms per token^2, per token, per
 * micro-batch. */
static double packed_work_s(const double *tokens, int n, int micro_batches)
{
    double ms = 56.6978 * micro_batches;
    for (int i = 0; i < n; i++)
        ms += 1.03043340e-06 * tokens[i] * tokens[i] + 5.64777342e-02 * tokens[i];
    return ms * 1e-3;
}

/* A rate is time over predicted work, of fixed and of packed lengths; steps of the same device with
 * other lengths are no trigger. */
START_TEST(normalised_by_work)
{
    static const double two[] = {9000, 4000, 3000, 2000, 1000, 600}, one[] = {1000, 600};
    luo_arena *a = luo_arena_new(4096);
    luo_detect d;
    const double nv1 = 16.448 / (20 * 32 * 0.010 * 1 * 1);
    const double w = packed_work_s(two, 6, 2), small = packed_work_s(one, 2, 1);
    ck_assert_double_eq_tol(nv1, 2.57, 1e-12);
    ck_assert_double_eq_tol(w, 1.3351083, 1e-7);
    ck_assert_double_eq_tol(3.4312282 / w, 2.57, 1e-6);
    ck_assert_int_eq(luo_detect_init(a, 2, 5, 0.3, &d, NULL), LUO_OK);
    for (int k = 0; k < 40; k++) {
        const double work = k % 3 ? w : small, slow = k < 20 ? 1 : 2.57;
        ck_assert(luo_detect_push(&d, 0, slow * work / work, NULL) == (k == 23));
        luo_detect_push(&d, 1, work / w, NULL); /* by a constant instead: see below */
    }
    ck_assert_double_eq_tol(d.accepted[0], 2.57, 1e-12);
    luo_arena_free(a);
}
END_TEST

START_TEST(window_starts_again)
{
    luo_arena *a = luo_arena_new(4096);
    luo_detect d;
    ck_assert_int_eq(luo_detect_init(a, 1, 4, 0.3, &d, NULL), LUO_OK);
    for (int i = 0; i < 1000; i++) ck_assert(!luo_detect_push(&d, 0, 1, NULL));
    for (int i = 0; i < 2; i++) ck_assert(!luo_detect_push(&d, 0, 1.5, NULL));
    luo_detect_forget(&d);
    for (int i = 0; i < 3; i++) ck_assert(!luo_detect_push(&d, 0, 1.5, NULL));
    ck_assert_double_eq(luo_detect_median(&d, 0), 1); /* not yet known: as accepted */
    ck_assert(!luo_detect_push(&d, 0, 1.7, NULL)); /* a candidate: even window, median 1.5 */
    ck_assert_double_eq(luo_detect_median(&d, 0), 1.5);
    luo_detect_forget(&d); /* forgotten with its samples */
    for (int i = 0; i < 4; i++) ck_assert(!luo_detect_push(&d, 0, 1.5, NULL));
    ck_assert(luo_detect_push(&d, 0, 1.6, NULL));
    ck_assert_double_eq(d.accepted[0], 1.5);
    luo_arena_free(a);
}
END_TEST

/* A failure needs no window, and its device comes back like any other. */
START_TEST(failure_at_once)
{
    luo_arena *a = luo_arena_new(4096);
    luo_detect d;
    luo_rate_change c;
    ck_assert_int_eq(luo_detect_init(a, 2, 5, 0.3, &d, NULL), LUO_OK);
    luo_detect_push(&d, 0, 1, NULL);
    ck_assert(luo_detect_push(&d, 0, INFINITY, &c));
    ck_assert_int_eq(c.n, 0);
    ck_assert_double_eq(c.was, 1);
    ck_assert(isinf(c.now) && isinf(d.accepted[0]));
    ck_assert(!luo_detect_push(&d, 0, INFINITY, &c)); /* no trigger */
    for (int i = 0; i < 5; i++) ck_assert(!luo_detect_push(&d, 0, 1.1, &c));
    ck_assert(luo_detect_push(&d, 0, 1.1, &c));
    ck_assert(isinf(c.was));
    ck_assert_double_eq(d.accepted[0], 1.1);
    luo_arena_free(a);
}
END_TEST

enum { MANY = 10 };
static const struct {
    int n;
    double q[MANY], x[MANY], common; /* x 0: 1 */
} common[] = {
    {7, {1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2}, {0}, 1}, /* too few to tell */
    {8, {1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2}, {0}, 1.2},
    {8, {.9, .9, .9, .9, .9, .9, .9, .9}, {0}, .9},
    {9, {1.1, 1.1, 1.1, 1.1, 1.1, 5, 5, 5, 5}, {0}, 1.1},
    {8, {1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 2.2}, {1, 1, 1, 1, 1, 1, 1, 2}, 1.1},
    {8, {2, 2, 2, 2, 2, 2, 2, 2}, {0}, 1.25},         /* the cluster is slow: that is seen */
    {8, {.5, .5, .5, .5, .5, .5, .5, .5}, {0}, .8},
    {8, {1, 1, 1, 1, 1.4, 1.4, 1.4, 1.4}, {0}, 1},    /* half cannot hide itself */
    {8, {1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 2.5, 2.5, 2.5, 2.5}, 1}, /* nor its recovery */
    {8, {1.1, 1.1, 1.1, 1.1, 1.2, 1.2, 1.2, 1.2}, {0}, 1.1},
    {10, {-1, 0, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2}, {0}, 1.2}, /* two ran nothing */
    {9, {-1, 0, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2}, {0}, 1},
};

START_TEST(common_mode)
{
    luo_arena *a = luo_arena_new(4096);
    luo_detect d;
    double q[MANY], scratch[MANY];
    int32_t dev[MANY];
    ck_assert_int_eq(luo_detect_init(a, MANY, 5, 0.3, &d, NULL), LUO_OK);
    const int n = common[_i].n;
    for (int i = 0; i < n; i++) { /* in any order, of any devices */
        const int k = (7 * i + 3) % n;
        dev[i] = MANY - 1 - i;
        q[i] = common[_i].q[n % 7 ? k : i];
        luo_detect_accept(&d, dev[i],
                          common[_i].x[n % 7 ? k : i] > 0 ? common[_i].x[n % 7 ? k : i] : 1);
    }
    ck_assert_double_eq(luo_detect_common(&d, dev, q, n, scratch), common[_i].common);
    luo_arena_free(a);
}
END_TEST

/* The way back from a small slowness is shorter than the gap. */
START_TEST(slow_by_less_than_the_gap)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_detect d;
    ck_assert_int_eq(luo_detect_init(a, 1, 5, 0.3, &d, NULL), LUO_OK);
    if (_i) d.slow = 1.2;
    luo_detect_accept(&d, 0, 1.25);
    for (int i = 0; i < 20; i++) ck_assert(!luo_detect_push(&d, 0, i % 2 ? 1.3 : 1.16, NULL));
    for (int i = 0; i < 20; i++) luo_detect_push(&d, 0, 1.01, NULL);
    ck_assert_double_eq_tol(d.accepted[0], _i ? 1.01 : 1.25, 1e-12);
    luo_arena_free(a);
}
END_TEST

START_TEST(drift_takes_five_steps)
{
    luo_drift drift = {0};
    for (int i = 0; i < 4; i++) ck_assert(!luo_drift_push(&drift, 1.1, 1, 1));
    ck_assert(!luo_drift_push(&drift, 1.09, 1.01, 1)); /* begins again */
    for (int i = 0; i < 4; i++) ck_assert(!luo_drift_push(&drift, 111, 100, 100));
    ck_assert(luo_drift_push(&drift, 111, 100, 100));
    ck_assert(!luo_drift_push(&drift, 111, 100, 100)); /* five more */
}
END_TEST
/* One device that was healthy and is slow counts at a fiftieth, what all do together at a tenth. */
START_TEST(drift_of_a_fresh_device)
{
    luo_drift drift = {0};
    for (int i = 0; i < 4; i++) ck_assert(!luo_drift_push(&drift, 1.03, 1.03, 1));
    ck_assert(luo_drift_push(&drift, 1.03, 1.03, 1));
    for (int i = 0; i < 20; i++) ck_assert(!luo_drift_push(&drift, 1.09, 1.01, 1));
}
END_TEST
LUO_SUITE("run.detect", LUO_T_N(detect_row, LUO_ROWS(rows)), LUO_T(normalised_by_work),
          LUO_T(window_starts_again), LUO_T(failure_at_once),
          LUO_T_N(common_mode, LUO_ROWS(common)), LUO_T_N(slow_by_less_than_the_gap, 2),
          LUO_T(drift_takes_five_steps), LUO_T(drift_of_a_fresh_device))
