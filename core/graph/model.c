/* core/graph/model.c: sizes of a network that need no graph. */
#include "core/graph/model.h"

#include <assert.h>

int64_t luo_dtype_bytes(luo_dtype t)
{
    static const int64_t bytes[] = {[LUO_BF16] = 2, [LUO_F32] = 4, [LUO_F64] = 8};
    assert(t <= LUO_F64);
    return bytes[t];
}

const char *luo_dtype_name(luo_dtype t)
{
    static const char *const names[] = {"bf16", "f32", "f64"};
    assert(t <= LUO_F64);
    return names[t];
}

/* Weights of matrices that every token meets, and everything else: biases, norms, tables. */
typedef struct count {
    int64_t matrix, rest;
} count;

static bool layer_has_experts(const luo_model *m, int64_t layer)
{
    if (m->moe.experts == 0 || layer < m->moe.first_dense_layers) return false;
    const int64_t every = m->moe.every_layers > 0 ? m->moe.every_layers : 1;
    return (layer - m->moe.first_dense_layers) % every == 0;
}

static count count_norm(const luo_model *m, int64_t width)
{
    return (count){0, m->norm == LUO_NORM_LAYER ? 2 * width : width};
}

static count count_attention(const luo_model *m)
{
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    count c = {m->hidden * (2 * q + 2 * kv), 0};
    if (m->qkv_bias) c.rest += q + 2 * kv;
    if (m->linear_bias) c.rest += m->hidden;
    if (m->qk_norm) c.rest += 2 * m->head_dim;
    return c;
}

static count count_mlp(const luo_model *m, int64_t ffn)
{
    const int64_t ins = m->activation == LUO_ACT_SWIGLU ? 2 : 1;
    count c = {(ins + 1) * m->hidden * ffn, 0};
    if (m->linear_bias) c.rest = ins * ffn + m->hidden;
    return c;
}

/* used: experts that count, all of them or those that one token meets. */
static count count_layer(const luo_model *m, int64_t layer, bool used_only)
{
    count c = count_attention(m);
    count mlp = count_mlp(m, m->ffn_hidden);
    if (layer_has_experts(m, layer)) {
        const luo_moe *e = &m->moe;
        const int64_t n = used_only ? e->experts_per_token : e->experts;
        const count one = count_mlp(m, e->expert_ffn_hidden);
        const count shared = count_mlp(m, e->shared_ffn_hidden);
        mlp.matrix = n * one.matrix + e->shared_experts * shared.matrix + m->hidden * e->experts;
        mlp.rest = n * one.rest + e->shared_experts * shared.rest;
    }
    c.matrix += mlp.matrix;
    c.rest += mlp.rest + 2 * count_norm(m, m->hidden).rest;
    return c;
}

/* Embedding, final norm and head. The head's matrix counts in `matrix` even if it is tied. */
static count count_ends(const luo_model *m)
{
    count c = {0, 0};
    const int64_t h = m->hidden;
    if (m->family == LUO_FAMILY_VIT) {
        const int64_t p = m->image.patch_px;
        const int64_t patches = (m->image.height_px / p) * (m->image.width_px / p);
        c.matrix = h * p * p * m->image.channels + h * m->classes;
        c.rest = h + m->classes + h + (patches + 1) * h; /* biases, class token, positions */
        c.rest += count_norm(m, h).rest;
        return c;
    }
    c.matrix = m->vocab * h;
    if (!m->tied_embeddings) c.rest += m->vocab * h;
    if (m->position == LUO_POS_LEARNED) c.rest += m->max_sequence_tokens * h;
    c.rest += count_norm(m, h).rest;
    if (m->family == LUO_FAMILY_BERT) c.rest += m->token_types * h;
    return c;
}

luo_status luo_model_parameters(const luo_model *m, int64_t *out, luo_err *err)
{
    if (m->family == LUO_FAMILY_VGG)
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` is a vgg, which has no transformer layers to count; use "
                           "another family.", m->name);
    const count ends = count_ends(m);
    int64_t sum = ends.matrix + ends.rest;
    for (int64_t l = 0; l < m->layers; l++) {
        const count c = count_layer(m, l, false);
        sum += c.matrix + c.rest;
    }
    *out = sum;
    return LUO_OK;
}

double luo_model_flops_per_token(const luo_model *m, int64_t tokens)
{
    if (m->family == LUO_FAMILY_VGG) return 0;
    double matrix = (double)count_ends(m).matrix;
    for (int64_t l = 0; l < m->layers; l++) matrix += (double)count_layer(m, l, true).matrix;
    const double square = 12.0 * (double)m->layers * (double)(m->heads * m->head_dim);
    return 6 * matrix + square * (double)tokens;
}
