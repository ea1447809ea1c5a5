/* exec/layout.h: where each buffer of a program lies in one slab; worked out once per program, so
 * that a step allocates nothing.
 *
 * Weights, gradients and optimizer state have a place of their own. What lives inside a task shares
 * memory with what does not live at the same time. What F leaves for B has one copy per micro-batch
 * in flight. A buffer that a communication reads stays until the first instruction that waits for
 * it, or the end of the task. */
#ifndef LUO_EXEC_LAYOUT_H
#define LUO_EXEC_LAYOUT_H
#include "core/graph/program.h"

enum { LUO_LAYOUT_ALIGN = 64 };

typedef struct luo_layout {
    int64_t bytes;         /* of the slab */
    int32_t nbuf;
    const int64_t *at;     /* per buffer: first copy; multiple of LUO_LAYOUT_ALIGN */
    const int64_t *stride; /* per buffer: to the next copy; 0: one copy */
    int32_t ntask;
    const int32_t *copy;   /* per task: which copy its micro-batch uses */
} luo_layout;

/* Pre: luo_program_check passed. Owner: arena. Errors: LUO_ENOMEM. Cost: O(tasks + instructions *
 * log buffers). See: tests/unit/check_layout.c compares with pairwise lifetimes. */
luo_status luo_layout_make(luo_arena *arena, const luo_programs *set, const luo_program *program,
                           luo_layout *out, luo_err *err);

static inline void *luo_layout_at(const luo_layout *l, void *slab, int32_t buffer, int32_t task)
{
    return (char *)slab + l->at[buffer] + l->stride[buffer] * l->copy[task];
}
#endif
