/* hf_types.c: the table of types of a Hugging Face config.json: keys, what their class has where a
 * file says nothing, and what is no plain key. Source of names and class defaults: transformers,
 * configuration_*.py and modeling_*.py of each type. */
#include "core/io/hf/hf.h"

#include <math.h>
#include <string.h>

#define SIZES(width, layers, heads, ffn)                                                           \
    {width, "hidden", HF_NEEDED}, {layers, "layers", HF_NEEDED}, {heads, "heads", HF_NEEDED},      \
        {ffn, "ffn_hidden", HF_NEEDED}, {"vocab_size", "vocab", HF_NEEDED}
#define DECODER                                                                                    \
    SIZES("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
#define LENGTH(key, n) {key, "max_sequence_tokens", n}
#define TIED(yes) {"tie_word_embeddings", "tied_embeddings", yes}
#define NORM(key, eps) {key, "norm_eps", eps}
#define THETA(base) {"rope_theta", "rope_base", base}
#define GROUPS(n) {"num_key_value_heads", "kv_heads", n}
#define HEAD(n) {"head_dim", "head_dim", n}
/* Biases of all four products of attention. */
#define BIASES(key, yes) {key, "qkv_bias", yes}, {key, "out_bias", yes}
#define PER_TOKEN(n) {"num_experts_per_tok", "moe.experts_per_token", n}
#define EXPERT(key, n) {key, "moe.expert_ffn_hidden", n}

/* ---- of several types ---- */

static void silu(hf_reader *hf)
{
    hf_expect(hf, "hidden_act", "silu", true, "`silu` is expected");
    hf_take_rope(hf);
}

/* By the error function, or one of its forms by tanh; standard: of the class. */
static void gelu(hf_reader *hf, const char *key, const char *standard)
{
    const luo_doc_node *node = hf_use(hf, key);
    const char *kind = hf_text(node) ? hf_text(node) : standard;
    hf_expect(hf, key, "gelu", false, "`gelu` or one of its forms is expected");
    hf_put(hf, "activation", strcmp(kind, "gelu") == 0 ? "gelu_erf" : "gelu", true, node);
}

/* A feed-forward of four times the width, where nothing else is said. */
static void four_wide(hf_reader *hf)
{
    if (!hf_has(hf, "ffn_hidden"))
        hf_put_number(hf, "ffn_hidden", 4 * hf_number(hf, "hidden", 0), NULL);
}

/* ---- llama and what is made as it is ---- */

static const hf_key llama[] = {
    DECODER, LENGTH("max_position_embeddings", "2048"), GROUPS(NULL), HEAD(NULL),
    NORM("rms_norm_eps", "1e-6"), THETA("10000"), TIED("false"), BIASES("attention_bias", "false"),
    {"mlp_bias", "linear_bias", "false"}};

static const hf_key mistral[] = {
    DECODER, LENGTH("max_position_embeddings", "131072"), GROUPS("8"), HEAD(NULL),
    NORM("rms_norm_eps", "1e-6"), THETA("10000"), TIED("false")};

static void rest_mistral(hf_reader *hf)
{
    silu(hf);
    hf_take_window(hf, &(hf_windows){"sliding_window", "4096", 0, 1, 1});
}

static const hf_key mixtral[] = {
    DECODER, LENGTH("max_position_embeddings", "131072"), GROUPS("8"), HEAD(NULL),
    NORM("rms_norm_eps", "1e-5"), THETA("1000000"), TIED("false"),
    {"num_local_experts", "moe.experts", "8"}, PER_TOKEN("2"),
    EXPERT("intermediate_size", HF_NEEDED)};

static void rest_no_window(hf_reader *hf) /* unless the file has one */
{
    silu(hf);
    hf_take_window(hf, &(hf_windows){"sliding_window", NULL, 0, 1, 1});
}

/* ---- qwen ---- */

static const hf_key qwen2[] = {
    DECODER, LENGTH("max_position_embeddings", "32768"), GROUPS("32"), HEAD(NULL),
    NORM("rms_norm_eps", "1e-6"), THETA("10000"), TIED("false")};
static const hf_key qwen3[] = {
    DECODER, LENGTH("max_position_embeddings", "32768"), GROUPS("32"), HEAD("128"),
    NORM("rms_norm_eps", "1e-6"), THETA("10000"), TIED("false"),
    BIASES("attention_bias", "false")};
static const hf_key qwen2_moe[] = {
    DECODER, LENGTH("max_position_embeddings", "32768"), GROUPS("16"), HEAD(NULL),
    NORM("rms_norm_eps", "1e-6"), THETA("10000"), TIED("false"),
    {"qkv_bias", "qkv_bias", "true"},
    {"num_experts", "moe.experts", "60"}, PER_TOKEN("4"), EXPERT("moe_intermediate_size", "1408"),
    {"shared_expert_intermediate_size", "moe.shared_ffn_hidden", "5632"},
    {"norm_topk_prob", "moe.renorm", "false"}};
static const hf_key qwen3_moe[] = {
    DECODER, LENGTH("max_position_embeddings", "32768"), GROUPS("4"), HEAD(NULL),
    NORM("rms_norm_eps", "1e-6"), THETA("10000"), TIED("false"), BIASES("attention_bias", "false"),
    {"num_experts", "moe.experts", "128"}, PER_TOKEN("8"), EXPERT("moe_intermediate_size", "768"),
    {"norm_topk_prob", "moe.renorm", "false"}};

/* A window only where it is asked for, and above some layers. */
static void rest_qwen(hf_reader *hf)
{
    const bool asked = hf_flag(hf, "use_sliding_window", false);
    const luo_doc_node *from = hf_use(hf, "max_window_layers"),
                       *size = hf_use(hf, "sliding_window");
    double first = 28;
    luo_doc_real(from, &first);
    silu(hf);
    if (asked && (!size || !hf_is_null(size)))
        hf_take_window(hf, &(hf_windows){"sliding_window", "4096", (int64_t)first, 1, 1});
    hf_use(hf, "layer_types");
}

/* Layers l with (l + 1) divisible by the step have experts, but for a list of those that do not. */
static void rest_qwen_moe(hf_reader *hf)
{
    const luo_doc_node *step = hf_use(hf, "decoder_sparse_step"),
                       *dense = hf_use(hf, "mlp_only_layers");
    int64_t every = 1, n = 0, at;
    rest_qwen(hf);
    if (luo_doc_int(step, &every) && every < 1) hf_refuse(hf, step, "1 or more is expected");
    for (const luo_doc_node *node = dense ? dense->first : NULL; node; node = node->next, n++)
        if (every != 1 || !luo_doc_int(node, &at) || at != n) {
            hf_refuse(hf, dense, "layers without experts are the first ones, or none");
            return;
        }
    hf_put_number(hf, "moe.first_dense_layers", every > 1 ? (double)every - 1 : (double)n,
                  every > 1 ? step : dense);
    hf_put_number(hf, "moe.every_layers", (double)every, step);
}

/* ---- deepseek ---- */

#define LATENT                                                                                     \
    {"q_lora_rank", "attention.q_lora_rank", "1536"},                                              \
        {"kv_lora_rank", "attention.kv_lora_rank", "512"},                                         \
        {"qk_nope_head_dim", "attention.qk_nope_head_dim", "128"},                                 \
        {"qk_rope_head_dim", "attention.qk_rope_head_dim", "64"},                                  \
        {"v_head_dim", "attention.v_head_dim", "128"}
static const hf_key deepseek_v2[] = {
    DECODER, LENGTH("max_position_embeddings", "2048"), NORM("rms_norm_eps", "1e-6"),
    THETA("10000"), TIED("false"), LATENT, {"n_routed_experts", "moe.experts", HF_NEEDED},
    PER_TOKEN(HF_NEEDED), EXPERT("moe_intermediate_size", "1407"),
    {"first_k_dense_replace", "moe.first_dense_layers", "0"},
    {"norm_topk_prob", "moe.renorm", "false"}, {"routed_scaling_factor", "moe.routed_scale", "1"}};
static const hf_key deepseek_v3[] = {
    DECODER, LENGTH("max_position_embeddings", "4096"), NORM("rms_norm_eps", "1e-6"),
    THETA("10000"), TIED("false"), LATENT, {"n_routed_experts", "moe.experts", "256"},
    PER_TOKEN("8"), EXPERT("moe_intermediate_size", "2048"),
    {"first_k_dense_replace", "moe.first_dense_layers", "3"},
    {"routed_scaling_factor", "moe.routed_scale", "2.5"},
    {"n_group", "moe.route_groups", "8"}, {"topk_group", "moe.route_groups_kept", "4"}};

static void deepseek(hf_reader *hf, const char *shared)
{
    const luo_doc_node *every = hf_use(hf, "moe_layer_freq");
    double n;
    hf_use(hf, "num_key_value_heads"); /* latent attention has as many as query heads */
    hf_expect_flag(hf, "attention_bias", false, "latent attention has no biases here");
    hf_take(hf, &(hf_key){"n_shared_experts", "moe.shared_experts", shared});
    if (hf_number(hf, "moe.shared_experts", 0) > 0)
        hf_put_number(hf, "moe.shared_ffn_hidden", hf_number(hf, "moe.expert_ffn_hidden", 0),
                      hf_use(hf, "moe_intermediate_size"));
    if (luo_doc_real(every, &n) && n != 1)
        hf_refuse(hf, every, "all layers behind the dense ones have experts");
    silu(hf);
}

static void rest_deepseek_v2(hf_reader *hf)
{
    const luo_doc_node *method = hf_use(hf, "topk_method");
    const char *v = hf_text(method);
    hf_expect(hf, "scoring_func", "softmax", true, "`softmax` is expected");
    hf_use(hf, "n_group"), hf_use(hf, "topk_group");
    if (v && strcmp(v, "group_limited_greedy") == 0) {
        hf_take(hf, &(hf_key){"n_group", "moe.route_groups", NULL});
        hf_take(hf, &(hf_key){"topk_group", "moe.route_groups_kept", NULL});
    } else if (v && strcmp(v, "greedy") != 0) {
        hf_refuse(hf, method, "`greedy` or `group_limited_greedy` is expected");
    }
    deepseek(hf, "2");
}

static void rest_deepseek_v3(hf_reader *hf)
{
    hf_expect(hf, "scoring_func", "sigmoid", true, "`sigmoid` is expected");
    hf_expect(hf, "topk_method", "noaux_tc", true, "`noaux_tc` is expected");
    hf_expect_flag(hf, "norm_topk_prob", true, "weights are divided by their sum");
    deepseek(hf, "1");
}

/* ---- gemma ---- */

#define GEMMA(kv)                                                                                  \
    DECODER, LENGTH("max_position_embeddings", "8192"), GROUPS(kv), HEAD("256"),                   \
        NORM("rms_norm_eps", "1e-6"), THETA("10000"), TIED("true"),                                \
        BIASES("attention_bias", "false")
static const hf_key gemma[] = {GEMMA("16")};
static const hf_key gemma2[] = {
    GEMMA("4"), {"attn_logit_softcapping", "attention_softcap", "50"},
    {"final_logit_softcapping", "logit_softcap", "30"}};
/* Files inside others leave out more: text_config of a gemma3. */
static const hf_key gemma3[] = {
    {"hidden_size", "hidden", HF_NEEDED}, {"num_hidden_layers", "layers", HF_NEEDED},
    {"intermediate_size", "ffn_hidden", HF_NEEDED}, {"num_attention_heads", "heads", "8"},
    {"vocab_size", "vocab", "262208"}, LENGTH("max_position_embeddings", "131072"), GROUPS("4"),
    HEAD("256"), NORM("rms_norm_eps", "1e-6"), THETA("1000000"), TIED("true"),
    BIASES("attention_bias", "false"), {"attn_logit_softcapping", "attention_softcap", NULL},
    {"final_logit_softcapping", "logit_softcap", NULL}};

static void rest_gemma(hf_reader *hf)
{
    const char *const key = "hidden_activation";
    const bool older = hf_is_null(hf_use(hf, key)); /* whose `gelu` means the form by tanh, too */
    hf_use(hf, "hidden_act");
    hf_expect(hf, older ? "hidden_act" : key, "gelu", false,
              "`gelu` or one of its forms is expected");
    hf_take_rope(hf);
    hf_put_number(hf, "embedding_scale", sqrt(hf_number(hf, "hidden", 1)), NULL);
}

/* Scores divided by the root of something else than the size of a head. */
static void query_scale(hf_reader *hf)
{
    const luo_doc_node *by = hf_use(hf, "query_pre_attn_scalar");
    double n = 256;
    if (!hf_is_null(by) && (!luo_doc_real(by, &n) || n <= 0))
        hf_refuse(hf, by, "a number above 0 is expected");
    else if (n != hf_number(hf, "head_dim", 0))
        hf_put_number(hf, "attention_scale", 1 / sqrt(n), by);
}

static void rest_gemma2(hf_reader *hf)
{
    rest_gemma(hf);
    query_scale(hf);
    hf_take_window(hf, &(hf_windows){"sliding_window", "4096", 0, 2, 1});
}

static void rest_gemma3(hf_reader *hf)
{
    const luo_doc_node *a = hf_use(hf, "sliding_window_pattern"),
                       *b = hf_use(hf, "_sliding_window_pattern");
    int64_t every = 6;
    if (!luo_doc_int(a, &every)) luo_doc_int(b, &every);
    if (every < 1) hf_refuse(hf, a ? a : b, "1 or more is expected");
    rest_gemma(hf);
    query_scale(hf);
    hf_take_window(hf, &(hf_windows){"sliding_window", "4096", 0, every, every - 1});
    hf_take_local_rope(hf, &(hf_key){"rope_local_base_freq", "rope_local_base", "10000"});
}

/* ---- phi, gpt-neox, falcon ---- */

static const hf_key phi3[] = {
    DECODER, LENGTH("max_position_embeddings", "4096"), GROUPS(NULL), HEAD(NULL),
    NORM("rms_norm_eps", "1e-5"), THETA("10000"), TIED("false")};

static const hf_key gpt_neox[] = {
    DECODER, LENGTH("max_position_embeddings", "2048"), NORM("layer_norm_eps", "1e-5"),
    {"rotary_emb_base", "rope_base", "10000"}, {"rotary_pct", "partial_rotary", "0.25"},
    {"use_parallel_residual", "parallel_residual", "true"}, TIED("false"),
    BIASES("attention_bias", "true")};

static void rest_gpt_neox(hf_reader *hf)
{
    gelu(hf, "hidden_act", "gelu");
    hf_take_rope(hf);
}

static const hf_key falcon[] = {
    {"hidden_size", "hidden", HF_NEEDED}, {"num_hidden_layers", "layers", HF_NEEDED},
    {"num_attention_heads", "heads", HF_NEEDED}, {"vocab_size", "vocab", HF_NEEDED},
    {"ffn_hidden_size", "ffn_hidden", NULL}, LENGTH("max_position_embeddings", "2048"),
    NORM("layer_norm_epsilon", "1e-5"), THETA("10000"), TIED("true"), BIASES("bias", "false"),
    {"bias", "linear_bias", "false"}};

/* Older: one head of keys and values, and one norm for both halves; newer: groups and two norms. */
static void rest_falcon(hf_reader *hf)
{
    const luo_doc_node *norms = hf_use(hf, "num_ln_in_parallel_attn");
    const bool newer = hf_flag(hf, "new_decoder_architecture", false);
    const bool one = hf_flag(hf, "multi_query", true);
    const bool parallel = hf_flag(hf, "parallel_attn", true) || newer;
    double n = newer ? 2 : 1;
    luo_doc_real(norms, &n);
    gelu(hf, "activation", "gelu");
    four_wide(hf);
    hf_expect_flag(hf, "alibi", false, "positions are rotary ones");
    hf_expect_flag(hf, "apply_residual_connection_post_layernorm", false,
                   "residuals go round the norms");
    if (newer) hf_take(hf, &(hf_key){"num_kv_heads", "kv_heads", NULL});
    else if (one) hf_put(hf, "kv_heads", "1", false, hf_use(hf, "multi_query"));
    hf_use(hf, "num_kv_heads");
    hf_put(hf, "parallel_residual", parallel ? "true" : "false", false,
           hf_use(hf, "parallel_attn"));
    hf_put(hf, "shared_norm", parallel && n == 1 ? "true" : "false", false, norms);
    hf_take_rope(hf);
}

/* ---- gpt2, gpt-neo, opt ---- */

static const hf_key gpt2[] = {
    {"n_embd", "hidden", HF_NEEDED}, {"n_layer", "layers", HF_NEEDED},
    {"n_head", "heads", HF_NEEDED}, LENGTH("n_positions", "1024"), {"n_inner", "ffn_hidden", NULL},
    {"vocab_size", "vocab", HF_NEEDED}, TIED("true"), NORM("layer_norm_epsilon", "1e-5")};

static void rest_gpt2(hf_reader *hf)
{
    gelu(hf, "activation_function", "gelu_new");
    hf_expect_flag(hf, "scale_attn_weights", true, "attention is scaled by 1/sqrt(head size)");
    hf_expect_flag(hf, "scale_attn_by_inverse_layer_idx", false,
                   "attention is scaled alike in all layers");
    hf_expect_flag(hf, "add_cross_attention", false, "there is no cross attention");
    four_wide(hf);
}

static const hf_key gpt_neo[] = {
    {"hidden_size", "hidden", HF_NEEDED}, {"num_layers", "layers", HF_NEEDED},
    {"num_heads", "heads", HF_NEEDED}, {"vocab_size", "vocab", HF_NEEDED},
    {"intermediate_size", "ffn_hidden", NULL}, LENGTH("max_position_embeddings", "2048"),
    NORM("layer_norm_epsilon", "1e-5"), TIED("true")};

/* attention_types: [[["global", "local"], 12]], a run of kinds and how often it is repeated. */
static void rest_gpt_neo(hf_reader *hf)
{
    const luo_doc_node *types = hf_use(hf, "attention_types");
    const luo_doc_node *run = luo_doc_nth(luo_doc_nth(types, 0), 0);
    const char *first = hf_text(luo_doc_nth(run, 0)), *second = hf_text(luo_doc_nth(run, 1));
    const bool usual = !run || (first && second && run->n == 2 && types->n == 1 &&
                                strcmp(first, "global") == 0 && strcmp(second, "local") == 0);
    hf_use(hf, "attention_layers");
    gelu(hf, "activation_function", "gelu_new");
    four_wide(hf);
    if (!usual) hf_refuse(hf, types, "global and local layers take turns, a global one first");
    hf_take_window(hf, &(hf_windows){"window_size", "256", 1, 2, 1});
}

static const hf_key opt[] = {
    SIZES("hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim"),
    LENGTH("max_position_embeddings", "2048"), TIED("true"), BIASES("enable_bias", "true"),
    {"enable_bias", "linear_bias", "true"}};

static void rest_opt(hf_reader *hf)
{
    const luo_doc_node *width = hf_use(hf, "word_embed_proj_dim"),
                       *act = hf_use(hf, "activation_function");
    const char *v = hf_text(act);
    double n;
    if (luo_doc_real(width, &n) && n != hf_number(hf, "hidden", n))
        hf_refuse(hf, width, "embeddings are as wide as layers");
    hf_expect_flag(hf, "do_layer_norm_before", true, "norms stand before attention");
    hf_expect_flag(hf, "_remove_final_layer_norm", false, "there is a norm behind the layers");
    hf_expect_flag(hf, "layer_norm_elementwise_affine", true, "norms have weights");
    if (v && strcmp(v, "relu") != 0) gelu(hf, "activation_function", "relu");
    else hf_put(hf, "activation", "relu", true, act);
}

/* ---- the table ---- */

#define TYPE(type, family, keys, fixed, rest) \
    {type, family, keys, (int)LUO_DOC_COUNT(keys), fixed, rest}
const hf_type hf_types[] = {
    TYPE("llama", "llama", llama, "", silu),
    TYPE("mistral", "llama", mistral, "", rest_mistral),
    TYPE("qwen2", "llama", qwen2, "qkv_bias=true out_bias=false", rest_qwen),
    TYPE("qwen3", "llama", qwen3, "qk_norm=true", rest_qwen),
    TYPE("mixtral", "moe", mixtral, "moe.renorm=true", rest_no_window),
    TYPE("qwen2_moe", "moe", qwen2_moe, "out_bias=false moe.shared_experts=1 moe.shared_gate=true",
         rest_qwen_moe),
    TYPE("qwen3_moe", "moe", qwen3_moe, "qk_norm=true", rest_qwen_moe),
    TYPE("deepseek_v2", "moe", deepseek_v2, "attention.kind=mla", rest_deepseek_v2),
    TYPE("deepseek_v3", "moe", deepseek_v3, "attention.kind=mla moe.gate=sigmoid",
         rest_deepseek_v3),
    TYPE("gemma", "llama", gemma, "activation=geglu norm_offset=true", rest_gemma),
    TYPE("gemma2", "llama", gemma2, "activation=geglu norm_offset=true post_norms=true",
         rest_gemma2),
    TYPE("gemma3_text", "llama", gemma3,
         "activation=geglu norm_offset=true post_norms=true qk_norm=true", rest_gemma3),
    TYPE("phi3", "llama", phi3, "", rest_no_window),
    TYPE("gpt_neox", "llama", gpt_neox, "norm=layernorm linear_bias=true",
         rest_gpt_neox),
    TYPE("falcon", "llama", falcon, "norm=layernorm", rest_falcon),
    TYPE("gpt2", "gpt", gpt2, "", rest_gpt2),
    TYPE("gpt_neo", "gpt", gpt_neo, "qkv_bias=false attention_scale=1", rest_gpt_neo),
    TYPE("opt", "gpt", opt, "position_offset=2", rest_opt),
};
const int hf_ntypes = (int)LUO_DOC_COUNT(hf_types);
