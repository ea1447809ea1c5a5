/* check_gradients.c: every backward kernel against finite differences of its forward
 * kernel, in double precision. L = sum of c_i y_i with random c, so that dL/dy = c; the slope of L
 * at each input cell is taken from five points. */
#include <cblas.h>
#include <math.h>

#include "exec/bind/kernels.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { MOST = 2048, INPUTS = 3 };
static const double STEP = 1e-3, RELATIVE = 1e-7;

typedef struct chain {
    luo_rng rng;
    int64_t t, h, n, g, d, v, cut; /* sizes; v is cut in two at `cut` */
    bool flag;
    int32_t ints[2][64];
    int ninputs;
    int64_t count[INPUTS], ny;
    double x[INPUTS][MOST], dx[INPUTS][MOST], y[MOST], c[MOST];
} chain;

typedef struct chain_row {
    const char *name;
    void (*make)(chain *c);
    void (*forward)(chain *c);  /* x -> y */
    void (*backward)(chain *c); /* c, x -> dx */
} chain_row;

static const luo_kernels *const k = &luo_kernels_f64;

static void has(chain *c, int64_t n)
{
    ck_assert(n <= MOST && c->ninputs < INPUTS);
    c->count[c->ninputs++] = n;
}
static int64_t draw(chain *c, int64_t lo, int64_t hi)
{
    return lo + luo_rng_pick(&c->rng, hi - lo + 1);
}

/* ---- linear and bias: x [t x h], w [h x n], b [n] ---- */
static void linear_make(chain *c)
{
    has(c, c->t * c->h), has(c, c->h * c->n), has(c, c->n);
    c->ny = c->t * c->n;
}
static void linear(chain *c)
{
    double xw[MOST];
    k->gemm(false, false, c->t, c->n, c->h, c->x[0], c->h, c->x[1], c->n, false, xw, c->n);
    k->bias(c->t, c->n, xw, c->x[2], c->y);
}
static void linear_dx(chain *c)
{
    k->gemm(false, true, c->t, c->h, c->n, c->c, c->n, c->x[1], c->n, false, c->dx[0], c->h);
    k->gemm(true, false, c->h, c->n, c->t, c->x[0], c->h, c->c, c->n, false, c->dx[1], c->n);
    k->bias_dw(c->t, c->n, c->c, false, c->dx[2]);
}

/* ---- embedding: a table [v - 1 x h] of the ids 1..v-1 ---- */
static void embedding_make(chain *c)
{
    has(c, (c->v - 1) * c->h);
    c->ny = c->t * c->h;
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, 0, c->v);
}
static void embedding(chain *c)
{
    k->embedding(c->t, c->h, 1, c->v, c->ints[0], c->x[0], c->y);
}
static void embedding_dx(chain *c)
{
    k->embedding_dw(c->t, c->h, 1, c->v, c->ints[0], c->c, false, c->dx[0]);
}

/* ---- norms: flag LayerNorm ---- */
static void norm_make(chain *c)
{
    has(c, c->t * c->h), has(c, c->h);
    if (c->flag) has(c, c->h);
    c->ny = c->t * c->h;
}
static void norm(chain *c)
{
    k->norm(c->t, c->h, 1e-2, c->x[0], c->x[1], c->flag ? c->x[2] : NULL, c->y);
}
static void norm_dx(chain *c)
{
    k->norm_dx(c->t, c->h, 1e-2, c->flag, c->c, c->x[0], c->x[1], c->dx[0]);
    k->norm_dw(c->t, c->h, 1e-2, c->c, c->x[0], false, c->dx[1], c->flag ? c->dx[2] : NULL);
}

/* ---- rope ---- */
static void rope_make(chain *c)
{
    has(c, c->t * c->n * 2 * c->d);
    c->ny = c->count[0];
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, 0, 5000);
}
static void rope(chain *c)
{
    k->rope(c->t, c->n, 2 * c->d, 1e4, false, c->ints[0], c->x[0], c->y);
}
static void rope_dx(chain *c)
{
    k->rope(c->t, c->n, 2 * c->d, 1e4, true, c->ints[0], c->c, c->dx[0]);
}

/* ---- attention over two documents; flag: causal ---- */
static void attention_make(chain *c)
{
    has(c, c->t * c->n * c->d), has(c, c->t * c->g * c->d), has(c, c->t * c->g * c->d);
    c->ny = c->count[0];
    for (int64_t j = 0; j < c->n; j++) c->ints[0][j] = (int32_t)draw(c, 0, c->g - 1);
    c->ints[1][1] = (int32_t)draw(c, 1, c->t - 1), c->ints[1][2] = (int32_t)c->t;
}
static double rows[MOST];
static void attention_both(chain *c, bool back)
{
    const luo_heads heads = {c->n, c->g, c->d, c->ints[0], c->flag, 0};
    const luo_documents docs = {2, c->ints[1]};
    void *work = malloc(k->attention_work(c->t, &heads, &docs, back));
    ck_assert_ptr_nonnull(work);
    if (back)
        k->attention_dx(c->t, &heads, &docs, c->c, c->y, rows, c->x[0], c->x[1], c->x[2], c->dx[0],
                        c->dx[1], c->dx[2], work);
    else
        k->attention(c->t, &heads, &docs, c->x[0], c->x[1], c->x[2], c->y, rows, work);
    free(work);
}
static void attention(chain *c)
{
    attention_both(c, false);
}
static void attention_dx(chain *c)
{
    attention(c); /* y and rows at x itself */
    attention_both(c, true);
}

/* ---- activations ---- */
static void swiglu_make(chain *c)
{
    has(c, c->t * c->h), has(c, c->t * c->h);
    c->ny = c->t * c->h;
}
static double silu[MOST];
static void swiglu(chain *c)
{
    k->swiglu(c->ny, c->x[0], c->x[1], c->y, silu);
}
static void swiglu_dx(chain *c)
{
    swiglu(c);
    k->swiglu_dx(c->ny, c->c, c->x[0], c->x[1], silu, c->dx[0], c->dx[1]);
}
static void gelu_make(chain *c)
{
    has(c, c->t * c->h);
    c->ny = c->t * c->h;
}
static void gelu(chain *c)
{
    k->gelu(c->ny, c->x[0], c->y);
}
static void gelu_dx(chain *c)
{
    k->gelu_dx(c->ny, c->c, c->x[0], c->dx[0]);
}

/* ---- cross-entropy: logits [t x v], whose columns lie on two devices; labels -1 too ---- */
static void entropy_make(chain *c)
{
    has(c, c->t * c->v);
    c->ny = 1;
    c->cut = draw(c, 1, c->v - 1);
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, -1, c->v - 1);
}
static double sums[64], part_exp[2][MOST];
static void entropy(chain *c)
{
    double part[2][MOST], max[2][64], top[64], sum[2][64], target[2][64], each[64];
    const int64_t width[2] = {c->cut, c->v - c->cut}, lo[2] = {0, c->cut};
    for (int p = 0; p < 2; p++) {
        for (int64_t i = 0; i < c->t; i++)
            memcpy(part[p] + i * width[p], c->x[0] + i * c->v + lo[p],
                   sizeof(double) * (size_t)width[p]);
        k->row_max(c->t, width[p], part[p], max[p]);
        k->row_target(c->t, width[p], lo[p], part[p], c->ints[0], target[p]);
    }
    for (int64_t i = 0; i < c->t; i++) top[i] = fmax(max[0][i], max[1][i]);
    for (int p = 0; p < 2; p++) k->row_sum(c->t, width[p], part[p], top, sum[p], part_exp[p]);
    for (int64_t i = 0; i < c->t; i++) {
        sums[i] = sum[0][i] + sum[1][i];
        target[0][i] += target[1][i];
    }
    k->loss(c->t, top, sums, target[0], c->ints[0], 1 / (double)c->t, each);
    k->sum(c->t, each, false, c->y);
}
static void entropy_dx(chain *c)
{
    const int64_t width[2] = {c->cut, c->v - c->cut}, lo[2] = {0, c->cut};
    double d[MOST];
    entropy(c);
    for (int p = 0; p < 2; p++) {
        k->loss_dx(c->t, width[p], lo[p], part_exp[p], sums, c->ints[0], c->c[0] / (double)c->t, d);
        for (int64_t i = 0; i < c->t; i++)
            memcpy(c->dx[0] + i * c->v + lo[p], d + i * width[p],
                   sizeof(double) * (size_t)width[p]);
    }
}

static double value(const chain_row *r, chain *c)
{
    double s = 0;
    r->forward(c);
    for (int64_t i = 0; i < c->ny; i++) s += c->c[i] * c->y[i];
    return s;
}
static double value_at(const chain_row *r, chain *c, double *x, double v)
{
    const double before = *x;
    *x = v;
    const double s = value(r, c);
    *x = before;
    return s;
}

static void check_input(const chain_row *r, chain *c, int a, uint64_t seed)
{
    double top = 0;
    for (int64_t i = 0; i < c->count[a]; i++) top = fmax(top, fabs(c->dx[a][i]));
    for (int64_t i = 0; i < c->count[a]; i++) {
        double *x = &c->x[a][i];
        const double near = value_at(r, c, x, *x + STEP) - value_at(r, c, x, *x - STEP);
        const double far = value_at(r, c, x, *x + 2 * STEP) - value_at(r, c, x, *x - 2 * STEP);
        const double slope = (8 * near - far) / (12 * STEP);
        if (!(fabs(slope - c->dx[a][i]) <= RELATIVE * fmax(top, 1e-3)))
            ck_abort_msg("%s seed %llu: slope at input %d[%lld] is %.12g, the kernel says %.12g",
                         r->name, (unsigned long long)seed, a, (long long)i, slope, c->dx[a][i]);
    }
}

#define ROW(name)                                                                                  \
    {                                                                                              \
#name, name##_make, name, name##_dx                                                        \
    }
static const chain_row chains[] = {ROW(linear),    ROW(embedding), ROW(norm), ROW(rope),
                                   ROW(attention), ROW(swiglu),    ROW(gelu), ROW(entropy)};

START_TEST(gradient_is_the_slope)
{
    static chain c;
    openblas_set_num_threads(1);
    LUO_PROP_FOR(seed, 25)
    {
        memset(&c, 0, sizeof c);
        c.rng = luo_rng_seed(seed);
        c.t = draw(&c, 2, 9), c.h = draw(&c, 4, 12), c.n = draw(&c, 1, 4), c.g = draw(&c, 1, c.n);
        c.d = draw(&c, 1, 6), c.v = draw(&c, 2, 15), c.flag = draw(&c, 0, 1) == 1;
        chains[_i].make(&c);
        for (int a = 0; a < c.ninputs; a++)
            for (int64_t i = 0; i < c.count[a]; i++) {
                c.x[a][i] = luo_rng_normal(&c.rng);
                c.dx[a][i] = (double)NAN;
            }
        for (int64_t i = 0; i < c.ny; i++) c.c[i] = luo_rng_normal(&c.rng);
        chains[_i].backward(&c);
        for (int a = 0; a < c.ninputs; a++) check_input(&chains[_i], &c, a, seed);
    }
}
END_TEST

LUO_MAIN("exec.gradients", gradient_is_the_slope, LUO_ROWS(chains))
