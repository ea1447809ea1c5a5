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
static void read_tokenizer(convert_flags *flags, convert_network *network)
{
    static const struct {
        const char *tokenizer;
        int64_t vocab;
    } known[] = {{"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}};
    const char *word = convert_flags_word(flags, "tokenizer_type");
    for (size_t i = 0; !network->vocab && i < sizeof known / sizeof *known; i++)
        if (is_word(word, known[i].tokenizer)) {
            network->vocab = known[i].vocab;
            convert_note(flags->job, LUO_NOTE,
                         "the vocabulary is that of %s, %lld (of the published one).", word,
                         (long long)network->vocab);
        }
}

/* 1, or a pattern of layers without experts before layers with them: ([0]*3+[1]*58). */
static luo_status read_frequency(convert_flags *flags, convert_network *network)
{
    const char *word = convert_flags_word(flags, "moe_layer_freq");
    long dense, rest;
    int end = 0;
    if (!word || strcmp(word, "1") == 0) return LUO_OK;
    if (sscanf(word, "([0]*%ld+[1]*%ld)%n", &dense, &rest, &end) == 2 && !word[end] && dense > 0 &&
        dense + rest == network->layers) {
        network->first_dense_layers = dense;
        return LUO_OK;
    }
    return convert_flags_refuse(flags, "moe_layer_freq",
                                "only the first layers can be without experts, ([0]*3+[1]*58); "
                                "--approximate gives every layer experts");
}

/* Its parser's defaults where nothing is said. */
static luo_status read_latent(convert_flags *flags, convert_network *network)
{
    network->latent = convert_flags_is(flags, "multi_latent_attention");
    network->kv_lora = 32;
    network->nope = network->v = 128;
    network->rotary = 64;
    LUO_TRY(convert_flags_int(flags, "q_lora_rank", &network->q_lora));
    LUO_TRY(convert_flags_int(flags, "kv_lora_rank", &network->kv_lora));
    LUO_TRY(convert_flags_int(flags, "qk_head_dim", &network->nope));
    LUO_TRY(convert_flags_int(flags, "qk_pos_emb_head_dim", &network->rotary));
    LUO_TRY(convert_flags_int(flags, "v_head_dim", &network->v));
    if (!network->latent || network->experts) return LUO_OK;
    network->latent = false;
    return convert_flags_refuse(flags, "multi_latent_attention",
                                "only models with experts have it; --approximate takes plain "
                                "attention");
}

static luo_status read_network(convert_flags *flags, convert_training *training)
{
    convert_network *network = &training->network;
    const char *position = convert_flags_word(flags, "position_embedding_type");
    network->gated = convert_flags_is(flags, "swiglu");
    network->rmsnorm = is_word(convert_flags_word(flags, "normalization"), "RMSNorm");
    network->rope =
        is_word(position, "rope") || convert_flags_is(flags, "use_rotary_position_embeddings");
    network->tied = !convert_flags_is(flags, "untie_embeddings_and_output_weights");
    const convert_flag *bias = convert_flags_use(flags, "add_bias_linear");
    network->linear_bias = bias ? convert_flags_is(flags, "add_bias_linear")
                                : !convert_flags_is(flags, "disable_bias_linear");
    network->qkv_bias = network->linear_bias || convert_flags_is(flags, "add_qkv_bias");
    network->qk_norm = convert_flags_is(flags, "qk_layernorm");
    LUO_TRY(convert_flags_real(flags, "rotary_base", &network->rope_base));
    LUO_TRY(convert_flags_real(flags, "norm_epsilon", &network->norm_eps));
    LUO_TRY(convert_flags_real(flags, "layernorm_epsilon", &network->norm_eps));
    if (position && !is_word(position, "rope") && !is_word(position, "learned_absolute") &&
        !is_word(position, "none"))
        return convert_flags_wrong(flags, "position_embedding_type", "learned_absolute or rope");
    if (convert_flags_is(flags, "group_query_attention") ||
        !convert_flags_use(flags, "group_query_attention"))
        LUO_TRY(convert_flags_int(flags, "num_query_groups", &network->kv_heads));
    if (!network->kv_heads || network->kv_heads > network->heads)
        network->kv_heads = network->heads;
    if (!network->ffn_hidden)
        network->ffn_hidden =
            network->gated ? 8 * network->hidden / 3 / 64 * 64 : 4 * network->hidden;
    if (network->experts && !network->expert_ffn_hidden)
        network->expert_ffn_hidden = network->ffn_hidden;
    if (network->experts && !network->experts_per_token)
        network->experts_per_token = 2; /* the parser's default */
    if (!network->max_sequence_tokens) network->max_sequence_tokens = training->sequence_tokens;
    read_tokenizer(flags, network);
    /* softmax over the chosen alone, unless it is asked for before */
    network->renorm = network->experts && !convert_flags_is(flags, "moe_router_pre_softmax");
    LUO_TRY(read_frequency(flags, network));
    LUO_TRY(read_latent(flags, network));
    if (network->latent) network->rope = true;
    return LUO_OK;
}

/* ---- parallelism ---- */

static luo_status read_zero(convert_flags *flags, convert_training *training)
{
    static const char *const levels[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
    const char *level = convert_flags_word(flags, "data_parallel_sharding_strategy");
    training->zero = convert_flags_is(flags, "use_distributed_optimizer") ||
                     convert_flags_is(flags, "overlap_param_gather");
    if (!level || (!convert_flags_is(flags, "use_custom_fsdp") &&
                   !convert_flags_is(flags, "use_megatron_fsdp")))
        return LUO_OK;
    for (int64_t i = 0; i < 4; i++)
        if (strcmp(level, levels[i]) == 0) {
            training->zero = i;
            return LUO_OK;
        }
    return convert_flags_wrong(flags, "data_parallel_sharding_strategy",
                               "no_shard, optim, optim_grads or optim_grads_params");
}

static luo_status read_recompute(convert_flags *flags, convert_training *training)
{
    const char *how = convert_flags_word(flags, "recompute_granularity");
    const char *method = convert_flags_word(flags, "recompute_method");
    if (convert_flags_is(flags, "recompute_activations")) how = "selective";
    if (!how)
        training->recompute = LUO_RECOMPUTE_NONE;
    else if (strcmp(how, "selective") == 0)
        training->recompute = LUO_RECOMPUTE_SELECTIVE;
    else if (strcmp(how, "full") == 0)
        training->recompute = LUO_RECOMPUTE_FULL;
    else
        return convert_flags_wrong(flags, "recompute_granularity", "selective or full");
    /* uniform: every layer is computed again, in groups of so many; block: so many of a chunk */
    if (training->recompute != LUO_RECOMPUTE_FULL || !is_word(method, "block"))
        training->recompute_layers = 0;
    return LUO_OK;
}

static luo_status read_chunks(convert_flags *flags, convert_training *training)
{
    int64_t each = 0, given = training->first_layers + training->last_layers;
    training->chunks = 0;
    LUO_TRY(convert_flags_int(flags, "virtual_pipeline_model_parallel_size", &training->chunks));
    LUO_TRY(convert_flags_int(flags, "num_virtual_stages_per_pipeline_rank", &training->chunks));
    LUO_TRY(convert_flags_int(flags, "num_layers_per_virtual_pipeline_stage", &each));
    const int64_t pp = training->pp ? training->pp : 1;
    if (!each || training->chunks || given) return LUO_OK;
    if (training->network.layers % (pp * each)) {
        const convert_flag *at = convert_flags_use(flags, "num_layers_per_virtual_pipeline_stage");
        return convert_error(flags->job, at->at.line, at->at.col,
                             "%lld layers on %lld stages of chunks of %lld; a multiple of %lld "
                             "layers is expected.",
                             (long long)training->network.layers, (long long)pp, (long long)each,
                             (long long)(pp * each));
    }
    training->chunks = training->network.layers / (pp * each);
    return LUO_OK;
}

static luo_status read_devices(convert_flags *flags, convert_training *training)
{
    int64_t nodes = 1, each = 0;
    LUO_TRY(convert_flags_int(flags, "nnodes", &nodes));
    LUO_TRY(convert_flags_int(flags, "nproc_per_node", &each));
    if (!training->devices) training->devices = nodes * each;
    return LUO_OK;
}

static luo_status read_experts(convert_flags *flags, convert_training *training)
{
    int64_t cut = training->tp ? training->tp : 1;
    LUO_TRY(convert_flags_int(flags, "expert_tensor_parallel_size", &cut));
    training->experts_dealt = training->network.experts && training->tp > 1 && cut == 1;
    if (!training->network.experts || cut == (training->tp ? training->tp : 1) || cut == 1)
        return LUO_OK;
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
    convert_training *training = out;
    *training = (convert_training){0};
    training->network.name = "megatron";
    LUO_TRY(convert_flags_sizes(flags, sizes, sizeof sizes / sizeof *sizes, training));
    LUO_TRY(refuse(flags));
    LUO_TRY(read_network(flags, training));
    LUO_TRY(read_devices(flags, training));
    LUO_TRY(read_zero(flags, training));
    LUO_TRY(read_recompute(flags, training));
    LUO_TRY(read_chunks(flags, training));
    LUO_TRY(read_experts(flags, training));
    training->sequence_parallel = convert_flags_is(flags, "sequence_parallel");
    training->tp_pp_dp = convert_flags_is(flags, "use_tp_pp_dp_mapping");
    training->layout = convert_flags_word(flags, "pipeline_model_parallel_layout");
    if (training->layout)
        training->layout_at = convert_flags_use(flags, "pipeline_model_parallel_layout")->at;
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
