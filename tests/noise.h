/* noise.h: noise models for tests and curves of the detector.
 *
 * A sample is rate * exp(first * N) * exp(second * N'), and with probability `hiccup` times
 * U(1.5, 4). N1: second 0.05; N2: second 0.10. Synthetic: no machine was measured. */
#ifndef LUO_TESTS_NOISE_H
#define LUO_TESTS_NOISE_H
#include <math.h>

#include "core/base/rng.h"

typedef struct luo_noise {
    double first, second, hiccup;
} luo_noise;
static const luo_noise luo_noise_1 = {0.03, 0.05, 0.01}, luo_noise_2 = {0.03, 0.10, 0.01};

static inline double luo_noise_sample(luo_rng *r, const luo_noise *n, double rate)
{
    const double first = luo_rng_normal(r), second = luo_rng_normal(r);
    const double s = rate * exp(n->first * first + n->second * second);
    return luo_rng_u(r) < n->hiccup ? s * (1.5 + 2.5 * luo_rng_u(r)) : s;
}
#endif
