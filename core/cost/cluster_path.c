#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/cost/cluster_internal.h"

typedef struct trip {
    const luo_cluster *c;
    const luo_device *a, *b;
    const luo_node *na, *nb;
    luo_hop *hops;
    int32_t n;
} trip;

static trip between(const luo_cluster *cluster, int32_t a, int32_t b, luo_hop *hops)
{
    const luo_device *da = &cluster->devices[a], *db = &cluster->devices[b];
    assert(a >= 0 && a < cluster->ndevices && b >= 0 && b < cluster->ndevices);
    return (trip){cluster, da, db, &cluster->nodes[da->node], &cluster->nodes[db->node], hops, 0};
}

static void take(trip *t, int32_t link, bool up)
{
    assert(t->n < LUO_PATH_MAX);
    t->hops[t->n++] = (luo_hop){link, up};
}

static void inside_pcie(trip *t, const luo_node_group *group)
{
    const int32_t sa = t->a->slot / group->devices_per_switch,
                  sb = t->b->slot / group->devices_per_switch;
    take(t, t->na->pcie + t->a->slot, true);
    if (sa != sb) {
        const int32_t ca = luo_group_switch_socket(group, sa),
                      cb = luo_group_switch_socket(group, sb);
        take(t, t->na->pcie_switch + sa, true);
        if (ca != cb) take(t, t->na->socket, ca < cb);
        take(t, t->na->pcie_switch + sb, false);
    }
    take(t, t->na->pcie + t->b->slot, false);
}

static void inside(trip *t)
{
    const luo_node_group *group = &t->c->groups[t->a->group];
    const int32_t *pairs = t->c->mesh_pairs[t->a->group];
    const int32_t pair = pairs ? pairs[t->a->slot * group->devices_per_node + t->b->slot] : -1;
    if (group->scale_up == LUO_SCALE_UP_NVSWITCH) {
        take(t, t->na->nvlink + t->a->slot, true);
        take(t, t->na->nvlink + t->b->slot, false);
    } else if (pair >= 0) {
        take(t, t->na->nvlink + pair, t->a->slot < t->b->slot);
    } else {
        inside_pcie(t, group);
    }
}

static int32_t nic_of(const luo_node_group *group, int32_t slot, int32_t peer_slot)
{
    if (group->nics < 1) return -1;
    return group->nic_shared ? (slot + peer_slot) % group->nics
                             : slot * group->nics / group->devices_per_node;
}

int32_t luo_cluster_nic(const luo_cluster *cluster, int32_t dev, int32_t peer)
{
    const luo_device *device = &cluster->devices[dev];
    return nic_of(&cluster->groups[device->group], device->slot, cluster->devices[peer].slot);
}

/* Do the two NICs hang on one leaf? For `single` the one switch is the leaf of all of a site. */
static bool same_leaf(const trip *t, int32_t ka, int32_t kb)
{
    if (t->na->site != t->nb->site) return false;
    if (t->c->fabric == LUO_FABRIC_SINGLE) return true;
    return t->na->rack == t->nb->rack && (t->c->fabric == LUO_FABRIC_TWO_TIER || ka == kb);
}

static void lines(trip *t)
{
    const luo_cluster *cluster = t->c;
    for (int32_t at = t->na->site; at != t->nb->site;) {
        const int32_t k = cluster->site_routes[at * cluster->nsites + t->nb->site];
        const bool up = strcmp(cluster->site_links[k].a, cluster->sites[at]) == 0;
        const char *next = up ? cluster->site_links[k].b : cluster->site_links[k].a;
        take(t, cluster->first_line + k, up);
        for (at = 0; strcmp(cluster->sites[at], next) != 0;) at++;
    }
}

static void outside(trip *t)
{
    const luo_cluster *cluster = t->c;
    const luo_node_group *ga = &cluster->groups[t->a->group], *gb = &cluster->groups[t->b->group];
    const int32_t ka = nic_of(ga, t->a->slot, t->b->slot), kb = nic_of(gb, t->b->slot, t->a->slot);
    const int32_t ua = cluster->uplinks[t->na->rack], ub = cluster->uplinks[t->nb->rack];
    const bool up = ua >= 0 && !same_leaf(t, ka, kb);
    const bool rail = cluster->fabric == LUO_FABRIC_RAIL;
    if (ga->has_pcie) take(t, t->na->pcie + t->a->slot, true);
    take(t, t->na->nic + ka, true);
    if (up) take(t, ua + (rail ? ka : 0), true);
    lines(t);
    if (up) take(t, ub + (rail ? kb : 0), false);
    take(t, t->nb->nic + kb, false);
    if (gb->has_pcie) take(t, t->nb->pcie + t->b->slot, false);
}

int32_t luo_cluster_path(const luo_cluster *cluster, int32_t a, int32_t b,
                         luo_hop hops[LUO_PATH_MAX])
{
    trip t = between(cluster, a, b, hops);
    if (a == b) return 0;
    if (t.a->node == t.b->node) inside(&t);
    else outside(&t);
    return t.n;
}

double luo_cluster_hop_latency(const luo_cluster *cluster, int32_t a, int32_t b)
{
    luo_hop hops[LUO_PATH_MAX];
    trip t = between(cluster, a, b, hops);
    if (t.a->node == t.b->node) return 0;
    const int32_t ka = luo_cluster_nic(cluster, a, b), kb = luo_cluster_nic(cluster, b, a);
    if (same_leaf(&t, ka, kb)) return cluster->hop_latency_s;
    lines(&t); /* each line joins two spines */
    const int32_t leaves = cluster->fabric == LUO_FABRIC_SINGLE ? 0 : 2;
    return (leaves + 1 + t.n) * cluster->hop_latency_s;
}

double luo_cluster_path_latency(const luo_cluster *cluster, int32_t a, int32_t b)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, a, b, hops);
    double seconds = luo_cluster_hop_latency(cluster, a, b);
    for (int32_t i = 0; i < n; i++) seconds += cluster->links[hops[i].link].latency_s;
    return seconds;
}

double luo_cluster_path_bytes_per_s(const luo_cluster *cluster, int32_t a, int32_t b)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, a, b, hops);
    double least = HUGE_VAL;
    for (int32_t i = 0; i < n; i++) least = fmin(least, cluster->links[hops[i].link].bytes_per_s);
    return least;
}

int32_t luo_cluster_link_class(const void *cluster, int32_t a, int32_t b)
{
    const luo_cluster *c = cluster;
    const luo_device *da = &c->devices[a], *db = &c->devices[b];
    if (a == b) return 0;
    if (da->node == db->node) return 1;
    if (c->nracks == 1) return 3; /* no racks to tell apart */
    return c->nodes[da->node].rack == c->nodes[db->node].rack ? 2 : 3;
}

int32_t luo_cluster_find_link(const luo_cluster *cluster, const char *name)
{
    int32_t lo = 0, hi = cluster->nlinks;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        const int d = strcmp(name, cluster->links[cluster->links_by_name[mid]].name);
        if (d == 0) return cluster->links_by_name[mid];
        if (d < 0) hi = mid;
        else lo = mid + 1;
    }
    return -1;
}

int32_t luo_cluster_find_node(const luo_cluster *cluster, const char *name)
{
    int32_t lo = 0, hi = cluster->nnodes;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        const int d = strcmp(name, cluster->nodes[cluster->nodes_by_name[mid]].name);
        if (d == 0) return cluster->nodes_by_name[mid];
        if (d < 0) hi = mid;
        else lo = mid + 1;
    }
    return -1;
}

double luo_cluster_class_bytes_per_s(const luo_cluster *cluster, int link_class)
{
    double least = 0;
    for (int32_t g = 0; g < cluster->ngroups; g++) {
        const luo_node_group *group = &cluster->groups[g];
        double rate = group->nic_bytes_per_s;
        if (link_class == 1)
            rate = group->scale_up != LUO_SCALE_UP_NONE ? group->scale_up_bytes_per_s
                                                        : group->pcie_bytes_per_s;
        if (rate > 0 && (least <= 0 || rate < least)) least = rate;
    }
    return least;
}
