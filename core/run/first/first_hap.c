/* The planner `hap` on the devices that are up. */
#include <math.h>

#include "core/plan/hap/emit.h"
#include "core/run/first/first.h"
#include "core/run/run.h"

luo_status luo_first_hap(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_uniform_opts opts = luo_first_opts(run, 1);
    double *rate;
    bool *candidate;
    luo_plan *plan;
    double step_s;
    LUO_TRY(luo_first_batch(run, "hap", err));
    LUO_TRY(luo_first_rates(run, &rate, &candidate, err));
    int32_t *usable = LUO_NEW_N(run->arena, int32_t, sc->cluster->ndevices), n = 0;
    if (!usable) return luo_err_nomem(err);
    for (int32_t d = 0; d < sc->cluster->ndevices; d++)
        if (candidate[d] && isfinite(rate[d])) usable[n++] = d;
    if (n == 0) return luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
    luo_hap_ask ask = {.model = sc->model,
                       .cluster = sc->cluster,
                       .stack = &sc->stack,
                       .usable = usable,
                       .nusable = n,
                       .rate = rate,
                       .sequences = sc->batch_sequences,
                       .tokens = opts.sequence_tokens,
                       .micro_batches = 1};
    luo_status st;
    do { /* what is compiled may need more memory than the planner counts */
        LUO_TRY(luo_hap_plan(run->arena, &ask, &plan, &step_s, err));
        st = luo_first_use(run, (const luo_plan *const *)&plan, 1, err);
        ask.micro_batches = 2 * plan->pipelines[0].micro_batches;
    } while (st == LUO_EINFEASIBLE);
    return st;
}
