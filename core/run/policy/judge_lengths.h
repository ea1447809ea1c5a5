/* judge_lengths.h: the plan of a step of uneven lengths, chosen by the simulated step
 * (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_RUN_POLICY_JUDGE_LENGTHS_H
#define LUO_CORE_RUN_POLICY_JUDGE_LENGTHS_H
#include "core/plan/hydraulis/step_plan.h"
#include "core/run/policy/judge.h"

typedef struct luo_judged_lengths {
    luo_step_plan step;
    luo_plan *plan;
    double seconds;    /* INFINITY: none of those that were simulated can run; then *why says it */
    int32_t simulated; /* plans */
} luo_judged_lengths;

/* The pool does not know what moves between the optimizer's layout and a plan: extra_ms[p] is what
 * plan p took longer on the simulator than by the pool, in the steps before; 0: it was never
 * simulated. The best plan with these is simulated and its extra learned until the best one is one
 * that was simulated on this batch, at most LUO_JUDGE_LENGTHS times; the fastest of them is the
 * answer. What was never simulated counts as free, so nothing is left out that looks better.
 * In/out: extra_ms[nplans]. rate: as luo_judge_plan.
 * Errors: those of luo_step_choose and luo_judge_plan. Owner: arena. */
enum { LUO_JUDGE_LENGTHS = 8 };
luo_status luo_judge_lengths(luo_arena *arena, const luo_judge *judge, const luo_step_place *place,
                             const luo_pool *pool, const luo_replicas *plans, int32_t nplans,
                             const int64_t *length, int32_t n, const luo_step_opts *opts,
                             const double *rate, double *extra_ms, luo_judged_lengths *out,
                             luo_err *err);
#endif
