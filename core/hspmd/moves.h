/* moves.h: building lists of moves; for core/hspmd only. Devices and regions are kept,
 * not copied: they live in the scratch arena of the builder until the list is sealed. */
#ifndef LUO_CORE_HSPMD_MOVES_H
#define LUO_CORE_HSPMD_MOVES_H
#include "core/hspmd/bsr/bsr.h"

/* An empty region appends nothing. */
luo_status luo_moves_copy(luo_arena *arena, luo_moves *moves, int32_t step, int32_t dev,
                          const luo_region *region, luo_err *err);
luo_status luo_moves_send(luo_arena *arena, luo_moves *moves, int32_t step, int32_t from,
                          int32_t to, const luo_region *region, luo_err *err);
/* kind AR: one region; RS, AG: n parts along dim. */
luo_status luo_moves_group(luo_arena *arena, luo_moves *moves, luo_move_kind kind, int32_t step,
                           int32_t dim, const int32_t *dev, int32_t n, const luo_region *part,
                           luo_err *err);
luo_status luo_moves_lost(luo_arena *arena, luo_moves *moves, int32_t dev, const luo_region *region,
                          luo_err *err);
/* Deep copy of region. */
luo_status luo_moves_keep_region(luo_arena *arena, const luo_region *region, luo_region *out,
                                 luo_err *err);
/* Deep copy of the list into arena. Neighbours that share a region go on sharing it. */
luo_status luo_moves_seal(luo_arena *arena, const luo_moves *m, luo_moves *out, luo_err *err);
#endif
