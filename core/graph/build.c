/* build.c: the forward graph of a decoder (docs/annotations.md#from-a-plan-to-annotations). llama,
 * gpt and moe differ only in norm, positions, activation and biases, which the model states one by
 * one, in latent attention (build_latent.c), and in layers with experts (build_experts.c). Layers
 * of mlp are the second half of theirs. */
#include <stdio.h>
#include <string.h>

#include "core/base/words.h"
#include "core/graph/build_internal.h"

static const char *name_of(luo_builder *builder, const char *a, const char *tail)
{
    return luo_arena_printf(builder->g->arena, "%s%s%s", builder->prefix, a, tail);
}

int32_t luo_build_value(luo_builder *builder, const char *name, const char *letters)
{
    return luo_graph_tensor(builder->g, name_of(builder, name, ""), letters, LUO_TENSOR_VALUE,
                            builder->layer);
}

void luo_build_give(luo_builder *builder, int32_t x, luo_form form)
{
    if (builder->g->failed) return;
    builder->g->tensor[x].form = (int32_t)form;
    builder->g->tensor[x].place = builder->place;
}

int32_t luo_build_op(luo_builder *builder, luo_op_kind kind, const char *name, const int32_t *in,
                     int32_t nin, const int32_t *out, int32_t nout)
{
    return luo_graph_op(builder->g, kind, name_of(builder, name, ""), builder->layer, in, nin, out,
                        nout);
}

/* One result, of the operation's name. */
int32_t luo_build_op1(luo_builder *builder, luo_op_kind kind, const char *name, const char *letters,
                      int32_t nin, const int32_t *in)
{
    const int32_t y = luo_build_value(builder, name, letters);
    luo_build_op(builder, kind, name, in, nin, &y, 1);
    return y;
}

int32_t luo_build_reshard(luo_builder *builder, const char *name, int32_t x, luo_form form)
{
    const char *letters = builder->g->failed ? "" : builder->g->tensor[x].letters;
    const int64_t bytes = builder->g->failed ? 0 : builder->g->tensor[x].elem_bytes;
    const int32_t y = luo_build_op1(builder, LUO_OP_RESHARD, name, letters, 1, &x);
    luo_build_give(builder, y, form);
    if (!builder->g->failed) builder->g->tensor[y].elem_bytes = bytes;
    return y;
}

static int32_t held(luo_builder *builder, const char *name, const char *letters,
                    luo_tensor_kind kind, luo_form form)
{
    const int32_t x = luo_graph_tensor(builder->g, name, letters, (int32_t)kind, builder->layer);
    luo_build_give(builder, x, form);
    return x;
}

/* ZeRO-3: what the operations of a task read; between tasks there are pieces only. */
static int32_t gathered(luo_builder *builder, const char *name, const char *letters, int32_t w,
                        luo_form form)
{
    const char *full = name_of(builder, name, ".full");
    const int32_t y = held(builder, full, letters, LUO_TENSOR_FULL, form);
    luo_graph_op(builder->g, LUO_OP_RESHARD, full, builder->layer, &w, 1, &y, 1);
    return y;
}

/* State and working copy of a parameter; the Reshard between them is ZeRO's gather, or nothing. A
 * state kept elsewhere arrives as this plan's ZeRO pieces first: sums cannot move and be reduced
 * at once on the way back (docs/annotations.md#zero). */
int32_t luo_build_param(luo_builder *builder, const char *name, const char *letters, luo_form form)
{
    luo_graph *graph = builder->g;
    const char *full = name_of(builder, name, "");
    const char *state_name = name_of(builder, name, ".state"),
               *shard_name = name_of(builder, name, ".shard");
    int32_t from = held(builder, state_name, letters, LUO_TENSOR_STATE, LUO_FORM_STATE);
    luo_graph_op(graph, LUO_OP_STATE, state_name, builder->layer, NULL, 0, &from, 1);
    if (builder->opts->state_apart) {
        const int32_t shard = held(builder, shard_name, letters, LUO_TENSOR_SHARD, LUO_FORM_SHARD);
        luo_graph_op(graph, LUO_OP_RESHARD, shard_name, builder->layer, &from, 1, &shard, 1);
        from = shard;
    }
    const bool cut = builder->opts->gather_each;
    const int32_t w = held(builder, full, letters, LUO_TENSOR_PARAM, cut ? LUO_FORM_SHARD : form);
    luo_graph_op(graph, LUO_OP_RESHARD, full, builder->layer, &from, 1, &w, 1);
    return cut ? gathered(builder, name, letters, w, form) : w;
}

/* What counts move is never cut: it is small, and all of it is needed to move any of it. */
int32_t luo_build_counted(luo_builder *builder, const char *name, const char *letters)
{
    luo_graph *graph = builder->g;
    const char *full = name_of(builder, name, ""), *state_name = name_of(builder, name, ".state");
    const int32_t from = held(builder, state_name, letters, LUO_TENSOR_STATE, LUO_FORM_STATE);
    luo_graph_op(graph, LUO_OP_STATE, state_name, builder->layer, NULL, 0, &from, 1);
    const int32_t w = held(builder, full, letters, LUO_TENSOR_PARAM, LUO_FORM_DUP);
    luo_graph_op(graph, LUO_OP_RESHARD, full, builder->layer, &from, 1, &w, 1);
    for (int32_t i = 0; i < 2 && !graph->failed; i++) {
        luo_tensor *tensor = &graph->tensor[i ? w : from];
        tensor->counted = true;
        tensor->elem_bytes = graph->sum_bytes;
    }
    return w;
}

int32_t luo_build_norm(luo_builder *builder, const char *name, const char *letters, int32_t x)
{
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const char *last = letters + strlen(letters) - 1;
    int32_t in[3] = {x, luo_build_param(builder, weight, last, LUO_FORM_DUP), 0};
    const bool centred = builder->m->norm == LUO_NORM_LAYER;
    if (centred) in[2] = luo_build_param(builder, bias, last, LUO_FORM_DUP);
    return luo_build_op1(builder, LUO_OP_NORM, name, letters, centred ? 3 : 2, in);
}

static int32_t add_bias(luo_builder *builder, const char *name, const char *letters, int32_t x,
                        luo_form form)
{
    char full[64], sum[64];
    snprintf(full, sizeof full, "%s.bias", name);
    snprintf(sum, sizeof sum, "%s.biased", name);
    const int32_t in[2] = {x, luo_build_param(builder, full, letters + 1, form)};
    return luo_build_op1(builder, LUO_OP_BIAS, sum, letters, 2, in);
}

static int32_t weight_of(luo_builder *builder, const luo_projection *projection)
{
    char weight[64];
    snprintf(weight, sizeof weight, "%s.weight", projection->name);
    return luo_build_param(builder, weight, projection->weight, projection->form);
}

static void add_biases(luo_builder *builder, const luo_projection *projection, int32_t n,
                       int32_t *y)
{
    for (int32_t j = 0; j < n; j++)
        if (projection[j].bias != LUO_FORM_NONE)
            y[j] =
                add_bias(builder, projection[j].name, projection[j].out, y[j], projection[j].bias);
}

/* y_j = x w_j for several weights at once: one kernel, as every fused implementation has it. */
static void project_together(luo_builder *builder, const char *name, int32_t x,
                             const luo_projection *projection, int32_t n, int32_t *y)
{
    int32_t in[4] = {x};
    for (int32_t j = 0; j < n; j++) in[1 + j] = weight_of(builder, &projection[j]);
    for (int32_t j = 0; j < n; j++)
        y[j] = luo_build_value(builder, projection[j].name, projection[j].out);
    luo_build_op(builder, LUO_OP_MATMUL, name, in, 1 + n, y, n);
    add_biases(builder, projection, n, y);
}

/* A kernel each. Weights come before biases as above, for all plans of a model list its parameters
 * in one order (core/plan/migrate.h). */
static void project_apart(luo_builder *builder, int32_t x, const luo_projection *projection,
                          int32_t n, int32_t *y)
{
    int32_t w[3] = {0};
    bool biased = false;
    for (int32_t j = 0; j < n; j++) biased |= projection[j].bias != LUO_FORM_NONE;
    for (int32_t j = 0; biased && j < n; j++) w[j] = weight_of(builder, &projection[j]);
    for (int32_t j = 0; j < n; j++) {
        const int32_t in[2] = {x, biased ? w[j] : weight_of(builder, &projection[j])};
        y[j] = luo_build_op1(builder, LUO_OP_MATMUL, projection[j].name, projection[j].out, 2, in);
    }
    add_biases(builder, projection, n, y);
}

void luo_build_project(luo_builder *builder, const char *name, int32_t x,
                       const luo_projection *projection, int32_t n, int32_t *y)
{
    const bool alike = n == 3 && builder->m->heads == builder->m->kv_heads;
    if (!builder->opts->apart || n == 1 || alike)
        project_together(builder, name, x, projection, n, y);
    else
        project_apart(builder, x, projection, n, y);
}

/* Keys and values of few heads stay whole: the Reshard does nothing here, but its gradient adds
 * what the query heads of every device contribute (attention). */
static void whole_keys(luo_builder *builder, int32_t qkv[3])
{
    if (!builder->opts->kv_whole) return;
    qkv[1] = luo_build_reshard(builder, "attn.k.whole", qkv[1], LUO_FORM_WHOLE);
    qkv[2] = luo_build_reshard(builder, "attn.v.whole", qkv[2], LUO_FORM_WHOLE);
}

/* Tokens of all ranks of a part for some heads, instead of some tokens for all heads. Keys and
 * values of few heads go in two ways: cut among the ranks, then as many copies as are read; so the
 * gradients of the copies are added where they are scattered. */
static void exchange_heads(luo_builder *builder, int32_t qkv[3])
{
    if (!builder->opts->exchanges) return;
    qkv[0] = luo_build_reshard(builder, "attn.q.heads", qkv[0], LUO_FORM_HEADS);
    qkv[1] = luo_build_reshard(builder, "attn.k.heads", qkv[1], LUO_FORM_KEYS);
    qkv[2] = luo_build_reshard(builder, "attn.v.heads", qkv[2], LUO_FORM_KEYS);
    qkv[1] = luo_build_reshard(builder, "attn.k.copies", qkv[1], LUO_FORM_COPIES);
    qkv[2] = luo_build_reshard(builder, "attn.v.copies", qkv[2], LUO_FORM_COPIES);
}

static int32_t attend(luo_builder *builder, int32_t j, const int32_t *in, int32_t nin,
                      int32_t *rows)
{
    char name[40] = "attn.core", stat[48] = "attn.core.rows";
    if (j) snprintf(name, sizeof name, "attn.core.%d", (int)j);
    if (j) snprintf(stat, sizeof stat, "attn.core.%d.rows", (int)j);
    const char *letters = luo_model_is_latent(builder->m) ? "tnu" : "tnd";
    const int32_t out[2] = {luo_build_value(builder, name, letters),
                            luo_build_value(builder, stat, "tn")};
    const int32_t o = luo_build_op(builder, LUO_OP_ATTENTION, name, in, nin, out, 2);
    if (!builder->g->failed) builder->g->tensor[out[1]].elem_bytes = builder->g->sum_bytes;
    if (!builder->g->failed) builder->g->op[o].ring = j;
    *rows = out[1];
    return out[0];
}

/* Keys and values of the next step travel while those at hand are worked on, to where those of the
 * step before were. */
static int32_t ring_attention(luo_builder *builder, const int32_t qkv[3])
{
    int32_t in[5] = {qkv[0], qkv[1], qkv[2]}, rows = 0, o = 0;
    for (int32_t j = 0; j == 0 || j < builder->opts->ring; j++) {
        int32_t next[2] = {0};
        for (int32_t k = 0; k < 2 && j + 1 < builder->opts->ring; k++) {
            char name[40];
            snprintf(name, sizeof name, "attn.%c.ring.%d", "kv"[k], (int)j + 1);
            next[k] =
                luo_build_reshard(builder, name, in[1 + k], (luo_form)(LUO_FORM_RING + j + 1));
            if (!builder->g->failed) builder->g->op[builder->g->tensor[next[k]].op].after = o;
        }
        o = attend(builder, j, in, j ? 5 : 3, &rows);
        in[1] = next[0];
        in[2] = next[1];
        in[3] = o;
        in[4] = rows;
    }
    return o;
}

static int32_t core_attention(luo_builder *builder, int32_t qkv[3])
{
    if (builder->m->qk_norm) {
        qkv[0] = luo_build_norm(builder, "attn.q_norm", "tnd", qkv[0]);
        qkv[1] = luo_build_norm(builder, "attn.k_norm", "tgd", qkv[1]);
    }
    if (builder->m->position == LUO_POS_ROPE) {
        const int32_t out[2] = {luo_build_value(builder, "attn.q.rope", "tnd"),
                                luo_build_value(builder, "attn.k.rope", "tgd")};
        luo_build_op(builder, LUO_OP_ROPE, "attn.rope", qkv, 2, out, 2);
        qkv[0] = out[0];
        qkv[1] = out[1];
    }
    whole_keys(builder, qkv);
    exchange_heads(builder, qkv);
    const int32_t o = ring_attention(builder, qkv);
    return builder->opts->exchanges ? luo_build_reshard(builder, "attn.core.home", o, LUO_FORM_HOME)
                                    : o;
}

/* Reduces a row-parallel product, adds its bias, and takes the norm of that where there is one. */
static int32_t reduced(luo_builder *builder, const char *part, const char *product, bool biased,
                       int32_t y)
{
    char text[64];
    snprintf(text, sizeof text, "%s.reduce", part);
    y = luo_build_reshard(builder, text, y, LUO_FORM_X);
    if (biased) y = add_bias(builder, product, "th", y, LUO_FORM_DUP);
    snprintf(text, sizeof text, "%s.post_norm", part);
    return builder->m->post_norms ? luo_build_norm(builder, text, "th", y) : y;
}

static int32_t latent_block(luo_builder *builder, int32_t n)
{
    const luo_projection out = {"attn.out", "nuh", "th", LUO_FORM_CUT, LUO_FORM_NONE};
    int32_t y[3];
    luo_build_latent(builder, n, y);
    const int32_t o = ring_attention(builder, y);
    luo_build_project(builder, "attn.out", o, &out, 1, y);
    return reduced(builder, "attn", "attn.out", false, y[0]);
}

/* What attention gives of the layer's normalised input n. */
static int32_t attention_block(luo_builder *builder, int32_t n)
{
    if (luo_model_is_latent(builder->m)) return latent_block(builder, n);
    const luo_form kv = builder->opts->kv_whole ? LUO_FORM_DUP : LUO_FORM_CUT;
    const bool biased = builder->m->qkv_bias;
    const luo_projection qkv[3] = {
        {"attn.q", "ndh", "tnd", LUO_FORM_CUT, biased ? LUO_FORM_CUT : LUO_FORM_NONE},
        {"attn.k", "gdh", "tgd", kv, biased ? kv : LUO_FORM_NONE},
        {"attn.v", "gdh", "tgd", kv, biased ? kv : LUO_FORM_NONE}};
    const luo_projection out = {"attn.out", "ndh", "th", LUO_FORM_CUT, LUO_FORM_NONE};
    int32_t y[3];
    const int32_t whole = luo_build_reshard(builder, "attn.gather", n, LUO_FORM_WHOLE);
    /* dX of cut and of whole weights differ in annotation: then they are two products. */
    const int32_t together = builder->opts->kv_whole ? 1 : 3;
    luo_build_project(builder, together == 3 ? "attn.qkv" : "attn.q", whole, qkv, together, y);
    if (together == 1) luo_build_project(builder, "attn.kv", whole, qkv + 1, 2, y + 1);
    const int32_t o = core_attention(builder, y);
    luo_build_project(builder, "attn.out", o, &out, 1, y);
    return reduced(builder, "attn", "attn.out", builder->m->out_bias, y[0]);
}

static int32_t activate(luo_builder *builder, const int32_t *in)
{
    const int32_t y = luo_build_value(builder, "mlp.act", "tf");
    if (!luo_model_is_gated(builder->m)) {
        luo_build_op(builder, LUO_OP_ACTIVATION, "mlp.act", in, 1, &y, 1);
        return y;
    }
    const int32_t out[2] = {y, luo_build_value(builder, "mlp.act.silu", "tf")};
    luo_build_op(builder, LUO_OP_ACTIVATION, "mlp.act", in, 2, out, 2);
    return y;
}

/* What the feed-forward gives of its normalised input n. */
static int32_t feed_forward(luo_builder *builder, int32_t n)
{
    const luo_form bias = builder->m->linear_bias ? LUO_FORM_CUT : LUO_FORM_NONE;
    const bool gated = luo_model_is_gated(builder->m);
    const luo_projection in[2] = {{"mlp.gate", "fh", "tf", LUO_FORM_CUT, bias},
                              {"mlp.up", "fh", "tf", LUO_FORM_CUT, bias}};
    const luo_projection down = {"mlp.down", "fh", "th", LUO_FORM_CUT, LUO_FORM_NONE};
    int32_t y[2];
    const int32_t whole = luo_build_reshard(builder, "mlp.gather", n, LUO_FORM_WHOLE);
    if (gated)
        luo_build_project(builder, "mlp.gate_up", whole, in, 2, y);
    else
        luo_build_project(builder, "mlp.up", whole, in + 1, 1, y);
    const int32_t a = activate(builder, y);
    luo_build_project(builder, "mlp.down", a, &down, 1, y);
    return reduced(builder, "mlp", "mlp.down", builder->m->linear_bias, y[0]);
}

/* Attention and feed-forward read one input, and are added to it together (Wang & Komatsuzaki,
 * GPT-J 2021; with one norm: Penedo et al., arXiv 2306.01116). */
static int32_t parallel_layer(luo_builder *builder, int32_t x)
{
    const int32_t n = luo_build_norm(builder, "norm1", "th", x);
    const int32_t a = attention_block(builder, n);
    const int32_t m = builder->m->shared_norm ? n : luo_build_norm(builder, "mlp.norm", "th", x);
    const int32_t sum[3] = {x, a, feed_forward(builder, m)};
    return luo_build_op1(builder, LUO_OP_ADD, "mlp.add", "th", 3, sum);
}

static int32_t layer(luo_builder *builder, int32_t x)
{
    const bool attends = luo_model_has_attention(builder->m);
    if (builder->m->parallel_residual) return parallel_layer(builder, x);
    if (attends) {
        const int32_t n = luo_build_norm(builder, "norm1", "th", x);
        const int32_t sum[2] = {x, attention_block(builder, n)};
        x = luo_build_op1(builder, LUO_OP_ADD, "attn.add", "th", 2, sum);
    }
    if (luo_model_has_experts(builder->m, builder->layer)) return luo_build_mixture(builder, x);
    /* without attention its input is no sum that could be made again
     * (core/graph/program/memory_rules.c) */
    const int32_t n = luo_build_norm(builder, attends ? "norm2" : "norm", "th", x);
    const int32_t sum[2] = {x, feed_forward(builder, n)};
    return luo_build_op1(builder, LUO_OP_ADD, "mlp.add", "th", 2, sum);
}

static int32_t data(luo_builder *builder, const char *name, luo_form form)
{
    const int32_t x = luo_graph_tensor(builder->g, name, "t", LUO_TENSOR_DATA, -1);
    if (!builder->g->failed) builder->g->tensor[x].elem_bytes = 4;
    luo_build_give(builder, x, form);
    luo_graph_op(builder->g, LUO_OP_PLACEHOLDER, name, -1, NULL, 0, &x, 1);
    return x;
}

/* What there is of a table at another place, one Reshard away. */
static int32_t copied(luo_builder *builder, const char *name, luo_tensor_kind kind, luo_form form,
                      int32_t from)
{
    const int32_t y = held(builder, name, "vh", kind, form);
    luo_graph_op(builder->g, LUO_OP_RESHARD, name, -1, &from, 1, &y, 1);
    return y;
}

/* Do the stages of embedding and head both hold a tied table and its state? Its gradients are
 * summed over both, once a step, and both update the same numbers. */
static bool held_at_ends(const luo_builder *builder)
{
    return builder->m->tied_embeddings && builder->opts->head_apart && !builder->opts->scatter_each;
}

static int32_t embed(luo_builder *builder, int32_t *table)
{
    luo_graph *graph = builder->g;
    const bool ends = held_at_ends(builder);
    graph->ids = data(builder, "ids", LUO_FORM_WHOLE);
    *table = luo_build_param(builder, "wte.weight", "vh", ends ? LUO_FORM_ENDS : LUO_FORM_CUT);
    const int32_t in[2] = {
        graph->ids,
        ends ? copied(builder, "wte.weight@wte", LUO_TENSOR_PARAM, LUO_FORM_CUT, *table) : *table};
    int32_t x = luo_build_op1(builder, LUO_OP_EMBEDDING, "wte", "th", 2, in);
    x = luo_build_reshard(builder, "wte.reduce", x, LUO_FORM_X);
    if (builder->m->position != LUO_POS_LEARNED) return x;
    const int32_t positions = data(builder, "positions", LUO_FORM_X);
    const int32_t at[2] = {positions, luo_build_param(builder, "wpe.weight", "ph", LUO_FORM_DUP)};
    const int32_t sum[2] = {x, luo_build_op1(builder, LUO_OP_EMBEDDING, "wpe", "th", 2, at)};
    return luo_build_op1(builder, LUO_OP_ADD, "wpe.add", "th", 2, sum);
}

/* The head's matrix: its own, the embedding's, or the head's part of a table at both ends. Where
 * gradients are cut in every micro-batch (ZeRO-2, 3) the head's are cut among its own devices, so
 * that no task waits for the other end of the pipeline: there is a copy without state, whose pieces
 * come from the embedding's once a step, and their sums go back the same way. */
static int32_t head_weight(luo_builder *builder, int32_t table)
{
    static const char name[] = "wte.weight@lm_head";
    const luo_graph *graph = builder->g;
    if (!builder->m->tied_embeddings)
        return luo_build_param(builder, "lm_head.weight", "vh", LUO_FORM_CUT);
    if (!builder->opts->head_apart || graph->failed) return table;
    if (held_at_ends(builder)) return copied(builder, name, LUO_TENSOR_PARAM, LUO_FORM_CUT, table);
    const int32_t cut =
        graph->op[graph->tensor[table].op].in[0]; /* what the table is gathered from */
    if (!builder->opts->gather_each) {
        const int32_t pieces =
            copied(builder, "wte.weight@lm_head.shard", LUO_TENSOR_SHARD, LUO_FORM_SHARD, cut);
        return copied(builder, name, LUO_TENSOR_PARAM, LUO_FORM_CUT, pieces);
    }
    const int32_t pieces = copied(builder, name, LUO_TENSOR_PARAM, LUO_FORM_SHARD, cut);
    return gathered(builder, name, "vh", pieces, LUO_FORM_CUT);
}

/* A statistic per token, made of a local one by the Reshard (three internal all-reduces). */
static int32_t row(luo_builder *builder, luo_op_kind kind, const char *name, const int32_t *in,
                   int32_t nin, int32_t *also)
{
    luo_graph *graph = builder->g;
    char text[64];
    int32_t out[2] = {luo_build_value(builder, name, "t"), 0};
    if (also) *also = out[1] = luo_build_value(builder, "loss.exp", "tv");
    if (!graph->failed) {
        graph->tensor[out[0]].elem_bytes = graph->sum_bytes;
        if (also) graph->tensor[out[1]].elem_bytes = graph->sum_bytes;
    }
    luo_build_op(builder, kind, name, in, nin, out, also ? 2 : 1);
    snprintf(text, sizeof text, "%s.reduce", name);
    return luo_build_reshard(builder, text, out[0], LUO_FORM_WHOLE);
}

/* Vocabulary-parallel cross-entropy; the sum is over tokens and divided by the global count. */
static void loss(luo_builder *builder, int32_t logits)
{
    luo_graph *graph = builder->g;
    graph->labels = data(builder, "labels", LUO_FORM_WHOLE);
    const int32_t max = row(builder, LUO_OP_ROW_MAX, "loss.max", &logits, 1, NULL);
    const int32_t two[2] = {logits, max}, target[2] = {logits, graph->labels};
    graph->row_max = max;
    graph->row_sum = row(builder, LUO_OP_ROW_SUM, "loss.sum", two, 2, &graph->exp);
    const int32_t in[3] = {max, graph->row_sum,
                           row(builder, LUO_OP_ROW_TARGET, "loss.target", target, 2, NULL)};
    const int32_t each = luo_build_op1(builder, LUO_OP_LOSS, "loss.rows", "t", 3, in);
    const int32_t part = luo_build_op1(builder, LUO_OP_SUM, "loss.part", "", 1, &each);
    graph->loss = luo_graph_tensor(graph, "loss", "", LUO_TENSOR_GRAD, -1);
    luo_graph_op(graph, LUO_OP_ACCUMULATE, "loss", -1, &part, 1, &graph->loss, 1);
    if (!graph->failed)
        graph->tensor[each].elem_bytes = graph->tensor[part].elem_bytes = graph->sum_bytes;
    luo_build_reshard(builder, "loss.all", graph->loss, LUO_FORM_SCALAR);
}

static void head(luo_builder *builder, int32_t x, int32_t table)
{
    x = luo_build_reshard(builder, "head.in", x, LUO_FORM_X);
    x = luo_build_norm(builder, "norm", "th", x);
    const int32_t in[2] = {luo_build_reshard(builder, "lm_head.gather", x, LUO_FORM_WHOLE),
                           head_weight(builder, table)};
    loss(builder, luo_build_op1(builder, LUO_OP_MATMUL, "lm_head", "tv", 2, in));
}

static void build_decoder(luo_graph *graph, const luo_model *model, const luo_build_opts *opts)
{
    luo_builder builder = {graph, model, opts, -1, LUO_PLACE_EMBEDDING, ""};
    int32_t table = 0;
    int32_t x = embed(&builder, &table);
    for (int32_t l = 0; l < (int32_t)model->layers; l++) {
        builder.layer = builder.place = l;
        builder.prefix = luo_arena_printf(graph->arena, "layers.%d.", (int)l);
        if (!builder.prefix) graph->failed = true; /* and not a name `(null)..` */
        x = luo_build_reshard(&builder, "in", x, LUO_FORM_X);
        x = layer(&builder, x);
    }
    builder = (luo_builder){graph, model, opts, -1, LUO_PLACE_HEAD, ""};
    head(&builder, x, table);
}

#define build_none NULL /* known to model.yaml alone */

static void (*const builders[LUO_FAMILIES])(luo_graph *g, const luo_model *m,
                                            const luo_build_opts *opts) = {
#define LUO_FAMILY(kind, name, build, ...) [LUO_FAMILY_##kind] = build_##build,
#include "core/graph/families.inc"
#undef LUO_FAMILY
};

static luo_status has_no_builder(const luo_model *model, luo_err *err)
{
    const char *names[LUO_FAMILIES];
    int n = 0;
    luo_str text = {0};
    for (int f = 0; f < LUO_FAMILIES; f++)
        if (builders[f]) names[n++] = luo_family_desc_of((luo_family)f)->name;
    luo_words_choices(&text, names, n);
    const luo_status st =
        luo_err_set(err, LUO_EINPUT,
                    "model `%s` is of family %s, for which no program is built yet; use a model of "
                    "%s.",
                    model->name, luo_family_desc_of(model->family)->name, luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

luo_status luo_graph_build(luo_arena *arena, const luo_model *model, const luo_build_opts *opts,
                           luo_graph **out, luo_err *err)
{
    if (!builders[model->family]) return has_no_builder(model, err);
    if (model->moe.experts && model->linear_bias)
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` has experts and `linear_bias`, for which no program is "
                           "built yet; leave it out.",
                           model->name);
    if (model->moe.experts && (model->parallel_residual || model->post_norms))
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` has experts and `%s`, for which no program is built yet; "
                           "leave it out.",
                           model->name,
                           model->parallel_residual ? "parallel_residual" : "post_norms");
    if (luo_model_is_latent(model) && (opts->exchanges || opts->ring > 1))
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` has latent attention, for which no program with "
                           "context parallelism is built yet; leave `context_parallel` out.",
                           model->name);
    if (luo_model_is_latent(model) &&
        (model->linear_bias || model->out_bias || model->qkv_bias || model->qk_norm))
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` has latent attention beside biases or `qk_norm`, for which "
                           "no program is built; leave these out.",
                           model->name);
    if (opts->exchanges || opts->ring > 1) LUO_TRY(luo_model_check_context(model, err));
    luo_graph *graph = luo_graph_new(arena, model, opts->dtype);
    if (!graph) return luo_err_nomem(err);
    if (opts->state_apart && opts->dtype != LUO_BF16) /* no working weight lies beside it */
        graph->state_bytes += graph->elem_bytes;
    graph->window = model->window;
    graph->softcap = model->logit_softcap > 0;
    graph->kv_whole = opts->kv_whole;
    graph->scatter_each = opts->scatter_each;
    graph->shard_copies = opts->shard_copies;
    graph->joins = opts->joins;
    for (int64_t l = 0; opts->sources && l < model->layers; l++)
        if (opts->sources[l] > graph->least_rows) graph->least_rows = opts->sources[l];
    builders[model->family](graph, model, opts);
    if (graph->failed) {
        luo_annset_free(graph->set);
        return luo_err_nomem(err);
    }
    *out = graph;
    return LUO_OK;
}
