/* tries.h: how often which step was tried since the checkpoint that a run can go back to,
 * as runs of equal numbers: there are as many as times that something went wrong, not as steps. */
#ifndef LUO_CORE_RUN_TRIES_H
#define LUO_CORE_RUN_TRIES_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

typedef struct luo_tries {
    int64_t from, to; /* steps from..to-1 were tried; all others not */
    int32_t n, room;
    struct luo_try_run {
        int64_t first; /* up to the next run */
        int32_t times;
    } *run; /* ascending */
} luo_tries;

/* One try more of a step; *before: how often it was tried. A step tried for the first time counts
 * as tried `known` times. Pre: from <= step <= to. False: out of memory.
 * Cost: O(log runs), O(runs) for a step between others. */
bool luo_tries_add(luo_arena *arena, luo_tries *tries, int64_t step, int32_t known,
                   int32_t *before);
/* Steps before `from` are forgotten. Pre: not before tries->from, not behind tries->to. */
void luo_tries_forget(luo_tries *tries, int64_t from);
/* All are; the next step to be tried is `from`. */
void luo_tries_clear(luo_tries *tries, int64_t from);
#endif
