#include "core/sync/draws.h"

#include "core/base/rng.h"

uint64_t luo_draw_mix(uint64_t x)
{
    return luo_rng_at(x, 0);
}

double luo_draw_u(uint64_t seed, uint64_t worker, uint64_t k)
{
    return (double)(luo_draw_mix(luo_draw_mix(luo_draw_mix(seed) + worker) + k) >> 11) * 0x1p-53;
}
