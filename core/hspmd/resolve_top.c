/* resolve_top.c: collectives across members: SplitAR, SplitRS, SplitAG
 * (docs/annotations.md#between-members). */
#include <string.h>

#include "core/hspmd/grid.h"
#include "core/hspmd/moves.h"
#include "core/hspmd/regroup.h"
#include "core/hspmd/resolve_internal.h"

/* The slices of some holdings, and who holds each in every member. */
typedef struct slices {
    const luo_holdings *h;
    luo_grid grid;
    luo_cover cover;
    int32_t u;      /* members */
    int32_t *first; /* of the slice looked at: first[u]..first[u + 1] index into cover.at */
    int32_t most;   /* longest list */
    bool even, all; /* all lists equally long; none empty */
} slices;

static luo_status slices_make(luo_build *build, const luo_holdings *holdings, int32_t u, slices *s)
{
    *s = (slices){.h = holdings,
                  .u = u,
                  .first = luo_arena_alloc(build->arena, ((size_t)u + 1) * sizeof *s->first)};
    if (!s->first) return luo_err_nomem(build->err);
    LUO_TRY(luo_grid_make(build->arena, holdings, NULL, build->shape->rank, build->name, &s->grid,
                          build->err));
    return luo_grid_cover(build->arena, &s->grid, holdings, NULL, build->name, &s->cover,
                          build->err);
}

static void look_at(slices *s, int64_t slice)
{
    int64_t k = s->cover.start[slice];
    const int64_t end = s->cover.start[slice + 1];
    s->most = 0;
    s->even = s->all = true;
    for (int32_t u = 0; u < s->u; u++) {
        s->first[u] = (int32_t)k;
        while (k < end && s->h->at[s->cover.at[k]].u == u) k++;
        const int32_t len = (int32_t)k - s->first[u];
        s->even = s->even && (u == 0 || len == s->most);
        s->all = s->all && len > 0;
        if (len > s->most) s->most = len;
    }
    s->first[s->u] = (int32_t)k;
}

/* Index of the j-th holder in member u, short lists starting over. */
static int32_t holder(const slices *s, int32_t u, int32_t j)
{
    return s->cover.at[s->first[u] + j % (s->first[u + 1] - s->first[u])];
}

static luo_status group_of(luo_build *build, const slices *s, int32_t j, int32_t **dev)
{
    *dev = luo_arena_alloc(build->arena, (size_t)s->u * sizeof **dev);
    if (!*dev) return luo_err_nomem(build->err);
    for (int32_t u = 0; u < s->u; u++) (*dev)[u] = s->h->at[holder(s, u, j)].dev;
    return LUO_OK;
}

luo_status luo_emit_split_ar(luo_build *build, const luo_sides *sides, int32_t u, int32_t step)
{
    slices sl;
    LUO_TRY(slices_make(build, &sides->whole.h, u, &sl));
    for (int64_t c = 0; c < sl.grid.cells; c++) {
        luo_region *slice = luo_arena_alloc(build->arena, sizeof *slice);
        if (!slice) return luo_err_nomem(build->err);
        LUO_TRY(luo_grid_cell(build->arena, &sl.grid, c, slice, build->err));
        look_at(&sl, c);
        for (int32_t j = 0; j < sl.most; j++) {
            int32_t *dev;
            LUO_TRY(group_of(build, &sl, j, &dev));
            LUO_TRY(luo_moves_group(build->arena, build->out, LUO_MOVE_AR, step, 0, dev, u, slice,
                                    build->err));
        }
    }
    return LUO_OK;
}

typedef struct split { /* SplitRS or SplitAG along dim */
    luo_move_kind kind;
    int32_t dim, step;
    const luo_holdings *piece; /* what each rank keeps or gives; listed like the slices' */
} split;

static luo_status split_group(luo_build *build, const slices *s, int32_t j, const split *x,
                              const luo_region *slice, bool *works)
{
    int32_t *dev;
    luo_region *part = luo_arena_alloc(build->arena, (size_t)s->u * sizeof *part);
    if (!part) return luo_err_nomem(build->err);
    for (int32_t u = 0; u < s->u; u++)
        LUO_TRY(luo_region_intersect(build->arena, &x->piece->at[holder(s, u, j)].region, slice,
                                     &part[u], build->err));
    *works = luo_tiles(part, s->u, slice, x->dim);
    if (!*works) return LUO_OK;
    LUO_TRY(group_of(build, s, j, &dev));
    return luo_moves_group(build->arena, build->out, x->kind, x->step, x->dim, dev, s->u, part,
                           build->err);
}

/* Slices of holdings; nothing is emitted unless all of them work. */
static luo_status emit_split(luo_build *build, const luo_holdings *holdings, int32_t u,
                             const split *x, bool *works)
{
    slices s;
    const int32_t n = build->out->n;
    LUO_TRY(slices_make(build, holdings, u, &s));
    *works = true;
    for (int64_t c = 0; c < s.grid.cells && *works; c++) {
        luo_region slice;
        LUO_TRY(luo_grid_cell(build->arena, &s.grid, c, &slice, build->err));
        look_at(&s, c);
        /* Unequal lists of a gather: data would arrive twice. */
        *works = s.all && (x->kind == LUO_MOVE_RS || s.even);
        for (int32_t j = 0; j < s.most && *works; j++)
            LUO_TRY(split_group(build, &s, j, x, &slice, works));
    }
    if (!*works) build->out->n = n;
    return LUO_OK;
}

typedef struct top {
    luo_build *b;
    const luo_sides *s, *d;
    luo_ann mid; /* I: top level of src, members of dst */
    luo_sides hi;
    luo_member_kind *kinds; /* step 0 brings src to I; NULL: no step is needed */
    bool out_of_reach;      /* src cannot be brought to I inside the members */
    int32_t step;
} top;

static bool same_members(const luo_ann *a, const luo_ann *b)
{
    for (int32_t u = 0; u < a->u; u++) {
        const luo_grp *group = &a->grp[u], *y = &b->grp[u];
        if (group->ndev != y->ndev || !luo_grp_same_cut(group, y)) return false;
        if (memcmp(group->dev, y->dev, (size_t)group->ndev * sizeof *group->dev) != 0) return false;
    }
    return true;
}

static bool same_holdings(const luo_side *s, const luo_side *d)
{
    if (!luo_same_regions(s, d)) return false;
    for (int32_t i = 0; i < s->h.n; i++)
        if (s->by_dev[i]->part != d->by_dev[i]->part || s->by_dev[i]->parts != d->by_dev[i]->parts)
            return false;
    return true;
}

/* What members reduce first. */
static luo_status make_pre(top *t)
{
    luo_build *build = t->b;
    bool works;
    t->mid = *build->src;
    t->mid.grp = build->dst->grp;
    t->hi = *t->s;
    if (same_members(build->src, build->dst)) return LUO_OK;
    LUO_TRY(luo_sides_make(build, &t->mid, &t->hi));
    if (same_holdings(&t->s->whole, &t->hi.whole)) return LUO_OK;
    t->out_of_reach = true;
    if (!luo_ann_has_partial(build->src)) return LUO_OK;
    luo_member_kind *kinds = LUO_NEW_N(build->arena, luo_member_kind, build->src->u);
    if (!kinds) return luo_err_nomem(build->err);
    LUO_TRY(luo_resolve_bottom(build, build->src, &t->mid, t->s, &t->hi, 0, kinds, &works));
    if (!works) return LUO_OK;
    t->out_of_reach = false;
    t->kinds = kinds;
    t->step = 1;
    return LUO_OK;
}

static luo_status named(top *t, luo_resolve_kind kind, const char *head, luo_resolution *out)
{
    out->kind = kind;
    out->text = head;
    if (!t->kinds) return LUO_OK;
    const char *with = luo_arena_printf(t->b->arena, "%s pre", head);
    if (!with) return luo_err_nomem(t->b->err);
    return luo_kinds_text(t->b, with, t->kinds, t->b->src->u, &out->text);
}

/* Last step of the mirror form: members of K -> dst by identity, slice or allgather. */
static luo_status gather_inside(top *t, const luo_sides *hk, luo_member_kind *kinds, bool *works)
{
    luo_build *build = t->b;
    const int32_t n = build->out->n;
    *works = true;
    for (int32_t u = 0; u < build->src->u && *works; u++) {
        luo_movement movement;
        LUO_TRY(luo_movement_find(build, &hk->member[u], &t->d->member[u], &movement));
        kinds[u] = movement.kind;
        *works = movement.kind == LUO_MEMBER_IDENTITY || movement.kind == LUO_MEMBER_SLICE ||
                 movement.kind == LUO_MEMBER_ALLGATHER;
        if (*works) LUO_TRY(luo_movement_emit(build, &movement, 1));
    }
    if (!*works) build->out->n = n;
    return LUO_OK;
}

/* Gather inside the members only after the members have gathered across. */
static luo_status mirror(top *t, luo_resolution *out, bool *works)
{
    luo_build *build = t->b;
    luo_ann ann = *build->src;
    luo_sides hk;
    const int32_t n = build->out->n;
    ann.h = LUO_DUP;
    ann.inner = false;
    ann.hshare = NULL;
    luo_member_kind *kinds = LUO_NEW_N(build->arena, luo_member_kind, ann.u);
    if (!kinds) return luo_err_nomem(build->err);
    LUO_TRY(luo_sides_make(build, &ann, &hk));
    const split x = {LUO_MOVE_AG, build->src->h, 0, &t->s->whole.h};
    LUO_TRY(emit_split(build, &hk.whole.h, ann.u, &x, works));
    if (*works) LUO_TRY(gather_inside(t, &hk, kinds, works));
    if (!*works) {
        build->out->n = n;
        return LUO_OK;
    }
    out->kind = LUO_RESOLVE_SPLIT_AG;
    return luo_kinds_text(build, "split_ag post", kinds, ann.u, &out->text);
}

static luo_status split_ag(top *t, luo_resolution *out, bool *works)
{
    luo_build *build = t->b;
    const split x = {LUO_MOVE_AG, build->src->h, t->step, &t->hi.whole.h};
    *works = false;
    if (!t->out_of_reach) LUO_TRY(emit_split(build, &t->d->whole.h, build->src->u, &x, works));
    if (*works) return named(t, LUO_RESOLVE_SPLIT_AG, "split_ag", out);
    if (!luo_ann_has_partial(build->src)) return mirror(t, out, works);
    if (t->out_of_reach) return LUO_OK;
    *works = true; /* src has Partial, so step 0 was made */
    LUO_TRY(luo_emit_bsr(build, &t->hi.whole, &t->d->whole, 1));
    return named(t, LUO_RESOLVE_BOTTOM_BSR, "bottom+bsr", out);
}

static luo_status split_rs(top *t, luo_resolution *out, bool *works)
{
    luo_build *build = t->b;
    const split x = {LUO_MOVE_RS, build->dst->h, t->step, &t->d->whole.h};
    LUO_TRY(emit_split(build, &t->hi.whole.h, build->src->u, &x, works));
    if (!*works) return luo_refuse(build, LUO_UNSUP_OUTER_SAME_DIM);
    return named(t, LUO_RESOLVE_SPLIT_RS, "split_rs", out);
}

static bool applies(const luo_build *build, const luo_sides *s, const luo_sides *d)
{
    const luo_ann *ann = build->src, *y = build->dst;
    if (ann->u != y->u || ann->u < 2) return false;
    const bool sum = ann->h == LUO_PARTIAL && (y->h == LUO_DUP || y->h >= 0);
    if (!sum && !(ann->h >= 0 && y->h == LUO_DUP)) return false;
    for (int32_t u = 0; u < ann->u; u++) {
        if (luo_grp_count(&y->grp[u], LUO_PARTIAL) > 1) return false;
        if (!luo_same_devices(&s->member[u], &d->member[u])) return false;
    }
    return true;
}

/* ---- all ranks of all members at once (docs/architecture/context.md#the-rest-of-the-step); see
 * tests/unit/check_context.c ---- */

static bool has_ranks(const luo_build *build, const luo_ann *ann, int32_t key)
{
    for (int32_t u = 0; u < ann->u; u++)
        if (luo_grp_count(&ann->grp[u], key) != build->ranks) return false;
    return build->ranks > 1;
}

static luo_status sum_joined(luo_build *build, const luo_sides *sides, luo_resolution *out,
                             bool *works)
{
    luo_grp one;
    luo_sides flat;
    luo_member_kind kind;
    const int32_t n = build->out->n;
    *works = has_ranks(build, build->src, LUO_PARTIAL);
    if (*works)
        LUO_TRY(luo_regroup_join(build->arena, build->src->grp, build->src->u, LUO_PARTIAL, &one,
                                 works, build->err));
    if (!*works) return LUO_OK;
    const luo_ann all = {.u = 1, .h = LUO_H_NONE, .grp = &one};
    LUO_TRY(luo_sides_make(build, &all, &flat));
    const luo_status st =
        luo_resolve_member(build, &one, &build->dst->grp[0], &flat.whole, &sides->whole, 0, &kind);
    *works = st == LUO_OK;
    if (*works) {
        const bool all_reduce = kind == LUO_MEMBER_ALLREDUCE;
        out->kind = all_reduce ? LUO_RESOLVE_SPLIT_AR : LUO_RESOLVE_SPLIT_RS;
        out->text = all_reduce ? "split_ar joined" : "split_rs joined";
        return LUO_OK;
    }
    build->out->n = n;
    build->reason = LUO_UNSUP_NONE;
    return st == LUO_EUNSUP ? LUO_OK : st;
}

static luo_status gather_joined(luo_build *build, const luo_sides *s, const luo_sides *d,
                                luo_resolution *out, bool *works)
{
    luo_movement movement;
    *works = build->dst->h == LUO_DUP && has_ranks(build, build->dst, LUO_DUP);
    if (!*works) return LUO_OK;
    LUO_TRY(luo_movement_find(build, &s->whole, &d->whole, &movement));
    *works = movement.kind == LUO_MEMBER_ALLGATHER;
    if (!*works) return LUO_OK;
    out->kind = LUO_RESOLVE_SPLIT_AG;
    out->text = "split_ag joined";
    return luo_movement_emit(build, &movement, 0);
}

luo_status luo_resolve_top(luo_build *build, const luo_sides *s, const luo_sides *d,
                           luo_resolution *out, bool *works)
{
    top t = {.b = build, .s = s, .d = d};
    *works = applies(build, s, d);
    if (!*works) return LUO_OK;
    if (build->src->h == LUO_PARTIAL)
        LUO_TRY(sum_joined(build, d, out, works));
    else
        LUO_TRY(gather_joined(build, s, d, out, works));
    if (*works) return LUO_OK;
    *works = true;
    LUO_TRY(make_pre(&t));
    if (build->src->h >= 0) return split_ag(&t, out, works);
    *works = !t.out_of_reach;
    if (!*works) return LUO_OK;
    if (build->dst->h >= 0) return split_rs(&t, out, works);
    LUO_TRY(luo_emit_split_ar(build, &t.hi, build->src->u, t.step));
    return named(&t, LUO_RESOLVE_SPLIT_AR, "split_ar", out);
}
