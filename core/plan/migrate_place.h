/* migrate_place.h: which of several interchangeable groups takes which slot of a plan, so that as
 * little state as possible moves (docs/planners.md#placement). In numbers only. */
#ifndef LUO_CORE_PLAN_MIGRATE_PLACE_H
#define LUO_CORE_PLAN_MIGRATE_PLACE_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_PLACE_EXACT = 256 }; /* slots up to which the assignment is exact */

typedef struct luo_place_in {
    int32_t n; /* slots, and as many groups in order of their devices */
    /* What need not move when the group takes the slot; >= 0. */
    int64_t (*weight)(const void *ctx, int32_t slot, int32_t group);
    /* Does the group stand where the slot would have it? NULL: no wishes. */
    bool (*near)(const void *ctx, int32_t slot, int32_t group);
    const void *ctx;
} luo_place_in;

/* Largest sum of weights; among those the most pairs that are near; among those groups in the order
 * of slots as far as it goes. Up to LUO_PLACE_EXACT slots exactly, in O(n^3); above, best first:
 * positive weights falling, then slot, then group, what is left in order.
 * Out:    group[n], a permutation. *total (may be NULL): the sum of weights.
 * Errors: LUO_ENOMEM. Owner: nothing is kept. See: tests/unit/check_place.c (M1, brute force). */
luo_status luo_place_overlap(luo_arena *scratch, const luo_place_in *in, int32_t *group,
                             int64_t *total, luo_err *err);
#endif
