/* Linear programmes by GLPK's simplex method. */
#include "core/plan/lp.h"

#include <glpk.h>
#include <math.h>

#include "core/base/vec.h"

int32_t luo_lp_add_column(luo_lp *lp, double cost)
{
    if (!LUO_VEC_ROOM_IN(lp->arena, lp->cost, lp->ncolumns, lp->cap_cost) ||
        !LUO_VEC_ROOM_IN(lp->arena, lp->most, lp->ncolumns, lp->cap_most)) {
        lp->failed = true;
        return 0;
    }
    lp->cost[lp->ncolumns] = cost;
    lp->most[lp->ncolumns] = (double)INFINITY;
    return lp->ncolumns++;
}

int32_t luo_lp_add_row(luo_lp *lp, double low, double high)
{
    if (!LUO_VEC_ROOM_IN(lp->arena, lp->row, lp->nrows, lp->cap_rows)) {
        lp->failed = true;
        return 0;
    }
    lp->row[lp->nrows] = (luo_lp_row){low, high};
    return lp->nrows++;
}

void luo_lp_add_entry(luo_lp *lp, int32_t row, int32_t column, double value)
{
    if (!LUO_VEC_ROOM_IN(lp->arena, lp->entry, lp->nentries, lp->cap_entries)) {
        lp->failed = true;
        return;
    }
    lp->entry[lp->nentries++] = (luo_lp_entry){row, column, value};
}

static int kind_of(double low, double high)
{
    if (isfinite(low) && isfinite(high)) return low < high ? GLP_DB : GLP_FX;
    return isfinite(low) ? GLP_LO : isfinite(high) ? GLP_UP : GLP_FR;
}

static bool load_problem(const luo_lp *lp, glp_prob *problem)
{
    const size_t n = (size_t)lp->nentries + 1;
    int *at = luo_arena_calloc(lp->arena, 2 * n, sizeof(int));
    double *value = luo_arena_calloc(lp->arena, n, sizeof(double));
    if (!at || !value) return false;
    for (int32_t i = 0; i < lp->nentries; i++) { /* the solver counts from 1 */
        at[i + 1] = lp->entry[i].row + 1;
        at[n + (size_t)i + 1] = lp->entry[i].column + 1;
        value[i + 1] = lp->entry[i].value;
    }
    if (lp->nrows) glp_add_rows(problem, lp->nrows);
    if (lp->ncolumns) glp_add_cols(problem, lp->ncolumns);
    for (int32_t r = 0; r < lp->nrows; r++)
        glp_set_row_bnds(problem, r + 1, kind_of(lp->row[r].low, lp->row[r].high), lp->row[r].low,
                         lp->row[r].high);
    for (int32_t c = 0; c < lp->ncolumns; c++) {
        glp_set_col_bnds(problem, c + 1, kind_of(0, lp->most[c]), 0, lp->most[c]);
        glp_set_obj_coef(problem, c + 1, lp->cost[c]);
    }
    glp_load_matrix(problem, lp->nentries, at, at + n, value);
    return true;
}

luo_status luo_lp_solve(const luo_lp *lp, double *x, double *cost, luo_err *err)
{
    glp_smcp how;
    const size_t mark = luo_arena_mark(lp->arena);
    if (lp->failed) return luo_err_nomem(err);
    glp_prob *problem = glp_create_prob();
    glp_init_smcp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.presolve = GLP_ON;
    const bool loaded = load_problem(lp, problem);
    const bool solved =
        loaded && glp_simplex(problem, &how) == 0 && glp_get_status(problem) == GLP_OPT;
    for (int32_t c = 0; solved && c < lp->ncolumns; c++) x[c] = glp_get_col_prim(problem, c + 1);
    if (solved) *cost = glp_get_obj_val(problem);
    glp_delete_prob(problem);
    luo_arena_reset(lp->arena, mark);
    if (!loaded) return luo_err_nomem(err);
    return solved ? LUO_OK
                  : luo_err_set(err, LUO_EINFEASIBLE,
                                "a linear programme of %d rows has no solution; wider bounds are "
                                "needed.",
                                lp->nrows);
}
