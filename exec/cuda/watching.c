/* watching.c: what the watchdog's thread is shown: whether this rank goes on, what its
 * communicators say, and who it waits for. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/devset.h"
#include "exec/cuda/job.h"

static int64_t progress(void *ctx)
{
    luo_exec *x = ctx;
    pthread_mutex_lock(&x->watched);
    if (x->at_hand) gpu_stamps_look(x->at_hand);
    pthread_mutex_unlock(&x->watched);
    if (atomic_load(&x->agrees)) atomic_fetch_add(&x->progress, 1);
    return atomic_load(&x->progress);
}

void gpu_watch_goes_on(luo_exec *x)
{
    luo_progress_report *w = x->config.where;
    atomic_fetch_add(&x->progress, 1);
    if (w) atomic_fetch_add(&w->done, 1);
}

static const char *broken(void *ctx)
{
    return gpu_comms_broken(((luo_exec *)ctx)->comms);
}

static void say_peers(luo_str *s, const luo_job *j, const luo_instr *i)
{
    const luo_slot *slot = &j->bound.program->slots[i->slot];
    if (i->kind == LUO_INSTR_P2P) {
        for (int32_t m = 0; m < slot->nmessage; m++)
            luo_str_addf(s, "%s %s device %d", m ? "," : "", slot->message[m].send ? "to" : "from",
                         (int)slot->message[m].peer);
        return;
    }
    luo_str_add(s, " of devices ");
    luo_devset_print(s, j->bound.set->groups[slot->group].dev, j->bound.set->groups[slot->group].n);
}

static void say(luo_str *s, const luo_job *j)
{
    const int32_t passed = atomic_load(&j->stamps.passed);
    luo_str_addf(s, "device %d ", (int)j->x->device);
    if (passed == 0) {
        luo_str_add(s, "has not begun");
        return;
    }
    const gpu_mark *m = &j->stamps.now->mark[passed - 1];
    if (m->instr < 0) {
        luo_str_add(s, "has ended its part");
        return;
    }
    const luo_instr *i = &j->bound.role->instr[m->instr];
    const char *name = j->bound.set->ops[i->op].name;
    if (m->kind != GPU_MARK_WAIT || i->slot < 0) {
        luo_str_addf(s, "is in or behind `%s` (instruction %d)", name, (int)i->id);
        return;
    }
    luo_str_addf(s, "waits in %s of `%s`",
                 i->kind == LUO_INSTR_P2P ? "a message" : luo_coll_name((luo_coll)i->coll), name);
    say_peers(s, j, i);
    luo_str_addf(s, " (%s, instruction %d)", luo_stream_name((luo_stream)i->stream), (int)i->id);
}

static void describe(void *ctx, char *text, size_t n)
{
    luo_exec *x = ctx;
    luo_str s = {0};
    pthread_mutex_lock(&x->watched);
    if (x->at_hand) say(&s, x->at_hand);
    pthread_mutex_unlock(&x->watched);
    snprintf(text, n, "%s", luo_str_get(&s));
    luo_str_free(&s);
}

/* An aborted communicator waits for the graphs that hold it; one that runs is freed by CUDA when it
 * has ended, as it does once its communication is given up. */
void gpu_abort(luo_exec *x)
{
    pthread_mutex_lock(&x->watched);
    for (luo_job *j = x->jobs; j; j = j->next) {
        gpu_graph_close(j);
        j->no_graph = true;
    }
    pthread_mutex_unlock(&x->watched);
    gpu_comms_abort(x->comms);
}

static void abort_all(void *ctx)
{
    gpu_abort(ctx);
}

luo_status gpu_watch_open(luo_exec *x, luo_err *err)
{
    const gpu_watched what = {x, progress, broken, describe, abort_all};
    return gpu_watcher_start(&what, &x->watcher, err);
}

void gpu_watch_peek(luo_exec *x)
{
    (void)progress(x);
}

void gpu_watch_at(luo_exec *x, luo_job *job)
{
    pthread_mutex_lock(&x->watched);
    if (x->at_hand) gpu_stamps_look(x->at_hand); /* the last ones count too */
    x->at_hand = job;
    pthread_mutex_unlock(&x->watched);
}
