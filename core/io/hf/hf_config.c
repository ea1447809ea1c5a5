/* hf_config.c: the config.json of a model, by the table that reads it. It is read again, and used
 * only if that gives the same model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/checkpoint/checkpoint_info.h"
#include "core/io/hf/hf.h"
#include "core/io/hf/hf_layout.h"
#include "core/io/jsonw.h"
#include "core/io/read/read.h"

typedef struct writer {
    luo_jsonw *json;
    const luo_model *model;
    const char *type;
} writer;

static bool is_type(const writer *w, const char *type)
{
    return strcmp(w->type, type) == 0;
}

/* ---- what is no plain key ---- */

/* YaRN of latent attention, which sharpens scores by (0.1 mscale_all_dim log factor + 1)^2. */
static void write_sharpness(const writer *w)
{
    const luo_model *model = w->model;
    const double by = model->attention_scale * sqrt((double)model->head_dim);
    char text[40];
    if (model->attention_scale == 0 || !luo_model_is_latent(model) || model->rope.factor <= 1)
        return;
    snprintf(text, sizeof text, "%.12g", (sqrt(by) - 1) / (0.1 * log(model->rope.factor)));
    luo_jsonw_word(w->json, "mscale_all_dim", text);
}

static void write_factors(const writer *w, const char *key, const luo_rope_factors *factors)
{
    if (factors->n == 0) return;
    luo_jsonw_open(w->json, key, '[');
    for (int32_t i = 0; i < factors->n; i++) {
        char text[40];
        snprintf(text, sizeof text, "%.17g", factors->at[i]);
        luo_jsonw_word(w->json, NULL, text);
    }
    luo_jsonw_close(w->json);
}

/* As Phi3Config wants it: the length before beside a map of three keys. */
static void write_longrope(const writer *w)
{
    const luo_rope_scaling *scaling = &w->model->rope;
    char text[40];
    luo_jsonw_int(w->json, "original_max_position_embeddings", scaling->original_tokens);
    luo_jsonw_open(w->json, "rope_scaling", '{');
    luo_jsonw_text(w->json, "type", luo_rope_kind_name(scaling->kind));
    write_factors(w, "short_factor", &scaling->short_factors);
    write_factors(w, "long_factor", &scaling->long_factors);
    snprintf(text, sizeof text, "%.15g", scaling->attention_factor);
    if (scaling->attention_factor > 0) luo_jsonw_word(w->json, "attention_factor", text);
    luo_jsonw_close(w->json);
}

static void write_scaling(const writer *w)
{
    const luo_rope_scaling *scaling = &w->model->rope;
    const struct {
        const char *key;
        double value;
    } keys[] = {{"factor", scaling->factor},
                {"original_max_position_embeddings", (double)scaling->original_tokens},
                {"low_freq_factor", scaling->low_freq},
                {"high_freq_factor", scaling->high_freq},
                {"beta_fast", scaling->beta_fast},
                {"beta_slow", scaling->beta_slow},
                {"attention_factor", scaling->attention_factor}};
    if (scaling->kind == LUO_ROPE_PLAIN) return;
    if (scaling->kind == LUO_ROPE_LONGROPE) {
        write_longrope(w);
        return;
    }
    luo_jsonw_open(w->json, "rope_scaling", '{');
    luo_jsonw_text(w->json, "rope_type", luo_rope_kind_name(scaling->kind));
    for (size_t i = 0; i < LUO_DOC_COUNT(keys); i++) {
        char text[40];
        snprintf(text, sizeof text, "%.15g", keys[i].value);
        if (keys[i].value > 0) luo_jsonw_word(w->json, keys[i].key, text);
    }
    write_sharpness(w);
    luo_jsonw_close(w->json);
}

static void write_window(const writer *w, const char *key)
{
    if (w->model->window.tokens > 0)
        luo_jsonw_int(w->json, key, w->model->window.tokens);
    else
        luo_jsonw_word(w->json, key, "null");
}

static void write_rest_llama(const writer *w)
{
    luo_jsonw_text(w->json, "hidden_act", "silu");
    write_scaling(w);
}

static void write_rest_mistral(const writer *w)
{
    write_rest_llama(w);
    write_window(w, "sliding_window");
}

static void write_rest_qwen(const writer *w)
{
    const luo_window *window = &w->model->window;
    write_rest_llama(w);
    luo_jsonw_bool(w->json, "use_sliding_window", window->tokens > 0);
    if (window->tokens == 0) return;
    write_window(w, "sliding_window");
    luo_jsonw_int(w->json, "max_window_layers", window->first);
}

static void write_rest_qwen_moe(const writer *w)
{
    const luo_moe *moe = &w->model->moe;
    const int64_t every = moe->every_layers > 1 ? moe->every_layers : 1;
    write_rest_qwen(w);
    luo_jsonw_int(w->json, "decoder_sparse_step", every);
    luo_jsonw_open(w->json, "mlp_only_layers", '[');
    for (int64_t l = 0; every == 1 && l < moe->first_dense_layers; l++)
        luo_jsonw_int(w->json, NULL, l);
    luo_jsonw_close(w->json);
}

static void write_rest_deepseek(const writer *w)
{
    const luo_moe *moe = &w->model->moe;
    const bool v3 = is_type(w, "deepseek_v3"), grouped = v3 || moe->route_groups > 1;
    const int64_t heads = w->model->heads;
    write_rest_llama(w);
    luo_jsonw_int(w->json, "num_key_value_heads", heads);
    luo_jsonw_int(w->json, "n_shared_experts", moe->shared_experts);
    luo_jsonw_int(w->json, "moe_layer_freq", 1);
    luo_jsonw_text(w->json, "scoring_func", v3 ? "sigmoid" : "softmax");
    luo_jsonw_text(w->json, "topk_method",
                   v3        ? "noaux_tc"
                   : grouped ? "group_limited_greedy"
                             : "greedy");
    if (v3) luo_jsonw_bool(w->json, "norm_topk_prob", true);
    if (v3 || !grouped) return;
    luo_jsonw_int(w->json, "n_group", moe->route_groups);
    luo_jsonw_int(w->json, "topk_group", moe->route_groups_kept);
}

static void write_rest_gemma(const writer *w)
{
    const luo_model *model = w->model;
    const double by = model->attention_scale;
    char text[40];
    luo_jsonw_text(w->json, "hidden_activation", "gelu_pytorch_tanh");
    write_scaling(w);
    if (is_type(w, "gemma")) return;
    snprintf(text, sizeof text, "%.15g", by > 0 ? 1 / (by * by) : (double)model->head_dim);
    luo_jsonw_word(w->json, "query_pre_attn_scalar", text);
    write_window(w, "sliding_window");
    if (!is_type(w, "gemma3_text")) return;
    luo_jsonw_int(w->json, "sliding_window_pattern", model->window.every);
    snprintf(text, sizeof text, "%.15g", model->rope_local_base);
    if (model->rope_local_base > 0) luo_jsonw_word(w->json, "rope_local_base_freq", text);
}

static const char *gelu_of(const writer *w, const char *by_tanh)
{
    const luo_activation kind = w->model->activation;
    return kind == LUO_ACT_RELU ? "relu" : kind == LUO_ACT_GELU_ERF ? "gelu" : by_tanh;
}

static void write_rest_gpt_neox(const writer *w)
{
    luo_jsonw_text(w->json, "hidden_act", gelu_of(w, "gelu_pytorch_tanh"));
    write_scaling(w);
}

static void write_rest_falcon(const writer *w)
{
    const luo_model *model = w->model;
    const bool one = model->kv_heads == 1 && model->heads > 1;
    const bool newer = !one && model->parallel_residual && model->kv_heads < model->heads;
    luo_jsonw_bool(w->json, "new_decoder_architecture",
                   newer || (model->parallel_residual && !model->shared_norm));
    luo_jsonw_bool(w->json, "multi_query", one);
    luo_jsonw_bool(w->json, "parallel_attn", model->parallel_residual);
    luo_jsonw_int(w->json, "num_kv_heads", model->kv_heads);
    luo_jsonw_int(w->json, "num_ln_in_parallel_attn", model->shared_norm ? 1 : 2);
    luo_jsonw_bool(w->json, "alibi", false);
    luo_jsonw_text(w->json, "activation", gelu_of(w, "gelu_pytorch_tanh"));
    write_scaling(w);
}

static void write_rest_gpt2(const writer *w)
{
    luo_jsonw_text(w->json, "activation_function", gelu_of(w, "gelu_new"));
}

static void write_rest_gpt_neo(const writer *w)
{
    luo_jsonw_text(w->json, "activation_function", gelu_of(w, "gelu_new"));
    luo_jsonw_open(w->json, "attention_types", '[');
    luo_jsonw_open(w->json, NULL, '[');
    luo_jsonw_open(w->json, NULL, '[');
    luo_jsonw_text(w->json, NULL, "global");
    luo_jsonw_text(w->json, NULL, "local");
    luo_jsonw_close(w->json);
    luo_jsonw_int(w->json, NULL, w->model->layers / 2);
    luo_jsonw_close(w->json);
    luo_jsonw_close(w->json);
    write_window(w, "window_size");
}

static void write_rest_opt(const writer *w)
{
    luo_jsonw_text(w->json, "activation_function", gelu_of(w, "gelu_new"));
    luo_jsonw_int(w->json, "word_embed_proj_dim", w->model->hidden);
    luo_jsonw_bool(w->json, "do_layer_norm_before", true);
}

static const struct {
    const char *type, *architecture;
    void (*rest)(const writer *w);
} rows[] = {
    {"llama", "LlamaForCausalLM", write_rest_llama},
    {"mistral", "MistralForCausalLM", write_rest_mistral},
    {"qwen2", "Qwen2ForCausalLM", write_rest_qwen},
    {"qwen3", "Qwen3ForCausalLM", write_rest_qwen},
    {"mixtral", "MixtralForCausalLM", write_rest_mistral},
    {"qwen2_moe", "Qwen2MoeForCausalLM", write_rest_qwen_moe},
    {"qwen3_moe", "Qwen3MoeForCausalLM", write_rest_qwen_moe},
    {"deepseek_v2", "DeepseekV2ForCausalLM", write_rest_deepseek},
    {"deepseek_v3", "DeepseekV3ForCausalLM", write_rest_deepseek},
    {"gemma", "GemmaForCausalLM", write_rest_gemma},
    {"gemma2", "Gemma2ForCausalLM", write_rest_gemma},
    {"gemma3_text", "Gemma3ForCausalLM", write_rest_gemma},
    {"phi3", "Phi3ForCausalLM", write_rest_mistral},
    {"gpt_neox", "GPTNeoXForCausalLM", write_rest_gpt_neox},
    {"falcon", "FalconForCausalLM", write_rest_falcon},
    {"gpt2", "GPT2LMHeadModel", write_rest_gpt2},
    {"gpt_neo", "GPTNeoForCausalLM", write_rest_gpt_neo},
    {"opt", "OPTForCausalLM", write_rest_opt},
};

/* ---- the file ---- */

/* A key of theirs that stands for two of ours is written once; reading tells if they differ. */
static bool is_repeated(const hf_type *type, int at)
{
    for (int i = 0; i < at; i++)
        if (strcmp(type->keys[i].theirs, type->keys[at].theirs) == 0) return true;
    return false;
}

static void write_key(const writer *w, const hf_key *key)
{
    char text[40];
    const char *dot = strchr(key->ours, '.');
    if (strcmp(key->ours, "max_sequence_tokens") == 0)
        luo_jsonw_int(w->json, key->theirs, w->model->max_sequence_tokens);
    else if (luo_checkpoint_model_value(w->model, dot ? dot + 1 : key->ours, text, sizeof text))
        luo_jsonw_word(w->json, key->theirs,
                       strcmp(key->ours, "attention.q_lora_rank") == 0 && strcmp(text, "0") == 0
                           ? "null"
                           : text);
}

static void write_config(const hf_type *type, const luo_model *model, luo_dtype weights,
                         luo_str *out)
{
    luo_jsonw json = luo_jsonw_start(out);
    const writer w = {&json, model, type->type};
    luo_jsonw_open(&json, NULL, '{');
    for (size_t i = 0; i < LUO_DOC_COUNT(rows); i++) {
        if (!is_type(&w, rows[i].type)) continue;
        luo_jsonw_open(&json, "architectures", '[');
        luo_jsonw_text(&json, NULL, rows[i].architecture);
        luo_jsonw_close(&json);
        luo_jsonw_text(&json, "model_type", type->type);
        luo_jsonw_text(&json, "torch_dtype", weights == LUO_F64 ? "float64" : "float32");
        for (int k = 0; k < type->nkeys; k++)
            if (!is_repeated(type, k)) write_key(&w, &type->keys[k]);
        rows[i].rest(&w);
    }
    luo_jsonw_close(&json);
}

/* Is a config read as this model? */
static luo_status reads_as(const luo_str *text, const luo_model *model, bool *same, luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_model *read;
    if (!arena) return luo_err_nomem(err);
    luo_diags_init(&diags, arena);
    const luo_source src = {"config.json", luo_str_get(text), text->len};
    const luo_status st = luo_read_model_text(arena, &src, NULL, &read, &diags);
    *same = st == LUO_OK && luo_checkpoint_same_model(read, model, NULL) == LUO_OK &&
            (read->moe.bias_rate > 0) == (model->moe.bias_rate > 0);
    luo_arena_free(arena);
    return st == LUO_ENOMEM ? luo_err_nomem(err) : LUO_OK;
}

static const char *usual_type(const luo_model *model)
{
    if (model->type) return model->type;
    return model->family == LUO_FAMILY_GPT   ? "gpt2"
           : model->family == LUO_FAMILY_MOE ? "deepseek_v3"
                                             : "llama";
}

luo_status luo_hf_config(const luo_model *model, luo_dtype weights, luo_str *out,
                         const luo_hf_layout **layout, luo_err *err)
{
    luo_str text = {0};
    luo_status st = LUO_OK;
    bool same = false;
    const char *type = usual_type(model), *family = luo_family_desc_of(model->family)->name;
    for (int i = 0; i < hf_ntypes && st == LUO_OK && !same; i++) {
        const hf_type *t = &hf_types[i];
        if (strcmp(t->family, family) != 0) continue;
        if (model->type && strcmp(model->type, t->type) != 0) continue;
        luo_str_clear(&text);
        write_config(t, model, weights, &text);
        st = text.failed ? luo_err_nomem(err) : reads_as(&text, model, &same, err);
        if (same) type = t->type;
    }
    *layout = luo_hf_layout_of(type);
    if (same && out) luo_str_add(out, luo_str_get(&text));
    luo_str_free(&text);
    return st;
}
