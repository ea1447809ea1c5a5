/* first.h: what planners of first plans share; for core/run/first/ only. */
#ifndef LUO_CORE_RUN_FIRST_FIRST_H
#define LUO_CORE_RUN_FIRST_FIRST_H
#include "core/plan/planners.h"
#include "core/run/run.h"

/* Makes the first plan of a run and takes it (luo_first_use): one per row of planners.inc.
 * Errors: LUO_EINPUT something of the scenario is missing for it; LUO_EINFEASIBLE no plan fits. */
#define LUO_PLANNER(name, says, options) luo_status luo_first_##name(luo_run *run, luo_err *err);
#include "core/run/first/planners.inc"
#undef LUO_PLANNER

/* Is the batch of a step known, which `planner` has to cut? Errors: LUO_EINPUT. */
luo_status luo_first_batch(const luo_run *run, const char *planner, luo_err *err);
/* What the scenario asks the uniform planner, the `top` best of plans that every policy can work
 * on. */
luo_uniform_opts luo_first_opts(const luo_run *run, int32_t top);
/* Of every device: its rate, INFINITY where it is not up, and whether it may be used. Nobody is
 * known to be slow yet: what is up has rate 1, and standby stays out. */
luo_status luo_first_rates(luo_run *run, double **rate, bool **candidate, luo_err *err);
/* The first that fits of plans in their order becomes the running one.
 * Errors: LUO_EINFEASIBLE none fits. */
luo_status luo_first_use(luo_run *run, const luo_plan *const *plan, int32_t n, luo_err *err);
#endif
