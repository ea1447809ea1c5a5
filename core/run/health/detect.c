#include "core/run/health/detect.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double RELATIVE_GAP = 0.15, COMMON_LEAST = 0.80, COMMON_MOST = 1.25;

luo_status luo_detect_init(luo_arena *arena, int32_t ndevices, int32_t window, double gap,
                           luo_detect *out, luo_err *err)
{
    assert(window >= 1 && window <= LUO_WINDOW_MAX);
    luo_detect detect = {.ndevices = ndevices,
                         .window = window,
                         .gap = gap,
                         .slow = INFINITY,
                         .accepted = LUO_NEW_N(arena, double, ndevices),
                         .samples = LUO_NEW_N(arena, double, (int64_t)ndevices * 2 * window),
                         .seen = LUO_NEW_N(arena, int32_t, ndevices),
                         .candidate = LUO_NEW_N(arena, int8_t, ndevices)};
    if (!detect.accepted || !detect.samples || !detect.seen || !detect.candidate)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < ndevices; i++) detect.accepted[i] = 1;
    *out = detect;
    return LUO_OK;
}

/* ---- medians ---- */

/* Mean of the two middle values when n is even; luo_stats_median would sort what is in order of
 * time. */
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
static void last(const luo_detect *detect, int32_t device, int32_t n, double *out)
{
    const int32_t cap = 2 * detect->window;
    const double *ring = detect->samples + (int64_t)device * cap;
    for (int32_t i = 0; i < n; i++) out[i] = ring[(detect->seen[device] - n + i) % cap];
}

static void keep(luo_detect *detect, int32_t device, double sample)
{
    const int32_t cap = 2 * detect->window;
    detect->samples[(int64_t)device * cap + detect->seen[device] % cap] = sample;
    detect->seen[device]++;
    if (detect->seen[device] == 2 * cap) detect->seen[device] = cap; /* keeps the place */
}

/* Does a sample lie so many gaps away from the accepted rate? Of a slow device half way back to
 * being well is far enough: below the gap it would count as slow for ever. */
static bool is_away(const luo_detect *detect, double rate, double sample, double gaps)
{
    const double gap = fmax(detect->gap, RELATIVE_GAP * rate);
    const double half = fmax((rate - 1) / 2, RELATIVE_GAP * rate); /* no less than noise makes */
    const bool back = sample < rate && rate >= detect->slow;
    return fabs(sample - rate) >= gaps * (back ? fmin(gap, half) : gap);
}

/* Rule 1 to 3: the sign of the median's distance, if it is large enough. */
static int8_t look(const luo_detect *detect, int32_t device)
{
    double at[LUO_WINDOW_MAX];
    const double was = detect->accepted[device];
    int32_t away = 0;
    if (detect->seen[device] < detect->window) return 0;
    last(detect, device, detect->window, at);
    for (int32_t i = 0; i < detect->window; i++) away += is_away(detect, was, at[i], 1);
    if (away < (detect->window + 1) / 2) return 0; /* the median is not away either */
    const double m = median(at, detect->window);
    if (!is_away(detect, was, m, 1)) return 0;
    return m > was ? 1 : -1;
}

static void confirm(luo_detect *detect, int32_t device, luo_rate_change *change)
{
    luo_rate_change own = {0}, *rate_change = change ? change : &own;
    rate_change->was = detect->accepted[device];
    rate_change->n =
        detect->seen[device] < 2 * detect->window ? detect->seen[device] : 2 * detect->window;
    last(detect, device, rate_change->n, rate_change->sample);
    rate_change->now =
        split(rate_change->sample, rate_change->n, (detect->window + 1) / 2, &rate_change->split);
    luo_detect_accept(detect, device, rate_change->now);
}

static bool fail(luo_detect *detect, int32_t device, luo_rate_change *change)
{
    const double was = detect->accepted[device];
    if (isinf(was)) return false;
    luo_detect_accept(detect, device, INFINITY);
    if (change) *change = (luo_rate_change){.was = was, .now = INFINITY};
    return true;
}

bool luo_detect_push(luo_detect *detect, int32_t device, double sample, luo_rate_change *change)
{
    const double was = detect->accepted[device];
    const int8_t sign = detect->candidate[device];
    if (isinf(sample)) return fail(detect, device, change);
    keep(detect, device, sample);
    if (sign != 0 && sign * (sample - was) > 0 && is_away(detect, was, sample, 0.5)) {
        confirm(detect, device, change);
        return true;
    }
    detect->candidate[device] = look(detect, device);
    return false;
}

void luo_detect_forget(luo_detect *detect)
{
    detect->accepts++;
    memset(detect->seen, 0, (size_t)detect->ndevices * sizeof *detect->seen);
    memset(detect->candidate, 0, (size_t)detect->ndevices * sizeof *detect->candidate);
}

void luo_detect_accept(luo_detect *detect, int32_t device, double rate)
{
    detect->accepts++;
    detect->accepted[device] = rate;
    detect->seen[device] = 0;
    detect->candidate[device] = 0;
}

double luo_detect_median(const luo_detect *detect, int32_t device)
{
    double at[LUO_WINDOW_MAX];
    if (detect->seen[device] < detect->window) return detect->accepted[device];
    last(detect, device, detect->window, at);
    return median(at, detect->window);
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

double luo_detect_common(const luo_detect *detect, const int32_t *dev, const double *q, int32_t n,
                         double *scratch)
{
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++)
        if (q[i] > 0) scratch[m++] = q[i] / detect->accepted[dev[i]];
    if (m < LUO_COMMON_MIN) return 1;
    const double low = nth(scratch, m, (m - 1) / 2), high = nth(scratch, m, m / 2);
    return fmin(fmax(low > 1 ? low : high < 1 ? high : 1, COMMON_LEAST), COMMON_MOST);
}

bool luo_drift_push(luo_drift *drift, double today_s, double fresh_s, double accepted_s)
{
    const bool slower = today_s >= LUO_DRIFT_ALL * accepted_s ||
                        fresh_s >= LUO_DRIFT_FRESH * accepted_s;
    drift->steps = slower ? drift->steps + 1 : 0;
    if (drift->steps < LUO_DRIFT_STEPS) return false;
    drift->steps = 0;
    return true;
}
