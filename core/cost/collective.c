/* Collectives in closed form (docs/cost-model.md#definitions). */
#include "core/cost/collective.h"

#include <math.h>
#include <string.h>

static int32_t node_of(const luo_member_walk *walk, int32_t i)
{
    return walk->cluster->devices[walk->dev[i]].node;
}

luo_member_walk luo_members_of(const luo_cluster *cluster, const int32_t *dev, int32_t n)
{
    luo_member_walk walk = {cluster, dev, n, 0, false};
    for (int32_t i = 1; i < n; i++)
        if (node_of(&walk, i) < node_of(&walk, i - 1)) walk.scattered = true;
    return walk;
}

static bool seen_before(const luo_member_walk *walk, int32_t at)
{
    for (int32_t i = 0; i < at; i++)
        if (node_of(walk, i) == node_of(walk, at)) return true;
    return false;
}

bool luo_members_next(luo_member_walk *walk, luo_members *out)
{
    while (walk->scattered && walk->at < walk->n && seen_before(walk, walk->at)) walk->at++;
    if (walk->at >= walk->n) return false;
    *out = (luo_members){.node = node_of(walk, walk->at)};
    for (int32_t i = walk->at; i < walk->n; i++) {
        if (node_of(walk, i) == out->node) {
            out->slots |= UINT64_C(1) << walk->cluster->devices[walk->dev[i]].slot;
            out->n++;
            if (i == walk->at) walk->at++;
        } else if (!walk->scattered) {
            break;
        }
    }
    return true;
}

int32_t luo_members_device(const luo_cluster *cluster, const luo_members *members, int32_t i)
{
    uint64_t slots = members->slots;
    for (; i > 0; i--) slots &= slots - 1;
    int32_t slot = 0;
    while (!(slots >> slot & 1)) slot++;
    return cluster->nodes[members->node].first_device + slot;
}

const luo_profile *luo_members_type(const luo_cluster *cluster, const luo_members *members,
                                    int32_t i)
{
    if (!cluster->groups[cluster->nodes[members->node].group].profiles && i > 0) return NULL;
    const luo_device *at = &cluster->devices[luo_members_device(cluster, members, i)];
    for (int32_t k = 0; k < i; k++)
        if (cluster->devices[luo_members_device(cluster, members, k)].kind == at->kind) return NULL;
    return luo_device_kind_profile(cluster, at->kind);
}

double luo_cost_node_bytes_per_s(const luo_node_group *group)
{
    const double nics = group->nics * group->nic_bytes_per_s;
    return group->has_pcie ? fmin(nics, group->devices_per_node * group->pcie_bytes_per_s) : nics;
}

double luo_net_lane_bytes_per_s(const luo_node_group *group)
{
    const double nic =
        group->nic_bytes_per_s * fmin(1, (double)group->nics / group->devices_per_node);
    return group->has_pcie ? fmin(nic, group->pcie_bytes_per_s) : nic;
}

/* Lines from the site of node a to that of node b. */
static void see_lines(const luo_cluster *cluster, int32_t a, int32_t b, luo_spread *spread)
{
    const int32_t to = cluster->nodes[b].site;
    double latency = 0;
    for (int32_t at = cluster->nodes[a].site; at != to;) {
        const luo_site_link *link =
            &cluster->site_links[cluster->site_routes[at * cluster->nsites + to]];
        const char *next = strcmp(link->a, cluster->sites[at]) == 0 ? link->b : link->a;
        latency += link->latency_s;
        spread->bytes_per_s = fmin(spread->bytes_per_s, link->bytes_per_s);
        for (at = 0; strcmp(cluster->sites[at], next) != 0;) at++;
    }
    spread->step_latency_s = fmax(spread->step_latency_s, latency);
}

static void see_edge(const luo_cluster *cluster, int32_t a, int32_t b, luo_spread *spread)
{
    if (cluster->nodes[a].rack != cluster->nodes[b].rack &&
        cluster->uplinks[cluster->nodes[a].rack] >= 0)
        spread->bytes_per_s = fmin(spread->bytes_per_s, cluster->rack_uplink_bytes_per_s);
    if (cluster->nodes[a].site != cluster->nodes[b].site) see_lines(cluster, a, b, spread);
}

luo_spread luo_spread_of(const luo_cluster *cluster, const int32_t *dev, int32_t n)
{
    luo_spread spread = {0, INT32_MAX, HUGE_VAL, 0};
    luo_members members;
    int32_t first = -1, prev = -1;
    for (luo_member_walk walk = luo_members_of(cluster, dev, n); luo_members_next(&walk, &members);
         prev = members.node) {
        spread.nodes++;
        if (members.n < spread.least) spread.least = members.n;
        if (prev >= 0)
            see_edge(cluster, prev, members.node, &spread);
        else
            first = members.node;
    }
    if (spread.nodes > 1) see_edge(cluster, prev, first, &spread);
    return spread;
}

luo_net luo_net_of_node(const luo_cost_ctx *ctx, int coll, const luo_spread *spread,
                        const luo_members *members, double bytes, luo_net_algorithm algorithm)
{
    const int32_t node = members->node;
    const luo_node_group *group = &ctx->cluster->groups[ctx->cluster->nodes[node].group];
    luo_net slowest = {0, -1};
    for (int32_t i = 0; i < members->n; i++) {
        const luo_profile *profile = luo_members_type(ctx->cluster, members, i);
        if (!profile) continue;
        const luo_net_link link = {luo_cost_node_bytes_per_s(group),
                                   profile->net_ratio,
                                   profile->net_half_bytes,
                                   profile->net_step_s,
                                   spread->bytes_per_s,
                                   spread->step_latency_s,
                                   profile->cpu,
                                   spread->least};
        const luo_net net = luo_net_time(&link, coll, spread->nodes, bytes, algorithm);
        if (net.delay_s + net.seconds > slowest.delay_s + slowest.seconds) slowest = net;
    }
    return slowest;
}

static double default_share(const luo_cost_ctx *ctx, const luo_spread *spread, int32_t node)
{
    const luo_cluster *cluster = ctx->cluster;
    return (double)spread->least / cluster->groups[cluster->nodes[node].group].devices_per_node;
}

void luo_net_times_add(luo_net_times *times, const luo_cost_ctx *ctx, int coll,
                       const luo_spread *spread, const luo_members *members, double bytes,
                       double share)
{
    const double part = share > 0 ? share : default_share(ctx, spread, members->node);
    for (int i = 0; i < LUO_NET_ALGORITHMS; i++) {
        const luo_net net =
            luo_net_of_node(ctx, coll, spread, members, bytes, (luo_net_algorithm)i);
        times->seconds[i] = fmax(times->seconds[i], net.seconds / part + net.delay_s);
    }
}

luo_net_algorithm luo_net_times_best(const luo_net_times *times)
{
    int best = LUO_NET_RING;
    for (int i = 0; i < LUO_NET_ALGORITHMS; i++)
        if (times->seconds[i] < times->seconds[best]) best = i;
    return (luo_net_algorithm)best;
}

double luo_cost_group_seconds(const luo_cost_ctx *ctx, int coll, const int32_t *dev, int32_t n,
                              int64_t bytes, double share)
{
    if (n < 2 || bytes <= 0) return 0;
    const luo_spread spread = luo_spread_of(ctx->cluster, dev, n);
    const double size = (double)bytes;
    const double volume = luo_cost_volume(coll, spread.nodes > 1 ? spread.nodes * spread.least : n);
    const bool regular =
        spread.nodes > 1; /* nodes of one group then differ in nothing that counts */
    double worst = 0;
    luo_net_times ways = {{0}};
    int32_t last = -1;
    luo_members members;
    for (luo_member_walk walk = luo_members_of(ctx->cluster, dev, n);
         luo_members_next(&walk, &members);) {
        const int32_t group = ctx->cluster->nodes[members.node].group;
        const luo_node_group *of = &ctx->cluster->groups[group];
        if (regular && group == last && !of->profiles &&
            (spread.least == 1 || of->scale_up == LUO_SCALE_UP_NVSWITCH))
            continue;
        last = group;
        if (spread.least > 1)
            worst =
                fmax(worst, volume * size /
                                luo_busbw_of_node(ctx, coll, &members, spread.least, size).at_size);
        if (spread.nodes > 1) luo_net_times_add(&ways, ctx, coll, &spread, &members, size, share);
    }
    return fmax(worst, ways.seconds[luo_net_times_best(&ways)]);
}

/* A group inside a node goes round a ring; a chain and pairs are one step. */
int32_t luo_cost_steps(const luo_cost_ctx *ctx, int coll, const int32_t *dev, int32_t n,
                       int64_t bytes)
{
    const luo_spread spread = luo_spread_of(ctx->cluster, dev, n);
    luo_net_times ways = {{0}};
    luo_members members;
    luo_member_walk walk = luo_members_of(ctx->cluster, dev, n);
    if (coll == LUO_COLL_A2A || coll == LUO_COLL_BCAST || n < 2) return 1;
    if (spread.nodes < 2) return luo_net_algorithm_steps(coll, n, LUO_NET_RING);
    while (luo_members_next(&walk, &members))
        luo_net_times_add(&ways, ctx, coll, &spread, &members, (double)bytes, 0);
    return luo_net_algorithm_steps(coll, spread.nodes, luo_net_times_best(&ways));
}
