/* recompute.h: how many layers a stage has, and how many of them run again in backward, stage by
 * stage, as memory asks for (docs/planners.md#auto). */
#ifndef LUO_CORE_PLAN_AUTO_RECOMPUTE_H
#define LUO_CORE_PLAN_AUTO_RECOMPUTE_H
#include "core/plan/planners.h"

typedef struct luo_auto_recompute_in {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    int64_t sequence_tokens;
    const double *rate;   /* per device: slowdown, below 1 counts as 1; NULL: 1 all */
    double memory_factor; /* share of the memory of every device that a plan may need; 0: all */
} luo_auto_recompute_in;

/* Can it be planned so? Pipelines of equally many stages, a backward in one piece, a model whose
 * layers are alike, and no raw annotations or lengths of its own. */
bool luo_auto_recompute_knows(const luo_plan *plan, const luo_model *model);

/* out->plan: the same devices, groups, micro-batches and ZeRO; layers of the stages and what of
 * them is recomputed in full are such that the slowest stage of the slowest pipeline is fastest,
 * then the sum of all, and every device has room by the closed form of memory. A stage holds fewer
 * micro-batches than the one before it, so the first ones recompute more and get fewer layers: an
 * exact programme over stages and layers. Stages of several chunks keep their layers.
 * Pre: luo_auto_recompute_knows; the plan is of this model and cluster.
 * Errors: LUO_EINFEASIBLE a stage has no room for one layer; those of the cost model; LUO_ENOMEM.
 * Owner: arena. Cost: O(stages * layers^2), and stages * layers * log(layers) closed forms of
 * memory. Source: Galvatron (VLDB 2023) has checkpointing as a strategy of a layer; the stages'
 * own numbers of layers are ours. See: tests/prop/prop_recompute.c. */
typedef struct luo_auto_recomputed {
    luo_plan *plan;
    double slowest_s,
        sum_s; /* of a micro-batch on the slowest stage; on all of them, over chunks */
    double was_slowest_s, was_sum_s; /* the same of the plan that was given */
} luo_auto_recomputed;
luo_status luo_auto_recompute(luo_arena *arena, const luo_auto_recompute_in *in,
                              const luo_plan *plan, luo_auto_recomputed *out, luo_err *err);
#endif
