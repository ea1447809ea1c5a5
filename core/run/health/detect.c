#include "core/run/health/detect.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double RELATIVE_GAP = 0.15, COMMON_LEAST = 0.80, COMMON_MOST = 1.25;

luo_status luo_detect_init(luo_arena *arena, int32_t ndevices, int32_t window, double gap,
                           luo_detect *out, luo_err *err)
{
    assert(window >= 1 && window <= LUO_WINDOW_MAX);
    luo_detect d = {.ndevices = ndevices, .window = window, .gap = gap,
                    .accepted = LUO_NEW_N(arena, double, ndevices),
                    .samples = LUO_NEW_N(arena, double, (int64_t)ndevices * 2 * window),
                    .seen = LUO_NEW_N(arena, int32_t, ndevices),
                    .candidate = LUO_NEW_N(arena, int8_t, ndevices)};
    if (!d.accepted || !d.samples || !d.seen || !d.candidate) return luo_err_nomem(err);
    for (int32_t i = 0; i < ndevices; i++) d.accepted[i] = 1;
    *out = d;
    return LUO_OK;
}

/* ---- medians ---- */

/* Mean of the two middle values when n is even; luo_median would sort what is in order of time. */
static double median(const double *at, int32_t n)
{
    double v[2 * LUO_WINDOW_MAX] = {0};
    for (int32_t i = 0; i < n; i++) {
        int32_t k = i;
        for (; k > 0 && v[k - 1] > at[i]; k--) v[k] = v[k - 1];
        v[k] = at[i];
    }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double spread(const double *at, int32_t n, double middle)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += fabs(at[i] - middle);
    return sum;
}

/* Where the last samples divide best; smallest c on ties. */
static double split(const double *at, int32_t n, int32_t least_right, int32_t *where)
{
    double best = INFINITY, right = 0;
    for (int32_t c = 1; c <= n - least_right; c++) {
        const double r = median(at + c, n - c);
        const double cost = spread(at, c, median(at, c)) + spread(at + c, n - c, r);
        if (cost >= best) continue;
        best = cost;
        right = r;
        *where = c;
    }
    return right;
}

/* ---- one device ---- */

/* The last n samples, oldest first. */
static void last(const luo_detect *d, int32_t device, int32_t n, double *out)
{
    const int32_t cap = 2 * d->window;
    const double *ring = d->samples + (int64_t)device * cap;
    for (int32_t i = 0; i < n; i++) out[i] = ring[(d->seen[device] - n + i) % cap];
}

static void keep(luo_detect *d, int32_t device, double sample)
{
    const int32_t cap = 2 * d->window;
    d->samples[(int64_t)device * cap + d->seen[device] % cap] = sample;
    d->seen[device]++;
    if (d->seen[device] == 2 * cap) d->seen[device] = cap; /* keeps the place */
}

static double gap_of(const luo_detect *d, double rate)
{
    return fmax(d->gap, RELATIVE_GAP * rate);
}

/* Rule 1 to 3: the sign of the median's distance, if it is large enough. */
static int8_t look(const luo_detect *d, int32_t device)
{
    double at[LUO_WINDOW_MAX];
    const double was = d->accepted[device], gap = gap_of(d, was);
    int32_t away = 0;
    if (d->seen[device] < d->window) return 0;
    last(d, device, d->window, at);
    for (int32_t i = 0; i < d->window; i++) away += !(fabs(at[i] - was) < gap);
    if (away < (d->window + 1) / 2) return 0; /* the median is not away either */
    const double m = median(at, d->window);
    if (fabs(m - was) < gap) return 0;
    return m > was ? 1 : -1;
}

static void confirm(luo_detect *d, int32_t device, luo_rate_change *change)
{
    luo_rate_change own = {0}, *c = change ? change : &own;
    c->was = d->accepted[device];
    c->n = d->seen[device] < 2 * d->window ? d->seen[device] : 2 * d->window;
    last(d, device, c->n, c->sample);
    c->now = split(c->sample, c->n, (d->window + 1) / 2, &c->split);
    luo_detect_accept(d, device, c->now);
}

static bool fail(luo_detect *d, int32_t device, luo_rate_change *change)
{
    const double was = d->accepted[device];
    if (isinf(was)) return false;
    luo_detect_accept(d, device, INFINITY);
    if (change) *change = (luo_rate_change){.was = was, .now = INFINITY};
    return true;
}

bool luo_detect_push(luo_detect *d, int32_t device, double sample, luo_rate_change *change)
{
    const double was = d->accepted[device];
    const int8_t sign = d->candidate[device];
    if (isinf(sample)) return fail(d, device, change);
    keep(d, device, sample);
    if (sign != 0 && sign * (sample - was) >= gap_of(d, was) / 2) {
        confirm(d, device, change);
        return true;
    }
    d->candidate[device] = look(d, device);
    return false;
}

void luo_detect_forget(luo_detect *d)
{
    memset(d->seen, 0, (size_t)d->ndevices * sizeof *d->seen);
    memset(d->candidate, 0, (size_t)d->ndevices * sizeof *d->candidate);
}

void luo_detect_accept(luo_detect *d, int32_t device, double rate)
{
    d->accepted[device] = rate;
    d->seen[device] = 0;
    d->candidate[device] = 0;
}

double luo_detect_median(const luo_detect *d, int32_t device)
{
    double at[LUO_WINDOW_MAX];
    if (d->seen[device] < d->window) return d->accepted[device];
    last(d, device, d->window, at);
    return median(at, d->window);
}

/* ---- all devices ---- */

/* The k-th smallest; reorders. */
static double nth(double *at, int32_t n, int32_t k)
{
    int32_t lo = 0, hi = n - 1;
    while (lo < hi) {
        const double pivot = at[lo + (hi - lo) / 2];
        int32_t i = lo, j = hi;
        while (i <= j) {
            while (at[i] < pivot) i++;
            while (at[j] > pivot) j--;
            if (i > j) break;
            const double swap = at[i];
            at[i++] = at[j];
            at[j--] = swap;
        }
        if (k <= j) hi = j;
        else if (k >= i) lo = i;
        else break;
    }
    return at[k];
}

double luo_detect_common(const luo_detect *d, const int32_t *dev, const double *q, int32_t n,
                         double *scratch)
{
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++)
        if (q[i] > 0) scratch[m++] = q[i] / d->accepted[dev[i]];
    if (m < LUO_COMMON_MIN) return 1;
    const double low = nth(scratch, m, (m - 1) / 2), high = nth(scratch, m, m / 2);
    return fmin(fmax(low > 1 ? low : high < 1 ? high : 1, COMMON_LEAST), COMMON_MOST);
}

bool luo_drift_push(luo_drift *d, double today_s, double fresh_s, double accepted_s)
{
    const bool slower = today_s >= LUO_DRIFT_ALL * accepted_s ||
                        fresh_s >= LUO_DRIFT_FRESH * accepted_s;
    d->steps = slower ? d->steps + 1 : 0;
    if (d->steps < LUO_DRIFT_STEPS) return false;
    d->steps = 0;
    return true;
}
