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

void gpu_watch_arm(gpu_watch *watch, double now_s, double limit_s)
{
    *watch = (gpu_watch){.limit_s = limit_s, .armed = true, .seen = INT64_MIN, .since_s = now_s};
}

void gpu_watch_disarm(gpu_watch *watch)
{
    watch->armed = false;
}

gpu_watch_verdict gpu_watch_look(gpu_watch *watch, double now_s, int64_t progress,
                                 const char *broken)
{
    if (!watch->armed || watch->verdict != GPU_WATCH_GOES_ON) return GPU_WATCH_GOES_ON;
    if (broken) {
        snprintf(watch->text, sizeof watch->text, "%s", broken);
        return watch->verdict = GPU_WATCH_BROKEN;
    }
    if (progress != watch->seen) {
        watch->seen = progress;
        watch->since_s = now_s;
    }
    if (now_s - watch->since_s < watch->limit_s) return GPU_WATCH_GOES_ON;
    snprintf(watch->text, sizeof watch->text, "stuck for %.1f s", now_s - watch->since_s);
    return watch->verdict = GPU_WATCH_STUCK;
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

static double look_every(const gpu_watch *watch)
{
    return fmax(LOOK_MIN_S, fmin(LOOK_MAX_S, watch->limit_s / 8));
}

static void wait_until(gpu_watcher *watcher, double at_s)
{
    const struct timespec t = {(time_t)at_s, (long)(fmod(at_s, 1) * 1e9)};
    (void)pthread_cond_timedwait(&watcher->trigger, &watcher->lock, &t);
}

/* The sentence: what happened, to whom, and what would be right. */
static void say(gpu_watcher *watcher, gpu_watch_verdict v, const char *who)
{
    char happened[LUO_ERR_TEXT];
    snprintf(happened, sizeof happened, "%s", watcher->watch.text);
    snprintf(watcher->watch.text, sizeof watcher->watch.text, "%.400s%s%.500s; %s.", happened,
             who[0] ? ": " : "", who,
             v == GPU_WATCH_STUCK ? "all ranks have to go on"
                                  : "all processes have to start again");
    watcher->status = v == GPU_WATCH_STUCK ? LUO_ESTUCK : LUO_EPEER;
}

/* Callbacks may take locks of their own and time: not under ours. A verdict stands before the abort
 * begins, so that whoever is woken by the abort finds it. */
static void look(gpu_watcher *watcher)
{
    char who[LUO_ERR_TEXT] = "";
    watcher->looking = true;
    pthread_mutex_unlock(&watcher->lock);
    const char *broken = watcher->what.broken(watcher->what.ctx);
    const int64_t progress = watcher->what.progress(watcher->what.ctx);
    pthread_mutex_lock(&watcher->lock);
    const gpu_watch_verdict v = gpu_watch_look(&watcher->watch, luo_clock_s(), progress, broken);
    if (v != GPU_WATCH_GOES_ON) {
        pthread_mutex_unlock(&watcher->lock);
        watcher->what.describe(watcher->what.ctx, who, sizeof who);
        pthread_mutex_lock(&watcher->lock);
        say(watcher, v, who);
        pthread_mutex_unlock(&watcher->lock);
        watcher->what.abort(watcher->what.ctx);
        pthread_mutex_lock(&watcher->lock);
    }
    watcher->looking = false;
    pthread_cond_broadcast(&watcher->trigger);
}

static void *watch_on(void *ctx)
{
    gpu_watcher *watcher = ctx;
    pthread_mutex_lock(&watcher->lock);
    while (!watcher->over) {
        if (!watcher->watch.armed || watcher->status != LUO_OK) {
            pthread_cond_wait(&watcher->trigger, &watcher->lock);
            continue;
        }
        look(watcher);
        if (!watcher->over && watcher->watch.armed)
            wait_until(watcher, luo_clock_s() + look_every(&watcher->watch));
    }
    pthread_mutex_unlock(&watcher->lock);
    return NULL;
}

static bool open_locks(gpu_watcher *watcher)
{
    pthread_condattr_t a;
    if (pthread_condattr_init(&a) != 0) return false;
    const bool good = pthread_condattr_setclock(&a, CLOCK_MONOTONIC) == 0 &&
                      pthread_mutex_init(&watcher->lock, NULL) == 0 &&
                      pthread_cond_init(&watcher->trigger, &a) == 0;
    pthread_condattr_destroy(&a);
    return good;
}

luo_status gpu_watcher_start(const gpu_watched *what, gpu_watcher **out, luo_err *err)
{
    gpu_watcher *watcher = calloc(1, sizeof *watcher);
    if (!watcher) return luo_err_nomem(err);
    watcher->what = *what;
    if (!open_locks(watcher) || pthread_create(&watcher->thread, NULL, watch_on, watcher) != 0) {
        free(watcher);
        return luo_err_set(err, LUO_EBACKEND,
                           "the system gives no thread to watch the GPU.");
    }
    *out = watcher;
    return LUO_OK;
}

void gpu_watcher_arm(gpu_watcher *watcher, double limit_s)
{
    pthread_mutex_lock(&watcher->lock);
    gpu_watch_arm(&watcher->watch, luo_clock_s(), limit_s);
    watcher->status = LUO_OK;
    pthread_cond_broadcast(&watcher->trigger);
    pthread_mutex_unlock(&watcher->lock);
}

/* A look under way is waited for: it may just be finding something. */
luo_status gpu_watcher_disarm(gpu_watcher *watcher, luo_err *err)
{
    pthread_mutex_lock(&watcher->lock);
    while (watcher->looking) pthread_cond_wait(&watcher->trigger, &watcher->lock);
    gpu_watch_disarm(&watcher->watch);
    const luo_status st = watcher->status;
    if (st != LUO_OK) luo_err_set(err, st, "%s", watcher->watch.text);
    pthread_cond_broadcast(&watcher->trigger);
    pthread_mutex_unlock(&watcher->lock);
    return st;
}

void gpu_watcher_stop(gpu_watcher *watcher)
{
    pthread_mutex_lock(&watcher->lock);
    watcher->over = true;
    pthread_cond_broadcast(&watcher->trigger);
    pthread_mutex_unlock(&watcher->lock);
    pthread_join(watcher->thread, NULL);
    pthread_cond_destroy(&watcher->trigger);
    pthread_mutex_destroy(&watcher->lock);
    free(watcher);
}
