/* The exact contiguous cut, from the last stage to the first. */
#include "core/plan/auto/cut.h"

#include <assert.h>
#include <math.h>

typedef struct cutter {
    const double *work, *speed;
    int32_t layers, stages;
    double *best; /* [stage][layer]: largest of the stages from there on, with the layers from there
                     on; INFINITY: too few are left */
} cutter;

/* Sums are taken anew from each first layer, so that equal stages have equal sums. */
static double time_of(const cutter *x, int32_t stage, double work)
{
    return x->speed ? work / x->speed[stage] : work;
}

static double rest_of(const cutter *x, int32_t stage, int32_t layer)
{
    if (stage == x->stages) return layer == x->layers ? 0 : INFINITY;
    return x->best[(int64_t)stage * (x->layers + 1) + layer];
}

static double best_from(const cutter *x, int32_t stage, int32_t layer)
{
    double best = INFINITY, work = 0;
    for (int32_t end = layer; end < x->layers;) {
        work += x->work[end++];
        const double own = time_of(x, stage, work);
        if (own > best) break; /* longer stages only get slower */
        best = fmin(best, fmax(own, rest_of(x, stage + 1, end)));
    }
    return best;
}

/* The shortest first stage that keeps the bound. */
static int32_t shortest(const cutter *x, int32_t stage, int32_t layer, double bound)
{
    double work = 0;
    for (int32_t end = layer; end < x->layers;) {
        work += x->work[end++];
        if (fmax(time_of(x, stage, work), rest_of(x, stage + 1, end)) <= bound) return end - layer;
    }
    assert(0);
    return 0;
}

luo_status luo_auto_cut(luo_arena *scratch, const double *work, int32_t layers, const double *speed,
                        int32_t stages, int32_t *count, double *largest, luo_err *err)
{
    assert(stages >= 1 && stages <= layers);
    const size_t mark = luo_arena_mark(scratch);
    cutter x = {work, speed, layers, stages, NULL};
    x.best = LUO_NEW_N(scratch, double, (int64_t)stages *(layers + 1));
    if (!x.best) return luo_err_nomem(err);
    for (int32_t k = stages; k-- > 0;)
        for (int32_t l = layers; l >= 0; l--)
            x.best[(int64_t)k * (layers + 1) + l] = best_from(&x, k, l);
    if (largest) *largest = x.best[0];
    const double bound = x.best[0] * (1 + 1e-12);
    for (int32_t k = 0, at = 0; k < stages; at += count[k++]) count[k] = shortest(&x, k, at, bound);
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}
