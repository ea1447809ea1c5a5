/* watching.c: what the watchdog's thread is shown: whether this rank goes on, what its
 * communicators say, and who it waits for. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/devset.h"
#include "exec/cuda/job.h"

static int64_t progress(void *ctx)
{
    luo_exec *exec = ctx;
    pthread_mutex_lock(&exec->watched);
    if (exec->at_hand) gpu_stamps_look(exec->at_hand);
    pthread_mutex_unlock(&exec->watched);
    if (atomic_load(&exec->agrees)) atomic_fetch_add(&exec->progress, 1);
    return atomic_load(&exec->progress);
}

void gpu_watch_goes_on(luo_exec *exec)
{
    luo_progress_report *report = exec->config.where;
    atomic_fetch_add(&exec->progress, 1);
    if (report) atomic_fetch_add(&report->done, 1);
}

static const char *broken(void *ctx)
{
    return gpu_comms_broken(((luo_exec *)ctx)->comms);
}

static void say_peers(luo_str *text, const luo_job *job, const luo_instr *instr)
{
    const luo_slot *slot = &job->bound.program->slots[instr->slot];
    if (instr->kind == LUO_INSTR_P2P) {
        for (int32_t m = 0; m < slot->nmessage; m++)
            luo_str_addf(text, "%s %s device %d", m ? "," : "",
                         slot->message[m].send ? "to" : "from", (int)slot->message[m].peer);
        return;
    }
    luo_str_add(text, " of devices ");
    luo_devset_print(text, job->bound.set->groups[slot->group].dev,
                     job->bound.set->groups[slot->group].n);
}

static void say(luo_str *text, const luo_job *job)
{
    const int32_t passed = atomic_load(&job->stamps.passed);
    luo_str_addf(text, "device %d ", (int)job->x->device);
    if (passed == 0) {
        luo_str_add(text, "has not begun");
        return;
    }
    const gpu_mark *mark = &job->stamps.now->mark[passed - 1];
    if (mark->instr < 0) {
        luo_str_add(text, "has ended its part");
        return;
    }
    const luo_instr *instr = &job->bound.role->instr[mark->instr];
    const char *name = job->bound.set->ops[instr->op].name;
    if (mark->kind != GPU_MARK_WAIT || instr->slot < 0) {
        luo_str_addf(text, "is in or behind `%s` (instruction %d)", name, (int)instr->id);
        return;
    }
    luo_str_addf(text, "waits in %s of `%s`",
                 instr->kind == LUO_INSTR_P2P ? "a message" : luo_coll_name((luo_coll)instr->coll),
                 name);
    say_peers(text, job, instr);
    luo_str_addf(text, " (%s, instruction %d)", luo_stream_name((luo_stream)instr->stream),
                 (int)instr->id);
}

static void describe(void *ctx, char *text, size_t n)
{
    luo_exec *exec = ctx;
    luo_str s = {0};
    pthread_mutex_lock(&exec->watched);
    if (exec->at_hand) say(&s, exec->at_hand);
    pthread_mutex_unlock(&exec->watched);
    snprintf(text, n, "%s", luo_str_get(&s));
    luo_str_free(&s);
}

/* An aborted communicator waits for the graphs that hold it; one that runs is freed by CUDA when it
 * has ended, as it does once its communication is given up. */
void gpu_abort(luo_exec *exec)
{
    pthread_mutex_lock(&exec->watched);
    for (luo_job *job = exec->jobs; job; job = job->next) {
        gpu_graph_close(job);
        job->no_graph = true;
    }
    pthread_mutex_unlock(&exec->watched);
    gpu_comms_abort(exec->comms);
}

static void abort_all(void *ctx)
{
    gpu_abort(ctx);
}

luo_status gpu_watch_open(luo_exec *exec, luo_err *err)
{
    const gpu_watched what = {exec, progress, broken, describe, abort_all};
    return gpu_watcher_start(&what, &exec->watcher, err);
}

void gpu_watch_peek(luo_exec *exec)
{
    (void)progress(exec);
}

void gpu_watch_at(luo_exec *exec, luo_job *job)
{
    pthread_mutex_lock(&exec->watched);
    if (exec->at_hand) gpu_stamps_look(exec->at_hand); /* the last ones count too */
    exec->at_hand = job;
    pthread_mutex_unlock(&exec->watched);
}
