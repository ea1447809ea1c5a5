#include "core/plan/suite/suite_effects.h"

#include <math.h>
#include <string.h>

/* ---- what hangs on what ---- */

/* Not h20: with a seventh of the peak beside the same memory, products reach another share of it.
 */
static const struct {
    const char *profile, *architecture;
} architectures[] = {
    {"p100", "pascal"},     {"v100-16", "volta"},    {"v100-32", "volta"},   {"t4", "turing"},
    {"rtx-2080", "turing"}, {"titan-rtx", "turing"}, {"a100-40", "ampere"},  {"a100-80", "ampere"},
    {"a800", "ampere"},     {"a10", "ampere"},       {"rtx-3090", "ampere"}, {"l4", "ada"},
    {"rtx-3080", "ampere"},
    {"l40s", "ada"},        {"rtx-4090", "ada"},     {"h100", "hopper"},     {"h100-96", "hopper"},
    {"h200", "hopper"},     {"gh200", "hopper"},     {"h800", "hopper"},     {"b200", "blackwell"},
    {"b300", "blackwell"},  {"gb200", "blackwell"},  {"gb300", "blackwell"}, {"mi250x", "cdna2"},
    {"mi300x", "cdna3"},
};

const char *luo_effects_architecture(const char *profile)
{
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strcmp(architectures[i].profile, profile) == 0) return architectures[i].architecture;
    return NULL;
}

/* Constants of GPU types, of all architectures and of software, with what is believed before a row
 * is seen. Widths are standard deviations of logarithms (specs: accuracy 22.2). */
typedef struct constant_belief {
    const char *key;
    double prior, lo, hi;                    /* in the unit of the key */
    double all, architecture, gpu, software; /* widths; 0: no such level */
} constant_belief;
static const constant_belief beliefs[] = {
    {"gemm_ratio", 0.65, 0.2, 0.97, 0.25, 0.15, 0.15, 0},
    {"memory_ratio", 0.72, 0.3, 0.97, 0.15, 0.15, 0.15, 0},
    {"attention_forward_ratio", 0.40, 0.1, 0.9, 0.1, 0.1, 0.1, 0},
    {"attention_backward_ratio", 0.30, 0.1, 0.9, 0.1, 0.1, 0.1, 0},
    {"gemm_ratio", 1, 0.5, 1.5, 0, 0, 0, 0.1},
    {"attention_ratio", 1, 0.3, 2, 0, 0, 0, 0.2},
};
/* Efficiencies of GPUs are said for these, whose own factor is 1; that of others is found. */
static const char *const references[] = {"megatron", "megatron-core", "megatron-deepspeed", "fsdp"};
enum { BELIEFS = sizeof beliefs / sizeof *beliefs };

/* ---- constants of a pool ---- */

typedef struct named_constant { /* a constant of the fit */
    const constant_belief *belief;
    luo_effects_level level;
    const char *of;
} named_constant;

typedef struct fitted_case { /* of a row of the fit */
    const luo_case *one;
    int32_t gpu, software; /* of the pool */
} fitted_case;

typedef struct pool_fit {
    luo_arena *arena, *scratch;
    const luo_suite_effects *pool;
    named_constant *named;
    luo_effects_constant *constant;
    int32_t nconstants;
    int32_t *of_gpu, *of_software; /* [member * BELIEFS + belief]: a constant; -1: none */
    luo_effects_row *row;
    fitted_case *fitted; /* of these rows */
    int32_t *in_source;  /* rows of each source */
} pool_fit;

static int32_t add_constant(pool_fit *fit, const constant_belief *belief, luo_effects_level level,
                            const char *of, int32_t parent, double width)
{
    for (int32_t i = 0; i < fit->nconstants; i++)
        if (fit->named[i].belief == belief && fit->named[i].level == level &&
            strcmp(fit->named[i].of, of) == 0)
            return i;
    fit->named[fit->nconstants] = (named_constant){belief, level, of};
    /* Only what rows use has bounds: levels above are means of logarithms. */
    const bool used = level == LUO_EFFECTS_GPU || level == LUO_EFFECTS_SOFTWARE;
    fit->constant[fit->nconstants] =
        (luo_effects_constant){.prior = parent < 0 ? log(belief->prior) : 0,
                               .width = width,
                               .parent = parent,
                               .lo = used ? log(belief->lo) : -INFINITY,
                               .hi = used ? log(belief->hi) : INFINITY};
    return fit->nconstants++;
}

static int32_t add_gpu_constant(pool_fit *fit, const constant_belief *belief, const char *gpu)
{
    if (!(belief->all > 0)) return -1;
    const char *architecture = luo_effects_architecture(gpu);
    int32_t at = add_constant(fit, belief, LUO_EFFECTS_ALL, "", -1, belief->all);
    if (architecture && belief->architecture > 0)
        at = add_constant(fit, belief, LUO_EFFECTS_ARCHITECTURE, architecture, at,
                          belief->architecture);
    return belief->gpu > 0 ? add_constant(fit, belief, LUO_EFFECTS_GPU, gpu, at, belief->gpu) : at;
}

static int32_t add_software_constant(pool_fit *fit, const constant_belief *belief,
                                     const char *software)
{
    if (!(belief->software > 0)) return -1;
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        if (strcmp(references[i], software) == 0) return -1;
    return add_constant(fit, belief, LUO_EFFECTS_SOFTWARE, software, -1, belief->software);
}

static luo_status make_constants(pool_fit *fit, luo_err *err)
{
    const luo_suite_effects *pool = fit->pool;
    const int64_t most = BELIEFS * (3 * (int64_t)pool->ngpus + pool->nsoftware + 1);
    fit->named = LUO_NEW_N(fit->arena, named_constant, most);
    fit->constant = LUO_NEW_N(fit->arena, luo_effects_constant, most);
    fit->of_gpu = LUO_NEW_N(fit->arena, int32_t, (int64_t)pool->ngpus * BELIEFS + 1);
    fit->of_software = LUO_NEW_N(fit->arena, int32_t, (int64_t)pool->nsoftware * BELIEFS + 1);
    if (!fit->named || !fit->constant || !fit->of_gpu || !fit->of_software)
        return luo_err_nomem(err);
    for (int32_t k = 0; k < BELIEFS; k++) {
        for (int32_t i = 0; i < pool->ngpus; i++)
            fit->of_gpu[i * BELIEFS + k] = add_gpu_constant(fit, &beliefs[k], pool->gpus[i].name);
        for (int32_t i = 0; i < pool->nsoftware; i++)
            fit->of_software[i * BELIEFS + k] =
                add_software_constant(fit, &beliefs[k], pool->software[i].name);
    }
    return LUO_OK;
}

/* ---- constants into profiles and stacks ---- */

static void set_gpu(const pool_fit *fit, int32_t i, const double *value)
{
    const luo_effects_gpu *gpu = &fit->pool->gpus[i];
    const int32_t *of = fit->of_gpu + (size_t)i * BELIEFS;
    for (int32_t k = 0; k < BELIEFS; k++) {
        if (of[k] < 0) continue;
        const double ratio = exp(value[of[k]]);
        const char *key = beliefs[k].key;
        if (strcmp(key, "gemm_ratio") == 0) gpu->at->gemm_ratio = ratio;
        if (strcmp(key, "memory_ratio") == 0) gpu->at->memory_ratio = ratio;
        if (strcmp(key, "attention_forward_ratio") == 0)
            gpu->at->attention_forward_ratio = ratio;
        if (strcmp(key, "attention_backward_ratio") == 0)
            gpu->at->attention_backward_ratio = ratio;
    }
}

static luo_status set_software(const pool_fit *fit, int32_t i, const double *value, luo_err *err)
{
    const int32_t *of = fit->of_software + (size_t)i * BELIEFS;
    for (int32_t k = 0; k < BELIEFS; k++)
        if (of[k] >= 0)
            LUO_TRY(
                luo_stack_set(fit->pool->software[i].at, beliefs[k].key, exp(value[of[k]]), err));
    return LUO_OK;
}

/* The logarithm of the step at these values. */
static luo_status predict_case(const pool_fit *fit, const fitted_case *of, const double *value,
                               double *out, luo_err *err)
{
    luo_step_cost cost;
    set_gpu(fit, of->gpu, value);
    LUO_TRY(set_software(fit, of->software, value, err));
    LUO_TRY(luo_case_closed(fit->scratch, of->one, &cost, err));
    *out = log(cost.step);
    return LUO_OK;
}

static luo_status predict_row(void *ctx, const double *value, int32_t row, double *out,
                              luo_err *err)
{
    const pool_fit *fit = ctx;
    return predict_case(fit, &fit->fitted[row], value, out, err);
}

/* ---- rows ---- */

static bool can_be_fitted(const luo_case *one)
{
    return one->cluster && one->measured_s > 0 && !luo_suite_excluded(one->row) &&
           one->row->cp <= 1 && one->row->experts == 0 && one->cluster->ngroups == 1;
}

/* Its GPU type and software in the pool; -1: not there. */
static fitted_case find_members(const luo_suite_effects *pool, const luo_case *one)
{
    fitted_case of = {one, -1, -1};
    for (int32_t i = pool->ngpus - 1; i >= 0; i--)
        if (pool->gpus[i].at == one->profile) of.gpu = i;
    for (int32_t i = pool->nsoftware - 1; i >= 0; i--)
        if (pool->software[i].at == one->stack) of.software = i;
    return of;
}

static int32_t find_source(luo_suite_effects_result *out, const char *suite)
{
    for (int32_t i = 0; i < out->nsources; i++)
        if (strcmp(out->source[i], suite) == 0) return i;
    out->source[out->nsources] = suite;
    return out->nsources++;
}

enum { USES = 2 * BELIEFS };

/* Constants that move a prediction, at most USES; returns how many. */
static int32_t list_uses(const pool_fit *fit, const fitted_case *of, int32_t *uses)
{
    int32_t n = 0;
    for (int32_t k = 0; k < BELIEFS; k++) {
        const int32_t of_gpu = fit->of_gpu[of->gpu * BELIEFS + k];
        const int32_t of_software = fit->of_software[of->software * BELIEFS + k];
        if (of_gpu >= 0) uses[n++] = of_gpu;
        if (of_software >= 0) uses[n++] = of_software;
    }
    return n;
}

static luo_status add_row(pool_fit *fit, const luo_case *one, luo_suite_effects_result *out,
                          luo_err *err)
{
    const fitted_case of = find_members(fit->pool, one);
    luo_step_cost cost;
    luo_err why;
    if (of.gpu < 0 || of.software < 0 || !can_be_fitted(one) ||
        luo_case_closed(fit->scratch, one, &cost, &why) != LUO_OK)
        return LUO_OK;
    int32_t *uses = LUO_NEW_N(fit->arena, int32_t, USES);
    if (!uses) return luo_err_nomem(err);
    const int32_t nuses = list_uses(fit, &of, uses), source = find_source(out, one->row->suite);
    fit->in_source[source]++;
    fit->row[out->nrows] = (luo_effects_row){source, log(one->measured_s), 1, uses, nuses};
    fit->fitted[out->nrows++] = of;
    return LUO_OK;
}

/* Rows of a source weigh together at most like so many. */
static const double source_rows = 20;

static luo_status make_rows(pool_fit *fit, luo_suite_effects_result *out, luo_err *err)
{
    const int32_t n = fit->pool->ncases;
    fit->row = LUO_NEW_N(fit->arena, luo_effects_row, n + 1);
    fit->fitted = LUO_NEW_N(fit->arena, fitted_case, n + 1);
    fit->in_source = LUO_NEW_N(fit->arena, int32_t, n + 1);
    out->source = LUO_NEW_N(fit->arena, const char *, n + 1);
    if (!fit->row || !fit->fitted || !fit->in_source || !out->source) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) LUO_TRY(add_row(fit, fit->pool->cases[i], out, err));
    for (int32_t i = 0; i < out->nrows; i++)
        fit->row[i].weight = fmin(1, source_rows / fit->in_source[fit->row[i].source]);
    return LUO_OK;
}

/* ---- cases that were left out ---- */

/* Of the prediction, by differences; false: the case has no closed form. */
static bool find_slope(const pool_fit *fit, const fitted_case *of, double *value, int32_t constant,
                       double *slope)
{
    const double at = value[constant], difference = 0.02;
    double low, high;
    luo_err why;
    value[constant] = at - difference;
    bool there = predict_case(fit, of, value, &low, &why) == LUO_OK;
    value[constant] = at + difference;
    there = there && predict_case(fit, of, value, &high, &why) == LUO_OK;
    value[constant] = at;
    if (there) *slope = (high - low) / (2 * difference);
    return there;
}

/* The standard deviation that constants, by their covariance, its source and noise give a
 * prediction; NAN: it has no closed form. */
static double find_spread(const pool_fit *fit, const luo_case *one, luo_effects_result *fitted)
{
    const fitted_case of = find_members(fit->pool, one);
    int32_t uses[USES];
    double slope[USES], variance = fitted->noise * fitted->noise;
    if (!one->cluster || of.gpu < 0 || of.software < 0) return NAN;
    const int32_t n = list_uses(fit, &of, uses);
    for (int32_t i = 0; i < n; i++)
        if (!find_slope(fit, &of, fitted->value, uses[i], &slope[i])) return NAN;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++)
            variance += slope[i] * slope[k] * luo_effects_covariance(fitted, uses[i], uses[k]);
    return sqrt(variance + fitted->between * fitted->between);
}

static luo_status find_left_spread(const pool_fit *fit, luo_effects_result *fitted,
                                   luo_suite_effects_result *out, luo_err *err)
{
    out->left_spread = LUO_NEW_N(fit->arena, double, fit->pool->nleft + 1);
    if (!out->left_spread) return luo_err_nomem(err);
    for (int32_t i = 0; i < fit->pool->nleft; i++)
        out->left_spread[i] = find_spread(fit, fit->pool->left[i], fitted);
    return LUO_OK;
}

/* ---- the fit ---- */

static luo_status set_all(const pool_fit *fit, const double *value, luo_err *err)
{
    for (int32_t i = 0; i < fit->pool->ngpus; i++) set_gpu(fit, i, value);
    for (int32_t i = 0; i < fit->pool->nsoftware; i++) LUO_TRY(set_software(fit, i, value, err));
    return LUO_OK;
}

static luo_status name_constants(const pool_fit *fit, const luo_effects_result *fitted,
                                 luo_suite_effects_result *out, luo_err *err)
{
    out->n = fit->nconstants;
    out->constant = LUO_NEW_N(fit->arena, luo_effects_named, out->n + 1);
    if (!out->constant) return luo_err_nomem(err);
    for (int32_t i = 0; i < out->n; i++) {
        const luo_effects_constant *constant = &fit->constant[i];
        const double above = constant->parent >= 0 ? fitted->value[constant->parent] : 0;
        out->constant[i] = (luo_effects_named){.level = fit->named[i].level,
                                               .of = fit->named[i].of,
                                               .key = fit->named[i].belief->key,
                                               .value = exp(fitted->value[i]),
                                               .prior = exp(constant->prior + above),
                                               .spread = fitted->spread[i],
                                               .state = fitted->state[i],
                                               .rows = fitted->rows[i],
                                               .sources = fitted->sources[i]};
    }
    return LUO_OK;
}

static luo_status fit_pool(pool_fit *fit, luo_suite_effects_result *out, luo_err *err)
{
    luo_effects_result fitted;
    LUO_TRY(make_constants(fit, err));
    LUO_TRY(make_rows(fit, out, err));
    const luo_effects pool = {.constant = fit->constant,
                              .row = fit->row,
                              .nconstants = fit->nconstants,
                              .nrows = out->nrows,
                              .nsources = out->nsources,
                              .predict = predict_row,
                              .ctx = fit};
    LUO_TRY(luo_effects_fit(fit->arena, &pool, &fitted, err));
    LUO_TRY(find_left_spread(fit, &fitted, out, err));
    LUO_TRY(set_all(fit, fitted.value, err));
    out->effect = fitted.effect;
    out->noise = fitted.noise;
    out->between = fitted.between;
    out->error = fitted.error;
    out->bias = fitted.bias;
    return name_constants(fit, &fitted, out, err);
}

luo_status luo_suite_effects_fit(luo_arena *arena, const luo_suite_effects *pool,
                                 luo_suite_effects_result *out, luo_err *err)
{
    pool_fit fit = {.arena = arena, .pool = pool, .scratch = luo_arena_new(1 << 16)};
    *out = (luo_suite_effects_result){0};
    const luo_status st = fit.scratch ? fit_pool(&fit, out, err) : luo_err_nomem(err);
    luo_arena_free(fit.scratch);
    return st;
}
