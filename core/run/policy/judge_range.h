/* judge_range.h: the range of a simulated step (core/cost/spread.h). */
#ifndef LUO_CORE_RUN_POLICY_JUDGE_RANGE_H
#define LUO_CORE_RUN_POLICY_JUDGE_RANGE_H
#include "core/base/work.h"
#include "core/cost/spread.h"
#include "core/run/policy/judge.h"

/* Instructions of one step of all devices. */
double luo_judge_operations(const luo_programs *set);
/* Sensitivities of one step of programs, simulated as luo_judge_simulate does, but with comm model
 * where all these steps together have more operations than the limit `range-ops`. work NULL: the
 * default. Errors: those of luo_judge_simulate. Owner: arena. Cost: two simulated steps a
 * constant. */
luo_status luo_judge_range(luo_arena *arena, const luo_judge *judge, const luo_programs *set,
                           luo_dtype dtype, const double *rate, const luo_work *work,
                           luo_time_range *out, luo_err *err);
/* The same of a plan, which is compiled as luo_judge_plan does. Pre: it can run. */
luo_status luo_judge_range_of_plan(luo_arena *arena, const luo_judge *judge, const luo_plan *plan,
                                   int64_t sequence_tokens, const double *rate,
                                   const luo_work *work, luo_time_range *out, luo_err *err);
/* n steps with drawn constants (luo_spread_draws), under the same limit. out[n]. */
luo_status luo_judge_draws(luo_arena *arena, const luo_judge *judge, const luo_programs *set,
                           luo_dtype dtype, const double *rate, const luo_work *work, uint64_t seed,
                           int32_t n, double *out, luo_err *err);
#endif
