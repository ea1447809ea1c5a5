/* watch.c: the watchdog of a rank: what is stuck or broken, told once; and its thread. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/clock.h"
#include "exec/cuda/comm/comm.h"

/* ---- the state machine ---- */

void gpu_watch_arm(gpu_watch *w, double now_s, double limit_s)
{
    *w = (gpu_watch){.limit_s = limit_s, .armed = true, .seen = INT64_MIN, .since_s = now_s};
}

void gpu_watch_disarm(gpu_watch *w)
{
    w->armed = false;
}

gpu_watch_verdict gpu_watch_look(gpu_watch *w, double now_s, int64_t progress, const char *broken)
{
    if (!w->armed || w->verdict != GPU_WATCH_GOES_ON) return GPU_WATCH_GOES_ON;
    if (broken) {
        snprintf(w->text, sizeof w->text, "%s", broken);
        return w->verdict = GPU_WATCH_BROKEN;
    }
    if (progress != w->seen) {
        w->seen = progress;
        w->since_s = now_s;
    }
    if (now_s - w->since_s < w->limit_s) return GPU_WATCH_GOES_ON;
    snprintf(w->text, sizeof w->text, "stuck for %.1f s", now_s - w->since_s);
    return w->verdict = GPU_WATCH_STUCK;
}

/* ---- the thread ---- */

/* Seconds between two looks while a step is under way. */
static const double LOOK_MIN_S = 1e-3, LOOK_MAX_S = 50e-3;

struct gpu_watcher {
    gpu_watched what;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t trigger;
    gpu_watch watch;
    luo_status status; /* of the verdict; LUO_OK: none */
    bool looking;      /* the thread asks and acts, without the lock */
    bool over;
};

static double look_every(const gpu_watch *w)
{
    return fmax(LOOK_MIN_S, fmin(LOOK_MAX_S, w->limit_s / 8));
}

static void wait_until(gpu_watcher *w, double at_s)
{
    const struct timespec t = {(time_t)at_s, (long)(fmod(at_s, 1) * 1e9)};
    (void)pthread_cond_timedwait(&w->trigger, &w->lock, &t);
}

/* The sentence: what happened, to whom, and what would be right. */
static void say(gpu_watcher *w, gpu_watch_verdict v, const char *who)
{
    char happened[LUO_ERR_TEXT];
    snprintf(happened, sizeof happened, "%s", w->watch.text);
    snprintf(w->watch.text, sizeof w->watch.text, "%.400s%s%.500s; %s.", happened,
             who[0] ? ": " : "", who,
             v == GPU_WATCH_STUCK ? "all ranks have to go on"
                                  : "all processes have to start again");
    w->status = v == GPU_WATCH_STUCK ? LUO_ESTUCK : LUO_EPEER;
}

/* Callbacks may take locks of their own and time: not under ours. A verdict stands before the abort
 * begins, so that whoever is woken by the abort finds it. */
static void look(gpu_watcher *w)
{
    char who[LUO_ERR_TEXT] = "";
    w->looking = true;
    pthread_mutex_unlock(&w->lock);
    const char *broken = w->what.broken(w->what.ctx);
    const int64_t progress = w->what.progress(w->what.ctx);
    pthread_mutex_lock(&w->lock);
    const gpu_watch_verdict v = gpu_watch_look(&w->watch, luo_clock_s(), progress, broken);
    if (v != GPU_WATCH_GOES_ON) {
        pthread_mutex_unlock(&w->lock);
        w->what.describe(w->what.ctx, who, sizeof who);
        pthread_mutex_lock(&w->lock);
        say(w, v, who);
        pthread_mutex_unlock(&w->lock);
        w->what.abort(w->what.ctx);
        pthread_mutex_lock(&w->lock);
    }
    w->looking = false;
    pthread_cond_broadcast(&w->trigger);
}

static void *watch_on(void *ctx)
{
    gpu_watcher *w = ctx;
    pthread_mutex_lock(&w->lock);
    while (!w->over) {
        if (!w->watch.armed || w->status != LUO_OK) {
            pthread_cond_wait(&w->trigger, &w->lock);
            continue;
        }
        look(w);
        if (!w->over && w->watch.armed) wait_until(w, luo_clock_s() + look_every(&w->watch));
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static bool open_locks(gpu_watcher *w)
{
    pthread_condattr_t a;
    if (pthread_condattr_init(&a) != 0) return false;
    const bool good = pthread_condattr_setclock(&a, CLOCK_MONOTONIC) == 0 &&
                      pthread_mutex_init(&w->lock, NULL) == 0 &&
                      pthread_cond_init(&w->trigger, &a) == 0;
    pthread_condattr_destroy(&a);
    return good;
}

luo_status gpu_watcher_start(const gpu_watched *what, gpu_watcher **out, luo_err *err)
{
    gpu_watcher *w = calloc(1, sizeof *w);
    if (!w) return luo_err_nomem(err);
    w->what = *what;
    if (!open_locks(w) || pthread_create(&w->thread, NULL, watch_on, w) != 0) {
        free(w);
        return luo_err_set(err, LUO_EBACKEND,
                           "the system gives no thread to watch the GPU.");
    }
    *out = w;
    return LUO_OK;
}

void gpu_watcher_arm(gpu_watcher *w, double limit_s)
{
    pthread_mutex_lock(&w->lock);
    gpu_watch_arm(&w->watch, luo_clock_s(), limit_s);
    w->status = LUO_OK;
    pthread_cond_broadcast(&w->trigger);
    pthread_mutex_unlock(&w->lock);
}

/* A look under way is waited for: it may just be finding something. */
luo_status gpu_watcher_disarm(gpu_watcher *w, luo_err *err)
{
    pthread_mutex_lock(&w->lock);
    while (w->looking) pthread_cond_wait(&w->trigger, &w->lock);
    gpu_watch_disarm(&w->watch);
    const luo_status st = w->status;
    if (st != LUO_OK) luo_err_set(err, st, "%s", w->watch.text);
    pthread_cond_broadcast(&w->trigger);
    pthread_mutex_unlock(&w->lock);
    return st;
}

void gpu_watcher_stop(gpu_watcher *w)
{
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_broadcast(&w->trigger);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->trigger);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
