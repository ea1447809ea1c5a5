#include "exec/calibrate/calibrate_trial.h"

#include <math.h>

#include "core/plan/planners.h"

static luo_model model_of(const luo_network *w, luo_dtype dtype)
{
    return (luo_model){.name = w->name,
                       .family = w->gpt ? LUO_FAMILY_GPT : LUO_FAMILY_LLAMA,
                       .layers = w->layers,
                       .hidden = w->hidden,
                       .ffn_hidden = w->ffn,
                       .heads = w->heads,
                       .kv_heads = w->kv,
                       .head_dim = w->head_dim,
                       .vocab = w->vocab,
                       .max_sequence_tokens = w->tokens,
                       .linear_bias = w->gpt,
                       .qkv_bias = w->gpt,
                       .causal = true,
                       .norm = w->gpt ? LUO_NORM_LAYER : LUO_NORM_RMS,
                       .activation = w->gpt ? LUO_ACT_GELU : LUO_ACT_SWIGLU,
                       .position = w->gpt ? LUO_POS_LEARNED : LUO_POS_ROPE,
                       .norm_eps = 1e-5,
                       .rope_base = 10000,
                       .dtype = dtype};
}

/* One node with a device per rank. Its numbers only let a plan be made; nothing of them is kept. */
static luo_status make_cluster(luo_trial_run *t, luo_cluster *c, luo_err *err)
{
    static const luo_value values[] = {
        {.name = "peak_bf16_tflop_per_s", .source = "none", .value = 1},
        {.name = "peak_f32_tflop_per_s", .source = "none", .value = 1},
        {.name = "peak_f64_tflop_per_s", .source = "none", .value = 1},
        {.name = "memory_gbytes_per_s", .source = "none", .value = 1},
        {.name = "memory_gib", .source = "none", .value = 1e6}};
    static const char *const racks[] = {"r0"};
    luo_profile *p = LUO_NEW(t->arena, luo_profile);
    luo_node_group *g = LUO_NEW(t->arena, luo_node_group);
    if (!p || !g) return luo_err_nomem(err);
    *p = (luo_profile){
        .name = "none", .cpu = true, .nvalues = sizeof values / sizeof *values, .values = values};
    LUO_TRY(luo_profile_finish(p, err));
    *g = (luo_node_group){.name = "host",
                          .site = "main",
                          .nodes = 1,
                          .devices_per_node = t->nranks,
                          .nracks = 1,
                          .racks = racks,
                          .profile = p,
                          .base_slowdown = 1,
                          .has_pcie = true,
                          .pcie_bytes_per_s = 1e9,
                          .socket_bytes_per_s = 1e9,
                          .devices_per_switch = t->nranks,
                          .sockets = 1,
                          .host_cores = 1};
    *c = (luo_cluster){.name = "here", .ngroups = 1, .groups = g, .fabric = LUO_FABRIC_SINGLE};
    return luo_cluster_finish(t->arena, c, err);
}

enum { MICRO_BATCHES = 2 };

static luo_status make_programs(const luo_network *w, luo_dtype dtype, luo_trial_run *t,
                                luo_err *err)
{
    luo_uniform_result *r = NULL;
    int32_t n = 0;
    const luo_compile_opts compile = {.check = false};
    luo_stack_default(&t->stack);
    t->model = model_of(w, dtype);
    LUO_TRY(make_cluster(t, &t->cluster, err));
    const luo_uniform_opts opts = {.batch_sequences = MICRO_BATCHES * w->sequences,
                                   .sequence_tokens = w->tokens,
                                   .tp = 1,
                                   .pp = 1,
                                   .dp = 1,
                                   .micro_batch_sequences = w->sequences,
                                   .devices = &t->rank,
                                   .ndevices = 1,
                                   .stack = &t->stack};
    LUO_TRY(luo_plan_uniform(t->arena, &t->model, &t->cluster, &opts, &r, &n, err));
    LUO_TRY(luo_plan_compile(t->arena, r->plan, &t->model, &t->cluster, &compile, &t->set, err));
    t->recipe = (luo_recipe){.plan = r->plan};
    return LUO_OK;
}

static luo_status open_run(const luo_network *w, luo_dtype dtype, luo_trial_run *t, luo_err *err)
{
    LUO_TRY(make_programs(w, dtype, t, err));
    t->device_of = LUO_NEW_N(t->arena, int32_t, t->nranks);
    if (!t->device_of) return luo_err_nomem(err);
    for (int32_t r = 0; r < t->nranks; r++) t->device_of[r] = r;
    LUO_TRY(luo_corpus_open(NULL, w->vocab, 0, &t->corpus, err));
    t->config = (luo_rank_config){.rank = t->rank,
                                  .nranks = t->nranks,
                                  .device_of = t->device_of,
                                  .model = &t->model,
                                  .cluster = &t->cluster,
                                  .dtype = dtype,
                                  .corpus = t->corpus};
    LUO_TRY(t->executor->open(&t->config, &t->x, err));
    LUO_TRY(t->executor->bind(t->x, 0, t->set, &t->recipe, &t->job, err));
    if (t->executor->fetch) LUO_TRY(t->executor->fetch(t->job, false, err));
    luo_state_init(t->executor->state(t->job), &t->model, 0);
    return t->executor->store ? t->executor->store(t->job, true, err) : LUO_OK;
}

luo_status luo_trial_run_open(const luo_measurer *m, const luo_rank_executor *executor,
                              const luo_network *w, luo_dtype dtype, luo_trial_run *t, luo_err *err)
{
    *t = (luo_trial_run){.executor = executor,
                         .rank = m->rank,
                         .nranks = m->nranks,
                         .arena = luo_arena_new(1 << 16)};
    return t->arena ? open_run(w, dtype, t, err) : luo_err_nomem(err);
}

void luo_trial_run_close(luo_trial_run *t)
{
    if (t->job) t->executor->unbind(t->job);
    if (t->x) t->executor->close(t->x);
    luo_corpus_close(t->corpus);
    luo_arena_free(t->arena);
}

luo_status luo_trial_run_step(luo_trial_run *t, int64_t step, bool trace, luo_step_report *r,
                              luo_err *err)
{
    static const luo_pace pace = {0, 1};
    const luo_step_order order = {.step = step,
                                  .trace = trace,
                                  .quiet = !trace, /* captured, as steps of runs are */
                                  .npace = 1,
                                  .pace = &pace,
                                  .withdraw_s = INFINITY,
                                  .kill_s = INFINITY};
    LUO_TRY(t->executor->step(t->job, &order, r, err));
    if (r->status == LUO_OK) return LUO_OK;
    return luo_err_set(err, r->status, "%s", r->text);
}
