/* deduce_reshape.h: the annotation of a tensor whose shape changes and whose elements stay in
 * order. */
#ifndef LUO_TESTS_PARKED_DEDUCE_RESHAPE_H
#define LUO_TESTS_PARKED_DEDUCE_RESHAPE_H
#include "core/graph/deduce.h"

/* Keeps cuts of the first dimension of a group of dimensions. op: name for sentences.
 * Errors: LUO_EDEDUCE D_RESHAPE; LUO_ENOMEM. Owner: *res belongs to arena, canonical. */
luo_status luo_deduce_reshape(luo_arena *arena, const luo_ann *a, const luo_shape *from,
                              const luo_shape *to, const char *op, const luo_ann **res,
                              luo_err *err);
#endif
