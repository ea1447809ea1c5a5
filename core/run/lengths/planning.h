/* planning.h: when the plan of a step is ready that workers on CPUs make while training runs
 * (docs/planners.md#planning-ahead). Times are seconds of the run. */
#ifndef LUO_CORE_RUN_LENGTHS_PLANNING_H
#define LUO_CORE_RUN_LENGTHS_PLANNING_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef struct luo_planning {
    double plan_s;   /* a worker's time for one plan */
    int32_t workers; /* each makes one plan at a time, in the order of the steps */
    int32_t window;  /* the plan of step k may begin when step k - window begins; 0: with step k */
    double *free_s;  /* per worker: when it can begin the next */
    double *start_s; /* of the last `window` steps, step k at k mod window */
    int64_t again;   /* plans of this step and later ones do not begin before again_s */
    double again_s;
} luo_planning;

/* Pre: workers >= 1, window >= 0, plan_s >= 0. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_planning_open(luo_arena *arena, double plan_s, int32_t workers, int32_t window,
                             luo_planning *out, luo_err *err);
/* When the plan of this step is ready; now: the boundary before it. Each step is asked once, in
 * order, and told when it began. Cost: O(workers). */
double luo_planning_ready(luo_planning *planning, int64_t step, double now);
void luo_planning_began(luo_planning *planning, int64_t step, double start_s);
/* The world is not what plans were made for: they are thrown away, and those of this step and later
 * ones begin now. */
void luo_planning_restart(luo_planning *planning, int64_t step, double now);
#endif
