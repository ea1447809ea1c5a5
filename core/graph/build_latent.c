/* build_latent.c: queries, keys and values of latent attention (DeepSeek-AI, arXiv 2405.04434).
 *
 * Latent vectors are made where the tokens of the layer's input lie, by weights that are not cut,
 * and then put together for all devices of a tensor group, which cut heads. Where tokens are not
 * cut that Reshard does nothing, but its gradient adds what the heads of every device give.
 */
#include "core/graph/build_internal.h"

/* Latent vectors of the queries, normalised; q_lora 0: the input itself. */
static int32_t query_source(luo_builder *builder, int32_t n)
{
    const luo_projection down = {"attn.q_a", "qh", "tq", LUO_FORM_DUP, LUO_FORM_NONE};
    int32_t y;
    if (builder->m->latent.q_lora == 0)
        return luo_build_reshard(builder, "attn.gather", n, LUO_FORM_WHOLE);
    luo_build_project(builder, "attn.q_a", n, &down, 1, &y);
    y = luo_build_norm(builder, "attn.q_a_norm", "tq", y);
    return luo_build_reshard(builder, "attn.q_a.gather", y, LUO_FORM_WHOLE);
}

void luo_build_latent(luo_builder *builder, int32_t n, int32_t qkv[3])
{
    const bool direct = builder->m->latent.q_lora == 0;
    const luo_projection up = {direct ? "attn.q" : "attn.q_b", direct ? "ndh" : "ndq", "tnd",
                               LUO_FORM_CUT, LUO_FORM_NONE};
    const luo_projection down[2] = {{"attn.kv_a", "ch", "tc", LUO_FORM_DUP, LUO_FORM_NONE},
                                    {"attn.k_shared", "bh", "tb", LUO_FORM_DUP, LUO_FORM_NONE}};
    const luo_projection keys[2] = {{"attn.k_b", "nic", "tni", LUO_FORM_CUT, LUO_FORM_NONE},
                                    {"attn.v_b", "nuc", "tnu", LUO_FORM_CUT, LUO_FORM_NONE}};
    int32_t q, low[2], kv[2];
    const int32_t from = query_source(builder, n);
    luo_build_project(builder, "attn.kv_a", n, down, 2, low);
    low[0] = luo_build_norm(builder, "attn.kv_a_norm", "tc", low[0]);
    low[0] = luo_build_reshard(builder, "attn.kv_a.gather", low[0], LUO_FORM_WHOLE);
    low[1] = luo_build_reshard(builder, "attn.k_shared.gather", low[1], LUO_FORM_WHOLE);
    luo_build_project(builder, up.name, from, &up, 1, &q);
    luo_build_project(builder, "attn.kv_b", low[0], keys, 2, kv);
    const int32_t in[3] = {q, kv[0], low[1]};
    const int32_t out[2] = {luo_build_value(builder, "attn.q.rope", "tnd"),
                            luo_build_value(builder, "attn.k.rope", "tnd")};
    luo_build_op(builder, LUO_OP_LATENT, "attn.rope", in, 3, out, 2);
    qkv[0] = out[0];
    qkv[1] = out[1];
    qkv[2] = kv[1];
}
