/* resolve.c: the order of tests (docs/annotations.md#resolution), the bottom tier, the
 * sentences. */
#include "core/hspmd/resolve.h"
#include "core/hspmd/bounds.h"
#include "core/hspmd/regroup.h"

#include <string.h>

#include "core/hspmd/moves.h"
#include "core/hspmd/bsr/planner.h"
#include "core/hspmd/resolve_internal.h"

static const struct {
    const char *name, *why;
} reasons[] = {
    {"", ""},
    {"PARTIAL_CREATE", "a complete value is not cut into summands"},
    {"PARTIAL_COUNT", "the number of summands changes"},
    {"PARTIAL_DEVICES", "the sum would land on other devices"},
    {"PARTIAL_REGIONS", "the pieces of the sum do not land where DST wants them"},
    {"PARTIAL_TIER", "the summands would cross from one tier to the other"},
    {"OUTER_SAME_DIM", "the members are cut on the dimension that h cuts"},
};

const char *luo_unsupported_name(luo_unsupported r)
{
    return reasons[r].name;
}

const char *luo_member_name(luo_member_kind k)
{
    static const char *const names[] = {"identity", "slice",     "sendrecv",     "allgather",
                                        "bsr",      "allreduce", "reducescatter"};
    return names[k];
}

luo_status luo_refuse(luo_build *build, luo_unsupported reason)
{
    build->reason = reason;
    return LUO_EUNSUP;
}

static luo_status say_refused(const luo_build *build)
{
    luo_str src = {0}, dst = {0};
    luo_ann_print(&src, build->src);
    luo_ann_print(&dst, build->dst);
    luo_err_set(build->err, LUO_EUNSUP,
                "reshard '%s': %s -> %s is not supported (%s: %s); reduce to the source layout "
                "first, then move, or pass --reduce-then-move",
                build->name, luo_str_get(&src), luo_str_get(&dst), reasons[build->reason].name,
                reasons[build->reason].why);
    luo_str_free(&src);
    luo_str_free(&dst);
    return LUO_EUNSUP;
}

/* The first test: nothing has to be done. */
static bool is_identity(const luo_ann *src, const luo_ann *dst, const luo_side *s,
                        const luo_side *d)
{
    const bool partial = luo_ann_has_partial(src) || luo_ann_has_partial(dst);
    if (partial && (src->h == LUO_PARTIAL) != (dst->h == LUO_PARTIAL)) return false;
    if (!luo_same_regions(s, d)) return false;
    for (int32_t i = 0; i < s->h.n && partial; i++) {
        const luo_holding *holding = s->by_dev[i], *y = d->by_dev[i];
        if (holding->parts != y->parts || holding->part != y->part || holding->u != y->u)
            return false;
    }
    return true;
}

static bool same_top(const luo_ann *a, const luo_ann *b)
{
    if (a->u != b->u || a->h != b->h || a->inner != b->inner) return false;
    if (!a->hshare != !b->hshare) return false;
    return !a->hshare || memcmp(a->hshare, b->hshare, (size_t)a->u * sizeof *a->hshare) == 0;
}

/* Outer cuts of the same top level have equal footprints by construction, and members that are
 * not cut by h hold everything. Inner ones are equal if their bounds are, and may be otherwise
 * (fault K3: the finest blocks change). */
static luo_status same_footprints(luo_build *build, const luo_ann *x, const luo_ann *y, bool *same)
{
    const int64_t *p, *q;
    int32_t np, nq;
    *same = same_top(x, y);
    if (!*same || !x->inner) return LUO_OK;
    LUO_TRY(luo_bounds_inner(build->arena, x, build->shape, &p, &np, build->err));
    LUO_TRY(luo_bounds_inner(build->arena, y, build->shape, &q, &nq, build->err));
    if (np == nq && memcmp(p, q, ((size_t)np + 1) * sizeof *p) == 0) return LUO_OK;
    for (int32_t u = 0; u < x->u && *same; u++) {
        luo_region region, g;
        LUO_TRY(luo_region_footprint(build->arena, x, build->shape, u, &region, build->err));
        LUO_TRY(luo_region_footprint(build->arena, y, build->shape, u, &g, build->err));
        *same = luo_region_equal(&region, &g);
    }
    return LUO_OK;
}

luo_status luo_resolve_bottom(luo_build *build, const luo_ann *src, const luo_ann *dst,
                              const luo_sides *s, const luo_sides *d, int32_t step,
                              luo_member_kind *kinds, bool *works)
{
    LUO_TRY(same_footprints(build, src, dst, works));
    for (int32_t u = 0; u < src->u && *works; u++)
        LUO_TRY(luo_resolve_member(build, &src->grp[u], &dst->grp[u], &s->member[u], &d->member[u],
                                   step, &kinds[u]));
    return LUO_OK;
}

luo_status luo_kinds_text(luo_build *build, const char *head, const luo_member_kind *kinds,
                          int32_t n, const char **out)
{
    luo_str text = {0};
    luo_str_add(&text, head);
    for (int32_t u = 0; u < n; u++) {
        luo_str_addc(&text, u ? ',' : ' ');
        luo_str_add(&text, luo_member_name(kinds[u]));
    }
    *out = text.failed ? NULL : luo_arena_strdup(build->arena, luo_str_get(&text));
    luo_str_free(&text);
    return *out ? LUO_OK : luo_err_nomem(build->err);
}

static luo_status bottom(luo_build *build, const luo_sides *s, const luo_sides *d,
                         luo_resolution *out, bool *works)
{
    luo_member_kind *kinds = LUO_NEW_N(build->arena, luo_member_kind, build->src->u);
    if (!kinds) return luo_err_nomem(build->err);
    LUO_TRY(luo_resolve_bottom(build, build->src, build->dst, s, d, 0, kinds, works));
    if (!*works) return LUO_OK;
    out->kind = LUO_RESOLVE_BOTTOM;
    return luo_kinds_text(build, "bottom", kinds, build->src->u, &out->text);
}

/* Collectives between tiers: where the members of one side are groups of the other's. */
static luo_status between_tiers(luo_build *build, luo_resolution *out, bool *works)
{
    const luo_ann *was = build->src, *to = build->dst, *src = was, *dst = to;
    luo_sides sides, d;
    *works = false;
    if (was->u == to->u) return LUO_OK;
    if (was->u > to->u)
        LUO_TRY(luo_regroup_like(build->arena, was, to, &src, build->err));
    else
        LUO_TRY(luo_regroup_like(build->arena, to, was, &dst, build->err));
    if (!src || !dst) return LUO_OK;
    LUO_TRY(luo_sides_make(build, src, &sides));
    LUO_TRY(luo_sides_make(build, dst, &d));
    build->src = src;
    build->dst = dst;
    build->joined = true;
    luo_status st = bottom(build, &sides, &d, out, works);
    if (st == LUO_OK && !*works) st = luo_resolve_top(build, &sides, &d, out, works);
    build->src = was;
    build->dst = to;
    build->joined = false;
    return st;
}

static luo_status resolve(luo_build *build, const luo_sides *s, const luo_sides *d,
                          luo_resolution *out)
{
    const bool partial = luo_ann_has_partial(build->src) || luo_ann_has_partial(build->dst);
    bool works;
    if (is_identity(build->src, build->dst, &s->whole, &d->whole)) {
        *out = (luo_resolution){.kind = LUO_RESOLVE_IDENTITY, .text = "identity"};
        return LUO_OK;
    }
    if (!partial && luo_is_slice(&s->whole, &d->whole)) {
        *out = (luo_resolution){.kind = LUO_RESOLVE_SLICE, .text = "slice"};
        return luo_emit_copies(build, &d->whole, 0);
    }
    LUO_TRY(bottom(build, s, d, out, &works));
    if (works) return LUO_OK;
    LUO_TRY(luo_resolve_top(build, s, d, out, &works));
    if (works) return LUO_OK;
    LUO_TRY(between_tiers(build, out, &works));
    if (works) return LUO_OK;
    if (partial) return luo_refuse(build, LUO_UNSUP_PARTIAL_TIER);
    *out = (luo_resolution){.kind = LUO_RESOLVE_BSR, .text = "bsr"};
    return luo_emit_bsr(build, &s->whole, &d->whole, 0);
}

/* Reduce, then move: Partial only in the source, all of whose devices must live to be summed. */
static luo_status reduce_then_move(luo_build *build, const luo_sides *s, const luo_sides *d,
                                   luo_resolution *out)
{
    luo_sum sum;
    luo_movement movement;
    int32_t step = 1;
    for (int32_t u = 0; u < build->src->u; u++) {
        LUO_TRY(luo_sum_groups(build, &build->src->grp[u], &s->member[u], &sum));
        if (sum.p > 1)
            LUO_TRY(luo_emit_allreduce(build, &sum, &s->member[u], 0));
        else
            LUO_TRY(luo_emit_copies(build, &s->member[u], 0));
    }
    if (build->src->h == LUO_PARTIAL) LUO_TRY(luo_emit_split_ar(build, s, build->src->u, step++));
    LUO_TRY(luo_movement_find(build, &s->whole, &d->whole, &movement));
    LUO_TRY(luo_movement_emit(build, &movement, step));
    out->kind = LUO_RESOLVE_REDUCE_THEN;
    out->text = luo_arena_printf(build->arena, "reduce_then_%s", luo_member_name(movement.kind));
    return out->text ? LUO_OK : luo_err_nomem(build->err);
}

static bool any_dead(const luo_build *build, const luo_side *side, int32_t *dev)
{
    const bool some = build->planner->opts.ndead > 0;
    for (int32_t i = 0; i < side->h.n && some; i++) {
        *dev = side->h.at[i].dev;
        if (luo_planner_dead(build->planner, *dev)) return true;
    }
    return false;
}

static luo_status build(luo_build *b, bool fallback, luo_resolution *out)
{
    luo_sides sides, d;
    int32_t dev;
    LUO_TRY(luo_sides_make(b, b->src, &sides));
    LUO_TRY(luo_sides_make(b, b->dst, &d));
    if (any_dead(b, &d.whole, &dev))
        return luo_err_set(b->err, LUO_EINPUT,
                           "reshard '%s': destination uses device %d, which is dead", b->name,
                           dev);
    luo_status st = resolve(b, &sides, &d, out);
    fallback = fallback && luo_ann_has_partial(b->src) && !luo_ann_has_partial(b->dst);
    if (st == LUO_EUNSUP && fallback && !any_dead(b, &sides.whole, &dev)) {
        b->out->n = b->out->nlost = 0;
        b->lost = false;
        luo_planner_reset(b->planner);
        st = reduce_then_move(b, &sides, &d, out);
    }
    return st;
}

static luo_status seal(luo_arena *arena, const luo_build *build, luo_resolution *resolution)
{
    resolution->text = luo_arena_strdup(arena, resolution->text);
    if (!resolution->text) return luo_err_nomem(build->err);
    LUO_TRY(luo_moves_seal(arena, build->out, &resolution->moves, build->err));
    resolution->nsteps =
        resolution->moves.n ? resolution->moves.at[resolution->moves.n - 1].step + 1 : 0;
    if (!build->lost) return LUO_OK;
    return luo_err_set(build->err, LUO_ELOST,
                       "reshard '%s': pieces without a living owner: %d; give a checkpoint.",
                       build->name, resolution->moves.nlost);
}

luo_status luo_resolve(luo_arena *arena, const luo_ann *src, const luo_ann *dst,
                       const luo_shape *shape, const luo_resolve_opts *opts, luo_resolution *out,
                       luo_err *err)
{
    luo_resolution resolution = {0};
    luo_moves moves = {0};
    const size_t mark = luo_arena_mark(arena);
    luo_arena *tmp = luo_arena_new(1 << 13);
    if (!tmp) return luo_err_nomem(err);
    luo_build b = {.arena = tmp, .planner = luo_planner_new(tmp, &opts->planner), .shape = shape,
                   .src = src, .dst = dst, .name = opts->name ? opts->name : "reshard",
                   .elem_bytes = opts->elem_bytes ? opts->elem_bytes : 1, .ranks = opts->ranks,
                   .out = &moves,
                   .err = err};
    luo_status st = b.planner ? build(&b, opts->reduce_then_move, &resolution) : luo_err_nomem(err);
    if (st == LUO_OK) {
        st = seal(arena, &b, &resolution);
    } else if (st == LUO_EUNSUP) {
        resolution = (luo_resolution){
            .kind = LUO_RESOLVE_UNSUPPORTED, .reason = b.reason, .text = "unsupported"};
        say_refused(&b);
    }
    luo_arena_free(tmp);
    if (st == LUO_OK || st == LUO_EUNSUP || st == LUO_ELOST)
        *out = resolution;
    else luo_arena_reset(arena, mark);
    return st;
}
