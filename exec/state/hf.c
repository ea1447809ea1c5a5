/* hf.c: names and layouts of Hugging Face files. Their linear layers keep [out, in], but for
 * those of gpt2, which keep [in, out]; both forms of RoPE are the half-split one, so that the rows
 * of query and key stay in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/state/state_internal.h"

typedef enum sort { TABLE, NORM, OUT_IN, IN_OUT } sort; /* OUT_IN, IN_OUT: as ours keeps it */

static const struct row {
    const char *ours, *llama, *gpt; /* NULL: has no place there */
    sort sort;
} in_layer[] =
    {
        {"norm1", "input_layernorm", "ln_1", NORM},
        {"attn.q", "self_attn.q_proj", "attn.c_attn", OUT_IN},
        {"attn.k", "self_attn.k_proj", "attn.c_attn", OUT_IN},
        {"attn.v", "self_attn.v_proj", "attn.c_attn", OUT_IN},
        {"attn.q_norm", "self_attn.q_norm", NULL, NORM},
        {"attn.k_norm", "self_attn.k_norm", NULL, NORM},
        /* latent attention; what published files have in one tensor, but for rows of other order,
         * is two here */
        {"attn.q_a", "self_attn.q_a_proj", NULL, OUT_IN},
        {"attn.q_a_norm", "self_attn.q_a_layernorm", NULL, NORM},
        {"attn.q_b", "self_attn.q_b_proj", NULL, OUT_IN},
        {"attn.kv_a", "self_attn.kv_a_proj", NULL, OUT_IN},
        {"attn.k_shared", "self_attn.k_shared_proj", NULL, OUT_IN},
        {"attn.kv_a_norm", "self_attn.kv_a_layernorm", NULL, NORM},
        {"attn.k_b", "self_attn.k_b_proj", NULL, OUT_IN},
        {"attn.v_b", "self_attn.v_b_proj", NULL, OUT_IN},
        {"attn.out", "self_attn.o_proj", "attn.c_proj", IN_OUT},
        {"norm2", "post_attention_layernorm", "ln_2", NORM},
        {"mlp.norm", "post_attention_layernorm", "ln_2", NORM}, /* of parallel halves */
        {"attn.post_norm", "post_self_attn_layernorm", NULL, NORM},
        {"mlp.post_norm", "post_mlp_layernorm", NULL, NORM},
        {"norm", "norm", NULL, NORM}, /* of an mlp, which no published file has the form of */
        {"mlp.gate", "mlp.gate_proj", NULL, OUT_IN},
        {"mlp.up", "mlp.up_proj", "mlp.c_fc", OUT_IN},
        {"mlp.down", "mlp.down_proj", "mlp.c_proj", IN_OUT},
        {"moe.router", "mlp.gate", NULL, OUT_IN},
        /* all experts in one tensor, one below the other */
        {"moe.gate", "mlp.experts.gate_proj", NULL, TABLE},
        {"moe.up", "mlp.experts.up_proj", NULL, TABLE},
        {"moe.down", "mlp.experts.down_proj", NULL, TABLE},
        {"moe.shared.gate", "mlp.shared_experts.gate_proj", NULL, OUT_IN},
        {"moe.shared.up", "mlp.shared_experts.up_proj", NULL, OUT_IN},
        {"moe.shared.down", "mlp.shared_experts.down_proj", NULL, IN_OUT},
},
  at_ends[] = {
      {"wte", "model.embed_tokens", "wte", TABLE},
      {"wpe", NULL, "wpe", TABLE},
      {"norm", "model.norm", "ln_f", NORM},
      {"lm_head", "lm_head", "lm_head", TABLE},
};

/* Row of the table whose name stands between the layer's prefix and `.weight` or `.bias`. */
static const struct row *find(const char *text, size_t n, bool layer)
{
    const struct row *at = layer ? in_layer : at_ends;
    const size_t rows = layer ? sizeof in_layer / sizeof *at : sizeof at_ends / sizeof *at;
    for (size_t i = 0; i < rows; i++)
        if (strlen(at[i].ours) == n && memcmp(at[i].ours, text, n) == 0) return &at[i];
    return NULL;
}

typedef struct parsed {
    const struct row *row;
    long layer;         /* -1: none */
    const char *suffix; /* ".weight" ".bias" */
} parsed;

static bool parse(const char *name, parsed *out)
{
    const char *suffix = strrchr(name, '.');
    char *end = NULL;
    *out = (parsed){.layer = -1, .suffix = suffix};
    if (!suffix || (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0)) return false;
    if (strncmp(name, "layers.", 7) == 0) {
        out->layer = strtol(name + 7, &end, 10);
        if (end == name + 7 || *end != '.' || end >= suffix) return false;
        name = end + 1;
    }
    out->row = find(name, (size_t)(suffix - name), out->layer >= 0);
    return out->row != NULL;
}

/* The bias that is added to a router's scores, not to its products. */
static const char *suffix_of(const parsed *p)
{
    const bool counted = strcmp(p->row->ours, "moe.router") == 0 && strcmp(p->suffix, ".bias") == 0;
    return counted ? ".e_score_correction_bias" : p->suffix;
}

static luo_status put_name(const luo_model *model, const char *ours, const parsed *p,
                           luo_hf_tensor *out, luo_err *err)
{
    const bool gpt = model->family == LUO_FAMILY_GPT;
    const char *theirs = !p->row ? NULL : gpt ? p->row->gpt : p->row->llama;
    if (!theirs)
        return luo_err_set(err, LUO_EUNREP,
                           "parameter `%s` of model `%s` has no name in a Hugging Face file of a "
                           "%s; use a model of that form.",
                           ours, model->name, gpt ? "gpt2" : "llama");
    int n;
    if (p->layer < 0)
        n = snprintf(out->name, sizeof out->name, "%s%s", theirs, suffix_of(p));
    else
        n = snprintf(out->name, sizeof out->name, "%s.%ld.%s%s", gpt ? "h" : "model.layers",
                     p->layer, theirs, suffix_of(p));
    return n > 0 && (size_t)n < sizeof out->name
               ? LUO_OK
               : luo_err_set(err, LUO_EBUG, "the name of parameter `%s` is too long.", ours);
}

/* Where query, key and value begin in the tensor that they share in gpt2. */
static int64_t shared_offset(const luo_model *model, const struct row *row, int64_t *all)
{
    const int64_t q = model->heads * model->head_dim, kv = model->kv_heads * model->head_dim;
    *all = q + 2 * kv;
    return strcmp(row->ours, "attn.q") == 0 ? 0 : strcmp(row->ours, "attn.k") == 0 ? q : q + kv;
}

luo_status luo_hf_tensor_of(const luo_model *model, const luo_param *param, luo_hf_tensor *out,
                            luo_err *err)
{
    parsed p;
    luo_hf_tensor t = {.rank = 1, .rows = 1, .cols = 1};
    if (!parse(param->name, &p)) p.row = NULL;
    LUO_TRY(put_name(model, param->name, &p, &t, err));
    const luo_shape *s = &param->shape;
    const bool matrix = p.row->sort != NORM && strcmp(p.suffix, ".weight") == 0 && s->rank > 1;
    const bool gpt = model->family == LUO_FAMILY_GPT;
    for (int32_t d = 0; d < s->rank; d++) t.cols *= s->dim[d];
    if (matrix) {
        t.rank = 2;
        t.rows = t.cols / s->dim[s->rank - 1];
        t.cols = s->dim[s->rank - 1];
        t.transposed = p.row->sort == (gpt ? OUT_IN : IN_OUT);
    }
    t.dim[0] = t.transposed ? t.cols : t.rows;
    t.dim[1] = t.transposed ? t.rows : t.cols;
    if (gpt && p.layer >= 0 && strcmp(p.row->gpt, "attn.c_attn") == 0)
        t.col = shared_offset(model, p.row, &t.dim[1]);
    *out = t;
    return LUO_OK;
}

const char *luo_hf_other_name(const luo_model *model, const char *name, char *buf, size_t size)
{
    static const char prefix[] = "model.";
    if (model->family == LUO_FAMILY_GPT) {
        snprintf(buf, size, "transformer.%s", name);
        return buf;
    }
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

bool luo_hf_not_a_weight(const luo_model *model, const char *name)
{
    /* Masks of older gpt2 files, angles of older llama files, and the embedding a second time. */
    if (model->family == LUO_FAMILY_GPT &&
        (ends_in(name, ".attn.masked_bias") || ends_in(name, ".attn.bias")))
        return true;
    if (model->family != LUO_FAMILY_GPT && ends_in(name, ".rotary_emb.inv_freq")) return true;
    return model->tied_embeddings && strcmp(name, "lm_head.weight") == 0;
}

bool luo_state_decays(const luo_param *param)
{
    parsed p;
    return parse(param->name, &p) && p.row->sort != NORM && strcmp(p.suffix, ".weight") == 0;
}
