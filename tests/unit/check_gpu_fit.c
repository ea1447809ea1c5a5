/* check_gpu_fit.c: constants of GPU profiles from rows that known constants made, with
 * and without noise; the pattern search on functions whose minimum is known. */
#include <math.h>

#include "core/cost/fit/gpu_fit.h"
#include "core/cost/fit/search.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

/* ---- the search ---- */

typedef struct bowl {
    double at[3];
    int32_t asked;
    bool outside;
} bowl;

static double height(void *ctx, const double *v)
{
    bowl *b = ctx;
    b->asked++;
    b->outside |= v[0] < -1 || v[0] > 3 || v[1] < 1 || v[1] > 1000 || v[2] != 7;
    return fabs(v[0] - b->at[0]) + fabs(log(v[1] / b->at[1])) + (v[2] - b->at[2]) * 0;
}

static const luo_search_param bowl_params[] = {
    {"x", 0, -1, 3, false}, {"y", 10, 1, 1000, true}, {"given", 7, 7, 7, false}};

START_TEST(minimum)
{
    LUO_PROP_FOR(seed, 200)
    {
        luo_rng r = luo_rng_seed(seed);
        bowl b = {.at = {-1 + 4 * luo_rng_u(&r), pow(1000, luo_rng_u(&r)), 7}};
        double v[LUO_SEARCH_PARAMS], again[LUO_SEARCH_PARAMS];
        const double least = luo_search_pattern(bowl_params, 3, seed, height, &b, v);
        ck_assert_msg(least < 0.03, "seed %d: %g at %g %g", (int)seed, least, v[0], v[1]);
        ck_assert(!b.outside && b.asked <= 4 * 1501 && v[2] == 7);
        luo_search_pattern(bowl_params, 3, seed, height, &b, again);
        ck_assert(memcmp(v, again, 3 * sizeof *v) == 0);
    }
}
END_TEST

static double flat_in_x(void *ctx, const double *v)
{
    (void)ctx;
    return 1 + fabs(log(v[1] / 30)) + 1e-4 * v[0];
}

/* A parameter that changes nothing is weak and goes back to its default; one that counts is not. */
START_TEST(weakly)
{
    double v[LUO_SEARCH_PARAMS] = {2.5, 30, 7};
    ck_assert(luo_search_weak(bowl_params, 3, 0, flat_in_x, NULL, v));
    ck_assert_double_eq(v[0], 0);
    ck_assert(!luo_search_weak(bowl_params, 3, 1, flat_in_x, NULL, v));
    ck_assert_double_eq(v[1], 30);
    ck_assert(!luo_search_weak(bowl_params, 3, 2, flat_in_x, NULL, v));
}
END_TEST

/* ---- rows of a GPU whose constants are known ---- */

enum { MOST = 400 };
typedef struct table {
    luo_op_time at[MOST];
    int32_t n;
} table;

static luo_profile gpu(luo_rng *r)
{
    return (luo_profile){.name = "truth",
                         .peak_flops = {[LUO_BF16] = 989e12, [LUO_F32] = 60e12},
                         .memory_bytes_per_s = 3.35e12,
                         .sm_count = 132,
                         .launch_s = (1 + 4 * luo_rng_u(r)) * 1e-6,
                         .gemm_ratio = 0.5 + 0.4 * luo_rng_u(r),
                         .gemm_depth = 200 * luo_rng_u(r),
                         .memory_ratio = 0.6 + 0.3 * luo_rng_u(r),
                         .misaligned_factor = 1,
                         .attention_forward_ratio = 0.2 + 0.6 * luo_rng_u(r),
                         .attention_backward_ratio = 0.2 + 0.6 * luo_rng_u(r),
                         .attention_depth = 400 * luo_rng_u(r)};
}

static double truth(const luo_profile *p, const luo_op_time *t)
{
    double s = 0;
    luo_err err = {0};
    const luo_gemm g = {t->m, t->n, t->k, 1, luo_dtype_bytes(t->dtype), LUO_GEMM_PLAIN};
    const luo_attention a = {
        .heads = t->n, .head_dim = t->k, .sequences = 1, .tokens = t->m, .causal = true};
    if (strcmp(t->op, "gemm") == 0)
        luo_cost_gemm(p, t->dtype, &g, &s, &err);
    else if (strcmp(t->op, "stream") == 0)
        luo_cost_stream(p, (double)t->m, &s, &err);
    else
        luo_cost_attention(p, t->dtype, &a, t->op[10] == 'b', &s, &err);
    return s;
}

static void put(table *t, const luo_profile *p, luo_rng *r, double noise, luo_op_time row)
{
    row.seconds = truth(p, &row) * (1 + noise * (2 * luo_rng_u(r) - 1));
    t->at[t->n++] = row;
}

static void make(table *t, const luo_profile *p, luo_rng *r, double noise, bool attention)
{
    static const int64_t wide[] = {512, 1024, 2048, 4096, 8192};
    t->n = 0;
    for (int64_t m = 16; m <= 16384; m *= 4)
        for (int i = 0; i < 5; i++)
            for (int k = 0; k < 5; k += 2) {
                put(t, p, r, noise, (luo_op_time){"gemm", LUO_BF16, m, wide[i], wide[k], 0});
                if (k == 2)
                    put(t, p, r, noise, (luo_op_time){"gemm", LUO_F32, m, wide[i], 1024, 0});
            }
    for (int64_t s = 512; attention && s <= 32768; s *= 2) {
        put(t, p, r, noise, (luo_op_time){"attention_forward", LUO_BF16, s, 16, 128, 0});
        put(t, p, r, noise, (luo_op_time){"attention_backward", LUO_BF16, s, 16, 128, 0});
    }
    for (int64_t b = 1 << 16; b <= 1 << 30; b *= 4)
        put(t, p, r, noise, (luo_op_time){"stream", LUO_BF16, b, 1, 1, 0});
}

static luo_profile fitted(const luo_profile *p, const luo_gpu_fit *f)
{
    luo_profile q = *p;
    memcpy(q.peak_flops, f->peak_flops, sizeof q.peak_flops);
    q.launch_s = f->value[LUO_GPU_LAUNCH] * 1e-6;
    q.gemm_ratio = f->value[LUO_GPU_GEMM_RATIO];
    q.gemm_depth = f->value[LUO_GPU_GEMM_DEPTH];
    q.memory_ratio = f->value[LUO_GPU_MEMORY_RATIO];
    q.attention_forward_ratio = f->value[LUO_GPU_ATTENTION_F];
    q.attention_backward_ratio = f->value[LUO_GPU_ATTENTION_B];
    q.attention_depth = f->value[LUO_GPU_ATTENTION_DEPTH];
    return q;
}

static double error_on(const table *t, const luo_profile *q)
{
    double sum = 0;
    for (int32_t i = 0; i < t->n; i++) sum += fabs(truth(q, &t->at[i]) / t->at[i].seconds - 1);
    return sum / t->n;
}

/* The mean over kinds of rows, each weighing the same, that the fit has to report: products of
 * the dtype that has the most, attention either way, streams. */
static double error_of_kinds(const table *t, const luo_profile *q)
{
    static const char *const ops[] = {"gemm", "attention_forward", "attention_backward", "stream"};
    double all = 0;
    int kinds = 0;
    for (int k = 0; k < 4; k++) {
        double sum = 0;
        int n = 0;
        for (int32_t i = 0; i < t->n; i++) {
            const luo_op_time *row = &t->at[i];
            if (strcmp(row->op, ops[k]) != 0 || (k == 0 && row->dtype != LUO_BF16)) continue;
            sum += fabs(log(truth(q, row) / row->seconds));
            n++;
        }
        if (n) all += sum / n, kinds++;
    }
    return all / kinds;
}

static const luo_gpu_base known = {.peak_flops = {[LUO_BF16] = 989e12, [LUO_F32] = 60e12},
                                   .memory_bytes_per_s = 3.35e12,
                                   .sm_count = 132,
                                   .launch_s = -1};

/* Rows without noise are told again within 1 %, rows with 5 % of it as well as they allow, and so
 * are rows that the fit has never seen. */
START_TEST(recovers)
{
    LUO_PROP_FOR(seed, 6)
    {
        luo_rng r = luo_rng_seed(seed);
        const luo_profile p = gpu(&r);
        for (int noisy = 0; noisy < 2; noisy++) {
            table t, clean;
            luo_gpu_fit f;
            luo_err err = {0};
            make(&t, &p, &r, noisy ? 0.05 : 0, true);
            make(&clean, &p, &r, 0, true);
            const luo_gpu_rows rows = {t.at, t.n};
            ck_assert_msg(luo_gpu_fit_rows(&rows, &known, seed, &f, &err) == LUO_OK, "%s",
                          err.text);
            const luo_profile q = fitted(&p, &f);
            const double e = error_on(&clean, &q), most = noisy ? 0.04 : 0.01;
            ck_assert_msg(e < most, "seed %d noise %d: mean error %g", (int)seed, noisy, e);
            ck_assert_int_eq(f.rows, t.n);
            ck_assert_double_eq_tol(f.error, error_of_kinds(&t, &q), 1e-9);
            for (int i = 0; i < LUO_GPU_PARAMS; i++) ck_assert(f.fitted[i]);
            ck_assert(!f.peak_measured[LUO_BF16] && f.peak_flops[LUO_F32] == 60e12);
        }
    }
}
END_TEST

/* Without datasheet: the fastest product is the peak, f32 gets one that fits the same gemm_ratio.
 */
START_TEST(unknown_peaks)
{
    LUO_PROP_FOR(seed, 3)
    {
        luo_rng r = luo_rng_seed(seed);
        const luo_profile p = gpu(&r);
        const luo_gpu_base none = {.sm_count = 132, .launch_s = p.launch_s};
        table t;
        luo_gpu_fit f;
        luo_err err = {0};
        make(&t, &p, &r, 0, true);
        const luo_gpu_rows rows = {t.at, t.n};
        ck_assert(luo_gpu_fit_rows(&rows, &none, seed, &f, &err) == LUO_OK);
        luo_profile q = fitted(&p, &f);
        q.memory_bytes_per_s = 0;
        for (int32_t i = 0; i < t.n; i++)
            if (strcmp(t.at[i].op, "stream") == 0)
                q.memory_bytes_per_s =
                    fmax(q.memory_bytes_per_s, (double)t.at[i].m / t.at[i].seconds);
        const double e = error_on(&t, &q);
        ck_assert_msg(e < 0.03, "seed %d: mean error %g", (int)seed, e);
        ck_assert(f.peak_measured[LUO_BF16] && !f.peak_fitted[LUO_BF16]);
        ck_assert(f.peak_fitted[LUO_F32] && !f.peak_measured[LUO_F32]);
        ck_assert(!f.fitted[LUO_GPU_LAUNCH]);
        ck_assert_double_eq_tol(f.value[LUO_GPU_LAUNCH], p.launch_s * 1e6, 1e-12);
        ck_assert_double_eq_tol(f.peak_flops[LUO_F32] / f.peak_flops[LUO_BF16], 60.0 / 989, 0.004);
    }
}
END_TEST

/* What was not measured stays at its default and is not called fitted. */
START_TEST(no_attention)
{
    luo_rng r = luo_rng_seed(3);
    const luo_profile p = gpu(&r);
    table t;
    luo_gpu_fit f;
    luo_err err = {0};
    make(&t, &p, &r, 0, false);
    const luo_gpu_rows rows = {t.at, t.n};
    ck_assert(luo_gpu_fit_rows(&rows, &known, 1, &f, &err) == LUO_OK);
    ck_assert(!f.fitted[LUO_GPU_ATTENTION_F] && !f.fitted[LUO_GPU_ATTENTION_B]);
    ck_assert_double_eq(f.value[LUO_GPU_ATTENTION_F], 0.30);
    ck_assert_double_eq(f.value[LUO_GPU_ATTENTION_B], 0.33);
}
END_TEST

START_TEST(too_few)
{
    const luo_op_time stream = {"stream", LUO_BF16, 1 << 20, 1, 1, 1e-6};
    const luo_op_time gemm = {"gemm", LUO_BF16, 512, 512, 512, 1e-5};
    const luo_gpu_base none = {.launch_s = -1};
    luo_gpu_fit f;
    luo_err err = {0};
    ck_assert_int_eq(luo_gpu_fit_rows(&(luo_gpu_rows){&stream, 1}, &none, 1, &f, &err), LUO_EINPUT);
    ck_assert(strstr(err.text, "no row of `gemm`") != NULL);
    ck_assert_int_eq(luo_gpu_fit_rows(&(luo_gpu_rows){&gemm, 1}, &none, 1, &f, &err), LUO_EINPUT);
    ck_assert(strstr(err.text, "no row of `stream`") != NULL);
}
END_TEST

/* ---- the other stages ---- */

START_TEST(network)
{
    LUO_PROP_FOR(seed, 20)
    {
        luo_rng r = luo_rng_seed(seed);
        const double ratio = 0.4 + 0.5 * luo_rng_u(&r), half = 2e6 * pow(20, luo_rng_u(&r));
        luo_net_row row[60];
        int32_t n = 0;
        for (int nodes = 2; nodes <= 8; nodes *= 2)
            for (double bytes = 1 << 16; n < 60 && bytes <= 1 << 30; bytes *= 4) {
                luo_net_row x = {
                    nodes == 4 ? LUO_COLL_A2A : LUO_COLL_AR, nodes, 8, 1, 400e9, bytes, 0,
                    0};
                const double x0 = half * (x.coll == LUO_COLL_A2A ? 0.075 : 1);
                x.seconds = (x.coll == LUO_COLL_A2A ? 8 : 1) * luo_cost_volume(x.coll, nodes) *
                            (bytes + nodes * x0) / (ratio * 400e9);
                row[n++] = x;
            }
        const luo_net_fitted f = luo_fit_net(row, n); /* the curve alone: no tree that shows */
        ck_assert(f.error < 0.01);
        ck_assert_double_eq_tol(f.net_ratio / ratio, 1, 0.01);
        ck_assert_double_eq_tol(log(f.net_half_bytes / half), 0, 0.03);
    }
}
END_TEST

START_TEST(host)
{
    LUO_PROP_FOR(seed, 5)
    {
        luo_rng r = luo_rng_seed(seed);
        const luo_stack s = {.host_launch_s = (3 + 60 * luo_rng_u(&r)) * 1e-6,
                             .host_exponent = 2 + 6 * luo_rng_u(&r)};
        luo_host_row row[40];
        for (int i = 0; i < 40; i++) {
            row[i] = (luo_host_row){1e-5 * pow(3000, i / 39.0), 100, 0};
            row[i].gpu_s *= 10;
            row[i].step_s = luo_cost_host(&s, row[i].gpu_s, row[i].kernels);
        }
        double launch, exponent;
        bool weak[2];
        ck_assert(luo_fit_host(row, 40, seed, &launch, &exponent, weak) < 0.005);
        ck_assert_double_eq_tol(launch * 1e-6 / s.host_launch_s, 1, 0.02);
        ck_assert(!weak[0]);
    }
}
END_TEST

LUO_SUITE("gpu fit", LUO_T(minimum), LUO_T(weakly), LUO_T(recovers), LUO_T(unknown_peaks),
          LUO_T(no_attention), LUO_T(too_few), LUO_T(network), LUO_T(host))
