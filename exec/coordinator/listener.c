#include "exec/coordinator/listener.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "exec/clock.h"

typedef struct queued {
    luo_command c;
    struct queued *next;
} queued;

struct luo_listener {
    int fd, signals, wake; /* wake: dates have changed */
    const luo_progress_report *where;
    int (*lost)(void);
    pthread_t thread;
    luo_wire_in in;
    pthread_mutex_t lock; /* of all below, and of writing to fd */
    pthread_cond_t trigger;
    queued *first, *last;
    int64_t serial;  /* begun and not over; 0: none */
    int64_t aborted; /* the last one to be drained */
    double withdraw_s, kill_s;
    _Atomic bool abort;
    bool over; /* END has come */
};

/* ---- in the thread ---- */

static void leave(luo_listener *l)
{
    _exit(l->lost());
}

static void say_where(luo_listener *l)
{
    luo_wire w = {0};
    luo_wire_put_int(&w, l->where->done);
    luo_wire_put_int(&w, l->where->job);
    luo_wire_put_int(&w, l->where->task);
    luo_wire_put_int(&w, l->where->instr);
    luo_wire_put_int(&w, l->where->waiting);
    luo_listener_say(l, LUO_SAY_HERE, &w, NULL);
    luo_wire_free(&w);
}

static void take_abort(luo_listener *l, luo_wire *m)
{
    pthread_mutex_lock(&l->lock);
    l->aborted = luo_wire_int(m);
    if (l->aborted == l->serial) l->abort = true;
    pthread_mutex_unlock(&l->lock);
}

static void enqueue(luo_listener *l, int32_t kind, luo_wire *m)
{
    queued *q = calloc(1, sizeof *q);
    if (!q) {
        leave(l);
        return;
    }
    q->c = (luo_command){.kind = kind, .received_s = luo_clock_s()};
    if (kind != LUO_SAY_END) q->c.serial = luo_wire_int(m);
    luo_wire_put_bytes(&q->c.payload, m->at + m->pos, m->len - m->pos);
    if (m->failed || q->c.payload.failed) leave(l);
    pthread_mutex_lock(&l->lock);
    if (l->last)
        l->last->next = q;
    else
        l->first = q;
    l->last = q;
    pthread_cond_signal(&l->trigger);
    pthread_mutex_unlock(&l->lock);
    l->over = kind == LUO_SAY_END;
}

static void hear(luo_listener *l)
{
    const bool open = luo_wire_read(&l->in, l->fd, NULL) == LUO_OK;
    while (!l->over) {
        luo_wire m;
        int32_t kind;
        bool got;
        if (luo_wire_next(&l->in, &got, &kind, &m, NULL) != LUO_OK) leave(l);
        if (!got) break;
        if (kind == LUO_SAY_WHERE)
            say_where(l);
        else if (kind == LUO_SAY_ABORT)
            take_abort(l, &m);
        else
            enqueue(l, kind, &m);
    }
    if (!open && !l->over) leave(l);
}

/* The launcher ends this process: without a word it would look like a death of its own. */
static void end_as_told(luo_listener *l)
{
    luo_listener_say(l, LUO_SAY_BYE, NULL, NULL);
    _exit(128 + SIGTERM);
}

static void withdraw(luo_listener *l)
{
    luo_wire w = {0};
    luo_wire_put_int(&w, l->serial);
    luo_wire_send(l->fd, LUO_SAY_WITHDRAW, &w, NULL);
    luo_wire_free(&w);
    l->withdraw_s = INFINITY;
    l->abort = true;
}

/* Does what is due. Pre: locked, which orders a withdrawal before the answer of the main thread. */
static void do_due(luo_listener *l, double now)
{
    if (now >= l->kill_s) kill(getpid(), SIGKILL);
    if (now >= l->withdraw_s) withdraw(l);
}

/* Seconds to the next date. */
static double keep_dates(luo_listener *l)
{
    const double now = luo_clock_s();
    pthread_mutex_lock(&l->lock);
    do_due(l, now);
    const double next = fmin(l->withdraw_s, l->kill_s) - now;
    pthread_mutex_unlock(&l->lock);
    return next;
}

static void *listen_on(void *ctx)
{
    luo_listener *l = ctx;
    while (!l->over) {
        struct pollfd p[] = {{.fd = l->fd, .events = POLLIN},
                             {.fd = l->signals, .events = POLLIN},
                             {.fd = l->wake, .events = POLLIN}};
        const double next_s = keep_dates(l);
        const struct timespec wait = {.tv_sec = (time_t)fmin(next_s, 1000),
                                      .tv_nsec = (long)(1e9 * fmod(fmin(next_s, 1000), 1))};
        if (ppoll(p, 3, &wait, NULL) <= 0) continue;
        uint64_t n;
        if (p[2].revents && read(l->wake, &n, sizeof n) < 0 && errno != EAGAIN) leave(l);
        if (p[1].revents) end_as_told(l);
        if (p[0].revents) hear(l);
    }
    return NULL;
}

/* ---- in the main thread ---- */

static void give_back(luo_listener *l)
{
    for (queued *q = l->first, *next; q; q = next) {
        next = q->next;
        luo_wire_free(&q->c.payload);
        free(q);
    }
    if (l->signals >= 0) close(l->signals);
    if (l->wake >= 0) close(l->wake);
    if (l->fd >= 0) close(l->fd);
    luo_wire_in_free(&l->in);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->trigger);
    free(l);
}

luo_status luo_listener_start(int fd, const luo_progress_report *where, int (*lost)(void),
                              luo_listener **out, luo_err *err)
{
    luo_listener *l = calloc(1, sizeof *l);
    sigset_t term;
    if (!l) return luo_err_nomem(err);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    *l = (luo_listener){.fd = fd,
                        .where = where,
                        .lost = lost,
                        .withdraw_s = INFINITY,
                        .kill_s = INFINITY,
                        .in = {.limit = LUO_WIRE_LIMIT}};
    l->signals = signalfd(-1, &term, SFD_CLOEXEC);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->trigger, NULL);
    if (l->signals < 0 || l->wake < 0 || pthread_create(&l->thread, NULL, listen_on, l) != 0) {
        give_back(l);
        return luo_err_set(err, LUO_EBACKEND,
                           "no thread to listen to the coordinator; the system "
                           "has to allow one more.");
    }
    *out = l;
    return LUO_OK;
}

void luo_listener_close(luo_listener *l)
{
    pthread_join(l->thread, NULL);
    give_back(l);
}

void luo_listener_next(luo_listener *l, luo_command *out)
{
    pthread_mutex_lock(&l->lock);
    while (!l->first) pthread_cond_wait(&l->trigger, &l->lock);
    queued *q = l->first;
    l->first = q->next;
    if (!l->first) l->last = NULL;
    pthread_mutex_unlock(&l->lock);
    *out = q->c;
    free(q);
}

luo_status luo_listener_say(luo_listener *l, luo_say kind, const luo_wire *payload, luo_err *err)
{
    pthread_mutex_lock(&l->lock);
    const luo_status st = luo_wire_send(l->fd, (int32_t)kind, payload, err);
    pthread_mutex_unlock(&l->lock);
    return st;
}

const _Atomic bool *luo_listener_abort(const luo_listener *l)
{
    return &l->abort;
}

static void set(luo_listener *l, int64_t serial, double withdraw_s, double kill_s)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&l->lock);
    l->serial = serial;
    l->withdraw_s = withdraw_s;
    l->kill_s = kill_s;
    l->abort = serial > 0 && l->aborted == serial;
    do_due(l,
           luo_clock_s()); /* not left to the thread: the command could be over before it looks */
    pthread_mutex_unlock(&l->lock);
    const ssize_t did = write(l->wake, &one, sizeof one);
    (void)did; /* fails only where it is awake already */
}

void luo_listener_begin(luo_listener *l, int64_t serial, double withdraw_s, double kill_s)
{
    set(l, serial, withdraw_s, kill_s);
}

void luo_listener_finish(luo_listener *l)
{
    set(l, 0, INFINITY, INFINITY);
}
