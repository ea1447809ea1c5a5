/* propose.h: which replicas side by side: plans proposed once for a cluster and a distribution of
 * lengths (docs/planners.md#hydraulis).
 *
 * T[n][j] = least time in which n devices finish all sequences of up to e_j tokens, e a grid of
 * lengths: the longest interval (e_i, e_j] goes to d copies of one entry, the rest to the devices
 * that are left. */
#ifndef LUO_CORE_PLAN_HYDRAULIS_PROPOSE_H
#define LUO_CORE_PLAN_HYDRAULIS_PROPOSE_H
#include "core/plan/hydraulis/dispatch.h"
#include "core/plan/lengths/lengths.h"

typedef enum luo_propose_mode {
    LUO_PROPOSE_FLOOR,    /* max(work/d, one) + (pp-1)*one: one sequence is not shared by copies */
    LUO_PROPOSE_PUBLISHED /* (work + (pp-1)*one) / d */
} luo_propose_mode;

typedef struct luo_propose_grid {
    int32_t n;          /* intervals */
    const int64_t *end; /* e_1 < .. < e_n */
} luo_propose_grid;

typedef struct luo_propose_part { /* d copies of an entry for lengths low < length <= high */
    int32_t entry, copies;
    int64_t low, high;
} luo_propose_part;

typedef struct luo_proposal {
    int64_t longest; /* e_j */
    double ms;       /* T[N][j] */
    int32_t nparts;
    luo_propose_part *part; /* rising lengths */
} luo_proposal;

/* A proposal for every e_j that N devices can finish, in order of j.
 * In:     histogram of one step; devices N and device_step, which divides it; entries with cap 0
 *         take no part.
 * Errors: LUO_EINFEASIBLE none can; LUO_ENOMEM. Owner: arena.
 * Cost:   O(N/step * grid^2 * entries * log N).
 * Source: the published planner's dynamic programme, whose span is mode published.
 * See:    tests/diff/diff_hydraulis.c (exhaustive). */
luo_status luo_propose(luo_arena *arena, const luo_pool *pool, const luo_histogram *histogram,
                       int32_t devices, int32_t device_step, const luo_propose_grid *grid,
                       luo_propose_mode mode, luo_proposal **out, int32_t *n, luo_err *err);
/* Time of d copies of an entry for the lengths low < length <= high: what the programme adds up. */
double luo_propose_span(const luo_pool_entry *entry, const luo_histogram *histogram, int64_t low,
                        int64_t high, int32_t copies, luo_propose_mode mode);
#endif
