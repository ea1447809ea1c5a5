/* layer_context.c: messages of context parallelism in a layer (docs/architecture/context.md#bytes),
 * as core/plan/context.c cuts tensors. A part is `inner` neighbouring ranks. */
#include <assert.h>
#include <math.h>

#include "core/cost/step/layer_internal.h"

typedef struct keys { /* key-value heads around an exchange */
    int32_t sent;   /* ranks among which some of them are exchanged; 1: none */
    int32_t copied; /* ranks, or devices, that bring their tokens together for copies; 1: none */
    double heads;   /* on a device afterwards */
    bool all;       /* copies over the tensor group, too */
} keys;

static int64_t cut(int64_t given, int64_t whole, int32_t parts)
{
    return given > 0 ? given : (whole + parts - 1) / parts;
}

static int32_t inner_of(const luo_layer_shape *shape)
{
    return luo_context_is_on(&shape->context) ? shape->context.inner : 1;
}

/* The first that fits: as many heads as ranks, one that several share, all. */
static keys find_keys(const luo_layer_shape *shape)
{
    const int32_t inner = inner_of(shape);
    const int64_t all = shape->model->kv_heads, own = cut(shape->local_kv_heads, all, shape->tp);
    if (inner == 1) return (keys){1, 1, (double)own, false};
    if (all != shape->model->heads && all % shape->tp) return (keys){1, inner, (double)all, true};
    if (own % inner == 0) return (keys){inner, 1, (double)own / inner, false};
    if (inner % own == 0) return (keys){(int32_t)own, inner / (int32_t)own, 1, false};
    return (keys){1, inner, (double)own, false};
}

int32_t layer_copies(const luo_layer_shape *shape)
{
    return find_keys(shape).copied > 1 ? 2 : 0;
}

double layer_key_elements(const luo_layer_shape *shape)
{
    return (double)luo_layer_tokens(shape) * inner_of(shape) * find_keys(shape).heads *
           (double)shape->model->head_dim;
}

void layer_kept_elements(const luo_layer_shape *shape, double elements[2])
{
    const int32_t inner = inner_of(shape);
    const keys k = find_keys(shape);
    const double each = (double)luo_layer_tokens(shape) * (double)shape->model->head_dim;
    const double heads = (double)cut(shape->local_heads, shape->model->heads, shape->tp);
    const double own = (double)cut(shape->local_kv_heads, shape->model->kv_heads, shape->tp);
    elements[0] = inner > 1 ? each * ceil(heads / inner) : 0;
    elements[1] = k.sent > 1 ? each * own / k.sent : 0;
}

/* Device j of rank r exchanges `bytes` with each of the n ranks of its part around it. Messages
 * inside the node follow each other, and so do those out of it; one to another node starts while
 * that before is under way. */
static void exchange(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                     int32_t r, int32_t j, int32_t n, double bytes, double *seconds)
{
    const luo_device *at = ctx->cluster->devices;
    const int32_t first = r / n * n, own = dev[(int64_t)r * shape->tp + j];
    double sum[2] = {0, 0};
    int32_t last = -1;
    for (int32_t k = first; k < first + n; k++) {
        const int32_t to = dev[(int64_t)k * shape->tp + j];
        const bool far = at[to].node != at[own].node;
        double s = 0, start = 0;
        s = luo_cost_p2p_seconds(ctx, own, to, (int64_t)bytes, 0);
        if (far && sum[1] > 0 && at[to].node != last)
            start = luo_cost_p2p_seconds(ctx, own, to, 1, 0);
        if (far) last = at[to].node;
        sum[far] += s - start;
    }
    *seconds = fmax(sum[0], sum[1]);
}

static void exchanges(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                      const keys *k, layer_context *out)
{
    const double e = (double)luo_dtype_bytes(ctx->dtype);
    double kept[2];
    layer_kept_elements(shape, kept);
    for (int32_t r = 0; r < shape->context.c; r++)
        for (int32_t j = 0; j < shape->tp; j++) {
            double q = 0, kv = 0;
            if (kept[0] > 0) exchange(ctx, shape, dev, r, j, inner_of(shape), e * kept[0], &q);
            if (kept[1] > 0) exchange(ctx, shape, dev, r, j, k->sent, e * kept[1], &kv);
            out->queries = fmax(out->queries, q);
            out->keys = fmax(out->keys, kv);
        }
}

/* Devices that bring the tokens of a head together: those of rank r, of tensor rank j. */
static int32_t copy_group(const luo_layer_shape *shape, const int32_t *dev, const keys *k,
                          int32_t r, int32_t j, int32_t *group)
{
    const int32_t inner = inner_of(shape), first = r / inner * inner, step = inner / k->copied;
    int32_t n = 0;
    for (int32_t i = 0; i < k->copied; i++) {
        const int32_t rank = first + r % step + i * step;
        for (int32_t t = k->all ? 0 : j; t < (k->all ? shape->tp : j + 1); t++)
            group[n++] = dev[(int64_t)rank * shape->tp + t];
    }
    return n;
}

static void copies(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                   const keys *k, layer_context *out)
{
    enum { MOST = LUO_CONTEXT_SHARES * 64 };
    const int64_t bytes = (int64_t)layer_key_elements(shape) * luo_dtype_bytes(ctx->dtype);
    const double factor = ctx->stack->tp_exposed_factor;
    int32_t group[MOST];
    for (int32_t r = 0; r < shape->context.c && k->copied > 1; r++)
        for (int32_t j = 0; j < (k->all ? 1 : shape->tp); j++) {
            assert(k->copied * shape->tp <= MOST);
            const int32_t n = copy_group(shape, dev, k, r, j, group);
            const double gather = luo_cost_group_seconds(ctx, LUO_COLL_AG, group, n, bytes, 0);
            const double scatter = luo_cost_group_seconds(ctx, LUO_COLL_RS, group, n, bytes, 0);
            out->copies[0] = fmax(out->copies[0], gather * factor);
            out->copies[1] = fmax(out->copies[1], scatter * factor);
        }
}

/* Keys, then values, from every part to the next. */
static void hops(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                 layer_context *out)
{
    const int32_t n = luo_context_parts(&shape->context) > 1 ? shape->context.c * shape->tp : 0;
    const int64_t bytes = (int64_t)layer_key_elements(shape) * luo_dtype_bytes(ctx->dtype);
    for (int32_t i = 0; i < n; i++) {
        const double s =
            luo_cost_p2p_seconds(ctx, dev[i], dev[(i + inner_of(shape) * shape->tp) % n], bytes, 0);
        out->hop = fmax(out->hop, 2 * s);
    }
}

void layer_context_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                        layer_context *out)
{
    *out = (layer_context){0};
    if (!luo_context_is_on(&shape->context)) return;
    const keys k = find_keys(shape);
    exchanges(ctx, shape, dev, &k, out);
    copies(ctx, shape, dev, &k, out);
    hops(ctx, shape, dev, out);
}
