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

static const char *family_of(const convert_network *n)
{
    if (n->experts > 0) return "moe";
    return n->rope || n->kv_heads != n->heads || n->qk_norm ? "llama" : "gpt";
}

static void put(luo_str *text, const char *key, int64_t v)
{
    luo_str_addf(text, "%s: %lld\n", key, (long long)v);
}

static void put_experts(luo_str *text, const convert_network *n)
{
    luo_str_addf(text, "moe: {experts: %lld, experts_per_token: %lld, expert_ffn_hidden: %lld",
                 (long long)n->experts, (long long)n->experts_per_token,
                 (long long)n->expert_ffn_hidden);
    if (n->shared_ffn_hidden)
        luo_str_addf(text, ", shared_experts: 1, shared_ffn_hidden: %lld",
                     (long long)n->shared_ffn_hidden);
    if (n->first_dense_layers)
        luo_str_addf(text, ", first_dense_layers: %lld", (long long)n->first_dense_layers);
    if (n->renorm) luo_str_add(text, ", renorm: true");
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

luo_status convert_network_given(convert_job *job, convert_training *t, bool *given)
{
    luo_model *model;
    *given = job->opts->model != NULL;
    if (!*given) return LUO_OK;
    LUO_TRY(luo_read_model(job->arena, job->opts->model, &model, job->diags));
    t->network = (convert_network){.name = model->name,
                                   .layers = model->layers,
                                   .experts = model->moe.experts,
                                   .max_sequence_tokens = model->max_sequence_tokens};
    if (!t->sequence_tokens) t->sequence_tokens = convert_sequence(job, model->max_sequence_tokens);
    t->dtype = model->dtype;
    return LUO_OK;
}

/* ---- the plan ---- */

static int64_t or_one(int64_t v)
{
    return v ? v : 1;
}

/* Devices and replicas, each from the other. */
static luo_status settle_devices(convert_job *job, convert_training *t)
{
    const int64_t each = t->tp * t->pp * t->cp;
    if (job->opts->devices) t->devices = job->opts->devices;
    if (!t->devices && t->dp) t->devices = each * t->dp;
    if (!t->devices)
        return convert_usage(job, "`--devices` is missing: `%s` does not say how many GPUs train.",
                             job->src.name);
    if (t->devices % each)
        return convert_error(job, 0, 0,
                             "tensor %lld x pipeline %lld x context %lld is %lld devices, which "
                             "does not divide %lld; a multiple of %lld is expected.",
                             (long long)t->tp, (long long)t->pp, (long long)t->cp, (long long)each,
                             (long long)t->devices, (long long)each);
    if (t->devices > LUO_DEVICES_MAX)
        return convert_error(job, 0, 0, "%lld devices; at most %d are expected.",
                             (long long)t->devices, LUO_DEVICES_MAX);
    if (t->dp && t->dp != t->devices / each)
        return convert_error(job, 0, 0,
                             "data parallelism is %lld, and %lld devices over %lld of a replica "
                             "are %lld; the same is expected.",
                             (long long)t->dp, (long long)t->devices, (long long)each,
                             (long long)(t->devices / each));
    t->dp = t->devices / each;
    return LUO_OK;
}

static luo_status settle_batches(convert_job *job, convert_training *t)
{
    const int64_t once = t->micro_batch * t->dp;
    if (!t->sequence_tokens) return missing(job, "sequence length");
    if (!t->micro_batches && !t->global_batch) t->global_batch = once * t->pp;
    if (!t->micro_batches && t->global_batch % once)
        return convert_error(job, 0, 0,
                             "the global batch is %lld; a multiple of micro-batch %lld x data "
                             "parallelism %lld = %lld is expected.",
                             (long long)t->global_batch, (long long)t->micro_batch,
                             (long long)t->dp, (long long)once);
    if (!t->micro_batches) t->micro_batches = t->global_batch / once;
    t->global_batch = once * t->micro_batches;
    return LUO_OK;
}

static luo_status settle(convert_job *job, convert_training *t)
{
    if (job->opts->sequence_tokens) t->sequence_tokens = job->opts->sequence_tokens;
    t->tp = or_one(t->tp);
    t->pp = or_one(t->pp);
    t->cp = or_one(t->cp);
    t->ep = or_one(t->ep);
    t->chunks = or_one(t->chunks);
    t->micro_batch = or_one(t->micro_batch);
    if (!t->network.layers) return missing(job, "number of layers");
    LUO_TRY(settle_devices(job, t));
    return settle_batches(job, t);
}

/* Layers of each chunk: alike, or the first and last stage by their own numbers. */
static luo_status cut_layers(convert_job *job, convert_training *t, luo_range *chunk)
{
    const int64_t nchunks = t->chunks * t->pp;
    const int64_t given = t->first_layers + t->last_layers, rest = t->network.layers - given;
    const int64_t stages = t->pp - (t->first_layers > 0) - (t->last_layers > 0);
    const int64_t parts = stages * t->chunks;
    int32_t at = 0;
    if (rest < 0 || (parts > 0 && rest % parts) || (parts <= 0 && rest))
        return convert_error(job, 0, 0,
                             "%lld layers%s are cut among %lld stages of %lld chunk%s; a multiple "
                             "of %lld is expected.",
                             (long long)rest, given ? " without the first and last stage's" : "",
                             (long long)stages, (long long)t->chunks, t->chunks > 1 ? "s" : "",
                             (long long)(parts > 0 ? parts : 1));
    if (t->chunks > 1 && (t->first_layers % t->chunks || t->last_layers % t->chunks))
        return convert_error(job, 0, 0,
                             "layers of the first and last stage are cut among %lld "
                             "chunks; multiples of that are expected.",
                             (long long)t->chunks);
    for (int64_t i = 0; i < nchunks; i++) {
        const int64_t stage = i % t->pp;
        int64_t n = parts > 0 ? rest / parts : 0;
        if (stage == 0 && t->first_layers) n = t->first_layers / t->chunks;
        if (stage == t->pp - 1 && t->last_layers) n = t->last_layers / t->chunks;
        chunk[i] = (luo_range){at, at + (int32_t)n};
        at += (int32_t)n;
    }
    return LUO_OK;
}

static luo_status read_layout(convert_job *job, convert_training *t, luo_range **chunk)
{
    convert_layout layout;
    LUO_TRY(convert_layout_read(job, t->layout, t->layout_at, (int32_t)t->pp,
                                job->opts->approximate, &layout));
    if (layout.layers != t->network.layers)
        return convert_error(job, t->layout_at.line, t->layout_at.col,
                             "the layout has %lld layers t and the network %lld; the same number "
                             "is expected.",
                             (long long)layout.layers, (long long)t->network.layers);
    t->chunks = layout.nchunks;
    *chunk = layout.chunk;
    return LUO_OK;
}

/* device = t + tp*(c + cp*(d + dp*p)), or with pipelines on neighbours t + tp*(c + cp*(p + pp*d))
 */
static void put_devices(const convert_training *t, int32_t *dev, int64_t pipeline, int64_t stage)
{
    const int64_t outer = t->tp_pp_dp ? stage + t->pp * pipeline : pipeline + t->dp * stage;
    for (int64_t i = 0; i < t->tp * t->cp; i++) dev[i] = (int32_t)(i + t->tp * t->cp * outer);
}

static luo_range first_of(luo_range chunk, int64_t n)
{
    const int32_t most = chunk.hi - chunk.lo;
    return (luo_range){chunk.lo, chunk.lo + (n < most ? (int32_t)n : most)};
}

static luo_status make_stage(convert_job *job, const convert_training *t, const luo_range *chunk,
                             int64_t pipeline, int64_t s, luo_stage *out)
{
    const int64_t ndev = t->tp * t->cp;
    luo_range *layers = LUO_NEW_N(job->arena, luo_range, t->chunks);
    luo_range *again = LUO_NEW_N(job->arena, luo_range, t->chunks);
    int32_t *dev = LUO_NEW_N(job->arena, int32_t, ndev);
    if (!layers || !again || !dev) return convert_nomem(job);
    for (int64_t c = 0; c < t->chunks; c++) {
        layers[c] = chunk[c * t->pp + s];
        again[c] = first_of(layers[c], t->recompute_layers);
    }
    put_devices(t, dev, pipeline, s);
    *out = (luo_stage){.nlayers = (int32_t)t->chunks,
                       .layers = layers,
                       .ndev = (int32_t)ndev,
                       .dev = dev,
                       .context_parallel = (int32_t)t->cp,
                       .recompute = t->recompute,
                       .embedding = s == 0,
                       .head = s == t->pp - 1,
                       .experts_dealt = t->experts_dealt};
    if (t->recompute_layers && t->recompute != LUO_RECOMPUTE_NONE) {
        out->nrecompute = (int32_t)t->chunks;
        out->recompute_layers = again;
    }
    return LUO_OK;
}

static luo_status make_pipeline(convert_job *job, const convert_training *t, const luo_range *chunk,
                                int64_t pipeline, luo_pipeline *out)
{
    luo_stage *stages = LUO_NEW_N(job->arena, luo_stage, t->pp);
    if (!stages) return convert_nomem(job);
    for (int64_t s = 0; s < t->pp; s++) LUO_TRY(make_stage(job, t, chunk, pipeline, s, &stages[s]));
    *out = (luo_pipeline){.micro_batches = (int32_t)t->micro_batches,
                          .micro_batch_sequences = (int32_t)t->micro_batch,
                          .nstages = (int32_t)t->pp,
                          .stages = stages};
    return LUO_OK;
}

/* Groups of neighbouring pipelines that have all experts together. */
static luo_status make_groups(convert_job *job, const convert_training *t, luo_plan *plan)
{
    if (!t->network.experts || t->ep == 1) return LUO_OK;
    /* dealt experts: a replica's tensor devices are of the group as well */
    const int64_t each = t->experts_dealt ? t->tp * t->cp : 1;
    const int64_t n = t->ep > each ? t->ep / each : 1;
    if ((t->ep > each && t->ep % each) || (t->ep < each && each % t->ep) || t->dp % n)
        return convert_error(job, 0, 0,
                             "expert parallelism %lld goes over groups of whole pipelines of %lld "
                             "device%s a stage, %lld of them; a divisor of %lld is expected.",
                             (long long)t->ep, (long long)each, each > 1 ? "s" : "",
                             (long long)t->dp, (long long)(each * t->dp));
    if (t->ep < each) plan->expert_parallel = (int32_t)t->ep;
    struct luo_expert_group *groups = LUO_NEW_N(job->arena, struct luo_expert_group, t->dp / n);
    int32_t *ids = LUO_NEW_N(job->arena, int32_t, t->dp);
    if (!groups || !ids) return convert_nomem(job);
    for (int64_t i = 0; i < t->dp; i++) ids[i] = (int32_t)i;
    for (int64_t i = 0; i < t->dp / n; i++)
        groups[i] = (struct luo_expert_group){(int32_t)n, ids + i * n};
    plan->expert_groups = groups;
    plan->ngroups = (int32_t)(t->dp / n);
    return LUO_OK;
}

static luo_sched_kind schedule_of(const convert_training *t)
{
    if (t->gpipe) return LUO_SCHED_GPIPE;
    if (t->zb_h1) return LUO_SCHED_ZB_H1;
    return t->chunks > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B;
}

luo_status convert_plan_file(convert_job *job, convert_training *t)
{
    luo_str text = {0};
    LUO_TRY(settle(job, t));
    luo_range *chunk = LUO_NEW_N(job->arena, luo_range, t->chunks * t->pp);
    luo_pipeline *pipelines = LUO_NEW_N(job->arena, luo_pipeline, t->dp);
    if (!chunk || !pipelines) return convert_nomem(job);
    LUO_TRY(t->layout ? read_layout(job, t, &chunk) : cut_layers(job, t, chunk));
    for (int64_t d = 0; d < t->dp; d++) LUO_TRY(make_pipeline(job, t, chunk, d, &pipelines[d]));
    luo_plan plan = {.name = t->network.name ? t->network.name : "imported",
                     .model = t->network.name ? t->network.name : "",
                     .cluster = "",
                     .layers = (int32_t)t->network.layers,
                     .devices = (int32_t)t->devices,
                     .dtype = t->dtype,
                     .sequence_tokens = t->sequence_tokens,
                     .micro_batch_sequences = (int32_t)t->micro_batch,
                     .zero = (int32_t)t->zero,
                     .sequence_parallel = t->sequence_parallel && t->tp > 1,
                     .schedule = schedule_of(t),
                     .chunks = (int32_t)t->chunks,
                     .npipelines = (int32_t)t->dp,
                     .pipelines = pipelines};
    plan.sharding = (luo_sharding){.kind = t->zero == 3 ? t->shard : LUO_SHARD_FULL};
    if (plan.sharding.kind == LUO_SHARD_HYBRID) {
        if (t->shard_pipelines < t->dp)
            plan.sharding.pipelines = (int32_t)t->shard_pipelines;
        else
            plan.sharding.kind = LUO_SHARD_FULL;
    }
    if (t->bucket_mib > 0)
        plan.bucket =
            (luo_bucketing){.rule = LUO_BUCKET_MIB, .has_mib = true, .mib = t->bucket_mib};
    LUO_TRY(make_groups(job, t, &plan));
    luo_plan_json(&text, &plan);
    LUO_TRY(convert_add(job, "plan.json", &text));
    return convert_say(
        job,
        "%lld layers on %lld devices: tensor %lld, pipeline %lld, data %lld, context "
        "%lld; %lld micro-batch%s of %lld x %lld tokens a pipeline",
        (long long)t->network.layers, (long long)t->devices, (long long)t->tp, (long long)t->pp,
        (long long)t->dp, (long long)t->cp, (long long)t->micro_batches,
        t->micro_batches > 1 ? "es" : "", (long long)t->micro_batch, (long long)t->sequence_tokens);
}
