/* check_math.c: exp, sigmoid, sine and cosine of the kernels against the C library, seen
 * through the kernels that use them. Errors in units of the last place. */
#include <float.h>
#include <math.h>

#include "exec/bind/kernels.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { MANY = 1000 };
typedef union numbers {
    float f32[MANY];
    double f64[MANY];
} numbers;

static const luo_kernels *const tables[] = {&luo_kernels_f32, &luo_kernels_f64};

static double get(const luo_kernels *k, const numbers *x, int i)
{
    return k->elem == sizeof(float) ? (double)x->f32[i] : x->f64[i];
}
static double set(const luo_kernels *k, numbers *x, int i, double v)
{
    if (k->elem == sizeof(float))
        x->f32[i] = (float)v;
    else
        x->f64[i] = v;
    return get(k, x, i);
}
static double ulps(const luo_kernels *k, double got, double want)
{
    return fabs(got - want) / fabs(want) / (k->elem == sizeof(float) ? FLT_EPSILON : DBL_EPSILON);
}

START_TEST(exp_is_close)
{
    const luo_kernels *k = tables[_i];
    const double low = _i == 0 ? -87.33 : -708.39, high = _i == 0 ? 88.37 : 709.43;
    LUO_PROP_FOR(seed, 300)
    {
        static numbers x, y, max, sum;
        luo_rng rng = luo_rng_seed(seed);
        for (int i = 0; i < MANY; i++)
            set(k, &x, i, seed % 2 ? low + (high - low) * luo_rng_u(&rng) : luo_rng_u(&rng) - 0.5);
        set(k, &max, 0, 0);
        k->row_sum(1, MANY, MANY, &x, &max, &sum, &y, 0);
        for (int i = 0; i < MANY; i++) {
            const double error = ulps(k, get(k, &y, i), exp(get(k, &x, i)));
            ck_assert_msg(error <= 2, "exp(%.17g) is %.1f units off", get(k, &x, i), error);
        }
    }
}
END_TEST

START_TEST(exp_at_the_ends)
{
    const luo_kernels *k = tables[_i];
    static numbers x, y, max, sum;
    const double in[] = {0,          -0.0, -100000, -(double)INFINITY, 100000, (double)INFINITY,
                         (double)NAN};
    const double out[] = {1, 1, 0, 0, (double)INFINITY, (double)INFINITY, (double)NAN};
    for (int i = 0; i < 7; i++) set(k, &x, i, in[i]);
    set(k, &max, 0, 0);
    k->row_sum(1, 7, 7, &x, &max, &sum, &y, 0);
    for (int i = 0; i < 7; i++)
        ck_assert(isnan(out[i]) ? isnan(get(k, &y, i)) : get(k, &y, i) == out[i]);
}
END_TEST

START_TEST(sigmoid_is_close) /* silu(x) = x sigmoid(x) */
{
    const luo_kernels *k = tables[_i];
    LUO_PROP_FOR(seed, 100)
    {
        static numbers x, one, y, kept;
        luo_rng rng = luo_rng_seed(seed);
        for (int i = 0; i < MANY; i++) {
            set(k, &x, i, (luo_rng_u(&rng) - 0.5) * (seed % 2 ? 160 : 4));
            set(k, &one, i, 1);
        }
        k->swiglu(MANY, &x, &one, &y, &kept);
        for (int i = 0; i < MANY; i++) {
            const long double v = get(k, &x, i);
            const double error = ulps(k, get(k, &kept, i), (double)(v / (1 + expl(-v))));
            ck_assert_msg(error <= 4, "silu(%.17g) is %.1f units off", (double)v, error);
            ck_assert(get(k, &y, i) == get(k, &kept, i));
        }
    }
}
END_TEST

/* Pairs (1, 0) turn to (cos, sin). Base 1: the angle is the position, up to the largest one. */
START_TEST(sine_is_close)
{
    const luo_kernels *k = tables[_i];
    LUO_PROP_FOR(seed, 300)
    {
        static numbers x, y;
        static int32_t positions[MANY / 2];
        luo_rng rng = luo_rng_seed(seed);
        for (int i = 0; i < MANY / 2; i++) {
            positions[i] = (int32_t)luo_rng_pick(&rng, seed % 2 ? 100000 : INT32_MAX);
            set(k, &x, 2 * i, 1);
            set(k, &x, 2 * i + 1, 0);
        }
        k->rope(MANY / 2, 1, 2, (luo_turns){.base = 1}, false, positions, &x, &y);
        for (int i = 0; i < MANY / 2; i++) {
            const double c = ulps(k, get(k, &y, 2 * i), cos(positions[i]));
            const double s = positions[i] ? ulps(k, get(k, &y, 2 * i + 1), sin(positions[i])) : 0;
            ck_assert_msg(c <= 3 && s <= 3, "position %d: cosine is %.1f units off, sine %.1f",
                          positions[i], c, s);
        }
    }
}
END_TEST

LUO_SUITE("exec.math", LUO_T_N(exp_is_close, 2), LUO_T_N(exp_at_the_ends, 2),
          LUO_T_N(sigmoid_is_close, 2), LUO_T_N(sine_is_close, 2))
