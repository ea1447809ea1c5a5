/* fold.h: annotations of what ZeRO cuts. */
#ifndef LUO_CORE_HSPMD_FOLD_H
#define LUO_CORE_HSPMD_FOLD_H
#include "core/hspmd/ann.h"

/* Optimizer state of a parameter under ZeRO-1.
 * Pre: param has no Partial; h absent or -1; rank >= 1. */
luo_status luo_fold_zero(luo_arena *arena, const luo_ann *param, const luo_shape *shape,
                         const luo_ann **out, luo_err *err);
/* The same inside groups of `size` neighbouring members, which become one member each and are
 * copies of each other. keep: what a member has copies of besides is not cut.
 * Pre: as above; size < U divides U; members of a group are cut alike. */
luo_status luo_fold_zero_groups(luo_arena *arena, const luo_ann *param, const luo_shape *shape,
                                int32_t size, bool keep, const luo_ann **out, luo_err *err);
#endif
