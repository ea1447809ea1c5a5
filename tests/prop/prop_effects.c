/* prop_effects.c: constants and effects of sources from rows: the fast fit (a number a source,
 * steps of Gauss and Newton) = generalised least squares with the covariance of all rows written
 * out; and what made the rows is found again. */
#include "core/cost/fit/effects.h"

#include <math.h>
#include <string.h>

#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { CONSTANTS = 7, ROWS = 60, SOURCES = 8, FREE = 4 };

/* Constant 0 is the parent of 1 and 2, 1 that of 3; rows use 3 (leaf) and those without children.
 */
typedef struct made {
    luo_effects_constant constant[CONSTANTS];
    luo_effects_row row[ROWS];
    double slope[ROWS][CONSTANTS], offset[ROWS], curve;
    int32_t uses[FREE];
    int32_t nrows, nsources;
} made;

static double draw_normal(luo_rng *rng)
{
    const double u = (luo_rng_u(rng) + 1e-12) / (1 + 1e-12);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * luo_rng_u(rng));
}

static luo_status predict(void *ctx, const double *value, int32_t row, double *out, luo_err *err)
{
    const made *m = ctx;
    double sum = m->offset[row];
    (void)err;
    for (int u = 0; u < FREE; u++) {
        const int32_t k = m->uses[u];
        sum += m->slope[row][k] * value[k];
        sum += m->curve * value[k] * value[k] * m->slope[row][k];
    }
    *out = sum;
    return LUO_OK;
}

static void make(luo_rng *rng, made *m, double curve, double noise, double between)
{
    static const int32_t parents[CONSTANTS] = {-1, 0, 0, 1, -1, -1, -1};
    static const int32_t uses[FREE] = {2, 3, 4, 5};
    double truth[CONSTANTS], effect[SOURCES];
    memset(m, 0, sizeof *m);
    memcpy(m->uses, uses, sizeof uses);
    m->curve = curve;
    m->nrows = 20 + (int32_t)(luo_rng_u(rng) * (ROWS - 20));
    m->nsources = 2 + (int32_t)(luo_rng_u(rng) * (SOURCES - 1));
    for (int k = 0; k < CONSTANTS; k++) {
        const int32_t parent = parents[k];
        m->constant[k] = (luo_effects_constant){.prior = parent < 0 ? 0.3 * draw_normal(rng) : 0,
                                                .width = 0.1 + 0.3 * luo_rng_u(rng),
                                                .parent = parent,
                                                .lo = -INFINITY,
                                                .hi = INFINITY};
        truth[k] = m->constant[k].prior + (parent >= 0 ? truth[parent] : 0) +
                   m->constant[k].width * draw_normal(rng);
    }
    for (int s = 0; s < m->nsources; s++) effect[s] = between * draw_normal(rng);
    for (int32_t i = 0; i < m->nrows; i++) {
        const int32_t source = (int32_t)(luo_rng_u(rng) * m->nsources);
        m->offset[i] = draw_normal(rng);
        for (int u = 0; u < FREE; u++) m->slope[i][m->uses[u]] = -luo_rng_u(rng);
        m->row[i] = (luo_effects_row){
            .source = source, .weight = i % 3 ? 1 : 0.25, .uses = m->uses, .nuses = FREE};
        double at = 0;
        (void)predict(m, truth, i, &at, NULL);
        m->row[i].measured = at + effect[source] + noise * draw_normal(rng);
    }
}

/* a x = b for many b at once, by elimination with pivots. */
static void solve(double *a, int n, double *b, int m)
{
    for (int p = 0; p < n; p++) {
        int best = p;
        for (int i = p + 1; i < n; i++)
            if (fabs(a[i * n + p]) > fabs(a[best * n + p])) best = i;
        for (int j = 0; j < n; j++) {
            const double t = a[p * n + j];
            a[p * n + j] = a[best * n + j];
            a[best * n + j] = t;
        }
        for (int j = 0; j < m; j++) {
            const double t = b[p * m + j];
            b[p * m + j] = b[best * m + j];
            b[best * m + j] = t;
        }
        for (int i = 0; i < n; i++) {
            if (i == p) continue;
            const double f = a[i * n + p] / a[p * n + p];
            for (int j = 0; j < n; j++) a[i * n + j] -= f * a[p * n + j];
            for (int j = 0; j < m; j++) b[i * m + j] -= f * b[p * m + j];
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) b[i * m + j] /= a[i * n + i];
}

/* Of a linear model: V has noise on its diagonal and `between` among rows of a source; x solves
 * (J' V^-1 J + P) x = J' V^-1 y + P prior, whose inverse is the covariance. */
static void solve_dense(const made *m, const luo_effects_result *got, double *x, double *covariance)
{
    static double v[ROWS * ROWS], right[ROWS * (CONSTANTS + 1)];
    double normal[CONSTANTS * CONSTANTS] = {0}, moment[CONSTANTS] = {0};
    const int n = m->nrows, w = CONSTANTS + 1;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++)
            v[i * n + k] = (i == k ? got->noise * got->noise / m->row[i].weight : 0) +
                           (m->row[i].source == m->row[k].source ? got->between * got->between : 0);
        for (int k = 0; k < CONSTANTS; k++) right[i * w + k] = m->slope[i][k];
        right[i * w + CONSTANTS] = m->row[i].measured - m->offset[i];
    }
    solve(v, n, right, w);
    for (int a = 0; a < CONSTANTS; a++)
        for (int i = 0; i < n; i++) {
            for (int b = 0; b < CONSTANTS; b++)
                normal[a * CONSTANTS + b] += m->slope[i][a] * right[i * w + b];
            moment[a] += m->slope[i][a] * right[i * w + CONSTANTS];
        }
    for (int k = 0; k < CONSTANTS; k++) {
        const luo_effects_constant *c = &m->constant[k];
        const double p = 1 / (c->width * c->width);
        normal[k * CONSTANTS + k] += p;
        moment[k] += p * c->prior;
        if (c->parent < 0) continue;
        normal[c->parent * CONSTANTS + c->parent] += p;
        normal[k * CONSTANTS + c->parent] -= p;
        normal[c->parent * CONSTANTS + k] -= p;
        moment[c->parent] -= p * c->prior;
    }
    for (int i = 0; i < CONSTANTS; i++)
        for (int k = 0; k < CONSTANTS; k++) covariance[i * CONSTANTS + k] = i == k;
    double copy[CONSTANTS * CONSTANTS];
    memcpy(copy, normal, sizeof copy);
    solve(copy, CONSTANTS, covariance, CONSTANTS);
    memcpy(x, moment, sizeof moment);
    solve(normal, CONSTANTS, x, 1);
}

START_TEST(as_dense)
{
    int fitted = 0;
    LUO_PROP_FOR(seed, 60)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        made m;
        luo_effects_result got;
        luo_err err = {0};
        double x[CONSTANTS], covariance[CONSTANTS * CONSTANTS];
        make(&rng, &m, 0, 0.05, 0.1);
        const luo_effects fit = {m.constant, m.row, CONSTANTS, m.nrows, m.nsources, predict, &m};
        ck_assert_int_eq(luo_effects_fit(arena, &fit, &got, &err), LUO_OK);
        solve_dense(&m, &got, x, covariance);
        for (int k = 0; k < CONSTANTS; k++) {
            const double width = m.constant[k].width, spread = sqrt(covariance[k * CONSTANTS + k]);
            const bool free = got.state[k] == LUO_EFFECTS_FITTED;
            fitted += free;
            ck_assert_msg(fabs(got.value[k] - x[k]) <= (free ? 2e-3 : 0.11 * width + 2e-3),
                          "LUO_SEED=%llu LUO_CASES=1: constant %d: %.9g against %.9g",
                          (unsigned long long)seed, k, got.value[k], x[k]);
            ck_assert_msg(fabs(got.spread[k] / spread - 1) <= 0.02,
                          "LUO_SEED=%llu LUO_CASES=1: spread %d: %.9g against %.9g",
                          (unsigned long long)seed, k, got.spread[k], spread);
        }
        luo_arena_free(arena);
    }
    ck_assert_int_gt(fitted + (luo_prop_env("LUO_CASES", 0) > 0), 0);
}
END_TEST

/* Many sources: noise, spread between sources, and constants of a model that bends. */
START_TEST(found_again)
{
    double noise = 0, between = 0, off = 0;
    int n = 0, values = 0, inside = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        made m;
        luo_effects_result got;
        luo_err err = {0};
        make(&rng, &m, 0.2, 0.05, 0.1);
        const luo_effects fit = {m.constant, m.row, CONSTANTS, m.nrows, m.nsources, predict, &m};
        ck_assert_int_eq(luo_effects_fit(arena, &fit, &got, &err), LUO_OK);
        noise += got.noise;
        between += got.between * got.between;
        n++;
        for (int32_t i = 0; i < m.nrows; i++) {
            double at = 0;
            (void)predict(&m, got.value, i, &at, NULL);
            const double e = at + got.effect[m.row[i].source] - m.row[i].measured;
            off += e * e;
            inside += fabs(e) < LUO_EFFECTS_MIDDLE80 * got.noise;
            values++;
        }
        luo_arena_free(arena);
    }
    ck_assert_double_eq_tol(noise / n, 0.05, 0.006);
    ck_assert_double_eq_tol(sqrt(between / n), 0.1, 0.02);
    ck_assert_double_lt(sqrt(off / values), 0.055);
    ck_assert_double_eq_tol((double)inside / values, 0.8, 0.05);
}
END_TEST

/* A constant that wants beyond its bound keeps its prior and is listed; one that no row moves, too.
 */
START_TEST(keeps_priors)
{
    luo_rng rng = luo_rng_seed(7);
    luo_arena *arena = luo_arena_new(0);
    made m;
    luo_effects_result got;
    luo_err err = {0};
    make(&rng, &m, 0, 0.02, 0.02);
    m.constant[4].lo = m.constant[4].prior - 1e-3; /* rows were made further off than that .. */
    m.constant[4].hi = m.constant[4].prior + 1e-3;
    for (int32_t i = 0; i < m.nrows; i++) {
        m.row[i].measured += 0.5 * m.slope[i][4]; /* .. or are now */
        m.slope[i][5] = 0;
    }
    const luo_effects fit = {m.constant, m.row, CONSTANTS, m.nrows, m.nsources, predict, &m};
    ck_assert_int_eq(luo_effects_fit(arena, &fit, &got, &err), LUO_OK);
    ck_assert_int_eq(got.state[4], LUO_EFFECTS_BOUND);
    ck_assert_double_eq(got.value[4], m.constant[4].prior);
    ck_assert_int_eq(got.state[5], LUO_EFFECTS_PRIOR);
    ck_assert_int_eq(got.state[6], LUO_EFFECTS_PRIOR);
    ck_assert_double_eq(got.value[6], m.constant[6].prior);
    ck_assert_int_eq(got.rows[6], 0);
    ck_assert_int_eq(got.rows[0], m.nrows); /* by those that hang on it */
    const luo_effects none = {m.constant, m.row, CONSTANTS, 0, m.nsources, predict, &m};
    ck_assert_int_eq(luo_effects_fit(arena, &none, &got, &err), LUO_EINPUT);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("effects", LUO_T(as_dense), LUO_T(found_again), LUO_T(keeps_priors))
