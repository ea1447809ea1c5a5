/* deduce.h: the annotation of an op's result from those of its operands.
 * Shape-independent. Op kinds know their letters; here letters are all there is. */
#ifndef LUO_CORE_GRAPH_DEDUCE_H
#define LUO_CORE_GRAPH_DEDUCE_H
#include "core/hspmd/region.h"

typedef struct luo_operand {
    const luo_ann *ann;  /* canonical */
    const char *letters; /* one letter per dimension, "bik" */
    const char *name;    /* of the tensor, for sentences */
    bool label_only;     /* takes part in the rules but carries no data (gradients) */
} luo_operand;

/* The einsum rule. `out`: letters of the result. op: name for sentences.
 * Errors: LUO_EDEDUCE with `op 'NAME': D_CUT: ...` (D_UNION D_PARTIAL D_TOP D_DEVICES D_CUT
 * D_GRID); LUO_ENOMEM. Owner: *res belongs to arena, canonical. Cost: O(devices * letters). */
luo_status luo_deduce_einsum(luo_arena *arena, const luo_operand *operands, int32_t n,
                             const char *out, const char *op, const luo_ann **res, luo_err *err);
/* keys and h mapped by perm: output dimension j is input dimension perm[j]. */
luo_status luo_deduce_permute(luo_arena *arena, const luo_ann *ann, const int32_t *perm,
                              int32_t rank, const luo_ann **res, luo_err *err);
/* Fails with D_PARTIAL if a is Partial, with D_UNCUT if dimension d is cut or is h. `why` ends the
 * sentence: "insert a Reshard that gathers the sequence". */
luo_status luo_deduce_want_whole(const luo_ann *ann, int32_t d, const char *tensor, const char *op,
                                 const char *why, luo_err *err);
/* Complete form c(A): Partial becomes duplicate; a itself if nothing is Partial. */
luo_status luo_deduce_complete(luo_arena *arena, const luo_ann *ann, const luo_ann **res,
                               luo_err *err);
#endif
