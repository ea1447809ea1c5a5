/* resolve.c: the order of tests (docs/annotations.md#resolution), the bottom tier, the
 * sentences. */
#include "core/hspmd/resolve.h"

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

luo_status luo_refuse(luo_build *b, luo_unsupported reason)
{
    b->reason = reason;
    return LUO_EUNSUP;
}

static luo_status say_refused(const luo_build *b)
{
    luo_str src = {0}, dst = {0};
    luo_ann_print(&src, b->src);
    luo_ann_print(&dst, b->dst);
    luo_err_set(b->err, LUO_EUNSUP,
                "reshard '%s': %s -> %s is not supported (%s: %s); reduce to the source layout "
                "first, then move, or pass --reduce-then-move",
                b->name, luo_str_get(&src), luo_str_get(&dst), reasons[b->reason].name,
                reasons[b->reason].why);
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
        const luo_holding *x = s->by_dev[i], *y = d->by_dev[i];
        if (x->parts != y->parts || x->part != y->part || x->u != y->u) return false;
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
static luo_status same_footprints(luo_build *b, const luo_ann *x, const luo_ann *y, bool *same)
{
    const int64_t *p, *q;
    int32_t np, nq;
    *same = same_top(x, y);
    if (!*same || !x->inner) return LUO_OK;
    LUO_TRY(luo_inner_bounds(b->arena, x, b->shape, &p, &np, b->err));
    LUO_TRY(luo_inner_bounds(b->arena, y, b->shape, &q, &nq, b->err));
    if (np == nq && memcmp(p, q, ((size_t)np + 1) * sizeof *p) == 0) return LUO_OK;
    for (int32_t u = 0; u < x->u && *same; u++) {
        luo_region f, g;
        LUO_TRY(luo_footprint_of(b->arena, x, b->shape, u, &f, b->err));
        LUO_TRY(luo_footprint_of(b->arena, y, b->shape, u, &g, b->err));
        *same = luo_region_equal(&f, &g);
    }
    return LUO_OK;
}

luo_status luo_resolve_bottom(luo_build *b, const luo_ann *src, const luo_ann *dst,
                              const luo_sides *s, const luo_sides *d, int32_t step,
                              luo_member_kind *kinds, bool *works)
{
    LUO_TRY(same_footprints(b, src, dst, works));
    for (int32_t u = 0; u < src->u && *works; u++)
        LUO_TRY(luo_resolve_member(b, &src->grp[u], &dst->grp[u], &s->member[u], &d->member[u],
                                   step, &kinds[u]));
    return LUO_OK;
}

luo_status luo_kinds_text(luo_build *b, const char *head, const luo_member_kind *kinds, int32_t n,
                          const char **out)
{
    luo_str s = {0};
    luo_str_add(&s, head);
    for (int32_t u = 0; u < n; u++) {
        luo_str_addc(&s, u ? ',' : ' ');
        luo_str_add(&s, luo_member_name(kinds[u]));
    }
    *out = s.failed ? NULL : luo_arena_strdup(b->arena, luo_str_get(&s));
    luo_str_free(&s);
    return *out ? LUO_OK : luo_err_nomem(b->err);
}

static luo_status bottom(luo_build *b, const luo_sides *s, const luo_sides *d,
                         luo_resolution *out, bool *works)
{
    luo_member_kind *kinds = LUO_NEW_N(b->arena, luo_member_kind, b->src->u);
    if (!kinds) return luo_err_nomem(b->err);
    LUO_TRY(luo_resolve_bottom(b, b->src, b->dst, s, d, 0, kinds, works));
    if (!*works) return LUO_OK;
    out->kind = LUO_RESOLVE_BOTTOM;
    return luo_kinds_text(b, "bottom", kinds, b->src->u, &out->text);
}

/* Collectives between tiers: where the members of one side are groups of the other's. */
static luo_status between_tiers(luo_build *b, luo_resolution *out, bool *works)
{
    const luo_ann *was = b->src, *to = b->dst, *src = was, *dst = to;
    luo_sides s, d;
    *works = false;
    if (was->u == to->u) return LUO_OK;
    if (was->u > to->u) LUO_TRY(luo_ann_regroup(b->arena, was, to, &src, b->err));
    else LUO_TRY(luo_ann_regroup(b->arena, to, was, &dst, b->err));
    if (!src || !dst) return LUO_OK;
    LUO_TRY(luo_sides_make(b, src, &s));
    LUO_TRY(luo_sides_make(b, dst, &d));
    b->src = src;
    b->dst = dst;
    b->joined = true;
    luo_status st = bottom(b, &s, &d, out, works);
    if (st == LUO_OK && !*works) st = luo_resolve_top(b, &s, &d, out, works);
    b->src = was;
    b->dst = to;
    b->joined = false;
    return st;
}

static luo_status resolve(luo_build *b, const luo_sides *s, const luo_sides *d,
                          luo_resolution *out)
{
    const bool partial = luo_ann_has_partial(b->src) || luo_ann_has_partial(b->dst);
    bool works;
    if (is_identity(b->src, b->dst, &s->whole, &d->whole)) {
        *out = (luo_resolution){.kind = LUO_RESOLVE_IDENTITY, .text = "identity"};
        return LUO_OK;
    }
    if (!partial && luo_is_slice(&s->whole, &d->whole)) {
        *out = (luo_resolution){.kind = LUO_RESOLVE_SLICE, .text = "slice"};
        return luo_emit_copies(b, &d->whole, 0);
    }
    LUO_TRY(bottom(b, s, d, out, &works));
    if (works) return LUO_OK;
    LUO_TRY(luo_resolve_top(b, s, d, out, &works));
    if (works) return LUO_OK;
    LUO_TRY(between_tiers(b, out, &works));
    if (works) return LUO_OK;
    if (partial) return luo_refuse(b, LUO_UNSUP_PARTIAL_TIER);
    *out = (luo_resolution){.kind = LUO_RESOLVE_BSR, .text = "bsr"};
    return luo_emit_bsr(b, &s->whole, &d->whole, 0);
}

/* Reduce, then move: Partial only in the source, all of whose devices must live to be summed. */
static luo_status reduce_then_move(luo_build *b, const luo_sides *s, const luo_sides *d,
                                   luo_resolution *out)
{
    luo_sum sum;
    luo_movement m;
    int32_t step = 1;
    for (int32_t u = 0; u < b->src->u; u++) {
        LUO_TRY(luo_sum_groups(b, &b->src->grp[u], &s->member[u], &sum));
        if (sum.p > 1) LUO_TRY(luo_emit_allreduce(b, &sum, &s->member[u], 0));
        else LUO_TRY(luo_emit_copies(b, &s->member[u], 0));
    }
    if (b->src->h == LUO_PARTIAL) LUO_TRY(luo_emit_split_ar(b, s, b->src->u, step++));
    LUO_TRY(luo_movement_find(b, &s->whole, &d->whole, &m));
    LUO_TRY(luo_movement_emit(b, &m, step));
    out->kind = LUO_RESOLVE_REDUCE_THEN;
    out->text = luo_arena_printf(b->arena, "reduce_then_%s", luo_member_name(m.kind));
    return out->text ? LUO_OK : luo_err_nomem(b->err);
}

static bool any_dead(const luo_build *b, const luo_side *s, int32_t *dev)
{
    const bool some = b->planner->opts.ndead > 0;
    for (int32_t i = 0; i < s->h.n && some; i++) {
        *dev = s->h.at[i].dev;
        if (luo_planner_dead(b->planner, *dev)) return true;
    }
    return false;
}

static luo_status build(luo_build *b, bool fallback, luo_resolution *out)
{
    luo_sides s, d;
    int32_t dev;
    LUO_TRY(luo_sides_make(b, b->src, &s));
    LUO_TRY(luo_sides_make(b, b->dst, &d));
    if (any_dead(b, &d.whole, &dev))
        return luo_err_set(b->err, LUO_EINPUT,
                           "reshard '%s': destination uses device %d, which is dead", b->name,
                           dev);
    luo_status st = resolve(b, &s, &d, out);
    fallback = fallback && luo_ann_has_partial(b->src) && !luo_ann_has_partial(b->dst);
    if (st == LUO_EUNSUP && fallback && !any_dead(b, &s.whole, &dev)) {
        b->out->n = b->out->nlost = 0;
        b->lost = false;
        luo_planner_reset(b->planner);
        st = reduce_then_move(b, &s, &d, out);
    }
    return st;
}

static luo_status seal(luo_arena *arena, const luo_build *b, luo_resolution *r)
{
    r->text = luo_arena_strdup(arena, r->text);
    if (!r->text) return luo_err_nomem(b->err);
    LUO_TRY(luo_moves_seal(arena, b->out, &r->moves, b->err));
    r->nsteps = r->moves.n ? r->moves.at[r->moves.n - 1].step + 1 : 0;
    if (!b->lost) return LUO_OK;
    return luo_err_set(b->err, LUO_ELOST,
                       "reshard '%s': pieces without a living owner: %d; give a checkpoint.",
                       b->name, r->moves.nlost);
}

luo_status luo_resolve(luo_arena *arena, const luo_ann *src, const luo_ann *dst,
                       const luo_shape *shape, const luo_resolve_opts *opts, luo_resolution *out,
                       luo_err *err)
{
    luo_resolution r = {0};
    luo_moves moves = {0};
    const size_t mark = luo_arena_mark(arena);
    luo_arena *tmp = luo_arena_new(1 << 13);
    if (!tmp) return luo_err_nomem(err);
    luo_build b = {.arena = tmp, .planner = luo_planner_new(tmp, &opts->planner), .shape = shape,
                   .src = src, .dst = dst, .name = opts->name ? opts->name : "reshard",
                   .elem_bytes = opts->elem_bytes ? opts->elem_bytes : 1, .ranks = opts->ranks,
                   .out = &moves,
                   .err = err};
    luo_status st = b.planner ? build(&b, opts->reduce_then_move, &r) : luo_err_nomem(err);
    if (st == LUO_OK) {
        st = seal(arena, &b, &r);
    } else if (st == LUO_EUNSUP) {
        r = (luo_resolution){.kind = LUO_RESOLVE_UNSUPPORTED, .reason = b.reason,
                             .text = "unsupported"};
        say_refused(&b);
    }
    luo_arena_free(tmp);
    if (st == LUO_OK || st == LUO_EUNSUP || st == LUO_ELOST) *out = r;
    else luo_arena_reset(arena, mark);
    return st;
}
