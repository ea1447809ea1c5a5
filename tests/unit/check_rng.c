/* check_rng.c: V-H1, V-R1, V-R2, V-R3 of the conventions. */
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "tests/check_main.h"

START_TEST(fnv)
{
    ck_assert_uint_eq(luo_hash_str(LUO_HASH_EMPTY, ""), 0xcbf29ce484222325u);
    ck_assert_uint_eq(luo_hash_str(LUO_HASH_EMPTY, "a"), 0xaf63dc4c8601ec8cu);
    ck_assert_uint_eq(luo_hash_str(LUO_HASH_EMPTY, "gpu-faults#0"), 0x30563c814e2c219eu);
}
END_TEST

START_TEST(stream)
{
    luo_rng r = luo_rng_stream(7, "gpu-faults#0");
    ck_assert_uint_eq(luo_rng_next(&r), 0x4c4372981a712f36u);
    ck_assert_uint_eq(luo_rng_next(&r), 0xa6137009227f64d7u);
    ck_assert_uint_eq(luo_rng_next(&r), 0xea169ab0d7291bacu);
    r = luo_rng_stream(7, "gpu-faults#0");
    ck_assert_double_eq(luo_rng_u(&r), 0.2979041692109986);
}
END_TEST

/* A stream's state is four such outputs, one after another. */
START_TEST(any_order)
{
    const luo_rng r = luo_rng_stream(7, "slow");
    const uint64_t key = 7 ^ luo_hash_str(LUO_HASH_EMPTY, "slow");
    for (uint64_t i = 4; i-- > 0;) ck_assert_uint_eq(luo_rng_at(key, i), r.s[i]);
}
END_TEST

START_TEST(laws)
{
    static const double exps[] = {1273.267343440, 3766.362399947, 8849.363787464};
    luo_rng r = luo_rng_stream(7, "gpu-faults#0");
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(luo_rng_exponential_of(luo_rng_u(&r), 3600), exps[i], 1e-8);
    r = luo_rng_stream(7, "gpu-faults#0");
    ck_assert_double_eq_tol(luo_rng_weibull_of(luo_rng_u(&r), 3600, 0.7), 644.312608262, 1e-8);
    ck_assert_double_eq_tol(luo_rng_weibull_of(luo_rng_u(&r), 3600, 0.7), 3033.593265000, 1e-8);
    r = luo_rng_stream(7, "gpu-faults#0");
    ck_assert_double_eq_tol(luo_rng_normal(&r), -0.499755119233, 1e-11);
    ck_assert_double_eq_tol(luo_rng_normal(&r), -1.347124084049, 1e-11);
    r = luo_rng_stream(7, "slow");
    ck_assert_double_eq(luo_rng_u(&r), 0.6219255480954744);
    ck_assert_double_eq(luo_rng_u(&r), 0.079294505447564667);
    ck_assert_double_eq(luo_rng_u(&r), 0.90197979453247967);
    r = luo_rng_stream(7, "slow");
    ck_assert_double_eq_tol(luo_rng_normal(&r), 1.225195431980, 1e-11);
}
END_TEST
LUO_SUITE("base.rng", LUO_T(fnv), LUO_T(stream), LUO_T(any_order), LUO_T(laws))
