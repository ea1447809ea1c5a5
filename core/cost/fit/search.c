#include "core/cost/fit/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/rng.h"

enum { STARTS = 4, EVALUATIONS = 1500 };

typedef struct search {
    const luo_search_param *param;
    int32_t n;
    luo_objective_fn objective;
    void *ctx;
    int32_t spent;
} search;

/* From the unit interval to the parameter's range, and back. */
static double value_of(const luo_search_param *param, double x)
{
    if (param->lo == param->hi) return param->lo;
    if (!param->logarithmic) return param->lo + x * (param->hi - param->lo);
    return param->lo * pow(param->hi / param->lo, x);
}

static double unit_of(const luo_search_param *param, double v)
{
    if (param->lo == param->hi) return 0;
    const double x = param->logarithmic ? log(v / param->lo) / log(param->hi / param->lo)
                                        : (v - param->lo) / (param->hi - param->lo);
    return fmin(1, fmax(0, x));
}

static double ask(search *s, const double *x)
{
    double v[LUO_SEARCH_PARAMS];
    for (int32_t i = 0; i < s->n; i++) v[i] = value_of(&s->param[i], x[i]);
    s->spent++;
    return s->objective(s->ctx, v);
}

/* Moves parameter i a step if that is better; the first of + and - that is. */
static bool move_one(search *s, int32_t i, double step, double *x, double *best)
{
    const double at = x[i];
    for (int sign = 1; sign >= -1 && s->spent < EVALUATIONS; sign -= 2) {
        x[i] = fmin(1, fmax(0, at + sign * step));
        const double now = x[i] == at ? *best : ask(s, x);
        if (now < *best - 1e-9) {
            *best = now;
            return true;
        }
    }
    x[i] = at;
    return false;
}

/* One round over all parameters; true if something became better. */
static bool round_of(search *s, double step, double *x, double *best)
{
    bool better = false;
    for (int32_t i = 0; i < s->n; i++)
        if (s->param[i].lo != s->param[i].hi) better |= move_one(s, i, step, x, best);
    return better;
}

static double descend(search *s, double *x)
{
    double best = ask(s, x);
    for (double step = 0.25; step >= 1e-3 && s->spent < EVALUATIONS;)
        if (!round_of(s, step, x, &best)) step /= 2;
    return best;
}

static void start_at(const search *s, int k, uint64_t seed, double *x)
{
    char name[32];
    snprintf(name, sizeof name, "calibrate#%d", k);
    luo_rng rng = luo_rng_stream(seed, name);
    for (int32_t i = 0; i < s->n; i++)
        x[i] = k ? luo_rng_u(&rng) : unit_of(&s->param[i], s->param[i].otherwise);
}

double luo_search_pattern(const luo_search_param *param, int32_t n, uint64_t seed,
                          luo_objective_fn objective, void *ctx, double *values)
{
    double best = INFINITY;
    for (int k = 0; k < STARTS; k++) {
        search s = {param, n, objective, ctx, 0};
        double x[LUO_SEARCH_PARAMS];
        start_at(&s, k, seed, x);
        const double found = descend(&s, x);
        if (k > 0 && !(found < best)) continue;
        best = found;
        for (int32_t i = 0; i < n; i++) values[i] = value_of(&param[i], x[i]);
    }
    return best;
}

bool luo_search_weak(const luo_search_param *param, int32_t n, int32_t i,
                     luo_objective_fn objective, void *ctx, double *values)
{
    const luo_search_param *search_param = &param[i];
    double v[LUO_SEARCH_PARAMS];
    if (search_param->lo == search_param->hi) return false;
    memcpy(v, values, (size_t)n * sizeof *v);
    const double best = objective(ctx, v);
    for (int sign = 1; sign >= -1; sign -= 2) {
        v[i] = fmin(search_param->hi, fmax(search_param->lo, values[i] * (1 + 0.2 * sign)));
        if (fabs(objective(ctx, v) - best) > 0.02 * best) return false;
    }
    v[i] = search_param->otherwise;
    if (objective(ctx, v) <= 1.01 * best) values[i] = search_param->otherwise;
    return true;
}
