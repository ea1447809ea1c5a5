#include "core/cost/memory.h"

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

/* Korthikanti et al., table 2, with their counts of 2-byte values written in e (masks stay one
 * byte) and 4h written f; for llama the counts of accuracy.md 8.2 (no dropout, gated). */
double luo_mem_layer_activations(const luo_mem_spec *s, int recompute)
{
    const luo_model *m = s->model;
    const double e = (double)luo_dtype_bytes(m->dtype), t = s->tp;
    const double h = (double)m->hidden, all = (double)s->micro_batch_tokens * h;
    const double f = mlp_width(m) / h, square = (double)(m->heads * s->sequence_tokens) / h;
    const double q = (double)(m->heads * m->head_dim) / h;
    const double kv = (double)(m->kv_heads * m->head_dim) / h;
    const bool keeps = !s->attention_fused && recompute == 0; /* the attention square */
    double whole, cut;
    if (recompute == 2) {
        whole = e;
        cut = 0;
    } else if (m->activation == LUO_ACT_SWIGLU) {
        whole = 4 * e;
        cut = 2 * e * q + 2 * e * kv + 4 * e * f + (keeps ? e * square : 0);
    } else {
        whole = 4 * e + 2;
        cut = 2 * e * q + 2 * e * kv + 2 * e * f + (keeps ? (2 * e + 1) * square : 0);
    }
    return all * (s->sequence_parallel ? (whole + cut) / t : whole + cut / t);
}

int64_t luo_mem_in_flight(const luo_mem_spec *s)
{
    const int64_t m = s->micro_batches, p = s->stages, k = s->stage, v = s->chunks;
    int64_t most = p - k;
    if (s->schedule == LUO_SCHED_GPIPE) return m;
    if (s->schedule == LUO_SCHED_INTERLEAVED) {
        most = 2 * (p - 1 - k) + (v - 1) * p + 1;
        return m * v < most ? m * v : most;
    }
    return m < most ? m : most;
}

static double stage_parameters(const luo_mem_spec *s, double *layer)
{
    const double vocab = (double)luo_mem_vocab(s->model, s->tp);
    const double table = vocab * (double)s->model->hidden / s->tp;
    double all = 0;
    for (int64_t l = 0; l < s->model->layers; l++)
        all += luo_mem_layer_parameters(s->model, l, s->tp);
    *layer = all / (double)s->model->layers; /* an average layer of this network */
    return s->layers * *layer + (s->embedding ? table : 0) + (s->head ? table : 0);
}

static double stage_activations(const luo_mem_spec *s)
{
    const double redone = s->recompute == 0 ? 0
                          : s->recompute_layers < 0 ? s->layers
                                                    : fmin(s->recompute_layers, s->layers);
    const double kept = luo_mem_layer_activations(s, s->recompute) * redone +
                        luo_mem_layer_activations(s, 0) * (s->layers - redone);
    double bytes = kept / s->chunks * (double)luo_mem_in_flight(s);
    if (s->recompute == 2 && redone > 0) bytes += luo_mem_layer_activations(s, 0);
    if (s->head) {
        const double e = (double)luo_dtype_bytes(s->model->dtype);
        bytes += (double)s->micro_batch_tokens * (double)luo_mem_vocab(s->model, s->tp) / s->tp *
                 (e + 4 + 4);
    }
    return bytes;
}

void luo_mem_stage(const luo_mem_spec *s, luo_mem *out)
{
    const double gradient = s->gradient_bytes > 0 ? s->gradient_bytes : 4;
    const double factor = s->factor > 0 ? s->factor : 1.05;
    const int64_t e = luo_dtype_bytes(s->model->dtype);
    double layer = 0, buffers = s->buffer_bytes;
    luo_mem m = {0};
    luo_mem_state(stage_parameters(s, &layer), e, gradient, s->zero, s->replicas, &m);
    const int32_t gathered = s->gathered > 0 ? s->gathered : 2;
    if (s->zero >= 3 && s->replicas > 1) buffers += gathered * (double)e * layer;
    /* one unit's gradients are made while another's are cut */
    if (s->zero >= 2 && s->replicas > 1) buffers += 2 * gradient * layer;
    const double activations = stage_activations(s);
    m.activations = up(activations);
    m.buffers = up(buffers);
    m.peak = up(((double)(m.weights + m.gradients + m.optimizer) + activations + buffers) * factor +
                s->reserved_bytes);
    *out = m;
}
