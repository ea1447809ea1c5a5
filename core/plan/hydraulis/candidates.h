/* candidates.h: the plans among which every step chooses: proposals of both modes, and mixed plans
 * that do well on sample batches (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_HYDRAULIS_CANDIDATES_H
#define LUO_CORE_PLAN_HYDRAULIS_CANDIDATES_H
#include "core/plan/hydraulis/propose.h"
#include "core/plan/hydraulis/step.h"

enum { LUO_CANDIDATES_MOST = 64 }; /* of proposals */

typedef struct luo_candidates_in {
    const luo_pool *pool; /* with caps */
    const luo_lengths *lengths;
    luo_batch_rule rule; /* of a step; rule.most is the context */
    uint64_t seed;
    int32_t devices, device_step; /* the second divides the first */
    int64_t grid_step;            /* tokens */
    bool floor, published;        /* modes of proposals; at least one */
    bool plain;                   /* proposals alone, no mixed plans */
    int64_t sequences;            /* limit of a sample batch */
    const double *rate;           /* as luo_step_speeds, for samples; NULL: 1 all */
} luo_candidates_in;

typedef enum luo_candidate_source {
    LUO_CANDIDATE_ALIKE, /* equal replicas */
    LUO_CANDIDATE_FLOOR, /* proposal, by mode */
    LUO_CANDIDATE_PUBLISHED,
    LUO_CANDIDATE_MIXED /* by samples */
} luo_candidate_source;

typedef struct luo_candidates {
    int32_t n;
    luo_replicas *plan; /* replicas by falling tp, then rising pp */
    luo_candidate_source *source;
    double *ms;              /* of a proposal: T; of a mixed plan: mean over the samples */
    int64_t *longest;        /* largest cap of the plan */
    int32_t mixed_tried;     /* plans that were made for the samples */
    luo_histogram histogram; /* of a step */
} luo_candidates;

/* Errors: LUO_EINFEASIBLE no entry holds any sequence; those of luo_lengths_batch; LUO_ENOMEM.
 * Owner: arena. Cost: two proposals, then bounds of up to 2,000 plans on the samples and the fast
 * dispatch of those whose bound can win. */
luo_status luo_candidates_make(luo_arena *arena, const luo_candidates_in *in, luo_candidates *out,
                               luo_err *err);
/* "alike" "floor" "published" "mixed". */
const char *luo_candidate_source_name(luo_candidate_source source);
#endif
