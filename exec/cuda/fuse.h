/* fuse.h: which products add the bias or the residual that follows them themselves.
 *
 * A product whose result only the next bias or sum reads can write that one's result at once: its
 * own is never stored. What stands in the way is memory: the result is then written, and its
 * summand read, earlier than exec/bind/layout.c has reckoned with. Pure: no CUDA in here. */
#ifndef LUO_EXEC_CUDA_FUSE_H
#define LUO_EXEC_CUDA_FUSE_H
#include "exec/bind/bound.h"

typedef struct gpu_fused { /* one product of an instruction */
    int32_t result;        /* buffer it writes: its own, or that of the last one it stands for */
    int32_t bias, plus;    /* buffers that it adds; -1: none */
} gpu_fused;

typedef struct gpu_fusion {
    const gpu_fused *const *of; /* per instruction: one per product; NULL: nothing is changed */
    const bool *skip; /* per instruction: its result is there already. It computes nothing,
                         but what waits for something still waits */
    int32_t skipped;  /* instructions */
    int32_t refused;  /* would be skipped if their result did not lie where something else
                         lives, or if what they add were there in time */
} gpu_fusion;

/* Fuses, per segment, `bias` and `add` of two into the matmul before them where
 * - the product's result is read by that instruction alone, and lives in this segment only;
 * - all operands are of one type, and no gradient or state;
 * - what is added is there when the product begins, all communication waited for;
 * - where the result lies nothing else lives from the product on, counting what was fused before.
 * Also bias and then add. Pre: bound->layout, bound->route and bound->op are set. Owner: arena.
 * Errors: LUO_ENOMEM. Cost: O(products * buffers of the segment).
 * See: tests/cuda/prop_fuse.c follows every value of random programs through memory. */
luo_status gpu_fuse(luo_arena *arena, const luo_bound *bound, gpu_fusion *out, luo_err *err);
#endif
