/* candidates_internal.h: plans as numbers of copies, while they are gathered. */
#ifndef LUO_CORE_PLAN_HYDRAULIS_CANDIDATES_INTERNAL_H
#define LUO_CORE_PLAN_HYDRAULIS_CANDIDATES_INTERNAL_H
#include "core/plan/hydraulis/candidates.h"

enum { LUO_COUNTS_MOST = 32 }; /* entries of a plan */

typedef struct luo_counts { /* copies of entries */
    int32_t n;
    int32_t entry[LUO_COUNTS_MOST], copies[LUO_COUNTS_MOST];
} luo_counts;

typedef struct luo_gathered_plan {
    luo_counts counts;
    luo_candidate_source source;
    double ms;
} luo_gathered_plan;

typedef struct luo_gathered {
    luo_arena *arena;
    const luo_pool *pool;
    int32_t n, cap;
    luo_gathered_plan *at;
} luo_gathered;

void luo_counts_add(luo_counts *counts, int32_t entry, int32_t copies);
int32_t luo_counts_devices(const luo_pool *pool, const luo_counts *counts);
luo_status luo_counts_plan(luo_arena *arena, const luo_counts *counts, luo_replicas *out,
                           luo_err *err);
/* Sorted; one that is there already is not added again. */
luo_status luo_gathered_add(luo_gathered *gathered, luo_counts counts, luo_candidate_source source,
                            double ms, luo_err *err);
/* Adds the mixed plans that do best on sample batches. *tried: how many were made. */
luo_status luo_gathered_mix(const luo_candidates_in *in, luo_gathered *gathered, int32_t *tried,
                            luo_err *err);
#endif
