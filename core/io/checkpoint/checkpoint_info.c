#include "core/io/checkpoint/checkpoint_info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/document/doc_table.h"
#include "core/io/jsonw.h"

typedef struct info_json {
    const char *schema;
    luo_checkpoint_info info;
} info_json;

/* ---- what decides the numbers of a model ---- */

static const luo_doc_word families[] = {
#define LUO_FAMILY(kind, name, ...) {name, LUO_FAMILY_##kind},
#include "core/graph/families.inc"
#undef LUO_FAMILY
};
static const luo_doc_word norms[] = {LUO_NORM_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word activations[] = {LUO_ACTIVATION_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word positions[] = {LUO_POSITION_LIST(LUO_DOC_WORD_ROW){"none", LUO_POS_NONE}};
static const luo_doc_word ropes[] = {LUO_ROPE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word gates[] = {LUO_GATE_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word precisions[] = {{"f32", 0}, {"f64", 0}};

#define WHOLE(name) LUO_DOC_INT(#name, LUO_DOC_REQ, luo_model, name, LUO_WITHIN(0, 1e12), NULL)
#define FLAG(name) LUO_DOC_BOOL(#name, LUO_DOC_REQ, luo_model, name, NULL)
#define WORD(name, words) LUO_DOC_ENUM(#name, LUO_DOC_REQ, luo_model, name, words, NULL)
/* All digits of it, as text. */
#define REAL(name)                                                                                 \
    LUO_DOC_FIELD(#name, LUO_DOC_REQ, luo_model, name, NULL, .form = LUO_DOC_REAL, .as_text = true)
/* Of those behind, only what is given is written: most models, and older files, have none. */
#define FIRST_GIVEN "parallel_residual"
#define GIVEN_FLAG(name) LUO_DOC_BOOL(#name, LUO_DOC_OPT, luo_model, name, NULL)
#define GIVEN_REAL(key, member)                                                                    \
    LUO_DOC_FIELD(key, LUO_DOC_OPT, luo_model, member, NULL, .form = LUO_DOC_REAL, .as_text = true)
#define GIVEN_WHOLE(key, member)                                                                   \
    LUO_DOC_INT(key, LUO_DOC_OPT, luo_model, member, LUO_WITHIN(0, 1e12), NULL)
#define GIVEN_LIST(key, member)                                                                    \
    LUO_DOC_SEQ(key, LUO_DOC_OPT, luo_model, member.at, member.n, factors_entry, 1, NULL)
static const luo_doc_schema factors_entry = {
    .form = LUO_DOC_REAL, .bytes = sizeof(double), .as_text = true};
static const luo_doc_field model_fields[] = {LUO_DOC_TEXT("name", LUO_DOC_REQ, luo_model, name,
                                                          NULL),
                                             WORD(family, families),
                                             WHOLE(layers),
                                             WHOLE(hidden),
                                             WHOLE(ffn_hidden),
                                             WHOLE(heads),
                                             WHOLE(kv_heads),
                                             WHOLE(head_dim),
                                             WHOLE(vocab),
                                             FLAG(tied_embeddings),
                                             FLAG(linear_bias),
                                             LUO_DOC_BOOL("out_bias", LUO_DOC_OPT, luo_model,
                                                          out_bias, NULL),
                                             FLAG(qkv_bias),
                                             FLAG(qk_norm),
                                             FLAG(causal),
                                             WORD(norm, norms),
                                             WORD(activation, activations),
                                             WORD(position, positions),
                                             REAL(norm_eps),
                                             REAL(rope_base),
                                             GIVEN_FLAG(parallel_residual),
                                             GIVEN_FLAG(shared_norm),
                                             GIVEN_FLAG(post_norms),
                                             LUO_DOC_ENUM("rope_scaling", LUO_DOC_OPT, luo_model,
                                                          rope.kind, ropes, NULL),
                                             GIVEN_REAL("rope_factor", rope.factor),
                                             LUO_DOC_INT("rope_original_tokens", LUO_DOC_OPT,
                                                         luo_model, rope.original_tokens,
                                                         LUO_WITHIN(0, 1e12), NULL),
                                             GIVEN_REAL("rope_low_freq", rope.low_freq),
                                             GIVEN_REAL("rope_high_freq", rope.high_freq),
                                             GIVEN_REAL("rope_beta_fast", rope.beta_fast),
                                             GIVEN_REAL("rope_beta_slow", rope.beta_slow),
                                             GIVEN_REAL("rope_attention_factor",
                                                        rope.attention_factor),
                                             GIVEN_LIST("rope_short_factors", rope.short_factors),
                                             GIVEN_LIST("rope_long_factors", rope.long_factors),
                                             GIVEN_REAL("rope_local_base", rope_local_base),
                                             GIVEN_FLAG(norm_offset),
                                             GIVEN_WHOLE("position_offset", position_offset),
                                             GIVEN_REAL("partial_rotary", partial_rotary),
                                             GIVEN_REAL("embedding_scale", embedding_scale),
                                             GIVEN_REAL("attention_scale", attention_scale),
                                             GIVEN_REAL("attention_softcap", attention_softcap),
                                             GIVEN_REAL("logit_softcap", logit_softcap),
                                             GIVEN_WHOLE("window_tokens", window.tokens),
                                             GIVEN_WHOLE("window_first_layer", window.first),
                                             GIVEN_WHOLE("window_every_layers", window.every),
                                             GIVEN_WHOLE("window_layers_each", window.each),
                                             GIVEN_WHOLE("experts", moe.experts),
                                             GIVEN_WHOLE("experts_per_token",
                                                         moe.experts_per_token),
                                             GIVEN_WHOLE("expert_ffn_hidden",
                                                         moe.expert_ffn_hidden),
                                             GIVEN_WHOLE("shared_experts", moe.shared_experts),
                                             GIVEN_WHOLE("shared_ffn_hidden",
                                                         moe.shared_ffn_hidden),
                                             GIVEN_WHOLE("first_dense_layers",
                                                         moe.first_dense_layers),
                                             GIVEN_WHOLE("expert_every_layers", moe.every_layers),
                                             LUO_DOC_ENUM("gate", LUO_DOC_OPT, luo_model, moe.gate,
                                                          gates, NULL),
                                             LUO_DOC_BOOL("renorm", LUO_DOC_OPT, luo_model,
                                                          moe.renorm, NULL),
                                             LUO_DOC_BOOL("shared_gate", LUO_DOC_OPT, luo_model,
                                                          moe.shared_gate, NULL),
                                             GIVEN_REAL("routed_scale", moe.routed_scale),
                                             GIVEN_WHOLE("route_groups", moe.route_groups),
                                             GIVEN_WHOLE("route_groups_kept",
                                                         moe.route_groups_kept),
                                             GIVEN_WHOLE("q_lora_rank", latent.q_lora),
                                             GIVEN_WHOLE("kv_lora_rank", latent.kv_lora),
                                             GIVEN_WHOLE("qk_nope_head_dim", latent.nope),
                                             GIVEN_WHOLE("qk_rope_head_dim", latent.rope),
                                             GIVEN_WHOLE("v_head_dim", latent.v),
                                             LUO_DOC_END};

static const luo_doc_field fields[] = {
    LUO_DOC_TEXT("schema", LUO_DOC_REQ, info_json, schema, NULL),
    LUO_DOC_INT("step", LUO_DOC_REQ, info_json, info.step, LUO_WITHIN(0, 9e15), NULL),
    LUO_DOC_FIELD("seed", LUO_DOC_REQ, info_json, info.seed, NULL, .form = LUO_DOC_SEED),
    LUO_DOC_TEXT("data", LUO_DOC_REQ, info_json, info.data, NULL),
    LUO_DOC_FIELD("precision", LUO_DOC_REQ, info_json, info.precision, NULL, .form = LUO_DOC_STRING,
                  LUO_DOC_WORDS(precisions)),
    LUO_DOC_FIELD("plan", LUO_DOC_REQ, info_json, info.plan_hash, NULL, .form = LUO_DOC_HASH),
    LUO_DOC_MAPPING("model", LUO_DOC_REQ, info_json, info.model, model_fields, NULL, NULL),
    LUO_DOC_END};
static const luo_doc_schema schema = LUO_DOC_STRUCT_OF(info_json, fields, NULL);
static const luo_doc_kind kind = {"checkpoint", &schema};

/* Every word is an enum, whose type the platform gives the size of an int. */
static const char *word_of(const luo_doc_schema *s, const void *at)
{
    int v;
    memcpy(&v, at, sizeof v);
    for (int i = 0; i < s->nwords; i++)
        if (s->words[i].value == v) return s->words[i].text;
    return "?";
}

/* 0 says the same as 1 of these: nothing is changed. */
static bool is_neutral(const char *key, const char *text)
{
    static const char *const keys[] = {"partial_rotary", "embedding_scale", "routed_scale",
                                       "route_groups", "route_groups_kept", "expert_every_layers"};
    for (size_t i = 0; i < LUO_DOC_COUNT(keys); i++)
        if (strcmp(keys[i], key) == 0) return strcmp(text, "1") == 0;
    return false;
}

/* Of rotary positions: the lists of this model that are written. */
static luo_rope_factors list_of(const luo_doc_field *field, const luo_model *model)
{
    luo_rope_factors list;
    memcpy(&list.at, (const char *)model + field->value.list_at, sizeof list.at);
    memcpy(&list.n, (const char *)model + field->value.count_at, sizeof list.n);
    return list;
}

/* A list by its hash. */
static void print_list(luo_rope_factors list, char *buf, size_t size)
{
    const uint64_t hash = luo_hash_bytes(LUO_HASH_EMPTY, list.at, (size_t)list.n * sizeof *list.at);
    if (list.n > 0)
        snprintf(buf, size, "list %016" PRIx64, hash);
    else
        snprintf(buf, size, "none");
}

static void print_value(const luo_doc_field *field, const luo_model *model, char *buf, size_t size)
{
    const void *at = (const char *)model + field->at;
    if (field->value.form == LUO_DOC_LIST_OF)
        print_list(list_of(field, model), buf, size);
    else if (field->value.form == LUO_DOC_WHOLE)
        snprintf(buf, size, "%" PRId64, *(const int64_t *)at);
    else if (field->value.form == LUO_DOC_FLAG)
        snprintf(buf, size, "%s", *(const bool *)at ? "true" : "false");
    else if (field->value.form == LUO_DOC_WORD)
        snprintf(buf, size, "%s", word_of(&field->value, at));
    else if (field->value.form == LUO_DOC_REAL)
        snprintf(buf, size, "%.17g", *(const double *)at);
}

static void print(const luo_doc_field *field, const luo_model *model, char *buf, size_t size)
{
    print_value(field, model, buf, size);
    if (is_neutral(field->key, buf)) snprintf(buf, size, "0");
}

bool luo_checkpoint_model_value(const luo_model *model, const char *key, char *buf, size_t size)
{
    for (const luo_doc_field *field = model_fields + 1; field->key; field++) {
        if (strcmp(field->key, key) != 0) continue;
        print_value(field, model, buf, size);
        if (field->value.form != LUO_DOC_REAL) return true;
        double v;
        memcpy(&v, (const char *)model + field->at, sizeof v);
        if (v == 0) snprintf(buf, size, "null");
        for (int digits = 1; v != 0 && digits <= 17; digits++) {
            snprintf(buf, size, "%.*g", digits, v);
            if (strtod(buf, NULL) == v) break;
        }
        return true;
    }
    return false;
}

luo_status luo_checkpoint_older(const char *what, luo_err *err)
{
    return luo_err_set(err, LUO_EINPUT,
                       "%s, as luoshu wrote it before it had the names of Hugging Face types; "
                       "convert it as docs/formats.md#older-checkpoints says, or go on with the "
                       "luoshu that wrote it.",
                       what);
}

luo_status luo_checkpoint_same_model(const luo_model *written, const luo_model *mine, luo_err *err)
{
    char theirs[40], ours[40];
    if (written->family == LUO_FAMILY_MOE && mine->family == LUO_FAMILY_MOE &&
        written->moe.experts == 0)
        return luo_checkpoint_older("the checkpoint says no `experts` of its model", err);
    for (const luo_doc_field *field = model_fields + 1; field->key;
         field++) { /* names may differ */
        print(field, written, theirs, sizeof theirs);
        print(field, mine, ours, sizeof ours);
        if (strcmp(theirs, ours) == 0) continue;
        return luo_err_set(err, LUO_EINPUT,
                           "the checkpoint is of model `%s` with `%s` %s; %s is expected for "
                           "model `%s`.",
                           written->name, field->key, theirs, ours, mine->name);
    }
    return LUO_OK;
}

/* ---- writing ---- */

static void write_list(luo_jsonw *json, const char *key, luo_rope_factors list)
{
    luo_jsonw_open(json, key, '[');
    for (int32_t i = 0; i < list.n; i++) {
        char text[40];
        snprintf(text, sizeof text, "%.17g", list.at[i]);
        luo_jsonw_text(json, NULL, text);
    }
    luo_jsonw_close(json);
}

static void write_model(luo_jsonw *json, const luo_model *model)
{
    static const luo_model none = {0};
    char text[40], nothing[40];
    bool given_only = false;
    luo_jsonw_open(json, "model", '{');
    luo_jsonw_text(json, "name", model->name);
    for (const luo_doc_field *field = model_fields + 1; field->key; field++) {
        print(field, model, text, sizeof text);
        print(field, &none, nothing, sizeof nothing);
        given_only |= strcmp(field->key, FIRST_GIVEN) == 0;
        if (given_only && strcmp(text, nothing) == 0) continue;
        if (field->value.form == LUO_DOC_LIST_OF)
            write_list(json, field->key, list_of(field, model));
        else if (field->value.form == LUO_DOC_WHOLE || field->value.form == LUO_DOC_FLAG)
            luo_jsonw_word(json, field->key, text);
        else
            luo_jsonw_text(json, field->key, text);
    }
    luo_jsonw_close(json);
}

void luo_checkpoint_info_json(luo_str *out, const luo_checkpoint_info *info)
{
    luo_jsonw json = luo_jsonw_start(out);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", "luoshu.checkpoint/1");
    luo_jsonw_int(&json, "step", info->step);
    luo_jsonw_seed(&json, "seed", info->seed);
    luo_jsonw_text(&json, "data", info->data);
    luo_jsonw_text(&json, "precision", info->precision);
    luo_jsonw_hash(&json, "plan", info->plan_hash);
    write_model(&json, &info->model);
    luo_jsonw_close(&json);
}

/* ---- reading ---- */

luo_status luo_checkpoint_info_read_text(luo_arena *arena, const luo_source *src,
                                         luo_checkpoint_info *out, luo_err *err)
{
    luo_diags diags;
    luo_doc doc = {.arena = arena, .src = src, .diags = &diags};
    void *data = NULL;
    luo_diags_init(&diags, arena);
    luo_doc_parse_json(&doc);
    luo_doc_check(&doc, &kind);
    if (doc.st == LUO_OK) luo_doc_load(&doc, &schema, &data);
    if (doc.st == LUO_OK) {
        *out = ((const info_json *)data)->info;
        /* older files have one word for all biases but those of q, k and v */
        if (!luo_doc_get(luo_doc_get(doc.root, "model"), "out_bias"))
            out->model.out_bias = out->model.linear_bias && out->model.heads > 0;
    } else if (err && diags.first) {
        *err = diags.first->err;
    }
    return doc.st;
}

luo_status luo_checkpoint_info_read(luo_arena *arena, const char *path, luo_checkpoint_info *out,
                                    luo_err *err)
{
    luo_source src;
    LUO_TRY(luo_source_read(arena, path, &src, err));
    return luo_checkpoint_info_read_text(arena, &src, out, err);
}
