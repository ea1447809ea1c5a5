/* result_sum.h: results of the parts of a step as one. */
#ifndef LUO_CORE_RUN_LENGTHS_RESULT_SUM_H
#define LUO_CORE_RUN_LENGTHS_RESULT_SUM_H
#include "core/base/arena.h"
#include "core/run/backend.h"

typedef struct luo_result_sum {
    luo_arena *arena;
    luo_step_result result; /* of those added so far; without records and traffic by group */
    luo_parts *parts;
    double *compute_s, *predicted_s;
    int64_t *memory;
    luo_link_use *links;
} luo_result_sum;

/* Adds what came after what was added before; the time between them moves. Pre: *sum all 0 but for
 * the arena at first; the same devices in the same order. Errors: LUO_EBUG they are not;
 * LUO_ENOMEM. Owner: arena. */
luo_status luo_result_add(luo_result_sum *sum, const luo_step_result *result, luo_err *err);
#endif
