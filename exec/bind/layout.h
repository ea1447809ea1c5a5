/* layout.h: where each buffer of a program lies in one slab; worked out once per program, so
 * that a step allocates nothing.
 *
 * Weights, gradients and optimizer state have a place of their own. What lives inside a task shares
 * memory with what does not live at the same time. What F leaves for B has one copy per micro-batch
 * in flight, and so has what F leaves for BW, and BI for BW, each with copies of its own; those of
 * other lengths share them where they are as large. The
 * executor is one thread that walks the instructions of a task in order: it computes at once,
 * issues communication, and has waited for all of it when the task ends, but for calls that run
 * beside tasks (luo_instr_runs_beside), whose buffers and scratch have places of their own, and for
 * what is received for the next task (luo_bound_room), which touches no buffer before that. So a
 * buffer that another communication touches is live from its issue until the first instruction that
 * waits for it, or for a later one of its lane, or else until the end of the task. */
#ifndef LUO_EXEC_BIND_LAYOUT_H
#define LUO_EXEC_BIND_LAYOUT_H
#include "exec/bind/route.h"

enum { LUO_LAYOUT_ALIGN = LUO_BUFFER_ALIGN };

typedef struct luo_layout {
    int64_t bytes; /* of the slab */
    int32_t nbuf;
    const int64_t *at;     /* per buffer: first copy; multiple of LUO_LAYOUT_ALIGN */
    const int64_t *stride; /* per buffer: to the next copy; 0: one copy */
    const uint8_t *life;   /* per buffer: luo_layout_life */
    int32_t ntask;
    const int32_t *copy;     /* [life*ntask + task]: which copy its micro-batch uses */
    const int64_t *scratch;  /* per instruction: of its Reshard, like `at`; -1: none is used */
    int64_t own, kept, work; /* bytes: places of their own; left for B; inside a task */
} luo_layout;

/* How long a micro-batch keeps what it leaves for another task. */
typedef enum luo_layout_life {
    LUO_LIFE_BACKWARD, /* until B, or BI */
    LUO_LIFE_WEIGHTS,  /* from F to BW */
    LUO_LIFE_HALVES,   /* from BI to BW */
    LUO_LIVES
} luo_layout_life;

/* Room for a buffer: its bytes; for rows of experts those of as many as could ever arrive, since
 * the program counts on equally many for each. What lies between the steps of an exchange has
 * none: executors keep it elsewhere, since how much it can be depends on all of a node. Cost:
 * O(buffers + segments). */
int64_t luo_layout_bytes(const luo_programs *set, const luo_role *role, int32_t buffer);

/* Bytes in front of the state in a buffer of optimizer state; multiple of LUO_LAYOUT_ALIGN. */
int64_t luo_layout_weights(const luo_buffer *buffer, int64_t weight_bytes);

/* Do micro-batches make calls of buckets (ZeRO-2 and 3)? */
bool luo_layout_has_task_buckets(const luo_role *role);

/* routes: per instruction of the role, as luo_route_of gives them (others are not looked at); NULL:
 * nothing needs scratch. messages_inside: what is left for B, which is nothing before and behind
 * the micro-batches, is at least as much as the packed calls of buckets need there. weight_bytes:
 * of an element of a working weight that stands before optimizer state (luo_layout_weights).
 * Pre: luo_program_check passed. Owner: arena. Errors: LUO_ENOMEM.
 * Cost: O(tasks + instructions + buffers * buffers alive at the same time).
 * See: tests/exec/prop_layout.c compares pairwise lifetimes and walks the tasks. */
luo_status luo_layout_make(luo_arena *arena, const luo_programs *set, const luo_program *program,
                           const luo_route *routes, bool messages_inside, int64_t weight_bytes,
                           luo_layout *out, luo_err *err);

/* The rule of lives: done[i], for the instructions i of a segment, is the last one at which the
 * buffers of i are in use: i itself or, for a communication, the one before the first that waits
 * for it. done: per instruction of the role. Errors: LUO_ENOMEM. Cost: O(instructions). */
luo_status luo_layout_done(luo_arena *tmp, const luo_role *role, const luo_segment *seg,
                           int32_t *done, luo_err *err);

/* Makes one route of the parts of a bucket: segments of the slab, in elements of elem_bytes, tensor
 * behind tensor for every rank. Pieces that are neighbours in the slab need no packing.
 * Pre: route->nparts > 0, and the layout was made with it. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_layout_join(luo_arena *arena, const luo_layout *layout, int32_t instr,
                           int64_t elem_bytes, luo_route *route, luo_err *err);

/* Bytes from the begin of the slab. */
static inline int64_t luo_layout_offset(const luo_layout *layout, int32_t buffer, int32_t task)
{
    const int64_t copy = layout->copy[(int64_t)layout->life[buffer] * layout->ntask + task];
    return layout->at[buffer] + layout->stride[buffer] * copy;
}
static inline void *luo_layout_at(const luo_layout *layout, void *slab, int32_t buffer,
                                  int32_t task)
{
    return (char *)slab + luo_layout_offset(layout, buffer, task);
}
/* Pre: the route of the instruction uses scratch. */
static inline void *luo_layout_scratch(const luo_layout *layout, void *slab, int32_t instr)
{
    return (char *)slab + layout->scratch[instr];
}
#endif
