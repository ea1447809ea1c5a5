/* check_hap_model.c: graphs of models by letters. */
#include <math.h>

#include "core/plan/hap/space.h"
#include "core/plan/hap_graph/hap_model.h"
#include "tests/check_main.h"

static const luo_model gpt = {.name = "small",
                              .family = LUO_FAMILY_GPT,
                              .layers = 2,
                              .hidden = 32,
                              .ffn_hidden = 64,
                              .heads = 4,
                              .kv_heads = 4,
                              .head_dim = 8,
                              .vocab = 48,
                              .max_sequence_tokens = 16,
                              .tied_embeddings = true,
                              .linear_bias = true,
                              .out_bias = true,
                              .qkv_bias = true,
                              .causal = true,
                              .norm = LUO_NORM_LAYER,
                              .activation = LUO_ACT_GELU,
                              .position = LUO_POS_LEARNED};

static luo_hap_graph *graph_of(luo_arena *a, const luo_model *model)
{
    luo_hap_graph *graph;
    luo_err err = {0};
    const luo_status st = luo_hap_model_graph(a, model, LUO_F32, 6, 8, &graph, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return graph;
}

static void check_parameters(const luo_hap_graph *graph, const luo_model *model)
{
    int64_t sum = 0, want;
    for (int32_t x = 0; x < graph->ntensors; x++)
        if (graph->tensor[x].role == LUO_HAP_PARAM) sum += graph->tensor[x].elements;
    ck_assert_int_eq(luo_model_parameters(model, &want, NULL), LUO_OK);
    ck_assert_int_eq(sum, want);
}

static int32_t count(const luo_hap_graph *graph, luo_hap_kind kind)
{
    int32_t n = 0;
    for (int32_t o = 0; o < graph->nops; o++) n += graph->op[o].kind == kind;
    return n;
}

START_TEST(of_gpt)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = graph_of(a, &gpt);
    check_parameters(graph, &gpt);
    ck_assert_int_eq(count(graph, LUO_HAP_EMBEDDING), 2);
    ck_assert_int_eq(count(graph, LUO_HAP_ADD), 1 + 2 * 2);
    ck_assert_int_eq(count(graph, LUO_HAP_NORM), 2 * 2 + 1);
    ck_assert_int_eq(count(graph, LUO_HAP_ATTENTION), 2);
    ck_assert_int_eq(count(graph, LUO_HAP_UNARY), 2);
    ck_assert_int_eq(count(graph, LUO_HAP_QKV), 2);
    ck_assert_int_eq(count(graph, LUO_HAP_LINEAR), 2 * 3 + 1);
    ck_assert_int_eq(count(graph, LUO_HAP_LOSS), 1);
    ck_assert_int_eq(graph->op[0].block, -1);
    ck_assert_int_eq(graph->op[graph->nops - 2].block, -1);
    luo_arena_free(a);
}
END_TEST

START_TEST(of_llama) /* rotary positions, gated layers, shared keys */
{
    luo_arena *a = luo_arena_new(0);
    luo_model model = gpt;
    model.family = LUO_FAMILY_LLAMA;
    model.kv_heads = 2;
    model.tied_embeddings = model.linear_bias = model.out_bias = model.qkv_bias = false;
    model.norm = LUO_NORM_RMS;
    model.activation = LUO_ACT_SWIGLU;
    model.position = LUO_POS_ROPE;
    const luo_hap_graph *graph = graph_of(a, &model);
    check_parameters(graph, &model);
    ck_assert_int_eq(count(graph, LUO_HAP_UNARY), 2 * 2);
    ck_assert_int_eq(count(graph, LUO_HAP_GATED), 2);
    ck_assert_int_eq(count(graph, LUO_HAP_QKV), 0);
    ck_assert_int_eq(count(graph, LUO_HAP_LINEAR), 2 * 7 + 1);
    luo_arena_free(a);
}
END_TEST

static luo_model experts_of(luo_moe moe)
{
    luo_model model = gpt;
    model.family = LUO_FAMILY_MOE;
    model.tied_embeddings = model.linear_bias = model.out_bias = model.qkv_bias = false;
    model.norm = LUO_NORM_RMS;
    model.activation = LUO_ACT_SWIGLU;
    model.position = LUO_POS_ROPE;
    model.moe = moe;
    return model;
}

/* Two choices of 8 tokens for 6 experts: 3 rows each, rounded up. */
START_TEST(of_experts)
{
    static const int64_t dim[4] = {6, 6, 3, 32};
    static const int8_t plan_dim[4] = {0, 1, -1, 2};
    luo_arena *a = luo_arena_new(0);
    const luo_model model = experts_of((luo_moe){.experts = 6,
                                                 .experts_per_token = 2,
                                                 .expert_ffn_hidden = 24,
                                                 .shared_experts = 1,
                                                 .shared_ffn_hidden = 12,
                                                 .first_dense_layers = 1,
                                                 .every_layers = 1});
    const luo_hap_graph *graph = graph_of(a, &model);
    check_parameters(graph, &model);
    const luo_hap_kind once[] = {LUO_HAP_ROUTE, LUO_HAP_PACK, LUO_HAP_ROWS_PAIR, LUO_HAP_ROWS,
                                 LUO_HAP_UNPACK};
    for (int i = 0; i < LUO_ROWS(once); i++) ck_assert_int_eq(count(graph, once[i]), 1);
    ck_assert_int_eq(count(graph, LUO_HAP_HASH), 0);
    ck_assert_int_eq(count(graph, LUO_HAP_GATED), 3); /* a dense layer, experts, shared ones */
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_hap_op *op = &graph->op[o];
        if (op->kind == LUO_HAP_PACK) {
            const luo_hap_tensor *rows = &graph->tensor[op->out[0]];
            ck_assert_str_eq(rows->name, "layers.1.moe.pack");
            ck_assert_mem_eq(rows->dim, dim, sizeof dim);
            ck_assert_mem_eq(rows->plan_dim, plan_dim, sizeof plan_dim);
        }
        if (op->kind == LUO_HAP_ROWS_PAIR) /* 2 FLOP, two products */
            ck_assert(op->forward == 4.0 * 6 * 6 * 3 * 32 * 24 && op->backward[0] == op->forward &&
                      2 * op->backward[1] == op->forward);
    }
    luo_arena_free(a);
}
END_TEST

/* Rows go from pieces of tokens to pieces of experts and back, and nowhere else; what is cut can be
 * said. */
START_TEST(rows_move_between_tokens_and_experts)
{
    luo_arena *a = luo_arena_new(0);
    const luo_model model = experts_of((luo_moe){
        .experts = 6, .experts_per_token = 2, .expert_ffn_hidden = 24, .every_layers = 1});
    const luo_hap_graph *graph = graph_of(a, &model);
    const luo_hap_opts opts = {.sayable = true, .factors = true, .zero = true};
    luo_hap_space *space;
    int32_t there = 0, home = 0, letters[128] = {0};
    ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
    for (int32_t i = 0; i < space->ntriples; i++) {
        const luo_hap_triple *t = &space->triple[i];
        const luo_hap_op *op = &graph->op[t->op];
        if (op->kind == LUO_HAP_ROWS_PAIR) letters[(int)space->rule[t->op][t->rule].letter]++;
        for (int32_t j = 0; j < op->nin; j++) {
            if (graph->tensor[op->in[j]].moves == LUO_HAP_MOVES_ALL ||
                t->take[j].how == LUO_HAP_HOW_KEPT)
                continue;
            ck_assert_int_eq(t->take[j].how, LUO_HAP_HOW_EXCHANGE);
            ck_assert(op->kind == LUO_HAP_ROWS_PAIR || op->kind == LUO_HAP_UNPACK);
            ck_assert_int_eq(t->take[j].to.dim, op->kind == LUO_HAP_UNPACK);
            there += op->kind == LUO_HAP_ROWS_PAIR;
            home += op->kind == LUO_HAP_UNPACK;
        }
    }
    ck_assert(there > 0 && home > 0);
    for (int c = 0; c < 128; c++)
        ck_assert_int_eq(letters[c] > 0, c == 0 || c == 'e' || c == 'b' || c == 'w');
    luo_arena_free(a);
}
END_TEST

START_TEST(of_latent_attention)
{
    luo_arena *a = luo_arena_new(0);
    luo_model model = experts_of((luo_moe){.experts = 4,
                                           .experts_per_token = 1,
                                           .expert_ffn_hidden = 24,
                                           .every_layers = 1,
                                           .gate = LUO_GATE_HASH});
    model.latent = (luo_latent){.q_lora = 10, .kv_lora = 7, .nope = 5, .rope = 2, .v = 3};
    model.head_dim = 7;
    const luo_hap_graph *graph = graph_of(a, &model);
    check_parameters(graph, &model);
    ck_assert_int_eq(count(graph, LUO_HAP_LATENT), 2);
    ck_assert_int_eq(count(graph, LUO_HAP_HASH), 2);
    ck_assert_int_eq(count(graph, LUO_HAP_LINEAR), 2 * 7 + 1);
    luo_arena_free(a);
}
END_TEST

START_TEST(segments)
{
    luo_arena *a = luo_arena_new(0);
    luo_hap_graph *graph = graph_of(a, &gpt);
    luo_err err = {0};
    ck_assert_int_eq(luo_hap_graph_cut(graph, 0, &err), LUO_OK);
    ck_assert_int_eq(graph->nsegments, 2);
    ck_assert_int_eq(graph->op[0].segment, 0);
    ck_assert_int_eq(graph->op[graph->nops - 1].segment, 1);
    ck_assert_int_eq(luo_hap_graph_cut(graph, 1, &err), LUO_OK);
    ck_assert_int_eq(graph->nsegments, 1);
    ck_assert_int_eq(graph->op[graph->nops - 1].segment, 0);
    ck_assert_int_eq(luo_hap_graph_cut(graph, 3, &err), LUO_EUSAGE);
    ck_assert_str_eq(err.text, "3 segments for 2 blocks; at most one segment per block.");
    luo_arena_free(a);
}
END_TEST

/* The head is behind the last block and weighs as much as several: the segments are about as heavy
 * as each other, so that the first has more blocks. */
START_TEST(a_heavy_head_is_of_the_last_segment)
{
    luo_arena *a = luo_arena_new(0);
    luo_model model = gpt;
    double work[2] = {0, 0}, most = 0, block[8] = {0};
    model.layers = 8;
    model.vocab = 50 * model.hidden; /* a block has 12 hidden^2, and attention */
    luo_hap_graph *graph = graph_of(a, &model);
    ck_assert_int_eq(luo_hap_graph_cut(graph, 2, NULL), LUO_OK);
    ck_assert_int_eq(graph->op[graph->nops - 1].segment, 1);
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_hap_op *op = &graph->op[o];
        work[op->segment] += luo_hap_graph_work(op);
        if (op->block >= 0) block[op->block] += luo_hap_graph_work(op);
    }
    for (int32_t b = 0; b < 8; b++) most = fmax(most, block[b]);
    ck_assert_double_gt(work[0] + work[1], 10 * most); /* the head is heavy */
    ck_assert_double_le(fabs(work[0] - work[1]), 2 * most);
    luo_arena_free(a);
}
END_TEST

/* The table of words is of the lookup, which is the first operation, and of the output: the first
 * chooses how it lies, the other takes it so. */
START_TEST(a_tied_table_lies_as_its_first_reader_says)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = graph_of(a, &gpt);
    luo_hap_space *space;
    int32_t takes[2] = {0, 0};
    ck_assert_int_eq(luo_hap_space_new(a, graph, &(luo_hap_opts){0}, &space, NULL), LUO_OK);
    for (int32_t i = 0; i < space->ntriples; i++) {
        const luo_hap_triple *t = &space->triple[i];
        const luo_hap_op *op = &graph->op[t->op];
        for (int32_t j = 0; j < op->nin; j++) {
            if (graph->tensor[op->in[j]].readers < 2) continue;
            if (graph->tensor[op->in[j]].role != LUO_HAP_PARAM) continue;
            ck_assert(t->op == 0 || op->kind == LUO_HAP_LINEAR);
            ck_assert_int_eq(t->take[j].how == LUO_HAP_HOW_KEPT, t->op != 0);
            takes[t->op != 0]++;
        }
    }
    ck_assert(takes[0] > 1 && takes[1] > 1);
    luo_arena_free(a);
}
END_TEST

START_TEST(of_no_builder)
{
    luo_arena *a = luo_arena_new(0);
    luo_model model = gpt;
    luo_hap_graph *graph;
    model.family = LUO_FAMILY_VGG;
    ck_assert_int_eq(luo_hap_model_graph(a, &model, LUO_F32, 6, 8, &graph, NULL), LUO_EINPUT);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.model", LUO_T(of_gpt), LUO_T(of_llama), LUO_T(of_experts),
          LUO_T(rows_move_between_tokens_and_experts), LUO_T(of_latent_attention), LUO_T(segments),
          LUO_T(a_heavy_head_is_of_the_last_segment),
          LUO_T(a_tied_table_lies_as_its_first_reader_says), LUO_T(of_no_builder))
