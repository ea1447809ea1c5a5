#include "core/cost/step/memory.h"

#include <math.h>

static int64_t up(double bytes)
{
    return (int64_t)ceil(bytes - 1e-6);
}

void luo_mem_state(double parameters, int64_t weight_bytes, double gradient_bytes, int32_t zero,
                   int32_t replicas, luo_mem *out)
{
    const double moments = weight_bytes == 2 ? 12 : weight_bytes == 4 ? 8 : 16;
    const double shared = parameters / replicas;
    out->weights = up((double)weight_bytes * (zero >= 3 ? shared : parameters));
    out->gradients = up(gradient_bytes * (zero >= 2 ? shared : parameters));
    out->optimizer = up(moments * (zero >= 1 ? shared : parameters));
}

/* Context-parallel ranks of a part, and all. */
static int32_t inner_of(const luo_mem_spec *s)
{
    return s->context.c > 1 ? s->context.inner : 1;
}

static int32_t ranks_of(const luo_mem_spec *s)
{
    return s->context.c > 1 ? s->context.c : 1;
}

static int32_t copies_of(const luo_mem_spec *s)
{
    return s->replicas * ranks_of(s);
}

/* Of one rank. */
static double tokens_of(const luo_mem_spec *s)
{
    return (double)s->micro_batch_tokens / ranks_of(s);
}

/* Key-value heads of a device in attention, of the tokens of its part, over those that it makes of
 * its own tokens: more where ranks share heads. */
static double keys_grow(const luo_mem_spec *s)
{
    const int64_t own = (s->model->kv_heads + s->tp - 1) / s->tp, inner = inner_of(s);
    if (own % inner == 0) return 1;
    return (double)inner / (inner % own == 0 ? (double)own : 1);
}

static bool has_experts(const luo_model *m, int64_t layer)
{
    const int64_t every = m->moe.every_layers > 0 ? m->moe.every_layers : 1;
    return m->moe.experts > 0 && layer >= m->moe.first_dense_layers &&
           (layer - m->moe.first_dense_layers) % every == 0;
}

static double mlp_parameters(const luo_model *m, double ffn)
{
    const double h = (double)m->hidden, ins = m->activation == LUO_ACT_SWIGLU ? 2 : 1;
    return (ins + 1) * h * ffn + (m->linear_bias ? ins * ffn + h : 0);
}

double luo_mem_layer_parameters(const luo_model *m, int64_t layer, int32_t tp)
{
    const double h = (double)m->hidden, q = (double)(m->heads * m->head_dim);
    const double kv = (double)(m->kv_heads * m->head_dim);
    double n = h * (2 * q + 2 * kv) + (m->norm == LUO_NORM_LAYER ? 4 : 2) * h;
    if (m->qkv_bias) n += q + 2 * kv;
    if (m->linear_bias) n += h;
    if (has_experts(m, layer))
        n += (double)m->moe.experts * (mlp_parameters(m, (double)m->moe.expert_ffn_hidden) + h) +
             (double)m->moe.shared_experts * mlp_parameters(m, (double)m->moe.shared_ffn_hidden);
    else
        n += mlp_parameters(m, (double)m->ffn_hidden);
    return n / tp;
}

int64_t luo_mem_vocab(const luo_model *m, int32_t tp)
{
    if (m->family == LUO_FAMILY_VIT) return m->classes;
    const int64_t step = (int64_t)128 * tp;
    return (m->vocab + step - 1) / step * step;
}

/* Width of what a token meets between gate and down projection. */
static double mlp_width(const luo_model *m)
{
    if (m->moe.experts == 0) return (double)m->ffn_hidden;
    return (double)(m->moe.experts_per_token * m->moe.expert_ffn_hidden +
                    m->moe.shared_experts * m->moe.shared_ffn_hidden);
}

static double score_bytes(const luo_mem_spec *s, double published)
{
    luo_memory_rules r;
    if (!s->rules) return published;
    r = *s->rules;
    r.attention_unfused = true; /* whoever asks has seen s->attention_fused */
    return (double)luo_memory_score_bytes(&r, luo_dtype_bytes(s->model->dtype));
}

/* Korthikanti et al., table 2, with their counts of 2-byte values written in e (masks stay one
 * byte) and 4h written f; for llama the counts of docs/cost-model.md#memory (no dropout, gated). */
double luo_mem_layer_activations(const luo_mem_spec *s, int recompute)
{
    const luo_model *m = s->model;
    const double e = (double)luo_dtype_bytes(m->dtype), t = s->tp;
    const double h = (double)m->hidden, all = tokens_of(s) * h;
    const double f = mlp_width(m) / h, square = (double)(m->heads * s->sequence_tokens) / h;
    const double q = (double)(m->heads * m->head_dim) / h;
    const double kv = keys_grow(s) * (double)(m->kv_heads * m->head_dim) / h;
    const double home = inner_of(s) > 1 && recompute != 2 ? e * q : 0; /* results, once more */
    const bool keeps = !s->attention_fused && recompute == 0; /* the attention square */
    const luo_memory_rules *r = s->rules;
    double whole, cut;
    const double norms = r && r->norm2_again ? 3 * e : 4 * e; /* inputs and outputs of two */
    if (recompute == 2) {
        whole = e;
        cut = 0;
    } else if (m->activation == LUO_ACT_SWIGLU) {
        whole = norms + (r && r->dropout ? 2 : 0);
        cut = 2 * e * q + 2 * e * kv + (r && r->silu_again ? 3 : 4) * e * f +
              (keeps ? score_bytes(s, e) * square : 0);
    } else {
        whole = norms + (!r || r->dropout ? 2 : 0);
        cut = 2 * e * q + 2 * e * kv + 2 * e * f + (keeps ? score_bytes(s, 2 * e + 1) * square : 0);
    }
    cut += home;
    return all * (s->sequence_parallel ? (whole + cut) / t : whole + cut / t);
}

/* Inputs of a layer's products. */
static double inputs(const luo_mem_spec *s)
{
    const luo_model *m = s->model;
    const luo_memory_rules *r = s->rules;
    const double e = (double)luo_dtype_bytes(m->dtype), t = s->tp, h = (double)m->hidden;
    const double norms = 2 * e + (r && r->dropout ? 2 : 0);
    const double cut = e * ((double)(m->heads * m->head_dim) / h + mlp_width(m) / h);
    return tokens_of(s) * h * (norms / (s->sequence_parallel ? t : 1) + cut / t);
}

double luo_mem_layer_weights(const luo_mem_spec *s)
{
    const luo_model *m = s->model;
    const double e = (double)luo_dtype_bytes(m->dtype), t = s->tp, h = (double)m->hidden;
    const double q = (double)(m->heads * m->head_dim) / h, f = mlp_width(m) / h;
    const double kv = (double)(m->kv_heads * m->head_dim) / h;
    const double wide = m->activation == LUO_ACT_SWIGLU ? 2 : 1;
    const double cut = e * (q + 2 * kv + wide * f);
    return inputs(s) + tokens_of(s) * h * (2 * e + cut / t);
}

/* What the last layer works on when a BI ends, beside what it leaves: what ran again. */
static double last_work(const luo_mem_spec *s)
{
    if (s->recompute == 1) return luo_mem_layer_activations(s, 0) - luo_mem_layer_activations(s, 1);
    return s->recompute == 2 ? fmax(0, luo_mem_layer_activations(s, 0) - inputs(s)) : 0;
}

/* The same of the ends of the pipeline: gradients of the logits and of the embedding's output. */
static double end_weights(const luo_mem_spec *s)
{
    const double e = (double)luo_dtype_bytes(s->model->dtype), h = (double)s->model->hidden;
    const double columns = (double)luo_mem_vocab(s->model, s->tp) / s->tp;
    const double own = h / (s->sequence_parallel ? s->tp : 1);
    return e * tokens_of(s) * ((s->head ? columns + own : 0) + (s->embedding ? h : 0));
}

/* zb_h1, zb_h2: the most when a BI begins or ends. kept, left: of one micro-batch, before and after
 * it; first, last: what is worked on then. */
static double halves(const luo_mem_spec *s, double kept, double left, double first, double last)
{
    const int32_t m = s->micro_batches, late = luo_sched_waiting(s->schedule, s->stage, m);
    const int32_t whole = luo_sched_kept(s->schedule, s->stages, s->stage, m, 1);
    double most = 0;
    for (int32_t k = 0; k <= late; k++) {
        const int32_t more = m - k;
        const int32_t n = more < whole ? more : whole;
        most = fmax(most, (n - 1) * kept + k * left + fmax(kept + first, left + last));
    }
    return most;
}

static double in_flight(const luo_mem_spec *s)
{
    const int32_t chunks = luo_sched_takes_chunks(s->schedule) ? s->chunks : 1;
    return luo_sched_kept(s->schedule, s->stages, s->stage, s->micro_batches, chunks);
}

static double table_parameters(const luo_mem_spec *s)
{
    return (double)luo_mem_vocab(s->model, s->tp) * (double)s->model->hidden / s->tp;
}

static double stage_parameters(const luo_mem_spec *s, double *layer)
{
    const double table = table_parameters(s);
    const int64_t kinds = s->model->moe.experts > 0 ? s->model->layers : 1; /* dense: all alike */
    double all = 0;
    for (int64_t l = 0; l < kinds; l++) all += luo_mem_layer_parameters(s->model, l, s->tp);
    *layer = all / (double)kinds; /* an average layer of this network */
    const bool once = s->rules && s->embedding && s->head && s->model->tied_embeddings;
    const bool places = s->rules && s->embedding && s->model->position == LUO_POS_LEARNED;
    const double positions = (double)(s->model->max_sequence_tokens * s->model->hidden);
    return s->layers * *layer + (s->embedding ? table : 0) + (s->head && !once ? table : 0) +
           (places ? positions : 0);
}

/* What backward of one layer works on beside what is kept: gradients of the wide part of the
 * feed-forward and of its input. */
static double layer_work(const luo_mem_spec *s)
{
    const double e = (double)luo_dtype_bytes(s->model->dtype);
    const double wide = (s->model->activation == LUO_ACT_SWIGLU ? 2 : 1) * mlp_width(s->model);
    return e * tokens_of(s) * (wide / s->tp + (double)s->model->hidden);
}

/* Logits with their exponentials, or their gradient with that of the matrix. */
static double head_work(const luo_mem_spec *s)
{
    const double e = (double)luo_dtype_bytes(s->model->dtype);
    const double columns = (double)luo_mem_vocab(s->model, s->tp) / s->tp;
    const double hidden = (double)s->model->hidden, tokens = tokens_of(s);
    const double logits = tokens * columns * (e + 4 + (s->rules->cross_entropy_unfused ? 4 : 0));
    const double dummy = s->rules->dummy_gradients ? e * columns * hidden : 0;
    return fmax(logits, e * tokens * (columns + hidden) + dummy) +
           2 * e * tokens * hidden / (s->sequence_parallel ? s->tp : 1);
}

/* Keys and values that come and go round a ring, and twice that of gradients; packed copies of an
 * exchange (docs/architecture/context.md#the-rest-of-the-step). */
static double context_work(const luo_mem_spec *s)
{
    if (s->context.c < 2) return 0;
    const double e = (double)luo_dtype_bytes(s->model->dtype), d = (double)s->model->head_dim;
    const double keys = tokens_of(s) * d * keys_grow(s) * (double)s->model->kv_heads / s->tp;
    const double queries = tokens_of(s) * d * (double)s->model->heads / s->tp;
    const double ring = luo_context_parts(&s->context) > 1 ? 12 * keys : 0;
    return e * (ring + (inner_of(s) > 1 ? 2 * queries + 2 * keys : 0));
}

/* The working set, or the larger of what the head and a layer (run again or not) work on. */
static double work(const luo_mem_spec *s, bool again)
{
    const double e = (double)luo_dtype_bytes(s->model->dtype);
    const double layer = again ? luo_mem_layer_activations(s, 0) : 0;
    const double logits = tokens_of(s) *
                          (double)luo_mem_vocab(s->model, s->tp) / s->tp * (e + 4 + 4);
    if (!s->rules) return layer + (s->head ? logits : 0) + context_work(s);
    const double input = again ? luo_mem_layer_activations(s, 2) : 0; /* kept anyway */
    /* scores made again, beside q, k, v and what they give */
    const double dropped = s->recompute == 1
                               ? luo_mem_layer_activations(s, 0) - luo_mem_layer_activations(s, 1)
                               : 0;
    const double attention = dropped + 3 * e * tokens_of(s) *
                                           (double)(s->model->heads * s->model->head_dim) / s->tp;
    const double beside = fmax(dropped > 0 ? attention : 0, context_work(s));
    const double one = layer - input + fmax(layer_work(s), beside);
    return s->head ? fmax(one, head_work(s)) : one;
}

/* A micro-batch's output, where the stack keeps what it has sent. */
static double outputs(const luo_mem_spec *s)
{
    if (!s->rules || !s->rules->outputs_kept || s->stage == s->stages - 1) return 0;
    const double e = (double)luo_dtype_bytes(s->model->dtype);
    return e * tokens_of(s) * (double)s->model->hidden /
           (s->sequence_parallel ? s->tp : 1);
}

static double stage_activations(const luo_mem_spec *s)
{
    const double redone = s->recompute == 0 ? 0
                          : s->recompute_layers < 0 ? s->layers
                                                    : fmin(s->recompute_layers, s->layers);
    const double kept = luo_mem_layer_activations(s, s->recompute) * redone +
                        luo_mem_layer_activations(s, 0) * (s->layers - redone);
    const double beside = work(s, s->recompute == 2 && redone > 0);
    if (luo_sched_splits(s->schedule))
        return halves(s, kept + outputs(s), s->layers * luo_mem_layer_weights(s) + end_weights(s),
                      beside, s->rules ? last_work(s) : 0);
    return (kept / s->chunks + outputs(s)) * in_flight(s) + beside;
}

static double gradient_bytes(const luo_mem_spec *s)
{
    return s->gradient_bytes > 0 ? s->gradient_bytes : 4;
}

/* The rules' sums in the place of the closed form's. */
static void total(const luo_mem_spec *s, double sum, luo_mem *m)
{
    static const luo_memory_rules none = {.allocator_factor = 1.05};
    luo_memory_rules r = s->rules ? *s->rules : none;
    if (s->factor > 0) r.allocator_factor = s->factor;
    const double factor = r.allocator_factor > 0 ? r.allocator_factor : 1;
    const double headroom = r.headroom_factor > 1 ? r.headroom_factor : 1;
    m->allocated = up(sum + r.framework_bytes);
    m->peak = up((sum + r.framework_bytes) * factor + s->reserved_bytes);
    m->needed = up((sum + r.framework_bytes) * factor * headroom + s->reserved_bytes);
}

/* Gradients without content, one for each matrix of a layer. */
static double dummies(const luo_mem_spec *s, double layer)
{
    const double e = (double)luo_dtype_bytes(s->model->dtype);
    return s->rules && s->rules->dummy_gradients && s->layers > 0 ? e * layer : 0;
}

/* Parameters of the largest matrix of the stage. */
static double widest(const luo_mem_spec *s)
{
    const luo_model *m = s->model;
    const double h = (double)m->hidden, q = (double)(m->heads * m->head_dim);
    const double table = s->embedding || s->head ? table_parameters(s) : 0;
    return fmax(table, h * fmax(mlp_width(m), q) / s->tp);
}

/* Parameters of two buckets: one is filled while another travels. */
static double two_buckets(const luo_mem_spec *s, double layer)
{
    const double least = 40e6, each_replica = 1e6, deepspeed = 5e8, mib = 1048576, ddp = 25;
    const double bytes = gradient_bytes(s), one = widest(s);
    switch (s->zero == 3 ? LUO_BUCKET_UNIT : s->bucket.rule) {
    case LUO_BUCKET_UNIT: return 2 * layer;
    case LUO_BUCKET_MIB: return 2 * fmax(one, s->bucket.mib * mib / bytes);
    case LUO_BUCKET_DDP: return 2 * fmax(one, ddp * mib / bytes);
    case LUO_BUCKET_MEGATRON: return 2 * fmax(one, fmax(least, each_replica * s->replicas));
    case LUO_BUCKET_DEEPSPEED: return 2 * fmax(one, deepspeed);
    case LUO_BUCKET_UNSAID:
    case LUO_BUCKET_RULES: break;
    }
    return 2 * one;
}

/* ZeRO 2 and 3: gradients of a micro-batch before they are cut. While they pile up backward gives
 * free what the layers before have kept. */
static double uncut(const luo_mem_spec *s, double layer)
{
    const double table = table_parameters(s), room = two_buckets(s, layer);
    const double layers = s->layers / s->chunks, kept = luo_mem_layer_activations(s, s->recompute);
    double most = 0;
    if (s->zero < 2 || copies_of(s) < 2) return 0;
    for (double k = 0; k <= layers; k++) {
        const bool ends = k + 1 > layers && s->embedding;
        const double made = k * layer + (s->head ? table : 0) + (ends ? table : 0);
        most = fmax(most, gradient_bytes(s) * fmin(made, room) - fmax(0, k - 1) * kept);
    }
    return most;
}

void luo_mem_stage(const luo_mem_spec *s, luo_mem *out)
{
    const int64_t e = luo_dtype_bytes(s->model->dtype);
    double layer = 0, buffers = s->buffer_bytes;
    luo_mem m = {0};
    const double parameters = stage_parameters(s, &layer);
    luo_mem_state(parameters, e, gradient_bytes(s), s->zero, copies_of(s), &m);
    if (s->rules && s->head != s->embedding && s->model->tied_embeddings) {
        /* The table's state lies with the embedding; there the copy's gradient arrives. */
        luo_mem table = {0};
        luo_mem_state(table_parameters(s), e, gradient_bytes(s), s->zero, copies_of(s), &table);
        if (s->head) m.optimizer -= table.optimizer;
        else m.gradients += table.gradients;
    }
    if (s->rules) luo_memory_held(s->rules, e, &m.gradients, &m.optimizer);
    const int32_t gathered = s->gathered > 0 ? s->gathered : 2;
    if (s->zero >= 3 && copies_of(s) > 1) buffers += gathered * (double)e * layer;
    buffers += uncut(s, layer);
    buffers += dummies(s, layer);
    const double activations = stage_activations(s);
    m.activations = up(activations);
    m.buffers = up(buffers);
    total(s, (double)(m.weights + m.gradients + m.optimizer) + activations + buffers, &m);
    *out = m;
}
