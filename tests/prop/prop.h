/* prop.h: seeded random cases.
 *
 *   LUO_PROP_FOR(seed, 2000) { luo_rng rng = luo_rng_seed(seed); ... }
 * LUO_SEED=n LUO_CASES=1 in the environment replays one case; LUO_CASES alone sets the number, and
 * LUO_SCALE multiplies it (make check-all). The range of seeds is printed, so that a failure can
 * be named. */
#ifndef LUO_TESTS_PROP_PROP_H
#define LUO_TESTS_PROP_PROP_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/rng.h"

static inline uint64_t luo_prop_env(const char *name, uint64_t otherwise)
{
    const char *v = getenv(name);
    return v && *v ? strtoull(v, NULL, 10) : otherwise;
}

static inline uint64_t luo_prop_first(void)
{
    return luo_prop_env("LUO_SEED", 1);
}

static inline uint64_t luo_prop_count(uint64_t cases)
{
    const uint64_t n = luo_prop_env("LUO_CASES", cases * luo_prop_env("LUO_SCALE", 1));
    printf("seeds %llu..%llu\n", (unsigned long long)luo_prop_first(),
           (unsigned long long)(luo_prop_first() + n - 1));
    fflush(stdout);
    return n;
}

#define LUO_PROP_FOR(seed, cases)                                                        \
    for (uint64_t seed = luo_prop_first(), seed##_end = seed + luo_prop_count(cases);    \
         seed < seed##_end; seed++)
#endif
