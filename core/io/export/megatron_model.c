/* megatron_model.c: dimensions of a network as arguments of Megatron-LM. */
#include "core/io/export/megatron.h"

#define MEGATRON "Megatron"

/* ---- what it has no flag for ---- */

static bool is_known_rope(const luo_model *model)
{
    const luo_rope_scaling *rope = &model->rope;
    if (rope->kind == LUO_ROPE_LLAMA3) /* with the constants that the flag stands for */
        return rope->low_freq == 1 && rope->high_freq == 4 && rope->original_tokens == 8192;
    if (rope->kind == LUO_ROPE_YARN)
        return luo_model_is_latent(model) && rope->original_tokens == 4096;
    return rope->kind == LUO_ROPE_PLAIN;
}

static bool is_known_gate(const luo_moe *moe)
{
    return moe->experts == 0 || moe->gate == LUO_GATE_TOPK || moe->gate == LUO_GATE_SIGMOID;
}

/* Biases of all products, of none, or of queries, keys and values alone. */
static bool are_known_biases(const luo_model *model)
{
    return model->linear_bias == model->out_bias && (model->qkv_bias || !model->linear_bias);
}

static luo_status check_model(export_job *job)
{
    const luo_model *model = job->source->model;
    const luo_family family = model->family;
    const struct {
        bool bad;
        const char *key;
    } rows[] = {
        {family != LUO_FAMILY_LLAMA && family != LUO_FAMILY_GPT && family != LUO_FAMILY_MOE,
         "family"},
        {model->activation != LUO_ACT_SWIGLU && model->activation != LUO_ACT_GELU, "activation"},
        {!are_known_biases(model), "linear_bias"},
        {!model->causal, "causal"},
        {model->parallel_residual, "parallel_residual"},
        {model->post_norms, "post_norms"},
        {model->position_offset != 0, "position_offset"},
        {model->embedding_scale > 0 && model->embedding_scale != 1, "embedding_scale"},
        {model->attention_scale != 0, "attention_scale"},
        {model->attention_softcap != 0, "attention_softcap"},
        {model->logit_softcap != 0, "logit_softcap"},
        {model->window.tokens != 0, "window"},
        {!is_known_rope(model), "rope_scaling"},
        {!is_known_gate(&model->moe), "moe.gate"},
        {model->moe.shared_gate, "moe.shared_gate"},
        {job->source->plan->dtype == LUO_F64, "dtype"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].bad) return export_cannot_model(job, MEGATRON, rows[i].key);
    return LUO_OK;
}

/* ---- flags ---- */

#define INT(flag, value) megatron_flag(text, flag " %lld", (long long)(value))

static void add_real(luo_str *text, const char *flag, double value)
{
    luo_str number = {0};
    export_add_number(&number, value);
    megatron_flag(text, "%s %s", flag, luo_str_get(&number));
    luo_str_free(&number);
}

static void add_latent(luo_str *text, const luo_model *model)
{
    megatron_flag(text, "--multi-latent-attention");
    if (model->latent.q_lora > 0) INT("--q-lora-rank", model->latent.q_lora);
    INT("--kv-lora-rank", model->latent.kv_lora);
    INT("--qk-head-dim", model->latent.nope);
    INT("--qk-pos-emb-head-dim", model->latent.rope);
    INT("--v-head-dim", model->latent.v);
}

static void add_attention(luo_str *text, const luo_model *model)
{
    INT("--num-attention-heads", model->heads);
    if (luo_model_is_latent(model)) {
        add_latent(text, model);
        return;
    }
    if (model->kv_heads != model->heads) {
        megatron_flag(text, "--group-query-attention");
        INT("--num-query-groups", model->kv_heads);
    }
    if (model->head_dim * model->heads != model->hidden) INT("--kv-channels", model->head_dim);
    if (model->qk_norm) megatron_flag(text, "--qk-layernorm");
}

static void add_positions(luo_str *text, const luo_model *model)
{
    if (model->position == LUO_POS_LEARNED) {
        megatron_flag(text, "--position-embedding-type learned_absolute");
        return;
    }
    megatron_flag(text, "--position-embedding-type rope");
    add_real(text, "--rotary-base", model->rope_base);
    if (model->partial_rotary > 0 && model->partial_rotary < 1)
        add_real(text, "--rotary-percent", model->partial_rotary);
    if (model->rope.kind == LUO_ROPE_LLAMA3) {
        megatron_flag(text, "--use-rope-scaling");
        add_real(text, "--rope-scaling-factor", model->rope.factor);
    }
    if (model->rope.kind == LUO_ROPE_YARN) {
        megatron_flag(text, "--rope-type yarn");
        add_real(text, "--rotary-scaling-factor", model->rope.factor);
    }
}

/* The multiple to which Megatron pads, so that it gets the rows of the plan. */
static int64_t vocab_multiple(int64_t vocab, int64_t rows, int32_t tp)
{
    for (int64_t multiple = 128; multiple >= 1; multiple /= 2) {
        const int64_t part = multiple * tp;
        if ((vocab + part - 1) / part * part == rows) return multiple;
    }
    return rows / tp;
}

static void add_vocabulary(luo_str *text, const export_job *job, int32_t tp)
{
    const luo_model *model = job->source->model;
    const int64_t rows = luo_plan_vocab(job->source->plan, model);
    const int64_t multiple = vocab_multiple(model->vocab, rows, tp);
    INT("--vocab-size", model->vocab);
    if (multiple != 128) INT("--make-vocab-size-divisible-by", multiple);
    if (!model->tied_embeddings) megatron_flag(text, "--untie-embeddings-and-output-weights");
}

static void add_layer(luo_str *text, const luo_model *model)
{
    if (model->activation == LUO_ACT_SWIGLU) megatron_flag(text, "--swiglu");
    megatron_flag(text, "--normalization %s",
                  model->norm == LUO_NORM_RMS ? "RMSNorm" : "LayerNorm");
    add_real(text, "--norm-epsilon", model->norm_eps);
    if (model->norm_offset) megatron_flag(text, "--apply-layernorm-1p");
    if (!model->linear_bias) megatron_flag(text, "--disable-bias-linear");
    if (!model->linear_bias && model->qkv_bias) megatron_flag(text, "--add-qkv-bias");
    megatron_flag(text, "--attention-dropout 0");
    megatron_flag(text, "--hidden-dropout 0");
}

/* ---- experts ---- */

/* Which layers have them, as a list of Python. */
static void add_frequency(luo_str *text, const luo_model *model)
{
    luo_str list = {0};
    int64_t from = 0;
    for (int64_t l = 1; l <= model->layers; l++) {
        const bool has = luo_model_has_experts(model, from);
        if (l < model->layers && luo_model_has_experts(model, l) == has) continue;
        luo_str_addf(&list, "%s[%d]*%lld", from ? "+" : "", has, (long long)(l - from));
        from = l;
    }
    if (model->moe.first_dense_layers > 0 || model->moe.every_layers > 1)
        luo_str_addf(text, " \\\n--moe-layer-freq '(%s)'", luo_str_get(&list));
    text->failed |= list.failed;
    luo_str_free(&list);
}

static void add_router(luo_str *text, const luo_moe *moe)
{
    const bool sigmoid = moe->gate == LUO_GATE_SIGMOID;
    INT("--moe-router-topk", moe->top1 ? 1 : moe->experts_per_token);
    if (sigmoid)
        megatron_flag(text, "--moe-router-score-function sigmoid");
    else if (!moe->renorm)
        megatron_flag(text, "--moe-router-pre-softmax");
    if (moe->routed_scale > 0 && moe->routed_scale != 1)
        add_real(text, "--moe-router-topk-scaling-factor", moe->routed_scale);
    if (moe->route_groups > 1) {
        INT("--moe-router-num-groups", moe->route_groups);
        INT("--moe-router-group-topk", moe->route_groups_kept);
    }
    if (sigmoid && moe->bias_rate > 0) {
        megatron_flag(text, "--moe-router-enable-expert-bias");
        add_real(text, "--moe-router-bias-update-rate", moe->bias_rate);
    }
    megatron_flag(text, "--moe-router-load-balancing-type %s",
                  moe->aux_loss > 0 ? "aux_loss" : "none");
    if (moe->aux_loss > 0) add_real(text, "--moe-aux-loss-coeff", moe->aux_loss);
}

static void add_moe(luo_str *text, const luo_model *model)
{
    const luo_moe *moe = &model->moe;
    if (moe->experts == 0) return;
    INT("--num-experts", moe->experts);
    INT("--moe-ffn-hidden-size", moe->expert_ffn_hidden);
    add_frequency(text, model);
    if (moe->shared_experts > 0)
        INT("--moe-shared-expert-intermediate-size", moe->shared_experts * moe->shared_ffn_hidden);
    add_router(text, moe);
    if (moe->capacity_factor > 0)
        add_real(text, "--moe-expert-capacity-factor", moe->capacity_factor);
    megatron_flag(text, "--moe-token-dispatcher-type alltoall");
    megatron_flag(text, "--moe-grouped-gemm");
}

luo_status megatron_add_model(export_job *job, luo_str *text, const export_uniform *plan)
{
    const luo_model *model = job->source->model;
    const luo_plan *whole = job->source->plan;
    LUO_TRY(check_model(job));
    INT("--micro-batch-size", plan->sequences);
    INT("--global-batch-size", luo_plan_sequences(whole));
    INT("--seq-length", whole->sequence_tokens);
    INT("--max-position-embeddings", model->max_sequence_tokens);
    INT("--num-layers", model->layers);
    INT("--hidden-size", model->hidden);
    INT("--ffn-hidden-size", model->ffn_hidden);
    add_attention(text, model);
    add_positions(text, model);
    add_vocabulary(text, job, plan->tp);
    add_layer(text, model);
    add_moe(text, model);
    if (whole->dtype == LUO_BF16) megatron_flag(text, "--bf16");
    return LUO_OK;
}
