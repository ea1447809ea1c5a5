#include "core/run/detect.h"

#include <assert.h>
#include <math.h>
#include <string.h>

luo_status luo_detect_init(luo_arena *arena, int32_t ndevices, int32_t window, double gap,
                           luo_detect *out, luo_err *err)
{
    assert(window >= 1 && window <= LUO_WINDOW_MAX);
    luo_detect d = {.ndevices = ndevices, .window = window, .gap = gap,
                    .accepted = LUO_NEW_N(arena, double, ndevices),
                    .samples = LUO_NEW_N(arena, double, (int64_t)ndevices * window),
                    .seen = LUO_NEW_N(arena, int32_t, ndevices)};
    if (!d.accepted || !d.samples || !d.seen) return luo_err_nomem(err);
    for (int32_t i = 0; i < ndevices; i++) d.accepted[i] = 1;
    *out = d;
    return LUO_OK;
}

/* Mean of the two middle values when the window is even. */
static double median(const double *at, int32_t n)
{
    double v[LUO_WINDOW_MAX] = {0};
    for (int32_t i = 0; i < n; i++) {
        int32_t k = i;
        for (; k > 0 && v[k - 1] > at[i]; k--) v[k] = v[k - 1];
        v[k] = at[i];
    }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

bool luo_detect_push(luo_detect *d, int32_t device, double sample)
{
    double *ring = d->samples + (int64_t)device * d->window;
    ring[d->seen[device] % d->window] = sample;
    d->seen[device]++;
    if (d->seen[device] < d->window) return false;
    if (d->seen[device] == 2 * d->window) d->seen[device] = d->window; /* keeps the place */
    const double m = median(ring, d->window), was = d->accepted[device];
    if (fabs(m - was) < fmax(d->gap, 0.15 * was)) return false;
    luo_detect_accept(d, device, m);
    return true;
}

void luo_detect_forget(luo_detect *d)
{
    memset(d->seen, 0, (size_t)d->ndevices * sizeof *d->seen);
}

void luo_detect_accept(luo_detect *d, int32_t device, double rate)
{
    d->accepted[device] = rate;
    d->seen[device] = 0;
}
