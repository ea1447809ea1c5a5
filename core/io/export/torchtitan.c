/* torchtitan.c: a uniform plan as TOML of torchtitan (docs/formats.md#exported-files). It trains
 * networks that it knows by name, so of the model a comment has the sizes. */
#include "core/io/export/export_internal.h"

#define TITAN "torchtitan"

static luo_status check_plan(export_job *job, const export_uniform *plan)
{
    const luo_plan *whole = job->source->plan;
    if (whole->schedule == LUO_SCHED_ZB_H1 || whole->schedule == LUO_SCHED_ZB_H2)
        return export_cannot(job, "/schedule", TITAN " can't express schedule `%s`.",
                             luo_sched_name(whole->schedule));
    if (whole->zero == 1 || whole->zero == 2)
        return export_cannot(job, "/zero",
                             TITAN " can't express ZeRO-%d: it cuts weights, gradients and state "
                                   "together; 0 or 3 is expected.",
                             whole->zero);
    if (plan->tp > 1 && !whole->sequence_parallel)
        return export_cannot(job, "",
                             TITAN
                             " can't express tensor parallelism without sequence parallelism; "
                             "`sequence_parallel` true is expected.");
    if (plan->recompute != LUO_RECOMPUTE_NONE && plan->recompute_first > 0)
        return export_cannot(job, "/pipelines/0/stages/0/recompute",
                             TITAN " can't express recompute of some layers; all or none are "
                                   "expected.");
    return LUO_OK;
}

static luo_status check_context(export_job *job, const export_uniform *plan)
{
    if (plan->cp == 1) return LUO_OK;
    if (plan->context_kind == LUO_CONTEXT_A2A || plan->context_kind == LUO_CONTEXT_2D)
        return export_cannot(job, "/pipelines/0/stages/0/context_kind",
                             TITAN
                             " can't express context parallelism by `%s`; `ring` is expected.",
                             luo_context_kind_name(plan->context_kind));
    if (plan->context_layout == LUO_LAYOUT_CONTIGUOUS)
        return export_cannot(job, "/pipelines/0/stages/0/context_layout",
                             TITAN " can't express contiguous pieces of sequences; `zigzag` is "
                                   "expected.");
    return LUO_OK;
}

/* The family of networks there that has its layers; NULL: none has. */
static const char *name_family(const luo_model *model)
{
    const bool experts = model->moe.experts > 0;
    if (luo_model_is_latent(model)) return experts ? "deepseek_v3" : NULL;
    if (model->qk_norm) return "qwen3";
    return experts ? NULL : "llama3";
}

static luo_status check_model(export_job *job)
{
    const luo_model *model = job->source->model;
    const struct {
        bool bad;
        const char *key;
    } rows[] = {
        {model->family != LUO_FAMILY_LLAMA && model->family != LUO_FAMILY_MOE, "family"},
        {!name_family(model), "moe"},
        {model->activation != LUO_ACT_SWIGLU, "activation"},
        {model->norm != LUO_NORM_RMS, "norm"},
        {model->linear_bias || model->out_bias || model->qkv_bias, "linear_bias"},
        {model->post_norms, "post_norms"},
        {model->parallel_residual, "parallel_residual"},
        {model->window.tokens != 0, "window"},
        {model->attention_softcap != 0, "attention_softcap"},
        {model->logit_softcap != 0, "logit_softcap"},
        {job->source->plan->dtype == LUO_F64, "dtype"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].bad) return export_cannot_model(job, TITAN, rows[i].key);
    return LUO_OK;
}

/* ---- sections ---- */

static void add_model(luo_str *text, const luo_model *model)
{
    luo_str_addf(
        text,
        "# model %s: %lld layers of %lld, %lld heads (%lld of keys and values), feed-forward "
        "%lld, vocabulary %lld",
        model->name, (long long)model->layers, (long long)model->hidden, (long long)model->heads,
        (long long)model->kv_heads, (long long)model->ffn_hidden, (long long)model->vocab);
    if (model->moe.experts > 0)
        luo_str_addf(text, ", %lld experts of %lld", (long long)model->moe.experts,
                     (long long)model->moe.expert_ffn_hidden);
    luo_str_addf(
        text,
        "\n\n[model]\nname = \"%s\"\n# flavor: the one of these sizes, which torchtitan has "
        "by name\n",
        name_family(model));
}

/* With stages a step's micro-batches are pieces of the local batch; without they add up. */
static void add_training(luo_str *text, const luo_plan *whole, const export_uniform *plan)
{
    const int64_t each = plan->sequences;
    luo_str_addf(
        text, "\n[training]\nlocal_batch_size = %lld\nglobal_batch_size = %lld\nseq_len = %lld\n",
        (long long)(plan->pp > 1 ? each * plan->micro_batches : each),
        (long long)luo_plan_sequences(whole), (long long)whole->sequence_tokens);
    luo_str_addf(text, "mixed_precision_param = \"%s\"\nmixed_precision_reduce = \"float32\"\n",
                 whole->dtype == LUO_BF16 ? "bfloat16" : "float32");
}

static void add_sharding(luo_str *text, const luo_plan *whole, const export_uniform *plan)
{
    const luo_sharding *how = &whole->sharding;
    int32_t shard = whole->zero == 3 ? plan->dp : 1;
    if (whole->zero == 3 && how->kind == LUO_SHARD_HYBRID) shard = how->pipelines;
    luo_str_addf(text, "data_parallel_replicate_degree = %d\ndata_parallel_shard_degree = %d\n",
                 plan->dp / shard, shard);
    if (whole->zero == 3)
        luo_str_addf(text, "fsdp_reshard_after_forward = \"%s\"\n",
                     how->kind == LUO_SHARD_GRAD_OP ? "never" : "always");
}

static void add_parts(luo_str *text, const export_uniform *plan)
{
    const int32_t n = plan->pp * plan->chunks;
    int32_t layer = 0;
    luo_str_add(text, "module_fqns_per_model_part = [\n");
    for (int32_t i = 0; i < n; i++) {
        const char *comma = "";
        luo_str_add(text, "  [");
        if (i == 0) {
            luo_str_add(text, "\"tok_embeddings\"");
            comma = ", ";
        }
        for (int32_t k = 0; k < plan->layers[i]; k++, comma = ", ")
            luo_str_addf(text, "%s\"layers.%d\"", comma, layer++);
        if (i == n - 1) luo_str_addf(text, "%s\"norm\", \"output\"", comma);
        luo_str_addf(text, "]%s\n", i < n - 1 ? "," : "");
    }
    luo_str_add(text, "]\n");
}

static void add_stages(luo_str *text, const luo_plan *whole, const export_uniform *plan)
{
    const char *schedule = whole->schedule == LUO_SCHED_GPIPE         ? "GPipe"
                           : whole->schedule == LUO_SCHED_INTERLEAVED ? "Interleaved1F1B"
                                                                      : "1F1B";
    luo_str_addf(text, "pipeline_parallel_degree = %d\n", plan->pp);
    if (plan->pp == 1) return;
    luo_str_addf(text,
                 "pipeline_parallel_schedule = \"%s\"\npipeline_parallel_microbatch_size = %d\n",
                 schedule, plan->sequences);
    add_parts(text, plan);
}

static luo_status add_parallelism(export_job *job, luo_str *text, const export_uniform *plan)
{
    int32_t parts = 1;
    luo_str_add(text, "\n[parallelism]\n");
    add_sharding(text, job->source->plan, plan);
    luo_str_addf(text, "tensor_parallel_degree = %d\ncontext_parallel_degree = %d\n", plan->tp,
                 plan->cp);
    if (job->source->model->moe.experts > 0) {
        LUO_TRY(export_find_experts(job, plan, &parts));
        luo_str_addf(text, "expert_parallel_degree = %d\n", parts);
        if (parts > 1)
            luo_str_addf(text, "expert_tensor_parallel_degree = %d\n",
                         plan->experts_dealt ? 1 : plan->tp);
    }
    add_stages(text, job->source->plan, plan);
    return LUO_OK;
}

static void add_checkpoint(luo_str *text, const export_uniform *plan)
{
    luo_str_addf(text, "\n[activation_checkpoint]\nmode = \"%s\"\n",
                 luo_recompute_name(plan->recompute));
    if (plan->recompute == LUO_RECOMPUTE_SELECTIVE)
        luo_str_add(text, "selective_ac_option = \"op\"\n");
}

luo_status export_torchtitan(export_job *job)
{
    export_uniform plan = {0};
    luo_str text = {0};
    LUO_TRY(check_model(job));
    LUO_TRY(export_find_uniform(job, TITAN, false, &plan));
    LUO_TRY(check_plan(job, &plan));
    LUO_TRY(check_context(job, &plan));
    add_model(&text, job->source->model);
    add_training(&text, job->source->plan, &plan);
    const luo_status st = add_parallelism(job, &text, &plan);
    if (st != LUO_OK) {
        luo_str_free(&text);
        return st;
    }
    add_checkpoint(&text, &plan);
    return export_put(job, NULL, &text);
}
