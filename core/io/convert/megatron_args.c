/* megatron_args.c: arguments of Megatron-LM as a training. Names are those of its parser, with `_`
 * for `-`; what it calls otherwise in its log stands beside. */
#include <stdio.h>
#include <string.h>

#include "core/io/convert/flags.h"

/* ---- what has no place here ---- */

typedef struct refusal {
    const char *name, *why;
} refusal;

/* Would change cost or numbers; --approximate leaves them out with a warning. */
static const refusal refusals[] = {
    {"fp16", "weights are bf16; --approximate takes them as that"},
    {"fp8", "matrix products are bf16; --approximate takes them as that"},
    {"fp8_format", "matrix products are bf16; --approximate takes them as that"},
    {"fp4", "matrix products are bf16; --approximate takes them as that"},
    {"cpu_offloading", "nothing is moved to the host; --approximate leaves it on the GPU"},
    {"optimizer_cpu_offload", "nothing is moved to the host; --approximate leaves it on the GPU"},
    {"mtp_num_layers", "no model predicts several tokens; --approximate leaves them out"},
    {"hybrid_attention_ratio", "a model has layers of attention alone"},
    {"use_torch_fsdp2", "give --data-parallel-sharding-strategy, or the TOML of torchtitan"},
};

static luo_status refuse(convert_flags *flags)
{
    luo_status st = LUO_OK;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const char *name = refusals[i].name;
        if (!convert_flags_is(flags, name)) continue;
        const luo_status one = convert_flags_refuse(flags, name, refusals[i].why);
        if (st == LUO_OK) st = one;
    }
    return st;
}

/* ---- the network ---- */

/* The last of several names wins, so that what is computed stands behind what is asked. */
static const convert_size sizes[] = {
    CONVERT_NETWORK("num_layers", layers),
    CONVERT_NETWORK("hidden_size", hidden),
    CONVERT_NETWORK("ffn_hidden_size", ffn_hidden),
    CONVERT_NETWORK("num_attention_heads", heads),
    CONVERT_NETWORK("kv_channels", head_dim),
    CONVERT_NETWORK("vocab_size", vocab),
    CONVERT_NETWORK("padded_vocab_size", vocab),
    CONVERT_NETWORK("max_position_embeddings", max_sequence_tokens),
    CONVERT_NETWORK("num_experts", experts),
    CONVERT_NETWORK("num_moe_experts", experts),
    CONVERT_NETWORK("moe_router_topk", experts_per_token),
    CONVERT_NETWORK("moe_ffn_hidden_size", expert_ffn_hidden),
    CONVERT_NETWORK("moe_shared_expert_intermediate_size", shared_ffn_hidden),
    CONVERT_TRAINING("world_size", devices),
    CONVERT_TRAINING("tensor_model_parallel_size", tp),
    CONVERT_TRAINING("pipeline_model_parallel_size", pp),
    CONVERT_TRAINING("context_parallel_size", cp),
    CONVERT_TRAINING("expert_model_parallel_size", ep),
    CONVERT_TRAINING("micro_batch_size", micro_batch),
    CONVERT_TRAINING("global_batch_size", global_batch),
    CONVERT_TRAINING("seq_length", sequence_tokens),
    CONVERT_TRAINING("encoder_seq_length", sequence_tokens),
    CONVERT_TRAINING("decoder_first_pipeline_num_layers", first_layers),
    CONVERT_TRAINING("decoder_last_pipeline_num_layers", last_layers),
    CONVERT_TRAINING("recompute_num_layers", recompute_layers),
};

static bool is_word(const char *word, const char *what)
{
    return word && strcmp(word, what) == 0;
}

/* Vocabularies that a tokenizer of Megatron has without any file. */
static void read_tokenizer(convert_flags *flags, convert_network *n)
{
    static const struct {
        const char *tokenizer;
        int64_t vocab;
    } known[] = {{"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}};
    const char *word = convert_flags_word(flags, "tokenizer_type");
    for (size_t i = 0; !n->vocab && i < sizeof known / sizeof *known; i++)
        if (is_word(word, known[i].tokenizer)) {
            n->vocab = known[i].vocab;
            convert_note(flags->job, LUO_NOTE,
                         "the vocabulary is that of %s, %lld (of the published one).", word,
                         (long long)n->vocab);
        }
}

/* 1, or a pattern of layers without experts before layers with them: ([0]*3+[1]*58). */
static luo_status read_frequency(convert_flags *flags, convert_network *n)
{
    const char *word = convert_flags_word(flags, "moe_layer_freq");
    long dense, rest;
    int end = 0;
    if (!word || strcmp(word, "1") == 0) return LUO_OK;
    if (sscanf(word, "([0]*%ld+[1]*%ld)%n", &dense, &rest, &end) == 2 && !word[end] && dense > 0 &&
        dense + rest == n->layers) {
        n->first_dense_layers = dense;
        return LUO_OK;
    }
    return convert_flags_refuse(flags, "moe_layer_freq",
                                "only the first layers can be without experts, ([0]*3+[1]*58); "
                                "--approximate gives every layer experts");
}

/* Its parser's defaults where nothing is said. */
static luo_status read_latent(convert_flags *flags, convert_network *n)
{
    n->latent = convert_flags_is(flags, "multi_latent_attention");
    n->kv_lora = 32;
    n->nope = n->v = 128;
    n->rotary = 64;
    LUO_TRY(convert_flags_int(flags, "q_lora_rank", &n->q_lora));
    LUO_TRY(convert_flags_int(flags, "kv_lora_rank", &n->kv_lora));
    LUO_TRY(convert_flags_int(flags, "qk_head_dim", &n->nope));
    LUO_TRY(convert_flags_int(flags, "qk_pos_emb_head_dim", &n->rotary));
    LUO_TRY(convert_flags_int(flags, "v_head_dim", &n->v));
    if (!n->latent || n->experts) return LUO_OK;
    n->latent = false;
    return convert_flags_refuse(flags, "multi_latent_attention",
                                "only models with experts have it; --approximate takes plain "
                                "attention");
}

static luo_status read_network(convert_flags *flags, convert_training *t)
{
    convert_network *n = &t->network;
    const char *position = convert_flags_word(flags, "position_embedding_type");
    n->gated = convert_flags_is(flags, "swiglu");
    n->rmsnorm = is_word(convert_flags_word(flags, "normalization"), "RMSNorm");
    n->rope =
        is_word(position, "rope") || convert_flags_is(flags, "use_rotary_position_embeddings");
    n->tied = !convert_flags_is(flags, "untie_embeddings_and_output_weights");
    const convert_flag *bias = convert_flags_use(flags, "add_bias_linear");
    n->linear_bias = bias ? convert_flags_is(flags, "add_bias_linear")
                          : !convert_flags_is(flags, "disable_bias_linear");
    n->qkv_bias = n->linear_bias || convert_flags_is(flags, "add_qkv_bias");
    n->qk_norm = convert_flags_is(flags, "qk_layernorm");
    LUO_TRY(convert_flags_real(flags, "rotary_base", &n->rope_base));
    LUO_TRY(convert_flags_real(flags, "norm_epsilon", &n->norm_eps));
    LUO_TRY(convert_flags_real(flags, "layernorm_epsilon", &n->norm_eps));
    if (position && !is_word(position, "rope") && !is_word(position, "learned_absolute") &&
        !is_word(position, "none"))
        return convert_flags_wrong(flags, "position_embedding_type", "learned_absolute or rope");
    if (convert_flags_is(flags, "group_query_attention") ||
        !convert_flags_use(flags, "group_query_attention"))
        LUO_TRY(convert_flags_int(flags, "num_query_groups", &n->kv_heads));
    if (!n->kv_heads || n->kv_heads > n->heads) n->kv_heads = n->heads;
    if (!n->ffn_hidden) n->ffn_hidden = n->gated ? 8 * n->hidden / 3 / 64 * 64 : 4 * n->hidden;
    if (n->experts && !n->expert_ffn_hidden) n->expert_ffn_hidden = n->ffn_hidden;
    if (n->experts && !n->experts_per_token) n->experts_per_token = 2; /* the parser's default */
    if (!n->max_sequence_tokens) n->max_sequence_tokens = t->sequence_tokens;
    read_tokenizer(flags, n);
    /* softmax over the chosen alone, unless it is asked for before */
    n->renorm = n->experts && !convert_flags_is(flags, "moe_router_pre_softmax");
    LUO_TRY(read_frequency(flags, n));
    LUO_TRY(read_latent(flags, n));
    if (n->latent) n->rope = true;
    return LUO_OK;
}

/* ---- parallelism ---- */

static luo_status read_zero(convert_flags *flags, convert_training *t)
{
    static const char *const levels[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
    const char *level = convert_flags_word(flags, "data_parallel_sharding_strategy");
    t->zero = convert_flags_is(flags, "use_distributed_optimizer") ||
              convert_flags_is(flags, "overlap_param_gather");
    if (!level || (!convert_flags_is(flags, "use_custom_fsdp") &&
                   !convert_flags_is(flags, "use_megatron_fsdp")))
        return LUO_OK;
    for (int64_t i = 0; i < 4; i++)
        if (strcmp(level, levels[i]) == 0) {
            t->zero = i;
            return LUO_OK;
        }
    return convert_flags_wrong(flags, "data_parallel_sharding_strategy",
                               "no_shard, optim, optim_grads or optim_grads_params");
}

static luo_status read_recompute(convert_flags *flags, convert_training *t)
{
    const char *how = convert_flags_word(flags, "recompute_granularity");
    const char *method = convert_flags_word(flags, "recompute_method");
    if (convert_flags_is(flags, "recompute_activations")) how = "selective";
    if (!how)
        t->recompute = LUO_RECOMPUTE_NONE;
    else if (strcmp(how, "selective") == 0)
        t->recompute = LUO_RECOMPUTE_SELECTIVE;
    else if (strcmp(how, "full") == 0)
        t->recompute = LUO_RECOMPUTE_FULL;
    else
        return convert_flags_wrong(flags, "recompute_granularity", "selective or full");
    /* uniform: every layer is computed again, in groups of so many; block: so many of a chunk */
    if (t->recompute != LUO_RECOMPUTE_FULL || !is_word(method, "block")) t->recompute_layers = 0;
    return LUO_OK;
}

static luo_status read_chunks(convert_flags *flags, convert_training *t)
{
    int64_t each = 0, given = t->first_layers + t->last_layers;
    t->chunks = 0;
    LUO_TRY(convert_flags_int(flags, "virtual_pipeline_model_parallel_size", &t->chunks));
    LUO_TRY(convert_flags_int(flags, "num_virtual_stages_per_pipeline_rank", &t->chunks));
    LUO_TRY(convert_flags_int(flags, "num_layers_per_virtual_pipeline_stage", &each));
    const int64_t pp = t->pp ? t->pp : 1;
    if (!each || t->chunks || given) return LUO_OK;
    if (t->network.layers % (pp * each)) {
        const convert_flag *at = convert_flags_use(flags, "num_layers_per_virtual_pipeline_stage");
        return convert_error(flags->job, at->at.line, at->at.col,
                             "%lld layers on %lld stages of chunks of %lld; a multiple of %lld "
                             "layers is expected.",
                             (long long)t->network.layers, (long long)pp, (long long)each,
                             (long long)(pp * each));
    }
    t->chunks = t->network.layers / (pp * each);
    return LUO_OK;
}

static luo_status read_devices(convert_flags *flags, convert_training *t)
{
    int64_t nodes = 1, each = 0;
    LUO_TRY(convert_flags_int(flags, "nnodes", &nodes));
    LUO_TRY(convert_flags_int(flags, "nproc_per_node", &each));
    if (!t->devices) t->devices = nodes * each;
    return LUO_OK;
}

static luo_status read_experts(convert_flags *flags, convert_training *t)
{
    int64_t cut = t->tp ? t->tp : 1;
    LUO_TRY(convert_flags_int(flags, "expert_tensor_parallel_size", &cut));
    t->experts_dealt = t->network.experts && t->tp > 1 && cut == 1;
    if (!t->network.experts || cut == (t->tp ? t->tp : 1) || cut == 1) return LUO_OK;
    return convert_flags_wrong(flags, "expert_tensor_parallel_size",
                               "the tensor-parallel size, or 1");
}

/* Arguments that say nothing of cost or of what is computed, and stand in every script. */
static void use_harmless(convert_flags *flags)
{
    static const char *const names[] = {"bf16",
                                        "params_dtype",
                                        "distributed_backend",
                                        "transformer_impl",
                                        "use_mcore_models",
                                        "attention_backend",
                                        "use_flash_attn",
                                        "master_addr",
                                        "master_port",
                                        "node_rank",
                                        "rdzv_backend",
                                        "rdzv_endpoint",
                                        "rdzv_id",
                                        "moe_token_dispatcher_type",
                                        "moe_grouped_gemm",
                                        "accumulate_allreduce_grads_in_fp32",
                                        "data_parallel_size"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) convert_flags_use(flags, names[i]);
}

luo_status convert_megatron(convert_flags *flags, convert_training *out)
{
    convert_training *t = out;
    *t = (convert_training){0};
    t->network.name = "megatron";
    LUO_TRY(convert_flags_sizes(flags, sizes, sizeof sizes / sizeof *sizes, t));
    LUO_TRY(refuse(flags));
    LUO_TRY(read_network(flags, t));
    LUO_TRY(read_devices(flags, t));
    LUO_TRY(read_zero(flags, t));
    LUO_TRY(read_recompute(flags, t));
    LUO_TRY(read_chunks(flags, t));
    LUO_TRY(read_experts(flags, t));
    t->sequence_parallel = convert_flags_is(flags, "sequence_parallel");
    t->tp_pp_dp = convert_flags_is(flags, "use_tp_pp_dp_mapping");
    t->layout = convert_flags_word(flags, "pipeline_model_parallel_layout");
    if (t->layout) t->layout_at = convert_flags_use(flags, "pipeline_model_parallel_layout")->at;
    use_harmless(flags);
    return LUO_OK;
}

/* ---- a script or YAML ---- */

static bool has_yaml_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

luo_status convert_megatron_args(convert_job *job)
{
    convert_flags flags = {.job = job};
    convert_training training;
    LUO_TRY(has_yaml_name(job->src.name) ? convert_flags_yaml(&flags)
                                         : convert_flags_shell(&flags));
    if (flags.n == 0)
        return convert_error(job, 0, 0,
                             "there is no argument in it; a script with `--num-layers "
                             "24` and so on is expected.");
    LUO_TRY(convert_megatron(&flags, &training));
    LUO_TRY(convert_network_file(job, &training.network));
    LUO_TRY(convert_plan_file(job, &training));
    return convert_flags_unused(&flags);
}
