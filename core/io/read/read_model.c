/* read_model.c: model.yaml into a luo_model, the defaults of its family filled in
 * (docs/formats.md#luoshumodel1). */
#include "core/io/read/read_model.h"
#include "core/graph/rope.h"
#include "core/io/read/read.h"

#include <string.h>

typedef struct moe_yaml {
    int64_t experts, experts_per_token, expert_ffn_hidden, shared_experts, shared_ffn_hidden;
    int64_t first_dense_layers, every_layers;
    double capacity_factor, routed_scale, aux_loss, bias_rate;
    int64_t route_groups, route_groups_kept;
    bool renorm, shared_gate;
    int32_t gate;
} moe_yaml;
typedef struct attention_yaml {
    int32_t kind;
    luo_latent latent;
} attention_yaml;
typedef struct model_yaml {
    const char *schema, *name, *type;
    luo_family family;
    int64_t layers, hidden, heads, ffn_hidden, kv_heads, head_dim, vocab, max_sequence_tokens;
    int64_t token_types, classes, variant;
    bool qk_norm, tied_embeddings, linear_bias, out_bias, qkv_bias, causal;
    bool parallel_residual, shared_norm, post_norms, norm_offset;
    int64_t position_offset;
    double rope_base, rope_local_base, norm_eps, partial_rotary;
    double embedding_scale, attention_scale, attention_softcap, logit_softcap;
    luo_rope_scaling rope;
    luo_window window;
    luo_norm norm;
    luo_activation activation;
    luo_position position;
    moe_yaml moe;
    attention_yaml attention;
    luo_image image;
    luo_features features;
    luo_mlp bottom_mlp, mlp;
    luo_dtype dtype;
} model_yaml;

#define BIAS_RATE 0.001 /* of the DeepSeek-V3 report, section 4.2 */

#define OPT LUO_DOC_OPT
#define REQ LUO_DOC_REQ

#define SIZE LUO_OF(LUO_Q_WIDTH, 1)
#define HEADS LUO_OF(LUO_Q_HEADS, 1)
#define LAYERS LUO_OF(LUO_Q_LAYERS, 1)
#define PIXELS LUO_OF(LUO_Q_PIXELS, 1)

static const luo_doc_word families[] = {
#define LUO_FAMILY(kind, name, ...) {name, LUO_FAMILY_##kind},
#include "core/graph/families.inc"
#undef LUO_FAMILY
};
static const luo_doc_word norms[] = {LUO_NORM_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word activations[] = {LUO_ACTIVATION_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word positions[] = {LUO_POSITION_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word dtypes[] = {LUO_DTYPE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word ropes[] = {LUO_ROPE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word attentions[] = {{"mla", 0}};
enum { TOP1 = LUO_GATE_SIGMOID + 1 }; /* top-k of one */
static const luo_doc_word gates[] = {LUO_GATE_LIST(LUO_DOC_WORD_ROW){"top1", TOP1}};

#include "core/io/read/fields/model_fields.inc"
static const luo_doc_schema schema = LUO_DOC_STRUCT_OF(model_yaml, model_fields, NULL);

const luo_doc_kind luo_doc_model = {"model", &schema};

/* ---- which key belongs to which family ---- */

static const struct {
    const char *key;
    luo_family_keys group;
    bool required;
} places[] = {
    {"layers", LUO_KEYS_LAYERS, true},       {"hidden", LUO_KEYS_LAYERS, true},
    {"model_type", LUO_KEYS_ATTENTION, false},
    {"heads", LUO_KEYS_ATTENTION, true},     {"ffn_hidden", LUO_KEYS_LAYERS, true},
    {"kv_heads", LUO_KEYS_GROUPED, false},   {"head_dim", LUO_KEYS_ATTENTION, false},
    {"qk_norm", LUO_KEYS_GROUPED, false},    {"rope_base", LUO_KEYS_GROUPED, false},
    {"vocab", LUO_KEYS_TEXT, true},          {"max_sequence_tokens", LUO_KEYS_TEXT, true},
    {"token_types", LUO_KEYS_TYPES, false},  {"tied_embeddings", LUO_KEYS_TEXT, false},
    {"linear_bias", LUO_KEYS_LAYERS, false}, {"qkv_bias", LUO_KEYS_ATTENTION, false},
    {"norm", LUO_KEYS_LAYERS, false},        {"norm_eps", LUO_KEYS_LAYERS, false},
    {"activation", LUO_KEYS_LAYERS, false},  {"position", LUO_KEYS_ATTENTION, false},
    {"causal", LUO_KEYS_ATTENTION, false},   {"moe", LUO_KEYS_EXPERTS, true},
    {"image", LUO_KEYS_IMAGE, true},         {"classes", LUO_KEYS_IMAGE, true},
    {"variant", LUO_KEYS_VARIANT, true},     {"attention", LUO_KEYS_EXPERTS, false},
    {"features", LUO_KEYS_TABLES, true},     {"bottom_mlp", LUO_KEYS_BOTTOM, true},
    {"mlp", LUO_KEYS_TABLES, true},          {"out_bias", LUO_KEYS_ATTENTION, false},
    {"rope_scaling", LUO_KEYS_GROUPED, false},
    {"rope_local_base", LUO_KEYS_GROUPED, false},
    {"partial_rotary", LUO_KEYS_GROUPED, false},
    {"parallel_residual", LUO_KEYS_ATTENTION, false},
    {"shared_norm", LUO_KEYS_ATTENTION, false},
    {"post_norms", LUO_KEYS_ATTENTION, false},
    {"norm_offset", LUO_KEYS_LAYERS, false},
    {"position_offset", LUO_KEYS_TEXT, false},
    {"sliding_window", LUO_KEYS_ATTENTION, false},
    {"embedding_scale", LUO_KEYS_TEXT, false},
    {"attention_scale", LUO_KEYS_ATTENTION, false},
    {"attention_softcap", LUO_KEYS_ATTENTION, false},
    {"logit_softcap", LUO_KEYS_TEXT, false},
};

static bool has_keys(int64_t family, luo_family_keys group)
{
    return luo_family_desc_of((luo_family)family)->keys & group;
}

static void family_names(luo_family_keys group, luo_str *text)
{
    const char *names[LUO_FAMILIES];
    int n = 0;
    for (int f = 0; f < LUO_FAMILIES; f++)
        if (has_keys(f, group)) names[n++] = luo_family_desc_of((luo_family)f)->name;
    luo_words_choices(text, names, n);
}

static void check_keys(luo_doc *doc, const model_yaml *yaml)
{
    const char *family = luo_doc_get(doc->root, "family")->text;
    for (size_t i = 0; i < LUO_DOC_COUNT(places); i++) {
        const luo_doc_node *at = luo_doc_get(doc->root, places[i].key);
        const bool belongs = has_keys(yaml->family, places[i].group);
        if (at && !belongs) {
            luo_str text = {0};
            family_names(places[i].group, &text);
            luo_doc_error_key(doc, at, "`%s` does not belong to family `%s`; it is a key of %s.",
                              at->key, family, luo_str_get(&text));
            luo_str_free(&text);
        }
        if (!at && belongs && places[i].required)
            luo_doc_error(doc, doc->root, "key `%s` is missing; family `%s` requires it.",
                          places[i].key, family);
    }
}

/* ---- contradictions between keys (V-E7) ---- */

static const luo_doc_node *at_key(const luo_doc *doc, const char *key)
{
    return luo_doc_get(doc->root, key);
}

static void check_heads(luo_doc *doc, const luo_model *model)
{
    const luo_doc_node *heads = at_key(doc, "heads"), *hidden = at_key(doc, "hidden");
    if (luo_model_is_latent(model)) return; /* sizes of their own */
    if (heads && hidden && !at_key(doc, "head_dim") && model->hidden % model->heads)
        luo_doc_error(doc, heads,
                      "`heads` is %lld; `hidden` %lld is not divisible by %lld, give "
                      "`head_dim` if it is meant.",
                      (long long)model->heads, (long long)model->hidden, (long long)model->heads);
    else if (heads && model->position == LUO_POS_ROPE && model->head_dim % 2)
        luo_doc_error(doc, at_key(doc, "head_dim") ? at_key(doc, "head_dim") : heads,
                      "a head has %lld elements; `position` rope turns pairs and needs an even "
                      "number.",
                      (long long)model->head_dim);
    if (heads && at_key(doc, "kv_heads") &&
        (model->kv_heads > model->heads || model->heads % model->kv_heads))
        luo_doc_error(doc, at_key(doc, "kv_heads"),
                      "`kv_heads` is %lld; a number that divides the %lld heads is expected.",
                      (long long)model->kv_heads, (long long)model->heads);
}

static void check_image(luo_doc *doc, const luo_model *model)
{
    const luo_doc_node *image = at_key(doc, "image"), *patch = luo_doc_get(image, "patch_px");
    const luo_doc_node *variant = at_key(doc, "variant");
    if (image && model->family == LUO_FAMILY_VIT && !patch) luo_doc_missing(doc, image, "patch_px");
    if (patch && model->family == LUO_FAMILY_VGG)
        luo_doc_error_key(doc, patch,
                          "`patch_px` does not belong to family `vgg`; it is a key of "
                          "`vit`.");
    if (patch && model->family == LUO_FAMILY_VIT &&
        (model->image.height_px % model->image.patch_px ||
         model->image.width_px % model->image.patch_px))
        luo_doc_error(doc, patch,
                      "`patch_px` is %lld; a number that divides height and width is "
                      "expected.",
                      (long long)model->image.patch_px);
    if (variant && model->variant != 11 && model->variant != 13 && model->variant != 16 &&
        model->variant != 19)
        luo_doc_error(doc, variant, "`variant` is `%lld`; 11, 13, 16 or 19 is expected.",
                      (long long)model->variant);
}

static void check_mlp(luo_doc *doc, const char *key, const luo_mlp *mlp)
{
    if (mlp->n > LUO_MLP_LAYERS)
        luo_doc_error(doc, at_key(doc, key), "`%s` has %d layers; at most %d are expected.", key,
                      (int)mlp->n, LUO_MLP_LAYERS);
}

static void check_tables(luo_doc *doc, const luo_model *model)
{
    const luo_features *f = &model->features;
    const luo_doc_node *features = at_key(doc, "features"), *bottom = at_key(doc, "bottom_mlp");
    const luo_mlp *mlp = &model->bottom_mlp;
    if (!features || !luo_model_has_tables(model)) return;
    check_mlp(doc, "mlp", &model->mlp);
    check_mlp(doc, "bottom_mlp", mlp);
    if (f->rows < f->slots)
        luo_doc_error(doc, luo_doc_get(features, "rows"),
                      "`rows` is %lld; each of the %lld slots needs one at least.",
                      (long long)f->rows, (long long)f->slots);
    if (!bottom || mlp->n == 0 || model->family != LUO_FAMILY_DLRM) return;
    if (f->dense == 0)
        luo_doc_error(doc, features, "`dense` is 0; `bottom_mlp` needs numbers of a sample.");
    if (mlp->columns[mlp->n - 1] != f->width)
        luo_doc_error(doc, bottom,
                      "`bottom_mlp` ends with %lld columns; as many as the `width` of %lld are "
                      "expected.",
                      (long long)mlp->columns[mlp->n - 1], (long long)f->width);
}

/* Keys that belong to some gates. */
static void check_gate_keys(luo_doc *doc, const luo_doc_node *at, const luo_moe *moe)
{
    const bool sigmoid = moe->gate == LUO_GATE_SIGMOID, sam = moe->gate == LUO_GATE_SAM;
    const bool topk = moe->gate == LUO_GATE_TOPK;
    if (!sigmoid && !topk && moe->routed_scale != 1)
        luo_doc_error(doc, at, "`routed_scale` goes with `gate` sigmoid or topk.");
    if (!sigmoid && !sam && !topk && moe->route_groups > 1)
        luo_doc_error(doc, at, "`route_groups` goes with `gate` sigmoid, topk or sam.");
    const bool balanced = moe->gate == LUO_GATE_BALANCED;
    if (balanced && moe->capacity_factor > 0)
        luo_doc_error(doc, at,
                      "`capacity_factor` does not go with `gate` balanced, under which no expert "
                      "has more than its share; leave it out.");
    if ((sigmoid || balanced || moe->gate == LUO_GATE_HASH) && moe->aux_loss > 0)
        luo_doc_error(doc, at, "`aux_loss` goes with `gate` topk, top1, ktop1 or sam.");
    if (sam && moe->aux_loss > 0 && moe->capacity_factor > 0)
        luo_doc_error(doc, at,
                      "`aux_loss` of `gate` sam needs all choices, and `capacity_factor` drops "
                      "some; leave one of them out.");
    if (!sigmoid && moe->bias_rate > 0)
        luo_doc_error(doc, luo_doc_get(at, "bias_rate"), "`bias_rate` goes with `gate` sigmoid.");
    if (moe->renorm && moe->gate != LUO_GATE_TOPK && !sigmoid)
        luo_doc_error(doc, luo_doc_get(at, "renorm"), "`renorm` goes with `gate` topk or top1.");
}

static void check_moe(luo_doc *doc, const luo_model *model)
{
    const luo_doc_node *moe = at_key(doc, "moe"), *each = luo_doc_get(moe, "experts_per_token");
    if (!moe || model->family != LUO_FAMILY_MOE) return;
    if (model->moe.experts_per_token > model->moe.experts)
        luo_doc_error(doc, each, "`experts_per_token` is %lld; there are %lld experts.",
                      (long long)model->moe.experts_per_token, (long long)model->moe.experts);
    if (model->moe.top1 && model->moe.experts_per_token != 1)
        luo_doc_error(doc, each, "`experts_per_token` is %lld; `gate` top1 gives 1.",
                      (long long)model->moe.experts_per_token);
    luo_err err = {0};
    const luo_gate gate = luo_model_gate(model);
    if (gate.k <= gate.experts && luo_gate_check(&gate, &err) != LUO_OK)
        luo_doc_error(doc, moe, "%s", err.text);
    check_gate_keys(doc, moe, &model->moe);
    if (model->moe.shared_gate && model->moe.shared_experts == 0)
        luo_doc_error(doc, luo_doc_get(moe, "shared_gate"),
                      "`shared_gate` goes with `shared_experts`.");
    if ((model->moe.shared_experts > 0) != (model->moe.shared_ffn_hidden > 0))
        luo_doc_error(doc, moe,
                      "`shared_experts` and `shared_ffn_hidden` are given together or "
                      "not at all; give both above 0.");
}

/* One factor of longrope for each pair that turns, in both lists or in none. */
static void check_factors(luo_doc *doc, const luo_model *model)
{
    const luo_doc_node *rope = at_key(doc, "rope_scaling");
    const struct {
        const char *key;
        int32_t n;
    } lists[] = {{"short_factors", model->rope.short_factors.n},
                 {"long_factors", model->rope.long_factors.n}};
    const long long pairs = (long long)luo_rope_pairs(model);
    for (int i = 0; rope && i < 2; i++) {
        const luo_doc_node *at = luo_doc_get(rope, lists[i].key);
        if (at && model->rope.kind != LUO_ROPE_LONGROPE)
            luo_doc_error_key(doc, at, "`%s` goes with `kind` longrope.", at->key);
        else if (at && lists[i].n != pairs)
            luo_doc_error(doc, at, "`%s` has %d numbers; %lld are expected, one for each pair of a "
                          "head that turns.", at->key, (int)lists[i].n, pairs);
        else if (!at && lists[1 - i].n > 0)
            luo_doc_error(doc, rope, "`%s` is missing; it goes with `%s`.", lists[i].key,
                          lists[1 - i].key);
    }
}

/* Keys that say something of others. */
static void check_layers(luo_doc *doc, const luo_model *model)
{
    const luo_doc_node *rope = at_key(doc, "rope_scaling"), *window = at_key(doc, "sliding_window");
    const luo_doc_node *offset = at_key(doc, "position_offset");
    const luo_doc_node *local = at_key(doc, "rope_local_base");
    const luo_rope_kind kind = model->rope.kind;
    check_factors(doc, model);
    if (model->type) luo_read_hf_check(doc, at_key(doc, "model_type"), model->family);
    if (model->shared_norm && !model->parallel_residual)
        luo_doc_error(doc, at_key(doc, "shared_norm"),
                      "`shared_norm` goes with `parallel_residual`, where attention and "
                      "feed-forward have one input; give that too.");
    if (rope && kind >= LUO_ROPE_LLAMA3 && model->rope.original_tokens == 0)
        luo_doc_error(doc, rope, "`original_tokens` is missing; `kind` %s requires it.",
                      luo_rope_kind_name(kind));
    if (rope && model->rope.high_freq <= model->rope.low_freq)
        luo_doc_error(doc, rope, "`high_freq_factor` is %g; more than `low_freq_factor` %g is "
                      "expected.", model->rope.high_freq, model->rope.low_freq);
    if (window && model->window.each > model->window.every)
        luo_doc_error(doc, window, "`layers_each` is %lld of every %lld layers; no more than these "
                      "are expected.", (long long)model->window.each,
                      (long long)model->window.every);
    if (window && !model->causal)
        luo_doc_error_key(doc, window, "`sliding_window` goes with `causal` true.");
    if (local && model->rope_local_base > 0 && !window)
        luo_doc_error_key(doc, local,
                          "`rope_local_base` is of layers with a window; give `sliding_window` "
                          "too, or leave it out.");
    if (offset && model->position_offset > 0 && model->position != LUO_POS_LEARNED)
        luo_doc_error_key(doc, offset, "`position_offset` goes with `position` learned.");
}

/* Heads are as `attention` says. */
static void check_latent(luo_doc *doc, const luo_model *model)
{
    static const char *const others[] = {"kv_heads",    "head_dim", "qk_norm", "qkv_bias",
                                         "linear_bias", "out_bias", "position"};
    const luo_doc_node *attention = at_key(doc, "attention");
    if (!attention || !luo_model_is_latent(model)) return;
    for (size_t i = 0; i < LUO_DOC_COUNT(others); i++)
        if (at_key(doc, others[i]))
            luo_doc_error_key(doc, at_key(doc, others[i]),
                              "`%s` does not go with `attention`, which has sizes and positions of "
                              "its own; leave it out.",
                              others[i]);
    if (model->latent.rope % 2)
        luo_doc_error(doc, luo_doc_get(attention, "qk_rope_head_dim"),
                      "`qk_rope_head_dim` is %lld; positions turn pairs and need an even number.",
                      (long long)model->latent.rope);
}

/* Each size is within its range, and so is what they make together. */
static void check_parameters(luo_doc *doc, const luo_model *model)
{
    luo_err err;
    int64_t n;
    if (doc->st != LUO_OK || model->family == LUO_FAMILY_VGG) return;
    if (luo_model_parameters(model, &n, &err) != LUO_OK)
        luo_doc_error(doc, doc->root, "%s", err.text);
}

/* ---- defaults ---- */

static void take_family_defaults(const luo_doc *doc, luo_model *model)
{
    const luo_family_desc *desc = luo_family_desc_of(model->family);
    if (!at_key(doc, "kv_heads")) model->kv_heads = model->heads;
    if (!at_key(doc, "head_dim")) model->head_dim = model->heads ? model->hidden / model->heads : 0;
    if (luo_model_is_latent(model)) model->head_dim = model->latent.nope + model->latent.rope;
    if (!at_key(doc, "rope_base")) model->rope_base = desc->rope_base;
    if (!at_key(doc, "token_types")) model->token_types = desc->token_types;
    if (!at_key(doc, "tied_embeddings")) model->tied_embeddings = desc->tied_embeddings;
    if (!at_key(doc, "linear_bias")) model->linear_bias = desc->biases;
    if (!at_key(doc, "out_bias"))
        model->out_bias = model->linear_bias && luo_model_has_attention(model);
    if (!at_key(doc, "qkv_bias")) model->qkv_bias = desc->biases && luo_model_has_attention(model);
    if (!at_key(doc, "norm")) model->norm = desc->norm;
    if (!at_key(doc, "norm_eps")) model->norm_eps = desc->norm_eps;
    if (!at_key(doc, "activation")) model->activation = desc->activation;
    if (!at_key(doc, "position")) model->position = desc->position;
    if (!at_key(doc, "causal")) model->causal = desc->causal;
    if (!at_key(doc, "rope_scaling")) model->rope = (luo_rope_scaling){0};
    if (!at_key(doc, "sliding_window")) model->window = (luo_window){0};
    if (!at_key(doc, "moe")) model->moe = (luo_moe){0};
    if (!luo_doc_get(at_key(doc, "moe"), "bias_rate"))
        model->moe.bias_rate = model->moe.gate == LUO_GATE_SIGMOID ? BIAS_RATE : 0;
    if (!luo_doc_get(at_key(doc, "moe"), "every_layers"))
        model->moe.every_layers = (desc->keys & LUO_KEYS_EXPERTS) != 0;
}

static luo_model *take(luo_doc *doc, const model_yaml *yaml)
{
    luo_model *model = LUO_NEW(doc->arena, luo_model);
    if (!model) {
        luo_doc_nomem(doc);
        return NULL;
    }
    *model = (luo_model){
        .name = yaml->name,
        .type = yaml->type,
        .family = yaml->family,
        .layers = yaml->layers,
        .hidden = yaml->hidden,
        .ffn_hidden = yaml->ffn_hidden,
        .heads = yaml->heads,
        .kv_heads = yaml->kv_heads,
        .head_dim = yaml->head_dim,
        .vocab = yaml->vocab,
        .max_sequence_tokens = yaml->max_sequence_tokens,
        .token_types = yaml->token_types,
        .classes = yaml->classes,
        .variant = yaml->variant,
        .tied_embeddings = yaml->tied_embeddings,
        .linear_bias = yaml->linear_bias,
        .out_bias = yaml->out_bias,
        .qkv_bias = yaml->qkv_bias,
        .qk_norm = yaml->qk_norm,
        .causal = yaml->causal,
        .parallel_residual = yaml->parallel_residual,
        .shared_norm = yaml->shared_norm,
        .post_norms = yaml->post_norms,
        .norm_offset = yaml->norm_offset,
        .position_offset = yaml->position_offset,
        .partial_rotary = yaml->partial_rotary,
        .embedding_scale = yaml->embedding_scale,
        .attention_scale = yaml->attention_scale,
        .attention_softcap = yaml->attention_softcap,
        .logit_softcap = yaml->logit_softcap,
        .rope = yaml->rope,
        .window = yaml->window,
        .norm = yaml->norm,
        .activation = yaml->activation,
        .position = yaml->position,
        .norm_eps = yaml->norm_eps,
        .rope_base = yaml->rope_base,
        .rope_local_base = yaml->rope_local_base,
        .moe = {yaml->moe.experts, yaml->moe.experts_per_token, yaml->moe.expert_ffn_hidden,
                yaml->moe.shared_experts, yaml->moe.shared_ffn_hidden, yaml->moe.first_dense_layers,
                yaml->moe.every_layers, yaml->moe.capacity_factor, yaml->moe.gate == TOP1,
                yaml->moe.gate == TOP1 ? LUO_GATE_TOPK : (luo_gate_kind)yaml->moe.gate,
                yaml->moe.renorm, yaml->moe.shared_gate, yaml->moe.routed_scale,
                yaml->moe.route_groups, yaml->moe.route_groups_kept, yaml->moe.aux_loss,
                yaml->moe.bias_rate},
        .latent = yaml->attention.latent,
        .image = yaml->image,
        .features = yaml->features,
        .bottom_mlp = yaml->bottom_mlp,
        .mlp = yaml->mlp,
        .dtype = yaml->dtype};
    take_family_defaults(doc, model);
    return model;
}

/* ---- the whole ---- */

static void make_tree(luo_doc *doc, const luo_overrides *overrides)
{
    luo_doc_parse(doc);
    if (doc->json && luo_doc_get(doc->root, "model_type")) luo_read_hf_model(doc, overrides);
    luo_doc_override_all(doc, overrides);
    if (!overrides || !overrides->dtype) return;
    const char *text = luo_arena_printf(doc->arena, "dtype=%s", overrides->dtype);
    if (text) luo_doc_set(doc, text);
    else luo_doc_nomem(doc);
}

luo_status luo_read_model_text(luo_arena *arena, const luo_source *src,
                               const luo_overrides *overrides, luo_model **out, luo_diags *diags)
{
    luo_doc doc = {.arena = arena, .src = src, .diags = diags};
    void *data = NULL;
    luo_model *model = NULL;
    make_tree(&doc, overrides);
    luo_doc_check(&doc, &luo_doc_model);
    if (doc.st == LUO_OK && luo_doc_load(&doc, &schema, &data) == LUO_OK) {
        model = take(&doc, data);
        if (model) {
            check_heads(&doc, model);
            check_image(&doc, model);
            check_moe(&doc, model);
            check_latent(&doc, model);
            check_layers(&doc, model);
            check_tables(&doc, model);
        }
        check_keys(&doc, data);
        if (model) check_parameters(&doc, model);
    }
    if (doc.st == LUO_OK) *out = model;
    return doc.st;
}

luo_status luo_read_model(luo_arena *arena, const char *path, luo_model **out, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_model_text(arena, &src, NULL, out, diags);
}
