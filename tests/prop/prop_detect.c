/* prop_detect.c: the detector against the rule of docs/planners.md#detection-of-a-change word by
 * word, and its bands under the noise models of that section. */
#include "core/run/health/detect.h"
#include "tests/check_main.h"
#include "tests/noise.h"
#include "tests/prop/prop.h"

/* ---- the slow twin: keeps all samples, sorts copies ---- */

enum { MOST = 400 };
typedef struct twin {
    int window, n, sign;
    double gap, x, all[MOST]; /* since the last accepted change */
} twin;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(const double *at, int n)
{
    double v[MOST];
    memcpy(v, at, (size_t)n * sizeof *v);
    qsort(v, (size_t)n, sizeof *v, ascending);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

static double off(const double *at, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += fabs(at[i] - middle(at, n));
    return sum;
}

static double estimate(const twin *t)
{
    const int n = t->n < 2 * t->window ? t->n : 2 * t->window;
    const double *at = t->all + t->n - n;
    int best = 1;
    for (int c = 2; c <= n - (t->window + 1) / 2; c++)
        if (off(at, c) + off(at + c, n - c) < off(at, best) + off(at + best, n - best)) best = c;
    return middle(at + best, n - best);
}

static bool twin_push(twin *t, double sample)
{
    const double gap = t->gap > 0.15 * t->x ? t->gap : 0.15 * t->x;
    t->all[t->n++] = sample;
    if (t->sign && t->sign * (sample - t->x) >= gap / 2) {
        t->x = estimate(t);
        t->n = t->sign = 0;
        return true;
    }
    t->sign = 0;
    if (t->n < t->window) return false;
    const double m = middle(t->all + t->n - t->window, t->window);
    if (fabs(m - t->x) >= gap) t->sign = m > t->x ? 1 : -1;
    return false;
}

static int met_changes, met_none, met_forgotten;

static void one_history(uint64_t seed)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 14);
    luo_detect d;
    twin t = {.window = 1 + (int)luo_rng_pick(&r, seed % 8 ? 8 : LUO_WINDOW_MAX), .x = 1};
    t.gap = luo_rng_u(&r) < 0.5 ? 0.3 : luo_rng_u(&r);
    const luo_noise noise = {0.03, 0.3 * luo_rng_u(&r), 0.1 * luo_rng_u(&r)};
    const bool coarse = luo_rng_u(&r) < 0.3; /* equal samples: ties */
    ck_assert_int_eq(luo_detect_init(a, 2, t.window, t.gap, &d, NULL), LUO_OK);
    double rate = 1;
    int changes = 0;
    for (int k = 0; k < 300; k++) {
        if (luo_rng_u(&r) < 0.03) rate = luo_rng_u(&r) < 0.5 ? 1 : 1 + 5 * luo_rng_u(&r);
        if (luo_rng_u(&r) < 0.005) {
            met_forgotten += t.sign != 0;
            t.n = t.sign = 0;
            luo_detect_forget(&d);
        }
        double s = luo_noise_sample(&r, &noise, rate);
        if (coarse) s = ceil(4 * s) / 4;
        luo_rate_change c;
        const double was = t.x;
        const bool want = twin_push(&t, s), got = luo_detect_push(&d, 1, s, &c);
        ck_assert_msg(want == got, "seed %llu step %d", (unsigned long long)seed, k);
        ck_assert_msg(fabs(t.x - d.accepted[1]) <= 1e-12 * t.x, "seed %llu step %d: %.17g, %.17g",
                      (unsigned long long)seed, k, d.accepted[1], t.x);
        if (got) ck_assert_double_eq(c.was, was);
        d.accepted[1] = t.x; /* no rounding adds up */
        changes += want;
    }
    met_changes += changes;
    met_none += changes == 0;
    luo_arena_free(a);
}

START_TEST(slow_twin)
{
    LUO_PROP_FOR(seed, 400) one_history(seed);
    if (getenv("LUO_CASES")) return;
    ck_assert_int_gt(met_changes, 1000);
    ck_assert_int_gt(met_none, 5);
    ck_assert_int_gt(met_forgotten, 5);
}
END_TEST

/* ---- bands ---- */

static luo_detect detector(luo_arena *a, int32_t devices)
{
    luo_detect d;
    ck_assert_int_eq(luo_detect_init(a, devices, 5, 0.3, &d, NULL), LUO_OK);
    return d;
}

/* False alarms per device-step over 3 million of them. */
START_TEST(false_alarms)
{
    enum { DEVICES = 1000 };
    const int steps = 3000 * (int)luo_prop_env("LUO_SCALE", 1);
    const luo_noise *noise = _i ? &luo_noise_2 : &luo_noise_1;
    luo_arena *a = luo_arena_new(1 << 20);
    luo_detect d = detector(a, DEVICES);
    luo_rng r = luo_rng_seed((uint64_t)_i + 11);
    int alarms = 0;
    for (int k = 0; k < steps; k++)
        for (int32_t i = 0; i < DEVICES; i++)
            if (luo_detect_push(&d, i, luo_noise_sample(&r, noise, 1), NULL)) {
                alarms++;
                luo_detect_accept(&d, i, 1);
            }
    const double each = alarms / ((double)DEVICES * steps);
    printf("N%d: %d false alarms in %d device-steps, %.2g each\n", _i + 1, alarms, DEVICES * steps,
           each);
    ck_assert_double_le(each, _i ? 1e-5 : 2e-6);
    luo_arena_free(a);
}
END_TEST

/* Jumps of devices that were healthy for ten steps, under N1; delay: steps from the jump until the
 * change is confirmed, the first slow step counted. */
static const struct {
    double rate;
    int median, within; /* steps; 0.99 of them within */
    double found;       /* least share within 40 steps */
} jumps[] = {
    {1.5, 4, 6, 1}, {2.57, 4, 6, 1}, {5.42, 4, 6, 1}, {12.53, 4, 6, 1}, {1.35, 5, 12, 0.99},
};

START_TEST(delays)
{
    enum { CASES = 4000, HEALTHY = 10, LOOK = 40 };
    luo_arena *a = luo_arena_new(1 << 20);
    luo_detect d = detector(a, CASES);
    luo_rng r = luo_rng_seed((uint64_t)_i + 21);
    int at[LOOK + 2] = {0}, found = 0, below = 0, middle_step = 0, close = 0;
    for (int32_t i = 0; i < CASES; i++) {
        int k = 0;
        luo_rate_change c = {0};
        for (int h = 0; h < HEALTHY; h++)
            luo_detect_push(&d, i, luo_noise_sample(&r, &luo_noise_1, 1), NULL);
        luo_detect_accept(&d, i, 1); /* a false alarm would count as found; then warm again */
        for (int h = 0; h < HEALTHY; h++)
            luo_detect_push(&d, i, luo_noise_sample(&r, &luo_noise_1, 1), NULL);
        while (k++ < LOOK)
            if (luo_detect_push(&d, i, luo_noise_sample(&r, &luo_noise_1, jumps[_i].rate), &c))
                break;
        at[k]++;
        found += k <= LOOK;
        close += k <= LOOK && fabs(c.now / jumps[_i].rate - 1) <= 0.10;
    }
    while (below * 2 < CASES) below += at[++middle_step];
    int early = 0;
    for (int k = 0; k <= jumps[_i].within; k++) early += at[k];
    printf("%.4g: median %d steps, %.4f within %d, %.4f found, %.3f of estimates within 10 %%\n",
           jumps[_i].rate, middle_step, early / (double)CASES, jumps[_i].within,
           found / (double)CASES, close / (double)CASES);
    ck_assert_int_eq(middle_step, jumps[_i].median);
    ck_assert_double_ge(early / (double)CASES, 0.99);
    ck_assert_double_ge(found / (double)CASES, jumps[_i].found);
    ck_assert_double_ge(close / (double)CASES, 0.95);
    luo_arena_free(a);
}
END_TEST

/* 1.2 is left alone in nearly all runs of 40 steps. */
START_TEST(left_alone)
{
    enum { CASES = 4000, LOOK = 40 };
    luo_arena *a = luo_arena_new(1 << 20);
    luo_detect d = detector(a, CASES);
    luo_rng r = luo_rng_seed(31);
    int left = 0;
    for (int32_t i = 0; i < CASES; i++) {
        bool seen = false;
        for (int k = 0; k < LOOK; k++)
            seen |= luo_detect_push(&d, i, luo_noise_sample(&r, &luo_noise_1, 1.2), NULL);
        left += !seen;
    }
    printf("1.2: left alone in %.3f of the runs\n", left / (double)CASES);
    ck_assert_double_ge(left / (double)CASES, 0.85);
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("prop.detect", LUO_T(slow_twin), LUO_T_N(false_alarms, 2),
          LUO_T_N(delays, LUO_ROWS(jumps)), LUO_T(left_alone))
