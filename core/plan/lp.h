/* lp.h: small linear programmes: columns x >= 0, rows with bounds, a cost to be least. The one
 * place that knows the solver (GLPK). */
#ifndef LUO_CORE_PLAN_LP_H
#define LUO_CORE_PLAN_LP_H
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_lp_row {
    double low, high; /* -INFINITY, INFINITY: no such bound */
} luo_lp_row;

typedef struct luo_lp_entry {
    int32_t row, column;
    double value;
} luo_lp_entry;

typedef struct luo_lp { /* {.arena = a} is an empty one */
    luo_arena *arena;
    double *cost; /* by column */
    double *most; /* by column: upper bound; INFINITY: none */
    luo_lp_row *row;
    luo_lp_entry *entry;
    int32_t ncolumns, nrows, nentries, cap_cost, cap_most, cap_rows, cap_entries;
    bool failed; /* out of memory; further additions do nothing */
} luo_lp;

/* Adds a column, a row, a coefficient; the number of the new one. Each pair of row and column has
 * one coefficient at most. */
int32_t luo_lp_add_column(luo_lp *lp, double cost);
int32_t luo_lp_add_row(luo_lp *lp, double low, double high);
void luo_lp_add_entry(luo_lp *lp, int32_t row, int32_t column, double value);
/* x[0..ncolumns) = a vertex of least cost.
 * Errors: LUO_EINFEASIBLE no x fits, or the cost has no least value; LUO_ENOMEM. x is then
 * untouched. Owner: nothing is kept; the solver's memory is its own.
 * Cost: the simplex method: milliseconds for hundreds of rows. */
luo_status luo_lp_solve(const luo_lp *lp, double *x, double *cost, luo_err *err);
#endif
