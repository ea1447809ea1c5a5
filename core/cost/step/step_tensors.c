/* step_tensors.c: weights and gradients of a virtual stage of a uniform plan, tensor by
 * tensor as the programs have them, and when its tasks need or complete them. */
#include "core/cost/step/memory.h"
#include "core/cost/step/step_internal.h"

static void add(step_tensor *t, int32_t *n, int64_t elements, bool whole)
{
    if (elements > 0) t[(*n)++] = (step_tensor){.elements = elements, .whole = whole};
}

static void add_bias(step_tensor *t, int32_t *n, int64_t elements, bool whole)
{
    const int32_t was = *n;
    add(t, n, elements, whole);
    if (*n > was) t[was].bias = true;
}

static int64_t share(int64_t whole, int32_t parts)
{
    return (whole + parts - 1) / parts;
}

static void add_norm(const luo_model *model, step_tensor *t, int32_t *n)
{
    add(t, n, model->hidden, true);
    if (model->norm == LUO_NORM_LAYER) add(t, n, model->hidden, true);
}

/* Of a feed-forward, biases with it. */
static int64_t mlp_elements(const luo_model *model, int64_t ffn)
{
    const int64_t ins = model->activation == LUO_ACT_SWIGLU ? 2 : 1;
    return (ins + 1) * model->hidden * ffn + (model->linear_bias ? ins * ffn + model->hidden : 0);
}

/* Experts: all their matrices at once, the router on every device. */
static void add_experts(const luo_step_spec *spec, step_tensor *t, int32_t *n)
{
    const luo_model *model = spec->model;
    const luo_moe *moe = &model->moe;
    const int64_t all = moe->experts * mlp_elements(model, moe->expert_ffn_hidden) +
                        moe->shared_experts * mlp_elements(model, moe->shared_ffn_hidden);
    if (luo_model_has_router(model)) add(t, n, moe->experts * model->hidden, true);
    if (moe->bias_rate > 0) add(t, n, moe->experts, true);
    add(t, n, share(all, spec->tp), false);
}

static void add_mlp(const luo_step_spec *spec, int64_t layer, luo_layer_part part, step_tensor *t,
                    int32_t *n)
{
    const luo_model *model = spec->model;
    const int32_t ins = model->activation == LUO_ACT_SWIGLU ? 2 : 1;
    const int64_t f = share(model->ffn_hidden, spec->tp);
    if (luo_model_has_experts(model, layer)) {
        if (part == LUO_LAYER_UP) add_experts(spec, t, n);
        return;
    }
    if (part == LUO_LAYER_DOWN) {
        add(t, n, f * model->hidden, false);
        if (model->linear_bias) add_bias(t, n, model->hidden, true);
        return;
    }
    for (int32_t i = 0; i < ins; i++) add(t, n, f * model->hidden, false);
    for (int32_t i = 0; model->linear_bias && i < ins; i++) add_bias(t, n, f, false);
}

static void add_latent(const luo_step_spec *spec, step_tensor *t, int32_t *n)
{
    const luo_latent *l = &spec->model->latent;
    const int64_t heads = share(spec->model->heads, spec->tp), h = spec->model->hidden;
    const bool centred = spec->model->norm == LUO_NORM_LAYER;
    add(t, n, l->q_lora * h, true);
    for (int i = 0; i < (centred ? 2 : 1); i++) add(t, n, l->q_lora, true);
    add(t, n, l->kv_lora * h, true);
    add(t, n, l->rope * h, true);
    for (int i = 0; i < (centred ? 2 : 1); i++) add(t, n, l->kv_lora, true);
    add(t, n, heads * spec->model->head_dim * (l->q_lora > 0 ? l->q_lora : h), false);
    add(t, n, heads * l->nope * l->kv_lora, false);
    add(t, n, heads * l->v * l->kv_lora, false);
}

/* Tensors of a part of a layer, in the order in which forward reads them. */
static int32_t part_tensors(const luo_step_spec *spec, int64_t layer, luo_layer_part part,
                            step_tensor *t)
{
    const luo_model *model = spec->model;
    const int64_t width[3] = {share(model->heads, spec->tp) * model->head_dim,
                              share(model->kv_heads, spec->tp) * model->head_dim,
                              share(model->kv_heads, spec->tp) * model->head_dim};
    int32_t n = 0;
    switch (part) {
    case LUO_LAYER_NORM1:
        if (luo_model_has_attention(model)) add_norm(model, t, &n);
        break;
    case LUO_LAYER_NORM2:
        add_norm(model, t, &n);
        break;
    case LUO_LAYER_QKV:
        if (luo_model_is_latent(model)) {
            add_latent(spec, t, &n);
            break;
        }
        for (int i = 0; i < 3; i++) add(t, &n, width[i] * model->hidden, false);
        for (int i = 0; model->qkv_bias && i < 3; i++) add_bias(t, &n, width[i], false);
        if (model->qk_norm) add(t, &n, model->head_dim, true);
        if (model->qk_norm) add(t, &n, model->head_dim, true);
        break;
    case LUO_LAYER_OUT:
        add(t, &n, share(model->heads, spec->tp) * luo_model_value_dim(model) * model->hidden,
            false);
        if (model->out_bias) add_bias(t, &n, model->hidden, true);
        break;
    case LUO_LAYER_UP:
    case LUO_LAYER_DOWN:
        add_mlp(spec, layer, part, t, &n);
        break;
    case LUO_LAYER_PARTS: break;
    }
    return n;
}

int64_t step_table(const luo_step_spec *spec)
{
    return luo_mem_vocab(spec->model, spec->tp) / spec->tp * spec->model->hidden;
}

bool step_is_split(const luo_step_spec *spec)
{
    return spec->pp > 1 && spec->model->tied_embeddings;
}

int32_t step_layer_tensors(const luo_step_spec *spec, int64_t layer, step_tensor *t)
{
    int32_t n = 0;
    for (int part = 0; part < LUO_LAYER_PARTS; part++)
        n += part_tensors(spec, layer, (luo_layer_part)part, t + n);
    return n;
}

static int32_t put(step_tensor *t, int32_t n, double at, int64_t unit)
{
    for (int32_t i = 0; i < n; i++) t[i].at = at, t[i].unit = (int32_t)unit;
    return n;
}

static int32_t embedding_tensors(const luo_step_spec *spec, step_tensor *t)
{
    int32_t n = 0;
    add(t, &n, step_table(spec), false);
    t->table = step_is_split(spec);
    t->alone = t->table && spec->zero < 2;
    if (spec->model->position == LUO_POS_LEARNED)
        add(t, &n, spec->model->max_sequence_tokens * spec->model->hidden, true);
    return n;
}

/* Weights of a chunk in the order in which its forward reads them. */
int32_t step_reads(const stepper *w, int32_t stage, int32_t chunk, step_tensor *t)
{
    const luo_step_spec *spec = w->s;
    const int64_t each = step_chunk_layers(spec, stage, chunk);
    const int64_t first = step_chunk_first(spec, stage, chunk);
    double base = 0;
    int32_t n = 0;
    if (step_is_first(stage, chunk)) {
        n = put(t, embedding_tensors(spec, t), 0, -1);
        base = w->embedding.forward;
    }
    for (int64_t l = first; l < first + each; l++) {
        for (int part = 0; part < LUO_LAYER_PARTS; part++)
            n += put(t + n, part_tensors(spec, l, (luo_layer_part)part, t + n),
                     base + w->layer[l].read[part], l);
        base += w->layer[l].forward;
    }
    if (!step_is_last(spec, stage, chunk)) return n;
    int32_t more = 0;
    add_norm(spec->model, t + n, &more);
    n += put(t + n, more, base, spec->model->layers);
    more = 0;
    /* what another stage has a copy of is gathered here only where tasks gather */
    if (!spec->model->tied_embeddings || (step_is_split(spec) && step_gathers_each(spec)))
        add(t + n, &more, step_table(spec), false);
    return n + put(t + n, more, base + w->head.read, spec->model->layers);
}

/* Gradients of a chunk in the order in which its backward completes them. */
int32_t step_done(const stepper *w, int32_t stage, int32_t chunk, step_tensor *t)
{
    const luo_step_spec *spec = w->s;
    const int64_t each = step_chunk_layers(spec, stage, chunk);
    const int64_t first = step_chunk_first(spec, stage, chunk);
    double base = 0;
    int32_t n = 0;
    if (step_is_last(spec, stage, chunk)) {
        if (!spec->model->tied_embeddings || spec->pp > 1) add(t, &n, step_table(spec), false);
        if (n) t->table = step_is_split(spec), t->alone = t->table && spec->zero < 2;
        put(t, n, w->head.done, spec->model->layers);
        int32_t more = 0;
        add_norm(spec->model, t + n, &more);
        n += put(t + n, more, w->head.backward, spec->model->layers);
        base = w->head.backward;
    }
    for (int64_t l = first + each - 1; l >= first; l--) {
        for (int part = LUO_LAYER_PARTS - 1; part >= 0; part--) {
            step_tensor some[STEP_LAYER_TENSORS];
            const int32_t more = put(some, part_tensors(spec, l, (luo_layer_part)part, some),
                                     base + w->layer[l].done[part], l);
            for (int32_t i = more; i-- > 0;) { /* biases first */
                if (!some[i].bias) continue;
                t[n] = some[i];
                t[n++].at = base + w->layer[l].due[part];
            }
            for (int32_t i = more; i-- > 0;)
                if (!some[i].bias) t[n++] = some[i];
        }
        base += w->layer[l].backward;
    }
    if (!step_is_first(stage, chunk)) return n;
    step_tensor ends[STEP_END_TENSORS];
    const int32_t more = put(ends, embedding_tensors(spec, ends), base + w->embedding.done, -1);
    for (int32_t i = more; i-- > 0;) t[n++] = ends[i];
    return n;
}
