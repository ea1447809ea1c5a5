/* step_plan.h: a plan for the programs of one step (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_HYDRAULIS_STEP_PLAN_H
#define LUO_CORE_PLAN_HYDRAULIS_STEP_PLAN_H
#include "core/plan/hydraulis/step.h"
#include "core/plan/plan.h"

typedef struct luo_step_place {
    const luo_model *model;
    const luo_cluster *cluster;
    int32_t ndevices; /* usable, in the order in which replicas take them */
    const int32_t *devices;
    luo_dtype dtype;
    int64_t ctx;
    const luo_optimizer_layout *layout; /* where optimizer state lies; NULL: ZeRO-1 of the plan */
    const int32_t *layout_devices; /* of the layout, in the order of plan.json; NULL: `devices` */
} luo_step_place;

/* Every replica that has sequences is a pipeline of stages as equal as the layers allow on the next
 * devices, the ranks of a stage side by side; its micro-batches have their own tokens, padded to
 * LUO_POOL_ROUND, and the assignment says which sequence is where. With a layout the state is apart
 * (`state_layout`), on all devices. number[n]: of the sequences, as the assignment names them;
 * NULL: 0 to n - 1. Pre: the replicas fit the devices; pp is at most the layers.
 * Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_step_plan_make(luo_arena *arena, const luo_step_place *place, const luo_pool *pool,
                              const luo_replicas *replicas, const luo_step_plan *step,
                              const int64_t *length, const int32_t *number, int32_t n,
                              luo_plan **out, luo_err *err);
/* The replicas alone, for a file of plans: one micro-batch each, of ctx tokens or as many of them
 * as it holds. */
luo_status luo_step_plan_frame(luo_arena *arena, const luo_step_place *place, const luo_pool *pool,
                               const luo_replicas *replicas, luo_plan **out, luo_err *err);
/* A plan without its batch: one micro-batch of ctx tokens a pipeline. It shares the stages. Errors:
 * LUO_ENOMEM. Owner: arena. */
luo_status luo_step_plan_strip(luo_arena *arena, const luo_plan *plan, luo_plan **out,
                               luo_err *err);
#endif
