/* lanes.c: streams, tickets, and the compute stream's waits.
 *
 * A ticket is the number of a communication within its step, and its event. The compute stream is
 * behind a ticket when it has waited for it or for a later one of the same lane, whose stream runs
 * in order. A wait goes into the stream, not into the host: nothing here blocks but rows of
 * experts, whose counts the host waits for. */
#include "exec/cuda/moe/moe.h"

/* ---- streams ---- */

/* Lanes go before compute: a message that is late holds up two devices. */
luo_status gpu_lanes_open(luo_exec *exec, luo_err *err)
{
    int least = 0, most = 0;
    LUO_TRY(gpu_check(err, cudaDeviceGetStreamPriorityRange(&least, &most), "making streams"));
    for (int32_t l = 0; l < LUO_LANES; l++)
        LUO_TRY(gpu_check(err,
                          cudaStreamCreateWithPriority(&exec->stream[l], cudaStreamNonBlocking,
                                                       l == LUO_STREAM_COMPUTE ? least : most),
                          "making streams"));
    return LUO_OK;
}

void gpu_lanes_close(luo_exec *exec)
{
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (exec->stream[l]) (void)cudaStreamDestroy(exec->stream[l]);
}

/* ---- events ---- */

static luo_status make_event(cudaEvent_t *out, luo_err *err)
{
    return gpu_check(err, cudaEventCreateWithFlags(out, cudaEventDisableTiming), "making events");
}

luo_status gpu_events_open(luo_job *job, int64_t communications, luo_err *err)
{
    if (communications > INT32_MAX / 16)
        return luo_err_set(err, LUO_E2BIG, "a step has over 2^27 communications.");
    job->ticket = LUO_NEW_N(job->arena, gpu_ticket, communications);
    if (!job->ticket) return luo_err_nomem(err);
    LUO_TRY(make_event(&job->handover, err));
    LUO_TRY(make_event(&job->ended, err));
    for (int i = 0; i < LUO_ROOMS; i++) LUO_TRY(make_event(&job->taken[i], err));
    for (; job->ntickets < communications; job->ntickets++)
        LUO_TRY(make_event(&job->ticket[job->ntickets].event, err));
    return LUO_OK;
}

void gpu_events_close(luo_job *job)
{
    for (int32_t i = 0; i < job->ntickets; i++) (void)cudaEventDestroy(job->ticket[i].event);
    if (job->handover) (void)cudaEventDestroy(job->handover);
    if (job->ended) (void)cudaEventDestroy(job->ended);
    for (int i = 0; i < LUO_ROOMS; i++)
        if (job->taken[i]) (void)cudaEventDestroy(job->taken[i]);
}

static luo_status mark_taken(luo_rank *rank, int32_t room)
{
    const cudaStream_t stream = rank->x->stream[LUO_STREAM_COMPUTE];
    return gpu_check(&rank->err, cudaEventRecord(rank->job->taken[room], stream), "an event");
}

luo_status gpu_lanes_begin(luo_rank *rank)
{
    luo_job *job = rank->job;
    for (int32_t l = 0; l < LUO_LANES; l++) job->lane[l] = (gpu_lane){0};
    for (int32_t i = 0; i < job->bound.role->ninstr; i++) {
        gpu_transfer *transfer = job->op[i].transfer;
        if (!transfer) continue;
        transfer->uses = transfer->latest = 0;
        for (int32_t k = 0; k < transfer->deep; k++) transfer->ticket_of[k] = 0;
    }
    rank->tickets = 0;
    for (int i = 0; i < LUO_ROOMS; i++) LUO_TRY(mark_taken(rank, i));
    return LUO_OK;
}

void gpu_lanes_turn(luo_rank *rank, int32_t task)
{
    luo_job *job = rank->job;
    const luo_segment *segment = &job->bound.role->seg[job->bound.program->tasks[task].seg];
    for (int32_t i = segment->first; i < segment->first + segment->n; i++) {
        gpu_transfer *transfer = job->op[i].transfer;
        if (!transfer || !transfer->b->ahead) continue;
        transfer->latest = transfer->ticket_of[luo_bound_room(task)];
        job->lane[job->op[i].b->lane].must = transfer->latest >> GPU_LANE_BITS;
    }
}

/* ---- waiting ---- */

/* What has been received is put in its place. */
static luo_status arrive(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                         cudaStream_t stream)
{
    LUO_TRY(gpu_transfer_unpack(rank, op, task, copy, stream));
    if (op->b->is_loss) LUO_TRY(gpu_keep_loss(rank, op, task, stream));
    return gpu_counts_made(rank, op, task, stream);
}

/* The compute stream is behind the lane's n-th ticket: it takes what has come ahead. */
static luo_status take(luo_rank *rank, int32_t lane, int64_t n)
{
    if (lane != LUO_LANE_PP_F_RECV && lane != LUO_LANE_PP_B_RECV) return LUO_OK;
    for (int64_t k = rank->job->lane[lane].waited + 1; k <= n; k++) {
        const gpu_ticket *ticket = &rank->job->ticket[k - 1];
        const int32_t room = luo_bound_room(ticket->task);
        if (ticket->op->b->lane != lane || !ticket->op->transfer->b->ahead) continue;
        LUO_TRY(arrive(rank, ticket->op, ticket->task, room, rank->x->stream[LUO_STREAM_COMPUTE]));
        LUO_TRY(mark_taken(rank, room));
    }
    return LUO_OK;
}

/* Of a lane, until its n-th ticket of the step. */
static luo_status wait_until(luo_rank *rank, int32_t lane, int64_t n)
{
    gpu_lane *l = &rank->job->lane[lane];
    if (n <= l->waited) return LUO_OK;
    const gpu_ticket *ticket = &rank->job->ticket[n - 1];
    LUO_TRY(gpu_mark_now(rank, GPU_MARK_WAIT, ticket->task, ticket->op->b->instr->id));
    LUO_TRY(gpu_check(&rank->err,
                      cudaStreamWaitEvent(rank->x->stream[LUO_STREAM_COMPUTE], ticket->event, 0),
                      "a wait"));
    LUO_TRY(take(rank, lane, n));
    l->waited = n;
    return LUO_OK;
}

luo_status gpu_finish(luo_rank *rank, int64_t ticket)
{
    return wait_until(rank, (int32_t)(ticket & ((1 << GPU_LANE_BITS) - 1)),
                      ticket >> GPU_LANE_BITS);
}

luo_status gpu_finish_task(luo_rank *rank)
{
    for (int32_t l = 0; l < LUO_LANES; l++) LUO_TRY(wait_until(rank, l, rank->job->lane[l].must));
    return LUO_OK;
}

luo_status gpu_finish_all(luo_rank *rank)
{
    for (int32_t l = 0; l < LUO_LANES; l++) LUO_TRY(wait_until(rank, l, rank->job->lane[l].issued));
    return LUO_OK;
}

/* A stream that is not the compute stream waits for a ticket. */
static luo_status await_on(luo_rank *rank, cudaStream_t stream, int64_t ticket)
{
    const int64_t number = ticket >> GPU_LANE_BITS;
    if (number == 0) return LUO_OK;
    return gpu_check(&rank->err,
                     cudaStreamWaitEvent(stream, rank->job->ticket[number - 1].event, 0), "a wait");
}

/* A call that runs beside tasks waits on its own stream: computation goes on. */
static luo_status settle_beside(luo_rank *rank, const gpu_op *op, const luo_issue *issue)
{
    const cudaStream_t stream = rank->x->stream[op->b->lane];
    for (int32_t i = 0; i < issue->ndep; i++) LUO_TRY(await_on(rank, stream, issue->dep[i]));
    for (int32_t k = op->transfer->b->route.first; k < op->b->instr->id; k++)
        LUO_TRY(await_on(rank, stream, rank->job->op[k].transfer->latest));
    return LUO_OK;
}

/* An instruction of a Reshard takes what those before it have made. Those of its own lane's stream
 * are before it anyway, unless it begins on the compute stream, or they end there. */
static luo_status settle_reshard(luo_rank *rank, const gpu_op *op)
{
    const luo_bound_comm *c = op->transfer->b;
    const bool starts_here = op->run || c->outlives;
    for (int32_t k = c->route.first; k < op->b->instr->id; k++) {
        const gpu_op *before = &rank->job->op[k];
        const luo_bound_comm *b = before->transfer->b;
        if (b->outlives || (before->b->lane == op->b->lane && !starts_here && !b->ahead)) continue;
        LUO_TRY(gpu_finish(rank, before->transfer->latest));
    }
    return LUO_OK;
}

luo_status gpu_settle(luo_rank *rank, const gpu_op *op, const luo_issue *issue)
{
    if (!op->run && op->transfer->b->beside) return settle_beside(rank, op, issue);
    for (int32_t i = 0; i < issue->ndep; i++) LUO_TRY(gpu_finish(rank, issue->dep[i]));
    return op->transfer ? settle_reshard(rank, op) : LUO_OK;
}

/* ---- a communication ---- */

/* From here on the lane has all that the compute stream has done. */
static luo_status hand_over(luo_rank *rank, cudaStream_t lane)
{
    const cudaEvent_t event = rank->job->handover;
    LUO_TRY(gpu_check(&rank->err, cudaEventRecord(event, rank->x->stream[LUO_STREAM_COMPUTE]),
                      "an event"));
    return gpu_check(&rank->err, cudaStreamWaitEvent(lane, event, 0), "a wait");
}

/* What outlives its task is packed by the compute stream, since the buffers that it is packed from
 * do not wait for it. */
static luo_status pack_ahead(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy)
{
    LUO_TRY(gpu_finish(rank, op->transfer->ticket_of[copy])); /* it may still be sent from there */
    LUO_TRY(gpu_mark_now(rank, GPU_MARK_WAIT, task, op->b->instr->id));
    return gpu_transfer_pack(rank, op, task, copy, rank->x->stream[LUO_STREAM_COMPUTE]);
}

/* What goes ahead waits for its room alone, not for what is computed. */
static luo_status hand_over_room(luo_rank *rank, cudaStream_t lane, int32_t room)
{
    return gpu_check(&rank->err, cudaStreamWaitEvent(lane, rank->job->taken[room], 0), "a wait");
}

static luo_status enqueue(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy)
{
    const luo_bound_comm *comm = op->transfer->b;
    const cudaStream_t stream = rank->x->stream[op->b->lane];
    int32_t span;
    if (comm->outlives) LUO_TRY(pack_ahead(rank, op, task, copy));
    if (comm->trade) LUO_TRY(gpu_trade_settle(rank, op));
    LUO_TRY(comm->ahead ? hand_over_room(rank, stream, copy) : hand_over(rank, stream));
    LUO_TRY(gpu_span_begin(rank, stream, task, op->b->instr->id, &span));
    if (!comm->outlives) LUO_TRY(gpu_transfer_pack(rank, op, task, copy, stream));
    LUO_TRY(gpu_transfer_send(rank, op, task, copy, stream));
    if (!comm->ahead) LUO_TRY(arrive(rank, op, task, copy, stream));
    return gpu_span_end(rank, stream, span);
}

luo_status gpu_start(luo_rank *rank, const gpu_op *op, int32_t task, int64_t *ticket)
{
    gpu_transfer *transfer = op->transfer;
    gpu_lane *lane = &rank->job->lane[op->b->lane];
    const int32_t copy =
        transfer->b->ahead ? luo_bound_room(task) : (int32_t)(transfer->uses++ % transfer->deep);
    const int64_t number = ++rank->tickets;
    gpu_ticket *at = &rank->job->ticket[number - 1];
    LUO_TRY(enqueue(rank, op, task, copy));
    at->op = op;
    at->task = task;
    LUO_TRY(gpu_check(&rank->err, cudaEventRecord(at->event, rank->x->stream[op->b->lane]),
                      "an event"));
    *ticket = number << GPU_LANE_BITS | op->b->lane;
    lane->issued = number;
    transfer->ticket_of[copy] = *ticket;
    if (task != rank->task && transfer->b->ahead) return LUO_OK; /* gpu_lanes_turn */
    if (!transfer->b->outlives && !transfer->b->beside) lane->must = number;
    transfer->latest = *ticket;
    return LUO_OK;
}
