/* net.h: what the simulation of one program set needs, worked out once and then only read.
 *
 * Words. Symmetry class: devices simulated as one (classes.c). Hop: one direction of a cluster
 * link, numbered 2 * link + (1 if away from devices). Wire: what SimGrid gets as a link: one way,
 * or a bundle of ways that always carry equal loads. Traffic: the flows of one run of a transfer.
 * Channel: the messages of one exchange from one class to another. Rendezvous: a collective of
 * several classes. */
#ifndef LUO_SIM_NET_NET_H
#define LUO_SIM_NET_NET_H
#include "core/cost/cost.h"
#include "core/run/backend.h"
#include "core/run/parts.h"

typedef struct sim_wire {
    int32_t nways;
    const int32_t *hop;
    double bytes_per_s; /* of all ways together */
} sim_wire;

typedef struct sim_flow {
    int32_t src, dst; /* classes; dst = src for storage */
    int32_t nwires;
    const int32_t *wire;
    double bytes;   /* on the wires: efficiency is in them (docs/cost-model.md#three-fidelities) */
    double delay_s; /* from the start of the transfer until bytes move, with the latency */
} sim_flow;

typedef struct sim_load { /* what a run of the traffic brings over a cluster link */
    int32_t hop;
    double bytes; /* of the tensors: without efficiency */
} sim_load;

typedef struct sim_traffic {
    int32_t nflows, nloads;
    const sim_flow *flows;
    const sim_load *loads;
    int32_t hops;               /* how often a delay of the path is felt: steps of a ring; else 1 */
    int32_t ring;               /* > 0: the flows are that many ring edges in ring order */
    double fixed_s, spread_s;   /* closed form: latency part, bandwidth part */
    int32_t nthreads;           /* > 0: ranks of one CPU node carry it (sim/step/thread.c): .. */
    const int32_t *thread;      /* .. these classes, each .. */
    double work_s;              /* .. so long at a core */
} sim_traffic;

typedef struct sim_post { /* a message of a P2P */
    int32_t channel, traffic; /* traffic -1: receive */
    int64_t bytes;
    double before_s; /* in closed form: bandwidth part of what its devices send first */
} sim_post;

typedef struct sim_cross { /* an instruction that reaches beyond its class */
    int32_t rendezvous;       /* -1: P2P or IO */
    bool follows;          /* an earlier instruction of the class has met for it (meet.c) */
    int32_t ntraffics;     /* of a collective: rounds, one after another; of IO: 1 */
    const int32_t *traffic;
    int32_t nout, nin;
    const sim_post *out, *in;
} sim_cross;

typedef struct sim_channel {
    int32_t src, dst;               /* classes; -1: the device has no program */
    int32_t src_device, dst_device; /* of the first message */
    int32_t nsend, nreceive;        /* instructions */
} sim_channel;

typedef struct sim_rendezvous {
    int32_t nclasses;
    const int32_t *class;
    int32_t missing_device; /* has no program; -1: none */
} sim_rendezvous;

typedef enum sim_what {
    SIM_WORK,   /* compute or local work of the device */
    SIM_INSIDE, /* communication inside the class: closed form */
    SIM_MEET,   /* collective of several classes */
    SIM_MAIL,   /* P2P with other classes */
    SIM_IO
} sim_what;

typedef struct sim_op { /* an instruction as this class runs it */
    uint8_t what, fifo, part;
    int32_t cross;   /* SIM_MEET, SIM_MAIL, SIM_IO: index in sim_class.cross */
    double seconds;  /* SIM_WORK: at slowdown 1; SIM_INSIDE: closed form */
    double device_s; /* SIM_WORK: of the device alone, the host left out */
    double loss;     /* of the speed of computation while this is under way; calls alone */
} sim_op;

typedef struct sim_class {
    const luo_program *program; /* of the first member; those of the others differ in peers only */
    const luo_role *role;
    int32_t n;             /* members .. */
    const int32_t *member; /* .. as positions in programs->at, ascending */
    int32_t node, group, kind; /* of the cluster */
    bool exec;             /* compute is an execution in SimGrid, not arithmetic */
    bool thread;           /* a CPU rank: one thread does all of it (sim/step/thread.c) */
    int32_t ncross;
    sim_cross *cross;
    const sim_op *ops; /* per instruction of the role; classes with equal ones share them */
} sim_class;

typedef struct sim_row { /* of comm use */
    int32_t group, exchange, coll, stream, devices;
} sim_row;

/* What other program sets, which run on the same cluster at the same time, make of one. */
typedef struct sim_sharing {
    const bool *hop;    /* per hop: others send over it, so it is a wire by itself that nobody has
                           to himself */
    const bool *single; /* per program: it is not folded */
} sim_sharing;

typedef struct sim_net {
    const luo_backend_config *config;
    const luo_programs *set;
    const sim_sharing *sharing; /* NULL: there are no others */
    luo_cost_ctx cost;
    int32_t nclasses, nwires, nchannels, nrendezvous, ntraffics, nrows;
    sim_class *classes;
    const int32_t *home_of_group; /* class that all its devices are in; -1: several */
    const int32_t *class_of; /* per device of the cluster: its class; -1: no program */
    /* per program: the first of those that are folded with it, or would be with `fold` */
    const int32_t *lead_of;
    const sim_wire *wires;
    const bool *loose; /* per wire: at full speed it can hold nothing up (loose.c) */
    const sim_channel *channels;
    const sim_rendezvous *rendezvous_of;
    const sim_traffic *traffics;
    const sim_row *rows;
    const int32_t *row_of_group;    /* [group * 5 + coll]; -1: none */
    const int32_t *row_of_exchange; /* of P2P; -1: none */
    bool training; /* there are forward or backward tasks: scale jitter applies */
} sim_net;

/* Classes, their operations with costs, traffics and wires of a program set. sharing: NULL allowed.
 * Pre: programs are well formed (luo_program_check); config and sharing outlive the net.
 * Errors: LUO_EINPUT a cost is not known (docs/cost-model.md); LUO_ENOMEM.
 * Owner: arena. Cost: O(devices * instructions that communicate). */
luo_status sim_net_make(luo_arena *arena, const luo_backend_config *config,
                        const luo_programs *set, const sim_sharing *sharing, sim_net **out,
                        luo_err *err);

/* Do other program sets send over the wire? Then it is one hop. */
static inline bool sim_wire_is_shared(const sim_net *net, int32_t wire)
{
    return net->sharing && net->sharing->hop[net->wires[wire].hop[0]];
}

static inline const luo_slot *sim_slot(const sim_net *net, const sim_class *class, int32_t member,
                                       const luo_instr *in)
{
    return &net->set->at[class->member[member]].slots[in->slot];
}

/* Bytes that travel where the program moves `bytes` by this instruction: gradients between replicas
 * have the stack's grad_comm_bytes instead of their own, if it gives any. */
int64_t sim_bytes(const sim_net *net, const luo_instr *in, int64_t bytes);

/* Bytes of a message: with the stack's scatter_gather, devices of a stage that hold the same
 * activation send each a part of it to another node. */
int64_t sim_message_bytes(const sim_net *net, const luo_instr *in, int32_t src, int32_t dst,
                          int64_t bytes);

/* A collective of the program as it is priced; the slot is that of any device of the group. */
luo_cost_call sim_call(const sim_net *net, const luo_instr *in, const luo_slot *slot);

/* ---- for net.c, classes.c, traffic.c and wires.c only ---- */

luo_status sim_classes_make(luo_arena *arena, sim_net *net, luo_err *err);
luo_status sim_traffic_make(luo_arena *arena, sim_net *net, luo_err *err);
luo_status sim_loose_find(luo_arena *arena, sim_net *net, luo_err *err);

typedef struct sim_message { /* from device to device */
    int32_t src, dst;   /* dst -1: the storage; src -1: from it */
    double bytes, delay_s, payload;
} sim_message;

typedef struct sim_router sim_router;
/* The traffic is carried by threads of these classes, n > 0, if all are CPU ranks of one node. */
luo_status sim_net_threads(luo_arena *arena, const sim_net *net, const int32_t *class, int32_t n,
                           double seconds, sim_traffic *traffic);

sim_router *sim_router_new(luo_arena *scratch, const sim_net *net);
/* Adds a traffic made of messages; ids count from 0. The caller fills hops, ring and seconds. */
luo_status sim_router_add(sim_router *router, const sim_message *message, int32_t n, int32_t *id);
/* Decides which ways are bundled and writes wires, flows and loads into the net. */
void sim_router_free(sim_router *router); /* what is not in scratch */
luo_status sim_router_finish(sim_router *router, luo_arena *arena, sim_net *net,
                             sim_traffic *traffics);
#endif
