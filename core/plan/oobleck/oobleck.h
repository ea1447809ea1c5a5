/* oobleck.h: pure planning of the policy `oobleck` (docs/policies.md): pipelines are templates
 * of whole nodes, and all nodes that are left are used.
 *
 * A template of k nodes has their groups as stages, in order, and all layers, by the canonical
 * split. The smallest has as few nodes as hold the model. A plan is a list of template sizes that
 * sum to the nodes; pipelines take nodes in order, so equal nodes make this a multiset. */
#ifndef LUO_CORE_PLAN_OOBLECK_OOBLECK_H
#define LUO_CORE_PLAN_OOBLECK_OOBLECK_H
#include "core/plan/replan/replan.h"

typedef struct luo_oobleck_in {
    int32_t nnodes;
    const int32_t *first; /* node i has the groups first[i] <= g < first[i+1]; at least one */
    const int32_t *kind;  /* per node: neighbours of one kind have equal groups; NULL: all equal */
    const double *y;      /* per group: seconds or tau of a layer and micro-batch */
    int64_t layers, micro_batches;
    int32_t least_pipelines; /* f + 1: with fewer a further failure could not be copied away */
    int32_t most_pipelines;  /* 0: any number */
    bool full_recompute;
    luo_cap_fn cap; /* asked with least_pipelines and all micro-batches; NULL: no limit */
    const void *cap_ctx;
} luo_oobleck_in;

typedef struct luo_oobleck_pipe {
    int32_t node, nodes;    /* of the input: node <= i < node + nodes */
    int32_t group, stages;  /* stage s on group + s */
    int64_t *layers;        /* per stage, 1 at least */
    int64_t micro_batches;
} luo_oobleck_pipe;

typedef struct luo_oobleck_plan {
    int32_t npipes;
    luo_oobleck_pipe *pipes;
    double event;
} luo_oobleck_plan;

/* Least filled time max (m-1)*o + fill over all lists of sizes, micro-batches by luo_alloc; then
 * fewest pipelines, then the largest first. Filled is event time when the slowest stage is the last
 * one, as it is in templates of equal groups. The published planner minimises the variance of
 * finish times instead.
 * Errors: LUO_EINFEASIBLE; LUO_ENOMEM. Owner: arena.
 * Cost: O(nodes * largest template), about a hundred times; that times most_pipelines, if given.
 * See: tests/unit/check_oobleck.c. */
luo_status luo_oobleck(luo_arena *arena, const luo_oobleck_in *in, luo_oobleck_plan *out,
                       luo_err *err);
#endif
