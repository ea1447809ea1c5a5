/* check_state.c: state of every plan into files and out of them under every other. */
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "tests/exec/state_make.h"
#include "tests/prop/prop.h"

static char path[64];

static const char *file_name(const char *what)
{
    snprintf(path, sizeof path, "build/check_state.%ld.%s", (long)getpid(), what);
    return path;
}

static luo_status load(state_world *w, const char *file, luo_err *err)
{
    for (int32_t r = 0; r < w->n; r++) {
        const luo_share share = {.rank = r, .ranks = w->n};
        const luo_status st = luo_state_load_weights(&w->state[r], &w->model, file, share, err);
        if (st != LUO_OK) return st;
    }
    return LUO_OK;
}

/* Cells of the moments that are not 0. */
static int64_t moments_left(const state_world *w)
{
    int64_t n = 0;
    for (int32_t r = 0; r < w->n; r++)
        for (int32_t i = 0; i < w->nparam; i++) {
            const luo_piece *p = &w->state[r].at[i];
            for (int64_t k = 0; p->m && k < p->state_frame.volume; k++)
                n += state_get(p->m, w->elem, k) != 0 || state_get(p->v, w->elem, k) != 0;
        }
    return n;
}

/* ---- saved under one plan, loaded under another ---- */

START_TEST(any_plan_to_any)
{
    LUO_PROP_FOR(seed, 60)
    {
        luo_rng rng = luo_rng_seed(seed);
        const luo_model model = state_model((int)luo_rng_pick(&rng, STATE_MODELS));
        const char *from = state_lines[luo_rng_pick(&rng, LUO_ROWS(state_lines))];
        const char *to = state_lines[luo_rng_pick(&rng, LUO_ROWS(state_lines))];
        const size_t elem = luo_rng_pick(&rng, 2) ? 8 : 4, back = luo_rng_pick(&rng, 2) ? 8 : 4;
        state_world a, b;
        luo_err err = {0};
        state_open(&a, from, &model, (int)luo_rng_pick(&rng, 2), elem);
        state_open(&b, to, &model, (int)luo_rng_pick(&rng, 2), back);
        state_truth(&a, 7, false);
        state_truth(&b, 6, false); /* moments, which loading zeroes */
        const char *file = file_name("any.safetensors");
        ck_assert_msg(state_save_weights(&a, file, &err) == LUO_OK, "%s", err.text);
        ck_assert_msg(load(&b, file, &err) == LUO_OK, "%s", err.text);
        ck_assert_msg(state_truth(&b, 1, true) == 0, "seed %llu: %s to %s",
                      (unsigned long long)seed, from, to);
        ck_assert_int_eq(moments_left(&b), 0);
        state_close(&a);
        state_close(&b);
    }
    unlink(path);
}
END_TEST

/* Every plan writes the same bytes. */
START_TEST(same_bytes)
{
    char *first = NULL;
    size_t n = 0;
    const luo_model model = state_model(_i);
    for (int k = 0; k < LUO_ROWS(state_lines); k++) {
        state_world w;
        luo_err err = {0};
        size_t bytes = 0;
        state_open(&w, state_lines[k], &model, k % 2, 4);
        state_truth(&w, 1, false);
        ck_assert_int_eq(state_save_weights(&w, file_name("same"), &err), LUO_OK);
        char *text = state_slurp(path, &bytes);
        if (!first) {
            first = text;
            n = bytes;
        } else {
            ck_assert(bytes == n && memcmp(first, text, bytes) == 0);
            free(text);
        }
        state_close(&w);
    }
    free(first);
    unlink(path);
}
END_TEST

/* The state in a layout of its own, on devices of none of the pipelines. */
START_TEST(state_kept_apart)
{
    static const int32_t dev[] = {8, 9, 10, 11};
    const luo_model model = state_model(0);
    state_world a, b;
    luo_err err = {0};
    state_open(&a, state_lines[1], &model, 0, 4);
    luo_plan *p = a.plan;
    p->state_layout = (luo_state_layout){2, 2, 1, 4, dev};
    ck_assert_int_eq(luo_plan_params(a.arena, p, &a.model, &a.param, &a.nparam, &err), LUO_OK);
    for (int32_t r = 0; r < 4; r++) { /* the ranks are those devices */
        a.state[r].device = dev[r];
        for (int32_t i = 0; i < a.nparam; i++) state_piece(&a, &a.state[r], i);
    }
    state_truth(&a, 1, false);
    ck_assert_msg(state_save_weights(&a, file_name("apart"), &err) == LUO_OK, "%s", err.text);
    state_open(&b, state_lines[0], &model, 0, 8);
    ck_assert_int_eq(load(&b, path, &err), LUO_OK);
    ck_assert_int_eq(state_truth(&b, 1, true), 0);
    state_close(&a);
    state_close(&b);
    unlink(path);
}
END_TEST

/* ---- first weights ---- */

typedef struct whole { /* a parameter put together of all pieces */
    double *cell;
    const char *array;
    size_t elem;
    int64_t wrong;
} whole;

static void collect(void *ctx, int64_t global, int64_t local, int64_t n)
{
    whole *x = ctx;
    for (int64_t i = 0; i < n; i++) {
        const double v = state_get(x->array, x->elem, local + i);
        x->wrong += !isnan(x->cell[global + i]) && x->cell[global + i] != v;
        x->cell[global + i] = v;
    }
}

static int64_t cells_of(const luo_param *p)
{
    int64_t n = 1;
    for (int32_t d = 0; d < p->shape.rank; d++) n *= p->shape.dim[d];
    return n;
}

/* Copies agree, and no cell is left out. */
static double *assemble(const state_world *w, const char *name)
{
    whole x = {.elem = w->elem};
    for (int32_t r = 0; r < w->n; r++)
        for (int32_t i = 0; i < w->nparam; i++) {
            const luo_piece *p = &w->state[r].at[i];
            if (strcmp(p->param->name, name) != 0) continue;
            const int64_t n = cells_of(p->param);
            if (!x.cell) {
                x.cell = malloc((size_t)n * sizeof *x.cell);
                for (int64_t k = 0; k < n; k++) x.cell[k] = NAN;
            }
            x.array = p->weight;
            if (p->weight)
                luo_cells_each(&p->param->shape, &p->weight_frame.region, NULL, collect, &x);
        }
    ck_assert_msg(x.cell && x.wrong == 0, "%s", name);
    return x.cell;
}

START_TEST(init_knows_no_plan)
{
    const luo_model model = state_model(_i / LUO_ROWS(state_lines));
    state_world a, b;
    state_open(&a, state_lines[0], &model, 0, 8);
    state_open(&b, state_lines[_i % LUO_ROWS(state_lines)], &model, _i % 2, 4);
    for (int32_t r = 0; r < a.n; r++) luo_state_init(&a.state[r], &model, 11);
    state_truth(&b, 7, false); /* so that what is not written shows */
    for (int32_t r = 0; r < b.n; r++) luo_state_init(&b.state[r], &model, 11);
    for (int32_t i = 0; i < a.nparam; i++) {
        double *x = assemble(&a, a.param[i].name), *y = assemble(&b, a.param[i].name);
        int64_t wrong = 0;
        for (int64_t k = 0; k < cells_of(&a.param[i]); k++) wrong += (float)x[k] != (float)y[k];
        ck_assert_msg(wrong == 0, "%s", a.param[i].name);
        free(x);
        free(y);
    }
    ck_assert_int_eq(moments_left(&b), 0);
    state_close(&a);
    state_close(&b);
}
END_TEST

static const struct {
    const char *name;
    double mean, deviation;
} laws[] = {
    {"wte.weight", 0, 0.02},
    {"wpe.weight", 0, 0.02},
    {"layers.1.attn.q.weight", 0, 0.02},
    {"layers.0.attn.out.weight", 0, 0.02 / 2},
    {"layers.1.mlp.up.weight", 0, 0.02},
    {"layers.1.mlp.down.weight", 0, 0.02 / 2},
    {"layers.0.norm1.weight", 1, 0},
    {"layers.0.norm1.bias", 0, 0},
    {"norm.weight", 1, 0},
    {"layers.0.attn.q.bias", 0, 0},
    {"layers.1.mlp.down.bias", 0, 0},
};

START_TEST(init_laws)
{
    const luo_model model = luo_test_gpt(2, 64, 4, 512);
    state_world w;
    double sum = 0, squares = 0, tail = 0;
    state_open(&w, "1: [0]*2", &model, 0, 8);
    luo_state_init(&w.state[0], &model, 5);
    double *x = assemble(&w, laws[_i].name);
    int64_t n = 0;
    for (int32_t i = 0; i < w.nparam; i++)
        if (strcmp(w.param[i].name, laws[_i].name) == 0) n = cells_of(&w.param[i]);
    for (int64_t k = 0; k < n; k++) {
        sum += x[k];
        squares += (x[k] - laws[_i].mean) * (x[k] - laws[_i].mean);
        tail += fabs(x[k] - laws[_i].mean) > laws[_i].deviation;
    }
    /* Six standard errors; a third of a normal law lies beyond one deviation. */
    const double near = 6 / sqrt((double)n);
    ck_assert_double_le(fabs(sum / (double)n - laws[_i].mean), near * laws[_i].deviation);
    ck_assert_double_le(fabs(sqrt(squares / (double)n) - laws[_i].deviation),
                        near * laws[_i].deviation);
    if (laws[_i].deviation > 0) ck_assert_double_le(fabs(tail / (double)n - 0.3173), near);
    free(x);
    state_close(&w);
}
END_TEST

START_TEST(seeds_and_names_differ)
{
    const luo_model model = state_model(0);
    state_world a, b;
    int64_t same = 0;
    state_open(&a, state_lines[0], &model, 0, 8);
    state_open(&b, state_lines[0], &model, 0, 8);
    luo_state_init(&a.state[0], &model, 1);
    luo_state_init(&b.state[0], &model, 2);
    double *x = assemble(&a, "wte.weight"), *y = assemble(&b, "wte.weight");
    double *z = assemble(&a, "lm_head.weight");
    for (int k = 0; k < 24 * 40; k++) same += (x[k] == y[k]) + (x[k] == z[k]);
    ck_assert_int_eq(same, 0);
    free(x);
    free(y);
    free(z);
    state_close(&a);
    state_close(&b);
}
END_TEST

/* ---- names and layouts ---- */

static void print_names(const luo_model *model, luo_str *out)
{
    state_world w;
    luo_err err;
    const luo_hf_layout *layout;
    state_open(&w, "1: [0]*4", model, 0, 4);
    ck_assert_int_eq(luo_hf_config(model, LUO_F32, NULL, &layout, &err), LUO_OK);
    for (int32_t i = 0; i < w.nparam; i++) {
        luo_hf_tensor h;
        if (strncmp(w.param[i].name, "layers.", 7) == 0 && w.param[i].name[7] != '2') continue;
        ck_assert_int_eq(luo_hf_tensor_of(layout, model, &w.param[i], &h, &err), LUO_OK);
        luo_str_addf(out, "%s %s%s", w.param[i].name, h.name, h.swapped ? " T" : "");
        if (h.rank == 2)
            luo_str_addf(out, " %lldx%lld", (long long)h.dim[0], (long long)h.dim[1]);
        else
            luo_str_addf(out, " %lld", (long long)h.dim[0]);
        if (h.at) luo_str_addf(out, " +%lld", (long long)h.at);
        if (h.parts > 1) luo_str_addf(out, " each of %lld", (long long)h.parts);
        luo_str_addf(out, "%s\n", luo_state_decays(&w.param[i]) ? "" : " kept");
    }
    state_close(&w);
}

static const char llama_names[] =
    "wte.weight model.embed_tokens.weight 40x24\n"
    "layers.2.norm1.weight model.layers.2.input_layernorm.weight 24 kept\n"
    "layers.2.attn.q.weight model.layers.2.self_attn.q_proj.weight 24x24\n"
    "layers.2.attn.k.weight model.layers.2.self_attn.k_proj.weight 12x24\n"
    "layers.2.attn.v.weight model.layers.2.self_attn.v_proj.weight 12x24\n"
    "layers.2.attn.q.bias model.layers.2.self_attn.q_proj.bias 24 kept\n"
    "layers.2.attn.k.bias model.layers.2.self_attn.k_proj.bias 12 kept\n"
    "layers.2.attn.v.bias model.layers.2.self_attn.v_proj.bias 12 kept\n"
    "layers.2.attn.q_norm.weight model.layers.2.self_attn.q_norm.weight 6 kept\n"
    "layers.2.attn.k_norm.weight model.layers.2.self_attn.k_norm.weight 6 kept\n"
    "layers.2.attn.out.weight model.layers.2.self_attn.o_proj.weight T 24x24\n"
    "layers.2.norm2.weight model.layers.2.post_attention_layernorm.weight 24 kept\n"
    "layers.2.mlp.gate.weight model.layers.2.mlp.gate_proj.weight 36x24\n"
    "layers.2.mlp.up.weight model.layers.2.mlp.up_proj.weight 36x24\n"
    "layers.2.mlp.down.weight model.layers.2.mlp.down_proj.weight T 24x36\n"
    "norm.weight model.norm.weight 24 kept\n"
    "lm_head.weight lm_head.weight 40x24\n";
static const char gpt_names[] = "wte.weight wte.weight 40x24\n"
                                "wpe.weight wpe.weight 16x24\n"
                                "layers.2.norm1.weight h.2.ln_1.weight 24 kept\n"
                                "layers.2.norm1.bias h.2.ln_1.bias 24 kept\n"
                                "layers.2.attn.q.weight h.2.attn.c_attn.weight T 24x72\n"
                                "layers.2.attn.k.weight h.2.attn.c_attn.weight T 24x72 +24\n"
                                "layers.2.attn.v.weight h.2.attn.c_attn.weight T 24x72 +48\n"
                                "layers.2.attn.q.bias h.2.attn.c_attn.bias 72 kept\n"
                                "layers.2.attn.k.bias h.2.attn.c_attn.bias 72 +24 kept\n"
                                "layers.2.attn.v.bias h.2.attn.c_attn.bias 72 +48 kept\n"
                                "layers.2.attn.out.weight h.2.attn.c_proj.weight 24x24\n"
                                "layers.2.attn.out.bias h.2.attn.c_proj.bias 24 kept\n"
                                "layers.2.norm2.weight h.2.ln_2.weight 24 kept\n"
                                "layers.2.norm2.bias h.2.ln_2.bias 24 kept\n"
                                "layers.2.mlp.up.weight h.2.mlp.c_fc.weight T 24x96\n"
                                "layers.2.mlp.up.bias h.2.mlp.c_fc.bias 96 kept\n"
                                "layers.2.mlp.down.weight h.2.mlp.c_proj.weight 96x24\n"
                                "layers.2.mlp.down.bias h.2.mlp.c_proj.bias 24 kept\n"
                                "norm.weight ln_f.weight 24 kept\n"
                                "norm.bias ln_f.bias 24 kept\n";

/* Of layer 2, all of whose router but the bias is a gradient's. */
static const char experts_names[] =
    "wte.weight model.embed_tokens.weight 40x24\n"
    "layers.2.norm1.weight model.layers.2.input_layernorm.weight 24 kept\n"
    "layers.2.attn.q.weight model.layers.2.self_attn.q_proj.weight 24x24\n"
    "layers.2.attn.k.weight model.layers.2.self_attn.k_proj.weight 24x24\n"
    "layers.2.attn.v.weight model.layers.2.self_attn.v_proj.weight 24x24\n"
    "layers.2.attn.out.weight model.layers.2.self_attn.o_proj.weight T 24x24\n"
    "layers.2.norm2.weight model.layers.2.post_attention_layernorm.weight 24 kept\n"
    "layers.2.moe.router.weight model.layers.2.mlp.gate.weight 5x24\n"
    "layers.2.moe.router.bias model.layers.2.mlp.gate.e_score_correction_bias 5 kept\n"
    "layers.2.moe.gate.weight model.layers.2.mlp.experts.*.gate_proj.weight 12x24 "
    "each of 5\n"
    "layers.2.moe.up.weight model.layers.2.mlp.experts.*.up_proj.weight 12x24 each of "
    "5\n"
    "layers.2.moe.down.weight model.layers.2.mlp.experts.*.down_proj.weight T 24x12 "
    "each of 5\n"
    "norm.weight model.norm.weight 24 kept\n"
    "lm_head.weight lm_head.weight 40x24\n";

START_TEST(names)
{
    static const char *const want[] = {llama_names, gpt_names, experts_names};
    static const int kind[] = {1, 3, 4};
    luo_str text = {0};
    const luo_model model = state_model(kind[_i]);
    print_names(&model, &text);
    ck_assert_str_eq(text.at, want[_i]);
    luo_str_free(&text);
}
END_TEST

START_TEST(no_name)
{
    luo_model model = state_model(0);
    state_world w;
    luo_err err;
    model.position = LUO_POS_LEARNED;
    state_open(&w, "1: [0]*2 [1]*2", &model, 0, 4);
    static state_rank ranks[STATE_RANKS];
    state_each(&w, ranks, state_save_rank, (void *)file_name("none"));
    for (int r = 0; r < 2; r++) ck_assert_int_eq(ranks[r].st, LUO_EUNREP);
    ck_assert_str_eq(ranks[1].err.text,
                     "parameter `wpe.weight` of model `test-llama` has no name in a Hugging Face "
                     "file of a llama; use a model of that form.");
    ck_assert(access(path, F_OK) != 0 && w.calls == 0);
    model.family = LUO_FAMILY_GPT;
    luo_hf_tensor h;
    const luo_hf_layout *gpt2 = luo_hf_layout_of("gpt2");
    luo_param gate = {.name = "layers.0.mlp.gate.weight", .shape = {2, {36, 24}, NULL}};
    ck_assert_int_eq(luo_hf_tensor_of(gpt2, &model, &gate, &h, &err), LUO_EUNREP);
    gate.name = "layers.x.mlp.up.weight";
    ck_assert_int_eq(luo_hf_tensor_of(gpt2, &model, &gate, &h, &err), LUO_EUNREP);
    state_close(&w);
}
END_TEST

static const luo_file_tensor *tensor_of(const luo_tensor_file *f, const char *name)
{
    const luo_file_tensor *t = luo_safetensors_find(&f->head, name);
    ck_assert_msg(t != NULL, "%s", name);
    return t;
}

static double file_cell(const luo_tensor_file *f, const char *name, int64_t r, int64_t c)
{
    const luo_file_tensor *t = tensor_of(f, name);
    double v;
    luo_tensor_take(t->dtype,
                    luo_tensor_file_at(f, t) +
                        (r * t->dim[t->rank - 1] + c) * luo_file_dtype_bytes(t->dtype),
                    1, 1, 8, &v);
    return v;
}

static const luo_param *param_of(const state_world *w, const char *name)
{
    for (int32_t i = 0; i < w->nparam; i++)
        if (strcmp(w->param[i].name, name) == 0) return &w->param[i];
    ck_abort_msg("%s", name);
}

/* Cells by hand: [out, in] in llama, [in, out] with q, k, v side by side in gpt2. */
START_TEST(layouts)
{
    state_world l, g;
    luo_tensor_file f;
    const luo_model llama = state_model(1), gpt = state_model(3);
    state_open(&l, state_lines[3], &llama, 1, 4);
    state_truth(&l, 1, false);
    ck_assert_int_eq(state_save_weights(&l, file_name("lay"), NULL), LUO_OK);
    ck_assert_int_eq(luo_tensor_file_open(l.arena, path, &f, NULL), LUO_OK);
    const luo_param *q = param_of(&l, "layers.1.attn.q.weight"),
                    *k = param_of(&l, "layers.1.attn.k.weight"),
                    *o = param_of(&l, "layers.1.attn.out.weight"),
                    *down = param_of(&l, "layers.3.mlp.down.weight");
    for (int64_t a = 0; a < 24; a++)
        for (int64_t b = 0; b < 24; b++) {
            ck_assert(file_cell(&f, "model.layers.1.self_attn.q_proj.weight", a, b) ==
                      state_true(q, 0, a * 24 + b));
            ck_assert(file_cell(&f, "model.layers.1.self_attn.o_proj.weight", a, b) ==
                      state_true(o, 0, b * 24 + a));
            ck_assert(file_cell(&f, "model.layers.1.self_attn.k_proj.weight", a / 2, b) ==
                      state_true(k, 0, a / 2 * 24 + b));
            ck_assert(file_cell(&f, "model.layers.3.mlp.down_proj.weight", a, b + 12) ==
                      state_true(down, 0, (b + 12) * 24 + a));
        }
    ck_assert_int_eq(tensor_of(&f, "model.layers.3.mlp.down_proj.weight")->dim[1], 36);
    luo_tensor_file_close(&f);
    state_open(&g, state_lines[2], &gpt, 0, 8);
    state_truth(&g, 1, false);
    ck_assert_int_eq(state_save_weights(&g, path, NULL), LUO_OK);
    ck_assert_int_eq(luo_tensor_file_open(g.arena, path, &f, NULL), LUO_OK);
    static const char *const part[] = {"layers.1.attn.q", "layers.1.attn.k", "layers.1.attn.v"};
    for (int p = 0; p < 3; p++) {
        char name[64];
        snprintf(name, sizeof name, "%s.weight", part[p]);
        const luo_param *w = param_of(&g, name);
        snprintf(name, sizeof name, "%s.bias", part[p]);
        const luo_param *bias = param_of(&g, name);
        for (int64_t out = 0; out < 24; out++) {
            for (int64_t in = 0; in < 24; in++)
                ck_assert(file_cell(&f, "h.1.attn.c_attn.weight", in, 24 * p + out) ==
                          state_true(w, 0, out * 24 + in));
            ck_assert(file_cell(&f, "h.1.attn.c_attn.bias", 0, 24 * p + out) ==
                      state_true(bias, 0, out));
        }
    }
    luo_tensor_file_close(&f);
    state_close(&l);
    state_close(&g);
    unlink(path);
}
END_TEST

/* ---- when a rank fails ---- */

START_TEST(gather_fails)
{
    const luo_model model = state_model(0);
    state_world w;
    static state_rank ranks[STATE_RANKS];
    state_open(&w, state_lines[1], &model, 0, 4);
    w.fail_at = 5;
    state_each(&w, ranks, state_save_rank, (void *)file_name("gone"));
    for (int32_t r = 0; r < w.n; r++) {
        ck_assert_int_eq(ranks[r].st, LUO_EPEER);
        ck_assert_str_eq(ranks[r].err.text, "a rank is gone.");
    }
    ck_assert(access(path, F_OK) != 0 && w.calls == 5);
    state_close(&w);
}
END_TEST

/* A rank that lost a piece says so; the writer misses its cells and leaves no file. */
START_TEST(cells_missing)
{
    const luo_model model = state_model(0);
    state_world w;
    static state_rank ranks[STATE_RANKS];
    state_open(&w, state_lines[1], &model, 0, 4);
    for (int32_t i = 0; i < w.nparam; i++)
        if (strcmp(w.param[i].name, "layers.2.mlp.up.weight") == 0) w.state[3].at[i].weight = NULL;
    state_each(&w, ranks, state_save_rank, (void *)file_name("lost"));
    ck_assert_int_eq(ranks[0].st, LUO_EBUG);
    ck_assert_str_eq(ranks[0].err.text, "432 of the 864 cells of "
                                        "`model.layers.2.mlp.up_proj.weight` arrived; each is "
                                        "expected once.");
    ck_assert_int_eq(ranks[1].st, LUO_OK);
    ck_assert_int_eq(ranks[3].st, LUO_EBUG);
    ck_assert_str_eq(ranks[3].err.text,
                     "device 3 does not keep its part of `layers.2.mlp.up.weight`.");
    ck_assert(access(path, F_OK) != 0);
    state_close(&w);
}
END_TEST

START_TEST(no_folder)
{
    const luo_model model = state_model(0);
    state_world w;
    luo_err err;
    state_open(&w, state_lines[1], &model, 0, 4);
    ck_assert_int_eq(state_save_weights(&w, "build/none/x", &err), LUO_EIO);
    ck_assert_str_eq(
        err.text,
        "cannot write `build/none/x`: no such file or directory; choose another place or free "
        "some.");
    ck_assert_int_gt(w.calls, 30);
    state_close(&w);
}
END_TEST

LUO_SUITE("exec.state", LUO_T(any_plan_to_any), LUO_T_N(same_bytes, STATE_MODELS),
          LUO_T(state_kept_apart), LUO_T_N(init_knows_no_plan, STATE_MODELS *LUO_ROWS(state_lines)),
          LUO_T_N(init_laws, LUO_ROWS(laws)), LUO_T(seeds_and_names_differ), LUO_T_N(names, 3),
          LUO_T(no_name), LUO_T(layouts), LUO_T(gather_fails), LUO_T(cells_missing),
          LUO_T(no_folder))
