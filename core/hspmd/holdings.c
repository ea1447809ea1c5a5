/* holdings.c: the region of each device of an annotation (docs/annotations.md#coordinates).
 *
 * A thousand members usually differ in their devices only, so tables are made per distinct cut
 * (entry list) and shared: coordinates always, span lists on all dimensions but h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hspmd/bounds.h"
#include "core/hspmd/region.h"

typedef struct span_list {
    int32_t n;
    const luo_span *at;
} span_list;

typedef struct layout {
    luo_arena *arena;
    const luo_ann *a;
    const luo_shape *shape;
    int64_t *top;  /* outer cut: T_0..T_U; NULL otherwise */
    const int64_t *fine; /* inner pattern: P_0..P_nfine; NULL otherwise */
    int32_t nfine;
} layout;

typedef struct member_table {
    const luo_grp *g;                 /* first member with this cut */
    span_list *part[LUO_RANK_MAX];    /* part[d][c] */
    int32_t *coord[LUO_RANK_MAX + 1]; /* coord[d][i], NULL: all 0; the last one is Partial's */
} member_table;

enum { RECENT = 8 }; /* distinct cuts remembered: bounds the search whatever U is */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool same_cut_of(const luo_grp *a, const luo_grp *b, int32_t key)
{
    const int32_t n = luo_grp_count(a, key);
    const uint32_t *p = luo_grp_share(a, key), *q = luo_grp_share(b, key);
    if (n != luo_grp_count(b, key) || !p != !q) return false;
    return !p || memcmp(p, q, (size_t)n * sizeof *p) == 0;
}

/* Members whose cut of key is not among the last few distinct ones; returns their number. */
static int32_t distinct_cuts(const luo_ann *ann, int32_t key, const luo_grp **rep)
{
    int32_t n = 0;
    for (int32_t u = 0; u < ann->u; u++) {
        bool known = false;
        for (int32_t k = n; k-- > 0 && k >= n - RECENT && !known;)
            known = same_cut_of(rep[k], &ann->grp[u], key);
        if (!known) rep[n++] = &ann->grp[u];
    }
    return n;
}

luo_status luo_bounds_inner(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                            const int64_t **out, int32_t *nout, luo_err *err)
{
    const luo_grp **rep = luo_arena_alloc(arena, (size_t)ann->u * sizeof *rep);
    if (!rep) return luo_err_nomem(err);
    const int32_t nrep = distinct_cuts(ann, ann->h, rep);
    int64_t total = 0;
    for (int32_t k = 0; k < nrep; k++) total += luo_grp_count(rep[k], ann->h) + 1;
    int64_t *p = luo_arena_alloc(arena, (size_t)total * sizeof *p);
    if (!p) return luo_err_nomem(err);
    total = 0;
    for (int32_t k = 0; k < nrep; k++) {
        const int32_t n = luo_grp_count(rep[k], ann->h);
        luo_bounds_cut(shape->dim[ann->h], n, luo_grp_share(rep[k], ann->h), p + total);
        total += n + 1;
    }
    if (nrep > 1) qsort(p, (size_t)total, sizeof *p, by_value);
    int32_t n = 1;
    for (int64_t k = 1; k < total; k++)
        if (p[k] != p[n - 1]) p[n++] = p[k];
    *out = p;
    *nout = n - 1;
    return LUO_OK;
}

luo_status luo_bounds_top(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                          int64_t **out, luo_err *err)
{
    assert(ann->h >= 0 && !ann->inner);
    int64_t *top = luo_arena_alloc(arena, ((size_t)ann->u + 1) * sizeof *top);
    if (!top) return luo_err_nomem(err);
    if (shape->member_len) {
        top[0] = 0;
        for (int32_t u = 0; u < ann->u; u++) top[u + 1] = top[u] + shape->member_len[u];
    } else {
        luo_bounds_cut(shape->dim[ann->h], ann->u, ann->hshare, top);
    }
    *out = top;
    return LUO_OK;
}

static luo_status layout_make(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                              layout *l, luo_err *err)
{
    *l = (layout){.arena = arena, .a = ann, .shape = shape};
    if (ann->h < 0) return LUO_OK;
    assert(ann->h < shape->rank);
    if (ann->inner) return luo_bounds_inner(arena, ann, shape, &l->fine, &l->nfine, err);
    return luo_bounds_top(arena, ann, shape, &l->top, err);
}

/* Piece u of each fine interval inside [lo:hi), touching ones merged. */
static luo_status inner_pieces(const layout *l, int32_t u, int64_t lo, int64_t hi, span_list *out,
                               luo_err *err)
{
    int32_t from = 0, to = l->nfine; /* first fine bound >= lo */
    while (from < to) {
        const int32_t mid = from + (to - from) / 2;
        if (l->fine[mid] < lo) from = mid + 1;
        else to = mid;
    }
    for (to = from; to < l->nfine && l->fine[to] < hi;) to++;
    luo_span *at = luo_arena_alloc(l->arena, (size_t)(to - from) * sizeof *at);
    if (!at) return luo_err_nomem(err);
    int32_t n = 0;
    for (int32_t j = from; j < to; j++) {
        const int64_t len = l->fine[j + 1] - l->fine[j], q = len / l->a->u, m = len % l->a->u;
        const int64_t a = l->fine[j] + u * q + (u < m ? u : m), b = a + q + (u < m);
        if (a == b) continue;
        if (n && at[n - 1].hi == a) at[n - 1].hi = b;
        else at[n++] = (luo_span){a, b};
    }
    *out = (span_list){n, at};
    return LUO_OK;
}

/* The span lists of all parts of dimension d in member u. */
static luo_status cut_dim(const layout *l, int32_t u, int32_t d, span_list **out, luo_err *err)
{
    const luo_grp *group = &l->a->grp[u];
    const int32_t n = luo_grp_count(group, d);
    const bool outer = l->top && d == l->a->h;
    const int64_t lo = outer ? l->top[u] : 0;
    const int64_t len = outer ? l->top[u + 1] - lo : l->shape->dim[d];
    span_list *part = luo_arena_alloc(l->arena, (size_t)n * sizeof *part);
    luo_span *span = luo_arena_alloc(l->arena, (size_t)n * sizeof *span);
    int64_t *b = luo_arena_alloc(l->arena, ((size_t)n + 1) * sizeof *b);
    if (!part || !span || !b) return luo_err_nomem(err);
    luo_bounds_cut(len, n, luo_grp_share(group, d), b);
    for (int32_t c = 0; c < n; c++) {
        if (l->fine && d == l->a->h) {
            LUO_TRY(inner_pieces(l, u, b[c], b[c + 1], &part[c], err));
            continue;
        }
        span[c] = (luo_span){lo + b[c], lo + b[c + 1]};
        part[c] = (span_list){b[c] < b[c + 1], &span[c]};
    }
    *out = part;
    return LUO_OK;
}

static luo_status coordinates(luo_arena *arena, const luo_grp *group, int32_t key, int32_t **out,
                              luo_err *err)
{
    const int32_t n = luo_grp_count(group, key), stride = luo_grp_stride(group, key);
    *out = NULL;
    if (n == 1) return LUO_OK;
    int32_t *c = luo_arena_alloc(arena, (size_t)group->ndev * sizeof *c);
    if (!c) return luo_err_nomem(err);
    for (int32_t i = 0; i < group->ndev; i++) c[i] = i / stride % n;
    *out = c;
    return LUO_OK;
}

/* Fills table for member u; what an equal cut in `known` already has is taken over. */
static luo_status table_make(const layout *l, int32_t u, const member_table *known,
                             member_table *table, luo_err *err)
{
    const luo_grp *group = &l->a->grp[u];
    if (known)
        *table = *known;
    else
        *table = (member_table){.g = group};
    for (int32_t d = 0; d < l->shape->rank; d++) {
        if (!known) LUO_TRY(coordinates(l->arena, group, d, &table->coord[d], err));
        if (!known || d == l->a->h) LUO_TRY(cut_dim(l, u, d, &table->part[d], err));
    }
    if (!known)
        LUO_TRY(coordinates(l->arena, group, LUO_PARTIAL, &table->coord[LUO_RANK_MAX], err));
    return LUO_OK;
}

static luo_region region_at(const layout *l, const member_table *table, int32_t i)
{
    luo_region region = {.rank = l->shape->rank};
    for (int32_t d = 0; d < region.rank; d++) {
        const span_list *part = &table->part[d][table->coord[d] ? table->coord[d][i] : 0];
        if (!part->n) return (luo_region){.rank = region.rank, .empty = true};
        region.dim[d].n = part->n;
        region.dim[d].at = part->at;
    }
    return region;
}

static void fill_member(const layout *l, const member_table *table, int32_t u, luo_holding *at)
{
    const luo_grp *group = &l->a->grp[u];
    const int32_t parts = luo_grp_count(group, LUO_PARTIAL);
    const int32_t *part = table->coord[LUO_RANK_MAX];
    for (int32_t i = 0; i < group->ndev; i++)
        at[i] = (luo_holding){.dev = group->dev[i],
                              .u = u,
                              .i = i,
                              .part = part ? part[i] : 0,
                              .parts = parts,
                              .region = region_at(l, table, i)};
}

static const member_table *find_table(const member_table *recent, int32_t n, const luo_grp *group)
{
    for (int32_t k = 0; k < n; k++)
        if (luo_grp_same_cut(recent[k].g, group)) return &recent[k];
    return NULL;
}

luo_status luo_holdings_make(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                             luo_holdings *out, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(arena);
    member_table recent[RECENT];
    int32_t nrecent = 0, next = 0, n = 0;
    layout l;
    luo_holding *at = LUO_NEW_N(arena, luo_holding, luo_ann_ndev(ann));
    if (!at) return luo_err_nomem(err);
    LUO_TRY_OUT(layout_make(arena, ann, shape, &l, err));
    for (int32_t u = 0; u < ann->u; u++) {
        member_table table;
        const member_table *known = find_table(recent, nrecent, &ann->grp[u]);
        LUO_TRY_OUT(table_make(&l, u, known, &table, err));
        fill_member(&l, &table, u, at + n);
        n += ann->grp[u].ndev;
        if (known) continue;
        recent[next] = table;
        next = (next + 1) % RECENT;
        if (nrecent < RECENT) nrecent++;
    }
    *out = (luo_holdings){n, at};
out:
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}

luo_status luo_region_of(luo_arena *arena, const luo_ann *ann, const luo_shape *shape, int32_t u,
                         int32_t i, luo_region *out, luo_err *err)
{
    assert(u >= 0 && u < ann->u && i >= 0 && i < ann->grp[u].ndev);
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(arena);
    layout l;
    luo_region region = {.rank = shape->rank};
    LUO_TRY_OUT(layout_make(arena, ann, shape, &l, err));
    for (int32_t d = 0; d < region.rank; d++) {
        span_list *part;
        LUO_TRY_OUT(cut_dim(&l, u, d, &part, err));
        const span_list *mine = &part[luo_grp_coord(&ann->grp[u], i, d)];
        region.dim[d].n = mine->n;
        region.dim[d].at = mine->at;
        region.empty = region.empty || !mine->n;
    }
    *out = region.empty ? (luo_region){.rank = shape->rank, .empty = true} : region;
out:
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}

luo_status luo_region_footprint(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                                int32_t u, luo_region *out, luo_err *err)
{
    assert(u >= 0 && u < ann->u);
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(arena);
    layout l;
    luo_region region = {.rank = shape->rank};
    luo_span *whole = luo_arena_alloc(arena, (size_t)shape->rank * sizeof *whole);
    if (!whole) return luo_err_nomem(err);
    LUO_TRY_OUT(layout_make(arena, ann, shape, &l, err));
    for (int32_t d = 0; d < region.rank; d++) {
        whole[d] = (luo_span){0, shape->dim[d]};
        if (d == ann->h && l.top) whole[d] = (luo_span){l.top[u], l.top[u + 1]};
        span_list list = {whole[d].lo < whole[d].hi, &whole[d]};
        if (d == ann->h && l.fine) LUO_TRY_OUT(inner_pieces(&l, u, 0, shape->dim[d], &list, err));
        region.dim[d].n = list.n;
        region.dim[d].at = list.at;
        region.empty = region.empty || !list.n;
    }
    *out = region.empty ? (luo_region){.rank = shape->rank, .empty = true} : region;
out:
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}
