/* transfer.c: communications: bound to memory and to tables of segments on the device, then
 * enqueued: what lies in segments is packed, NCCL moves it, and it is put in its place. */
#include <string.h>

#include "exec/cuda/bind.h"
#include "exec/cuda/delay.h"
#include "exec/cuda/moe/moe.h"

/* ---- segments for the device ---- */

/* Between lists of a buffer's segments and a run in which each begins `stride` behind the last. */
static luo_status put_lists(gpu_binder *binder, const luo_copy_segments *list, int32_t nlists,
                            int64_t stride, bool packs, gpu_table *out)
{
    int32_t n = 0;
    for (int32_t k = 0; k < nlists; k++) n += list[k].n;
    gpu_copy_segment *at = LUO_NEW_N(binder->tmp, gpu_copy_segment, n);
    if (!at) return luo_err_nomem(binder->err);
    int64_t done = 0;
    n = 0;
    for (int32_t k = 0; k < nlists; k++) {
        int64_t place = k * stride;
        for (int32_t i = 0; i < list[k].n; i++) {
            const luo_copy_segment *segment = &list[k].at[i];
            at[n++] = packs ? (gpu_copy_segment){segment->at, place, segment->n, done}
                            : (gpu_copy_segment){place, segment->at, segment->n, done};
            place += segment->n;
            done += segment->n;
        }
    }
    *out = (gpu_table){.n = n, .elements = done};
    return gpu_binder_put(binder, at, (int64_t)sizeof *at * n, (const void **)&out->at);
}

/* Between a buffer's segments and a packed run. */
static luo_status put_packed(gpu_binder *binder, const luo_copy_segments *segments, bool packs,
                             gpu_table *out)
{
    return put_lists(binder, segments, 1, 0, packs, out);
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
static luo_status put_move(gpu_binder *binder, int32_t from, int32_t to,
                           const luo_copy_segments *src, const luo_copy_segments *dst,
                           gpu_cells *out, int64_t *staged)
{
    *out = (gpu_cells){.from = -1, .to = -1};
    if (from == -1 || to == -1 || src->elements == 0) return LUO_OK;
    gpu_copy_segment *at = LUO_NEW_N(binder->tmp, gpu_copy_segment, src->n + dst->n);
    if (!at) return luo_err_nomem(binder->err);
    const int32_t n = merge(src, dst, at);
    if (from == to && stays(at, n)) return LUO_OK;
    out->from = from;
    out->to = to;
    out->staged = from == to && overlap(src, dst);
    if (out->staged) {
        if (src->elements > *staged) *staged = src->elements;
        LUO_TRY(put_packed(binder, src, true, &out->in));
        return put_packed(binder, dst, false, &out->out);
    }
    out->in = (gpu_table){.n = n, .elements = src->elements};
    return gpu_binder_put(binder, at, (int64_t)sizeof *at * n, (const void **)&out->in.at);
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

static luo_status bind_messages(gpu_binder *binder, gpu_transfer *transfer)
{
    const luo_bound_comm *comm = transfer->b;
    const bool apart = comm->route.in != comm->route.out;
    transfer->message = LUO_NEW_N(binder->job->arena, gpu_message, comm->route.n);
    if (!transfer->message) return luo_err_nomem(binder->err);
    transfer->recv_direct = !comm->ahead && in_pieces(comm->route.recv, comm->route.n);
    transfer->send_direct = !comm->outlives && apart && in_pieces(comm->route.send, comm->route.n);
    return LUO_OK;
}

static bool uneven(const int64_t *counts, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (counts[i] != counts[0]) return true;
    return false;
}

/* All pieces travel in the room of the longest: what is shorter cannot lie in its buffer. */
static luo_status pad(gpu_binder *binder, gpu_transfer *transfer, const luo_instr *instr)
{
    const luo_bound_comm *comm = transfer->b;
    int64_t *counts = LUO_NEW_N(binder->job->arena, int64_t, comm->route.n);
    if (!counts) return luo_err_nomem(binder->err);
    for (int32_t k = 0; k < comm->route.n; k++)
        if (comm->counts[k] > transfer->longest) transfer->longest = comm->counts[k];
    for (int32_t k = 0; k < comm->route.n; k++) counts[k] = transfer->longest;
    const bool full = comm->counts[comm->route.rank] == transfer->longest,
               gathers = instr->coll == LUO_COLL_AG;
    transfer->send_direct = transfer->send_direct && gathers && full;
    transfer->recv_direct = transfer->recv_direct && !gathers && full;
    transfer->counts = counts;
    return LUO_OK;
}

static luo_status bind_collective(gpu_binder *binder, gpu_transfer *transfer,
                                  const luo_instr *instr)
{
    const luo_bound_comm *comm = transfer->b;
    transfer->send_direct = comm->send_direct >= 0;
    transfer->recv_direct = comm->recv_direct >= 0;
    transfer->counts = comm->counts;
    if (instr->variant == LUO_COLL_PADDED) LUO_TRY(pad(binder, transfer, instr));
    transfer->uneven = instr->coll == LUO_COLL_RS && instr->variant != LUO_COLL_GROUPED &&
                       uneven(transfer->counts, comm->route.n);
    if (transfer->uneven)
        transfer->work_bytes =
            aligned(comm->route.n * comm->counts[comm->route.rank] * comm->elem_bytes);
    return LUO_OK;
}

/* An all-reduce and an all-gather pack into where the result is put. */
static bool packs_apart(const luo_instr *instr)
{
    return instr->kind != LUO_INSTR_COLLECTIVE || instr->coll == LUO_COLL_RS;
}

static void size_memory(const luo_job *job, gpu_transfer *transfer, const luo_instr *instr,
                        int64_t staged)
{
    enum { DEEP = 16 }; /* sends of one instruction under way at once */
    const luo_bound_comm *comm = transfer->b;
    const bool local = instr->kind == LUO_INSTR_LOCAL;
    const int64_t all = comm->route.n * transfer->longest; /* of padded pieces */
    const int64_t sent = transfer->longest ? all : comm->send.elements;
    const int64_t received = !transfer->longest           ? comm->recv.elements
                             : instr->coll == LUO_COLL_AG ? all
                                                          : transfer->longest;
    if (!local && !transfer->send_direct && packs_apart(instr))
        transfer->send_bytes = aligned(sent * comm->elem_bytes);
    if (!local && !transfer->recv_direct)
        transfer->recv_bytes = aligned(received * comm->elem_bytes);
    if (aligned(staged * comm->elem_bytes) > transfer->work_bytes)
        transfer->work_bytes = aligned(staged * comm->elem_bytes);
    transfer->copy_bytes = transfer->send_bytes + transfer->recv_bytes + transfer->work_bytes;
    transfer->deep = (int32_t)(!comm->outlives || comm->runs < 1 ? 1
                               : comm->runs < DEEP               ? comm->runs
                                                                 : DEEP);
    if (!comm->ahead) return;
    transfer->copy_bytes = job->bound.room_bytes;
    transfer->deep = LUO_ROOMS;
}

static luo_status put_ends(gpu_binder *binder, gpu_transfer *transfer, const luo_instr *instr)
{
    const luo_bound_comm *comm = transfer->b;
    const bool gathers = instr->coll == LUO_COLL_AG;
    if (!transfer->send_direct)
        LUO_TRY(transfer->longest && !gathers
                    ? put_lists(binder, comm->route.send, comm->route.n, transfer->longest, true,
                                &transfer->pack)
                    : put_packed(binder, &comm->send, true, &transfer->pack));
    if (transfer->recv_direct) return LUO_OK;
    return transfer->longest && gathers ? put_lists(binder, comm->route.recv, comm->route.n,
                                                    transfer->longest, false, &transfer->unpack)
                                        : put_packed(binder, &comm->recv, false, &transfer->unpack);
}

luo_status gpu_bind_transfer(gpu_binder *binder, gpu_op *op)
{
    luo_job *job = binder->job;
    const luo_bound_comm *comm = op->b->comm;
    const luo_instr *instr = op->b->instr;
    int64_t staged = 0;
    gpu_transfer *transfer = op->transfer = LUO_NEW(job->arena, gpu_transfer);
    if (!transfer) return luo_err_nomem(binder->err);
    transfer->b = comm;
    if (comm->trade) return gpu_bind_trade(binder, op);
    if (instr->kind == LUO_INSTR_P2P) LUO_TRY(bind_messages(binder, transfer));
    if (instr->kind == LUO_INSTR_COLLECTIVE) LUO_TRY(bind_collective(binder, transfer, instr));
    if (instr->kind != LUO_INSTR_LOCAL)
        transfer->comm = gpu_comms_find(job->x->comms, job->bound.set, job->bound.program, instr);
    const luo_route *route = &comm->route;
    LUO_TRY(put_move(binder, route->enter.from, route->enter.to, &route->enter.src,
                     &route->enter.dst, &transfer->enter, &staged));
    LUO_TRY(put_move(binder, route->leave.from, route->leave.to, &route->leave.src,
                     &route->leave.dst, &transfer->leave, &staged));
    if (instr->kind == LUO_INSTR_LOCAL)
        LUO_TRY(put_move(binder, route->in, route->out, &comm->send, &comm->recv, &transfer->local,
                         &staged));
    if (instr->kind != LUO_INSTR_LOCAL) LUO_TRY(put_ends(binder, transfer, instr));
    size_memory(job, transfer, instr, staged);
    transfer->ticket_of = LUO_NEW_N(job->arena, int64_t, transfer->deep);
    return transfer->ticket_of ? LUO_OK : luo_err_nomem(binder->err);
}

/* ---- where ---- */

static char *end_of(const luo_rank *rank, const gpu_op *op, int32_t buffer, int32_t task)
{
    const luo_job *job = rank->job;
    if (buffer == LUO_ROUTE_SCRATCH)
        return luo_layout_scratch(&job->bound.layout, job->slab, op->b->instr->id);
    if (buffer == LUO_ROUTE_SLAB) return job->slab;
    return buffer >= 0 ? gpu_buf(job, buffer, task) : NULL;
}

static char *plus(char *at, int64_t bytes) /* at NULL: an end that nothing goes through */
{
    return at ? at + bytes : NULL;
}

static char *send_part(const gpu_transfer *transfer, int32_t copy)
{
    return transfer->memory + transfer->copy_bytes * copy;
}

static char *recv_part(const gpu_transfer *transfer, int32_t copy)
{
    return send_part(transfer, copy) + transfer->send_bytes;
}

static char *work_part(const gpu_transfer *transfer, int32_t copy)
{
    return recv_part(transfer, copy) + transfer->recv_bytes;
}

/* Of a collective: what is put into the result's place. */
static char *target(const luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy)
{
    const gpu_transfer *transfer = op->transfer;
    if (!transfer->recv_direct) return recv_part(transfer, copy);
    return plus(end_of(rank, op, transfer->b->route.out, task),
                transfer->b->recv_direct * transfer->b->elem_bytes);
}

/* Where a collective's operand is packed. */
static char *packed(const luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy)
{
    const luo_bound_comm *comm = op->transfer->b;
    const int64_t longest = op->transfer->longest;
    if (packs_apart(op->b->instr)) return send_part(op->transfer, copy);
    const int64_t own = op->b->instr->coll != LUO_COLL_AG ? 0
                        : longest                         ? comm->route.rank * longest
                                                          : comm->starts[comm->route.rank];
    return plus(target(rank, op, task, copy), own * comm->elem_bytes);
}

/* ---- copying ---- */

static luo_status copy_table(luo_rank *rank, const gpu_op *op, const gpu_table *table,
                             const char *in, char *out, cudaStream_t stream)
{
    if (table->elements == 0) return LUO_OK;
    return gpu_check(&rank->err,
                     gpu_copy_segments(stream, table->n, table->at, table->elements,
                                       (int32_t)op->transfer->b->elem_bytes, in, out),
                     "copying cells");
}

static luo_status copy_cells(luo_rank *rank, const gpu_op *op, const gpu_cells *cells, int32_t task,
                             int32_t copy, cudaStream_t stream)
{
    if (cells->from == -1) return LUO_OK;
    const char *in = end_of(rank, op, cells->from, task);
    char *out = end_of(rank, op, cells->to, task), *stage = work_part(op->transfer, copy);
    if (!cells->staged) return copy_table(rank, op, &cells->in, in, out, stream);
    LUO_TRY(copy_table(rank, op, &cells->in, in, stage, stream));
    return copy_table(rank, op, &cells->out, stage, out, stream);
}

luo_status gpu_run_local_move(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const cudaStream_t stream = rank->x->stream[LUO_STREAM_COMPUTE];
    LUO_TRY(copy_cells(rank, op, &op->transfer->enter, task, 0, stream));
    LUO_TRY(copy_cells(rank, op, &op->transfer->local, task, 0, stream));
    return copy_cells(rank, op, &op->transfer->leave, task, 0, stream);
}

luo_status gpu_transfer_pack(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream)
{
    const gpu_transfer *transfer = op->transfer;
    LUO_TRY(copy_cells(rank, op, &transfer->enter, task, copy, stream));
    if (transfer->send_direct) return LUO_OK;
    return copy_table(rank, op, &transfer->pack, end_of(rank, op, transfer->b->route.in, task),
                      packed(rank, op, task, copy), stream);
}

luo_status gpu_transfer_unpack(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                               cudaStream_t stream)
{
    const gpu_transfer *transfer = op->transfer;
    if (!transfer->recv_direct)
        LUO_TRY(copy_table(rank, op, &transfer->unpack, recv_part(transfer, copy),
                           end_of(rank, op, transfer->b->route.out, task), stream));
    return copy_cells(rank, op, &transfer->leave, task, copy, stream);
}

/* ---- NCCL ---- */

/* Links that an event has slowed down. */
static luo_status wait_for_links(luo_rank *rank, const luo_slot *slot, cudaStream_t stream)
{
    gpu_delay_row row[GPU_DELAYS];
    if (rank->order->ndelay == 0) return LUO_OK;
    const int32_t n = gpu_delay_rows(rank->order, slot, rank->x->clock.offset_ns, row);
    return gpu_check(&rank->err, gpu_delay(stream, n, row, rank->job->device_answer),
                     "a slow link");
}

static luo_status exchange(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                           cudaStream_t stream)
{
    const gpu_transfer *transfer = op->transfer;
    const luo_bound_comm *comm = transfer->b;
    const luo_slot *slot = &rank->job->bound.program->slots[op->b->instr->slot];
    char *from = send_part(transfer, copy), *to = recv_part(transfer, copy);
    char *in = end_of(rank, op, comm->route.in, task),
         *out = end_of(rank, op, comm->route.out, task);
    int32_t n = 0;
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const luo_message *message = &slot->message[i];
        const luo_copy_segments *segments =
            message->send ? &comm->route.send[i] : &comm->route.recv[i];
        char **run = message->send ? &from : &to;
        const bool direct = message->send ? transfer->send_direct : transfer->recv_direct;
        if (segments->elements == 0) continue;
        char *at =
            direct ? (message->send ? in : out) + segments->at[0].at * comm->elem_bytes : *run;
        *run += segments->elements * comm->elem_bytes;
        transfer->message[n++] =
            (gpu_message){message->peer, message->send, at, segments->elements};
    }
    if (n == 0) return LUO_OK;
    LUO_TRY(wait_for_links(rank, slot, stream));
    return gpu_exchange(transfer->comm, n, transfer->message, comm->elem_bytes, stream, &rank->err);
}

/* A group of one. */
static luo_status keep(luo_rank *rank, const char *from, char *to, int64_t bytes,
                       cudaStream_t stream)
{
    if (from == to || bytes == 0) return LUO_OK;
    return gpu_check(&rank->err,
                     cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, stream),
                     "copying cells");
}

static luo_status collective(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream)
{
    const gpu_transfer *transfer = op->transfer;
    const luo_bound_comm *comm = transfer->b;
    const luo_coll coll = (luo_coll)op->b->instr->coll;
    char *to = target(rank, op, task, copy);
    const char *from = transfer->send_direct ? plus(end_of(rank, op, comm->route.in, task),
                                                    comm->send_direct * comm->elem_bytes)
                                             : packed(rank, op, task, copy);
    const bool grouped = op->b->instr->variant == LUO_COLL_GROUPED;
    if (!transfer->comm)
        return keep(rank, from, to, comm->recv.elements * comm->elem_bytes, stream);
    if (coll == LUO_COLL_RS && grouped)
        return gpu_reduces(transfer->comm, from, to, transfer->counts, comm->elem_bytes,
                           comm->route.reduce, stream, &rank->err);
    if (coll == LUO_COLL_RS)
        return gpu_reduce_scatter(
            transfer->comm, from, to, transfer->counts, comm->elem_bytes, comm->route.reduce,
            transfer->uneven ? work_part(transfer, copy) : NULL, stream, &rank->err);
    if (coll == LUO_COLL_AG && grouped)
        return gpu_broadcasts(transfer->comm, from, to, transfer->counts, comm->elem_bytes, stream,
                              &rank->err);
    if (coll == LUO_COLL_AG)
        return gpu_all_gather(transfer->comm, from, to, transfer->counts, comm->elem_bytes, stream,
                              &rank->err);
    return gpu_all_reduce(transfer->comm, from, to, comm->recv.elements, comm->elem_bytes,
                          comm->route.reduce, stream, &rank->err);
}

luo_status gpu_transfer_send(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream)
{
    if (op->transfer->b->trade) return gpu_trade_send(rank, op, task, stream);
    if (op->b->instr->kind == LUO_INSTR_P2P) return exchange(rank, op, task, copy, stream);
    return collective(rank, op, task, copy, stream);
}
