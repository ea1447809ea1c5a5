/* exact.c: T* and the assignment that reaches it, by maximum flows
 * (docs/annotations.md#batched-sends-and-receives). */
#include "core/hspmd/bsr/exact.h"
#include "core/base/vec.h"
#include "core/hspmd/bounds.h"

#include <stdlib.h>
#include <string.h>

#include "core/hspmd/moves.h"

luo_status luo_needs_add(luo_arena *arena, luo_needs *needs, const luo_need *need, luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(arena, needs->at, needs->n, needs->cap)) return luo_err_nomem(err);
    needs->at[needs->n++] = *need;
    return LUO_OK;
}

/* A flow network: source 0, candidate sets, candidates, sink last. Edge e and e^1 are a pair. */
typedef struct edge {
    int32_t to, next;
    int64_t room;
} edge;

typedef struct net {
    int32_t nodes, nedge;
    edge *edge;
    int32_t *head, *level, *at, *queue, *path; /* at: edge to try next */
} net;

static void add_edge(net *f, int32_t from, int32_t to, int64_t room)
{
    f->edge[f->nedge] = (edge){to, f->head[from], room};
    f->head[from] = f->nedge++;
    f->edge[f->nedge] = (edge){from, f->head[to], 0};
    f->head[to] = f->nedge++;
}

static bool levels(net *f)
{
    int32_t n = 0;
    memset(f->level, -1, (size_t)f->nodes * sizeof *f->level);
    f->level[0] = 0;
    f->queue[n++] = 0;
    for (int32_t q = 0; q < n; q++)
        for (int32_t e = f->head[f->queue[q]]; e >= 0; e = f->edge[e].next)
            if (f->edge[e].room > 0 && f->level[f->edge[e].to] < 0) {
                f->level[f->edge[e].to] = f->level[f->queue[q]] + 1;
                f->queue[n++] = f->edge[e].to;
            }
    return f->level[f->nodes - 1] >= 0;
}

/* Sends as much as the path carries; returns the index of its first full edge. */
static int32_t augment(net *f, int32_t n, int64_t *sent)
{
    int64_t room = INT64_MAX;
    int32_t full = n;
    for (int32_t k = 0; k < n; k++)
        if (f->edge[f->path[k]].room < room) room = f->edge[f->path[k]].room;
    for (int32_t k = n; k-- > 0;) {
        f->edge[f->path[k]].room -= room;
        f->edge[f->path[k] ^ 1].room += room;
        if (f->edge[f->path[k]].room == 0) full = k;
    }
    *sent += room;
    return full;
}

static bool usable(const net *f, int32_t v, int32_t e)
{
    return f->edge[e].room > 0 && f->level[f->edge[e].to] == f->level[v] + 1;
}

/* Dinic's blocking flow, without recursion: paths may be as long as there are candidate sets. */
static int64_t blocking_flow(net *f)
{
    int64_t sent = 0;
    for (int32_t v = 0, n = 0;;) {
        while (f->at[v] >= 0 && !usable(f, v, f->at[v])) f->at[v] = f->edge[f->at[v]].next;
        if (f->at[v] >= 0) {
            f->path[n++] = f->at[v];
            v = f->edge[f->at[v]].to;
        } else if (n == 0) {
            return sent;
        } else {
            v = f->edge[f->path[--n] ^ 1].to; /* nothing leads on from here: try the next edge */
            f->at[v] = f->edge[f->at[v]].next;
        }
        if (v == f->nodes - 1) {
            n = augment(f, n, &sent);
            v = f->edge[f->path[n] ^ 1].to;
        }
    }
}

static int64_t max_flow(net *f)
{
    int64_t all = 0;
    while (levels(f)) {
        memcpy(f->at, f->head, (size_t)f->nodes * sizeof *f->at);
        all += blocking_flow(f);
    }
    return all;
}

/* Needs of one class merged by candidate set. */
typedef struct set {
    const luo_need *rep;
    int64_t bytes;
    int32_t first, n; /* order[first..first+n) */
} set;

typedef struct problem {
    luo_arena *arena;
    luo_need *need;
    int32_t *order; /* needs of the class, by candidate set, then as collected */
    int32_t norder, nset, ndev, nlink;
    set *set;
    int32_t *dev; /* candidates, ascending */
    int64_t total;
    luo_err *err;
} problem;

static int by_candidates(const luo_need *x, const luo_need *y)
{
    if (x->ncand != y->ncand) return x->ncand < y->ncand ? -1 : 1;
    for (int32_t i = 0; i < x->ncand; i++)
        if (x->cand[i] != y->cand[i]) return x->cand[i] < y->cand[i] ? -1 : 1;
    return 0;
}

typedef struct sortable {
    const luo_need *need;
    int32_t i;
} sortable;

static int by_set(const void *a, const void *b)
{
    const sortable *x = a, *y = b;
    const int c = by_candidates(x->need, y->need);
    return c ? c : (x->i > y->i) - (x->i < y->i);
}

static int64_t bytes_of(const luo_need *need)
{
    return luo_region_volume(&need->region) * need->elem_bytes;
}

static luo_status sort_needs(problem *p, const luo_needs *needs, int32_t c)
{
    sortable *s = luo_arena_alloc(p->arena, (size_t)(needs->n + 1) * sizeof *s);
    p->order = luo_arena_alloc(p->arena, (size_t)(needs->n + 1) * sizeof *p->order);
    if (!s || !p->order) return luo_err_nomem(p->err);
    for (int32_t i = 0; i < needs->n; i++)
        if (needs->at[i].link_class == c) s[p->norder++] = (sortable){&needs->at[i], i};
    qsort(s, (size_t)p->norder, sizeof *s, by_set);
    for (int32_t i = 0; i < p->norder; i++) p->order[i] = s[i].i;
    return LUO_OK;
}

static luo_status merge(problem *p)
{
    int32_t ncand = 0;
    p->set = LUO_NEW_N(p->arena, set, p->norder + 1);
    if (!p->set) return luo_err_nomem(p->err);
    for (int32_t i = 0; i < p->norder; i++) {
        const luo_need *need = &p->need[p->order[i]];
        if (p->nset == 0 || by_candidates(p->set[p->nset - 1].rep, need) != 0) {
            p->set[p->nset++] = (set){.rep = need, .first = i};
            ncand += need->ncand;
        }
        set *s = &p->set[p->nset - 1];
        s->n++;
        s->bytes += bytes_of(need);
        p->total += bytes_of(need);
    }
    p->nlink = ncand;
    p->dev = luo_arena_alloc(p->arena, (size_t)(ncand + 1) * sizeof *p->dev);
    if (!p->dev) return luo_err_nomem(p->err);
    for (int32_t s = 0, k = 0; s < p->nset; s++)
        for (int32_t i = 0; i < p->set[s].rep->ncand; i++) p->dev[k++] = p->set[s].rep->cand[i];
    qsort(p->dev, (size_t)ncand, sizeof *p->dev, luo_vec_by_int32);
    for (int32_t i = 0; i < ncand; i++)
        if (p->ndev == 0 || p->dev[p->ndev - 1] != p->dev[i]) p->dev[p->ndev++] = p->dev[i];
    return LUO_OK;
}

static int32_t index_of(const problem *p, int32_t dev)
{
    const int32_t *at = bsearch(&dev, p->dev, (size_t)p->ndev, sizeof dev, luo_vec_by_int32);
    return (int32_t)(at - p->dev);
}

static luo_status net_new(problem *p, net *f)
{
    f->nodes = 2 + p->nset + p->ndev;
    const size_t edges = 2 * (size_t)(p->nset + p->nlink + p->ndev), n = (size_t)f->nodes;
    f->edge = luo_arena_alloc(p->arena, (edges + 1) * sizeof *f->edge);
    f->head = luo_arena_alloc(p->arena, n * sizeof *f->head);
    f->level = luo_arena_alloc(p->arena, n * sizeof *f->level);
    f->at = luo_arena_alloc(p->arena, n * sizeof *f->at);
    f->queue = luo_arena_alloc(p->arena, n * sizeof *f->queue);
    f->path = luo_arena_alloc(p->arena, n * sizeof *f->path);
    if (!f->edge || !f->head || !f->level || !f->at || !f->queue || !f->path)
        return luo_err_nomem(p->err);
    return LUO_OK;
}

static bool carries(const problem *p, net *f, int64_t cap)
{
    f->nedge = 0;
    memset(f->head, -1, (size_t)f->nodes * sizeof *f->head);
    for (int32_t s = 0; s < p->nset; s++) {
        add_edge(f, 0, 1 + s, p->set[s].bytes);
        for (int32_t i = 0; i < p->set[s].rep->ncand; i++)
            add_edge(f, 1 + s, 1 + p->nset + index_of(p, p->set[s].rep->cand[i]), INT64_MAX / 4);
    }
    for (int32_t d = 0; d < p->ndev; d++) add_edge(f, 1 + p->nset + d, f->nodes - 1, cap);
    return max_flow(f) == p->total;
}

/* Cuts a need along its longest dimension; bytes[i] go by candidate i. */
static luo_status emit_cut(problem *p, const luo_need *need, const int64_t *bytes)
{
    const luo_region *region = &need->region;
    int32_t d = 0;
    for (int32_t k = 1; k < region->rank; k++)
        if (region->dim[k].at[0].hi - region->dim[k].at[0].lo >
            region->dim[d].at[0].hi - region->dim[d].at[0].lo)
            d = k;
    int64_t *bound = luo_arena_alloc(p->arena, (size_t)(need->ncand + 1) * sizeof *bound);
    uint32_t *share = luo_arena_alloc(p->arena, (size_t)need->ncand * sizeof *share);
    if (!bound || !share) return luo_err_nomem(p->err);
    int64_t scale = bytes_of(need) / INT32_MAX + 1;
    for (int32_t i = 0; i < need->ncand; i++) share[i] = (uint32_t)(bytes[i] / scale);
    const luo_span whole = region->rank ? region->dim[d].at[0] : (luo_span){0, 1};
    luo_bounds_cut(whole.hi - whole.lo, need->ncand, share, bound);
    for (int32_t i = 0; i < need->ncand; i++) {
        if (bound[i + 1] == bound[i]) continue;
        luo_region *part = luo_arena_alloc(p->arena, sizeof *part);
        luo_span *span = luo_arena_alloc(p->arena, sizeof *span);
        if (!part || !span) return luo_err_nomem(p->err);
        *part = *region;
        *span = (luo_span){whole.lo + bound[i], whole.lo + bound[i + 1]};
        if (region->rank) part->dim[d].at = span;
        LUO_TRY(
            luo_moves_send(p->arena, need->out, need->step, need->cand[i], need->to, part, p->err));
    }
    return LUO_OK;
}

/* Deals the flows of a set to its needs in order: each takes what is left of the candidates. */
static luo_status emit(problem *p, const net *f)
{
    for (int32_t s = 0; s < p->nset; s++) {
        const int32_t nc = p->set[s].rep->ncand;
        int64_t *left = LUO_NEW_N(p->arena, int64_t, 2 * nc), *take = left ? left + nc : NULL;
        if (!left) return luo_err_nomem(p->err);
        int32_t i = nc;
        for (int32_t e = f->head[1 + s]; e >= 0; e = f->edge[e].next)
            if (f->edge[e].to > p->nset) left[--i] = f->edge[e ^ 1].room;
        for (int32_t k = 0; k < p->set[s].n; k++) {
            const luo_need *need = &p->need[p->order[p->set[s].first + k]];
            int64_t want = bytes_of(need);
            for (int32_t c = 0; c < nc; c++) {
                take[c] = left[c] < want ? left[c] : want;
                left[c] -= take[c];
                want -= take[c];
            }
            LUO_TRY(emit_cut(p, need, take));
        }
    }
    return LUO_OK;
}

static luo_status solve_class(luo_arena *arena, luo_needs *needs, int32_t c, bool want_sends,
                              int64_t *bound, luo_err *err)
{
    problem p = {.arena = arena, .need = needs->at, .err = err};
    net f;
    LUO_TRY(sort_needs(&p, needs, c));
    LUO_TRY(merge(&p));
    *bound = 0;
    if (p.total == 0) return LUO_OK;
    LUO_TRY(net_new(&p, &f));
    int64_t lo = (p.total + p.ndev - 1) / p.ndev, hi = p.total;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (carries(&p, &f, mid)) hi = mid;
        else lo = mid + 1;
    }
    *bound = lo;
    /* All candidates of a need are of one class and so of one cost: any flow with cap T* is also a
     * cheapest one. */
    if (!want_sends || !carries(&p, &f, lo)) return LUO_OK;
    return emit(&p, &f);
}

luo_status luo_exact_settle(luo_arena *arena, luo_needs *needs, bool want_sends,
                            int64_t bound[LUO_LINK_CLASSES], luo_err *err)
{
    for (int32_t c = 0; c < LUO_LINK_CLASSES; c++)
        LUO_TRY(solve_class(arena, needs, c, want_sends, &bound[c], err));
    needs->n = 0;
    return LUO_OK;
}
