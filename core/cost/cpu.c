#include "core/cost/cpu.h"

#include <math.h>
#include <string.h>

#include "core/cost/op.h"

/* ---- sizes ---- */

static int64_t volume(const luo_buffer *buffer)
{
    int64_t n = 1;
    for (int32_t d = 0; d < buffer->rank; d++) n *= buffer->dim[d];
    return n;
}

/* An embedding touches a row of its table per token, not the table. */
static bool counts(const luo_buffer *buffer, luo_op_size size)
{
    const bool table =
        buffer->buffer_class == LUO_BUFFER_WEIGHT || buffer->buffer_class == LUO_BUFFER_GRADIENT;
    return !table || size != LUO_OP_SIZE_TABLE;
}

static luo_op_size size_of(luo_op_kind kind)
{
    return kind < LUO_OP_KINDS ? luo_op_desc_of(kind)->size : LUO_OP_SIZE_STREAM;
}

luo_cpu_size luo_cpu_size_of(const luo_role *role, const luo_instr *in, luo_op_kind kind)
{
    const luo_op_size size = size_of(kind);
    const int64_t *a = in->cost.a;
    luo_cpu_size cpu_size = {0, 0, 0};
    if (in->cost.kind == LUO_COST_GEMM) return (luo_cpu_size){a[0], a[1], a[2]};
    if (in->cost.kind == LUO_COST_ATTENTION_F || in->cost.kind == LUO_COST_ATTENTION_B) {
        const int64_t each = a[3] > 0 ? a[3] : a[2];
        if (a[5] > 0) { /* one sequence of as many pairs */
            const double square = (double)a[5] * (a[4] & LUO_ATTENTION_CAUSAL ? 2 : 1);
            return (luo_cpu_size){llround(sqrt(square)), a[0], a[1]};
        }
        const int64_t sequences = each > 0 ? (a[2] + each - 1) / each : 0;
        const double w = a[7] > 0 && a[7] < each ? (double)a[7] : (double)each; /* of a window */
        const double square = w * (2 * (double)each - w); /* of a sequence with as many pairs */
        return (luo_cpu_size){llround(sqrt(square)), a[0] * sequences, a[1]};
    }
    if (size != LUO_OP_SIZE_SUM) cpu_size = (luo_cpu_size){0, in->nin, in->nout};
    for (int32_t i = 0; i < in->nin; i++)
        if (counts(&role->buf[in->in[i]], size)) cpu_size.m += volume(&role->buf[in->in[i]]);
    for (int32_t i = 0; i < in->nout; i++)
        if (counts(&role->buf[in->out[i]], size)) cpu_size.m += volume(&role->buf[in->out[i]]);
    return cpu_size;
}

/* ---- formulas ---- */

luo_status luo_cpu_gemm(const luo_profile *profile, luo_dtype dtype, const luo_gemm *gemm,
                        double *seconds, luo_err *err)
{
    const double m = (double)gemm->m, n = (double)gemm->n, k = (double)gemm->k,
                 q = (double)gemm->batch;
    double peak = 0, bandwidth = 0;
    *seconds = 0;
    if (gemm->m <= 0 || gemm->n <= 0 || gemm->k <= 0 || gemm->batch <= 0) return LUO_OK;
    LUO_TRY(luo_profile_peak(profile, dtype, &peak, err));
    LUO_TRY(luo_op_stream_bytes_per_s(profile, &bandwidth, err));
    *seconds = q * (2 * m * n * (k + profile->gemm_depth) / (peak * profile->gemm_ratio) +
                    (double)gemm->elem_bytes * (m * k + k * n + 2 * m * n) / bandwidth);
    return LUO_OK;
}

/* Formula for a size of the kinds that have one. */
static luo_status formula(const luo_profile *profile, luo_dtype dtype, luo_op_kind kind,
                          luo_cpu_size size, double *seconds, luo_err *err)
{
    if (size_of(kind) == LUO_OP_SIZE_PRODUCT) {
        const luo_gemm gemm = {size.m, size.n, size.k, 1, luo_dtype_bytes(dtype), LUO_GEMM_PLAIN};
        return luo_cpu_gemm(profile, dtype, &gemm, seconds, err);
    }
    const luo_attention attention = {
        .heads = size.n, .head_dim = size.k, .sequences = 1, .tokens = size.m, .causal = true};
    const bool backward = kind == LUO_OP_ATTENTION_DX;
    LUO_TRY(luo_cost_attention(profile, dtype, &attention, backward, seconds, err));
    *seconds -= *seconds > 0 ? profile->launch_s : 0;
    return LUO_OK;
}

/* ---- rows ---- */

static bool is_row(const luo_op_time *time, const char *kind, luo_dtype dtype)
{
    return time->dtype == dtype && time->seconds > 0 && strcmp(time->op, kind) == 0;
}

static double apart(int64_t a, int64_t b)
{
    const double x = log2((double)(a > 0 ? a : 1) / (double)(b > 0 ? b : 1));
    return x * x;
}

/* Measured over formula, as rows near in log size have it (inverse distance, Shepard 1968): exact
 * at a row. 1 if there are no rows. */
static luo_status ratio(const luo_profile *profile, luo_dtype dtype, luo_op_kind kind,
                        luo_cpu_size size, double *out, luo_err *err)
{
    double sum = 0, weights = 0;
    *out = 1;
    for (int32_t i = 0; i < profile->nop_times; i++) {
        const luo_op_time *time = &profile->op_times[i];
        if (!is_row(time, luo_op_kind_name(kind), dtype)) continue;
        const double d = apart(time->m, size.m) + apart(time->n, size.n) + apart(time->k, size.k);
        double by_formula = 0;
        LUO_TRY(formula(profile, dtype, kind, (luo_cpu_size){time->m, time->n, time->k},
                        &by_formula, err));
        if (!(by_formula > 0)) continue;
        if (d == 0) {
            *out = time->seconds / by_formula;
            return LUO_OK;
        }
        const double w = 1 / (d * d);
        sum += w * log(time->seconds / by_formula);
        weights += w;
    }
    if (weights > 0) *out = exp(sum / weights);
    return LUO_OK;
}

/* Linear in m through 0 and the rows of as many operands; in proportion beyond the last. False: no
 * rows. */
static bool interpolate(const luo_profile *profile, luo_dtype dtype, const char *kind,
                        luo_cpu_size size, double *seconds)
{
    const double m = (double)size.m;
    double lo = 0, lo_s = 0, hi = HUGE_VAL, hi_s = 0;
    bool any = false;
    for (int32_t i = 0; i < profile->nop_times; i++) {
        const luo_op_time *time = &profile->op_times[i];
        const double at = (double)time->m;
        if (!is_row(time, kind, dtype) || time->m <= 0 || time->n != size.n || time->k != size.k)
            continue;
        any = true;
        if (at <= m && at > lo) {
            lo = at;
            lo_s = time->seconds;
        }
        if (at >= m && at < hi) {
            hi = at;
            hi_s = time->seconds;
        }
    }
    if (hi < HUGE_VAL)
        *seconds = hi > lo ? lo_s + (m - lo) / (hi - lo) * (hi_s - lo_s) : lo_s;
    else
        *seconds = lo > 0 ? lo_s * m / lo : 0;
    return any;
}

static bool has_formula(luo_op_kind kind)
{
    return size_of(kind) == LUO_OP_SIZE_PRODUCT || size_of(kind) == LUO_OP_SIZE_ATTENTION;
}

luo_status luo_cpu_seconds(const luo_profile *profile, luo_dtype dtype, const char *name,
                           luo_cpu_size size, double *seconds, bool *known, luo_err *err)
{
    const luo_op_kind kind = luo_op_kind_of(name);
    double factor = 1;
    *seconds = 0;
    *known = true;
    if (!has_formula(kind)) {
        *known = interpolate(profile, dtype, name, size, seconds);
        return LUO_OK;
    }
    LUO_TRY(formula(profile, dtype, kind, size, seconds, err));
    LUO_TRY(ratio(profile, dtype, kind, size, &factor, err));
    *seconds *= factor;
    return LUO_OK;
}

/* Sizes of products and attention are those of their keys. */
static bool has_sizes(const luo_instr *in, luo_op_kind kind)
{
    if (size_of(kind) == LUO_OP_SIZE_PRODUCT) return in->cost.kind == LUO_COST_GEMM;
    if (size_of(kind) != LUO_OP_SIZE_ATTENTION) return true;
    return in->cost.kind == LUO_COST_ATTENTION_F || in->cost.kind == LUO_COST_ATTENTION_B;
}

luo_status luo_cpu_instr(const luo_cost_ctx *ctx, const luo_profile *profile, const luo_role *role,
                         const luo_instr *in, double *seconds, luo_err *err)
{
    const luo_op_info *op = ctx->ops && in->op < ctx->nops ? &ctx->ops[in->op] : NULL;
    const luo_op_kind kind = op ? op->kind : LUO_OP_KINDS;
    bool known = false;
    if (has_sizes(in, kind))
        LUO_TRY(luo_cpu_seconds(profile, ctx->dtype, op ? luo_op_info_kind(op) : "",
                                luo_cpu_size_of(role, in, kind), seconds, &known, err));
    if (!known) {
        LUO_TRY(luo_cost_key_seconds(profile, ctx->stack, &in->cost, ctx->dtype, seconds, err));
        *seconds -= *seconds > 0 ? profile->launch_s : 0;
    }
    *seconds += profile->launch_s;
    return LUO_OK;
}
