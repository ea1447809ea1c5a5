/* emit.h: a program as raw annotations of all tensors, forward and backward
 * (docs/annotations.md). */
#ifndef LUO_CORE_PLAN_HAP_EMIT_H
#define LUO_CORE_PLAN_HAP_EMIT_H
#include "core/plan/hap/program.h"
#include "core/plan/plan.h"

/* Annotations in the order of the program: per operation what its operands become and its results,
 * then backward the gradients. Names: `d.T` is the gradient of T where T is made; where T is moved
 * for operation O, `at` O stands the moved one, and `d.T@O` is its gradient, which is moved into
 * `d.T`. Lengths are divided by their greatest common divisor. `variant` says how a gather or
 * scatter is carried out at these shares; `factors`: the gradient of a weight is computed
 * everywhere. device   in the order of types, as many as the numbers have shares   [segment][type]
 * Errors: LUO_EINPUT shares; LUO_EUNREP pieces of a dimension that plans do not have; LUO_ENOMEM.
 * Owner: arena. Cost: O(operations * devices). See:    tests/unit/check_hap_emit.c */
luo_status luo_hap_emit(luo_arena *arena, const luo_hap_program *program,
                        const luo_hap_numbers *numbers, const double *shares, const int32_t *device,
                        luo_plan_annotation **out, int32_t *n, luo_err *err);
#endif
