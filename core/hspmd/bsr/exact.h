/* exact.h: the sender rule `exact`: least largest load per link class, by flows
 * (docs/annotations.md#batched-sends-and-receives). Slow; the twin that `greedy` is compared with.
 * For core/hspmd only. */
#ifndef LUO_CORE_HSPMD_BSR_EXACT_H
#define LUO_CORE_HSPMD_BSR_EXACT_H
#include "core/hspmd/bsr/bsr.h"

typedef struct luo_need { /* bytes that one of the candidates must send to `to` */
    luo_moves *out;       /* where the sends go */
    int32_t step, to, link_class;
    int32_t ncand;
    const int32_t *cand; /* owners of the best class, in table order */
    luo_region region;
    int64_t elem_bytes;
} luo_need;

/* Needs collected by a planner until they are settled together. */
typedef struct luo_needs {
    luo_need *at;
    int32_t n, cap;
} luo_needs;

luo_status luo_needs_add(luo_arena *arena, luo_needs *needs, const luo_need *need, luo_err *err);
/* T* per class in bytes, and the assignment: sends are appended to each need's list, a need being
 * cut along its longest dimension where several candidates share it. emit false: only T*.
 * Errors: LUO_ENOMEM. Cost: 40 maximum flows over (distinct candidate sets x candidates). */
luo_status luo_exact_settle(luo_arena *arena, luo_needs *needs, bool emit,
                            int64_t bound[LUO_LINK_CLASSES], luo_err *err);
#endif
