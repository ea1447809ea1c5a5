/* cells.h: walks the cells of a part of a tensor that a buffer holds.
 *
 * Notation as in exec/bind/route.h: a frame is the region of the whole tensor that a buffer holds,
 * its cells row-major. */
#ifndef LUO_EXEC_BIND_CELLS_H
#define LUO_EXEC_BIND_CELLS_H
#include "core/hspmd/region.h"

/* n cells along the last dimension: the first is cell `global` of the whole tensor (row-major) and
 * element `local` of the frame. */
typedef void (*luo_cells_fn)(void *ctx, int64_t global, int64_t local, int64_t n);

/* Calls fn for every row of the box lo..hi, row-major. Pre: the box lies in the frame. */
void luo_cells_box(const luo_shape *shape, const luo_region *frame, const int64_t *lo,
                   const int64_t *hi, luo_cells_fn fn, void *ctx);
/* The same for every box of part; NULL: all of the frame. */
void luo_cells_each(const luo_shape *shape, const luo_region *frame, const luo_region *part,
                    luo_cells_fn fn, void *ctx);
#endif
