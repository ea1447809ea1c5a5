#include "core/cost/fit/gpu_fit.h"

#include <math.h>
#include <string.h>

#include "core/cost/collective.h"
#include "core/cost/fit/search.h"

enum { PARAMS = LUO_GPU_PARAMS, BASIS = 3 /* dtypes */ };

typedef enum kind { GEMM, ATTENTION_F, ATTENTION_B, STREAM, KINDS } kind;

static const char *const ops[KINDS] = {"gemm", "attention_forward", "attention_backward", "stream"};

/* Names and defaults as in docs/formats.md, and bounds of the search. */
static const luo_search_param params[PARAMS] = {
    {"launch_us", 4, 0, 10, false},
    {"gemm_ratio", 0.80, 0.40, 0.97, false},
    {"gemm_depth", 64, 0, 400, false},
    {"memory_ratio", 0.72, 0.30, 0.97, false},
    {"attention_forward_ratio", 0.30, 0.10, 0.90, false},
    {"attention_backward_ratio", 0.33, 0.10, 0.90, false},
    {"attention_depth", 0, 0, 1000, false}};

const char *luo_gpu_param_name(luo_gpu_param p)
{
    return params[p].name;
}

static kind kind_of(const luo_op_time *time)
{
    int k = 0;
    while (k < KINDS && strcmp(time->op, ops[k]) != 0) k++;
    return time->seconds > 0 ? (kind)k : KINDS;
}

/* ---- predicting ---- */

typedef struct fitter {
    const luo_gpu_rows *rows;
    luo_profile profile; /* no tables: formulas alone */
    luo_dtype main;      /* whose products decide */
    luo_dtype only;      /* searching for the peak of another dtype: its products alone count */
    luo_search_param param[PARAMS];
} fitter;

static void put_values(luo_profile *profile, const double *v)
{
    profile->launch_s = v[LUO_GPU_LAUNCH] * 1e-6;
    profile->gemm_ratio = v[LUO_GPU_GEMM_RATIO];
    profile->gemm_depth = v[LUO_GPU_GEMM_DEPTH];
    profile->memory_ratio = v[LUO_GPU_MEMORY_RATIO];
    profile->attention_forward_ratio = v[LUO_GPU_ATTENTION_F];
    profile->attention_backward_ratio = v[LUO_GPU_ATTENTION_B];
    profile->attention_depth = v[LUO_GPU_ATTENTION_DEPTH];
}

static double predict(const luo_profile *profile, const luo_op_time *time, kind k)
{
    luo_err ignored = {0};
    double s = 0;
    const luo_gemm gemm = {time->m,       time->n, time->k, 1, luo_dtype_bytes(time->dtype),
                           LUO_GEMM_PLAIN};
    const luo_attention attention = {
        .heads = time->n, .head_dim = time->k, .sequences = 1, .tokens = time->m, .causal = true};
    const luo_status st = k == GEMM     ? luo_cost_gemm(profile, time->dtype, &gemm, &s, &ignored)
                          : k == STREAM ? luo_cost_stream(profile, (double)time->m, &s, &ignored)
                                        : luo_cost_attention(profile, time->dtype, &attention,
                                                             k == ATTENTION_B, &s, &ignored);
    return st == LUO_OK ? s : 0;
}

/* Mean |ln(predicted/measured)| of each kind of rows; their mean. */
static double mean_error(const fitter *f)
{
    double sum[KINDS] = {0}, all = 0;
    int32_t n[KINDS] = {0}, kinds = 0;
    for (int32_t i = 0; i < f->rows->n; i++) {
        const luo_op_time *time = &f->rows->at[i];
        const kind k = kind_of(time);
        if (k == KINDS || (k != STREAM && time->dtype != f->only)) continue;
        if (k != GEMM && f->only != f->main) continue;
        const double p = predict(&f->profile, time, k);
        if (!(p > 0)) return INFINITY;
        sum[k] += fabs(log(p / time->seconds));
        n[k]++;
    }
    for (int k = 0; k < KINDS; k++)
        if (n[k]) all += sum[k] / n[k], kinds++;
    return kinds ? all / kinds : 0;
}

static double error_of_values(void *ctx, const double *v)
{
    fitter *f = ctx;
    put_values(&f->profile, v);
    return mean_error(f);
}

static double error_of_peak(void *ctx, const double *v)
{
    fitter *f = ctx;
    f->profile.peak_flops[f->only] = v[0];
    return mean_error(f);
}

/* ---- what the rows hold ---- */

typedef struct survey {
    int32_t n[KINDS], products[BASIS];
    double fastest[BASIS]; /* product, flop/s */
    double stream;         /* fastest, bytes/s */
} survey;

static survey look(const luo_gpu_rows *rows)
{
    survey s = {0};
    for (int32_t i = 0; i < rows->n; i++) {
        const luo_op_time *time = &rows->at[i];
        const kind k = kind_of(time);
        if (k == KINDS) continue;
        s.n[k]++;
        if (k == STREAM) s.stream = fmax(s.stream, (double)time->m / time->seconds);
        if (k != GEMM) continue;
        s.products[time->dtype]++;
        s.fastest[time->dtype] =
            fmax(s.fastest[time->dtype],
                 2.0 * (double)time->m * (double)time->n * (double)time->k / time->seconds);
    }
    return s;
}

static luo_status begin(fitter *f, const luo_gpu_base *base, const survey *s, luo_gpu_fit *out,
                        luo_err *err)
{
    for (int d = 0; d < BASIS; d++)
        if (s->products[d] > s->products[f->main]) f->main = (luo_dtype)d;
    if (s->products[f->main] == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "there is no row of `gemm` among the measured operations; a profile "
                           "needs some.");
    if (!(base->memory_bytes_per_s > 0) && s->n[STREAM] == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "there is no row of `stream` among the measured operations; the memory "
                           "bandwidth follows from it.");
    f->only = f->main;
    f->profile.name = "fitted";
    f->profile.sm_count = base->sm_count;
    f->profile.misaligned_factor = 1;
    for (int d = 0; d < BASIS; d++) f->profile.peak_flops[d] = base->peak_flops[d];
    out->peak_measured[f->main] = !(base->peak_flops[f->main] > 0);
    if (out->peak_measured[f->main]) f->profile.peak_flops[f->main] = s->fastest[f->main];
    f->profile.memory_bytes_per_s =
        base->memory_bytes_per_s > 0 ? base->memory_bytes_per_s : s->stream;
    return LUO_OK;
}

static void fix(luo_search_param *param, double v)
{
    param->lo = param->hi = param->otherwise = v;
}

/* Bounds: what nothing was measured of stays at its default; a peak that is the fastest product can
 * be reached, and the best known product limits gemm_ratio. */
static void bound(fitter *f, const luo_gpu_base *base, const survey *s, luo_gpu_fit *out)
{
    const double known = s->fastest[f->main] / f->profile.peak_flops[f->main];
    memcpy(f->param, params, sizeof params);
    for (int i = 0; i < PARAMS; i++) out->fitted[i] = true;
    luo_search_param *eta = &f->param[LUO_GPU_GEMM_RATIO];
    eta->hi = fmax(eta->lo, fmin(out->peak_measured[f->main] ? 1 : eta->hi, 1.05 * known));
    eta->otherwise = fmin(eta->otherwise, eta->hi);
    if (!(base->memory_bytes_per_s > 0)) f->param[LUO_GPU_MEMORY_RATIO].hi = 1;
    if (base->launch_s >= 0) {
        fix(&f->param[LUO_GPU_LAUNCH], base->launch_s * 1e6);
        out->fitted[LUO_GPU_LAUNCH] = false;
    }
    for (int i = LUO_GPU_ATTENTION_F; i <= LUO_GPU_ATTENTION_DEPTH; i++) {
        const int32_t attended = i == LUO_GPU_ATTENTION_F   ? s->n[ATTENTION_F]
                                 : i == LUO_GPU_ATTENTION_B ? s->n[ATTENTION_B]
                                                            : s->n[ATTENTION_F] + s->n[ATTENTION_B];
        if (attended) continue;
        fix(&f->param[i], params[i].otherwise);
        out->fitted[i] = false;
    }
}

/* Products of another dtype without a known peak: the one that makes them come out best. */
static void find_peak(fitter *f, luo_dtype d, const survey *s, uint64_t seed, luo_gpu_fit *out)
{
    if (d == f->main || f->profile.peak_flops[d] > 0 || s->products[d] == 0) return;
    const luo_search_param peak = {"peak", s->fastest[d], 0.5 * s->fastest[d], 4 * s->fastest[d],
                                   true};
    double best = 0;
    f->only = d;
    luo_search_pattern(&peak, 1, seed, error_of_peak, f, &best);
    f->profile.peak_flops[d] = best;
    f->only = f->main;
    out->peak_fitted[d] = true;
}

luo_status luo_gpu_fit_rows(const luo_gpu_rows *rows, const luo_gpu_base *base, uint64_t seed,
                            luo_gpu_fit *out, luo_err *err)
{
    fitter f = {.rows = rows};
    const survey s = look(rows);
    *out = (luo_gpu_fit){0};
    LUO_TRY(begin(&f, base, &s, out, err));
    bound(&f, base, &s, out);
    luo_search_pattern(f.param, PARAMS, seed, error_of_values, &f, out->value);
    for (int i = 0; i < PARAMS; i++)
        out->weak[i] = luo_search_weak(f.param, PARAMS, i, error_of_values, &f, out->value);
    out->error = error_of_values(&f, out->value);
    for (int d = 0; d < BASIS; d++) find_peak(&f, (luo_dtype)d, &s, seed, out);
    memcpy(out->peak_flops, f.profile.peak_flops, sizeof out->peak_flops);
    for (int k = 0; k < KINDS; k++) out->rows += s.n[k];
    return LUO_OK;
}

/* ---- stage 1: collectives of several nodes ---- */

enum { GRID = 64, STEPS = 12 };
static const double net_lo[3] = {0.30, 1e6, 2.7e-6}, net_hi[3] = {1.0, 1e8, 1e-3};

static double net_seconds(const luo_net_row *row, const double v[3])
{
    const luo_net_link link = {.node_bytes_per_s = row->node_bytes_per_s,
                               .ratio = v[0],
                               .half_bytes = v[1],
                               .step_s = v[2],
                               .bytes_per_s = HUGE_VAL,
                               .members = row->members};
    double least = HUGE_VAL;
    for (int w = 0; w < LUO_NET_ALGORITHMS; w++) {
        const luo_net net =
            luo_net_time(&link, row->coll, row->nodes, row->bytes, (luo_net_algorithm)w);
        least = fmin(least, net.delay_s + net.seconds / row->share);
    }
    return fmax(least, row->inside_s);
}

static double net_error(const luo_net_row *rows, int32_t n, const double v[3])
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const double e = log(net_seconds(&rows[i], v) / rows[i].seconds);
        sum += e * e;
    }
    return sum;
}

/* Point k of n from lo to hi, in logarithms. */
static double log_at(double lo, double hi, int k, int n)
{
    return lo * pow(hi / lo, k / (n - 1.0));
}

/* Best point of a grid over [lo, hi]; second and third axis in logarithms. */
static void search_grid(const luo_net_row *rows, int32_t n, const double lo[3], const double hi[3],
                        double best[3])
{
    double least = INFINITY;
    const double from[3] = {lo[0], lo[1], lo[2]}, to[3] = {hi[0], hi[1], hi[2]};
    for (int k = 0; k < STEPS; k++)
        for (int i = 0; i < GRID; i++)
            for (int j = 0; j < GRID; j++) {
                const double v[3] = {from[0] + i * (to[0] - from[0]) / (GRID - 1),
                                     log_at(from[1], to[1], j, GRID),
                                     log_at(from[2], to[2], k, STEPS)};
                const double e = net_error(rows, n, v);
                if (e >= least * (1 - 1e-9)) continue;
                least = e;
                memcpy(best, v, sizeof v);
            }
}

luo_net_fitted luo_fit_net(const luo_net_row *rows, int32_t n)
{
    double best[3] = {0}, lo[3], hi[3], mean = 0;
    search_grid(rows, n, net_lo, net_hi, best);
    for (int a = 0; a < 3; a++) {
        const int points = a == 2 ? STEPS : GRID;
        const double factor = pow(net_hi[a] / net_lo[a], 1.0 / (points - 1));
        const double step = (net_hi[a] - net_lo[a]) / (points - 1);
        lo[a] = fmax(net_lo[a], a == 0 ? best[a] - step : best[a] / factor);
        hi[a] = fmin(net_hi[a], a == 0 ? best[a] + step : best[a] * factor);
    }
    search_grid(rows, n, lo, hi, best);
    for (int32_t i = 0; i < n; i++) mean += sqrt(net_error(&rows[i], 1, best)) / n;
    return (luo_net_fitted){best[0], best[1], best[2], mean};
}

/* ---- stage 3: the host ---- */

typedef struct hosts {
    const luo_host_row *at;
    int32_t n;
} hosts;

static double host_error(void *ctx, const double *v)
{
    const hosts *h = ctx;
    const luo_stack stack = {.host_launch_s = v[0] * 1e-6, .host_exponent = v[1]};
    double sum = 0;
    for (int32_t i = 0; i < h->n; i++)
        sum += fabs(log(luo_cost_host(&stack, h->at[i].gpu_s, h->at[i].kernels) / h->at[i].step_s));
    return sum / h->n;
}

double luo_fit_host(const luo_host_row *rows, int32_t n, uint64_t seed, double *host_launch_us,
                    double *host_exponent, bool weak[2])
{
    static const luo_search_param param[2] = {{"host_launch_us", 15, 0.1, 120, true},
                                              {"host_exponent", 3, 2, 12, false}};
    hosts h = {rows, n};
    double v[LUO_SEARCH_PARAMS];
    luo_search_pattern(param, 2, seed, host_error, &h, v);
    for (int i = 0; i < 2; i++) weak[i] = luo_search_weak(param, 2, i, host_error, &h, v);
    *host_launch_us = v[0];
    *host_exponent = v[1];
    return host_error(&h, v);
}
