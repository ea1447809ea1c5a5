/* suite_effects.h: constants of GPU types and of software from published steps of many sources at
 * once (docs/calibration.md#many-sources-at-once; specs: accuracy 22). Pure. */
#ifndef LUO_CORE_PLAN_SUITE_SUITE_EFFECTS_H
#define LUO_CORE_PLAN_SUITE_SUITE_EFFECTS_H
#include "core/cost/fit/effects.h"
#include "core/plan/suite/suite.h"

/* What rows share: a GPU type at a precision, a software. Constants in `at` are changed. */
typedef struct luo_effects_gpu {
    const char *name; /* of the profile */
    luo_profile *at;
} luo_effects_gpu;
typedef struct luo_effects_software {
    const char *name; /* of the stack */
    luo_stack *at;
} luo_effects_software;
typedef struct luo_suite_effects {
    const luo_case *const *cases;
    const luo_case *const *left; /* cases that are not fitted on, and get a spread */
    const luo_effects_gpu *gpus;
    const luo_effects_software *software;
    int32_t ncases, nleft, ngpus, nsoftware;
} luo_suite_effects;

/* Of what a constant is, from the widest to the narrowest. */
typedef enum luo_effects_level {
    LUO_EFFECTS_ALL, /* all GPU types */
    LUO_EFFECTS_ARCHITECTURE,
    LUO_EFFECTS_GPU,
    LUO_EFFECTS_SOFTWARE
} luo_effects_level;
typedef struct luo_effects_named {
    luo_effects_level level;
    const char *of, *key; /* "hopper", "gemm_ratio"; key: as profile or stack has it */
    double value, prior;  /* in the unit of the key */
    double spread;        /* standard deviation of the logarithm */
    luo_effects_state state;
    int32_t rows, sources;
} luo_effects_named;
typedef struct luo_suite_effects_result {
    luo_effects_named *constant;
    int32_t n;
    const char **source; /* names of suites .. */
    double *effect;      /* .. and their effects: what the constants leave of each, a logarithm */
    int32_t nsources, nrows;
    double noise, between, error, bias;
    double *left_spread; /* of each case that was left out: standard deviation of the logarithm of
                            its step, by constants, source and noise; NAN: it has no closed form */
} luo_suite_effects_result;
/* Fits on the closed form of all cases that have one and a measured step, of one GPU type, without
 * cut sequences or experts, unless their note takes them out of fits. Profiles and stacks keep the
 * result, GPU types without rows what they inherit. Rows of one source weigh together at most like
 * 20. Errors: those of luo_effects_fit and luo_case_closed. Owner: arena. Cost: as luo_effects_fit,
 * and two closed forms for each constant of a case that was left out. */
luo_status luo_suite_effects_fit(luo_arena *arena, const luo_suite_effects *pool,
                                 luo_suite_effects_result *out, luo_err *err);
/* The architecture of a GPU type of ours ("h100": "hopper"); NULL: not known. */
const char *luo_effects_architecture(const char *profile);
#endif
