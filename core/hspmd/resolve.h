/* resolve.h: which communication turns one annotation into another.
 * Decided by comparing regions per device, never by comparing key lists (fault K1). */
#ifndef LUO_CORE_HSPMD_RESOLVE_H
#define LUO_CORE_HSPMD_RESOLVE_H
#include "core/hspmd/bsr/bsr.h"

typedef enum luo_resolve_kind {
    LUO_RESOLVE_IDENTITY,
    LUO_RESOLVE_SLICE,
    LUO_RESOLVE_BOTTOM,
    LUO_RESOLVE_SPLIT_AR,
    LUO_RESOLVE_SPLIT_RS,
    LUO_RESOLVE_SPLIT_AG,
    LUO_RESOLVE_BSR,
    LUO_RESOLVE_BOTTOM_BSR,  /* reduced in members, then moved */
    LUO_RESOLVE_REDUCE_THEN, /* docs/annotations.md#what-is-not-supported */
    LUO_RESOLVE_UNSUPPORTED
} luo_resolve_kind;

typedef enum luo_unsupported {
    LUO_UNSUP_NONE,
    LUO_UNSUP_PARTIAL_CREATE,
    LUO_UNSUP_PARTIAL_COUNT,
    LUO_UNSUP_PARTIAL_DEVICES,
    LUO_UNSUP_PARTIAL_REGIONS,
    LUO_UNSUP_PARTIAL_TIER,
    LUO_UNSUP_OUTER_SAME_DIM
} luo_unsupported;
const char *luo_unsupported_name(luo_unsupported r); /* "PARTIAL_CREATE" */

typedef struct luo_resolve_opts {
    luo_planner_opts planner; /* in-graph Reshards start with zero counters */
    bool reduce_then_move;    /* docs/annotations.md#what-is-not-supported */
    int64_t elem_bytes;       /* 0 counts as 1 */
    const char *name;         /* of the reshard, for sentences; NULL: "reshard" */
    int32_t ranks; /* above 1: members with so many summands (or copies) each, cut alike, are summed
                      (or gathered) together in one step: context-parallel ranks */
} luo_resolve_opts;

typedef struct luo_resolution {
    luo_resolve_kind kind;
    luo_unsupported reason; /* only with LUO_RESOLVE_UNSUPPORTED */
    const char *text;       /* "bottom allgather,identity", "split_ar pre ..", "unsupported" */
    int32_t nsteps;
    luo_moves moves; /* by step, then issue order */
} luo_resolution;

/* Resolves src -> dst. Pre: both canonical and bound to shape.
 * Errors: LUO_EUNSUP with a sentence (out->kind and reason are then set as well);
 *         LUO_ELOST (out is complete all the same); LUO_E2BIG; LUO_EINPUT dst uses a dead
 *         device; LUO_ENOMEM. Dead devices of src neither send nor take part in a sum.
 * Owner:  everything in *out belongs to arena.
 * Cost:   O(devices log devices + cells); never quadratic in U.
 * See:    tests/unit/check_resolve.c, tests/prop/prop_resolve.c. */
luo_status luo_resolve(luo_arena *arena, const luo_ann *src, const luo_ann *dst,
                       const luo_shape *shape, const luo_resolve_opts *opts, luo_resolution *out,
                       luo_err *err);
#endif
