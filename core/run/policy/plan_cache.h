/* plan_cache.h: plans that were made before, by the snapshot of the devices that they were
 * made for (docs/planners.md#when-it-plans-again, cache). Two snapshots are one when the same
 * devices may hold layers, each rate lies within its gap and on the same side of the threshold, the
 * work of a step is the same, and failures are expected by both or by none. */
#ifndef LUO_CORE_RUN_POLICY_PLAN_CACHE_H
#define LUO_CORE_RUN_POLICY_PLAN_CACHE_H
#include "core/run/policy/policy.h"

enum { LUO_PLAN_CACHE = 32, LUO_PLAN_CACHE_PLANS = 6 };

typedef struct luo_snapshot_key {
    int32_t n;             /* devices */
    const double *rate;    /* per device; of candidates finite */
    const bool *candidate; /* per device */
    double memory_factor;
    int64_t sequence_tokens, micro_batches;
    bool failures; /* are expected: plans with copies of state are among the best */
} luo_snapshot_key;

typedef struct luo_snapshot_known {
    luo_snapshot_key key;
    int32_t n; /* plans that were made for it, best first */
    const luo_plan *plan[LUO_PLAN_CACHE_PLANS];
} luo_snapshot_known;

typedef struct luo_plan_cache {
    const luo_plan *start; /* what the planner starts from; NULL: not known yet */
    int32_t n, newest; /* known; index of the last one */
    luo_snapshot_known at[LUO_PLAN_CACHE];
} luo_plan_cache;

/* The newest of equal snapshots, or NULL. gap: of the policy; that of rate r is
 * max(gap, 0.15 r). Cost: O(LUO_PLAN_CACHE * n). */
const luo_snapshot_known *luo_plan_cache_find(const luo_plan_cache *cache,
                                              const luo_snapshot_key *key, double gap,
                                              double threshold);
/* Takes copies of key and plans; of more than LUO_PLAN_CACHE the oldest goes, and its room is used
 * again, but for that of its plans. Pre: 1 <= n <= LUO_PLAN_CACHE_PLANS. Errors: LUO_ENOMEM.
 * Owner: arena. */
luo_status luo_plan_cache_add(luo_plan_cache *cache, luo_arena *arena, const luo_snapshot_key *key,
                              const luo_plan *const *plans, int32_t n, luo_err *err);
#endif
