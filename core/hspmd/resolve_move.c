/* resolve_move.c: movement of complete values between holdings
 * (docs/annotations.md#inside-a-member). */
#include <stdlib.h>

#include "core/hspmd/moves.h"
#include "core/hspmd/resolve_internal.h"

static bool holds(const luo_side *side, const luo_holding *holding)
{
    const luo_holding *h = luo_side_find(side, holding->dev);
    return h && luo_region_contains(&h->region, &holding->region);
}

/* Positions pair up. Dead senders leave the pairing to bsr, which may find another owner. */
static bool is_sendrecv(const luo_build *build, const luo_side *s, const luo_side *d)
{
    if (s->h.n != d->h.n) return false;
    for (int32_t i = 0; i < d->h.n; i++) {
        const luo_holding *holding = &s->h.at[i], *y = &d->h.at[i];
        if (!luo_region_equal(&holding->region, &y->region)) return false;
        if (!y->region.empty && luo_planner_dead(build->planner, holding->dev) && !holds(s, y))
            return false;
    }
    return true;
}

static luo_status emit_sendrecv(luo_build *build, const luo_side *s, const luo_side *d,
                                int32_t step)
{
    for (int32_t i = 0; i < d->h.n; i++) {
        const luo_holding *holding = &s->h.at[i], *y = &d->h.at[i];
        if (y->region.empty) continue;
        if (holds(s, y))
            LUO_TRY(luo_moves_copy(build->arena, build->out, step, y->dev, &y->region, build->err));
        else
            LUO_TRY(luo_moves_send(build->arena, build->out, step, holding->dev, y->dev, &y->region,
                                   build->err));
    }
    return LUO_OK;
}

typedef struct target { /* a device and what it wants; later also what it has */
    int32_t at;         /* index in dst */
    int32_t class_of;   /* by equal wants, in order of first appearance */
    int64_t first;      /* lower bound of what it has on the dimension tried */
    const luo_region *wants, *has;
} target;

static int by_wants(const void *a, const void *b)
{
    const target *x = a, *y = b;
    const int c = luo_region_order(x->wants, y->wants);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

static int by_class(const void *a, const void *b)
{
    const target *x = a, *y = b;
    if (x->class_of != y->class_of) return x->class_of < y->class_of ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    const int c = luo_region_order(x->has, y->has);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

/* Targets of equal wants get the index of their first one as class. */
static luo_status classify(luo_build *build, const luo_side *s, const luo_side *d, target **out)
{
    const int32_t n = d->h.n;
    target *t = luo_arena_alloc(build->arena, (size_t)n * sizeof *t);
    if (!t) return luo_err_nomem(build->err);
    for (int32_t i = 0; i < n; i++)
        t[i] = (target){.at = i, .wants = &d->h.at[i].region,
                        .has = &luo_side_find(s, d->h.at[i].dev)->region};
    qsort(t, (size_t)n, sizeof *t, by_wants);
    for (int32_t i = 0; i < n; i++) {
        const bool again = i && luo_region_equal(t[i].wants, t[i - 1].wants);
        t[i].class_of = again ? t[i - 1].class_of : t[i].at;
    }
    *out = t;
    return LUO_OK;
}

/* One class t[0..n), sorted by by_class: distinct parts, each with equally many holders; parts of
 * those who have nothing come last. */
static luo_status gather_class(luo_build *build, const luo_side *side, const target *t, int32_t n,
                               int32_t k, luo_gather *gather, bool *works)
{
    int32_t distinct = 1, have = n;
    while (have > 0 && t[have - 1].has->empty) have--;
    for (int32_t i = 1; i < have; i++) distinct += !luo_region_equal(t[i].has, t[i - 1].has);
    const int32_t each = have / distinct, npart = each > 0 ? n / each : 0;
    *works = npart >= 2 && have % distinct == 0 && n % each == 0;
    if (!*works) return LUO_OK;
    *gather =
        (luo_gather){npart, each, luo_arena_alloc(build->arena, (size_t)n * sizeof *gather->dev),
                     luo_arena_alloc(build->arena, (size_t)npart * sizeof *gather->part)};
    if (!gather->dev || !gather->part) return luo_err_nomem(build->err);
    for (int32_t i = 0; i < n; i++) {
        const int32_t part = i / each, group = i % each;
        if (group && !luo_region_equal(t[i].has, t[i - 1].has)) *works = false;
        gather->dev[group * npart + part] = side->h.at[t[i].at].dev;
        gather->part[part] = *t[i].has;
    }
    *works = *works && luo_tiles(gather->part, npart, t[0].wants, k);
    return LUO_OK;
}

static luo_status gather_along(luo_build *build, const luo_side *side, target *t,
                               luo_movement *movement, bool *works)
{
    const int32_t n = side->h.n;
    for (int32_t i = 0; i < n; i++)
        t[i].first = t[i].has->empty ? INT64_MAX : t[i].has->dim[movement->dim].at[0].lo;
    qsort(t, (size_t)n, sizeof *t, by_class);
    movement->ngather = 0;
    *works = true;
    for (int32_t i = 0, end; i < n && *works; i = end) {
        for (end = i + 1; end < n && t[end].class_of == t[i].class_of;) end++;
        LUO_TRY(gather_class(build, side, t + i, end - i, movement->dim,
                             &movement->gather[movement->ngather++], works));
    }
    return LUO_OK;
}

/* Smallest dimension along which the devices of every class gather what they want. */
static luo_status find_allgather(luo_build *build, const luo_side *s, const luo_side *d,
                                 luo_movement *movement, bool *works)
{
    target *t = NULL;
    *works = d->h.n > 0 && luo_same_devices(s, d);
    for (int32_t i = 0; i < d->h.n && *works; i++)
        *works = (build->joined || !s->h.at[i].region.empty) && !d->h.at[i].region.empty;
    if (!*works) return LUO_OK;
    LUO_TRY(classify(build, s, d, &t));
    movement->gather = luo_arena_alloc(build->arena, (size_t)d->h.n * sizeof *movement->gather);
    if (!movement->gather) return luo_err_nomem(build->err);
    *works = false;
    for (movement->dim = 0; movement->dim < build->shape->rank; movement->dim++) {
        LUO_TRY(gather_along(build, d, t, movement, works));
        if (*works) return LUO_OK;
    }
    return LUO_OK;
}

static luo_status emit_allgather(luo_build *build, const luo_movement *movement, int32_t step)
{
    for (int32_t c = 0; c < movement->ngather; c++) {
        const luo_gather *gather = &movement->gather[c];
        for (int32_t j = 0; j < gather->ngroup; j++)
            LUO_TRY(luo_moves_group(build->arena, build->out, LUO_MOVE_AG, step, movement->dim,
                                    gather->dev + j * gather->npart, gather->npart, gather->part,
                                    build->err));
    }
    return LUO_OK;
}

luo_status luo_emit_bsr(luo_build *build, const luo_side *s, const luo_side *d, int32_t step)
{
    const luo_status st =
        luo_bsr_plan(build->arena, build->planner, &s->h, &d->h, build->shape, build->elem_bytes,
                     step, build->name, build->out, build->err);
    build->lost = build->lost || st == LUO_ELOST;
    return st == LUO_ELOST ? LUO_OK : st;
}

luo_status luo_movement_find(luo_build *build, const luo_side *s, const luo_side *d,
                             luo_movement *out)
{
    bool works;
    luo_movement movement = {.s = s, .d = d};
    if (luo_same_regions(s, d)) {
        movement.kind = LUO_MEMBER_IDENTITY;
    } else if (luo_is_slice(s, d)) {
        movement.kind = LUO_MEMBER_SLICE;
    } else if (is_sendrecv(build, s, d)) {
        movement.kind = LUO_MEMBER_SENDRECV;
    } else {
        LUO_TRY(find_allgather(build, s, d, &movement, &works));
        movement.kind = works ? LUO_MEMBER_ALLGATHER : LUO_MEMBER_BSR;
    }
    *out = movement;
    return LUO_OK;
}

luo_status luo_movement_emit(luo_build *build, const luo_movement *movement, int32_t step)
{
    switch (movement->kind) {
    case LUO_MEMBER_SENDRECV:
        return emit_sendrecv(build, movement->s, movement->d, step);
    case LUO_MEMBER_ALLGATHER:
        return emit_allgather(build, movement, step);
    case LUO_MEMBER_BSR:
        return luo_emit_bsr(build, movement->s, movement->d, step);
    case LUO_MEMBER_IDENTITY:
    case LUO_MEMBER_SLICE:
        return luo_emit_copies(build, movement->d, step);
    case LUO_MEMBER_ALLREDUCE:
    case LUO_MEMBER_REDUCESCATTER: break;
    }
    return luo_err_set(build->err, LUO_EBUG, "a member without sums moves by rule %d; report it.",
                       (int)movement->kind);
}
