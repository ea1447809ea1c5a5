/* transfer.c: cells copied on this rank, and transfers begun and ended. */
#include <math.h>
#include <string.h>

#include "exec/host/job.h"

/* ---- copying ---- */

static char *end_of(luo_rank *rank, const host_comm *comm, int32_t buffer, int32_t task)
{
    if (buffer == LUO_ROUTE_SCRATCH) return comm->scratch;
    if (buffer == LUO_ROUTE_SLAB) return rank->job->slab;
    return buffer >= 0 ? host_buf(rank, buffer, task) : NULL;
}

static void pack(const luo_copy_segments *segments, size_t elem, const char *buffer, char *out)
{
    for (int32_t i = 0; i < segments->n; i++) {
        const size_t n = (size_t)segments->at[i].n * elem;
        memcpy(out, buffer + (size_t)segments->at[i].at * elem, n);
        out += n;
    }
}

static void unpack(const luo_copy_segments *segments, size_t elem, const char *in, char *buffer)
{
    for (int32_t i = 0; i < segments->n; i++) {
        const size_t n = (size_t)segments->at[i].n * elem;
        memcpy(buffer + (size_t)segments->at[i].at * elem, in, n);
        in += n;
    }
}

/* Segments to segments; they may be cut differently. */
static void copy_segments(const luo_copy_segments *a, const char *from, const luo_copy_segments *b,
                          char *to, size_t elem)
{
    int32_t i = 0, k = 0;
    int64_t pi = 0, pk = 0;
    while (i < a->n && k < b->n) {
        const int64_t left = a->at[i].n - pi, room = b->at[k].n - pk;
        const int64_t n = left < room ? left : room;
        memmove(to + (size_t)(b->at[k].at + pk) * elem, from + (size_t)(a->at[i].at + pi) * elem,
                (size_t)n * elem);
        if ((pi += n) == a->at[i].n) i++, pi = 0;
        if ((pk += n) == b->at[k].n) k++, pk = 0;
    }
}

static void copy_of(luo_rank *rank, const host_comm *comm, const luo_route_copy *copy, int32_t task)
{
    if (copy->from == -1) return;
    copy_segments(&copy->src, end_of(rank, comm, copy->from, task), &copy->dst,
                  end_of(rank, comm, copy->to, task), rank->x->k->elem);
}

void host_run_local_move(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const luo_bound_comm *comm = op->comm;
    const host_comm *c = rank->job->op[op->instr->id].comm;
    copy_of(rank, c, &comm->route.enter, task);
    copy_segments(&comm->send, end_of(rank, c, comm->route.in, task), &comm->recv,
                  end_of(rank, c, comm->route.out, task), rank->x->k->elem);
    copy_of(rank, c, &comm->route.leave, task);
}

static char *send_part(const host_pending *pending)
{
    return pending->op->comm->message + pending->op->comm->message_bytes * pending->copy;
}

static char *recv_part(const host_pending *pending)
{
    return send_part(pending) + pending->op->comm->send_bytes;
}

/* ---- messages ---- */

int host_tag_of(const luo_rank *rank, const host_pending *pending)
{
    const int64_t mb = rank->job->b.program->tasks[pending->task].micro_batch + 1;
    return (int)(((int64_t)pending->op->b->instr->exchange * 4096 + mb) % rank->x->tag_limit);
}

/* The messages of one direction, from or into one packed run of cells. */
static luo_status begin_messages(luo_rank *rank, host_pending *pending, bool send)
{
    const host_comm *comm = pending->op->comm;
    const luo_slot *slot = &rank->job->b.program->slots[pending->op->b->instr->slot];
    const int tag = host_tag_of(rank, pending);
    char *at = send ? send_part(pending) : recv_part(pending);
    for (int32_t i = 0; i < slot->nmessage; i++) {
        if (slot->message[i].send != send) continue;
        const int64_t n = send ? comm->b->route.send[i].elements : comm->b->route.recv[i].elements;
        const int code = send ? MPI_Isend(at, (int)n, rank->x->type, comm->b->peer[i], tag,
                                          comm->comm, &pending->req[i])
                              : MPI_Irecv(at, (int)n, rank->x->type, comm->b->peer[i], tag,
                                          comm->comm, &pending->req[i]);
        LUO_TRY(host_mpi(&rank->err, code, send ? "a send" : "a receive"));
        at += (size_t)n * rank->x->k->elem;
    }
    return LUO_OK;
}

luo_status host_begin_sends(luo_rank *rank, host_pending *pending)
{
    pending->due_s = 0;
    return begin_messages(rank, pending, true);
}

/* How much longer a message waits now because of events at the links to its receiver. */
static double delay_of(const luo_step_order *order, double now, const luo_message *message)
{
    double s = 0;
    for (int32_t d = 0; d < order->ndelay && order->delay[d].at_s <= now; d++)
        if (order->delay[d].device == message->peer) /* the last that has come */
            s = order->delay[d].extra_s + order->delay[d].s_per_byte * (double)message->bytes;
    return s;
}

/* When the messages of an instruction may leave: with the slowest of them; 0: at once. */
static double due(const luo_rank *rank, const luo_bound_op *op)
{
    const luo_step_order *order = rank->order;
    if (!order || order->ndelay == 0 || rank->drain) return 0;
    const luo_slot *slot = &rank->job->b.program->slots[op->instr->slot];
    const double now = host_now();
    double most = 0;
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (slot->message[i].send) most = fmax(most, delay_of(order, now, &slot->message[i]));
    return most > 0 ? now + most : 0;
}

static luo_status begin_p2p(luo_rank *rank, host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    pack(&comm->b->send, rank->x->k->elem, end_of(rank, comm, comm->b->route.in, pending->task),
         send_part(pending));
    LUO_TRY(begin_messages(rank, pending, false));
    pending->due_s = due(rank, pending->op->b);
    return pending->due_s > 0 ? LUO_OK : begin_messages(rank, pending, true);
}

/* ---- collectives ---- */

/* A piece without cells goes nowhere, which all ranks know. */
static luo_status begin_broadcasts(luo_rank *rank, host_pending *pending, char *to)
{
    const host_comm *comm = pending->op->comm;
    for (int i = 0; i < comm->nreq; i++) {
        char *piece = to + (size_t)comm->starts[i] * rank->x->k->elem;
        pending->req[i] = MPI_REQUEST_NULL;
        if (comm->counts[i] > 0)
            LUO_TRY(host_mpi(
                &rank->err,
                MPI_Ibcast(piece, comm->counts[i], rank->x->type, i, comm->comm, &pending->req[i]),
                "a broadcast"));
    }
    return LUO_OK;
}

static luo_status begin_reduces(luo_rank *rank, host_pending *pending, const char *from, char *to)
{
    const host_comm *comm = pending->op->comm;
    for (int i = 0; i < comm->nreq; i++) {
        const char *piece = from + (size_t)comm->starts[i] * rank->x->k->elem;
        pending->req[i] = MPI_REQUEST_NULL;
        if (comm->counts[i] > 0)
            LUO_TRY(host_mpi(&rank->err,
                             MPI_Ireduce(piece, to, comm->counts[i], rank->x->type, comm->reduce, i,
                                         comm->comm, &pending->req[i]),
                             "a reduce"));
    }
    return LUO_OK;
}

static luo_status begin_reduce_scatter(luo_rank *rank, host_pending *pending, const char *in,
                                       char *to)
{
    const host_comm *comm = pending->op->comm;
    const size_t elem = rank->x->k->elem;
    const char *from = send_part(pending);
    if (comm->b->send_direct >= 0)
        from = in + (size_t)comm->b->send_direct * elem;
    else
        pack(&comm->b->send, elem, in, send_part(pending));
    if (pending->op->b->instr->variant == LUO_COLL_GROUPED)
        return begin_reduces(rank, pending, from, to);
    return host_mpi(&rank->err,
                    MPI_Ireduce_scatter(from, to, comm->counts, rank->x->type, comm->reduce,
                                        comm->comm, pending->req),
                    "a reduce-scatter");
}

static luo_status begin_collective(luo_rank *rank, host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    const size_t elem = rank->x->k->elem;
    const char *in = end_of(rank, comm, comm->b->route.in, pending->task);
    char *to = recv_part(pending);
    if (comm->b->recv_direct >= 0)
        to = end_of(rank, comm, comm->b->route.out, pending->task) +
             (size_t)comm->b->recv_direct * elem;
    if (pending->op->b->instr->coll == LUO_COLL_RS)
        return begin_reduce_scatter(rank, pending, in, to);
    const bool gathers = pending->op->b->instr->coll == LUO_COLL_AG;
    const int own = gathers ? comm->starts[comm->b->route.rank] : 0;
    if (!comm->b->in_place) pack(&comm->b->send, elem, in, to + (size_t)own * elem);
    if (pending->op->b->instr->variant == LUO_COLL_GROUPED)
        return begin_broadcasts(rank, pending, to);
    if (gathers)
        return host_mpi(&rank->err,
                        MPI_Iallgatherv(MPI_IN_PLACE, 0, rank->x->type, to, comm->counts,
                                        comm->starts, rank->x->type, comm->comm, pending->req),
                        "an all-gather");
    return host_mpi(&rank->err,
                    MPI_Iallreduce(MPI_IN_PLACE, to, (int)comm->b->recv.elements, rank->x->type,
                                   comm->reduce, comm->comm, pending->req),
                    "an all-reduce");
}

/* ---- begin and end ---- */

luo_status host_begin(luo_rank *rank, host_pending *pending)
{
    if (pending->op->comm->b->trade) return host_begin_trade(rank, pending);
    copy_of(rank, pending->op->comm, &pending->op->b->comm->route.enter, pending->task);
    return pending->op->b->instr->kind == LUO_INSTR_P2P ? begin_p2p(rank, pending)
                                                        : begin_collective(rank, pending);
}

void host_arrived(luo_rank *rank, const host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    if (comm->b->trade) {
        host_trade_arrived(rank, pending);
        return;
    }
    if (comm->b->recv_direct < 0)
        unpack(&comm->b->recv, rank->x->k->elem, recv_part(pending),
               end_of(rank, comm, comm->b->route.out, pending->task));
    copy_of(rank, comm, &comm->b->route.leave, pending->task);
}
