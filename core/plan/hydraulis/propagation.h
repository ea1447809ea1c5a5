/* propagation.h: what moves in a step between the optimizer's layout and a plan, in closed form:
 * parameters down before the forward pass, gradients up after the backward pass
 * (docs/planners.md#hydraulis). The simulator has it from the programs; this is for choosing plans
 * by a pool alone, and for reports. */
#ifndef LUO_CORE_PLAN_HYDRAULIS_PROPAGATION_H
#define LUO_CORE_PLAN_HYDRAULIS_PROPAGATION_H
#include "core/cost/cost.h"
#include "core/plan/hydraulis/step_plan.h"

/* Above so many devices parameters are not thought of as going straight to the plan: that is a
 * message from every owner to every device, and as many to be counted. */
enum { LUO_PROPAGATION_DIRECT = 256 };

typedef struct luo_propagation_in {
    const luo_step_place *place; /* with a layout */
    const luo_stack *stack;
    int32_t grad_bytes; /* of a gradient that moves */
    double overlap;     /* 0 to 1: of the time, is hidden */
} luo_propagation_in;

typedef struct luo_propagation {
    bool direct; /* parameters go straight to where the plan wants them; else to its own cut, and
                    are gathered there: whatever takes less time */
    int64_t *down_bytes, *up_bytes;    /* that arrive, by place->devices */
    double down_ms, up_ms, exposed_ms; /* exposed: (down + up) * (1 - overlap) */
} luo_propagation;

/* Gradients are reduced to the plan's own cut first, since summands cannot move and be summed at
 * once. One tensor of each kind (equal annotations) is resolved, and stands for all of its kind by
 * their elements. A device sends its messages one after the other, beside what it receives;
 * collectives of a group are one call.
 * Pre: place->layout is not NULL; the replicas fit the devices. Errors: LUO_ENOMEM; those of
 * luo_plan_params, luo_resolve and luo_cost_group. Owner: arena.
 * Cost:   4 ms for 60 layers on 32 devices, 50 ms on 1,024. See: tests/unit/check_propagation.c.
 * Source: Hydraulis, section on subgraph and optimizer layouts; Hetu v2, section 5.3. */
luo_status luo_propagation_of(luo_arena *arena, const luo_propagation_in *in, const luo_pool *pool,
                              const luo_replicas *replicas, luo_propagation *out, luo_err *err);

/* Adds to bytes[device id] what each device receives when a tensor of `shape` goes from one
 * annotation to another. Pre: both canonical and bound to shape. cluster NULL: nodes of 8. Errors:
 * those of luo_resolve. See: tests/unit/check_propagation.c. */
luo_status luo_propagation_bytes(luo_arena *scratch, const luo_ann *from, const luo_ann *to,
                                 const luo_shape *shape, int64_t elem_bytes,
                                 const luo_cluster *cluster, int64_t *bytes, luo_err *err);
#endif
