/* grid.h: the platform in SimGrid, and the state of its links. One per process. */
#ifndef LUO_SIM_STEP_GRID_H
#define LUO_SIM_STEP_GRID_H
#include <simgrid/forward.h>

#include "sim/net/net.h"

typedef struct sim_grid {
    const sim_net *net;
    sg_host_t control;    /* where all actors live; never fails */
    sg_host_t *class;      /* per class: where its transfers begin and end */
    sg_host_t *worker;    /* per class: where its compute runs; shared by CPU ranks of a node */
    double *share;        /* per class: most of the worker one of its executions may use; 0: all */
    sg_link_t *wire;      /* per wire */
    double *wire_factor;  /* per wire: of the bandwidth, as set in SimGrid; 0: off */
    int32_t *wire_of_hop; /* -1: not used */
    double *factor, *extra_s; /* per cluster link: as now */
    int64_t changes; /* of any of these so far */
} sim_grid;

/* 1 second of work is this many flops, a byte this many bytes of SimGrid: its activities then end
 * to 1e-9 s and fractions of bytes count. */
#define SIM_FLOPS 1e9
#define SIM_GRAIN 1024.0
/* What SimGrid takes for the same date; it sleeps no shorter. */
#define SIM_INSTANT 1e-9

/* Starts SimGrid and builds hosts and wires of n nets of one cluster; a hop that several of them
 * share is one link. out: n. Errors: LUO_ENOMEM. */
luo_status sim_grid_open(luo_arena *arena, const sim_net *const *net, int32_t n, sim_grid *out);
/* Sets the state of a cluster link: factor of its bandwidth (0: down) and extra latency. */
void sim_grid_set_link(sim_grid *grid, int32_t link, double factor, double extra_s);
/* Bytes of SimGrid for a flow, its bytes times `factor`; what a wire lets through a second, now. */
double sim_grid_bytes(const sim_flow *flow, double factor);
double sim_grid_room(const sim_grid *grid, int32_t wire);
/* Starts a flow of so many bytes of SimGrid; NULL: an end is off. Pre: it has wires and bytes. */
sg_comm_t sim_grid_start(const sim_grid *grid, const sim_flow *flow, double bytes);
/* Extra latency on the way of a flow, now. */
double sim_grid_extra(const sim_grid *grid, const sim_flow *flow);
/* A link on the way of the traffic that is down now; -1: none. */
int32_t sim_grid_broken(const sim_grid *grid, const sim_traffic *traffic);
#endif
