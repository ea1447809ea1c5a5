/* step_tensors.c: weights and gradients of a run of layers, tensor by tensor as the programs have
 * them, and when the tasks of a stage need or complete them. */
#include "core/cost/step/memory.h"
#include "core/plan/step/step_internal.h"

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
    const int64_t ins = luo_model_is_gated(model) ? 2 : 1;
    return (ins + 1) * model->hidden * ffn + (model->linear_bias ? ins * ffn + model->hidden : 0);
}

/* Experts: all their matrices at once, the router on every device. */
static void add_experts(const luo_model *model, int32_t tp, step_tensor *t, int32_t *n)
{
    const luo_moe *moe = &model->moe;
    const int64_t all = moe->experts * mlp_elements(model, moe->expert_ffn_hidden) +
                        moe->shared_experts * mlp_elements(model, moe->shared_ffn_hidden);
    if (luo_model_has_router(model)) add(t, n, moe->experts * model->hidden, true);
    if (moe->bias_rate > 0) add(t, n, moe->experts, true);
    add(t, n, share(all, tp), false);
}

static void add_mlp(const luo_model *model, int32_t tp, int64_t layer, luo_layer_part part,
                    step_tensor *t, int32_t *n)
{
    const int32_t ins = luo_model_is_gated(model) ? 2 : 1;
    const int64_t f = share(model->ffn_hidden, tp);
    if (luo_model_has_experts(model, layer)) {
        if (part == LUO_LAYER_UP) add_experts(model, tp, t, n);
        return;
    }
    if (part == LUO_LAYER_DOWN) {
        add(t, n, f * model->hidden, false);
        if (model->linear_bias) add_bias(t, n, model->hidden, true);
        if (model->post_norms) add_norm(model, t, n);
        return;
    }
    for (int32_t i = 0; i < ins; i++) add(t, n, f * model->hidden, false);
    for (int32_t i = 0; model->linear_bias && i < ins; i++) add_bias(t, n, f, false);
}

static void add_latent(const luo_model *model, int32_t tp, step_tensor *t, int32_t *n)
{
    const luo_latent *l = &model->latent;
    const int64_t heads = share(model->heads, tp), h = model->hidden;
    const int norms = model->norm == LUO_NORM_LAYER ? 2 : 1;
    add(t, n, l->q_lora * h, true);
    for (int i = 0; i < norms; i++) add(t, n, l->q_lora, true);
    add(t, n, l->kv_lora * h, true);
    add(t, n, l->rope * h, true);
    for (int i = 0; i < norms; i++) add(t, n, l->kv_lora, true);
    add(t, n, heads * model->head_dim * (l->q_lora > 0 ? l->q_lora : h), false);
    add(t, n, heads * l->nope * l->kv_lora, false);
    add(t, n, heads * l->v * l->kv_lora, false);
}

/* Tensors of a part of a layer, in the order in which forward reads them. */
static int32_t part_tensors(const luo_model *model, int32_t tp, int64_t layer,
                            luo_layer_part part, step_tensor *t)
{
    const int64_t width[3] = {share(model->heads, tp) * model->head_dim,
                              share(model->kv_heads, tp) * model->head_dim,
                              share(model->kv_heads, tp) * model->head_dim};
    int32_t n = 0;
    switch (part) {
    case LUO_LAYER_NORM1:
        if (luo_model_has_attention(model)) add_norm(model, t, &n);
        break;
    case LUO_LAYER_NORM2:
        if (!model->shared_norm) add_norm(model, t, &n);
        break;
    case LUO_LAYER_QKV:
        if (luo_model_is_latent(model)) {
            add_latent(model, tp, t, &n);
            break;
        }
        for (int i = 0; i < 3; i++) add(t, &n, width[i] * model->hidden, false);
        for (int i = 0; model->qkv_bias && i < 3; i++) add_bias(t, &n, width[i], false);
        if (model->qk_norm) add(t, &n, model->head_dim, true);
        if (model->qk_norm) add(t, &n, model->head_dim, true);
        break;
    case LUO_LAYER_OUT:
        add(t, &n, share(model->heads, tp) * luo_model_value_dim(model) * model->hidden,
            false);
        if (model->out_bias) add_bias(t, &n, model->hidden, true);
        if (model->post_norms) add_norm(model, t, &n);
        break;
    case LUO_LAYER_UP:
    case LUO_LAYER_DOWN:
        add_mlp(model, tp, layer, part, t, &n);
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
double step_parameters(const stepper *w, const step_pipe *p, int32_t stage)
{
    const luo_model *model = w->in->model;
    const step_stage *s = &p->stage[stage];
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

int32_t step_layer_tensors(const stepper *w, int64_t layer, int32_t tp, step_tensor *t)
{
    int32_t n = 0;
    for (int part = 0; part < LUO_LAYER_PARTS; part++)
        n += part_tensors(w->in->model, tp, layer, (luo_layer_part)part, t + n);
    return n;
}

static int32_t put(step_tensor *t, int32_t n, double at, int64_t unit)
{
    for (int32_t i = 0; i < n; i++) t[i].at = at, t[i].unit = (int32_t)unit;
    return n;
}

static int32_t embedding_tensors(const stepper *w, const step_run *r, step_tensor *t)
{
    int32_t n = 0;
    add(t, &n, step_table(w, r->widest), false);
    t->table = step_is_split(w);
    t->alone = t->table && w->plan->zero < 2;
    if (w->in->model->position == LUO_POS_LEARNED)
        add(t, &n, luo_model_position_rows(w->in->model) * w->in->model->hidden, true);
    return n;
}

int32_t step_reads(const stepper *w, const step_run *r, const step_stage *s, const step_chunk *c,
                   step_tensor *t)
{
    const luo_model *model = w->in->model;
    double base = c->embedding ? s->embedding.forward : 0;
    int32_t n = r->embedding ? put(t, embedding_tensors(w, r, t), 0, -1) : 0;
    for (int32_t l = c->lo; l < r->hi; l++) {
        const luo_layer_cost *cost = &c->layer[l - c->lo]->cost;
        for (int part = 0; part < LUO_LAYER_PARTS && l >= r->lo; part++)
            n += put(t + n, part_tensors(model, r->widest, l, (luo_layer_part)part, t + n),
                     base + cost->read[part], l);
        base += cost->forward;
    }
    if (!r->head) return n;
    int32_t more = 0;
    add_norm(model, t + n, &more);
    n += put(t + n, more, base, model->layers);
    more = 0;
    /* what another stage has a copy of is gathered here only where tasks gather */
    if (!model->tied_embeddings || (step_is_split(w) && step_gathers_each(w)))
        add(t + n, &more, step_table(w, r->widest), false);
    return n + put(t + n, more, base + s->head.read, model->layers);
}

static int32_t head_gradients(const stepper *w, const step_run *r, const step_stage *s,
                              step_tensor *t)
{
    const luo_model *model = w->in->model;
    int32_t n = 0, more = 0;
    if (!model->tied_embeddings || step_is_split(w)) add(t, &n, step_table(w, r->widest), false);
    if (n) t->table = step_is_split(w), t->alone = t->table && w->plan->zero < 2;
    put(t, n, s->head.done, model->layers);
    add_norm(model, t + n, &more);
    return n + put(t + n, more, s->head.backward, model->layers);
}

static int32_t layer_gradients(const stepper *w, const step_run *r, int64_t layer,
                               const luo_layer_cost *cost, double base, step_tensor *t)
{
    int32_t n = 0;
    for (int part = LUO_LAYER_PARTS - 1; part >= 0; part--) {
        step_tensor some[STEP_LAYER_TENSORS];
        const int32_t more =
            put(some, part_tensors(w->in->model, r->widest, layer, (luo_layer_part)part, some),
                base + cost->done[part], layer);
        for (int32_t i = more; i-- > 0;) { /* biases first */
            if (!some[i].bias) continue;
            t[n] = some[i];
            t[n++].at = base + cost->due[part];
        }
        for (int32_t i = more; i-- > 0;)
            if (!some[i].bias) t[n++] = some[i];
    }
    return n;
}

int32_t step_done(const stepper *w, const step_run *r, const step_stage *s, const step_chunk *c,
                  step_tensor *t)
{
    double base = c->head ? s->head.backward : 0;
    int32_t n = r->head ? head_gradients(w, r, s, t) : 0;
    for (int32_t l = c->hi - 1; l >= r->lo; l--) {
        const luo_layer_cost *cost = &c->layer[l - c->lo]->cost;
        if (l < r->hi) n += layer_gradients(w, r, l, cost, base, t + n);
        base += cost->backward;
    }
    if (!r->embedding) return n;
    step_tensor ends[STEP_END_TENSORS];
    const int32_t more = put(ends, embedding_tensors(w, r, ends), base + s->embedding.done, -1);
    for (int32_t i = more; i-- > 0;) t[n++] = ends[i];
    return n;
}
