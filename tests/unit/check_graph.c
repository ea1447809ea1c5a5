/* check_graph.c: sizes of models, an annotated layer, the pairs of a Reshard and
 * its gradient, raw annotations, and every sentence of what cannot be compiled. */
#include "core/base/devset.h"
#include "core/plan/annotate.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"

/* ---- parameters: the computed vectors, V-C1 and V-C2 ---- */

static luo_model qwen3_moe(void)
{
    luo_model m = luo_test_llama(94, 4096, 1, 64, 151936);
    m.family = LUO_FAMILY_MOE;
    m.kv_heads = 4;
    m.head_dim = 128;
    m.qk_norm = true;
    m.moe = (luo_moe){.experts = 128, .experts_per_token = 8, .expert_ffn_hidden = 1536,
                      .every_layers = 1};
    return m;
}

static luo_model mixtral(void)
{
    luo_model m = luo_test_llama(32, 4096, 14336, 32, 32000);
    m.family = LUO_FAMILY_MOE;
    m.kv_heads = 8;
    m.moe = (luo_moe){.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 14336,
                      .every_layers = 1, .renorm = true};
    return m;
}

typedef struct deepseek { /* sizes of a published configuration */
    int64_t layers, hidden, ffn, heads, vocab, q_lora;
    int64_t experts, each, expert_ffn, shared, dense;
} deepseek;
static const deepseek v2_lite = {27, 2048, 10944, 16, 102400, 0, 64, 6, 1408, 2, 1};
static const deepseek v2 = {60, 5120, 12288, 128, 102400, 1536, 160, 6, 1536, 2, 1};
static const deepseek v3 = {61, 7168, 18432, 128, 129280, 1536, 256, 8, 2048, 1, 3};

static luo_model latent(const deepseek *d)
{
    luo_model m = luo_test_llama((int32_t)d->layers, d->hidden, d->ffn, d->heads, d->vocab);
    m.family = LUO_FAMILY_MOE;
    m.head_dim = 192;
    m.latent = (luo_latent){d->q_lora, 512, 128, 64, 128};
    m.moe = (luo_moe){.experts = d->experts,
                      .experts_per_token = d->each,
                      .expert_ffn_hidden = d->expert_ffn,
                      .shared_experts = d->shared,
                      .shared_ffn_hidden = d->expert_ffn,
                      .first_dense_layers = d->dense,
                      .every_layers = 1};
    return m;
}

static luo_model small_latent(int64_t q_lora)
{
    luo_model m = luo_test_llama(2, 32, 48, 4, 64);
    m.latent = (luo_latent){q_lora, 12, 6, 4, 8};
    m.head_dim = 10;
    return m;
}

static luo_model vit_base(void)
{
    luo_model m = luo_test_gpt(12, 768, 12, 0);
    m.family = LUO_FAMILY_VIT;
    m.classes = 1000;
    m.image = (luo_image){224, 224, 3, 16};
    return m;
}

static luo_model gpt2(void)
{
    luo_model m = luo_test_gpt(12, 768, 12, 50257);
    m.max_sequence_tokens = 1024;
    return m;
}

START_TEST(parameters)
{
    const struct {
        luo_model m;
        int64_t n;
    } rows[] = {
        {luo_test_llama(32, 4096, 11008, 32, 32000), 6738415616},
        {gpt2(), 124439808},
        {qwen3_moe(), 235093634560},
        {mixtral(), 46702792704}, /* V-P; published 46.7e9 */
        {latent(&v2_lite), 15706484224}, /* 15.7e9 */
        {latent(&v2), 235741434880}, /* 236e9 */
        {latent(&v3), 671026404352}, /* 671e9, without its bias and further tokens */
        {luo_test_llama(60, 6656, 17920, 64, 30592), 32510200320},
        {vit_base(), 86567656},
    };
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        int64_t n = 0;
        ck_assert_int_eq(luo_model_parameters(&rows[i].m, &n, NULL), LUO_OK);
        ck_assert_int_eq(n, rows[i].n);
    }
    luo_model vgg = vit_base();
    vgg.family = LUO_FAMILY_VGG;
    luo_err err = {0};
    ck_assert_int_eq(luo_model_parameters(&vgg, &(int64_t){0}, &err), LUO_EINPUT);
}
END_TEST

/* ---- layers of feed-forward alone ---- */

static int64_t parameters_of_plan(luo_arena *a, const luo_plan *plan, const luo_model *m)
{
    luo_param *param;
    luo_err err = {0};
    int32_t n = 0;
    int64_t sum = 0;
    ck_assert_msg(luo_plan_params(a, plan, m, &param, &n, &err) == LUO_OK, "%s", err.text);
    for (int32_t i = 0; i < n; i++) {
        int64_t v = 1;
        for (int32_t d = 0; d < param[i].shape.rank; d++) v *= param[i].shape.dim[d];
        sum += v;
    }
    return sum;
}

/* Of the products of one micro-batch, forward and backward. */
static double flop_of_program(luo_arena *a, const luo_plan *plan, const luo_model *m)
{
    luo_programs *set;
    luo_err err = {0};
    const luo_compile_opts opts = {.check = true};
    double sum = 0;
    ck_assert_msg(luo_plan_compile(a, plan, m, NULL, &opts, &set, &err) == LUO_OK, "%s", err.text);
    const luo_role *role = &set->roles[set->at[0].role];
    for (int32_t i = 0; i < role->ninstr; i++)
        if (role->instr[i].cost.kind == LUO_COST_GEMM) sum += (double)role->instr[i].flops;
    return sum;
}

/* Parameters and FLOP by formula are those of the graph, and those by hand. */
START_TEST(feed_forward_counts)
{
    const bool gated = _i & 1, biases = _i & 2, tied = _i & 4;
    luo_arena *a = luo_arena_new(1 << 20);
    luo_model m =
        luo_test_mlp(3, 48, 80, 112, gated ? LUO_ACT_SWIGLU : LUO_ACT_GELU, biases);
    m.tied_embeddings = tied;
    luo_plan *plan = luo_test_plan(a, "1: [0]*3");
    plan->sequence_parallel = false;
    plan->sequence_tokens = 64;
    int64_t n = 0;
    ck_assert_int_eq(luo_model_parameters(&m, &n, NULL), LUO_OK);
    const int64_t ins = gated ? 2 : 1, layer = (ins + 1) * 48 * 80, norm = biases ? 96 : 48;
    const int64_t all = 3 * (layer + norm + (biases ? ins * 80 + 48 : 0)) + norm +
                        (tied ? 1 : 2) * 112 * 48;
    ck_assert_int_eq(n, all);
    ck_assert_int_eq(parameters_of_plan(a, plan, &m), n);
    const double flop = luo_model_flops_per_token(&m, 64);
    ck_assert_double_eq(flop, 6.0 * (double)(3 * layer + 112 * 48));
    ck_assert_double_eq(flop_of_program(a, plan, &m), 64 * flop);
    luo_arena_free(a);
}
END_TEST

/* Whether products are made together or one by one: a switch between such plans matches parameters
 * by their place (core/plan/migrate.h). */
START_TEST(parameters_in_one_order)
{
    luo_model m[3] = {luo_test_mlp(2, 32, 48, 64, LUO_ACT_SWIGLU, true),
                      luo_test_llama(2, 32, 48, 4, 64), luo_test_gpt(2, 32, 4, 64)};
    m[1].kv_heads = 2;
    m[1].qkv_bias = m[1].linear_bias = m[1].out_bias = true;
    luo_arena *a = luo_arena_new(1 << 20);
    const char *name[64];
    int32_t n[2] = {0, 0};
    for (int apart = 0; apart < 2; apart++) {
        luo_graph *graph;
        luo_err err = {0};
        const luo_build_opts opts = {.dtype = LUO_F32, .apart = apart};
        ck_assert_int_eq(luo_graph_build(a, &m[_i], &opts, &graph, &err), LUO_OK);
        for (int32_t x = 0; x < graph->ntensors; x++) {
            if (graph->tensor[x].kind != LUO_TENSOR_PARAM) continue;
            const int32_t at = n[apart]++;
            ck_assert_int_lt(at, 64);
            if (apart) ck_assert_str_eq(graph->tensor[x].name, name[at]);
            name[at] = graph->tensor[x].name;
        }
        luo_annset_free(graph->set);
    }
    ck_assert(n[0] == n[1] && n[0] > 10);
    luo_arena_free(a);
}
END_TEST

/* 6 per matrix parameter and the attention square in full: 72 B s L h^2 (1 + s/6h + V/12Lh). */
START_TEST(flops)
{
    const luo_model m = gpt2();
    const double h = 768, L = 12, V = 50257, s = 1024;
    const double form = 72 * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
    ck_assert_double_eq_tol(luo_model_flops_per_token(&m, 1024), form, form * 1e-12);
    /* V-P: what a token of it meets, 12.9e9 as published; norms are no matrices */
    const luo_model moe = mixtral();
    ck_assert(luo_model_flops_per_token(&moe, 0) / 6 + 65 * 4096 == 12748853248);
    const struct {
        const deepseek *d;
        int64_t active;
    } rows[] = {{&v2_lite, 2451435008}, {&v2, 20851512320}, {&v3, 36625603584}};
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        const luo_model x = latent(rows[i].d);
        const double norms = (double)(x.layers * (2 * x.hidden + x.latent.q_lora + 512) + x.hidden);
        ck_assert(luo_model_flops_per_token(&x, 0) / 6 + norms == (double)rows[i].active);
    }
    /* the square: scores of 192 elements, values of 128, as forward and twice that */
    const luo_model x = latent(&v3);
    ck_assert(luo_model_flops_per_token(&x, 4096) - luo_model_flops_per_token(&x, 0) ==
              6.0 * 61 * 128 * (192 + 128) * 4096);
}
END_TEST

/* ---- one annotated graph ---- */

typedef struct world {
    luo_arena *arena;
    luo_plan *plan;
    luo_model model;
    luo_graph *g;
    luo_err err;
} world;

static luo_status annotate_plan(world *w)
{
    luo_build_opts build;
    luo_annotate_raw raw;
    LUO_TRY(luo_plan_build_opts(w->arena, w->plan, &w->model, &build, &w->err));
    LUO_TRY(luo_graph_build(w->arena, &w->model, &build, &w->g, &w->err));
    LUO_TRY(luo_plan_annotate(w->g, w->plan, &w->err));
    raw = (luo_annotate_raw){.g = w->g, .plan = w->plan};
    const luo_ann *all;
    LUO_TRY(luo_ann_parse(w->arena, "[0-2]{-2:3}", &all, &w->err));
    return luo_graph_differentiate(w->g, all, luo_plan_override, &raw, &w->err);
}

static void open_world(world *w, const char *line, int32_t zero)
{
    memset(w, 0, sizeof *w);
    w->arena = luo_arena_new(0);
    w->plan = luo_test_plan(w->arena, line);
    w->plan->zero = zero;
    w->model = luo_test_llama(w->plan->layers, 4, 8, 2, 8);
}

static void close_world(world *w)
{
    if (w->g) luo_annset_free(w->g->set);
    luo_arena_free(w->arena);
}

static int32_t tensor(const world *w, const char *name)
{
    const int32_t x = luo_graph_find(w->g, name);
    ck_assert_msg(x >= 0, "no tensor %s", name);
    return x;
}

static const char *ann_text(world *w, const char *name)
{
    return luo_annset_text(w->g->set, w->g->tensor[tensor(w, name)].ann);
}

/* Kind of the Reshard that makes `name`. */
static const char *kind_text(world *w, const char *name)
{
    const int32_t y = tensor(w, name);
    const luo_op *op = &w->g->op[w->g->tensor[y].op];
    ck_assert_int_eq(op->kind, LUO_OP_RESHARD);
    const luo_shape shape = luo_graph_shape(w->g, op->in[0], 4, 2); /* 8 tokens in two members */
    const luo_resolve_opts opts = {.name = name};
    luo_resolution *r = LUO_NEW(w->arena, luo_resolution);
    const luo_status st =
        luo_resolve(w->arena, luo_annset_get(w->g->set, w->g->tensor[op->in[0]].ann),
                    luo_annset_get(w->g->set, w->g->tensor[y].ann), &shape, &opts, r, &w->err);
    ck_assert_msg(st == LUO_OK, "%s", w->err.text);
    return r->text;
}

/* U = 2, tensor-parallel 2 and 1. kind "": not a Reshard. */
static const struct {
    int32_t zero; /* -1: both */
    const char *tensor, *ann, *kind;
} layer_rows[] = {
    {-1, "layers.0.attn.add", "h=0 [0,1]{0:2} | [2]{}", ""},
    {-1, "layers.0.norm2", "h=0 [0,1]{0:2} | [2]{}", ""},
    {-1, "layers.0.norm2.weight", "h=-1 [0,1]{-1:2} | [2]{}", ""},
    {-1, "layers.0.mlp.gather", "h=0 [0,1]{-1:2} | [2]{}", "bottom allgather,identity"},
    {-1, "layers.0.mlp.gate.weight", "h=-1 [0,1]{0:2} | [2]{}", ""},
    {-1, "layers.0.mlp.down.weight", "h=-1 [0,1]{0:2} | [2]{}", ""},
    {-1, "layers.0.mlp.gate", "h=0 [0,1]{1:2} | [2]{}", ""},
    {-1, "layers.0.mlp.down", "h=0 [0,1]{-2:2} | [2]{}", ""},
    {-1, "layers.0.mlp.reduce", "h=0 [0,1]{0:2} | [2]{}", "bottom reducescatter,identity"},
    {-1, "d.layers.0.mlp.down", "h=0 [0,1]{-1:2} | [2]{}", "bottom allgather,identity"},
    {-1, "d.layers.0.mlp.act", "h=0 [0,1]{1:2} | [2]{}", ""},
    {-1, "d.layers.0.mlp.down.weight", "h=-2 [0,1]{0:2} | [2]{}", ""},
    {-1, "d.layers.0.mlp.gate.weight", "h=-2 [0,1]{0:2} | [2]{}", ""},
    {-1, "d.layers.0.mlp.gather", "h=0 [0,1]{-2:2} | [2]{}", ""},
    {-1, "d.layers.0.norm2", "h=0 [0,1]{0:2} | [2]{}", "bottom reducescatter,identity"},
    {-1, "d.layers.0.norm2.weight", "h=-2 [0,1]{-2:2} | [2]{}", ""},
    {0, "d.layers.0.mlp.down.weight.state", "h=-1 [0,1]{0:2} | [2]{}", "split_ar"},
    {0, "d.layers.0.norm2.weight.state", "h=-1 [0,1]{-1:2} | [2]{}",
     "split_ar pre allreduce,identity"},
    {0, "layers.0.mlp.down.weight", "h=-1 [0,1]{0:2} | [2]{}", "identity"},
    {1, "d.layers.0.mlp.down.weight.state", "h=0i [0,1]{0:2} | [2]{}", "split_rs"},
    {1, "layers.0.mlp.down.weight", "h=-1 [0,1]{0:2} | [2]{}", "split_ag"},
    {1, "d.layers.0.norm2.weight.state", "h=0i [0,1]{0:2} | [2]{}",
     "split_rs pre reducescatter,identity"},
    {1, "layers.0.norm2.weight", "h=-1 [0,1]{-1:2} | [2]{}",
     "split_ag post allgather,identity"},
};

START_TEST(layer)
{
    world w;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", _i);
    ck_assert_msg(annotate_plan(&w) == LUO_OK, "%s", w.err.text);
    for (int i = 0; i < LUO_ROWS(layer_rows); i++) {
        if (layer_rows[i].zero >= 0 && layer_rows[i].zero != _i) continue;
        ck_assert_str_eq(ann_text(&w, layer_rows[i].tensor), layer_rows[i].ann);
        if (layer_rows[i].kind[0])
            ck_assert_str_eq(kind_text(&w, layer_rows[i].tensor), layer_rows[i].kind);
    }
    close_world(&w);
}
END_TEST

/* Latent vectors are made where tokens lie and put together for the heads; the gradient of what all
 * heads share is a sum over them. */
static const struct {
    bool sequence_parallel;
    const char *tensor, *ann, *kind;
} latent_rows[] = {
    {true, "layers.0.attn.q_a", "h=0 [0,1]{0:2} | [2]{}", ""},
    {true, "layers.0.attn.k_shared.gather", "h=0 [0,1]{-1:2} | [2]{}", "bottom allgather,identity"},
    {true, "layers.0.attn.k.rope", "h=0 [0,1]{1:2} | [2]{}", ""},
    {true, "layers.0.attn.core", "h=0 [0,1]{1:2} | [2]{}", ""},
    {true, "d.layers.0.attn.k_shared.gather", "h=0 [0,1]{-2:2} | [2]{}", ""},
    {true, "d.layers.0.attn.k_shared", "h=0 [0,1]{0:2} | [2]{}", "bottom reducescatter,identity"},
    {true, "d.layers.0.attn.kv_a.weight", "h=-2 [0,1]{-2:2} | [2]{}", ""},
    {false, "layers.0.attn.q_a.gather", "h=0 [0,1]{-1:2} | [2]{}", "identity"},
    {false, "d.layers.0.attn.kv_a_norm", "h=0 [0,1]{-1:2} | [2]{}", "bottom allreduce,identity"},
    {false, "d.layers.0.attn.kv_a.weight", "h=-2 [0,1]{-1:2} | [2]{}", ""},
    {false, "d.layers.0.attn.k_b.weight", "h=-2 [0,1]{0:2} | [2]{}", ""},
};

START_TEST(latent_layer)
{
    world w;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 0);
    w.plan->sequence_parallel = _i == 1;
    w.model = small_latent(20);
    w.model.layers = 1;
    ck_assert_msg(annotate_plan(&w) == LUO_OK, "%s", w.err.text);
    for (int i = 0; i < LUO_ROWS(latent_rows); i++) {
        if (latent_rows[i].sequence_parallel != (_i == 1)) continue;
        ck_assert_str_eq(ann_text(&w, latent_rows[i].tensor), latent_rows[i].ann);
        if (latent_rows[i].kind[0])
            ck_assert_str_eq(kind_text(&w, latent_rows[i].tensor), latent_rows[i].kind);
    }
    close_world(&w);
}
END_TEST

/* V-L2: FLOP of a token in the core, bytes that its attention keeps of it: those of the closed form
 * but for the shared part before it turns, which no gradient reads. */
START_TEST(latent_cost)
{
    const luo_compile_opts opts = {.check = false};
    luo_programs *set, *plain;
    luo_memory m, other;
    int64_t core[2] = {0};
    world w;
    open_world(&w, "1: [0]*1", 0);
    w.plan->sequence_tokens = 4096;
    w.model = latent(&v3);
    w.model.layers = 1;
    w.model.moe = (luo_moe){0};
    for (int k = 0; k < 2; k++) {
        const luo_status st =
            luo_plan_compile(w.arena, w.plan, &w.model, NULL, &opts, k ? &plain : &set, &w.err);
        ck_assert_msg(st == LUO_OK, "%s", w.err.text);
        w.model.latent.v = 64; /* 2 a 64 fewer elements are kept */
    }
    for (int32_t i = 0; i < set->roles->ninstr; i++) {
        const luo_instr *x = &set->roles->instr[i];
        if (x->cost.kind == LUO_COST_ATTENTION_F) core[0] += x->flops;
        if (x->cost.kind == LUO_COST_ATTENTION_B) core[1] += x->flops;
    }
    ck_assert_int_eq(core[0], 167772160LL * 4096);
    ck_assert_int_eq(core[1], 436207616LL * 4096);
    ck_assert_int_eq(luo_program_memory(w.arena, set, 0, &m, &w.err), LUO_OK);
    ck_assert_int_eq(luo_program_memory(w.arena, plain, 0, &other, &w.err), LUO_OK);
    ck_assert_int_eq(m.activations - other.activations, 2LL * 4096 * 2 * 128 * 64);
    close_world(&w);
}
END_TEST

/* Groups of the gradient sums of the layer above. */
START_TEST(layer_groups)
{
    world w;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 0);
    const luo_compile_opts opts = {.check = true};
    luo_programs *set;
    const luo_status st =
        luo_plan_compile(w.arena, w.plan, &w.model, NULL, &opts, &set, &w.err);
    ck_assert_msg(st == LUO_OK, "%s", w.err.text);
    luo_str s = {0};
    for (int32_t i = 0; i < set->ngroups; i++) {
        if (set->groups[i].stream != LUO_STREAM_DP) continue;
        luo_devset_print(&s, set->groups[i].dev, set->groups[i].n);
    }
    ck_assert_str_eq(luo_str_get(&s), "[0,2][1,2][0,1][0-2]"); /* the last: norm of all */
    luo_str_free(&s);
    close_world(&w);
}
END_TEST

/* ---- phases and ops ---- */

static const struct {
    const char *op;
    luo_op_kind kind;
    luo_phase phase;
} phase_rows[] = {
    {"layers.0.attn.q.weight", LUO_OP_RESHARD, LUO_PHASE_PRE},
    {"layers.0.attn.qkv", LUO_OP_MATMUL, LUO_PHASE_F},
    {"layers.0.mlp.act", LUO_OP_ACTIVATION, LUO_PHASE_F},
    {"loss", LUO_OP_ACCUMULATE, LUO_PHASE_F},
    {"loss.all", LUO_OP_RESHARD, LUO_PHASE_POST},
    {"d.layers.0.attn.gather", LUO_OP_MATMUL_DX, LUO_PHASE_B},
    {"d.layers.0.attn.qkv.weight", LUO_OP_MATMUL_DW, LUO_PHASE_B},
    {"d.layers.0.attn.q.weight", LUO_OP_ACCUMULATE, LUO_PHASE_B},
    {"d.layers.0.attn.q.weight.state", LUO_OP_RESHARD, LUO_PHASE_POST},
    {"grad_norm", LUO_OP_RESHARD, LUO_PHASE_POST},
    {"update", LUO_OP_UPDATE, LUO_PHASE_POST},
};

static int32_t find_op(const luo_graph *g, const char *name)
{
    for (int32_t o = 0; o < g->nops; o++)
        if (strcmp(g->op[o].name, name) == 0 && g->op[o].kind != LUO_OP_STATE) return o;
    return -1;
}

START_TEST(phases)
{
    world w;
    open_world(&w, "1: [0,1]*2", 1);
    ck_assert_msg(annotate_plan(&w) == LUO_OK, "%s", w.err.text);
    for (int i = 0; i < LUO_ROWS(phase_rows); i++) {
        const int32_t o = find_op(w.g, phase_rows[i].op);
        ck_assert_msg(o >= 0, "no operation %s", phase_rows[i].op);
        ck_assert_int_eq(w.g->op[o].kind, (int32_t)phase_rows[i].kind);
        ck_assert_msg(w.g->op[o].phase == (int32_t)phase_rows[i].phase, "%s in phase %s",
                      phase_rows[i].op, luo_phase_name((luo_phase)w.g->op[o].phase));
    }
    const int32_t dx = find_op(w.g, "d.layers.0.mlp.gather");
    const int32_t dw = find_op(w.g, "d.layers.0.mlp.gate_up.weight");
    ck_assert_int_lt(dx, dw); /* the previous operation waits for dX */
    luo_str s = {0};
    luo_graph_print(&s, w.g);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&s), "B matmul_dx d.layers.0.mlp.gather: "));
    luo_str_free(&s);
    close_world(&w);
}
END_TEST

/* ---- what the gradient of a Reshard resolves to ---- */

static const struct {
    const char *src, *dst, *dy, *forward, *backward;
} pair_rows[] = {
    {"[0,1]{0:2}", "[0,1]{-1:2}", "[0,1]{-2:2}", "bottom allgather", "bottom reducescatter"},
    {"[0,1]{-2:2}", "[0,1]{0:2}", "[0,1]{0:2}", "bottom reducescatter", "bottom allgather"},
    {"[0,1]{-2:2}", "[0,1]{-1:2}", "[0,1]{-1:2}", "bottom allreduce", "identity"},
    {"[0,1]{-1:2}", "[0,1]{-1:2}", "[0,1]{-2:2}", "identity", "bottom allreduce"},
    {"[0,1]{-1:2}", "[0,1]{0:2}", "[0,1]{0:2}", "slice", "bottom allgather"},
    {"[0,1]{0:2}", "[2,3]{0:2}", "[2,3]{0:2}", "bottom sendrecv", "bottom sendrecv"},
    {"[0-3]{0:4}", "[4,5]{0:2}", "[4,5]{0:2}", "bottom bsr", "bottom bsr"},
    {"h=0i [0]{} | [1]{}", "h=-1 [0]{} | [1]{}", "h=-2 [0]{} | [1]{}", "split_ag", "split_rs"},
    {"h=-2 [0]{} | [1]{}", "h=-1 [0]{} | [1]{}", "h=-1 [0]{} | [1]{}", "split_ar", "identity"},
    {"[0,1]{1:2}", "[0,1]{1:2}", "[0,1]{1:2}", "identity", "identity"}, /* G_d <-> G_d */
};

static const char *resolved(luo_arena *a, const luo_ann *src, const luo_ann *dst)
{
    const luo_shape shape = {.rank = 2, .dim = {8, 8}};
    const luo_resolve_opts opts = {.name = "x"};
    luo_resolution *r = LUO_NEW(a, luo_resolution);
    luo_err err = {0};
    ck_assert_msg(luo_resolve(a, src, dst, &shape, &opts, r, &err) == LUO_OK, "%s", err.text);
    return r->text;
}

START_TEST(pairs)
{
    luo_arena *a = luo_arena_new(0);
    const luo_ann *src, *dst, *dy, *to;
    luo_err err = {0};
    ck_assert_int_eq(luo_ann_parse(a, pair_rows[_i].src, &src, &err), LUO_OK);
    ck_assert_int_eq(luo_ann_parse(a, pair_rows[_i].dst, &dst, &err), LUO_OK);
    ck_assert_int_eq(luo_ann_parse(a, pair_rows[_i].dy, &dy, &err), LUO_OK);
    ck_assert_int_eq(luo_deduce_complete(a, src, &to, &err), LUO_OK);
    ck_assert_str_eq(resolved(a, src, dst), pair_rows[_i].forward);
    ck_assert_str_eq(resolved(a, dy, to), pair_rows[_i].backward);
    luo_arena_free(a);
}
END_TEST

/* ---- attention: what its operands lie like decides what it gives ---- */

/* Keys that are cut exactly like the queries are their heads; others are whole heads, and their
 * gradients sums over those of the queries. core, dk: annotations, or part of what is wrong. */
#define KEYS "dimension 1 of 'layers.0.attn.k.rope' is cut; insert a Reshard that gathers the heads"
#define UNION_2 "' has 2 subgroups but 'layers.0.attn.k.rope' has 1"
static const struct {
    const char *q, *k, *core, *dk;
} attention_rows[] = {
    {"[0,1]{1:2}", "[0,1]{1:2}", "[0,1]{1:2}", "[0,1]{1:2}"},
    {"[0,1]{1:2}", "[0,1]{-1:2}", "[0,1]{1:2}", "[0,1]{-2:2}"},
    {"[0,1]{1:(3,1)}", "[0,1]{1:(3,1)}", "[0,1]{1:(3,1)}", "[0,1]{1:(3,1)}"},
    {"[0,1]{1:(3,1)}", "[0,1]{1:(1,3)}", KEYS, KEYS},
    {"[0,1]{1:(3,1)}", "[0,1]{1:2}", KEYS, KEYS},
    {"[0,1]{1:2}", "[0,1]{1:(3,1)}", KEYS, KEYS},
    {"[0-3]{1:4}", "[0-3]{1:2,-1:2}", KEYS, KEYS},
    {"[0,1]{-1:2}", "[0,1]{1:2}", KEYS, KEYS},
    {"h=0 [0,1]{1:2} | [2,3]{1:2}", "h=0 [0,1]{1:2} | [2,3]{1:2}", "h=0 [0,1]{1:2} | [2,3]{1:2}",
     "h=0 [0,1]{1:2} | [2,3]{1:2}"},
    {"h=0 [0,1]{1:2} | [2,3]{1:2}", "h=0 [0,1]{-1:2} | [2,3]{-1:2}",
     "h=0 [0,1]{1:2} | [2,3]{1:2}", "h=0 [0,1]{-2:2} | [2,3]{-2:2}"},
    {"h=0 [0,1]{1:2} | [2,3]{1:2}", "h=0 [0,1]{1:2} | [2,3]{-1:2}", KEYS, KEYS},
    {"h=0 [0,1]{1:2} | [2,3]{1:2}", "h=0 [0,1]{-1:2} | [2,3]{1:2}", KEYS, KEYS},
    {"h=1 [0]{} | [1]{}", "h=1 [0]{} | [1]{}", "h=1 [0]{} | [1]{}", "h=1 [0]{} | [1]{}"},
    {"h=1 [0]{} | [1]{}", "h=-1 [0]{} | [1]{}", "h=1 [0]{} | [1]{}", "h=-2 [0]{} | [1]{}"},
    {"h=-1 [0]{} | [1]{}", "h=1 [0]{} | [1]{}", KEYS, KEYS},
    {"h=0 [0]{} | [1]{}", "h=1 [0]{} | [1]{}", KEYS, KEYS},
    {"h=1 [0]{} | [1]{}", "[0,1]{1:2}", KEYS, KEYS},
    {"h=0 [0,1]{1:2} | [2,3]{1:2}", "[0-3]{-1:4}", UNION_2, UNION_2},
    {"h=0 [0,1]{1:2} | [2,3]{1:2}", "[0-3]{1:4}", KEYS, KEYS},
    {"[0-3]{1:4}", "h=0 [0,1]{1:2} | [2,3]{1:2}", KEYS, KEYS},
    {"[0,1]{0:2}", "[0,1]{-1:2}",
     "the tokens of `layers.0.attn.q.rope` are cut in 2 inside member 0", "D_CUT: letter t"},
    {"h=0 [0]{} | [1,2]{0:2}", "h=0 [0]{} | [1,2]{-1:2}",
     "the tokens of `layers.0.attn.q.rope` are cut in 2 inside member 1", "D_CUT: letter t"},
    {"[0,1]{2:2}", "[0,1]{-1:2}", "dimension 2 of 'layers.0.attn.q.rope' is cut",
     "D_CUT: letter d"},
    {"[0,1]{1:2}", "[0,1]{2:2}", "dimension 2 of 'layers.0.attn.k.rope' is cut",
     "D_CUT: letter d"},
};

static void lies(world *w, const char *name, const char *text)
{
    const luo_ann *ann;
    ck_assert_int_eq(luo_ann_parse(w->arena, text, &ann, &w->err), LUO_OK);
    luo_tensor *x = &w->g->tensor[tensor(w, name)];
    ck_assert_int_eq(luo_annset_add(w->g->set, ann, &x->ann, &w->err), LUO_OK);
}

/* Of the operation that makes it alone: the annotation of `name`, or what is wrong. */
static const char *deduced(world *w, const char *name)
{
    const int32_t op = w->g->tensor[tensor(w, name)].op, n = w->g->nops;
    w->g->nops = op + 1;
    const luo_status st = luo_graph_deduce(w->g, op, &w->err);
    w->g->nops = n;
    return st == LUO_OK ? ann_text(w, name) : w->err.text;
}

static bool is(const char *got, const char *want)
{
    return strchr("h[", *want) ? strcmp(got, want) == 0 : strstr(got, want) != NULL;
}

START_TEST(attention)
{
    world w;
    const char *const q = attention_rows[_i].q, *const k = attention_rows[_i].k;
    const char *const core = attention_rows[_i].core, *const dk = attention_rows[_i].dk;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 0);
    ck_assert_int_eq(annotate_plan(&w), LUO_OK);
    lies(&w, "layers.0.attn.q.rope", q);
    lies(&w, "layers.0.attn.k.rope", k);
    lies(&w, "layers.0.attn.v", k);
    lies(&w, "d.layers.0.attn.core", q);
    const char *got = deduced(&w, "layers.0.attn.core");
    ck_assert_msg(is(got, core), "core: %s", got);
    got = deduced(&w, "d.layers.0.attn.k.rope");
    ck_assert_msg(is(got, dk), "dk: %s", got);
    if (strchr("h[", *dk)) {
        ck_assert_str_eq(ann_text(&w, "layers.0.attn.core.rows"), core);
        ck_assert_str_eq(ann_text(&w, "d.layers.0.attn.v"), dk);
        ck_assert_str_eq(ann_text(&w, "d.layers.0.attn.q.rope"), q);
    }
    close_world(&w);
}
END_TEST

/* What is normalised or turned has to be whole, forward and backward. */
static const struct {
    const char *cut, *ann, *of, *says;
} whole_rows[] = {
    {"layers.0.attn.q", "[0,1]{2:2}", "layers.0.attn.q.rope",
     "dimension 2 of 'layers.0.attn.q' is cut; insert a Reshard that gathers the head"},
    {"layers.0.attn.k", "[0,1]{2:2}", "layers.0.attn.k.rope",
     "dimension 2 of 'layers.0.attn.k' is cut; insert a Reshard that gathers the head"},
    {"layers.0.attn.add", "[0,1]{1:2}", "layers.0.norm2",
     "dimension 1 of 'layers.0.attn.add' is cut; insert a Reshard that gathers the normalised "
     "axis"},
    {"layers.0.attn.add", "[0,1]{1:2}", "d.layers.0.attn.add@layers.0.norm2",
     "dimension 1 of 'layers.0.attn.add' is cut; insert a Reshard that gathers the normalised "
     "axis"},
};

START_TEST(whole)
{
    world w;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 0);
    ck_assert_int_eq(annotate_plan(&w), LUO_OK);
    lies(&w, whole_rows[_i].cut, whole_rows[_i].ann);
    const char *got = deduced(&w, whole_rows[_i].of);
    ck_assert_msg(is(got, whole_rows[_i].says), "%s", got);
    close_world(&w);
}
END_TEST

/* ---- raw annotations and refusals ---- */

static const struct {
    const char *tensor, *ann, *at, *variant;
    const char *says; /* NULL: accepted */
} raw_rows[] = {
    {"layers.0.attn.out.weight", "h=-1 [0,1]{0:2} | [2]{}", "", "auto", NULL},
    {"layers.0.mlp.gate", "h=0 [0,1]{1:2} | [2]{}", "", "auto", NULL},
    {"d.layers.0.mlp.act", "h=0 [0,1]{1:2} | [2]{}", "", "auto", NULL},
    {"layers.0.mlp.act", "h=0 [0,1]{1:2} | [2]{}", "layers.0.mlp.down", "auto", NULL},
    {"layers.0.mlp.gate", "h=0 [0,1]{0:2} | [2]{}", "", "auto",
     "op `layers.0.mlp.gate_up`: `layers.0.mlp.gate` is deduced as h=0 [0,1]{1:2} | [2]{}, the "
     "plan says h=0 [0,1]{0:2} | [2]{}."},
    {"layers.0.mlp.gate.weight", "h=-1 [0,1]{1:2} | [2]{}", "", "auto", "D_CUT"},
    {"layers.0.mlp.gaet", "[0]{}", "", "auto",
     "the plan annotates `layers.0.mlp.gaet`, but no tensor is called so; `luoshu explain` lists "
     "them."},
    {"layers.0.mlp.act", "h=0 [0,1]{1:2} | [2]{}", "layers.9.mlp", "auto",
     "annotation of `layers.0.mlp.act`: no operation is called `layers.9.mlp`; `luoshu explain` "
     "lists them."},
    {"layers.0.mlp.act", "h=0 [0,1]{1:2} | [2]{}", "layers.0.attn.out", "auto",
     "annotation of `layers.0.mlp.act`: operation `layers.0.attn.out` does not read it."},
    {"layers.0.mlp.down", "h=0 [0,1]{1:2} | [2]{}", "layers.0.mlp.reduce", "auto",
     "annotation of `layers.0.mlp.down`: operation `layers.0.mlp.reduce` is a Reshard itself; "
     "annotate its result."},
    {"layers.0.attn.out.weight", "h=-1 [0,1]{0:2} | [2]{}", "", "padded",
     "annotation of `layers.0.attn.out.weight`: variant `padded` is not compiled; use `auto`."},
    {"layers.0.attn.out.weight", "h=-1 [0,1]{0:2", "", "auto", "`layers.0.attn.out.weight`: "},
    {"layers.0.attn.out.weight", "h=-1 [0,1]{0:2} | [7]{}", "", "auto", "D_DEVICES"},
    {"d.layers.0.mlp.down.weight.state", "h=-1 [0,1]{-1:2} | [2]{}", "", "auto",
     "op `update`: D_CUT: `d.layers.0.mlp.down.weight.state` comes out as h=-1 [0,1]{-1:2} | "},
    {"layers.0.norm2.weight", "h=-1 [0,1]{7:2} | [2]{}", "", "auto", "key 7"},
};

static luo_status compile_world(world *w, luo_programs **set)
{
    const luo_compile_opts opts = {.check = true};
    return luo_plan_compile(w->arena, w->plan, &w->model, NULL, &opts, set, &w->err);
}

START_TEST(raw)
{
    world w;
    luo_programs *set;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 0);
    const luo_plan_annotation r = {raw_rows[_i].tensor, raw_rows[_i].ann, raw_rows[_i].at,
                                   raw_rows[_i].variant};
    w.plan->annotations = &r;
    w.plan->nannotations = 1;
    const luo_status st = compile_world(&w, &set);
    if (!raw_rows[_i].says) {
        ck_assert_msg(st == LUO_OK, "%s", w.err.text);
    } else {
        ck_assert_int_ne(st, LUO_OK);
        ck_assert_msg(strstr(w.err.text, raw_rows[_i].says) != NULL, "%s", w.err.text);
    }
    close_world(&w);
}
END_TEST

/* A weight held on one device of the stage only becomes communication before its use. */
START_TEST(raw_reshard)
{
    world w;
    luo_programs *set;
    open_world(&w, "1: [0,1]*1", 0);
    const luo_plan_annotation r[2] = {
        {"layers.0.norm1.weight", "[0]{}", "", "auto"},
        {"layers.0.norm1.weight", "[0,1]{-1:2}", "layers.0.norm1", "auto"}};
    w.plan->annotations = r;
    w.plan->nannotations = 2;
    const luo_status st = compile_world(&w, &set);
    ck_assert_msg(st == LUO_OK, "%s", w.err.text);
    luo_str s = {0};
    luo_program_print(&s, set, 0);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&s), "P2P dp pre"));
    ck_assert_ptr_nonnull(strstr(luo_str_get(&s), "# layers.0.norm1.weight@layers.0.norm1"));
    luo_str_free(&s);
    close_world(&w);
}
END_TEST

typedef struct edit { /* what is wrong with the plan or the model */
    const char *says;
    const char *line;
    bool tied, qk_norm, latent;
    int32_t zero, cp, layers, hybrid; /* hybrid: pipelines of a group */
    luo_family family;
    luo_sched_kind schedule;
} edit;

static const edit refused[] = {
    {.says = "pipeline 0, stage 0: context_parallel does not divide its devices", .cp = 2},
    {.says = "has latent attention, for which no program with context parallelism", .cp = 2,
     .line = "3: [0,1]*1 [2,3]*1", .latent = true},
    {.says = "has latent attention beside biases or `qk_norm`", .qk_norm = true, .latent = true},
    {.says = "zero 2: pipelines 0 and 1 run 3 and 2 micro-batches", .zero = 2,
     .line = "3: [0]*2 || 2: [1]*2"},
    {.says = "zero 3: layer 1 is on stage 0 of pipeline 0 and stage 1 of pipeline 1", .zero = 3,
     .line = "2: [0]*2 [1]*1 || 2: [2]*1 [3]*2"},
    {.says = "zero 3: pipelines 0 and 1 have 1 and 2 stages", .zero = 3,
     .line = "2: [0]*2 || 2: [2]*1 [3]*1"},
    {.says = "shard hybrid: stage 0 of pipelines 0 and 2 has groups of 1 and 2 devices, and the "
             "model has norms of queries and keys", .zero = 3, .hybrid = 2, .qk_norm = true,
     .line = "2: [0]*3 || 2: [1]*3 || 2: [2,3]*3 || 2: [4,5]*3"},
    {.says = "the plan has 2 layers, the model `test-llama` 3.", .layers = 1},
    {.says = "is of family bert, for which no program is built yet", .family = LUO_FAMILY_BERT},
    {.says = "is of family bert, for which no program is built yet", .family = LUO_FAMILY_BERT},
    {.says = "has no attention, which context parallelism is for; leave", .cp = 2,
     .line = "3: [0,1]*1 [2,3]*1", .family = LUO_FAMILY_MLP},
    {.says = "interleaved schedule: 3 micro-batches are not a multiple of 2 stages",
     .schedule = LUO_SCHED_INTERLEAVED},
};

START_TEST(refusals)
{
    const edit *e = &refused[_i];
    world w;
    luo_programs *set;
    open_world(&w, e->line ? e->line : "3: [0]*1 [1]*1", e->zero);
    w.model.tied_embeddings = e->tied;
    if (e->latent) w.model = small_latent(20);
    w.model.qk_norm = e->qk_norm;
    if (e->hybrid) w.plan->sequence_parallel = false;
    if (e->hybrid)
        w.plan->sharding = (luo_sharding){.kind = LUO_SHARD_HYBRID, .pipelines = e->hybrid};
    luo_stage *first = (luo_stage *)&w.plan->pipelines[0].stages[0];
    if (e->cp) first->context_parallel = e->cp;
    if (e->latent && e->cp) first[1].context_parallel = e->cp;
    if (e->schedule) w.plan->schedule = e->schedule;
    if (e->family) w.model.family = e->family;
    w.model.layers += e->layers;
    ck_assert_int_eq(compile_world(&w, &set), LUO_EINPUT);
    ck_assert_msg(strstr(w.err.text, e->says) != NULL, "%s", w.err.text);
    close_world(&w);
}
END_TEST

/* ---- the optimizer in a layout of its own (docs/annotations.md#zero) ---- */

static const struct {
    const char *tensor, *ann, *kind;
} apart_rows[] = {
    {"layers.0.mlp.down.weight.state", "h=0i [0,1]{0:2} | [2,3]{0:2}", ""},
    {"layers.0.mlp.down.weight.shard", "h=0i [0,1]{0:2} | [2]{}", "bottom identity,bsr"},
    {"layers.0.mlp.down.weight", "h=-1 [0,1]{0:2} | [2]{}", "split_ag"},
    {"d.layers.0.mlp.down.weight.shard", "h=0i [0,1]{0:2} | [2]{}", "split_rs"},
    {"d.layers.0.mlp.down.weight.state", "h=0i [0,1]{0:2} | [2,3]{0:2}",
     "bottom identity,bsr"},
};

START_TEST(state_apart)
{
    static const int32_t dev[4] = {0, 1, 2, 3};
    world w;
    luo_programs *set;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 0);
    w.plan->state_layout = (luo_state_layout){2, 2, 1, 4, dev};
    ck_assert_msg(annotate_plan(&w) == LUO_OK, "%s", w.err.text);
    for (int i = 0; i < LUO_ROWS(apart_rows); i++) {
        ck_assert_str_eq(ann_text(&w, apart_rows[i].tensor), apart_rows[i].ann);
        if (apart_rows[i].kind[0])
            ck_assert_str_eq(kind_text(&w, apart_rows[i].tensor), apart_rows[i].kind);
    }
    const luo_status st = compile_world(&w, &set);
    ck_assert_msg(st == LUO_OK, "%s", w.err.text);
    const luo_program *p = luo_programs_find(set, 3); /* in no stage: state only */
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(p->pipeline, -1);
    ck_assert_int_eq(p->ntask, 2);
    int64_t sum = 0, all = 0;
    for (int32_t d = 0; d < 4; d++) {
        luo_memory m;
        ck_assert_int_eq(luo_program_memory(w.arena, set, d, &m, &w.err), LUO_OK);
        ck_assert_int_eq(m.weights == 0, d == 3);
        ck_assert_int_gt(m.optimizer, 0);
        sum += m.optimizer;
    }
    luo_model_parameters(&w.model, &all, NULL);
    ck_assert_int_eq(sum, 12 * all); /* once, whatever the plan */
    close_world(&w);
}
END_TEST

/* ---- a tied table of which embedding and head have copies ---- */

#define ENDS "[0,1]{0:2} | [2]{} | [3]{} | [4]{}"
static const struct {
    int32_t zero;
    const char *tensor, *ann, *kind;
} tied_rows[] = {
    {0, "wte.weight", "h=-1 " ENDS, "identity"},
    {0, "wte.weight@wte", "h=-1 [0,1]{0:2} | [3]{}", "slice"},
    {0, "wte.weight@lm_head", "h=-1 [2]{} | [4]{}", "slice"},
    {0, "d.wte.weight@lm_head", "h=-2 [2]{} | [4]{}", ""},
    {0, "d.wte.weight.sum", "h=-2 " ENDS, ""},
    {0, "d.wte.weight.state", "h=-1 " ENDS, "split_ar"},
    {1, "wte.weight.state", "h=0i " ENDS, ""},
    {1, "wte.weight", "h=-1 " ENDS, "split_ag"},
    {1, "d.wte.weight.state", "h=0i " ENDS, "split_rs"},
};

START_TEST(tied_table)
{
    for (int32_t zero = 0; zero < 2; zero++) {
        world w;
        luo_programs *set;
        open_world(&w, "1: [0,1]*1 [2]*1 || 1: [3]*1 [4]*1", zero);
        w.model.tied_embeddings = true;
        ck_assert_msg(annotate_plan(&w) == LUO_OK, "%s", w.err.text);
        for (int i = 0; i < LUO_ROWS(tied_rows); i++) {
            if (tied_rows[i].zero != zero) continue;
            ck_assert_str_eq(ann_text(&w, tied_rows[i].tensor), tied_rows[i].ann);
            if (tied_rows[i].kind[0])
                ck_assert_str_eq(kind_text(&w, tied_rows[i].tensor), tied_rows[i].kind);
        }
        ck_assert_msg(compile_world(&w, &set) == LUO_OK, "%s", w.err.text);
        for (int32_t d = 0; d < set->n; d++) { /* messages are those of the pipelines alone */
            const luo_role *role = &set->roles[set->at[d].role];
            for (int32_t i = 0; i < role->ninstr; i++)
                ck_assert(role->instr[i].kind != LUO_INSTR_P2P ||
                          role->instr[i].stream == LUO_STREAM_PP);
        }
        close_world(&w);
    }
}
END_TEST

/* Any sizes whose product is the number of devices. */
static const struct {
    int32_t data, tensor, pipeline;
    const char *says; /* NULL: fits */
} layouts[] = {
    {1, 2, 2, NULL},
    {2, 1, 2, NULL},
    {4, 1, 1, NULL},
    {1, 4, 1, NULL},
    {3, 2, 1, "state layout 3 x 2 x 1 does not fit 4 devices."},
    {-2, -2, 1, "state layout -2 x -2 x 1 does not fit 4 devices."},
    {-2, 1, -2, "state layout -2 x 1 x -2 does not fit 4 devices."},
    {1, -4, -1, "state layout 1 x -4 x -1 does not fit 4 devices."},
};

START_TEST(state_layout_fits)
{
    static const int32_t dev[4] = {0, 1, 2, 3};
    world w;
    luo_programs *set;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 0);
    w.plan->state_layout =
        (luo_state_layout){layouts[_i].data, layouts[_i].tensor, layouts[_i].pipeline, 4, dev};
    const luo_status st = compile_world(&w, &set);
    if (layouts[_i].says) {
        ck_assert_int_eq(st, LUO_EINPUT);
        ck_assert_str_eq(w.err.text, layouts[_i].says);
    } else {
        ck_assert_msg(st == LUO_OK, "%s", w.err.text);
        int64_t sum = 0, all = 0;
        for (int32_t d = 0; d < 4; d++) {
            luo_memory m;
            ck_assert_int_eq(luo_program_memory(w.arena, set, d, &m, &w.err), LUO_OK);
            sum += m.optimizer;
        }
        luo_model_parameters(&w.model, &all, NULL);
        ck_assert_int_eq(sum, 12 * all); /* once, however it is laid out */
    }
    close_world(&w);
}
END_TEST

/* ---- fewer tokens than tensor-parallel ranks ---- */

/* Ranks without a token of a micro-batch are sent none, and compute nothing of it. */
START_TEST(few_tokens)
{
    static const int64_t one[2] = {1, 8};
    world w;
    luo_programs *set;
    open_world(&w, "2: [0,1]*1 [2,3]*1", 0);
    ((luo_pipeline *)w.plan->pipelines)[0].micro_batch_tokens = one;
    for (int s = 0; s < 2; s++)
        ((luo_stage *)w.plan->pipelines[0].stages)[s].recompute = (luo_recompute)_i;
    ck_assert_msg(compile_world(&w, &set) == LUO_OK, "%s", w.err.text);
    close_world(&w);
}
END_TEST

/* ---- parameters of a plan ---- */

START_TEST(params)
{
    world w;
    luo_param *p;
    int32_t n;
    open_world(&w, "1: [0,1]*1 || 1: [2]*1", 1);
    ck_assert_int_eq(luo_plan_params(w.arena, w.plan, &w.model, &p, &n, &w.err), LUO_OK);
    ck_assert_int_eq(n, 12);
    ck_assert_str_eq(p[0].name, "wte.weight");
    ck_assert_str_eq(p[2].name, "layers.0.attn.q.weight");
    ck_assert_int_eq(p[2].layer, 0);
    ck_assert_int_eq(p[2].shape.rank, 3);
    int64_t sum = 0, want = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t volume = 1;
        for (int32_t d = 0; d < p[i].shape.rank; d++) volume *= p[i].shape.dim[d];
        sum += volume;
        ck_assert_int_eq(p[i].state->h, 0);
        ck_assert(p[i].state->inner);
    }
    luo_model_parameters(&w.model, &want, NULL);
    ck_assert_int_eq(sum, want);
    close_world(&w);
}
END_TEST

LUO_SUITE("graph", LUO_T(parameters), LUO_T(flops), LUO_T_N(feed_forward_counts, 8),
          LUO_T_N(parameters_in_one_order, 3),
          LUO_T_N(layer, 2), LUO_T(layer_groups),
          LUO_T_N(latent_layer, 2), LUO_T(latent_cost), LUO_T(phases),
          LUO_T_N(pairs, LUO_ROWS(pair_rows)), LUO_T_N(attention, LUO_ROWS(attention_rows)),
          LUO_T_N(whole, LUO_ROWS(whole_rows)), LUO_T_N(raw, LUO_ROWS(raw_rows)),
          LUO_T(raw_reshard), LUO_T_N(refusals, LUO_ROWS(refused)), LUO_T(state_apart),
          LUO_T(tied_table),
          LUO_T_N(state_layout_fits, LUO_ROWS(layouts)), LUO_T_N(few_tokens, LUO_RECOMPUTES),
          LUO_T(params))
