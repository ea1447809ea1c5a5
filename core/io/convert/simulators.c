/* simulators.c: networks and strategies of other simulators: Calculon, SimuMax, vTrain. All are
 * JSON of plain keys; what each calls a size is a table. */
#include <stdio.h>
#include <string.h>

#include "core/io/convert/flags.h"

/* Is it a network (it has this key)? Without the key it is a strategy. */
static bool has(convert_flags *flags, const char *key)
{
    return convert_flags_use(flags, key) != NULL;
}

static luo_status given_network(convert_flags *flags, convert_training *training)
{
    bool given;
    LUO_TRY(convert_network_given(flags->job, training, &given));
    if (given) return LUO_OK;
    return convert_usage(flags->job,
                         "`--model` is missing: a strategy of %s does not say what "
                         "network trains; import that first.",
                         luo_convert_kind_name(flags->job->opts->kind));
}

static luo_status only_network(convert_flags *flags, convert_training *training)
{
    if (flags->job->opts->model)
        return convert_usage(flags->job,
                             "`--model` is given, and `%s` is a network itself; leave "
                             "it out.",
                             flags->job->src.name);
    LUO_TRY(convert_network_file(flags->job, &training->network));
    LUO_TRY(convert_say(flags->job, "%lld layers of %lld, %lld heads",
                        (long long)training->network.layers, (long long)training->network.hidden,
                        (long long)training->network.heads));
    return convert_flags_unused(flags);
}

static luo_status finish(convert_flags *flags, convert_training *training)
{
    LUO_TRY(convert_plan_file(flags->job, training));
    return convert_flags_unused(flags);
}

static luo_status read_recompute(convert_flags *flags, const char *name, const char *full,
                                 const char *selective, luo_recompute *out)
{
    const char *word = convert_flags_word(flags, name);
    if (!word || strcmp(word, "none") == 0)
        *out = LUO_RECOMPUTE_NONE;
    else if (strcmp(word, full) == 0)
        *out = LUO_RECOMPUTE_FULL;
    else if (strcmp(word, selective) == 0)
        *out = LUO_RECOMPUTE_SELECTIVE;
    else {
        char expected[96];
        snprintf(expected, sizeof expected, "none, %s or %s", full, selective);
        return convert_flags_wrong(flags, name, expected);
    }
    return LUO_OK;
}

/* ---- Calculon ---- */

static const convert_size calculon[] = {
    CONVERT_NETWORK("num_blocks", layers),
    CONVERT_NETWORK("hidden", hidden),
    CONVERT_NETWORK("feedforward", ffn_hidden),
    CONVERT_NETWORK("attn_heads", heads),
    CONVERT_NETWORK("attn_size", head_dim),
    CONVERT_NETWORK("seq_size", max_sequence_tokens),
    CONVERT_TRAINING("num_procs", devices),
    CONVERT_TRAINING("tensor_par", tp),
    CONVERT_TRAINING("pipeline_par", pp),
    CONVERT_TRAINING("data_par", dp),
    CONVERT_TRAINING("batch_size", global_batch),
    CONVERT_TRAINING("microbatch_size", micro_batch),
    CONVERT_TRAINING("pipeline_interleaving", chunks),
};

static luo_status refuse_offload(convert_flags *flags)
{
    static const char *const names[] = {"weight_offload", "activations_offload",
                                        "optimizer_offload"};
    for (int i = 0; i < 3; i++)
        if (convert_flags_is(flags, names[i]))
            LUO_TRY(convert_flags_refuse(flags, names[i],
                                         "nothing is moved to the host; --approximate leaves it "
                                         "on the GPU"));
    return LUO_OK;
}

luo_status convert_calculon(convert_job *job)
{
    convert_flags flags = {.job = job};
    convert_training training = {0};
    LUO_TRY(convert_flags_json(&flags));
    LUO_TRY(convert_flags_sizes(&flags, calculon, sizeof calculon / sizeof *calculon, &training));
    if (has(&flags, "num_blocks")) {
        training.network.name = "calculon";
        training.network.tied = training.network.linear_bias = training.network.qkv_bias = true;
        /* Calculon counts no vocabulary: of GPT-2, padded */
        training.network.vocab = 51200;
        convert_note(job, LUO_NOTE, "Calculon has no vocabulary; 51200, GPT-2's, is taken.");
        return only_network(&flags, &training);
    }
    LUO_TRY(given_network(&flags, &training));
    LUO_TRY(refuse_offload(&flags));
    LUO_TRY(
        read_recompute(&flags, "activation_recompute", "full", "attn_only", &training.recompute));
    const char *comm = convert_flags_word(&flags, "tensor_par_comm_type");
    training.sequence_parallel = comm && strcmp(comm, "rs_ag") == 0;
    training.zero = convert_flags_is(&flags, "optimizer_sharding");
    return finish(&flags, &training);
}

/* ---- SimuMax ---- */

static const convert_size simumax[] = {
    CONVERT_NETWORK("layer_num", layers),
    CONVERT_NETWORK("hidden_size", hidden),
    CONVERT_NETWORK("intermediate_size", ffn_hidden),
    CONVERT_NETWORK("head_num", heads),
    CONVERT_NETWORK("kv_head_num", kv_heads),
    CONVERT_NETWORK("head_size", head_dim),
    CONVERT_NETWORK("vocab_size", vocab),
    CONVERT_NETWORK("expert_num", experts),
    CONVERT_NETWORK("topk", experts_per_token),
    CONVERT_NETWORK("moe_ffn_hidden_size", expert_ffn_hidden),
    CONVERT_NETWORK("moe_shared_expert_intermediate_size", shared_ffn_hidden),
    CONVERT_NETWORK("dense_layers", first_dense_layers),
    CONVERT_TRAINING("seq_len", sequence_tokens),
    CONVERT_TRAINING("micro_batch_size", micro_batch),
    CONVERT_TRAINING("micro_batch_num", micro_batches),
    CONVERT_TRAINING("world_size", devices),
    CONVERT_TRAINING("tp_size", tp),
    CONVERT_TRAINING("pp_size", pp),
    CONVERT_TRAINING("cp_size", cp),
    CONVERT_TRAINING("ep_size", ep),
    CONVERT_TRAINING("interleaving_size", chunks),
    CONVERT_TRAINING("zero_state", zero),
    CONVERT_TRAINING("num_layers_in_first_pipeline_stage", first_layers),
    CONVERT_TRAINING("num_layers_in_last_pipeline_stage", last_layers),
};

static luo_status simumax_network(convert_flags *flags, convert_training *training)
{
    convert_network *network = &training->network;
    const char *kind = convert_flags_word(flags, "attention_type");
    if (kind && strcmp(kind, "mla") == 0)
        return convert_flags_wrong(flags, "attention_type",
                                   "plain attention, or a config.json of DeepSeek instead of it,");
    network->name = convert_flags_word(flags, "model_name");
    if (!network->name) network->name = "simumax";
    network->gated = network->rmsnorm = network->rope = convert_flags_is(flags, "use_swiglu");
    network->tied = !has(flags, "untie_embeddings") || !convert_flags_is(flags, "untie_embeddings");
    if (network->rope) network->tied = false;
    if (!network->rope) network->linear_bias = network->qkv_bias = true;
    if (network->experts == 1) network->experts = 0;
    if (network->experts && !network->expert_ffn_hidden)
        network->expert_ffn_hidden = network->ffn_hidden;
    network->max_sequence_tokens = 131072; /* SimuMax has none: what a strategy asks for fits */
    convert_note(flags->job, LUO_NOTE,
                 "SimuMax has no longest sequence; `max_sequence_tokens` 131072 is taken.");
    return only_network(flags, training);
}

/* Its recompute names layers of a stage and parts of a layer. */
static luo_status simumax_recompute(convert_flags *flags, convert_training *training)
{
    const bool on = convert_flags_is(flags, "enable_recompute");
    LUO_TRY(convert_flags_int(flags, "recompute_layer_num", &training->recompute_layers));
    if (!on) {
        convert_flags_use(flags, "recompute_granularity");
        return LUO_OK;
    }
    return read_recompute(flags, "recompute_granularity", "full_block", "selective_recompute",
                          &training->recompute);
}

luo_status convert_simumax(convert_job *job)
{
    convert_flags flags = {.job = job};
    convert_training training = {0};
    int64_t cut = 0;
    LUO_TRY(convert_flags_json(&flags));
    LUO_TRY(convert_flags_sizes(&flags, simumax, sizeof simumax / sizeof *simumax, &training));
    if (has(&flags, "layer_num")) return simumax_network(&flags, &training);
    LUO_TRY(given_network(&flags, &training));
    LUO_TRY(simumax_recompute(&flags, &training));
    LUO_TRY(convert_flags_int(&flags, "etp_size", &cut));
    training.experts_dealt = training.tp > 1 && cut == 1;
    training.sequence_parallel = convert_flags_is(&flags, "enable_sequence_parallel");
    return finish(&flags, &training);
}

/* ---- vTrain ---- */

static const convert_size vtrain[] = {
    CONVERT_TRAINING("num_gpus", devices),
    CONVERT_TRAINING("tensor_parallel_size", tp),
    CONVERT_TRAINING("pipeline_parallel_size", pp),
    CONVERT_TRAINING("data_parallel_size", dp),
    CONVERT_TRAINING("global_batch_size", global_batch),
    CONVERT_TRAINING("micro_batch_size", micro_batch),
    CONVERT_NETWORK("num_layers", layers),
    CONVERT_NETWORK("hidden_size", hidden),
    CONVERT_NETWORK("num_attention_heads", heads),
    CONVERT_NETWORK("vocab_size", vocab),
    CONVERT_NETWORK("max_length", max_sequence_tokens),
    CONVERT_TRAINING("max_length", sequence_tokens),
};

/* inter_node_bandwidth is in Gbit/s, intra_node_bandwidth in GB/s. */
static luo_status say_bandwidths(convert_flags *flags)
{
    double inter = 0, intra = 0;
    LUO_TRY(convert_flags_real(flags, "inter_node_bandwidth", &inter));
    LUO_TRY(convert_flags_real(flags, "intra_node_bandwidth", &intra));
    if (inter > 0 || intra > 0)
        convert_note(flags->job, LUO_NOTE,
                     "its network is %.6g GB/s between nodes and %.6g GB/s inside: what belongs "
                     "into a cluster file.",
                     inter / 8, intra);
    return LUO_OK;
}

luo_status convert_vtrain(convert_job *job)
{
    convert_flags flags = {.job = job};
    convert_training training = {0};
    LUO_TRY(convert_flags_json(&flags));
    LUO_TRY(convert_flags_sizes(&flags, vtrain, sizeof vtrain / sizeof *vtrain, &training));
    training.network.name = "vtrain";
    training.network.tied = training.network.linear_bias = training.network.qkv_bias = true;
    if (!training.network.vocab) training.network.vocab = 51200; /* of its networks */
    if (convert_flags_is(&flags, "use_checkpoint")) training.recompute = LUO_RECOMPUTE_FULL;
    LUO_TRY(say_bandwidths(&flags));
    LUO_TRY(convert_network_file(job, &training.network));
    return finish(&flags, &training);
}
