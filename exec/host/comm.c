/* exec/host/comm.c: communications bound to memory: what is sent from where, where it is put, and
 * what has to be packed for that. */
#include <limits.h>

#include "exec/host/job.h"

/* ---- cells ---- */

static luo_status flatten(luo_job *j, const luo_strips *at, int32_t n, luo_strips *out,
                          luo_err *err)
{
    int32_t strips = 0;
    for (int32_t i = 0; i < n; i++) strips += at[i].n;
    luo_strip *all = LUO_NEW_N(j->arena, luo_strip, strips);
    if (!all) return luo_err_nomem(err);
    *out = (luo_strips){.at = all};
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < at[i].n; k++) {
            luo_strip *last = out->n ? &all[out->n - 1] : NULL;
            if (last && last->at + last->n == at[i].at[k].at)
                last->n += at[i].at[k].n;
            else
                all[out->n++] = at[i].at[k];
            out->elements += at[i].at[k].n;
        }
    return LUO_OK;
}

/* The first nsend lists of what is sent, the first nrecv of what is received. */
static luo_status take_cells(luo_job *j, host_op *op, int32_t nsend, int32_t nrecv, luo_err *err)
{
    host_comm *c = op->comm;
    LUO_TRY(flatten(j, c->route.send, nsend, &c->send, err));
    LUO_TRY(flatten(j, c->route.recv, nrecv, &c->recv, err));
    if (c->send.elements <= INT_MAX && c->recv.elements <= INT_MAX) return LUO_OK;
    return luo_err_set(err, LUO_E2BIG,
                       "a message of `%s` has over 2^31 elements; cut the "
                       "tensor among more devices.",
                       j->set->ops[op->instr->op].name);
}

/* Pre: the sum fits an int. */
static luo_status counts_of(luo_job *j, host_comm *c, const luo_strips *part, luo_err *err)
{
    c->counts = LUO_NEW_N(j->arena, int, c->route.n);
    c->starts = LUO_NEW_N(j->arena, int, c->route.n);
    if (!c->counts || !c->starts) return luo_err_nomem(err);
    int at = 0;
    for (int32_t i = 0; i < c->route.n; i++) {
        c->counts[i] = (int)part[i].elements;
        c->starts[i] = at;
        at += c->counts[i];
    }
    return LUO_OK;
}

/* ---- collectives ---- */

static int64_t direct(const luo_strips *s)
{
    return s->n == 1 ? s->at[0].at : s->n == 0 ? 0 : -1;
}

/* All-reduce and all-gather run with MPI_IN_PLACE on every rank, since MPI wants all ranks of a
 * call to agree in that (Open MPI chooses its algorithm by it), and whether the operand lies where
 * the result is put differs from rank to rank. Where it does not, it is copied there first. A
 * reduce-scatter wants what it reads and what it writes apart. */
static void choose_ends(host_op *op)
{
    host_comm *c = op->comm;
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

static luo_status bind_collective(luo_job *j, host_op *op, luo_err *err)
{
    host_comm *c = op->comm;
    const luo_slot *slot = &j->program->slots[op->instr->slot];
    const host_group *g = host_find_group(j->x, &j->set->groups[slot->group]);
    if (!g || g->comm == MPI_COMM_NULL)
        return luo_err_set(err, LUO_EBUG, "device %d has no communicator for instruction %d.",
                           (int)j->x->device, (int)op->instr->id);
    c->comm = g->comm;
    c->reduce = c->route.reduce == LUO_REDUCE_MAX ? MPI_MAX : MPI_SUM;
    const bool rs = op->instr->coll == LUO_COLL_RS, ag = op->instr->coll == LUO_COLL_AG;
    if (!rs && !ag && op->instr->coll != LUO_COLL_AR)
        return luo_err_set(err, LUO_EBUG, "collective `%s` in a program of a dense model.",
                           luo_coll_name((luo_coll)op->instr->coll));
    LUO_TRY(take_cells(j, op, rs ? c->route.n : 1, ag ? c->route.n : 1, err));
    if (rs) LUO_TRY(counts_of(j, c, c->route.send, err));
    if (ag) LUO_TRY(counts_of(j, c, c->route.recv, err));
    choose_ends(op);
    if (rs && c->send_direct < 0) c->send_bytes = c->send.elements * (int64_t)j->x->k->elem;
    c->nreq = 1;
    c->deep = 1;
    return LUO_OK;
}

/* ---- messages ---- */

enum { P2P_DEEP = 16 }; /* sends of one instruction under way at once */

static luo_status find_peers(luo_job *j, host_op *op, luo_err *err)
{
    host_comm *c = op->comm;
    const luo_slot *slot = &j->program->slots[op->instr->slot];
    c->peer = LUO_NEW_N(j->arena, int, slot->nmessage);
    if (!c->peer) return luo_err_nomem(err);
    c->awaits = true;
    for (int32_t i = 0; i < slot->nmessage; i++) {
        c->awaits &= !slot->message[i].send;
        c->peer[i] = (int)host_rank_of(j->x, slot->message[i].peer);
        if (c->peer[i] < 0)
            return luo_err_set(err, LUO_EBACKEND,
                               "the plan needs device %d, for which no rank "
                               "runs; give more --ranks.",
                               (int)slot->message[i].peer);
    }
    return LUO_OK;
}

static luo_status bind_p2p(luo_job *j, host_op *op, int64_t runs, luo_err *err)
{
    host_comm *c = op->comm;
    const int32_t n = j->program->slots[op->instr->slot].nmessage;
    LUO_TRY(find_peers(j, op, err));
    LUO_TRY(take_cells(j, op, n, n, err));
    const bool between_stages = op->lane == LUO_STREAM_PP || op->lane == LUO_LANE_PP_B_SEND;
    c->outlives = between_stages && c->recv.elements == 0 && c->route.leave.from == -1;
    c->comm = j->x->p2p;
    c->send_direct = c->recv_direct = -1;
    c->send_bytes = c->send.elements * (int64_t)j->x->k->elem;
    c->nreq = n;
    c->deep = (int32_t)(!c->outlives || runs < 1 ? 1 : runs < P2P_DEEP ? runs : P2P_DEEP);
    return LUO_OK;
}

luo_status host_bind_comm(luo_job *j, host_op *op, int64_t runs, luo_err *err)
{
    host_comm *c = op->comm = LUO_NEW(j->arena, host_comm);
    if (!c) return luo_err_nomem(err);
    c->route = j->route[op->instr->id];
    if (c->route.scratch_elements > 0)
        c->scratch = luo_layout_scratch(&j->layout, j->slab, op->instr->id);
    if (op->instr->kind == LUO_INSTR_LOCAL) return take_cells(j, op, 1, 1, err);
    if (op->instr->kind == LUO_INSTR_P2P)
        LUO_TRY(bind_p2p(j, op, runs, err));
    else
        LUO_TRY(bind_collective(j, op, err));
    const int64_t bytes = c->recv_direct < 0 ? c->recv.elements * (int64_t)j->x->k->elem : 0;
    c->message_bytes =
        (c->send_bytes + bytes + LUO_LAYOUT_ALIGN - 1) / LUO_LAYOUT_ALIGN * LUO_LAYOUT_ALIGN;
    c->ticket_of = LUO_NEW_N(j->arena, int64_t, c->deep);
    return c->ticket_of ? LUO_OK : luo_err_nomem(err);
}
