/* oracle.h: the slow obvious twin of luo_resolve (docs/architecture/tests.md): real values on
 * devices, the op list executed step by step with fresh buffers, then everything a Reshard promises
 * is checked. Cells are row-major indices; values are integers, so that sums are exact. */
#ifndef LUO_TESTS_PROP_ORACLE_H
#define LUO_TESTS_PROP_ORACLE_H
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/prop/gen_reshard.h"

enum { LUO_ORACLE_CELLS = 512, LUO_ORACLE_PARTS = 8 };

typedef struct luo_buffer {
    int64_t value[LUO_ORACLE_CELLS];
    uint8_t writes[LUO_ORACLE_CELLS]; /* in the step that made the buffer */
    bool has[LUO_ORACLE_CELLS];
} luo_buffer;

typedef struct luo_oracle {
    const luo_reshard *x;
    const luo_resolution *res;
    int64_t cells;
    int64_t truth[LUO_ORACLE_CELLS];
    luo_holdings hs, hd;
    const luo_holding *on[LUO_GEN_DEVICES]; /* source holding of a device */
    luo_buffer now[LUO_GEN_DEVICES], next[LUO_GEN_DEVICES];
    bool lost[LUO_GEN_DEVICES][LUO_ORACLE_CELLS];
    char why[256]; /* "": all is well */
} luo_oracle;

static inline void luo_oracle_say(luo_oracle *o, const char *fmt, ...) LUO_PRINTF(2, 3);
static inline void luo_oracle_say(luo_oracle *o, const char *fmt, ...)
{
    va_list ap;
    if (o->why[0]) return;
    va_start(ap, fmt);
    vsnprintf(o->why, sizeof o->why, fmt, ap);
    va_end(ap);
}

/* Cells of r, row-major, into out[]; returns their number. */
static inline int32_t luo_oracle_cells(const luo_oracle *o, const luo_region *r, int32_t *out)
{
    int32_t n = 1, next[LUO_ORACLE_CELLS];
    if (r->empty) return 0;
    out[0] = 0;
    for (int32_t d = 0; d < r->rank; d++) {
        int32_t m = 0;
        for (int32_t i = 0; i < n; i++)
            for (int32_t k = 0; k < r->dim[d].n; k++)
                for (int64_t v = r->dim[d].at[k].lo; v < r->dim[d].at[k].hi; v++)
                    next[m++] = out[i] * (int32_t)o->x->shape.dim[d] + (int32_t)v;
        n = m;
        memcpy(out, next, (size_t)n * sizeof *out);
    }
    return n;
}

static inline bool luo_oracle_dead(const luo_oracle *o, int32_t dev)
{
    for (int32_t i = 0; i < o->x->opts.planner.ndead; i++)
        if (o->x->dead[i] == dev) return true;
    return false;
}

/* n summands of value[], each row drawn but the last. */
static inline void luo_oracle_split(const luo_oracle *o, luo_rng *r, const int64_t *value,
                                    int32_t n, int64_t out[][LUO_ORACLE_CELLS])
{
    for (int64_t c = 0; c < o->cells; c++) {
        out[n - 1][c] = value[c];
        for (int32_t k = 0; k + 1 < n; k++) {
            out[k][c] = luo_rng_pick(r, 2000) - 1000;
            out[n - 1][c] -= out[k][c];
        }
    }
}

/* What every source device stores. Dead devices store nothing. */
static inline void luo_oracle_fill(luo_oracle *o, luo_rng *r)
{
    static int64_t m[LUO_GEN_U][LUO_ORACLE_CELLS], v[LUO_ORACLE_PARTS][LUO_ORACLE_CELLS];
    const luo_ann *a = o->x->src;
    int32_t cell[LUO_ORACLE_CELLS], k = 0;
    for (int64_t c = 0; c < o->cells; c++) o->truth[c] = luo_rng_pick(r, 2000) - 1000;
    for (int32_t u = 0; u < a->u; u++) memcpy(m[u], o->truth, sizeof m[u]);
    if (a->h == LUO_PARTIAL) luo_oracle_split(o, r, o->truth, a->u, m);
    for (int32_t u = 0; u < a->u; u++) {
        luo_oracle_split(o, r, m[u], luo_grp_count(&a->grp[u], LUO_PARTIAL), v);
        for (int32_t i = 0; i < a->grp[u].ndev; i++, k++) {
            const luo_holding *h = &o->hs.at[k];
            const int32_t n = luo_oracle_cells(o, &h->region, cell);
            o->on[h->dev] = h;
            for (int32_t q = 0; q < n && !luo_oracle_dead(o, h->dev); q++) {
                o->now[h->dev].has[cell[q]] = true;
                o->now[h->dev].value[cell[q]] = v[h->part][cell[q]];
            }
        }
    }
}

static inline int64_t luo_oracle_read(luo_oracle *o, int32_t dev, int32_t cell)
{
    if (!o->now[dev].has[cell])
        luo_oracle_say(o, "device %d does not hold cell %d, which it gives", dev, cell);
    return o->now[dev].value[cell];
}

static inline void luo_oracle_write(luo_oracle *o, int32_t dev, int32_t cell, int64_t value)
{
    luo_buffer *b = &o->next[dev];
    if (b->has[cell] && b->value[cell] != value)
        luo_oracle_say(o, "cell %d of device %d is written twice with other values", cell, dev);
    b->has[cell] = true;
    b->value[cell] = value;
    b->writes[cell]++;
}

/* Sums over the group, or takes from rank j, and hands out to all, or to rank j. */
static inline void luo_oracle_group(luo_oracle *o, const luo_move *m, int32_t j)
{
    int32_t cell[LUO_ORACLE_CELLS];
    const int32_t n = luo_oracle_cells(o, &m->region[j], cell);
    for (int32_t q = 0; q < n; q++) {
        int64_t sum = 0;
        for (int32_t g = 0; g < m->ndev; g++)
            if (m->kind != LUO_MOVE_AG || g == j) sum += luo_oracle_read(o, m->dev[g], cell[q]);
        for (int32_t g = 0; g < m->ndev; g++)
            if (m->kind != LUO_MOVE_RS || g == j) luo_oracle_write(o, m->dev[g], cell[q], sum);
    }
}

static inline void luo_oracle_move(luo_oracle *o, const luo_move *m)
{
    int32_t cell[LUO_ORACLE_CELLS];
    const bool point = m->kind == LUO_MOVE_COPY || m->kind == LUO_MOVE_SEND;
    const int32_t parts = point || m->kind == LUO_MOVE_AR ? 1 : m->ndev;
    bool uneven = false;
    if (m->nregion != parts) luo_oracle_say(o, "%d parts, not %d", m->nregion, parts);
    if (point) {
        const int32_t n = luo_oracle_cells(o, m->region, cell);
        if (n == 0) luo_oracle_say(o, "an empty region is moved");
        for (int32_t q = 0; q < n; q++)
            luo_oracle_write(o, m->dev[m->ndev - 1], cell[q],
                             luo_oracle_read(o, m->dev[0], cell[q]));
        return;
    }
    for (int32_t j = 0; j < m->nregion; j++) {
        luo_oracle_group(o, m, j);
        uneven = uneven || luo_region_volume(&m->region[j]) != luo_region_volume(&m->region[0]);
    }
    if (m->v != uneven) luo_oracle_say(o, "v does not tell whether the parts differ");
}

static inline void luo_oracle_run(luo_oracle *o)
{
    const luo_moves *m = &o->res->moves;
    for (int32_t i = 0, step = 0; step < o->res->nsteps; step++) {
        for (int32_t d = 0; d < LUO_GEN_DEVICES; d++) {
            memset(o->next[d].has, 0, (size_t)o->cells);
            memset(o->next[d].writes, 0, (size_t)o->cells);
        }
        for (; i < m->n && m->at[i].step == step; i++) luo_oracle_move(o, &m->at[i]);
        for (int32_t d = 0; d < LUO_GEN_DEVICES; d++) {
            memcpy(o->now[d].has, o->next[d].has, (size_t)o->cells);
            memcpy(o->now[d].writes, o->next[d].writes, (size_t)o->cells);
            memcpy(o->now[d].value, o->next[d].value, (size_t)o->cells * sizeof(int64_t));
        }
        if (step + 1 == o->res->nsteps && i < m->n) luo_oracle_say(o, "moves are not by step");
    }
}

/* A cell may only be lost where no living holder of the same summand is asked. */
static inline void luo_oracle_lost(luo_oracle *o)
{
    int32_t cell[LUO_ORACLE_CELLS];
    for (int32_t i = 0; i < o->res->moves.nlost; i++) {
        const luo_lost *l = &o->res->moves.lost[i];
        const int32_t n = luo_oracle_cells(o, &l->region, cell);
        const luo_holding *d = NULL;
        for (int32_t k = 0; k < o->hd.n; k++)
            if (o->hd.at[k].dev == l->dev) d = &o->hd.at[k];
        if (!d || !luo_region_contains(&d->region, &l->region))
            luo_oracle_say(o, "device %d does not need what is lost", l->dev);
        for (int32_t k = 0; k < o->hs.n && d; k++) {
            const luo_holding *h = &o->hs.at[k];
            const bool asked = o->res->kind == LUO_RESOLVE_BSR ||
                               (h->u == d->u && h->part == d->part && h->parts == d->parts);
            if (asked && !luo_oracle_dead(o, h->dev) &&
                luo_region_contains(&h->region, &l->region))
                luo_oracle_say(o, "device %d holds what is lost for %d", h->dev, l->dev);
        }
        for (int32_t q = 0; q < n; q++) o->lost[l->dev][cell[q]] = true;
    }
}

/* Every device has what dst wants of it; movements write each cell once. */
static inline void luo_oracle_delivered(luo_oracle *o)
{
    int32_t cell[LUO_ORACLE_CELLS];
    const char *text = o->res->text;
    const bool once = o->res->nsteps > 0 && !strstr(text, "split_ar") && !strstr(text, "split_rs");
    for (int32_t k = 0; k < o->hd.n; k++) {
        const int32_t dev = o->hd.at[k].dev, n = luo_oracle_cells(o, &o->hd.at[k].region, cell);
        for (int32_t q = 0; q < n; q++) {
            if (o->lost[dev][cell[q]] != !o->now[dev].has[cell[q]])
                luo_oracle_say(o, "device %d misses cell %d, or got what was lost", dev, cell[q]);
            if (once && o->now[dev].writes[cell[q]] > 1)
                luo_oracle_say(o, "cell %d of device %d is written twice", cell[q], dev);
        }
    }
}

/* Equal (u, c) agree, and the sums give the truth. */
static inline void luo_oracle_sums(luo_oracle *o)
{
    static int64_t value[LUO_GEN_U][LUO_ORACLE_PARTS][LUO_ORACLE_CELLS];
    static bool seen[LUO_GEN_U][LUO_ORACLE_PARTS][LUO_ORACLE_CELLS];
    const luo_ann *a = o->x->dst;
    int32_t cell[LUO_ORACLE_CELLS];
    memset(seen, 0, sizeof seen);
    for (int32_t k = 0; k < o->hd.n; k++) {
        const luo_holding *h = &o->hd.at[k];
        const int32_t n = luo_oracle_cells(o, &h->region, cell);
        for (int32_t q = 0; q < n; q++) {
            const int64_t v = o->now[h->dev].value[cell[q]];
            if (o->lost[h->dev][cell[q]]) continue;
            if (seen[h->u][h->part][cell[q]] && value[h->u][h->part][cell[q]] != v)
                luo_oracle_say(o, "cell %d of device %d differs from its duplicate", cell[q],
                               h->dev);
            seen[h->u][h->part][cell[q]] = true;
            value[h->u][h->part][cell[q]] = v;
        }
    }
    for (int64_t c = 0; c < o->cells; c++) {
        int64_t all = 0;
        bool known = true;
        for (int32_t u = 0; u < a->u; u++) {
            int64_t sum = 0;
            bool mine = true;
            for (int32_t p = 0; p < luo_grp_count(&a->grp[u], LUO_PARTIAL); p++) {
                mine = mine && seen[u][p][c];
                sum += value[u][p][c];
            }
            known = known && mine;
            all += sum;
            if (mine && a->h != LUO_PARTIAL && sum != o->truth[c])
                luo_oracle_say(o, "cell %lld of member %d is wrong", (long long)c, u);
        }
        if (known && a->h == LUO_PARTIAL && all != o->truth[c])
            luo_oracle_say(o, "cell %lld does not sum up", (long long)c);
    }
}

/* bsr sends exactly what receivers do not own. */
static inline void luo_oracle_volume(luo_oracle *o)
{
    int64_t sent = 0, wanted = 0;
    int32_t cell[LUO_ORACLE_CELLS];
    if (o->res->kind != LUO_RESOLVE_BSR) return;
    for (int32_t i = 0; i < o->res->moves.n; i++)
        if (o->res->moves.at[i].kind == LUO_MOVE_SEND)
            sent += luo_region_volume(o->res->moves.at[i].region);
    for (int32_t k = 0; k < o->hd.n; k++) {
        const luo_holding *h = &o->hd.at[k], *own = o->on[h->dev];
        const int32_t n = luo_oracle_cells(o, &h->region, cell);
        wanted += n;
        for (int32_t i = 0; i < o->res->moves.nlost; i++)
            if (o->res->moves.lost[i].dev == h->dev)
                wanted -= luo_region_volume(&o->res->moves.lost[i].region);
        if (!own) continue;
        bool mine[LUO_ORACLE_CELLS] = {false};
        int32_t had[LUO_ORACLE_CELLS];
        for (int32_t q = luo_oracle_cells(o, &own->region, had); q-- > 0;) mine[had[q]] = true;
        for (int32_t q = 0; q < n; q++) wanted -= mine[cell[q]];
    }
    if (sent != wanted)
        luo_oracle_say(o, "%lld cells are sent, %lld are wanted", (long long)sent,
                       (long long)wanted);
}

/* Runs the answer; returns "" or what is wrong. o is scratch, any content. */
static inline const char *luo_oracle_check(luo_oracle *o, luo_arena *arena, luo_rng *r,
                                           const luo_reshard *x, const luo_resolution *res)
{
    o->x = x;
    o->res = res;
    o->why[0] = 0;
    o->cells = 1;
    for (int32_t d = 0; d < x->shape.rank; d++) o->cells *= x->shape.dim[d];
    memset(o->on, 0, sizeof o->on);
    for (int32_t d = 0; d < LUO_GEN_DEVICES; d++) {
        memset(o->now[d].has, 0, (size_t)o->cells);
        memset(o->lost[d], 0, (size_t)o->cells);
    }
    if (luo_holdings_make(arena, x->src, &x->shape, &o->hs, NULL) != LUO_OK ||
        luo_holdings_make(arena, x->dst, &x->shape, &o->hd, NULL) != LUO_OK)
        return "out of memory";
    luo_oracle_fill(o, r);
    luo_oracle_run(o);
    luo_oracle_lost(o);
    luo_oracle_delivered(o);
    luo_oracle_sums(o);
    luo_oracle_volume(o);
    return o->why;
}
#endif
