/* lanes.c: streams, tickets, and the compute stream's waits.
 *
 * A ticket is the number of a communication within its step, and its event. The compute stream is
 * behind a ticket when it has waited for it or for a later one of the same lane, whose stream runs
 * in order. A wait goes into the stream, not into the host: nothing here blocks but rows of
 * experts, whose counts the host waits for. */
#include "exec/cuda/moe/moe.h"

/* ---- streams ---- */

/* Lanes go before compute: a message that is late holds up two devices. */
luo_status gpu_lanes_open(luo_exec *x, luo_err *err)
{
    int least = 0, most = 0;
    LUO_TRY(gpu_check(err, cudaDeviceGetStreamPriorityRange(&least, &most), "making streams"));
    for (int32_t l = 0; l < LUO_LANES; l++)
        LUO_TRY(gpu_check(err,
                          cudaStreamCreateWithPriority(&x->stream[l], cudaStreamNonBlocking,
                                                       l == LUO_STREAM_COMPUTE ? least : most),
                          "making streams"));
    return LUO_OK;
}

void gpu_lanes_close(luo_exec *x)
{
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (x->stream[l]) (void)cudaStreamDestroy(x->stream[l]);
}

/* ---- events ---- */

static luo_status make_event(cudaEvent_t *out, luo_err *err)
{
    return gpu_check(err, cudaEventCreateWithFlags(out, cudaEventDisableTiming), "making events");
}

luo_status gpu_events_open(luo_job *j, int64_t communications, luo_err *err)
{
    if (communications > INT32_MAX / 16)
        return luo_err_set(err, LUO_E2BIG, "a step has over 2^27 communications.");
    j->ticket = LUO_NEW_N(j->arena, gpu_ticket, communications);
    if (!j->ticket) return luo_err_nomem(err);
    LUO_TRY(make_event(&j->handover, err));
    LUO_TRY(make_event(&j->ended, err));
    for (int i = 0; i < LUO_ROOMS; i++) LUO_TRY(make_event(&j->taken[i], err));
    for (; j->ntickets < communications; j->ntickets++)
        LUO_TRY(make_event(&j->ticket[j->ntickets].event, err));
    return LUO_OK;
}

void gpu_events_close(luo_job *j)
{
    for (int32_t i = 0; i < j->ntickets; i++) (void)cudaEventDestroy(j->ticket[i].event);
    if (j->handover) (void)cudaEventDestroy(j->handover);
    if (j->ended) (void)cudaEventDestroy(j->ended);
    for (int i = 0; i < LUO_ROOMS; i++)
        if (j->taken[i]) (void)cudaEventDestroy(j->taken[i]);
}

static luo_status mark_taken(luo_rank *r, int32_t room)
{
    const cudaStream_t stream = r->x->stream[LUO_STREAM_COMPUTE];
    return gpu_check(&r->err, cudaEventRecord(r->job->taken[room], stream), "an event");
}

luo_status gpu_lanes_begin(luo_rank *r)
{
    luo_job *j = r->job;
    for (int32_t l = 0; l < LUO_LANES; l++) j->lane[l] = (gpu_lane){0};
    for (int32_t i = 0; i < j->bound.role->ninstr; i++) {
        gpu_transfer *t = j->op[i].transfer;
        if (!t) continue;
        t->uses = t->latest = 0;
        for (int32_t k = 0; k < t->deep; k++) t->ticket_of[k] = 0;
    }
    r->tickets = 0;
    for (int i = 0; i < LUO_ROOMS; i++) LUO_TRY(mark_taken(r, i));
    return LUO_OK;
}

void gpu_lanes_turn(luo_rank *r, int32_t task)
{
    luo_job *j = r->job;
    const luo_segment *s = &j->bound.role->seg[j->bound.program->tasks[task].seg];
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        gpu_transfer *t = j->op[i].transfer;
        if (!t || !t->b->ahead) continue;
        t->latest = t->ticket_of[luo_bound_room(task)];
        j->lane[j->op[i].b->lane].must = t->latest >> GPU_LANE_BITS;
    }
}

/* ---- waiting ---- */

/* What has been received is put in its place. */
static luo_status arrive(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy,
                         cudaStream_t stream)
{
    LUO_TRY(gpu_transfer_unpack(r, op, task, copy, stream));
    if (op->b->is_loss) LUO_TRY(gpu_keep_loss(r, op, task, stream));
    return gpu_counts_made(r, op, task, stream);
}

/* The compute stream is behind the lane's n-th ticket: it takes what has come ahead. */
static luo_status take(luo_rank *r, int32_t lane, int64_t n)
{
    if (lane != LUO_LANE_PP_F_RECV && lane != LUO_LANE_PP_B_RECV) return LUO_OK;
    for (int64_t k = r->job->lane[lane].waited + 1; k <= n; k++) {
        const gpu_ticket *t = &r->job->ticket[k - 1];
        const int32_t room = luo_bound_room(t->task);
        if (t->op->b->lane != lane || !t->op->transfer->b->ahead) continue;
        LUO_TRY(arrive(r, t->op, t->task, room, r->x->stream[LUO_STREAM_COMPUTE]));
        LUO_TRY(mark_taken(r, room));
    }
    return LUO_OK;
}

/* Of a lane, until its n-th ticket of the step. */
static luo_status wait_until(luo_rank *r, int32_t lane, int64_t n)
{
    gpu_lane *l = &r->job->lane[lane];
    if (n <= l->waited) return LUO_OK;
    const gpu_ticket *t = &r->job->ticket[n - 1];
    LUO_TRY(gpu_mark_now(r, GPU_MARK_WAIT, t->task, t->op->b->instr->id));
    LUO_TRY(gpu_check(&r->err, cudaStreamWaitEvent(r->x->stream[LUO_STREAM_COMPUTE], t->event, 0),
                      "a wait"));
    LUO_TRY(take(r, lane, n));
    l->waited = n;
    return LUO_OK;
}

luo_status gpu_finish(luo_rank *r, int64_t ticket)
{
    return wait_until(r, (int32_t)(ticket & ((1 << GPU_LANE_BITS) - 1)), ticket >> GPU_LANE_BITS);
}

luo_status gpu_finish_task(luo_rank *r)
{
    for (int32_t l = 0; l < LUO_LANES; l++) LUO_TRY(wait_until(r, l, r->job->lane[l].must));
    return LUO_OK;
}

luo_status gpu_finish_all(luo_rank *r)
{
    for (int32_t l = 0; l < LUO_LANES; l++) LUO_TRY(wait_until(r, l, r->job->lane[l].issued));
    return LUO_OK;
}

/* A stream that is not the compute stream waits for a ticket. */
static luo_status await_on(luo_rank *r, cudaStream_t stream, int64_t ticket)
{
    const int64_t number = ticket >> GPU_LANE_BITS;
    if (number == 0) return LUO_OK;
    return gpu_check(&r->err, cudaStreamWaitEvent(stream, r->job->ticket[number - 1].event, 0),
                     "a wait");
}

/* A call that runs beside tasks waits on its own stream: computation goes on. */
static luo_status settle_beside(luo_rank *r, const gpu_op *op, const luo_issue *issue)
{
    const cudaStream_t stream = r->x->stream[op->b->lane];
    for (int32_t i = 0; i < issue->ndep; i++) LUO_TRY(await_on(r, stream, issue->dep[i]));
    for (int32_t k = op->transfer->b->route.first; k < op->b->instr->id; k++)
        LUO_TRY(await_on(r, stream, r->job->op[k].transfer->latest));
    return LUO_OK;
}

/* An instruction of a Reshard takes what those before it have made. Those of its own lane's stream
 * are before it anyway, unless it begins on the compute stream, or they end there. */
static luo_status settle_reshard(luo_rank *r, const gpu_op *op)
{
    const luo_bound_comm *c = op->transfer->b;
    const bool starts_here = op->run || c->outlives;
    for (int32_t k = c->route.first; k < op->b->instr->id; k++) {
        const gpu_op *before = &r->job->op[k];
        const luo_bound_comm *b = before->transfer->b;
        if (b->outlives || (before->b->lane == op->b->lane && !starts_here && !b->ahead)) continue;
        LUO_TRY(gpu_finish(r, before->transfer->latest));
    }
    return LUO_OK;
}

luo_status gpu_settle(luo_rank *r, const gpu_op *op, const luo_issue *issue)
{
    if (!op->run && op->transfer->b->beside) return settle_beside(r, op, issue);
    for (int32_t i = 0; i < issue->ndep; i++) LUO_TRY(gpu_finish(r, issue->dep[i]));
    return op->transfer ? settle_reshard(r, op) : LUO_OK;
}

/* ---- a communication ---- */

/* From here on the lane has all that the compute stream has done. */
static luo_status hand_over(luo_rank *r, cudaStream_t lane)
{
    const cudaEvent_t event = r->job->handover;
    LUO_TRY(
        gpu_check(&r->err, cudaEventRecord(event, r->x->stream[LUO_STREAM_COMPUTE]), "an event"));
    return gpu_check(&r->err, cudaStreamWaitEvent(lane, event, 0), "a wait");
}

/* What outlives its task is packed by the compute stream, since the buffers that it is packed from
 * do not wait for it. */
static luo_status pack_ahead(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy)
{
    LUO_TRY(gpu_finish(r, op->transfer->ticket_of[copy])); /* it may still be sent from there */
    LUO_TRY(gpu_mark_now(r, GPU_MARK_WAIT, task, op->b->instr->id));
    return gpu_transfer_pack(r, op, task, copy, r->x->stream[LUO_STREAM_COMPUTE]);
}

/* What goes ahead waits for its room alone, not for what is computed. */
static luo_status hand_over_room(luo_rank *r, cudaStream_t lane, int32_t room)
{
    return gpu_check(&r->err, cudaStreamWaitEvent(lane, r->job->taken[room], 0), "a wait");
}

static luo_status enqueue(luo_rank *r, const gpu_op *op, int32_t task, int32_t copy)
{
    const luo_bound_comm *c = op->transfer->b;
    const cudaStream_t stream = r->x->stream[op->b->lane];
    int32_t span;
    if (c->outlives) LUO_TRY(pack_ahead(r, op, task, copy));
    if (c->trade) LUO_TRY(gpu_trade_settle(r, op));
    LUO_TRY(c->ahead ? hand_over_room(r, stream, copy) : hand_over(r, stream));
    LUO_TRY(gpu_span_begin(r, stream, task, op->b->instr->id, &span));
    if (!c->outlives) LUO_TRY(gpu_transfer_pack(r, op, task, copy, stream));
    LUO_TRY(gpu_transfer_send(r, op, task, copy, stream));
    if (!c->ahead) LUO_TRY(arrive(r, op, task, copy, stream));
    return gpu_span_end(r, stream, span);
}

luo_status gpu_start(luo_rank *r, const gpu_op *op, int32_t task, int64_t *ticket)
{
    gpu_transfer *t = op->transfer;
    gpu_lane *lane = &r->job->lane[op->b->lane];
    const int32_t copy = t->b->ahead ? luo_bound_room(task) : (int32_t)(t->uses++ % t->deep);
    const int64_t number = ++r->tickets;
    gpu_ticket *at = &r->job->ticket[number - 1];
    LUO_TRY(enqueue(r, op, task, copy));
    at->op = op;
    at->task = task;
    LUO_TRY(gpu_check(&r->err, cudaEventRecord(at->event, r->x->stream[op->b->lane]), "an event"));
    *ticket = number << GPU_LANE_BITS | op->b->lane;
    lane->issued = number;
    t->ticket_of[copy] = *ticket;
    if (task != r->task && t->b->ahead) return LUO_OK; /* gpu_lanes_turn */
    if (!t->b->outlives && !t->b->beside) lane->must = number;
    t->latest = *ticket;
    return LUO_OK;
}
