/* deepspeed.c: a plan with data parallelism alone as ds_config.json of DeepSpeed. */
#include "core/io/export/export_internal.h"
#include "core/io/jsonw.h"

#define DEEPSPEED "a DeepSpeed configuration"

static luo_status check_plan(export_job *job, const export_uniform *plan)
{
    const luo_plan *whole = job->source->plan;
    if (plan->pp > 1)
        return export_cannot(job, "/pipelines/0/stages",
                             DEEPSPEED " can't express %d pipeline stages; 1 is expected.",
                             plan->pp);
    if (plan->tp > 1)
        return export_cannot(
            job, "/pipelines/0/stages/0/devices",
            DEEPSPEED " can't express a tensor-parallel size of %d; 1 is expected.", plan->tp);
    if (plan->cp > 1)
        return export_cannot(
            job, "/pipelines/0/stages/0/context_parallel",
            DEEPSPEED " can't express a context-parallel size of %d; 1 is expected.", plan->cp);
    if (plan->recompute != LUO_RECOMPUTE_NONE)
        return export_cannot(job, "/pipelines/0/stages/0/recompute",
                             DEEPSPEED " can't express recompute, which the model's own code turns "
                                       "on; `none` is expected.");
    if (whole->zero == 3 && whole->sharding.kind != LUO_SHARD_FULL)
        return export_cannot(job, "/sharding",
                             DEEPSPEED " can't express sharding `%s`; `full` is expected.",
                             luo_shard_name(whole->sharding.kind));
    if (whole->ngroups > 0)
        return export_cannot(job, "/expert_groups",
                             DEEPSPEED " can't express experts that several "
                                       "pipelines share.");
    if (whole->dtype == LUO_F64)
        return export_cannot(job, "/dtype",
                             DEEPSPEED " can't express f64; bf16 or f32 is expected.");
    return LUO_OK;
}

static void add_enabled(luo_jsonw *json, const char *key, bool on)
{
    luo_jsonw_open(json, key, '{');
    luo_jsonw_bool(json, "enabled", on);
    luo_jsonw_close(json);
}

luo_status export_deepspeed(export_job *job)
{
    const luo_plan *whole = job->source->plan;
    export_uniform plan = {0};
    luo_str text = {0};
    LUO_TRY(export_find_uniform(job, DEEPSPEED, false, &plan));
    LUO_TRY(check_plan(job, &plan));
    luo_jsonw json = luo_jsonw_start(&text);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_int(&json, "train_batch_size", luo_plan_sequences(whole));
    luo_jsonw_int(&json, "train_micro_batch_size_per_gpu", plan.sequences);
    luo_jsonw_int(&json, "gradient_accumulation_steps", plan.micro_batches);
    luo_jsonw_open(&json, "zero_optimization", '{');
    luo_jsonw_int(&json, "stage", whole->zero);
    luo_jsonw_close(&json);
    add_enabled(&json, "bf16", whole->dtype == LUO_BF16);
    luo_jsonw_close(&json);
    LUO_TRY(export_put(job, NULL, &text));
    return export_note(job, "the file does not hold the length of sequences (%lld tokens).",
                       (long long)whole->sequence_tokens);
}
