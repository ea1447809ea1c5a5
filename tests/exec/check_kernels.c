/* check_kernels.c: each host kernel but attention against plain loops. */
#include "tests/exec/kernel_case.h"

#define RAW(i) c->a[i].raw
#define X(i) c->a[i].x
#define WANT(i) c->a[i].want
enum { T, M, K, LDA, LDB, LDC }; /* dim[] */

/* ---- gemm ---- */
static void gemm_make(kase *c)
{
    c->dim[T] = draw(c, 0, 40), c->dim[M] = draw(c, 1, 40), c->dim[K] = draw(c, 0, 60);
    for (int i = 0; i < 3; i++) c->flag[i] = coin(c);
    c->dim[LDA] = (c->flag[0] ? c->dim[T] : c->dim[K]) + draw(c, 1, 4);
    c->dim[LDB] = (c->flag[1] ? c->dim[K] : c->dim[M]) + draw(c, 1, 4);
    c->dim[LDC] = c->dim[M] + draw(c, 0, 3);
    in(c, (c->flag[0] ? c->dim[K] : c->dim[T]) * c->dim[LDA]);
    in(c, (c->flag[1] ? c->dim[M] : c->dim[K]) * c->dim[LDB]);
    out(c, c->dim[T] * c->dim[LDC], true); /* what is between its rows stays */
    if (!c->flag[2])
        for (int64_t i = 0; i < c->dim[T] * c->dim[LDC]; i++)
            if (i % c->dim[LDC] < c->dim[M]) X(2)[i] = (double)NAN;
}
static void gemm_call(kase *c)
{
    c->k->gemm(c->flag[0], c->flag[1], c->dim[T], c->dim[M], c->dim[K], RAW(0), c->dim[LDA], RAW(1),
               c->dim[LDB], c->flag[2], RAW(2), c->dim[LDC]);
}
static void gemm_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++)
        for (int64_t j = 0; j < c->dim[M]; j++) {
            double s = c->flag[2] ? X(2)[i * c->dim[LDC] + j] : 0;
            for (int64_t k = 0; k < c->dim[K]; k++)
                s += X(0)[c->flag[0] ? k * c->dim[LDA] + i : i * c->dim[LDA] + k] *
                     X(1)[c->flag[1] ? j * c->dim[LDB] + k : k * c->dim[LDB] + j];
            WANT(2)[i * c->dim[LDC] + j] = s;
        }
}

/* ---- bias ---- */
static void bias_make(kase *c)
{
    c->dim[T] = draw(c, 1, 30), c->dim[M] = draw(c, 1, 70);
    in(c, c->dim[T] * c->dim[M]);
    in(c, c->dim[M]);
    out(c, c->dim[T] * c->dim[M], false);
}
static void bias_call(kase *c)
{
    c->k->bias(c->dim[T], c->dim[M], RAW(0), RAW(1), RAW(2));
}
static void bias_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T] * c->dim[M]; i++) WANT(2)[i] = X(0)[i] + X(1)[i % c->dim[M]];
}
static void bias_dw_make(kase *c)
{
    c->dim[T] = draw(c, 1, 30), c->dim[M] = draw(c, 1, 70), c->flag[0] = coin(c);
    in(c, c->dim[T] * c->dim[M]);
    out(c, c->dim[M], c->flag[0]);
}
static void bias_dw_call(kase *c)
{
    c->k->bias_dw(c->dim[T], c->dim[M], RAW(0), c->flag[0], RAW(1));
}
static void bias_dw_twin(kase *c)
{
    for (int64_t j = 0; j < c->dim[M]; j++) {
        double s = c->flag[0] ? X(1)[j] : 0;
        for (int64_t i = 0; i < c->dim[T]; i++) s += X(0)[i * c->dim[M] + j];
        WANT(1)[j] = s;
    }
}

/* ---- embedding: rows lo..hi-1 of a larger vocabulary ---- */
enum { LO = 2, HI = 3, TOKENS = 4 };
static void embedding_shape(kase *c)
{
    c->dim[T] = draw(c, 1, 50), c->dim[M] = draw(c, 1, 33);
    c->dim[LO] = draw(c, 0, 6), c->dim[HI] = c->dim[LO] + draw(c, 1, 20);
    for (int64_t i = 0; i < c->dim[T]; i++) c->ints[0][i] = (int32_t)draw(c, 0, c->dim[HI] + 4);
    c->flag[0] = coin(c);
}
static bool embedded(const kase *c, int64_t i)
{
    return c->ints[0][i] >= c->dim[LO] && c->ints[0][i] < c->dim[HI];
}
static void embedding_make(kase *c)
{
    embedding_shape(c);
    in(c, (c->dim[HI] - c->dim[LO]) * c->dim[M]);
    out(c, c->dim[T] * c->dim[M], false);
}
static void embedding_call(kase *c)
{
    c->k->embedding(c->dim[T], c->dim[M], c->dim[LO], c->dim[HI], 1, c->ints[0], RAW(0), RAW(1));
}
static void embedding_twin(kase *c)
{
    const int64_t h = c->dim[M];
    for (int64_t i = 0; i < c->dim[T] * h; i++)
        WANT(1)[i] = embedded(c, i / h) ? X(0)[(c->ints[0][i / h] - c->dim[LO]) * h + i % h] : 0;
}
static void embedding_dw_make(kase *c)
{
    embedding_shape(c);
    in(c, c->dim[T] * c->dim[M]);
    out(c, (c->dim[HI] - c->dim[LO]) * c->dim[M], c->flag[0]);
}
static void embedding_dw_call(kase *c)
{
    c->k->embedding_dw(c->dim[T], c->dim[M], c->dim[LO], c->dim[HI], 1, c->ints[0], RAW(0),
                       c->flag[0], RAW(1));
}
static void embedding_dw_twin(kase *c)
{
    const int64_t h = c->dim[M];
    for (int64_t i = 0; i < c->a[1].n; i++) WANT(1)[i] = c->flag[0] ? X(1)[i] : 0;
    for (int64_t i = 0; i < c->dim[T] * h; i++)
        if (embedded(c, i / h)) WANT(1)[(c->ints[0][i / h] - c->dim[LO]) * h + i % h] += X(0)[i];
}

/* ---- norms: flag[0] LayerNorm, flag[1] add ---- */
static void norm_shape(kase *c)
{
    /* Two or three numbers may be almost equal, and their variance lost. */
    c->dim[T] = draw(c, 1, 20), c->dim[M] = luo_rng_pick(&c->rng, 8) == 0 ? 1 : draw(c, 5, 90);
    c->flag[0] = coin(c), c->flag[1] = coin(c);
    c->real[0] = c->dim[M] == 1 ? 1
                 : coin(c)      ? 1e-5
                                : 1e-2; /* one number: 1/sqrt(eps) is the scale */
}
static void norm_make(kase *c)
{
    norm_shape(c);
    in(c, c->dim[T] * c->dim[M]);
    in(c, c->dim[M]);
    in(c, c->dim[M]);
    out(c, c->dim[T] * c->dim[M], false);
}
static void norm_call(kase *c)
{
    c->k->norm(c->dim[T], c->dim[M], c->real[0], 0, RAW(0), RAW(1), c->flag[0] ? RAW(2) : NULL,
               RAW(3));
}
/* xhat of a row, and r. */
static double norm_row(const kase *c, const double *x, double *xhat)
{
    const int64_t h = c->dim[M];
    double mean = 0, square = 0;
    for (int64_t j = 0; j < h; j++) mean += c->flag[0] ? x[j] / (double)h : 0;
    for (int64_t j = 0; j < h; j++) square += (x[j] - mean) * (x[j] - mean) / (double)h;
    const double r = 1 / sqrt(square + c->real[0]);
    for (int64_t j = 0; j < h; j++) xhat[j] = (x[j] - mean) * r;
    return r;
}
static void norm_twin(kase *c)
{
    double xhat[90];
    for (int64_t i = 0; i < c->dim[T]; i++) {
        norm_row(c, X(0) + i * c->dim[M], xhat);
        for (int64_t j = 0; j < c->dim[M]; j++)
            WANT(3)[i * c->dim[M] + j] = xhat[j] * X(1)[j] + (c->flag[0] ? X(2)[j] : 0);
    }
}
static void norm_dx_make(kase *c)
{
    norm_shape(c);
    in(c, c->dim[T] * c->dim[M]);
    in(c, c->dim[T] * c->dim[M]);
    in(c, c->dim[M]);
    out(c, c->dim[T] * c->dim[M], false);
}
static void norm_dx_call(kase *c)
{
    c->k->norm_dx(c->dim[T], c->dim[M], c->real[0], 0, c->flag[0], RAW(0), RAW(1), RAW(2), RAW(3));
}
/* By the matrix of derivatives: d xhat_k / d x_j = r (delta_jk - [centred] / h - xhat_j xhat_k /
 * h). */
static void norm_dx_twin(kase *c)
{
    const int64_t h = c->dim[M];
    double xhat[90];
    for (int64_t i = 0; i < c->dim[T]; i++) {
        const double r = norm_row(c, X(1) + i * h, xhat);
        for (int64_t j = 0; j < h; j++) {
            double s = 0;
            for (int64_t k = 0; k < h; k++)
                s += X(0)[i * h + k] * X(2)[k] * r *
                     ((j == k) - (c->flag[0] + xhat[j] * xhat[k]) / (double)h);
            WANT(3)[i * h + j] = s;
        }
    }
}
static void norm_dw_make(kase *c)
{
    norm_shape(c);
    in(c, c->dim[T] * c->dim[M]);
    in(c, c->dim[T] * c->dim[M]);
    out(c, c->dim[M], c->flag[1]);
    out(c, c->flag[0] ? c->dim[M] : 0, c->flag[1]);
}
static void norm_dw_call(kase *c)
{
    c->k->norm_dw(c->dim[T], c->dim[M], c->real[0], RAW(0), RAW(1), c->flag[1], RAW(2),
                  c->flag[0] ? RAW(3) : NULL);
}
static void norm_dw_twin(kase *c)
{
    const int64_t h = c->dim[M];
    double xhat[90];
    for (int64_t a = 2; a < 4; a++)
        for (int64_t j = 0; j < c->a[a].n; j++) WANT(a)[j] = c->flag[1] ? X(a)[j] : 0;
    for (int64_t i = 0; i < c->dim[T]; i++) {
        norm_row(c, X(1) + i * h, xhat);
        for (int64_t j = 0; j < h; j++) WANT(2)[j] += X(0)[i * h + j] * xhat[j];
        for (int64_t j = 0; c->flag[0] && j < h; j++) WANT(3)[j] += X(0)[i * h + j];
    }
}

/* ---- rope: dim T tokens, M heads, K head size ---- */
static void rope_make(kase *c)
{
    c->dim[T] = draw(c, 1, 20), c->dim[M] = draw(c, 1, 5);
    c->dim[K] = 2 * (coin(c) ? draw(c, 1, 16) : draw(c, 60, 90)); /* more than one block of sines */
    c->real[0] = coin(c) ? 10000 : 500000, c->flag[0] = coin(c), c->flag[1] = coin(c);
    for (int64_t i = 0; i < c->dim[T]; i++) c->ints[0][i] = (int32_t)draw(c, 0, 9000);
    in(c, c->dim[T] * c->dim[M] * c->dim[K]);
    out(c, c->dim[T] * c->dim[M] * c->dim[K], false);
}
static double radians_of(const kase *c, int64_t pair) /* with a table: slower than by the base */
{
    const double plain = pow(c->real[0], -2 * (double)pair / (double)c->dim[K]);
    return c->flag[1] && pair % 3 ? plain / 8 : plain;
}
static void rope_call(kase *c)
{
    double table[90];
    for (int64_t i = 0; i < c->dim[K] / 2; i++) table[i] = radians_of(c, i);
    const luo_turns turns = {c->real[0], c->flag[1] ? table : NULL, c->flag[1] ? 1.25 : 0, 0};
    c->k->rope(c->dim[T], c->dim[M], c->dim[K], turns, c->flag[0], c->ints[0], RAW(0), RAW(1));
}
static void rope_twin(kase *c)
{
    const int64_t d = c->dim[K];
    for (int64_t i = 0; i < c->a[0].n; i++) {
        const int64_t pair = i % d % (d / 2);
        const double factor = c->flag[1] ? 1.25 : 1;
        const double angle =
            c->ints[0][i / d / c->dim[M]] * radians_of(c, pair) * (c->flag[0] ? -1 : 1);
        const double other = i % d < d / 2 ? -X(0)[i + d / 2] : X(0)[i - d / 2];
        WANT(1)[i] = factor * (X(0)[i] * cos(angle) + other * sin(angle));
    }
}

/* ---- activations ---- */
static void swiglu_make(kase *c)
{
    c->dim[T] = draw(c, 1, 300);
    for (int i = 0; i < 2; i++) new_array(c, c->dim[T], 8);
    for (int i = 0; i < 2; i++) out(c, c->dim[T], false);
    X(0)[0] = coin(c) ? 0 : rounded(c->k, -90); /* exp does not end in a normal number */
}
static void swiglu_call(kase *c)
{
    c->k->swiglu(c->dim[T], RAW(0), RAW(1), RAW(2), RAW(3));
}
static void swiglu_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++) {
        WANT(3)[i] = X(0)[i] / (1 + exp(-X(0)[i]));
        WANT(2)[i] = WANT(3)[i] * X(1)[i];
    }
}
static void swiglu_dx_make(kase *c)
{
    c->dim[T] = draw(c, 1, 300);
    for (int i = 0; i < 4; i++) new_array(c, c->dim[T], 4); /* dy, gate, up, silu */
    for (int i = 0; i < 2; i++) out(c, c->dim[T], false);
    for (int64_t i = 0; i < c->dim[T]; i++) X(3)[i] = rounded(c->k, X(1)[i] / (1 + exp(-X(1)[i])));
}
static void swiglu_dx_call(kase *c)
{
    c->k->swiglu_dx(c->dim[T], RAW(0), RAW(1), RAW(2), RAW(3), RAW(4), RAW(5));
}
static void swiglu_dx_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++) {
        const double s = 1 / (1 + exp(-X(1)[i]));
        WANT(4)[i] = X(0)[i] * X(2)[i] * s * (1 + X(1)[i] * (1 - s));
        WANT(5)[i] = X(0)[i] * X(1)[i] * s;
    }
}
static double gelu_of(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static void gelu_make(kase *c)
{
    c->dim[T] = draw(c, 1, 300);
    new_array(c, c->dim[T], 3);
    out(c, c->dim[T], false);
}
static void gelu_call(kase *c)
{
    c->k->gelu(c->dim[T], RAW(0), RAW(1));
}
static void gelu_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++) WANT(1)[i] = gelu_of(X(0)[i]);
}
static void gelu_dx_make(kase *c)
{
    c->dim[T] = draw(c, 1, 300);
    for (int i = 0; i < 2; i++) new_array(c, c->dim[T], 3);
    out(c, c->dim[T], false);
}
static void gelu_dx_call(kase *c)
{
    c->k->gelu_dx(c->dim[T], RAW(0), RAW(1), RAW(2));
}
static void gelu_dx_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++) {
        const long double x = X(1)[i], c0 = sqrtl(2 / acosl(-1));
        const long double h =
            tanhl(c0 * (x + 0.044715L * x * x * x)); /* near -1: needs its digits */
        const long double du = c0 * (1 + 3 * 0.044715L * x * x);
        WANT(2)[i] = (double)(X(0)[i] * (0.5L * (1 + h) + 0.5L * x * (1 - h * h) * du));
    }
}

/* ---- add: flag[0] y is x[0] ---- */
static void add_make(kase *c)
{
    c->dim[T] = coin(c) ? draw(c, 1, 100) : draw(c, 2000, 5000), c->dim[M] = draw(c, 1, 5);
    c->flag[0] = coin(c);
    out(c, c->dim[T], c->flag[0]);
    for (int64_t i = 0; i < c->dim[M]; i++) in(c, c->dim[T]);
}
static void add_call(kase *c)
{
    const void *x[6];
    for (int64_t i = 0; i < c->dim[M]; i++) x[i] = RAW(i == 0 && c->flag[0] ? 0 : i + 1);
    c->k->add(c->dim[T], (int32_t)c->dim[M], x, RAW(0));
}
static void add_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++) {
        double s = 0;
        for (int64_t k = 0; k < c->dim[M]; k++) s += X(k == 0 && c->flag[0] ? 0 : k + 1)[i];
        WANT(0)[i] = s;
    }
}

/* ---- cross-entropy: dim T rows, M columns of which the first is column LO of the whole ---- */
static void rows_shape(kase *c)
{
    c->dim[T] = draw(c, 1, 20), c->dim[M] = coin(c) ? draw(c, 1, 60) : draw(c, 500, 1100);
    c->dim[TOKENS] = coin(c) ? c->dim[M] : draw(c, 1, c->dim[M]); /* the rest are pads */
    c->dim[LO] = draw(c, 0, 50), c->real[0] = 1.0 / (double)draw(c, 1, 9);
    for (int64_t i = 0; i < c->dim[T]; i++)
        c->ints[0][i] = (int32_t)draw(c, -1, c->dim[LO] + c->dim[M] + 5);
}
static void row_max_make(kase *c)
{
    rows_shape(c);
    new_array(c, c->dim[T] * c->dim[M], 9);
    out(c, c->dim[T], false);
}
static void row_max_call(kase *c)
{
    c->k->row_max(c->dim[T], c->dim[M], c->dim[TOKENS], RAW(0), RAW(1), 0);
}
static double max_of(const double *x, int64_t n)
{
    double top = x[0];
    for (int64_t j = 1; j < n; j++) top = fmax(top, x[j]);
    return top;
}
static void row_max_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++)
        WANT(1)[i] = max_of(X(0) + i * c->dim[M], c->dim[TOKENS]);
}
static void row_sum_make(kase *c)
{
    rows_shape(c);
    new_array(c, c->dim[T] * c->dim[M], 9);
    in(c, c->dim[T]);
    out(c, c->dim[T], false);
    out(c, c->dim[T] * c->dim[M], false);
    for (int64_t i = 0; i < c->dim[T]; i++) X(1)[i] = max_of(X(0) + i * c->dim[M], c->dim[TOKENS]);
}
static void row_sum_call(kase *c)
{
    c->k->row_sum(c->dim[T], c->dim[M], c->dim[TOKENS], RAW(0), RAW(1), RAW(2), RAW(3), 0);
}
static void row_sum_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++) {
        WANT(2)[i] = 0;
        for (int64_t j = 0; j < c->dim[M]; j++) {
            /* the difference is rounded before exp, as the kernel must */
            const double x = rounded(c->k, X(0)[i * c->dim[M] + j] - X(1)[i]);
            const double e = j < c->dim[TOKENS] ? exp(x) : 0;
            WANT(3)[i * c->dim[M] + j] = e;
            WANT(2)[i] += e;
        }
    }
}
static bool labelled(const kase *c, int64_t i)
{
    const int64_t j = c->ints[0][i] - c->dim[LO];
    return c->ints[0][i] >= 0 && j >= 0 && j < c->dim[M];
}
static void row_target_make(kase *c)
{
    rows_shape(c);
    in(c, c->dim[T] * c->dim[M]);
    out(c, c->dim[T], false);
}
static void row_target_call(kase *c)
{
    c->k->row_target(c->dim[T], c->dim[M], c->dim[LO], RAW(0), c->ints[0], RAW(1), 0);
}
static void row_target_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++)
        WANT(1)[i] = labelled(c, i) ? X(0)[i * c->dim[M] + c->ints[0][i] - c->dim[LO]] : 0;
}
static void loss_make(kase *c)
{
    rows_shape(c);
    for (int i = 0; i < 3; i++) in(c, c->dim[T]); /* max, sum, target */
    out(c, c->dim[T], false);
    for (int64_t i = 0; i < c->dim[T]; i++) X(1)[i] = rounded(c->k, 1 + fabs(X(1)[i]));
}
static void loss_call(kase *c)
{
    c->k->loss(c->dim[T], RAW(0), RAW(1), RAW(2), c->ints[0], c->real[0], RAW(3));
}
static void loss_twin(kase *c)
{
    for (int64_t i = 0; i < c->dim[T]; i++)
        WANT(3)[i] = c->ints[0][i] < 0 ? 0 : c->real[0] * (X(0)[i] + log(X(1)[i]) - X(2)[i]);
}
static void loss_dx_make(kase *c)
{
    rows_shape(c);
    in(c, c->dim[T] * c->dim[M]);
    in(c, c->dim[T]);
    out(c, c->dim[T] * c->dim[M], false);
    for (int64_t i = 0; i < c->a[0].n; i++) X(0)[i] = rounded(c->k, fabs(X(0)[i]));
    for (int64_t i = 0; i < c->dim[T]; i++) X(1)[i] = rounded(c->k, 5 + fabs(X(1)[i]));
}
static void loss_dx_call(kase *c)
{
    c->k->loss_dx(c->dim[T], c->dim[M], c->dim[LO], RAW(0), RAW(1), c->ints[0], c->real[0], RAW(2),
                  NULL, 0);
}
static void loss_dx_twin(kase *c)
{
    const int64_t v = c->dim[M];
    for (int64_t i = 0; i < c->dim[T] * v; i++) {
        const bool hit = labelled(c, i / v) && i % v == c->ints[0][i / v] - c->dim[LO];
        const double softmax = X(0)[i] / X(1)[i / v];
        WANT(2)[i] = c->ints[0][i / v] < 0 ? 0 : c->real[0] * (softmax - hit);
    }
}

/* ---- sums and the optimizer ---- */
static void sum_make(kase *c)
{
    c->dim[T] = draw(c, 0, 3000), c->flag[0] = coin(c);
    in(c, c->dim[T]);
    out(c, 1, c->flag[0]);
    for (int64_t i = 0; i < c->dim[T]; i++) X(0)[i] = fabs(X(0)[i]); /* no cancellation */
    X(1)[0] = fabs(X(1)[0]);
}
static void sum_call(kase *c)
{
    c->k->sum(c->dim[T], RAW(0), c->flag[0], RAW(1));
    c->returned = c->k->sum_squares(c->dim[T], RAW(0));
}
static void sum_twin(kase *c)
{
    long double s = c->flag[0] ? X(1)[0] : 0, squares = 0;
    for (int64_t i = 0; i < c->dim[T]; i++) {
        s += X(0)[i];
        squares += (long double)X(0)[i] * X(0)[i];
    }
    WANT(1)[0] = (double)s;
    c->returned_want = (double)squares;
}
static void adamw_make(kase *c)
{
    c->dim[T] = draw(c, 1, 300), c->dim[M] = coin(c) ? 1 : draw(c, 2, 1000);
    c->real[0] = coin(c) ? 0.1 : 0, c->real[1] = coin(c) ? 1 : 0.25;
    in(c, c->dim[T]);
    for (int i = 0; i < 3; i++) out(c, c->dim[T], true); /* w, m, v */
    for (int64_t i = 0; i < c->dim[T]; i++) X(3)[i] = fabs(X(3)[i]);
}
static luo_adam adam_of(const kase *c)
{
    return (luo_adam){.lr = 1e-2,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .eps = 1e-8,
                      .weight_decay = c->real[0],
                      .grad_scale = c->real[1],
                      .step = c->dim[M]};
}
static void adamw_call(kase *c)
{
    const luo_adam a = adam_of(c);
    c->k->adamw(c->dim[T], &a, RAW(0), RAW(1), RAW(2), RAW(3));
}
static void adamw_twin(kase *c)
{
    const luo_adam a = adam_of(c);
    for (int64_t i = 0; i < c->dim[T]; i++) {
        const double g = X(0)[i] * a.grad_scale;
        WANT(2)[i] = a.beta1 * X(2)[i] + (1 - a.beta1) * g;
        WANT(3)[i] = a.beta2 * X(3)[i] + (1 - a.beta2) * g * g;
        const double mhat = WANT(2)[i] / (1 - pow(a.beta1, (double)a.step));
        const double vhat = WANT(3)[i] / (1 - pow(a.beta2, (double)a.step));
        WANT(1)[i] = X(1)[i] - a.lr * (mhat / (sqrt(vhat) + a.eps) + a.weight_decay * X(1)[i]);
    }
}

#define ROW(name, ulps)                                                                            \
    {                                                                                              \
#name, name##_make, name##_call, name##_twin, ulps                                         \
    }
static const kernel_row rows[] = {
    ROW(gemm, 40),         ROW(bias, 1),   ROW(bias_dw, 10),   ROW(embedding, 0),
    ROW(embedding_dw, 10), ROW(norm, 10),  ROW(norm_dx, 60),   ROW(norm_dw, 20),
    ROW(rope, 4),          ROW(swiglu, 4), ROW(swiglu_dx, 12), ROW(gelu, 4),
    ROW(gelu_dx, 8),       ROW(add, 4),    ROW(row_max, 0),    ROW(row_sum, 40),
    ROW(row_target, 0),    ROW(loss, 4),   ROW(loss_dx, 4),    ROW(sum, 60),
    ROW(adamw, 8),
};

START_TEST(kernel_is_its_twin)
{
    case_both(&rows[_i], 300);
}
END_TEST

LUO_MAIN("exec.kernels", kernel_is_its_twin, LUO_ROWS(rows))
