/* spread.h: how far the constants of the cost model may be from the truth, and the range of a
 * predicted time that follows from it (docs/cost-model.md#ranges).
 *
 * The logarithm of a predicted time has the variance source^2 + model^2 + sum over constants of
 * (sensitivity * spread)^2. source is what differs between measured sources, model what the model
 * itself is off by; both are values of the stack. */
#ifndef LUO_CORE_COST_SPREAD_H
#define LUO_CORE_COST_SPREAD_H
#include "core/base/rng.h"
#include "core/base/str.h"
#include "core/cost/cluster.h"

/* Standard deviations of ln(value) where a file gives none: priors, not measurements. */
#define LUO_SPREAD_MEASURED 0.05
#define LUO_SPREAD_FITTED 0.15
#define LUO_SPREAD_DEFAULT 0.30 /* any other provenance, and values that no file gives */
#define LUO_SPREAD_MOST 2.0     /* that a file may give */
/* A standard normal is between -x and x in 80 of 100 draws; below y in 80 of 100. */
#define LUO_RANGE_SDS 1.2816
#define LUO_DIFFERS_SDS 0.8416

typedef struct luo_constant {   /* of the cost model */
    const char *name;           /* as in `values` */
    const char *also;           /* a second value that moves with it; NULL: none */
    const luo_profile *profile; /* of this GPU type; NULL: of the stack */
    const char *origin;         /* `default`, or how the file came to it: "fitted" */
    double spread;              /* standard deviation of ln(value); above 0 */
} luo_constant;

typedef struct luo_constants { /* of a cluster under a stack */
    const luo_cluster *cluster;
    const luo_stack *stack;
    int32_t n;
    const luo_constant *at; /* by GPU type in the order of groups, then the stack's */
} luo_constants;

/* May value `name` of a profile or of a stack have a `spread`? Those that no time depends on
 * may not. */
bool luo_spread_allowed(const char *name, bool of_stack);
/* The error of those, as "`spread` of `NAME` ..". Returns LUO_EINPUT. */
luo_status luo_spread_refuse(const char *name, luo_err *err);
/* Constants whose spread is above 0. Owner: arena; cluster and stack are kept. Errors: LUO_ENOMEM.
 * Cost: O(groups^2 + values). */
luo_status luo_constants_of(luo_arena *arena, const luo_cluster *cluster, const luo_stack *stack,
                            luo_constants *out, luo_err *err);
/* Cluster and stack with ln(value) of constant i greater by shift[i], as far as the limits of the
 * value let it. taken: by how much it is; NULL: not wanted. A value of 0 stays. Owner: arena, and
 * what constants points to. Errors: LUO_ENOMEM. */
luo_status luo_constants_move(luo_arena *arena, const luo_constants *constants, const double *shift,
                              luo_cluster *cluster, luo_stack *stack, double *taken, luo_err *err);

/* Seconds of what is predicted, on a cluster and a stack whose constants were moved. scratch: given
 * back after the call. */
typedef struct luo_prediction {
    luo_status (*seconds)(void *ctx, luo_arena *scratch, const luo_cluster *cluster,
                          const luo_stack *stack, double *seconds, luo_err *err);
    void *ctx;
} luo_prediction;

typedef struct luo_range_part { /* of a constant */
    const char *name, *of;      /* of: GPU type; "": the stack */
    const char *origin;         /* as in luo_constant */
    double spread, sensitivity; /* d ln(seconds) / d ln(value) */
} luo_range_part;
typedef struct luo_time_range {
    const char *cluster, *stack; /* names: sources are common where they are equal */
    double source, model;        /* standard deviations of ln(seconds) */
    double sd;                   /* of all together */
    int32_t n;
    const luo_range_part *part; /* in the order of luo_constants */
} luo_time_range;

/* Sensitivities by differences: ln(value) 0.1 less or more, whichever makes the time longer. Of
 * constants that together move it by less than 0.3 % at their spreads, 0. Errors: those of the
 * prediction; LUO_ENOMEM. Owner: arena. Cost: a prediction for each constant that matters in
 * most steps, one for all others of a GPU type or the stack together, at most two for each. See:
 * tests/prop/prop_spread.c. */
luo_status luo_time_range_of(luo_arena *arena, const luo_constants *constants,
                             const luo_prediction *prediction, luo_time_range *out, luo_err *err);
/* Fills sd from the rest. */
void luo_time_range_settle(luo_time_range *range);
/* Ends of the central 80 % of a predicted time. */
double luo_time_range_low(const luo_time_range *range, double seconds);
double luo_time_range_high(const luo_time_range *range, double seconds);

/* What is common to a pair of predictions cancels. share: of the predicted time, how much depends
 * on the constants, 1 for a step; what a scenario gives does not. same: both run one program, and
 * the model errs alike. Returns the standard deviation of ln(a / b). */
double luo_time_range_pair_sd(const luo_time_range *a, double share_a, const luo_time_range *b,
                              double share_b, bool same);
/* Would 80 of 100 pairs have the sign of ln(ratio)? */
bool luo_time_range_differs(double ln_ratio, double sd);

/* n predictions with all constants drawn, each from a stream of its own, so that draw i of a
 * constant is the same for every plan; then one draw of the source and one of the model. out[n] in
 * the order of draws. Errors: as luo_time_range_of. Cost: n predictions. */
luo_status luo_spread_draws(luo_arena *arena, const luo_constants *constants,
                            const luo_prediction *prediction, uint64_t seed, int32_t n, double *out,
                            luo_err *err);

/* "2.1 to 2.9" */
void luo_time_range_say(luo_str *text, const luo_time_range *range, double seconds);
/* "of it: source 10 %, gemm_ratio of h100 (default) 9 %, model 6 %": the largest three, as standard
 * deviations of ln(seconds); "" if there is none. */
void luo_time_range_say_parts(luo_str *text, const luo_time_range *range);
/* Names of GPU types, and of the stack, none of whose constants is fitted or measured, as
 * "profile `h800` and stack `luoshu-cuda`"; "": there are none. CPUs have no such constants. */
void luo_time_range_say_unfitted(luo_str *text, const luo_cluster *cluster, const luo_stack *stack);
#endif
