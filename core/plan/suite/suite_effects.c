#include "core/plan/suite/suite_effects.h"

#include <math.h>
#include <string.h>

static const char *const level_names[] = {LUO_EFFECTS_LEVEL_LIST(LUO_WORD_TEXT)};

const char *luo_effects_level_name(luo_effects_level level)
{
    return level_names[level];
}

/* ---- what hangs on what ---- */

/* Not h20: with a seventh of the peak beside the same memory, products reach another share of it.
 */
static const struct {
    const char *profile, *architecture;
} architectures[] = {
    {"p100", "pascal"},     {"v100-16", "volta"},    {"v100-32", "volta"},   {"t4", "turing"},
    {"rtx-2080", "turing"}, {"titan-rtx", "turing"}, {"a100-40", "ampere"},  {"a100-80", "ampere"},
    {"a800", "ampere"},     {"a10", "ampere"},       {"rtx-3090", "ampere"}, {"l4", "ada"},
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
typedef struct believed {
    const char *key;
    double prior, lo, hi;                    /* in the unit of the key */
    double all, architecture, gpu, software; /* widths; 0: no such level */
} believed;
static const believed beliefs[] = {
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

typedef struct term { /* a constant of the fit */
    const believed *belief;
    luo_effects_level level;
    const char *of;
} term;
typedef struct builder {
    luo_arena *arena;
    const luo_suite_effects *pool;
    term *term;
    luo_effects_constant *constant;
    int32_t n, cap;
    int32_t *of_gpu, *of_software; /* [member * BELIEFS + belief]: a constant; -1: none */
    const luo_case **cases;        /* of the rows of the fit */
    int32_t *gpu, *software;       /* of these rows */
    luo_arena *scratch;
} builder;

static int32_t add_constant(builder *b, const believed *belief, luo_effects_level level,
                            const char *of, int32_t parent, double width)
{
    for (int32_t i = 0; i < b->n; i++)
        if (b->term[i].belief == belief && b->term[i].level == level &&
            strcmp(b->term[i].of, of) == 0)
            return i;
    b->term[b->n] = (term){belief, level, of};
    /* Only what rows use has bounds: levels above are means of logarithms. */
    const bool used = level == LUO_EFFECTS_GPU || level == LUO_EFFECTS_SOFTWARE;
    b->constant[b->n] = (luo_effects_constant){.prior = parent < 0 ? log(belief->prior) : 0,
                                               .width = width,
                                               .parent = parent,
                                               .lo = used ? log(belief->lo) : -INFINITY,
                                               .hi = used ? log(belief->hi) : INFINITY};
    return b->n++;
}

static int32_t gpu_constant(builder *b, const believed *belief, const char *gpu)
{
    const char *architecture = luo_effects_architecture(gpu);
    int32_t at = add_constant(b, belief, LUO_EFFECTS_ALL, "", -1, belief->all);
    if (architecture && belief->architecture > 0)
        at = add_constant(b, belief, LUO_EFFECTS_ARCHITECTURE, architecture, at,
                          belief->architecture);
    return belief->gpu > 0 ? add_constant(b, belief, LUO_EFFECTS_GPU, gpu, at, belief->gpu) : at;
}

static int32_t software_constant(builder *b, const believed *belief, const char *software)
{
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        if (strcmp(references[i], software) == 0) return -1;
    return belief->software > 0
               ? add_constant(b, belief, LUO_EFFECTS_SOFTWARE, software, -1, belief->software)
               : -1;
}

static luo_status make_constants(builder *b, luo_err *err)
{
    const luo_suite_effects *pool = b->pool;
    b->cap = BELIEFS * (3 * pool->ngpus + pool->nsoftware + 1);
    b->term = LUO_NEW_N(b->arena, term, b->cap);
    b->constant = LUO_NEW_N(b->arena, luo_effects_constant, b->cap);
    b->of_gpu = LUO_NEW_N(b->arena, int32_t, (int64_t)pool->ngpus * BELIEFS + 1);
    b->of_software = LUO_NEW_N(b->arena, int32_t, (int64_t)pool->nsoftware * BELIEFS + 1);
    if (!b->term || !b->constant || !b->of_gpu || !b->of_software) return luo_err_nomem(err);
    for (int32_t k = 0; k < BELIEFS; k++) {
        const believed *belief = &beliefs[k];
        for (int32_t i = 0; i < pool->ngpus; i++)
            b->of_gpu[i * BELIEFS + k] =
                belief->all > 0 ? gpu_constant(b, belief, pool->gpus[i].name) : -1;
        for (int32_t i = 0; i < pool->nsoftware; i++)
            b->of_software[i * BELIEFS + k] = software_constant(b, belief, pool->software[i].name);
    }
    return LUO_OK;
}

/* ---- constants into profiles and stacks ---- */

static void set_gpu(const builder *b, int32_t i, const double *value)
{
    const luo_effects_gpu *gpu = &b->pool->gpus[i];
    const int32_t *of = b->of_gpu + (size_t)i * BELIEFS;
    for (int32_t k = 0; k < BELIEFS; k++) {
        if (of[k] < 0) continue;
        const double v = exp(value[of[k]]);
        const char *key = beliefs[k].key;
        if (strcmp(key, "gemm_ratio") == 0) gpu->at->gemm_ratio = v;
        if (strcmp(key, "memory_ratio") == 0) gpu->at->memory_ratio = v;
        if (strcmp(key, "attention_forward_ratio") == 0)
            gpu->at->attention_forward_ratio = v * gpu->attention;
        if (strcmp(key, "attention_backward_ratio") == 0)
            gpu->at->attention_backward_ratio = v * gpu->attention;
    }
}

static luo_status set_software(const builder *b, int32_t i, const double *value, luo_err *err)
{
    const int32_t *of = b->of_software + (size_t)i * BELIEFS;
    for (int32_t k = 0; k < BELIEFS; k++)
        if (of[k] >= 0)
            LUO_TRY(luo_stack_set(b->pool->software[i].at, beliefs[k].key, exp(value[of[k]]), err));
    return LUO_OK;
}

static luo_status predict(void *ctx, const double *value, int32_t row, double *out, luo_err *err)
{
    builder *b = ctx;
    luo_step_cost cost;
    set_gpu(b, b->gpu[row], value);
    LUO_TRY(set_software(b, b->software[row], value, err));
    LUO_TRY(luo_case_closed(b->scratch, b->cases[row], &cost, err));
    *out = log(cost.step);
    return LUO_OK;
}

/* ---- rows ---- */

bool luo_suite_effects_takes(const luo_case *one)
{
    return one->cluster && one->measured_s > 0 && !luo_suite_excluded(one->row) &&
           one->row->cp <= 1 && one->row->experts == 0 && one->cluster->ngroups == 1;
}

static int32_t gpu_of(const luo_suite_effects *pool, const luo_case *one)
{
    for (int32_t i = 0; i < pool->ngpus; i++)
        if (pool->gpus[i].at == one->profile) return i;
    return -1;
}

static int32_t software_of(const luo_suite_effects *pool, const luo_case *one)
{
    for (int32_t i = 0; i < pool->nsoftware; i++)
        if (pool->software[i].at == one->stack) return i;
    return -1;
}

static int32_t source_of(luo_suite_effects_result *out, const char *suite)
{
    for (int32_t i = 0; i < out->nsources; i++)
        if (strcmp(out->source[i], suite) == 0) return i;
    out->source[out->nsources] = suite;
    return out->nsources++;
}

/* Constants that move a prediction, at most 2 * BELIEFS. */
static int32_t uses_of(const builder *b, int32_t gpu, int32_t software, int32_t *uses)
{
    int32_t n = 0;
    for (int32_t k = 0; k < BELIEFS; k++) {
        const int32_t of[] = {b->of_gpu[gpu * BELIEFS + k], b->of_software[software * BELIEFS + k]};
        if (of[0] >= 0) uses[n++] = of[0];
        if (of[1] >= 0) uses[n++] = of[1];
    }
    return n;
}

/* Together at most like so many. */
static const double source_rows = 20;

static luo_status make_rows(builder *b, luo_suite_effects_result *out, luo_effects_row **rows,
                            luo_err *err)
{
    const int32_t n = b->pool->ncases;
    luo_effects_row *row = *rows = LUO_NEW_N(b->arena, luo_effects_row, n + 1);
    int32_t *in_source = LUO_NEW_N(b->arena, int32_t, n + 1);
    b->cases = LUO_NEW_N(b->arena, const luo_case *, n + 1);
    b->gpu = LUO_NEW_N(b->arena, int32_t, n + 1);
    b->software = LUO_NEW_N(b->arena, int32_t, n + 1);
    out->source = LUO_NEW_N(b->arena, const char *, n + 1);
    if (!row || !in_source || !b->cases || !b->gpu || !b->software || !out->source)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        const luo_case *one = b->pool->cases[i];
        const int32_t gpu = gpu_of(b->pool, one), software = software_of(b->pool, one);
        luo_step_cost cost;
        luo_err why;
        if (gpu < 0 || software < 0 || !luo_suite_effects_takes(one) ||
            luo_case_closed(b->scratch, one, &cost, &why) != LUO_OK)
            continue;
        int32_t *uses = LUO_NEW_N(b->arena, int32_t, 2 * BELIEFS);
        if (!uses) return luo_err_nomem(err);
        const int32_t nuses = uses_of(b, gpu, software, uses);
        const int32_t source = source_of(out, one->row->suite), r = out->nrows++;
        in_source[source]++;
        row[r] = (luo_effects_row){source, log(one->measured_s), 1, uses, nuses};
        b->cases[r] = one;
        b->gpu[r] = gpu;
        b->software[r] = software;
    }
    for (int32_t r = 0; r < out->nrows; r++)
        row[r].weight = fmin(1, source_rows / in_source[row[r].source]);
    return LUO_OK;
}

/* ---- the fit ---- */

static luo_status name_constants(builder *b, const luo_effects_result *fitted,
                                 luo_suite_effects_result *out, luo_err *err)
{
    out->n = b->n;
    out->constant = LUO_NEW_N(b->arena, luo_effects_named, b->n + 1);
    if (!out->constant) return luo_err_nomem(err);
    for (int32_t i = 0; i < b->n; i++) {
        const luo_effects_constant *c = &b->constant[i];
        const double prior = c->prior + (c->parent >= 0 ? fitted->value[c->parent] : 0);
        out->constant[i] = (luo_effects_named){.level = b->term[i].level,
                                               .of = b->term[i].of,
                                               .key = b->term[i].belief->key,
                                               .value = exp(fitted->value[i]),
                                               .prior = exp(prior),
                                               .spread = fitted->spread[i],
                                               .state = fitted->state[i],
                                               .rows = fitted->rows[i],
                                               .sources = fitted->sources[i]};
    }
    return LUO_OK;
}

/* ---- cases that were left out ---- */

/* The variance that constants give a prediction: its slopes by differences, and their covariance.
 */
static luo_status spread_left(builder *b, const luo_case *one, luo_effects_result *fitted,
                              double *out, luo_err *err)
{
    const int32_t gpu = gpu_of(b->pool, one), software = software_of(b->pool, one);
    int32_t uses[2 * BELIEFS];
    double slope[2 * BELIEFS], variance = fitted->noise * fitted->noise;
    *out = NAN;
    if (!one->cluster || gpu < 0 || software < 0) return LUO_OK;
    const int32_t n = uses_of(b, gpu, software, uses);
    for (int32_t u = 0; u < n; u++) {
        const double at = fitted->value[uses[u]], by = 0.02;
        double side[2];
        for (int k = 0; k < 2; k++) {
            luo_step_cost cost;
            luo_err why;
            fitted->value[uses[u]] = k == 0 ? at - by : at + by;
            set_gpu(b, gpu, fitted->value);
            luo_status st = set_software(b, software, fitted->value, err);
            const bool there = luo_case_closed(b->scratch, one, &cost, &why) == LUO_OK;
            fitted->value[uses[u]] = at;
            if (st != LUO_OK || !there) return st;
            side[k] = log(cost.step);
        }
        slope[u] = (side[1] - side[0]) / (2 * by);
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++)
            variance += slope[i] * slope[k] * luo_effects_covariance(fitted, uses[i], uses[k]);
    *out = sqrt(variance + fitted->between * fitted->between);
    return LUO_OK;
}

static luo_status spread_all(builder *b, luo_effects_result *fitted, luo_suite_effects_result *out,
                             luo_err *err)
{
    out->left_spread = LUO_NEW_N(b->arena, double, b->pool->nleft + 1);
    if (!out->left_spread) return luo_err_nomem(err);
    for (int32_t i = 0; i < b->pool->nleft; i++)
        LUO_TRY(spread_left(b, b->pool->left[i], fitted, &out->left_spread[i], err));
    return LUO_OK;
}

static luo_status fit(builder *b, luo_suite_effects_result *out, luo_err *err)
{
    luo_effects_row *rows;
    luo_effects_result fitted;
    LUO_TRY(make_constants(b, err));
    LUO_TRY(make_rows(b, out, &rows, err));
    const luo_effects pool = {b->constant, rows, b->n, out->nrows, out->nsources, predict, b};
    LUO_TRY(luo_effects_fit(b->arena, &pool, &fitted, err));
    LUO_TRY(spread_all(b, &fitted, out, err));
    for (int32_t i = 0; i < b->pool->ngpus; i++) set_gpu(b, i, fitted.value);
    for (int32_t i = 0; i < b->pool->nsoftware; i++) LUO_TRY(set_software(b, i, fitted.value, err));
    out->effect = fitted.effect;
    out->noise = fitted.noise;
    out->between = fitted.between;
    out->error = fitted.error;
    out->bias = fitted.bias;
    return name_constants(b, &fitted, out, err);
}

luo_status luo_suite_effects_fit(luo_arena *arena, const luo_suite_effects *pool,
                                 luo_suite_effects_result *out, luo_err *err)
{
    builder b = {.arena = arena, .pool = pool, .scratch = luo_arena_new(1 << 16)};
    *out = (luo_suite_effects_result){0};
    const luo_status st = b.scratch ? fit(&b, out, err) : luo_err_nomem(err);
    luo_arena_free(b.scratch);
    return st;
}
