/* check_mlp.c: models of feed-forward alone on a single device, in f64, against loss and gradients
 * by plain loops, token by token: the slow twin of the kernels and of differentiation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check_main.h"
#include "tests/exec_fixture.h"

#include "exec/data/batch.h"
#include "exec/recipe.h"

static luo_lab lab;

typedef struct row {
    luo_activation activation;
    bool biases, tied;
    luo_norm norm;
    luo_recompute recompute;
} row;
static const row rows[] = {
    {LUO_ACT_GELU, true, false, LUO_NORM_LAYER, LUO_RECOMPUTE_NONE},
    {LUO_ACT_GELU, false, true, LUO_NORM_RMS, LUO_RECOMPUTE_FULL},
    {LUO_ACT_SWIGLU, false, false, LUO_NORM_RMS, LUO_RECOMPUTE_NONE},
    {LUO_ACT_SWIGLU, true, true, LUO_NORM_LAYER, LUO_RECOMPUTE_SELECTIVE},
};
static const int64_t micro[] = {16, 23};

enum { H = 12, F = 20, V = 64, L = 2 };

/* ---- the twin ---- */

typedef struct weight { /* w NULL: the model has none */
    const double *w;
    double *g;
    int64_t n;
} weight;

typedef struct layer {
    weight scale, shift, gate, gate_bias, up, up_bias, down, down_bias;
} layer;

typedef struct twin {
    const luo_model *model;
    weight table, scale, shift, head;
    layer at[L];
    double loss, each; /* each: one over the targets of the step */
} twin;

/* y = (x - mean) / sqrt(variance + eps) * scale + shift; RMSNorm has no mean and no shift. */
static void norm(const twin *t, const weight *scale, const weight *shift, const double *x,
                 double *normal, double *y, double *by)
{
    double mean = 0, square = 0;
    for (int i = 0; i < H && shift->w; i++) mean += x[i] / H;
    for (int i = 0; i < H; i++) square += (x[i] - mean) * (x[i] - mean) / H;
    *by = 1 / sqrt(square + t->model->norm_eps);
    for (int i = 0; i < H; i++) {
        normal[i] = (x[i] - mean) * *by;
        y[i] = normal[i] * scale->w[i] + (shift->w ? shift->w[i] : 0);
    }
}

/* Adds to dx. */
static void norm_back(const weight *scale, const weight *shift, const double *normal, double by,
                      const double *dy, double *dx)
{
    double mean = 0, along = 0;
    for (int i = 0; i < H; i++) {
        const double d = dy[i] * scale->w[i];
        if (shift->w) mean += d / H;
        along += d * normal[i] / H;
        scale->g[i] += dy[i] * normal[i];
        if (shift->w) shift->g[i] += dy[i];
    }
    for (int i = 0; i < H; i++) dx[i] += by * (dy[i] * scale->w[i] - mean - normal[i] * along);
}

/* y[o] = sum of x[i] w[o][i], and its bias. */
static void product(const weight *w, const weight *bias, int nin, int nout, const double *x,
                    double *y)
{
    for (int o = 0; o < nout; o++) {
        y[o] = bias && bias->w ? bias->w[o] : 0;
        for (int i = 0; i < nin; i++) y[o] += x[i] * w->w[o * nin + i];
    }
}

static void product_back(const weight *w, const weight *bias, int nin, int nout, const double *x,
                         const double *dy, double *dx)
{
    for (int o = 0; o < nout; o++) {
        if (bias && bias->w) bias->g[o] += dy[o];
        for (int i = 0; i < nin; i++) {
            w->g[o * nin + i] += dy[o] * x[i];
            dx[i] += dy[o] * w->w[o * nin + i];
        }
    }
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* gelu by tanh, and its derivative. */
static double gelu(double x, double *slope)
{
    const double c = sqrt(2 / acos(-1)), th = tanh(c * (x + 0.044715 * x * x * x));
    *slope = 0.5 * (1 + th) + 0.5 * x * (1 - th * th) * c * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + th);
}

typedef struct token { /* what backward reads of a layer */
    double normal[H], in[H], by, gate[F], up[F], act[F];
} token;

static void layer_forward(const twin *t, const layer *l, double *x, token *k)
{
    double slope, y[H];
    norm(t, &l->scale, &l->shift, x, k->normal, k->in, &k->by);
    product(&l->up, &l->up_bias, H, F, k->in, k->up);
    if (l->gate.w) product(&l->gate, &l->gate_bias, H, F, k->in, k->gate);
    for (int f = 0; f < F; f++)
        k->act[f] =
            l->gate.w ? k->gate[f] * sigmoid(k->gate[f]) * k->up[f] : gelu(k->up[f], &slope);
    for (int i = 0; i < H; i++) { /* down is kept [in, out] */
        y[i] = l->down_bias.w ? l->down_bias.w[i] : 0;
        for (int f = 0; f < F; f++) y[i] += k->act[f] * l->down.w[f * H + i];
    }
    for (int i = 0; i < H; i++) x[i] += y[i];
}

/* d: the gradient of the layer's output, then of its input. */
static void layer_backward(const layer *l, const token *k, double *d)
{
    double dact[F], dup[F], dgate[F], din[H] = {0};
    for (int i = 0; i < H && l->down_bias.w; i++) l->down_bias.g[i] += d[i];
    for (int f = 0; f < F; f++) {
        dact[f] = 0;
        for (int i = 0; i < H; i++) {
            dact[f] += d[i] * l->down.w[f * H + i];
            l->down.g[f * H + i] += d[i] * k->act[f];
        }
        if (l->gate.w) {
            const double s = sigmoid(k->gate[f]);
            dup[f] = dact[f] * k->gate[f] * s;
            dgate[f] = dact[f] * k->up[f] * s * (1 + k->gate[f] * (1 - s));
        } else {
            double slope;
            gelu(k->up[f], &slope);
            dup[f] = dact[f] * slope;
        }
    }
    product_back(&l->up, &l->up_bias, H, F, k->in, dup, din);
    if (l->gate.w) product_back(&l->gate, &l->gate_bias, H, F, k->in, dgate, din);
    norm_back(&l->scale, &l->shift, k->normal, k->by, din, d);
}

/* A token without a target has no loss, and nothing looks at it: no other token does. */
static void one_token(twin *t, int32_t id, int32_t label)
{
    double x[H], normal[H], last[H], by, p[V], d[H] = {0}, dlast[H] = {0}, sum = 0,
                                               most = -INFINITY;
    token k[L];
    if (label < 0) return;
    memcpy(x, t->table.w + (ptrdiff_t)id * H, sizeof x);
    for (int l = 0; l < L; l++) layer_forward(t, &t->at[l], x, &k[l]);
    norm(t, &t->scale, &t->shift, x, normal, last, &by);
    product(&t->head, NULL, H, V, last, p);
    for (int v = 0; v < V; v++) most = fmax(most, p[v]);
    const double right = p[label];
    for (int v = 0; v < V; v++) sum += exp(p[v] - most);
    t->loss += t->each * (most + log(sum) - right);
    for (int v = 0; v < V; v++) p[v] = t->each * (exp(p[v] - most) / sum - (v == label));
    product_back(&t->head, NULL, H, V, last, p, dlast);
    norm_back(&t->scale, &t->shift, normal, by, dlast, d);
    for (int l = L - 1; l >= 0; l--) layer_backward(&t->at[l], &k[l], d);
    for (int i = 0; i < H; i++) t->table.g[(ptrdiff_t)id * H + i] += d[i];
}

/* ---- the executor's tensors ---- */

static weight weight_of(luo_arena *a, const luo_state *s, const char *name)
{
    weight w = {0};
    for (int32_t i = 0; i < s->n; i++) {
        if (strcmp(s->at[i].param->name, name) != 0) continue;
        w.n = s->at[i].weight_frame.volume;
        double *kept = LUO_NEW_N(a, double, w.n); /* the step changes it */
        memcpy(kept, s->at[i].weight, (size_t)w.n * sizeof *kept);
        w.w = kept;
        w.g = LUO_NEW_N(a, double, w.n);
    }
    return w;
}

static weight of_layer(luo_arena *a, const luo_state *s, int l, const char *tail)
{
    return weight_of(a, s, luo_arena_printf(a, "layers.%d.%s", l, tail));
}

static twin twin_of(luo_arena *a, const luo_state *s, const luo_model *m)
{
    twin t = {.model = m,
              .table = weight_of(a, s, "wte.weight"),
              .scale = weight_of(a, s, "norm.weight"),
              .shift = weight_of(a, s, "norm.bias")};
    t.head = m->tied_embeddings ? t.table : weight_of(a, s, "lm_head.weight");
    for (int l = 0; l < L; l++)
        t.at[l] = (layer){.scale = of_layer(a, s, l, "norm.weight"),
                          .shift = of_layer(a, s, l, "norm.bias"),
                          .gate = of_layer(a, s, l, "mlp.gate.weight"),
                          .gate_bias = of_layer(a, s, l, "mlp.gate.bias"),
                          .up = of_layer(a, s, l, "mlp.up.weight"),
                          .up_bias = of_layer(a, s, l, "mlp.up.bias"),
                          .down = of_layer(a, s, l, "mlp.down.weight"),
                          .down_bias = of_layer(a, s, l, "mlp.down.bias")};
    return t;
}

/* Zeros in biases and ones in norms would hide what is wrong with them. */
static void stir(const luo_state *s)
{
    luo_rng rng = luo_rng_seed(17);
    for (int32_t i = 0; i < s->n; i++)
        for (int64_t c = 0; c < s->at[i].weight_frame.volume; c++)
            ((double *)s->at[i].weight)[c] += 0.4 * (luo_rng_u(&rng) - 0.5);
}

static void run_twin(luo_arena *a, twin *t, const luo_plan *plan)
{
    luo_batch_shape shape;
    luo_err err = {0};
    ck_assert_int_eq(luo_batch_shape_of(a, plan, true, 0, &shape, &err), LUO_OK);
    t->each = 1 / (double)luo_batch_targets(lab.corpus, &shape, 0);
    for (int32_t m = 0; m < (int32_t)LUO_ROWS(micro); m++) {
        luo_micro_batch b;
        void *memory = luo_arena_alloc(a, luo_batch_bytes(&shape, micro[m]));
        luo_batch_fill(lab.corpus, &shape, 0, 0, m, memory, &b);
        for (int64_t i = 0; i < b.tokens; i++) one_token(t, b.ids[i], b.labels[i]);
    }
}

/* The first moment after one step is the gradient but for a factor. Every parameter is asked for by
 * the twin. */
static int compare(const luo_state *s, const char *name, const weight *w, double factor)
{
    for (int32_t i = 0; w->w && i < s->n; i++) {
        double most = 1e-300;
        if (strcmp(s->at[i].param->name, name) != 0) continue;
        for (int64_t c = 0; c < w->n; c++) most = fmax(most, fabs(w->g[c]));
        for (int64_t c = 0; c < w->n; c++) {
            const double g = ((const double *)s->at[i].m)[c] / factor;
            ck_assert_msg(fabs(g - w->g[c]) <= 1e-10 * most, "%s[%lld]: %.15g, by loops %.15g",
                          name, (long long)c, g, w->g[c]);
        }
        return 1;
    }
    return 0;
}

static int compare_layer(luo_arena *a, const luo_state *s, int l, const layer *x, double factor)
{
    const struct {
        const char *tail;
        const weight *w;
    } all[] = {{"norm.weight", &x->scale},    {"norm.bias", &x->shift},
               {"mlp.gate.weight", &x->gate}, {"mlp.gate.bias", &x->gate_bias},
               {"mlp.up.weight", &x->up},     {"mlp.up.bias", &x->up_bias},
               {"mlp.down.weight", &x->down}, {"mlp.down.bias", &x->down_bias}};
    int n = 0;
    for (size_t i = 0; i < LUO_ROWS(all); i++)
        n += compare(s, luo_arena_printf(a, "layers.%d.%s", l, all[i].tail), all[i].w, factor);
    return n;
}

START_TEST(loss_and_gradients)
{
    const row *r = &rows[_i];
    luo_arena *a = luo_arena_new(1 << 20);
    luo_model model = luo_test_mlp(L, H, F, V, r->activation, r->biases);
    model.norm = r->norm;
    model.tied_embeddings = r->tied;
    luo_plan *p = luo_test_plan(a, "2: [0]*2");
    p->dtype = LUO_F64;
    p->sequence_parallel = false;
    p->sequence_tokens = 16;
    ((luo_pipeline *)p->pipelines)[0].micro_batch_tokens = micro;
    ((luo_stage *)p->pipelines[0].stages)[0].recompute = r->recompute;
    luo_exec *x = luo_lab_executor(&lab, &model, LUO_F64);
    luo_trial t = luo_lab_bind(a, &lab, x, p, &model);
    luo_state *s = luo_host_executor.state(t.job);
    luo_state_init(s, &model, 3);
    stir(s);
    twin slow = twin_of(a, s, &model);
    run_twin(a, &slow, p);
    const luo_step_report first = luo_lab_step(&t, 0);
    ck_assert_msg(first.status == LUO_OK && first.has_loss, "%s", first.text);
    ck_assert_msg(fabs(first.loss - slow.loss) <= 1e-12 * slow.loss, "loss %.15g, by loops %.15g",
                  first.loss, slow.loss);
    const double factor =
        (1 - LUO_BETA1) * fmin(1, LUO_CLIP_NORM / (first.grad_norm + LUO_CLIP_EPS));
    int n = compare(s, "wte.weight", &slow.table, factor) +
            compare(s, "norm.weight", &slow.scale, factor) +
            compare(s, "norm.bias", &slow.shift, factor);
    if (!r->tied) n += compare(s, "lm_head.weight", &slow.head, factor);
    for (int l = 0; l < L; l++) n += compare_layer(a, s, l, &slow.at[l], factor);
    ck_assert_int_eq(n, s->n);
    luo_host_executor.unbind(t.job);
    luo_host_executor.close(x);
    luo_arena_free(a);
}
END_TEST

int main(int argc, char **argv)
{
    const luo_test_row tests[] = {LUO_T_N(loss_and_gradients, LUO_ROWS(rows))};
    setenv("CK_FORK", "no", 0); /* MPI does not survive a fork */
    luo_lab_open(&lab, &argc, &argv);
    const int failed = luo_run_suite("exec.mlp", tests, 1);
    luo_lab_close(&lab);
    return failed;
}
