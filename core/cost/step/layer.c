#include "core/cost/step/layer.h"

#include <math.h>

#include "core/cost/step/layer_internal.h"
#include "core/cost/step/memory.h"

luo_layer_shape luo_layer_of(const luo_model *model, int64_t sequences, int64_t sequence_tokens,
                             int32_t tp, luo_context context, bool sequence_parallel)
{
    const int64_t multiple = luo_context_multiple(&context);
    const bool cut = multiple > 1 && (context.inner > 1 || sequence_parallel);
    const int64_t tokens = luo_context_pad(sequence_tokens, cut ? multiple * tp : multiple);
    return (luo_layer_shape){.model = model,
                             .tokens = sequences * tokens,
                             .sequence_tokens = tokens,
                             .tp = tp,
                             .context = context,
                             .sequence_parallel = sequence_parallel};
}

typedef struct sum { /* adds up kernels of one kind of pass */
    const luo_profile *p;
    luo_dtype dtype;
    double forward, backward;
    luo_err *err;
    luo_layer_gpu *out; /* where the parts of a layer go; NULL: nowhere */
    const luo_stack *stack;
    bool plain;              /* no products of layers: never in fp8 */
    int64_t gathered;        /* tokens that sequence parallelism gathers from .. */
    int32_t from;            /* .. so many devices; 0: none */
} sum;

/* Elements of a product's first operand that this device casts: of what is gathered, its own. */
static int64_t cast_here(const sum *s, luo_layer_part part, luo_weight_product product,
                         const luo_cost_key *key)
{
    const bool column = part == LUO_LAYER_QKV || part == LUO_LAYER_UP;
    const bool gathers = product == (column ? LUO_WEIGHTS_Y : LUO_WEIGHTS_DX);
    const int64_t m = key->a[0];
    const bool own = gathers && m == s->gathered && key->a[3] == 1;
    if (product == LUO_WEIGHTS_DW) return 0;
    return (own ? (m + s->from - 1) / s->from : m) * key->a[2] * key->a[3];
}

/* y = x W: forward (m, n, k); backward dX (m, k, n) and dW (k, n, m): never twice the forward.
 * form: of y; PLAIN or EXPERTS. */
static luo_status products(sum *s, luo_layer_part part, int64_t m, int64_t n, int64_t k,
                           int64_t batch, luo_gemm_form form)
{
    const int64_t e = luo_dtype_bytes(s->dtype);
    const luo_gemm_form sums = form == LUO_GEMM_EXPERTS ? LUO_GEMM_SUMS : form;
    luo_cost_key key[3] = {{LUO_COST_GEMM, {m, n, k, batch, e, form}},
                           {LUO_COST_GEMM, {m, k, n, batch, e, form}},
                           {LUO_COST_GEMM, {k, n, m, batch, e, sums}}};
    double t[3];
    for (int i = 0; i < 3; i++) {
        const luo_weight_product which = (luo_weight_product)(LUO_WEIGHTS_Y + i);
        key[i].a[LUO_COST_PRODUCT] = s->plain ? LUO_WEIGHTS_OTHER : which;
        key[i].a[LUO_COST_CAST] = cast_here(s, part, which, &key[i]);
        LUO_TRY(luo_cost_product(s->p, s->stack, s->dtype, &key[i], &t[i], s->err));
    }
    s->forward += t[0];
    s->backward += t[1] + t[2];
    if (!s->out) return LUO_OK;
    s->out->y[part] += t[0];
    s->out->dx[part] += t[1];
    s->out->dw[part] += t[2];
    return LUO_OK;
}

static luo_status product(sum *s, luo_layer_part part, int64_t m, int64_t n, int64_t k)
{
    return products(s, part, m, n, k, 1, LUO_GEMM_PLAIN);
}

/* `times` kernels of so many bytes each, forward and backward; of one: *each, if not NULL. */
static luo_status stream(sum *s, int times, double forward_bytes, double backward_bytes,
                         double each[2])
{
    double f = 0, b = 0;
    LUO_TRY(luo_cost_stream(s->p, forward_bytes, &f, s->err));
    LUO_TRY(luo_cost_stream(s->p, backward_bytes, &b, s->err));
    s->forward += times * f;
    s->backward += times * b;
    if (each) each[0] += f, each[1] += b;
    return LUO_OK;
}

/* Bytes of n elements: `fused` times, or what eager kernels move in that place. */
static double pass_over(const sum *s, int fused, luo_eager eager, double n)
{
    const double e = (double)luo_dtype_bytes(s->dtype);
    return s->stack->eager ? luo_eager_bytes(eager, e, n) : fused * e * n;
}

static luo_status norms(sum *s, const luo_model *model, int times, double n, double each[2])
{
    const double e = (double)luo_dtype_bytes(s->dtype);
    if (model->norm == LUO_NORM_LAYER) return stream(s, times, 2 * e * n, 4 * e * n, each);
    return stream(s, times, pass_over(s, 2, luo_eager_norm[0], n),
                  pass_over(s, 4, luo_eager_norm[1], n), each);
}

static int64_t cut(int64_t given, int64_t whole, int32_t parts)
{
    return given > 0 ? given : (whole + parts - 1) / parts;
}

/* Feed-forward blocks of width f (already cut): products and the activation. */
static luo_status mlp(sum *s, const luo_model *model, int64_t tokens, int64_t f, int64_t batch,
                      luo_gemm_form form)
{
    const bool gated = luo_model_is_gated(model);
    const double e = (double)luo_dtype_bytes(s->dtype);
    const double x = (double)tokens * (double)batch * (double)f;
    LUO_TRY(products(s, LUO_LAYER_UP, tokens, (gated ? 2 : 1) * f, model->hidden, batch, form));
    LUO_TRY(products(s, LUO_LAYER_DOWN, tokens, model->hidden, f, batch, form));
    if (!gated) return stream(s, 1, 2 * e * x, 3 * e * x, s->out->activation);
    return stream(s, 1, pass_over(s, 3, luo_eager_gate[0], x),
                  pass_over(s, 5, luo_eager_gate[1], x), s->out->activation);
}

static luo_status router(sum *s, const luo_model *model, int64_t routed)
{
    if (!luo_model_has_router(model)) return LUO_OK;
    s->plain = true;
    LUO_TRY(product(s, LUO_LAYER_UP, routed, model->moe.experts, model->hidden));
    s->plain = false;
    return LUO_OK;
}

/* Choices of tokens; rows of them put in order, and together again. routed: tokens whose choices
 * are made here; among: of all whose choices are made together. */
static luo_status routing(sum *s, const luo_model *model, int64_t routed, int64_t among,
                          int64_t tokens)
{
    const double e = (double)luo_dtype_bytes(s->dtype), th = (double)(tokens * model->hidden);
    const double rows =
        luo_gate_kept(model->moe.capacity_factor) * (double)model->moe.experts_per_token * th;
    const bool learns = luo_model_has_router(model);
    const double each = (double)(learns ? model->moe.experts : model->moe.experts_per_token);
    const double scores = 2 * fmax(e, 4) * (double)routed * each;
    const double others =
        model->moe.gate == LUO_GATE_BALANCED ? 2 * fmax(e, 4) * (double)among * each : 0;
    LUO_TRY(stream(s, 1, scores + others, learns ? scores : 0, s->out->activation));
    LUO_TRY(stream(s, 1, 2 * e * rows, e * (rows + th), s->out->activation));
    return stream(s, 1, e * (rows + th), e * ((learns ? 2 : 1) * rows + th), s->out->activation);
}

/* Of so many choices, those that are not dropped. */
static int64_t kept(const luo_moe *moe, int64_t choices)
{
    return (int64_t)ceil(luo_gate_kept(moe->capacity_factor) * (double)choices - 1e-9);
}

/* Every device routes its own tokens, and works on the rows of its experts, which are whole. */
static luo_status dealt_experts(sum *s, const luo_layer_shape *shape, int64_t tokens)
{
    const luo_moe *moe = &shape->model->moe;
    const int64_t own = (tokens + shape->tp - 1) / shape->tp;
    const int64_t rows = kept(moe, own * shape->experts_among * moe->experts_per_token);
    LUO_TRY(router(s, shape->model, own));
    LUO_TRY(routing(s, shape->model, own, shape->tokens, own));
    LUO_TRY(mlp(s, shape->model, (rows + moe->experts - 1) / moe->experts, moe->expert_ffn_hidden,
                cut(0, moe->experts, shape->experts_among), LUO_GEMM_EXPERTS));
    if (moe->shared_experts == 0) return LUO_OK;
    return mlp(s, shape->model, tokens,
               cut(0, moe->shared_ffn_hidden * moe->shared_experts, shape->tp), 1, LUO_GEMM_PLAIN);
}

/* Router, then each expert on its even part of the tokens as one batched product. */
static luo_status experts(sum *s, const luo_layer_shape *shape, int64_t tokens)
{
    const luo_moe *moe = &shape->model->moe;
    if (layer_deals_experts(shape)) return dealt_experts(s, shape, tokens);
    const int64_t each =
        (kept(moe, tokens * moe->experts_per_token) + moe->experts - 1) / moe->experts;
    const bool all = !shape->sequence_parallel || !luo_model_has_router(shape->model);
    const int64_t own = all ? tokens : (tokens + shape->tp - 1) / shape->tp;
    LUO_TRY(router(s, shape->model, own));
    LUO_TRY(routing(s, shape->model, own, shape->tokens, tokens));
    LUO_TRY(mlp(s, shape->model, each, cut(0, moe->expert_ffn_hidden, shape->tp), moe->experts,
                LUO_GEMM_EXPERTS));
    if (moe->shared_experts == 0) return LUO_OK;
    return mlp(s, shape->model, tokens, cut(0, moe->shared_ffn_hidden, shape->tp),
               moe->shared_experts, LUO_GEMM_PLAIN);
}

/* One step of attention, forward and backward. */
static luo_status core_seconds(const sum *s, const luo_stack *stack, const luo_attention *attention,
                               double seconds[2])
{
    for (int k = 0; k < 2; k++) {
        if (stack->attention_fused)
            LUO_TRY(luo_cost_attention(s->p, s->dtype, attention, k == 1, &seconds[k], s->err));
        else
            LUO_TRY(
                luo_cost_attention_unfused(s->p, s->dtype, attention, k == 1, &seconds[k], s->err));
    }
    return LUO_OK;
}

/* Latent vectors of the device's own tokens, what heads are made of from those of all. */
static luo_status latent_products(sum *s, const luo_layer_shape *shape, int64_t tokens,
                                  int64_t heads)
{
    const luo_model *model = shape->model;
    const luo_latent *latent = &model->latent;
    const int64_t own = shape->sequence_parallel ? cut(0, tokens, shape->tp) : tokens;
    if (latent->q_lora > 0) LUO_TRY(product(s, LUO_LAYER_QKV, own, latent->q_lora, model->hidden));
    LUO_TRY(product(s, LUO_LAYER_QKV, own, latent->kv_lora + latent->rope, model->hidden));
    LUO_TRY(product(s, LUO_LAYER_QKV, tokens, heads * model->head_dim,
                    latent->q_lora > 0 ? latent->q_lora : model->hidden));
    return product(s, LUO_LAYER_QKV, tokens, heads * (latent->nope + latent->v), latent->kv_lora);
}

/* Norms of latent vectors; queries and keys with positions, put together; backward adds what the
 * products of queries and of keys give the layer's input. */
static luo_status latent_streams(sum *s, const luo_layer_shape *shape, int64_t tokens,
                                 int64_t heads)
{
    const luo_latent *latent = &shape->model->latent;
    const double e = (double)luo_dtype_bytes(s->dtype), t = (double)tokens;
    const double own = t / (shape->sequence_parallel ? shape->tp : 1);
    const double rope =
        e * t * (double)(heads * (3 * shape->model->head_dim + latent->nope) + latent->rope);
    LUO_TRY(norms(s, shape->model, 1, own * (double)latent->q_lora, NULL));
    LUO_TRY(norms(s, shape->model, 1, own * (double)latent->kv_lora, NULL));
    LUO_TRY(stream(s, 1, rope, rope, NULL));
    return stream(s, 1, 0, (2 * e + 1) * own * (double)shape->model->hidden, NULL);
}

/* What arrives round a ring for the last part, which sees everything: its own keys, and others'. */
static luo_status ring_steps(const sum *s, const luo_stack *stack, const luo_layer_shape *shape,
                             luo_attention attention, luo_layer_gpu *out)
{
    const luo_context *context = &shape->context;
    const int32_t parts = luo_context_parts(context), last = parts - 1;
    const int64_t each = shape->sequence_tokens > 0 ? shape->sequence_tokens : shape->tokens;
    for (int step = 0; step < 2 && each > 0; step++) {
        const int64_t twice =
            luo_context_half_pairs(context, each, attention.causal, true, last, last - step);
        const int64_t w = attention.window > 0 && attention.window < each ? attention.window : each;
        double seconds[2];
        attention.pairs = (int64_t)((__int128)twice * shape->tokens / (2 * each) * w / each *
                                    (2 * each - w) / each);
        LUO_TRY(core_seconds(s, stack, &attention, seconds));
        for (int k = 0; k < 2; k++) *(step ? &out->ring[k].rest : &out->ring[k].first) = seconds[k];
    }
    return LUO_OK;
}

/* Gradients of keys and of values are added, two summands each; what stays here in an exchange. */
static luo_status context_streams(const sum *s, const luo_layer_shape *shape, int32_t parts,
                                  luo_layer_gpu *out)
{
    const double e = (double)luo_dtype_bytes(s->dtype);
    double kept[2], *sums = &out->ring[1].sum;
    layer_kept_elements(shape, kept);
    for (int k = 0; k < 2 && kept[k] > 0; k++)
        LUO_TRY(luo_cost_stream(s->p, 2 * e * kept[k], &out->kept[k], s->err));
    if (parts == 1) return LUO_OK;
    LUO_TRY(luo_cost_stream(s->p, (2 * e + 1) * layer_key_elements(shape), sums, s->err));
    *sums *= 2;
    return LUO_OK;
}

/* heads: of a tensor rank, which the ranks of a part share. */
static luo_status attention(sum *s, const luo_stack *stack, const luo_layer_shape *shape,
                            int64_t heads, luo_layer_gpu *out)
{
    const luo_context *context = &shape->context;
    const int64_t each = shape->sequence_tokens > 0 ? shape->sequence_tokens : shape->tokens;
    const int32_t parts = luo_context_parts(context),
                  inner = luo_context_is_on(context) ? context->inner : 1;
    const luo_attention a = {.heads = (heads + inner - 1) / inner,
                             .head_dim = shape->model->head_dim,
                             .value_dim = luo_model_value_dim(shape->model),
                             .sequences = each > 0 ? shape->tokens / each : 0,
                             .tokens = each,
                             .rest = each > 0 ? shape->tokens % each : 0,
                             .causal = shape->model->causal,
                             .window = luo_window_of(&shape->model->window, shape->layer)};
    double seconds[2] = {0, 0};
    for (int k = 0; k < 2; k++) out->ring[k] = (luo_ring){.parts = parts, .backward = k == 1};
    if (parts > 1)
        LUO_TRY(ring_steps(s, stack, shape, a, out));
    else LUO_TRY(core_seconds(s, stack, &a, seconds));
    LUO_TRY(context_streams(s, shape, parts, out));
    for (int k = 0; k < 2; k++) {
        luo_ring *ring = &out->ring[k];
        if (parts == 1) ring->first = seconds[k];
        out->attention[k] = ring->first + (parts - 1) * ring->rest;
    }
    s->forward += out->attention[0];
    s->backward += out->attention[1];
    out->core = stack->attention_fused ? 0 : out->attention[0];
    return LUO_OK;
}

/* Kernels of a layer, as luo_cost_role counts those of a program. */
static void count_kernels(const luo_stack *stack, const luo_layer_shape *shape, luo_layer_gpu *out)
{
    const luo_model *model = shape->model;
    const bool attends = luo_model_has_attention(model);
    const int32_t halves = attends ? 2 : 1;
    const int32_t calls = (shape->tp < 2              ? 0
                           : shape->sequence_parallel ? 2 * halves
                                                      : halves) +
                          layer_copies(shape);
    const int32_t parts = luo_context_parts(&shape->context), sums = 2 * (parts - 1);
    const bool fused = stack->attention_fused;
    const int32_t kept = (out->kept[0] > 0 ? 2 : 0) + (out->kept[1] > 0 ? 2 : 0);
    const bool latent = luo_model_is_latent(model);
    const int32_t low = !latent ? 0 : model->latent.q_lora > 0 ? 2 : 1; /* latent vectors */
    const int32_t more = latent ? 1 + low : 0;                          /* products */
    const int32_t extra = (model->position == LUO_POS_ROPE) + (model->qk_norm ? 2 : 0) + kept +
                          luo_model_layer_norms(model) - halves - model->parallel_residual;
    out->kernels = stack->kernels_forward + (calls ? 2 : 0);
    out->kernels_backward = 1.75 * out->kernels;
    if (stack->kernels_forward > 0) return;
    if (!attends) {
        out->kernels = 5 + calls; /* norm, products, activation, sum */
        out->kernels_backward = 7 + calls;
        return;
    }
    out->kernels = 9 + (fused ? 1 : 3) * parts + extra + calls; /* norms, sums, products, .. */
    out->kernels_backward = 13 + (fused ? 1 : 5) * parts + extra + calls + sums;
    out->kernels += more + low;
    out->kernels_backward += 2 * more + low + latent;
    if (!luo_model_has_experts(model, shape->layer)) return;
    const bool learns = luo_model_has_router(model); /* logits; choices, order */
    out->kernels += (learns ? 4 : 3) + (layer_deals_experts(shape) ? 3 : 0);
    out->kernels_backward += (learns ? 5 : 2) + (layer_deals_experts(shape) ? 2 : 0);
}

/* The first half of a layer without its norm and residual: what attention takes. */
static luo_status first_half(sum *s, const luo_stack *stack, const luo_layer_shape *shape,
                             luo_layer_gpu *out)
{
    const luo_model *model = shape->model;
    const int64_t tokens = luo_layer_tokens(shape), d = model->head_dim;
    const int64_t heads = cut(shape->local_heads, model->heads, shape->tp);
    const int64_t kv = cut(shape->local_kv_heads, model->kv_heads, shape->tp);
    const double t = (double)tokens;
    const double q = t * (double)(heads * d), k = t * (double)(kv * d);
    sum extra = {.p = s->p, .dtype = s->dtype, .err = s->err, .stack = stack};
    if (luo_model_is_latent(model))
        LUO_TRY(latent_products(s, shape, tokens, heads));
    else
        LUO_TRY(product(s, LUO_LAYER_QKV, tokens, (heads + 2 * kv) * d, model->hidden));
    LUO_TRY(product(s, LUO_LAYER_OUT, tokens, model->hidden, heads * luo_model_value_dim(model)));
    LUO_TRY(attention(s, stack, shape, heads, out));
    if (model->qk_norm) LUO_TRY(norms(&extra, model, 1, q, NULL));
    if (model->qk_norm) LUO_TRY(norms(&extra, model, 1, k, NULL));
    if (luo_model_is_latent(model))
        LUO_TRY(latent_streams(&extra, shape, tokens, heads));
    else if (model->position == LUO_POS_ROPE)
        LUO_TRY(stream(&extra, 1, pass_over(s, 2, luo_eager_rope, q + k),
                       pass_over(s, 2, luo_eager_rope, q + k), NULL));
    out->extra_forward = extra.forward;
    out->extra_backward = extra.backward;
    return LUO_OK;
}

luo_status luo_cost_layer_gpu(const luo_profile *profile, const luo_stack *stack, luo_dtype dtype,
                              const luo_layer_shape *shape, luo_layer_gpu *out, luo_err *err)
{
    const luo_model *model = shape->model;
    if (!luo_model_has_layers(model))
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` is a %s, which has no transformer layers to cost; use "
                           "another family.",
                           model->name, luo_family_desc_of(model->family)->name);
    const bool attends = luo_model_has_attention(model);
    const int64_t tokens = luo_layer_tokens(shape);
    const double e = (double)luo_dtype_bytes(dtype);
    const double th =
        (double)tokens * (double)model->hidden / (shape->sequence_parallel ? shape->tp : 1);
    luo_profile room;
    LUO_TRY(luo_profile_under(profile, stack, dtype, &room, &profile, err));
    sum s = {.p = profile, .dtype = dtype, .err = err, .out = out, .stack = stack};
    if (shape->sequence_parallel && shape->tp > 1) s.gathered = tokens, s.from = shape->tp;
    double norm[2] = {0, 0};
    const int sums = attends && !model->parallel_residual ? 2 : 1;
    *out = (luo_layer_gpu){.first = luo_layer_first(model), .ring = {{.parts = 1}, {.parts = 1}}};
    out->ring[1].backward = true;
    if (attends) LUO_TRY(first_half(&s, stack, shape, out));
    LUO_TRY(norms(&s, model, luo_model_layer_norms(model), th, norm));
    /* and dropout; parallel halves are added at once */
    const double more = model->parallel_residual ? e * th : 0;
    LUO_TRY(stream(&s, sums, (3 * e + 1) * th + more, (2 * e + 1) * th + more, out->residual));
    if (luo_model_has_experts(model, shape->layer))
        LUO_TRY(experts(&s, shape, tokens));
    else
        LUO_TRY(mlp(&s, model, tokens, cut(shape->local_ffn, model->ffn_hidden, shape->tp), 1,
                    LUO_GEMM_PLAIN));
    if (attends) {
        out->y[LUO_LAYER_NORM1] = norm[0];
        out->dx[LUO_LAYER_NORM1] = norm[1];
    }
    out->y[LUO_LAYER_NORM2] = norm[0];
    out->dx[LUO_LAYER_NORM2] = norm[1];
    out->forward = s.forward;
    out->backward = s.backward;
    count_kernels(stack, shape, out);
    return LUO_OK;
}

/* Calls for each device of the group whose kind differs from the one before. */
static bool differs(const luo_cluster *cluster, const int32_t *dev, int32_t i)
{
    return i == 0 || cluster->devices[dev[i]].kind != cluster->devices[dev[i - 1]].kind;
}

/* A pass over a layer: work and communication in turns, and when its parts are reached. */
typedef struct pass {
    double work, comm;
    double at[LUO_LAYER_PARTS], comm_at[LUO_LAYER_PARTS];
    double due[LUO_LAYER_PARTS], comm_due[LUO_LAYER_PARTS]; /* their outputs' gradients are there */
    int32_t nbeside; /* sums that run beside dW: seconds of both, and what is left of the sum */
    double call[2], dw[2], left[2];
    luo_ring ring;   /* steps of attention */
    double messages; /* around them and in the ring: what work does not hide */
} pass;

static void reach(pass *p, luo_layer_part part)
{
    p->at[part] = p->work;
    p->comm_at[part] = p->comm;
}

static pass go_forward(const luo_layer_gpu *gpu, const layer_talk *talk,
                       const layer_context *context)
{
    pass p = {.ring = gpu->ring[0]};
    p.ring.hop = context->hop;
    for (int i = (int)gpu->first; i < LUO_LAYER_PARTS; i++) {
        const luo_layer_part part = (luo_layer_part)i;
        if (part == LUO_LAYER_QKV) p.comm += talk->gather;
        if (part == LUO_LAYER_UP) p.comm += talk->in;
        reach(&p, part);
        p.work += gpu->y[part];
        if (part == LUO_LAYER_QKV) p.work += gpu->attention[0] + gpu->extra_forward;
        if (part == LUO_LAYER_QKV) p.comm += 2 * context->copies[0];
        if (part == LUO_LAYER_QKV) p.work += 2 * (gpu->kept[0] + gpu->kept[1]);
        if (part == LUO_LAYER_UP) p.work += gpu->activation[0];
        if (part != LUO_LAYER_OUT && part != LUO_LAYER_DOWN) continue;
        p.comm += part == LUO_LAYER_OUT ? talk->behind : talk->out;
        p.work += gpu->residual[0];
    }
    return p;
}

/* dX, then dW of a product whose dX is summed over the group; beside dW, if the stack does so. */
static void sum_beside(const luo_stack *stack, const luo_layer_gpu *gpu, const layer_talk *talk,
                       luo_layer_part part, pass *p)
{
    const double call = part == LUO_LAYER_UP ? talk->din : talk->sum;
    double dw = gpu->dw[part], left = call;
    if (stack->tp_overlap && call > 0) {
        dw = luo_cost_beside(dw, call, talk->loss);
        left = fmax(0, call - dw);
        p->call[p->nbeside] = call;
        p->dw[p->nbeside] = dw;
        p->left[p->nbeside++] = left;
    }
    p->work += gpu->dx[part] + dw;
    reach(p, part);
    p->comm += left;
}

static pass go_backward(const luo_stack *stack, const luo_layer_gpu *gpu, const layer_talk *talk,
                        const layer_context *context, double core)
{
    pass p = {.ring = gpu->ring[1]};
    if (core > 0) p.ring.first += gpu->ring[0].first, p.ring.rest += gpu->ring[0].rest;
    p.ring.hop = context->hop;
    for (int i = LUO_LAYER_PARTS - 1; i >= (int)gpu->first; i--) {
        const luo_layer_part part = (luo_layer_part)i;
        p.due[part] = p.work;
        p.comm_due[part] = p.comm;
        if (part == LUO_LAYER_QKV || part == LUO_LAYER_UP) {
            sum_beside(stack, gpu, talk, part, &p);
            continue;
        }
        if (part == LUO_LAYER_OUT) p.comm += talk->before;
        if (part == LUO_LAYER_DOWN) p.comm += talk->dout;
        p.work += gpu->dx[part] + gpu->dw[part];
        reach(&p, part);
        if (part == LUO_LAYER_DOWN) p.work += gpu->activation[1];
        if (part == LUO_LAYER_OUT) p.work += gpu->attention[1] + gpu->extra_backward + core;
        if (part == LUO_LAYER_OUT) p.work += (p.ring.parts - 1) * p.ring.sum;
        if (part == LUO_LAYER_OUT) p.work += 2 * (gpu->kept[0] + gpu->kept[1]);
        if (part == LUO_LAYER_OUT) p.comm += 2 * context->copies[1];
        if (part == LUO_LAYER_NORM1 || part == LUO_LAYER_NORM2) p.work += gpu->residual[1];
    }
    return p;
}

/* Exchanges of heads: queries, keys and values one after another on one side of attention, queries
 * alone on the other. What stays on the device is copied meanwhile, and the first exchange of
 * backward also has the weights of the product before it beside it. */
static double exchanged(const layer_context *context, const luo_layer_gpu *gpu, bool backward,
                        double stretch)
{
    const double behind = stretch * (gpu->kept[0] + 2 * gpu->kept[1]);
    const double before = stretch * (gpu->kept[0] + (backward ? gpu->dw[LUO_LAYER_OUT] : 0));
    return fmax(0, context->queries + 2 * context->keys - behind) +
           fmax(0, context->queries - before);
}

/* Keys leave again for a backward as soon as the lane is free: behind the last attention, the
 * tensor group's calls if they share the lane, or the exchange before. */
static double lead(const luo_stack *stack, const layer_context *context, const luo_layer_gpu *gpu,
                   const layer_talk *talk, double stretch, double others)
{
    const double last = stretch * (gpu->dx[LUO_LAYER_OUT] + gpu->dw[LUO_LAYER_OUT]);
    if (context->queries > 0) return fmax(0, stretch * gpu->dw[LUO_LAYER_OUT] - context->queries);
    return stack->tp_overlap && talk->behind > 0 ? last : fmax(0, others);
}

static double messages(const luo_stack *stack, const pass *p, const layer_context *context,
                       const luo_layer_gpu *gpu, const layer_talk *talk, double stretch, double all)
{
    luo_ring ring = p->ring;
    ring.first *= stretch;
    ring.rest *= stretch;
    ring.sum *= stretch;
    const double work = ring.first + (ring.parts - 1) * (ring.rest + ring.sum);
    if (ring.backward) ring.lead = lead(stack, context, gpu, talk, stretch, all - work);
    return exchanged(context, gpu, ring.backward, stretch) + luo_cost_ring(&ring) -
           (ring.backward ? work : ring.first + (ring.parts - 1) * ring.rest);
}

/* Is the part reached when attention is over? */
static bool is_behind(const pass *p, int part)
{
    return p->ring.backward ? part < LUO_LAYER_OUT : part > LUO_LAYER_QKV;
}

/* With the host's floor: seconds of the pass; at[], due[]: when its parts are reached, from `from`
 * on. */
static double with_host(const luo_stack *stack, pass *p, const layer_context *context,
                        const luo_layer_gpu *gpu, const layer_talk *talk, double slow,
                        double kernels, double from, double *at, double *due)
{
    double all = luo_cost_host(stack, p->work * slow + p->comm, kernels);
    const double stretch = p->work > 0 ? (all - p->comm) / p->work : 0;
    for (int32_t i = 0; i < p->nbeside; i++) /* a dW that the host makes longer hides more */
        all -= p->left[i] - fmax(0, p->call[i] - p->dw[i] * stretch);
    p->messages = messages(stack, p, context, gpu, talk, stretch, all);
    for (int i = 0; i < LUO_LAYER_PARTS; i++) {
        const double begin = from + (is_behind(p, i) ? p->messages : 0);
        at[i] = fmax(at[i], begin + p->at[i] * stretch + p->comm_at[i]);
        if (due) due[i] = fmax(due[i], begin + p->due[i] * stretch + p->comm_due[i]);
    }
    return all + p->messages;
}

/* Products of a layer's weight gradients, one after another. */
static pass go_weights(const luo_layer_gpu *gpu)
{
    pass p = {.ring = {.parts = 1}};
    for (int part = LUO_LAYER_PARTS - 1; part >= 0; part--) {
        p.due[part] = p.work;
        p.work += gpu->dw[part];
        reach(&p, (luo_layer_part)part);
    }
    return p;
}

/* BI: backward without dW; BW: dW alone. again: seconds of the forward that runs again. */
static void add_halves(const luo_cost_ctx *ctx, const luo_layer_gpu *gpu, const layer_talk *talk,
                       const layer_context *context, double slow, double core, double again,
                       luo_layer_cost *out)
{
    const int products = gpu->first == LUO_LAYER_NORM1 ? 4 : 2;
    const luo_stack *stack = ctx->stack;
    const bool counted = stack->kernels_forward <= 0;
    const double late = counted ? products : 0.75 * stack->kernels_forward;
    const double launches = gpu->kernels_backward - late;
    const layer_context none = {0};
    const layer_talk silent = {0};
    double unused[LUO_LAYER_PARTS] = {0};
    luo_layer_gpu layer_gpu = *gpu;
    for (int i = 0; i < LUO_LAYER_PARTS; i++) layer_gpu.dw[i] = 0;
    pass b = go_backward(stack, &layer_gpu, talk, context, core), w = go_weights(gpu);
    const double input =
        again + with_host(stack, &b, context, &layer_gpu, talk, slow,
                          launches + (counted && core > 0 ? 3 * gpu->ring[1].parts : 0), again,
                          unused, NULL);
    layer_gpu = (luo_layer_gpu){0};
    const double weight = with_host(stack, &w, &none, &layer_gpu, &silent, slow, late, 0,
                                    out->weight_done, out->weight_due);
    out->input = fmax(out->input, input);
    out->weight = fmax(out->weight, weight);
}

static void add_layer(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                      const luo_layer_gpu *gpu, int recompute, const layer_talk *talk,
                      const layer_context *context, double slow, luo_layer_cost *out)
{
    const double core = recompute == 1 ? gpu->core : 0;
    pass f = go_forward(gpu, talk, context);
    pass b = go_backward(ctx->stack, gpu, talk, context, core);
    const double forward =
        with_host(ctx->stack, &f, context, gpu, talk, slow, gpu->kernels, 0, out->read, NULL);
    const double again = recompute == 2 ? forward : 0;
    const bool counted = ctx->stack->kernels_forward <= 0;
    const double kernels =
        gpu->kernels_backward +
        (counted ? (core > 0 ? 3 * gpu->ring[1].parts : 0) + shape->beside_kernels : 0);
    const double own = b.work;
    b.work += shape->beside;
    const double both =
        with_host(ctx->stack, &b, context, gpu, talk, slow, kernels, again, out->done, out->due);
    const double beside = own > 0 ? (both - b.comm - b.messages) * shape->beside / b.work : 0;
    const double backward = again + both - beside;
    out->beside = fmax(out->beside, beside);
    out->reread = fmax(out->reread, again > 0 ? 0 : talk->before);
    out->renorm = again > 0 ? 0 : out->due[LUO_LAYER_NORM2];
    out->forward = fmax(out->forward, forward);
    out->backward = fmax(out->backward, backward);
    add_halves(ctx, gpu, talk, context, slow, core, again, out);
    const double forth = f.comm + f.messages, back = b.comm + b.messages;
    out->forward_comm = fmax(out->forward_comm, forth);
    out->backward_comm = fmax(out->backward_comm, back + (recompute == 2 ? forth : 0));
}

luo_status luo_cost_layer(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                          int recompute, luo_layer_cost *out, luo_err *err)
{
    const int32_t n = shape->tp * luo_layer_ranks(shape);
    layer_context context;
    layer_talk talk;
    *out = (luo_layer_cost){0};
    layer_tensor_comm(ctx, shape, dev, &talk);
    LUO_TRY(layer_experts_comm(ctx, shape, dev, &talk, err));
    layer_context_comm(ctx, shape, dev, &context);
    for (int32_t i = 0; i < n; i++) {
        luo_layer_gpu gpu;
        if (!differs(ctx->cluster, dev, i)) continue;
        LUO_TRY(luo_cost_layer_gpu(luo_cluster_profile(ctx->cluster, dev[i]), ctx->stack,
                                   ctx->dtype, shape, &gpu, err));
        add_layer(ctx, shape, &gpu, recompute, &talk, &context,
                  luo_cluster_base_slowdown(ctx->cluster, dev[i]), out);
    }
    return LUO_OK;
}

/* Kernels that stand in no layer: each has its own floor. */
static double alone(const luo_cost_ctx *ctx, double gpu, double slow)
{
    return luo_cost_host(ctx->stack, gpu, 1) * slow;
}

luo_status luo_cost_head(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                         luo_pair_cost *out, luo_err *err)
{
    const int64_t tokens = luo_layer_tokens(shape);
    const int64_t width = cut(0, luo_mem_vocab(shape->model, shape->tp), shape->tp);
    const double th =
        (double)tokens * (double)shape->model->hidden / (shape->sequence_parallel ? shape->tp : 1);
    layer_talk talk;
    double row = 0;
    *out = (luo_pair_cost){0};
    layer_tensor_comm(ctx, shape, dev, &talk);
    if (shape->tp > 1) /* largest, sum and target of every row */
        row = luo_cost_group_seconds(ctx, LUO_COLL_AR, dev, shape->tp, 4 * tokens, 0);
    for (int32_t i = 0; i < shape->tp * luo_layer_ranks(shape); i++) {
        if (!differs(ctx->cluster, dev, i)) continue;
        luo_profile room;
        luo_layer_gpu gpu = {0};
        const luo_profile *profile = luo_cluster_profile(ctx->cluster, dev[i]);
        LUO_TRY(luo_profile_under(profile, ctx->stack, ctx->dtype, &room, &profile, err));
        sum s = {.p = profile,
                 .dtype = ctx->dtype,
                 .err = err,
                 .out = &gpu,
                 .stack = ctx->stack,
                 .plain = true};
        const double slow = luo_cluster_base_slowdown(ctx->cluster, dev[i]);
        const double softmax = 10.0 * (double)tokens * (double)width; /* in f32, both ways */
        double norm[2] = {0, 0}, rows[2] = {0, 0};
        LUO_TRY(product(&s, LUO_LAYER_UP, tokens, width, shape->model->hidden));
        LUO_TRY(stream(&s, 1, softmax, softmax, rows));
        LUO_TRY(norms(&s, shape->model, 1, th, norm));
        double dw = gpu.dw[LUO_LAYER_UP], left = talk.behind;
        if (ctx->stack->tp_overlap && talk.behind > 0) {
            dw = luo_cost_beside(dw, talk.behind, talk.loss);
            left = fmax(0, talk.behind - dw);
        }
        const double read = alone(ctx, norm[0], slow) + talk.before;
        const double done = alone(ctx, rows[1], slow) + alone(ctx, gpu.dx[LUO_LAYER_UP], slow) +
                            alone(ctx, dw, slow);
        const double rest = alone(ctx, gpu.y[LUO_LAYER_UP], slow) + alone(ctx, rows[0], slow);
        out->read = fmax(out->read, read);
        out->done = fmax(out->done, done);
        out->reread = fmax(out->reread, alone(ctx, rows[1], slow));
        out->forward = fmax(out->forward,
                            read + rest + 3 * row * ctx->stack->tp_exposed_factor);
        out->backward = fmax(out->backward, done + left + alone(ctx, norm[1], slow));
        out->weight = fmax(out->weight, alone(ctx, gpu.dw[LUO_LAYER_UP], slow));
        out->input = fmax(out->input, alone(ctx, rows[1], slow) + talk.behind +
                                          alone(ctx, gpu.dx[LUO_LAYER_UP], slow) +
                                          alone(ctx, norm[1], slow));
    }
    return LUO_OK;
}

luo_status luo_cost_embedding(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                              const int32_t *dev, luo_pair_cost *out, luo_err *err)
{
    const double th = (double)luo_layer_tokens(shape) * (double)shape->model->hidden;
    const double e = (double)luo_dtype_bytes(ctx->dtype);
    const double own =
        th / (shape->sequence_parallel ? shape->tp : 1); /* positions, and their sum */
    layer_talk talk;
    luo_pair_cost worst = {0};
    layer_tensor_comm(ctx, shape, dev, &talk);
    for (int32_t i = 0; i < shape->tp * luo_layer_ranks(shape); i++) {
        if (!differs(ctx->cluster, dev, i)) continue;
        const luo_profile *profile = luo_cluster_profile(ctx->cluster, dev[i]);
        const double slow = luo_cluster_base_slowdown(ctx->cluster, dev[i]);
        double table = 0, positions = 0, both = 0;
        LUO_TRY(luo_cost_stream(profile, 2 * e * th, &table, err));
        if (shape->model->position == LUO_POS_LEARNED) {
            LUO_TRY(luo_cost_stream(profile, 2 * e * own, &positions, err));
            LUO_TRY(luo_cost_stream(profile, (3 * e + 1) * own, &both, err));
        }
        const double backward = alone(ctx, table, slow) + alone(ctx, positions, slow);
        worst.forward = fmax(worst.forward, backward + alone(ctx, both, slow));
        worst.backward = fmax(worst.backward, backward);
    }
    *out = (luo_pair_cost){.forward = worst.forward + talk.behind,
                           .backward = worst.backward + talk.before,
                           .done = worst.backward + talk.before,
                           .input = talk.before,
                           .weight = worst.backward};
    return LUO_OK;
}

luo_status luo_cost_optimizer(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n,
                              double parameters, double *seconds, luo_err *err)
{
    double worst = 0;
    for (int32_t i = 0; i < n; i++) {
        double t;
        if (!differs(ctx->cluster, dev, i)) continue;
        LUO_TRY(luo_cost_stream(luo_cluster_profile(ctx->cluster, dev[i]),
                                luo_cost_update_bytes(ctx->stack) * parameters, &t, err));
        worst = fmax(worst, t * luo_cluster_base_slowdown(ctx->cluster, dev[i]));
    }
    *seconds = worst + (parameters > 0 ? 40 * ctx->stack->host_launch_s : 0);
    return LUO_OK;
}
