/* resolve_member.c: one member alone: carried summands and reductions
 * (docs/annotations.md#inside-a-member). */
#include <stdlib.h>

#include "core/hspmd/moves.h"
#include "core/hspmd/resolve_internal.h"

static luo_status move(luo_build *build, const luo_side *s, const luo_side *d, int32_t step,
                       luo_member_kind *kind)
{
    luo_movement movement;
    LUO_TRY(luo_movement_find(build, s, d, &movement));
    *kind = movement.kind;
    return luo_movement_emit(build, &movement, step);
}

static luo_status side_of_class(luo_build *build, const luo_side *all, int32_t part, luo_side *out)
{
    luo_holding *at = luo_arena_alloc(build->arena, (size_t)all->h.n * sizeof *at);
    int32_t n = 0;
    if (!at) return luo_err_nomem(build->err);
    for (int32_t i = 0; i < all->h.n; i++)
        if (all->h.at[i].part == part) at[n++] = all->h.at[i];
    return luo_side_make(build->arena, at, n, out, build->err);
}

/* p_s = p_d > 1: the summands are carried class by class. */
static luo_status carry(luo_build *build, const luo_side *s, const luo_side *d, int32_t p,
                        int32_t step, luo_member_kind *kind)
{
    luo_member_kind heaviest = LUO_MEMBER_IDENTITY;
    for (int32_t c = 0; c < p; c++) {
        luo_side *side = luo_arena_alloc(build->arena, 2 * sizeof *side);
        luo_member_kind k;
        if (!side) return luo_err_nomem(build->err);
        LUO_TRY(side_of_class(build, s, c, &side[0]));
        LUO_TRY(side_of_class(build, d, c, &side[1]));
        LUO_TRY(move(build, &side[0], &side[1], step, &k));
        if (k > heaviest) heaviest = k;
    }
    *kind = heaviest;
    return LUO_OK;
}

luo_status luo_sum_groups(luo_build *build, const luo_grp *group, const luo_side *side,
                          luo_sum *out)
{
    const int32_t p = luo_grp_count(group, LUO_PARTIAL), n = side->h.n;
    const int32_t stride = p > 1 ? luo_grp_stride(group, LUO_PARTIAL) : 1;
    luo_sum sum = {
        .n = n / p, .p = p, .at = luo_arena_alloc(build->arena, (size_t)n * sizeof *sum.at)};
    if (!sum.at) return luo_err_nomem(build->err);
    /* The index without its Partial digit numbers the groups by their first index. */
    for (int32_t i = 0; i < n; i++) {
        const int32_t low = i % stride, c = i / stride % p, high = i / stride / p;
        sum.at[(high * stride + low) * p + c] = i;
    }
    *out = sum;
    return LUO_OK;
}

luo_status luo_emit_allreduce(luo_build *build, const luo_sum *sum, const luo_side *side,
                              int32_t step)
{
    int32_t *dev = luo_arena_alloc(build->arena, (size_t)side->h.n * sizeof *dev);
    if (!dev) return luo_err_nomem(build->err);
    for (int32_t g = 0; g < sum->n; g++, dev += sum->p) {
        const luo_region *region = &side->h.at[sum->at[g * sum->p]].region;
        if (region->empty) continue;
        for (int32_t c = 0; c < sum->p; c++) dev[c] = side->h.at[sum->at[g * sum->p + c]].dev;
        LUO_TRY(luo_moves_group(build->arena, build->out, LUO_MOVE_AR, step, 0, dev, sum->p, region,
                                build->err));
    }
    return LUO_OK;
}

typedef struct rank { /* one device of a group */
    const luo_holding *d;
    int64_t first; /* lower bound of its piece; empty ones last */
    int32_t part;
} rank;

static int by_first(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->part - y->part;
}

typedef struct scatter { /* group g: dev[g * p..], part[g * p..] */
    int32_t *dev;
    luo_region *part;
    rank *rank; /* p of them, scratch */
} scatter;

static bool scatter_group(const luo_sum *sum, int32_t g, const luo_side *s, const luo_side *d,
                          int32_t k, scatter *x)
{
    const int32_t p = sum->p, *at = sum->at + g * p;
    for (int32_t c = 0; c < p; c++) {
        const luo_holding *holding = luo_side_find(d, s->h.at[at[c]].dev);
        x->rank[c] =
            (rank){holding, holding->region.empty ? INT64_MAX : holding->region.dim[k].at[0].lo, c};
    }
    qsort(x->rank, (size_t)p, sizeof *x->rank, by_first);
    for (int32_t c = 0; c < p; c++) {
        x->dev[g * p + c] = x->rank[c].d->dev;
        x->part[g * p + c] = x->rank[c].d->region;
    }
    return luo_tiles(x->part + g * p, p, &s->h.at[at[0]].region, k);
}

static luo_status emit_scatter(luo_build *build, const luo_sum *sum, const luo_side *side,
                               int32_t k, const scatter *x, int32_t step)
{
    for (int32_t g = 0; g < sum->n; g++)
        if (!side->h.at[sum->at[g * sum->p]].region.empty)
            LUO_TRY(luo_moves_group(build->arena, build->out, LUO_MOVE_RS, step, k,
                                    x->dev + g * sum->p, sum->p, x->part + g * sum->p, build->err));
    return LUO_OK;
}

/* Smallest dimension that works for all groups. */
static luo_status reduce_scatter(luo_build *build, const luo_sum *sum, const luo_side *s,
                                 const luo_side *d, int32_t step)
{
    const size_t n = (size_t)s->h.n;
    scatter x = {luo_arena_alloc(build->arena, n * sizeof *x.dev),
                 luo_arena_alloc(build->arena, n * sizeof *x.part),
                 luo_arena_alloc(build->arena, (size_t)sum->p * sizeof *x.rank)};
    if (!x.dev || !x.part || !x.rank) return luo_err_nomem(build->err);
    for (int32_t k = 0; k < build->shape->rank; k++) {
        bool works = true;
        for (int32_t g = 0; g < sum->n && works; g++) works = scatter_group(sum, g, s, d, k, &x);
        if (works) return emit_scatter(build, sum, s, k, &x, step);
    }
    return luo_refuse(build, LUO_UNSUP_PARTIAL_REGIONS);
}

static luo_status reduction(luo_build *build, const luo_grp *group, const luo_side *s,
                            const luo_side *d, int32_t step, luo_member_kind *kind)
{
    luo_sum sum;
    if (!luo_same_devices(s, d)) return luo_refuse(build, LUO_UNSUP_PARTIAL_DEVICES);
    LUO_TRY(luo_sum_groups(build, group, s, &sum));
    if (luo_same_regions(s, d)) {
        *kind = LUO_MEMBER_ALLREDUCE;
        return luo_emit_allreduce(build, &sum, s, step);
    }
    *kind = LUO_MEMBER_REDUCESCATTER;
    return reduce_scatter(build, &sum, s, d, step);
}

luo_status luo_resolve_member(luo_build *build, const luo_grp *gs, const luo_grp *gd,
                              const luo_side *s, const luo_side *d, int32_t step,
                              luo_member_kind *kind)
{
    const int32_t ps = luo_grp_count(gs, LUO_PARTIAL), pd = luo_grp_count(gd, LUO_PARTIAL);
    if (ps == 1 && pd == 1) return move(build, s, d, step, kind);
    if (ps == pd) return carry(build, s, d, ps, step, kind);
    if (pd == 1) return reduction(build, gs, s, d, step, kind);
    return luo_refuse(build, ps == 1 ? LUO_UNSUP_PARTIAL_CREATE : LUO_UNSUP_PARTIAL_COUNT);
}
