/* grid.h: the cells in which regions overlap alike, and who holds each of them.
 * For core/hspmd only. */
#ifndef LUO_CORE_HSPMD_GRID_H
#define LUO_CORE_HSPMD_GRID_H
#include "core/hspmd/bsr/bsr.h"

enum {
    LUO_CELLS_MAX = 1 << 24,
    LUO_COVERS_MAX = 1 << 28 /* (cell, holder) pairs: 1 GiB */
};

/* Cells = products of consecutive ends of the regions, row-major (dimension 0 slowest). */
typedef struct luo_grid {
    int32_t rank;
    int32_t n[LUO_RANK_MAX];          /* cells on a dimension */
    const int64_t *end[LUO_RANK_MAX]; /* end[d][0..n[d]], ascending */
    int64_t cells;
} luo_grid;

/* Holders of the cells: at[start[c]..start[c + 1]), ascending indices into the holdings. */
typedef struct luo_cover {
    const int64_t *start;
    const int32_t *at;
} luo_cover;

/* Ends of both lists (b may be NULL). name: for the sentence.
 * Errors: LUO_E2BIG above LUO_CELLS_MAX; LUO_ENOMEM. Cost: O(ends log ends). */
luo_status luo_grid_make(luo_arena *arena, const luo_holdings *a, const luo_holdings *b,
                         int32_t rank, const char *name, luo_grid *out, luo_err *err);
/* alive: leave the dead devices of this planner out; NULL: all.
 * Errors: LUO_E2BIG above LUO_COVERS_MAX; LUO_ENOMEM. Cost: O(sum of region cells). */
luo_status luo_grid_cover(luo_arena *arena, const luo_grid *grid, const luo_holdings *holdings,
                          const luo_planner *alive, const char *name, luo_cover *out, luo_err *err);
luo_status luo_grid_cell(luo_arena *arena, const luo_grid *grid, int64_t cell, luo_region *out,
                         luo_err *err);
#endif
