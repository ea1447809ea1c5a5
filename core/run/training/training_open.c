/* training_open.c: what can train so, and how it begins. */
#include <stdio.h>
#include <string.h>

#include "core/run/training/training_internal.h"

/* ---- may it ---- */

static luo_status refuse(luo_err *err, const char *what, const char *instead)
{
    return luo_err_set(err, LUO_EINPUT, "`training` cannot go with %s; %s is expected.", what,
                       instead);
}

static bool equal_pipelines(const luo_plan *plan)
{
    for (int32_t i = 1; i < plan->npipelines; i++)
        if (plan->pipelines[i].micro_batches != plan->pipelines[0].micro_batches ||
            plan->pipelines[i].micro_batch_sequences != plan->pipelines[0].micro_batch_sequences ||
            plan->pipelines[i].micro_batch_tokens)
            return false;
    return true;
}

/* What the simulator lets contend. */
static luo_status check_messages(luo_run *run, luo_err *err)
{
    enum { MOST = 3800 };
    const training t = {.spec = &run->job.spec->training,
                        .plan = luo_run_plan(&run->plans)->plan,
                        .n = luo_run_plan(&run->plans)->plan->npipelines};
    const int64_t n = t.spec->server_devices ? luo_training_messages(&t) : 0;
    if (n <= MOST) return LUO_OK;
    return luo_err_set(err, LUO_E2BIG,
                       "`training` exchanges %lld messages with the servers at once; at most %d "
                       "are simulated, give fewer `server_devices`.",
                       (long long)n, MOST);
}

luo_status luo_training_check(luo_run *run, luo_err *err)
{
    const luo_training_spec *spec = &run->job.spec->training;
    const luo_plan *plan = luo_run_plan(&run->plans)->plan;
    char text[160];
    if (strcmp(run->job.spec->name, "static") != 0) {
        snprintf(text, sizeof text, "policy `%.60s`", run->job.spec->name);
        return refuse(err, text, "policy `static`");
    }
    if (run->job.real) return refuse(err, "this backend", "the simulator");
    if (run->lengths) return refuse(err, "uneven lengths", "a fixed length");
    if (run->job.scenario->checkpoint.kind != LUO_CHECKPOINT_NONE)
        return refuse(err, "`checkpoint`", "a scenario without it");
    if (plan->zero > 0 || plan->expert_groups || plan->nannotations > 0)
        return refuse(err, "state that replicas share",
                      "a plan with `zero` 0 and no experts shared");
    if (!equal_pipelines(plan))
        return refuse(err, "pipelines that differ in their micro-batches",
                      "a plan with equal ones");
    if (spec->max_group > plan->npipelines) {
        snprintf(text, sizeof text, "`max_group` %d and %d pipelines", spec->max_group,
                 plan->npipelines);
        return refuse(err, text, "one of at most as many");
    }
    return check_messages(run, err);
}

/* ---- the beginning ---- */

static luo_status make_controllers(training *t, luo_err *err)
{
    const luo_training_spec *spec = t->spec;
    const int64_t staleness = spec->mode == LUO_TRAINING_SSP   ? spec->staleness
                              : spec->mode == LUO_TRAINING_ASP ? -1
                                                               : 0;
    const luo_preduce_opts opts = {.workers = t->n,
                                   .max_group = spec->max_group ? spec->max_group : t->n,
                                   .wait_s = spec->wait_s,
                                   .guard = spec->guard,
                                   .adaptive = spec->adaptive,
                                   .wait_max_s = spec->wait_max_s,
                                   .wait_min_s = spec->wait_min_s};
    if (spec->mode == LUO_TRAINING_PREDUCE)
        return luo_preduce_new(t->arena, &opts, &t->preduce, err);
    if (spec->mode == LUO_TRAINING_ADPSGD)
        return luo_adpsgd_new(t->arena, t->n, t->run->job.scenario->seed, &t->adpsgd, err);
    return luo_clock_new(t->arena, t->n, staleness, &t->clock, err);
}

luo_status luo_training_open(training *t, luo_run *run, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const luo_cluster *cluster = run->job.scenario->cluster;
    *t = (training){.run = run,
                    .spec = &run->job.spec->training,
                    .plan = used->plan,
                    .arena = run->arena,
                    .n = used->plan->npipelines,
                    .living = used->plan->npipelines,
                    .step_start_s = run->clock.t_s};
    t->at = LUO_NEW_N(t->arena, trainer, t->n);
    t->like = LUO_NEW_N(t->arena, int32_t, t->n);
    t->cut = LUO_NEW_N(t->arena, int32_t, t->n);
    t->crosses = LUO_NEW_N(t->arena, bool, t->n);
    t->link_number = LUO_NEW_N(t->arena, int32_t, cluster->nlinks);
    t->node_number = LUO_NEW_N(t->arena, int32_t, cluster->nnodes);
    t->seen_link = LUO_NEW_N(t->arena, int32_t, cluster->nlinks);
    t->seen_dev = LUO_NEW_N(t->arena, int32_t, cluster->ndevices);
    t->parts = LUO_NEW_N(t->arena, luo_parts, used->ndev);
    t->compute_s = LUO_NEW_N(t->arena, double, used->ndev);
    t->predicted_s = LUO_NEW_N(t->arena, double, used->ndev);
    t->rate = LUO_NEW_N(t->arena, double, cluster->ndevices);
    if (!t->at || !t->like || !t->cut || !t->crosses || !t->link_number || !t->node_number ||
        !t->seen_link || !t->seen_dev || !t->parts || !t->compute_s || !t->predicted_s || !t->rate)
        return luo_err_nomem(err);
    for (int32_t w = 0; w < t->n; w++) t->at[w].ended_s = run->clock.t_s;
    for (int32_t l = 0; l < cluster->nlinks; l++) t->link_number[l] = -1;
    for (int32_t k = 0; k < cluster->nnodes; k++) t->node_number[k] = -1;
    luo_training_compare(t);
    luo_training_see_links(t);
    return make_controllers(t, err);
}
