/* training_step.c: a step of as many iterations as there are workers becomes a row. */
#include <math.h>
#include <string.h>

#include "core/run/training/training_internal.h"

static int32_t place_of(const luo_used_plan *used, int32_t device)
{
    int32_t i = 0;
    while (used->dev[i] != device) i++;
    return i;
}

/* A worker's devices share its time: work is told as the whole iteration, its bubbles included. */
static void put_worker(training *t, const luo_used_plan *used, int32_t w, double seconds)
{
    const luo_pipeline *pipeline = &t->plan->pipelines[w];
    const double *spent = t->at[w].spent_s;
    const luo_parts parts = {.compute_s = spent[TRAINER_COMPUTES],
                             .dp_s = spent[TRAINER_EXCHANGES],
                             .bubble_s =
                                 seconds - spent[TRAINER_COMPUTES] - spent[TRAINER_EXCHANGES]};
    for (int32_t s = 0; s < pipeline->nstages; s++)
        for (int32_t k = 0; k < pipeline->stages[s].ndev; k++) {
            const int32_t i = place_of(used, pipeline->stages[s].dev[k]);
            t->parts[i] = parts;
            t->compute_s[i] = t->predicted_s[i] = parts.compute_s;
        }
}

luo_status luo_training_close_step(training *t, luo_err *err)
{
    luo_run *run = t->run;
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const double start_s = t->step_start_s, end_s = run->clock.t_s;
    int32_t attempt;
    for (int32_t w = 0; w < t->n; w++) put_worker(t, used, w, end_s - start_s);
    const luo_step_result result = {.status = LUO_OK,
                                    .start_s = start_s,
                                    .end_s = end_s,
                                    .failed_device = -1,
                                    .failed_link = -1,
                                    .n = used->ndev,
                                    .parts = t->parts,
                                    .compute_s = t->compute_s,
                                    .predicted_s = t->predicted_s};
    LUO_TRY(luo_account_attempt(run, &attempt, err));
    run->health.discard = true; /* nobody looks at the speed of devices */
    LUO_TRY(luo_run_keep(run, &result, attempt, start_s, err));
    run->decision.trigger = 0;
    for (int32_t w = 0; w < t->n; w++) memset(t->at[w].spent_s, 0, sizeof t->at[w].spent_s);
    t->ended -= t->n;
    t->step_start_s = end_s;
    return LUO_OK;
}
