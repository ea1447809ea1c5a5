/* model.h: dimensions of a network (docs/formats.md#luoshumodel1). */
#ifndef LUO_CORE_GRAPH_MODEL_H
#define LUO_CORE_GRAPH_MODEL_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/words.h"
#include "core/graph/moe/gate.h"

typedef enum luo_family {
#define LUO_FAMILY(kind, ...) LUO_FAMILY_##kind,
#include "core/graph/families.inc"
#undef LUO_FAMILY
    LUO_FAMILIES
} luo_family;

#define LUO_DTYPE_LIST(X) X(LUO_BF16, "bf16") X(LUO_F32, "f32") X(LUO_F64, "f64")
typedef enum luo_dtype { LUO_DTYPE_LIST(LUO_WORD_VALUE) } luo_dtype;
enum { LUO_DTYPES = LUO_F64 + 1 };
int64_t luo_dtype_bytes(luo_dtype t);
const char *luo_dtype_name(luo_dtype t); /* "bf16" */

#define LUO_NORM_LIST(X) X(LUO_NORM_RMS, "rmsnorm") X(LUO_NORM_LAYER, "layernorm")
#define LUO_ACTIVATION_LIST(X)                                                                     \
    X(LUO_ACT_SWIGLU, "swiglu")                                                                    \
    X(LUO_ACT_GELU, "gelu")                                                                        \
    X(LUO_ACT_GELU_ERF, "gelu_erf") X(LUO_ACT_GEGLU, "geglu") X(LUO_ACT_RELU, "relu")
#define LUO_POSITION_LIST(X) X(LUO_POS_ROPE, "rope") X(LUO_POS_LEARNED, "learned")
typedef enum luo_norm { LUO_NORM_LIST(LUO_WORD_VALUE) } luo_norm;
typedef enum luo_activation { LUO_ACTIVATION_LIST(LUO_WORD_VALUE) } luo_activation;
/* none: a model without attention, to which the place of a token means nothing */
typedef enum luo_position {
    LUO_POSITION_LIST(LUO_WORD_VALUE) LUO_POS_NONE,
    LUO_POSITIONS
} luo_position;
const char *luo_norm_name(luo_norm norm);
const char *luo_activation_name(luo_activation activation);
const char *luo_position_name(luo_position position);

/* How rotary positions are stretched to sequences longer than those of training. */
#define LUO_ROPE_LIST(X)                                                                           \
    X(LUO_ROPE_PLAIN, "plain")                                                                     \
    X(LUO_ROPE_LINEAR, "linear")                                                                   \
    X(LUO_ROPE_DYNAMIC, "dynamic")                                                                 \
    X(LUO_ROPE_LLAMA3, "llama3") X(LUO_ROPE_YARN, "yarn") X(LUO_ROPE_LONGROPE, "longrope")
typedef enum luo_rope_kind { LUO_ROPE_LIST(LUO_WORD_VALUE) } luo_rope_kind;
const char *luo_rope_kind_name(luo_rope_kind kind); /* "llama3" */

typedef enum luo_family_keys { /* groups of keys of model.yaml (core/io/read/read_model.c) */
                               LUO_KEYS_LAYERS = 1,  /* layers with a feed-forward */
                               LUO_KEYS_TEXT = 2,    /* a vocabulary and positions */
                               LUO_KEYS_GROUPED = 4, /* groups of query heads, rotary positions */
                               LUO_KEYS_TYPES = 8,   /* token types */
                               LUO_KEYS_EXPERTS = 16,
                               LUO_KEYS_IMAGE = 32,
                               LUO_KEYS_VARIANT = 64, /* layers by the name of a variant */
                               LUO_KEYS_TABLES = 128, /* embedding tables and dense layers behind */
                               LUO_KEYS_BOTTOM = 256, /* dense layers before these */
                               LUO_KEYS_ATTENTION = 512 /* attention in the layers */
} luo_family_keys;

typedef struct luo_family_desc { /* of a row of families.inc */
    const char *name;
    unsigned keys; /* luo_family_keys */
    /* defaults of model.yaml */
    luo_norm norm;
    double norm_eps;
    luo_activation activation;
    luo_position position;
    double rope_base;
    int64_t token_types;
    bool tied_embeddings, biases, causal;
} luo_family_desc;
/* Pre: family < LUO_FAMILIES. */
const luo_family_desc *luo_family_desc_of(luo_family family);

typedef struct luo_moe { /* experts = 0: no mixture of experts */
    int64_t experts, experts_per_token, expert_ffn_hidden, shared_experts, shared_ffn_hidden;
    int64_t first_dense_layers, every_layers;
    double capacity_factor; /* 0: nothing is dropped */
    bool top1;
    luo_gate_kind gate;
    bool renorm;            /* top-k: weights of a token's choices add up to 1 */
    bool shared_gate;       /* what shared experts give is weighted by a sigmoid of the token */
    double routed_scale;    /* sigmoid: what they add up to, top-k: a factor of them; 0: 1 */
    int64_t route_groups, route_groups_kept; /* sigmoid, sam, top-k; 0: one group */
    double aux_loss; /* but for sigmoid: weight of the loss of unbalanced experts, of sam of that of
                        alignment; 0: none */
    /* sigmoid: how far the bias of an expert moves in a step, up if fewer tokens than the mean
     * chose it, down if more did; 0: there is no bias */
    double bias_rate;
} luo_moe;

/* Latent attention (DeepSeek-AI, arXiv 2405.04434): queries, and keys and values, come from latent
 * vectors; a part of every key is shared by all heads and turns with positions. Then head_dim is
 * nope + rope, and there are as many key-value heads as query heads. kv_lora 0: none. */
typedef struct luo_latent {
    int64_t q_lora, kv_lora; /* sizes of the latent vectors; q_lora 0: one product makes queries */
    int64_t nope, rope, v;   /* of a head: without positions, with them, of a value */
} luo_latent;

typedef struct luo_rope_factors { /* what frequencies of pairs are divided by; 0: not known */
    int32_t n;
    const double *at;
} luo_rope_factors;

typedef struct luo_rope_scaling { /* kind plain: all others 0 */
    luo_rope_kind kind;
    double factor;
    int64_t original_tokens;         /* longest sequence before; llama3, yarn, longrope */
    double low_freq, high_freq;      /* llama3 */
    double beta_fast, beta_slow;     /* yarn */
    double attention_factor;         /* yarn, longrope: of the sines; 0: by `factor` */
    luo_rope_factors short_factors, long_factors; /* longrope: of sequences up to original_tokens,
                                                     and of longer ones */
} luo_rope_scaling;

/* A token sees itself and so many before it, less 1, in layers first .. first + each - 1 of every
 * `every` from there on. tokens 0: all layers see everything. */
typedef struct luo_window {
    int64_t tokens, first, every, each;
} luo_window;
/* Tokens of the window that attention of this layer has; 0: it sees everything. */
static inline int64_t luo_window_of(const luo_window *window, int64_t layer)
{
    if (window->tokens == 0 || layer < window->first) return 0;
    return window->every == 0 || (layer - window->first) % window->every < window->each
               ? window->tokens
               : 0;
}

typedef struct luo_image {
    int64_t height_px, width_px, channels, patch_px;
} luo_image;

/* What a sample of a recommendation model has: a key in each slot, which names a row of the tables
 * of all slots together, and numbers. */
typedef struct luo_features {
    int64_t slots, rows, width; /* width: of the embedding that a row holds */
    int64_t dense;              /* numbers of a sample; 0: none */
} luo_features;
enum { LUO_MLP_LAYERS = 32 }; /* at most */
typedef struct luo_mlp {
    int32_t n;
    const int64_t *columns; /* of each layer */
} luo_mlp;

/* All defaults of the table in docs/formats.md#luoshumodel1 are filled in by the reader. */
typedef struct luo_model {
    const char *name;
    const char *type; /* of Hugging Face, whose names and shapes checkpoints have; NULL: by form */
    luo_family family;
    int64_t layers, hidden, ffn_hidden, heads, kv_heads, head_dim, vocab, max_sequence_tokens;
    int64_t token_types, classes, variant; /* bert; vit and vgg; vgg */
    /* biases: of the feed-forward's products, of what attention gives, of queries, keys, values */
    bool tied_embeddings, linear_bias, out_bias, qkv_bias, qk_norm, causal;
    bool parallel_residual; /* attention and feed-forward both read the layer's input, .. */
    bool shared_norm;       /* .. through one norm */
    bool post_norms;        /* norms of what attention and feed-forward give, before the sum */
    bool norm_offset;       /* norms multiply by 1 + weight */
    int64_t position_offset; /* rows of the table of positions that no token of a text has */
    luo_norm norm;
    luo_activation activation;
    luo_position position;
    double norm_eps, rope_base;
    double rope_local_base; /* of layers with a window, which are not scaled; 0: as of all others */
    double partial_rotary;  /* share of a head that rotary positions turn; 0: all of it */
    double embedding_scale; /* factor of embeddings; 0: 1 */
    double attention_scale; /* factor of scores; 0: 1 / sqrt(head_dim) */
    double attention_softcap, logit_softcap; /* scores, logits: c tanh(x / c); 0: as they are */
    luo_rope_scaling rope;
    luo_window window;
    luo_moe moe;
    luo_latent latent;
    luo_image image;
    luo_features features; /* wide_deep and dlrm */
    luo_mlp bottom_mlp, mlp;
    luo_dtype dtype;
} luo_model;

/* Is it made of layers with a feed-forward? Planners and costs of such have nothing to say of
 * others. */
bool luo_model_has_layers(const luo_model *model);
/* Do these also have attention? A model of family mlp has none, nor heads and positions. */
bool luo_model_has_attention(const luo_model *model);
/* Does the feed-forward multiply its activation by a second product? */
static inline bool luo_model_is_gated(const luo_model *model)
{
    return model->activation == LUO_ACT_SWIGLU || model->activation == LUO_ACT_GEGLU;
}
/* Norms of the hidden width in a layer. */
int32_t luo_model_layer_norms(const luo_model *model);
/* Rows of the table of learned positions. */
static inline int64_t luo_model_position_rows(const luo_model *model)
{
    return model->max_sequence_tokens + model->position_offset;
}
/* Layers of one kind have one cost: with experts or without, with a window or without. */
enum { LUO_LAYER_KINDS = 4 };
int32_t luo_model_layer_kind(const luo_model *model, int64_t layer);
/* Can executors compute a step of this model? Errors: LUO_EINPUT with the key that is missing. */
luo_status luo_model_check_run(const luo_model *model, luo_err *err);
/* May devices share sequences (context parallelism)? Errors: LUO_EINPUT without attention. */
luo_status luo_model_check_context(const luo_model *model, luo_err *err);
/* Does it have embedding tables, whose gradients name rows? */
static inline bool luo_model_has_tables(const luo_model *model)
{
    return model->features.rows > 0;
}
/* Numbers of a row of the tables: the embedding, and with wide_deep the key's weight in the wide
 * part. Pre: the model has tables. */
int64_t luo_model_row_width(const luo_model *model);

typedef struct luo_dense_layer { /* in x out weights, out biases */
    int64_t in, out;
} luo_dense_layer;
enum { LUO_DENSE_LAYERS = 2 * LUO_MLP_LAYERS + 1 };
/* The dense layers of a model with tables in the order of forward: so many of the bottom first,
 * then those of the top, the last of which has one column. Embeddings enter in between: wide_deep
 * puts them beside the numbers of a sample; dlrm takes products of all pairs of them and of what
 * the bottom has made, and puts that beside these. out: room for LUO_DENSE_LAYERS. */
int32_t luo_model_dense_layers(const luo_model *model, luo_dense_layer *out, int32_t *bottom);

static inline bool luo_model_is_latent(const luo_model *model)
{
    return model->latent.kv_lora > 0;
}
/* Elements of the values of a head. */
static inline int64_t luo_model_value_dim(const luo_model *model)
{
    return luo_model_is_latent(model) ? model->latent.v : model->head_dim;
}
/* How the experts of a token are chosen. Pre: the model has experts. */
luo_gate luo_model_gate(const luo_model *model);
/* Does a router of its own choose experts? Else the ids of tokens do, and weights are 1. */
static inline bool luo_model_has_router(const luo_model *model)
{
    return model->moe.gate != LUO_GATE_HASH;
}
/* Is the feed-forward of this layer a mixture of experts? */
bool luo_model_has_experts(const luo_model *model, int64_t layer);
/* How many of the first `layers` layers are such? */
int64_t luo_model_expert_layers(const luo_model *model, int64_t layers);
/* Parameters of the whole network (V-C1, V-C2), tables included. Errors: LUO_EINPUT for vgg. */
luo_status luo_model_parameters(const luo_model *model, int64_t *out, luo_err *err);
/* Do tp tensor-parallel devices get whole heads and columns, equally many? Rows of the vocabulary
 * are padded (core/plan/vocab.c). */
bool luo_model_tp_divides(const luo_model *model, int32_t tp);
/* The first that they do not get equally many of, "heads", and how many there are; NULL: none. */
const char *luo_model_tp_undivided(const luo_model *model, int32_t tp, int64_t *parts);
/* Model FLOP of one token, forward and backward, no recompute: 6 per matrix parameter plus the
 * attention square counted in full (docs/cost-model.md), for a sequence of `tokens`. Of a model
 * with tables: of one sample. */
double luo_model_flops_per_token(const luo_model *model, int64_t tokens);
#endif
