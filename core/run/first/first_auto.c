/* Every planner's plan for the first step, the fastest of those that the policy can work on. */
#include <math.h>

#include "core/run/auto/auto.h"
#include "core/run/first/first.h"
#include "core/run/run.h"

luo_status luo_first_auto(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_plan *plan[LUO_AUTO_PLANNERS];
    luo_auto_answer answer;
    double *rate;
    bool *candidate;
    int32_t n = 0;
    if (!run->decision.judge.simulator)
        return luo_err_set(err, LUO_EINPUT, "planner `auto` simulates plans, and there is no "
                           "simulator here; another planner or a plan is expected.");
    LUO_TRY(luo_first_batch(run, "auto", err));
    LUO_TRY(luo_first_rates(run, &rate, &candidate, err));
    luo_auto_in in = {.judge = &run->decision.judge,
                      .opts = luo_first_opts(run, 1),
                      .rate = rate,
                      .candidate = candidate,
                      .scenario = sc,
                      .spec = run->job.spec,
                      .for_policy = true,
                      .simulated = luo_run_judges(run)};
    in.opts.types = true; /* all that the verb searches */
    in.opts.layers = LUO_UNIFORM_BOTH;
    in.opts.schedule = in.opts.cp = in.opts.shard = -1;
    in.opts.zero_most = 3;
    LUO_TRY(luo_auto_plan(run->arena, &in, &answer, err));
    plan[n++] = answer.at[answer.best].plan;
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) /* if the best does not fit after all */
        if (k != answer.best && answer.at[k].plan) plan[n++] = answer.at[k].plan;
    return luo_first_use(run, plan, n, err);
}
