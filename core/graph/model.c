/* model.c: sizes of a network that need no graph. */
#include "core/graph/model.h"

#include <assert.h>

#include "core/base/quantity.h"

int64_t luo_dtype_bytes(luo_dtype t)
{
    static const int64_t bytes[] = {[LUO_BF16] = 2, [LUO_F32] = 4, [LUO_F64] = 8};
    assert(t <= LUO_F64);
    return bytes[t];
}

const char *luo_dtype_name(luo_dtype t)
{
    static const char *const names[LUO_DTYPES] = {LUO_DTYPE_LIST(LUO_WORD_TEXT)};
    assert(t <= LUO_F64);
    return names[t];
}

const char *luo_norm_name(luo_norm norm)
{
    static const char *const names[] = {LUO_NORM_LIST(LUO_WORD_TEXT)};
    return names[norm];
}

const char *luo_activation_name(luo_activation activation)
{
    static const char *const names[] = {LUO_ACTIVATION_LIST(LUO_WORD_TEXT)};
    return names[activation];
}

const char *luo_position_name(luo_position position)
{
    static const char *const names[LUO_POSITIONS] = {LUO_POSITION_LIST(LUO_WORD_TEXT) "none"};
    return names[position];
}

const char *luo_rope_kind_name(luo_rope_kind kind)
{
    static const char *const names[] = {LUO_ROPE_LIST(LUO_WORD_TEXT)};
    return names[kind];
}

const luo_family_desc *luo_family_desc_of(luo_family family)
{
    enum {
        LAYERS = LUO_KEYS_LAYERS,
        TEXT = LUO_KEYS_TEXT,
        GROUPED = LUO_KEYS_GROUPED,
        TYPES = LUO_KEYS_TYPES,
        EXPERTS = LUO_KEYS_EXPERTS,
        IMAGE = LUO_KEYS_IMAGE,
        VARIANT = LUO_KEYS_VARIANT,
        TABLES = LUO_KEYS_TABLES,
        BOTTOM = LUO_KEYS_BOTTOM,
        ATTENTION = LUO_KEYS_ATTENTION
    };
    static const luo_family_desc descs[LUO_FAMILIES] = {
#define LUO_FAMILY(kind, name, build, keys, norm, norm_eps, activation, position, ...)             \
    [LUO_FAMILY_##kind] = {                                                                        \
        name,       keys, LUO_NORM_##norm, norm_eps, LUO_ACT_##activation, LUO_POS_##position,     \
        __VA_ARGS__},
#include "core/graph/families.inc"
#undef LUO_FAMILY
    };
    assert(family < LUO_FAMILIES);
    return &descs[family];
}

bool luo_model_has_layers(const luo_model *model)
{
    return luo_family_desc_of(model->family)->keys & LUO_KEYS_LAYERS;
}

bool luo_model_has_attention(const luo_model *model)
{
    return luo_family_desc_of(model->family)->keys & LUO_KEYS_ATTENTION;
}

int32_t luo_model_layer_norms(const luo_model *model)
{
    const int32_t halves = luo_model_has_attention(model) && !model->shared_norm ? 2 : 1;
    return halves + (model->post_norms ? 2 : 0);
}

int32_t luo_model_layer_kind(const luo_model *model, int64_t layer)
{
    return (luo_model_has_experts(model, layer) ? 1 : 0) +
           (luo_window_of(&model->window, layer) > 0 ? 2 : 0);
}

luo_status luo_model_check_context(const luo_model *model, luo_err *err)
{
    if (luo_model_has_attention(model)) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "model `%s` has no attention, which context parallelism is for; leave "
                       "`context_parallel` (option `--cp`) out.",
                       model->name);
}

/* ---- models with tables ---- */

int64_t luo_model_row_width(const luo_model *model)
{
    return model->features.width + (model->family == LUO_FAMILY_WIDE_DEEP);
}

/* Pairs of the embeddings of a sample and of what the bottom has made. */
static int64_t pairs(const luo_model *model)
{
    const int64_t n = model->features.slots + 1;
    return n * (n - 1) / 2;
}

static int32_t add_mlp(const luo_mlp *mlp, int64_t in, luo_dense_layer *out)
{
    for (int32_t i = 0; i < mlp->n; i++) {
        out[i] = (luo_dense_layer){in, mlp->columns[i]};
        in = mlp->columns[i];
    }
    return mlp->n;
}

int32_t luo_model_dense_layers(const luo_model *model, luo_dense_layer *out, int32_t *bottom)
{
    const luo_features *features = &model->features;
    int64_t in = features->slots * features->width + features->dense;
    int32_t n = 0;
    if (model->family == LUO_FAMILY_DLRM) {
        n = add_mlp(&model->bottom_mlp, features->dense, out);
        in = pairs(model) + features->width;
    }
    *bottom = n;
    n += add_mlp(&model->mlp, in, out + n);
    out[n] = (luo_dense_layer){n > *bottom ? out[n - 1].out : in, 1};
    return n + 1;
}

/* Weights of matrices that every token meets, and everything else: biases, norms, tables. In
 * double, which is exact far beyond the range of parameters and does not overflow. */
typedef struct count {
    double matrix, rest;
} count;

luo_gate luo_model_gate(const luo_model *model)
{
    const luo_moe *moe = &model->moe;
    return (luo_gate){.kind = moe->gate,
                      .experts = (int32_t)moe->experts,
                      .k = (int32_t)moe->experts_per_token,
                      .capacity_factor = moe->capacity_factor,
                      .renorm = moe->renorm,
                      .scale = moe->routed_scale,
                      .groups = (int32_t)moe->route_groups,
                      .groups_kept = (int32_t)moe->route_groups_kept};
}

static int64_t every_layers(const luo_model *model)
{
    return model->moe.every_layers > 0 ? model->moe.every_layers : 1;
}

bool luo_model_has_experts(const luo_model *model, int64_t layer)
{
    if (model->moe.experts == 0 || layer < model->moe.first_dense_layers) return false;
    return (layer - model->moe.first_dense_layers) % every_layers(model) == 0;
}

int64_t luo_model_expert_layers(const luo_model *model, int64_t layers)
{
    const int64_t behind = layers - model->moe.first_dense_layers, every = every_layers(model);
    return model->moe.experts == 0 || behind <= 0 ? 0 : (behind + every - 1) / every;
}

static count count_norm(const luo_model *model, int64_t width)
{
    return (count){0, (double)(model->norm == LUO_NORM_LAYER ? 2 * width : width)};
}

static count count_latent(const luo_model *model)
{
    const luo_latent *latent = &model->latent;
    const double h = (double)model->hidden, heads = (double)model->heads;
    const double q = heads * (double)(latent->nope + latent->rope), from = (double)latent->q_lora;
    count c = {latent->q_lora > 0 ? from * (h + q) : h * q, 0};
    c.matrix += h * (double)(latent->kv_lora + latent->rope) +
                heads * ((double)latent->kv_lora * (double)(latent->nope + latent->v) +
                         (double)latent->v * h);
    c.rest = count_norm(model, latent->q_lora).rest + count_norm(model, latent->kv_lora).rest;
    return c;
}

static count count_attention(const luo_model *model)
{
    if (!luo_model_has_attention(model)) return (count){0, 0};
    if (luo_model_is_latent(model)) return count_latent(model);
    const double q = (double)(model->heads * model->head_dim),
                 kv = (double)(model->kv_heads * model->head_dim);
    const double h = (double)model->hidden;
    count c = {h * (2 * q + 2 * kv), 0};
    if (model->qkv_bias) c.rest += q + 2 * kv;
    if (model->out_bias) c.rest += h;
    if (model->qk_norm) c.rest += (double)(2 * model->head_dim);
    return c;
}

static count count_mlp(const luo_model *model, int64_t width)
{
    const double ins = luo_model_is_gated(model) ? 2 : 1;
    const double h = (double)model->hidden, ffn = (double)width;
    count c = {(ins + 1) * h * ffn, 0};
    if (model->linear_bias) c.rest = ins * ffn + h;
    return c;
}

/* used: experts that count, all of them or those that one token meets. */
static count count_layer(const luo_model *model, int64_t layer, bool used_only)
{
    count c = count_attention(model);
    count mlp = count_mlp(model, model->ffn_hidden);
    if (luo_model_has_experts(model, layer)) {
        const luo_moe *moe = &model->moe;
        const double n = used_only
                             ? luo_gate_kept(moe->capacity_factor) * (double)moe->experts_per_token
                             : (double)moe->experts;
        const double shares = (double)moe->shared_experts;
        const count one = count_mlp(model, moe->expert_ffn_hidden);
        const count shared = count_mlp(model, moe->shared_ffn_hidden);
        const double router =
            luo_model_has_router(model) ? (double)(model->hidden * moe->experts) : 0;
        const double gate = moe->shared_gate ? (double)model->hidden : 0;
        mlp.matrix = n * one.matrix + shares * shared.matrix + router + gate;
        mlp.rest =
            n * one.rest + shares * shared.rest + (moe->bias_rate > 0 ? (double)moe->experts : 0);
    }
    c.matrix += mlp.matrix;
    c.rest += mlp.rest + luo_model_layer_norms(model) * count_norm(model, model->hidden).rest;
    return c;
}

static count count_image(const luo_model *model)
{
    const double h = (double)model->hidden, classes = (double)model->classes;
    const int64_t p = model->image.patch_px;
    const double patches = (double)((model->image.height_px / p) * (model->image.width_px / p));
    const double dots = (double)(p * p) * (double)model->image.channels;
    /* biases, class token, positions */
    return (count){h * dots + h * classes,
                   h + classes + h + (patches + 1) * h + count_norm(model, model->hidden).rest};
}

static count count_tables(const luo_model *model)
{
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t bottom;
    const int32_t n = luo_model_dense_layers(model, layer, &bottom);
    count c = {0, (double)model->features.rows * (double)luo_model_row_width(model)};
    for (int32_t i = 0; i < n; i++) {
        c.matrix += (double)layer[i].in * (double)layer[i].out;
        c.rest += (double)layer[i].out;
    }
    return c;
}

/* Embedding, final norm and head. The head's matrix counts in `matrix` even if it is tied. */
static count count_ends(const luo_model *model)
{
    if (luo_model_has_tables(model)) return count_tables(model);
    if (model->family == LUO_FAMILY_VIT) return count_image(model);
    const double h = (double)model->hidden, table = (double)model->vocab * h;
    count c = {table, 0};
    if (!model->tied_embeddings) c.rest += table;
    if (model->position == LUO_POS_LEARNED) c.rest += (double)luo_model_position_rows(model) * h;
    c.rest += count_norm(model, model->hidden).rest;
    if (model->family == LUO_FAMILY_BERT) c.rest += (double)model->token_types * h;
    return c;
}

luo_status luo_model_parameters(const luo_model *model, int64_t *out, luo_err *err)
{
    if (model->family == LUO_FAMILY_VGG)
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` is a vgg, which has no transformer layers to count; use "
                           "another family.",
                           model->name);
    const double most = luo_quantity_at(LUO_Q_PARAMETERS)->highest;
    const count ends = count_ends(model);
    double sum = ends.matrix + ends.rest;
    for (int64_t l = 0; l < model->layers; l++) {
        const count c = count_layer(model, l, false);
        sum += c.matrix + c.rest;
    }
    if (!(sum <= most))
        return luo_err_set(err, LUO_EINPUT, "model `%s` has %.3g parameters; up to %.3g are taken.",
                           model->name, sum, most);
    *out = (int64_t)sum;
    return LUO_OK;
}

const char *luo_model_tp_undivided(const luo_model *model, int32_t tp, int64_t *parts)
{
    const bool experts = model->moe.experts > 0;
    const struct {
        const char *what;
        int64_t parts;
    } cut[] = {{"heads", model->heads},
               {"key-value heads", model->kv_heads},
               {"columns of the feed-forward layer", model->ffn_hidden},
               {"columns of an expert", experts ? model->moe.expert_ffn_hidden : 0},
               {"columns of the shared expert", experts ? model->moe.shared_ffn_hidden : 0}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        if (cut[i].parts % tp == 0) continue;
        *parts = cut[i].parts;
        return cut[i].what;
    }
    return NULL;
}

bool luo_model_tp_divides(const luo_model *model, int32_t tp)
{
    int64_t parts;
    return !luo_model_tp_undivided(model, tp, &parts);
}

double luo_model_flops_per_token(const luo_model *model, int64_t tokens)
{
    if (model->family == LUO_FAMILY_VGG) return 0;
    double matrix = count_ends(model).matrix, seen = 0; /* tokens that one sees, over all layers */
    for (int64_t l = 0; l < model->layers; l++) {
        const double window = (double)luo_window_of(&model->window, l), all = (double)tokens;
        matrix += count_layer(model, l, true).matrix;
        seen += window > 0 && window < all ? window * (2 - window / all) : all;
    }
    if (model->family == LUO_FAMILY_DLRM)
        matrix += (double)pairs(model) * (double)model->features.width;
    return 6 * matrix + 6.0 * seen * (double)model->heads *
                            (double)(model->head_dim + luo_model_value_dim(model));
}
