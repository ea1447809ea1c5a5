/* length_plan.h: what a policy for uneven lengths does in a step, as plans for programs
 * (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_PLAN_H
#define LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_PLAN_H
#include "core/plan/hydraulis/step_plan.h"
#include "core/plan/length_policies/length_policy.h"

typedef struct luo_length_stretch { /* a part of a step: one plan on all devices */
    luo_plan *frame; /* without the batch: equal for equal replicas on equal devices */
    luo_plan *plan;
} luo_length_stretch;

typedef struct luo_length_plans {
    int32_t n; /* parts, run one after the other: hotspa has one per bucket, all others one */
    luo_length_stretch *part;
    luo_step_plan step; /* of a single part */
    double ms;          /* of the step, by the pool */
} luo_length_plans;

/* The batch under a policy. Equal replicas keep their optimizer state as ZeRO-1 of their own would;
 * the other policies, whose replicas differ, where `place` says. So do all parts of hotspa, whose
 * gradients are summed there. Padding fills
 * micro-batches up to the context.
 * In:     length[n] in the order of the batch; current: as luo_length_policy_step.
 * Errors: those of luo_length_policy_step; LUO_ENOMEM. Owner: arena. */
luo_status luo_length_plan(luo_arena *arena, const luo_length_rivals *rivals,
                           const luo_step_place *place, luo_length_policy policy, int32_t current,
                           const int64_t *length, int32_t n, luo_length_plans *out, luo_err *err);
/* Where equal replicas of an entry keep optimizer state: with their weights, cut over the replicas.
 * *layout: sizes; *out: *place with it. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_length_plan_layout(luo_arena *arena, const luo_length_rivals *rivals,
                                  const luo_step_place *place, int32_t entry,
                                  luo_optimizer_layout *layout, luo_step_place *out, luo_err *err);
/* The part of candidate plan step->plan, for a step that was chosen by other means. */
luo_status luo_length_plan_of(luo_arena *arena, const luo_length_rivals *rivals,
                              const luo_step_place *place, const luo_step_plan *step,
                              const int64_t *length, int32_t n, luo_length_plans *out,
                              luo_err *err);
#endif
