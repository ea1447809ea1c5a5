/* What the slowness of one device does to a step: the first plan's step with only this device slow,
 * at its mean over the run, over the step with none (the column `caused_slowdown`, as in
 * StragglerAnalysis). Simulated apart from the run, without noise and events, for the slowest
 * devices first, as far as the limit of work allows. */
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

static double mean_slowdown(const luo_account *a, int32_t d)
{
    return a->predicted_s[d] > 0 ? a->compute_s[d] / a->predicted_s[d] : 1;
}

static luo_status step(luo_run_backend *backend, luo_backend_state *b, const luo_used_plan *u,
                       const luo_world *world, double *seconds, luo_err *err)
{
    const luo_recipe recipe = luo_run_recipe(u);
    const luo_step_request q = {.programs = u->set, .recipe = &recipe, .world = world};
    luo_step_result s;
    LUO_TRY(backend->table->run_ranks(b, &q, &s, err));
    *seconds = s.end_s - s.start_s;
    return s.status == LUO_OK ? LUO_OK : luo_err_set(err, s.status, "%s", s.text);
}

/* at[0..n) by slowness; caused[d] of those that the work allows. */
static luo_status try_all(luo_run *r, luo_backend_state *b, const luo_used_plan *u,
                          const suspect *at, int32_t n, double *caused, luo_err *err)
{
    const double most = (double)luo_work_most(r->job.opts->work, LUO_WORK_WHAT_IFS);
    luo_world *world;
    double none, one;
    if (n == 0 || 2 * u->operations > most) return LUO_OK;
    LUO_TRY(luo_world_new(r->arena, r->job.scenario->cluster, &world, err));
    for (int32_t d = 0; d < world->ndevices; d++) {
        world->slowdown[d] = 1;
        world->up[d] = true;
    }
    LUO_TRY(step(&r->backend, b, u, world, &none, err));
    for (int32_t i = 0; i < n && (i + 2) * u->operations <= most; i++) {
        world->slowdown[at[i].device] = at[i].slowdown;
        LUO_TRY(step(&r->backend, b, u, world, &one, err));
        world->slowdown[at[i].device] = 1;
        caused[at[i].device] = one / none;
    }
    return LUO_OK;
}

static luo_status find_caused(luo_run *r, luo_used_plan *u, double *caused, luo_err *err)
{
    suspect *at = LUO_NEW_N(r->arena, suspect, u->ndev);
    int32_t n = 0;
    if (!at) return luo_err_nomem(err);
    for (int32_t i = 0; i < u->ndev; i++) {
        const int32_t d = u->dev[i];
        const double slowdown = mean_slowdown(&r->ledger.account, d);
        if (r->ledger.account.used_s[d] <= 0) continue;
        if (slowdown > SLOW) at[n++] = (suspect){d, slowdown};
        else caused[d] = 1;
    }
    if (n == 0) return LUO_OK;
    qsort(at, (size_t)n, sizeof *at, slowest_first);
    luo_backend_config config = luo_run_config(r);
    luo_backend_state *b = NULL;
    const bool kept = u->set != NULL;
    config.compute_sigma = config.comm_sigma = 0;
    LUO_TRY(luo_run_recompile(r, u, err));
    luo_status st = r->backend.table->open(&config, &b, err);
    if (st == LUO_OK) st = try_all(r, b, u, at, n, caused, err);
    if (b) r->backend.table->close(b);
    if (!kept) luo_run_give_back(u);
    return st;
}

luo_status luo_run_caused(luo_run *r, double *caused, luo_err *err)
{
    for (int32_t d = 0; d < r->job.scenario->cluster->ndevices; d++) caused[d] = -1;
    if (!(r->backend.table->caps & LUO_CAP_WHAT_IF) || r->job.policy->bound || r->plans.n == 0)
        return LUO_OK;
    if (luo_run_interrupted(&r->job)) return LUO_OK;
    const luo_status st = find_caused(r, r->plans.list[0], caused, err);
    return st == LUO_ECANCELED ? LUO_OK : st; /* stopped while the run was ending */
}
