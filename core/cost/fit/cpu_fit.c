#include "core/cost/fit/cpu_fit.h"
#include "core/base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 3, SWEEPS = 2000 }; /* mnk, mn, and what is moved */
enum { BEYOND = 2 };               /* how much faster than the rows larger products may be */

static bool is_product(const luo_op_time *time, luo_dtype dtype)
{
    return time->dtype == dtype && time->seconds > 0 && time->m > 0 && time->n > 0 && time->k > 0 &&
           strncmp(time->op, "matmul", 6) == 0;
}

static void terms(const luo_op_time *time, double out[TERMS])
{
    const double m = (double)time->m, n = (double)time->n, k = (double)time->k;
    out[0] = m * n * k / time->seconds;
    out[1] = m * n / time->seconds;
    out[2] = (m * k + k * n + 2 * m * n) / time->seconds;
}

typedef struct normal { /* sums over the rows: squares and cross products, and with 1 */
    double square[TERMS][TERMS], with_one[TERMS];
} normal;

static void add_row(normal *s, const luo_op_time *time)
{
    double x[TERMS];
    terms(time, x);
    for (int i = 0; i < TERMS; i++) {
        s->with_one[i] += x[i];
        for (int j = 0; j < TERMS; j++) s->square[i][j] += x[i] * x[j];
    }
}

/* Minimum of sum (x.c - 1)^2 over c >= least. */
static void descend(const normal *s, const double least[TERMS], double c[TERMS])
{
    for (int i = 0; i < TERMS; i++) c[i] = least[i];
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double moved = 0;
        for (int i = 0; i < TERMS; i++) {
            double rest = s->with_one[i];
            for (int j = 0; j < TERMS; j++)
                if (j != i) rest -= s->square[i][j] * c[j];
            const double next = fmax(least[i], rest / s->square[i][i]);
            moved = fmax(moved, fabs(next - c[i]) / fmax(next, 1e-300));
            c[i] = next;
        }
        if (moved < 1e-12) return;
    }
}

static void fit_products(const luo_op_time *rows, int32_t n, luo_dtype dtype, double bytes_per_s,
                         luo_cpu_fit *out)
{
    const double e = (double)luo_dtype_bytes(dtype);
    normal s = {0};
    double c[TERMS], x[TERMS];
    for (int32_t i = 0; i < n; i++) {
        if (!is_product(&rows[i], dtype)) continue;
        terms(&rows[i], x);
        out->peak_flops = fmax(out->peak_flops, 2 * x[0]);
        out->products++;
        add_row(&s, &rows[i]);
    }
    if (out->products == 0) return;
    const double least[TERMS] = {2 / (BEYOND * out->peak_flops), 0, e / bytes_per_s};
    descend(&s, least, c);
    if (c[0] <= least[0]) c[0] = 2 / out->peak_flops; /* the rows do not tell it from the rest */
    out->peak_flops = fmax(out->peak_flops, 2 / c[0]);
    out->gemm_ratio = fmin(1, 2 / (c[0] * out->peak_flops));
    out->gemm_depth = c[1] / c[0];
    out->memory_ratio = fmin(1, e / (c[2] * bytes_per_s));
    for (int32_t i = 0; i < n; i++) {
        if (!is_product(&rows[i], dtype)) continue;
        terms(&rows[i], x);
        out->error += fabs(x[0] * c[0] + x[1] * c[1] + x[2] * c[2] - 1) / out->products;
    }
}

/* FLOP of fused causal attention (docs/cost-model.md#attention). */
static double rate_of(const luo_op_time *time, bool backward)
{
    return (backward ? 5.0 : 2.0) * (double)time->n * (double)time->k * (double)time->m *
           (double)time->m / time->seconds;
}

static luo_status fit_attention(const luo_op_time *rows, int32_t n, luo_dtype dtype, bool backward,
                                double peak, double *ratio, luo_err *err)
{
    const char *op = backward ? "attention_dx" : "attention";
    double *rate = malloc(((size_t)n + 1) * sizeof *rate);
    int32_t count = 0;
    if (!rate) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++)
        if (rows[i].dtype == dtype && rows[i].seconds > 0 && strcmp(rows[i].op, op) == 0)
            rate[count++] = rate_of(&rows[i], backward);
    qsort(rate, (size_t)count, sizeof *rate, luo_vec_by_double);
    *ratio = count && peak > 0 ? fmin(1, rate[count / 2] / peak) : 0;
    free(rate);
    return LUO_OK;
}

luo_status luo_cpu_fit_rows(const luo_op_time *rows, int32_t n, luo_dtype dtype, double bytes_per_s,
                            luo_cpu_fit *out, luo_err *err)
{
    *out = (luo_cpu_fit){0};
    fit_products(rows, n, dtype, bytes_per_s, out);
    LUO_TRY(
        fit_attention(rows, n, dtype, false, out->peak_flops, &out->attention_forward_ratio, err));
    return fit_attention(rows, n, dtype, true, out->peak_flops, &out->attention_backward_ratio,
                         err);
}
