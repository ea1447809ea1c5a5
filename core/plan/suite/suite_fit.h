/* suite_fit.h: constants of a profile and a stack from published steps. Pure: the same
 * rows and seed give the same constants. What is fitted is the closed form. */
#ifndef LUO_CORE_PLAN_SUITE_SUITE_FIT_H
#define LUO_CORE_PLAN_SUITE_SUITE_FIT_H
#include "core/cost/fit/search.h"
#include "core/plan/suite/suite.h"

/* Constants that can be fitted, of profiles and of stacks. */
typedef struct luo_suite_param {
    const char *name, *key; /* key: as the file has it */
    bool of_stack;
    double otherwise, lo, hi;
    bool logarithmic;
} luo_suite_param;
const luo_suite_param *luo_suite_param_of(const char *name); /* NULL: there is none */

typedef struct luo_suite_fit {
    const luo_case *const *cases; /* what the objective sees: calibration rows alone */
    int32_t ncases;
    luo_profile *const *profiles; /* what is changed; those of the cases are among them */
    luo_stack *const *stacks;
    int32_t nprofiles, nstacks;
    const luo_suite_param *const *params;
    int32_t nparams; /* at most LUO_SEARCH_PARAMS */
    uint64_t seed;
} luo_suite_fit;

typedef struct luo_suite_fitted {
    double value[LUO_SEARCH_PARAMS]; /* in the unit of the name */
    bool weak[LUO_SEARCH_PARAMS];    /* the rows do not tell it */
    double objective;
} luo_suite_fitted;

/* Minimises the mean over strata (part of a suite; one node or several) of mean |ln(predicted /
 * measured)| by the pattern search; profiles and stacks keep the result. Rows without a measured
 * step do not count. Errors: LUO_EINPUT fewer rows than parameters; a constant that stacks do
 * not have; LUO_ENOMEM. Cost: O(6000 * rows * closed form). */
luo_status luo_suite_fit_run(luo_arena *scratch, const luo_suite_fit *fit, luo_suite_fitted *out,
                             luo_err *err);
/* Sets one constant everywhere. Errors: those of luo_stack_set. */
luo_status luo_suite_fit_set(const luo_suite_fit *fit, const luo_suite_param *param, double value,
                             luo_err *err);

/* How what is fitted on a suite is named: the stack as the system of its rows, or as that system at
 * this site or on this GPU, and the profile as its GPU under that system, at that site. Of vtrain,
 * the profile is that of the GPU itself. */
typedef enum luo_suite_naming {
    LUO_NAMED_SYSTEM,
    LUO_NAMED_SYSTEM_SUITE,
    LUO_NAMED_SYSTEM_GPU
} luo_suite_naming;

/* What is fitted on a suite unless one says otherwise; stages in order, later ones keep what
 * earlier ones found. The shipped constants come from it. */
typedef struct luo_suite_recipe {
    const char *suite; /* as rows have it */
    luo_suite_naming naming;
    bool of_gpu; /* the profile is the GPU's own */
    struct luo_suite_stage {
        bool one_node, several; /* rows it looks at */
        const char *params;     /* joined by commas; NULL: no more stages */
    } stage[3];
} luo_suite_recipe;
/* NULL: nothing is fitted on it. */
const luo_suite_recipe *luo_suite_recipe_of(const char *suite);
#endif
