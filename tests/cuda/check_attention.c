/* check_attention.c: attention of the GPU against the host's in f64: packed documents,
 * uneven groups of heads, causal and not, both kernels; gradients also by differences.
 *
 * Bounds. f32: 256 roundings of the terms of each sum, 1.6e-5 of their absolute values. bf16 (P and
 * dS are rounded to it before they meet V, dO, K and Q): 2^-8 of each term besides, and 2^-8 of the
 * result for writing it. */
#include "exec/bind/kernels.h"
#include "tests/cuda/gpu_case.h"
#include "tests/standin/standin.h"

enum { MOST_HEADS = 6, ROUNDINGS = 256 };
enum { Q, K_, V, O, ROWS, DO_, DQ, DK, DV, ARRAYS };

typedef struct shape {
    int64_t t, n, g, d, u; /* u: of values */
    int32_t ndocs, kv_of[MOST_HEADS], heads_of[MOST_HEADS], heads_of_first[MOST_HEADS + 1];
    int32_t *start, *start_of, *end_of; /* documents; per token */
    bool causal;
    int64_t window;
    gpu_type type;
} shape;

typedef struct attention { /* a case */
    shape s;
    gpu_case c;
    gpu_case_array *a[ARRAYS], *kv_of, *heads_of, *heads_of_first, *start_of, *end_of, *work;
    gpu_heads heads;
} attention;

/* ---- shapes ---- */

static void group_heads(gpu_case *c, shape *s)
{
    int32_t at = 0;
    for (int64_t j = 0; j < s->n; j++) s->kv_of[j] = (int32_t)gpu_case_draw(c, 0, s->g - 1);
    for (int32_t g = 0; g < s->g; g++) {
        s->heads_of_first[g] = at;
        for (int32_t j = 0; j < s->n; j++)
            if (s->kv_of[j] == g) s->heads_of[at++] = j;
    }
    s->heads_of_first[s->g] = at;
}
static void cut_documents(gpu_case *c, shape *s)
{
    s->start = calloc((size_t)s->ndocs + 1, sizeof *s->start);
    s->start_of = calloc((size_t)s->t, sizeof *s->start_of);
    s->end_of = calloc((size_t)s->t, sizeof *s->end_of);
    ck_assert(s->start && s->start_of && s->end_of);
    s->start[s->ndocs] = (int32_t)s->t;
    for (int32_t i = 1; i < s->ndocs; i++)
        s->start[i] = (int32_t)gpu_case_draw(c, s->start[i - 1] + 1, s->t - s->ndocs + i);
    for (int32_t i = 0; i < s->ndocs; i++)
        for (int32_t j = s->start[i]; j < s->start[i + 1]; j++)
            s->start_of[j] = s->start[i], s->end_of[j] = s->start[i + 1];
}
static void draw_shape(gpu_case *c, shape *s)
{
    s->n = gpu_case_draw(c, 1, 4), s->g = gpu_case_draw(c, 1, s->n);
    s->t = gpu_case_draw(c, 0, 2) == 0 ? gpu_case_draw(c, 1, 60) : gpu_case_draw(c, 100, 220);
    s->ndocs = gpu_case_coin(c) ? 1 : (int32_t)gpu_case_draw(c, 1, s->t < 5 ? s->t : 5);
    s->causal = gpu_case_coin(c);
    if (s->causal && gpu_case_coin(c)) s->window = gpu_case_draw(c, 1, gpu_case_coin(c) ? 9 : s->t);
    group_heads(c, s);
    cut_documents(c, s);
}
static int64_t values(const shape *s, int64_t heads)
{
    return s->t * heads * s->d;
}
static int64_t results(const shape *s, int64_t heads)
{
    return s->t * heads * s->u;
}

static gpu_case_array *ints(attention *x, const int32_t *values, int64_t n)
{
    return gpu_case_bytes(&x->c, n * (int64_t)sizeof *values, values);
}
static void make(attention *x)
{
    const shape *s = &x->s;
    x->a[Q] = gpu_case_in(&x->c, s->type, values(s, s->n), 2);
    x->a[K_] = gpu_case_in(&x->c, s->type, values(s, s->g), 1.5);
    x->a[V] = gpu_case_in(&x->c, s->type, results(s, s->g), 1);
    x->kv_of = ints(x, s->kv_of, s->n);
    x->heads_of = ints(x, s->heads_of, s->n);
    x->heads_of_first = ints(x, s->heads_of_first, s->g + 1);
    x->start_of = ints(x, s->start_of, s->t);
    x->end_of = ints(x, s->end_of, s->t);
    x->heads = (gpu_heads){
        s->n, s->g, s->d, x->kv_of->at, x->heads_of->at, x->heads_of_first->at, s->causal,
        s->u, 0,    0,    s->window};
}
static void begin(attention *x, const char *name, uint64_t seed, gpu_type type, int64_t d)
{
    memset(x, 0, sizeof *x);
    gpu_case_begin(&x->c, name, seed);
    x->s.type = type;
    x->s.d = x->s.u = d;
    draw_shape(&x->c, &x->s);
}
static void end(attention *x)
{
    free(x->s.start), free(x->s.start_of), free(x->s.end_of);
    gpu_case_end(&x->c);
}

/* ---- the twin ---- */

typedef struct truth { /* what the host says, and the absolute values that sum to it */
    double *want[ARRAYS], *mass[ARRAYS];
    void *work;
} truth;

static double *zeros(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    ck_assert_ptr_nonnull(p);
    return p;
}
static void truth_make(const attention *x, truth *w)
{
    const shape *s = &x->s;
    for (int i = 0; i < ARRAYS; i++) {
        const int64_t n = i == ROWS            ? s->t * s->n
                          : i == O || i == DO_ ? results(s, s->n)
                          : i == V || i == DV  ? results(s, s->g)
                          : i == Q || i == DQ  ? values(s, s->n)
                                               : values(s, s->g);
        w->want[i] = zeros(n), w->mass[i] = zeros(n);
    }
    const luo_heads h = {s->n, s->g, s->d, s->kv_of, s->causal, s->u, 0, 0, s->window};
    const luo_documents docs = {s->ndocs, s->start};
    w->work = malloc(luo_kernels_f64.attention_work(s->t, &h, &docs, true));
    ck_assert_ptr_nonnull(w->work);
    luo_kernels_f64.attention(s->t, &h, &docs, x->a[Q]->x, x->a[K_]->x, x->a[V]->x, w->want[O],
                              w->want[ROWS], w->work);
}
static void truth_free(truth *w)
{
    for (int i = 0; i < ARRAYS; i++) free(w->want[i]), free(w->mass[i]);
    free(w->work);
}

/* Calls f for every query, key and head that see each other, with P. */
typedef void (*pair_fn)(const attention *x, truth *w, int64_t query, int64_t key, double p);
static void each_pair(const attention *x, truth *w, pair_fn f)
{
    const shape *s = &x->s;
    for (int64_t q = 0; q < s->t; q++)
        for (int64_t j = 0; j < s->n; j++) {
            const int64_t last = s->causal ? q + 1 : s->end_of[q], query = q * s->n + j;
            int64_t first = s->start_of[q];
            if (s->window > 0 && first < q + 1 - s->window) first = q + 1 - s->window;
            for (int64_t k = first; k < last; k++) {
                const int64_t key = k * s->g + s->kv_of[j];
                double score = 0;
                for (int64_t i = 0; i < s->d; i++)
                    score += x->a[Q]->x[query * s->d + i] * x->a[K_]->x[key * s->d + i];
                f(x, w, query, key, exp(score / sqrt((double)s->d) - w->want[ROWS][query]));
            }
        }
}
/* In units of 2^-24 / ROUNDINGS: what rounding to bf16 adds. */
static double rounding_of(const attention *x)
{
    return x->s.type == GPU_BF16 ? 1 + 65536.0 / ROUNDINGS : 1;
}
static void mass_forward(const attention *x, truth *w, int64_t query, int64_t key, double p)
{
    const int64_t u = x->s.u;
    for (int64_t i = 0; i < u; i++)
        w->mass[O][query * u + i] += rounding_of(x) * p * fabs(x->a[V]->x[key * u + i]);
}
static void mass_backward(const attention *x, truth *w, int64_t query, int64_t key, double p)
{
    const int64_t d = x->s.d, u = x->s.u;
    const double *dout = x->a[DO_]->x + query * u, *o = x->a[O]->x + query * u;
    const double *v = x->a[V]->x + key * u, scale = 1 / sqrt((double)d);
    double ds = 0, terms = 0;
    for (int64_t i = 0; i < u; i++) {
        ds += dout[i] * (v[i] - o[i]);
        terms += fabs(dout[i]) * (fabs(v[i]) + fabs(o[i]));
    }
    const double by = scale * p * (terms + (rounding_of(x) - 1) * fabs(ds));
    for (int64_t i = 0; i < u; i++) w->mass[DV][key * u + i] += rounding_of(x) * p * fabs(dout[i]);
    for (int64_t i = 0; i < d; i++) {
        w->mass[DQ][query * d + i] += by * fabs(x->a[K_]->x[key * d + i]);
        w->mass[DK][key * d + i] += by * fabs(x->a[Q]->x[query * d + i]);
    }
}

/* ---- forward ---- */

static cudaError_t call_forward(void *ctx, cudaStream_t stream)
{
    const attention *x = ctx;
    return gpu_attention(stream, x->s.t, &x->heads, x->start_of->at, x->end_of->at,
                         gpu_case_arg(x->a[Q]), gpu_case_arg(x->a[K_]), gpu_case_arg(x->a[V]),
                         gpu_case_arg(x->a[O]), x->a[ROWS]->at);
}
static void forward(attention *x)
{
    make(x);
    x->a[O] = gpu_case_out(&x->c, x->s.type, results(&x->s, x->s.n), false);
    x->a[ROWS] = gpu_case_out(&x->c, GPU_F32, x->s.t * x->s.n, false);
    gpu_case_run(&x->c, call_forward, x);
    truth w;
    truth_make(x, &w);
    each_pair(x, &w, mass_forward);
    gpu_case_check(&x->c, x->a[O], w.want[O], w.mass[O], ROUNDINGS);
    gpu_case_check(&x->c, x->a[ROWS], w.want[ROWS], NULL, ROUNDINGS);
    truth_free(&w);
}

/* ---- backward ---- */

static cudaError_t call_backward(void *ctx, cudaStream_t stream)
{
    const attention *x = ctx;
    gpu_array at[ARRAYS];
    for (int i = 0; i < ARRAYS; i++) at[i] = gpu_case_arg(x->a[i]);
    return gpu_attention_dx(stream, x->s.t, &x->heads, x->start_of->at, x->end_of->at, at[DO_],
                            at[O], x->a[ROWS]->at, at[Q], at[K_], at[V], at[DQ], at[DK], at[DV],
                            x->work->at);
}
static void backward(attention *x)
{
    const shape *s = &x->s;
    make(x);
    const int64_t nq = values(s, s->n), nk = values(s, s->g), no = results(s, s->n);
    x->a[O] = gpu_case_in(&x->c, s->type, no, 1);
    x->a[ROWS] = gpu_case_in(&x->c, GPU_F32, s->t * s->n, 1);
    x->a[DO_] = gpu_case_in(&x->c, s->type, no, 1);
    x->a[DQ] = gpu_case_out(&x->c, s->type, nq, false);
    x->a[DK] = gpu_case_out(&x->c, s->type, nk, false);
    x->a[DV] = gpu_case_out(&x->c, s->type, results(s, s->g), false);
    x->work = gpu_case_work(&x->c, gpu_attention_dx_work(s->t, &x->heads, s->type));
    truth w;
    truth_make(x, &w);
    for (int64_t i = 0; i < no; i++) gpu_case_set(x->a[O], i, w.want[O][i]);
    for (int64_t i = 0; i < s->t * s->n; i++) gpu_case_set(x->a[ROWS], i, w.want[ROWS][i]);
    gpu_case_run(&x->c, call_backward, x);
    const luo_heads h = {s->n, s->g, s->d, s->kv_of, s->causal, s->u, 0, 0, s->window};
    const luo_documents docs = {s->ndocs, s->start};
    luo_kernels_f64.attention_dx(s->t, &h, &docs, x->a[DO_]->x, x->a[O]->x, x->a[ROWS]->x,
                                 x->a[Q]->x, x->a[K_]->x, x->a[V]->x, w.want[DQ], w.want[DK],
                                 w.want[DV], w.work);
    each_pair(x, &w, mass_backward);
    for (int i = DQ; i <= DV; i++) gpu_case_check(&x->c, x->a[i], w.want[i], w.mass[i], ROUNDINGS);
    truth_free(&w);
}

static const struct {
    const char *name;
    gpu_type type;
    int64_t least, most; /* head sizes: least times 1, 2 .. */
    bool aligned;
    uint64_t cases;
    bool apart; /* values have a size of their own */
} kinds[] = {
    {"bf16, 64, tensor cores", GPU_BF16, 64, 64, true, 4, false},
    {"bf16, 128, tensor cores", GPU_BF16, 128, 128, true, 3, false},
    {"bf16, 64, not aligned", GPU_BF16, 64, 64, false, 2, false},
    {"bf16, small heads", GPU_BF16, 1, 40, true, 3, false},
    {"bf16, tiles filled up", GPU_BF16, 8, 120, true, 4, false},
    {"f32, small heads", GPU_F32, 1, 40, false, 4, false},
    {"f32, large heads", GPU_F32, 100, 300, true, 2, false},
    {"bf16, latent", GPU_BF16, 8, 192, true, 4, true},
    {"f32, latent", GPU_F32, 1, 60, false, 4, true},
};

static void case_of_kind(int kind, uint64_t seed, void (*run)(attention *x))
{
    attention x;
    luo_rng rng = luo_rng_stream(seed, "head size");
    const int64_t least = kinds[kind].least;
    begin(&x, kinds[kind].name, seed, kinds[kind].type,
          least * (1 + luo_rng_pick(&rng, kinds[kind].most / least)));
    if (kinds[kind].apart) x.s.u = gpu_case_draw(&x.c, 1, 2 * x.s.d);
    if (!kinds[kind].aligned) x.c.shift = gpu_case_draw(&x.c, 1, 7);
    run(&x);
    end(&x);
}

START_TEST(forward_is_the_hosts)
{
    LUO_PROP_FOR(seed, kinds[_i].cases) case_of_kind(_i, seed, forward);
}
END_TEST

START_TEST(backward_is_the_hosts)
{
    LUO_PROP_FOR(seed, kinds[_i].cases) case_of_kind(_i, seed, backward);
}
END_TEST

/* ---- grouped heads on tensor cores: parts of a group have sums of their own ---- */

static const int64_t tile_sizes[] = {64, 128, 24, 80};

static void grouped(attention *x, uint64_t seed, int64_t d)
{
    begin(x, "grouped heads", seed, GPU_BF16, d);
    shape *s = &x->s;
    free(s->start), free(s->start_of), free(s->end_of);
    s->n = gpu_case_draw(&x->c, 3, MOST_HEADS), s->g = gpu_case_draw(&x->c, 1, (s->n + 1) / 2);
    s->t = 2 * gpu_case_draw(&x->c, 0, 100) + 1;
    s->ndocs = (int32_t)gpu_case_draw(&x->c, 1, s->t < 5 ? s->t : 5);
    group_heads(&x->c, s);
    cut_documents(&x->c, s);
    backward(x);
    const int64_t plain = 8 * ((s->t + 127) / 128 * 128) * s->n;
    const int64_t parts = (s->n + s->g - 1) / s->g; /* one head each: there are few blocks */
    ck_assert_int_eq(x->work->bytes, plain + 8 * parts * s->t * s->g * d);
}

START_TEST(grouped_heads_are_the_hosts)
{
    LUO_PROP_FOR(seed, 4)
    {
        attention x;
        grouped(&x, seed, tile_sizes[_i]);
        end(&x);
    }
}
END_TEST

/* Whatever the order of blocks is: the same bits. */
START_TEST(grouped_heads_are_summed_in_order)
{
    attention x;
    grouped(&x, 11, tile_sizes[_i]);
    double *first[ARRAYS] = {0};
    for (int i = DQ; i <= DV; i++) {
        first[i] = zeros(x.a[i]->n);
        memcpy(first[i], x.a[i]->got, sizeof *first[i] * (size_t)x.a[i]->n);
    }
    for (uint64_t seed = 2; seed <= 4; seed++) {
        standin_seed(seed);
        gpu_case_run(&x.c, call_backward, &x);
        for (int i = DQ; i <= DV; i++) gpu_case_exact(&x.c, x.a[i], first[i]);
    }
    for (int i = DQ; i <= DV; i++) free(first[i]);
    end(&x);
}
END_TEST

/* Heads with keys of their own are written at once: no memory for parts. */
START_TEST(single_heads_need_no_parts)
{
    for (int64_t t = 1; t < 100000; t *= 7)
        for (int64_t n = 1; n < 200; n *= 3) {
            const gpu_heads same = {.n = n, .g = n, .d = 64}, odd = {.n = 2 * n, .g = n, .d = 84};
            const size_t each = (size_t)(8 * ((t + 127) / 128 * 128));
            ck_assert_uint_eq(gpu_attention_dx_work(t, &same, GPU_BF16), each * (size_t)n);
            ck_assert_uint_eq(gpu_attention_dx_work(t, &odd, GPU_BF16), 2 * each * (size_t)n);
            ck_assert_uint_eq(gpu_attention_dx_work(t, &odd, GPU_F32), 2 * each * (size_t)n);
        }
}
END_TEST

/* ---- gradients by differences, f32 ---- */

/* Sum of dO o, with one value of array `which` moved by `by`. */
static double loss_with(attention *x, int which, int64_t at, double by)
{
    gpu_case_array *a = x->a[which], *o = x->a[O];
    const float moved = (float)(a->x[at] + by), before = (float)a->x[at];
    float *to = (float *)a->at + at;
    GPU_CASE_OK(cudaMemcpy(to, &moved, sizeof moved, cudaMemcpyHostToDevice));
    GPU_CASE_OK(call_forward(x, x->c.stream));
    GPU_CASE_OK(cudaStreamSynchronize(x->c.stream));
    GPU_CASE_OK(cudaMemcpy(to, &before, sizeof before, cudaMemcpyHostToDevice));
    unsigned char *raw = gpu_case_fetch(&x->c, o);
    double loss = 0;
    for (int64_t i = 0; i < o->n; i++) loss += x->a[DO_]->x[i] * gpu_case_get(GPU_F32, raw, i);
    free(raw);
    return loss;
}
static void differences(attention *x, int which, const gpu_case_array *gradient)
{
    const double h = 0.01;
    for (int64_t i = 0; i < gradient->n; i++) {
        const double want = (loss_with(x, which, i, h) - loss_with(x, which, i, -h)) / (2 * h);
        ck_assert_msg(fabs(gradient->got[i] - want) <= 2e-3 * fmax(1, fabs(want)),
                      "gradient %d[%lld] is %.6g; differences give %.6g", which, (long long)i,
                      gradient->got[i], want);
    }
}

START_TEST(gradients_are_differences)
{
    attention x;
    begin(&x, "differences", 3 + (uint64_t)_i, GPU_F32, 3);
    x.s.u = 2 + _i;
    free(x.s.start), free(x.s.start_of), free(x.s.end_of);
    x.s.t = 5, x.s.n = 3, x.s.g = 2, x.s.ndocs = 2, x.s.causal = _i == 0, x.s.window = _i ? 0 : 2;
    group_heads(&x.c, &x.s);
    cut_documents(&x.c, &x.s);
    backward(&x);
    differences(&x, Q, x.a[DQ]);
    differences(&x, K_, x.a[DK]);
    differences(&x, V, x.a[DV]);
    end(&x);
}
END_TEST

/* ---- documents ---- */

/* What stands in one document changes no bit of another. */
START_TEST(documents_do_not_see_each_other)
{
    enum { CUT = 70, TOKENS = 150 };
    static const struct {
        gpu_type type;
        int64_t d;
        bool causal;
    } of[] = {{GPU_BF16, 64, true}, {GPU_BF16, 64, false}, {GPU_F32, 20, false}};
    attention x;
    begin(&x, "documents", 5, of[_i].type, of[_i].d);
    shape *s = &x.s;
    free(s->start), free(s->start_of), free(s->end_of);
    s->t = TOKENS, s->ndocs = 1, s->causal = of[_i].causal, s->window = 0;
    cut_documents(&x.c, s);
    for (int32_t i = 0; i < TOKENS; i++)
        s->start_of[i] = i < CUT ? 0 : CUT, s->end_of[i] = i < CUT ? CUT : TOKENS;
    make(&x);
    x.a[O] = gpu_case_out(&x.c, s->type, values(s, s->n), false);
    x.a[ROWS] = gpu_case_out(&x.c, GPU_F32, s->t * s->n, false);
    const int64_t first = CUT * s->n * s->d;
    gpu_case_run(&x.c, call_forward, &x);
    double *before = zeros(x.a[O]->n);
    memcpy(before, x.a[O]->got, sizeof *before * (size_t)x.a[O]->n);
    for (int64_t i = CUT * s->g * s->d; i < values(s, s->g); i++) {
        gpu_case_set(x.a[K_], i, x.a[K_]->x[i] + 3); /* values are as wide as keys */
        gpu_case_set(x.a[V], i, -x.a[V]->x[i]);
    }
    gpu_case_run(&x.c, call_forward, &x);
    int64_t others = 0;
    for (int64_t i = 0; i < x.a[O]->n; i++)
        if (before[i] != x.a[O]->got[i]) {
            ck_assert_int_ge(i, first);
            others++;
        }
    ck_assert_int_gt(others, 0);
    free(before);
    end(&x);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(types_that_differ_are_refused)
{
    attention x;
    begin(&x, "types", 1, GPU_BF16, 64);
    make(&x);
    x.a[O] = gpu_case_out(&x.c, GPU_F32, values(&x.s, x.s.n), false);
    x.a[ROWS] = gpu_case_out(&x.c, GPU_F32, x.s.t * x.s.n, false);
    ck_assert_int_eq(call_forward(&x, x.c.stream), cudaErrorInvalidValue);
    const int64_t t = x.s.t;
    x.s.t = (int64_t)1 << 31; /* tokens are 32-bit in the kernels */
    ck_assert_int_eq(call_forward(&x, x.c.stream), cudaErrorInvalidValue);
    x.s.t = 0;
    ck_assert_int_eq(call_forward(&x, x.c.stream), cudaSuccess);
    x.s.t = t;
    end(&x);
}
END_TEST

LUO_SUITE("cuda.attention", LUO_T_N(forward_is_the_hosts, LUO_ROWS(kinds)),
          LUO_T_N(backward_is_the_hosts, LUO_ROWS(kinds)),
          LUO_T_N(grouped_heads_are_the_hosts, LUO_ROWS(tile_sizes)),
          LUO_T_N(grouped_heads_are_summed_in_order, LUO_ROWS(tile_sizes)),
          LUO_T(single_heads_need_no_parts), LUO_T_N(gradients_are_differences, 2),
          LUO_T_N(documents_do_not_see_each_other, 3), LUO_T(types_that_differ_are_refused))
