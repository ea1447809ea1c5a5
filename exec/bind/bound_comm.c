/* bound_comm.c: communications bound to buffers: what is sent from where, where it is put, and
 * what has to be packed for that. */
#include "exec/bind/bound_internal.h"

/* ---- cells ---- */

static luo_status flatten(luo_binder *binder, const luo_copy_segments *at, int32_t n,
                          luo_copy_segments *out)
{
    int32_t segments = 0;
    for (int32_t i = 0; i < n; i++) segments += at[i].n;
    luo_copy_segment *all = LUO_NEW_N(binder->arena, luo_copy_segment, segments);
    if (!all) return luo_err_nomem(binder->err);
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
static luo_status take_cells(luo_binder *binder, luo_bound_comm *comm, int32_t nsend, int32_t nrecv)
{
    LUO_TRY(flatten(binder, comm->route.send, nsend, &comm->send));
    return flatten(binder, comm->route.recv, nrecv, &comm->recv);
}

static luo_status counts_of(luo_binder *binder, luo_bound_comm *comm, const luo_copy_segments *part)
{
    int64_t *counts = LUO_NEW_N(binder->arena, int64_t, comm->route.n);
    int64_t *starts = LUO_NEW_N(binder->arena, int64_t, comm->route.n), at = 0;
    if (!counts || !starts) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < comm->route.n; i++) {
        counts[i] = part[i].elements;
        starts[i] = at;
        at += counts[i];
    }
    comm->counts = counts;
    comm->starts = starts;
    return LUO_OK;
}

/* State in a layout of its own begins with the weights, which are sent out of it. */
static bool sends_state(const luo_binder *binder, int32_t buffer, int64_t elem)
{
    const luo_buffer *b = luo_bound_desc(binder->b, buffer);
    const int64_t weight = binder->b->weight_bytes;
    return b->buffer_class == LUO_BUFFER_OPTIMIZER &&
           (weight ? weight == elem : b->elem_bytes == 3 * elem);
}

/* Both ends of an exchange are as wide as it is. */
static luo_status check_ends(luo_binder *binder, const luo_bound_op *op, const luo_bound_comm *comm)
{
    const int32_t end[2] = {comm->route.in, comm->route.out};
    for (int i = 0; i < 2; i++)
        if (end[i] >= 0 && luo_bound_desc(binder->b, end[i])->elem_bytes != comm->elem_bytes &&
            !sends_state(binder, end[i], comm->elem_bytes))
            return luo_err_set(binder->err, LUO_EBUG,
                               "reshard `%s` moves elements of %lld bytes, but `%s` has %lld.",
                               binder->b->set->ops[op->instr->op].name, (long long)comm->elem_bytes,
                               luo_bound_desc(binder->b, end[i])->tensor,
                               (long long)luo_bound_desc(binder->b, end[i])->elem_bytes);
    return LUO_OK;
}

/* ---- collectives ---- */

static int64_t direct(const luo_copy_segments *segments)
{
    return segments->n == 1 ? segments->at[0].at : segments->n == 0 ? 0 : -1;
}

/* All-reduce and all-gather are made in place on every rank: whether the operand lies where the
 * result is put differs from rank to rank, and where it does not, it is copied there first. A
 * reduce-scatter wants what it reads and what it writes apart. */
static void choose_ends(const luo_bound_op *op, luo_bound_comm *comm)
{
    const bool shared = comm->route.in == comm->route.out;
    comm->send_direct = direct(&comm->send);
    comm->recv_direct = direct(&comm->recv);
    if (op->instr->coll == LUO_COLL_RS) {
        if (shared) comm->recv_direct = -1;
        return;
    }
    const int64_t own = comm->starts ? comm->starts[comm->route.rank] : 0;
    comm->in_place = shared && comm->send_direct >= 0 && comm->recv_direct >= 0 &&
                     (comm->send.elements == 0 || comm->send_direct == comm->recv_direct + own);
    if (shared && !comm->in_place) comm->recv_direct = -1;
}

static luo_status bind_collective(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm)
{
    const bool rs = op->instr->coll == LUO_COLL_RS, ag = op->instr->coll == LUO_COLL_AG;
    if (!rs && !ag && op->instr->coll != LUO_COLL_AR)
        return luo_err_set(binder->err, LUO_EBUG, "collective `%s` in a program of a model.",
                           luo_coll_name((luo_coll)op->instr->coll));
    LUO_TRY(take_cells(binder, comm, rs ? comm->route.n : 1, ag ? comm->route.n : 1));
    if (rs) LUO_TRY(counts_of(binder, comm, comm->route.send));
    if (ag) LUO_TRY(counts_of(binder, comm, comm->route.recv));
    choose_ends(op, comm);
    return LUO_OK;
}

/* ---- messages ---- */

luo_status luo_bind_peers(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm)
{
    const luo_slot *slot = &binder->b->program->slots[op->instr->slot];
    int32_t *peer = LUO_NEW_N(binder->arena, int32_t, slot->nmessage);
    if (!peer) return luo_err_nomem(binder->err);
    comm->peer = peer;
    comm->awaits = !luo_instr_trades(op->instr);
    for (int32_t i = 0; i < slot->nmessage; i++) {
        comm->awaits &= !slot->message[i].send;
        peer[i] = luo_bound_rank_of(binder->b->config, slot->message[i].peer);
        if (peer[i] < 0)
            return luo_err_set(binder->err, LUO_EBACKEND,
                               "the plan needs device %d, for which no rank "
                               "runs; give more --ranks.",
                               (int)slot->message[i].peer);
    }
    return LUO_OK;
}

static luo_status bind_p2p(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm)
{
    const int32_t n = binder->b->program->slots[op->instr->slot].nmessage;
    LUO_TRY(luo_bind_peers(binder, op, comm));
    LUO_TRY(take_cells(binder, comm, n, n));
    const bool between_stages = op->lane == LUO_STREAM_PP || op->lane == LUO_LANE_PP_B_SEND;
    comm->outlives = between_stages && comm->recv.elements == 0 && comm->route.leave.from == -1;
    comm->ahead = luo_instr_goes_ahead(op->instr);
    return LUO_OK;
}

void luo_bind_rooms(luo_bound *bound)
{
    for (int32_t s = 0; s < bound->role->nseg; s++) {
        const luo_segment *seg = &bound->role->seg[s];
        int64_t at = 0;
        for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
            luo_bound_comm *comm = (luo_bound_comm *)bound->op[i].comm;
            if (!comm || !comm->ahead) continue;
            const int64_t bytes = comm->recv.elements * comm->elem_bytes + LUO_LAYOUT_ALIGN - 1;
            comm->room = at;
            at += bytes / LUO_LAYOUT_ALIGN * LUO_LAYOUT_ALIGN;
        }
        if (at > bound->room_bytes) bound->room_bytes = at;
    }
}

static int64_t runs_of(const luo_bound *bound, int32_t seg)
{
    int64_t n = 0;
    for (int32_t t = 0; t < bound->program->ntask; t++) n += bound->program->tasks[t].seg == seg;
    return n;
}

luo_status luo_bind_comm(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    luo_bound_comm *comm = LUO_NEW(binder->arena, luo_bound_comm);
    if (!comm) return luo_err_nomem(binder->err);
    op->comm = comm;
    comm->route = binder->b->route[instr->id];
    comm->elem_bytes = binder->b->set->exchanges[instr->exchange].elem_bytes;
    comm->runs = runs_of(binder->b, binder->b->seg_of[instr->id]);
    comm->send_direct = comm->recv_direct = -1;
    comm->beside =
        binder->b->config->calls_beside && luo_instr_runs_beside(binder->b->role, instr);
    LUO_TRY(check_ends(binder, op, comm));
    if (instr->kind == LUO_INSTR_LOCAL) return take_cells(binder, comm, 1, 1);
    if (luo_instr_trades(instr)) return luo_bind_trade(binder, op, comm);
    return instr->kind == LUO_INSTR_P2P ? bind_p2p(binder, op, comm)
                                        : bind_collective(binder, op, comm);
}
