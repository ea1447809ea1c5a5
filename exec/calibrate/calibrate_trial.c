#include "exec/calibrate/calibrate_trial.h"

#include <math.h>

#include "core/plan/planners.h"

static luo_model model_of(const luo_network *network, luo_dtype dtype)
{
    return (luo_model){.name = network->name,
                       .family = network->gpt ? LUO_FAMILY_GPT : LUO_FAMILY_LLAMA,
                       .layers = network->layers,
                       .hidden = network->hidden,
                       .ffn_hidden = network->ffn,
                       .heads = network->heads,
                       .kv_heads = network->kv,
                       .head_dim = network->head_dim,
                       .vocab = network->vocab,
                       .max_sequence_tokens = network->tokens,
                       .linear_bias = network->gpt,
                       .out_bias = network->gpt,
                       .qkv_bias = network->gpt,
                       .causal = true,
                       .norm = network->gpt ? LUO_NORM_LAYER : LUO_NORM_RMS,
                       .activation = network->gpt ? LUO_ACT_GELU : LUO_ACT_SWIGLU,
                       .position = network->gpt ? LUO_POS_LEARNED : LUO_POS_ROPE,
                       .norm_eps = 1e-5,
                       .rope_base = 10000,
                       .dtype = dtype};
}

/* One node with a device per rank. Its numbers only let a plan be made; nothing of them is kept. */
static luo_status make_cluster(luo_trial_run *trial, luo_cluster *cluster, luo_err *err)
{
    static const luo_value values[] = {
        {.name = "peak_bf16_tflop_per_s", .source = "none", .value = 1},
        {.name = "peak_f32_tflop_per_s", .source = "none", .value = 1},
        {.name = "peak_f64_tflop_per_s", .source = "none", .value = 1},
        {.name = "memory_gbytes_per_s", .source = "none", .value = 1},
        {.name = "memory_gib", .source = "none", .value = 1e6}};
    static const char *const racks[] = {"r0"};
    luo_profile *profile = LUO_NEW(trial->arena, luo_profile);
    luo_node_group *group = LUO_NEW(trial->arena, luo_node_group);
    if (!profile || !group) return luo_err_nomem(err);
    *profile = (luo_profile){
        .name = "none", .cpu = true, .nvalues = sizeof values / sizeof *values, .values = values};
    LUO_TRY(luo_profile_finish(profile, err));
    *group = (luo_node_group){.name = "host",
                              .site = "main",
                              .nodes = 1,
                              .devices_per_node = trial->nranks,
                              .nracks = 1,
                              .racks = racks,
                              .profile = profile,
                              .base_slowdown = 1,
                              .has_pcie = true,
                              .pcie_bytes_per_s = 1e9,
                              .socket_bytes_per_s = 1e9,
                              .devices_per_switch = trial->nranks,
                              .sockets = 1,
                              .host_cores = 1};
    *cluster =
        (luo_cluster){.name = "here", .ngroups = 1, .groups = group, .fabric = LUO_FABRIC_SINGLE};
    return luo_cluster_finish(trial->arena, cluster, err);
}

enum { MICRO_BATCHES = 2 };

static luo_status make_programs(const luo_network *network, luo_dtype dtype, luo_trial_run *trial,
                                luo_err *err)
{
    luo_uniform_result *result = NULL;
    int32_t n = 0;
    const luo_compile_opts compile = {.check = false};
    luo_stack_default(&trial->stack);
    trial->model = model_of(network, dtype);
    LUO_TRY(make_cluster(trial, &trial->cluster, err));
    const luo_uniform_opts opts = {.batch_sequences = MICRO_BATCHES * network->sequences,
                                   .sequence_tokens = network->tokens,
                                   .tp = 1,
                                   .pp = 1,
                                   .dp = 1,
                                   .micro_batch_sequences = network->sequences,
                                   .devices = &trial->rank,
                                   .ndevices = 1,
                                   .stack = &trial->stack};
    LUO_TRY(
        luo_plan_uniform(trial->arena, &trial->model, &trial->cluster, &opts, &result, &n, err));
    LUO_TRY(luo_plan_compile(trial->arena, result->plan, &trial->model, &trial->cluster, &compile,
                             &trial->set, err));
    trial->recipe = (luo_recipe){.plan = result->plan};
    return LUO_OK;
}

static luo_status open_run(const luo_network *network, luo_dtype dtype, luo_trial_run *trial,
                           luo_err *err)
{
    LUO_TRY(make_programs(network, dtype, trial, err));
    trial->device_of = LUO_NEW_N(trial->arena, int32_t, trial->nranks);
    if (!trial->device_of) return luo_err_nomem(err);
    for (int32_t r = 0; r < trial->nranks; r++) trial->device_of[r] = r;
    LUO_TRY(luo_corpus_open(NULL, network->vocab, 0, &trial->corpus, err));
    trial->config = (luo_rank_config){.rank = trial->rank,
                                      .nranks = trial->nranks,
                                      .device_of = trial->device_of,
                                      .share_gpus = true, /* as many ranks as were asked for */
                                      .model = &trial->model,
                                      .cluster = &trial->cluster,
                                      .dtype = dtype,
                                      .corpus = trial->corpus};
    LUO_TRY(trial->executor->open(&trial->config, &trial->x, err));
    LUO_TRY(trial->executor->bind(trial->x, 0, trial->set, &trial->recipe, &trial->job, err));
    if (trial->executor->fetch) LUO_TRY(trial->executor->fetch(trial->job, false, err));
    luo_state_init(trial->executor->state(trial->job), &trial->model, 0);
    return trial->executor->store ? trial->executor->store(trial->job, true, err) : LUO_OK;
}

luo_status luo_trial_run_open(const luo_measurer *measurer, const luo_rank_executor *executor,
                              const luo_network *network, luo_dtype dtype, luo_trial_run *run,
                              luo_err *err)
{
    *run = (luo_trial_run){.executor = executor,
                           .rank = measurer->rank,
                           .nranks = measurer->nranks,
                           .arena = luo_arena_new(1 << 16)};
    return run->arena ? open_run(network, dtype, run, err) : luo_err_nomem(err);
}

void luo_trial_run_close(luo_trial_run *trial)
{
    if (trial->job) trial->executor->unbind(trial->job);
    if (trial->x) trial->executor->close(trial->x);
    luo_corpus_close(trial->corpus);
    luo_arena_free(trial->arena);
}

luo_status luo_trial_run_step(luo_trial_run *trial, int64_t step, bool trace,
                              luo_step_report *report, luo_err *err)
{
    static const luo_pace pace = {0, 1};
    const luo_step_order order = {.step = step,
                                  .trace = trace,
                                  .quiet = true, /* captured, as steps of runs are */
                                  .npace = 1,
                                  .pace = &pace,
                                  .withdraw_s = INFINITY,
                                  .kill_s = INFINITY};
    LUO_TRY(trial->executor->step(trial->job, &order, report, err));
    if (report->status == LUO_OK) return LUO_OK;
    return luo_err_set(err, report->status, "%s", report->text);
}
