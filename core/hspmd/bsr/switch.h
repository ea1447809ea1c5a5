/* switch.h: the fused plan that moves state from plan A to plan B. */
#ifndef LUO_CORE_HSPMD_BSR_SWITCH_H
#define LUO_CORE_HSPMD_BSR_SWITCH_H
#include "core/hspmd/resolve.h"

/* One kind of state of one parameter set: the tensors move with one decision per cell. */
typedef struct luo_switch_tensor {
    const char *name;
    const luo_ann *from, *to; /* canonical, no Partial */
    luo_shape shape;
    int64_t elem_bytes; /* summed over the states that share the annotation (Adam: 12) */
    int32_t bucket;     /* layer index mod B, B = 10 usually; 0 for non-layer tensors */
} luo_switch_tensor;

typedef struct luo_switch_opts {
    luo_planner_opts planner;
    bool planner_unsaid; /* planner.sender is not read: `exact` where that is quick and sends less,
                            else `greedy` */
    luo_reset reset;     /* LUO_RESET_FUSED by default */
    bool load_lost;      /* a checkpoint is at hand: lost cells become LOAD moves */
} luo_switch_opts;

/* A send, copy or load of a switch: tensor index, region. A device whose region of a tensor does
 * not change has none: its buffer is bound again. */
typedef struct luo_switch_move {
    luo_move_kind kind; /* COPY, SEND, LOAD */
    int32_t tensor, src, dst;
    int64_t bytes;
    luo_region region;
} luo_switch_move;

typedef struct luo_pair { /* one packed message */
    int32_t src, dst, link_class;
    int64_t bytes;
} luo_pair;

typedef struct luo_switch {
    luo_switch_move *move; /* by tensor; then by cell, with `exact` the sends behind the copies */
    int64_t nmove;
    luo_pair *pair; /* by (src, dst) */
    int32_t npair;
    int64_t nsend, local_bytes;  /* number of SEND moves; bytes that stay on their device */
    int64_t rebinds;             /* (device, tensor) whose region does not change */
    int64_t rebound_bytes;       /* their part of local_bytes; the rest is copied */
    int64_t class_bytes[LUO_LINK_CLASSES];
    luo_lost *lost;
    int32_t nlost;
} luo_switch;

/* Most senders times sends of the greedy plan for which an unsaid planner tries `exact`: a count,
 * so that all machines agree. Measured on one core with plans in which pipelines differ: 2e7 (200
 * devices) 0.07 s, 2.3e8 (4,096) 0.32 s, 8.7e8 (8,192) 0.65 s, 1.3e9 (16,384) 0.52 s. */
#define LUO_SWITCH_EXACT_LIMIT INT64_C(1000000000)

/* With an unsaid planner of a fused switch `exact` is taken where the largest sender of a link
 * class sends less than with `greedy`, and of no class more; else greedy's plan, which cuts no
 * piece.
 * Errors: LUO_ELOST (out is complete all the same) unless opts->load_lost; LUO_EINPUT a dead
 *         destination device or a Partial tensor; LUO_E2BIG; LUO_ENOMEM.
 * Owner:  everything in *out belongs to arena.
 * Cost:   O(holders of cells + needs * owners of the cell); 70B on 1,024 devices: 0.05 s.
 * Source: Hetu v2, section 5.3; counters that start anew per bucket only on request.
 * See:    tests/unit/check_switch.c, tests/prop/prop_switch.c,
 *         tests/bench/bench_switch.c. */
luo_status luo_switch_plan(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                           const luo_switch_opts *opts, luo_switch *out, luo_err *err);
/* T*: least possible largest sender load, per link class, in bytes (6, `exact`). Receivers take
 * from the best class that has an owner, as with `greedy`; cells may be cut anywhere.
 * Errors: as luo_switch_plan, but lost cells count nothing. Owner: arena is scratch. */
luo_status luo_switch_bound(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                            const luo_switch_opts *opts, int64_t out[LUO_LINK_CLASSES],
                            luo_err *err);
#endif
