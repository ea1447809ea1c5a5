/* sums.h: where the gradients of a step in parts (luo_step_part) are summed on one device: by the
 * pieces of optimizer state that it updates, which lie alike under all parts. Pure geometry; the
 * memory is the executor's. */
#ifndef LUO_EXEC_BIND_SUMS_H
#define LUO_EXEC_BIND_SUMS_H
#include "core/base/err.h"
#include "core/hspmd/region.h"

typedef struct luo_sums { /* {0}: none */
    int32_t n;            /* parameters of the model */
    luo_region *region;   /* [n]: what the sum of one holds, row-major */
    int64_t *at;          /* [n]: its first element among those of all; -1: none is updated here */
    int64_t elements;     /* of all sums */
} luo_sums;

/* No sum for any of n parameters. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_sums_make(luo_arena *arena, int32_t n, luo_sums *out, luo_err *err);
/* Places the sums of all parameters whose regions have cells. */
void luo_sums_place(luo_sums *sums);
/* A copy that outlives what it was made of. Errors: LUO_ENOMEM, *out is unchanged. Owner: arena. */
luo_status luo_sums_copy(luo_arena *arena, const luo_sums *from, luo_sums *out, luo_err *err);
/* What a part adds to is what the first one began: LUO_OK where the sums of both are the same cells
 * in the same places; else LUO_EBUG. */
luo_status luo_sums_check(const luo_sums *first, const luo_sums *part, int32_t device,
                          luo_err *err);
#endif
