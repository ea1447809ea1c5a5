/* replan.h: pure planning of the policies `rebalance` and `restart` (docs/policies.md),
 * and the event time by which policies are judged (docs/planners.md#objectives).
 *
 * Notation: y = seconds (or tau) of one layer and one micro-batch on a group; t = y times the
 * layers of a stage; o = slowest stage, fill = sum of the stages of a pipeline. */
#ifndef LUO_CORE_PLAN_REPLAN_REPLAN_H
#define LUO_CORE_PLAN_REPLAN_REPLAN_H
#include "core/plan/planners.h"

typedef struct luo_pipe_time {
    int32_t stages;
    const double *t; /* per stage: forward and backward of one micro-batch */
    int64_t micro_batches;
} luo_pipe_time;

/* Largest 1F1B makespan of the pipelines, free transfers, forward t/3, with full recompute t/4.
 * Equal neighbours are simulated once. Errors: LUO_ENOMEM. Cost: O(sum stages * micro_batches). */
luo_status luo_replan_event_time(luo_arena *scratch, const luo_pipe_time *pipes, int32_t n,
                                 bool full_recompute, double *seconds, luo_err *err);

/* Moves micro-batches between the pipelines, nothing else: both offsets, the better event
 * time is kept, the filled one on ties. At least as many as stages each, or, if M does not reach,
 * one each. Out: m[n], *event. pipes[].micro_batches is not read.
 * Errors: LUO_EINFEASIBLE fewer micro-batches than pipelines. */
luo_status luo_replan_rebalance(luo_arena *scratch, const luo_pipe_time *pipes, int32_t n,
                                int64_t M, bool full_recompute, int64_t *m, double *event,
                                luo_err *err);

/* Most layers that group `group` holds as stage `stage` of `stages` of one of `pipelines`
 * pipelines with `micro_batches` each; 0: none, also when so many stages are not possible. */
typedef int64_t (*luo_cap_fn)(const void *ctx, int32_t group, int32_t stages, int32_t stage,
                              int32_t pipelines, int64_t micro_batches);

typedef struct luo_restart_in {
    int32_t ngroups;  /* usable ones, in order of their devices */
    const double *y;  /* per group */
    int64_t layers, micro_batches;
    bool strict_uniform; /* the number of stages must divide the layers */
    bool full_recompute;
    luo_cap_fn cap;      /* NULL: memory is no limit */
    const void *cap_ctx;
} luo_restart_in;

typedef struct luo_restart_plan {
    int32_t pipelines, stages;
    int32_t *group;  /* of (pipeline d, stage s): group[d + pipelines*s], index in the input */
    int64_t *layers; /* per stage */
    int64_t micro_batches; /* per pipeline */
    double event;
} luo_restart_plan;

/* Best uniform plan over (dp, pp) with dp*pp <= groups and dp dividing the micro-batches, layers by
 * the canonical split, least event time; on ties fewer stages, then fewer pipelines. The slowest
 * groups stay out when not all are needed; the others keep their order, pipeline fastest
 * (docs/planners.md#order-of-devices).
 * Errors: LUO_EINFEASIBLE; LUO_ENOMEM. Owner: arena.
 * Cost: O(G log G) shapes for G groups; a shape is simulated only if its bound can win. */
luo_status luo_replan_restart_shape(luo_arena *arena, const luo_restart_in *in,
                                    luo_restart_plan *out, luo_err *err);
/* The `most` best of them, best first; *n: how many there are. Pre: room for most in out. */
luo_status luo_replan_restart_shapes(luo_arena *arena, const luo_restart_in *in, int32_t most,
                                     luo_restart_plan *out, int32_t *n, luo_err *err);
#endif
