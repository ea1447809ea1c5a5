/* migrate.h: the switch from one plan to another, compiled: who sends which state to
 * whom (docs/annotations.md#a-whole-switch). The one function for it, so that a driver and the
 * ranks that carry the switch out make the same programs.
 *
 * Master weights and optimizer states move; working copies are made again by the new plan's Pre
 * part, gradients do not live at a boundary. */
#ifndef LUO_CORE_PLAN_MIGRATE_H
#define LUO_CORE_PLAN_MIGRATE_H
#include "core/plan/compile.h"

typedef struct luo_switching {
    int32_t n;
    luo_switch_tensor *tensors; /* in the order of luo_plan_params */
    luo_switch sw;
    luo_programs *set; /* checked and hashed; NULL: no byte moves */
} luo_switching;

/* What a switch moves, in the order of luo_plan_params: one tensor per parameter with all its
 * state. Pre, Errors, Owner: as below, but no move is planned yet. */
luo_status luo_switching_tensors(luo_arena *arena, const luo_plan *from, const luo_plan *to,
                                 const luo_model *model, luo_switch_tensor **out, int32_t *n,
                                 luo_err *err);

/* dead: devices that cannot send, ascending.
 * Pre:    luo_plan_check passed for both plans, which are of this model.
 * Errors: LUO_ELOST no living owner of some state; those of luo_switch_plan, luo_compile_switch
 *         and luo_program_check; LUO_ENOMEM.
 * Owner:  everything in *out belongs to arena; from, to and model must live as long.
 * Cost:   that of luo_switch_plan, and of the check. See: tests/unit/check_move.c. */
luo_status luo_switching_compile(luo_arena *arena, const luo_plan *from, const luo_plan *to,
                                 const luo_model *model, const luo_cluster *cluster, int32_t ndead,
                                 const int32_t *dead, luo_switching *out, luo_err *err);
#endif
