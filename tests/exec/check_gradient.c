/* check_gradient.c: the gradients of a single device against difference quotients of the loss that
 * it computes itself, in f64: random models of every gate and without experts, every parameter
 * along a random direction through all of its cells, and cell by cell. The tables of gates and of
 * operations say what has to occur. */
#include "core/base/rng.h"
#include "tests/check_main.h"
#include "tests/exec_fixture.h"
#include "tests/prop/prop.h"

#include "exec/recipe.h"

#define ONE(kind, name) +1
enum { CASES = 4, CELLS = 1, GATES = LUO_GATE_LIST(ONE), NO_EXPERTS = GATES };
static const double STEP = 1e-3, RELATIVE = 1e-6, LEAST = 1e-4; /* smallest scale of a gradient */

static luo_lab lab;

/* ---- what has occurred ---- */

typedef struct tally {
    int cases;
    double worst; /* relative error */
} tally;
static tally of_op[LUO_OP_KINDS], of_gate[GATES + 1];
static int tried, near_ties;

#define FORMS(X)                                                                                   \
    X("causal attention", has_attention && m->causal)                                              \
    X("attention both ways", has_attention && !m->causal)                                          \
    X("grouped heads", m->kv_heads < m->heads)                                                     \
    X("latent attention", latent && m->latent.q_lora > 0)                                          \
    X("latent attention, queries by one product", latent && m->latent.q_lora == 0)                 \
    X("no attention", !has_attention)                                                              \
    X("rotary positions", has_attention && m->position == LUO_POS_ROPE)                            \
    X("learned positions", has_attention && m->position == LUO_POS_LEARNED)                        \
    X("rmsnorm", m->norm == LUO_NORM_RMS)                                                          \
    X("layernorm", m->norm == LUO_NORM_LAYER)                                                      \
    X("norms of queries and keys", m->qk_norm)                                                     \
    X("swiglu", m->activation == LUO_ACT_SWIGLU)                                                   \
    X("gelu", m->activation == LUO_ACT_GELU)                                                       \
    X("gelu by the error function", m->activation == LUO_ACT_GELU_ERF)                             \
    X("geglu", m->activation == LUO_ACT_GEGLU)                                                     \
    X("norms of 1 + weight", m->norm_offset)                                                       \
    X("a scale of embeddings", m->embedding_scale > 0)                                             \
    X("a part of heads turned",                                                                    \
      has_attention && !latent && m->position == LUO_POS_ROPE && m->partial_rotary > 0)            \
    X("positions from the third row on", m->position_offset > 0)                                   \
    X("a scale of scores", m->attention_scale > 0)                                                 \
    X("a soft cap of scores", m->attention_softcap > 0)                                            \
    X("a window of every second layer", m->window.tokens > 0)                                      \
    X("a soft cap of logits", m->logit_softcap > 0)                                                \
    X("linear positions",                                                                          \
      has_attention && m->position == LUO_POS_ROPE && m->rope.kind == LUO_ROPE_LINEAR)             \
    X("positions of Llama 3.1", has_attention && m->rope.kind == LUO_ROPE_LLAMA3)                  \
    X("YaRN", has_attention && m->rope.kind == LUO_ROPE_YARN)                                      \
    X("parallel halves", m->parallel_residual && !m->shared_norm)                                  \
    X("parallel halves with one norm", m->shared_norm)                                             \
    X("norms behind both halves", m->post_norms)                                                   \
    X("one table for both ends", m->tied_embeddings)                                               \
    X("biases of the feed-forward alone", m->linear_bias && !m->out_bias && !m->qkv_bias)          \
    X("biases of attention alone", m->out_bias && m->qkv_bias && !m->linear_bias)                  \
    X("shared experts", m->moe.shared_experts > 0 && !m->moe.shared_gate)                          \
    X("shared experts with a gate", m->moe.shared_gate)                                            \
    X("a dense layer before experts", m->moe.first_dense_layers > 0)                               \
    X("topk, renorm", divides && !drops)                                                           \
    X("topk, renorm, capacity_factor", divides &&drops)                                            \
    X("topk, capacity_factor", m->moe.gate == LUO_GATE_TOPK && drops && !m->moe.renorm)            \
    X("ktop1, capacity_factor", m->moe.gate == LUO_GATE_KTOP1 && drops)                            \
    X("hash, capacity_factor", m->moe.gate == LUO_GATE_HASH && drops)                              \
    X("sam, capacity_factor", m->moe.gate == LUO_GATE_SAM && drops)                                \
    X("sigmoid, capacity_factor", m->moe.gate == LUO_GATE_SIGMOID && drops)                        \
    X("sigmoid, route groups left out",                                                            \
      m->moe.gate == LUO_GATE_SIGMOID && m->moe.route_groups_kept < m->moe.route_groups)           \
    X("topk, route groups left out",                                                               \
      m->moe.gate == LUO_GATE_TOPK && m->moe.route_groups_kept < m->moe.route_groups)              \
    X("topk, routed_scale", m->moe.gate == LUO_GATE_TOPK && m->moe.routed_scale > 1)               \
    X("topk, aux_loss", m->moe.gate == LUO_GATE_TOPK && m->moe.aux_loss > 0)                       \
    X("topk, aux_loss, capacity_factor",                                                           \
      m->moe.gate == LUO_GATE_TOPK && m->moe.aux_loss > 0 && drops)                                \
    X("ktop1, aux_loss", m->moe.gate == LUO_GATE_KTOP1 && m->moe.aux_loss > 0)                     \
    X("sam, aux_loss", m->moe.gate == LUO_GATE_SAM && m->moe.aux_loss > 0)
#define FORM_NAME(name, condition) name,
#define FORM_HOLDS(name, condition) (condition),
static const char *const form_name[] = {FORMS(FORM_NAME)};
enum { FORM_COUNT = sizeof form_name / sizeof *form_name };
static tally of_form[FORM_COUNT];

static void forms_of(const luo_model *m, bool *has)
{
    const bool has_attention = luo_model_has_attention(m), latent = luo_model_is_latent(m);
    const bool drops = m->moe.capacity_factor > 0;
    const bool divides = m->moe.gate == LUO_GATE_TOPK && m->moe.renorm;
    const bool all[] = {FORMS(FORM_HOLDS)};
    memcpy(has, all, sizeof all);
}

/* Does an operation compute something in every program that has it? Others communicate, store, or
 * are of the optimizer. */
#define EMIT_compute true
#define EMIT_placeholder false
#define EMIT_state false
#define EMIT_reshard false
#define EMIT_accumulate false
#define EMIT_over_all false
static const bool op_computes[] = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, ...) EMIT_##emit,
#include "core/graph/ops.inc"
#undef LUO_OP
};

static void add_case(tally *t, double worst)
{
    t->cases++;
    t->worst = fmax(t->worst, worst);
}

static void add_to_tallies(const luo_model *m, const luo_programs *set, int gate, double worst)
{
    bool form[FORM_COUNT], op[LUO_OP_KINDS] = {false};
    forms_of(m, form);
    for (int32_t r = 0; r < set->nroles; r++)
        for (int32_t i = 0; i < set->roles[r].ninstr; i++)
            if (set->ops[set->roles[r].instr[i].op].kind < LUO_OP_KINDS)
                op[set->ops[set->roles[r].instr[i].op].kind] = true;
    for (int k = 0; k < LUO_OP_KINDS; k++)
        if (op[k] && op_computes[k]) add_case(&of_op[k], worst);
    for (int f = 0; f < (int)FORM_COUNT; f++)
        if (form[f]) add_case(&of_form[f], worst);
    add_case(&of_gate[gate], worst);
}

static const char *gate_name(int gate)
{
    return gate == NO_EXPERTS ? "no experts" : luo_gate_kind_name((luo_gate_kind)gate);
}

static void print_tally(const char *what, const char *name, const tally *t)
{
    printf("%-9s %-40s %5d  %.1e\n", what, name, t->cases, t->worst);
}

static void print_tallies(void)
{
    printf("difference quotients of whole models; %d of %d are left out, near another choice\n"
           "%-9s %-40s cases  worst relative error\n",
           near_ties, tried, "", "");
    for (int g = 0; g <= GATES; g++) print_tally("gate", gate_name(g), &of_gate[g]);
    for (int f = 0; f < (int)FORM_COUNT; f++) print_tally("form", form_name[f], &of_form[f]);
    for (int k = 0; k < LUO_OP_KINDS; k++)
        if (op_computes[k]) print_tally("operation", luo_op_kind_name((luo_op_kind)k), &of_op[k]);
}

/* ---- random models ---- */

static bool coin(luo_rng *r)
{
    return luo_rng_pick(r, 2);
}
static int64_t draw(luo_rng *r, int64_t lo, int64_t hi)
{
    return lo + luo_rng_pick(r, hi - lo + 1);
}

/* What few cases have to have goes by the seed. */
static void draw_gate(luo_rng *r, uint64_t seed, luo_gate_kind gate, luo_moe *moe)
{
    const int64_t groups = draw(r, seed & 2 ? 2 : 1, 3), each = draw(r, 2, 4);
    moe->gate = gate;
    moe->experts = groups * each;
    moe->experts_per_token = draw(r, 1, each);
    if (seed & 1) moe->capacity_factor = 0.3 + 0.1 * (double)draw(r, 0, 6);
    switch (gate) {
    case LUO_GATE_TOPK:
        moe->renorm = seed & 2;
        if (!moe->renorm || coin(r)) moe->aux_loss = 0.5;
        moe->routed_scale = coin(r) ? 1.5 : 1;
        moe->route_groups = groups;
        moe->route_groups_kept = draw(r, 1, seed & 2 ? groups - 1 : groups);
        break;
    case LUO_GATE_KTOP1:
        moe->experts_per_token = groups;
        if (seed & 2) moe->aux_loss = 0.5;
        break;
    case LUO_GATE_HASH:
        moe->experts_per_token = 1;
        break;
    case LUO_GATE_SAM:
        moe->route_groups = groups;
        if (moe->capacity_factor == 0) moe->aux_loss = 0.5;
        break;
    case LUO_GATE_BALANCED:
        moe->experts_per_token = 1;
        moe->capacity_factor = 0;
        break;
    case LUO_GATE_SIGMOID:
        moe->route_groups = groups;
        moe->route_groups_kept = draw(r, 1, seed & 2 ? groups - 1 : groups);
        moe->routed_scale = coin(r) ? 2.5 : 1;
        moe->bias_rate = coin(r) ? 0.05 : 0;
        break;
    }
}

static void draw_experts(luo_rng *r, uint64_t seed, luo_gate_kind gate, luo_model *m)
{
    m->family = LUO_FAMILY_MOE;
    m->linear_bias = false;
    m->moe = (luo_moe){.expert_ffn_hidden = 12, .every_layers = 1, .first_dense_layers = coin(r)};
    if (coin(r)) m->moe.shared_experts = 2, m->moe.shared_ffn_hidden = 8;
    m->moe.shared_gate = m->moe.shared_experts > 0 && seed / 2 % 2;
    draw_gate(r, seed, gate, &m->moe);
    const luo_gate drawn = luo_model_gate(m);
    luo_err err = {0};
    ck_assert_msg(luo_gate_check(&drawn, &err) == LUO_OK, "%s", err.text);
}

static void draw_attention(luo_rng *r, luo_model *m)
{
    m->causal = coin(r);
    m->rope_base = coin(r) ? 1e4 : 50;
    if (draw(r, 0, 3) == 0) {
        m->latent = (luo_latent){coin(r) ? 12 : 0, 8, 4, 4, 5};
        m->head_dim = 8;
        return;
    }
    m->kv_heads = m->heads >> draw(r, 0, 2);
    m->qk_norm = coin(r);
    m->position = coin(r) ? LUO_POS_ROPE : LUO_POS_LEARNED;
    m->linear_bias = coin(r), m->out_bias = coin(r), m->qkv_bias = coin(r);
}

/* Layers and positions of other forms, in turn. */
static void vary(uint64_t seed, luo_model *m)
{
    static const luo_rope_kind kinds[] = {LUO_ROPE_PLAIN, LUO_ROPE_LINEAR, LUO_ROPE_LLAMA3,
                                          LUO_ROPE_YARN};
    m->parallel_residual = seed % 3 > 0;
    m->shared_norm = seed % 3 == 1;
    m->post_norms = seed / 2 % 2;
    m->partial_rotary = seed % 2 ? 0.5 : 0;
    m->norm_offset = seed / 3 % 2;
    m->embedding_scale = seed / 4 % 2 ? 1.75 : 0;
    m->attention_scale = seed / 5 % 2 ? 0.6 : 0;
    m->attention_softcap = seed / 6 % 2 ? 1.5 : 0;
    m->logit_softcap = seed % 2 ? 2 : 0;
    if (m->causal && seed / 3 % 2) m->window = (luo_window){3, (int64_t)(seed % 2), 2, 1};
    if (m->position == LUO_POS_LEARNED) m->position_offset = (int64_t)(seed % 3);
    m->rope = (luo_rope_scaling){.kind = kinds[seed % 4], .factor = 4, .original_tokens = 8,
                                 .low_freq = 1, .high_freq = 4, .beta_fast = 4, .beta_slow = 0.5};
}

static luo_model draw_model(luo_rng *r, uint64_t seed, int gate)
{
    luo_model m = luo_test_llama(2, 16, 24, 4, 64);
    m.norm = coin(r) ? LUO_NORM_RMS : LUO_NORM_LAYER;
    static const luo_activation activations[] = {LUO_ACT_SWIGLU, LUO_ACT_GELU, LUO_ACT_GELU_ERF,
                                                 LUO_ACT_GEGLU};
    m.activation = activations[luo_rng_pick(r, 4)];
    m.tied_embeddings = coin(r);
    m.norm_eps = 1e-3;
    m.max_sequence_tokens = 64;
    if (gate == NO_EXPERTS && draw(r, 0, 4) == 0) {
        luo_model mlp = luo_test_mlp(2, 16, 24, 64, m.activation, coin(r));
        mlp.max_sequence_tokens = 64;
        return mlp;
    }
    draw_attention(r, &m);
    if (gate == NO_EXPERTS) vary(seed, &m);
    if (gate != NO_EXPERTS) draw_experts(r, seed, (luo_gate_kind)gate, &m);
    return m;
}

static luo_plan *draw_plan(luo_rng *r, luo_arena *a)
{
    static const int64_t tokens[3][2] = {{16, 16}, {8, 24}, {24, 12}};
    luo_plan *p = luo_test_plan(a, "2: [0]*2");
    p->dtype = LUO_F64;
    p->sequence_parallel = false;
    p->sequence_tokens = 16;
    ((luo_pipeline *)p->pipelines)[0].micro_batch_tokens = tokens[luo_rng_pick(r, 3)];
    ((luo_stage *)p->pipelines[0].stages)[0].recompute =
        coin(r) ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
    return p;
}

/* ---- a model on one device ---- */

typedef struct subject {
    luo_arena *arena;
    luo_trial trial;
    luo_state *state;
    double **keep, **grad; /* of every parameter; grad NULL: it is counted, no gradient moves it */
    int gate;
    uint64_t seed;
    double worst;
} subject;

static int64_t cells_of(const subject *x, int32_t i)
{
    return x->state->at[i].weight_frame.volume;
}

/* A step changes weights and moments; what is compared starts from the same ones. */
static luo_step_report step_from_kept(subject *x)
{
    const luo_step_report report = luo_lab_step(&x->trial, 0);
    for (int32_t i = 0; i < x->state->n; i++)
        memcpy(x->state->at[i].weight, x->keep[i], (size_t)cells_of(x, i) * sizeof(double));
    ck_assert_msg(report.status == LUO_OK && report.has_loss, "%s", report.text);
    return report;
}

/* Weights large enough for scores that are not all alike. */
static void draw_weights(subject *x, luo_rng *r)
{
    for (int32_t i = 0; i < x->state->n; i++) {
        const luo_piece *piece = &x->state->at[i];
        const bool scales =
            strstr(piece->param->name, "norm") && strstr(piece->param->name, ".weight");
        double *w = piece->weight;
        for (int64_t c = 0; c < cells_of(x, i); c++) w[c] = scales + 0.3 * luo_rng_normal(r);
        x->keep[i] = LUO_NEW_N(x->arena, double, cells_of(x, i));
        memcpy(x->keep[i], w, (size_t)cells_of(x, i) * sizeof *w);
    }
}

/* From the first moments of a first step. */
static void take_gradients(subject *x)
{
    const luo_step_report first = step_from_kept(x);
    const double clip = fmin(1, LUO_CLIP_NORM / (first.grad_norm + LUO_CLIP_EPS));
    for (int32_t i = 0; i < x->state->n; i++) {
        if (x->state->at[i].param->counted) continue;
        x->grad[i] = LUO_NEW_N(x->arena, double, cells_of(x, i));
        for (int64_t c = 0; c < cells_of(x, i); c++)
            x->grad[i][c] = ((double *)x->state->at[i].m)[c] / ((1 - LUO_BETA1) * clip);
    }
}

static subject open_subject(const luo_model *model, const luo_plan *plan, luo_arena *a, luo_rng *r)
{
    subject x = {.arena = a};
    luo_exec *executor = luo_lab_executor(&lab, model, LUO_F64);
    x.trial = luo_lab_bind(a, &lab, executor, plan, model);
    x.state = luo_host_executor.state(x.trial.job);
    luo_state_init(x.state, model, 3);
    x.keep = LUO_NEW_N(a, double *, x.state->n);
    x.grad = LUO_NEW_N(a, double *, x.state->n);
    draw_weights(&x, r);
    take_gradients(&x);
    return x;
}

static void close_subject(subject *x)
{
    luo_host_executor.unbind(x->trial.job);
    luo_host_executor.close(x->trial.x);
    luo_arena_free(x->arena);
}

/* Loss where parameter i is so far along a direction. */
static double loss_at(subject *x, int32_t i, const double *direction, double far)
{
    double *w = x->state->at[i].weight;
    for (int64_t c = 0; c < cells_of(x, i); c++) w[c] = x->keep[i][c] + far * direction[c];
    const luo_step_report report = step_from_kept(x);
    return report.loss + report.aux_loss;
}

/* Two quotients of five points; where a choice changes between these, they differ. */
static bool measure_slope(subject *x, int32_t i, const double *direction, double scale,
                          double *slope)
{
    double rise[3];
    for (int k = 0; k < 3; k++) {
        const double far = STEP * (double)(1 << k) / 2;
        rise[k] = loss_at(x, i, direction, far) - loss_at(x, i, direction, -far);
    }
    const double wide = (8 * rise[1] - rise[2]) / (12 * STEP);
    *slope = (8 * rise[0] - rise[1]) / (6 * STEP);
    return fabs(wide - *slope) <= RELATIVE * scale;
}

static void check_direction(subject *x, int32_t i, const double *direction, double scale)
{
    double gradient = 0, slope;
    for (int64_t c = 0; c < cells_of(x, i); c++) gradient += x->grad[i][c] * direction[c];
    tried++;
    if (!measure_slope(x, i, direction, scale, &slope)) {
        near_ties++;
        return;
    }
    const double error = fabs(slope - gradient) / scale;
    x->worst = fmax(x->worst, error);
    ck_assert_msg(error <= RELATIVE,
                  "%s, LUO_SEED=%llu LUO_CASES=1: along %s the loss rises by %.12g, its gradient "
                  "says %.12g",
                  gate_name(x->gate), (unsigned long long)x->seed, x->state->at[i].param->name,
                  slope, gradient);
}

/* Of a unit along all cells together the gradient is that of a cell of the usual size. */
static void check_parameter(subject *x, int32_t i, luo_rng *r)
{
    const int64_t n = cells_of(x, i);
    double *direction = LUO_NEW_N(x->arena, double, n), length = 0, squares = 0;
    for (int64_t c = 0; c < n; c++) {
        direction[c] = luo_rng_normal(r);
        length += direction[c] * direction[c];
        squares += x->grad[i][c] * x->grad[i][c];
    }
    const double scale = fmax(LEAST, sqrt(squares / (double)n));
    for (int64_t c = 0; c < n; c++) direction[c] /= sqrt(length);
    check_direction(x, i, direction, scale);
    for (int k = 0; k < CELLS; k++) {
        const int64_t cell = luo_rng_pick(r, n);
        for (int64_t c = 0; c < n; c++) direction[c] = c == cell;
        check_direction(x, i, direction, fmax(scale, fabs(x->grad[i][cell])));
    }
}

static void check_case(uint64_t seed, int gate)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng r = luo_rng_stream(seed, gate_name(gate));
    const luo_model model = draw_model(&r, seed, gate);
    subject x = open_subject(&model, draw_plan(&r, a), a, &r);
    x.gate = gate, x.seed = seed;
    for (int32_t i = 0; i < x.state->n; i++)
        if (x.grad[i]) check_parameter(&x, i, &r);
    add_to_tallies(&model, x.trial.set, gate, x.worst);
    close_subject(&x);
}

START_TEST(gradients)
{
    LUO_PROP_FOR(seed, _i == NO_EXPERTS ? 2 * CASES : CASES) check_case(seed, _i);
}
END_TEST

/* The layer of experts with which a dropped choice was found to have no part in what its token's
 * weights are divided by. */
START_TEST(dropped_choices_stand_in_the_sum)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng r = luo_rng_seed(1);
    luo_model model = luo_test_llama(2, 32, 48, 4, 64);
    model.family = LUO_FAMILY_MOE;
    model.max_sequence_tokens = 64;
    model.moe = (luo_moe){8, 3, 16, .every_layers = 1, .renorm = true, .capacity_factor = 0.5};
    if (_i) model.moe.gate = LUO_GATE_SIGMOID, model.moe.renorm = false;
    subject x = open_subject(&model, draw_plan(&r, a), a, &r);
    x.gate = (int)model.moe.gate, x.seed = 1;
    for (int32_t i = 0; i < x.state->n; i++)
        if (strstr(x.state->at[i].param->name, "router.weight"))
            for (int k = 0; k < 10; k++) check_parameter(&x, i, &r);
    close_subject(&x);
}
END_TEST

START_TEST(everything_has_occurred)
{
    for (int k = 0; k < LUO_OP_KINDS; k++)
        ck_assert_msg(!op_computes[k] || of_op[k].cases > 0,
                      "operation `%s` stands in no model whose gradients are measured",
                      luo_op_kind_name((luo_op_kind)k));
    for (int g = 0; g <= GATES; g++) ck_assert_msg(of_gate[g].cases > 0, "gate %s", gate_name(g));
    for (int f = 0; f < (int)FORM_COUNT; f++)
        ck_assert_msg(of_form[f].cases > 0, "no model with: %s", form_name[f]);
    ck_assert_msg(near_ties * 20 < tried, "%d of %d quotients are near ties", near_ties, tried);
}
END_TEST

/* A router of zeros gives every expert the same score, so that the first two take all tokens; their
 * bias falls and that of the others rises, so these take all tokens in the next step, whatever the
 * router has learnt meanwhile; then all have the same bias again. */
START_TEST(counts_move_the_bias)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_model model = luo_test_llama(1, 32, 48, 4, 64);
    model.family = LUO_FAMILY_MOE;
    model.max_sequence_tokens = 64;
    model.moe = (luo_moe){
        4, 2, 16, .every_layers = 1, .gate = LUO_GATE_SIGMOID, .routed_scale = 1, .bias_rate = 1};
    luo_plan *p = luo_test_plan(a, "3: [0]*1");
    p->dtype = LUO_F64;
    p->sequence_tokens = 16;
    luo_exec *x = luo_lab_executor(&lab, &model, LUO_F64);
    luo_trial t = luo_lab_bind(a, &lab, x, p, &model);
    luo_state *s = luo_host_executor.state(t.job);
    luo_state_init(s, &model, 3);
    const double *bias = NULL;
    for (int32_t i = 0; i < s->n; i++) {
        if (strcmp(s->at[i].param->name, "layers.0.moe.router.weight") == 0)
            memset(s->at[i].weight, 0, (size_t)s->at[i].weight_frame.volume * s->elem);
        if (!s->at[i].param->counted) continue;
        ck_assert(!bias && !s->at[i].m && !s->at[i].v);
        bias = s->at[i].weight;
    }
    static const double want[3][4] = {{0, 0, 0, 0}, {-1, -1, 1, 1}, {0, 0, 0, 0}};
    for (int step = 0; step < 3; step++) {
        for (int e = 0; e < 4; e++) ck_assert_double_eq(bias[e], want[step][e]);
        ck_assert_int_eq(luo_lab_step(&t, step).status, LUO_OK);
    }
    luo_host_executor.unbind(t.job);
    luo_host_executor.close(x);
    luo_arena_free(a);
}
END_TEST

int main(int argc, char **argv)
{
    const luo_test_row tests[] = {LUO_T_N(gradients, GATES + 1),
                                  LUO_T_N(dropped_choices_stand_in_the_sum, 2),
                                  LUO_T(counts_move_the_bias), LUO_T(everything_has_occurred)};
    const bool some = luo_prop_env("LUO_CASES", CASES) < CASES || getenv("LUO_SEED");
    setenv("CK_FORK", "no", 0); /* MPI does not survive a fork */
    luo_lab_open(&lab, &argc, &argv);
    const int failed = luo_run_suite("exec.gradient", tests, some ? 3 : 4);
    print_tallies();
    luo_lab_close(&lab);
    return failed;
}
