/* detect.h: which devices changed their speed (docs/planners.md#detection-of-a-change).
 *
 * Notation: q = compute_s / predicted_s of a device in one step, 1 = nominal; x = accepted rate;
 * gap(x) = max(gap, 0.15 x). A sample is q / C, where C is what all devices measure alike.
 * A change is a candidate when the median of the last `window` samples is gap(x) or more away from
 * x, and confirmed when the next sample is half of that away on the same side. So a few wild
 * samples change nothing. The new rate is the median of the samples after the split that divides
 * the last 2 * window samples best. */
#ifndef LUO_CORE_RUN_HEALTH_DETECT_H
#define LUO_CORE_RUN_HEALTH_DETECT_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_WINDOW_MAX = 64, LUO_COMMON_MIN = 8, LUO_DRIFT_STEPS = 5 };

typedef struct luo_detect {
    int32_t ndevices, window;
    double gap;
    double slow;       /* from this rate on a device is slow; INFINITY (luo_detect_init): none is */
    double *accepted;  /* per device, 1 at start; INFINITY: failed */
    double *samples;   /* ndevices * 2 * window, a ring per device */
    int32_t *seen;     /* samples since the last accepted change or luo_detect_forget */
    int8_t *candidate; /* 1 slower, -1 faster, 0 none */
    int64_t accepts;   /* calls of luo_detect_accept and luo_detect_forget, own ones included */
} luo_detect;

typedef struct luo_rate_change {
    double was, now;
    int32_t n, split; /* sample[split..n) made the estimate; the device changed n - split samples
                         ago. n = 0: a failure, nothing was measured */
    double sample[2 * LUO_WINDOW_MAX];
} luo_rate_change;

/* Pre: 1 <= window <= LUO_WINDOW_MAX. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_detect_init(luo_arena *arena, int32_t ndevices, int32_t window, double gap,
                           luo_detect *out, luo_err *err);
/* Takes one sample; true: the accepted rate of the device has just changed, *change says how (NULL:
 * not wanted). An infinite sample is a failure and is accepted at once.
 * Cost: O(window) while the device keeps its rate, else O(window^3).
 * See: tests/unit/check_detect.c, tests/prop/prop_detect.c. */
bool luo_detect_push(luo_detect *detect, int32_t device, double sample, luo_rate_change *change);
/* The samples were taken under another plan: windows start again, accepted rates stay. */
void luo_detect_forget(luo_detect *detect);
/* Sets what is known otherwise (a new or repaired device: 1); its window starts again. */
void luo_detect_accept(luo_detect *detect, int32_t device, double rate);
/* Median of the device's last `window` samples; the accepted rate while there are fewer. */
double luo_detect_median(const luo_detect *detect, int32_t device);

/* What the devices of a step measure alike (docs/planners.md#measuring-rates-in-a-run): the median
 * of q / x over those with q > 0, at least 0.80 and at most 1.25; 1 with fewer than LUO_COMMON_MIN
 * of them. Of an even number, what is nearest to 1 between the middle two: half of the devices
 * cannot hide what the others do.
 * Shapes: dev, q, scratch: n. Cost: O(n). */
double luo_detect_common(const luo_detect *detect, const int32_t *dev, const double *q, int32_t n,
                         double *scratch);

/* Small changes (docs/planners.md#when-it-plans-again): true when for LUO_DRIFT_STEPS steps in a
 * row the plan's event time with the medians of today (today_s) is at least LUO_DRIFT_ALL times the
 * one with the accepted rates, or the one in which only devices that counted as healthy have the
 * medians of today (fresh_s) at least LUO_DRIFT_FRESH times. */
#define LUO_DRIFT_ALL 1.10
#define LUO_DRIFT_FRESH 1.02
typedef struct luo_drift {
    int32_t steps; /* so far */
} luo_drift;
bool luo_drift_push(luo_drift *drift, double today_s, double fresh_s, double accepted_s);
#endif
