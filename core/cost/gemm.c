/* Matrix products (docs/cost-model.md#matrix-products) and measured times that replace formulas. */
#include <math.h>
#include <string.h>

#include "core/base/words.h"
#include "core/cost/cpu.h"
#include "core/cost/op.h"

static const struct {
    int64_t m, n;
    double efficiency;
} tiles[] = {{256, 128, 1.00}, {128, 256, 1.00}, {128, 128, 0.95},
             {128, 64, 0.80},  {64, 128, 0.80},  {64, 64, 0.60}};

bool luo_op_time_find(const luo_profile *profile, const char *op, luo_dtype dtype, int64_t m,
                      int64_t n, int64_t k, double *seconds)
{
    for (int32_t i = 0; i < profile->nop_times; i++) {
        const luo_op_time *time = &profile->op_times[i];
        if (time->dtype != dtype || time->m != m || time->n != n || time->k != k ||
            strcmp(time->op, op) != 0)
            continue;
        *seconds = time->seconds;
        return true;
    }
    return false;
}

static double ceil_div(int64_t x, int64_t y)
{
    return (double)(x / y + (x % y != 0));
}

/* Whole waves of tiles over the SMs; k0 elements of k fill and drain a tile. */
static double tile_seconds(const luo_profile *profile, double peak, double count, int64_t k,
                           size_t i)
{
    const double units =
        profile->sm_count > 0 ? ceil(count / profile->sm_count) * profile->sm_count : count;
    const double flops =
        2.0 * (double)(tiles[i].m * tiles[i].n) * ((double)k + profile->gemm_depth);
    return units * flops / (peak * profile->gemm_ratio * tiles[i].efficiency);
}

/* Operands of so many bytes move while tiles are computed. Weights of experts, and gradients of
 * them, do not: few rows come by for each (docs/cost-model.md#matrix-products). */
static double with_memory(const luo_profile *profile, double bandwidth, double compute,
                          double bytes, double weight_bytes)
{
    return fmax(compute, bytes / bandwidth) + weight_bytes / bandwidth + profile->launch_s;
}

/* Read and written. */
static const double SUM_BYTES = 2 * sizeof(float);

static luo_status peak_of(const luo_profile *profile, luo_dtype dtype, bool fp8, double *peak,
                          luo_err *err)
{
    *peak = profile->fp8_flops;
    if (!fp8) return luo_profile_peak(profile, dtype, peak, err);
    if (*peak > 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "profile `%s` has no value `peak_fp8_tflop_per_s` (not known in any "
                       "source); measure it with `luoshu calibrate`.",
                       profile->name);
}

static luo_status gemm(const luo_profile *profile, luo_dtype dtype, const luo_gemm *g, bool fp8,
                       double *seconds, luo_err *err)
{
    const double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    double peak = 0, bandwidth = 0, compute = HUGE_VAL;
    *seconds = 0;
    if (g->m <= 0 || g->n <= 0 || g->k <= 0 || g->batch <= 0) return LUO_OK;
    if (g->batch == 1 && g->form != LUO_GEMM_MISALIGNED && !fp8 &&
        luo_op_time_find(profile, "gemm", dtype, g->m, g->n, g->k, seconds))
        return LUO_OK;
    if (profile->cpu) {
        LUO_TRY(luo_cpu_gemm(profile, dtype, g, seconds, err));
        *seconds += profile->launch_s;
        return LUO_OK;
    }
    LUO_TRY(peak_of(profile, dtype, fp8, &peak, err));
    LUO_TRY(luo_op_stream_bytes_per_s(profile, &bandwidth, err));
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const double count =
            (double)g->batch * ceil_div(g->m, tiles[i].m) * ceil_div(g->n, tiles[i].n);
        compute = fmin(compute, tile_seconds(profile, peak, count, g->k, i));
    }
    if (g->form == LUO_GEMM_MISALIGNED) compute *= profile->misaligned_factor;
    const double e = (double)g->elem_bytes, q = (double)g->batch, in = fp8 ? 1 : e;
    double bytes = q * (in * (m * k + k * n) + e * m * n), weights = 0;
    if (g->form == LUO_GEMM_EXPERTS) weights = in * q * k * n, bytes -= weights;
    if (g->form == LUO_GEMM_SUMS) weights = SUM_BYTES * q * m * n, bytes -= e * q * m * n;
    *seconds = with_memory(profile, bandwidth, compute, bytes, weights);
    return LUO_OK;
}

/* Of tiles[i].m rows each. */
static double tiles_of_rows(const luo_cost_key *key, size_t i)
{
    int at = 0;
    while (LUO_GROUPED_TILE >> at != tiles[i].m) at++;
    return (double)key->a[5 + at];
}

static luo_status grouped(const luo_profile *profile, luo_dtype dtype, const luo_cost_key *key,
                          bool fp8, double *seconds, luo_err *err)
{
    const int64_t *a = key->a;
    const double rows = (double)a[0], n = (double)a[1], k = (double)a[2], experts = (double)a[3];
    double peak = 0, bandwidth = 0, compute = HUGE_VAL;
    *seconds = 0;
    if (a[0] <= 0 || a[1] <= 0 || a[2] <= 0 || a[3] <= 0) return LUO_OK;
    if (profile->cpu) { /* it has no tiles */
        const luo_gemm g = {
            (int64_t)ceil_div(a[0], a[3]), a[1], a[2], a[3], a[4], LUO_GEMM_EXPERTS};
        return gemm(profile, dtype, &g, fp8, seconds, err);
    }
    LUO_TRY(peak_of(profile, dtype, fp8, &peak, err));
    LUO_TRY(luo_op_stream_bytes_per_s(profile, &bandwidth, err));
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const double count = tiles_of_rows(key, i) * ceil_div(a[1], tiles[i].n);
        compute = fmin(compute, tile_seconds(profile, peak, count, a[2], i));
    }
    const double e = (double)a[4], in = fp8 ? 1 : e;
    *seconds = with_memory(profile, bandwidth, compute, rows * (in * k + e * n),
                           in * experts * k * n);
    return LUO_OK;
}

luo_status luo_cost_gemm(const luo_profile *profile, luo_dtype dtype, const luo_gemm *g,
                         double *seconds, luo_err *err)
{
    return gemm(profile, dtype, g, false, seconds, err);
}

luo_status luo_cost_grouped(const luo_profile *profile, luo_dtype dtype, const luo_cost_key *key,
                            double *seconds, luo_err *err)
{
    return grouped(profile, dtype, key, false, seconds, err);
}

/* ---- fp8 ---- */

const char *luo_fp8_recipe_name(luo_fp8_recipe recipe)
{
    static const char *const names[] = {LUO_FP8_RECIPE_LIST(LUO_WORD_TEXT)};
    return names[recipe];
}

/* Moved for an element of bf16 that becomes two of fp8, along rows and along columns, as backward
 * reads it the other way: read once, but by `current` once before for its largest; `blockwise` also
 * writes scales of 4 bytes for 128 elements. */
double luo_cost_cast_bytes(const luo_stack *stack)
{
    static const double bytes[LUO_FP8_RECIPES] = {[LUO_FP8_DELAYED] = 2 + 2,
                                                  [LUO_FP8_CURRENT] = 2 + 2 + 2,
                                                  [LUO_FP8_BLOCKWISE] = 2 + 2 + 2 * 4 / 128.0};
    return bytes[stack->fp8_recipe];
}

/* Forward is the first to read its input and, unless they were cast with their update, weights; dX
 * the gradient of its result. What backward reads of the former was written then. */
static luo_status casts(const luo_profile *profile, const luo_stack *stack, const luo_cost_key *key,
                        double *seconds, luo_err *err)
{
    const int64_t *a = key->a;
    const bool weights = a[LUO_COST_PRODUCT] == LUO_WEIGHTS_Y && !stack->fp8_weights_once;
    const double each = luo_cost_cast_bytes(stack);
    double here = 0, read = 0;
    LUO_TRY(luo_cost_stream(profile, each * (double)a[LUO_COST_CAST], &here, err));
    if (weights)
        LUO_TRY(luo_cost_stream(profile, each * (double)a[3] * (double)a[1] * (double)a[2], &read,
                                err));
    *seconds += here + read;
    return LUO_OK;
}

luo_status luo_cost_product(const luo_profile *profile, const luo_stack *stack, luo_dtype dtype,
                            const luo_cost_key *key, double *seconds, luo_err *err)
{
    const int64_t *a = key->a;
    const luo_gemm g = {a[0], a[1], a[2], a[3], a[4], (luo_gemm_form)a[5]};
    const bool fp8 = stack->fp8_recipe != LUO_FP8_NONE && a[LUO_COST_PRODUCT] != LUO_WEIGHTS_OTHER;
    if (key->kind == LUO_COST_GROUPED) LUO_TRY(grouped(profile, dtype, key, fp8, seconds, err));
    else LUO_TRY(gemm(profile, dtype, &g, fp8, seconds, err));
    return fp8 ? casts(profile, stack, key, seconds, err) : LUO_OK;
}
