/* serve.c: the process of a worker: hears a question, simulates, answers. */
#include "sim/step/serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "sim/shim.h"
#include "sim/step/episode.h"
#include "sim/step/report.h"
#include "sim/talk.h"
#include "sim/worker.h"

typedef struct server {
    int fd;
    luo_arena *arena, *asked; /* of the process; of one question */
    const sim_net *net;
    sim_grid grid;
    sim_step step;
    sim_unit_loads units;
    luo_world world;
    luo_change *changes;
    sim_question q;
    bool nomem; /* for the question */
} server;

bool sim_reply_send(int fd, const sim_reply *reply)
{
    const size_t n = (size_t)reply->head.n;
    return sim_send(fd, &reply->head, sizeof reply->head) &&
           sim_send(fd, reply->parts, n * sizeof *reply->parts) &&
           sim_send(fd, reply->compute_s, n * sizeof *reply->compute_s) &&
           sim_send(fd, reply->predicted_s, n * sizeof *reply->predicted_s) &&
           sim_send(fd, reply->links, (size_t)reply->head.nlinks * sizeof *reply->links) &&
           sim_send(fd, reply->comm, (size_t)reply->head.ncomm * sizeof *reply->comm) &&
           sim_send(fd, reply->records, (size_t)reply->head.nrecords * sizeof *reply->records);
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
    if (sim_report(&v->step, &v->units, &reply) != LUO_OK) _exit(SIM_NO_MEMORY);
    memcpy(reply.head.text, text, sizeof text);
    _exit(sim_reply_send(v->fd, &reply) ? 0 : 1);
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
    LUO_TRY(sim_grid_open(v->arena, &v->net, 1, &v->grid));
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
    v->step.noise = v->q.noise ? LUO_NEW_N(v->asked, sim_noise, v->net->set->n) : NULL;
    v->nomem = !v->changes || (v->q.noise && !v->step.noise);
    if (v->nomem) return false;
    return sim_receive(v->fd, v->world.slowdown, devices * sizeof(double)) &&
           sim_receive(v->fd, v->world.up, devices * sizeof(bool)) &&
           sim_receive(v->fd, v->world.link_factor, links * sizeof(double)) &&
           sim_receive(v->fd, v->world.link_extra_latency_s, links * sizeof(double)) &&
           sim_receive(v->fd, v->changes, (size_t)v->q.nchanges * sizeof *v->changes) &&
           (!v->q.noise ||
            sim_receive(v->fd, v->step.noise, (size_t)v->net->set->n * sizeof *v->step.noise));
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
    return sim_reply_send(v->fd, &reply) && reply.head.status == LUO_OK;
}

int sim_serve(void *ctx)
{
    const sim_birth *birth = ctx;
    server v = {.fd = birth->fd, .net = birth->net};
    close(birth->not_ours);
    for (int32_t i = 0; i < birth->nothers; i++)
        if (birth->others[i].process.pid) close(birth->others[i].fd);
    __fpurge(stdout); /* SimGrid flushes; what the parent has not written yet is the parent's */
    if (birth->episode) return sim_episode_serve(birth);
    const luo_status st = prepare(&v);
    if (st != LUO_OK) return st == LUO_ENOMEM ? SIM_NO_MEMORY : 1;
    while (hear(&v) && answer(&v)) {
    }
    return v.nomem ? SIM_NO_MEMORY : 0;
}
