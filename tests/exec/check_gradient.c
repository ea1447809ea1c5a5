/* check_gradient.c: the gradients of a single device against central differences of its
 * own loss, in f64, for some cells of every parameter. */
#include "core/base/rng.h"
#include "tests/check_main.h"
#include "tests/exec_fixture.h"

#include "exec/recipe.h"

enum { CELLS = 4 };

typedef struct row {
    const char *line;
    int model; /* 0 llama, 1 grouped heads, 2 gpt, 3 llama with norms of queries and keys, 4 experts
                  beside shared ones, 5 experts without gate columns behind a dense layer, 6 weights
                  that add up to 1, 7 sigmoid gate in route groups, 8 latent attention, 9 the same
                  with queries by one product, beside experts, 10 a loss of unbalanced experts, 11
                  prototypes with theirs, 12 groups of experts with that of alignment, 13 experts by
                  hashes of tokens, with room for half of them,
                  14 balanced assignment */
    int full;
    int64_t tokens[3];
} row;
static const row rows[] = {
    {"2: [0]*2", 0, 0, {16, 16}},    {"1: [0]*2", 1, 0, {32}},        {"2: [0]*2", 2, 0, {16, 16}},
    {"2: [0]*2", 4, 0, {16, 16}},    {"2: [0]*2", 5, 1, {8, 24}},     {"2: [0]*2", 10, 1, {8, 24}},
    {"2: [0]*2", 11, 0, {8, 24}},    {"2: [0]*2", 12, 0, {8, 24}},    {"2: [0]*2", 8, 0, {16, 16}},
    {"2: [0]*2", 9, 1, {8, 24}},     {"2: [0]*2", 6, 0, {16, 16}},    {"2: [0]*2", 7, 0, {16, 16}},
    {"2: [0]*2", 13, 1, {8, 24}},    {"2: [0]*2", 14, 1, {8, 24}},    {"2: [0]*2", 3, 0, {16, 16}},
    {"3: [0]*2", 0, 1, {8, 24, 16}}, {"3: [0]*2", 2, 1, {8, 24, 16}},
};

static luo_lab lab;

static luo_model model_of(const row *r)
{
    luo_model m = r->model == 2 ? luo_test_gpt(2, 32, 4, 64) : luo_test_llama(2, 32, 48, 4, 64);
    if (r->model == 1) m.kv_heads = 2;
    if (r->model == 4) m.moe = (luo_moe){4, 2, 24, 2, 12, .every_layers = 1};
    if (r->model == 5) m.moe = (luo_moe){5, 3, 16, .first_dense_layers = 1, .every_layers = 1};
    if (r->model == 5) m.activation = LUO_ACT_GELU;
    if (r->model == 6) m.moe = (luo_moe){6, 3, 16, .every_layers = 1, .renorm = true};
    if (r->model == 7)
        m.moe = (luo_moe){8,
                          3,
                          16,
                          .every_layers = 1,
                          .gate = LUO_GATE_SIGMOID,
                          .routed_scale = 2.5,
                          .route_groups = 4,
                          .route_groups_kept = 2,
                          .bias_rate = 0.05};
    if (r->model == 10) m.moe = (luo_moe){6, 2, 16, .every_layers = 1, .aux_loss = 0.5};
    if (r->model == 11)
        m.moe = (luo_moe){6, 3, 16, .every_layers = 1, .gate = LUO_GATE_KTOP1, .aux_loss = 0.5};
    if (r->model == 12)
        m.moe = (luo_moe){
            8, 2, 16, .every_layers = 1, .gate = LUO_GATE_SAM, .route_groups = 2, .aux_loss = 0.5};
    if (r->model == 13)
        m.moe =
            (luo_moe){5, 1, 16, .every_layers = 1, .gate = LUO_GATE_HASH, .capacity_factor = 0.5};
    if (r->model == 14) m.moe = (luo_moe){5, 1, 16, .every_layers = 1, .gate = LUO_GATE_BALANCED};
    if (r->model == 8 || r->model == 9) {
        m.latent = (luo_latent){r->model == 8 ? 20 : 0, 12, 6, 4, 7};
        m.head_dim = 10;
    }
    if (r->model == 9) m.moe = (luo_moe){4, 2, 24, .every_layers = 1};
    if (m.moe.experts) m.family = LUO_FAMILY_MOE;
    m.qk_norm = r->model == 3;
    m.max_sequence_tokens = 64;
    return m;
}

static double loss_of(luo_trial *t, void *keep, const luo_state *s)
{
    /* The step changes weights and moments; what is compared starts from the same ones. */
    char *at = keep;
    const luo_step_report r = luo_lab_step(t, 0);
    for (int32_t i = 0; i < s->n; i++) {
        const size_t n = (size_t)s->at[i].weight_frame.volume * s->elem;
        memcpy(s->at[i].weight, at, n);
        at += n;
    }
    ck_assert_msg(r.status == LUO_OK && r.has_loss, "%s", r.text);
    return r.loss + r.aux_loss;
}

static bool is_counted(const luo_state *s, int32_t i)
{
    return s->at[i].param->counted;
}

/* A bias that chooses, and has no gradient. */
static void put_bias(const luo_state *s)
{
    for (int32_t i = 0; i < s->n; i++)
        for (int64_t c = 0; is_counted(s, i) && c < s->at[i].weight_frame.volume; c++)
            ((double *)s->at[i].weight)[c] = 0.1 * (double)(c % 3);
}

static void *keep_weights(luo_arena *a, const luo_state *s)
{
    size_t n = 0;
    for (int32_t i = 0; i < s->n; i++) n += (size_t)s->at[i].weight_frame.volume * s->elem;
    char *keep = luo_arena_alloc(a, n), *at = keep;
    for (int32_t i = 0; i < s->n; i++) {
        const size_t bytes = (size_t)s->at[i].weight_frame.volume * s->elem;
        memcpy(at, s->at[i].weight, bytes);
        at += bytes;
    }
    return keep;
}

static void check_cell(luo_trial *t, void *keep, const luo_state *s, int32_t i, int64_t c,
                       double gradient, double scale)
{
    double *w = s->at[i].weight;
    const double was = w[c], h = 1e-5;
    w[c] = was + h;
    const double up = loss_of(t, keep, s);
    w[c] = was - h;
    const double down = loss_of(t, keep, s), measured = (up - down) / (2 * h);
    ck_assert_msg(fabs(gradient - measured) <= 1e-7 * scale + 1e-9,
                  "%s[%lld]: %.12g, measured %.12g", s->at[i].param->name, (long long)c, gradient,
                  measured);
}

START_TEST(gradients)
{
    const row *r = &rows[_i];
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_model model = model_of(r);
    luo_plan *p = luo_test_plan(a, r->line);
    p->dtype = LUO_F64;
    p->sequence_parallel = false;
    p->sequence_tokens = 16;
    ((luo_pipeline *)p->pipelines)[0].micro_batch_tokens = r->tokens;
    ((luo_stage *)p->pipelines[0].stages)[0].recompute =
        r->full ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
    luo_exec *x = luo_lab_executor(&lab, &model, LUO_F64);
    luo_trial t = luo_lab_bind(a, &lab, x, p, &model);
    luo_state *s = luo_host_executor.state(t.job);
    luo_state_init(s, &model, 3);
    put_bias(s);
    void *keep = keep_weights(a, s);
    const luo_step_report first = luo_lab_step(&t, 0);
    const double clip = fmin(1, LUO_CLIP_NORM / (first.grad_norm + LUO_CLIP_EPS));
    double **grad = LUO_NEW_N(a, double *, s->n);
    for (int32_t i = 0; i < s->n; i++) {
        const int64_t n = s->at[i].weight_frame.volume;
        grad[i] = LUO_NEW_N(a, double, n);
        for (int64_t c = 0; c < n && !is_counted(s, i); c++)
            grad[i][c] = ((double *)s->at[i].m)[c] / ((1 - LUO_BETA1) * clip);
    }
    const char *at = keep;
    for (int32_t i = 0; i < s->n; i++) {
        const size_t n = (size_t)s->at[i].weight_frame.volume * s->elem;
        memcpy(s->at[i].weight, at, n);
        at += n;
    }
    luo_rng rng = luo_rng_seed(11);
    for (int32_t i = 0; i < s->n; i++)
        for (int k = 0; k < CELLS && !is_counted(s, i); k++) {
            const int64_t c = luo_rng_pick(&rng, s->at[i].weight_frame.volume);
            check_cell(&t, keep, s, i, c, grad[i][c], first.grad_norm);
        }
    luo_host_executor.unbind(t.job);
    luo_host_executor.close(x);
    luo_arena_free(a);
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
        if (!is_counted(s, i)) continue;
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
    const luo_test_row tests[] = {LUO_T_N(gradients, LUO_ROWS(rows)), LUO_T(counts_move_the_bias)};
    setenv("CK_FORK", "no", 0); /* MPI does not survive a fork */
    luo_lab_open(&lab, &argc, &argv);
    const int failed = luo_run_suite("exec.gradient", tests, 2);
    luo_lab_close(&lab);
    return failed;
}
