/* thread.c: CPU ranks: one thread computes and communicates.
 *
 * The thread takes the instructions in order of issue and comes to the next when work is done, or
 * communication begun; it begins nothing before what that waits for is done, but calls that run
 * beside tasks are left in a queue where they have to wait. What is begun moves
 * only while the thread waits: there is no progress thread. A collective moves while all its
 * members wait, a message while its receiver does, who copies it; they do nothing else meanwhile.
 * What moves takes a core per thread, so ranks beside it feel it: also being woken and finding cold
 * caches is time of a core. A thread that only waits takes no core. */
#include <math.h>

#include "sim/step/step.h"

/* ---- the thread ---- */

static void begin_job(sim_job *job)
{
    luo_rank *rank = job->rank;
    job->start = fmax(job->start, sim_now(rank->step));
    if (job->op->what == SIM_WORK) rank->work = job;
    rank->busy |= rank->work != NULL;
    sim_job_start(job);
}

static void go_on(luo_rank *rank)
{
    while (rank->next && !rank->busy && !rank->step->stopped) {
        sim_job *job = rank->next;
        if (!job->ready && !job->queues) return;
        rank->next = job->after;
        job->passed = !job->ready;
        if (job->ready) begin_job(job);
    }
}

void sim_thread_ready(sim_job *job)
{
    job->ready = true;
    if (job->passed) begin_job(job);
    else go_on(job->rank);
}

void sim_thread_done(luo_rank *rank)
{
    rank->work = NULL;
    rank->busy = false;
    go_on(rank);
}

/* It has come to something that it has to wait for, or to the end. */
static bool waits(const luo_rank *rank)
{
    return !rank->busy && !(rank->next && rank->next->ready) && (rank->blocked || rank->finished);
}

/* ---- what threads carry ---- */

/* The receiver of a message has begun to. */
static const sim_mail *awaited(const sim_step *step, const sim_talk *talk)
{
    for (const sim_mail *mail = step->mail[talk->post->channel]; mail; mail = mail->next)
        if (mail->receiver && mail->micro_batch == talk->job->micro_batch &&
            mail->round == talk->job->round)
            return mail;
    return NULL;
}

static void begin(sim_talk *talk)
{
    sim_step *step = talk->step;
    const sim_mail *receive = talk->gather ? NULL : awaited(step, talk);
    talk->asked = receive ? fmax(talk->start, receive->receiver->start) : talk->start;
    int32_t broken = -1;
    const double nominal = (talk->traffic->fixed_s + talk->traffic->spread_s) * talk->factor;
    talk->start = fmax(talk->start, sim_now(step));
    talk->extra_s =
        sim_closed_end(step, talk->traffic, talk->start, 0, talk->factor, &broken) - talk->start;
    if (broken >= 0) {
        sim_break_at(step, talk->start + talk->extra_s, broken);
        return;
    }
    talk->extra_s = fmax(0, talk->extra_s - nominal);
    step->runs[talk->traffic - step->net->traffics]++;
    talk->left = talk->traffic->nthreads;
    for (int32_t i = 0; i < talk->traffic->nthreads; i++)
        sim_transfer_new(step, (sim_transfer){.talk = talk, .edge = i, .broken = -1});
}

/* The i-th of the threads that have to wait for it. */
static luo_rank *member(const sim_talk *talk, int32_t i)
{
    const sim_rendezvous *rendezvous = talk->gather ? talk->gather->rendezvous : NULL;
    return &talk->step->ranks[rendezvous ? rendezvous->class[i] : talk->traffic->thread[i]];
}

static int32_t members(const sim_talk *talk)
{
    return talk->gather ? talk->gather->rendezvous->nclasses : talk->traffic->nthreads;
}

static void end(sim_talk *talk)
{
    sim_step *step = talk->step;
    const double now = sim_now(step);
    const bool last =
        !talk->gather || talk->gather->round + 1 == talk->gather->jobs->cross->ntraffics;
    sim_wires_busy(step, talk->traffic, now - talk->start);
    step->driver_here = true;
    for (int32_t i = 0; last && i < members(talk); i++) member(talk, i)->busy = false;
    if (talk->gather) {
        sim_gather_done(talk->gather, talk->asked, now);
    } else {
        sim_transfer done = {.job = talk->job, .post = talk->post, .moved_s = talk->asked};
        sim_message_done(&done, now);
    }
    for (int32_t i = 0; last && i < members(talk); i++) go_on(member(talk, i));
    sim_jobs_start(step);
    step->driver_here = false;
}

void sim_talk_drive(sim_transfer *part)
{
    sim_talk *talk = part->talk;
    sim_step *step = talk->step;
    sim_sleep_until(step, talk->start + talk->extra_s);
    luo_rank *rank = &step->ranks[talk->traffic->thread[part->edge]];
    const luo_status st = sim_run_execution(rank, NULL, talk->traffic->work_s * talk->factor);
    if (st != LUO_OK && !step->stopped) sim_step_fail(step, st, rank->class->program->device, -1);
    if (--talk->left == 0 && !step->stopped) end(talk);
}

/* ---- those that wait for threads ---- */

static bool can_start(const sim_step *step, const sim_talk *talk)
{
    for (int32_t i = 0; i < members(talk); i++)
        if (!waits(member(talk, i))) return false;
    return talk->gather || awaited(step, talk);
}

bool sim_talk_start(sim_step *step)
{
    sim_talk *before = NULL, *talk = step->talks;
    while (talk && !can_start(step, talk)) {
        before = talk;
        talk = talk->next;
    }
    if (!talk || step->stopped) return false;
    if (before)
        before->next = talk->next;
    else
        step->talks = talk->next;
    if (step->talks_last == talk) step->talks_last = before;
    for (int32_t i = 0; i < members(talk); i++) member(talk, i)->busy = true;
    begin(talk); /* other actors may run in here */
    return true;
}

static sim_talk *add(sim_step *step, sim_talk want)
{
    sim_talk *talk = LUO_NEW(step->arena, sim_talk);
    if (!talk) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return NULL;
    }
    *talk = want;
    return talk;
}

static void append_talk(sim_step *step, sim_talk *talk)
{
    if (step->talks_last)
        step->talks_last->next = talk;
    else
        step->talks = talk;
    step->talks_last = talk;
}

void sim_talk_gather(sim_step *step, sim_gather *gather, const sim_traffic *traffic, double start)
{
    sim_talk *talk = add(step, (sim_talk){.step = step,
                                          .traffic = traffic,
                                          .start = start,
                                          .factor = gather->factor,
                                          .gather = gather});
    if (talk && gather->round > 0)
        begin(talk); /* its threads are at it already */
    else if (talk)
        append_talk(step, talk);
}

void sim_talk_message(sim_step *step, sim_job *job, const sim_post *post)
{
    sim_talk *talk = add(step, (sim_talk){.step = step,
                                          .traffic = &step->net->traffics[post->traffic],
                                          .start = job->start,
                                          .factor = job->factor,
                                          .job = job,
                                          .post = post});
    if (talk) append_talk(step, talk);
}
