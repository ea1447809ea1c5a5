/* Placement by overlap (docs/planners.md#placement). The exact assignment is the Hungarian method
 * over triples that add and compare position by position: no weight can be outweighed by a sum of
 * ties below it, and nothing overflows into it. */
#include "core/plan/migrate_place.h"

#include <stdlib.h>

typedef struct gain { /* first what stays, then nearness, then order */
    int64_t stays, near, order;
} gain;

static gain less(gain a, gain b)
{
    return (gain){a.stays - b.stays, a.near - b.near, a.order - b.order};
}

static gain more(gain a, gain b)
{
    return (gain){a.stays + b.stays, a.near + b.near, a.order + b.order};
}

static bool below(gain a, gain b)
{
    if (a.stays != b.stays) return a.stays < b.stays;
    if (a.near != b.near) return a.near < b.near;
    return a.order < b.order;
}

/* Order: the sum of slot * group is largest when both rise together. */
static gain gain_of(const luo_place_in *in, int32_t slot, int32_t group)
{
    return (gain){in->weight(in->ctx, slot, group),
                  in->near && in->near(in->ctx, slot, group),
                  (int64_t)slot * group};
}

/* ---- exact ---- */

typedef struct hungarian { /* rows are slots, columns groups, both from 1; costs are -gain */
    int32_t n;
    const gain *gains; /* [(row - 1) * n + column - 1] */
    gain *u, *v, *least;
    int32_t *row_of, *way; /* per column; 0: none */
    bool *used, *seen;
} hungarian;

static gain cost(const hungarian *h, int32_t row, int32_t column)
{
    return less((gain){0, 0, 0}, h->gains[(int64_t)(row - 1) * h->n + column - 1]);
}

/* One Dijkstra step from column j0: the column nearest to the tree; potentials are shifted. */
static int32_t step(hungarian *h, int32_t j0)
{
    const int32_t i0 = h->row_of[j0];
    int32_t next = 0;
    for (int32_t j = 1; j <= h->n; j++) {
        if (h->used[j]) continue;
        const gain c = less(less(cost(h, i0, j), h->u[i0]), h->v[j]);
        if (!h->seen[j] || below(c, h->least[j])) {
            h->least[j] = c;
            h->way[j] = j0;
            h->seen[j] = true;
        }
        if (next == 0 || below(h->least[j], h->least[next])) next = j;
    }
    const gain delta = h->least[next];
    for (int32_t j = 0; j <= h->n; j++) {
        if (h->used[j]) {
            h->u[h->row_of[j]] = more(h->u[h->row_of[j]], delta);
            h->v[j] = less(h->v[j], delta);
        } else if (j > 0) {
            h->least[j] = less(h->least[j], delta);
        }
    }
    return next;
}

static void add_row(hungarian *h, int32_t row)
{
    int32_t j = 0;
    h->row_of[0] = row;
    for (int32_t k = 0; k <= h->n; k++) h->used[k] = h->seen[k] = false;
    do {
        h->used[j] = true;
        j = step(h, j);
    } while (h->row_of[j] != 0);
    while (j != 0) { /* turn the path round */
        const int32_t before = h->way[j];
        h->row_of[j] = h->row_of[before];
        j = before;
    }
}

static luo_status exact(luo_arena *arena, const luo_place_in *in, int32_t *group, luo_err *err)
{
    const int32_t n = in->n;
    gain *gains = LUO_NEW_N(arena, gain, (int64_t)n * n);
    hungarian h = {.n = n,
                   .gains = gains,
                   .u = LUO_NEW_N(arena, gain, n + 1),
                   .v = LUO_NEW_N(arena, gain, n + 1),
                   .least = LUO_NEW_N(arena, gain, n + 1),
                   .row_of = LUO_NEW_N(arena, int32_t, n + 1),
                   .way = LUO_NEW_N(arena, int32_t, n + 1),
                   .used = LUO_NEW_N(arena, bool, n + 1),
                   .seen = LUO_NEW_N(arena, bool, n + 1)};
    if (!gains || !h.u || !h.v || !h.least || !h.row_of || !h.way || !h.used || !h.seen)
        return luo_err_nomem(err);
    for (int32_t s = 0; s < n; s++)
        for (int32_t g = 0; g < n; g++) gains[(int64_t)s * n + g] = gain_of(in, s, g);
    for (int32_t row = 1; row <= n; row++) add_row(&h, row);
    for (int32_t j = 1; j <= n; j++) group[h.row_of[j] - 1] = j - 1;
    return LUO_OK;
}

/* ---- best first ---- */

typedef struct offer {
    int64_t weight;
    int32_t slot, group;
} offer;

static int by_weight(const void *a, const void *b)
{
    const offer *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

/* All that keeps something. NULL: out of memory. */
static offer *list_offers(luo_arena *arena, const luo_place_in *in, int64_t *n)
{
    int64_t room = in->n;
    offer *out = luo_arena_alloc(arena, (size_t)room * sizeof *out);
    *n = 0;
    for (int32_t s = 0; out && s < in->n; s++)
        for (int32_t g = 0; out && g < in->n; g++) {
            const int64_t w = in->weight(in->ctx, s, g);
            if (w <= 0) continue;
            if (*n == room) {
                const size_t was = (size_t)room * sizeof *out;
                out = luo_arena_grow(arena, out, was, 2 * was);
                room *= 2;
            }
            if (out) out[(*n)++] = (offer){w, s, g};
        }
    return out;
}

/* Slots still open take the first group that is near, else the first there is. */
static void fill(const luo_place_in *in, int32_t *group, bool *taken)
{
    int32_t first = 0;
    for (int32_t s = 0; s < in->n; s++) {
        if (group[s] >= 0) continue;
        while (taken[first]) first++;
        int32_t pick = first;
        for (int32_t g = first; in->near && g < in->n; g++)
            if (!taken[g] && in->near(in->ctx, s, g)) {
                pick = g;
                break;
            }
        group[s] = pick;
        taken[pick] = true;
    }
}

static luo_status best_first(luo_arena *arena, const luo_place_in *in, int32_t *group, luo_err *err)
{
    int64_t n;
    offer *offers = list_offers(arena, in, &n);
    bool *taken = LUO_NEW_N(arena, bool, in->n);
    if (!offers || !taken) return luo_err_nomem(err);
    qsort(offers, (size_t)n, sizeof *offers, by_weight);
    for (int32_t s = 0; s < in->n; s++) group[s] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (group[offers[i].slot] >= 0 || taken[offers[i].group]) continue;
        group[offers[i].slot] = offers[i].group;
        taken[offers[i].group] = true;
    }
    fill(in, group, taken);
    return LUO_OK;
}

luo_status luo_place_overlap(luo_arena *scratch, const luo_place_in *in, int32_t *group,
                             int64_t *total, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    const luo_status st = in->n <= LUO_PLACE_EXACT ? exact(scratch, in, group, err)
                                                   : best_first(scratch, in, group, err);
    luo_arena_reset(scratch, mark);
    if (st != LUO_OK || !total) return st;
    *total = 0;
    for (int32_t s = 0; s < in->n; s++) *total += in->weight(in->ctx, s, group[s]);
    return LUO_OK;
}
