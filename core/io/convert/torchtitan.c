/* torchtitan.c: TOML of torchtitan, as it is called today and was before. */
#include <stdio.h>
#include <string.h>

#include "core/io/convert/flags.h"

/* Sizes of the flavors that torchtitan has of Llama 3 (Llama 3 Herd of Models, table 3). */
static const struct {
    const char *name, *flavor;
    convert_network network;
} flavors[] = {
#define LLAMA3(name, word, nlayers, width, ffn, nheads)                                            \
    {                                                                                              \
        name, word,                                                                                \
        {                                                                                          \
            .layers = nlayers, .hidden = width, .ffn_hidden = ffn, .heads = nheads, .kv_heads = 8, \
            .vocab = 128256, .max_sequence_tokens = 8192, .rmsnorm = true, .gated = true,          \
            .rope = true, .rope_base = 500000, .norm_eps = 1e-5                                    \
        }                                                                                          \
    }
    LLAMA3("llama3", "8B", 32, 4096, 14336, 32),
    LLAMA3("llama3", "70B", 80, 8192, 28672, 64),
    LLAMA3("llama3", "405B", 126, 16384, 53248, 128),
};

static const char *word_of(convert_flags *flags, const char *name, const char *older)
{
    const char *word = convert_flags_word(flags, name);
    return word || !older ? word : convert_flags_word(flags, older);
}

static luo_status read_network(convert_flags *flags, convert_training *training, bool *given)
{
    const char *name = convert_flags_word(flags, "model.name");
    const char *flavor = convert_flags_word(flags, "model.flavor");
    LUO_TRY(convert_network_given(flags->job, training, given));
    if (*given) return LUO_OK;
    for (size_t i = 0; name && flavor && i < sizeof flavors / sizeof *flavors; i++)
        if (strcmp(flavors[i].name, name) == 0 && strcmp(flavors[i].flavor, flavor) == 0) {
            training->network = flavors[i].network;
            training->network.name = luo_arena_printf(flags->job->arena, "%s-%s", name, flavor);
            if (!training->network.name) return convert_nomem(flags->job);
            if (training->sequence_tokens > training->network.max_sequence_tokens)
                training->network.max_sequence_tokens = training->sequence_tokens;
            return LUO_OK;
        }
    if (!convert_flags_use(flags, "model.flavor"))
        return convert_error(flags->job, 0, 0,
                             "`model.flavor` is missing; add it, or give the network by --model.");
    return convert_flags_wrong(flags, "model.flavor",
                               "8B, 70B or 405B of `llama3`, or --model with the network's sizes,");
}

/* A degree; -1 is what is left. */
static luo_status read_degree(convert_flags *flags, const char *name, int64_t *out)
{
    const char *word = convert_flags_word(flags, name);
    if (word && strcmp(word, "-1") == 0) {
        *out = -1;
        return LUO_OK;
    }
    return convert_flags_int(flags, name, out);
}

static luo_status read_data_parallelism(convert_flags *flags, convert_training *training)
{
    static const char *const places[] = {"parallelism.", "training.", "experimental."};
    int64_t copies = 1, shard = -1;
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%sdata_parallel_replicate_degree", places[i]);
        LUO_TRY(read_degree(flags, name, &copies));
        snprintf(name, sizeof name, "%sdata_parallel_shard_degree", places[i]);
        LUO_TRY(read_degree(flags, name, &shard));
    }
    const int64_t each = (training->tp ? training->tp : 1) * (training->pp ? training->pp : 1) *
                         (training->cp ? training->cp : 1);
    training->devices = flags->job->opts->devices;
    if (copies == 0) copies = 1;
    if (shard < 0 && !training->devices)
        return convert_usage(flags->job,
                             "`--devices` is missing: `data_parallel_shard_degree` is -1, all that "
                             "are left.");
    if (shard < 0) shard = training->devices / (each * copies);
    if (shard == 0) shard = 1;
    if (!training->devices) training->devices = each * copies * shard;
    training->zero = shard > 1 ? 3 : 0;
    if (copies > 1 && shard > 1) {
        training->shard = LUO_SHARD_HYBRID;
        training->shard_pipelines = shard;
    }
    return LUO_OK;
}

/* By default weights that were gathered stay until the backward where there are stages. */
static luo_status read_reshard(convert_flags *flags, convert_training *training)
{
    static const char name[] = "parallelism.fsdp_reshard_after_forward";
    const char *word = convert_flags_word(flags, name);
    if (word && strcmp(word, "always") && strcmp(word, "never") && strcmp(word, "default"))
        return convert_flags_wrong(flags, name, "default, always or never");
    const bool stays =
        word && strcmp(word, "default") ? strcmp(word, "never") == 0 : training->pp > 1;
    if (!stays || training->zero != 3) return LUO_OK;
    if (training->shard == LUO_SHARD_HYBRID)
        return convert_note(flags->job, LUO_WARNING,
                            "weights that stay gathered and copies of the shards cannot both be "
                            "said; they are gathered again for the backward.");
    training->shard = LUO_SHARD_GRAD_OP;
    return LUO_OK;
}

/* Modules of each part, [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]], as a
 * layout: E, t a layer, L, parts with | between. */
static luo_status read_modules(convert_flags *flags, convert_training *training)
{
    static const char name[] = "parallelism.module_fqns_per_model_part";
    const char *text = convert_flags_word(flags, name);
    luo_str layout = {0};
    bool some = false;
    if (!text) return LUO_OK;
    for (const char *at = text + 1; *text == '[' && *at; at++) {
        if (*at == '[' && some) luo_str_addc(&layout, '|');
        if (*at == '[') some = true;
        if (*at != '"' && *at != '\'') continue;
        const char *end = strchr(at + 1, *at);
        if (!end) break;
        if (strncmp(at + 1, "tok_embeddings", 14) == 0) luo_str_addc(&layout, 'E');
        if (strncmp(at + 1, "layers.", 7) == 0) luo_str_addc(&layout, 't');
        if (strncmp(at + 1, "output", 6) == 0) luo_str_addc(&layout, 'L');
        at = end;
    }
    training->layout = luo_arena_strdup(flags->job->arena, luo_str_get(&layout));
    training->layout_at = convert_flags_use(flags, name)->at;
    luo_str_free(&layout);
    return training->layout ? LUO_OK : convert_nomem(flags->job);
}

static luo_status read_recompute(convert_flags *flags, convert_training *training)
{
    const char *mode = convert_flags_word(flags, "activation_checkpoint.mode");
    const char *option = convert_flags_word(flags, "activation_checkpoint.selective_ac_option");
    if (!mode || strcmp(mode, "none") == 0) return LUO_OK;
    if (strcmp(mode, "full") == 0)
        training->recompute = LUO_RECOMPUTE_FULL;
    else if (strcmp(mode, "selective") == 0)
        training->recompute = LUO_RECOMPUTE_SELECTIVE;
    else
        return convert_flags_wrong(flags, "activation_checkpoint.mode", "none, selective or full");
    if (training->recompute == LUO_RECOMPUTE_SELECTIVE && option && strcmp(option, "op") != 0)
        return convert_flags_refuse(flags, "activation_checkpoint.selective_ac_option",
                                    "every so many layers cannot be said in a plan; `op`, or mode "
                                    "full, can");
    return LUO_OK;
}

static luo_status read_schedule(convert_flags *flags, convert_training *training)
{
    static const char older[] = "experimental.pipeline_parallel_schedule";
    static const char newer[] = "parallelism.pipeline_parallel_schedule";
    const char *word = word_of(flags, newer, older);
    const char *name = convert_flags_use(flags, newer) ? newer : older;
    int64_t each = 0;
    LUO_TRY(convert_flags_int(flags, "parallelism.pipeline_parallel_layers_per_stage", &each));
    if (training->pp <= 1 || !word || strcmp(word, "1F1B") == 0 || strcmp(word, "1f1b") == 0)
        return LUO_OK;
    if (strcmp(word, "GPipe") == 0)
        training->gpipe = true;
    else if (strcmp(word, "Interleaved1F1B") == 0)
        training->chunks = each ? training->network.layers / (training->pp * each) : 2;
    else
        return convert_flags_refuse(flags, name, "1F1B, Interleaved1F1B and GPipe are known");
    return LUO_OK;
}

/* A rank's batch is cut into micro-batches only where there are stages. */
static luo_status read_batches(convert_flags *flags, convert_training *training)
{
    int64_t local = 0, global = 0, micro = 1;
    LUO_TRY(convert_flags_int(flags, "training.batch_size", &local));
    LUO_TRY(convert_flags_int(flags, "training.local_batch_size", &local));
    LUO_TRY(read_degree(flags, "training.global_batch_size", &global));
    LUO_TRY(convert_flags_int(flags, "parallelism.pipeline_parallel_microbatch_size", &micro));
    if (local == 0) local = 1;
    training->micro_batch = training->pp > 1 ? micro : local;
    if (local % training->micro_batch)
        return convert_error(flags->job, 0, 0,
                             "a rank's batch is %lld; a multiple of the micro-batch %lld is "
                             "expected.",
                             (long long)local, (long long)training->micro_batch);
    if (global > 0)
        training->global_batch = global;
    else
        training->micro_batches = local / training->micro_batch;
    return LUO_OK;
}

static luo_status refuse(convert_flags *flags)
{
    static const char *const names[] = {"float8.enable_float8_linear",
                                        "training.enable_cpu_offload",
                                        "parallelism.expert_tensor_parallel_degree"};
    static const char *const why[] = {"matrix products are bf16; --approximate takes them as that",
                                      "nothing is moved to the host; --approximate leaves it",
                                      "experts are cut as the rest; --approximate does so"};
    for (int i = 0; i < 3; i++)
        if (convert_flags_is(flags, names[i]))
            LUO_TRY(convert_flags_refuse(flags, names[i], why[i]));
    return LUO_OK;
}

static const convert_size sizes[] = {
    CONVERT_TRAINING("training.seq_len", sequence_tokens),
    CONVERT_TRAINING("training.tensor_parallel_degree", tp),
    CONVERT_TRAINING("parallelism.tensor_parallel_degree", tp),
    CONVERT_TRAINING("experimental.pipeline_parallel_degree", pp),
    CONVERT_TRAINING("parallelism.pipeline_parallel_degree", pp),
    CONVERT_TRAINING("experimental.context_parallel_degree", cp),
    CONVERT_TRAINING("parallelism.context_parallel_degree", cp),
    CONVERT_TRAINING("parallelism.expert_parallel_degree", ep),
};

luo_status convert_torchtitan(convert_job *job)
{
    convert_flags flags = {.job = job};
    convert_training training = {0};
    bool given;
    LUO_TRY(convert_flags_toml(&flags));
    LUO_TRY(convert_flags_sizes(&flags, sizes, sizeof sizes / sizeof *sizes, &training));
    LUO_TRY(refuse(&flags));
    LUO_TRY(read_network(&flags, &training, &given));
    if (!training.sequence_tokens) training.sequence_tokens = training.network.max_sequence_tokens;
    LUO_TRY(read_data_parallelism(&flags, &training));
    LUO_TRY(read_reshard(&flags, &training));
    LUO_TRY(read_modules(&flags, &training));
    LUO_TRY(read_recompute(&flags, &training));
    LUO_TRY(read_schedule(&flags, &training));
    LUO_TRY(read_batches(&flags, &training));
    training.sequence_parallel = training.tp > 1; /* always so in torchtitan */
    if (!given) LUO_TRY(convert_network_file(job, &training.network));
    LUO_TRY(convert_plan_file(job, &training));
    return convert_flags_unused(&flags);
}
