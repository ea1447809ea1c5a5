/* prop.h: seeded random cases.
 *
 *   LUO_PROP_FOR(seed, 2000) { luo_rng rng = luo_rng_seed(seed); ... }
 * LUO_SEED=n LUO_CASES=1 in the environment replays one case; LUO_CASES alone sets the number, and
 * LUO_SCALE multiplies it (make check-all). What takes long has a smaller number for make check,
 * where LUO_SCALE is 1: luo_prop_few. The range of seeds is printed, so that a failure can be
 * named. */
#ifndef LUO_TESTS_PROP_PROP_H
#define LUO_TESTS_PROP_PROP_H
#include <stdbool.h>
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

/* Everything is wanted, as in make check-all: whatever make check leaves out to be short. */
static inline bool luo_prop_whole(void)
{
    return luo_prop_env("LUO_SCALE", 1) > 1;
}

/* Cases of one scale: few in make check, all in make check-all. */
static inline uint64_t luo_prop_few(uint64_t few, uint64_t all)
{
    return luo_prop_whole() ? all : few;
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
