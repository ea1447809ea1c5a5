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

luo_status sim_worker_fork(sim_worker *worker, const sim_net *net,
                           const struct sim_episode *episode, const sim_worker *others,
                           int32_t nothers, luo_err *err)
{
    int fd[2], log, why;
    int (*serve)(void *);
    *worker = (sim_worker){0};
    LUO_TRY(sim_plugin_find(&serve, err));
    LUO_TRY(open_streams(fd, &log, err));
    sim_birth birth = {fd[1], fd[0], net, others, nothers, episode};
    const luo_process_opts opts = {
        .inside = serve, .ctx = &birth, .err = log, .parent_signal = SIGKILL};
    const luo_status st = luo_process_start(&opts, &worker->process, &why);
    close(fd[1]);
    if (st != LUO_OK) {
        close(fd[0]);
        close(log);
        return luo_err_set(err, st, "no process for the simulator: %s; end others.", strerror(why));
    }
    worker->fd = fd[0];
    worker->log = log;
    return LUO_OK;
}

luo_status sim_worker_start(sim_worker *worker, const luo_backend_config *config,
                            const luo_programs *set, const sim_worker *others, int32_t nothers,
                            luo_err *err)
{
    sim_net *net = NULL;
    luo_arena *arena = luo_arena_new(1 << 20);
    *worker = (sim_worker){0};
    if (!arena) return luo_err_nomem(err);
    luo_status st = sim_net_make(arena, config, set, NULL, &net, err);
    if (st == LUO_OK) st = sim_worker_fork(worker, net, NULL, others, nothers, err);
    luo_arena_free(arena); /* the process has its own copy */
    if (st == LUO_OK) worker->hash = set->hash;
    return st;
}

void sim_worker_drop(sim_worker *worker)
{
    if (!worker->process.pid) {
        *worker = (sim_worker){0};
        return;
    }
    close(worker->fd);
    close(worker->log);
    luo_process_end(&worker->process, 0);
    *worker = (sim_worker){0};
}

enum { LOG_BYTES = 8192 };

/* The process has closed its end: say how it died. */
static luo_status mourn(sim_worker *worker, luo_err *err)
{
    char said[LOG_BYTES + 1], text[SIM_DEATH_TEXT];
    close(worker->fd);
    luo_process_wait(&worker->process, INFINITY);
    const ssize_t n = pread(worker->log, said, LOG_BYTES, 0);
    said[n > 0 ? n : 0] = 0;
    close(worker->log);
    const bool nomem = luo_process_code(&worker->process) == SIM_NO_MEMORY;
    sim_death_text(worker->process.how, said, text);
    *worker = (sim_worker){0};
    return nomem ? luo_err_nomem(err) : luo_err_set(err, LUO_EBACKEND, "%s", text);
}

static bool put_question(const sim_worker *worker, const sim_ask *ask)
{
    const sim_question question = {ask->nchanges, ask->trace, ask->noise != NULL, ask->update};
    const luo_world *world = ask->world;
    const size_t devices = (size_t)world->ndevices, links = (size_t)world->nlinks;
    return sim_send(worker->fd, &question, sizeof question) &&
           sim_send(worker->fd, world->slowdown, devices * sizeof(double)) &&
           sim_send(worker->fd, world->up, devices * sizeof(bool)) &&
           sim_send(worker->fd, world->link_factor, links * sizeof(double)) &&
           sim_send(worker->fd, world->link_extra_latency_s, links * sizeof(double)) &&
           sim_send(worker->fd, ask->changes, (size_t)ask->nchanges * sizeof *ask->changes) &&
           (!ask->noise || sim_send(worker->fd, ask->noise, (size_t)ask->n * sizeof *ask->noise));
}

static bool take_arrays(const sim_worker *worker, luo_arena *arena, sim_reply *reply, bool *nomem)
{
    const size_t n = (size_t)reply->head.n, links = (size_t)reply->head.nlinks;
    const size_t comm = (size_t)reply->head.ncomm, records = (size_t)reply->head.nrecords;
    reply->parts = luo_arena_alloc(arena, n * sizeof *reply->parts);
    reply->compute_s = luo_arena_alloc(arena, n * sizeof *reply->compute_s);
    reply->predicted_s = luo_arena_alloc(arena, n * sizeof *reply->predicted_s);
    reply->links = luo_arena_alloc(arena, links * sizeof *reply->links);
    reply->comm = luo_arena_alloc(arena, comm * sizeof *reply->comm);
    reply->records = luo_arena_alloc(arena, records * sizeof *reply->records);
    *nomem = !reply->parts || !reply->compute_s || !reply->predicted_s || !reply->links ||
             !reply->comm || !reply->records;
    if (*nomem) return false;
    return sim_receive(worker->fd, reply->parts, n * sizeof *reply->parts) &&
           sim_receive(worker->fd, reply->compute_s, n * sizeof *reply->compute_s) &&
           sim_receive(worker->fd, reply->predicted_s, n * sizeof *reply->predicted_s) &&
           sim_receive(worker->fd, reply->links, links * sizeof *reply->links) &&
           sim_receive(worker->fd, reply->comm, comm * sizeof *reply->comm) &&
           sim_receive(worker->fd, reply->records, records * sizeof *reply->records);
}

/* Until there is something to read, or nobody wants it any more. */
static bool wait_for(const sim_worker *worker, const volatile int *interrupted)
{
    enum { LOOK_MS = 100 };
    struct pollfd p = {.fd = worker->fd, .events = POLLIN};
    while (!interrupted || !*interrupted) {
        const int n = poll(&p, 1, LOOK_MS);
        if (n > 0 || (n < 0 && errno != EINTR)) return true;
    }
    return false;
}

luo_status sim_worker_hear(sim_worker *worker, const volatile int *interrupted, void *data,
                           size_t bytes, luo_err *err)
{
    if (!wait_for(worker, interrupted)) {
        sim_worker_drop(worker);
        return luo_err_set(err, LUO_ECANCELED, "the step was interrupted while it was simulated.");
    }
    return sim_receive(worker->fd, data, bytes) ? LUO_OK : mourn(worker, err);
}

luo_status sim_worker_take(sim_worker *worker, luo_arena *arena, const volatile int *interrupted,
                           sim_reply *out, luo_err *err)
{
    bool nomem = false;
    LUO_TRY(sim_worker_hear(worker, interrupted, &out->head, sizeof out->head, err));
    if (out->head.status == LUO_ENOMEM)
        nomem = true;
    else if (!take_arrays(worker, arena, out, &nomem) && !nomem)
        return mourn(worker, err);
    if (out->head.status != LUO_OK || nomem) sim_worker_drop(worker);
    return nomem ? luo_err_nomem(err) : LUO_OK;
}

luo_status sim_worker_ask(sim_worker *worker, luo_arena *arena, const sim_ask *ask, sim_reply *out,
                          luo_err *err)
{
    if (!put_question(worker, ask)) return mourn(worker, err);
    return sim_worker_take(worker, arena, ask->interrupted, out, err);
}
