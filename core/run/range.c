/* How sure the step of a run is: the range of the plan that made most steps, of uneven lengths that
 * of the last step, on the healthy cluster (docs/cost-model.md#ranges). Simulated apart from the
 * run, without noise and events. */
#include "core/run/policy/judge_range.h"
#include "core/run/run.h"

static luo_used_plan *plan_of(const luo_run *run)
{
    luo_used_plan *best = run->plans.list[0];
    if (run->lengths) return luo_run_plan(&run->plans);
    for (int32_t i = 1; i < run->plans.n; i++)
        if (run->plans.list[i]->steps > best->steps) best = run->plans.list[i];
    return best;
}

static luo_status find_range(luo_run *run, const luo_used_plan *used, luo_run_summary *summary,
                             luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_judge judge = {.simulator = run->backend.table,
                             .model = sc->model,
                             .cluster = sc->cluster,
                             .stack = &sc->stack,
                             .comm = run->job.opts->comm,
                             .one_comm_stream = run->job.opts->one_comm_stream,
                             .interrupted = run->job.opts->interrupted};
    const luo_dtype dtype = luo_run_plan_of(used)->dtype;
    luo_time_range *range = LUO_NEW(run->arena, luo_time_range);
    double *draws = LUO_NEW_N(run->arena, double, run->job.opts->draws + 1);
    if (!range || !draws) return luo_err_nomem(err);
    LUO_TRY(luo_judge_range(run->arena, &judge, used->set, dtype, NULL, run->job.opts->work, range,
                            err));
    LUO_TRY(luo_judge_draws(run->arena, &judge, used->set, dtype, NULL, run->job.opts->work,
                            sc->seed, run->job.opts->draws, draws, err));
    summary->range = range;
    summary->draws = draws;
    summary->ndraws = run->job.opts->draws;
    return LUO_OK;
}

luo_status luo_run_range(luo_run *run, luo_run_summary *summary, luo_err *err)
{
    if (!run->job.opts->range || run->job.real || !(run->backend.table->caps & LUO_CAP_WHAT_IF) ||
        run->plans.n == 0)
        return LUO_OK;
    if (run->job.policy->bound || luo_run_interrupted(&run->job)) return LUO_OK;
    luo_used_plan *used = plan_of(run);
    const bool kept = used->set != NULL;
    if (!kept && used->frame) return LUO_OK; /* programs of one batch, which are gone */
    LUO_TRY(luo_run_recompile(run, used, err));
    const luo_status st = find_range(run, used, summary, err);
    if (!kept) luo_run_give_back(used);
    return st == LUO_ECANCELED ? LUO_OK : st; /* stopped while the run was ending */
}
