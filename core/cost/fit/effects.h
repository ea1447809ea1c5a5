/* effects.h: constants from measurements of several sources
 * (docs/calibration.md#many-sources-at-once).
 *
 * A measured time is predicted(constants) * effect of its source * noise. Of logarithms:
 *   sum over rows       weight * ((predicted + effect - measured) / noise)^2
 *   + sum over constants ((value - prior) / width)^2 + sum over sources (effect / between)^2
 * becomes least. A constant's prior is a number, or another constant plus a number: so types of GPU
 * hang on their architecture, and one without rows inherits from it. */
#ifndef LUO_CORE_COST_FIT_EFFECTS_H
#define LUO_CORE_COST_FIT_EFFECTS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef struct luo_effects_constant { /* all numbers are logarithms */
    double prior, width;              /* standard deviation; Pre: width > 0 */
    int32_t parent; /* its value is added to `prior`; -1: none. Pre: below the own number */
    double lo, hi;
} luo_effects_constant;
enum { LUO_EFFECTS_USES = 64 };
typedef struct luo_effects_row {
    int32_t source;
    double measured;     /* logarithm */
    double weight;       /* less than 1 where a source has many rows; their noise is the same */
    const int32_t *uses; /* constants that move its prediction .. */
    int32_t nuses;       /* .. so many. Pre: at most LUO_EFFECTS_USES */
} luo_effects_row;
/* Logarithm of the prediction of a row at these values. */
typedef luo_status (*luo_effects_predict_fn)(void *ctx, const double *values, int32_t row,
                                             double *predicted, luo_err *err);
typedef struct luo_effects {
    const luo_effects_constant *constant;
    const luo_effects_row *row;
    int32_t nconstants, nrows, nsources;
    luo_effects_predict_fn predict;
    void *ctx;
} luo_effects;
typedef enum luo_effects_state {
    LUO_EFFECTS_FITTED,
    LUO_EFFECTS_BOUND, /* its fit ended at a bound: it keeps its prior */
    LUO_EFFECTS_PRIOR /* the rows move it by less than a tenth of its width, and take less than that
                         off its standard deviation: it keeps its prior */
} luo_effects_state;
typedef struct luo_effects_result {
    double *value, *spread; /* per constant: where it is, its standard deviation given the rows */
    luo_effects_state *state;
    int32_t *rows, *sources;  /* per constant: how many use it or one that hangs on it */
    double *effect;           /* per source */
    double noise, between;    /* standard deviations of a row, and between sources */
    int32_t n;                /* constants and effects */
    const double *covariance; /* n * n; constants come first */
    double error, bias;       /* weighted mean of |e^residual - 1| over rows, effects left out; the
                                 same without || */
} luo_effects_result;
/* Gauss and Newton's steps; noise and between by expectation and maximisation, so that `between`
 * counts what the constants leave of a source's mean (restricted likelihood).
 * Errors: those of predict; LUO_EINPUT no row, or a prediction that is no number; LUO_ENOMEM.
 * Owner: arena. Cost: about 20 * (rows * constants each uses) predictions and 20 * (constants +
 * sources)^3. Source: Searle, Casella, McCulloch, Variance Components, ch. 8. See:
 * tests/prop/prop_effects.c */
luo_status luo_effects_fit(luo_arena *arena, const luo_effects *pool, luo_effects_result *out,
                           luo_err *err);
/* Covariance of constants i and k; of one that was held, as if alone and at its prior. */
double luo_effects_covariance(const luo_effects_result *pooled, int32_t i, int32_t k);
/* Half the width of the interval that holds the middle 80 % of a normal distribution, in standard
 * deviations. */
#define LUO_EFFECTS_MIDDLE80 1.2815515655446004
#endif
