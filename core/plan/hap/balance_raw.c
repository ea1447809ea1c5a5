/* Rows and columns of the linear programme of shares. */
#include <math.h>
#include <string.h>

#include "core/plan/hap/balance.h"
#include "core/plan/lp.h"

typedef struct columns {
    luo_lp lp;
    const luo_hap_lp *in;
    double unit;         /* seconds that count as 1: coefficients are of like size */
    int32_t share, most; /* first columns of b and mx */
} columns;

static int32_t share_of(const columns *c, int32_t segment, int32_t type)
{
    return c->share + segment * c->in->ntypes + type;
}

static double largest(const luo_hap_lp *in)
{
    double most = 0;
    for (int32_t i = 0; i < in->nstages; i++)
        for (int32_t t = 0; t < in->ntypes; t++)
            most = fmax(most, fmax(in->stage[i].full_s[t], in->stage[i].split_s[t]));
    for (int32_t s = 0; s < in->nsegments && in->most_s; s++) most = fmax(most, in->most_s[s]);
    for (int32_t i = 0; i < in->ncross; i++) most = fmax(most, in->cross[i].seconds);
    for (int32_t i = 0; i < in->nmoves; i++) most = fmax(most, in->move[i].seconds);
    return most > 0 ? most : 1;
}

static void add_shares(columns *c)
{
    const luo_hap_lp *in = c->in;
    c->share = c->lp.ncolumns;
    for (int32_t i = 0; i < in->nsegments * in->ntypes; i++) luo_lp_add_column(&c->lp, 0);
    c->most = c->lp.ncolumns;
    for (int32_t s = 0; s < in->nsegments; s++) {
        const double cost = in->most_s ? in->most_s[s] / c->unit : 0;
        const int32_t column = luo_lp_add_column(&c->lp, cost);
        if (in->compat) c->lp.most[column] = 1;
    }
    for (int32_t s = 0; s < in->nsegments; s++) {
        const int32_t whole = luo_lp_add_row(&c->lp, 1, 1);
        for (int32_t t = 0; t < in->ntypes; t++) {
            const int32_t row = luo_lp_add_row(&c->lp, 0, (double)INFINITY);
            luo_lp_add_entry(&c->lp, whole, share_of(c, s, t), in->count[t]);
            luo_lp_add_entry(&c->lp, row, c->most + s, 1);
            luo_lp_add_entry(&c->lp, row, share_of(c, s, t), -1);
        }
    }
}

static void add_stage(columns *c, const luo_hap_lp_stage *stage)
{
    const int32_t time = luo_lp_add_column(&c->lp, 1);
    if (c->in->compat) c->lp.most[time] = 1 / c->unit;
    for (int32_t t = 0; t < c->in->ntypes; t++) {
        const double full = c->in->compat ? 0 : stage->full_s[t] / c->unit;
        const int32_t row = luo_lp_add_row(&c->lp, full, (double)INFINITY);
        luo_lp_add_entry(&c->lp, row, time, 1);
        luo_lp_add_entry(&c->lp, row, share_of(c, stage->segment, t), -stage->split_s[t] / c->unit);
    }
}

static void add_cross(columns *c, const luo_hap_lp_pair *pair)
{
    const int32_t larger = luo_lp_add_column(&c->lp, pair->seconds / c->unit);
    const int32_t segment[] = {pair->a, pair->b};
    for (int i = 0; i < 2; i++) {
        const int32_t row = luo_lp_add_row(&c->lp, 0, (double)INFINITY);
        luo_lp_add_entry(&c->lp, row, larger, 1);
        luo_lp_add_entry(&c->lp, row, c->most + segment[i], -1);
    }
}

typedef struct boundary { /* between devices: how far it moves to the left, to the right */
    int32_t device, left, right;
} boundary;

/* The part before device `device` under a, less that under b: `left` and `right` are its positive
 * and negative part. */
static boundary add_boundary(columns *c, const luo_hap_lp_pair *pair, int32_t device)
{
    const boundary out = {device, luo_lp_add_column(&c->lp, 0), luo_lp_add_column(&c->lp, 0)};
    const int32_t up = luo_lp_add_row(&c->lp, 0, (double)INFINITY);
    const int32_t down = luo_lp_add_row(&c->lp, 0, (double)INFINITY);
    int32_t before = device;
    luo_lp_add_entry(&c->lp, up, out.left, 1);
    luo_lp_add_entry(&c->lp, down, out.right, 1);
    for (int32_t t = 0; t < c->in->ntypes && before > 0; t++) {
        const int32_t n = before < c->in->count[t] ? before : c->in->count[t];
        luo_lp_add_entry(&c->lp, up, share_of(c, pair->a, t), -n);
        luo_lp_add_entry(&c->lp, up, share_of(c, pair->b, t), n);
        luo_lp_add_entry(&c->lp, down, share_of(c, pair->a, t), n);
        luo_lp_add_entry(&c->lp, down, share_of(c, pair->b, t), -n);
        before -= n;
    }
    return out;
}

typedef struct move {
    columns *c;
    const luo_hap_lp_pair *pair;
    int32_t busiest, n, ndevices;
    boundary known[4 * LUO_HAP_TYPES];
} move;

static boundary boundary_at(move *m, int32_t device)
{
    if (device == 0 || device == m->ndevices) return (boundary){device, -1, -1};
    for (int32_t i = 0; i < m->n; i++)
        if (m->known[i].device == device) return m->known[i];
    m->known[m->n] = add_boundary(m->c, m->pair, device);
    return m->known[m->n++];
}

static void add_device(move *m, int32_t device)
{
    luo_lp *lp = &m->c->lp;
    const boundary l = boundary_at(m, device), r = boundary_at(m, device + 1);
    const int32_t parts[2][2] = {{l.left, r.right}, {r.left, l.right}}; /* received, sent */
    for (int i = 0; i < 2; i++) {
        const int32_t row = luo_lp_add_row(lp, 0, (double)INFINITY);
        luo_lp_add_entry(lp, row, m->busiest, 1);
        for (int k = 0; k < 2; k++)
            if (parts[i][k] >= 0) luo_lp_add_entry(lp, row, parts[i][k], -1);
    }
}

/* Devices between the first and the last of a type move no more than these: boundaries are linear
 * in between. */
static void add_move(columns *c, const luo_hap_lp_pair *pair)
{
    move m = {.c = c, .pair = pair};
    int32_t first = 0;
    for (int32_t t = 0; t < c->in->ntypes; t++) m.ndevices += c->in->count[t];
    m.busiest = luo_lp_add_column(&c->lp, pair->seconds / c->unit);
    for (int32_t t = 0; t < c->in->ntypes; first += c->in->count[t++]) {
        add_device(&m, first);
        if (c->in->count[t] > 1) add_device(&m, first + c->in->count[t] - 1);
    }
}

static void add_memory(columns *c)
{
    const luo_hap_lp *in = c->in;
    for (int32_t t = 0; in->share_bytes && t < in->ntypes; t++) {
        const double limit = in->limit_bytes[t];
        if (!(limit > 0)) continue;
        const int32_t row = luo_lp_add_row(&c->lp, -(double)INFINITY, 1 - in->fixed_bytes / limit);
        for (int32_t s = 0; s < in->nsegments; s++)
            luo_lp_add_entry(&c->lp, row, share_of(c, s, t), in->share_bytes[s] / limit);
    }
}

/* Among the best answers the one with the smallest largest shares. What cannot be solved again
 * stays as it is. */
static void prefer_even(columns *c, double best, double *x)
{
    double cost;
    const int32_t row = luo_lp_add_row(&c->lp, -(double)INFINITY, best * (1 + 1e-9));
    for (int32_t i = 0; i < c->lp.ncolumns; i++) {
        if (c->lp.cost[i] != 0) luo_lp_add_entry(&c->lp, row, i, c->lp.cost[i]);
        c->lp.cost[i] = i >= c->most && i < c->most + c->in->nsegments;
    }
    luo_lp_solve(&c->lp, x, &cost, NULL);
}

static luo_status solve(columns *c, double *shares, double *seconds, luo_err *err)
{
    const luo_hap_lp *in = c->in;
    double *x = LUO_NEW_N(c->lp.arena, double, c->lp.ncolumns), best;
    if (!x) return luo_err_nomem(err);
    const luo_status st = luo_lp_solve(&c->lp, x, &best, err);
    if (st == LUO_EINFEASIBLE)
        return luo_err_set(err, st,
                           in->share_bytes ? "no feasible shares under the memory limits."
                                           : "no feasible shares.");
    LUO_TRY(st);
    if (!in->compat) prefer_even(c, best, x);
    for (int32_t s = 0; s < in->nsegments; s++) {
        double sum = 0;
        for (int32_t t = 0; t < in->ntypes; t++) {
            const double b = fmax(0, x[share_of(c, s, t)]);
            shares[s * in->ntypes + t] = b;
            sum += in->count[t] * b;
        }
        for (int32_t t = 0; t < in->ntypes; t++) shares[s * in->ntypes + t] /= sum;
    }
    *seconds = best * c->unit + in->constant_s;
    return LUO_OK;
}

luo_status luo_hap_balance_raw(luo_arena *arena, const luo_hap_lp *lp, double *shares,
                               double *seconds, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    columns c = {.lp = {.arena = arena}, .in = lp, .unit = largest(lp)};
    add_shares(&c);
    for (int32_t i = 0; i < lp->nstages; i++) add_stage(&c, &lp->stage[i]);
    for (int32_t i = 0; i < lp->ncross; i++) add_cross(&c, &lp->cross[i]);
    for (int32_t i = 0; i < lp->nmoves; i++) add_move(&c, &lp->move[i]);
    add_memory(&c);
    const luo_status st = solve(&c, shares, seconds, err);
    luo_arena_reset(arena, mark);
    return st;
}
