/* read_hf.c: a Hugging Face config.json as a luoshu.model/1 tree. Saved configs leave out keys that
 * equal their class's defaults. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/io/hf/hf.h"

const char HF_NEEDED[] = "";

/* ---- the tree ---- */

/* The child of that key, made if there is none. */
static luo_doc_node *child(hf_reader *hf, luo_doc_node *map, const char *key, size_t n)
{
    for (luo_doc_node *x = map->first; x; x = x->next)
        if (strlen(x->key) == n && memcmp(x->key, key, n) == 0) return x;
    luo_doc_node *node = LUO_NEW(hf->doc->arena, luo_doc_node);
    const char *name = luo_arena_strndup(hf->doc->arena, key, n);
    if (!node || !name) {
        luo_doc_nomem(hf->doc);
        return NULL;
    }
    *node = (luo_doc_node){
        .key = name, .text = "", .line = 1, .col = 1, .key_line = 1, .key_col = 1};
    luo_doc_append(map, node);
    return node;
}

/* Where ours stands, and the maps around it, made if there is none. */
static luo_doc_node *place(hf_reader *hf, const char *ours, const luo_doc_node *theirs)
{
    luo_doc_node *node = hf->doc->root;
    for (;;) {
        const size_t n = strcspn(ours, ".");
        node = child(hf, node, ours, n);
        if (!node) return NULL;
        if (theirs) {
            node->line = theirs->line;
            node->col = theirs->col;
            node->key_line = theirs->key_line;
            node->key_col = theirs->key_col;
        }
        if (!ours[n]) return node;
        node->type = LUO_DOC_MAP;
        ours += n + 1;
    }
}

void hf_put(hf_reader *hf, const char *ours, const char *text, bool quoted,
            const luo_doc_node *theirs)
{
    luo_doc_node *node = place(hf, ours, theirs);
    if (!node) return;
    node->text = luo_arena_strdup(hf->doc->arena, text);
    node->quoted = quoted;
    if (!node->text) luo_doc_nomem(hf->doc);
}

void hf_put_list(hf_reader *hf, const char *ours, const luo_doc_node *theirs)
{
    luo_doc_node *node = theirs ? place(hf, ours, theirs) : NULL;
    const char *key = node ? node->key : NULL;
    luo_doc_node *next = node ? node->next : NULL;
    if (!node) return;
    *node = *theirs; /* its entries are read by both trees, and changed by none */
    node->key = key;
    node->next = next;
}

void hf_put_number(hf_reader *hf, const char *ours, double value, const luo_doc_node *theirs)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", value);
    hf_put(hf, ours, text, false, theirs);
}

static const luo_doc_node *ours_at(const hf_reader *hf, const char *ours)
{
    const luo_doc_node *node = hf->doc->root;
    for (;;) {
        char key[64];
        const size_t n = strcspn(ours, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, ours);
        node = luo_doc_get(node, key);
        if (!node || !ours[n]) return node;
        ours += n + 1;
    }
}

bool hf_has(const hf_reader *hf, const char *ours)
{
    return ours_at(hf, ours) != NULL;
}

double hf_number(const hf_reader *hf, const char *ours, double otherwise)
{
    double value;
    return luo_doc_real(ours_at(hf, ours), &value) ? value : otherwise;
}

/* ---- the config ---- */

const luo_doc_node *hf_use(hf_reader *hf, const char *key)
{
    int i = 0;
    for (const luo_doc_node *node = hf->config->first; node; node = node->next, i++)
        if (strcmp(node->key, key) == 0) {
            hf->used[i] = true;
            return node;
        }
    return NULL;
}

bool hf_is_null(const luo_doc_node *node)
{
    return !node || luo_doc_is(node, "null");
}

const char *hf_text(const luo_doc_node *node)
{
    return node && node->quoted ? node->text : NULL;
}

bool hf_flag(hf_reader *hf, const char *key, bool otherwise)
{
    const luo_doc_node *node = hf_use(hf, key);
    return hf_is_null(node) ? otherwise : luo_doc_is(node, "true");
}

void hf_refuse(hf_reader *hf, const luo_doc_node *at, const char *why)
{
    luo_doc_error(hf->doc, at, "`%s` is not supported: %s.", at->key, why);
}

static bool given_by_set(const hf_reader *hf, const char *ours)
{
    const size_t n = strlen(ours);
    if (hf->overrides && hf->overrides->dtype && strcmp(ours, "dtype") == 0) return true;
    for (int32_t i = 0; hf->overrides && i < hf->overrides->n; i++) {
        const char *set = luo_doc_override(hf->overrides, i);
        if (set && strncmp(set, ours, n) == 0 && set[n] == '=') return true;
    }
    return false;
}

static void take(hf_reader *hf, const luo_doc_node *node, const hf_key *key)
{
    double number;
    if (hf_is_null(node)) {
        if (key->standard == HF_NEEDED && !given_by_set(hf, key->ours))
            luo_doc_error(hf->doc, NULL,
                          "key `%s` is missing, and no class default is known for a `%s`; add it "
                          "to the file.",
                          key->theirs, hf->type->type);
        else if (!node && key->standard && key->standard != HF_NEEDED)
            hf_put(hf, key->ours, key->standard, false, NULL);
    } else if (luo_doc_is(node, "true") || luo_doc_is(node, "false") ||
               luo_doc_real(node, &number)) {
        hf_put(hf, key->ours, node->text, false, node);
    } else {
        luo_doc_error(hf->doc, node, "`%s` is no number and no boolean; one is expected.",
                      key->theirs);
    }
}

void hf_take(hf_reader *hf, const hf_key *key)
{
    take(hf, hf_use(hf, key->theirs), key);
}

void hf_take_in(hf_reader *hf, const luo_doc_node *map, const hf_key *key)
{
    take(hf, luo_doc_get(map, key->theirs), key);
}

void hf_expect(hf_reader *hf, const char *key, const char *begin, bool whole, const char *why)
{
    const luo_doc_node *node = hf_use(hf, key);
    const char *v = hf_text(node);
    if (v && strncmp(v, begin, strlen(begin) + whole) != 0) hf_refuse(hf, node, why);
}

void hf_expect_flag(hf_reader *hf, const char *key, bool good, const char *why)
{
    const luo_doc_node *node = hf_use(hf, key);
    if (luo_doc_is(node, good ? "false" : "true")) hf_refuse(hf, node, why);
}

/* ---- what all types have ---- */

static void take_dtype(hf_reader *hf)
{
    static const char *const words[][2] = {
        {"bfloat16", "bf16"}, {"float32", "f32"}, {"float64", "f64"}};
    const luo_doc_node *quantized = hf_use(hf, "quantization_config");
    const luo_doc_node *node = hf_use(hf, "torch_dtype"), *newer = hf_use(hf, "dtype");
    const bool given = given_by_set(hf, "dtype");
    if (!node) node = newer;
    const char *v = hf_text(node);
    if (!hf_is_null(quantized) && !given)
        hf_refuse(hf, quantized,
                  "weights are bf16, f32 or f64; give --dtype bf16 for what they were before");
    for (size_t i = 0; v && i < LUO_DOC_COUNT(words); i++)
        if (strcmp(v, words[i][0]) == 0) {
            hf_put(hf, "dtype", words[i][1], true, node);
            return;
        }
    if (v && !given)
        luo_doc_error(hf->doc, node,
                      "`%s` is `%.60s`, and weights are bf16, f32 or f64; give --dtype bf16.",
                      node->key, v);
}

/* "a=1 b=word" */
static void put_fixed(hf_reader *hf, const char *fixed)
{
    char ours[48], text[24];
    int n;
    for (; fixed && sscanf(fixed, " %47[^= ]=%23s%n", ours, text, &n) == 2; fixed += n) {
        const bool word = isalpha((unsigned char)text[0]) && strcmp(text, "true") != 0 &&
                          strcmp(text, "false") != 0;
        hf_put(hf, ours, text, word, NULL);
    }
}

static void say_types(luo_str *text, bool experts)
{
    const char *names[64];
    int n = 0;
    for (int i = 0; i < hf_ntypes && n < 64; i++)
        if (!experts || strcmp(hf_types[i].family, "moe") == 0) names[n++] = hf_types[i].type;
    luo_words_choices(text, names, n);
}

/* A dense type computes without them, and would be another model. */
static void refuse_experts(hf_reader *hf)
{
    static const char *const keys[] = {"num_local_experts", "num_experts", "n_routed_experts",
                                       "moe_num_experts", "moe_intermediate_size"};
    for (size_t i = 0; i < LUO_DOC_COUNT(keys); i++) {
        const luo_doc_node *node = luo_doc_get(hf->config, keys[i]);
        luo_str text = {0};
        double n;
        if (hf_is_null(node) || (luo_doc_real(node, &n) && n <= 1)) continue;
        say_types(&text, true);
        luo_doc_error_key(hf->doc, node,
                          "`%s` is a key of models with experts, and a `%s` has none; `model_type` "
                          "%s has them.",
                          keys[i], hf->type->type, luo_str_get(&text));
        luo_str_free(&text);
        return;
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

/* ---- the type ---- */

static bool same_digits(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a && !isdigit((unsigned char)*a)) a++;
        while (*b && !isdigit((unsigned char)*b)) b++;
        if (*a != *b) return false;
        if (!*a) return true;
    }
}

/* One letter is wrong: another number, or a part of the name, is another model. */
static const char *misspelt(const char *type)
{
    for (int i = 0; i < hf_ntypes; i++)
        if (strlen(type) > 3 && luo_word_distance(type, hf_types[i].type, 1) == 1 &&
            same_digits(type, hf_types[i].type))
            return hf_types[i].type;
    return NULL;
}

static void unknown_type(hf_reader *hf, const luo_doc_node *said, const char *type)
{
    const char *meant = misspelt(type);
    luo_str text = {0};
    say_types(&text, false);
    if (strncmp(type, "mllama", 6) == 0)
        luo_doc_error(hf->doc, said,
                      "`model_type` is `%.60s`, whose layers of cross attention read an encoder of "
                      "images; no part of it is a model of text alone.",
                      type);
    else if (!hf_is_null(luo_doc_get(hf->config, "text_config")))
        luo_doc_error(hf->doc, said,
                      "`model_type` is `%.60s`, a model of text beside other encoders; give what "
                      "stands under `text_config` as a file of its own, if that is of type %s.",
                      type, luo_str_get(&text));
    else if (meant)
        luo_doc_error(hf->doc, said, "`model_type` is `%.60s`; did you mean `%s`? %s is expected.",
                      type, meant, luo_str_get(&text));
    else
        luo_doc_error(hf->doc, said, "`model_type` is `%.60s`; %s is expected.", type,
                      luo_str_get(&text));
    luo_str_free(&text);
}

luo_status luo_read_hf_model(luo_doc *doc, const luo_overrides *overrides)
{
    hf_reader reader = {.doc = doc, .config = doc->root, .overrides = overrides};
    reader.used = LUO_NEW_N(doc->arena, bool, reader.config->n);
    if (!reader.used) return luo_doc_nomem(doc);
    const luo_doc_node *said = hf_use(&reader, "model_type");
    const char *type = hf_text(said), *path = hf_text(hf_use(&reader, "_name_or_path"));
    doc->root = NULL;
    for (int i = 0; i < hf_ntypes; i++)
        if (type && strcmp(hf_types[i].type, type) == 0) reader.type = &hf_types[i];
    if (!reader.type) {
        unknown_type(&reader, said, type ? type : "");
        return LUO_EINPUT;
    }
    doc->root = LUO_NEW(doc->arena, luo_doc_node);
    if (!doc->root) return luo_doc_nomem(doc);
    *doc->root = (luo_doc_node){.type = LUO_DOC_MAP, .text = "", .line = 1, .col = 1};
    const char *slash = path ? strrchr(path, '/') : NULL;
    hf_put(&reader, "schema", "luoshu.model/1", true, NULL);
    hf_put(&reader, "name",
           slash && slash[1] ? slash + 1
           : path && *path   ? path
                             : type,
           true, NULL);
    hf_put(&reader, "family", reader.type->family, true, said);
    hf_put(&reader, "model_type", type, true, said);
    for (int i = 0; i < reader.type->nkeys; i++) hf_take(&reader, &reader.type->keys[i]);
    put_fixed(&reader, reader.type->fixed);
    take_dtype(&reader);
    if (strcmp(reader.type->family, "moe") != 0) refuse_experts(&reader);
    reader.type->rest(&reader);
    list_unused(&reader);
    return doc->st;
}

void luo_read_hf_check(luo_doc *doc, const luo_doc_node *type, luo_family family)
{
    const char *names[64];
    int n = 0;
    luo_str text = {0};
    for (int i = 0; i < hf_ntypes && n < 64; i++) {
        if (strcmp(hf_types[i].family, luo_family_desc_of(family)->name) != 0) continue;
        if (strcmp(hf_types[i].type, type->text) == 0) return;
        names[n++] = hf_types[i].type;
    }
    if (n) luo_words_choices(&text, names, n);
    luo_doc_error(doc, type, "`model_type` is `%.60s`; %s is expected for a `%s`.", type->text,
                  n ? luo_str_get(&text) : "none", luo_family_desc_of(family)->name);
    luo_str_free(&text);
}
