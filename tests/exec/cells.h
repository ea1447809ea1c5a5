/* cells.h: numbers for the cells of a tensor, and what a device must hold of them.
 *
 * Cells are row-major indices of the whole tensor. The truth is drawn; where an annotation says
 * Partial, the holders get random summands of it (docs/annotations.md#what-a-device-holds), as
 * tests/prop/oracle.h does. Values are integers, so that sums are exact; CELLS_POISON stands where
 * nothing is. */
#ifndef LUO_TESTS_EXEC_CELLS_H
#define LUO_TESTS_EXEC_CELLS_H
#include "core/base/rng.h"
#include "exec/bind/route.h"

#define CELLS_POISON INT64_C(0x7ff8dead0000)
enum { CELLS_PARTS = 256 }; /* summands of a value at most */

typedef struct cells { /* of one tensor under one annotation: a value per (holding, cell) */
    luo_holdings h;
    int64_t n;       /* cells of the whole tensor */
    int64_t **value; /* [holding][cell] of the whole tensor; only those of its region count */
} cells;

static inline int64_t cells_count(const luo_shape *s)
{
    int64_t n = 1;
    for (int32_t d = 0; d < s->rank; d++) n *= s->dim[d];
    return n;
}

static inline bool cells_inside(const luo_region *r, const luo_shape *s, int64_t cell)
{
    for (int32_t d = s->rank; d-- > 0; cell /= s->dim[d]) {
        const int64_t x = cell % s->dim[d];
        bool in = false;
        for (int32_t k = 0; k < r->dim[d].n && !r->empty; k++)
            in = in || (x >= r->dim[d].at[k].lo && x < r->dim[d].at[k].hi);
        if (!in) return false;
    }
    return !r->empty;
}

/* Cells of a region in ascending order, which is row-major; their number. */
static inline int64_t cells_list(const luo_region *r, const luo_shape *s, int64_t *out)
{
    int64_t n = 0;
    for (int64_t c = 0, all = cells_count(s); c < all; c++)
        if (cells_inside(r, s, c)) out[n++] = c;
    return n;
}

/* n summands (or, for max, values whose largest is it) of one value. */
static inline void cells_split(luo_rng *r, int64_t value, int32_t n, bool max, int64_t *out)
{
    const int64_t chosen = luo_rng_pick(r, n);
    int64_t rest = value;
    for (int32_t k = 0; k < n; k++) {
        out[k] = max ? value - 1 - luo_rng_pick(r, 50) : luo_rng_pick(r, 2000) - 1000;
        if (k != chosen) rest -= out[k];
    }
    out[chosen] = max ? value : rest;
}

/* Draws what every holding of ann has of the truth. */
static inline void cells_deal(luo_arena *a, luo_rng *r, const luo_ann *ann, const luo_shape *shape,
                              const int64_t *truth, bool max, cells *out)
{
    int64_t top[CELLS_PARTS], low[CELLS_PARTS];
    cells x = {.n = cells_count(shape)};
    luo_holdings_make(a, ann, shape, &x.h, NULL);
    x.value = LUO_NEW_N(a, int64_t *, x.h.n);
    for (int32_t k = 0; k < x.h.n; k++) x.value[k] = LUO_NEW_N(a, int64_t, x.n);
    for (int64_t c = 0; c < x.n; c++) {
        for (int32_t u = 0; u < ann->u; u++) top[u] = truth[c];
        if (ann->h == LUO_PARTIAL) cells_split(r, truth[c], ann->u, max, top);
        for (int32_t u = 0, k = 0; u < ann->u; u++) {
            cells_split(r, top[u], luo_grp_count(&ann->grp[u], LUO_PARTIAL), max, low);
            for (int32_t i = 0; i < ann->grp[u].ndev; i++, k++) x.value[k][c] = low[x.h.at[k].part];
        }
    }
    *out = x;
}

/* Compares what the holdings of ann have (got[holding][cell]) with the truth: copies agree,
 * summands add up. got[holding] NULL: not asked. Result NULL: fine; else what is wrong. */
static inline const char *cells_check(luo_arena *a, const luo_ann *ann, const luo_shape *shape,
                                      const int64_t *truth, int64_t *const *got)
{
    luo_holdings h;
    luo_holdings_make(a, ann, shape, &h, NULL);
    for (int64_t c = 0, n = cells_count(shape); c < n; c++) {
        int64_t all = 0;
        bool known = true;
        for (int32_t u = 0, k = 0; u < ann->u; u++) {
            int64_t part[CELLS_PARTS], sum = 0;
            bool seen[CELLS_PARTS] = {false}, mine = true;
            for (int32_t i = 0; i < ann->grp[u].ndev; i++, k++) {
                const int32_t p = h.at[k].part;
                if (!got[k] || !cells_inside(&h.at[k].region, shape, c)) continue;
                if (got[k][c] == CELLS_POISON)
                    return luo_arena_printf(a, "cell %d of device %d is missing", (int)c,
                                            (int)h.at[k].dev);
                if (seen[p] && part[p] != got[k][c])
                    return luo_arena_printf(a, "cell %d of device %d differs from its copy", (int)c,
                                            (int)h.at[k].dev);
                seen[p] = true;
                part[p] = got[k][c];
            }
            for (int32_t p = 0; p < luo_grp_count(&ann->grp[u], LUO_PARTIAL); p++) {
                mine = mine && seen[p];
                sum += seen[p] ? part[p] : 0;
            }
            if (mine && ann->h != LUO_PARTIAL && sum != truth[c])
                return luo_arena_printf(a, "cell %d of member %d is wrong", (int)c, (int)u);
            known = known && mine;
            all += sum;
        }
        if (known && ann->h == LUO_PARTIAL && all != truth[c])
            return luo_arena_printf(a, "cell %d does not sum up", (int)c);
    }
    return NULL;
}
#endif
