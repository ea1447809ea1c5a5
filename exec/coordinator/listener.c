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

static void leave(luo_listener *listener)
{
    _exit(listener->lost());
}

static void say_where(luo_listener *listener)
{
    luo_wire wire = {0};
    luo_wire_put_int(&wire, listener->where->done);
    luo_wire_put_int(&wire, listener->where->job);
    luo_wire_put_int(&wire, listener->where->task);
    luo_wire_put_int(&wire, listener->where->instr);
    luo_wire_put_int(&wire, listener->where->waiting);
    luo_listener_say(listener, LUO_SAY_HERE, &wire, NULL);
    luo_wire_free(&wire);
}

static void take_abort(luo_listener *listener, luo_wire *wire)
{
    pthread_mutex_lock(&listener->lock);
    listener->aborted = luo_wire_int(wire);
    if (listener->aborted == listener->serial) listener->abort = true;
    pthread_mutex_unlock(&listener->lock);
}

static void enqueue(luo_listener *listener, int32_t kind, luo_wire *wire)
{
    queued *q = calloc(1, sizeof *q);
    if (!q) {
        leave(listener);
        return;
    }
    q->c = (luo_command){.kind = kind, .received_s = luo_clock_s()};
    if (kind != LUO_SAY_END) q->c.serial = luo_wire_int(wire);
    luo_wire_put_bytes(&q->c.payload, wire->at + wire->pos, wire->len - wire->pos);
    if (wire->failed || q->c.payload.failed) leave(listener);
    pthread_mutex_lock(&listener->lock);
    if (listener->last)
        listener->last->next = q;
    else
        listener->first = q;
    listener->last = q;
    pthread_cond_signal(&listener->trigger);
    pthread_mutex_unlock(&listener->lock);
    listener->over = kind == LUO_SAY_END;
}

static void hear(luo_listener *listener)
{
    const bool open = luo_wire_read(&listener->in, listener->fd, NULL) == LUO_OK;
    while (!listener->over) {
        luo_wire wire;
        int32_t kind;
        bool got;
        if (luo_wire_next(&listener->in, &got, &kind, &wire, NULL) != LUO_OK) leave(listener);
        if (!got) break;
        if (kind == LUO_SAY_WHERE)
            say_where(listener);
        else if (kind == LUO_SAY_ABORT)
            take_abort(listener, &wire);
        else
            enqueue(listener, kind, &wire);
    }
    if (!open && !listener->over) leave(listener);
}

/* The launcher ends this process: without a word it would look like a death of its own. */
static void end_as_told(luo_listener *listener)
{
    luo_listener_say(listener, LUO_SAY_BYE, NULL, NULL);
    _exit(128 + SIGTERM);
}

static void withdraw(luo_listener *listener)
{
    luo_wire wire = {0};
    luo_wire_put_int(&wire, listener->serial);
    luo_wire_send(listener->fd, LUO_SAY_WITHDRAW, &wire, NULL);
    luo_wire_free(&wire);
    listener->withdraw_s = INFINITY;
    listener->abort = true;
}

/* Does what is due. Pre: locked, which orders a withdrawal before the answer of the main thread. */
static void do_due(luo_listener *listener, double now)
{
    if (now >= listener->kill_s) kill(getpid(), SIGKILL);
    if (now >= listener->withdraw_s) withdraw(listener);
}

/* Seconds to the next date. */
static double keep_dates(luo_listener *listener)
{
    const double now = luo_clock_s();
    pthread_mutex_lock(&listener->lock);
    do_due(listener, now);
    const double next = fmin(listener->withdraw_s, listener->kill_s) - now;
    pthread_mutex_unlock(&listener->lock);
    return next;
}

static void *listen_on(void *ctx)
{
    luo_listener *listener = ctx;
    while (!listener->over) {
        struct pollfd p[] = {{.fd = listener->fd, .events = POLLIN},
                             {.fd = listener->signals, .events = POLLIN},
                             {.fd = listener->wake, .events = POLLIN}};
        const double next_s = keep_dates(listener);
        const struct timespec wait = {.tv_sec = (time_t)fmin(next_s, 1000),
                                      .tv_nsec = (long)(1e9 * fmod(fmin(next_s, 1000), 1))};
        if (ppoll(p, 3, &wait, NULL) <= 0) continue;
        uint64_t n;
        if (p[2].revents && read(listener->wake, &n, sizeof n) < 0 && errno != EAGAIN)
            leave(listener);
        if (p[1].revents) end_as_told(listener);
        if (p[0].revents) hear(listener);
    }
    return NULL;
}

/* ---- in the main thread ---- */

static void give_back(luo_listener *listener)
{
    for (queued *q = listener->first, *next; q; q = next) {
        next = q->next;
        luo_wire_free(&q->c.payload);
        free(q);
    }
    if (listener->signals >= 0) close(listener->signals);
    if (listener->wake >= 0) close(listener->wake);
    if (listener->fd >= 0) close(listener->fd);
    luo_wire_in_free(&listener->in);
    pthread_mutex_destroy(&listener->lock);
    pthread_cond_destroy(&listener->trigger);
    free(listener);
}

luo_status luo_listener_start(int fd, const luo_progress_report *where, int (*lost)(void),
                              luo_listener **out, luo_err *err)
{
    luo_listener *listener = calloc(1, sizeof *listener);
    sigset_t term;
    if (!listener) return luo_err_nomem(err);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    *listener = (luo_listener){.fd = fd,
                               .where = where,
                               .lost = lost,
                               .withdraw_s = INFINITY,
                               .kill_s = INFINITY,
                               .in = {.limit = LUO_WIRE_LIMIT}};
    listener->signals = signalfd(-1, &term, SFD_CLOEXEC);
    listener->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&listener->lock, NULL);
    pthread_cond_init(&listener->trigger, NULL);
    if (listener->signals < 0 || listener->wake < 0 ||
        pthread_create(&listener->thread, NULL, listen_on, listener) != 0) {
        give_back(listener);
        return luo_err_set(err, LUO_EBACKEND,
                           "no thread to listen to the coordinator; the system "
                           "has to allow one more.");
    }
    *out = listener;
    return LUO_OK;
}

void luo_listener_close(luo_listener *listener)
{
    pthread_join(listener->thread, NULL);
    give_back(listener);
}

void luo_listener_next(luo_listener *listener, luo_command *out)
{
    pthread_mutex_lock(&listener->lock);
    while (!listener->first) pthread_cond_wait(&listener->trigger, &listener->lock);
    queued *q = listener->first;
    listener->first = q->next;
    if (!listener->first) listener->last = NULL;
    pthread_mutex_unlock(&listener->lock);
    *out = q->c;
    free(q);
}

luo_status luo_listener_say(luo_listener *listener, luo_say kind, const luo_wire *payload,
                            luo_err *err)
{
    pthread_mutex_lock(&listener->lock);
    const luo_status st = luo_wire_send(listener->fd, (int32_t)kind, payload, err);
    pthread_mutex_unlock(&listener->lock);
    return st;
}

const _Atomic bool *luo_listener_abort(const luo_listener *listener)
{
    return &listener->abort;
}

static void set(luo_listener *listener, int64_t serial, double withdraw_s, double kill_s)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&listener->lock);
    listener->serial = serial;
    listener->withdraw_s = withdraw_s;
    listener->kill_s = kill_s;
    listener->abort = serial > 0 && listener->aborted == serial;
    do_due(listener,
           luo_clock_s()); /* not left to the thread: the command could be over before it looks */
    pthread_mutex_unlock(&listener->lock);
    const ssize_t did = write(listener->wake, &one, sizeof one);
    (void)did; /* fails only where it is awake already */
}

void luo_listener_begin(luo_listener *listener, int64_t serial, double withdraw_s, double kill_s)
{
    set(listener, serial, withdraw_s, kill_s);
}

void luo_listener_finish(luo_listener *listener)
{
    set(listener, 0, INFINITY, INFINITY);
}
