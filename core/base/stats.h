/* stats.h: how far predictions are from measurements, over a set of cases. */
#ifndef LUO_CORE_BASE_STATS_H
#define LUO_CORE_BASE_STATS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

/* Of error = predicted / measured - 1; quantiles by linear interpolation at (n-1)p. */
typedef struct luo_errors {
    int32_t n;
    double mean, median, p90, largest; /* of |error| */
    double bias;                       /* mean of error */
    double spearman;
    bool ranked; /* spearman exists: n >= 3 and neither side is constant */
} luo_errors;

/* Pre: measured > 0. All zero for n = 0. Errors: LUO_ENOMEM. Cost: O(n log n). */
luo_status luo_errors_of(luo_arena *scratch, const double *predicted, const double *measured,
                         int32_t n, luo_errors *out, luo_err *err);
/* Rank correlation: mean ranks for ties, Pearson of the ranks. *exists: n >= 3 and neither side is
 * constant. Errors: LUO_ENOMEM. */
luo_status luo_stats_spearman(luo_arena *scratch, const double *x, const double *y, int32_t n,
                              double *out, bool *exists, luo_err *err);
/* Student's t with df degrees of freedom: P(|T| <= t), t >= 0, by the finite sums of Abramowitz and
 * Stegun 26.7.3 and 26.7.4, exact but for rounding; and the t at which that is `level`.
 * Pre: df >= 1, 0 < level < 1. See: tests/unit/check_stats.c. */
double luo_stats_student_within(int32_t df, double t);
double luo_stats_student_width(int32_t df, double level);

/* The mean of n values that are drawn alike, and the interval in which Student's t has the mean of
 * what they are drawn from with probability `level`. */
typedef struct luo_interval {
    int32_t n;
    double mean, low, high; /* NAN: n < 1; n < 2 */
    double p; /* of a mean so far from 0, were the true one 0; two-sided; NAN: n < 2 */
} luo_interval;
luo_interval luo_interval_of_mean(const double *x, int32_t n, double level);
void luo_stats_sort(double *values, int64_t n);
/* Quantile p of n values that ascend, by linear interpolation at (n-1)p. Pre: n > 0. */
double luo_stats_quantile(const double *ascending, int64_t n, double p);
/* Sorts in place and returns the median. Pre: n > 0. */
double luo_stats_median(double *values, int32_t n);
#endif
