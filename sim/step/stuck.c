/* stuck.c: who waits for whom when nothing can go on any more. */
#include <stdio.h>

#include "sim/step/step.h"

typedef struct cause {
    const sim_job *job;
    int32_t peer;     /* device waited for; -1: not one */
    int32_t rank;     /* how good an explanation: 0 best */
    const char *what;
} cause;

static int32_t device_of(const sim_step *step, int32_t class)
{
    return step->net->classes[class].program->device;
}

static bool arrived(const sim_gather *gather, int32_t class)
{
    for (const sim_job *job = gather->jobs; job; job = job->next_gathered)
        if (job->rank->index == class) return true;
    return false;
}

/* A class that has ended will never come; one that waits itself is only a link of the chain. */
static int32_t rank_of(const sim_step *step, int32_t class)
{
    return step->ranks[class].finished || !step->ranks[class].waiting_for ? 1 : 2;
}

static cause of_rendezvous(const sim_step *step, const sim_job *job)
{
    cause c = {job, -1, 3, "is in a collective that cannot start"};
    const sim_gather *gather = step->gathers[job->cross->rendezvous];
    while (gather && (gather->micro_batch != job->micro_batch || gather->of_round != job->round ||
                      !arrived(gather, job->rank->index)))
        gather = gather->next;
    if (!gather) return c;
    if (gather->rendezvous->missing_device >= 0)
        return (cause){job, gather->rendezvous->missing_device, 0, "waits in a collective for"};
    for (int32_t i = 0; i < gather->rendezvous->nclasses; i++) {
        const int32_t class = gather->rendezvous->class[i];
        if (arrived(gather, class) || rank_of(step, class) >= c.rank) continue;
        c = (cause){job, device_of(step, class), rank_of(step, class), "waits in a collective for"};
    }
    return c;
}

static bool is_open(const sim_step *step, const sim_job *job, const sim_post *post)
{
    for (const sim_mail *mail = step->mail[post->channel]; mail; mail = mail->next)
        if (mail->receiver == job) return true;
    return false;
}

static cause of_mail(const sim_step *step, const sim_job *job)
{
    cause c = {job, -1, 3, "waits for a message"};
    for (int32_t i = 0; i < job->cross->nin; i++) {
        const sim_channel *channel = &step->net->channels[job->cross->in[i].channel];
        if (!is_open(step, job, &job->cross->in[i])) continue;
        const bool never = channel->src < 0 || channel->nsend == 0;
        const int32_t rank = never ? 0 : rank_of(step, channel->src);
        if (rank < c.rank) c = (cause){job, channel->src_device, rank, "waits for a message from"};
    }
    for (int32_t i = 0; i < job->cross->nout; i++) {
        const sim_channel *channel = &step->net->channels[job->cross->out[i].channel];
        if (channel->nreceive == 0)
            c = (cause){job, channel->dst_device, 0, "sends a message nobody receives to"};
    }
    return c;
}

/* The first job of the class that was started and is not done. */
static const sim_job *stuck_job(const luo_rank *rank)
{
    const sim_job *job = rank->first_job;
    while (job && !job->issued) job = job->after;
    return job;
}

static cause cause_of(const sim_step *step, const sim_job *job)
{
    return job->op->what == SIM_MEET ? of_rendezvous(step, job) : of_mail(step, job);
}

/* From the first class that waits along those it waits for, to one that waits for nobody who waits,
 * or once round the circle. */
static cause find_cause(const sim_step *step)
{
    cause c = {NULL, -1, 4, ""};
    if (step->mismatch)
        return (cause){step->mismatch, step->mismatch_peer, 0,
                       "has another size or kind of communication than"};
    int32_t class = 0;
    while (class < step->net->nclasses && !stuck_job(&step->ranks[class])) class ++;
    for (int32_t i = 0; i < step->net->nclasses && class >= 0 && class < step->net->nclasses; i++) {
        const sim_job *job = stuck_job(&step->ranks[class]);
        if (!job) break;
        c = cause_of(step, job);
        class = c.peer >= 0 ? step->net->class_of[c.peer] : -1;
    }
    return c;
}

void sim_stuck_text(const sim_step *step, char *text, size_t size)
{
    const cause c = find_cause(step);
    if (!c.job) {
        snprintf(text, size, "the step is stuck: no device can go on; a program set that passes "
                             "`luo_program_check` goes on.");
        return;
    }
    const luo_instr *in = c.job->instr;
    char peer[32] = "its peer";
    if (c.peer >= 0) snprintf(peer, sizeof peer, "device %d", c.peer);
    snprintf(text, size,
             "device %d is stuck in task %d, instruction %d (`%s`): it %s %s; both ends must issue "
             "it in the same order with the same size.",
             device_of(step, c.job->rank->index), c.job->task, in->id,
             step->net->set->ops[in->op].name, c.what, peer);
}
