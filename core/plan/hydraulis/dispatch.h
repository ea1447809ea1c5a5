/* dispatch.h: which replica takes which sequence of a step (docs/planners.md#hydraulis).
 *
 * Notation: D_r = mu_r * (sum of cost + (pp-1)*largest cost + c*(ceil(tokens/cap) + pp-1)), the
 * milliseconds that replica r needs for its sequences before they are packed; the answer has the
 * least max D_r that was found. */
#ifndef LUO_CORE_PLAN_HYDRAULIS_DISPATCH_H
#define LUO_CORE_PLAN_HYDRAULIS_DISPATCH_H
#include "core/base/rng.h"
#include "core/plan/hydraulis/pool.h"

typedef struct luo_replica {
    int32_t entry; /* of the pool */
    double mu;     /* times of this replica are so many times the pool's: 1, above it slow */
} luo_replica;

/* Words for the objective: as above, or as published. Values: luo_dispatch_opts.published. */
#define LUO_DISPATCH_LIST(X)                                                                       \
    X(0, "full")                                                                                   \
    X(1, "public")
typedef struct luo_dispatch_opts {
    bool published; /* as the published planner: D_r without the c term */
    bool fast;      /* each sequence once, to the replica that it makes the least late; no search */
    bool heuristic; /* no exact search where few sequences would allow one */
    int32_t kicks;  /* random restarts of the search; -1: 32, or 8 above 256 sequences */
    uint64_t seed;  /* of the stream `hydraulis` that kicks draw from */
} luo_dispatch_opts;

/* Exact up to 10 sequences on up to 4 replicas; else longest first to the replica that ends
 * soonest, then moves and swaps off the latest replica, then kicks. Replicas may stay empty.
 * In:     length[n] in any order; sequences of one length are interchangeable.
 * Out:    assign[n]: replica of each sequence; *best: its max D_r, 0 for n = 0.
 * Errors: LUO_EINFEASIBLE a sequence is longer than every cap; LUO_ENOMEM. Outputs change only on
 *         success.
 * Cost:   O(n * replicas), then a pass of that size per improvement. Counts, never seconds, limit
 *         the search: equal inputs give equal bytes, and so do permuted batches but for the order.
 * Source: Hydraulis (arXiv 2412.07894) solves an ILP; objective as there, with c.
 * See:    tests/diff/diff_hydraulis.c (brute force). */
luo_status luo_dispatch(luo_arena *scratch, const luo_pool *pool, const luo_replica *replica,
                        int32_t nreplicas, const int64_t *length, int32_t n,
                        const luo_dispatch_opts *opts, int32_t *assign, double *best, luo_err *err);
/* No assignment has a smaller max D_r: the longest sequence alone, and the work at the rates of
 * all replicas. INFINITY: the longest fits nowhere. */
double luo_dispatch_bound(const luo_pool *pool, const luo_replica *replica, int32_t nreplicas,
                          const int64_t *length, int32_t n, bool published);
/* Tokens of the longest sequence that one of the replicas holds. */
int64_t luo_dispatch_longest(const luo_pool *pool, const luo_replica *replica, int32_t nreplicas);
/* Indices of the sequences, the longest first; of equal ones the first. Errors: LUO_ENOMEM. */
luo_status luo_dispatch_order(luo_arena *scratch, const int64_t *length, int32_t n, int32_t *order,
                              luo_err *err);
#endif
