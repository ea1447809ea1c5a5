/* comm.c: what bound communications need of MPI: communicators, counts as it takes them,
 * and memory for messages. */
#include <limits.h>

#include "exec/host/job.h"

static luo_status check_count(const luo_job *job, const luo_bound_op *op, luo_err *err)
{
    if (op->comm->send.elements <= INT_MAX && op->comm->recv.elements <= INT_MAX) return LUO_OK;
    return luo_err_set(err, LUO_E2BIG,
                       "a message of `%s` has over 2^31 elements; cut the "
                       "tensor among more devices.",
                       job->b.set->ops[op->instr->op].name);
}

/* Pre: the sum fits an int. */
static luo_status counts_of(luo_job *job, host_comm *comm, luo_err *err)
{
    const int32_t n = comm->b->route.n;
    comm->counts = LUO_NEW_N(job->arena, int, n);
    comm->starts = LUO_NEW_N(job->arena, int, n);
    if (!comm->counts || !comm->starts) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        comm->counts[i] = (int)comm->b->counts[i];
        comm->starts[i] = (int)comm->b->starts[i];
    }
    return LUO_OK;
}

/* All-reduce and all-gather run with MPI_IN_PLACE on every rank, since MPI wants all ranks of a
 * call to agree in that (Open MPI chooses its algorithm by it). */
static luo_status bind_collective(luo_job *job, const luo_bound_op *op, host_comm *comm,
                                  luo_err *err)
{
    const luo_slot *slot = &job->b.program->slots[op->instr->slot];
    const host_group *group = host_find_group(job->x, &job->b.set->groups[slot->group]);
    if (!group || group->comm == MPI_COMM_NULL)
        return luo_err_set(err, LUO_EBUG, "device %d has no communicator for instruction %d.",
                           (int)job->x->device, (int)op->instr->id);
    comm->comm = group->comm;
    comm->reduce = comm->b->route.reduce == LUO_REDUCE_MAX ? MPI_MAX : MPI_SUM;
    if (comm->b->counts) LUO_TRY(counts_of(job, comm, err));
    if (op->instr->coll == LUO_COLL_RS && comm->b->send_direct < 0)
        comm->send_bytes = comm->b->send.elements * (int64_t)job->x->k->elem;
    comm->nreq = comm->b->trade                           ? 2 * comm->b->trade->n
                 : op->instr->variant == LUO_COLL_GROUPED ? comm->b->route.n
                                                          : 1;
    comm->deep = 1;
    return LUO_OK;
}

enum { P2P_DEEP = 16 }; /* sends of one instruction under way at once */

static void bind_p2p(luo_job *job, const luo_bound_op *op, host_comm *comm)
{
    const int64_t runs = comm->b->runs;
    comm->comm = job->x->p2p;
    comm->send_bytes = comm->b->send.elements * (int64_t)job->x->k->elem;
    comm->nreq = job->b.program->slots[op->instr->slot].nmessage;
    comm->deep = (int32_t)(!comm->b->outlives || runs < 1 ? 1 : runs < P2P_DEEP ? runs : P2P_DEEP);
    if (comm->b->ahead) comm->deep = LUO_ROOMS;
}

luo_status host_bind_comm(luo_job *job, host_op *op, luo_err *err)
{
    host_comm *comm = op->comm = LUO_NEW(job->arena, host_comm);
    if (!comm) return luo_err_nomem(err);
    comm->b = op->b->comm;
    if (comm->b->route.scratch_elements > 0)
        comm->scratch = luo_layout_scratch(&job->b.layout, job->slab, op->b->instr->id);
    LUO_TRY(check_count(job, op->b, err));
    if (op->b->instr->kind == LUO_INSTR_LOCAL) return LUO_OK;
    if (op->b->instr->kind == LUO_INSTR_P2P)
        bind_p2p(job, op->b, comm);
    else
        LUO_TRY(bind_collective(job, op->b, comm, err));
    if (comm->b->trade) LUO_TRY(host_bind_trade(job, comm, err));
    const bool packed = comm->b->recv_direct < 0 && !comm->b->trade;
    const int64_t bytes = packed ? comm->b->recv.elements * (int64_t)job->x->k->elem : 0;
    comm->message_bytes =
        (comm->send_bytes + bytes + LUO_LAYOUT_ALIGN - 1) / LUO_LAYOUT_ALIGN * LUO_LAYOUT_ALIGN;
    if (comm->b->ahead) comm->message_bytes = job->b.room_bytes;
    comm->ticket_of = LUO_NEW_N(job->arena, int64_t, comm->deep);
    return comm->ticket_of ? LUO_OK : luo_err_nomem(err);
}
