/* comm.c: what bound communications need of MPI: communicators, counts as it takes them,
 * and memory for messages. */
#include <limits.h>

#include "exec/host/job.h"

static luo_status check_count(const luo_job *j, const luo_bound_op *op, luo_err *err)
{
    if (op->comm->send.elements <= INT_MAX && op->comm->recv.elements <= INT_MAX) return LUO_OK;
    return luo_err_set(err, LUO_E2BIG,
                       "a message of `%s` has over 2^31 elements; cut the "
                       "tensor among more devices.",
                       j->b.set->ops[op->instr->op].name);
}

/* Pre: the sum fits an int. */
static luo_status counts_of(luo_job *j, host_comm *c, luo_err *err)
{
    const int32_t n = c->b->route.n;
    c->counts = LUO_NEW_N(j->arena, int, n);
    c->starts = LUO_NEW_N(j->arena, int, n);
    if (!c->counts || !c->starts) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        c->counts[i] = (int)c->b->counts[i];
        c->starts[i] = (int)c->b->starts[i];
    }
    return LUO_OK;
}

/* All-reduce and all-gather run with MPI_IN_PLACE on every rank, since MPI wants all ranks of a
 * call to agree in that (Open MPI chooses its algorithm by it). */
static luo_status bind_collective(luo_job *j, const luo_bound_op *op, host_comm *c, luo_err *err)
{
    const luo_slot *slot = &j->b.program->slots[op->instr->slot];
    const host_group *g = host_find_group(j->x, &j->b.set->groups[slot->group]);
    if (!g || g->comm == MPI_COMM_NULL)
        return luo_err_set(err, LUO_EBUG, "device %d has no communicator for instruction %d.",
                           (int)j->x->device, (int)op->instr->id);
    c->comm = g->comm;
    c->reduce = c->b->route.reduce == LUO_REDUCE_MAX ? MPI_MAX : MPI_SUM;
    if (c->b->counts) LUO_TRY(counts_of(j, c, err));
    if (op->instr->coll == LUO_COLL_RS && c->b->send_direct < 0)
        c->send_bytes = c->b->send.elements * (int64_t)j->x->k->elem;
    c->nreq = 1;
    c->deep = 1;
    return LUO_OK;
}

enum { P2P_DEEP = 16 }; /* sends of one instruction under way at once */

static void bind_p2p(luo_job *j, const luo_bound_op *op, host_comm *c)
{
    const int64_t runs = c->b->runs;
    c->comm = j->x->p2p;
    c->send_bytes = c->b->send.elements * (int64_t)j->x->k->elem;
    c->nreq = j->b.program->slots[op->instr->slot].nmessage;
    c->deep = (int32_t)(!c->b->outlives || runs < 1 ? 1 : runs < P2P_DEEP ? runs : P2P_DEEP);
}

luo_status host_bind_comm(luo_job *j, host_op *op, luo_err *err)
{
    host_comm *c = op->comm = LUO_NEW(j->arena, host_comm);
    if (!c) return luo_err_nomem(err);
    c->b = op->b->comm;
    if (c->b->route.scratch_elements > 0)
        c->scratch = luo_layout_scratch(&j->b.layout, j->slab, op->b->instr->id);
    LUO_TRY(check_count(j, op->b, err));
    if (op->b->instr->kind == LUO_INSTR_LOCAL) return LUO_OK;
    if (op->b->instr->kind == LUO_INSTR_P2P)
        bind_p2p(j, op->b, c);
    else
        LUO_TRY(bind_collective(j, op->b, c, err));
    const int64_t bytes = c->b->recv_direct < 0 ? c->b->recv.elements * (int64_t)j->x->k->elem : 0;
    c->message_bytes =
        (c->send_bytes + bytes + LUO_LAYOUT_ALIGN - 1) / LUO_LAYOUT_ALIGN * LUO_LAYOUT_ALIGN;
    c->ticket_of = LUO_NEW_N(j->arena, int64_t, c->deep);
    return c->ticket_of ? LUO_OK : luo_err_nomem(err);
}
