/* step_tensors.c: weights and gradients of a run of layers, tensor by tensor as the programs have
 * them, and when the tasks of a stage need or complete them. */
#include "core/cost/step/memory.h"
#include "core/plan/step/step_internal.h"

static void add(step_tensor *tensor, int32_t *n, int64_t elements, bool whole)
{
    if (elements > 0) tensor[(*n)++] = (step_tensor){.elements = elements, .whole = whole};
}

static void add_bias(step_tensor *tensor, int32_t *n, int64_t elements, bool whole)
{
    const int32_t was = *n;
    add(tensor, n, elements, whole);
    if (*n > was) tensor[was].bias = true;
}

static int64_t share(int64_t whole, int32_t parts)
{
    return (whole + parts - 1) / parts;
}

static void add_norm(const luo_model *model, step_tensor *tensor, int32_t *n)
{
    add(tensor, n, model->hidden, true);
    if (model->norm == LUO_NORM_LAYER) add(tensor, n, model->hidden, true);
}

/* Of a feed-forward, biases with it. */
static int64_t mlp_elements(const luo_model *model, int64_t ffn)
{
    const int64_t ins = luo_model_is_gated(model) ? 2 : 1;
    return (ins + 1) * model->hidden * ffn + (model->linear_bias ? ins * ffn + model->hidden : 0);
}

/* Experts: all their matrices at once, the router on every device. */
static void add_experts(const luo_model *model, int32_t tp, step_tensor *tensor, int32_t *n)
{
    const luo_moe *moe = &model->moe;
    const int64_t all = moe->experts * mlp_elements(model, moe->expert_ffn_hidden) +
                        moe->shared_experts * mlp_elements(model, moe->shared_ffn_hidden);
    if (luo_model_has_router(model)) add(tensor, n, moe->experts * model->hidden, true);
    if (moe->bias_rate > 0) add(tensor, n, moe->experts, true);
    add(tensor, n, share(all, tp), false);
}

static void add_mlp(const luo_model *model, int32_t tp, int64_t layer, luo_layer_part part,
                    step_tensor *tensor, int32_t *n)
{
    const int32_t ins = luo_model_is_gated(model) ? 2 : 1;
    const int64_t f = share(model->ffn_hidden, tp);
    if (luo_model_has_experts(model, layer)) {
        if (part == LUO_LAYER_UP) add_experts(model, tp, tensor, n);
        return;
    }
    if (part == LUO_LAYER_DOWN) {
        add(tensor, n, f * model->hidden, false);
        if (model->linear_bias) add_bias(tensor, n, model->hidden, true);
        if (model->post_norms) add_norm(model, tensor, n);
        return;
    }
    for (int32_t i = 0; i < ins; i++) add(tensor, n, f * model->hidden, false);
    for (int32_t i = 0; model->linear_bias && i < ins; i++) add_bias(tensor, n, f, false);
}

static void add_latent(const luo_model *model, int32_t tp, step_tensor *tensor, int32_t *n)
{
    const luo_latent *latent = &model->latent;
    const int64_t heads = share(model->heads, tp), h = model->hidden;
    const int norms = model->norm == LUO_NORM_LAYER ? 2 : 1;
    add(tensor, n, latent->q_lora * h, true);
    for (int i = 0; i < norms; i++) add(tensor, n, latent->q_lora, true);
    add(tensor, n, latent->kv_lora * h, true);
    add(tensor, n, latent->rope * h, true);
    for (int i = 0; i < norms; i++) add(tensor, n, latent->kv_lora, true);
    add(tensor, n, heads * model->head_dim * (latent->q_lora > 0 ? latent->q_lora : h), false);
    add(tensor, n, heads * latent->nope * latent->kv_lora, false);
    add(tensor, n, heads * latent->v * latent->kv_lora, false);
}

/* Tensors of a part of a layer, in the order in which forward reads them. */
static int32_t part_tensors(const luo_model *model, int32_t tp, int64_t layer, luo_layer_part part,
                            step_tensor *tensor)
{
    const int64_t width[3] = {share(model->heads, tp) * model->head_dim,
                              share(model->kv_heads, tp) * model->head_dim,
                              share(model->kv_heads, tp) * model->head_dim};
    int32_t n = 0;
    switch (part) {
    case LUO_LAYER_NORM1:
        if (luo_model_has_attention(model)) add_norm(model, tensor, &n);
        break;
    case LUO_LAYER_NORM2:
        if (!model->shared_norm) add_norm(model, tensor, &n);
        break;
    case LUO_LAYER_QKV:
        if (luo_model_is_latent(model)) {
            add_latent(model, tp, tensor, &n);
            break;
        }
        for (int i = 0; i < 3; i++) add(tensor, &n, width[i] * model->hidden, false);
        for (int i = 0; model->qkv_bias && i < 3; i++) add_bias(tensor, &n, width[i], false);
        if (model->qk_norm) add(tensor, &n, model->head_dim, true);
        if (model->qk_norm) add(tensor, &n, model->head_dim, true);
        break;
    case LUO_LAYER_OUT:
        add(tensor, &n, share(model->heads, tp) * luo_model_value_dim(model) * model->hidden,
            false);
        if (model->out_bias) add_bias(tensor, &n, model->hidden, true);
        if (model->post_norms) add_norm(model, tensor, &n);
        break;
    case LUO_LAYER_UP:
    case LUO_LAYER_DOWN:
        add_mlp(model, tp, layer, part, tensor, &n);
        break;
    case LUO_LAYER_PARTS: break;
    }
    return n;
}

int64_t step_table(const stepper *w, int32_t tp)
{
    return luo_mem_vocab(w->in->model, tp) / tp * w->in->model->hidden;
}

bool step_is_split(const stepper *w)
{
    for (int32_t i = 0; i < w->plan->npipelines && w->in->model->tied_embeddings; i++)
        if (w->plan->pipelines[i].nstages > 1) return true;
    return false;
}

/* A table on both stages is updated by both; of its copy with ZeRO 2 and 3 there is no state. */
double step_parameters(const stepper *w, const step_pipe *pipe, int32_t stage)
{
    const luo_model *model = w->in->model;
    const step_stage *s = &pipe->stage[stage];
    const int32_t tp = s->shape.tp;
    const bool both = step_holds_ends(w);
    const double table = (double)step_table(w, tp) / (both && w->plan->zero == 1 ? 2 : 1);
    const bool own = !model->tied_embeddings || (both && !s->at->embedding);
    double sum = (s->at->embedding ? table : 0) + (s->at->head && own ? table : 0);
    for (int32_t c = 0; c < s->at->nlayers; c++)
        for (int32_t l = s->chunk[c].lo; l < s->chunk[c].hi; l++)
            sum += luo_mem_layer_parameters(model, l, tp);
    return sum;
}

int32_t step_layer_tensors(const stepper *w, int64_t layer, int32_t tp, step_tensor *tensor)
{
    int32_t n = 0;
    for (int part = 0; part < LUO_LAYER_PARTS; part++)
        n += part_tensors(w->in->model, tp, layer, (luo_layer_part)part, tensor + n);
    return n;
}

static int32_t put(step_tensor *tensor, int32_t n, double at, int64_t unit)
{
    for (int32_t i = 0; i < n; i++) tensor[i].at = at, tensor[i].unit = (int32_t)unit;
    return n;
}

static int32_t embedding_tensors(const stepper *w, const step_run *run, step_tensor *tensor)
{
    int32_t n = 0;
    add(tensor, &n, step_table(w, run->widest), false);
    tensor->table = step_is_split(w);
    tensor->alone = tensor->table && w->plan->zero < 2;
    if (w->in->model->position == LUO_POS_LEARNED)
        add(tensor, &n, luo_model_position_rows(w->in->model) * w->in->model->hidden, true);
    return n;
}

int32_t step_reads(const stepper *w, const step_run *run, const step_stage *stage,
                   const step_chunk *chunk, step_tensor *tensor)
{
    const luo_model *model = w->in->model;
    double base = chunk->embedding ? stage->embedding.forward : 0;
    int32_t n = run->embedding ? put(tensor, embedding_tensors(w, run, tensor), 0, -1) : 0;
    for (int32_t l = chunk->lo; l < run->hi; l++) {
        const luo_layer_cost *cost = &chunk->layer[l - chunk->lo]->cost;
        for (int part = 0; part < LUO_LAYER_PARTS && l >= run->lo; part++)
            n += put(tensor + n,
                     part_tensors(model, run->widest, l, (luo_layer_part)part, tensor + n),
                     base + cost->read[part], l);
        base += cost->forward;
    }
    if (!run->head) return n;
    int32_t more = 0;
    add_norm(model, tensor + n, &more);
    n += put(tensor + n, more, base, model->layers);
    more = 0;
    /* what another stage has a copy of is gathered here only where tasks gather */
    if (!model->tied_embeddings || (step_is_split(w) && step_gathers_each(w)))
        add(tensor + n, &more, step_table(w, run->widest), false);
    return n + put(tensor + n, more, base + stage->head.read, model->layers);
}

static int32_t head_gradients(const stepper *w, const step_run *run, const step_stage *stage,
                              step_tensor *tensor)
{
    const luo_model *model = w->in->model;
    int32_t n = 0, more = 0;
    if (!model->tied_embeddings || step_is_split(w))
        add(tensor, &n, step_table(w, run->widest), false);
    if (n) tensor->table = step_is_split(w), tensor->alone = tensor->table && w->plan->zero < 2;
    put(tensor, n, stage->head.done, model->layers);
    add_norm(model, tensor + n, &more);
    return n + put(tensor + n, more, stage->head.backward, model->layers);
}

static int32_t layer_gradients(const stepper *w, const step_run *run, int64_t layer,
                               const luo_layer_cost *cost, double base, step_tensor *tensor)
{
    int32_t n = 0;
    for (int part = LUO_LAYER_PARTS - 1; part >= 0; part--) {
        step_tensor some[STEP_LAYER_TENSORS];
        const int32_t more =
            put(some, part_tensors(w->in->model, run->widest, layer, (luo_layer_part)part, some),
                base + cost->done[part], layer);
        for (int32_t i = more; i-- > 0;) { /* biases first */
            if (!some[i].bias) continue;
            tensor[n] = some[i];
            tensor[n++].at = base + cost->due[part];
        }
        for (int32_t i = more; i-- > 0;)
            if (!some[i].bias) tensor[n++] = some[i];
    }
    return n;
}

int32_t step_done(const stepper *w, const step_run *run, const step_stage *stage,
                  const step_chunk *chunk, step_tensor *tensor)
{
    double base = chunk->head ? stage->head.backward : 0;
    int32_t n = run->head ? head_gradients(w, run, stage, tensor) : 0;
    for (int32_t l = chunk->hi - 1; l >= run->lo; l--) {
        const luo_layer_cost *cost = &chunk->layer[l - chunk->lo]->cost;
        if (l < run->hi) n += layer_gradients(w, run, l, cost, base, tensor + n);
        base += cost->backward;
    }
    if (!run->embedding) return n;
    step_tensor ends[STEP_END_TENSORS];
    const int32_t more =
        put(ends, embedding_tensors(w, run, ends), base + stage->embedding.done, -1);
    for (int32_t i = more; i-- > 0;) tensor[n++] = ends[i];
    return n;
}
