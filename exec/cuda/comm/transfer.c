/* transfer.c: communications: bound to memory and to tables of segments on the device, then
 * enqueued: what lies in segments is packed, NCCL moves it, and it is put in its place. */
#include <string.h>

#include "exec/cuda/bind.h"
#include "exec/cuda/delay.h"
#include "exec/cuda/moe/moe.h"

/* ---- segments for the device ---- */

/* Between lists of a buffer's segments and a run in which each begins `stride` behind the last. */
static luo_status put_lists(gpu_binder *b, const luo_copy_segments *list, int32_t nlists,
                            int64_t stride, bool packs, gpu_table *out)
{
    int32_t n = 0;
    for (int32_t k = 0; k < nlists; k++) n += list[k].n;
    gpu_copy_segment *at = LUO_NEW_N(b->tmp, gpu_copy_segment, n);
    if (!at) return luo_err_nomem(b->err);
    int64_t done = 0;
    n = 0;
    for (int32_t k = 0; k < nlists; k++) {
        int64_t place = k * stride;
        for (int32_t i = 0; i < list[k].n; i++) {
            const luo_copy_segment *c = &list[k].at[i];
            at[n++] = packs ? (gpu_copy_segment){c->at, place, c->n, done}
                            : (gpu_copy_segment){place, c->at, c->n, done};
            place += c->n;
            done += c->n;
        }
    }
    *out = (gpu_table){.n = n, .elements = done};
    return gpu_binder_put(b, at, (int64_t)sizeof *at * n, (const void **)&out->at);
}

/* Between a buffer's segments and a packed run. */
static luo_status put_packed(gpu_binder *b, const luo_copy_segments *s, bool packs, gpu_table *out)
{
    return put_lists(b, s, 1, 0, packs, out);
}

/* Segments to segments, which may be cut differently; at most a.n + b.n of them. */
static int32_t merge(const luo_copy_segments *a, const luo_copy_segments *b, gpu_copy_segment *out)
{
    int32_t i = 0, k = 0, n = 0;
    int64_t pi = 0, pk = 0, run = 0;
    while (i < a->n && k < b->n) {
        const int64_t left = a->at[i].n - pi, room = b->at[k].n - pk;
        const int64_t len = left < room ? left : room;
        out[n++] = (gpu_copy_segment){a->at[i].at + pi, b->at[k].at + pk, len, run};
        run += len;
        if ((pi += len) == a->at[i].n) i++, pi = 0;
        if ((pk += len) == b->at[k].n) k++, pk = 0;
    }
    return n;
}

static bool overlap(const luo_copy_segments *a, const luo_copy_segments *b)
{
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t k = 0; k < b->n; k++)
            if (a->at[i].at < b->at[k].at + b->at[k].n && b->at[k].at < a->at[i].at + a->at[i].n)
                return true;
    return false;
}

static bool stays(const gpu_copy_segment *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i].from != at[i].to) return false;
    return true;
}

/* Threads of a kernel know no order: cells that are moved onto each other go by way of message
 * memory, *staged bytes of it. */
static luo_status put_move(gpu_binder *b, int32_t from, int32_t to, const luo_copy_segments *src,
                           const luo_copy_segments *dst, gpu_cells *out, int64_t *staged)
{
    *out = (gpu_cells){.from = -1, .to = -1};
    if (from == -1 || to == -1 || src->elements == 0) return LUO_OK;
    gpu_copy_segment *at = LUO_NEW_N(b->tmp, gpu_copy_segment, src->n + dst->n);
    if (!at) return luo_err_nomem(b->err);
    const int32_t n = merge(src, dst, at);
    if (from == to && stays(at, n)) return LUO_OK;
    out->from = from;
    out->to = to;
    out->staged = from == to && overlap(src, dst);
    if (out->staged) {
        if (src->elements > *staged) *staged = src->elements;
        LUO_TRY(put_packed(b, src, true, &out->in));
        return put_packed(b, dst, false, &out->out);
    }
    out->in = (gpu_table){.n = n, .elements = src->elements};
    return gpu_binder_put(b, at, (int64_t)sizeof *at * n, (const void **)&out->in.at);
}

/* ---- binding ---- */

static int64_t aligned(int64_t bytes)
{
    return (bytes + LUO_LAYOUT_ALIGN - 1) / LUO_LAYOUT_ALIGN * LUO_LAYOUT_ALIGN;
}

/* Each message in one piece: it can be sent from, or received into, the buffer itself. */
static bool in_pieces(const luo_copy_segments *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i].n > 1) return false;
    return true;
}

static luo_status bind_messages(gpu_binder *b, gpu_transfer *t)
{
    const luo_bound_comm *c = t->b;
    const bool apart = c->route.in != c->route.out;
    t->message = LUO_NEW_N(b->job->arena, gpu_message, c->route.n);
    if (!t->message) return luo_err_nomem(b->err);
    t->recv_direct = !c->ahead && in_pieces(c->route.recv, c->route.n);
    t->send_direct = !c->outlives && apart && in_pieces(c->route.send, c->route.n);
    return LUO_OK;
}

static bool uneven(const int64_t *counts, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (counts[i] != counts[0]) return true;
    return false;
}

/* All pieces travel in the room of the longest: what is shorter cannot lie in its buffer. */
static luo_status pad(gpu_binder *b, gpu_transfer *t, const luo_instr *i)
{
    const luo_bound_comm *c = t->b;
    int64_t *counts = LUO_NEW_N(b->job->arena, int64_t, c->route.n);
    if (!counts) return luo_err_nomem(b->err);
    for (int32_t k = 0; k < c->route.n; k++)
        if (c->counts[k] > t->longest) t->longest = c->counts[k];
    for (int32_t k = 0; k < c->route.n; k++) counts[k] = t->longest;
    const bool full = c->counts[c->route.rank] == t->longest, gathers = i->coll == LUO_COLL_AG;
    t->send_direct = t->send_direct && gathers && full;
    t->recv_direct = t->recv_direct && !gathers && full;
    t->counts = counts;
    return LUO_OK;
}

static luo_status bind_collective(gpu_binder *b, gpu_transfer *t, const luo_instr *i)
{
    const luo_bound_comm *c = t->b;
    t->send_direct = c->send_direct >= 0;
    t->recv_direct = c->recv_direct >= 0;
    t->counts = c->counts;
    if (i->variant == LUO_COLL_PADDED) LUO_TRY(pad(b, t, i));
    t->uneven =
        i->coll == LUO_COLL_RS && i->variant != LUO_COLL_GROUPED && uneven(t->counts, c->route.n);
    if (t->uneven) t->work_bytes = aligned(c->route.n * c->counts[c->route.rank] * c->elem_bytes);
    return LUO_OK;
}

/* An all-reduce and an all-gather pack into where the result is put. */
static bool packs_apart(const luo_instr *i)
{
    return i->kind != LUO_INSTR_COLLECTIVE || i->coll == LUO_COLL_RS;
}

static void size_memory(const luo_job *j, gpu_transfer *t, const luo_instr *i, int64_t staged)
{
    enum { DEEP = 16 }; /* sends of one instruction under way at once */
    const luo_bound_comm *c = t->b;
    const bool local = i->kind == LUO_INSTR_LOCAL;
    const int64_t all = c->route.n * t->longest; /* of padded pieces */
    const int64_t sent = t->longest ? all : c->send.elements;
    const int64_t received = !t->longest              ? c->recv.elements
                             : i->coll == LUO_COLL_AG ? all
                                                      : t->longest;
    if (!local && !t->send_direct && packs_apart(i)) t->send_bytes = aligned(sent * c->elem_bytes);
    if (!local && !t->recv_direct) t->recv_bytes = aligned(received * c->elem_bytes);
    if (aligned(staged * c->elem_bytes) > t->work_bytes)
        t->work_bytes = aligned(staged * c->elem_bytes);
    t->copy_bytes = t->send_bytes + t->recv_bytes + t->work_bytes;
    t->deep = (int32_t)(!c->outlives || c->runs < 1 ? 1 : c->runs < DEEP ? c->runs : DEEP);
    if (!c->ahead) return;
    t->copy_bytes = j->bound.room_bytes;
    t->deep = LUO_ROOMS;
}

static luo_status put_ends(gpu_binder *b, gpu_transfer *t, const luo_instr *i)
{
    const luo_bound_comm *c = t->b;
    const bool gathers = i->coll == LUO_COLL_AG;
    if (!t->send_direct)
        LUO_TRY(t->longest && !gathers
                    ? put_lists(b, c->route.send, c->route.n, t->longest, true, &t->pack)
                    : put_packed(b, &c->send, true, &t->pack));
    if (t->recv_direct) return LUO_OK;
    return t->longest && gathers
               ? put_lists(b, c->route.recv, c->route.n, t->longest, false, &t->unpack)
               : put_packed(b, &c->recv, false, &t->unpack);
}

luo_status gpu_bind_transfer(gpu_binder *b, gpu_op *op)
{
    luo_job *j = b->job;
    const luo_bound_comm *c = op->b->comm;
    const luo_instr *i = op->b->instr;
    int64_t staged = 0;
    gpu_transfer *t = op->transfer = LUO_NEW(j->arena, gpu_transfer);
    if (!t) return luo_err_nomem(b->err);
    t->b = c;
    if (c->trade) return gpu_bind_trade(b, op);
    if (i->kind == LUO_INSTR_P2P) LUO_TRY(bind_messages(b, t));
    if (i->kind == LUO_INSTR_COLLECTIVE) LUO_TRY(bind_collective(b, t, i));
    if (i->kind != LUO_INSTR_LOCAL)
        t->comm = gpu_comms_find(j->x->comms, j->bound.set, j->bound.program, i);
    const luo_route *r = &c->route;
    LUO_TRY(
        put_move(b, r->enter.from, r->enter.to, &r->enter.src, &r->enter.dst, &t->enter, &staged));
    LUO_TRY(
        put_move(b, r->leave.from, r->leave.to, &r->leave.src, &r->leave.dst, &t->leave, &staged));
    if (i->kind == LUO_INSTR_LOCAL)
        LUO_TRY(put_move(b, r->in, r->out, &c->send, &c->recv, &t->local, &staged));
    if (i->kind != LUO_INSTR_LOCAL) LUO_TRY(put_ends(b, t, i));
    size_memory(j, t, i, staged);
    t->ticket_of = LUO_NEW_N(j->arena, int64_t, t->deep);
    return t->ticket_of ? LUO_OK : luo_err_nomem(b->err);
}

/* ---- where ---- */

static char *end_of(const luo_rank *r, const gpu_op *op, int32_t buffer, int32_t task)
{
    const luo_job *j = r->job;
    if (buffer == LUO_ROUTE_SCRATCH)
        return luo_layout_scratch(&j->bound.layout, j->slab, op->b->instr->id);
    if (buffer == LUO_ROUTE_SLAB) return j->slab;
    return buffer >= 0 ? gpu_buf(j, buffer, task) : NULL;
}

static char *plus(char *at, int64_t bytes) /* at NULL: an end that nothing goes through */
{
    return at ? at + bytes : NULL;
}

static char *send_part(const gpu_transfer *t, int32_t copy)
{
    return t->memory + t->copy_bytes * copy;
}

static char *recv_part(const gpu_transfer *t, int32_t copy)
{
    return send_part(t, copy) + t->send_bytes;
}

static char *work_part(const gpu_transfer *t, int32_t copy)
{
    return recv_part(t, copy) + t->recv_bytes;
}

/* Of a collective: what is put into the result's place. */
static char *target(const luo_rank *r, const gpu_op *op, int32_t task, int32_t copy)
{
    const gpu_transfer *t = op->transfer;
    if (!t->recv_direct) return recv_part(t, copy);
    return plus(end_of(r, op, t->b->route.out, task), t->b->recv_direct * t->b->elem_bytes);
}

/* Where a collective's operand is packed. */
static char *packed(const luo_rank *r, const gpu_op *op, int32_t task, int32_t copy)
{
    const luo_bound_comm *c = op->transfer->b;
    const int64_t longest = op->transfer->longest;
    if (packs_apart(op->b->instr)) return send_part(op->transfer, copy);
    const int64_t own = op->b->instr->coll != LUO_COLL_AG ? 0
                        : longest                         ? c->route.rank * longest
                                                          : c->starts[c->route.rank];
    return plus(target(r, op, task, copy), own * c->elem_bytes);
}

/* ---- copying ---- */

static luo_status copy_table(luo_rank *r, const gpu_op *op, const gpu_table *t, const char *in,
                             char *out, cudaStream_t stream)
{
    if (t->elements == 0) return LUO_OK;
    return gpu_check(&r->err,
                     gpu_copy_segments(stream, t->n, t->at, t->elements,
                                       (int32_t)op->transfer->b->elem_bytes, in, out),
                     "copying cells");
}

static luo_status copy_cells(luo_rank *r, const gpu_op *op, const gpu_cells *m, int32_t task,
                             int32_t copy, cudaStream_t stream)
{
    if (m->from == -1) return LUO_OK;
    const char *in = end_of(r, op, m->from, task);
    char *out = end_of(r, op, m->to, task), *stage = work_part(op->transfer, copy);
    if (!m->staged) return copy_table(r, op, &m->in, in, out, stream);
    LUO_TRY(copy_table(r, op, &m->in, in, stage, stream));
    return copy_table(r, op, &m->out, stage, out, stream);
}

luo_status gpu_run_local_move(luo_rank *r, const gpu_op *op, int32_t task)
{
    const cudaStream_t stream = r->x->stream[LUO_STREAM_COMPUTE];
    LUO_TRY(copy_cells(r, op, &op->transfer->enter, task, 0, stream));
    LUO_TRY(copy_cells(r, op, &op->transfer->local, task, 0, stream));
    return copy_cells(r, op, &op->transfer->leave, task, 0, stream);
}

luo_status gpu_transfer_pack(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream)
{
    const gpu_transfer *t = op->transfer;
    LUO_TRY(copy_cells(r, op, &t->enter, task, copy, stream));
    if (t->send_direct) return LUO_OK;
    return copy_table(r, op, &t->pack, end_of(r, op, t->b->route.in, task),
                      packed(r, op, task, copy), stream);
}

luo_status gpu_transfer_unpack(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy,
                               cudaStream_t stream)
{
    const gpu_transfer *t = op->transfer;
    if (!t->recv_direct)
        LUO_TRY(copy_table(r, op, &t->unpack, recv_part(t, copy),
                           end_of(r, op, t->b->route.out, task), stream));
    return copy_cells(r, op, &t->leave, task, copy, stream);
}

/* ---- NCCL ---- */

/* Links that an event has slowed down. */
static luo_status wait_for_links(luo_rank *r, const luo_slot *slot, cudaStream_t stream)
{
    gpu_delay_row row[GPU_DELAYS];
    if (r->order->ndelay == 0) return LUO_OK;
    const int32_t n = gpu_delay_rows(r->order, slot, r->x->clock.offset_ns, row);
    return gpu_check(&r->err, gpu_delay(stream, n, row, r->job->device_answer), "a slow link");
}

static luo_status exchange(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy,
                           cudaStream_t stream)
{
    const gpu_transfer *t = op->transfer;
    const luo_bound_comm *c = t->b;
    const luo_slot *slot = &r->job->bound.program->slots[op->b->instr->slot];
    char *from = send_part(t, copy), *to = recv_part(t, copy);
    char *in = end_of(r, op, c->route.in, task), *out = end_of(r, op, c->route.out, task);
    int32_t n = 0;
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const luo_message *m = &slot->message[i];
        const luo_copy_segments *s = m->send ? &c->route.send[i] : &c->route.recv[i];
        char **run = m->send ? &from : &to;
        const bool direct = m->send ? t->send_direct : t->recv_direct;
        if (s->elements == 0) continue;
        char *at = direct ? (m->send ? in : out) + s->at[0].at * c->elem_bytes : *run;
        *run += s->elements * c->elem_bytes;
        t->message[n++] = (gpu_message){m->peer, m->send, at, s->elements};
    }
    if (n == 0) return LUO_OK;
    LUO_TRY(wait_for_links(r, slot, stream));
    return gpu_exchange(t->comm, n, t->message, c->elem_bytes, stream, &r->err);
}

/* A group of one. */
static luo_status keep(luo_rank *r, const char *from, char *to, int64_t bytes, cudaStream_t stream)
{
    if (from == to || bytes == 0) return LUO_OK;
    return gpu_check(&r->err,
                     cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, stream),
                     "copying cells");
}

static luo_status collective(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream)
{
    const gpu_transfer *t = op->transfer;
    const luo_bound_comm *c = t->b;
    const luo_coll coll = (luo_coll)op->b->instr->coll;
    char *to = target(r, op, task, copy);
    const char *from = t->send_direct
                           ? plus(end_of(r, op, c->route.in, task), c->send_direct * c->elem_bytes)
                           : packed(r, op, task, copy);
    const bool grouped = op->b->instr->variant == LUO_COLL_GROUPED;
    if (!t->comm) return keep(r, from, to, c->recv.elements * c->elem_bytes, stream);
    if (coll == LUO_COLL_RS && grouped)
        return gpu_reduces(t->comm, from, to, t->counts, c->elem_bytes, c->route.reduce, stream,
                           &r->err);
    if (coll == LUO_COLL_RS)
        return gpu_reduce_scatter(t->comm, from, to, t->counts, c->elem_bytes, c->route.reduce,
                                  t->uneven ? work_part(t, copy) : NULL, stream, &r->err);
    if (coll == LUO_COLL_AG && grouped)
        return gpu_broadcasts(t->comm, from, to, t->counts, c->elem_bytes, stream, &r->err);
    if (coll == LUO_COLL_AG)
        return gpu_all_gather(t->comm, from, to, t->counts, c->elem_bytes, stream, &r->err);
    return gpu_all_reduce(t->comm, from, to, c->recv.elements, c->elem_bytes, c->route.reduce,
                          stream, &r->err);
}

luo_status gpu_transfer_send(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream)
{
    if (op->transfer->b->trade) return gpu_trade_send(r, op, task, stream);
    if (op->b->instr->kind == LUO_INSTR_P2P) return exchange(r, op, task, copy, stream);
    return collective(r, op, task, copy, stream);
}
