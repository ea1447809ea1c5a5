/* traffic.h: what meet.c and mail.c share while the traffic of a program set is made. */
#ifndef LUO_SIM_NET_TRAFFIC_H
#define LUO_SIM_NET_TRAFFIC_H
#include "core/base/hash.h"
#include "sim/net/net.h"

/* Instructions of different devices belong together by this. */
typedef struct sim_key {
    int32_t exchange;
    uint8_t phase;
    bool again; /* recompute */
} sim_key;
int sim_key_order(const sim_key *a, const sim_key *b);
static inline sim_key sim_key_of(const luo_instr *in)
{
    return (sim_key){in->exchange, in->phase, in->recompute};
}

typedef struct sim_maker {
    luo_arena *arena;   /* of the net */
    luo_arena *scratch; /* lives as long as the maker */
    luo_arena *flows;   /* emptied for every group */
    sim_net *net;
    sim_router *router;
    sim_traffic *traffics;
    int32_t ntraffics, room_traffics;
    sim_message *messages; /* of the traffic at hand */
    int32_t nmessages, room_messages;
    int32_t *members; /* per node of the cluster: devices of the group at hand, else 0 */
    luo_err *err;
} sim_maker;

/* Makes room for one more element of *array (in scratch). */
luo_status sim_maker_room(sim_maker *maker, void *array, int32_t n, int32_t *room, size_t bytes);
luo_status sim_maker_message(sim_maker *maker, const sim_message *message);
/* The messages at hand become a traffic with closed form `seconds`; hops: see sim_traffic. */
luo_status sim_maker_close(sim_maker *maker, double seconds, int32_t hops, int32_t *id);

luo_status sim_make_rendezvous(sim_maker *maker);
luo_status sim_make_channels(sim_maker *maker);
#endif
