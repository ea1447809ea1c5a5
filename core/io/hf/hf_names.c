/* hf_names.c: the table of names: how the weights of a Hugging Face type are called and laid out in
 * its checkpoints. Source: transformers, modeling_*.py of each type, and the heads of published
 * files. */
#include "core/io/hf/hf_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/hf/hf.h"

/* How a tensor of the file has ours. */
enum {
    SWAP = 1,  /* as [cols, rows] */
    HEADS = 2, /* those that share it take turns by head of keys; else one stands behind another */
    PAIRS = 4, /* what positions turn lies in pairs side by side; ours has two halves */
    APART = 8  /* a name for models of parallel halves with a norm each */
};

/* ours begins with a dot: of a layer. Of rows that fit, the first counts. `*` in theirs: the number
 * of an expert, each of which has a tensor. Several of ours may share one of theirs. */
typedef struct name_row {
    const char *ours, *theirs;
    int how;
} name_row;

#define ENDS(wte, norm, head)                                                                      \
    {"wte", wte, 0}, {"norm", norm, 0}, {"lm_head", head, 0}
#define QKV(at, q, k, v, how)                                                                      \
    {".attn.q", at q, how}, {".attn.k", at k, how}, {".attn.v", at v, how}
#define OUT(name) {".attn.out", name, SWAP}
#define GATED(at)                                                                                  \
    {".mlp.gate", at "gate_proj", 0}, {".mlp.up", at "up_proj", 0},                                \
        {".mlp.down", at "down_proj", SWAP}
#define TWO(up, down) {".mlp.up", up, 0}, {".mlp.down", down, SWAP}
#define NORMS(first, second)                                                                       \
    {".norm1", first, 0}, {".norm2", second, 0}, {".mlp.norm", second, 0}
#define EXPERTS(at, gate, up, down)                                                                \
    {".moe.gate", at gate, 0}, {".moe.up", at up, 0}, {".moe.down", at down, SWAP}
#define SHARED(at)                                                                                 \
    {".moe.shared.gate", at "gate_proj", 0}, {".moe.shared.up", at "up_proj", 0},                  \
        {".moe.shared.down", at "down_proj", SWAP}

#define LLAMA_ENDS ENDS("model.embed_tokens", "model.norm", "lm_head")
#define LLAMA_ATTENTION                                                                            \
    QKV("self_attn.", "q_proj", "k_proj", "v_proj", 0), OUT("self_attn.o_proj"),                   \
        {".attn.q_norm", "self_attn.q_norm", 0}, {".attn.k_norm", "self_attn.k_norm", 0}
#define LLAMA_NORMS NORMS("input_layernorm", "post_attention_layernorm")
#define LLAMA LLAMA_ENDS, LLAMA_ATTENTION, LLAMA_NORMS, GATED("mlp.")
#define GPT_ENDS(at) ENDS(at "wte", at "ln_f", "lm_head"), {"wpe", at "wpe", 0}

static const name_row llama[] = {
    LLAMA,
    /* which no published file has */
    {".attn.post_norm", "post_self_attn_layernorm", 0}, {".mlp.post_norm", "post_mlp_layernorm", 0},
    {".norm", "norm", 0}};
static const name_row mixtral[] = {
    LLAMA_ENDS, LLAMA_ATTENTION, LLAMA_NORMS, {".moe.router", "block_sparse_moe.gate", 0},
    EXPERTS("block_sparse_moe.experts.*.", "w1", "w3", "w2")};
static const name_row qwen_moe[] = {
    LLAMA, {".moe.router", "mlp.gate", 0},
    EXPERTS("mlp.experts.*.", "gate_proj", "up_proj", "down_proj"), SHARED("mlp.shared_expert."),
    {".moe.shared_gate", "mlp.shared_expert_gate", 0}};
static const name_row deepseek[] = {
    {".attn.q_a", "self_attn.q_a_proj", 0}, {".attn.q_a_norm", "self_attn.q_a_layernorm", 0},
    {".attn.q_b", "self_attn.q_b_proj", HEADS | PAIRS},
    {".attn.q", "self_attn.q_proj", HEADS | PAIRS},
    {".attn.kv_a", "self_attn.kv_a_proj_with_mqa", 0},
    {".attn.k_shared", "self_attn.kv_a_proj_with_mqa", PAIRS},
    {".attn.kv_a_norm", "self_attn.kv_a_layernorm", 0},
    {".attn.k_b", "self_attn.kv_b_proj", HEADS}, {".attn.v_b", "self_attn.kv_b_proj", HEADS},
    LLAMA, {".moe.router.bias", "mlp.gate.e_score_correction_bias", 0},
    {".moe.router", "mlp.gate", 0},
    EXPERTS("mlp.experts.*.", "gate_proj", "up_proj", "down_proj"), SHARED("mlp.shared_experts.")};
static const name_row gemma2[] = {
    LLAMA_ENDS, LLAMA_ATTENTION, NORMS("input_layernorm", "pre_feedforward_layernorm"),
    GATED("mlp."), {".attn.post_norm", "post_attention_layernorm", 0},
    {".mlp.post_norm", "post_feedforward_layernorm", 0}};
static const name_row phi3[] = {
    LLAMA_ENDS, QKV("self_attn.", "qkv_proj", "qkv_proj", "qkv_proj", 0),
    OUT("self_attn.o_proj"), LLAMA_NORMS, {".mlp.gate", "mlp.gate_up_proj", 0},
    {".mlp.up", "mlp.gate_up_proj", 0}, {".mlp.down", "mlp.down_proj", SWAP}};
#define QUERY_KEY_VALUE(at) QKV(at, "query_key_value", "query_key_value", "query_key_value", HEADS)
static const name_row gpt_neox[] = {
    ENDS("gpt_neox.embed_in", "gpt_neox.final_layer_norm", "embed_out"),
    QUERY_KEY_VALUE("attention."), OUT("attention.dense"), LLAMA_NORMS,
    TWO("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")};
static const name_row falcon[] = {
    ENDS("transformer.word_embeddings", "transformer.ln_f", "lm_head"),
    QUERY_KEY_VALUE("self_attention."), OUT("self_attention.dense"), {".norm1", "ln_attn", APART},
    {".mlp.norm", "ln_mlp", APART}, LLAMA_NORMS, TWO("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")};
/* Its products keep [in, out]. */
static const name_row gpt2[] = {
    GPT_ENDS(""), QKV("attn.", "c_attn", "c_attn", "c_attn", SWAP),
    {".attn.out", "attn.c_proj", 0}, NORMS("ln_1", "ln_2"), {".mlp.up", "mlp.c_fc", SWAP},
    {".mlp.down", "mlp.c_proj", 0}};
static const name_row gpt_neo[] = {
    GPT_ENDS("transformer."), QKV("attn.attention.", "q_proj", "k_proj", "v_proj", 0),
    OUT("attn.attention.out_proj"), NORMS("ln_1", "ln_2"), TWO("mlp.c_fc", "mlp.c_proj")};
static const name_row opt[] = {
    ENDS("model.decoder.embed_tokens", "model.decoder.final_layer_norm", "lm_head"),
    {"wpe", "model.decoder.embed_positions", 0},
    QKV("self_attn.", "q_proj", "k_proj", "v_proj", 0), OUT("self_attn.out_proj"),
    NORMS("self_attn_layer_norm", "final_layer_norm"), TWO("fc1", "fc2")};

struct luo_hf_layout {
    const char *type, *layer, *base; /* base: what files may leave out or have in front */
    const char *extra; /* ending of what files have in layers beside weights; NULL: nothing */
    const name_row *rows;
    int n;
};
#define LAYOUT(type, layer, base, extra, rows)                                                     \
    {type, layer, base, extra, rows, (int)LUO_DOC_COUNT(rows)}
#define OF_LLAMA(type, rows) LAYOUT(type, "model.layers", "model.", ".rotary_emb.inv_freq", rows)
static const luo_hf_layout layouts[] = {
    OF_LLAMA("llama", llama),
    OF_LLAMA("mistral", llama),
    OF_LLAMA("qwen2", llama),
    OF_LLAMA("qwen3", llama),
    OF_LLAMA("mixtral", mixtral),
    OF_LLAMA("qwen2_moe", qwen_moe),
    OF_LLAMA("qwen3_moe", qwen_moe),
    OF_LLAMA("deepseek_v2", deepseek),
    OF_LLAMA("deepseek_v3", deepseek),
    OF_LLAMA("gemma", llama),
    OF_LLAMA("gemma2", gemma2),
    OF_LLAMA("gemma3_text", gemma2),
    OF_LLAMA("phi3", phi3),
    LAYOUT("gpt_neox", "gpt_neox.layers", "gpt_neox.", ".rotary_emb.inv_freq", gpt_neox),
    LAYOUT("falcon", "transformer.h", "transformer.", NULL, falcon),
    LAYOUT("gpt2", "h", "transformer.", NULL, gpt2),
    LAYOUT("gpt_neo", "transformer.h", "transformer.", NULL, gpt_neo),
    LAYOUT("opt", "model.decoder.layers", "model.", NULL, opt),
};

const luo_hf_layout *luo_hf_layout_of(const char *type)
{
    for (size_t i = 0; i < LUO_DOC_COUNT(layouts); i++)
        if (strcmp(layouts[i].type, type) == 0) return &layouts[i];
    return NULL;
}

/* ---- a parameter of ours ---- */

typedef struct parsed {
    const name_row *row;
    int64_t layer; /* -1: none */
    const char *suffix; /* ".weight" ".bias", "" where the row has all of the name */
} parsed;

static bool fits(const luo_model *model, const name_row *row, const char *name, size_t n)
{
    const bool apart = model->parallel_residual && !model->shared_norm;
    return strlen(row->ours) == n && memcmp(row->ours, name, n) == 0 &&
           (!(row->how & APART) || apart);
}

static bool parse(const luo_hf_layout *layout, const luo_model *model, const char *name,
                  parsed *out)
{
    const char *suffix = strrchr(name, '.');
    char *end = NULL;
    *out = (parsed){.layer = -1, .suffix = suffix};
    if (!suffix || (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0)) return false;
    if (strncmp(name, "layers.", 7) == 0) {
        out->layer = strtoll(name + 7, &end, 10);
        if (end == name + 7 || *end != '.' || end >= suffix) return false;
        name = end;
    }
    for (int i = 0; i < layout->n && !out->row; i++) {
        const bool whole = fits(model, &layout->rows[i], name, strlen(name));
        if (!whole && !fits(model, &layout->rows[i], name, (size_t)(suffix - name))) continue;
        out->row = &layout->rows[i];
        if (whole) out->suffix = "";
    }
    return out->row != NULL;
}

/* Rows of the matrix of a row of the table, which shares a tensor. */
static int64_t rows_of(const luo_model *model, const char *ours)
{
    const luo_latent *latent = &model->latent;
    const struct {
        const char *ours;
        int64_t rows;
    } sizes[] = {{".attn.q", model->heads * model->head_dim},
                 {".attn.k", model->kv_heads * model->head_dim},
                 {".attn.v", model->kv_heads * model->head_dim},
                 {".mlp.gate", model->ffn_hidden},
                 {".mlp.up", model->ffn_hidden},
                 {".attn.kv_a", latent->kv_lora},
                 {".attn.k_shared", latent->rope},
                 {".attn.k_b", model->heads * latent->nope},
                 {".attn.v_b", model->heads * latent->v}};
    for (size_t i = 0; i < LUO_DOC_COUNT(sizes); i++)
        if (strcmp(sizes[i].ours, ours) == 0) return sizes[i].rows;
    return 0;
}

/* Where its rows lie among those that share the tensor. Returns the rows of all. */
static int64_t place_rows(const luo_hf_layout *layout, const luo_model *model, const name_row *row,
                          luo_hf_tensor *tensor)
{
    const int64_t groups = row->how & HEADS ? model->kv_heads : 1;
    int64_t all = 0;
    for (int i = 0; i < layout->n; i++) {
        const name_row *other = &layout->rows[i];
        if (strcmp(other->theirs, row->theirs) != 0 || (other->how ^ row->how) & HEADS) continue;
        if (other == row) tensor->at = all / groups;
        all += other == row ? tensor->rows : rows_of(model, other->ours);
    }
    tensor->block = tensor->rows / groups;
    tensor->stride = all / groups;
    if (row->how & PAIRS) tensor->turned = model->latent.rope;
    return all;
}

/* Has it a row for each token? Plans may pad these (core/plan/vocab.c). */
static bool is_vocabulary(const name_row *row)
{
    return strcmp(row->ours, "wte") == 0 || strcmp(row->ours, "lm_head") == 0;
}

luo_status luo_hf_tensor_of(const luo_hf_layout *layout, const luo_model *model,
                            const luo_param *param, luo_hf_tensor *out, luo_err *err)
{
    const luo_shape *shape = &param->shape;
    luo_hf_tensor tensor = {.parts = 1, .rows = 1, .cols = 1, .rank = 1};
    parsed p;
    if (!parse(layout, model, param->name, &p))
        return luo_err_set(err, LUO_EUNREP,
                           "parameter `%s` of model `%s` has no name in a Hugging Face file of a "
                           "%s; use a model of that form.",
                           param->name, model->name, layout->type);
    for (int32_t d = 0; d < shape->rank; d++) tensor.rows *= shape->dim[d];
    if (strcmp(p.suffix, ".weight") == 0 && shape->rank > 1) {
        tensor.rank = 2;
        tensor.cols = shape->dim[shape->rank - 1];
        tensor.rows /= tensor.cols;
        tensor.swapped = p.row->how & SWAP;
    }
    if (strchr(p.row->theirs, '*')) {
        tensor.parts = shape->dim[0];
        tensor.rows /= tensor.parts;
    }
    if (is_vocabulary(p.row) && tensor.rows > model->vocab) tensor.rows = model->vocab;
    const int64_t all = place_rows(layout, model, p.row, &tensor);
    tensor.dim[0] = tensor.swapped ? tensor.cols : all;
    tensor.dim[1] = tensor.swapped ? all : tensor.cols;
    int n = p.layer < 0 ? snprintf(tensor.name, sizeof tensor.name, "%s%s", p.row->theirs, p.suffix)
                        : snprintf(tensor.name, sizeof tensor.name, "%s.%lld.%s%s", layout->layer,
                                   (long long)p.layer, p.row->theirs, p.suffix);
    *out = tensor;
    return n > 0 && (size_t)n < sizeof tensor.name
               ? LUO_OK
               : luo_err_set(err, LUO_EBUG, "the name of parameter `%s` is too long.", param->name);
}

void luo_hf_part_name(const luo_hf_tensor *tensor, int64_t part, char *buf, size_t size)
{
    const char *star = strchr(tensor->name, '*');
    if (star)
        snprintf(buf, size, "%.*s%lld%s", (int)(star - tensor->name), tensor->name,
                 (long long)part, star + 1);
    else
        snprintf(buf, size, "%s", tensor->name);
}

int64_t luo_hf_row(const luo_hf_tensor *tensor, int64_t row)
{
    const int64_t half = tensor->turned / 2, kept = tensor->block - tensor->turned,
                  at = row % tensor->block;
    int64_t to = at;
    if (at >= kept && half > 0) {
        const int64_t i = at - kept;
        to = kept + (i < half ? 2 * i : 2 * (i - half) + 1);
    }
    return tensor->at + row / tensor->block * tensor->stride + to;
}

/* ---- names of files ---- */

const char *luo_hf_other_name(const luo_hf_layout *layout, const char *name, char *buf, size_t size)
{
    const size_t n = strlen(layout->base);
    if (strncmp(name, layout->base, n) == 0) return name + n;
    snprintf(buf, size, "%s%s", layout->base, name);
    return buf;
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

bool luo_hf_not_a_weight(const luo_hf_layout *layout, const luo_model *model, const char *name)
{
    /* masks of older files of gpt2, gpt_neo and gpt_neox, which are no biases of products */
    static const char *const masks[] = {".attn.bias", ".attn.masked_bias", ".attn.attention.bias",
                                        ".attn.attention.masked_bias", ".attention.bias",
                                        ".attention.masked_bias"};
    for (size_t i = 0; i < LUO_DOC_COUNT(masks); i++)
        if (ends_in(name, masks[i])) return true;
    if (layout->extra && ends_in(name, layout->extra)) return true;
    return model->tied_embeddings &&
           (strcmp(name, "lm_head.weight") == 0 || strcmp(name, "embed_out.weight") == 0);
}
