/* check_hf.c: config.json of Hugging Face: parameters equal to what is published of each model, to
 * the unit; what is refused and in which words. Configs are typed here from the published facts. */
#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include "core/io/read/read.h"
#include "tests/check_main.h"

#define NAMED(type) "{\"model_type\": \"" type "\", \"bos_token_id\": 1, "
#define SIZES(h, l, n, f, v)                                                                       \
    "\"hidden_size\": " #h ", \"num_hidden_layers\": " #l ", \"num_attention_heads\": " #n         \
    ", \"intermediate_size\": " #f ", \"vocab_size\": " #v
#define GROUPS(n) ", \"num_key_value_heads\": " #n
#define UNTIED ", \"tie_word_embeddings\": false"
#define TIED ", \"tie_word_embeddings\": true"
#define LLAMA3                                                                                     \
    ", \"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": 8.0, \"low_freq_factor\": 1.0, "   \
    "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192, \"rope_type\": "       \
    "\"llama3\"}, \"max_position_embeddings\": 131072"
#define YARN                                                                                       \
    ", \"rope_scaling\": {\"beta_fast\": 32, \"beta_slow\": 1, \"factor\": 40, \"mscale\": 0.707," \
    " \"mscale_all_dim\": 0.707, \"original_max_position_embeddings\": 4096, \"type\": \"yarn\"}"
#define LLAMA_1B(type)                                                                             \
    NAMED(type) SIZES(2048, 16, 32, 8192, 128256) GROUPS(8) TIED                                   \
        ", \"max_position_embeddings\": 131072"

static const struct {
    const char *name, *text, *family;
    int64_t parameters;
} published[] = {
    /* Llama: Touvron et al. 2023, Grattafiori et al. 2024 */
    {"Llama-2-7B", NAMED("llama") SIZES(4096, 32, 32, 11008, 32000) UNTIED "}", "llama",
     6738415616},
    {"Llama-2-70B", NAMED("llama") SIZES(8192, 80, 64, 28672, 32000) GROUPS(8) UNTIED
     ", \"rope_scaling\": null, \"torch_dtype\": \"bfloat16\"}", "llama", 68976648192},
    {"Llama-3.1-8B", NAMED("llama") SIZES(4096, 32, 32, 14336, 128256) GROUPS(8) LLAMA3 "}",
     "llama", 8030261248},
    {"Llama-3.1-70B", NAMED("llama") SIZES(8192, 80, 64, 28672, 128256) GROUPS(8) LLAMA3 "}",
     "llama", 70553706496},
    {"Llama-3.1-405B", NAMED("llama") SIZES(16384, 126, 128, 53248, 128256) GROUPS(8) LLAMA3 "}",
     "llama", 405853388800},
    {"Llama-3.2-1B", LLAMA_1B("llama") ", \"head_dim\": 64}", "llama", 1235814400},
    {"Llama-3.2-3B", NAMED("llama") SIZES(3072, 28, 24, 8192, 128256) GROUPS(8) TIED
     ", \"head_dim\": 128}", "llama", 3212749824},
    /* in each of 16 layers q and o 2,048, k and v 512; gate and up 8,192, down 2,048 */
    {"with attention_bias", LLAMA_1B("llama") ", \"attention_bias\": true}", "llama", 1235896320},
    {"with mlp_bias", LLAMA_1B("llama") ", \"mlp_bias\": true}", "llama", 1236109312},
    {"with both", LLAMA_1B("llama") ", \"mlp_bias\": true, \"attention_bias\": true}", "llama",
     1236191232},
    {"with neither", LLAMA_1B("llama") ", \"mlp_bias\": false, \"attention_bias\": false}",
     "llama", 1235814400},
    /* norms of queries and keys, 64 each */
    {"as qwen3", LLAMA_1B("qwen3") ", \"head_dim\": 64, \"attention_bias\": true}", "llama",
     1235896320 + 16 * 128},
    {"as qwen2", LLAMA_1B("qwen2") "}", "llama", 1235814400 + 16 * 3072},
    /* these have no such keys */
    {"as qwen2", LLAMA_1B("qwen2") ", \"attention_bias\": true, \"mlp_bias\": true}", "llama",
     1235814400 + 16 * 3072},
    {"as mistral", LLAMA_1B("mistral") ", \"attention_bias\": true}", "llama", 1235814400},
    /* Jiang et al. 2023, 2024 */
    {"Mistral-7B", NAMED("mistral") SIZES(4096, 32, 32, 14336, 32000) GROUPS(8)
     ", \"sliding_window\": 4096, \"max_position_embeddings\": 32768}", "llama", 7241732096},
    {"Mixtral-8x7B", NAMED("mixtral") SIZES(4096, 32, 32, 14336, 32000) GROUPS(8)
     ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"sliding_window\": null}", "moe",
     46702792704},
    /* Qwen team 2024, 2025 */
    {"Qwen2.5-7B", NAMED("qwen2") SIZES(3584, 28, 28, 18944, 152064) GROUPS(4)
     ", \"use_sliding_window\": false, \"sliding_window\": 131072, \"max_window_layers\": 28}",
     "llama", 7615616512},
    {"Qwen2-0.5B", NAMED("qwen2") SIZES(896, 24, 14, 4864, 151936) GROUPS(2) TIED "}", "llama",
     494032768},
    {"Qwen3-8B", NAMED("qwen3") SIZES(4096, 36, 32, 12288, 151936) GROUPS(8) UNTIED "}", "llama",
     8190735360},
    {"Qwen1.5-MoE-A2.7B", NAMED("qwen2_moe") SIZES(2048, 24, 16, 5632, 151936) GROUPS(16)
     ", \"num_experts\": 60, \"num_experts_per_tok\": 4, \"moe_intermediate_size\": 1408, "
     "\"shared_expert_intermediate_size\": 5632, \"decoder_sparse_step\": 1}", "moe", 14315784192},
    {"Qwen3-30B-A3B", NAMED("qwen3_moe") SIZES(2048, 48, 32, 6144, 151936) GROUPS(4)
     ", \"head_dim\": 128, \"num_experts\": 128, \"num_experts_per_tok\": 8, "
     "\"moe_intermediate_size\": 768, \"norm_topk_prob\": true, \"mlp_only_layers\": []}", "moe",
     30532122624},
    /* DeepSeek-AI 2024: without the module that predicts a token more (14 B), which `transformers`
     * does not build; V3 with the 58 x 256 biases of its gates, which no gradient moves */
    {"DeepSeek-V2-Lite", NAMED("deepseek_v2") SIZES(2048, 27, 16, 10944, 102400) YARN
     ", \"n_routed_experts\": 64, \"n_shared_experts\": 2, \"num_experts_per_tok\": 6, "
     "\"moe_intermediate_size\": 1408, \"first_k_dense_replace\": 1, \"q_lora_rank\": null, "
     "\"topk_method\": \"greedy\", \"n_group\": 1, \"topk_group\": 1}", "moe", 15706484224},
    {"DeepSeek-V2", NAMED("deepseek_v2") SIZES(5120, 60, 128, 12288, 102400) YARN
     ", \"n_routed_experts\": 160, \"n_shared_experts\": 2, \"num_experts_per_tok\": 6, "
     "\"moe_intermediate_size\": 1536, \"first_k_dense_replace\": 1, \"q_lora_rank\": 1536, "
     "\"topk_method\": \"group_limited_greedy\", \"n_group\": 8, \"topk_group\": 3, "
     "\"routed_scaling_factor\": 16.0}", "moe", 235741434880},
    {"DeepSeek-V3", NAMED("deepseek_v3") SIZES(7168, 61, 128, 18432, 129280) YARN
     ", \"n_routed_experts\": 256, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, "
     "\"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 3, \"q_lora_rank\": 1536, "
     "\"kv_lora_rank\": 512, \"n_group\": 8, \"topk_group\": 4, \"norm_topk_prob\": true, "
     "\"scoring_func\": \"sigmoid\", \"topk_method\": \"noaux_tc\", \"num_nextn_predict_layers\": "
     "1, \"routed_scaling_factor\": 2.5}", "moe", 671026419200},
    /* Gemma team 2024, 2025; tied */
    {"Gemma-2B", NAMED("gemma") SIZES(2048, 18, 8, 16384, 256000) GROUPS(1) "}", "llama",
     2506172416},
    {"Gemma-7B", NAMED("gemma") SIZES(3072, 28, 16, 24576, 256000)
     ", \"hidden_act\": \"gelu\", \"hidden_activation\": null}", "llama", 8537680896},
    {"Gemma-2-2B", NAMED("gemma2") SIZES(2304, 26, 8, 9216, 256000) "}", "llama", 2614341888},
    {"Gemma-2-9B", NAMED("gemma2") SIZES(3584, 42, 16, 14336, 256000) GROUPS(8)
     ", \"query_pre_attn_scalar\": 256, \"hidden_activation\": \"gelu_pytorch_tanh\"}", "llama",
     9241705984},
    {"Gemma-2-27B", NAMED("gemma2") SIZES(4608, 46, 32, 36864, 256000) GROUPS(16)
     ", \"head_dim\": 128, \"query_pre_attn_scalar\": 144}", "llama", 27227128320},
    {"Gemma-3-1B", NAMED("gemma3_text") SIZES(1152, 26, 4, 6912, 262144) GROUPS(1)
     ", \"sliding_window\": 512, \"rope_local_base_freq\": 10000}", "llama", 999885952},
    /* Abdin et al. 2024 */
    {"Phi-3-mini", NAMED("phi3") SIZES(3072, 32, 32, 8192, 32064) GROUPS(32)
     ", \"sliding_window\": 2047, \"original_max_position_embeddings\": 4096}", "llama",
     3821079552},
    /* Black et al. 2022 */
    {"GPT-NeoX-20B", NAMED("gpt_neox") SIZES(6144, 44, 64, 24576, 50432)
     ", \"hidden_act\": \"gelu_fast\", \"rotary_pct\": 0.25, \"rotary_emb_base\": 10000}", "llama",
     20554567680},
    /* Almazrouei et al. 2023: the class ties the head, of which the file has a copy */
    {"Falcon-7B", NAMED("falcon") "\"hidden_size\": 4544, \"num_hidden_layers\": 32, "
     "\"num_attention_heads\": 71, \"vocab_size\": 65024, \"multi_query\": true, \"bias\": false}",
     "llama", 6921720704},
    {"Falcon-7B, its file", NAMED("falcon") "\"hidden_size\": 4544, \"num_hidden_layers\": 32, "
     "\"num_attention_heads\": 71, \"vocab_size\": 65024" UNTIED "}", "llama", 7217189760},
    {"Falcon-40B", NAMED("falcon") "\"hidden_size\": 8192, \"num_hidden_layers\": 60, "
     "\"num_attention_heads\": 128, \"num_kv_heads\": 8, \"new_decoder_architecture\": true, "
     "\"vocab_size\": 65024}", "llama", 41303293952},
    /* Radford et al. 2019, Black et al. 2021, Zhang et al. 2022; tied */
    {"GPT-2", "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, "
     "\"n_inner\": null, \"n_positions\": 1024, \"vocab_size\": 50257, \"attn_pdrop\": 0.1, "
     "\"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-05}", "gpt", 124439808},
    {"GPT-2 XL", "{\"model_type\": \"gpt2\", \"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, "
     "\"vocab_size\": 50257, \"n_ctx\": 1024}", "gpt", 1557611200},
    {"GPT-Neo-1.3B", NAMED("gpt_neo") "\"hidden_size\": 2048, \"num_layers\": 24, "
     "\"num_heads\": 16, \"vocab_size\": 50257, \"intermediate_size\": null, \"window_size\": 256, "
     "\"attention_types\": [[[\"global\", \"local\"], 12]]}", "gpt", 1315575808},
    {"OPT-125M", NAMED("opt") "\"hidden_size\": 768, \"num_hidden_layers\": 12, "
     "\"num_attention_heads\": 12, \"ffn_dim\": 3072, \"vocab_size\": 50272, "
     "\"word_embed_proj_dim\": 768, \"activation_function\": \"relu\"}", "gpt", 125239296},
    {"OPT-6.7B", NAMED("opt") "\"hidden_size\": 4096, \"num_hidden_layers\": 32, "
     "\"num_attention_heads\": 32, \"ffn_dim\": 16384, \"vocab_size\": 50272}", "gpt", 6658473984},
};

static luo_model *read_text(luo_arena *arena, const char *text, luo_diags *diags)
{
    luo_model *m = NULL;
    const luo_source src = {"config.json", text, strlen(text)};
    luo_diags_init(diags, arena);
    return luo_read_model_text(arena, &src, NULL, &m, diags) == LUO_OK ? m : NULL;
}

START_TEST(published_row)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_err err;
    int64_t n;
    const luo_model *m = read_text(arena, published[_i].text, &diags);
    ck_assert_msg(m != NULL, "%s: %s", published[_i].name, diags.first->err.text);
    ck_assert_str_eq(luo_family_desc_of(m->family)->name, published[_i].family);
    ck_assert_int_eq(luo_model_parameters(m, &n, &err), LUO_OK);
    ck_assert_msg(n == published[_i].parameters, "%s: %lld instead of %lld", published[_i].name,
                  (long long)n, (long long)published[_i].parameters);
    ck_assert_int_eq(diags.first->severity, LUO_NOTE); /* keys not used */
    ck_assert(diags.first == diags.last);
    luo_arena_free(arena);
}
END_TEST

/* ---- what is read beside sizes ---- */

#define SMALL(type) NAMED(type) SIZES(64, 6, 4, 128, 100)
static const luo_model *good(luo_arena *arena, const char *text)
{
    luo_diags diags;
    const luo_model *m = read_text(arena, text, &diags);
    ck_assert_msg(m != NULL, "%s: %s", text, diags.first->err.text);
    return m;
}

/* Layers with a window, as a word of w and - . */
static const struct {
    const char *text, *layers;
    int64_t tokens;
} windows[] = {
    {SMALL("mistral") GROUPS(4) "}", "wwwwww", 4096},
    {SMALL("mistral") GROUPS(4) ", \"sliding_window\": null}", "------", 0},
    {SMALL("llama") "}", "------", 0},
    {SMALL("qwen2") GROUPS(4) ", \"sliding_window\": 32, \"max_window_layers\": 4}", "------", 0},
    {SMALL("qwen2") GROUPS(4) ", \"sliding_window\": 32, \"max_window_layers\": 4, "
     "\"use_sliding_window\": true}", "----ww", 32},
    {SMALL("gemma2") ", \"sliding_window\": 32}", "w-w-w-", 32},
    {SMALL("gemma3_text") GROUPS(4) ", \"sliding_window\": 32, \"sliding_window_pattern\": 3}",
     "ww-ww-", 32},
    {SMALL("gemma3_text") GROUPS(4) ", \"sliding_window\": 32}", "wwwww-", 32},
    {SMALL("gemma3_text") GROUPS(4) ", \"sliding_window\": 32, \"layer_types\": ["
     "\"full_attention\", \"sliding_attention\", \"sliding_attention\", \"full_attention\", "
     "\"sliding_attention\", \"sliding_attention\"]}", "-ww-ww", 32},
    {SMALL("mistral") GROUPS(4) ", \"sliding_window\": 32, \"layer_types\": ["
     "\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\", "
     "\"full_attention\", \"full_attention\"]}", "------", 0},
    {NAMED("gpt_neo") "\"hidden_size\": 64, \"num_layers\": 6, \"num_heads\": 4, "
     "\"vocab_size\": 100}", "-w-w-w", 256},
};

START_TEST(window_row)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_model *m = good(arena, windows[_i].text);
    ck_assert_int_eq(m->window.tokens, windows[_i].tokens);
    ck_assert_int_eq(m->layers, 6);
    for (int64_t l = 0; l < m->layers; l++)
        ck_assert_int_eq(luo_window_of(&m->window, l),
                         windows[_i].layers[l] == 'w' ? windows[_i].tokens : 0);
    luo_arena_free(arena);
}
END_TEST

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

START_TEST(positions_are_scaled)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_model *m = good(arena, SMALL("llama") LLAMA3 "}");
    ck_assert(m->rope_base == 500000 && m->rope.kind == LUO_ROPE_LLAMA3 && m->rope.factor == 8);
    ck_assert(m->rope.low_freq == 1 && m->rope.high_freq == 4 && m->rope.original_tokens == 8192);
    m = good(arena, SMALL("llama") ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}}");
    ck_assert(m->rope.kind == LUO_ROPE_LINEAR && m->rope.factor == 2.5);
    m = good(arena, SMALL("llama") ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}");
    ck_assert(m->rope.kind == LUO_ROPE_DYNAMIC);
    m = good(arena, SMALL("phi3") ", \"max_position_embeddings\": 131072, "
             "\"original_max_position_embeddings\": 4096, \"rope_scaling\": {\"type\": "
             "\"longrope\", \"factor\": 7, \"long_factor\": [1, 2, 3, 4, 5, 6, 7, 8.5], "
             "\"short_factor\": [1, 1, 1, 1, 1, 1, 1, 1.25]}}");
    ck_assert(m->rope.kind == LUO_ROPE_LONGROPE && m->rope.factor == 32);
    ck_assert(m->rope.short_factors.n == 8 && m->rope.short_factors.at[7] == 1.25);
    ck_assert(m->rope.long_factors.n == 8 && m->rope.long_factors.at[7] == 8.5);
    ck_assert_int_eq(m->rope.original_tokens, 4096);
    m = good(arena, SMALL("qwen2") GROUPS(4) ", \"rope_parameters\": {\"rope_type\": \"yarn\", "
             "\"factor\": 4, \"rope_theta\": 1e6, \"original_max_position_embeddings\": 32768}}");
    ck_assert(m->rope.kind == LUO_ROPE_YARN && m->rope_base == 1e6 && m->rope.beta_fast == 32);
    ck_assert(m->rope.attention_factor == 0);
    m = good(arena, SMALL("gemma3_text") GROUPS(4) ", \"rope_parameters\": {\"full_attention\": "
             "{\"rope_type\": \"linear\", \"factor\": 8, \"rope_theta\": 2e6}, "
             "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 15000}}}");
    ck_assert(m->rope.kind == LUO_ROPE_LINEAR && m->rope_base == 2e6);
    ck_assert(m->rope_local_base == 15000);
    m = good(arena, SMALL("gemma3_text") GROUPS(4) "}");
    ck_assert(m->rope_local_base == 10000);
    m = good(arena, SMALL("gemma3_text") GROUPS(4) ", \"sliding_window\": null}");
    ck_assert(m->rope_local_base == 0);
    m = good(arena, SMALL("llama") ", \"rope_parameters\": {\"rope_type\": \"default\"}}");
    ck_assert(m->rope.kind == LUO_ROPE_PLAIN && m->rope_base == 10000);
    luo_arena_free(arena);
}
END_TEST

START_TEST(details_of_types)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_model *m = good(arena, published[0].text);
    for (size_t i = 0; i < LUO_ROWS(published); i++) {
        const char *name = published[i].name;
        m = good(arena, published[i].text);
        if (strcmp(name, "DeepSeek-V2-Lite") == 0) {
            const double sharp = 0.0707 * log(40) + 1;
            ck_assert(near(m->attention_scale, sharp * sharp / sqrt(192)));
            ck_assert(m->rope.attention_factor == 1 && !m->moe.renorm);
        } else if (strcmp(name, "DeepSeek-V2") == 0) {
            ck_assert(m->moe.routed_scale == 16 && m->moe.gate == LUO_GATE_TOPK);
            ck_assert(m->moe.route_groups == 8 && m->moe.route_groups_kept == 3);
        } else if (strcmp(name, "DeepSeek-V3") == 0) {
            ck_assert(m->moe.gate == LUO_GATE_SIGMOID && m->moe.routed_scale == 2.5);
            ck_assert(m->moe.route_groups == 8 && m->moe.first_dense_layers == 3);
        } else if (strcmp(name, "Gemma-2-27B") == 0) {
            ck_assert(near(m->attention_scale, 1.0 / 12) && m->post_norms && m->norm_offset);
            ck_assert(m->attention_softcap == 50 && m->logit_softcap == 30);
            ck_assert(near(m->embedding_scale, sqrt(4608)) && m->activation == LUO_ACT_GEGLU);
        } else if (strcmp(name, "Gemma-2-9B") == 0) {
            ck_assert(m->attention_scale == 0);
        } else if (strcmp(name, "GPT-NeoX-20B") == 0) {
            ck_assert(m->parallel_residual && !m->shared_norm && m->partial_rotary == 0.25);
        } else if (strcmp(name, "Falcon-7B") == 0) {
            ck_assert(m->parallel_residual && m->shared_norm && m->kv_heads == 1);
            ck_assert_int_eq(m->ffn_hidden, 4 * 4544);
        } else if (strcmp(name, "Falcon-40B") == 0) {
            ck_assert(m->parallel_residual && !m->shared_norm && m->kv_heads == 8);
        } else if (strcmp(name, "OPT-125M") == 0) {
            ck_assert(m->activation == LUO_ACT_RELU && m->position_offset == 2);
            ck_assert_int_eq(m->max_sequence_tokens, 2048);
        } else if (strcmp(name, "Mixtral-8x7B") == 0) {
            ck_assert(m->moe.renorm && m->moe.experts == 8 && m->moe.experts_per_token == 2);
        }
    }
    m = good(arena, SMALL("qwen2_moe") GROUPS(4) ", \"decoder_sparse_step\": 2}");
    for (int64_t l = 0; l < 6; l++) ck_assert(luo_model_has_experts(m, l) == ((l + 1) % 2 == 0));
    m = good(arena, SMALL("qwen3_moe") ", \"mlp_only_layers\": [0, 1]}");
    for (int64_t l = 0; l < 6; l++) ck_assert(luo_model_has_experts(m, l) == (l > 1));
    luo_arena_free(arena);
}
END_TEST

/* ---- what executors compute ---- */

/* Every published type. */
START_TEST(all_are_computed)
{
    luo_arena *arena = luo_arena_new(0);
    luo_err err = {0};
    for (size_t i = 0; i < LUO_ROWS(published); i++)
        ck_assert_msg(luo_model_check_run(good(arena, published[i].text), &err) == LUO_OK, "%s: %s",
                      published[i].name, err.text);
    const luo_model *m = good(arena, SMALL("phi3") ", \"rope_scaling\": {\"type\": \"su\"}}");
    ck_assert_int_eq(luo_model_check_run(m, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text,
                     "model `phi3` has `rope_scaling.kind` longrope without `short_factors` and "
                     "`long_factors`, by which `run` turns positions; give both, or use `sim`, "
                     "`plan` and `explain`, which need none.");
    luo_arena_free(arena);
}
END_TEST

/* ---- what is refused ---- */

static const struct {
    const char *text, *says, *silent; /* silent: what must not be said; NULL: nothing */
} refused[] = {
    {SMALL("mixtrl") "}", "did you mean `mixtral`?", "`mistral`?"},
    {SMALL("lama") "}", "did you mean `llama`?", NULL},
    {SMALL("qwen4") "}", "`qwen3`", "did you mean"},
    {SMALL("qwen") "}", "`qwen2`", "did you mean"},
    {SMALL("phi") "}", "`phi3`", "did you mean"},
    {SMALL("mamba") "}", "`llama`", "did you mean"},
    {"{\"model_type\": null}", "`model_type` is ``; `llama`", "did you mean"},
    {"{\"model_type\": \"mllama\", \"text_config\": {\"model_type\": \"mllama_text_model\"}}",
     "no part of it is a model of text alone", "did you mean"},
    {SMALL("mllama_text_model") "}", "no part of it is a model of text alone", NULL},
    {"{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\"}}",
     "give what stands under `text_config` as a file of its own", "did you mean"},
    {SMALL("mistral") GROUPS(4) ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2}",
     "`num_local_experts` is a key of models with experts, and a `mistral` has none; `model_type` "
     "`mixtral`", NULL},
    {SMALL("qwen3") GROUPS(4) ", \"num_experts\": 128}", "`num_experts` is a key of models", NULL},
    {SMALL("llama") ", \"n_routed_experts\": \"many\"}", "`n_routed_experts` is a key", NULL},
    {NAMED("llama") "\"hidden_size\": 64}", "key `num_hidden_layers` is missing, and no class "
     "default is known for a `llama`; add it to the file.", "--set"},
    {SMALL("llama") ", \"torch_dtype\": \"float16\"}",
     "`torch_dtype` is `float16`, and weights are bf16, f32 or f64; give --dtype bf16.", NULL},
    {SMALL("llama") ", \"dtype\": \"float16\"}", "`dtype` is `float16`, and", NULL},
    {SMALL("deepseek_v3") ", \"quantization_config\": {\"quant_method\": \"fp8\"}}",
     "give --dtype bf16 for what they were before", NULL},
    {SMALL("llama") ", \"rope_scaling\": {\"type\": \"mrope\"}}",
     "`rope_scaling` is of kind `mrope`; `default`, `linear`", NULL},
    {SMALL("llama") ", \"rope_scaling\": 2}", "a map of `rope_type` is expected", NULL},
    {SMALL("llama") ", \"hidden_act\": \"gelu\"}", "`silu` is expected", NULL},
    {SMALL("gemma") ", \"hidden_activation\": \"silu\"}", "`gelu` or one of its forms", NULL},
    {SMALL("llama") ", \"rms_norm_eps\": \"small\"}", "is no number and no boolean", NULL},
    {SMALL("deepseek_v2") ", \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, "
     "\"attention_bias\": true}", "latent attention has no biases", NULL},
    {SMALL("deepseek_v3") ", \"norm_topk_prob\": false}", "weights are divided by their sum", NULL},
    {SMALL("qwen3_moe") ", \"mlp_only_layers\": [3]}", "layers without experts are the first ones",
     NULL},
    {SMALL("mistral") GROUPS(4) ", \"layer_types\": [\"full_attention\"]}",
     "`layer_types` has 1 entries and there are 6 layers", NULL},
    {SMALL("mistral") GROUPS(4) ", \"layer_types\": [\"linear_attention\"]}",
     "`layer_types` has `linear_attention`", NULL},
    {SMALL("mistral") GROUPS(4) ", \"layer_types\": [\"sliding_attention\", \"full_attention\", "
     "\"full_attention\", \"sliding_attention\", \"sliding_attention\", \"full_attention\"]}",
     "repeats no run of windows", NULL},
    {NAMED("falcon") "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"vocab_size\": 100, \"alibi\": true}", "positions are rotary ones", NULL},
    {NAMED("opt") "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"ffn_dim\": 128, \"vocab_size\": 100, \"word_embed_proj_dim\": 32}",
     "embeddings are as wide as layers", NULL},
};

START_TEST(refused_row)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    ck_assert_msg(!read_text(arena, refused[_i].text, &diags), "%s", refused[_i].text);
    bool said = false;
    for (const luo_diag *d = diags.first; d; d = d->next) {
        said |= strstr(d->err.text, refused[_i].says) != NULL;
        ck_assert_msg(!refused[_i].silent || !strstr(d->err.text, refused[_i].silent), "%s",
                      d->err.text);
    }
    ck_assert_msg(said, "%s: %s", refused[_i].text, diags.first->err.text);
    luo_arena_free(arena);
}
END_TEST

/* Each key that nobody reads is named, in the order of the file; keys behind many are read, too. */
START_TEST(keys_not_used)
{
    static const int keys[] = {1, 2, 300};
    const int n = keys[_i];
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_str text = {0}, want = {0};
    luo_str_add(&text, "{\"model_type\": \"llama\", \"hidden_size\": 64, \"vocab_size\": 100,"
                       " \"num_attention_heads\": 4, \"intermediate_size\": 128,"
                       " \"num_hidden_layers\": 2,");
    luo_str_addf(&want, "%d key%s not used: ", n, n > 1 ? "s" : "");
    for (int k = 0; k < n; k++) {
        luo_str_addf(&text, " \"key%d\": %d,", k, k);
        luo_str_addf(&want, "%s`key%d`", k ? ", " : "", k);
    }
    luo_str_add(&want, ".");
    luo_str_add(&text, " \"max_position_embeddings\": 64, \"torch_dtype\": \"bfloat16\"}");
    ck_assert(read_text(arena, text.at, &diags) != NULL);
    ck_assert_int_eq(diags.first->severity, LUO_NOTE);
    ck_assert_int_eq(strncmp(diags.first->err.text, want.at, 900), 0); /* texts end there */
    ck_assert(diags.first == diags.last);
    luo_str_free(&text);
    luo_str_free(&want);
    luo_arena_free(arena);
}
END_TEST

START_TEST(with_set)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_model *m = NULL;
    const char *const set[] = {"layers=3", "dtype=f32"};
    const luo_overrides overrides = {.n = 2, .at = set};
    const char *text = "{\"model_type\": \"qwen3\", \"hidden_size\": 64,"
                       " \"num_attention_heads\": 4, \"num_key_value_heads\": 4,"
                       " \"intermediate_size\": 128, \"vocab_size\": 100, \"head_dim\": 32,"
                       " \"quantization_config\": {\"bits\": 4},"
                       " \"max_position_embeddings\": 64, \"torch_dtype\": \"float16\","
                       " \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6}}";
    const luo_source src = {"config.json", text, strlen(text)};
    luo_diags_init(&diags, arena);
    const luo_status st = luo_read_model_text(arena, &src, &overrides, &m, &diags);
    ck_assert_msg(st == LUO_OK, "%s", diags.first ? diags.first->err.text : "?");
    ck_assert(m->layers == 3 && m->dtype == LUO_F32 && m->qk_norm && m->head_dim == 32);
    ck_assert(m->rope_base == 1e6);
    luo_arena_free(arena);
}
END_TEST

/* ---- files that people have ---- */

static const struct {
    const char *file;
    int64_t parameters; /* 0: refused in a sentence */
} kept[] = {
    {"mixtral-8x7b.json", 46702792704},   {"dsv2lite.json", 15706484224},
    {"llama31-8b.json", 8030261248},      {"mistral-7b.json", 7241732096},
    {"llama2-70b-old.json", 68976648192}, {"gemma-7b.json", 8537680896},
    {"gptneox-20b.json", 20554567680},    {"llama32-vision.json", 0},
    {"new-dtype.json", 187045376},        {"qwen25-7b.json", 7615616512},
    {"qwen3-8b.json", 8190735360},        {"gpt2-xl.json", 1557611200},
};

START_TEST(kept_row)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_err err;
    luo_model *m = NULL;
    int64_t n;
    const char *data = getenv("LUO_DATA");
    const luo_overrides bf16 = {.dtype = "bf16"};
    const char *path = luo_arena_printf(arena, "%s/../cases/hf/%s", data ? data : "../shared/data",
                                        kept[_i].file);
    if (access(path, R_OK) != 0) {
        if (_i == 0) printf("hf: skipped, no %s\n", path);
        luo_arena_free(arena);
        return;
    }
    luo_source src;
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_source_read(arena, path, &src, &err), LUO_OK);
    const luo_status st = luo_read_model_text(arena, &src, &bf16, &m, &diags);
    ck_assert_msg((st == LUO_OK) == (kept[_i].parameters > 0), "%s: %s", path,
                  diags.first ? diags.first->err.text : "?");
    if (m) {
        ck_assert_int_eq(luo_model_parameters(m, &n, &err), LUO_OK);
        ck_assert_int_eq(n, kept[_i].parameters);
    }
    luo_arena_free(arena);
}
END_TEST

/* A command that reads a file several times has its notes once. */
START_TEST(read_twice)
{
    luo_arena *arena = luo_arena_new(0);
    const char *names[] = {"a.json", "a.json", "b.json"};
    luo_diags diags;
    luo_model *model;
    int notes = 0;
    luo_diags_init(&diags, arena);
    for (int i = 0; i < LUO_ROWS(names); i++) {
        const luo_source src = {
            .name = names[i], .text = published[0].text, .len = strlen(published[0].text)};
        ck_assert_int_eq(luo_read_model_text(arena, &src, NULL, &model, &diags), LUO_OK);
    }
    for (const luo_diag *d = diags.first; d; d = d->next) notes++;
    ck_assert_int_eq(notes, 2);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("io.hf", LUO_T_N(published_row, LUO_ROWS(published)),
          LUO_T_N(window_row, LUO_ROWS(windows)), LUO_T(positions_are_scaled),
          LUO_T(details_of_types), LUO_T(all_are_computed),
          LUO_T_N(refused_row, LUO_ROWS(refused)),
          LUO_T_N(keys_not_used, 3), LUO_T(read_twice),
          LUO_T(with_set), LUO_T_N(kept_row, LUO_ROWS(kept)))
