/* megatron.c: a uniform plan as arguments of Megatron-LM (docs/formats.md#exported-files): how it
 * is parallel. What the network is: megatron_model.c. */
#include "core/io/export/megatron.h"

#include <stdarg.h>
#include <stdio.h>

void megatron_flag(luo_str *text, const char *fmt, ...)
{
    char flag[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(flag, sizeof flag, fmt, args);
    va_end(args);
    luo_str_addf(text, "%s%s", text->len ? " \\\n" : "", flag);
}

/* ---- stages ---- */

/* Are the chunks from..to of equal length? */
static bool is_flat(const export_uniform *plan, int32_t from, int32_t to)
{
    for (int32_t i = from + 1; i < to; i++)
        if (plan->layers[i] != plan->layers[from]) return false;
    return true;
}

/* "Et*3|(..)": stages and chunks in the order of the model. */
static void add_layout(luo_str *text, const export_uniform *plan)
{
    const int32_t n = plan->pp * plan->chunks;
    luo_str layout = {0};
    for (int32_t i = 0; i < n; i++) {
        if (i) luo_str_addc(&layout, '|');
        if (i == 0) luo_str_addc(&layout, 'E');
        if (plan->layers[i] > 2) luo_str_addf(&layout, "t*%d", plan->layers[i]);
        for (int32_t k = 0; k < plan->layers[i] && plan->layers[i] <= 2; k++)
            luo_str_addc(&layout, 't');
        if (i == n - 1) luo_str_addc(&layout, 'L');
    }
    luo_str_addf(text, "%s--pipeline-model-parallel-layout '%s'", text->len ? " \\\n" : "",
                 luo_str_get(&layout));
    text->failed |= layout.failed;
    luo_str_free(&layout);
}

/* Uneven stages: the first or the last has a number of its own, or a layout tells all. */
static void add_stages(luo_str *text, const export_uniform *plan)
{
    const int32_t pp = plan->pp, last = pp - 1;
    const int32_t *layers = plan->layers;
    if (export_is_even(plan)) {
        if (plan->chunks > 1)
            megatron_flag(text, "--num-layers-per-virtual-pipeline-stage %d", layers[0]);
        return;
    }
    const bool ends = plan->chunks == 1 && pp > 1 && is_flat(plan, 1, last);
    if (!ends || layers[0] == 0 || layers[last] == 0 || (pp > 2 && layers[1] == 0)) {
        add_layout(text, plan);
        return;
    }
    const bool first_alone = is_flat(plan, 1, pp), last_alone = is_flat(plan, 0, last);
    if (first_alone || !last_alone)
        megatron_flag(text, "--decoder-first-pipeline-num-layers %d", layers[0]);
    if (!first_alone) megatron_flag(text, "--decoder-last-pipeline-num-layers %d", layers[last]);
}

/* ---- the rest of the plan ---- */

static luo_status check_schedule(export_job *job)
{
    const luo_sched_kind kind = job->source->plan->schedule;
    if (kind == LUO_SCHED_1F1B || kind == LUO_SCHED_INTERLEAVED) return LUO_OK;
    return export_cannot(job, "/schedule",
                         "Megatron can't express schedule `%s`; `1f1b` or `interleaved_1f1b` is "
                         "expected.",
                         luo_sched_name(kind));
}

static luo_status add_context(export_job *job, luo_str *text, const export_uniform *plan)
{
    if (plan->cp == 1) return LUO_OK;
    if (plan->context_layout == LUO_LAYOUT_CONTIGUOUS)
        return export_cannot(job, "/pipelines/0/stages/0/context_layout",
                             "Megatron can't express contiguous pieces of sequences; `zigzag` is "
                             "expected.");
    megatron_flag(text, "--context-parallel-size %d", plan->cp);
    if (plan->context_kind == LUO_CONTEXT_RING) megatron_flag(text, "--cp-comm-type p2p");
    if (plan->context_kind == LUO_CONTEXT_A2A) megatron_flag(text, "--cp-comm-type a2a");
    if (plan->context_kind != LUO_CONTEXT_2D) return LUO_OK;
    megatron_flag(text, "--cp-comm-type a2a+p2p");
    megatron_flag(text, "--hierarchical-context-parallel-sizes %d %d", plan->context_inner,
                  plan->cp / plan->context_inner);
    return LUO_OK;
}

static luo_status add_experts(export_job *job, luo_str *text, const export_uniform *plan)
{
    int32_t parts;
    if (job->source->model->moe.experts == 0) return LUO_OK;
    LUO_TRY(export_find_experts(job, plan, &parts));
    if (parts > 1) megatron_flag(text, "--expert-model-parallel-size %d", parts);
    if (plan->experts_dealt && plan->tp > 1) megatron_flag(text, "--expert-tensor-parallel-size 1");
    return LUO_OK;
}

static luo_status add_sharding(export_job *job, luo_str *text)
{
    static const char *const strategy[] = {NULL, NULL, "optim_grads", "optim_grads_params"};
    const luo_plan *plan = job->source->plan;
    if (plan->zero == 3 && plan->sharding.kind != LUO_SHARD_FULL)
        return export_cannot(job, "/sharding",
                             "Megatron can't express sharding `%s`; `full` is expected.",
                             luo_shard_name(plan->sharding.kind));
    if (plan->zero > 0) megatron_flag(text, "--use-distributed-optimizer");
    if (plan->zero < 2) return LUO_OK;
    megatron_flag(text, "--use-megatron-fsdp");
    megatron_flag(text, "--data-parallel-sharding-strategy %s", strategy[plan->zero]);
    return LUO_OK;
}

static luo_status add_recompute(export_job *job, luo_str *text, const export_uniform *plan)
{
    if (plan->recompute == LUO_RECOMPUTE_NONE) return LUO_OK;
    megatron_flag(text, "--recompute-granularity %s", luo_recompute_name(plan->recompute));
    if (plan->recompute == LUO_RECOMPUTE_SELECTIVE) {
        if (plan->recompute_first == 0) return LUO_OK;
        return export_cannot(job, "/pipelines/0/stages/0/recompute",
                             "Megatron can't express selective recompute of some layers; all of a "
                             "stage are expected.");
    }
    megatron_flag(text, "--recompute-method %s", plan->recompute_first ? "block" : "uniform");
    megatron_flag(text, "--recompute-num-layers %d",
                  plan->recompute_first ? plan->recompute_first : 1);
    return LUO_OK;
}

static luo_status add_parallel(export_job *job, luo_str *text, const export_uniform *plan)
{
    megatron_flag(text, "--tensor-model-parallel-size %d", plan->tp);
    megatron_flag(text, "--pipeline-model-parallel-size %d", plan->pp);
    LUO_TRY(add_context(job, text, plan));
    LUO_TRY(add_experts(job, text, plan));
    add_stages(text, plan);
    if (plan->pipeline_inside) megatron_flag(text, "--use-tp-pp-dp-mapping");
    if (plan->tp > 1 && job->source->plan->sequence_parallel)
        megatron_flag(text, "--sequence-parallel");
    LUO_TRY(add_sharding(job, text));
    return add_recompute(job, text, plan);
}

luo_status export_megatron(export_job *job)
{
    export_uniform plan = {0};
    luo_str text = {0};
    LUO_TRY(check_schedule(job));
    LUO_TRY(export_find_uniform(job, "Megatron", true, &plan));
    luo_status st = add_parallel(job, &text, &plan);
    if (st == LUO_OK) st = megatron_add_model(job, &text, &plan);
    if (st != LUO_OK) {
        luo_str_free(&text);
        return st;
    }
    luo_str_addc(&text, '\n');
    return export_put(job, NULL, &text);
}
