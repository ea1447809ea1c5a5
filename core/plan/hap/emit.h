/* emit.h: a program as raw annotations of all tensors, forward and backward, and as a plan
 * (docs/annotations.md#plans-that-annotate-every-tensor). */
#ifndef LUO_CORE_PLAN_HAP_EMIT_H
#define LUO_CORE_PLAN_HAP_EMIT_H
#include "core/plan/hap/alternate.h"
#include "core/plan/hap/hap_cluster.h"
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

typedef struct luo_hap_place { /* what a program is to be a plan of */
    const luo_model *model;
    const luo_cluster *cluster;
    luo_dtype dtype;
    const luo_hap_devices *devices;
    int64_t sequences, tokens; /* of a micro-batch */
    int32_t micro_batches;
} luo_hap_place;
/* One pipeline of one stage on all devices, every tensor annotated; without meta.
 * Errors: as luo_hap_emit. Owner: arena; the devices are kept. */
luo_status luo_hap_as_plan(luo_arena *arena, const luo_hap_result *result,
                           const luo_hap_place *place, luo_plan **out, luo_err *err);

typedef struct luo_hap_ask {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    const int32_t *usable; /* devices, rising */
    int32_t nusable;
    const double *rate;        /* as luo_hap_devices_of */
    int64_t sequences, tokens; /* of a step; of a sequence */
    int32_t micro_batches;     /* at least; 1, 2, 4 .. */
    bool as_it_is;             /* as in luo_hap_job */
    bool one_start;            /* from shares by speed alone, not from all that are known */
    double most_s;             /* a step that takes longer is of no use; 0: any is */
} luo_hap_ask;
/* The plan of the best program in the model's precision: of as few micro-batches as make it fit,
 * twice as many at a time.
 *   step_s  J of a step: of all micro-batches, gradients summed once
 * *out NULL, LUO_OK: step_s is above most_s; of the best program from one start it is asked first,
 * with no heed to memory, and more micro-batches are not tried then.
 * Errors: LUO_EINPUT a model that it does not know; LUO_EINFEASIBLE nothing fits; LUO_ENOMEM.
 * Owner: arena. Cost: that of luo_hap_alternate, for each number of micro-batches. */
luo_status luo_hap_plan(luo_arena *arena, const luo_hap_ask *ask, luo_plan **out, double *step_s,
                        luo_err *err);
#endif
