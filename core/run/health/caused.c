/* What the slowness of one device does to a step: the first plan's step with only this device slow,
 * at its mean over the run, over the step with none (the column `caused_slowdown`, as in
 * StragglerAnalysis); with uneven lengths, of the last step. Simulated apart from the run, without
 * noise and events, for the slowest devices first, as far as the limit of work allows. */
#include <stdlib.h>

#include "core/run/run.h"

/* A device that is this near to its type's speed is not slow: rounding, or one kernel. */
#define SLOW 1.001

typedef struct suspect {
    int32_t device;
    double slowdown;
} suspect;

static int slowest_first(const void *p, const void *q)
{
    const suspect *a = p, *b = q;
    if (a->slowdown != b->slowdown) return a->slowdown > b->slowdown ? -1 : 1;
    return (a->device > b->device) - (a->device < b->device);
}

static double mean_slowdown(const luo_account *account, int32_t d)
{
    return account->predicted_s[d] > 0 ? account->compute_s[d] / account->predicted_s[d] : 1;
}

static luo_status step(luo_run_backend *backend, luo_backend_state *b, const luo_used_plan *used,
                       const luo_world *world, double *seconds, luo_err *err)
{
    const luo_recipe recipe = luo_run_recipe(used);
    const luo_step_request request = {.programs = used->set, .recipe = &recipe, .world = world};
    luo_step_result result;
    LUO_TRY(backend->table->run_ranks(b, &request, &result, err));
    *seconds = result.end_s - result.start_s;
    return result.status == LUO_OK ? LUO_OK : luo_err_set(err, result.status, "%s", result.text);
}

/* at[0..n) by slowness; caused[d] of those that the work allows. */
static luo_status try_all(luo_run *run, luo_backend_state *backend, const luo_used_plan *used,
                          const suspect *at, int32_t n, double *caused, luo_err *err)
{
    const double most = (double)luo_work_most(run->job.opts->work, LUO_WORK_WHAT_IFS);
    luo_world *world;
    double none, one;
    if (n == 0 || 2 * used->operations > most) return LUO_OK;
    LUO_TRY(luo_world_new(run->arena, run->job.scenario->cluster, &world, err));
    for (int32_t d = 0; d < world->ndevices; d++) {
        world->slowdown[d] = 1;
        world->up[d] = true;
    }
    LUO_TRY(step(&run->backend, backend, used, world, &none, err));
    for (int32_t i = 0; i < n && (i + 2) * used->operations <= most; i++) {
        world->slowdown[at[i].device] = at[i].slowdown;
        LUO_TRY(step(&run->backend, backend, used, world, &one, err));
        world->slowdown[at[i].device] = 1;
        caused[at[i].device] = one / none;
    }
    return LUO_OK;
}

static luo_status find_caused(luo_run *run, luo_used_plan *used, double *caused, luo_err *err)
{
    suspect *at = LUO_NEW_N(run->arena, suspect, used->ndev);
    int32_t n = 0;
    if (!at) return luo_err_nomem(err);
    for (int32_t i = 0; i < used->ndev; i++) {
        const int32_t d = used->dev[i];
        const double slowdown = mean_slowdown(&run->ledger.account, d);
        if (run->ledger.account.used_s[d] <= 0) continue;
        if (slowdown > SLOW) at[n++] = (suspect){d, slowdown};
        else caused[d] = 1;
    }
    if (n == 0) return LUO_OK;
    qsort(at, (size_t)n, sizeof *at, slowest_first);
    luo_backend_config config = luo_run_config(run);
    luo_backend_state *backend = NULL;
    const bool kept = used->set != NULL;
    config.compute_sigma = config.comm_sigma = 0;
    LUO_TRY(luo_run_recompile(run, used, err));
    luo_status st = run->backend.table->open(&config, &backend, err);
    if (st == LUO_OK) st = try_all(run, backend, used, at, n, caused, err);
    if (backend) run->backend.table->close(backend);
    if (!kept) luo_run_give_back(used);
    return st;
}

luo_status luo_run_caused(luo_run *run, double *caused, luo_err *err)
{
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) caused[d] = -1;
    if (!(run->backend.table->caps & LUO_CAP_WHAT_IF) || run->job.policy->bound ||
        run->plans.n == 0)
        return LUO_OK;
    if (luo_run_interrupted(&run->job)) return LUO_OK;
    luo_used_plan *used = run->lengths ? luo_run_plan(&run->plans) : run->plans.list[0];
    if (!used->set) return LUO_OK;
    const luo_status st = find_caused(run, used, caused, err);
    return st == LUO_ECANCELED ? LUO_OK : st; /* stopped while the run was ending */
}
