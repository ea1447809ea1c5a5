/* lanes.c: communications under way, first in, first out per lane; waiting for them.
 *
 * A rank that waits gives its core away: first by yielding, then by sleeping for a share of the
 * time it has waited already, so that on shared cores waiting costs nearly nothing and a message
 * is seen late by a fraction of the wait at most. With a core for every rank yielding goes on for
 * long, since it costs nobody anything, and a core that falls asleep wakes up late and slow. */
#include <sched.h>
#include <time.h>

#include "exec/host/job.h"

enum { LANE_BITS = 4 };
_Static_assert(LUO_LANES <= 1 << LANE_BITS, "a ticket names its lane in its last digits");

static bool keeps_order_by_waiting(int32_t lane)
{
    return luo_program_lane_peer(lane) == lane; /* pipeline transfers of several micro-batches may
                                           be under way */
}

luo_status host_open_lanes(luo_job *job, luo_err *err)
{
    int64_t runs[LUO_LANES] = {0}, beside[LUO_LANES] = {0};
    int32_t most[LUO_LANES] = {0};
    for (int32_t t = 0; t < job->b.program->ntask; t++) {
        const luo_segment *segment = &job->b.role->seg[job->b.program->tasks[t].seg];
        for (int32_t i = segment->first; i < segment->first + segment->n; i++) {
            const host_op *op = &job->op[i];
            if (op->run) continue;
            runs[op->b->lane]++;
            beside[op->b->lane] += op->comm->b->beside;
            if (op->comm->nreq > most[op->b->lane]) most[op->b->lane] = op->comm->nreq;
        }
    }
    for (int32_t l = 0; l < LUO_LANES; l++) {
        host_lane *lane = &job->lane[l];
        lane->cap = (int32_t)(keeps_order_by_waiting(l) && runs[l] > beside[l] + 1
                                  ? beside[l] + 1
                                  : runs[l]);
        lane->at = LUO_NEW_N(job->arena, host_pending, lane->cap);
        MPI_Request *req = LUO_NEW_N(job->arena, MPI_Request, (int64_t)lane->cap * most[l]);
        if (!lane->at || !req) return luo_err_nomem(err);
        for (int32_t i = 0; i < lane->cap; i++) lane->at[i].req = req + (int64_t)i * most[l];
    }
    return LUO_OK;
}

bool host_idle(const luo_job *job)
{
    bool idle = true;
    for (int32_t l = 0; l < LUO_LANES; l++) idle &= job->lane[l].n == 0;
    return idle;
}

static host_pending *pending(host_lane *lane, int32_t i)
{
    return &lane->at[(lane->first + i) % lane->cap];
}

/* ---- what goes on meanwhile ---- */

/* Sends whose date has come or whose step is given up, in order per lane. */
static luo_status send_due(luo_rank *rank)
{
    const double now = rank->delayed ? host_now() : 0;
    for (int32_t l = 0; rank->delayed && l < LUO_LANES; l++)
        for (int32_t i = 0; i < rank->job->lane[l].n; i++) {
            host_pending *p = pending(&rank->job->lane[l], i);
            if (p->due_s == 0) continue;
            if (now < p->due_s && !rank->drain) break;
            rank->delayed--;
            LUO_TRY(host_begin_sends(rank, p));
        }
    return LUO_OK;
}

/* The time this rank was held up counts as communication, but waiting for what the stage before
 * has not made yet is the pipeline's bubble. Times since the start of the step. */
static luo_status hold(luo_rank *rank, const host_op *op, double from, double to)
{
    if (op->comm->b->awaits) return LUO_OK;
    rank->use[op->b->instr->id].exposed_s += to - from;
    return luo_ledger_add(&rank->ledger, luo_part_of(op->b->instr), from, to, op->b->instr->id);
}

static luo_status begin(luo_rank *rank, host_pending *pending)
{
    pending->begun = true;
    pending->start_s = host_now() - rank->start_s;
    LUO_TRY(host_begin(rank, pending));
    rank->delayed += pending->due_s > 0;
    return hold(rank, pending->op, pending->start_s, host_now() - rank->start_s);
}

/* The last call of p's communicator that was submitted before p and queues yet; 0: there is none.
 * On a communicator all ranks begin in the order of issue. */
static int64_t queues_before(const luo_rank *rank, const host_pending *p)
{
    int64_t last = 0;
    if (p->op->b->instr->kind != LUO_INSTR_COLLECTIVE) return 0; /* messages have tags */
    for (int32_t l = 0; l < LUO_LANES; l++) {
        host_lane *lane = &rank->job->lane[l];
        for (int32_t i = 0; i < lane->n; i++) {
            const host_pending *q = pending(lane, i);
            const bool before = q->ticket >> LANE_BITS < p->ticket >> LANE_BITS;
            if (before && !q->begun && q->op->b->instr->kind == LUO_INSTR_COLLECTIVE &&
                q->op->comm->comm == p->op->comm->comm && q->ticket > last)
                last = q->ticket;
        }
    }
    return last;
}

/* Begins the first of a lane if nothing that it comes behind is under way any more. */
static luo_status begin_first(luo_rank *rank, host_lane *lane)
{
    host_pending *p = pending(lane, 0);
    if (p->begun || queues_before(rank, p)) return LUO_OK;
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (rank->job->lane[l].n > 0 && rank->job->lane[l].done < p->after[l]) return LUO_OK;
    return begin(rank, p);
}

static luo_status finish_first(luo_rank *rank, host_lane *lane);

/* The first of a lane is done, and nobody waits for it who would end it: it is a call that runs
 * beside tasks, or one queues behind it. */
static bool ends_here(host_lane *lane)
{
    const host_pending *p = pending(lane, 0);
    const bool awaited = lane->n > 1 && !pending(lane, 1)->begun;
    return p->done_s > 0 && !lane->finishing && (p->op->comm->b->beside || awaited);
}

static luo_status progress_lane(luo_rank *rank, host_lane *lane)
{
    for (int32_t i = 0; i < lane->n; i++) {
        if (i == 0) LUO_TRY(begin_first(rank, lane));
        host_pending *p = pending(lane, i);
        int done = 0;
        if (!p->begun || p->due_s > 0) return LUO_OK;
        if (p->done_s == 0) {
            LUO_TRY(host_mpi(&rank->err,
                             MPI_Testall(p->op->comm->nreq, p->req, &done, MPI_STATUSES_IGNORE),
                             "a transfer"));
            if (!done) return LUO_OK;
            p->done_s = host_now() - rank->start_s;
        }
        if (i > 0 || !ends_here(lane)) continue;
        LUO_TRY(finish_first(rank, lane));
        i--;
    }
    return LUO_OK;
}

/* MPI moves messages only inside its calls. What has come is noticed here, for the records; it is
 * unpacked in its turn, but where a queue goes on behind it. */
luo_status host_progress(luo_rank *rank)
{
    LUO_TRY(send_due(rank));
    for (int32_t l = 0; l < LUO_LANES; l++) LUO_TRY(progress_lane(rank, &rank->job->lane[l]));
    return LUO_OK;
}

/* ---- waiting ---- */

static void pause_after(const luo_exec *exec, double waited_s)
{
    const double spin_s = exec->spins ? 100e-3 : 50e-6, least_s = 20e-6, most_s = 500e-6;
    if (waited_s < spin_s) {
        sched_yield();
        return;
    }
    double s = waited_s / 8;
    s = s < least_s ? least_s : s > most_s ? most_s : s;
    nanosleep(&(struct timespec){0, (long)(s * 1e9)}, NULL);
}

static void say_waiting(luo_exec *exec, bool waiting)
{
    if (exec->config.where) atomic_store(&exec->config.where->waiting, waiting);
}

static luo_status wait_for(luo_exec *exec, luo_rank *who, int n, MPI_Request *req, luo_err *err)
{
    const double began = host_now();
    for (double now = began;; now = host_now()) {
        int done = 0;
        if (who) host_look(who);
        if (who) LUO_TRY(host_progress(who)); /* a peer may wait for what queues here */
        pause_after(exec, now - began);
        LUO_TRY(host_mpi(err, MPI_Testall(n, req, &done, MPI_STATUSES_IGNORE), "a wait"));
        if (done) return LUO_OK;
    }
}

luo_status host_wait(luo_exec *exec, luo_rank *who, int n, MPI_Request *req, luo_err *err)
{
    int done = 0;
    LUO_TRY(host_mpi(err, MPI_Testall(n, req, &done, MPI_STATUSES_IGNORE), "a wait"));
    if (done) return LUO_OK;
    say_waiting(exec, true);
    const luo_status st = wait_for(exec, who, n, req, err);
    say_waiting(exec, false);
    return st;
}

/* Until the sends of pending are begun. */
static luo_status wait_due(luo_rank *rank, const host_pending *pending)
{
    luo_status st = LUO_OK;
    say_waiting(rank->x, true);
    for (const double began = host_now(); st == LUO_OK && pending->due_s > 0;) {
        host_look(rank);
        st = host_progress(rank);
        if (st == LUO_OK && pending->due_s > 0) pause_after(rank->x, host_now() - began);
    }
    say_waiting(rank->x, false);
    return st;
}

/* ---- one at a time ---- */

static void book(luo_rank *rank, const host_pending *pending, double there)
{
    const luo_instr *instr = pending->op->b->instr;
    luo_comm_use *use = &rank->use[instr->id];
    use->calls++;
    use->bytes += instr->bytes;
    use->busy_s += there - pending->start_s;
    host_record_times(rank, pending->record, pending->start_s, there);
}

static void put_latest(int64_t *after, int64_t ticket)
{
    int64_t *at = &after[ticket & ((1 << LANE_BITS) - 1)];
    if (*at < ticket >> LANE_BITS) *at = ticket >> LANE_BITS;
}

static luo_status finish_each(luo_rank *rank, const int64_t *after)
{
    for (int32_t l = 0; l < LUO_LANES; l++)
        if (after[l]) LUO_TRY(host_finish(rank, after[l] << LANE_BITS | l));
    return LUO_OK;
}

/* It begins now, if it has not. */
static luo_status end_queueing(luo_rank *rank, host_lane *lane)
{
    const host_pending *p = pending(lane, 0);
    if (!p->begun) LUO_TRY(finish_each(rank, p->after));
    for (int64_t t; !p->begun && (t = queues_before(rank, p)) != 0;) LUO_TRY(host_finish(rank, t));
    return begin_first(rank, lane);
}

static luo_status finish_first(luo_rank *rank, host_lane *lane)
{
    host_pending *p = pending(lane, 0);
    luo_progress_report *report = rank->x->config.where;
    if (report) {
        atomic_store(&report->task, p->task);
        atomic_store(&report->instr, p->op->b->instr->id);
    }
    const double began = host_now() - rank->start_s;
    lane->finishing = true;
    LUO_TRY(end_queueing(rank, lane));
    if (p->due_s > 0) LUO_TRY(wait_due(rank, p));
    LUO_TRY(host_wait(rank->x, rank, p->op->comm->nreq, p->req, &rank->err));
    host_arrived(rank, p);
    lane->finishing = false;
    if (p->op->b->is_loss) host_keep_loss(rank, p->op->b, p->task);
    const double end = host_now() - rank->start_s;
    book(rank, p, p->done_s > 0 ? p->done_s : end);
    lane->first = (lane->first + 1) % lane->cap;
    lane->n--;
    lane->done = p->ticket >> LANE_BITS;
    if (report) atomic_fetch_add(&report->done, 1);
    return hold(rank, p->op, began, end);
}

luo_status host_finish(luo_rank *rank, int64_t ticket)
{
    host_lane *lane = &rank->job->lane[ticket & ((1 << LANE_BITS) - 1)];
    while (lane->n > 0 && lane->done < ticket >> LANE_BITS) LUO_TRY(finish_first(rank, lane));
    return LUO_OK;
}

luo_status host_finish_task(luo_rank *rank)
{
    for (int32_t l = 0; l < LUO_LANES; l++) LUO_TRY(host_finish(rank, rank->job->lane[l].must));
    return LUO_OK;
}

luo_status host_finish_all(luo_rank *rank)
{
    for (int32_t l = 0; l < LUO_LANES; l++)
        while (rank->job->lane[l].n > 0) LUO_TRY(finish_first(rank, &rank->job->lane[l]));
    return LUO_OK;
}

/* after: per lane the last ticket that the instruction comes behind; 0: none. */
static void find_before(const luo_rank *rank, const host_op *op, const luo_issue *issue,
                        int64_t *after)
{
    const int32_t id = op->b->instr->id;
    for (int32_t i = 0; i < issue->ndep; i++) put_latest(after, issue->dep[i]);
    for (int32_t k = op->comm ? op->b->comm->route.first : id; k < id; k++) {
        const host_comm *before = rank->job->op[k].comm;
        if (!before->b->outlives) put_latest(after, before->latest);
    }
}

luo_status host_settle(luo_rank *rank, const host_op *op, const luo_issue *issue)
{
    int64_t after[LUO_LANES] = {0};
    find_before(rank, op, issue, after);
    return finish_each(rank, after);
}

/* The next of its lane, and the memory of its messages. */
static luo_status take_place(luo_rank *rank, const host_op *op, const luo_issue *issue,
                             host_pending **out)
{
    host_lane *lane = &rank->job->lane[op->b->lane];
    host_comm *comm = op->comm;
    const bool alone = keeps_order_by_waiting(op->b->lane) && !comm->b->beside;
    while (lane->n > 0 && (alone || lane->n == lane->cap)) LUO_TRY(finish_first(rank, lane));
    const bool ahead = comm->b->ahead;
    const int32_t copy =
        ahead ? luo_bound_room(issue->task) : (int32_t)(comm->uses++ % comm->deep);
    LUO_TRY(host_finish(rank, comm->ticket_of[copy])); /* its memory may still be sent from */
    host_pending *p = *out = pending(lane, lane->n);
    *p = (host_pending){.ticket = ++rank->tickets << LANE_BITS | op->b->lane,
                        .op = op,
                        .task = issue->task,
                        .copy = copy,
                        .record = host_record(rank, issue->task, op->b->instr->id),
                        .req = p->req};
    comm->ticket_of[copy] = p->ticket;
    lane->n++;
    if (ahead && issue->task != rank->task) return LUO_OK; /* host_turn */
    comm->latest = p->ticket;
    if (!comm->b->outlives && !comm->b->beside) lane->must = p->ticket;
    return LUO_OK;
}

void host_turn(luo_rank *rank, int32_t task)
{
    luo_job *job = rank->job;
    const luo_segment *segment = &job->b.role->seg[job->b.program->tasks[task].seg];
    for (int32_t i = segment->first; i < segment->first + segment->n; i++) {
        host_comm *comm = job->op[i].comm;
        if (!comm || !comm->b->ahead) continue;
        comm->latest = comm->ticket_of[luo_bound_room(task)];
        job->lane[job->op[i].b->lane].must = comm->latest;
    }
}

luo_status host_start(luo_rank *rank, const host_op *op, const luo_issue *issue, int64_t *ticket)
{
    host_lane *lane = &rank->job->lane[op->b->lane];
    host_pending *pending;
    LUO_TRY(take_place(rank, op, issue, &pending));
    *ticket = pending->ticket;
    if (!op->comm->b->beside) {
        for (int64_t t; (t = queues_before(rank, pending)) != 0;) LUO_TRY(host_finish(rank, t));
        return pending->begun ? LUO_OK : begin(rank, pending); /* it may have, meanwhile */
    }
    find_before(rank, op, issue, pending->after);
    return begin_first(rank, lane);
}
