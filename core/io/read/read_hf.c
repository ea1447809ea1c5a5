/* read_hf.c: a Hugging Face config.json as a luoshu.model/1 tree (docs/formats.md#luoshumodel1).
 * Its keys are used, harmless (one note lists them) or refused, because they would change cost or
 * numbers. Saved configs leave out keys that equal their class's defaults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/read/read_model.h"

typedef struct hf {
    luo_yaml_doc *doc;
    const json_t *config;
    const luo_overrides *overrides;
    bool used[256]; /* by position in the object */
} hf;

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
    {"attention_bias", "qkv_bias", false},
    {"mlp_bias", "linear_bias", false},
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
    {"llama", "llama", llama_map, LUO_YAML_COUNT(llama_map)},
    {"mistral", "llama", llama_map, LUO_YAML_COUNT(llama_map)},
    {"qwen2", "llama", llama_map, LUO_YAML_COUNT(llama_map)},
    {"qwen3", "llama", llama_map, LUO_YAML_COUNT(llama_map)},
    {"gpt2", "gpt", gpt2_map, LUO_YAML_COUNT(gpt2_map)},
};

/* ---- the tree ---- */

static void place(const hf *h, const char *key, luo_yaml *x)
{
    char pointer[160];
    snprintf(pointer, sizeof pointer, "/%s", key);
    luo_json_where(h->doc->src->text, h->doc->src->len, pointer, true, &x->key_line, &x->key_col);
    luo_json_where(h->doc->src->text, h->doc->src->len, pointer, false, &x->line, &x->col);
}

static luo_yaml here(const hf *h, const char *key)
{
    luo_yaml x = {.key = key, .text = ""};
    place(h, key, &x);
    return x;
}

/* theirs (NULL: not from the file) becomes ours: text. */
static void put(hf *h, const char *ours, const char *text, bool quoted, const char *theirs)
{
    luo_yaml *root = h->doc->root, *x = LUO_NEW(h->doc->arena, luo_yaml);
    const char *copy = luo_arena_strdup(h->doc->arena, text);
    if (!x || !copy) {
        luo_yaml_nomem(h->doc);
        return;
    }
    *x = (luo_yaml){.key = ours, .text = copy, .quoted = quoted, .up = root, .line = 1, .col = 1,
                    .key_line = 1, .key_col = 1};
    if (theirs) place(h, theirs, x);
    if (root->last) root->last->next = x;
    else root->first = x;
    root->last = x;
    root->n++;
}

static const json_t *use(hf *h, const char *key)
{
    const char *name;
    json_t *v;
    int i = 0;
    json_object_foreach((json_t *)h->config, name, v) {
        if (strcmp(name, key) == 0) {
            if (i < 256) h->used[i] = true;
            return v;
        }
        i++;
    }
    return NULL;
}

static void refuse(hf *h, const char *key, const char *why)
{
    const luo_yaml at = here(h, key);
    luo_yaml_error(h->doc, &at, "`%s` is not supported: %s.", key, why);
}

static bool given_by_set(const hf *h, const char *ours)
{
    const size_t n = strlen(ours);
    for (int32_t i = 0; h->overrides && i < h->overrides->n; i++)
        if (strncmp(h->overrides->at[i], ours, n) == 0 && h->overrides->at[i][n] == '=')
            return true;
    return false;
}

static void take(hf *h, const mapping *m)
{
    const json_t *v = use(h, m->theirs);
    const luo_yaml root = {.text = "", .line = 1, .col = 1};
    if ((!v || json_is_null(v)) && m->required && !given_by_set(h, m->ours))
        luo_yaml_error(h->doc, &root, "key `%s` is missing; a saved config leaves out class "
                                      "defaults, give it with --set %s=VALUE.", m->theirs,
                       m->ours);
    if (!v || json_is_null(v)) return;
    if (json_is_number(v) || json_is_boolean(v)) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        put(h, m->ours, text ? text : "", false, m->theirs);
        free(text);
    } else {
        const luo_yaml at = here(h, m->theirs);
        luo_yaml_error(h->doc, &at, "`%s` is no number and no boolean; one is expected.",
                       m->theirs);
    }
}

/* ---- what differs between the types ---- */

static const char *text_of(hf *h, const char *key)
{
    return json_string_value(use(h, key));
}

static bool has(const hf *h, const char *ours)
{
    return luo_yaml_get(h->doc->root, ours) != NULL;
}

static void take_dtype(hf *h)
{
    const char *key = json_object_get(h->config, "torch_dtype") ? "torch_dtype" : "dtype";
    const char *v = text_of(h, key);
    if (!v) return;
    if (strcmp(v, "bfloat16") == 0) put(h, "dtype", "bf16", true, key);
    else if (strcmp(v, "float32") == 0) put(h, "dtype", "f32", true, key);
    else if (strcmp(v, "float64") == 0) put(h, "dtype", "f64", true, key);
    else if (!given_by_set(h, "dtype"))
        refuse(h, key, "bfloat16, float32 or float64 is expected; give it with --set dtype=bf16");
}

/* Older files say rope_scaling, newer ones rope_parameters: {rope_type, rope_theta}. */
static void take_rope(hf *h)
{
    const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (int i = 0; i < 2; i++) {
        const json_t *v = use(h, keys[i]);
        const char *type = json_string_value(json_object_get(v, "rope_type"));
        if (!type) type = json_string_value(json_object_get(v, "type"));
        if (!v || json_is_null(v)) continue;
        if (!json_is_object(v) || (type && strcmp(type, "default") != 0)) {
            refuse(h, keys[i], "only plain rotary positions are built");
            continue;
        }
        const json_t *theta = json_object_get(v, "rope_theta");
        if (!json_is_number(theta) || has(h, "rope_base")) continue;
        char text[40];
        snprintf(text, sizeof text, "%.17g", json_number_value(theta));
        put(h, "rope_base", text, false, keys[i]);
    }
}

static void refuse_unless(hf *h, const char *key, bool good, const char *why)
{
    if (!good) refuse(h, key, why);
}

static void llama_rest(hf *h, const char *type)
{
    const char *act = text_of(h, "hidden_act");
    const json_t *window = use(h, "sliding_window"), *use_window = use(h, "use_sliding_window");
    const json_t *partial = use(h, "partial_rotary_factor");
    const bool qwen = strncmp(type, "qwen", 4) == 0;
    const bool windowed = qwen ? json_is_true(use_window)
                               : window && !json_is_null(window);
    take_rope(h);
    if (act) refuse_unless(h, "hidden_act", strcmp(act, "silu") == 0, "`silu` is expected");
    refuse_unless(h, qwen ? "use_sliding_window" : "sliding_window", !windowed,
                  "attention over a window would cost less than ours");
    refuse_unless(h, "partial_rotary_factor", !partial || json_number_value(partial) == 1,
                  "rotary positions turn the whole head");
    if (strcmp(type, "qwen2") == 0 && !has(h, "qkv_bias")) put(h, "qkv_bias", "true", false, NULL);
    if (strcmp(type, "qwen3") == 0) put(h, "qk_norm", "true", false, NULL);
}

static void gpt2_rest(hf *h)
{
    const char *act = text_of(h, "activation_function");
    const json_t *scaled = use(h, "scale_attn_weights");
    if (act)
        refuse_unless(h, "activation_function", strncmp(act, "gelu", 4) == 0,
                      "`gelu` or one of its forms is expected");
    refuse_unless(h, "scale_attn_weights", !json_is_false(scaled),
                  "attention is scaled by 1/sqrt(head size)");
    refuse_unless(h, "scale_attn_by_inverse_layer_idx",
                  !json_is_true(use(h, "scale_attn_by_inverse_layer_idx")),
                  "attention is scaled alike in all layers");
    refuse_unless(h, "add_cross_attention", !json_is_true(use(h, "add_cross_attention")),
                  "there is no cross attention");
    const luo_yaml *hidden = luo_yaml_get(h->doc->root, "hidden");
    int64_t n;
    if (!has(h, "ffn_hidden") && hidden &&
        luo_number_whole(hidden->text, strlen(hidden->text), &n) && n < INT64_MAX / 4) {
        char text[32];
        snprintf(text, sizeof text, "%lld", 4 * (long long)n);
        put(h, "ffn_hidden", text, false, "n_embd");
    }
}

static void list_unused(hf *h)
{
    const char *name;
    json_t *v;
    luo_str s = {0};
    int i = 0, n = 0;
    json_object_foreach((json_t *)h->config, name, v) {
        if (i >= 256 || !h->used[i]) luo_str_addf(&s, "%s`%s`", n++ ? ", " : "", name);
        i++;
    }
    if (n)
        luo_diags_add(h->doc->diags, LUO_NOTE, LUO_OK, h->doc->src->name, 0, 0,
                      "%d keys not used: %s.", n, luo_str_get(&s));
    luo_str_free(&s);
}

luo_status luo_hf_model(luo_yaml_doc *doc, const json_t *config, const luo_overrides *overrides)
{
    hf h = {.doc = doc, .config = config, .overrides = overrides};
    const char *type = text_of(&h, "model_type");
    size_t t = 0;
    while (t < LUO_YAML_COUNT(types) && type && strcmp(types[t].type, type) != 0) t++;
    if (!type || t == LUO_YAML_COUNT(types)) {
        const luo_yaml at = here(&h, "model_type");
        const char *names[LUO_YAML_COUNT(types)];
        luo_str s = {0};
        for (t = 0; t < LUO_YAML_COUNT(types); t++) names[t] = types[t].type;
        luo_say_expected(&s, type ? type : "", names, (int)t);
        luo_yaml_error(doc, &at, "`model_type` is `%.60s`; %s", type ? type : "", luo_str_get(&s));
        luo_str_free(&s);
        return LUO_EINPUT;
    }
    doc->root = LUO_NEW(doc->arena, luo_yaml);
    if (!doc->root) return luo_yaml_nomem(doc);
    *doc->root = (luo_yaml){.type = LUO_YAML_MAP, .text = "", .line = 1, .col = 1};
    const char *path = text_of(&h, "_name_or_path");
    const char *slash = path ? strrchr(path, '/') : NULL;
    put(&h, "schema", "luoshu.model/1", true, NULL);
    put(&h, "name", slash && slash[1] ? slash + 1 : path && *path ? path : type, true, NULL);
    put(&h, "family", types[t].family, true, "model_type");
    for (int i = 0; i < types[t].n; i++) take(&h, &types[t].map[i]);
    take_dtype(&h);
    if (json_object_get(config, "quantization_config"))
        refuse(&h, "quantization_config", "weights are bf16, f32 or f64");
    if (strcmp(type, "gpt2") == 0) gpt2_rest(&h);
    else llama_rest(&h, type);
    list_unused(&h);
    return doc->st;
}
