/* search.h: the pattern search of calibration (docs/calibration.md#what-is-fitted-on-what). */
#ifndef LUO_CORE_COST_FIT_SEARCH_H
#define LUO_CORE_COST_FIT_SEARCH_H
#include <stdbool.h>
#include <stdint.h>

typedef struct luo_search_param {
    const char *name;
    double otherwise, lo, hi; /* lo = hi: it is given, not searched */
    bool logarithmic;         /* steps are factors; Pre: lo > 0 */
} luo_search_param;

/* What is to become small at these values; never a NaN, INFINITY where they are not possible. */
typedef double (*luo_objective_fn)(void *ctx, const double *values);

enum { LUO_SEARCH_PARAMS = 12 };

/* Starts from the defaults and from three points drawn from the streams `calibrate#1` .. of the
 * seed; tries + then - of every parameter in turn, keeps what is better by over 1e-9, halves the
 * step (0.25 of the range) after a round without, until it is below 1e-3 or 1,500 evaluations of a
 * start are spent. The best start wins, the lower one among equals. Returns the objective. Pre: n
 * <= LUO_SEARCH_PARAMS. The same input and seed give the same values, bit by bit. */
double luo_search_pattern(const luo_search_param *param, int32_t n, uint64_t seed,
                          luo_objective_fn objective, void *ctx, double *values);

/* True if the rows do not tell parameter i: 20 % up and down (inside its bounds) change the
 * objective by under 2 %. Then, if the default is no worse than 1 %, it takes the place of
 * values[i]. False for one that was given. */
bool luo_search_weak(const luo_search_param *param, int32_t n, int32_t i,
                     luo_objective_fn objective, void *ctx, double *values);
#endif
