/* training.c: a training of alike pipelines into model.yaml and plan.json. */
#include "core/io/convert/training.h"

#include <string.h>

#include "core/io/jsonw.h"
#include "core/io/read/read.h"
#include "core/io/write_plan.h"

/* ---- the model ---- */

static luo_status missing(convert_job *job, const char *what)
{
    return convert_error(job, 0, 0, "the source does not say the %s of the network; add it.", what);
}

static const char *family_of(const convert_network *network)
{
    if (network->experts > 0) return "moe";
    return network->rope || network->kv_heads != network->heads || network->qk_norm ? "llama"
                                                                                    : "gpt";
}

static void put(luo_str *text, const char *key, int64_t v)
{
    luo_str_addf(text, "%s: %lld\n", key, (long long)v);
}

static void put_experts(luo_str *text, const convert_network *network)
{
    luo_str_addf(text, "moe: {experts: %lld, experts_per_token: %lld, expert_ffn_hidden: %lld",
                 (long long)network->experts, (long long)network->experts_per_token,
                 (long long)network->expert_ffn_hidden);
    if (network->shared_ffn_hidden)
        luo_str_addf(text, ", shared_experts: 1, shared_ffn_hidden: %lld",
                     (long long)network->shared_ffn_hidden);
    if (network->first_dense_layers)
        luo_str_addf(text, ", first_dense_layers: %lld", (long long)network->first_dense_layers);
    if (network->renorm) luo_str_add(text, ", renorm: true");
    luo_str_add(text, "}\n");
}

luo_status convert_network_file(convert_job *job, const convert_network *network)
{
    convert_network n = *network;
    luo_str text = {0};
    if (!n.layers) return missing(job, "number of layers");
    if (!n.hidden) return missing(job, "hidden size");
    if (!n.heads) return missing(job, "number of attention heads");
    if (!n.vocab) return missing(job, "size of the vocabulary, which comes with the tokenizer,");
    if (!n.max_sequence_tokens) return missing(job, "longest sequence");
    if (!n.kv_heads) n.kv_heads = n.heads;
    if (!n.ffn_hidden) n.ffn_hidden = 4 * n.hidden;
    const char *family = family_of(&n), *gates = n.gelu ? "geglu" : "swiglu";
    luo_str_addf(&text, "# luoshu import %s\nschema: luoshu.model/1\nname: ",
                 luo_convert_kind_name(job->opts->kind));
    luo_jsonw_quote(&text, n.name ? n.name : "imported");
    luo_str_addf(&text, "\nfamily: %s\n", family);
    put(&text, "layers", n.layers);
    put(&text, "hidden", n.hidden);
    put(&text, "ffn_hidden", n.ffn_hidden);
    put(&text, "heads", n.heads);
    if (n.kv_heads != n.heads && !n.latent) put(&text, "kv_heads", n.kv_heads);
    if (n.head_dim && !n.latent && n.head_dim * n.heads != n.hidden)
        put(&text, "head_dim", n.head_dim);
    put(&text, "vocab", n.vocab);
    put(&text, "max_sequence_tokens", n.max_sequence_tokens);
    luo_str_addf(&text, "norm: %s\nactivation: %s\n", n.rmsnorm ? "rmsnorm" : "layernorm",
                 n.gated ? gates : "gelu");
    if (!n.latent) luo_str_addf(&text, "position: %s\n", n.rope ? "rope" : "learned");
    if (n.norm_eps > 0) luo_str_addf(&text, "norm_eps: %.15g\n", n.norm_eps);
    if (n.rope && n.rope_base > 0) luo_str_addf(&text, "rope_base: %.15g\n", n.rope_base);
    luo_str_addf(&text, "tied_embeddings: %s\n", n.tied ? "true" : "false");
    if (!n.latent)
        luo_str_addf(&text, "linear_bias: %s\nqkv_bias: %s\n", n.linear_bias ? "true" : "false",
                     n.qkv_bias ? "true" : "false");
    if (n.qk_norm) luo_str_add(&text, "qk_norm: true\n");
    if (n.latent)
        luo_str_addf(&text,
                     "attention: {kind: mla, q_lora_rank: %lld, kv_lora_rank: %lld, "
                     "qk_nope_head_dim: %lld, qk_rope_head_dim: %lld, v_head_dim: %lld}\n",
                     (long long)n.q_lora, (long long)n.kv_lora, (long long)n.nope,
                     (long long)n.rotary, (long long)n.v);
    if (n.experts) put_experts(&text, &n);
    luo_str_add(&text, "dtype: bf16\n");
    return convert_add(job, "model.yaml", &text);
}

luo_status convert_network_given(convert_job *job, convert_training *training, bool *given)
{
    luo_model *model;
    *given = job->opts->model != NULL;
    if (!*given) return LUO_OK;
    LUO_TRY(luo_read_model(job->arena, job->opts->model, &model, job->diags));
    training->network = (convert_network){.name = model->name,
                                          .layers = model->layers,
                                          .experts = model->moe.experts,
                                          .max_sequence_tokens = model->max_sequence_tokens};
    if (!training->sequence_tokens)
        training->sequence_tokens = convert_sequence(job, model->max_sequence_tokens);
    training->dtype = model->dtype;
    return LUO_OK;
}

/* ---- the plan ---- */

static int64_t or_one(int64_t v)
{
    return v ? v : 1;
}

/* Devices and replicas, each from the other. */
static luo_status settle_devices(convert_job *job, convert_training *training)
{
    const int64_t each = training->tp * training->pp * training->cp;
    if (job->opts->devices) training->devices = job->opts->devices;
    if (!training->devices && training->dp) training->devices = each * training->dp;
    if (!training->devices)
        return convert_usage(job, "`--devices` is missing: `%s` does not say how many GPUs train.",
                             job->src.name);
    if (training->devices % each)
        return convert_error(job, 0, 0,
                             "tensor %lld x pipeline %lld x context %lld is %lld devices, which "
                             "does not divide %lld; a multiple of %lld is expected.",
                             (long long)training->tp, (long long)training->pp,
                             (long long)training->cp, (long long)each, (long long)training->devices,
                             (long long)each);
    if (training->devices > LUO_DEVICES_MAX)
        return convert_error(job, 0, 0, "%lld devices; at most %d are expected.",
                             (long long)training->devices, LUO_DEVICES_MAX);
    if (training->dp && training->dp != training->devices / each)
        return convert_error(job, 0, 0,
                             "data parallelism is %lld, and %lld devices over %lld of a replica "
                             "are %lld; the same is expected.",
                             (long long)training->dp, (long long)training->devices, (long long)each,
                             (long long)(training->devices / each));
    training->dp = training->devices / each;
    return LUO_OK;
}

static luo_status settle_batches(convert_job *job, convert_training *training)
{
    const int64_t once = training->micro_batch * training->dp;
    if (!training->sequence_tokens) return missing(job, "sequence length");
    if (!training->micro_batches && !training->global_batch)
        training->global_batch = once * training->pp;
    if (!training->micro_batches && training->global_batch % once)
        return convert_error(job, 0, 0,
                             "the global batch is %lld; a multiple of micro-batch %lld x data "
                             "parallelism %lld = %lld is expected.",
                             (long long)training->global_batch, (long long)training->micro_batch,
                             (long long)training->dp, (long long)once);
    if (!training->micro_batches) training->micro_batches = training->global_batch / once;
    training->global_batch = once * training->micro_batches;
    return LUO_OK;
}

static luo_status settle(convert_job *job, convert_training *training)
{
    if (job->opts->sequence_tokens) training->sequence_tokens = job->opts->sequence_tokens;
    training->tp = or_one(training->tp);
    training->pp = or_one(training->pp);
    training->cp = or_one(training->cp);
    training->ep = or_one(training->ep);
    training->chunks = or_one(training->chunks);
    training->micro_batch = or_one(training->micro_batch);
    if (!training->network.layers) return missing(job, "number of layers");
    LUO_TRY(settle_devices(job, training));
    return settle_batches(job, training);
}

/* Layers of each chunk: alike, or the first and last stage by their own numbers. */
static luo_status cut_layers(convert_job *job, convert_training *training, luo_range *chunk)
{
    const int64_t nchunks = training->chunks * training->pp;
    const int64_t given = training->first_layers + training->last_layers,
                  rest = training->network.layers - given;
    const int64_t stages =
        training->pp - (training->first_layers > 0) - (training->last_layers > 0);
    const int64_t parts = stages * training->chunks;
    int32_t at = 0;
    if (rest < 0 || (parts > 0 && rest % parts) || (parts <= 0 && rest))
        return convert_error(job, 0, 0,
                             "%lld layers%s are cut among %lld stages of %lld chunk%s; a multiple "
                             "of %lld is expected.",
                             (long long)rest, given ? " without the first and last stage's" : "",
                             (long long)stages, (long long)training->chunks,
                             training->chunks > 1 ? "s" : "", (long long)(parts > 0 ? parts : 1));
    if (training->chunks > 1 &&
        (training->first_layers % training->chunks || training->last_layers % training->chunks))
        return convert_error(job, 0, 0,
                             "layers of the first and last stage are cut among %lld "
                             "chunks; multiples of that are expected.",
                             (long long)training->chunks);
    for (int64_t i = 0; i < nchunks; i++) {
        const int64_t stage = i % training->pp;
        int64_t n = parts > 0 ? rest / parts : 0;
        if (stage == 0 && training->first_layers) n = training->first_layers / training->chunks;
        if (stage == training->pp - 1 && training->last_layers)
            n = training->last_layers / training->chunks;
        chunk[i] = (luo_range){at, at + (int32_t)n};
        at += (int32_t)n;
    }
    return LUO_OK;
}

static luo_status read_layout(convert_job *job, convert_training *training, luo_range **chunk)
{
    convert_layout layout;
    LUO_TRY(convert_layout_read(job, training->layout, training->layout_at, (int32_t)training->pp,
                                job->opts->approximate, &layout));
    if (layout.layers != training->network.layers)
        return convert_error(job, training->layout_at.line, training->layout_at.col,
                             "the layout has %lld layers t and the network %lld; the same number "
                             "is expected.",
                             (long long)layout.layers, (long long)training->network.layers);
    training->chunks = layout.nchunks;
    *chunk = layout.chunk;
    return LUO_OK;
}

/* device = t + tp*(c + cp*(d + dp*p)), or with pipelines on neighbours t + tp*(c + cp*(p + pp*d))
 */
static void put_devices(const convert_training *training, int32_t *dev, int64_t pipeline,
                        int64_t stage)
{
    const int64_t outer =
        training->tp_pp_dp ? stage + training->pp * pipeline : pipeline + training->dp * stage;
    for (int64_t i = 0; i < training->tp * training->cp; i++)
        dev[i] = (int32_t)(i + training->tp * training->cp * outer);
}

static luo_range first_of(luo_range chunk, int64_t n)
{
    const int32_t most = chunk.hi - chunk.lo;
    return (luo_range){chunk.lo, chunk.lo + (n < most ? (int32_t)n : most)};
}

static luo_status make_stage(convert_job *job, const convert_training *training,
                             const luo_range *chunk, int64_t pipeline, int64_t s, luo_stage *out)
{
    const int64_t ndev = training->tp * training->cp;
    luo_range *layers = LUO_NEW_N(job->arena, luo_range, training->chunks);
    luo_range *again = LUO_NEW_N(job->arena, luo_range, training->chunks);
    int32_t *dev = LUO_NEW_N(job->arena, int32_t, ndev);
    if (!layers || !again || !dev) return convert_nomem(job);
    for (int64_t c = 0; c < training->chunks; c++) {
        layers[c] = chunk[c * training->pp + s];
        again[c] = first_of(layers[c], training->recompute_layers);
    }
    put_devices(training, dev, pipeline, s);
    *out = (luo_stage){.nlayers = (int32_t)training->chunks,
                       .layers = layers,
                       .ndev = (int32_t)ndev,
                       .dev = dev,
                       .context_parallel = (int32_t)training->cp,
                       .recompute = training->recompute,
                       .embedding = s == 0,
                       .head = s == training->pp - 1,
                       .experts_dealt = training->experts_dealt};
    if (training->recompute_layers && training->recompute != LUO_RECOMPUTE_NONE) {
        out->nrecompute = (int32_t)training->chunks;
        out->recompute_layers = again;
    }
    return LUO_OK;
}

static luo_status make_pipeline(convert_job *job, const convert_training *training,
                                const luo_range *chunk, int64_t pipeline, luo_pipeline *out)
{
    luo_stage *stages = LUO_NEW_N(job->arena, luo_stage, training->pp);
    if (!stages) return convert_nomem(job);
    for (int64_t s = 0; s < training->pp; s++)
        LUO_TRY(make_stage(job, training, chunk, pipeline, s, &stages[s]));
    *out = (luo_pipeline){.micro_batches = (int32_t)training->micro_batches,
                          .micro_batch_sequences = (int32_t)training->micro_batch,
                          .nstages = (int32_t)training->pp,
                          .stages = stages};
    return LUO_OK;
}

/* Groups of neighbouring pipelines that have all experts together. */
static luo_status make_groups(convert_job *job, const convert_training *training, luo_plan *plan)
{
    if (!training->network.experts || training->ep == 1) return LUO_OK;
    /* dealt experts: a replica's tensor devices are of the group as well */
    const int64_t each = training->experts_dealt ? training->tp * training->cp : 1;
    const int64_t n = training->ep > each ? training->ep / each : 1;
    if ((training->ep > each && training->ep % each) ||
        (training->ep < each && each % training->ep) || training->dp % n)
        return convert_error(job, 0, 0,
                             "expert parallelism %lld goes over groups of whole pipelines of %lld "
                             "device%s a stage, %lld of them; a divisor of %lld is expected.",
                             (long long)training->ep, (long long)each, each > 1 ? "s" : "",
                             (long long)training->dp, (long long)(each * training->dp));
    if (training->ep < each) plan->expert_parallel = (int32_t)training->ep;
    struct luo_expert_group *groups =
        LUO_NEW_N(job->arena, struct luo_expert_group, training->dp / n);
    int32_t *ids = LUO_NEW_N(job->arena, int32_t, training->dp);
    if (!groups || !ids) return convert_nomem(job);
    for (int64_t i = 0; i < training->dp; i++) ids[i] = (int32_t)i;
    for (int64_t i = 0; i < training->dp / n; i++)
        groups[i] = (struct luo_expert_group){(int32_t)n, ids + i * n};
    plan->expert_groups = groups;
    plan->ngroups = (int32_t)(training->dp / n);
    return LUO_OK;
}

static luo_sched_kind schedule_of(const convert_training *training)
{
    if (training->gpipe) return LUO_SCHED_GPIPE;
    if (training->zb_h1) return LUO_SCHED_ZB_H1;
    return training->chunks > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B;
}

luo_status convert_plan_file(convert_job *job, convert_training *training)
{
    luo_str text = {0};
    LUO_TRY(settle(job, training));
    luo_range *chunk = LUO_NEW_N(job->arena, luo_range, training->chunks * training->pp);
    luo_pipeline *pipelines = LUO_NEW_N(job->arena, luo_pipeline, training->dp);
    if (!chunk || !pipelines) return convert_nomem(job);
    LUO_TRY(training->layout ? read_layout(job, training, &chunk)
                             : cut_layers(job, training, chunk));
    for (int64_t d = 0; d < training->dp; d++)
        LUO_TRY(make_pipeline(job, training, chunk, d, &pipelines[d]));
    luo_plan plan = {.name = training->network.name ? training->network.name : "imported",
                     .model = training->network.name ? training->network.name : "",
                     .cluster = "",
                     .layers = (int32_t)training->network.layers,
                     .devices = (int32_t)training->devices,
                     .dtype = training->dtype,
                     .sequence_tokens = training->sequence_tokens,
                     .micro_batch_sequences = (int32_t)training->micro_batch,
                     .zero = (int32_t)training->zero,
                     .sequence_parallel = training->sequence_parallel && training->tp > 1,
                     .schedule = schedule_of(training),
                     .chunks = (int32_t)training->chunks,
                     .npipelines = (int32_t)training->dp,
                     .pipelines = pipelines};
    plan.sharding = (luo_sharding){.kind = training->zero == 3 ? training->shard : LUO_SHARD_FULL};
    if (plan.sharding.kind == LUO_SHARD_HYBRID) {
        if (training->shard_pipelines < training->dp)
            plan.sharding.pipelines = (int32_t)training->shard_pipelines;
        else
            plan.sharding.kind = LUO_SHARD_FULL;
    }
    if (training->bucket_mib > 0)
        plan.bucket =
            (luo_bucketing){.rule = LUO_BUCKET_MIB, .has_mib = true, .mib = training->bucket_mib};
    LUO_TRY(make_groups(job, training, &plan));
    luo_plan_json(&text, &plan);
    LUO_TRY(convert_add(job, "plan.json", &text));
    return convert_say(
        job,
        "%lld layers on %lld devices: tensor %lld, pipeline %lld, data %lld, context "
        "%lld; %lld micro-batch%s of %lld x %lld tokens a pipeline",
        (long long)training->network.layers, (long long)training->devices, (long long)training->tp,
        (long long)training->pp, (long long)training->dp, (long long)training->cp,
        (long long)training->micro_batches, training->micro_batches > 1 ? "es" : "",
        (long long)training->micro_batch, (long long)training->sequence_tokens);
}
