/* Collectives of a layer's tensor group and of its experts. */
#include <math.h>

#include "core/cost/step/layer_internal.h"

bool layer_deals_experts(const luo_layer_shape *shape)
{
    return shape->experts_among > 0 && shape->tp > 1 &&
           luo_model_has_experts(shape->model, shape->layer);
}

/* Latent vectors are put together, not the layer's input (which is, where queries are made of
 * it). */
static void latent_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *group,
                        layer_talk *out)
{
    const luo_latent *l = &shape->model->latent;
    const int64_t queries = l->q_lora > 0 ? l->q_lora : shape->model->hidden;
    const int64_t width[3] = {queries, l->kv_lora, l->rope};
    double both[2] = {0, 0};
    for (int i = 0; i < 3 && luo_model_is_latent(shape->model); i++) {
        const int64_t bytes = luo_layer_tokens(shape) * width[i] * luo_dtype_bytes(ctx->dtype);
        double a = 0, b = 0;
        if (shape->sequence_parallel)
            a = luo_cost_group_seconds(ctx, LUO_COLL_AG, group, shape->tp, bytes, 0);
        b = luo_cost_group_seconds(ctx, shape->sequence_parallel ? LUO_COLL_RS : LUO_COLL_AR, group,
                                   shape->tp, bytes, 0);
        both[0] += a;
        both[1] += b;
    }
    const bool latent = luo_model_is_latent(shape->model);
    out->gather = latent ? fmax(out->gather, both[0] * ctx->stack->tp_exposed_factor) : out->before;
    out->sum = latent ? fmax(out->sum, both[1] * ctx->stack->tp_exposed_factor) : out->behind;
}

/* All-to-all of n devices, `apart` from each other, of `bytes` each. */
static luo_status exchange(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n, int32_t apart,
                           int64_t bytes, double *seconds, luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    int32_t *group = arena ? LUO_NEW_N(arena, int32_t, n) : NULL;
    for (int32_t i = 0; group && i < n; i++) group[i] = dev[i * apart];
    if (group) *seconds = luo_cost_group_seconds(ctx, LUO_COLL_A2A, group, n, bytes, 0);
    luo_arena_free(arena);
    return group ? LUO_OK : luo_err_nomem(err);
}

/* The slowest of those inside the nodes, and then of those between them. */
static luo_status exchange_2d(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n, int32_t each,
                              int64_t bytes, double *seconds, luo_err *err)
{
    double inside = 0, between = 0, one;
    for (int32_t k = 0; k < n; k += each) {
        LUO_TRY(exchange(ctx, dev + k, each, 1, bytes, &one, err));
        inside = fmax(inside, one);
    }
    for (int32_t k = 0; k < each; k++) {
        LUO_TRY(exchange(ctx, dev + k, n / each, each, bytes, &one, err));
        between = fmax(between, one);
    }
    *seconds = inside + between;
    return LUO_OK;
}

/* Into the leaders or out of them: messages of a leader one after another; of the slowest node. */
static void led_seconds(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n, int32_t each,
                        int64_t bytes, bool away, double *seconds)
{
    *seconds = 0;
    for (int32_t k = 0; k < n; k += each) {
        double sum = 0, one;
        for (int32_t i = 1; i < each; i++) {
            const int32_t a = dev[away ? k : k + i], b = dev[away ? k + i : k];
            one = luo_cost_p2p_seconds(ctx, a, b, bytes, 0);
            sum += one;
        }
        *seconds = fmax(*seconds, sum);
    }
}

/* Leaders exchange what all devices of their nodes have. */
static luo_status exchange_led(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n, int32_t each,
                               int64_t bytes, double *seconds, luo_err *err)
{
    double in, between, out;
    led_seconds(ctx, dev, n, each, bytes, false, &in);
    LUO_TRY(exchange(ctx, dev, n / each, each, bytes * each, &between, err));
    led_seconds(ctx, dev, n, each, bytes, true, &out);
    *seconds = in + between + out;
    return LUO_OK;
}

/* Devices of the first one's node, where rows travel by node; all n: they do not. */
static int32_t devices_of_node(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                               const int32_t *dev, int32_t n)
{
    const luo_device *at = ctx->cluster->devices;
    int32_t each = 1;
    while (each < n && at[dev[each]].node == at[dev[0]].node) each++;
    return shape->experts_exchange != LUO_ALLTOALL_FLAT && each > 1 && n % each == 0 ? each : n;
}

static luo_status exchange_bytes(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                                 const int32_t *dev, int64_t bytes, double *seconds, luo_err *err)
{
    const int32_t n = shape->experts_among, each = devices_of_node(ctx, shape, dev, n);
    if (each == n) {
        *seconds = luo_cost_group_seconds(ctx, LUO_COLL_A2A, dev, n, bytes, 0);
        return LUO_OK;
    }
    return (shape->experts_exchange == LUO_ALLTOALL_2D ? exchange_2d : exchange_led)(
        ctx, dev, n, each, bytes, seconds, err);
}

/* Seconds of an exchange of the rows, and of the counts before it. */
static luo_status exchange_rows(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                                const int32_t *dev, double *rows, double *counts, luo_err *err)
{
    const luo_model *model = shape->model;
    const int32_t n = shape->experts_among;
    const int64_t own = (shape->tokens + shape->tp - 1) / shape->tp;
    const double rows_here =
        luo_gate_kept(model->moe.capacity_factor) * (double)(own * model->moe.experts_per_token);
    const int64_t bytes =
        (int64_t)ceil(rows_here - 1e-9) * model->hidden * luo_dtype_bytes(ctx->dtype);
    *rows = *counts = 0;
    for (int32_t at = 0; at < shape->tp && n > 1; at += n) {
        double r, c;
        LUO_TRY(exchange_bytes(ctx, shape, dev + at, bytes, &r, err));
        LUO_TRY(exchange_bytes(ctx, shape, dev + at, 4 * model->moe.experts, &c, err));
        *rows = fmax(*rows, r * ctx->stack->tp_exposed_factor);
        *counts = fmax(*counts, c * ctx->stack->tp_exposed_factor);
    }
    return LUO_OK;
}

/* Balanced assignment: logits of all tokens of the micro-batch, wherever they are. */
static void logits_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                        layer_talk *talk)
{
    const int32_t n = shape->tp * luo_layer_ranks(shape);
    const bool cut = layer_deals_experts(shape) || shape->sequence_parallel;
    if (shape->model->moe.gate != LUO_GATE_BALANCED || n == 1) return;
    if (!luo_model_has_experts(shape->model, shape->layer)) return;
    if (!cut && n == shape->tp) return;
    const double gather = luo_cost_group_seconds(ctx, LUO_COLL_AG, dev, n,
                                                 4 * shape->tokens * shape->model->moe.experts, 0);
    talk->in += gather * ctx->stack->tp_exposed_factor;
}

/* Experts that are cut: all devices know all choices, and add up what their columns say of them. */
static void choices_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                         layer_talk *talk)
{
    const int64_t bytes = 4 * shape->tokens * shape->model->moe.experts_per_token;
    double gather = 0, reduce = 0;
    if (!luo_model_has_experts(shape->model, shape->layer) || shape->tp == 1) return;
    if (!luo_model_has_router(shape->model)) return; /* known everywhere, and no weights */
    if (shape->sequence_parallel)
        gather = luo_cost_group_seconds(ctx, LUO_COLL_AG, dev, shape->tp, bytes, 0);
    reduce = luo_cost_group_seconds(ctx, shape->sequence_parallel ? LUO_COLL_RS : LUO_COLL_AR, dev,
                                    shape->tp, bytes, 0);
    talk->in += 2 * gather * ctx->stack->tp_exposed_factor;
    talk->din += reduce * ctx->stack->tp_exposed_factor;
}

/* Tokens are with their devices under sequence parallelism; else they are gathered behind, and
 * their gradients are. Shared experts gather and sum as all feed-forwards do, beside those that are
 * cut: what both read is gathered once, and so is summed what its gradient is. */
luo_status layer_experts_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                              const int32_t *dev, layer_talk *talk, luo_err *err)
{
    const bool shared = shape->model->moe.shared_experts > 0;
    const int64_t bytes = shape->tokens * shape->model->hidden * luo_dtype_bytes(ctx->dtype);
    double rows, counts, gather = 0;
    talk->in = talk->dout = talk->before;
    talk->out = talk->din = talk->behind;
    if (!layer_deals_experts(shape)) {
        talk->out += shared ? talk->behind : 0;
        talk->dout += shared ? talk->before : 0;
        logits_comm(ctx, shape, dev, talk);
        choices_comm(ctx, shape, dev, talk);
        return LUO_OK;
    }
    if (!shared) talk->in = talk->out = talk->din = talk->dout = 0;
    LUO_TRY(exchange_rows(ctx, shape, dev, &rows, &counts, err));
    if (!shape->sequence_parallel)
        gather = luo_cost_group_seconds(ctx, LUO_COLL_AG, dev, shape->tp, bytes, 0);
    gather *= ctx->stack->tp_exposed_factor;
    logits_comm(ctx, shape, dev, talk);
    talk->in += counts + rows;
    talk->out += rows + gather;
    talk->dout += rows;
    talk->din += rows + gather;
    return LUO_OK;
}

void layer_tensor_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                       layer_talk *out)
{
    const int32_t cp = luo_layer_ranks(shape);
    const int64_t bytes =
        luo_layer_tokens(shape) * shape->model->hidden * luo_dtype_bytes(ctx->dtype);
    *out = (layer_talk){0};
    for (int32_t c = 0; c < cp && shape->tp > 1; c++) {
        double a = 0, b = 0;
        const int32_t *group = dev + (int64_t)c * shape->tp;
        if (shape->sequence_parallel) {
            a = luo_cost_group_seconds(ctx, LUO_COLL_AG, group, shape->tp, bytes, 0);
            b = luo_cost_group_seconds(ctx, LUO_COLL_RS, group, shape->tp, bytes, 0);
        } else {
            b = luo_cost_group_seconds(ctx, LUO_COLL_AR, group, shape->tp, bytes, 0);
        }
        out->before = fmax(out->before, a * ctx->stack->tp_exposed_factor);
        out->behind = fmax(out->behind, b * ctx->stack->tp_exposed_factor);
        latent_comm(ctx, shape, group, out);
        out->loss = fmax(out->loss, luo_cost_overlap_loss(ctx, group, shape->tp));
    }
}
