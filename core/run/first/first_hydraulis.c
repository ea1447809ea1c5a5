/* The first plan by the planner for uneven lengths, for the lengths that the scenario has: replicas
 * side by side for one batch of them. */
#include <math.h>

#include "core/plan/hydraulis/candidates.h"
#include "core/plan/hydraulis/pool_model.h"
#include "core/plan/hydraulis/step_plan.h"
#include "core/plan/length_policies/length_setup.h"
#include "core/run/first/first.h"

enum { GRID = 1024, FEW_DEVICES = 64, STEP_OF_MANY = 4 };

static luo_status usable(luo_run *run, int32_t **dev, int32_t *n, luo_err *err)
{
    double *rate;
    bool *candidate;
    const int32_t all = run->job.scenario->cluster->ndevices;
    LUO_TRY(luo_first_rates(run, &rate, &candidate, err));
    *dev = LUO_NEW_N(run->arena, int32_t, all);
    *n = 0;
    if (!*dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < all; d++)
        if (isfinite(rate[d]) && candidate[d]) (*dev)[(*n)++] = d;
    return LUO_OK;
}

static luo_status choose(luo_run *run, luo_candidates_in *in, const luo_step_place *place,
                         luo_plan **out, luo_err *err)
{
    const luo_step_opts opts = {.kicks = -1, .current = -1};
    luo_length_source source = luo_length_source_open(0);
    luo_candidates found;
    luo_step_plan step;
    int64_t *length;
    int32_t n;
    LUO_TRY(luo_candidates_make(run->arena, in, &found, err));
    LUO_TRY(luo_lengths_batch(run->arena, in->lengths, &in->rule, in->sequences, &source, &length,
                              &n, err));
    LUO_TRY(
        luo_step_choose(run->arena, in->pool, found.plan, found.n, length, n, &opts, &step, err));
    return luo_step_plan_make(run->arena, place, in->pool, &found.plan[step.plan], &step, length,
                              NULL, n, out, err);
}

luo_status luo_first_hydraulis(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const int64_t ctx = sc->length_tokens > 0 ? sc->length_tokens : sc->model->max_sequence_tokens;
    const luo_lengths lengths = {.kind = LUO_LENGTH_FIXED, .tokens = ctx};
    int32_t *dev, n;
    luo_pool pool;
    luo_plan *plan;
    LUO_TRY(luo_first_batch(run, "hydraulis", err));
    LUO_TRY(usable(run, &dev, &n, err));
    if (n == 0) return luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
    const luo_optimizer_layout layout = luo_length_layout(sc->model, sc->cluster, dev, n);
    const luo_pool_model_in model = {.model = sc->model,
                                     .cluster = sc->cluster,
                                     .stack = &sc->stack,
                                     .ndevices = n,
                                     .devices = dev,
                                     .layout = layout,
                                     .ctx = ctx};
    LUO_TRY(luo_pool_model(run->arena, &model, &pool, err));
    luo_candidates_in in = {.pool = &pool,
                            .lengths = &lengths,
                            .rule = {.sequences = sc->batch_sequences, .most = ctx},
                            .devices = n,
                            .grid_step = ctx < GRID ? ctx : GRID,
                            .floor = true,
                            .published = true,
                            .sequences = sc->batch_sequences};
    in.device_step = n > FEW_DEVICES && n % STEP_OF_MANY == 0 ? STEP_OF_MANY : 1;
    const luo_step_place place = {.model = sc->model,
                                  .cluster = sc->cluster,
                                  .ndevices = n,
                                  .devices = dev,
                                  .dtype = sc->model->dtype,
                                  .ctx = ctx};
    LUO_TRY(choose(run, &in, &place, &plan, err));
    return luo_first_use(run, (const luo_plan *const *)&plan, 1, err);
}
