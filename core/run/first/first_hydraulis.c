/* The first plan by the planner for uneven lengths, for the lengths that the scenario has: replicas
 * side by side for one batch of them. */
#include <math.h>

#include "core/plan/hydraulis/step_plan.h"
#include "core/plan/length_policies/length_setup.h"
#include "core/run/first/first.h"

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

/* One batch, which all batches are like. */
static luo_status choose(luo_run *run, const luo_length_setup_in *in, const luo_length_setup *setup,
                         luo_plan **out, luo_err *err)
{
    luo_length_source source = luo_length_source_open(0);
    const luo_step_place place = {.model = in->model,
                                  .cluster = in->cluster,
                                  .ndevices = in->ndevices,
                                  .devices = in->devices,
                                  .dtype = in->model->dtype,
                                  .ctx = in->rule.most};
    luo_step_plan step;
    int64_t *length;
    int32_t n;
    LUO_TRY(luo_lengths_batch(run->arena, in->lengths, &in->rule, in->limit, &source, &length, &n,
                              err));
    LUO_TRY(luo_step_choose(run->arena, &setup->pool, setup->found.plan, setup->found.n, length, n,
                            &in->step, &step, err));
    return luo_step_plan_make(run->arena, &place, &setup->pool, &setup->found.plan[step.plan],
                              &step, length, NULL, n, out, err);
}

luo_status luo_first_hydraulis(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const int64_t ctx = sc->length_tokens > 0 ? sc->length_tokens : sc->model->max_sequence_tokens;
    const luo_lengths lengths = {.kind = LUO_LENGTH_FIXED, .tokens = ctx};
    luo_length_setup setup;
    int32_t *dev, n;
    luo_plan *plan;
    LUO_TRY(luo_first_batch(run, "hydraulis", err));
    LUO_TRY(usable(run, &dev, &n, err));
    if (n == 0) return luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
    const luo_length_setup_in in = {.model = sc->model,
                                    .cluster = sc->cluster,
                                    .stack = &sc->stack,
                                    .ndevices = n,
                                    .devices = dev,
                                    .lengths = &lengths,
                                    .rule = {.sequences = sc->batch_sequences, .most = ctx},
                                    .limit = sc->batch_sequences,
                                    .step = {.kicks = -1, .current = -1}};
    LUO_TRY(luo_length_setup_make(run->arena, &in, &setup, err));
    luo_length_setup_rates(&setup, NULL);
    LUO_TRY(choose(run, &in, &setup, &plan, err));
    return luo_first_use(run, (const luo_plan *const *)&plan, 1, err);
}
