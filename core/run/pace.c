/* How fast this machine is against the profile that predictions come from.
 *
 * A real backend measures processor seconds, the profile may be of another machine: the ratio of
 * the two is one factor for the whole run, fixed by the first LUO_PACE_STEPS good steps of one
 * plan, median over steps, then over devices, so that a device that is slow from the start stays
 * slow. Samples of the detector are divided by it; those of the first steps enter when it is
 * known, so that the windows are as full as they would be on the simulator. */
#include <math.h>
#include <stdlib.h>

#include "core/run/run.h"

luo_status luo_pace_init(luo_run *r, luo_err *err)
{
    const int32_t n = r->sc->cluster->ndevices;
    r->pace.sample = LUO_NEW_N(r->arena, double, (int64_t)n *LUO_PACE_STEPS);
    return r->pace.sample ? LUO_OK : luo_err_nomem(err);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double luo_pace_median(double *at, int32_t n)
{
    if (n <= 0) return 0;
    qsort(at, (size_t)n, sizeof *at, ascending);
    return at[(n - 1) / 2];
}

double luo_pace_factor(const luo_run *r, const luo_step_result *s)
{
    if (!r->real) return 1;
    if (r->pace.factor > 0) return r->pace.factor;
    const luo_used_plan *u = luo_run_plan(r);
    double *ratio = LUO_NEW_N(r->scratch, double, u->ndev);
    int32_t n = 0;
    for (int32_t i = 0; ratio && i < u->ndev; i++)
        if (s->predicted_s[i] > 0) ratio[n++] = s->compute_s[i] / s->predicted_s[i];
    const double median = ratio ? luo_pace_median(ratio, n) : 0;
    return median > 0 ? median : 1;
}

double luo_pace_ratio(const luo_run *r, const luo_step_result *s, int32_t i)
{
    if (s->predicted_s[i] <= 0) return -1;
    const double ratio = s->compute_s[i] / s->predicted_s[i];
    return r->pace.factor > 0 ? ratio / r->pace.factor : ratio;
}

void luo_pace_forget(luo_run *r)
{
    if (r->pace.factor == 0) r->pace.n = 0;
}

static double *sample(const luo_run *r, int32_t device)
{
    return r->pace.sample + (int64_t)device * LUO_PACE_STEPS;
}

/* Median device of the median steps; samples become ratios on the scale of the profile. */
static void fix_factor(luo_run *r)
{
    const luo_used_plan *u = luo_run_plan(r);
    double *middle = LUO_NEW_N(r->scratch, double, u->ndev), copy[LUO_PACE_STEPS];
    int32_t n = 0;
    for (int32_t i = 0; middle && i < u->ndev; i++) {
        for (int32_t k = 0; k < LUO_PACE_STEPS; k++) copy[k] = sample(r, u->dev[i])[k];
        if (copy[0] > 0 && copy[1] > 0 && copy[2] > 0)
            middle[n++] = luo_pace_median(copy, LUO_PACE_STEPS);
    }
    const double factor = middle ? luo_pace_median(middle, n) : 0;
    r->pace.factor = factor > 0 ? factor : 1;
    for (int32_t i = 0; i < u->ndev; i++)
        for (int32_t k = 0; k < LUO_PACE_STEPS; k++) sample(r, u->dev[i])[k] /= r->pace.factor;
}

bool luo_pace_take(luo_run *r, const luo_step_result *s)
{
    const luo_used_plan *u = luo_run_plan(r);
    for (int32_t i = 0; i < u->ndev; i++) sample(r, u->dev[i])[r->pace.n] = luo_pace_ratio(r, s, i);
    if (++r->pace.n < LUO_PACE_STEPS) return false;
    fix_factor(r);
    return true;
}
