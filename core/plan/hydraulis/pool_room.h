/* pool_room.h: caps of a pool held to what compiled plans need (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_HYDRAULIS_POOL_ROOM_H
#define LUO_CORE_PLAN_HYDRAULIS_POOL_ROOM_H
#include "core/cost/cost.h"
#include "core/plan/hydraulis/step_plan.h"

/* Lowers the cap of every entry until two replicas of it with pp micro-batches of so many tokens
 * fit where the optimizer's state lies as `place` says; what fits nowhere is excluded. Closed forms
 * do not count what moves between the optimizer's layout and the plan.
 * Errors: LUO_ENOMEM. Cost: up to five compilations of two replicas an entry. */
luo_status luo_pool_room_check(const luo_step_place *place, const luo_stack *stack, luo_pool *pool,
                               luo_err *err);
#endif
