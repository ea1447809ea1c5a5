#include "core/base/rng.h"

#include <math.h>

#include "core/base/hash.h"

luo_rng luo_rng_stream(uint64_t seed, const char *name)
{
    const uint64_t key = seed ^ luo_hash_str(LUO_HASH_EMPTY, name);
    luo_rng rng;
    for (uint64_t i = 0; i < 4; i++) rng.s[i] = luo_rng_at(key, i);
    return rng;
}

luo_rng luo_rng_seed(uint64_t seed)
{
    return luo_rng_stream(seed, "");
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t luo_rng_next(luo_rng *rng)
{
    uint64_t *s = rng->s;
    const uint64_t out = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

double luo_rng_u_of(uint64_t x)
{
    return (double)(x >> 11) * 0x1p-53;
}

double luo_rng_u(luo_rng *rng)
{
    return luo_rng_u_of(luo_rng_next(rng));
}

int64_t luo_rng_pick(luo_rng *rng, int64_t n)
{
    return (int64_t)floor(luo_rng_u(rng) * (double)n);
}

double luo_rng_exponential_of(double u, double mean)
{
    return -mean * log1p(-u);
}

double luo_rng_weibull_of(double u, double mean, double shape)
{
    return mean / tgamma(1 + 1 / shape) * pow(-log1p(-u), 1 / shape);
}

double luo_rng_normal_of(double u1, double u2)
{
    return sqrt(-2 * log1p(-u1)) * cos(2 * 3.14159265358979323846 * u2);
}

double luo_rng_normal(luo_rng *rng)
{
    const double u1 = luo_rng_u(rng), u2 = luo_rng_u(rng);
    return luo_rng_normal_of(u1, u2);
}
