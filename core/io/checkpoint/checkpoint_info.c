#include "core/io/checkpoint/checkpoint_info.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/document/json.h"
#include "core/io/jsonw.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

/* ---- what decides the numbers of a model ---- */

typedef enum field_kind { WHOLE, SWITCH, WORD, REAL } field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    size_t at; /* in luo_model */
    const char *const *words;
    int nwords;
} field;

static const char *const families[] = {"llama", "gpt", "bert", "vit", "vgg", "moe"};
static const char *const norms[] = {"rmsnorm", "layernorm"};
static const char *const activations[] = {"swiglu", "gelu"};
static const char *const positions[] = {"rope", "learned"};

#define FIELD(name, kind)                                                                          \
    {                                                                                              \
#name, kind, offsetof(luo_model, name), NULL, 0                                            \
    }
#define WORDS(name, words)                                                                         \
    {                                                                                              \
#name, WORD, offsetof(luo_model, name), words, COUNT(words)                                \
    }
static const field fields[] = {
    WORDS(family, families),    FIELD(layers, WHOLE),    FIELD(hidden, WHOLE),
    FIELD(ffn_hidden, WHOLE),   FIELD(heads, WHOLE),     FIELD(kv_heads, WHOLE),
    FIELD(head_dim, WHOLE),     FIELD(vocab, WHOLE),     FIELD(tied_embeddings, SWITCH),
    FIELD(linear_bias, SWITCH), FIELD(qkv_bias, SWITCH), FIELD(qk_norm, SWITCH),
    FIELD(causal, SWITCH),      WORDS(norm, norms),      WORDS(activation, activations),
    WORDS(position, positions), FIELD(norm_eps, REAL),   FIELD(rope_base, REAL),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

/* Every word is an enum, whose type the platform gives the size of an int. */
static int word_of(const field *f, const luo_model *m)
{
    int v;
    memcpy(&v, (const char *)m + f->at, sizeof v);
    return v;
}

static void print(const field *f, const luo_model *m, char *buf, size_t size)
{
    const void *at = (const char *)m + f->at;
    const int word = f->kind == WORD ? word_of(f, m) : 0;
    switch (f->kind) {
    case WHOLE:
        snprintf(buf, size, "%" PRId64, *(const int64_t *)at);
        break;
    case SWITCH:
        snprintf(buf, size, "%s", *(const bool *)at ? "true" : "false");
        break;
    case WORD:
        snprintf(buf, size, "%s", word < f->nwords ? f->words[word] : "?");
        break;
    case REAL:
        snprintf(buf, size, "%.17g", *(const double *)at);
        break;
    }
}

luo_status luo_checkpoint_same_model(const luo_model *written, const luo_model *mine, luo_err *err)
{
    char theirs[40], ours[40];
    for (int i = 0; i < FIELDS; i++) {
        print(&fields[i], written, theirs, sizeof theirs);
        print(&fields[i], mine, ours, sizeof ours);
        if (strcmp(theirs, ours) == 0) continue;
        return luo_err_set(err, LUO_EINPUT,
                           "the checkpoint is of model `%s` with `%s` %s; %s is expected for "
                           "model `%s`.",
                           written->name, fields[i].key, theirs, ours, mine->name);
    }
    return LUO_OK;
}

/* ---- writing ---- */

static void write_model(luo_jsonw *w, const luo_model *m)
{
    char text[40];
    luo_jsonw_open(w, "model", '{');
    luo_jsonw_text(w, "name", m->name);
    for (int i = 0; i < FIELDS; i++) {
        const void *at = (const char *)m + fields[i].at;
        print(&fields[i], m, text, sizeof text);
        if (fields[i].kind == WHOLE)
            luo_jsonw_int(w, fields[i].key, *(const int64_t *)at);
        else if (fields[i].kind == SWITCH)
            luo_jsonw_bool(w, fields[i].key, *(const bool *)at);
        else
            luo_jsonw_text(w, fields[i].key, text);
    }
    luo_jsonw_close(w);
}

void luo_checkpoint_info_json(luo_str *out, const luo_checkpoint_info *info)
{
    luo_jsonw w = luo_jsonw_start(out);
    luo_jsonw_open(&w, NULL, '{');
    luo_jsonw_text(&w, "schema", "luoshu.checkpoint/1");
    luo_jsonw_int(&w, "step", info->step);
    luo_jsonw_seed(&w, "seed", info->seed);
    luo_jsonw_text(&w, "data", info->data);
    luo_jsonw_text(&w, "precision", info->precision);
    luo_jsonw_hash(&w, "plan", info->plan_hash);
    write_model(&w, &info->model);
    luo_jsonw_close(&w);
}

/* ---- reading ---- */

/* A number of 64 bits as text of a base; 0 with an error if it is none. */
static uint64_t number(luo_json *j, const luo_json_at *at, const char *text, int base,
                       const char *expected)
{
    char *end = NULL;
    const uint64_t v = text && *text ? strtoull(text, &end, base) : 0;
    if (!end || *end || text[0] == '-' || text[0] == '+' || text[0] == ' ')
        luo_json_error(j, at, false, "`%s` is no such number; %s is expected.", at->key, expected);
    return v;
}

static uint64_t read_seed(luo_json *j, const luo_json_at *root)
{
    const luo_json_at at = luo_json_in(root, "seed");
    if (json_is_integer(at.v) && json_integer_value(at.v) >= 0)
        return (uint64_t)json_integer_value(at.v);
    return number(j, &at, json_string_value(at.v), 10, "a whole number from 0");
}

static double read_real(luo_json *j, const luo_json_at *up, const char *key)
{
    const luo_json_at at = luo_json_in(up, key);
    const char *text = json_string_value(at.v);
    double v = 0;
    if (!text || !luo_number_float(text, strlen(text), &v))
        luo_json_error(j, &at, false, "`%s` is no text of a number; one is expected.", key);
    return v;
}

static void read_model(luo_json *j, const luo_json_at *root, luo_model *m)
{
    luo_json_key keys[FIELDS + 1] = {{"name", true}};
    const luo_json_at at = luo_json_in(root, "model");
    for (int i = 0; i < FIELDS; i++) keys[i + 1] = (luo_json_key){fields[i].key, true};
    if (!luo_json_keys(j, &at, keys, COUNT(keys))) return;
    m->name = luo_json_text(j, &at, "name", "");
    for (int i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        void *to = (char *)m + f->at;
        int word;
        switch (f->kind) {
        case WHOLE:
            *(int64_t *)to = luo_json_int(j, &at, f->key, 0, 1e12, 0);
            break;
        case SWITCH:
            *(bool *)to = luo_json_bool(j, &at, f->key, false);
            break;
        case REAL:
            *(double *)to = read_real(j, &at, f->key);
            break;
        case WORD:
            word = luo_json_word(j, &at, f->key, f->words, f->nwords, 0);
            memcpy(to, &word, sizeof word);
            break;
        }
    }
}

static void read_info(luo_json *j, const luo_json_at *root, luo_checkpoint_info *out)
{
    static const luo_json_key keys[] = {{"schema", true}, {"step", true},      {"seed", true},
                                        {"data", true},   {"precision", true}, {"plan", true},
                                        {"model", true}};
    static const char *const precisions[] = {"f32", "f64"};
    if (!luo_json_schema(j, root, "checkpoint") || !luo_json_keys(j, root, keys, COUNT(keys)))
        return;
    const luo_json_at plan = luo_json_in(root, "plan");
    out->step = luo_json_int(j, root, "step", 0, 9e15, 0);
    out->seed = read_seed(j, root);
    out->data = luo_json_text(j, root, "data", "");
    out->precision = precisions[luo_json_word(j, root, "precision", precisions, 2, 0)];
    out->plan_hash = number(j, &plan, json_string_value(plan.v), 16, "a hash of 16 digits");
    read_model(j, root, &out->model);
}

luo_status luo_read_checkpoint_info_text(luo_arena *arena, const luo_source *src,
                                         luo_checkpoint_info *out, luo_err *err)
{
    luo_diags diags;
    luo_checkpoint_info info = {0};
    luo_diags_init(&diags, arena);
    luo_json j = {.arena = arena, .src = src, .diags = &diags};
    json_t *v = luo_json_load(&j);
    const luo_json_at root = {NULL, NULL, 0, v};
    if (v) read_info(&j, &root, &info);
    json_decref(v);
    if (j.st == LUO_OK)
        *out = info;
    else if (err && diags.first)
        *err = diags.first->err;
    return j.st;
}

luo_status luo_read_checkpoint_info(luo_arena *arena, const char *path, luo_checkpoint_info *out,
                                    luo_err *err)
{
    luo_source src;
    LUO_TRY(luo_read_text(arena, path, &src, err));
    return luo_read_checkpoint_info_text(arena, &src, out, err);
}
