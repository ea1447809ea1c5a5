/* switch.c: the fused switch (docs/annotations.md#a-whole-switch): one planner for all tensors, so
 * that the balance counters persist (fault K12). */
#include "core/hspmd/bsr/switch.h"

#include <stdlib.h>
#include <string.h>

#include "core/hspmd/moves.h"
#include "core/hspmd/bsr/planner.h"
#include "core/hspmd/resolve_internal.h"

typedef struct work {
    luo_arena *tmp, *one; /* scratch of the switch; of one tensor */
    const luo_switch_tensor *tensor;
    int32_t n;
    const luo_switch_opts *opts;
    luo_planner **planner; /* per bucket; one for all otherwise */
    int32_t nplanner;
    luo_moves *moves; /* per tensor */
    luo_switch *out;
    luo_err *err;
} work;

static luo_status make_planners(work *w)
{
    w->nplanner = 1;
    if (w->opts->reset == LUO_RESET_BUCKET)
        for (int32_t i = 0; i < w->n; i++)
            if (w->tensor[i].bucket >= w->nplanner) w->nplanner = w->tensor[i].bucket + 1;
    w->planner = LUO_NEW_N(w->tmp, luo_planner *, w->nplanner);
    w->moves = LUO_NEW_N(w->tmp, luo_moves, w->n);
    if (!w->planner || !w->moves) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < w->nplanner; i++) {
        w->planner[i] = luo_planner_new(w->tmp, &w->opts->planner);
        if (!w->planner[i]) return luo_err_nomem(w->err);
        w->planner[i]->deferred = w->opts->reset != LUO_RESET_TENSOR;
    }
    return LUO_OK;
}

static luo_planner *planner_of(work *w, int32_t i)
{
    if (w->opts->reset == LUO_RESET_BUCKET) return w->planner[w->tensor[i].bucket];
    if (w->opts->reset == LUO_RESET_TENSOR) luo_planner_reset(w->planner[0]);
    return w->planner[0];
}

/* Takes the devices whose region does not change out of dst. Cells and owners stay the same, since
 * such a region is in the source as well. */
static luo_status rebind(work *w, int64_t elem_bytes, luo_holdings *src, luo_holdings *dst)
{
    luo_side side;
    int32_t n = 0;
    LUO_TRY(luo_side_make(w->one, src->at, src->n, &side, w->err));
    for (int32_t i = 0; i < dst->n; i++) {
        const luo_holding *holding = luo_side_find(&side, dst->at[i].dev);
        if (luo_planner_dead(w->planner[0], dst->at[i].dev) || !holding ||
            !luo_region_equal(&holding->region, &dst->at[i].region)) {
            dst->at[n++] = dst->at[i];
            continue;
        }
        const int64_t bytes = luo_region_volume(&holding->region) * elem_bytes;
        w->out->rebinds++;
        w->out->rebound_bytes += bytes;
        w->out->local_bytes += bytes;
    }
    dst->n = n;
    return LUO_OK;
}

static luo_status plan_tensor(work *w, int32_t i)
{
    const luo_switch_tensor *tensor = &w->tensor[i];
    luo_holdings src, dst;
    const size_t mark = luo_arena_mark(w->one);
    luo_planner *planner = planner_of(w, i);
    if (luo_ann_has_partial(tensor->from) || luo_ann_has_partial(tensor->to))
        return luo_err_set(w->err, LUO_EINPUT,
                           "tensor '%s' is Partial; finish the gradient synchronisation first",
                           tensor->name);
    LUO_TRY(luo_holdings_make(w->one, tensor->from, &tensor->shape, &src, w->err));
    LUO_TRY(luo_holdings_make(w->one, tensor->to, &tensor->shape, &dst, w->err));
    LUO_TRY(rebind(w, tensor->elem_bytes, &src, &dst));
    luo_err err = {0}; /* what is lost is told once, for all tensors */
    const luo_status st = luo_bsr_plan(w->tmp, planner, &src, &dst, &tensor->shape,
                                       tensor->elem_bytes, 0, tensor->name, &w->moves[i], &err);
    luo_arena_reset(w->one, mark);
    if (st == LUO_OK || st == LUO_ELOST) return LUO_OK;
    if (w->err) *w->err = err;
    return st;
}

static luo_status gather_lost(luo_arena *arena, work *w)
{
    luo_switch *o = w->out;
    int32_t n = 0;
    for (int32_t i = 0; i < w->n; i++) n += w->moves[i].nlost;
    o->lost = LUO_NEW_N(arena, luo_lost, n);
    if (!o->lost) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < w->n; i++)
        for (int32_t k = 0; k < w->moves[i].nlost; k++) {
            luo_lost *lost = &o->lost[o->nlost++];
            *lost = w->moves[i].lost[k];
            lost->tensor = i;
            LUO_TRY(luo_moves_keep_region(arena, &lost->region, &lost->region, w->err));
        }
    return LUO_OK;
}

static luo_switch_move *add_move(work *w, int32_t tensor, luo_move_kind kind, int32_t src,
                                 int32_t dst, const luo_region *kept)
{
    luo_switch *o = w->out;
    const int64_t bytes = luo_region_volume(kept) * w->tensor[tensor].elem_bytes;
    o->move[o->nmove] = (luo_switch_move){kind, tensor, src, dst, bytes, *kept};
    if (kind == LUO_MOVE_SEND) {
        o->nsend++;
        o->class_bytes[luo_planner_class(w->planner[0], src, dst)] += bytes;
    } else if (kind == LUO_MOVE_COPY) {
        o->local_bytes += bytes;
    }
    return &o->move[o->nmove++];
}

/* Moves of one cell follow each other and share its spans. */
static luo_status add_moves(luo_arena *arena, work *w, int32_t tensor)
{
    const luo_moves *moves = &w->moves[tensor];
    luo_region kept = {0};
    for (int32_t k = 0; k < moves->n; k++) {
        const luo_move *move = &moves->at[k];
        if (k == 0 || move->region != moves->at[k - 1].region)
            LUO_TRY(luo_moves_keep_region(arena, move->region, &kept, w->err));
        add_move(w, tensor, move->kind, move->dev[0], move->dev[move->ndev - 1], &kept);
    }
    return LUO_OK;
}

static luo_status gather_moves(luo_arena *arena, work *w)
{
    luo_switch *o = w->out;
    const bool load = w->opts->load_lost;
    int64_t n = load ? o->nlost : 0;
    for (int32_t i = 0; i < w->n; i++) n += w->moves[i].n;
    o->move = luo_arena_alloc(arena, (size_t)n * sizeof *o->move);
    if (!o->move) return luo_err_nomem(w->err);
    for (int32_t i = 0, lost = 0; i < w->n; i++) {
        LUO_TRY(add_moves(arena, w, i));
        for (; load && lost < o->nlost && o->lost[lost].tensor == i; lost++)
            add_move(w, i, LUO_MOVE_LOAD, o->lost[lost].dev, o->lost[lost].dev,
                     &o->lost[lost].region);
    }
    return LUO_OK;
}

static int by_pair(const void *a, const void *b)
{
    const luo_pair *x = a, *y = b;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    return (x->dst > y->dst) - (x->dst < y->dst);
}

/* One packed message per ordered pair. Equal pairs are added up, so their order is free. */
static luo_status gather_pairs(luo_arena *arena, work *w)
{
    luo_switch *o = w->out;
    int64_t n = 0, m = 0;
    luo_pair *all = luo_arena_alloc(w->tmp, (size_t)o->nsend * sizeof *all);
    if (!all) return luo_err_nomem(w->err);
    for (int64_t i = 0; i < o->nmove; i++) {
        const luo_switch_move *move = &o->move[i];
        if (move->kind != LUO_MOVE_SEND) continue;
        all[n++] = (luo_pair){move->src, move->dst,
                              luo_planner_class(w->planner[0], move->src, move->dst), move->bytes};
    }
    qsort(all, (size_t)n, sizeof *all, by_pair);
    for (int64_t i = 0; i < n; i++) {
        if (m && by_pair(&all[m - 1], &all[i]) == 0) all[m - 1].bytes += all[i].bytes;
        else all[m++] = all[i];
    }
    o->pair = luo_arena_alloc(arena, (size_t)m * sizeof *o->pair);
    if (!o->pair) return luo_err_nomem(w->err);
    for (int64_t i = 0; i < m; i++) o->pair[i] = all[i];
    o->npair = (int32_t)m;
    return LUO_OK;
}

/* Cells, owners and needs of all tensors, one after the other. */
static luo_status plan_tensors(work *w)
{
    luo_status st = LUO_OK;
    w->one = luo_arena_new(1 << 16);
    if (!w->one) return luo_err_nomem(w->err);
    LUO_TRY_OUT(make_planners(w));
    for (int32_t i = 0; i < w->n; i++) LUO_TRY_OUT(plan_tensor(w, i));
out:
    luo_arena_free(w->one);
    return st;
}

static luo_status plan(luo_arena *arena, work *w)
{
    int64_t bound[LUO_LINK_CLASSES];
    LUO_TRY(plan_tensors(w));
    for (int32_t i = 0; i < w->nplanner; i++)
        LUO_TRY(luo_exact_settle(w->tmp, &w->planner[i]->needs, true, bound, w->err));
    LUO_TRY(gather_lost(arena, w));
    LUO_TRY(gather_moves(arena, w));
    return gather_pairs(arena, w);
}

static luo_status plan_by(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                          const luo_switch_opts *opts, luo_switch *out, luo_err *err)
{
    *out = (luo_switch){0};
    const size_t mark = luo_arena_mark(arena);
    work w = {.tmp = luo_arena_new(1 << 16), .tensor = tensors, .n = n, .opts = opts, .out = out,
              .err = err};
    const luo_status st = w.tmp ? plan(arena, &w) : luo_err_nomem(err);
    luo_arena_free(w.tmp);
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}

/* Bytes of the largest sender of every class; returns how many devices send. */
static int64_t largest(const luo_switch *sw, int64_t most[LUO_LINK_CLASSES])
{
    int64_t sent[LUO_LINK_CLASSES] = {0}, senders = 0;
    memset(most, 0, LUO_LINK_CLASSES * sizeof *most);
    for (int32_t i = 0; i < sw->npair; i++) { /* pairs are sorted by source */
        const luo_pair *pair = &sw->pair[i];
        if (i == 0 || pair->src != pair[-1].src) {
            memset(sent, 0, sizeof sent);
            senders++;
        }
        sent[pair->link_class] += pair->bytes;
        if (sent[pair->link_class] > most[pair->link_class])
            most[pair->link_class] = sent[pair->link_class];
    }
    return senders;
}

static bool sends_less(const luo_switch *a, const luo_switch *b)
{
    int64_t x[LUO_LINK_CLASSES], y[LUO_LINK_CLASSES];
    bool less = false;
    largest(a, x);
    largest(b, y);
    for (int c = 0; c < LUO_LINK_CLASSES; c++) {
        if (x[c] > y[c]) return false;
        less = less || x[c] < y[c];
    }
    return less;
}

static luo_status plan_unsaid(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                              const luo_switch_opts *opts, luo_switch *out, luo_err *err)
{
    luo_switch_opts switch_opts = *opts;
    luo_switch exact;
    int64_t most[LUO_LINK_CLASSES];
    switch_opts.planner.sender = LUO_SENDER_GREEDY;
    LUO_TRY(plan_by(arena, tensors, n, &switch_opts, out, err));
    const int64_t senders = largest(out, most);
    if (switch_opts.reset != LUO_RESET_FUSED || senders == 0) return LUO_OK;
    if (out->nsend > LUO_SWITCH_EXACT_LIMIT / senders) return LUO_OK;
    const size_t mark = luo_arena_mark(arena);
    switch_opts.planner.sender = LUO_SENDER_EXACT;
    LUO_TRY(plan_by(arena, tensors, n, &switch_opts, &exact, err));
    if (sends_less(&exact, out)) *out = exact;
    else luo_arena_reset(arena, mark);
    return LUO_OK;
}

luo_status luo_switch_plan(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                           const luo_switch_opts *opts, luo_switch *out, luo_err *err)
{
    luo_switch o = {0};
    LUO_TRY((opts->planner_unsaid ? plan_unsaid : plan_by)(arena, tensors, n, opts, &o, err));
    *out = o;
    if (o.nlost == 0 || opts->load_lost) return LUO_OK;
    return luo_err_set(err, LUO_ELOST,
                       "pieces of state without a living owner: %d, the first of `%s`; give a "
                       "checkpoint to load them from.",
                       o.nlost, tensors[o.lost[0].tensor].name);
}

luo_status luo_switch_bound(luo_arena *arena, const luo_switch_tensor *tensors, int32_t n,
                            const luo_switch_opts *opts, int64_t out[LUO_LINK_CLASSES],
                            luo_err *err)
{
    luo_switch_opts exact = *opts;
    luo_switch unused = {0};
    const size_t mark = luo_arena_mark(arena);
    exact.planner.sender = LUO_SENDER_EXACT;
    exact.reset = LUO_RESET_FUSED;
    work w = {.tmp = arena, .tensor = tensors, .n = n, .opts = &exact, .out = &unused, .err = err};
    luo_status st = plan_tensors(&w);
    if (st == LUO_OK) st = luo_exact_settle(arena, &w.planner[0]->needs, false, out, err);
    luo_arena_reset(arena, mark);
    return st;
}
