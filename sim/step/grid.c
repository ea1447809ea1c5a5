/* grid.c: hosts and links of SimGrid from the classes and wires of nets. */
#include "sim/step/grid.h"

#include <math.h>
#include <simgrid/engine.h>
#include <simgrid/link.h>
#include <stdio.h>

#include "sim/shim.h"

#if defined(__SANITIZE_ADDRESS__)
#define FACTORY "--cfg=contexts/factory:thread" /* the others hide leaks */
#else
#define FACTORY "--cfg=contexts/stack-size:256"
#endif

/* The network model of docs/architecture/simulator.md#simgrid: bytes / share and nothing else. */
static void start_engine(void)
{
    char *argv[] = {"luoshu", FACTORY,
                    "--log=root.thresh:critical",
                    "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                    "--cfg=network/crosstraffic:no", "--cfg=network/weight-S:0",
                    "--cfg=network/bandwidth-factor:1", "--cfg=network/latency-factor:1", NULL};
    int argc = (int)(sizeof argv / sizeof *argv) - 1;
    simgrid_init(&argc, argv);
}

/* index: of the net, in names, which must differ. */
static luo_status make_hosts(luo_arena *arena, int32_t index, sim_grid *grid)
{
    const luo_cluster *cluster = grid->net->config->cluster;
    char name[32];
    sg_host_t *of_node = LUO_NEW_N(arena, sg_host_t, cluster->nnodes);
    grid->class = LUO_NEW_N(arena, sg_host_t, grid->net->nclasses);
    grid->worker = LUO_NEW_N(arena, sg_host_t, grid->net->nclasses);
    grid->share = LUO_NEW_N(arena, double, grid->net->nclasses);
    if (!of_node || !grid->class || !grid->worker || !grid->share) return LUO_ENOMEM;
    snprintf(name, sizeof name, "ctl%d", index);
    grid->control = luo_shim_host_new(name, SIM_FLOPS);
    for (int32_t l = 0; l < grid->net->nclasses; l++) {
        const sim_class *class = &grid->net->classes[l];
        const luo_node_group *group = &cluster->groups[class->group];
        snprintf(name, sizeof name, "lane%d.%d", index, l);
        grid->class[l] = grid->worker[l] = luo_shim_host_new(name, SIM_FLOPS);
        if (!group->profile->cpu) continue;
        /* One host as fast as all cores, of which a rank may use one: time x max(1, busy/cores),
         * also for parts of cores. */
        snprintf(name, sizeof name, "cpu%d.%d", index, class->node);
        if (!of_node[class->node])
            of_node[class->node] = luo_shim_host_new(name, SIM_FLOPS * group->host_cores);
        grid->worker[l] = of_node[class->node];
        grid->share[l] = SIM_FLOPS * fmin(1, group->host_cores);
    }
    return LUO_OK;
}

/* of_hop: links of hops that several nets share, made by the first that has them. */
static sg_link_t link_of_wire(const sim_net *net, int32_t index, int32_t w, sg_link_t *of_hop)
{
    const bool shared = sim_wire_is_shared(net, w);
    char name[32];
    if (shared && of_hop[*net->wires[w].hop]) return of_hop[*net->wires[w].hop];
    snprintf(name, sizeof name, "wire%d.%d", index, w);
    sg_link_t link = luo_shim_link_new(name, net->wires[w].bytes_per_s * SIM_GRAIN);
    if (shared) of_hop[*net->wires[w].hop] = link;
    return link;
}

static luo_status make_wires(luo_arena *arena, int32_t index, sg_link_t *of_hop, sim_grid *grid)
{
    const int32_t links = grid->net->config->cluster->nlinks;
    grid->wire = LUO_NEW_N(arena, sg_link_t, grid->net->nwires);
    grid->wire_factor = LUO_NEW_N(arena, double, grid->net->nwires);
    grid->wire_of_hop = LUO_NEW_N(arena, int32_t, 2 * links);
    grid->factor = LUO_NEW_N(arena, double, links);
    grid->extra_s = LUO_NEW_N(arena, double, links);
    if (!grid->wire || !grid->wire_factor || !grid->wire_of_hop || !grid->factor || !grid->extra_s)
        return LUO_ENOMEM;
    for (int32_t l = 0; l < links; l++) {
        grid->factor[l] = 1;
        grid->wire_of_hop[2 * l] = grid->wire_of_hop[2 * l + 1] = -1;
    }
    for (int32_t w = 0; w < grid->net->nwires; w++) {
        const sim_wire *wire = &grid->net->wires[w];
        grid->wire[w] = link_of_wire(grid->net, index, w, of_hop);
        grid->wire_factor[w] = 1;
        for (int32_t i = 0; i < wire->nways; i++) grid->wire_of_hop[wire->hop[i]] = w;
    }
    return LUO_OK;
}

luo_status sim_grid_open(luo_arena *arena, const sim_net *const *net, int32_t n, sim_grid *out)
{
    sg_link_t *of_hop = LUO_NEW_N(arena, sg_link_t, 2 * net[0]->config->cluster->nlinks);
    if (!of_hop) return LUO_ENOMEM;
    start_engine();
    luo_shim_zone_open();
    for (int32_t i = 0; i < n; i++) {
        out[i] = (sim_grid){.net = net[i]};
        LUO_TRY(make_hosts(arena, i, &out[i]));
        LUO_TRY(make_wires(arena, i, of_hop, &out[i]));
    }
    luo_shim_zone_seal();
    return LUO_OK;
}

/* Members of a bundle carry equal loads, so the slowest way sets the pace of all. */
static void update_wire(sim_grid *grid, int32_t w)
{
    const sim_wire *wire = &grid->net->wires[w];
    double factor = 1;
    for (int32_t i = 0; i < wire->nways; i++) factor = fmin(factor, grid->factor[wire->hop[i] / 2]);
    if (factor == grid->wire_factor[w]) return;
    if (factor > 0) sg_link_set_bandwidth(grid->wire[w], wire->bytes_per_s * SIM_GRAIN * factor);
    if ((factor > 0) != (grid->wire_factor[w] > 0)) luo_shim_link_power(grid->wire[w], factor > 0);
    grid->wire_factor[w] = factor;
}

void sim_grid_set_link(sim_grid *grid, int32_t link, double factor, double extra_s)
{
    grid->changes += grid->factor[link] != factor || grid->extra_s[link] != extra_s;
    grid->extra_s[link] = extra_s;
    if (grid->factor[link] == factor) return;
    grid->factor[link] = factor;
    for (int32_t hop = 2 * link; hop <= 2 * link + 1; hop++)
        if (grid->wire_of_hop[hop] >= 0) update_wire(grid, grid->wire_of_hop[hop]);
}

double sim_grid_bytes(const sim_flow *flow, double factor)
{
    return floor(fmax(1, flow->bytes * factor * SIM_GRAIN));
}

double sim_grid_room(const sim_grid *grid, int32_t wire)
{
    return grid->net->wires[wire].bytes_per_s * SIM_GRAIN * grid->wire_factor[wire];
}

sg_comm_t sim_grid_start(const sim_grid *grid, const sim_flow *flow, double bytes)
{
    sg_link_t links[LUO_PATH_MAX + 1];
    for (int32_t i = 0; i < flow->nwires; i++) links[i] = grid->wire[flow->wire[i]];
    return luo_shim_flow(grid->class[flow->src], grid -> class[flow->dst], links, flow -> nwires,
                         (uint64_t)bytes);
}

double sim_grid_extra(const sim_grid *grid, const sim_flow *flow)
{
    double sum = 0;
    for (int32_t i = 0; i < flow->nwires; i++) {
        const sim_wire *wire = &grid->net->wires[flow->wire[i]];
        double worst = 0;
        for (int32_t k = 0; k < wire->nways; k++)
            worst = fmax(worst, grid->extra_s[wire->hop[k] / 2]);
        sum += worst;
    }
    return sum;
}

int32_t sim_grid_broken(const sim_grid *grid, const sim_traffic *traffic)
{
    for (int32_t i = 0; i < traffic->nloads; i++)
        if (grid->factor[traffic->loads[i].hop / 2] <= 0) return traffic->loads[i].hop / 2;
    return -1;
}
