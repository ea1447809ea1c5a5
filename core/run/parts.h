/* parts.h: where the time of a step went on one device (docs/results.md).
 *
 * A ledger collects the busy intervals of a device; closing it gives the shares of luo_parts, which
 * sum to the step. Times are seconds since the start of the step. */
#ifndef LUO_CORE_RUN_PARTS_H
#define LUO_CORE_RUN_PARTS_H
#include "core/run/backend.h"

typedef enum luo_part { /* in order of precedence */
    LUO_PART_COMPUTE,
    LUO_PART_RECOMPUTE,
    LUO_PART_TP,
    LUO_PART_EP,
    LUO_PART_CP,
    LUO_PART_PP,
    LUO_PART_DP,
    LUO_PART_MOVE,
    LUO_PART_IO,
    LUO_PARTS
} luo_part;

/* The part an instruction counts as: its stream; on stream tp an all-to-all is expert traffic (ep)
 * and a P2P the ring of context parallelism (cp). */
luo_part luo_part_of(const luo_instr *instr);

typedef struct luo_busy {
    double start, end;
    int32_t tag;
} luo_busy;

typedef struct luo_busy_chunk luo_busy_chunk;
typedef struct luo_ledger { /* {.arena = a} is an empty one */
    luo_arena *arena;
    struct luo_busy_list {
        luo_busy newest; /* most that comes continues it; the others are in chunks */
        luo_busy_chunk *first, *last;
        int32_t n; /* the newest included */
        bool unsorted;
    } part[LUO_PARTS];
} luo_ledger;

/* The device is busy with `part` from start to end. tag >= 0: what the interval belongs to (for
 * `exposed` below); -1: nothing. Intervals may come in any order and overlap. Intervals of one part
 * and tag that touch become one. Errors: LUO_ENOMEM. Cost: O(1). */
luo_status luo_ledger_add(luo_ledger *ledger, luo_part part, double start_s, double end_s,
                          int32_t tag);

/* Shares of [0, end_s); what lies outside is cut off. exposed (NULL: not wanted): per tag, the time
 * in which an interval of the tag ran and the device did not compute is added.
 * Errors: LUO_ENOMEM. Cost: O(n), O(n log n) where intervals came out of order. */
luo_status luo_ledger_close(const luo_ledger *ledger, luo_arena *scratch, double end_s,
                            luo_parts *out, double *exposed);

/* Mean over n devices. Pre: n > 0. */
luo_parts luo_parts_mean(const luo_parts *parts, int32_t n);
/* Adds so many times parts. */
void luo_parts_add(luo_parts *to, const luo_parts *parts, double factor);
/* Sum of the parts, bubble included. */
double luo_parts_total(const luo_parts *parts);
#endif
