/* lanes.h: one order for calls that share devices, and a lane for each. Pure: numbers
 * in, numbers out.
 *
 * A device has a few lanes; a call takes one on each of its devices from start to end. At every
 * date the call with the longest way to the end of the step starts, of those that can. What comes
 * out is a timetable; its order of starts is one order for all devices, so that devices that follow
 * it never wait for each other in a circle, whatever the times turn out to be.
 */
#ifndef LUO_CORE_GRAPH_SCHEDULE_LANES_H
#define LUO_CORE_GRAPH_SCHEDULE_LANES_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_LANES_MOST = 4 }; /* lanes of a device: 12 / k is whole for up to four */

typedef struct luo_lane_call {
    int64_t ready;         /* ns: it starts no sooner */
    int64_t fixed, moving; /* ns if alone: the part that waits, then the part that fills links */
    int64_t tail;          /* ns from its end to that of the step */
    int64_t rank;          /* of two that could start, one of a smaller rank does */
    int32_t link;          /* 0, 1: moving parts with links of one kind share them on a device */
    int32_t ndev, ngroup, nbefore;
    const int32_t *dev;    /* each once */
    const int32_t *group;  /* calls with a group in common never overlap */
    const int32_t *before; /* calls that end before it starts */
} luo_lane_call;

typedef struct luo_timetable {
    int32_t *order;       /* calls by start; at one date in the order in which they were chosen */
    int64_t *start, *end; /* ns, per call */
    uint8_t **lane;       /* per call, per device of it */
    int64_t end_ns;       /* latest end with its tail */
} luo_timetable;

/* List scheduling of n calls on devices 0..ndev-1 with `lanes` lanes each, groups 0..ngroups-1. At
 * a date, of the calls that are ready, with all before them ended, a free lane on every device and
 * no running call of their groups, the first starts by: least rank; longest way left, that is tail
 * + the largest sum over its devices of what has not started there, itself included; sooner ready;
 * smaller number. It takes the lowest free lanes. A moving part goes on at 1/k, k the most of its
 * kind on one of its devices; work is counted in 1/12 ns and ends are rounded up, so that every
 * machine finds the same.
 * Pre: 1 <= lanes <= LUO_LANES_MOST; times >= 0, sums below 2^58.
 * Errors: LUO_EBUG calls come before each other in a circle; LUO_ENOMEM. Owner: arena.
 * Cost: devices with the same calls count once, equal sets of calls that share no device with
 * others are scheduled once; each O(calls^2 * devices) at worst.
 * Source: Graham 1966, Kelley's critical path. See: tests/unit/check_lanes.c. */
luo_status luo_lanes_schedule(luo_arena *arena, const luo_lane_call *call, int32_t n, int32_t ndev,
                              int32_t ngroups, int32_t lanes, luo_timetable *out, luo_err *err);
#endif
