/* bsr.c: batched send-receive: for each cell and receiver one sender
 * (docs/annotations.md#batched-sends-and-receives). */
#include "core/hspmd/grid.h"
#include "core/hspmd/moves.h"
#include "core/hspmd/bsr/planner.h"

typedef struct delivery {
    luo_arena *arena;
    luo_planner *planner;
    const luo_holdings *src, *dst;
    int32_t *owner; /* devices that hold the cell, in table order */
    int32_t nowner;
    const luo_region *cell;
    int64_t elem_bytes, turn; /* turn: sends already made for the cell */
    int32_t step;
    luo_moves *out;
    luo_err *err;
} delivery;

static luo_status deliver(delivery *x, int32_t to)
{
    int32_t from;
    for (int32_t i = 0; i < x->nowner; i++)
        if (x->owner[i] == to)
            return luo_moves_copy(x->arena, x->out, x->step, to, x->cell, x->err);
    if (x->nowner == 0) return luo_moves_lost(x->arena, x->out, to, x->cell, x->err);
    if (x->planner->opts.sender == LUO_SENDER_EXACT)
        return luo_planner_note(x->planner, x->out, x->step, x->owner, x->nowner, to, x->cell,
                                x->elem_bytes, x->err);
    LUO_TRY(luo_planner_choose(x->planner, x->owner, x->nowner, to,
                               luo_region_volume(x->cell) * x->elem_bytes, x->turn++, &from,
                               x->err));
    return luo_moves_send(x->arena, x->out, x->step, from, to, x->cell, x->err);
}

static luo_status deliver_all(delivery *x, const luo_grid *grid, const luo_cover *own,
                              const luo_cover *need)
{
    for (int64_t c = 0; c < grid->cells; c++) {
        if (need->start[c] == need->start[c + 1]) continue;
        luo_region *cell = luo_arena_alloc(x->arena, sizeof *cell);
        if (!cell) return luo_err_nomem(x->err);
        LUO_TRY(luo_grid_cell(x->arena, grid, c, cell, x->err));
        x->cell = cell;
        x->turn = 0;
        x->nowner = 0;
        for (int64_t k = own->start[c]; k < own->start[c + 1]; k++)
            x->owner[x->nowner++] = x->src->at[own->at[k]].dev;
        for (int64_t k = need->start[c]; k < need->start[c + 1]; k++)
            LUO_TRY(deliver(x, x->dst->at[need->at[k]].dev));
    }
    return LUO_OK;
}

luo_status luo_bsr_plan(luo_arena *arena, luo_planner *planner, const luo_holdings *src,
                        const luo_holdings *dst, const luo_shape *shape, int64_t elem_bytes,
                        int32_t step, const char *name, luo_moves *out, luo_err *err)
{
    luo_status st = LUO_OK;
    luo_grid grid;
    luo_cover own, need;
    const int32_t lost = out->nlost;
    luo_arena *tmp = luo_arena_new(1 << 13);
    if (!tmp) return luo_err_nomem(err);
    delivery x = {.arena = arena,
                  .planner = planner,
                  .src = src,
                  .dst = dst,
                  .elem_bytes = elem_bytes,
                  .step = step,
                  .out = out,
                  .err = err,
                  .owner = luo_arena_alloc(tmp, (size_t)src->n * sizeof *x.owner)};
    if (!x.owner) LUO_TRY_OUT(luo_err_nomem(err));
    for (int32_t i = 0; i < dst->n; i++)
        if (luo_planner_dead(planner, dst->at[i].dev))
            LUO_TRY_OUT(luo_err_set(err, LUO_EINPUT,
                                    "switch: destination uses device %d, which is dead",
                                    dst->at[i].dev));
    LUO_TRY_OUT(luo_grid_make(tmp, src, dst, shape->rank, name, &grid, err));
    LUO_TRY_OUT(luo_grid_cover(tmp, &grid, src, planner, name, &own, err));
    LUO_TRY_OUT(luo_grid_cover(tmp, &grid, dst, NULL, name, &need, err));
    LUO_TRY_OUT(deliver_all(&x, &grid, &own, &need));
    int64_t bound[LUO_LINK_CLASSES];
    if (planner->opts.sender == LUO_SENDER_EXACT && !planner->deferred)
        LUO_TRY_OUT(luo_exact_settle(arena, &planner->needs, true, bound, err));
    if (out->nlost > lost)
        st = luo_err_set(err, LUO_ELOST,
                         "reshard '%s': pieces without a living owner: %d; give a checkpoint.",
                         name, out->nlost - lost);
out:
    luo_arena_free(tmp);
    return st;
}
