/* bsr.h: batched send-receive, who sends what to whom
 * (docs/annotations.md#batched-sends-and-receives). */
#ifndef LUO_CORE_HSPMD_BSR_BSR_H
#define LUO_CORE_HSPMD_BSR_BSR_H
#include "core/base/hash.h"
#include "core/hspmd/region.h"

/* Operations of a resolution or a switch. */
typedef enum luo_move_kind {
    LUO_MOVE_COPY, /* dev[0]; region[0] */
    LUO_MOVE_SEND, /* dev[0] -> dev[1]; region[0] */
    LUO_MOVE_AR,   /* group dev[0..ndev); region[0] */
    LUO_MOVE_RS,   /* group; region[j] = part of rank j */
    LUO_MOVE_AG,
    LUO_MOVE_LOAD, /* dev[0] reads region[0] from a checkpoint */
    LUO_MOVE_A2A   /* group; region[j] = what rank j deals out, or gets back. Of no resolution of
                      annotations: rows of experts (core/graph/specialize/spec_experts.c) */
} luo_move_kind;

typedef struct luo_move {
    luo_move_kind kind;
    int32_t step;
    int32_t dim; /* RS, AG: the dimension */
    bool v;      /* RS, AG: part volumes differ */
    int32_t ndev, nregion;
    const int32_t *dev; /* group order = communicator rank order */
    const luo_region *region;
} luo_move;

enum { LUO_LINK_CLASSES = 8 }; /* 0 same device, 1 node, 2 rack, 3 cross, then free */

typedef enum luo_sender {
    LUO_SENDER_GREEDY,
    LUO_SENDER_MINRANK,
    LUO_SENDER_RR,
    LUO_SENDER_RR_NODE,
    LUO_SENDER_COST,
    LUO_SENDER_EXACT
} luo_sender;

typedef enum luo_reset { LUO_RESET_FUSED, LUO_RESET_BUCKET, LUO_RESET_TENSOR } luo_reset;

/* Link class between two devices (0..7, lower is better). */
typedef int32_t (*luo_link_class_fn)(const void *ctx, int32_t a, int32_t b);
typedef struct luo_node_racks {   /* ctx of luo_node_racks_link_class */
    int32_t node_size, rack_size; /* in devices; node_size >= 1; rack_size 0: no racks */
} luo_node_racks;
int32_t luo_node_racks_link_class(const void *ctx, int32_t a, int32_t b);

typedef struct luo_planner_opts {
    luo_sender sender;
    luo_link_class_fn link_class; /* NULL: luo_node_racks_link_class on nodes of 8, no racks */
    const void *link_ctx;
    /* LUO_SENDER_COST: seconds = bytes / bytes_per_s[class] + latency_s[class]; 0 = free. */
    double bytes_per_s[LUO_LINK_CLASSES], latency_s[LUO_LINK_CLASSES];
    const int32_t *dead; /* ascending device ids */
    int32_t ndead;
} luo_planner_opts;

/* Balance counters of one whole switch, or of one Reshard. */
typedef struct luo_planner luo_planner;
luo_planner *luo_planner_new(luo_arena *arena, const luo_planner_opts *opts); /* NULL: no memory */
void luo_planner_reset(luo_planner *planner);
bool luo_planner_dead(const luo_planner *planner, int32_t dev);
int32_t luo_planner_class(const luo_planner *planner, int32_t a, int32_t b);
/* "greedy" etc.; parse is exact. Errors: LUO_EUSAGE naming the known ones. */
const char *luo_sender_name(luo_sender s);
luo_status luo_sender_parse(const char *name, luo_sender *out, luo_err *err);

typedef struct luo_lost {
    luo_region region;
    int32_t dev;    /* receiver */
    int32_t tensor; /* index in the switch; 0 in a single reshard */
} luo_lost;

/* A growing list of moves (arena-backed). */
typedef struct luo_moves {
    luo_move *at;
    int32_t n, cap;
    luo_lost *lost;
    int32_t nlost, cap_lost;
} luo_moves;

/* Plans the movement src -> dst (no Partial in either) and appends to out as step `step`.
 * elem_bytes: bytes of one cell. Cells nobody needs are skipped; cells without a living owner go
 * to out->lost and the status is LUO_ELOST (the rest is still planned).
 * Errors: LUO_E2BIG above 2^24 cells; LUO_EINPUT a dead destination device; LUO_ENOMEM.
 * Cost: O(sum of region cells + needs * owners).
 * Source: Hetu v2, section 5.3 and appendix; senders without an owner, counters that start anew and
 * two link classes are not repeated. */
luo_status luo_bsr_plan(luo_arena *arena, luo_planner *planner, const luo_holdings *src,
                        const luo_holdings *dst, const luo_shape *shape, int64_t elem_bytes,
                        int32_t step, const char *name, luo_moves *out, luo_err *err);

/* The line of an operation behind its STEP: "send 0->2 [0:4)". */
void luo_move_print(luo_str *text, const luo_move *move);
/* Bytes that each class carries: sends, out[class]. */
void luo_moves_class_bytes(const luo_planner *planner, const luo_moves *moves, int64_t elem_bytes,
                           int64_t out[LUO_LINK_CLASSES]);
#endif
