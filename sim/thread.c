/* sim/thread.c: CPU ranks: one thread computes and communicates.
 *
 * The thread takes the instructions in order of issue. What it posts on the way moves only while it
 * waits: there is no progress thread. A collective moves while all its members wait, a message while
 * its receiver does, who copies it; they do nothing else meanwhile. What moves takes no core until
 * the least time is over that any size takes (somebody has to be woken), then a core per thread, so
 * ranks beside it feel it. A thread that only waits takes no core. */
#include <math.h>

#include "sim/step.h"

/* ---- work ---- */

static void start_work(sim_job *job)
{
    job->rank->busy = true;
    sim_transfer_new(job->rank->step, (sim_transfer){.execution = true, .job = job,
                                                     .start = job->start, .broken = -1});
}

void sim_thread_work(sim_job *job)
{
    if (job->rank->busy) job->rank->ready_work = job; /* at most one: work waits for work */
    else start_work(job);
}

void sim_thread_release(luo_rank *r)
{
    sim_job *job = r->ready_work;
    r->busy = false;
    r->ready_work = NULL;
    if (job) start_work(job);
}

/* ---- what threads carry ---- */

static void begin(sim_talk *t)
{
    sim_step *s = t->step;
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

static void occupy(sim_talk *t, bool busy)
{
    sim_step *s = t->step;
    const sim_meeting *m = t->gather ? t->gather->meeting : NULL;
    const int32_t n = m ? m->nlanes : t->traffic->nthreads;
    for (int32_t i = 0; i < n; i++) {
        luo_rank *r = &s->ranks[m ? m->lane[i] : t->traffic->thread[i]];
        if (busy) r->busy = true;
        else sim_thread_release(r);
    }
}

static void end(sim_talk *t)
{
    sim_step *s = t->step;
    const double now = sim_now(s);
    sim_wires_busy(s, t->traffic, now - t->start);
    s->driver_here = true;
    if (t->gather) {
        if (t->gather->round + 1 == t->gather->jobs->cross->ntraffics) occupy(t, false);
        sim_gather_done(t->gather, t->start, now);
    } else {
        sim_transfer done = {.job = t->job, .post = t->post, .moved_s = t->start};
        occupy(t, false);
        sim_message_done(&done, now);
    }
    s->driver_here = false;
}

void sim_talk_drive(sim_transfer *part)
{
    sim_talk *t = part->talk;
    sim_step *s = t->step;
    sim_sleep_until(s, t->start + t->traffic->wait_s * t->factor + t->extra_s);
    luo_rank *r = &s->ranks[t->traffic->thread[part->edge]];
    const luo_status st = sim_run_execution(r, NULL, t->traffic->work_s * t->factor);
    if (st != LUO_OK && !s->stopped) sim_step_fail(s, st, r->lane->program->device, -1);
    if (--t->left == 0 && !s->stopped) end(t);
}

/* ---- those that wait for threads ---- */

static bool waits(const luo_rank *r)
{
    return !r->busy && !r->ready_work && (r->blocked || r->finished);
}

static bool can_start(const sim_step *s, const sim_talk *t)
{
    if (t->gather) {
        for (int32_t i = 0; i < t->gather->meeting->nlanes; i++)
            if (!waits(&s->ranks[t->gather->meeting->lane[i]])) return false;
        return true;
    }
    if (!waits(&s->ranks[t->traffic->thread[0]])) return false;
    for (const sim_mail *m = s->mail[t->post->channel]; m; m = m->next)
        if (m->receiver && m->micro_batch == t->job->micro_batch) return true;
    return false;
}

bool sim_talk_start(sim_step *s)
{
    sim_talk *before = NULL, *t = s->talks;
    while (t && !can_start(s, t)) {
        before = t;
        t = t->next;
    }
    if (!t || s->stopped) return false;
    if (before) before->next = t->next;
    else s->talks = t->next;
    if (s->talks_last == t) s->talks_last = before;
    occupy(t, true);
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
    if (s->talks_last) s->talks_last->next = t;
    else s->talks = t;
    s->talks_last = t;
}

void sim_talk_gather(sim_step *s, sim_gather *g, const sim_traffic *traffic, double start)
{
    sim_talk *t = add(s, (sim_talk){.step = s, .traffic = traffic, .start = start,
                                    .factor = g->factor, .gather = g});
    if (t && g->round > 0) begin(t); /* its threads are at it already */
    else if (t) append(s, t);
}

void sim_talk_message(sim_step *s, sim_job *job, const sim_post *post)
{
    sim_talk *t = add(s, (sim_talk){.step = s, .traffic = &s->net->traffics[post->traffic],
                                    .start = job->start, .factor = job->factor, .job = job,
                                    .post = post});
    if (t) append(s, t);
}
