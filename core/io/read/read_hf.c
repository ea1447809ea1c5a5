/* read_hf.c: a Hugging Face config.json as a luoshu.model/1 tree (docs/formats.md#luoshumodel1).
 * Its keys are used, harmless (one note lists them) or refused, because they would change cost or
 * numbers. Saved configs leave out keys that equal their class's defaults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json_number.h"
#include "core/io/read/read_model.h"

typedef struct hf_reader {
    luo_doc *doc;
    const luo_doc_node *config;
    const luo_overrides *overrides;
    bool *used; /* by position in the object */
} hf_reader;

typedef struct mapping {
    const char *theirs, *ours;
    bool required;
} mapping;

static const mapping llama_map[] = {
    {"hidden_size", "hidden", true},
    {"num_hidden_layers", "layers", true},
    {"num_attention_heads", "heads", true},
    {"num_key_value_heads", "kv_heads", false},
    {"head_dim", "head_dim", false},
    {"intermediate_size", "ffn_hidden", true},
    {"vocab_size", "vocab", true},
    {"max_position_embeddings", "max_sequence_tokens", true},
    {"tie_word_embeddings", "tied_embeddings", false},
    {"rope_theta", "rope_base", false},
    {"rms_norm_eps", "norm_eps", false},
};
static const mapping gpt2_map[] = {
    {"n_embd", "hidden", true},
    {"n_layer", "layers", true},
    {"n_head", "heads", true},
    {"n_positions", "max_sequence_tokens", true},
    {"n_inner", "ffn_hidden", false},
    {"vocab_size", "vocab", true},
    {"tie_word_embeddings", "tied_embeddings", false},
    {"layer_norm_epsilon", "norm_eps", false},
};

static const struct {
    const char *type, *family;
    const mapping *map;
    int n;
} types[] = {
    {"llama", "llama", llama_map, LUO_DOC_COUNT(llama_map)},
    {"mistral", "llama", llama_map, LUO_DOC_COUNT(llama_map)},
    {"qwen2", "llama", llama_map, LUO_DOC_COUNT(llama_map)},
    {"qwen3", "llama", llama_map, LUO_DOC_COUNT(llama_map)},
    {"gpt2", "gpt", gpt2_map, LUO_DOC_COUNT(gpt2_map)},
};

/* ---- the tree ---- */

/* theirs (NULL: not from the file) becomes ours: text. */
static void put(hf_reader *hf, const char *ours, const char *text, bool quoted,
                const luo_doc_node *theirs)
{
    luo_doc_node *root = hf->doc->root, *node = LUO_NEW(hf->doc->arena, luo_doc_node);
    const char *copy = luo_arena_strdup(hf->doc->arena, text);
    if (!node || !copy) {
        luo_doc_nomem(hf->doc);
        return;
    }
    *node = (luo_doc_node){.key = ours,
                           .text = copy,
                           .quoted = quoted,
                           .up = root,
                           .line = 1,
                           .col = 1,
                           .key_line = 1,
                           .key_col = 1};
    if (theirs) {
        node->line = theirs->line;
        node->col = theirs->col;
        node->key_line = theirs->key_line;
        node->key_col = theirs->key_col;
    }
    if (root->last)
        root->last->next = node;
    else
        root->first = node;
    root->last = node;
    root->n++;
}

static const luo_doc_node *use(hf_reader *hf, const char *key)
{
    int i = 0;
    for (const luo_doc_node *node = hf->config->first; node; node = node->next, i++)
        if (strcmp(node->key, key) == 0) {
            hf->used[i] = true;
            return node;
        }
    return NULL;
}

static bool is_null(const luo_doc_node *node)
{
    return !node || luo_doc_is(node, "null");
}

static void refuse(hf_reader *hf, const luo_doc_node *at, const char *why)
{
    luo_doc_error(hf->doc, at, "`%s` is not supported: %s.", at->key, why);
}

static bool given_by_set(const hf_reader *hf, const char *ours)
{
    const size_t n = strlen(ours);
    for (int32_t i = 0; hf->overrides && i < hf->overrides->n; i++)
        if (strncmp(hf->overrides->at[i], ours, n) == 0 && hf->overrides->at[i][n] == '=')
            return true;
    return false;
}

static void take(hf_reader *hf, const mapping *m)
{
    const luo_doc_node *node = use(hf, m->theirs);
    double number;
    if (is_null(node) && m->required && !given_by_set(hf, m->ours))
        luo_doc_error(hf->doc, NULL,
                      "key `%s` is missing; a saved config leaves out class "
                      "defaults, give it with --set %s=VALUE.",
                      m->theirs, m->ours);
    if (is_null(node)) return;
    if (luo_doc_is(node, "true") || luo_doc_is(node, "false") || luo_doc_real(node, &number))
        put(hf, m->ours, node->text, false, node);
    else
        luo_doc_error(hf->doc, node, "`%s` is no number and no boolean; one is expected.",
                      m->theirs);
}

/* ---- what differs between the types ---- */

static const char *text_of(const luo_doc_node *node)
{
    return node && node->quoted ? node->text : NULL;
}

static bool has(const hf_reader *hf, const char *ours)
{
    return luo_doc_get(hf->doc->root, ours) != NULL;
}

static void take_dtype(hf_reader *hf)
{
    const luo_doc_node *node = use(hf, "torch_dtype");
    if (!node) node = use(hf, "dtype");
    const char *v = text_of(node);
    if (!v) return;
    if (strcmp(v, "bfloat16") == 0)
        put(hf, "dtype", "bf16", true, node);
    else if (strcmp(v, "float32") == 0)
        put(hf, "dtype", "f32", true, node);
    else if (strcmp(v, "float64") == 0)
        put(hf, "dtype", "f64", true, node);
    else if (!given_by_set(hf, "dtype"))
        refuse(hf, node, "bfloat16, float32 or float64 is expected; give it with --set dtype=bf16");
}

/* Older files say rope_scaling, newer ones rope_parameters: {rope_type, rope_theta}. */
static void take_rope(hf_reader *hf)
{
    const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (int i = 0; i < 2; i++) {
        const luo_doc_node *node = use(hf, keys[i]), *theta = luo_doc_get(node, "rope_theta");
        const char *type = luo_doc_text(node, "rope_type");
        double number;
        if (!type) type = luo_doc_text(node, "type");
        if (is_null(node)) continue;
        if (node->type != LUO_DOC_MAP || (type && strcmp(type, "default") != 0))
            refuse(hf, node, "only plain rotary positions are built");
        else if (luo_doc_real(theta, &number) && !has(hf, "rope_base"))
            put(hf, "rope_base", theta->text, false, node);
    }
}

/* What transformers of these types ask for biases: `attention_bias` is that of all four products
 * of attention, `mlp_bias` that of the feed-forward. The others ignore these keys. */
static void take_biases(hf_reader *hf, const char *type)
{
    const bool llama = strcmp(type, "llama") == 0;
    if (llama) take(hf, &(mapping){"mlp_bias", "linear_bias", false});
    if (llama || strcmp(type, "qwen3") == 0) {
        take(hf, &(mapping){"attention_bias", "qkv_bias", false});
        take(hf, &(mapping){"attention_bias", "out_bias", false});
    }
    if (strcmp(type, "qwen2") == 0) put(hf, "qkv_bias", "true", false, NULL);
    if (!has(hf, "out_bias")) put(hf, "out_bias", "false", false, NULL);
}

static void refuse_unless(hf_reader *hf, const luo_doc_node *at, bool good, const char *why)
{
    if (at && !good) refuse(hf, at, why);
}

/* A text that has to be a certain one; what is no text says nothing. */
static void expect(hf_reader *hf, const char *key, const char *begin, bool whole, const char *why)
{
    const luo_doc_node *node = use(hf, key);
    const char *v = text_of(node);
    if (v) refuse_unless(hf, node, strncmp(v, begin, strlen(begin) + whole) == 0, why);
}

static void llama_rest(hf_reader *hf, const char *type)
{
    const luo_doc_node *window = use(hf, "sliding_window"),
                       *use_window = use(hf, "use_sliding_window");
    const luo_doc_node *partial = use(hf, "partial_rotary_factor");
    const bool qwen = strncmp(type, "qwen", 4) == 0;
    double factor = 0;
    take_rope(hf);
    expect(hf, "hidden_act", "silu", true, "`silu` is expected");
    refuse_unless(hf, qwen ? use_window : window,
                  qwen ? !luo_doc_is(use_window, "true") : is_null(window),
                  "attention over a window would cost less than ours");
    refuse_unless(hf, partial, luo_doc_real(partial, &factor) && factor == 1,
                  "rotary positions turn the whole head");
    take_biases(hf, type);
    if (strcmp(type, "qwen3") == 0) put(hf, "qk_norm", "true", false, NULL);
}

static void gpt2_rest(hf_reader *hf)
{
    static const struct {
        const char *key, *refused, *why;
    } words[] = {
        {"scale_attn_weights", "false", "attention is scaled by 1/sqrt(head size)"},
        {"scale_attn_by_inverse_layer_idx", "true", "attention is scaled alike in all layers"},
        {"add_cross_attention", "true", "there is no cross attention"}};
    expect(hf, "activation_function", "gelu", false, "`gelu` or one of its forms is expected");
    for (size_t i = 0; i < LUO_DOC_COUNT(words); i++) {
        const luo_doc_node *node = use(hf, words[i].key);
        refuse_unless(hf, node, !luo_doc_is(node, words[i].refused), words[i].why);
    }
    const luo_doc_node *hidden = luo_doc_get(hf->doc->root, "hidden");
    int64_t n;
    if (!has(hf, "ffn_hidden") && hidden &&
        luo_json_number_whole(hidden->text, strlen(hidden->text), &n) && n < INT64_MAX / 4) {
        char text[32];
        snprintf(text, sizeof text, "%lld", 4 * (long long)n);
        put(hf, "ffn_hidden", text, false, use(hf, "n_embd"));
    }
}

static void list_unused(hf_reader *hf)
{
    luo_str text = {0};
    int i = 0, n = 0;
    for (const luo_doc_node *node = hf->config->first; node; node = node->next, i++)
        if (!hf->used[i]) luo_str_addf(&text, "%s`%s`", n++ ? ", " : "", node->key);
    if (n)
        luo_diags_add(hf->doc->diags, LUO_NOTE, LUO_OK, hf->doc->src->name, 0, 0,
                      "%d key%s not used: %s.", n, n > 1 ? "s" : "", luo_str_get(&text));
    luo_str_free(&text);
}

luo_status luo_read_hf_model(luo_doc *doc, const luo_overrides *overrides)
{
    hf_reader h = {.doc = doc, .config = doc->root, .overrides = overrides};
    h.used = LUO_NEW_N(doc->arena, bool, h.config->n);
    if (!h.used) return luo_doc_nomem(doc);
    const luo_doc_node *said = use(&h, "model_type"), *quantized = use(&h, "quantization_config");
    const char *type = text_of(said), *path = text_of(use(&h, "_name_or_path"));
    size_t t = 0;
    doc->root = NULL;
    while (t < LUO_DOC_COUNT(types) && type && strcmp(types[t].type, type) != 0) t++;
    if (!type || t == LUO_DOC_COUNT(types)) {
        const char *names[LUO_DOC_COUNT(types)];
        luo_str text = {0};
        for (t = 0; t < LUO_DOC_COUNT(types); t++) names[t] = types[t].type;
        luo_words_expected(&text, type ? type : "", names, (int)t);
        luo_doc_error(doc, said, "`model_type` is `%.60s`; %s", type ? type : "",
                      luo_str_get(&text));
        luo_str_free(&text);
        return LUO_EINPUT;
    }
    doc->root = LUO_NEW(doc->arena, luo_doc_node);
    if (!doc->root) return luo_doc_nomem(doc);
    *doc->root = (luo_doc_node){.type = LUO_DOC_MAP, .text = "", .line = 1, .col = 1};
    const char *slash = path ? strrchr(path, '/') : NULL;
    put(&h, "schema", "luoshu.model/1", true, NULL);
    put(&h, "name", slash && slash[1] ? slash + 1 : path && *path ? path : type, true, NULL);
    put(&h, "family", types[t].family, true, said);
    for (int i = 0; i < types[t].n; i++) take(&h, &types[t].map[i]);
    take_dtype(&h);
    if (quantized) refuse(&h, quantized, "weights are bf16, f32 or f64");
    if (strcmp(type, "gpt2") == 0) gpt2_rest(&h);
    else llama_rest(&h, type);
    list_unused(&h);
    return doc->st;
}
