/* planner.h: inside of a planner; for core/hspmd only. */
#ifndef LUO_CORE_HSPMD_BSR_PLANNER_H
#define LUO_CORE_HSPMD_BSR_PLANNER_H
#include "core/hspmd/bsr/exact.h"

typedef struct luo_load { /* of one sender */
    int32_t dev;
    bool used;
    int64_t bytes[LUO_LINK_CLASSES];
    double seconds[LUO_LINK_CLASSES]; /* LUO_SENDER_COST */
} luo_load;

struct luo_planner {
    luo_arena *arena;
    luo_planner_opts opts;
    luo_load *load; /* open addressing by device; never iterated for a choice */
    size_t cap, n;
    luo_needs needs; /* LUO_SENDER_EXACT: collected until they are settled */
    bool deferred;   /* the caller settles, not luo_bsr_plan */
};

/* Counters of a device, made if missing; NULL: no memory. */
luo_load *luo_planner_load(luo_planner *planner, int32_t dev);
/* Chooses among owner[0..n) who sends `bytes` to `to`, and counts them. turn: sends already made
 * for this cell (rr rules). Pre: n >= 1, `to` is no owner. */
luo_status luo_planner_choose(luo_planner *planner, const int32_t *owner, int32_t n, int32_t to,
                              int64_t bytes, int64_t turn, int32_t *out, luo_err *err);
/* LUO_SENDER_EXACT: notes the need with its candidates of the best class. */
luo_status luo_planner_note(luo_planner *planner, luo_moves *out, int32_t step,
                            const int32_t *owner, int32_t n, int32_t to, const luo_region *cell,
                            int64_t elem_bytes, luo_err *err);
#endif
