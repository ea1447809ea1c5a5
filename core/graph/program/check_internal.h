/* check_internal.h: what the parts of luo_program_check share. Not for other folders.
 *
 *   program_check.c  what one role and one task list can be asked alone
 *   check_expand.c   per (role, task list): the points at which a lane can wait, and for what
 *   check_fold.c     devices of which one stands for many
 *   check_run.c      all devices on an abstract machine; the sentence when it does not finish
 */
#ifndef LUO_CORE_GRAPH_PROGRAM_CHECK_INTERNAL_H
#define LUO_CORE_GRAPH_PROGRAM_CHECK_INTERNAL_H
#include <string.h>

#include "core/graph/program/program.h"

/* All calls of stream dp stand in one lane here, in their order of issue. If that finishes, any
 * number of lanes does: the first instruction, in an order that fits all waits, that is not done
 * heads its lane on each of its devices. A library may also run communicators one after another. */
static inline int32_t check_lane(const luo_instr *instr)
{
    const int32_t lane = luo_instr_lane(instr);
    return luo_program_lane_is_dp(lane) ? LUO_STREAM_DP : lane;
}

/* Elements of each of n members. */
static inline bool check_same_counts(const luo_slot *a, const luo_slot *b, int32_t n)
{
    if (a->counts == b->counts) return true; /* members share their list */
    if (!a->counts || !b->counts) return false;
    return memcmp(a->counts, b->counts, (size_t)n * sizeof *a->counts) == 0;
}

/* Waiting is all that matters: communication, and what communication waits for. */
typedef struct check_point {
    int32_t instr, micro_batch;
    int32_t first_wait, nwait; /* in check_list.wait */
} check_point;

typedef struct check_wait { /* lane must have passed `count` points */
    int32_t lane, count;
} check_wait;

typedef struct check_list { /* of one (role, task list) */
    const luo_role *role;
    int32_t n[LUO_LANES];
    check_point *point[LUO_LANES];
    check_wait *wait;
} check_list;

/* Pre: luo_check_role passed for the role. */
luo_status luo_check_expand(luo_arena *arena, const luo_role *role, const luo_run_task *tasks,
                            int32_t ntask, check_list *out, luo_err *err);
/* runs, by device index: one of those that take the same steps together, if all do; else all.
 * folded: whether that is less than all. Errors: LUO_ENOMEM. See: tests/prop/prop_deadlock.c. */
luo_status luo_check_fold(luo_arena *scratch, const luo_programs *set,
                          const check_list *const *lists, bool *runs, bool *folded, luo_err *err);
/* lists: by device index. fold: run devices that stand for others alone; the answer is the same. */
luo_status luo_check_run(luo_arena *scratch, const luo_programs *set,
                         const check_list *const *lists, bool fold, luo_err *err);
#endif
