/* thread.c: CPU ranks: one thread computes and communicates.
 *
 * The thread takes the instructions in order of issue and comes to the next when work is done, or
 * communication begun; it begins nothing before what that waits for is done. What is begun moves
 * only while the thread waits: there is no progress thread. A collective moves while all its
 * members wait, a message while its receiver does, who copies it; they do nothing else meanwhile.
 * What moves takes a core per thread, so ranks beside it feel it: also being woken and finding cold
 * caches is time of a core. A thread that only waits takes no core. */
#include <math.h>

#include "sim/step/step.h"

/* ---- the thread ---- */

static void go_on(luo_rank *r)
{
    while (r->next && r->next->ready && !r->busy && !r->step->stopped) {
        sim_job *job = r->next;
        r->next = job->after;
        job->start = fmax(job->start, sim_now(r->step));
        if (job->op->what == SIM_WORK) r->work = job;
        r->busy = r->work != NULL;
        sim_job_start(job);
    }
}

void sim_thread_ready(sim_job *job)
{
    job->ready = true;
    go_on(job->rank);
}

void sim_thread_done(luo_rank *r)
{
    r->work = NULL;
    r->busy = false;
    go_on(r);
}

/* It has come to something that it has to wait for, or to the end. */
static bool waits(const luo_rank *r)
{
    return !r->busy && !(r->next && r->next->ready) && (r->blocked || r->finished);
}

/* ---- what threads carry ---- */

/* The receiver of a message has begun to. */
static const sim_mail *awaited(const sim_step *s, const sim_talk *t)
{
    for (const sim_mail *m = s->mail[t->post->channel]; m; m = m->next)
        if (m->receiver && m->micro_batch == t->job->micro_batch && m->round == t->job->round)
            return m;
    return NULL;
}

static void begin(sim_talk *t)
{
    sim_step *s = t->step;
    const sim_mail *receive = t->gather ? NULL : awaited(s, t);
    t->asked = receive ? fmax(t->start, receive->receiver->start) : t->start;
    int32_t broken = -1;
    const double nominal = (t->traffic->fixed_s + t->traffic->spread_s) * t->factor;
    t->start = fmax(t->start, sim_now(s));
    t->extra_s = sim_closed_end(s, t->traffic, t->start, 0, t->factor, &broken) - t->start;
    if (broken >= 0) {
        sim_break_at(s, t->start + t->extra_s, broken);
        return;
    }
    t->extra_s = fmax(0, t->extra_s - nominal);
    s->runs[t->traffic - s->net->traffics]++;
    t->left = t->traffic->nthreads;
    for (int32_t i = 0; i < t->traffic->nthreads; i++)
        sim_transfer_new(s, (sim_transfer){.talk = t, .edge = i, .broken = -1});
}

/* The i-th of the threads that have to wait for it. */
static luo_rank *member(const sim_talk *t, int32_t i)
{
    const sim_rendezvous *m = t->gather ? t->gather->rendezvous : NULL;
    return &t->step->ranks[m ? m->class[i] : t->traffic->thread[i]];
}

static int32_t members(const sim_talk *t)
{
    return t->gather ? t->gather->rendezvous->nclasses : t->traffic->nthreads;
}

static void end(sim_talk *t)
{
    sim_step *s = t->step;
    const double now = sim_now(s);
    const bool last = !t->gather || t->gather->round + 1 == t->gather->jobs->cross->ntraffics;
    sim_wires_busy(s, t->traffic, now - t->start);
    s->driver_here = true;
    for (int32_t i = 0; last && i < members(t); i++) member(t, i)->busy = false;
    if (t->gather) {
        sim_gather_done(t->gather, t->asked, now);
    } else {
        sim_transfer done = {.job = t->job, .post = t->post, .moved_s = t->asked};
        sim_message_done(&done, now);
    }
    for (int32_t i = 0; last && i < members(t); i++) go_on(member(t, i));
    sim_jobs_start(s);
    s->driver_here = false;
}

void sim_talk_drive(sim_transfer *part)
{
    sim_talk *t = part->talk;
    sim_step *s = t->step;
    sim_sleep_until(s, t->start + t->extra_s);
    luo_rank *r = &s->ranks[t->traffic->thread[part->edge]];
    const luo_status st = sim_run_execution(r, NULL, t->traffic->work_s * t->factor);
    if (st != LUO_OK && !s->stopped) sim_step_fail(s, st, r->class->program->device, -1);
    if (--t->left == 0 && !s->stopped) end(t);
}

/* ---- those that wait for threads ---- */

static bool can_start(const sim_step *s, const sim_talk *t)
{
    for (int32_t i = 0; i < members(t); i++)
        if (!waits(member(t, i))) return false;
    return t->gather || awaited(s, t);
}

bool sim_talk_start(sim_step *s)
{
    sim_talk *before = NULL, *t = s->talks;
    while (t && !can_start(s, t)) {
        before = t;
        t = t->next;
    }
    if (!t || s->stopped) return false;
    if (before)
        before->next = t->next;
    else
        s->talks = t->next;
    if (s->talks_last == t) s->talks_last = before;
    for (int32_t i = 0; i < members(t); i++) member(t, i)->busy = true;
    begin(t); /* other actors may run in here */
    return true;
}

static sim_talk *add(sim_step *s, sim_talk want)
{
    sim_talk *t = LUO_NEW(s->arena, sim_talk);
    if (!t) {
        sim_step_fail(s, LUO_ENOMEM, -1, -1);
        return NULL;
    }
    *t = want;
    return t;
}

static void append(sim_step *s, sim_talk *t)
{
    if (s->talks_last)
        s->talks_last->next = t;
    else
        s->talks = t;
    s->talks_last = t;
}

void sim_talk_gather(sim_step *s, sim_gather *g, const sim_traffic *traffic, double start)
{
    sim_talk *t = add(
        s, (sim_talk){
               .step = s, .traffic = traffic, .start = start, .factor = g->factor, .gather = g});
    if (t && g->round > 0)
        begin(t); /* its threads are at it already */
    else if (t)
        append(s, t);
}

void sim_talk_message(sim_step *s, sim_job *job, const sim_post *post)
{
    sim_talk *t = add(s, (sim_talk){.step = s,
                                    .traffic = &s->net->traffics[post->traffic],
                                    .start = job->start,
                                    .factor = job->factor,
                                    .job = job,
                                    .post = post});
    if (t) append(s, t);
}
