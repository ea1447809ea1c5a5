#include "exec/sync/watch.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "exec/clock.h"

static _Noreturn LUO_PRINTF(1, 2) void give_up(const char *fmt, ...)
{
    char text[320];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) { /* then the exit code tells it */
    }
    _exit(luo_status_exit(LUO_ESTUCK));
}

enum { BEATS = 8 }; /* looks and signs of life in stuck_s */

/* A process that was stopped itself knows nothing of the time between. */
static void look_beside(luo_watch *watch)
{
    struct stat file;
    const double now = luo_clock_s();
    const bool slept = now > watch->looked_s + watch->stuck_s / 2;
    futimens(watch->mine, NULL);
    if (stat(watch->file, &file) == 0 && (slept || file.st_mtim.tv_sec != watch->sign.tv_sec ||
                                          file.st_mtim.tv_nsec != watch->sign.tv_nsec)) {
        watch->sign = file.st_mtim;
        watch->sign_s = now;
    }
    watch->looked_s = now;
    if (now > watch->sign_s + 1.25 * watch->stuck_s)
        give_up("luoshu-rank: error: %s gives no sign of life to %s for %g s; a process that runs "
                "is expected.\n",
                watch->name, watch->who, now - watch->sign_s);
}

static void *watch_thread(void *ctx)
{
    luo_watch *watch = ctx;
    pthread_mutex_lock(&watch->lock);
    while (!watch->ends) {
        const double left_s =
            watch->waits ? watch->since_s + watch->stuck_s - luo_clock_s() : watch->stuck_s;
        if (left_s <= 0)
            give_up("luoshu-rank: error: %s has waited %g s for %s; an answer within --stuck-s is "
                    "expected.\n",
                    watch->who, watch->stuck_s, watch->what);
        if (watch->mine >= 0) look_beside(watch);
        /* It looks a few times and is never woken: waits begin and end all the time. */
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        const double at = (double)until.tv_nsec * 1e-9 + fmin(left_s, watch->stuck_s / BEATS);
        until.tv_sec += (time_t)at;
        until.tv_nsec = (long)((at - floor(at)) * 1e9);
        pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

luo_status luo_watch_open(luo_watch *watch, const char *who, double stuck_s, luo_err *err)
{
    *watch = (luo_watch){.who = who, .stuck_s = stuck_s, .mine = -1};
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, NULL);
    if (pthread_create(&watch->thread, NULL, watch_thread, watch) == 0) return LUO_OK;
    return luo_err_set(err, LUO_EBACKEND,
                       "no thread can be started; memory or processes have run "
                       "out.");
}

void luo_watch_close(luo_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->ends = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
}

void luo_watch_begin(luo_watch *watch, const char *fmt, ...)
{
    va_list ap;
    pthread_mutex_lock(&watch->lock);
    va_start(ap, fmt);
    vsnprintf(watch->what, sizeof watch->what, fmt, ap);
    va_end(ap);
    watch->since_s = luo_clock_s();
    watch->waits = true;
    pthread_mutex_unlock(&watch->lock);
}

void luo_watch_end(luo_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->waits = false;
    pthread_mutex_unlock(&watch->lock);
}

void luo_watch_neighbour(luo_watch *watch, int mine, const char *file, const char *name)
{
    pthread_mutex_lock(&watch->lock);
    snprintf(watch->file, sizeof watch->file, "%s", file);
    snprintf(watch->name, sizeof watch->name, "%s", name);
    watch->looked_s = watch->sign_s = luo_clock_s();
    watch->mine = mine;
    pthread_mutex_unlock(&watch->lock);
}

void luo_watch_nap(int look)
{
    enum { SPINS = 64, SHORT_NS = 20000, LONG_NS = 200000 };
    if (look < SPINS) {
        sched_yield();
        return;
    }
    nanosleep(&(struct timespec){.tv_nsec = look < 4 * SPINS ? SHORT_NS : LONG_NS}, NULL);
}

void luo_watch_all(MPI_Request *requests, int n)
{
    int done = 0;
    for (int look = 0; MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE), !done; look++)
        luo_watch_nap(look);
}
