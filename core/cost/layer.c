#include "core/cost/layer.h"

#include <math.h>

#include "core/cost/memory.h"

typedef struct sum { /* adds up kernels of one kind of pass */
    const luo_profile *p;
    luo_dtype dtype;
    double forward, backward;
    luo_err *err;
} sum;

/* y = x W: forward (m, n, k); backward dX (m, k, n) and dW (k, n, m): never twice the forward. */
static luo_status product(sum *s, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const int64_t e = luo_dtype_bytes(s->dtype);
    const luo_gemm y = {m, n, k, batch, e, false}, dx = {m, k, n, batch, e, false};
    const luo_gemm dw = {k, n, m, batch, e, false};
    double t[3];
    LUO_TRY(luo_cost_gemm(s->p, s->dtype, &y, &t[0], s->err));
    LUO_TRY(luo_cost_gemm(s->p, s->dtype, &dx, &t[1], s->err));
    LUO_TRY(luo_cost_gemm(s->p, s->dtype, &dw, &t[2], s->err));
    s->forward += t[0];
    s->backward += t[1] + t[2];
    return LUO_OK;
}

/* `times` kernels of so many bytes each, forward and backward. */
static luo_status stream(sum *s, int times, double forward_bytes, double backward_bytes)
{
    double f = 0, b = 0;
    LUO_TRY(luo_cost_stream(s->p, forward_bytes, &f, s->err));
    LUO_TRY(luo_cost_stream(s->p, backward_bytes, &b, s->err));
    s->forward += times * f;
    s->backward += times * b;
    return LUO_OK;
}

static int64_t cut(int64_t given, int64_t whole, int32_t parts)
{
    return given > 0 ? given : (whole + parts - 1) / parts;
}

static bool has_experts(const luo_model *m, int64_t layer)
{
    const int64_t every = m->moe.every_layers > 0 ? m->moe.every_layers : 1;
    return m->moe.experts > 0 && layer >= m->moe.first_dense_layers &&
           (layer - m->moe.first_dense_layers) % every == 0;
}

/* One feed-forward block of width f (already cut): products and the activation. */
static luo_status mlp(sum *s, const luo_model *m, int64_t tokens, int64_t f, int64_t batch)
{
    const bool gated = m->activation == LUO_ACT_SWIGLU;
    const double e = (double)luo_dtype_bytes(s->dtype);
    const double x = (double)tokens * (double)batch * (double)f;
    LUO_TRY(product(s, tokens, (gated ? 2 : 1) * f, m->hidden, batch));
    LUO_TRY(product(s, tokens, m->hidden, f, batch));
    return stream(s, 1, (gated ? 3 : 2) * e * x, (gated ? 5 : 3) * e * x);
}

/* Router, then each expert on its even part of the tokens as one batched product. */
static luo_status experts(sum *s, const luo_layer_shape *l, int64_t tokens)
{
    const luo_moe *x = &l->model->moe;
    const int64_t each = (tokens * x->experts_per_token + x->experts - 1) / x->experts;
    LUO_TRY(product(s, tokens, x->experts, l->model->hidden, 1));
    LUO_TRY(mlp(s, l->model, each, cut(0, x->expert_ffn_hidden, l->tp), x->experts));
    if (x->shared_experts == 0) return LUO_OK;
    return mlp(s, l->model, tokens, cut(0, x->shared_ffn_hidden, l->tp), x->shared_experts);
}

static luo_status attention(sum *s, const luo_stack *stack, const luo_layer_shape *l,
                            int64_t heads, int32_t cp, luo_layer_gpu *out)
{
    const int64_t each = l->sequence_tokens > 0 ? l->sequence_tokens : l->tokens;
    const luo_attention a = {.heads = heads, .head_dim = l->model->head_dim,
                             .sequences = each > 0 ? l->tokens / each : 0, .tokens = each,
                             .rest = each > 0 ? l->tokens % each : 0, .causal = l->model->causal};
    double f = 0, b = 0;
    if (stack->attention_fused) {
        LUO_TRY(luo_cost_attention(s->p, s->dtype, &a, false, &f, s->err));
        LUO_TRY(luo_cost_attention(s->p, s->dtype, &a, true, &b, s->err));
    } else {
        LUO_TRY(luo_cost_attention_unfused(s->p, s->dtype, &a, false, &f, s->err));
        LUO_TRY(luo_cost_attention_unfused(s->p, s->dtype, &a, true, &b, s->err));
    }
    s->forward += f / cp; /* a device has 1/c of the sequence's products (4.2) */
    s->backward += b / cp;
    out->block = f / cp;
    out->core = stack->attention_fused ? 0 : f / cp;
    return LUO_OK;
}

luo_status luo_cost_layer_gpu(const luo_profile *p, const luo_stack *stack, luo_dtype dtype,
                              const luo_layer_shape *l, luo_layer_gpu *out, luo_err *err)
{
    const luo_model *m = l->model;
    if (m->family == LUO_FAMILY_VGG)
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` is a vgg, which has no transformer layers to cost; use "
                           "another family.",
                           m->name);
    const int32_t cp = l->cp > 0 ? l->cp : 1;
    const int64_t tokens = (l->tokens + cp - 1) / cp, d = m->head_dim;
    const int64_t heads = cut(l->local_heads, m->heads, l->tp);
    const int64_t kv = cut(l->local_kv_heads, m->kv_heads, l->tp);
    const double e = (double)luo_dtype_bytes(dtype);
    const double th = (double)tokens * (double)m->hidden / (l->sequence_parallel ? l->tp : 1);
    sum s = {p, dtype, 0, 0, err};
    *out = (luo_layer_gpu){0};
    LUO_TRY(product(&s, tokens, (heads + 2 * kv) * d, m->hidden, 1));
    LUO_TRY(product(&s, tokens, m->hidden, heads * d, 1));
    LUO_TRY(attention(&s, stack, l, heads, cp, out));
    LUO_TRY(stream(&s, 2, 2 * e * th, 4 * e * th));             /* norms */
    LUO_TRY(stream(&s, 2, (3 * e + 1) * th, (2 * e + 1) * th)); /* residual and dropout */
    if (has_experts(m, l->layer)) LUO_TRY(experts(&s, l, tokens));
    else LUO_TRY(mlp(&s, m, tokens, cut(l->local_ffn, m->ffn_hidden, l->tp), 1));
    out->forward = s.forward;
    out->backward = s.backward;
    out->kernels = (stack->attention_fused ? 14 : 16) + (l->tp > 1 ? 2 : 0);
    return LUO_OK;
}

/* Two collectives of T*h*e over each tensor group; the slowest group decides. */
static luo_status tensor_comm(const luo_cost_ctx *ctx, const luo_layer_shape *l,
                              const int32_t *dev, double *seconds, luo_err *err)
{
    const int32_t cp = l->cp > 0 ? l->cp : 1;
    const int64_t bytes =
        (l->tokens + cp - 1) / cp * l->model->hidden * luo_dtype_bytes(ctx->dtype);
    double worst = 0;
    for (int32_t c = 0; c < cp && l->tp > 1; c++) {
        double a = 0, b = 0;
        const int32_t *group = dev + (int64_t)c * l->tp;
        if (l->sequence_parallel) {
            LUO_TRY(luo_cost_group(ctx, LUO_COLL_AG, group, l->tp, bytes, 0, &a, err));
            LUO_TRY(luo_cost_group(ctx, LUO_COLL_RS, group, l->tp, bytes, 0, &b, err));
        } else {
            LUO_TRY(luo_cost_group(ctx, LUO_COLL_AR, group, l->tp, bytes, 0, &a, err));
        }
        worst = fmax(worst, a + b);
    }
    *seconds = 2 * worst * ctx->stack->tp_exposed_factor;
    return LUO_OK;
}

/* What the context ring leaves visible: keys and values of one block per hop (4.2). */
static luo_status ring_comm(const luo_cost_ctx *ctx, const luo_layer_shape *l, const int32_t *dev,
                            double block, double *seconds, luo_err *err)
{
    *seconds = 0;
    if (l->cp < 2) return LUO_OK;
    const int64_t kv = cut(l->local_kv_heads, l->model->kv_heads, l->tp);
    const int64_t bytes = 2 * ((l->tokens + l->cp - 1) / l->cp) * kv * l->model->head_dim *
                          luo_dtype_bytes(ctx->dtype);
    double worst = 0;
    for (int32_t c = 0; c < l->cp; c++) {
        double hop = 0;
        const int32_t next = (c + 1) % l->cp;
        LUO_TRY(luo_cost_p2p(ctx, dev[c * l->tp], dev[next * l->tp], bytes, 0, &hop, err));
        worst = fmax(worst, hop);
    }
    *seconds = luo_cost_ring_exposed(l->cp, worst, block / l->cp);
    return LUO_OK;
}

/* Calls for each device of the group whose node group differs from the one before. */
static bool differs(const luo_cluster *c, const int32_t *dev, int32_t i)
{
    return i == 0 || c->devices[dev[i]].group != c->devices[dev[i - 1]].group;
}

static void add_layer(const luo_cost_ctx *ctx, const luo_layer_gpu *gpu, int recompute,
                      double comm, double ring, double slow, luo_layer_cost *out)
{
    const double fc = comm + ring, bc = comm + 2 * ring;
    const double forward = luo_cost_host(ctx->stack, gpu->forward * slow + fc, gpu->kernels);
    double backward = luo_cost_host(ctx->stack, gpu->backward * slow + bc, 1.75 * gpu->kernels);
    if (recompute == 2) backward += forward;
    if (recompute == 1 && gpu->core > 0)
        backward += luo_cost_host(ctx->stack, gpu->core * slow, 3);
    out->forward = fmax(out->forward, forward);
    out->backward = fmax(out->backward, backward);
    out->forward_comm = fmax(out->forward_comm, fc);
    out->backward_comm = fmax(out->backward_comm, bc + (recompute == 2 ? fc : 0));
}

luo_status luo_cost_layer(const luo_cost_ctx *ctx, const luo_layer_shape *l, const int32_t *dev,
                          int recompute, luo_layer_cost *out, luo_err *err)
{
    const int32_t n = l->tp * (l->cp > 0 ? l->cp : 1);
    double comm = 0;
    *out = (luo_layer_cost){0, 0, 0, 0};
    LUO_TRY(tensor_comm(ctx, l, dev, &comm, err));
    for (int32_t i = 0; i < n; i++) {
        luo_layer_gpu gpu;
        double ring = 0;
        if (!differs(ctx->cluster, dev, i)) continue;
        LUO_TRY(luo_cost_layer_gpu(luo_cluster_profile(ctx->cluster, dev[i]), ctx->stack,
                                   ctx->dtype, l, &gpu, err));
        LUO_TRY(ring_comm(ctx, l, dev, gpu.block, &ring, err));
        add_layer(ctx, &gpu, recompute, comm, ring,
                  luo_cluster_base_slowdown(ctx->cluster, dev[i]), out);
    }
    return LUO_OK;
}

luo_status luo_cost_head(const luo_cost_ctx *ctx, const luo_layer_shape *l, const int32_t *dev,
                         luo_pair_cost *out, luo_err *err)
{
    const int32_t cp = l->cp > 0 ? l->cp : 1;
    const int64_t tokens = (l->tokens + cp - 1) / cp;
    const int64_t width = cut(0, luo_mem_vocab(l->model, l->tp), l->tp);
    *out = (luo_pair_cost){0, 0};
    for (int32_t i = 0; i < l->tp * cp; i++) {
        if (!differs(ctx->cluster, dev, i)) continue;
        sum s = {luo_cluster_profile(ctx->cluster, dev[i]), ctx->dtype, 0, 0, err};
        const double slow = luo_cluster_base_slowdown(ctx->cluster, dev[i]);
        const double softmax = 10.0 * (double)tokens * (double)width; /* in f32, both ways */
        LUO_TRY(product(&s, tokens, width, l->model->hidden, 1));
        LUO_TRY(stream(&s, 1, softmax, softmax));
        out->forward = fmax(out->forward, s.forward * slow);
        out->backward = fmax(out->backward, s.backward * slow);
    }
    return LUO_OK;
}

luo_status luo_cost_embedding(const luo_cost_ctx *ctx, const luo_layer_shape *l,
                              const int32_t *dev, luo_pair_cost *out, luo_err *err)
{
    const int32_t cp = l->cp > 0 ? l->cp : 1;
    const double th = (double)((l->tokens + cp - 1) / cp) * (double)l->model->hidden;
    const double e = (double)luo_dtype_bytes(ctx->dtype);
    double reduce = 0, worst = 0;
    for (int32_t c = 0; c < cp; c++) {
        double one = 0;
        LUO_TRY(luo_cost_group(ctx, LUO_COLL_AR, dev + (int64_t)c * l->tp, l->tp, (int64_t)(th * e),
                               0, &one, err));
        reduce = fmax(reduce, one);
    }
    for (int32_t i = 0; i < l->tp * cp; i++) {
        double t = 0;
        if (!differs(ctx->cluster, dev, i)) continue;
        LUO_TRY(luo_cost_stream(luo_cluster_profile(ctx->cluster, dev[i]), 2 * e * th, &t, err));
        worst = fmax(worst, t * luo_cluster_base_slowdown(ctx->cluster, dev[i]));
    }
    *out = (luo_pair_cost){worst + reduce * ctx->stack->tp_exposed_factor, worst};
    return LUO_OK;
}

luo_status luo_cost_optimizer(const luo_cost_ctx *ctx, int32_t device, double parameters,
                              double *seconds, luo_err *err)
{
    double t = 0;
    LUO_TRY(luo_cost_stream(luo_cluster_profile(ctx->cluster, device),
                            ctx->stack->optimizer_bytes * parameters, &t, err));
    *seconds = t * luo_cluster_base_slowdown(ctx->cluster, device) +
               (parameters > 0 ? 40 * ctx->stack->host_launch_s : 0);
    return LUO_OK;
}
