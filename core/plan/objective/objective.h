/* objective.h: seconds of a step of any 1F1B plan in closed form, pipelines that differ
 * included: what planners rank plans by where nothing is simulated
 * (docs/planners.md#which-plan-is-taken). */
#ifndef LUO_CORE_PLAN_OBJECTIVE_OBJECTIVE_H
#define LUO_CORE_PLAN_OBJECTIVE_OBJECTIVE_H
#include "core/cost/cost.h"
#include "core/plan/plan.h"

typedef struct luo_objective_in {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    int64_t sequence_tokens;
    const double *rate; /* per device: slowdown, below 1 counts as 1; INFINITY when not usable */
} luo_objective_in;

typedef struct luo_objective { /* seconds */
    double step;    /* all of it; INFINITY: a device of the plan is not usable */
    double work;    /* until the last backward ends: layers, ends, messages of pipelines, and what
                       the first forward parts wait for their weights */
    double traffic; /* of gradients, behind that */
    double update;  /* norm and optimizer */
} luo_objective;

/* Does the closed form know plans of this kind? 1F1B with one chunk, ZeRO 0 or 1, no context
 * parallelism, micro-batches of one size, no stage without devices. */
bool luo_objective_knows(const luo_plan *plan);

/* Layers, ends and messages by the cost model, slowed as the slowest device of a group is; every
 * pipeline is a 1F1B course. Gradients: layers that the same stages hold in all pipelines are
 * reduced by the same devices, slice by slice of the widest group, in buckets of the plan's rule
 * (the stack's where it says nothing). A bucket is ready when the last pipeline has completed it.
 * It puts its bytes on every link on the way, up and down apart, behind what is there already, and
 * a fixed time besides: these follow each other on the lanes of a stage, and a narrow device has
 * one for every slice that it serves. Buckets of disjoint groups meet in no link and run side by
 * side. What lies before the last backward is hidden. With ZeRO-1
 * the weights are gathered so before the first forward parts. Not in it: what the whole tensors of
 * norms take, a table that two stages share.
 * Pre: luo_objective_knows; the plan is of this model and cluster. Errors: those of the cost model;
 * LUO_ENOMEM. Owner: nothing is kept. Cost: O(tasks + layers * pipelines * widest group), some
 * 0.3 ms for 64 devices. Source: Megatron-LM (buckets); see
 * tests/diff/diff_objective.c (the simulator). */
luo_status luo_plan_objective(luo_arena *scratch, const luo_objective_in *in, const luo_plan *plan,
                              luo_objective *out, luo_err *err);
#endif
