/* From a model and a cluster to what the search works on, and from what it finds to plans. */
#include "core/plan/auto/pipelines.h"

#include <math.h>
#include <string.h>

#include "core/cost/step/memory.h"
#include "core/cost/step/layer.h"
#include "core/plan/grid.h"

static const double UNIT_BYTES = 16 << 20;

typedef struct pipelines {
    luo_arena *arena;
    const luo_auto_pipelines_in *in;
    luo_auto_layer *layer;
    double *flops, *limit;                /* per device of the search */
    int32_t *node, *node_devices, nnodes; /* of these devices */
    luo_auto_link *inside, *between;
    luo_auto_nodes nodes;
    luo_err *err;
} pipelines;

typedef struct kind { /* what all layers have to do alike */
    int32_t tensor;
    bool sharded;
} kind;

static bool is_of_kind(const void *ctx, int32_t layer, const luo_auto_strategy *strategy)
{
    const kind *k = ctx;
    const int32_t data = luo_auto_strategy_data(strategy),
                  tensor = luo_auto_strategy_tensor(strategy);
    (void)layer;
    if (tensor != k->tensor || (data > 1 && luo_auto_strategy_sharded(strategy) != k->sharded))
        return false;
    return tensor == 1 || luo_auto_strategy_stride(strategy, LUO_AUTO_TP) == 1;
}

/* ---- layers ---- */

static double activations(const pipelines *p, luo_recompute recompute)
{
    const luo_memory_rules rules = luo_stack_memory(p->in->stack);
    const luo_mem_spec spec = {.model = p->in->model,
                               .layers = 1,
                               .sequence_tokens = p->in->sequence_tokens,
                               .micro_batch_tokens = p->in->sequence_tokens,
                               .tp = 1,
                               .stages = 1,
                               .chunks = 1,
                               .micro_batches = 1,
                               .replicas = 1,
                               .sequence_parallel = p->in->sequence_parallel,
                               .attention_fused = p->in->stack->attention_fused,
                               .rules = &rules};
    return luo_mem_layer_activations(&spec, (int)recompute);
}

/* FLOP of a layer's forward part per sequence: a third of all. */
static double forward_flop(const luo_model *model, int64_t tokens)
{
    luo_model without = *model;
    without.layers = model->layers - 1;
    const double all = luo_model_flops_per_token(model, tokens) -
                       (without.layers > 0 ? luo_model_flops_per_token(&without, tokens) : 0);
    return all / 3 * (double)tokens;
}

static luo_status make_layers(pipelines *p)
{
    const luo_model *model = p->in->model;
    const double bytes = (double)luo_dtype_bytes(model->dtype);
    const double tokens = (double)p->in->sequence_tokens, hidden = (double)model->hidden;
    const double table = (double)luo_mem_vocab(model, 1) * hidden;
    p->layer = LUO_NEW_N(p->arena, luo_auto_layer, model->layers);
    if (!p->layer) return luo_err_nomem(p->err);
    for (int64_t l = 0; l < model->layers; l++)
        p->layer[l] = (luo_auto_layer){.name = model->name,
                                       .parameters = luo_mem_layer_parameters(model, l, 1),
                                       .forward_flop = forward_flop(model, p->in->sequence_tokens),
                                       .boundary_bytes = bytes * tokens * hidden,
                                       .act_t_bytes = activations(p, LUO_RECOMPUTE_NONE),
                                       .act_c_bytes = activations(p, LUO_RECOMPUTE_FULL),
                                       .heads = model->heads,
                                       .ffn = model->ffn_hidden};
    /* The ends go with the first and the last layer, as stages of plans have them. */
    p->layer[0].parameters += table;
    p->layer[model->layers - 1].parameters += table;
    p->layer[model->layers - 1].forward_flop += 2 * tokens * table;
    return LUO_OK;
}

/* ---- devices ---- */

/* What a device reaches in one whole layer, forward, a sequence at a time. */
static luo_status speed_of(const pipelines *p, int32_t device, double *out)
{
    const luo_auto_pipelines_in *in = p->in;
    const luo_cost_ctx ctx = {
        .cluster = in->cluster, .stack = in->stack, .dtype = in->model->dtype};
    const luo_context none = {.c = 1, .inner = 1};
    const luo_layer_shape shape =
        luo_layer_of(in->model, 1, in->sequence_tokens, 1, none, false);
    luo_layer_cost cost;
    LUO_TRY(luo_cost_layer(&ctx, &shape, &device, LUO_RECOMPUTE_NONE, &cost, p->err));
    *out = forward_flop(in->model, in->sequence_tokens) / cost.forward /
           (in->rate ? fmax(1, in->rate[device]) : 1);
    return LUO_OK;
}

static luo_status add_device(pipelines *p, int32_t i)
{
    const luo_auto_pipelines_in *in = p->in;
    const int32_t d = in->devices[i], last = i > 0 ? in->devices[i - 1] : -1;
    const luo_node_group *group = &in->cluster->groups[in->cluster->devices[d].group];
    const luo_profile *prof = luo_cluster_profile(in->cluster, d);
    const bool same = last >= 0 && luo_cluster_profile(in->cluster, last) == prof &&
                      (!in->rate || in->rate[d] == in->rate[last]);
    if (last < 0 || in->cluster->devices[d].node != in->cluster->devices[last].node) {
        const double inside =
            group->scale_up_bytes_per_s > 0 ? group->scale_up_bytes_per_s : group->pcie_bytes_per_s;
        p->inside[p->nnodes] = (luo_auto_link){group->scale_up_latency_s, inside};
        p->between[p->nnodes++] =
            (luo_auto_link){group->nic_latency_s, luo_cost_node_bytes_per_s(group)};
    }
    p->node[i] = p->nnodes - 1;
    p->node_devices[p->node[i]]++;
    p->limit[i] = prof->memory_bytes - prof->reserved_bytes;
    if (same) p->flops[i] = p->flops[i - 1];
    return same ? LUO_OK : speed_of(p, d, &p->flops[i]);
}

static luo_status make_devices(pipelines *p)
{
    const int32_t n = p->in->ndevices;
    p->flops = LUO_NEW_N(p->arena, double, n);
    p->limit = LUO_NEW_N(p->arena, double, n);
    p->node = LUO_NEW_N(p->arena, int32_t, n);
    p->node_devices = LUO_NEW_N(p->arena, int32_t, n);
    p->inside = LUO_NEW_N(p->arena, luo_auto_link, n);
    p->between = LUO_NEW_N(p->arena, luo_auto_link, n);
    if (!p->flops || !p->limit || !p->node || !p->node_devices || !p->inside || !p->between)
        return luo_err_nomem(p->err);
    for (int32_t i = 0; i < n; i++) LUO_TRY(add_device(p, i));
    p->nodes = (luo_auto_nodes){p->node, p->node_devices, p->inside, p->between};
    return LUO_OK;
}

/* ---- plans ---- */

/* Pipelines take a tensor group of every stage; all stages have as many devices. */
static int32_t *place(const pipelines *p, const luo_auto_found *found, const kind *k)
{
    const int32_t own = p->in->ndevices / found->stages, data = own / k->tensor;
    int32_t *dev = LUO_NEW_N(p->arena, int32_t, p->in->ndevices), n = 0;
    for (int32_t r = 0; dev && r < data; r++)
        for (int32_t s = 0; s < found->stages; s++)
            for (int32_t i = 0; i < k->tensor; i++)
                dev[n++] = p->in->devices[s * own + r * k->tensor + i];
    return dev;
}

/* The layers of a stage that are checkpointed, as ranges. */
static luo_status mark_recompute(const pipelines *p, const luo_auto_found *found, luo_stage *st)
{
    const int32_t lo = st->layers[0].lo, hi = st->layers[0].hi;
    luo_range *at = LUO_NEW_N(p->arena, luo_range, hi - lo);
    int32_t n = 0;
    if (!at) return luo_err_nomem(p->err);
    for (int32_t l = lo; l < hi; l++) {
        if (!found->strategy[l].checkpoint) continue;
        if (n > 0 && at[n - 1].hi == l)
            at[n - 1].hi++;
        else
            at[n++] = (luo_range){l, l + 1};
    }
    st->recompute = n ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
    st->nrecompute = n == 1 && at[0].lo == lo && at[0].hi == hi ? 0 : n; /* 0: all of them */
    st->recompute_layers = st->nrecompute ? at : NULL;
    return LUO_OK;
}

static luo_status mark_all(const pipelines *p, const luo_auto_found *found, luo_plan *plan)
{
    luo_pipeline *all = LUO_NEW_N(p->arena, luo_pipeline, plan->npipelines);
    if (!all) return luo_err_nomem(p->err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        luo_stage *st = LUO_NEW_N(p->arena, luo_stage, found->stages);
        if (!st) return luo_err_nomem(p->err);
        all[i] = plan->pipelines[i];
        memcpy(st, all[i].stages, (size_t)found->stages * sizeof *st);
        for (int32_t s = 0; s < found->stages; s++) LUO_TRY(mark_recompute(p, found, &st[s]));
        all[i].stages = st;
    }
    plan->pipelines = all;
    return LUO_OK;
}

static luo_status write_plan(const pipelines *p, const luo_auto_found *found, const kind *k,
                             luo_plan **out)
{
    const luo_auto_pipelines_in *in = p->in;
    const int32_t data = in->ndevices / found->stages / k->tensor;
    const int32_t *dev = place(p, found, k);
    int64_t *layers = LUO_NEW_N(p->arena, int64_t, found->stages);
    if (!dev || !layers) return luo_err_nomem(p->err);
    for (int32_t s = 0; s < found->stages; s++) layers[s] = found->stage[s].layers;
    const luo_grid grid = {.name = "search",
                           .model = in->model,
                           .cluster = in->cluster,
                           .dtype = in->model->dtype,
                           .sequence_tokens = in->sequence_tokens,
                           .micro_batches = found->micro_batches,
                           .micro_batch_sequences =
                               (int32_t)(in->batch_sequences / found->micro_batches / data),
                           .zero = data == 1       ? 0
                                   : k->sharded    ? 3
                                   : in->zero >= 0 ? in->zero
                                                   : 1,
                           .pipelines = data,
                           .stages = found->stages,
                           .tp = k->tensor,
                           .sequence_parallel = in->sequence_parallel && k->tensor > 1,
                           .dev = dev,
                           .layers = layers};
    LUO_TRY(luo_plan_grid(p->arena, &grid, out, p->err));
    return mark_all(p, found, *out);
}

/* ---- the search ---- */

static luo_status search_kind(pipelines *p, const kind *k, luo_auto_pipelines_plan *out, int32_t *n)
{
    const luo_auto_pipelines_in *in = p->in;
    const luo_auto_job job = {
        .layer = p->layer,
        .layers = (int32_t)in->model->layers,
        .cluster = {in->ndevices, p->flops, p->limit, luo_auto_link_nodes, &p->nodes},
        .batch = in->batch_sequences,
        .unit_bytes = UNIT_BYTES,
        .stages = in->pp,
        .checkpointing = true,
        .uneven = LUO_AUTO_EVEN,
        .slow_comm = LUO_AUTO_SLOW_COMM,
        .slow_compute = LUO_AUTO_SLOW_COMPUTE,
        .allow = is_of_kind,
        .allow_ctx = k};
    luo_auto_found found;
    luo_err why = {0};
    const luo_status st = luo_auto_search(p->arena, &job, &found, &why);
    if (st == LUO_EINFEASIBLE || st == LUO_EUSAGE) return LUO_OK;
    if (st != LUO_OK) return luo_err_set(p->err, st, "%s", why.text);
    luo_auto_pipelines_plan plan = {.step_s = found.step_s};
    LUO_TRY(write_plan(p, &found, k, &plan.plan));
    int32_t at = (*n)++;
    for (; at > 0 && out[at - 1].step_s > plan.step_s; at--) out[at] = out[at - 1];
    out[at] = plan;
    return LUO_OK;
}

static int32_t narrowest_node(const pipelines *p)
{
    int32_t least = p->in->ndevices;
    for (int32_t k = 0; k < p->nnodes; k++)
        if (p->node_devices[k] < least) least = p->node_devices[k];
    return least;
}

static bool is_asked(const luo_auto_pipelines_in *in, const kind *k)
{
    if (in->tp > 0 && k->tensor != in->tp) return false;
    return in->zero < 0 || (in->zero == 3) == k->sharded;
}

luo_status luo_auto_pipelines(luo_arena *arena, const luo_auto_pipelines_in *in,
                              luo_auto_pipelines_plan *out, int32_t *n, luo_err *err)
{
    pipelines p = {.arena = arena, .in = in, .err = err};
    *n = 0;
    LUO_TRY(make_layers(&p));
    LUO_TRY(make_devices(&p));
    const int32_t node = narrowest_node(&p);
    for (int32_t tensor = 1; tensor <= node && in->ndevices % tensor == 0; tensor *= 2)
        for (int sharded = 0; sharded < 2 && *n < LUO_AUTO_PIPELINES; sharded++) {
            const kind k = {tensor, sharded};
            if (node % tensor || !is_asked(in, &k)) continue;
            LUO_TRY(search_kind(&p, &k, out, n));
        }
    return LUO_OK;
}
