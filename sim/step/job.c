/* job.c: instructions that reach other classes: when they start, whom they meet, when they end.
 *
 * Nothing here blocks. What becomes ready is put in a list and worked off in order, so that a long
 * chain of jobs needs no deep stack. */
#include <math.h>

#include "sim/step/step.h"

static luo_status add_edge(sim_step *s, sim_job *from, sim_job *to)
{
    sim_edge *e = s->free_edges;
    if (e) s->free_edges = e->next;
    else e = LUO_NEW(s->arena, sim_edge);
    if (!e) return LUO_ENOMEM;
    *e = (sim_edge){to, from->dependents};
    from->dependents = e;
    to->waits++;
    return LUO_OK;
}

static void push_todo(sim_step *s, sim_job *job)
{
    if (s->todo_last) s->todo_last->next_todo = job;
    else s->todo = job;
    s->todo_last = job;
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
    luo_rank *r = job->rank;
    if (!r->step->trace || !tells(job)) return LUO_OK;
    job->records = LUO_NEW_N(r->step->arena, sim_record *, r->npaces);
    if (!job->records) return LUO_ENOMEM;
    for (int32_t k = 0; k < r->npaces; k++) {
        job->records[k] = sim_record_new(r, &r->paces[k], job->task, job->instr->id);
        if (!job->records[k]) return LUO_ENOMEM;
    }
    return LUO_OK;
}

/* In the stream: behind its last job, and behind what the clock says was done there. */
static luo_status enqueue(luo_rank *r, sim_job *job)
{
    sim_job *tail = r->tail[job->op->fifo];
    /* A thread begins a message though those before it in the class are under way. */
    const bool free = r->class->thread && job->op->what == SIM_MAIL;
    if (!free) job->start = fmax(job->start, r->clock[job->op->fifo]);
    for (int32_t k = 0; job->op->fifo == LUO_STREAM_COMPUTE && k < r->npaces; k++)
        if (job->op->what >= SIM_INSIDE) job->start = fmax(job->start, r->paces[k].clock);
    if (tail && !free) LUO_TRY(add_edge(r->step, tail, job));
    r->tail[job->op->fifo] = job;
    if (!r->next) r->next = job;
    job->before = r->last_job;
    if (r->last_job) r->last_job->after = job;
    else r->first_job = job;
    r->last_job = job;
    r->open_jobs++;
    return LUO_OK;
}

static sim_job *take_job(sim_step *s)
{
    sim_job *job = s->free_jobs;
    if (job) s->free_jobs = job->next_todo;
    else job = luo_arena_alloc(s->arena, sizeof *job);
    return job;
}

const sim_cell *sim_job_new(luo_rank *r, const luo_issue *issue, const sim_op *op, double factor,
                            double ready)
{
    sim_step *s = r->step;
    sim_job *job = take_job(s);
    sim_cell *cell = luo_arena_alloc(s->arena, sizeof *cell);
    if (!job || !cell) return NULL;
    *cell = (sim_cell){0, job};
    *job = (sim_job){.rank = r, .cell = cell, .instr = issue->instr, .op = op,
                     .cross = op->cross >= 0 ? &r->class->cross[op->cross] : NULL,
                     .task = issue->task, .micro_batch = issue->micro_batch, .round = r->round,
                     .start = ready, .factor = factor, .moved_s = HUGE_VAL};
    if (enqueue(r, job) != LUO_OK || make_records(job) != LUO_OK) return NULL;
    for (int32_t i = 0; i < issue->ndep; i++)
        if (depend(job, issue->dep[i]) != LUO_OK) return NULL;
    if (job->waits == 0) {
        push_todo(s, job);
        sim_jobs_start(s);
    }
    return cell;
}

/* ---- the end of a job ---- */

/* What a thread waits for in a collective is communication, the others' being late included; what
 * it waits for in a message is the other end. */
static luo_status book(sim_job *job)
{
    luo_rank *r = job->rank;
    sim_tally *tally = &r->tally[job->instr->id];
    if (job->op->what < SIM_MEET || !tells(job)) return LUO_OK; /* has been */
    const double from = r->class->thread ? fmin(job->start, job->moved_e) : job->moved_s;
    tally->calls++;
    tally->busy_s += job->moved_e - from;
    for (int32_t k = 0; k < r->npaces; k++) {
        if (!r->class->thread || job->op->what != SIM_MAIL)
            LUO_TRY(luo_ledger_add(&r->paces[k].ledger, (luo_part)job->op->part, from - r->base,
                               job->moved_e - r->base, job->instr->id));
        if (!job->records) continue;
        job->records[k]->start = job->moved_s;
        job->records[k]->end = job->moved_e;
    }
    return LUO_OK;
}

static void release(sim_job *job)
{
    luo_rank *r = job->rank;
    if (job->before) job->before->after = job->after;
    else r->first_job = job->after;
    if (job->after) job->after->before = job->before;
    else r->last_job = job->before;
    if (r->tail[job->op->fifo] == job) r->tail[job->op->fifo] = NULL;
    r->open_jobs--;
    const bool room = !r->waiting_for && r->open_jobs <= r->jobs_max - r->jobs_max / 4;
    if (r->waiting_for == job || room) sim_rank_wake(r);
    job->next_todo = r->step->free_jobs;
    r->step->free_jobs = job;
}

static void note_end(const sim_job *job)
{
    luo_rank *r = job->rank;
    double *at = &r->end;
    if (job->instr->beside) at = job->round == r->round ? &r->check_s : &r->last_check_s;
    *at = fmax(*at, job->end);
}

static void finish(sim_job *job, double end)
{
    luo_rank *r = job->rank;
    sim_step *s = r->step;
    job->moved_e = end;
    job->moved_s = fmin(job->moved_s, end);
    job->end = fmax(end, job->start); /* what came before it was asked for is there at once */
    *job->cell = (sim_cell){job->end, NULL};
    r->clock[job->op->fifo] = fmax(r->clock[job->op->fifo], job->end);
    note_end(job);
    if (book(job) != LUO_OK) sim_step_fail(s, LUO_ENOMEM, -1, -1);
    for (sim_edge *e = job->dependents, *next; e; e = next) {
        next = e->next;
        e->job->start = fmax(e->job->start, job->end);
        if (--e->job->waits == 0) push_todo(s, e->job);
        e->next = s->free_edges;
        s->free_edges = e;
    }
    release(job);
}

/* ---- collectives ---- */

static sim_gather *find_gather(sim_step *s, const sim_job *job)
{
    sim_gather **at = &s->gathers[job->cross->rendezvous];
    for (; *at; at = &(*at)->next)
        if ((*at)->micro_batch == job->micro_batch && (*at)->of_round == job->round) return *at;
    sim_gather *g = LUO_NEW(s->arena, sim_gather);
    if (!g) return NULL;
    g->rendezvous = &s->net->rendezvous_of[job->cross->rendezvous];
    g->micro_batch = job->micro_batch;
    g->of_round = job->round;
    *at = g;
    return g;
}

static void forget(sim_step *s, int32_t rendezvous, sim_gather *g)
{
    sim_gather **at = &s->gathers[rendezvous];
    while (*at != g) at = &(*at)->next;
    *at = g->next;
}

void sim_transfer_new(sim_step *s, sim_transfer want)
{
    sim_transfer *t = s->free_transfers;
    if (t) s->free_transfers = t->next;
    else t = luo_arena_alloc(s->arena, sizeof *t);
    if (!t) {
        sim_step_fail(s, LUO_ENOMEM, -1, -1);
        return;
    }
    *t = want;
    sim_transfer_begin(s, t);
}

static void begin_round(sim_step *s, sim_gather *g, double start)
{
    const sim_traffic *traffic = &s->net->traffics[g->jobs->cross->traffic[g->round]];
    const bool steps = s->net->config->comm == LUO_COMM_MESSAGE && traffic->ring > 0;
    if (steps && traffic->nthreads == 0) s->flow_instead += traffic->ring > SIM_MESSAGE_MAX;
    if (traffic->nthreads > 0)
        sim_talk_gather(s, g, traffic, start);
    else if (steps && traffic->ring <= SIM_MESSAGE_MAX)
        sim_ring_begin(s, g, traffic, start);
    else
        sim_transfer_new(s, (sim_transfer){.traffic = traffic, .start = start, .factor = g->factor,
                                         .hops = traffic->hops, .gather = g, .broken = -1});
}

void sim_gather_done(sim_gather *g, double start, double end)
{
    sim_step *s = g->jobs->rank->step;
    if (g->round == 0) g->start = start;
    if (++g->round < g->jobs->cross->ntraffics) {
        begin_round(s, g, end);
        return;
    }
    for (sim_job *job = g->jobs, *next; job; job = next) {
        next = job->next_gathered;
        job->moved_s = g->start;
        finish(job, end);
    }
    sim_jobs_start(s);
}

/* Noise of a collective: that of its first class. */
static double factor_of(const sim_gather *g)
{
    const sim_job *first = g->jobs;
    for (const sim_job *job = g->jobs; job; job = job->next_gathered)
        if (job->rank->index < first->rank->index) first = job;
    return first->factor;
}

static void arrive(sim_step *s, sim_job *job)
{
    sim_gather *g = find_gather(s, job);
    if (!g) {
        sim_step_fail(s, LUO_ENOMEM, -1, -1);
        return;
    }
    if (g->jobs && (g->jobs->instr->bytes != job->instr->bytes ||
                    g->jobs->instr->coll != job->instr->coll)) {
        g->mismatch = true; /* a real library would hang or worse; here it hangs */
        if (!s->mismatch) {
            s->mismatch = job;
            s->mismatch_peer = g->jobs->rank->class->program->device;
        }
    }
    job->next_gathered = g->jobs;
    g->jobs = job;
    g->start = fmax(g->start, job->start);
    if (++g->narrived < g->rendezvous->nclasses || g->rendezvous->missing_device >= 0 ||
        g->mismatch)
        return;
    forget(s, job->cross->rendezvous, g);
    g->factor = factor_of(g);
    begin_round(s, g, g->start);
}

/* ---- messages ---- */

static void part_done(sim_job *job, double from, double at)
{
    job->moved_s = fmin(job->moved_s, from);
    job->end = fmax(job->end, at);
    if (--job->open == 0) finish(job, job->end);
}

/* The receiver of a message of another size than it expects. */
static void mismatch(sim_step *s, const sim_job *receiver, int32_t channel)
{
    if (s->mismatch) return;
    s->mismatch = receiver;
    s->mismatch_peer = s->net->channels[channel].src_device;
}

/* The entry of the other kind that this one belongs to, taken out of the list. */
static sim_mail *match(sim_step *s, int32_t channel, const sim_job *job, bool receiver)
{
    for (sim_mail **at = &s->mail[channel]; *at; at = &(*at)->next) {
        sim_mail *m = *at;
        if (m->micro_batch != job->micro_batch || m->round != job->round ||
            (m->receiver != NULL) != receiver)
            continue;
        *at = m->next;
        return m;
    }
    return NULL;
}

static void leave(sim_step *s, int32_t channel, sim_mail want)
{
    sim_mail **at = &s->mail[channel];
    while (*at) at = &(*at)->next;
    *at = LUO_NEW(s->arena, sim_mail);
    if (*at) **at = want;
    else sim_step_fail(s, LUO_ENOMEM, -1, -1);
}

static void receive(sim_step *s, sim_job *job, const sim_post *post)
{
    sim_mail *m = match(s, post->channel, job, false);
    if (!m)
        leave(s, post->channel,
              (sim_mail){job->micro_batch, job->round, post->bytes, job, 0, 0, NULL});
    else if (m->bytes != post->bytes) mismatch(s, job, post->channel);
    else part_done(job, m->from, m->at);
}

static void deliver(sim_step *s, const sim_job *from, const sim_post *post, double first,
                    double last)
{
    sim_mail *m = match(s, post->channel, from, true);
    if (!m)
        leave(s, post->channel,
              (sim_mail){from->micro_batch, from->round, post->bytes, NULL, first, last, NULL});
    else if (m->bytes != post->bytes) mismatch(s, m->receiver, post->channel);
    else part_done(m->receiver, first, last);
}

void sim_message_done(sim_transfer *t, double end)
{
    sim_step *s = t->job->rank->step;
    if (t->post) deliver(s, t->job, t->post, t->moved_s, end);
    part_done(t->job, t->moved_s, end);
    sim_jobs_start(s);
}

/* ---- work ---- */

void sim_execution_done(sim_job *job, double end)
{
    sim_step *s = job->rank->step;
    finish(job, end);
    if (job->rank->class->thread) sim_thread_done(job->rank);
    sim_jobs_start(s);
}

static void work(sim_step *s, sim_job *job)
{
    if (job->op->what == SIM_WORK && job->rank->class->exec) {
        sim_transfer_new(s, (sim_transfer){.execution = true, .job = job, .start = job->start,
                                         .broken = -1});
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
    else sim_step_fail(s, st, -1, -1);
}

/* Without a receiver a send does not end: with a real library it may, or may not. */
static void send(sim_step *s, sim_job *job, const sim_post *post)
{
    if (s->net->channels[post->channel].nreceive == 0 || post->traffic < 0) return;
    if (s->net->traffics[post->traffic].nthreads > 0) {
        sim_talk_message(s, job, post);
        return;
    }
    sim_transfer_new(s, (sim_transfer){.traffic = &s->net->traffics[post->traffic],
                                     .start = job->start, .factor = job->factor, .hops = 1,
                                     .job = job, .post = post, .broken = -1});
}

static void mail(sim_step *s, sim_job *job)
{
    const sim_cross *cross = job->cross; /* the job may be done, and used again, with the last */
    job->open = cross->nout + cross->nin;
    for (int32_t i = 0; i < cross->nout; i++) send(s, job, &cross->out[i]);
    for (int32_t i = 0; i < cross->nin; i++) receive(s, job, &cross->in[i]);
}

static void store(sim_step *s, sim_job *job)
{
    job->open = 1;
    sim_transfer_new(s, (sim_transfer){.traffic = &s->net->traffics[*job->cross->traffic],
                                     .start = job->start, .factor = job->factor, .hops = 1,
                                     .job = job, .broken = -1});
}

void sim_job_start(sim_job *job)
{
    sim_step *s = job->rank->step;
    job->issued = true;
    if (job->op->what < SIM_MEET) work(s, job);
    else if (job->op->what == SIM_MEET && job->cross->follows) finish(job, job->start);
    else if (job->op->what == SIM_MEET) arrive(s, job);
    else if (job->op->what == SIM_MAIL) mail(s, job);
    else store(s, job);
}

static void start_all(sim_step *s)
{
    while (s->todo && !s->stopped) {
        sim_job *job = s->todo;
        s->todo = job->next_todo;
        if (!s->todo) s->todo_last = NULL;
        if (job->rank->class->thread) sim_thread_ready(job);
        else sim_job_start(job);
    }
}

void sim_jobs_start(sim_step *s)
{
    if (s->pumping) return;
    s->pumping = true;
    do start_all(s);
    while (sim_talk_start(s)); /* others may have added to the list meanwhile */
    s->pumping = false;
}
