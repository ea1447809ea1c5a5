/* worker.c: both sides of the socket. */
#include "sim/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/step/death.h"
#include "sim/shim.h"
#include "sim/talk.h"

typedef struct question { /* goes first; world, changes and random states follow */
    int32_t nchanges;
    bool trace, noise;
    double update;
} question;

enum { NO_MEMORY = 12 }; /* exit code of a process that had none */

/* ---- the process ---- */

typedef struct server {
    int fd;
    luo_arena *arena, *asked; /* of the process; of one question */
    const sim_net *net;
    sim_grid grid;
    sim_step step;
    sim_unit_loads units;
    luo_world world;
    luo_change *changes;
    question q;
    bool nomem; /* for the question */
} server;

static bool send_reply(int fd, const sim_reply *r)
{
    const size_t n = (size_t)r->head.n;
    return sim_send(fd, &r->head, sizeof r->head) &&
           sim_send(fd, r->parts, n * sizeof *r->parts) &&
           sim_send(fd, r->compute_s, n * sizeof *r->compute_s) &&
           sim_send(fd, r->predicted_s, n * sizeof *r->predicted_s) &&
           sim_send(fd, r->links, (size_t)r->head.nlinks * sizeof *r->links) &&
           sim_send(fd, r->comm, (size_t)r->head.ncomm * sizeof *r->comm) &&
           sim_send(fd, r->records, (size_t)r->head.nrecords * sizeof *r->records) &&
           (!r->rng || sim_send(fd, r->rng, n * sizeof *r->rng));
}

/* No actor can go on: tell why and end, since SimGrid is about to kill them all. */
static void on_deadlock(void *ctx)
{
    server *v = ctx;
    sim_reply reply;
    v->step.st = LUO_ESTUCK;
    v->step.end = sim_now(&v->step);
    char text[LUO_ERR_TEXT];
    sim_stuck_text(&v->step, text, sizeof text);
    v->step.stopped = true;
    if (sim_report(&v->step, &v->units, &reply) != LUO_OK) _exit(NO_MEMORY);
    memcpy(reply.head.text, text, sizeof text);
    _exit(send_reply(v->fd, &reply) ? 0 : 1);
}

static luo_status prepare(server *v)
{
    const luo_cluster *cluster = v->net->config->cluster;
    v->arena = luo_arena_new(1 << 20);
    v->asked = luo_arena_new(1 << 16);
    if (!v->arena || !v->asked) return LUO_ENOMEM;
    v->world.ndevices = cluster->ndevices;
    v->world.nlinks = cluster->nlinks;
    v->world.slowdown = LUO_NEW_N(v->arena, double, cluster->ndevices);
    v->world.up = LUO_NEW_N(v->arena, bool, cluster->ndevices);
    v->world.link_factor = LUO_NEW_N(v->arena, double, cluster->nlinks);
    v->world.link_extra_latency_s = LUO_NEW_N(v->arena, double, cluster->nlinks);
    if (!v->world.slowdown || !v->world.up || !v->world.link_factor ||
        !v->world.link_extra_latency_s)
        return LUO_ENOMEM;
    LUO_TRY(sim_grid_open(v->arena, v->net, &v->grid));
    LUO_TRY(sim_unit_init(v->arena, v->net, &v->units));
    luo_shim_on_deadlock(on_deadlock, v);
    signal(SIGINT, SIG_IGN); /* SimGrid took it; it is the parent's to answer */
    return sim_step_init(v->arena, &v->step, v->net, &v->grid);
}

static bool hear(server *v)
{
    luo_arena_reset(v->asked, 0);
    if (!sim_receive(v->fd, &v->q, sizeof v->q)) return false;
    const size_t devices = (size_t)v->world.ndevices, links = (size_t)v->world.nlinks;
    v->changes = LUO_NEW_N(v->asked, luo_change, v->q.nchanges);
    v->step.update = v->q.update;
    v->step.rng = v->q.noise ? LUO_NEW_N(v->asked, luo_rng, v->net->set->n) : NULL;
    v->nomem = !v->changes || (v->q.noise && !v->step.rng);
    if (v->nomem) return false;
    return sim_receive(v->fd, v->world.slowdown, devices * sizeof(double)) &&
           sim_receive(v->fd, v->world.up, devices * sizeof(bool)) &&
           sim_receive(v->fd, v->world.link_factor, links * sizeof(double)) &&
           sim_receive(v->fd, v->world.link_extra_latency_s, links * sizeof(double)) &&
           sim_receive(v->fd, v->changes, (size_t)v->q.nchanges * sizeof *v->changes) &&
           (!v->q.noise ||
            sim_receive(v->fd, v->step.rng, (size_t)v->net->set->n * sizeof *v->step.rng));
}

static bool answer(server *v)
{
    sim_reply reply = {.head = {.status = LUO_ENOMEM}};
    luo_status st = sim_step_run(&v->step, &v->world, v->changes, v->q.nchanges, v->q.trace);
    if (st == LUO_OK) st = sim_report(&v->step, &v->units, &reply);
    if (st != LUO_OK) {
        const sim_head head = {.status = (int32_t)st};
        sim_send(v->fd, &head, sizeof head);
        return false;
    }
    return send_reply(v->fd, &reply) && reply.head.status == LUO_OK;
}

typedef struct birth { /* what the process is given */
    int fd, not_ours; /* its end of the socket, and the other */
    const sim_net *net;
    const sim_worker *others;
    int32_t nothers;
} birth;

static int serve(void *ctx)
{
    const birth *b = ctx;
    server v = {.fd = b->fd, .net = b->net};
    close(b->not_ours);
    for (int32_t i = 0; i < b->nothers; i++)
        if (b->others[i].process.pid) close(b->others[i].fd);
    __fpurge(stdout); /* SimGrid flushes; what the parent has not written yet is the parent's */
    const luo_status st = prepare(&v);
    if (st != LUO_OK) return st == LUO_ENOMEM ? NO_MEMORY : 1;
    while (hear(&v) && answer(&v)) {}
    return v.nomem ? NO_MEMORY : 0;
}

/* ---- the other side ---- */

luo_status sim_worker_start(sim_worker *w, const luo_backend_config *config,
                            const luo_programs *set,
                            const sim_worker *others, int32_t nothers, luo_err *err)
{
    int fd[2], log = -1;
    sim_net *net = NULL;
    luo_arena *arena = luo_arena_new(1 << 20);
    *w = (sim_worker){0};
    if (!arena) return luo_err_nomem(err);
    luo_status st = sim_net_make(arena, config, set, &net, err);
    if (st == LUO_OK && (log = memfd_create("luoshu-simulator", MFD_CLOEXEC)) < 0)
        st = luo_err_set(err, LUO_EBACKEND, "no file in memory for the simulator: %s; close files.",
                         strerror(errno));
    if (st == LUO_OK && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0) {
        st = luo_err_set(err, LUO_EBACKEND, "no socket pair for the simulator: %s; close files.",
                         strerror(errno));
        close(log);
    }
    if (st != LUO_OK) {
        luo_arena_free(arena);
        return st;
    }
    int why;
    birth b = {fd[1], fd[0], net, others, nothers};
    const luo_process_opts opts = {
        .inside = serve, .ctx = &b, .err = log, .parent_signal = SIGKILL};
    st = luo_process_start(&opts, &w->process, &why);
    close(fd[1]);
    luo_arena_free(arena); /* the process has its own copy */
    if (st != LUO_OK) {
        close(fd[0]);
        close(log);
        return luo_err_set(err, st, "no process for the simulator: %s; end others.",
                           strerror(why));
    }
    w->fd = fd[0];
    w->log = log;
    w->hash = set->hash;
    return LUO_OK;
}

void sim_worker_drop(sim_worker *w)
{
    if (!w->process.pid) return;
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
    const bool nomem = luo_process_code(&w->process) == NO_MEMORY;
    sim_death_text(w->process.how, said, text);
    *w = (sim_worker){0};
    return nomem ? luo_err_nomem(err) : luo_err_set(err, LUO_EBACKEND, "%s", text);
}

static bool put_question(const sim_worker *w, const sim_ask *ask)
{
    const question q = {ask->nchanges, ask->trace, ask->rng != NULL, ask->update};
    const luo_world *world = ask->world;
    const size_t devices = (size_t)world->ndevices, links = (size_t)world->nlinks;
    return sim_send(w->fd, &q, sizeof q) &&
           sim_send(w->fd, world->slowdown, devices * sizeof(double)) &&
           sim_send(w->fd, world->up, devices * sizeof(bool)) &&
           sim_send(w->fd, world->link_factor, links * sizeof(double)) &&
           sim_send(w->fd, world->link_extra_latency_s, links * sizeof(double)) &&
           sim_send(w->fd, ask->changes, (size_t)ask->nchanges * sizeof *ask->changes) &&
           (!ask->rng || sim_send(w->fd, ask->rng, (size_t)ask->n * sizeof *ask->rng));
}

static bool take_arrays(const sim_worker *w, luo_arena *arena, const sim_ask *ask, sim_reply *r,
                        bool *nomem)
{
    const size_t n = (size_t)r->head.n, links = (size_t)r->head.nlinks;
    const size_t comm = (size_t)r->head.ncomm, records = (size_t)r->head.nrecords;
    r->parts = luo_arena_alloc(arena, n * sizeof *r->parts);
    r->compute_s = luo_arena_alloc(arena, n * sizeof *r->compute_s);
    r->predicted_s = luo_arena_alloc(arena, n * sizeof *r->predicted_s);
    r->links = luo_arena_alloc(arena, links * sizeof *r->links);
    r->comm = luo_arena_alloc(arena, comm * sizeof *r->comm);
    r->records = luo_arena_alloc(arena, records * sizeof *r->records);
    r->rng = NULL;
    *nomem = !r->parts || !r->compute_s || !r->predicted_s || !r->links || !r->comm || !r->records;
    if (*nomem) return false;
    return sim_receive(w->fd, r->parts, n * sizeof *r->parts) &&
           sim_receive(w->fd, r->compute_s, n * sizeof *r->compute_s) &&
           sim_receive(w->fd, r->predicted_s, n * sizeof *r->predicted_s) &&
           sim_receive(w->fd, r->links, links * sizeof *r->links) &&
           sim_receive(w->fd, r->comm, comm * sizeof *r->comm) &&
           sim_receive(w->fd, r->records, records * sizeof *r->records) &&
           (!ask->rng || sim_receive(w->fd, ask->rng, n * sizeof *ask->rng));
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

luo_status sim_worker_ask(sim_worker *w, luo_arena *arena, const sim_ask *ask, sim_reply *out,
                          luo_err *err)
{
    bool nomem = false;
    if (!put_question(w, ask)) return mourn(w, err);
    if (!wait_for(w, ask->interrupted)) {
        sim_worker_drop(w);
        return luo_err_set(err, LUO_ECANCELED, "the step was interrupted while it was simulated.");
    }
    if (!sim_receive(w->fd, &out->head, sizeof out->head)) return mourn(w, err);
    if (out->head.status == LUO_ENOMEM) nomem = true;
    else if (!take_arrays(w, arena, ask, out, &nomem) && !nomem) return mourn(w, err);
    if (out->head.status != LUO_OK || nomem) sim_worker_drop(w);
    return nomem ? luo_err_nomem(err) : LUO_OK;
}
