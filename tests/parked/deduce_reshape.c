/* deduce_reshape.c: the annotation behind a reshape (docs/annotations.md#deduction).
 *
 * Both shapes fall into minimal groups of equal product. In a group only the first input dimension
 * of size > 1 may be cut: its parts are then contiguous in the flattened group, and so are those of
 * the first output dimension of size > 1, onto which the bounds are mapped. */
#include <inttypes.h>
#include <string.h>

#include "core/hspmd/bounds.h"
#include "tests/parked/deduce_reshape.h"

/* Where a cut input dimension goes: bound x of it becomes x * mul / div of dimension `to`. */
typedef struct target {
    int32_t to; /* -1: it must not be cut */
    int64_t mul, div;
} target;

typedef struct reshape {
    luo_arena *arena, *scratch;
    const luo_ann *a;
    const luo_shape *from, *to;
    const char *op;
    luo_err *err;
    target map[LUO_RANK_MAX];
} reshape;

static void print_shape(luo_str *s, const luo_shape *shape)
{
    for (int32_t d = 0; d < shape->rank; d++) {
        if (d) luo_str_addc(s, 'x');
        luo_str_addi(s, shape->dim[d]);
    }
}

/* D_RESHAPE for dimension d (-1: the sizes differ). */
static luo_status refuse(const reshape *r, int32_t d)
{
    luo_str s = {0};
    print_shape(&s, r->from);
    luo_str_add(&s, " to ");
    print_shape(&s, r->to);
    if (d < 0)
        luo_err_set(r->err, LUO_EDEDUCE,
                    "op '%s': D_RESHAPE: %s changes the number of elements; mend the sizes", r->op,
                    luo_str_get(&s));
    else
        luo_err_set(r->err, LUO_EDEDUCE,
                    "op '%s': D_RESHAPE: the cut of dimension %d does not survive %s; insert a "
                    "Reshard",
                    r->op, d, luo_str_get(&s));
    luo_str_free(&s);
    return LUO_EDEDUCE;
}

/* First dimension of size > 1 in [lo:hi), else lo; *rest: product of those behind it. */
static int32_t lead_of(const luo_shape *s, int32_t lo, int32_t hi, int64_t *rest)
{
    int32_t lead = lo;
    while (lead < hi && s->dim[lead] == 1) lead++;
    if (lead == hi) lead = lo;
    *rest = 1;
    for (int32_t d = lead + 1; d < hi; d++) *rest *= s->dim[d];
    return lead;
}

/* Two pointers: takes the next minimal group [i0:i), [j0:j); false if the products differ. */
static bool next_group(const reshape *r, int32_t *i, int32_t *j)
{
    int64_t p = 1, q = 1;
    if (*i < r->from->rank) p = r->from->dim[(*i)++];
    if (*j < r->to->rank) q = r->to->dim[(*j)++];
    while (p != q) {
        if ((p < q || *j == r->to->rank) && *i < r->from->rank) p *= r->from->dim[(*i)++];
        else if (*j < r->to->rank) q *= r->to->dim[(*j)++];
        else return false;
    }
    return true;
}

static bool has_zero(const luo_shape *s)
{
    for (int32_t d = 0; d < s->rank; d++)
        if (!s->dim[d]) return true;
    return false;
}

/* Without elements products say nothing: only the leading dimensions that do not change map. */
static luo_status map_empty(reshape *r)
{
    bool same = true;
    if (!has_zero(r->from) || !has_zero(r->to)) return refuse(r, -1);
    for (int32_t d = 0; d < r->from->rank; d++) {
        same = same && d < r->to->rank && r->from->dim[d] == r->to->dim[d];
        r->map[d] = (target){same ? d : -1, 1, 1};
    }
    return LUO_OK;
}

static luo_status map_dims(reshape *r)
{
    if (has_zero(r->from) || has_zero(r->to)) return map_empty(r);
    for (int32_t i = 0, j = 0; i < r->from->rank || j < r->to->rank;) {
        const int32_t i0 = i, j0 = j;
        if (!next_group(r, &i, &j)) return refuse(r, -1);
        target t = {.to = -1};
        for (int32_t d = i0; d < i; d++) r->map[d] = t;
        if (i0 == i || j0 == j) continue; /* only ones are left on one side */
        const int32_t lead = lead_of(r->from, i0, i, &t.mul);
        t.to = lead_of(r->to, j0, j, &t.div);
        r->map[lead] = t;
    }
    return LUO_OK;
}

/* Maps bounds[0..n] in place; false if one of them falls between two elements. */
static bool map_bounds(const target *t, int32_t n, int64_t *bounds)
{
    for (int32_t k = 0; k <= n; k++) {
        const __int128 x = (__int128)bounds[k] * t->mul;
        if (!t->div || x % t->div) return false;
        bounds[k] = (int64_t)(x / t->div);
    }
    return true;
}

/* Shares that give bounds[0..n] on the new length: the old ones if they do, else the sizes. */
static luo_status new_shares(const reshape *r, int32_t n, const int64_t *bounds,
                             const uint32_t *old, const uint32_t **out)
{
    int64_t *again = LUO_NEW_N(r->scratch, int64_t, n + 1);
    if (!again) return luo_err_nomem(r->err);
    luo_bounds_cut(bounds[n], n, old, again);
    *out = old;
    if (memcmp(again, bounds, ((size_t)n + 1) * sizeof *again) == 0) return LUO_OK;
    return luo_bounds_shares(r->scratch, n, bounds, out, r->err);
}

/* The cut across members. top: input bounds, mapped to the output on return (NULL: no such cut). */
static luo_status map_top(const reshape *r, luo_ann *out, int64_t **top)
{
    const luo_ann *a = r->a;
    *top = NULL;
    if (a->h < 0) return LUO_OK;
    const target *t = &r->map[a->h];
    if (t->to < 0) return refuse(r, a->h);
    out->h = t->to;
    if (a->inner) return LUO_OK;
    int64_t *mapped;
    LUO_TRY(luo_bounds_top(r->scratch, a, r->from, top, r->err));
    LUO_TRY(luo_bounds_top(r->scratch, a, r->from, &mapped, r->err));
    if (!map_bounds(t, a->u, mapped)) return refuse(r, a->h);
    if (!r->to->member_len) return new_shares(r, a->u, mapped, a->hshare, &out->hshare);
    out->hshare = NULL;
    for (int32_t u = 0; u < a->u; u++)
        if (mapped[u + 1] - mapped[u] != r->to->member_len[u]) return refuse(r, a->h);
    return LUO_OK;
}

static luo_status map_group(const reshape *r, int32_t u, const int64_t *top, luo_grp *out)
{
    const luo_grp *g = &r->a->grp[u];
    luo_ent *ent = LUO_NEW_N(r->scratch, luo_ent, g->nent);
    if (!ent) return luo_err_nomem(r->err);
    for (int32_t e = 0; e < g->nent; e++) {
        const int32_t d = g->ent[e].key, n = g->ent[e].n;
        ent[e] = g->ent[e];
        if (d < 0) continue;
        const target *t = &r->map[d];
        if (t->to < 0) return refuse(r, d);
        ent[e].key = t->to;
        int64_t *b = LUO_NEW_N(r->scratch, int64_t, n + 1);
        if (!b) return luo_err_nomem(r->err);
        const int64_t len = top && d == r->a->h ? top[u + 1] - top[u] : r->from->dim[d];
        luo_bounds_cut(len, n, g->ent[e].share, b);
        if (!map_bounds(t, n, b)) return refuse(r, d);
        LUO_TRY(new_shares(r, n, b, g->ent[e].share, &ent[e].share));
    }
    *out = (luo_grp){.ndev = g->ndev, .dev = g->dev, .nent = g->nent, .ent = ent};
    return LUO_OK;
}

static luo_status map_ann(const reshape *r, luo_ann *out)
{
    int64_t *top;
    luo_grp *grp = LUO_NEW_N(r->scratch, luo_grp, r->a->u);
    if (!grp) return luo_err_nomem(r->err);
    *out = *r->a;
    out->grp = grp;
    LUO_TRY(map_top(r, out, &top));
    for (int32_t u = 0; u < r->a->u; u++) LUO_TRY(map_group(r, u, top, &grp[u]));
    return LUO_OK;
}

/* The pieces of the inner pattern follow from all members' bounds together: that they are
 * still the same elements must be looked at. Other cuts are equal by construction. */
static luo_status verify_inner(const reshape *r, const luo_ann *out)
{
    const int32_t h = r->a->h, to = out->h;
    const target *t = &r->map[h];
    luo_holdings before, after;
    LUO_TRY(luo_holdings_make(r->scratch, r->a, r->from, &before, r->err));
    LUO_TRY(luo_holdings_make(r->scratch, out, r->to, &after, r->err));
    for (int32_t k = 0; k < before.n; k++) {
        const luo_region *x = &before.at[k].region, *y = &after.at[k].region;
        if (x->empty && y->empty) continue;
        if (x->dim[h].n != y->dim[to].n) return refuse(r, h);
        for (int32_t j = 0; j < x->dim[h].n; j++)
            if ((__int128)x->dim[h].at[j].lo * t->mul != (__int128)y->dim[to].at[j].lo * t->div ||
                (__int128)x->dim[h].at[j].hi * t->mul != (__int128)y->dim[to].at[j].hi * t->div)
                return refuse(r, h);
    }
    return LUO_OK;
}

static luo_status run(reshape *r, const luo_ann **res)
{
    luo_ann out;
    const luo_grp one = {.ndev = 1};
    const luo_ann plain = {.u = 1, .h = LUO_H_NONE, .grp = &one};
    luo_shape to = *r->to;
    to.member_len = NULL;
    LUO_TRY(luo_ann_bind(r->a, r->from, LUO_BIND_ROUND, r->op, r->err));
    LUO_TRY(luo_ann_bind(&plain, &to, LUO_BIND_ROUND, r->op, r->err)); /* limits of the sizes */
    LUO_TRY(map_dims(r));
    LUO_TRY(map_ann(r, &out));
    if (out.inner) LUO_TRY(verify_inner(r, &out));
    const luo_ann *canonical = luo_ann_canonical(r->arena, &out);
    if (!canonical) return luo_err_nomem(r->err);
    *res = canonical;
    return LUO_OK;
}

luo_status luo_deduce_reshape(luo_arena *arena, const luo_ann *a, const luo_shape *from,
                              const luo_shape *to, const char *op, const luo_ann **res,
                              luo_err *err)
{
    reshape r = {.arena = arena, .a = a, .from = from, .to = to, .op = op, .err = err};
    r.scratch = luo_arena_new(0);
    if (!r.scratch) return luo_err_nomem(err);
    const luo_status st = run(&r, res);
    luo_arena_free(r.scratch);
    return st;
}
