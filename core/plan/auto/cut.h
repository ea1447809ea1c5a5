/* cut.h: contiguous layers for the stages of a pipeline. */
#ifndef LUO_CORE_PLAN_AUTO_CUT_H
#define LUO_CORE_PLAN_AUTO_CUT_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

/* Cuts layers in order so that the largest work / speed of a stage is least, exactly.
 * Shapes: work[layers], speed[stages] (NULL: all 1), count[stages]: layers of each, 1 at least.
 * Order:  of equal cuts (1e-12) the one with the shorter earlier stages.
 * Pre:    1 <= stages <= layers; work >= 0, speed > 0.
 * Errors: LUO_ENOMEM. Out: count, *largest (NULL: not wanted).
 * Cost:   O(stages * layers^2) at worst. luo_plan_minmax is for rows of equal units, without the
 *         order of layers.
 * See:    tests/prop/prop_auto.c (every cut); tests/unit/check_auto.c, AP9. */
luo_status luo_auto_cut(luo_arena *scratch, const double *work, int32_t layers, const double *speed,
                        int32_t stages, int32_t *count, double *largest, luo_err *err);
#endif
