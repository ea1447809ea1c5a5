#include "core/plan/suite/layer_fit.h"

#include <math.h>
#include <string.h>

#include "core/cost/fit/search.h"
#include "core/cost/step/layer.h"

bool luo_layer_same_model(const char *a, const char *b)
{
    while (*a && *b && (*a | 0x20) == (*b | 0x20)) a++, b++;
    return *b == 0 && (*a == 0 || ((*a == 'm' || *a == 'b') && a[1] == 0));
}

static bool counts(const luo_layer_time *time, const char *model, const char *gpu)
{
    const luo_suite_gpu *suite_gpu = luo_suite_gpu_of(time->gpu);
    return time->tp == 1 && suite_gpu && strcmp(suite_gpu->profile, gpu) == 0 &&
           luo_layer_same_model(model, time->model);
}

/* The last layer of the network, which is its head. */
static int32_t last_layer(const luo_layer_times *times, const char *model, const char *gpu)
{
    int32_t last = 0;
    for (int32_t i = 0; i < times->n; i++)
        if (counts(&times->at[i], model, gpu) && times->at[i].layer > last)
            last = times->at[i].layer;
    return last;
}

luo_status luo_layer_rows(luo_arena *arena, const luo_layer_times *times, const char *model,
                          const char *gpu, luo_layer_row **out, int32_t *n, luo_err *err)
{
    const int32_t last = last_layer(times, model, gpu);
    luo_layer_row *rows = LUO_NEW_N(arena, luo_layer_row, times->n);
    int32_t *layers = LUO_NEW_N(arena, int32_t, times->n);
    if (!rows || !layers) return luo_err_nomem(err);
    *n = 0;
    for (int32_t i = 0; i < times->n; i++) {
        const luo_layer_time *time = &times->at[i];
        int32_t k = 0;
        if (!counts(time, model, gpu) || time->layer == 0 || time->layer == last) continue;
        while (k < *n && rows[k].sequences != time->sequences) k++;
        if (k == *n) rows[(*n)++] = (luo_layer_row){.sequences = time->sequences};
        rows[k].forward_s += time->forward_s;
        rows[k].backward_s += time->backward_s;
        layers[k]++;
    }
    for (int32_t k = 0; k < *n; k++) {
        rows[k].forward_s /= layers[k];
        rows[k].backward_s /= layers[k];
    }
    *out = rows;
    if (*n == 0)
        return luo_err_set(err, LUO_EINPUT, "the table has no layer of `%s` on `%s` alone (tp 1).",
                           model, gpu);
    return LUO_OK;
}

luo_status luo_layer_predict(const luo_profile *profile, const luo_stack *stack,
                             const luo_model *model, int32_t sequences, double *forward_s,
                             double *backward_s, luo_err *err)
{
    const luo_layer_shape shape = {.model = model,
                                   .tokens = sequences * model->max_sequence_tokens,
                                   .sequence_tokens = model->max_sequence_tokens,
                                   .tp = 1};
    luo_layer_gpu gpu;
    LUO_TRY(luo_cost_layer_gpu(profile, stack, model->dtype, &shape, &gpu, err));
    *forward_s = luo_cost_host(stack, gpu.forward + gpu.extra_forward, gpu.kernels);
    *backward_s = luo_cost_host(stack, gpu.backward + gpu.extra_backward, gpu.kernels_backward);
    return LUO_OK;
}

typedef struct fitter {
    luo_profile *p;
    const luo_stack *stack;
    const luo_model *m;
    const luo_layer_row *rows;
    int32_t n;
    luo_err *err;
    luo_status st;
} fitter;

static double objective(void *ctx, const double *values)
{
    fitter *t = ctx;
    double sum = 0;
    int32_t terms = 0;
    t->p->gemm_ratio = values[0];
    t->p->memory_ratio = values[1];
    for (int32_t i = 0; i < t->n && t->st == LUO_OK; i++) {
        double f = 0, b = 0;
        if (i % 4 == 3) continue;
        t->st = luo_layer_predict(t->p, t->stack, t->m, t->rows[i].sequences, &f, &b, t->err);
        if (t->st != LUO_OK) break;
        sum += fabs(log((f + b) / (t->rows[i].forward_s + t->rows[i].backward_s)));
        terms++;
    }
    return t->st == LUO_OK ? sum / terms : INFINITY;
}

luo_status luo_layer_fit(luo_profile *profile, const luo_stack *stack, const luo_model *model,
                         const luo_layer_row *rows, int32_t n, uint64_t seed, luo_layer_fitted *out,
                         luo_err *err)
{
    static const luo_search_param params[2] = {{"gemm_ratio", 0.80, 0.40, 0.97, false},
                                               {"memory_ratio", 0.72, 0.30, 0.97, false}};
    fitter t = {profile, stack, model, rows, n, err, LUO_OK};
    double v[LUO_SEARCH_PARAMS];
    if (n < 2)
        return luo_err_set(err, LUO_EINPUT, "%d micro-batch for 2 parameters; a table with at "
                           "least 2 is needed.", (int)n);
    luo_search_pattern(params, 2, seed, objective, &t, v);
    for (int32_t i = 0; i < 2; i++) out->weak[i] = luo_search_weak(params, 2, i, objective, &t, v);
    out->error = objective(&t, v); /* and leaves profile at them */
    out->gemm_ratio = v[0];
    out->memory_ratio = v[1];
    return t.st;
}
