/* pace.h: how fast this machine is against the profile, on backends that hold data. */
#ifndef LUO_CORE_RUN_HEALTH_PACE_H
#define LUO_CORE_RUN_HEALTH_PACE_H
#include "core/run/run.h"

/* compute_s over predicted_s of device i of the plan, on the scale of the profile as far as
 * that is known, 1 = nominal; < 0: nothing was predicted. */
double luo_pace_ratio(const luo_run *run, const luo_step_result *result, int32_t i);
luo_status luo_pace_init(luo_run *run, luo_err *err);
/* Of the median device of this step, while factors are not known: what else to divide by. Else 1.
 */
double luo_pace_of_step(const luo_run *run, const luo_step_result *result);
/* Takes the samples of a step; true: the factor has just been fixed. */
bool luo_pace_take(luo_run *run, const luo_step_result *result);
/* Was the device accepted as faster than nominal? Then nominal was wrong, is set right, and there
 * is no trigger. */
bool luo_pace_correct(luo_run *run, int32_t device);
/* Another program: the factor has to be found again. */
void luo_pace_forget(luo_run_health *health);
#endif
