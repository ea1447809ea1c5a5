#include "core/plan/suite/suite_fit.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define P(field) offsetof(luo_profile, field)

/* Bounds of the search. */
static const luo_suite_param params[] = {
    {"launch_us", "launch_us", false, 4, 0, 10, false},
    {"gemm_ratio", "gemm_ratio", false, 0.80, 0.40, 0.97, false},
    {"gemm_depth", "gemm_depth", false, 64, 0, 400, false},
    {"memory_ratio", "memory_ratio", false, 0.72, 0.30, 0.97, false},
    {"attention_forward_ratio", "attention_forward_ratio", false, 0.30, 0.10, 0.90, false},
    {"attention_backward_ratio", "attention_backward_ratio", false, 0.33, 0.10, 0.90, false},
    {"net_ratio", "net_ratio", false, 0.90, 0.30, 1, false},
    {"net_half_bytes", "net_half_bytes", false, 13450000, 1e6, 1e8, true},
    {"host_launch_us", "host_launch_us", true, 15, 2, 120, true},
    {"host_exponent", "host_exponent", true, 3, 2, 12, false},
    {"busbw_factor", "busbw_factor", true, 1, 0.7, 1.3, false},
    {"optimizer_bytes", "optimizer_bytes", true, 34, 20, 120, false},
    {"tp_exposed_factor", "tp_exposed_factor", true, 1, 0.1, 1, false},
    {"scale_jitter", "scale_jitter", true, 0.01, 0, 0.05, false},
};

static const struct {
    const char *key;
    size_t at;
    double unit;
} fields[] = {
    {"launch_us", P(launch_s), 1e-6},
    {"gemm_ratio", P(gemm_ratio), 1},
    {"gemm_depth", P(gemm_depth), 1},
    {"memory_ratio", P(memory_ratio), 1},
    {"attention_forward_ratio", P(attention_forward_ratio), 1},
    {"attention_backward_ratio", P(attention_backward_ratio), 1},
    {"net_ratio", P(net_ratio), 1},
    {"net_half_bytes", P(net_half_bytes), 1},
};

const luo_suite_param *luo_suite_param_of(const char *name)
{
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        if (strcmp(params[i].name, name) == 0) return &params[i];
    return NULL;
}

static double *field_of(luo_profile *profile, const char *key, double *unit)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].key, key) == 0) {
            *unit = fields[i].unit;
            return (double *)(void *)((char *)profile + fields[i].at); /* an offset of a double */
        }
    return NULL;
}

luo_status luo_suite_fit_set(const luo_suite_fit *fit, const luo_suite_param *param, double value,
                             luo_err *err)
{
    for (int32_t i = 0; param->of_stack && i < fit->nstacks; i++)
        LUO_TRY(luo_stack_set(fit->stacks[i], param->key, value, err));
    for (int32_t i = 0; !param->of_stack && i < fit->nprofiles; i++) {
        double unit = 1, *at = field_of(fit->profiles[i], param->key, &unit);
        *at = value * unit;
    }
    return LUO_OK;
}

/* ---- the objective ---- */

typedef struct stratum {
    const char *suite;
    bool several;
    int32_t n;
    double sum;
} stratum;

enum { STRATA = 64 };
typedef struct fitter {
    luo_arena *scratch;
    const luo_suite_fit *f;
    luo_err *err;
    luo_status st;
    stratum strata[STRATA];
    int32_t nstrata, *stratum_of; /* per case */
} fitter;

static int32_t stratum_for(fitter *t, const luo_suite_row *row)
{
    const bool several = luo_suite_nodes(row) > 1;
    int32_t i = 0;
    while (i < t->nstrata &&
           (strcmp(t->strata[i].suite, row->suite) != 0 || t->strata[i].several != several))
        i++;
    if (i == t->nstrata && i < STRATA)
        t->strata[t->nstrata++] = (stratum){row->suite, several, 0, 0};
    return i < STRATA ? i : STRATA - 1;
}

static double objective(void *ctx, const double *values)
{
    fitter *t = ctx;
    const luo_suite_fit *fit = t->f;
    if (t->st != LUO_OK) return INFINITY;
    for (int32_t i = 0; i < fit->nparams; i++) {
        t->st = luo_suite_fit_set(fit, fit->params[i], values[i], t->err);
        if (t->st != LUO_OK) return INFINITY;
    }
    for (int32_t s = 0; s < t->nstrata; s++) t->strata[s].sum = 0;
    for (int32_t i = 0; i < fit->ncases; i++) {
        luo_step_cost cost;
        if (t->stratum_of[i] < 0) continue;
        t->st = luo_case_closed(t->scratch, fit->cases[i], &cost, t->err);
        if (t->st != LUO_OK) return INFINITY;
        t->strata[t->stratum_of[i]].sum += fabs(log(cost.step / fit->cases[i]->measured_s));
    }
    double sum = 0;
    for (int32_t s = 0; s < t->nstrata; s++) sum += t->strata[s].sum / t->strata[s].n;
    return sum / t->nstrata;
}

/* ---- the fit ---- */

static luo_status check(fitter *t, luo_err *err)
{
    const luo_suite_fit *fit = t->f;
    int32_t rows = 0;
    t->stratum_of = LUO_NEW_N(t->scratch, int32_t, fit->ncases);
    if (!t->stratum_of) return luo_err_nomem(err);
    for (int32_t i = 0; i < fit->ncases; i++) {
        const luo_case *one = fit->cases[i];
        t->stratum_of[i] = -1;
        if (!one->cluster || !(one->measured_s > 0) || luo_suite_excluded(one->row)) continue;
        if (one->row->cp > 1) continue; /* constants are those of docs/validation.md */
        if (one->row->experts > 0) continue; /* shared by replicas they have no closed form */
        t->stratum_of[i] = stratum_for(t, one->row);
        t->strata[t->stratum_of[i]].n++;
        rows++;
    }
    if (rows < fit->nparams || rows == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "%d rows for %d parameters; give at least as many rows "
                           "as parameters or name fewer with --fit.",
                           (int)rows, (int)fit->nparams);
    return LUO_OK;
}

luo_status luo_suite_fit_run(luo_arena *scratch, const luo_suite_fit *fit, luo_suite_fitted *out,
                             luo_err *err)
{
    luo_search_param p[LUO_SEARCH_PARAMS];
    fitter t = {.scratch = scratch, .f = fit, .err = err};
    *out = (luo_suite_fitted){.objective = INFINITY};
    LUO_TRY(check(&t, err));
    for (int32_t i = 0; i < fit->nparams; i++) {
        const luo_suite_param *q = fit->params[i];
        p[i] = (luo_search_param){q->name, q->otherwise, q->lo, q->hi, q->logarithmic};
    }
    luo_search_pattern(p, fit->nparams, fit->seed, objective, &t, out->value);
    for (int32_t i = 0; i < fit->nparams; i++)
        out->weak[i] = luo_search_weak(p, fit->nparams, i, objective, &t, out->value);
    out->objective = objective(&t, out->value); /* and leaves the constants at it */
    return t.st;
}

/* ---- what is fitted on what ---- */

static const luo_suite_recipe recipes[] = {
    {"vtrain", LUO_NAMED_SYSTEM, true,
     {{true, true,
       "launch_us,gemm_ratio,gemm_depth,memory_ratio,host_launch_us,host_exponent,"
       "optimizer_bytes,busbw_factor"}}},
    {"bloom", LUO_NAMED_SYSTEM_SUITE, false, {{true, true, "gemm_ratio,busbw_factor,net_ratio"}}},
    {"foundry", LUO_NAMED_SYSTEM_GPU, false,
     {{true, true,
       "gemm_ratio,attention_forward_ratio,attention_backward_ratio,host_launch_us,"
       "host_exponent"}}},
    {"megatron-core", LUO_NAMED_SYSTEM, false,
     {{true, true, "gemm_ratio,memory_ratio,tp_exposed_factor"}}},
    {"sailor-gh200", LUO_NAMED_SYSTEM_SUITE, false,
     {{true, true, "gemm_ratio,memory_ratio,host_launch_us"}}},
    {"simumax-b200", LUO_NAMED_SYSTEM_SUITE, false, {{true, true, "gemm_ratio"}}},
};

const luo_suite_recipe *luo_suite_recipe_of(const char *suite)
{
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (strcmp(recipes[i].suite, suite) == 0) return &recipes[i];
    return NULL;
}
