/* exec/host/comm.c: communications of a program on MPI: what is packed, sent, received, unpacked.
 */
#include <limits.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "exec/host/job.h"

luo_status host_mpi(luo_err *err, int code, const char *what)
{
    if (code == MPI_SUCCESS) return LUO_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return luo_err_set(err, LUO_EBACKEND, "MPI failed in %s: %s.", what, text);
}

int32_t host_rank_of(const luo_exec *x, int32_t device)
{
    int32_t lo = 0, hi = x->config.nranks;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (x->config.device_of[mid] < device)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < x->config.nranks && x->config.device_of[lo] == device ? lo : -1;
}

/* ---- communicators ---- */

static host_group *find_group(const luo_exec *x, const luo_group *g)
{
    for (host_group *h = x->groups; h; h = h->next)
        if (h->stream == g->stream && h->n == g->n &&
            memcmp(h->dev, g->dev, (size_t)g->n * sizeof *g->dev) == 0)
            return h;
    return NULL;
}

static luo_status world_ranks(luo_exec *x, const luo_group *g, int *rank, bool *inside,
                              luo_err *err)
{
    *inside = false;
    for (int32_t i = 0; i < g->n; i++) {
        rank[i] = (int)host_rank_of(x, g->dev[i]);
        if (rank[i] < 0)
            return luo_err_set(err, LUO_EBACKEND,
                               "the plan needs device %d, for which no rank "
                               "runs; give more --ranks.",
                               (int)g->dev[i]);
        *inside |= g->dev[i] == x->device;
    }
    return LUO_OK;
}

/* Only its members call MPI for a group; the order is that of the program on all of them. */
static luo_status open_group(luo_exec *x, const luo_group *g, int tag, luo_err *err)
{
    MPI_Group world, some;
    bool inside;
    host_group *h = LUO_NEW(x->arena, host_group);
    int32_t *dev = LUO_NEW_N(x->arena, int32_t, g->n);
    int *rank = LUO_NEW_N(x->arena, int, g->n);
    if (!h || !dev || !rank) return luo_err_nomem(err);
    LUO_TRY(world_ranks(x, g, rank, &inside, err));
    memcpy(dev, g->dev, (size_t)g->n * sizeof *dev);
    *h = (host_group){g->stream, g->n, dev, MPI_COMM_NULL, x->groups};
    if (inside) {
        MPI_Comm_group(x->p2p, &world);
        MPI_Group_incl(world, (int)g->n, rank, &some);
        const int code = MPI_Comm_create_group(x->p2p, some, tag, &h->comm);
        MPI_Group_free(&some);
        MPI_Group_free(&world);
        LUO_TRY(host_mpi(err, code, "making a communicator"));
        MPI_Comm_set_errhandler(h->comm, MPI_ERRORS_RETURN);
    }
    x->groups = h;
    return LUO_OK;
}

luo_status host_open_groups(luo_exec *x, const luo_programs *set, luo_err *err)
{
    for (int32_t i = 0; i < set->ngroups; i++)
        if (!find_group(x, &set->groups[i])) LUO_TRY(open_group(x, &set->groups[i], (int)i, err));
    return LUO_OK;
}

/* ---- binding ---- */

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

static int64_t direct(const luo_strips *s)
{
    return s->n == 1 ? s->at[0].at : s->n == 0 ? 0 : -1;
}

/* MPI wants what is sent and what is received apart, unless they are the very same place. */
static void keep_apart(host_op *op)
{
    host_comm *c = op->comm;
    if (c->route.in != c->route.out) return;
    const int64_t own = c->starts ? c->starts[c->route.rank] : 0;
    const bool same =
        c->send_direct >= 0 && c->recv_direct >= 0 && c->send_direct == c->recv_direct + own;
    if (op->instr->coll == LUO_COLL_RS)
        c->recv_direct = -1;
    else if (!same)
        c->send_direct = -1;
}

static luo_status bind_collective(luo_job *j, host_op *op, luo_err *err)
{
    host_comm *c = op->comm;
    const luo_slot *slot = &j->program->slots[op->instr->slot];
    const host_group *g = find_group(j->x, &j->set->groups[slot->group]);
    if (!g || g->comm == MPI_COMM_NULL)
        return luo_err_set(err, LUO_EBUG, "device %d has no communicator for instruction %d.",
                           (int)j->x->device, (int)op->instr->id);
    c->comm = g->comm;
    c->npeers = g->n;
    c->reduce = c->route.reduce == LUO_REDUCE_MAX ? MPI_MAX : MPI_SUM;
    const bool rs = op->instr->coll == LUO_COLL_RS, ag = op->instr->coll == LUO_COLL_AG;
    if (!rs && !ag && op->instr->coll != LUO_COLL_AR)
        return luo_err_set(err, LUO_EBUG, "collective `%s` in a program of a dense model.",
                           luo_coll_name((luo_coll)op->instr->coll));
    LUO_TRY(flatten(j, c->route.send, rs ? c->route.n : 1, &c->send, err));
    LUO_TRY(flatten(j, c->route.recv, ag ? c->route.n : 1, &c->recv, err));
    if (rs) LUO_TRY(counts_of(j, c, c->route.send, err));
    if (ag) LUO_TRY(counts_of(j, c, c->route.recv, err));
    c->send_direct = direct(&c->send);
    c->recv_direct = direct(&c->recv);
    keep_apart(op);
    c->nreq = 1;
    c->deep = 1;
    return LUO_OK;
}

enum { P2P_DEEP = 16 }; /* sends of one instruction under way at once */

static luo_status bind_p2p(luo_job *j, host_op *op, int64_t runs, luo_err *err)
{
    host_comm *c = op->comm;
    const luo_slot *slot = &j->program->slots[op->instr->slot];
    c->comm = j->x->p2p;
    c->npeers = slot->nmessage;
    c->peer = LUO_NEW_N(j->arena, int, slot->nmessage);
    if (!c->peer) return luo_err_nomem(err);
    for (int32_t i = 0; i < slot->nmessage; i++) {
        c->peer[i] = (int)host_rank_of(j->x, slot->message[i].peer);
        if (c->peer[i] < 0)
            return luo_err_set(err, LUO_EBACKEND,
                               "the plan needs device %d, for which no rank "
                               "runs; give more --ranks.",
                               (int)slot->message[i].peer);
    }
    LUO_TRY(flatten(j, c->route.send, slot->nmessage, &c->send, err));
    LUO_TRY(flatten(j, c->route.recv, slot->nmessage, &c->recv, err));
    c->send_direct = c->recv_direct = -1;
    c->nreq = slot->nmessage;
    c->deep = (int32_t)(runs < 1 ? 1 : runs < P2P_DEEP ? runs : P2P_DEEP);
    return LUO_OK;
}

luo_status host_bind_comm(luo_job *j, host_op *op, int64_t runs, luo_err *err)
{
    host_comm *c = op->comm = LUO_NEW(j->arena, host_comm);
    const int64_t elem = (int64_t)j->x->k->elem;
    if (!c) return luo_err_nomem(err);
    c->route = j->route[op->instr->id];
    if (c->route.scratch_elements > 0)
        c->scratch = luo_layout_scratch(&j->layout, j->slab, op->instr->id);
    if (op->instr->kind == LUO_INSTR_LOCAL) {
        LUO_TRY(flatten(j, c->route.send, 1, &c->send, err));
        LUO_TRY(flatten(j, c->route.recv, 1, &c->recv, err));
    } else if (op->instr->kind == LUO_INSTR_P2P) {
        LUO_TRY(bind_p2p(j, op, runs, err));
    } else {
        LUO_TRY(bind_collective(j, op, err));
    }
    if (c->send.elements > INT_MAX || c->recv.elements > INT_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "a message of `%s` has over 2^31 elements; cut the "
                           "tensor among more devices.",
                           j->set->ops[op->instr->op].name);
    if (c->send_direct < 0) c->send_bytes = c->send.elements * elem;
    c->message_bytes = c->send_bytes + (c->recv_direct < 0 ? c->recv.elements * elem : 0);
    c->message_bytes =
        (c->message_bytes + LUO_LAYOUT_ALIGN - 1) / LUO_LAYOUT_ALIGN * LUO_LAYOUT_ALIGN;
    c->ticket_of = LUO_NEW_N(j->arena, int64_t, c->deep ? c->deep : 1);
    return c->ticket_of ? LUO_OK : luo_err_nomem(err);
}

/* ---- copying ---- */

static char *end_of(luo_rank *r, const host_comm *c, int32_t buffer, int32_t task)
{
    if (buffer == LUO_ROUTE_SCRATCH) return c->scratch;
    return buffer >= 0 ? host_buf(r, buffer, task) : NULL;
}

static void pack(const luo_strips *s, size_t elem, const char *buffer, char *out)
{
    for (int32_t i = 0; i < s->n; i++) {
        const size_t n = (size_t)s->at[i].n * elem;
        memcpy(out, buffer + (size_t)s->at[i].at * elem, n);
        out += n;
    }
}

static void unpack(const luo_strips *s, size_t elem, const char *in, char *buffer)
{
    for (int32_t i = 0; i < s->n; i++) {
        const size_t n = (size_t)s->at[i].n * elem;
        memcpy(buffer + (size_t)s->at[i].at * elem, in, n);
        in += n;
    }
}

/* Strips to strips; they may be cut differently. */
static void copy_strips(const luo_strips *a, const char *from, const luo_strips *b, char *to,
                        size_t elem)
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
    copy_strips(&m->src, end_of(r, c, m->from, task), &m->dst, end_of(r, c, m->to, task),
                r->x->k->elem);
}

void host_run_local_move(luo_rank *r, const host_op *op, int32_t task)
{
    const host_comm *c = op->comm;
    copy_of(r, c, &c->route.enter, task);
    copy_strips(&c->send, end_of(r, c, c->route.in, task), &c->recv,
                end_of(r, c, c->route.out, task), r->x->k->elem);
    copy_of(r, c, &c->route.leave, task);
}

/* ---- begin and end ---- */

static char *send_part(const host_comm *c, int32_t copy)
{
    return c->message + c->message_bytes * copy;
}

static char *recv_part(const host_comm *c, int32_t copy)
{
    return send_part(c, copy) + c->send_bytes;
}

/* Does this communication send to the device? */
static bool sends_to(const luo_rank *r, const host_op *op, int32_t device)
{
    const luo_slot *slot = &r->job->program->slots[op->instr->slot];
    bool there = false;
    if (op->instr->kind == LUO_INSTR_P2P) {
        for (int32_t i = 0; i < slot->nmessage; i++)
            there |= slot->message[i].send && slot->message[i].peer == device;
        return there;
    }
    const luo_group *g = &r->job->set->groups[slot->group];
    for (int32_t i = 0; i < g->n; i++) there |= g->dev[i] == device;
    return there;
}

/* An event slows the links to some devices down: what is sent there starts later. */
static void delay(const luo_rank *r, const host_op *op)
{
    const luo_step_order *o = r->order;
    const double now = host_now();
    double most = 0;
    for (int32_t d = 0; d < o->ndelay && o->delay[d].at_s <= now; d++) {
        bool last = true; /* of those for the device that have come */
        for (int32_t e = d + 1; e < o->ndelay && o->delay[e].at_s <= now; e++)
            last &= o->delay[e].device != o->delay[d].device;
        if (last && sends_to(r, op, o->delay[d].device))
            most =
                fmax(most, o->delay[d].extra_s + o->delay[d].s_per_byte * (double)op->instr->bytes);
    }
    if (most <= 0) return;
    const struct timespec t = {(time_t)most, (long)(fmod(most, 1) * 1e9)};
    nanosleep(&t, NULL);
}

static luo_status begin_p2p(luo_rank *r, const host_op *op, host_pending *p)
{
    const host_comm *c = op->comm;
    const luo_slot *slot = &r->job->program->slots[op->instr->slot];
    const size_t elem = r->x->k->elem;
    char *out = send_part(c, p->copy), *in = recv_part(c, p->copy);
    const int64_t mb = r->job->program->tasks[p->task].micro_batch + 1;
    const int tag = (int)(((int64_t)op->instr->exchange * 4096 + mb) % r->x->tag_limit);
    if (c->send.elements) pack(&c->send, elem, end_of(r, c, c->route.in, p->task), out);
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const bool send = slot->message[i].send;
        const int64_t n = send ? c->route.send[i].elements : c->route.recv[i].elements;
        int code;
        if (send)
            code = MPI_Isend(out, (int)n, r->x->type, c->peer[i], tag, c->comm, &p->req[i]);
        else
            code = MPI_Irecv(in, (int)n, r->x->type, c->peer[i], tag, c->comm, &p->req[i]);
        LUO_TRY(host_mpi(&r->err, code, send ? "a send" : "a receive"));
        if (send)
            out += (size_t)n * elem;
        else
            in += (size_t)n * elem;
    }
    return LUO_OK;
}

static luo_status begin_collective(luo_rank *r, const host_op *op, host_pending *p)
{
    const host_comm *c = op->comm;
    const size_t elem = r->x->k->elem;
    char *in = end_of(r, c, c->route.in, p->task), *out = end_of(r, c, c->route.out, p->task);
    char *to = c->recv_direct >= 0 ? out + (size_t)c->recv_direct * elem : recv_part(c, p->copy);
    const char *from = in + (c->send_direct >= 0 ? (size_t)c->send_direct * elem : 0);
    if (c->send_direct < 0) {
        pack(&c->send, elem, in, send_part(c, p->copy));
        from = send_part(c, p->copy);
    }
    int code;
    switch (op->instr->coll) {
    case LUO_COLL_AR:
        code = MPI_Iallreduce(from == to ? MPI_IN_PLACE : (const void *)from, to,
                              (int)c->recv.elements, r->x->type, c->reduce, c->comm, p->req);
        return host_mpi(&r->err, code, "an all-reduce");
    case LUO_COLL_RS:
        code = MPI_Ireduce_scatter(from, to, c->counts, r->x->type, c->reduce, c->comm, p->req);
        return host_mpi(&r->err, code, "a reduce-scatter");
    default:
        break;
    }
    const bool there = from == to + (size_t)c->starts[c->route.rank] * elem;
    code = MPI_Iallgatherv(there ? MPI_IN_PLACE : (const void *)from, (int)c->send.elements,
                           r->x->type, to, c->counts, c->starts, r->x->type, c->comm, p->req);
    return host_mpi(&r->err, code, "an all-gather");
}

luo_status host_begin(luo_rank *r, const host_op *op, host_pending *p)
{
    copy_of(r, op->comm, &op->comm->route.enter, p->task);
    if (r->order && r->order->ndelay) delay(r, op);
    if (op->instr->kind == LUO_INSTR_P2P) return begin_p2p(r, op, p);
    return begin_collective(r, op, p);
}

void host_arrived(luo_rank *r, const host_pending *p)
{
    const host_comm *c = p->op->comm;
    if (c->recv_direct < 0 && c->recv.elements)
        unpack(&c->recv, r->x->k->elem, recv_part(c, p->copy), end_of(r, c, c->route.out, p->task));
    copy_of(r, c, &c->route.leave, p->task);
}
