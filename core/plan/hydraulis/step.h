/* step.h: one step: which of the candidate plans, which replica takes which sequence, in which
 * micro-batch (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_HYDRAULIS_STEP_H
#define LUO_CORE_PLAN_HYDRAULIS_STEP_H
#include "core/plan/hydraulis/dispatch.h"
#include "core/plan/hydraulis/pack.h"

typedef struct luo_replicas { /* a plan: replicas side by side */
    int32_t n;
    luo_replica *replica;
} luo_replicas;

typedef struct luo_step_opts {
    luo_pack_score score;
    bool published; /* dispatch without the c term */
    int32_t kicks;  /* as luo_dispatch_opts */
    int32_t most;   /* plans that are solved whole, those of the best fast answer; 0: 16 */
    uint64_t seed;
    int32_t current;        /* plan of the step before; -1: none. It wins ties */
    const double *extra_ms; /* per plan: what it costs beside its replicas; NULL: 0 */
    bool unrefined;         /* nothing moves after packing */
} luo_step_opts;

typedef struct luo_step_plan {
    int32_t plan;              /* of the candidates */
    int32_t *assign, *bin;     /* by sequence: replica, micro-batch of it */
    luo_packed *packed;        /* by replica */
    double dispatch, max, sum; /* largest over the replicas: D_r; both scores, in ms */
    double event;              /* 1F1B of each replica, the largest: what policies are judged by */
    double bound;              /* no dispatch on this plan can be below */
    int32_t solved;            /* plans that were dispatched and packed */
} luo_step_plan;

/* The plan with the least max_r mu_r*score_r + extra of those that were solved.
 * In:     plans[nplans]; length[n], n >= 1.
 * Errors: LUO_EINFEASIBLE the longest sequence fits no plan; LUO_ENOMEM. Owner: arena.
 * Cost:   docs/speed.md. Counts limit the work, never seconds. */
luo_status luo_step_choose(luo_arena *arena, const luo_pool *pool, const luo_replicas *plans,
                           int32_t nplans, const int64_t *length, int32_t n,
                           const luo_step_opts *opts, luo_step_plan *out, luo_err *err);
/* Largest 1F1B time of the replicas when their speeds are mu[] (NULL: those of the plan), ms. */
luo_status luo_step_event(luo_arena *scratch, const luo_pool *pool, const luo_replicas *plan,
                          const luo_packed *packed, const double *mu, double *ms, luo_err *err);
/* mu of replicas that take devices in their order: the slowest device counts. rate: per place of
 * the devices, 1 as in the pool, below it faster; NULL: 1 all. That of a split entry, whose costs
 * include the speeds, is 1. */
void luo_step_speeds(const luo_pool *pool, const luo_replicas *plan, const double *rate);
/* No plan of any kind on so many devices takes less: the longest sequence on the entry that is
 * fastest for it, on the fastest devices, and the work of each sequence where it takes the fewest
 * device milliseconds, spread over all of them. rate: as of luo_step_speeds. */
typedef struct luo_step_floor {
    double floor_ms, balanced_ms; /* INFINITY: a sequence fits nowhere */
} luo_step_floor;
luo_step_floor luo_step_floor_of(const luo_pool *pool, int32_t devices, const double *rate,
                                 const int64_t *length, int32_t n);
#endif
