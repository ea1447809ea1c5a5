#include "exec/coordinator/workers.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/clock.h"

/* Seconds: END_S for an end in order, which a busy machine draws out; REST_S for what is left after
 * a death. STRANGERS: connections that have not said who they are. */
enum { END_S = 20, REST_S = 5, SEND_S = 20, STRANGERS = 64, HELLO_BYTES = 4096 };

/* ---- those who knock ---- */

typedef struct stranger {
    int fd;
    luo_wire_in in;
} stranger;

typedef struct lobby {
    stranger at[STRANGERS];
    int n;
    int32_t here; /* ranks that have come */
} lobby;

static void send_away(lobby *l, int i)
{
    if (l->at[i].fd >= 0) close(l->at[i].fd);
    luo_wire_in_free(&l->at[i].in);
    l->at[i] = l->at[--l->n];
}

static luo_status other_build(luo_err *err)
{
    return luo_err_set(err, LUO_EBACKEND,
                       "the program of the ranks is of another build; `luoshu` and the programs "
                       "of ranks of one build belong together.");
}

/* Seats stranger i if it is a rank of ours. *seated false: it has to go. */
static luo_status greet(luo_workers *f, stranger *s, luo_wire *hello, bool *seated, luo_err *err)
{
    *seated = false;
    const int64_t version = luo_wire_int(hello);
    const char *token = luo_wire_text(hello);
    if (hello->failed || !token || strcmp(token, f->rendezvous.token) != 0) return LUO_OK;
    const int32_t rank = (int32_t)luo_wire_int_in(hello, 0, INT32_MAX);
    const int64_t n = luo_wire_int(hello), pid = luo_wire_int(hello);
    const char *host = luo_wire_text(hello);
    if (version != LUO_MESSAGE_VERSION || luo_wire_end(hello, NULL) != LUO_OK || !host)
        return other_build(err);
    if (n == f->n && rank < f->n && f->at[rank].fd >= 0) {
        snprintf(f->refused, sizeof f->refused,
                 "a second rank %d (process %lld on %.64s) came while the ranks started and was "
                 "refused",
                 rank, (long long)pid, host);
        return LUO_OK;
    }
    if (n != f->n || rank >= f->n)
        return luo_err_set(err, LUO_EBACKEND,
                           "rank %d of %lld came where %d ranks are expected; "
                           "the launcher has to start them as one MPI job.",
                           rank, (long long)n, f->n);
    luo_workers_rank *r = &f->at[rank];
    r->fd = s->fd;
    r->in = s->in;
    r->in.limit = LUO_WIRE_LIMIT;
    r->pid = (pid_t)pid;
    snprintf(r->host, sizeof r->host, "%s", host);
    s->fd = -1;
    s->in = (luo_wire_in){0};
    *seated = true;
    return LUO_OK;
}

static luo_status listen_to(luo_workers *f, lobby *l, int i, luo_err *err)
{
    stranger *s = &l->at[i];
    bool got = false, seated = false;
    int32_t kind = 0;
    luo_wire hello;
    luo_status st = LUO_OK;
    const bool open = luo_wire_read(&s->in, s->fd, NULL) == LUO_OK;
    if (luo_wire_next(&s->in, &got, &kind, &hello, NULL) == LUO_OK && !got && open) return LUO_OK;
    if (got && kind == LUO_SAY_HELLO) st = greet(f, s, &hello, &seated, err);
    l->here += seated;
    send_away(l, i);
    return st;
}

static void let_in(const luo_workers *f, lobby *l)
{
    const int fd = luo_wire_accept(f->rendezvous.fd, SEND_S);
    if (fd < 0) return;
    if (l->n == STRANGERS) send_away(l, 0);
    l->at[l->n++] = (stranger){.fd = fd, .in = {.limit = HELLO_BYTES}};
}

/* The launcher has ended before all ranks came, or told that one was killed on the way: that may go
 * well another time, and otherwise they cannot be started. */
static luo_status not_started(luo_workers *f, int32_t here, luo_err *err)
{
    char why[512];
    luo_launch_reason(&f->launch, why, sizeof why);
    if (WIFSIGNALED(f->launch.how) || luo_launch_rank_killed(&f->launch)) {
        f->loss.rank = -1;
        f->loss.at_s = luo_clock_s();
        snprintf(f->loss.text, sizeof f->loss.text, "a process died while the ranks started (%s)",
                 why);
        return luo_err_set(err, LUO_EPEER, "%s.", f->loss.text);
    }
    return luo_err_set(err, LUO_EBACKEND,
                       "the ranks did not start (%d of %d came): %s; `%s` has "
                       "to run under the launcher on every host.",
                       here, f->n, why, f->options->program);
}

/* Under --launcher none: has the process that became rank 0 ended? Then none will come any more. */
static bool nobody_comes(const luo_workers *f)
{
    struct pollfd p = {.fd = f->rendezvous.rank0, .events = POLLIN};
    return f->options->launcher == LUO_LAUNCH_NONE && poll(&p, 1, 0) > 0;
}

/* One look at the rendezvous and at all who stand in the lobby. */
static luo_status look_round(luo_workers *f, lobby *l, luo_err *err)
{
    struct pollfd p[STRANGERS + 1] = {{.fd = f->rendezvous.fd, .events = POLLIN}};
    for (int i = 0; i < l->n; i++) p[i + 1] = (struct pollfd){.fd = l->at[i].fd, .events = POLLIN};
    if (poll(p, (nfds_t)l->n + 1, 50) <= 0) return LUO_OK;
    for (int i = l->n - 1; i >= 0; i--)
        if (p[i + 1].revents) LUO_TRY(listen_to(f, l, i, err));
    if (p[0].revents) let_in(f, l);
    return LUO_OK;
}

/* Not all will come any more. A launcher can hang after it has told that a rank was killed. */
static bool is_over(luo_workers *f)
{
    if (f->options->launcher == LUO_LAUNCH_NONE) return false;
    return luo_launch_ended(&f->launch) || luo_launch_rank_killed(&f->launch);
}

static luo_status await_hellos(luo_workers *f, luo_err *err)
{
    lobby l = {0};
    luo_status st = LUO_OK;
    const double until = luo_clock_s() + LUO_WORKERS_START_S;
    while (st == LUO_OK && l.here < f->n) {
        /* asked before looking: what an ended launcher's ranks still said is then heard */
        const bool over = is_over(f);
        st = look_round(f, &l, err);
        if (st == LUO_OK && over && l.here < f->n) st = not_started(f, l.here, err);
        if (st == LUO_OK && l.here < f->n && nobody_comes(f))
            st = luo_err_set(err, LUO_EBACKEND,
                             "the ranks that the launcher started are gone; a "
                             "run needs a start of its own.");
        if (st == LUO_OK && luo_clock_s() > until)
            st = luo_err_set(err, LUO_EBACKEND,
                             "only %d of %d ranks came within %d s; all hosts "
                             "have to reach %s:%d.",
                             l.here, f->n, LUO_WORKERS_START_S, f->rendezvous.host,
                             f->rendezvous.port);
    }
    while (l.n > 0) send_away(&l, 0);
    return st;
}

/* ---- a life ---- */

static void give_back(luo_workers *f)
{
    for (int32_t i = 0; i < f->n; i++) {
        luo_wire_in_free(&f->at[i].in);
        luo_wire_free(&f->at[i].answer);
    }
    free(f->at);
    free(f->poll);
    f->at = NULL;
    f->poll = NULL;
    f->n = 0;
}

static luo_status make_room(luo_workers *f, const luo_setup *s, luo_err *err)
{
    f->at = calloc((size_t)s->nranks, sizeof *f->at);
    f->poll = calloc((size_t)s->nranks, sizeof *f->poll);
    if (!f->at || !f->poll) return luo_err_nomem(err);
    f->n = s->nranks;
    for (int32_t i = 0; i < f->n; i++) {
        f->at[i].fd = -1;
        f->at[i].device = s->device_of[i];
    }
    return LUO_OK;
}

/* A rendezvous is open while ranks come, so each start has a token of its own; under --launcher
 * none, where there is one start, it is the one that was split off. */
static luo_status open_rendezvous(luo_workers *f, luo_err *err)
{
    if (f->has_rendezvous && f->rendezvous.fd >= 0) return LUO_OK;
    if (f->options->launcher != LUO_LAUNCH_NONE)
        LUO_TRY(luo_rendezvous_open(f->options, &f->rendezvous, err));
    else if (!f->options->rendezvous)
        return luo_err_set(err, LUO_EBUG, "`--launcher none` without luo_launch_split.");
    else
        f->rendezvous = *f->options->rendezvous;
    f->has_rendezvous = true;
    return LUO_OK;
}

static luo_status set_up(luo_workers *f, const luo_setup *setup, luo_err *err)
{
    luo_wire w = {0};
    luo_workers_wait wait = {.what = "read the inputs",
                           .abort_s = INFINITY,
                           .stuck_s = fmax(f->options->stuck_s, LUO_WORKERS_START_S)};
    luo_workers_begin(f, &w);
    luo_put_setup(&w, setup);
    luo_status st = luo_workers_send_all(f, LUO_SAY_SETUP, &w, err);
    luo_wire_free(&w);
    if (st == LUO_OK) st = luo_workers_wait_all(f, &wait, err);
    if (st == LUO_OK) st = luo_workers_answers(f, err);
    return st;
}

luo_status luo_workers_start(luo_workers *f, const luo_exec_options *options,
                             const luo_setup *setup, luo_err *err)
{
    luo_launch_end(&f->launch, options, REST_S);
    give_back(f);
    f->options = options;
    luo_status st = make_room(f, setup, err);
    if (st == LUO_OK) st = open_rendezvous(f, err);
    f->local = st == LUO_OK && f->rendezvous.alone &&
               (options->launcher == LUO_LAUNCH_MPIRUN || options->launcher == LUO_LAUNCH_LOCAL);
    if (st == LUO_OK && options->launcher != LUO_LAUNCH_NONE)
        st = luo_launch_start(options, &f->rendezvous, f->n, &f->launch, err);
    if (st == LUO_OK) st = await_hellos(f, err);
    if (f->has_rendezvous) luo_rendezvous_shut(&f->rendezvous);
    if (st == LUO_OK) st = set_up(f, setup, err);
    f->alive = st == LUO_OK;
    if (st != LUO_OK) luo_workers_drop(f);
    return st;
}

void luo_workers_drop(luo_workers *f)
{
    for (int32_t i = 0; i < f->n; i++) {
        luo_workers_rank *r = &f->at[i];
        if (r->fd < 0) continue;
        if (f->local) kill(r->pid, SIGKILL); /* its connection is open, so it is still this one */
        close(r->fd);                        /* others end when they see that */
        r->fd = -1;
    }
    f->alive = false;
}

/* Reads on until all have closed, or the time is over. */
static void see_off(luo_workers *f)
{
    const double until = luo_clock_s() + END_S;
    int32_t left = f->n;
    while (left > 0 && luo_clock_s() < until) {
        left = 0;
        for (int32_t i = 0; i < f->n; i++) {
            luo_workers_rank *r = &f->at[i];
            f->poll[i] = (struct pollfd){.fd = r->fd, .events = POLLIN};
            left += r->fd >= 0;
        }
        if (left == 0 || poll(f->poll, (nfds_t)f->n, 100) <= 0) continue;
        for (int32_t i = 0; i < f->n; i++) {
            luo_workers_rank *r = &f->at[i];
            r->in.used = r->in.len;
            if (!f->poll[i].revents || luo_wire_read(&r->in, r->fd, NULL) == LUO_OK) continue;
            close(r->fd);
            r->fd = -1;
        }
    }
}

void luo_workers_end(luo_workers *f)
{
    if (!f->options) return;
    const bool in_order = f->alive;
    if (in_order && luo_workers_send_all(f, LUO_SAY_END, NULL, NULL) == LUO_OK) see_off(f);
    luo_workers_drop(f);
    luo_launch_end(&f->launch, f->options, in_order ? END_S : REST_S);
    if (f->has_rendezvous) luo_rendezvous_close(&f->rendezvous);
    give_back(f);
    *f = (luo_workers){0};
}

int32_t luo_workers_rank_of(const luo_workers *f, int32_t device)
{
    int32_t lo = 0, hi = f->n;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (f->at[mid].device < device)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < f->n && f->at[lo].device == device ? lo : -1;
}
