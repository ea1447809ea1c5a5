#include "exec/coordinator/workers.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
static luo_status greet(luo_workers *workers, stranger *s, luo_wire *hello, bool *seated,
                        luo_err *err)
{
    *seated = false;
    const int64_t version = luo_wire_int(hello);
    const char *token = luo_wire_text(hello);
    if (hello->failed || !token || strcmp(token, workers->rendezvous.token) != 0) return LUO_OK;
    const int32_t rank = (int32_t)luo_wire_int_in(hello, 0, INT32_MAX);
    const int64_t n = luo_wire_int(hello), pid = luo_wire_int(hello);
    const char *host = luo_wire_text(hello);
    if (version != LUO_MESSAGE_VERSION || luo_message_end(hello, NULL) != LUO_OK || !host)
        return other_build(err);
    if (n == workers->n && rank < workers->n && workers->at[rank].fd >= 0) {
        snprintf(workers->refused, sizeof workers->refused,
                 "a second rank %d (process %lld on %.64s) came while the ranks started and was "
                 "refused",
                 rank, (long long)pid, host);
        return LUO_OK;
    }
    if (n != workers->n || rank >= workers->n)
        return luo_err_set(err, LUO_EBACKEND,
                           "rank %d of %lld came where %d ranks are expected; "
                           "the launcher has to start them as one MPI job.",
                           rank, (long long)n, workers->n);
    luo_workers_rank *workers_rank = &workers->at[rank];
    workers_rank->fd = s->fd;
    workers_rank->in = s->in;
    workers_rank->in.limit = LUO_WIRE_LIMIT;
    workers_rank->pid = (pid_t)pid;
    snprintf(workers_rank->host, sizeof workers_rank->host, "%s", host);
    s->fd = -1;
    s->in = (luo_wire_in){0};
    *seated = true;
    return LUO_OK;
}

static luo_status listen_to(luo_workers *workers, lobby *l, int i, luo_err *err)
{
    stranger *s = &l->at[i];
    bool got = false, seated = false;
    int32_t kind = 0;
    luo_wire hello;
    luo_status st = LUO_OK;
    const bool open = luo_wire_read(&s->in, s->fd, NULL) == LUO_OK;
    if (luo_wire_next(&s->in, &got, &kind, &hello, NULL) == LUO_OK && !got && open) return LUO_OK;
    if (got && kind == LUO_SAY_HELLO) st = greet(workers, s, &hello, &seated, err);
    l->here += seated;
    send_away(l, i);
    return st;
}

static void let_in(const luo_workers *workers, lobby *l)
{
    const int fd = luo_wire_accept(workers->rendezvous.fd, SEND_S);
    if (fd < 0) return;
    if (l->n == STRANGERS) send_away(l, 0);
    l->at[l->n++] = (stranger){.fd = fd, .in = {.limit = HELLO_BYTES}};
}

/* The launcher has ended before all ranks came, or told that one was killed on the way: that may go
 * well another time, and otherwise they cannot be started. */
static luo_status not_started(luo_workers *workers, int32_t here, luo_err *err)
{
    char why[512];
    luo_launch_reason(&workers->launch, why, sizeof why);
    if (luo_process_signal(&workers->launch.process) || luo_launch_rank_killed(&workers->launch)) {
        workers->loss.rank = -1;
        workers->loss.at_s = luo_clock_s();
        snprintf(workers->loss.text, sizeof workers->loss.text,
                 "a process died while the ranks started (%s)", why);
        return luo_err_set(err, LUO_EPEER, "%s.", workers->loss.text);
    }
    return luo_err_set(err, LUO_EBACKEND,
                       "the ranks did not start (%d of %d came): %s; `%s` has "
                       "to run under the launcher on every host.",
                       here, workers->n, why, workers->options->program);
}

/* Under --launcher none: has the process that became rank 0 ended? Then none will come any more. */
static bool nobody_comes(const luo_workers *workers)
{
    struct pollfd p = {.fd = workers->rendezvous.rank0, .events = POLLIN};
    return workers->options->launcher == LUO_LAUNCH_NONE && poll(&p, 1, 0) > 0;
}

/* One look at the rendezvous and at all who stand in the lobby. */
static luo_status look_round(luo_workers *workers, lobby *l, luo_err *err)
{
    struct pollfd p[STRANGERS + 1] = {{.fd = workers->rendezvous.fd, .events = POLLIN}};
    for (int i = 0; i < l->n; i++) p[i + 1] = (struct pollfd){.fd = l->at[i].fd, .events = POLLIN};
    if (poll(p, (nfds_t)l->n + 1, 50) <= 0) return LUO_OK;
    for (int i = l->n - 1; i >= 0; i--)
        if (p[i + 1].revents) LUO_TRY(listen_to(workers, l, i, err));
    if (p[0].revents) let_in(workers, l);
    return LUO_OK;
}

/* Not all will come any more. A launcher can hang after it has told that a rank was killed. */
static bool is_over(luo_workers *workers)
{
    if (workers->options->launcher == LUO_LAUNCH_NONE) return false;
    return luo_launch_ended(&workers->launch) || luo_launch_rank_killed(&workers->launch);
}

static luo_status await_hellos(luo_workers *workers, luo_err *err)
{
    lobby l = {0};
    luo_status st = LUO_OK;
    const double until = luo_clock_s() + LUO_WORKERS_START_S;
    while (st == LUO_OK && l.here < workers->n) {
        /* asked before looking: what an ended launcher's ranks still said is then heard */
        const bool over = is_over(workers);
        st = look_round(workers, &l, err);
        if (st == LUO_OK && over && l.here < workers->n) st = not_started(workers, l.here, err);
        if (st == LUO_OK && l.here < workers->n && nobody_comes(workers))
            st = luo_err_set(err, LUO_EBACKEND,
                             "the ranks that the launcher started are gone; a "
                             "run needs a start of its own.");
        if (st == LUO_OK && luo_clock_s() > until)
            st = luo_err_set(err, LUO_EBACKEND,
                             "only %d of %d ranks came within %d s; all hosts "
                             "have to reach %s:%d.",
                             l.here, workers->n, LUO_WORKERS_START_S, workers->rendezvous.host,
                             workers->rendezvous.port);
    }
    while (l.n > 0) send_away(&l, 0);
    return st;
}

/* ---- a life ---- */

static void give_back(luo_workers *workers)
{
    for (int32_t i = 0; i < workers->n; i++) {
        luo_wire_in_free(&workers->at[i].in);
        luo_wire_free(&workers->at[i].answer);
    }
    free(workers->at);
    free(workers->poll);
    workers->at = NULL;
    workers->poll = NULL;
    workers->n = 0;
}

static luo_status make_room(luo_workers *workers, const luo_setup *setup, luo_err *err)
{
    workers->at = calloc((size_t)setup->nranks, sizeof *workers->at);
    workers->poll = calloc((size_t)setup->nranks, sizeof *workers->poll);
    if (!workers->at || !workers->poll) return luo_err_nomem(err);
    workers->n = setup->nranks;
    for (int32_t i = 0; i < workers->n; i++) {
        workers->at[i].fd = -1;
        workers->at[i].device = setup->device_of[i];
    }
    return LUO_OK;
}

/* A rendezvous is open while ranks come, so each start has a token of its own; under --launcher
 * none, where there is one start, it is the one that was split off. */
static luo_status open_rendezvous(luo_workers *workers, luo_err *err)
{
    if (workers->has_rendezvous && workers->rendezvous.fd >= 0) return LUO_OK;
    if (workers->options->launcher != LUO_LAUNCH_NONE)
        LUO_TRY(luo_rendezvous_open(workers->options, &workers->rendezvous, err));
    else if (!workers->options->rendezvous)
        return luo_err_set(err, LUO_EBUG, "`--launcher none` without luo_launch_split.");
    else
        workers->rendezvous = *workers->options->rendezvous;
    workers->has_rendezvous = true;
    return LUO_OK;
}

static luo_status set_up(luo_workers *workers, const luo_setup *setup, luo_err *err)
{
    luo_wire wire = {0};
    luo_workers_wait wait = {.what = "read the inputs",
                             .abort_s = INFINITY,
                             .stuck_s = fmax(workers->options->stuck_s, LUO_WORKERS_START_S)};
    luo_workers_begin(workers, &wire);
    luo_message_put_setup(&wire, setup);
    luo_status st = luo_workers_send_all(workers, LUO_SAY_SETUP, &wire, err);
    luo_wire_free(&wire);
    if (st == LUO_OK) st = luo_workers_wait_all(workers, &wait, err);
    if (st == LUO_OK) st = luo_workers_answers(workers, err);
    return st;
}

luo_status luo_workers_start(luo_workers *workers, const luo_exec_options *options,
                             const char *const *host_of, const luo_setup *setup, luo_err *err)
{
    luo_launch_end(&workers->launch, options, REST_S);
    give_back(workers);
    workers->options = options;
    luo_status st = make_room(workers, setup, err);
    if (st == LUO_OK) st = open_rendezvous(workers, err);
    workers->local =
        st == LUO_OK && workers->rendezvous.alone &&
        (options->launcher == LUO_LAUNCH_MPIRUN || options->launcher == LUO_LAUNCH_LOCAL);
    if (st == LUO_OK && options->launcher != LUO_LAUNCH_NONE)
        st = luo_launch_start(options, &workers->rendezvous, host_of, workers->n, &workers->launch,
                              err);
    if (st == LUO_OK) st = await_hellos(workers, err);
    if (workers->has_rendezvous) luo_rendezvous_shut(&workers->rendezvous);
    if (st == LUO_OK) st = set_up(workers, setup, err);
    workers->alive = st == LUO_OK;
    if (st != LUO_OK) luo_workers_drop(workers);
    return st;
}

void luo_workers_drop(luo_workers *workers)
{
    for (int32_t i = 0; i < workers->n; i++) {
        luo_workers_rank *rank = &workers->at[i];
        if (rank->fd < 0) continue;
        if (workers->local)
            kill(rank->pid, SIGKILL); /* its connection is open, so it is still this one */
        close(rank->fd);              /* others end when they see that */
        rank->fd = -1;
    }
    workers->alive = false;
}

/* Reads on until all have closed, or the time is over. */
static void see_off(luo_workers *workers)
{
    const double until = luo_clock_s() + END_S;
    int32_t left = workers->n;
    while (left > 0 && luo_clock_s() < until) {
        left = 0;
        for (int32_t i = 0; i < workers->n; i++) {
            luo_workers_rank *rank = &workers->at[i];
            workers->poll[i] = (struct pollfd){.fd = rank->fd, .events = POLLIN};
            left += rank->fd >= 0;
        }
        if (left == 0 || poll(workers->poll, (nfds_t)workers->n, 100) <= 0) continue;
        for (int32_t i = 0; i < workers->n; i++) {
            luo_workers_rank *workers_rank = &workers->at[i];
            workers_rank->in.used = workers_rank->in.len;
            if (!workers->poll[i].revents ||
                luo_wire_read(&workers_rank->in, workers_rank->fd, NULL) == LUO_OK)
                continue;
            close(workers_rank->fd);
            workers_rank->fd = -1;
        }
    }
}

void luo_workers_end(luo_workers *workers)
{
    if (!workers->options) return;
    const bool in_order = workers->alive;
    if (in_order && luo_workers_send_all(workers, LUO_SAY_END, NULL, NULL) == LUO_OK)
        see_off(workers);
    luo_workers_drop(workers);
    luo_launch_end(&workers->launch, workers->options, in_order ? END_S : REST_S);
    if (workers->has_rendezvous) luo_rendezvous_close(&workers->rendezvous);
    give_back(workers);
    *workers = (luo_workers){0};
}

int32_t luo_workers_rank_of(const luo_workers *workers, int32_t device)
{
    int32_t lo = 0, hi = workers->n;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (workers->at[mid].device < device)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < workers->n && workers->at[lo].device == device ? lo : -1;
}
