/* rng.h: xoshiro256** in named streams (docs/formats.md#random-numbers).
 * One stream per purpose, so that adding an event changes no other draw. */
#ifndef LUO_CORE_BASE_RNG_H
#define LUO_CORE_BASE_RNG_H
#include <stdint.h>

typedef struct luo_rng {
    uint64_t s[4];
} luo_rng;

luo_rng luo_rng_stream(uint64_t seed, const char *name);
luo_rng luo_rng_seed(uint64_t seed); /* the stream named "" */
uint64_t luo_rng_next(luo_rng *rng);
/* Output i of SplitMix64 started at key: draws that are reached in any order. Kernels of GPUs call
 * it, too. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline uint64_t
    luo_rng_at(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
double luo_rng_u_of(uint64_t x);                               /* [0, 1), of 64 bits */
double luo_rng_u(luo_rng *rng);                                /* [0, 1) */
int64_t luo_rng_pick(luo_rng *rng, int64_t n);                 /* 0..n-1; Pre: n >= 1 */
double luo_rng_normal(luo_rng *rng);                           /* two draws, none kept */
/* From given uniforms, so that draws can be made ahead of their use. */
double luo_rng_exponential_of(double u, double mean);
double luo_rng_weibull_of(double u, double mean, double shape);
double luo_rng_normal_of(double u1, double u2);
#endif
