/* draws.h: random numbers that are reached in any order (docs/sync.md#random-numbers): of
 * `luoshu sync` and `embed` alone; scenarios use the streams of core/base/rng.h. */
#ifndef LUO_CORE_SYNC_DRAWS_H
#define LUO_CORE_SYNC_DRAWS_H
#include <stdint.h>

/* The mixer of SplitMix64: one well-stirred number of another. */
uint64_t luo_draw_mix(uint64_t x);
/* Draw k of worker w, in [0, 1): 53 bits of mix(mix(mix(seed) + w) + k). See: RN1,
 * tests/unit/check_sync.c. */
double luo_draw_u(uint64_t seed, uint64_t worker, uint64_t k);
#endif
