/* transfer.c: cells copied on this rank, and transfers begun and ended. */
#include <math.h>
#include <string.h>

#include "exec/host/job.h"

/* ---- copying ---- */

static char *end_of(luo_rank *r, const host_comm *c, int32_t buffer, int32_t task)
{
    if (buffer == LUO_ROUTE_SCRATCH) return c->scratch;
    if (buffer == LUO_ROUTE_SLAB) return r->job->slab;
    return buffer >= 0 ? host_buf(r, buffer, task) : NULL;
}

static void pack(const luo_copy_segments *s, size_t elem, const char *buffer, char *out)
{
    for (int32_t i = 0; i < s->n; i++) {
        const size_t n = (size_t)s->at[i].n * elem;
        memcpy(out, buffer + (size_t)s->at[i].at * elem, n);
        out += n;
    }
}

static void unpack(const luo_copy_segments *s, size_t elem, const char *in, char *buffer)
{
    for (int32_t i = 0; i < s->n; i++) {
        const size_t n = (size_t)s->at[i].n * elem;
        memcpy(buffer + (size_t)s->at[i].at * elem, in, n);
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

static void copy_of(luo_rank *r, const host_comm *c, const luo_route_copy *m, int32_t task)
{
    if (m->from == -1) return;
    copy_segments(&m->src, end_of(r, c, m->from, task), &m->dst, end_of(r, c, m->to, task),
                  r->x->k->elem);
}

void host_run_local_move(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const luo_bound_comm *b = op->comm;
    const host_comm *c = r->job->op[op->instr->id].comm;
    copy_of(r, c, &b->route.enter, task);
    copy_segments(&b->send, end_of(r, c, b->route.in, task), &b->recv,
                  end_of(r, c, b->route.out, task), r->x->k->elem);
    copy_of(r, c, &b->route.leave, task);
}

static char *send_part(const host_pending *p)
{
    return p->op->comm->message + p->op->comm->message_bytes * p->copy;
}

static char *recv_part(const host_pending *p)
{
    return send_part(p) + p->op->comm->send_bytes;
}

/* ---- messages ---- */

static int tag_of(const luo_rank *r, const host_pending *p)
{
    const int64_t mb = r->job->b.program->tasks[p->task].micro_batch + 1;
    return (int)(((int64_t)p->op->b->instr->exchange * 4096 + mb) % r->x->tag_limit);
}

/* The messages of one direction, from or into one packed run of cells. */
static luo_status begin_messages(luo_rank *r, host_pending *p, bool send)
{
    const host_comm *c = p->op->comm;
    const luo_slot *slot = &r->job->b.program->slots[p->op->b->instr->slot];
    const int tag = tag_of(r, p);
    char *at = send ? send_part(p) : recv_part(p);
    for (int32_t i = 0; i < slot->nmessage; i++) {
        if (slot->message[i].send != send) continue;
        const int64_t n = send ? c->b->route.send[i].elements : c->b->route.recv[i].elements;
        const int code =
            send ? MPI_Isend(at, (int)n, r->x->type, c->b->peer[i], tag, c->comm, &p->req[i])
                 : MPI_Irecv(at, (int)n, r->x->type, c->b->peer[i], tag, c->comm, &p->req[i]);
        LUO_TRY(host_mpi(&r->err, code, send ? "a send" : "a receive"));
        at += (size_t)n * r->x->k->elem;
    }
    return LUO_OK;
}

luo_status host_begin_sends(luo_rank *r, host_pending *p)
{
    p->due_s = 0;
    return begin_messages(r, p, true);
}

/* How much longer a message waits now because of events at the links to its receiver. */
static double delay_of(const luo_step_order *o, double now, const luo_message *m)
{
    double s = 0;
    for (int32_t d = 0; d < o->ndelay && o->delay[d].at_s <= now; d++)
        if (o->delay[d].device == m->peer) /* the last that has come */
            s = o->delay[d].extra_s + o->delay[d].s_per_byte * (double)m->bytes;
    return s;
}

/* When the messages of an instruction may leave: with the slowest of them; 0: at once. */
static double due(const luo_rank *r, const luo_bound_op *op)
{
    const luo_step_order *o = r->order;
    if (!o || o->ndelay == 0 || r->drain) return 0;
    const luo_slot *slot = &r->job->b.program->slots[op->instr->slot];
    const double now = host_now();
    double most = 0;
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (slot->message[i].send) most = fmax(most, delay_of(o, now, &slot->message[i]));
    return most > 0 ? now + most : 0;
}

static luo_status begin_p2p(luo_rank *r, host_pending *p)
{
    const host_comm *c = p->op->comm;
    pack(&c->b->send, r->x->k->elem, end_of(r, c, c->b->route.in, p->task), send_part(p));
    LUO_TRY(begin_messages(r, p, false));
    p->due_s = due(r, p->op->b);
    return p->due_s > 0 ? LUO_OK : begin_messages(r, p, true);
}

/* ---- collectives ---- */

static luo_status begin_reduce_scatter(luo_rank *r, host_pending *p, const char *in, char *to)
{
    const host_comm *c = p->op->comm;
    const size_t elem = r->x->k->elem;
    const char *from = send_part(p);
    if (c->b->send_direct >= 0)
        from = in + (size_t)c->b->send_direct * elem;
    else
        pack(&c->b->send, elem, in, send_part(p));
    return host_mpi(
        &r->err, MPI_Ireduce_scatter(from, to, c->counts, r->x->type, c->reduce, c->comm, p->req),
        "a reduce-scatter");
}

static luo_status begin_collective(luo_rank *r, host_pending *p)
{
    const host_comm *c = p->op->comm;
    const size_t elem = r->x->k->elem;
    const char *in = end_of(r, c, c->b->route.in, p->task);
    char *to = recv_part(p);
    if (c->b->recv_direct >= 0)
        to = end_of(r, c, c->b->route.out, p->task) + (size_t)c->b->recv_direct * elem;
    if (p->op->b->instr->coll == LUO_COLL_RS) return begin_reduce_scatter(r, p, in, to);
    const bool gathers = p->op->b->instr->coll == LUO_COLL_AG;
    const int own = gathers ? c->starts[c->b->route.rank] : 0;
    if (!c->b->in_place) pack(&c->b->send, elem, in, to + (size_t)own * elem);
    if (gathers)
        return host_mpi(&r->err,
                        MPI_Iallgatherv(MPI_IN_PLACE, 0, r->x->type, to, c->counts, c->starts,
                                        r->x->type, c->comm, p->req),
                        "an all-gather");
    return host_mpi(&r->err,
                    MPI_Iallreduce(MPI_IN_PLACE, to, (int)c->b->recv.elements, r->x->type,
                                   c->reduce, c->comm, p->req),
                    "an all-reduce");
}

/* ---- begin and end ---- */

luo_status host_begin(luo_rank *r, host_pending *p)
{
    copy_of(r, p->op->comm, &p->op->b->comm->route.enter, p->task);
    return p->op->b->instr->kind == LUO_INSTR_P2P ? begin_p2p(r, p) : begin_collective(r, p);
}

void host_arrived(luo_rank *r, const host_pending *p)
{
    const host_comm *c = p->op->comm;
    if (c->b->recv_direct < 0)
        unpack(&c->b->recv, r->x->k->elem, recv_part(p), end_of(r, c, c->b->route.out, p->task));
    copy_of(r, c, &c->b->route.leave, p->task);
}
