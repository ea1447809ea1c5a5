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

luo_status sim_maker_room(sim_maker *maker, void *array, int32_t n, int32_t *room, size_t bytes)
{
    return n < *room || luo_vec_grow32(maker->scratch, array, room, bytes)
               ? LUO_OK
               : luo_err_nomem(maker->err);
}

luo_status sim_maker_message(sim_maker *maker, const sim_message *message)
{
    LUO_TRY(sim_maker_room(maker, &maker->messages, maker->nmessages, &maker->room_messages,
                           sizeof *message));
    maker->messages[maker->nmessages++] = *message;
    return LUO_OK;
}

luo_status sim_maker_close(sim_maker *maker, double seconds, int32_t hops, int32_t *id)
{
    sim_traffic traffic = {.hops = hops};
    for (int32_t i = 0; i < maker->nmessages; i++)
        traffic.fixed_s = fmax(traffic.fixed_s, maker->messages[i].delay_s);
    traffic.fixed_s = fmin(traffic.fixed_s, seconds);
    traffic.spread_s = seconds - traffic.fixed_s;
    LUO_TRY(sim_maker_room(maker, &maker->traffics, maker->ntraffics, &maker->room_traffics,
                           sizeof traffic));
    if (sim_router_add(maker->router, maker->messages, maker->nmessages, id) != LUO_OK)
        return luo_err_nomem(maker->err);
    maker->traffics[maker->ntraffics++] = traffic;
    maker->nmessages = 0;
    return LUO_OK;
}

/* ---- storage ---- */

/* luo_compile_checkpoint tells writing from reading by the name of the op; a switch only reads. */
static luo_status make_io(sim_maker *maker, sim_class *class, const luo_instr *in, sim_cross *cross)
{
    const luo_programs *set = maker->net->set;
    const bool reads =
        in->op >= set->nops || strcmp(set->ops[in->op].name, "checkpoint_write") != 0;
    const double bytes = (double)in->bytes;
    for (int32_t m = 0; m < class->n; m++) {
        const int32_t dev = maker->net->set->at[class->member[m]].device;
        const sim_message msg = {reads ? -1 : dev, reads ? dev : -1, bytes, 0, bytes};
        LUO_TRY(sim_maker_message(maker, &msg));
    }
    int32_t *traffic = LUO_NEW(maker->arena, int32_t);
    if (!traffic) return luo_err_nomem(maker->err);
    *cross = (sim_cross){.rendezvous = -1, .ntraffics = 1, .traffic = traffic};
    return sim_maker_close(maker, 0, 1, traffic);
}

static luo_status make_all_io(sim_maker *maker)
{
    for (int32_t l = 0; l < maker->net->nclasses; l++) {
        sim_class *class = &maker->net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++)
            if (class->ops[i].what == SIM_IO)
                LUO_TRY(make_io(maker, class, &class->role->instr[i],
                                &class->cross[class->ops[i].cross]));
    }
    return LUO_OK;
}

/* Closed form of storage traffic: all that one class reads or writes, alone. */
static void price_io(const sim_maker *maker)
{
    for (int32_t l = 0; l < maker->net->nclasses; l++) {
        const sim_class *class = &maker->net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++) {
            if (class->ops[i].what != SIM_IO) continue;
            sim_traffic *traffic = &maker->traffics[*class->cross[class->ops[i].cross].traffic];
            for (int32_t f = 0; f < traffic->nflows; f++)
                for (int32_t w = 0; w < traffic->flows[f].nwires; w++)
                    traffic->spread_s =
                        fmax(traffic->spread_s,
                             traffic->flows[f].bytes /
                                 maker->net->wires[traffic->flows[f].wire[w]].bytes_per_s);
        }
    }
}

/* ---- rings ---- */

/* Puts flows that are the edges of one ring in ring order; false if they are not. */
static bool order_ring(sim_flow *flow, int32_t n, int32_t *flow_from)
{
    for (int32_t i = 0; i < n; i++) flow_from[flow[i].src] = -1;
    for (int32_t i = 0; i < n; i++) {
        if (flow_from[flow[i].src] >= 0) return false;
        flow_from[flow[i].src] = i;
    }
    for (int32_t i = 1; i < n; i++) {
        const int32_t next = flow_from[flow[i - 1].dst];
        if (next < i || next >= n || flow[next].src != flow[i - 1].dst) return false;
        const sim_flow t = flow[i];
        flow[i] = flow[next];
        flow[next] = t;
        flow_from[flow[next].src] = next;
        flow_from[flow[i].src] = i;
    }
    return flow[n - 1].dst == flow[0].src;
}

static luo_status find_rings(sim_maker *maker)
{
    int32_t *flow_from = LUO_NEW_N(maker->scratch, int32_t, maker->net->nclasses);
    if (!flow_from) return luo_err_nomem(maker->err);
    for (int32_t l = 0; l < maker->net->nclasses; l++) flow_from[l] = -1;
    for (int32_t i = 0; i < maker->ntraffics; i++) {
        sim_traffic *traffic = &maker->traffics[i];
        if (traffic->ring == 0) continue; /* set by meet.c for collectives that step round a ring */
        if (maker->net->config->comm != LUO_COMM_MESSAGE) continue;
        sim_flow *flow = (sim_flow *)traffic->flows;
        traffic->ring = traffic->nflows > 1 && order_ring(flow, traffic->nflows, flow_from)
                            ? traffic->nflows
                            : 0;
    }
    return LUO_OK;
}

static luo_status make_all(sim_maker *maker)
{
    LUO_TRY(sim_make_rendezvous(maker));
    LUO_TRY(sim_make_channels(maker));
    LUO_TRY(make_all_io(maker));
    if (sim_router_finish(maker->router, maker->arena, maker->net, maker->traffics) != LUO_OK)
        return luo_err_nomem(maker->err);
    price_io(maker);
    LUO_TRY(find_rings(maker));
    sim_traffic *out = LUO_NEW_N(maker->arena, sim_traffic, maker->ntraffics);
    if (!out) return luo_err_nomem(maker->err);
    for (int32_t i = 0; i < maker->ntraffics; i++) out[i] = maker->traffics[i];
    maker->net->traffics = out;
    maker->net->ntraffics = maker->ntraffics;
    return LUO_OK;
}

luo_status sim_traffic_make(luo_arena *arena, sim_net *net, luo_err *err)
{
    sim_maker maker = {.arena = arena,
                       .net = net,
                       .err = err,
                       .scratch = luo_arena_new(0),
                       .flows = luo_arena_new(0)};
    luo_status st = LUO_ENOMEM;
    if (maker.scratch && maker.flows) {
        maker.router = sim_router_new(maker.scratch, net);
        maker.members = LUO_NEW_N(maker.scratch, int32_t, net->config->cluster->nnodes);
        if (maker.router && maker.members) st = make_all(&maker);
    }
    if (st == LUO_ENOMEM) luo_err_nomem(err);
    if (maker.router) sim_router_free(maker.router);
    luo_arena_free(maker.flows);
    luo_arena_free(maker.scratch);
    return st;
}
