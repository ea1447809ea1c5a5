/* core/run/detect.h: which devices changed their speed (Malleus, sections 3 and 4; this is the
 * median of a window without the confirmation step).
 *
 * A sample is compute_s / predicted_s of one step, 1 = nominal. A change is seen when the median
 * of the last `window` samples is away from the accepted rate by max(gap, 0.15 * accepted). */
#ifndef LUO_CORE_RUN_DETECT_H
#define LUO_CORE_RUN_DETECT_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_WINDOW_MAX = 64 };

typedef struct luo_detect {
    int32_t ndevices, window;
    double gap;
    double *accepted; /* per device, 1 at start */
    double *samples;  /* ndevices * window, a ring per device */
    int32_t *seen;    /* samples since the last accepted change or luo_detect_forget */
} luo_detect;

/* Pre: 1 <= window <= LUO_WINDOW_MAX. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_detect_init(luo_arena *arena, int32_t ndevices, int32_t window, double gap,
                           luo_detect *out, luo_err *err);
/* Takes one sample; true: the accepted rate of the device has just changed. Cost: O(window). */
bool luo_detect_push(luo_detect *d, int32_t device, double sample);
/* The samples were taken under another plan: windows start again, accepted rates stay. */
void luo_detect_forget(luo_detect *d);
/* Sets what is known otherwise (a new or repaired device: 1). */
void luo_detect_accept(luo_detect *d, int32_t device, double rate);
#endif
