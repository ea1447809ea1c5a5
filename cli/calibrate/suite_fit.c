/* suite_fit.c: constants of a kit from the rows that use it. */
#include <string.h>

#include "cli/validate/validate.h"

bool luo_validate_together(const luo_suite_row *a, const luo_suite_row *b)
{
    const luo_suite_recipe *recipe = luo_suite_recipe_of(a->suite);
    return strcmp(a->suite, b->suite) == 0 &&
           strcmp(luo_suite_software(a), luo_suite_software(b)) == 0 &&
           (!recipe || recipe->naming != LUO_NAMED_SYSTEM_GPU || strcmp(a->gpu, b->gpu) == 0);
}

const char *luo_validate_stack_name(luo_arena *arena, const luo_suite_row *row)
{
    const luo_suite_recipe *recipe = luo_suite_recipe_of(row->suite);
    const luo_suite_gpu *gpu = luo_suite_gpu_of(row->gpu);
    if (!recipe || recipe->naming == LUO_NAMED_SYSTEM)
        return luo_arena_strdup(arena, luo_suite_software(row));
    const bool site = recipe->naming == LUO_NAMED_SYSTEM_SUITE;
    return luo_arena_printf(arena, "%s-%s", luo_suite_software(row),
                            site  ? row->suite
                            : gpu ? gpu->profile
                                  : row->gpu);
}

const char *luo_validate_profile_name(luo_arena *arena, const luo_suite_row *row)
{
    const luo_suite_recipe *recipe = luo_suite_recipe_of(row->suite);
    const luo_suite_gpu *gpu = luo_suite_gpu_of(row->gpu);
    const char *name = gpu ? gpu->profile : row->gpu;
    if (!recipe || recipe->of_gpu) return luo_arena_strdup(arena, name);
    if (recipe->naming == LUO_NAMED_SYSTEM_SUITE)
        return luo_arena_printf(arena, "%s-%s-%s", name, luo_suite_software(row), row->suite);
    return luo_arena_printf(arena, "%s-%s", name, luo_suite_software(row));
}

/* "a,b" into constants. */
static luo_status split(const char *text, const luo_suite_param **out, int32_t *n, luo_err *err)
{
    *n = 0;
    for (const char *at = text; *at;) {
        char word[64];
        const size_t len = strcspn(at, ",");
        if (len >= sizeof word || *n == LUO_SEARCH_PARAMS)
            return luo_err_set(err, LUO_EUSAGE,
                               "`--fit` is `%s`; at most %d names of constants "
                               "joined by commas are expected.",
                               text, LUO_SEARCH_PARAMS);
        memcpy(word, at, len);
        word[len] = 0;
        out[*n] = luo_suite_param_of(word);
        if (!out[(*n)++])
            return luo_err_set(err, LUO_EUSAGE,
                               "`--fit` names `%s`, which is no constant that "
                               "published steps tell.",
                               word);
        at += len + (at[len] == ',');
    }
    return LUO_OK;
}

/* Profiles and stacks of the kit, without repetition. */
static luo_status of_kit(luo_kit *kit, luo_suite_fit *fit, luo_err *err)
{
    luo_profile **p = LUO_NEW_N(kit->cli->arena, luo_profile *, kit->nprofiles);
    luo_stack **s = LUO_NEW_N(kit->cli->arena, luo_stack *, kit->nstacks);
    if (!p || !s) return luo_err_nomem(err);
    for (int32_t i = 0; i < kit->nprofiles; i++) p[i] = kit->profiles[i].at;
    for (int32_t i = 0; i < kit->nstacks; i++) s[i] = kit->stacks[i].at;
    fit->profiles = p;
    fit->stacks = s;
    fit->nprofiles = kit->nprofiles;
    fit->nstacks = kit->nstacks;
    return LUO_OK;
}

static luo_status run_stage(luo_kit *kit, const luo_case *const *cases, int32_t n,
                            const struct luo_suite_stage *stage, uint64_t seed, luo_fitted *out,
                            luo_err *err)
{
    const luo_suite_param *params[LUO_SEARCH_PARAMS];
    luo_suite_fitted fitted;
    luo_suite_fit fit = {.params = params, .seed = seed};
    const luo_case **seen = LUO_NEW_N(kit->cli->arena, const luo_case *, n);
    luo_arena *scratch = luo_arena_new(1 << 16);
    luo_status st = seen && scratch ? LUO_OK : luo_err_nomem(err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++) {
        const bool several = luo_suite_nodes(cases[i]->row) > 1;
        if (several ? stage->several : stage->one_node) seen[fit.ncases++] = cases[i];
    }
    fit.cases = seen;
    if (st == LUO_OK) st = split(stage->params, params, &fit.nparams, err);
    if (st == LUO_OK) st = of_kit(kit, &fit, err);
    if (st == LUO_OK && fit.ncases > 0) {
        st = luo_suite_fit_run(scratch, &fit, &fitted, err);
        for (int32_t i = 0; st == LUO_OK && i < fit.nparams && out->n < LUO_FITTED_MAX; i++) {
            out->param[out->n] = params[i];
            out->value[out->n] = fitted.value[i];
            out->weak[out->n++] = fitted.weak[i];
        }
        out->objective = fitted.objective;
        out->rows += fit.ncases;
    }
    luo_arena_free(scratch);
    return st;
}

luo_status luo_kit_fit(luo_kit *kit, const luo_case *const *cases, int32_t n,
                       const luo_suite_recipe *recipe, const char *params, uint64_t seed,
                       luo_fitted *out, luo_err *err)
{
    *out = (luo_fitted){0};
    if (params) {
        const struct luo_suite_stage all = {true, true, params};
        LUO_TRY(run_stage(kit, cases, n, &all, seed, out, err));
        return LUO_OK;
    }
    for (size_t i = 0; recipe && i < sizeof recipe->stage / sizeof *recipe->stage; i++)
        if (recipe->stage[i].params)
            LUO_TRY(run_stage(kit, cases, n, &recipe->stage[i], seed, out, err));
    return LUO_OK;
}
