/* traffic.c: all traffic of a program set: collectives (meet.c), messages (mail.c), storage. */
#include "sim/net/traffic.h"
#include "core/base/vec.h"

#include <math.h>
#include <string.h>

int sim_key_order(const sim_key *a, const sim_key *b)
{
    if (a->exchange != b->exchange) return a->exchange < b->exchange ? -1 : 1;
    if (a->phase != b->phase) return a->phase < b->phase ? -1 : 1;
    return (a->again > b->again) - (a->again < b->again);
}

luo_status sim_maker_room(sim_maker *k, void *array, int32_t n, int32_t *room, size_t bytes)
{
    return n < *room || luo_vec_grow32(k->scratch, array, room, bytes) ? LUO_OK
                                                                       : luo_err_nomem(k->err);
}

luo_status sim_maker_message(sim_maker *k, const sim_message *m)
{
    LUO_TRY(sim_maker_room(k, &k->messages, k->nmessages, &k->room_messages, sizeof *m));
    k->messages[k->nmessages++] = *m;
    return LUO_OK;
}

luo_status sim_maker_close(sim_maker *k, double seconds, int32_t hops, int32_t *id)
{
    sim_traffic t = {.hops = hops};
    for (int32_t i = 0; i < k->nmessages; i++)
        t.fixed_s = fmax(t.fixed_s, k->messages[i].delay_s);
    t.fixed_s = fmin(t.fixed_s, seconds);
    t.spread_s = seconds - t.fixed_s;
    LUO_TRY(sim_maker_room(k, &k->traffics, k->ntraffics, &k->room_traffics, sizeof t));
    if (sim_router_add(k->router, k->messages, k->nmessages, id) != LUO_OK)
        return luo_err_nomem(k->err);
    k->traffics[k->ntraffics++] = t;
    k->nmessages = 0;
    return LUO_OK;
}

/* ---- storage ---- */

/* luo_checkpoint_compile tells writing from reading by the name of the op; a switch only reads. */
static luo_status make_io(sim_maker *k, sim_class *class, const luo_instr *in, sim_cross *cross)
{
    const luo_programs *set = k->net->set;
    const bool reads =
        in->op >= set->nops || strcmp(set->ops[in->op].name, "checkpoint_write") != 0;
    const double bytes = (double)in->bytes;
    for (int32_t m = 0; m < class->n; m++) {
        const int32_t dev = k->net->set->at[class->member[m]].device;
        const sim_message msg = {reads ? -1 : dev, reads ? dev : -1, bytes, 0, bytes};
        LUO_TRY(sim_maker_message(k, &msg));
    }
    int32_t *traffic = LUO_NEW(k->arena, int32_t);
    if (!traffic) return luo_err_nomem(k->err);
    *cross = (sim_cross){.rendezvous = -1, .ntraffics = 1, .traffic = traffic};
    return sim_maker_close(k, 0, 1, traffic);
}

static luo_status make_all_io(sim_maker *k)
{
    for (int32_t l = 0; l < k->net->nclasses; l++) {
        sim_class *class = &k->net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++)
            if (class->ops[i].what == SIM_IO)
                LUO_TRY(
                    make_io(k, class, &class->role->instr[i], &class->cross[class->ops[i].cross]));
    }
    return LUO_OK;
}

/* Closed form of storage traffic: all that one class reads or writes, alone. */
static void price_io(const sim_maker *k)
{
    for (int32_t l = 0; l < k->net->nclasses; l++) {
        const sim_class *class = &k->net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++) {
            if (class->ops[i].what != SIM_IO) continue;
            sim_traffic *t = &k->traffics[*class->cross[class->ops[i].cross].traffic];
            for (int32_t f = 0; f < t->nflows; f++)
                for (int32_t w = 0; w < t->flows[f].nwires; w++)
                    t->spread_s = fmax(t->spread_s,
                                       t->flows[f].bytes /
                                           k->net->wires[t->flows[f].wire[w]].bytes_per_s);
        }
    }
}

/* ---- rings ---- */

/* Puts flows that are the edges of one ring in ring order; false if they are not. */
static bool order_ring(sim_flow *f, int32_t n, int32_t *flow_from)
{
    for (int32_t i = 0; i < n; i++) flow_from[f[i].src] = -1;
    for (int32_t i = 0; i < n; i++) {
        if (flow_from[f[i].src] >= 0) return false;
        flow_from[f[i].src] = i;
    }
    for (int32_t i = 1; i < n; i++) {
        const int32_t next = flow_from[f[i - 1].dst];
        if (next < i || next >= n || f[next].src != f[i - 1].dst) return false;
        const sim_flow t = f[i];
        f[i] = f[next];
        f[next] = t;
        flow_from[f[next].src] = next;
        flow_from[f[i].src] = i;
    }
    return f[n - 1].dst == f[0].src;
}

static luo_status find_rings(sim_maker *k)
{
    int32_t *flow_from = LUO_NEW_N(k->scratch, int32_t, k->net->nclasses);
    if (!flow_from) return luo_err_nomem(k->err);
    for (int32_t l = 0; l < k->net->nclasses; l++) flow_from[l] = -1;
    for (int32_t i = 0; i < k->ntraffics; i++) {
        sim_traffic *t = &k->traffics[i];
        if (t->ring == 0) continue; /* set by meet.c for collectives that step round a ring */
        if (k->net->config->comm != LUO_COMM_MESSAGE) continue;
        sim_flow *f = (sim_flow *)t->flows;
        t->ring = t->nflows > 1 && order_ring(f, t->nflows, flow_from) ? t->nflows : 0;
    }
    return LUO_OK;
}

static luo_status make_all(sim_maker *k)
{
    LUO_TRY(sim_make_rendezvous(k));
    LUO_TRY(sim_make_channels(k));
    LUO_TRY(make_all_io(k));
    if (sim_router_finish(k->router, k->arena, k->net, k->traffics) != LUO_OK)
        return luo_err_nomem(k->err);
    price_io(k);
    LUO_TRY(find_rings(k));
    sim_traffic *out = LUO_NEW_N(k->arena, sim_traffic, k->ntraffics);
    if (!out) return luo_err_nomem(k->err);
    for (int32_t i = 0; i < k->ntraffics; i++) out[i] = k->traffics[i];
    k->net->traffics = out;
    k->net->ntraffics = k->ntraffics;
    return LUO_OK;
}

luo_status sim_traffic_make(luo_arena *arena, sim_net *net, luo_err *err)
{
    sim_maker k = {.arena = arena, .net = net, .err = err,
                   .scratch = luo_arena_new(0), .flows = luo_arena_new(0)};
    luo_status st = LUO_ENOMEM;
    if (k.scratch && k.flows) {
        k.router = sim_router_new(k.scratch, net);
        k.members = LUO_NEW_N(k.scratch, int32_t, net->config->cluster->nnodes);
        if (k.router && k.members) st = make_all(&k);
    }
    if (st == LUO_ENOMEM) luo_err_nomem(err);
    if (k.router) sim_router_free(k.router);
    luo_arena_free(k.flows);
    luo_arena_free(k.scratch);
    return st;
}
