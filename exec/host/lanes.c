/* exec/host/lanes.c: communications under way, first in, first out per lane; waiting for them.
 *
 * A rank that waits gives its core away: first by yielding, then by sleeping for a share of the
 * time it has waited already, so that on shared cores waiting costs nearly nothing and a message
 * is seen late by a fraction of the wait at most. */
#include <sched.h>
#include <time.h>

#include "exec/host/job.h"

enum { LANE_BITS = 4 };

static bool keeps_order_by_waiting(int32_t lane)
{
    switch (lane) { /* pipeline transfers of several micro-batches may be under way */
    case LUO_STREAM_PP:
    case LUO_LANE_PP_F_RECV:
    case LUO_LANE_PP_B_SEND:
    case LUO_LANE_PP_B_RECV:
        return false;
    default:
        return true;
    }
}

luo_status host_open_lanes(luo_job *j, luo_err *err)
{
    int64_t runs[LUO_LANES] = {0};
    int32_t most[LUO_LANES] = {0};
    for (int32_t t = 0; t < j->program->ntask; t++) {
        const luo_segment *s = &j->role->seg[j->program->tasks[t].seg];
        for (int32_t i = s->first; i < s->first + s->n; i++) {
            const host_op *op = &j->op[i];
            if (op->run) continue;
            runs[op->lane]++;
            if (op->comm->nreq > most[op->lane]) most[op->lane] = op->comm->nreq;
        }
    }
    for (int32_t l = 0; l < LUO_LANES; l++) {
        host_lane *lane = &j->lane[l];
        lane->cap = (int32_t)(runs[l] > 1 && keeps_order_by_waiting(l) ? 1 : runs[l]);
        lane->at = LUO_NEW_N(j->arena, host_pending, lane->cap);
        MPI_Request *req = LUO_NEW_N(j->arena, MPI_Request, (int64_t)lane->cap * most[l]);
        if (!lane->at || !req) return luo_err_nomem(err);
        for (int32_t i = 0; i < lane->cap; i++) lane->at[i].req = req + (int64_t)i * most[l];
    }
    return LUO_OK;
}

/* ---- waiting ---- */

static void pause_after(const luo_exec *x, double waited_s)
{
    const double spin_s = x->spins ? 200e-6 : 50e-6, least_s = 20e-6, most_s = 500e-6;
    if (waited_s < spin_s) {
        sched_yield();
        return;
    }
    double s = waited_s / 8;
    s = s < least_s ? least_s : s > most_s ? most_s : s;
    nanosleep(&(struct timespec){0, (long)(s * 1e9)}, NULL);
}

luo_status host_wait(luo_exec *x, luo_rank *who, int n, MPI_Request *req, luo_err *err)
{
    int done = 0;
    double began = 0;
    LUO_TRY(host_mpi(err, MPI_Testall(n, req, &done, MPI_STATUSES_IGNORE), "a wait"));
    if (done) return LUO_OK;
    luo_whereabouts *w = x->config.where;
    if (w) atomic_store(&w->waiting, true);
    while (!done) {
        const double now = host_now();
        if (began == 0) began = now;
        if (who) host_look(who);
        pause_after(x, now - began);
        LUO_TRY(host_mpi(err, MPI_Testall(n, req, &done, MPI_STATUSES_IGNORE), "a wait"));
    }
    if (w) atomic_store(&w->waiting, false);
    return LUO_OK;
}

/* ---- one at a time ---- */

static bool only_receives(const luo_rank *r, const host_op *op)
{
    if (op->instr->kind != LUO_INSTR_P2P) return false;
    const luo_slot *slot = &r->job->program->slots[op->instr->slot];
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (slot->message[i].send) return false;
    return true;
}

/* The time this rank was held up counts as communication, but waiting for what the stage before
 * has not made yet is the pipeline's bubble. */
static luo_status book(luo_rank *r, const host_pending *p, double held_s, double end, double there)
{
    const host_op *op = p->op;
    luo_comm_use *use = &r->use[op->instr->id];
    use->calls++;
    use->bytes += op->instr->bytes;
    use->busy_s += there - p->start_s;
    if (r->order && r->order->trace && r->nrecords < r->cap_records)
        r->record[r->nrecords++] =
            (luo_op_record){r->x->device, p->task, op->instr->id, p->start_s, there, LUO_OK};
    if (only_receives(r, op)) return LUO_OK;
    use->exposed_s += held_s;
    return luo_ledger_add(&r->ledger, luo_part_of(op->instr), end - held_s, end, op->instr->id);
}

static luo_status finish_first(luo_rank *r, host_lane *lane)
{
    const host_pending p = lane->at[lane->first];
    luo_whereabouts *w = r->x->config.where;
    if (w) {
        atomic_store(&w->task, p.task);
        atomic_store(&w->instr, p.op->instr->id);
    }
    const double began = host_now();
    LUO_TRY(host_wait(r->x, r, p.op->comm->nreq, p.req, &r->err));
    host_arrived(r, &p);
    if (p.op->is_loss) host_keep_loss(r, p.op, p.task);
    const double end = host_now() - r->start_s, there = p.done_s > 0 ? p.done_s : end;
    lane->first = (lane->first + 1) % lane->cap;
    lane->n--;
    lane->done = p.ticket >> LANE_BITS;
    if (w) atomic_fetch_add(&w->done, 1);
    return book(r, &p, end - (began - r->start_s), end, there);
}

luo_status host_finish(luo_rank *r, int64_t ticket)
{
    host_lane *lane = &r->job->lane[ticket & ((1 << LANE_BITS) - 1)];
    while (lane->n > 0 && lane->done < ticket >> LANE_BITS) LUO_TRY(finish_first(r, lane));
    return LUO_OK;
}

luo_status host_finish_task(luo_rank *r)
{
    for (int32_t l = 0; l < LUO_LANES; l++)
        while (l != LUO_STREAM_PP && l != LUO_LANE_PP_B_SEND && r->job->lane[l].n > 0)
            LUO_TRY(finish_first(r, &r->job->lane[l]));
    return LUO_OK;
}

luo_status host_finish_all(luo_rank *r)
{
    for (int32_t l = 0; l < LUO_LANES; l++)
        while (r->job->lane[l].n > 0) LUO_TRY(finish_first(r, &r->job->lane[l]));
    return LUO_OK;
}

luo_status host_start(luo_rank *r, const host_op *op, const luo_issue *issue, int64_t *ticket)
{
    host_lane *lane = &r->job->lane[op->lane];
    host_comm *c = op->comm;
    while (lane->n == lane->cap) LUO_TRY(finish_first(r, lane));
    const int32_t copy = (int32_t)(c->uses++ % c->deep);
    LUO_TRY(host_finish(r, c->ticket_of[copy])); /* its memory may still be sent from */
    host_pending *p = &lane->at[(lane->first + lane->n) % lane->cap];
    *ticket = ++r->tickets << LANE_BITS | op->lane;
    *p = (host_pending){*ticket, op, issue->task, copy, p->req, host_now() - r->start_s, 0};
    c->ticket_of[copy] = *ticket;
    LUO_TRY(host_begin(r, op, p));
    lane->n++;
    return LUO_OK;
}

/* MPI moves messages only inside its calls. What has come is noticed here, for the records; it is
 * unpacked in its turn. */
void host_progress(luo_rank *r)
{
    for (int32_t l = 0; l < LUO_LANES; l++) {
        host_lane *lane = &r->job->lane[l];
        for (int32_t i = 0; i < lane->n; i++) {
            host_pending *p = &lane->at[(lane->first + i) % lane->cap];
            int done = 0;
            if (p->done_s > 0) continue;
            if (MPI_Testall(p->op->comm->nreq, p->req, &done, MPI_STATUSES_IGNORE) || !done) break;
            p->done_s = host_now() - r->start_s;
        }
    }
}
