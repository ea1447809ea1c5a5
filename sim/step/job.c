/* job.c: instructions that reach other classes: when they start, whom they meet, when they end.
 *
 * Nothing here blocks. What becomes ready is put in a list and worked off in order, so that a long
 * chain of jobs needs no deep stack. */
#include <math.h>

#include "sim/step/beside.h"

static luo_status add_edge(sim_step *step, sim_job *from, sim_job *to)
{
    sim_edge *edge = step->free_edges;
    if (edge)
        step->free_edges = edge->next;
    else
        edge = LUO_NEW(step->arena, sim_edge);
    if (!edge) return LUO_ENOMEM;
    *edge = (sim_edge){to, from->dependents};
    from->dependents = edge;
    to->waits++;
    return LUO_OK;
}

static void push_todo(sim_step *step, sim_job *job)
{
    if (step->todo_last)
        step->todo_last->next_todo = job;
    else
        step->todo = job;
    step->todo_last = job;
}

static luo_status depend(sim_job *job, int64_t ticket)
{
    sim_job *on = sim_ticket_job(ticket);
    if (on) return add_edge(job->rank->step, on, job);
    job->start = fmax(job->start, sim_ticket_end(ticket));
    return LUO_OK;
}

/* Of the step that is told: the last round, but of what is beside, which is done in the round that
 * follows, the one before. */
static bool tells(const sim_job *job)
{
    return job->round == job->rank->step->rounds - 1 - (job->instr->beside ? 1 : 0);
}

/* Now, so that records stand in the order of issue. */
static luo_status make_records(sim_job *job)
{
    luo_rank *rank = job->rank;
    if (!rank->step->trace || !tells(job)) return LUO_OK;
    job->records = LUO_NEW_N(rank->step->arena, sim_record *, rank->npaces);
    if (!job->records) return LUO_ENOMEM;
    for (int32_t k = 0; k < rank->npaces; k++) {
        job->records[k] = sim_record_new(rank, &rank->paces[k], job->task, job->instr->id);
        if (!job->records[k]) return LUO_ENOMEM;
    }
    return LUO_OK;
}

/* In the stream: behind its last job, and behind what the clock says was done there. */
static luo_status enqueue(luo_rank *rank, sim_job *job)
{
    sim_job *tail = rank->tail[job->op->fifo];
    /* A thread begins a message though those before it in the class are under way. */
    const bool free = rank->class->thread && job->op->what == SIM_MAIL;
    if (!free) job->start = fmax(job->start, rank->clock[job->op->fifo]);
    for (int32_t k = 0; job->op->fifo == LUO_STREAM_COMPUTE && k < rank->npaces; k++)
        if (job->op->what >= SIM_INSIDE) job->start = fmax(job->start, rank->paces[k].clock);
    if (tail && !free) LUO_TRY(add_edge(rank->step, tail, job));
    rank->tail[job->op->fifo] = job;
    if (!rank->next) rank->next = job;
    job->before = rank->last_job;
    if (rank->last_job)
        rank->last_job->after = job;
    else
        rank->first_job = job;
    rank->last_job = job;
    rank->open_jobs++;
    return LUO_OK;
}

static sim_job *take_job(sim_step *step)
{
    sim_job *job = step->free_jobs;
    if (job)
        step->free_jobs = job->next_todo;
    else
        job = luo_arena_alloc(step->arena, sizeof *job);
    return job;
}

const sim_cell *sim_job_new(luo_rank *rank, const luo_issue *issue, const sim_op *op, double factor,
                            double ready)
{
    sim_step *step = rank->step;
    sim_job *job = take_job(step);
    sim_cell *cell = luo_arena_alloc(step->arena, sizeof *cell);
    if (!job || !cell) return NULL;
    *cell = (sim_cell){0, job};
    *job = (sim_job){.rank = rank,
                     .cell = cell,
                     .instr = issue->instr,
                     .op = op,
                     .cross = op->cross >= 0 ? &rank->class->cross[op->cross] : NULL,
                     .task = issue->task,
                     .micro_batch = issue->micro_batch,
                     .round = rank->round,
                     .start = ready,
                     .factor = factor,
                     .moved_s = HUGE_VAL,
                     .queues = rank->class->thread && step->net->config->stack->dp_overlap &&
                               luo_instr_runs_beside(rank->class->role, issue->instr)};
    sim_beside_issued(rank, op);
    if (enqueue(rank, job) != LUO_OK || make_records(job) != LUO_OK) return NULL;
    for (int32_t i = 0; i < issue->ndep; i++)
        if (depend(job, issue->dep[i]) != LUO_OK) return NULL;
    if (job->waits == 0) {
        push_todo(step, job);
        sim_jobs_start(step);
    }
    return cell;
}

/* ---- the end of a job ---- */

/* What a thread waits for in a collective is communication, the others' being late included; what
 * it waits for in a message is the other end. */
static luo_status book(sim_job *job)
{
    luo_rank *rank = job->rank;
    sim_tally *tally = &rank->tally[job->instr->id];
    if (job->op->what < SIM_MEET || !tells(job)) return LUO_OK; /* has been */
    const double from = rank->class->thread ? fmin(job->start, job->moved_e) : job->moved_s;
    tally->calls++;
    tally->busy_s += job->moved_e - from;
    for (int32_t k = 0; k < rank->npaces; k++) {
        if (!rank->class->thread || job->op->what != SIM_MAIL)
            LUO_TRY(luo_ledger_add(&rank->paces[k].ledger, (luo_part)job->op->part,
                                   from - rank->base, job->moved_e - rank->base, job->instr->id));
        if (!job->records) continue;
        job->records[k]->start = job->moved_s;
        job->records[k]->end = job->moved_e;
    }
    return LUO_OK;
}

static void release(sim_job *job)
{
    luo_rank *rank = job->rank;
    if (job->before) job->before->after = job->after;
    else
        rank->first_job = job->after;
    if (job->after) job->after->before = job->before;
    else
        rank->last_job = job->before;
    if (rank->tail[job->op->fifo] == job) rank->tail[job->op->fifo] = NULL;
    rank->open_jobs--;
    const bool room = !rank->waiting_for && rank->open_jobs <= rank->jobs_max - rank->jobs_max / 4;
    if (rank->waiting_for == job || room) sim_rank_wake(rank);
    job->next_todo = rank->step->free_jobs;
    rank->step->free_jobs = job;
}

static void note_end(const sim_job *job)
{
    luo_rank *rank = job->rank;
    double *at = &rank->end;
    if (job->instr->beside) at = job->round == rank->round ? &rank->check_s : &rank->last_check_s;
    *at = fmax(*at, job->end);
}

/* Of a call inside the class rank.c says when. */
static luo_status note_call(sim_job *job)
{
    if (job->op->loss > 0) job->rank->beside->open--;
    if (job->op->what < SIM_MEET) return LUO_OK;
    return sim_beside_called(job->rank, job->op, job->moved_s, job->moved_e);
}

static void finish(sim_job *job, double end)
{
    luo_rank *rank = job->rank;
    sim_step *step = rank->step;
    job->moved_e = end;
    job->moved_s = fmin(job->moved_s, end);
    job->end = fmax(end, job->start); /* what came before it was asked for is there at once */
    *job->cell = (sim_cell){job->end, NULL};
    rank->clock[job->op->fifo] = fmax(rank->clock[job->op->fifo], job->end);
    note_end(job);
    if (book(job) != LUO_OK || note_call(job) != LUO_OK)
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
    for (sim_edge *edge = job->dependents, *next; edge; edge = next) {
        next = edge->next;
        edge->job->start = fmax(edge->job->start, job->end);
        if (--edge->job->waits == 0) push_todo(step, edge->job);
        edge->next = step->free_edges;
        step->free_edges = edge;
    }
    release(job);
}

/* ---- collectives ---- */

static sim_gather *find_gather(sim_step *step, const sim_job *job)
{
    sim_gather **at = &step->gathers[job->cross->rendezvous];
    for (; *at; at = &(*at)->next)
        if ((*at)->micro_batch == job->micro_batch && (*at)->of_round == job->round) return *at;
    sim_gather *gather = LUO_NEW(step->arena, sim_gather);
    if (!gather) return NULL;
    gather->rendezvous = &step->net->rendezvous_of[job->cross->rendezvous];
    gather->micro_batch = job->micro_batch;
    gather->of_round = job->round;
    *at = gather;
    return gather;
}

static void forget(sim_step *step, int32_t rendezvous, sim_gather *gather)
{
    sim_gather **at = &step->gathers[rendezvous];
    while (*at != gather) at = &(*at)->next;
    *at = gather->next;
}

void sim_transfer_new(sim_step *step, sim_transfer want)
{
    sim_transfer *transfer = step->free_transfers;
    if (transfer)
        step->free_transfers = transfer->next;
    else
        transfer = luo_arena_alloc(step->arena, sizeof *transfer);
    if (!transfer) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return;
    }
    *transfer = want;
    sim_transfer_begin(step, transfer);
}

static void begin_round(sim_step *step, sim_gather *gather, double start)
{
    const sim_traffic *traffic = &step->net->traffics[gather->jobs->cross->traffic[gather->round]];
    const bool steps = sim_step_comm(step) == LUO_COMM_MESSAGE && traffic->ring > 0;
    if (steps && traffic->nthreads == 0) step->flow_instead += traffic->ring > SIM_MESSAGE_MAX;
    if (traffic->nthreads > 0)
        sim_talk_gather(step, gather, traffic, start);
    else if (steps && traffic->ring <= SIM_MESSAGE_MAX)
        sim_ring_begin(step, gather, traffic, start);
    else
        sim_transfer_new(step, (sim_transfer){.traffic = traffic,
                                              .start = start,
                                              .factor = gather->factor,
                                              .hops = traffic->hops,
                                              .gather = gather,
                                              .broken = -1});
}

void sim_gather_done(sim_gather *gather, double start, double end)
{
    sim_step *step = gather->jobs->rank->step;
    if (gather->round == 0) gather->start = start;
    if (++gather->round < gather->jobs->cross->ntraffics) {
        begin_round(step, gather, end);
        return;
    }
    for (sim_job *job = gather->jobs, *next; job; job = next) {
        next = job->next_gathered;
        job->moved_s = gather->start;
        finish(job, end);
    }
    sim_jobs_start(step);
}

/* Noise of a collective: that of its first class. */
static double factor_of(const sim_gather *gather)
{
    const sim_job *first = gather->jobs;
    for (const sim_job *job = gather->jobs; job; job = job->next_gathered)
        if (job->rank->index < first->rank->index) first = job;
    return first->factor;
}

static void arrive(sim_step *step, sim_job *job)
{
    sim_gather *gather = find_gather(step, job);
    if (!gather) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return;
    }
    if (gather->jobs && (gather->jobs->instr->bytes != job->instr->bytes ||
                         gather->jobs->instr->coll != job->instr->coll)) {
        gather->mismatch = true; /* a real library would hang or worse; here it hangs */
        if (!step->mismatch) {
            step->mismatch = job;
            step->mismatch_peer = gather->jobs->rank->class->program->device;
        }
    }
    job->next_gathered = gather->jobs;
    gather->jobs = job;
    gather->start = fmax(gather->start, job->start);
    if (++gather->narrived < gather->rendezvous->nclasses ||
        gather->rendezvous->missing_device >= 0 || gather->mismatch)
        return;
    forget(step, job->cross->rendezvous, gather);
    gather->factor = factor_of(gather);
    begin_round(step, gather, gather->start);
}

/* ---- messages ---- */

static void part_done(sim_job *job, double from, double at)
{
    job->moved_s = fmin(job->moved_s, from);
    job->end = fmax(job->end, at);
    if (--job->open == 0) finish(job, job->end);
}

/* The receiver of a message of another size than it expects. */
static void mismatch(sim_step *step, const sim_job *receiver, int32_t channel)
{
    if (step->mismatch) return;
    step->mismatch = receiver;
    step->mismatch_peer = step->net->channels[channel].src_device;
}

/* The entry of the other kind that this one belongs to, taken out of the list. */
static sim_mail *match(sim_step *step, int32_t channel, const sim_job *job, bool receiver)
{
    for (sim_mail **at = &step->mail[channel]; *at; at = &(*at)->next) {
        sim_mail *mail = *at;
        if (mail->micro_batch != job->micro_batch || mail->round != job->round ||
            (mail->receiver != NULL) != receiver)
            continue;
        *at = mail->next;
        return mail;
    }
    return NULL;
}

static void leave(sim_step *step, int32_t channel, sim_mail want)
{
    sim_mail **at = &step->mail[channel];
    while (*at) at = &(*at)->next;
    *at = LUO_NEW(step->arena, sim_mail);
    if (*at) **at = want;
    else
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
}

static void receive(sim_step *step, sim_job *job, const sim_post *post)
{
    sim_mail *mail = match(step, post->channel, job, false);
    if (!mail)
        leave(step, post->channel,
              (sim_mail){job->micro_batch, job->round, post->bytes, job, 0, 0, NULL});
    else if (mail->bytes != post->bytes)
        mismatch(step, job, post->channel);
    else
        part_done(job, mail->from, mail->at);
}

static void deliver(sim_step *step, const sim_job *from, const sim_post *post, double first,
                    double last)
{
    sim_mail *mail = match(step, post->channel, from, true);
    if (!mail)
        leave(step, post->channel,
              (sim_mail){from->micro_batch, from->round, post->bytes, NULL, first, last, NULL});
    else if (mail->bytes != post->bytes)
        mismatch(step, mail->receiver, post->channel);
    else
        part_done(mail->receiver, first, last);
}

void sim_message_done(sim_transfer *transfer, double end)
{
    sim_step *step = transfer->job->rank->step;
    if (transfer->post) deliver(step, transfer->job, transfer->post, transfer->moved_s, end);
    part_done(transfer->job, transfer->moved_s, end);
    sim_jobs_start(step);
}

/* ---- work ---- */

void sim_execution_done(sim_job *job, double end)
{
    sim_step *step = job->rank->step;
    finish(job, end);
    if (job->rank->class->thread) sim_thread_done(job->rank);
    sim_jobs_start(step);
}

static void work(sim_step *step, sim_job *job)
{
    if (job->op->what == SIM_WORK && job->rank->class->exec) {
        sim_transfer_new(
            step, (sim_transfer){.execution = true, .job = job, .start = job->start, .broken = -1});
        return;
    }
    double end = 0;
    const bool told = job->rank->told;
    job->rank->records = job->records;
    job->rank->told = tells(job);
    const luo_status st =
        sim_work_here(job->rank, job->task, job->instr, job->op, job->start, &end);
    job->rank->records = NULL;
    job->rank->told = told;
    if (st == LUO_OK) finish(job, end);
    else
        sim_step_fail(step, st, -1, -1);
}

/* Without a receiver a send does not end: with a real library it may, or may not. */
static void send(sim_step *step, sim_job *job, const sim_post *post)
{
    if (step->net->channels[post->channel].nreceive == 0 || post->traffic < 0) return;
    if (step->net->traffics[post->traffic].nthreads > 0) {
        sim_talk_message(step, job, post);
        return;
    }
    sim_transfer_new(step, (sim_transfer){.traffic = &step->net->traffics[post->traffic],
                                          .start = job->start,
                                          .factor = job->factor,
                                          .hops = 1,
                                          .job = job,
                                          .post = post,
                                          .broken = -1});
}

static void mail(sim_step *step, sim_job *job)
{
    const sim_cross *cross = job->cross; /* the job may be done, and used again, with the last */
    job->open = cross->nout + cross->nin;
    for (int32_t i = 0; i < cross->nout; i++) send(step, job, &cross->out[i]);
    for (int32_t i = 0; i < cross->nin; i++) receive(step, job, &cross->in[i]);
}

static void store(sim_step *step, sim_job *job)
{
    job->open = 1;
    sim_transfer_new(step, (sim_transfer){.traffic = &step->net->traffics[*job->cross->traffic],
                                          .start = job->start,
                                          .factor = job->factor,
                                          .hops = 1,
                                          .job = job,
                                          .broken = -1});
}

void sim_job_start(sim_job *job)
{
    sim_step *step = job->rank->step;
    job->issued = true;
    if (job->op->what < SIM_MEET)
        work(step, job);
    else if (job->op->what == SIM_MEET && job->cross->follows) finish(job, job->start);
    else if (job->op->what == SIM_MEET)
        arrive(step, job);
    else if (job->op->what == SIM_MAIL)
        mail(step, job);
    else
        store(step, job);
}

static void start_all(sim_step *step)
{
    while (step->todo && !step->stopped) {
        sim_job *job = step->todo;
        step->todo = job->next_todo;
        if (!step->todo) step->todo_last = NULL;
        if (job->rank->class->thread) sim_thread_ready(job);
        else sim_job_start(job);
    }
}

void sim_jobs_start(sim_step *step)
{
    if (step->pumping) return;
    step->pumping = true;
    do start_all(step);
    while (sim_talk_start(step)); /* others may have added to the list meanwhile */
    step->pumping = false;
}
