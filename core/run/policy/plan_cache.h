/* plan_cache.h: plans that were made before, by the picture of the devices that they were
 * made for (Malleus 5, cache). Two pictures are one when the same devices may hold layers, each
 * rate lies within its gap and on the same side of the threshold, and the work of a step is the
 * same. */
#ifndef LUO_CORE_RUN_POLICY_PLAN_CACHE_H
#define LUO_CORE_RUN_POLICY_PLAN_CACHE_H
#include "core/run/policy/policy.h"

enum { LUO_PICTURES = 32, LUO_PICTURE_PLANS = 6 };

typedef struct luo_picture_key {
    int32_t n;             /* devices */
    const double *rate;    /* per device; of candidates finite */
    const bool *candidate; /* per device */
    double memory_factor;
    int64_t sequence_tokens, micro_batches;
} luo_picture_key;

typedef struct luo_picture_known {
    luo_picture_key key;
    int32_t n; /* plans that were made for it, best first */
    const luo_plan *plan[LUO_PICTURE_PLANS];
} luo_picture_known;

typedef struct luo_pictures {
    bool failed;       /* devices have failed in this run: more will */
    int32_t n, newest; /* known; index of the last one */
    luo_picture_known at[LUO_PICTURES];
} luo_pictures;

/* The newest of equal pictures, or NULL. gap: of the policy; that of rate r is
 * max(gap, 0.15 r). Cost: O(LUO_PICTURES * n). */
const luo_picture_known *luo_pictures_find(const luo_pictures *p, const luo_picture_key *key,
                                           double gap, double threshold);
/* Takes copies of key and plans; of more than LUO_PICTURES the oldest goes, and its room is used
 * again, but for that of its plans. Pre: 1 <= n <= LUO_PICTURE_PLANS. Errors: LUO_ENOMEM.
 * Owner: arena. */
luo_status luo_pictures_add(luo_pictures *p, luo_arena *arena, const luo_picture_key *key,
                            const luo_plan *const *plans, int32_t n, luo_err *err);
#endif
