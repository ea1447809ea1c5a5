/* bound_comm.c: communications bound to buffers: what is sent from where, where it is put, and
 * what has to be packed for that. */
#include "core/hspmd/bounds.h"
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

/* By what shares the second dimension of counts is cut where this device has them; NULL: alike. */
static const uint32_t *shares_of_experts(const luo_binder *binder, const luo_buffer *counts)
{
    const luo_ann *ann = counts->ann;
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++)
            if (ann->grp[u].dev[i] == binder->b->device) return luo_grp_share(&ann->grp[u], 1);
    return NULL;
}

/* Experts of every rank of the group. */
static luo_status deal_experts(luo_binder *binder, luo_bound_trade *t, int64_t experts)
{
    int64_t *expert = LUO_NEW_N(binder->arena, int64_t, t->n + 1);
    if (!expert) return luo_err_nomem(binder->err);
    luo_bounds_cut(experts, t->n, shares_of_experts(binder, luo_bound_desc(binder->b, t->there)),
                   expert);
    t->expert = expert;
    return LUO_OK;
}

/* Are the rows those of some experts, not of all? */
static bool has_some_experts(const luo_buffer *rows)
{
    for (int32_t u = 0; u < rows->ann->u; u++)
        if (luo_grp_count(&rows->ann->grp[u], 0) > 1) return true;
    return false;
}

/* The other step of the same exchange stands beside an instruction. */
static void find_steps(const luo_binder *binder, const luo_instr *instr, luo_bound_trade *t)
{
    const luo_role *role = binder->b->role;
    t->other = -1;
    for (int32_t i = instr->id - 1; i <= instr->id + 1; i += 2) {
        const luo_instr *at = i >= 0 && i < role->ninstr ? &role->instr[i] : NULL;
        if (!at || at->kind != LUO_INSTR_COLLECTIVE || at->coll != LUO_COLL_A2A) continue;
        if (at->exchange != instr->exchange + (i - instr->id) || at->op != instr->op) continue;
        t->other = i;
        t->step = i > instr->id ? LUO_TRADE_FIRST : LUO_TRADE_SECOND;
    }
}

static const luo_group *group_of(const luo_binder *binder, int32_t instr)
{
    const luo_slot *slot = &binder->b->program->slots[binder->b->role->instr[instr].slot];
    return &binder->b->set->groups[slot->group];
}

static int32_t rank_in(const luo_group *group, int32_t device)
{
    int32_t rank = 0;
    while (group->dev[rank] != device) rank++;
    return rank;
}

/* Places of the device in its node and among the nodes, by the groups of both steps. */
static void find_ranks(const luo_binder *binder, const luo_instr *instr, luo_bound_trade *t)
{
    const int32_t device = binder->b->program->device;
    const luo_group *own = group_of(binder, instr->id);
    t->nodes = 1;
    t->per_node = t->n = own->n;
    t->rank = rank_in(own, device);
    if (t->step == LUO_TRADE_WHOLE) return;
    const luo_group *other = group_of(binder, t->other);
    const bool inside = luo_bound_trade_is_inside(t);
    const luo_group *node = inside ? own : other, *across = inside ? other : own;
    t->nodes = across->n;
    t->per_node = node->n;
    t->n = across->n * node->n;
    t->rank = rank_in(across, device) * node->n + rank_in(node, device);
}

static luo_status bind_trade(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm)
{
    luo_bound_trade *t = LUO_NEW(binder->arena, luo_bound_trade);
    if (!t) return luo_err_nomem(binder->err);
    comm->trade = t;
    find_steps(binder, op->instr, t);
    if (t->step == LUO_TRADE_SECOND) comm->route.first = t->other;
    const luo_instr *instr =
        t->step == LUO_TRADE_SECOND ? &binder->b->role->instr[t->other] : op->instr;
    const bool counts = instr->nin == 1;
    const luo_buffer *in = luo_bound_desc(binder->b, instr->in[0]);
    t->home = instr->in[counts ? 0 : 1];
    t->there = counts ? instr->out[0] : instr->in[2];
    t->width = counts ? 1 : in->shape.dim[2]; /* here there may be no cells at all */
    t->counts = counts;
    const luo_buffer *home = luo_bound_desc(binder->b, t->home);
    t->each = home->dim[0];
    t->back = !counts && has_some_experts(in);
    const int32_t there = t->back ? instr->in[0] : instr->out[0];
    const int32_t own = t->back ? instr->out[0] : instr->in[0];
    const luo_role *role = binder->b->role;
    t->most = luo_layout_bytes(binder->b->set, role, there) / in->elem_bytes;
    t->own = luo_layout_bytes(binder->b->set, role, own) / in->elem_bytes;
    find_ranks(binder, op->instr, t);
    return deal_experts(binder, t, home->dim[1]);
}

static luo_status bind_collective(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm)
{
    const bool rs = op->instr->coll == LUO_COLL_RS, ag = op->instr->coll == LUO_COLL_AG;
    if (op->instr->coll == LUO_COLL_A2A) return bind_trade(binder, op, comm);
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

static luo_status find_peers(luo_binder *binder, const luo_bound_op *op, luo_bound_comm *comm)
{
    const luo_slot *slot = &binder->b->program->slots[op->instr->slot];
    int32_t *peer = LUO_NEW_N(binder->arena, int32_t, slot->nmessage);
    if (!peer) return luo_err_nomem(binder->err);
    comm->peer = peer;
    comm->awaits = true;
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
    LUO_TRY(find_peers(binder, op, comm));
    LUO_TRY(take_cells(binder, comm, n, n));
    const bool between_stages = op->lane == LUO_STREAM_PP || op->lane == LUO_LANE_PP_B_SEND;
    comm->outlives = between_stages && comm->recv.elements == 0 && comm->route.leave.from == -1;
    return LUO_OK;
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
    LUO_TRY(check_ends(binder, op, comm));
    if (instr->kind == LUO_INSTR_LOCAL) return take_cells(binder, comm, 1, 1);
    return instr->kind == LUO_INSTR_P2P ? bind_p2p(binder, op, comm)
                                        : bind_collective(binder, op, comm);
}
