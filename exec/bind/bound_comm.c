/* bound_comm.c: communications bound to buffers: what is sent from where, where it is put, and
 * what has to be packed for that. */
#include "exec/bind/bound_internal.h"

/* ---- cells ---- */

static luo_status flatten(luo_binder *k, const luo_copy_segments *at, int32_t n,
                          luo_copy_segments *out)
{
    int32_t segments = 0;
    for (int32_t i = 0; i < n; i++) segments += at[i].n;
    luo_copy_segment *all = LUO_NEW_N(k->arena, luo_copy_segment, segments);
    if (!all) return luo_err_nomem(k->err);
    *out = (luo_copy_segments){.at = all};
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < at[i].n; j++) {
            luo_copy_segment *last = out->n ? &all[out->n - 1] : NULL;
            if (last && last->at + last->n == at[i].at[j].at)
                last->n += at[i].at[j].n;
            else
                all[out->n++] = at[i].at[j];
            out->elements += at[i].at[j].n;
        }
    return LUO_OK;
}

/* The first nsend lists of what is sent, the first nrecv of what is received. */
static luo_status take_cells(luo_binder *k, luo_bound_comm *c, int32_t nsend, int32_t nrecv)
{
    LUO_TRY(flatten(k, c->route.send, nsend, &c->send));
    return flatten(k, c->route.recv, nrecv, &c->recv);
}

static luo_status counts_of(luo_binder *k, luo_bound_comm *c, const luo_copy_segments *part)
{
    int64_t *counts = LUO_NEW_N(k->arena, int64_t, c->route.n);
    int64_t *starts = LUO_NEW_N(k->arena, int64_t, c->route.n), at = 0;
    if (!counts || !starts) return luo_err_nomem(k->err);
    for (int32_t i = 0; i < c->route.n; i++) {
        counts[i] = part[i].elements;
        starts[i] = at;
        at += counts[i];
    }
    c->counts = counts;
    c->starts = starts;
    return LUO_OK;
}

/* Both ends of an exchange are as wide as it is. */
static luo_status check_ends(luo_binder *k, const luo_bound_op *op, const luo_bound_comm *c)
{
    const int32_t end[2] = {c->route.in, c->route.out};
    for (int i = 0; i < 2; i++)
        if (end[i] >= 0 && luo_bound_desc(k->b, end[i])->elem_bytes != c->elem_bytes)
            return luo_err_set(k->err, LUO_EBUG,
                               "reshard `%s` moves elements of %lld bytes, but `%s` has %lld.",
                               k->b->set->ops[op->instr->op].name, (long long)c->elem_bytes,
                               luo_bound_desc(k->b, end[i])->tensor,
                               (long long)luo_bound_desc(k->b, end[i])->elem_bytes);
    return LUO_OK;
}

/* ---- collectives ---- */

static int64_t direct(const luo_copy_segments *s)
{
    return s->n == 1 ? s->at[0].at : s->n == 0 ? 0 : -1;
}

/* All-reduce and all-gather are made in place on every rank: whether the operand lies where the
 * result is put differs from rank to rank, and where it does not, it is copied there first. A
 * reduce-scatter wants what it reads and what it writes apart. */
static void choose_ends(const luo_bound_op *op, luo_bound_comm *c)
{
    const bool shared = c->route.in == c->route.out;
    c->send_direct = direct(&c->send);
    c->recv_direct = direct(&c->recv);
    if (op->instr->coll == LUO_COLL_RS) {
        if (shared) c->recv_direct = -1;
        return;
    }
    const int64_t own = c->starts ? c->starts[c->route.rank] : 0;
    c->in_place = shared && c->send_direct >= 0 && c->recv_direct >= 0 &&
                  (c->send.elements == 0 || c->send_direct == c->recv_direct + own);
    if (shared && !c->in_place) c->recv_direct = -1;
}

static luo_status bind_collective(luo_binder *k, const luo_bound_op *op, luo_bound_comm *c)
{
    const bool rs = op->instr->coll == LUO_COLL_RS, ag = op->instr->coll == LUO_COLL_AG;
    if (!rs && !ag && op->instr->coll != LUO_COLL_AR)
        return luo_err_set(k->err, LUO_EBUG, "collective `%s` in a program of a dense model.",
                           luo_coll_name((luo_coll)op->instr->coll));
    LUO_TRY(take_cells(k, c, rs ? c->route.n : 1, ag ? c->route.n : 1));
    if (rs) LUO_TRY(counts_of(k, c, c->route.send));
    if (ag) LUO_TRY(counts_of(k, c, c->route.recv));
    choose_ends(op, c);
    return LUO_OK;
}

/* ---- messages ---- */

static luo_status find_peers(luo_binder *k, const luo_bound_op *op, luo_bound_comm *c)
{
    const luo_slot *slot = &k->b->program->slots[op->instr->slot];
    int32_t *peer = LUO_NEW_N(k->arena, int32_t, slot->nmessage);
    if (!peer) return luo_err_nomem(k->err);
    c->peer = peer;
    c->awaits = true;
    for (int32_t i = 0; i < slot->nmessage; i++) {
        c->awaits &= !slot->message[i].send;
        peer[i] = luo_rank_of(k->b->config, slot->message[i].peer);
        if (peer[i] < 0)
            return luo_err_set(k->err, LUO_EBACKEND,
                               "the plan needs device %d, for which no rank "
                               "runs; give more --ranks.",
                               (int)slot->message[i].peer);
    }
    return LUO_OK;
}

static luo_status bind_p2p(luo_binder *k, const luo_bound_op *op, luo_bound_comm *c)
{
    const int32_t n = k->b->program->slots[op->instr->slot].nmessage;
    LUO_TRY(find_peers(k, op, c));
    LUO_TRY(take_cells(k, c, n, n));
    const bool between_stages = op->lane == LUO_STREAM_PP || op->lane == LUO_LANE_PP_B_SEND;
    c->outlives = between_stages && c->recv.elements == 0 && c->route.leave.from == -1;
    return LUO_OK;
}

static int64_t runs_of(const luo_bound *b, int32_t seg)
{
    int64_t n = 0;
    for (int32_t t = 0; t < b->program->ntask; t++) n += b->program->tasks[t].seg == seg;
    return n;
}

luo_status luo_bind_comm(luo_binder *k, luo_bound_op *op)
{
    const luo_instr *i = op->instr;
    luo_bound_comm *c = LUO_NEW(k->arena, luo_bound_comm);
    if (!c) return luo_err_nomem(k->err);
    op->comm = c;
    c->route = k->b->route[i->id];
    c->elem_bytes = k->b->set->exchanges[i->exchange].elem_bytes;
    c->runs = runs_of(k->b, k->b->seg_of[i->id]);
    c->send_direct = c->recv_direct = -1;
    LUO_TRY(check_ends(k, op, c));
    if (i->kind == LUO_INSTR_LOCAL) return take_cells(k, c, 1, 1);
    return i->kind == LUO_INSTR_P2P ? bind_p2p(k, op, c) : bind_collective(k, op, c);
}
