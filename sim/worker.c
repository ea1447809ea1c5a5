/* worker.c: this side of the socket. */
#include "sim/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/plugin/plugin.h"
#include "sim/step/death.h"
#include "sim/step/serve.h"
#include "sim/talk.h"

static luo_status open_streams(int fd[2], int *log, luo_err *err)
{
    *log = memfd_create("luoshu-simulator", MFD_CLOEXEC);
    if (*log < 0)
        return luo_err_set(err, LUO_EBACKEND,
                           "no file in memory for the simulator: %s; close files.",
                           strerror(errno));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0) return LUO_OK;
    luo_err_set(err, LUO_EBACKEND, "no socket pair for the simulator: %s; close files.",
                strerror(errno));
    close(*log);
    return LUO_EBACKEND;
}

luo_status sim_worker_fork(sim_worker *w, const sim_net *net, const struct sim_episode *episode,
                           const sim_worker *others, int32_t nothers, luo_err *err)
{
    int fd[2], log, why;
    int (*serve)(void *);
    *w = (sim_worker){0};
    LUO_TRY(sim_plugin_find(&serve, err));
    LUO_TRY(open_streams(fd, &log, err));
    sim_birth b = {fd[1], fd[0], net, others, nothers, episode};
    const luo_process_opts opts = {
        .inside = serve, .ctx = &b, .err = log, .parent_signal = SIGKILL};
    const luo_status st = luo_process_start(&opts, &w->process, &why);
    close(fd[1]);
    if (st != LUO_OK) {
        close(fd[0]);
        close(log);
        return luo_err_set(err, st, "no process for the simulator: %s; end others.", strerror(why));
    }
    w->fd = fd[0];
    w->log = log;
    return LUO_OK;
}

luo_status sim_worker_start(sim_worker *w, const luo_backend_config *config,
                            const luo_programs *set, const sim_worker *others, int32_t nothers,
                            luo_err *err)
{
    sim_net *net = NULL;
    luo_arena *arena = luo_arena_new(1 << 20);
    *w = (sim_worker){0};
    if (!arena) return luo_err_nomem(err);
    luo_status st = sim_net_make(arena, config, set, NULL, &net, err);
    if (st == LUO_OK) st = sim_worker_fork(w, net, NULL, others, nothers, err);
    luo_arena_free(arena); /* the process has its own copy */
    if (st == LUO_OK) w->hash = set->hash;
    return st;
}

void sim_worker_drop(sim_worker *w)
{
    if (!w->process.pid) {
        *w = (sim_worker){0};
        return;
    }
    close(w->fd);
    close(w->log);
    luo_process_end(&w->process, 0);
    *w = (sim_worker){0};
}

enum { LOG_BYTES = 8192 };

/* The process has closed its end: say how it died. */
static luo_status mourn(sim_worker *w, luo_err *err)
{
    char said[LOG_BYTES + 1], text[SIM_DEATH_TEXT];
    close(w->fd);
    luo_process_wait(&w->process, INFINITY);
    const ssize_t n = pread(w->log, said, LOG_BYTES, 0);
    said[n > 0 ? n : 0] = 0;
    close(w->log);
    const bool nomem = luo_process_code(&w->process) == SIM_NO_MEMORY;
    sim_death_text(w->process.how, said, text);
    *w = (sim_worker){0};
    return nomem ? luo_err_nomem(err) : luo_err_set(err, LUO_EBACKEND, "%s", text);
}

static bool put_question(const sim_worker *w, const sim_ask *ask)
{
    const sim_question q = {ask->nchanges, ask->trace, ask->noise != NULL, ask->update};
    const luo_world *world = ask->world;
    const size_t devices = (size_t)world->ndevices, links = (size_t)world->nlinks;
    return sim_send(w->fd, &q, sizeof q) &&
           sim_send(w->fd, world->slowdown, devices * sizeof(double)) &&
           sim_send(w->fd, world->up, devices * sizeof(bool)) &&
           sim_send(w->fd, world->link_factor, links * sizeof(double)) &&
           sim_send(w->fd, world->link_extra_latency_s, links * sizeof(double)) &&
           sim_send(w->fd, ask->changes, (size_t)ask->nchanges * sizeof *ask->changes) &&
           (!ask->noise || sim_send(w->fd, ask->noise, (size_t)ask->n * sizeof *ask->noise));
}

static bool take_arrays(const sim_worker *w, luo_arena *arena, sim_reply *r, bool *nomem)
{
    const size_t n = (size_t)r->head.n, links = (size_t)r->head.nlinks;
    const size_t comm = (size_t)r->head.ncomm, records = (size_t)r->head.nrecords;
    r->parts = luo_arena_alloc(arena, n * sizeof *r->parts);
    r->compute_s = luo_arena_alloc(arena, n * sizeof *r->compute_s);
    r->predicted_s = luo_arena_alloc(arena, n * sizeof *r->predicted_s);
    r->links = luo_arena_alloc(arena, links * sizeof *r->links);
    r->comm = luo_arena_alloc(arena, comm * sizeof *r->comm);
    r->records = luo_arena_alloc(arena, records * sizeof *r->records);
    *nomem = !r->parts || !r->compute_s || !r->predicted_s || !r->links || !r->comm || !r->records;
    if (*nomem) return false;
    return sim_receive(w->fd, r->parts, n * sizeof *r->parts) &&
           sim_receive(w->fd, r->compute_s, n * sizeof *r->compute_s) &&
           sim_receive(w->fd, r->predicted_s, n * sizeof *r->predicted_s) &&
           sim_receive(w->fd, r->links, links * sizeof *r->links) &&
           sim_receive(w->fd, r->comm, comm * sizeof *r->comm) &&
           sim_receive(w->fd, r->records, records * sizeof *r->records);
}

/* Until there is something to read, or nobody wants it any more. */
static bool wait_for(const sim_worker *w, const volatile int *interrupted)
{
    enum { LOOK_MS = 100 };
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    while (!interrupted || !*interrupted) {
        const int n = poll(&p, 1, LOOK_MS);
        if (n > 0 || (n < 0 && errno != EINTR)) return true;
    }
    return false;
}

luo_status sim_worker_hear(sim_worker *w, const volatile int *interrupted, void *data, size_t bytes,
                           luo_err *err)
{
    if (!wait_for(w, interrupted)) {
        sim_worker_drop(w);
        return luo_err_set(err, LUO_ECANCELED, "the step was interrupted while it was simulated.");
    }
    return sim_receive(w->fd, data, bytes) ? LUO_OK : mourn(w, err);
}

luo_status sim_worker_take(sim_worker *w, luo_arena *arena, const volatile int *interrupted,
                           sim_reply *out, luo_err *err)
{
    bool nomem = false;
    LUO_TRY(sim_worker_hear(w, interrupted, &out->head, sizeof out->head, err));
    if (out->head.status == LUO_ENOMEM)
        nomem = true;
    else if (!take_arrays(w, arena, out, &nomem) && !nomem)
        return mourn(w, err);
    if (out->head.status != LUO_OK || nomem) sim_worker_drop(w);
    return nomem ? luo_err_nomem(err) : LUO_OK;
}

luo_status sim_worker_ask(sim_worker *w, luo_arena *arena, const sim_ask *ask, sim_reply *out,
                          luo_err *err)
{
    if (!put_question(w, ask)) return mourn(w, err);
    return sim_worker_take(w, arena, ask->interrupted, out, err);
}
