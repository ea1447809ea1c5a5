#include "core/sync/mixing.h"

#include <math.h>
#include <string.h>

#include "core/sync/eigen.h"

luo_status luo_mixing_new(luo_arena *arena, int32_t workers, luo_mixing *out, luo_err *err)
{
    if (workers < 1 || workers > LUO_MIXING_WORKERS)
        return luo_err_set(err, LUO_E2BIG,
                           "the mixing of %d workers is asked for; eigenvalues are computed for 1 "
                           "to %d.",
                           workers, LUO_MIXING_WORKERS);
    luo_mixing mixing = {.workers = workers};
    mixing.apart = luo_arena_calloc(arena, (size_t)workers * (size_t)workers, sizeof *mixing.apart);
    if (!mixing.apart) return luo_err_nomem(err);
    *out = mixing;
    return LUO_OK;
}

void luo_mixing_clear(luo_mixing *mixing)
{
    const size_t n = (size_t)mixing->workers;
    memset(mixing->apart, 0, n * n * sizeof *mixing->apart);
    mixing->groups = mixing->whole = 0;
}

void luo_mixing_add(luo_mixing *mixing, const int32_t *member, const double *weight, int32_t n)
{
    mixing->groups++;
    if (!weight && n == mixing->workers) {
        mixing->whole++;
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        double *row = mixing->apart + (size_t)member[i] * (size_t)mixing->workers;
        for (int32_t k = 0; k < n; k++)
            row[member[k]] -= weight ? n * weight[i] * weight[k] : 1.0 / n;
        row[member[i]] += 1;
    }
}

/* The mean W^T W of the living, row by row; how many they are. */
static int mean_of(const luo_mixing *mixing, const bool *gone, double *a)
{
    const size_t w = (size_t)mixing->workers;
    const double all = (double)mixing->groups, whole = (double)mixing->whole;
    int n = 0;
    size_t at = 0;
    for (size_t i = 0; i < w; i++) n += !gone || !gone[i];
    for (size_t i = 0; i < w; i++) {
        if (gone && gone[i]) continue;
        for (size_t k = 0; k < w; k++)
            if (!gone || !gone[k])
                a[at++] =
                    (i == k) -
                    (mixing->apart[i * w + k] + whole * ((i == k) - 1.0 / mixing->workers)) / all;
    }
    return n;
}

luo_status luo_mixing_lambda2(luo_arena *scratch, const luo_mixing *mixing, const bool *gone,
                              double *out, luo_err *err)
{
    const size_t cells = (size_t)mixing->workers * (size_t)mixing->workers;
    const size_t mark = luo_arena_mark(scratch);
    *out = NAN;
    if (mixing->groups == 0) return LUO_OK;
    double *a = LUO_NEW_N(scratch, double, cells);
    double *rows = LUO_NEW_N(scratch, double, 4 * (size_t)mixing->workers);
    if (!a || !rows) return luo_err_nomem(err);
    const int n = mean_of(mixing, gone, a);
    if (n >= 2) /* none is negative, but by rounding */
        *out = fmax(0, luo_eigen_symmetric(a, n, n - 2, rows));
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}
