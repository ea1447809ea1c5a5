/* clock.h: the clock rule: who may start its next iteration (BSP, SSP, ASP).
 *
 * The clock of a worker is the number of iterations that it has finished. It may start the next one
 * while the least clock of all living workers and the staleness S reach its own: S = 0 is BSP,
 * S = -1 (no bound) ASP. So no two living workers are ever more than S + 1 apart.
 *
 * A pure state machine: what finishes or leaves is told, then luo_clock_release says who starts.
 * Events of one instant are told together, in ascending order of workers, before one release. */
#ifndef LUO_CORE_SYNC_CLOCK_H
#define LUO_CORE_SYNC_CLOCK_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

typedef enum luo_clock_state {
    LUO_CLOCK_RUNNING,
    LUO_CLOCK_FRESH,   /* finished since the last release */
    LUO_CLOCK_BLOCKED, /* waits until the least clock moves */
    LUO_CLOCK_GONE
} luo_clock_state;

typedef struct luo_clock { /* fields are private but for the first line of them */
    int32_t workers, living;
    int64_t staleness;
    int64_t *clock;           /* by worker */
    uint8_t *state;           /* by worker: luo_clock_state */
    int64_t least, most;      /* of the living */
    int64_t *at;              /* how many of the living have clock c: at[c & (cap - 1)] */
    int64_t cap;              /* a power of 2 above most - least */
    int32_t *fresh, *started; /* lists of workers */
    int32_t nfresh;
    uint64_t *blocked; /* a bit a worker */
    bool moved;        /* the least clock, since the last release */
    luo_arena *arena;
} luo_clock;

/* All workers run their first iteration, clocks are 0. Pre: workers >= 1, staleness >= -1.
 * Errors: LUO_ENOMEM. Owner: arena, also of what grows later. */
luo_status luo_clock_new(luo_arena *arena, int32_t workers, int64_t staleness, luo_clock *out,
                         luo_err *err);
/* A worker has finished an iteration, and waits. Errors: LUO_EBUG it does not run; LUO_ENOMEM.
 * Cost: amortised O(1). */
luo_status luo_clock_finish(luo_clock *clock, int32_t worker, luo_err *err);
/* A worker is dead or has finished its work; its clock counts no more. Nothing if it has left
 * before. */
void luo_clock_leave(luo_clock *clock, int32_t worker);
/* A worker that had left is back with the newest state, and runs: its clock is the least one, or
 * where nobody lives, its own. Errors: LUO_EBUG it has not left. */
luo_status luo_clock_join(luo_clock *clock, int32_t worker, luo_err *err);
/* May that worker start, as clocks are now? The rule itself. */
bool luo_clock_may_start(const luo_clock *clock, int32_t worker);
/* The waiting workers that may start now, ascending; from here on they run. Returns how many;
 * *started until the next call. Cost: amortised O(1) a worker. */
int32_t luo_clock_release(luo_clock *clock, const int32_t **started);
#endif
