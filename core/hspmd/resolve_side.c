/* resolve_side.c: the holdings of one side of a Reshard, compared by device. */
#include <stdlib.h>
#include <string.h>

#include "core/hspmd/moves.h"
#include "core/hspmd/resolve_internal.h"

const luo_holding *luo_side_find(const luo_side *side, int32_t dev)
{
    int32_t lo = 0, hi = side->h.n - 1;
    while (lo <= hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        const luo_holding *holding = side->by_dev[mid];
        if (holding->dev == dev) return holding;
        if (holding->dev < dev)
            lo = mid + 1;
        else hi = mid - 1;
    }
    return NULL;
}

static int by_device(const void *a, const void *b)
{
    const luo_holding *holding = *(const luo_holding *const *)a,
                      *y = *(const luo_holding *const *)b;
    return (holding->dev > y->dev) - (holding->dev < y->dev);
}

luo_status luo_side_make(luo_arena *arena, luo_holding *at, int32_t n, luo_side *out,
                         luo_err *err)
{
    bool ascending = true;
    const luo_holding **p = luo_arena_alloc(arena, (size_t)n * sizeof *p);
    if (!p) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        p[i] = &at[i];
        ascending = ascending && (i == 0 || at[i - 1].dev < at[i].dev);
    }
    if (!ascending)
        qsort(p, (size_t)n, sizeof *p, by_device); /* no ties: a device is listed once */
    *out = (luo_side){{n, at}, p};
    return LUO_OK;
}

luo_status luo_sides_make(luo_build *build, const luo_ann *ann, luo_sides *out)
{
    luo_holdings holdings;
    int32_t at = 0;
    LUO_TRY(luo_holdings_make(build->arena, ann, build->shape, &holdings, build->err));
    LUO_TRY(luo_side_make(build->arena, holdings.at, holdings.n, &out->whole, build->err));
    out->member = luo_arena_alloc(build->arena, (size_t)ann->u * sizeof *out->member);
    if (!out->member) return luo_err_nomem(build->err);
    for (int32_t u = 0; u < ann->u; at += ann->grp[u++].ndev)
        LUO_TRY(luo_side_make(build->arena, holdings.at + at, ann->grp[u].ndev, &out->member[u],
                              build->err));
    return LUO_OK;
}

bool luo_same_devices(const luo_side *a, const luo_side *b)
{
    if (a->h.n != b->h.n) return false;
    for (int32_t i = 0; i < a->h.n; i++)
        if (a->by_dev[i]->dev != b->by_dev[i]->dev) return false;
    return true;
}

bool luo_same_regions(const luo_side *a, const luo_side *b)
{
    if (a->h.n != b->h.n) return false;
    for (int32_t i = 0; i < a->h.n; i++)
        if (a->by_dev[i]->dev != b->by_dev[i]->dev ||
            !luo_region_equal(&a->by_dev[i]->region, &b->by_dev[i]->region))
            return false;
    return true;
}

bool luo_is_slice(const luo_side *s, const luo_side *d)
{
    for (int32_t i = 0; i < d->h.n; i++) {
        const luo_holding *holding = luo_side_find(s, d->h.at[i].dev);
        if (!holding || !luo_region_contains(&holding->region, &d->h.at[i].region)) return false;
    }
    return true;
}

static int order64(int64_t x, int64_t y)
{
    return (x > y) - (x < y);
}

int luo_region_order(const luo_region *a, const luo_region *b)
{
    if (a->empty != b->empty) return a->empty ? 1 : -1;
    for (int32_t d = 0; !a->empty && d < a->rank; d++) {
        const luo_span *x = a->dim[d].at, *y = b->dim[d].at;
        int c = order64(a->dim[d].n, b->dim[d].n);
        for (int32_t k = 0; x != y && !c && k < a->dim[d].n; k++) {
            c = order64(x[k].lo, y[k].lo);
            if (!c) c = order64(x[k].hi, y[k].hi);
        }
        if (c) return c;
    }
    return 0;
}

static bool agree_off(const luo_region *a, const luo_region *b, int32_t k)
{
    for (int32_t d = 0; d < a->rank; d++) {
        if (d == k) continue;
        if (a->dim[d].n != b->dim[d].n) return false;
        if (memcmp(a->dim[d].at, b->dim[d].at, (size_t)a->dim[d].n * sizeof *a->dim[d].at) != 0)
            return false;
    }
    return true;
}

bool luo_tiles(const luo_region *piece, int32_t n, const luo_region *whole, int32_t k)
{
    if (whole->empty) {
        for (int32_t i = 0; i < n; i++)
            if (!piece[i].empty) return false;
        return true;
    }
    const luo_span *want = whole->dim[k].at, *end = want + whole->dim[k].n;
    int64_t at = want->lo; /* everything before it is covered */
    for (int32_t i = 0; i < n; i++) {
        if (piece[i].empty) continue;
        if (!agree_off(&piece[i], whole, k)) return false;
        for (int32_t j = 0; j < piece[i].dim[k].n; j++) {
            const luo_span span = piece[i].dim[k].at[j];
            if (want == end || span.lo != at || span.hi > want->hi) return false;
            at = span.hi;
            if (at == want->hi && ++want < end) at = want->lo;
        }
    }
    return want == end;
}

luo_status luo_emit_copies(luo_build *build, const luo_side *side, int32_t step)
{
    for (int32_t i = 0; i < side->h.n; i++)
        LUO_TRY(luo_moves_copy(build->arena, build->out, step, side->h.at[i].dev,
                               &side->h.at[i].region, build->err));
    return LUO_OK;
}
