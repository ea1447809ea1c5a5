/* Links of a cluster: one pass per kind, so that they stand by kind, node or rack, index. */
#include <stdlib.h>
#include <string.h>

#include "core/cost/cluster_internal.h"

const char *luo_fabric_name(luo_fabric fabric)
{
    static const char *const names[] = {LUO_FABRIC_LIST(LUO_WORD_TEXT)};
    return names[fabric];
}

const char *luo_link_kind_name(luo_link_kind k)
{
    static const char *const names[] = {"nvlink", "pcie",   "pcie", "socket",
                                        "nic",    "uplink", "line", "storage"};
    return names[k];
}

int32_t luo_group_switches(const luo_node_group *group)
{
    return (group->devices_per_node + group->devices_per_switch - 1) / group->devices_per_switch;
}

int32_t luo_group_switch_socket(const luo_node_group *group, int32_t pcie_switch)
{
    return (int32_t)((int64_t)pcie_switch * group->sockets / luo_group_switches(group));
}

typedef struct maker {
    luo_arena *arena;
    luo_cluster *c;
    luo_node *nodes;
    luo_link *links;
    int32_t n;
    luo_err *err;
} maker;

/* How many links of a kind a node has, and what one is. */
static int32_t node_links(const luo_node_group *group, luo_link_kind kind)
{
    const int32_t switches = luo_group_switches(group);
    switch (kind) {
    case LUO_LINK_NVLINK:
        if (group->scale_up == LUO_SCALE_UP_MESH) return group->nmesh;
        return group->scale_up == LUO_SCALE_UP_NVSWITCH ? group->devices_per_node : 0;
    case LUO_LINK_PCIE:
        return group->has_pcie ? group->devices_per_node : 0;
    case LUO_LINK_PCIE_SWITCH:
        return group->has_pcie && switches > 1 ? switches : 0;
    case LUO_LINK_SOCKET:
        return group->has_pcie && switches > 1 && group->sockets > 1 ? 1 : 0;
    case LUO_LINK_NIC:
        return group->nics;
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
    case LUO_LINK_STORAGE:
        break; /* of no node */
    }
    return 0;
}

static luo_link node_link(const luo_node_group *group, luo_link_kind kind, int32_t i)
{
    luo_link link = {.kind = kind, .rack = -1, .index = i};
    switch (kind) {
    case LUO_LINK_NVLINK:
        link.bytes_per_s = group->scale_up_bytes_per_s;
        link.latency_s = group->scale_up_latency_s / 2;
        if (group->scale_up == LUO_SCALE_UP_MESH) {
            link.bytes_per_s *= group->mesh[i].lanes;
            link.latency_s *= 2;
        }
        break;
    case LUO_LINK_SOCKET:
        link.bytes_per_s = group->socket_bytes_per_s;
        link.latency_s = group->pcie_latency_s / 2;
        break;
    case LUO_LINK_NIC:
        link.bytes_per_s = group->nic_bytes_per_s;
        link.latency_s = group->nic_latency_s / 2;
        break;
    case LUO_LINK_PCIE:
    case LUO_LINK_PCIE_SWITCH:
        link.bytes_per_s = group->pcie_bytes_per_s;
        link.latency_s = group->pcie_latency_s / 2;
        break;
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
    case LUO_LINK_STORAGE:
        break; /* of no node */
    }
    link.down_bytes_per_s = link.bytes_per_s;
    return link;
}

static int32_t *first_of(luo_node *node, luo_link_kind kind)
{
    switch (kind) {
    case LUO_LINK_NVLINK:
        return &node->nvlink;
    case LUO_LINK_PCIE:
        return &node->pcie;
    case LUO_LINK_PCIE_SWITCH:
        return &node->pcie_switch;
    case LUO_LINK_SOCKET:
        return &node->socket;
    case LUO_LINK_NIC:
        return &node->nic;
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
    case LUO_LINK_STORAGE:
        break; /* of no node */
    }
    return NULL;
}

static luo_status make_node_links(maker *m, luo_link_kind kind)
{
    static const char *const names[] = {"nv", "pcie", "sw", "socket", "nic"};
    for (int32_t i = 0; i < m->c->nnodes; i++) {
        luo_node *node = &m->nodes[i];
        const luo_node_group *group = &m->c->groups[node->group];
        const int32_t n = node_links(group, kind);
        if (n > 0) *first_of(node, kind) = m->n;
        for (int32_t k = 0; k < n; k++) {
            luo_link *link = &m->links[m->n++];
            *link = node_link(group, kind, k);
            link->node = i;
            link->name = kind == LUO_LINK_SOCKET
                             ? luo_arena_printf(m->arena, "%s/socket", node->name)
                             : luo_arena_printf(m->arena, "%s/%s%d", node->name, names[kind], k);
            if (!link->name) return luo_err_nomem(m->err);
        }
    }
    return LUO_OK;
}

static int32_t rack_uplinks(const luo_cluster *cluster)
{
    if (cluster->fabric == LUO_FABRIC_SINGLE || cluster->nnodes < 2) return 0;
    return cluster->fabric == LUO_FABRIC_RAIL ? cluster->groups[0].nics : 1;
}

static luo_status make_uplinks(maker *m)
{
    const luo_cluster *cluster = m->c;
    const int32_t per_rack = rack_uplinks(cluster);
    int32_t *first = LUO_NEW_N(m->arena, int32_t, cluster->nracks);
    if (!first) return luo_err_nomem(m->err);
    for (int32_t r = 0; r < cluster->nracks; r++) {
        first[r] = per_rack ? m->n : -1;
        for (int32_t k = 0; k < per_rack; k++) {
            const double share = cluster->rack_uplink_bytes_per_s / per_rack;
            const char *name = cluster->fabric == LUO_FABRIC_RAIL
                                   ? luo_arena_printf(m->arena, "%s/up%d", cluster->racks[r], k)
                                   : luo_arena_printf(m->arena, "%s/up", cluster->racks[r]);
            if (!name) return luo_err_nomem(m->err);
            m->links[m->n++] = (luo_link){.name = name, .kind = LUO_LINK_UPLINK, .node = -1,
                                          .rack = r, .index = k, .bytes_per_s = share,
                                          .down_bytes_per_s = share};
        }
    }
    m->c->uplinks = first;
    return LUO_OK;
}

static luo_status make_lines(maker *m)
{
    luo_cluster *cluster = m->c;
    cluster->first_line = cluster->nsite_links ? m->n : -1;
    for (int32_t i = 0; i < cluster->nsite_links; i++) {
        const luo_site_link *link = &cluster->site_links[i];
        const char *name = luo_arena_printf(m->arena, "%s-%s/line", link->a, link->b);
        if (!name) return luo_err_nomem(m->err);
        m->links[m->n++] = (luo_link){.name = name,
                                      .kind = LUO_LINK_LINE,
                                      .node = -1,
                                      .rack = -1,
                                      .index = i,
                                      .bytes_per_s = link->bytes_per_s,
                                      .latency_s = link->latency_s,
                                      .down_bytes_per_s = link->bytes_per_s};
    }
    cluster->storage = -1;
    if (cluster->storage_read_bytes_per_s > 0 || cluster->storage_write_bytes_per_s > 0) {
        cluster->storage = m->n;
        m->links[m->n++] = (luo_link){.name = "storage",
                                      .kind = LUO_LINK_STORAGE,
                                      .node = -1,
                                      .rack = -1,
                                      .bytes_per_s = cluster->storage_write_bytes_per_s,
                                      .down_bytes_per_s = cluster->storage_read_bytes_per_s};
    }
    return LUO_OK;
}

static int32_t site_number(const luo_cluster *cluster, const char *name)
{
    for (int32_t i = 0; i < cluster->nsites; i++)
        if (strcmp(cluster->sites[i], name) == 0) return i;
    return -1;
}

static luo_status check_site_links(const luo_cluster *cluster, luo_err *err)
{
    for (int32_t i = 0; i < cluster->nsite_links; i++) {
        const luo_site_link *l = &cluster->site_links[i];
        const char *missing = site_number(cluster, l->a) < 0 ? l->a : l->b;
        if (site_number(cluster, missing) < 0)
            return luo_err_set(err, LUO_EINPUT,
                               "`site_links` names site `%s`; no node group stands there.",
                               missing);
        if (strcmp(l->a, l->b) == 0)
            return luo_err_set(err, LUO_EINPUT,
                               "`site_links` joins site `%s` to itself; two sites are expected.",
                               l->a);
        for (int32_t k = 0; k < i; k++) {
            const luo_site_link *o = &cluster->site_links[k];
            if ((!strcmp(l->a, o->a) && !strcmp(l->b, o->b)) ||
                (!strcmp(l->a, o->b) && !strcmp(l->b, o->a)))
                return luo_err_set(err, LUO_EINPUT,
                                   "`site_links` joins `%s` and `%s` twice; give one line.", l->a,
                                   l->b);
        }
    }
    return LUO_OK;
}

/* Fewest lines towards `to`, ties to the line listed first: breadth first from `to`. */
static void route_to(const luo_cluster *cluster, int32_t to, int32_t *routes, int32_t *steps,
                     int32_t *queue)
{
    for (int32_t i = 0; i < cluster->nsites; i++) steps[i] = -1;
    steps[to] = 0;
    queue[0] = to;
    for (int32_t head = 0, n = 1; head < n; head++) {
        const int32_t at = queue[head];
        for (int32_t k = 0; k < cluster->nsite_links; k++) {
            const int32_t a = site_number(cluster, cluster->site_links[k].a);
            const int32_t b = site_number(cluster, cluster->site_links[k].b);
            const int32_t from = a == at ? b : b == at ? a : -1;
            if (from < 0 || steps[from] >= 0) continue;
            steps[from] = steps[at] + 1;
            routes[from * cluster->nsites + to] = k;
            queue[n++] = from;
        }
    }
}

static luo_status make_site_routes(maker *m)
{
    luo_cluster *cluster = m->c;
    const int32_t n = cluster->nsites;
    int32_t *routes = LUO_NEW_N(m->arena, int32_t, (size_t)n * (size_t)n);
    int32_t *steps = LUO_NEW_N(m->arena, int32_t, 2 * n);
    if (!routes || !steps) return luo_err_nomem(m->err);
    for (int32_t i = 0; i < n * n; i++) routes[i] = -1;
    for (int32_t to = 0; to < n; to++) {
        route_to(cluster, to, routes, steps, steps + n);
        for (int32_t from = 0; from < n; from++)
            if (steps[from] < 0 || steps[from] > LUO_PATH_MAX - 6)
                return luo_err_set(m->err, LUO_EINPUT,
                                   "sites `%s` and `%s` are not joined by %d lines or fewer; add "
                                   "one to `site_links`.",
                                   cluster->sites[to], cluster->sites[from], LUO_PATH_MAX - 6);
    }
    cluster->site_routes = routes;
    return LUO_OK;
}

static luo_status make_mesh_pairs(maker *m)
{
    const int32_t **all = LUO_NEW_N(m->arena, const int32_t *, m->c->ngroups);
    if (!all) return luo_err_nomem(m->err);
    for (int32_t gi = 0; gi < m->c->ngroups; gi++) {
        const luo_node_group *group = &m->c->groups[gi];
        if (group->scale_up != LUO_SCALE_UP_MESH) continue;
        const int32_t d = group->devices_per_node;
        int32_t *pairs = LUO_NEW_N(m->arena, int32_t, d * d);
        if (!pairs) return luo_err_nomem(m->err);
        for (int32_t i = 0; i < d * d; i++) pairs[i] = -1;
        for (int32_t i = 0; i < group->nmesh; i++) {
            pairs[group->mesh[i].a * d + group->mesh[i].b] = i;
            pairs[group->mesh[i].b * d + group->mesh[i].a] = i;
        }
        all[gi] = pairs;
    }
    m->c->mesh_pairs = all;
    return LUO_OK;
}

typedef struct named {
    const char *name;
    int32_t i;
} named;

static int by_name(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const int d = strcmp(x->name, y->name);
    return d ? d : (x->i > y->i) - (x->i < y->i);
}

static luo_status sort_names(maker *m, int32_t n, bool links, const int32_t **out)
{
    int32_t *order = LUO_NEW_N(m->arena, int32_t, n);
    if (!order) return luo_err_nomem(m->err);
    const size_t mark = luo_arena_mark(m->arena);
    named *list = LUO_NEW_N(m->arena, named, n);
    if (!list) return luo_err_nomem(m->err);
    for (int32_t i = 0; i < n; i++)
        list[i] = (named){links ? m->links[i].name : m->nodes[i].name, i};
    qsort(list, (size_t)n, sizeof *list, by_name);
    for (int32_t i = 0; i < n; i++) order[i] = list[i].i;
    luo_arena_reset(m->arena, mark);
    *out = order;
    return LUO_OK;
}

static int32_t count_links(const luo_cluster *cluster)
{
    int64_t n = (int64_t)cluster->nracks * rack_uplinks(cluster) + cluster->nsite_links + 1;
    for (int32_t i = 0; i < cluster->ngroups; i++)
        for (luo_link_kind k = LUO_LINK_NVLINK; k <= LUO_LINK_NIC; k++)
            n += (int64_t)cluster->groups[i].nodes * node_links(&cluster->groups[i], k);
    return n > INT32_MAX ? -1 : (int32_t)n;
}

luo_status luo_cluster_build_links(luo_arena *arena, luo_cluster *cluster, luo_err *err)
{
    LUO_TRY(check_site_links(cluster, err));
    const int32_t room = count_links(cluster);
    if (room < 0)
        return luo_err_set(err, LUO_E2BIG,
                           "cluster `%s` has more than %d links; use fewer NICs or nodes.",
                           cluster->name, INT32_MAX);
    luo_node *nodes = LUO_NEW_N(arena, luo_node, cluster->nnodes);
    maker m = {arena, cluster, nodes, LUO_NEW_N(arena, luo_link, room), 0, err};
    if (!nodes || !m.links) return luo_err_nomem(err);
    memcpy(nodes, cluster->nodes, (size_t)cluster->nnodes * sizeof *nodes);
    for (luo_link_kind k = LUO_LINK_NVLINK; k <= LUO_LINK_NIC; k++)
        LUO_TRY(make_node_links(&m, k));
    LUO_TRY(make_uplinks(&m));
    LUO_TRY(make_lines(&m));
    LUO_TRY(make_site_routes(&m));
    LUO_TRY(make_mesh_pairs(&m));
    LUO_TRY(sort_names(&m, m.n, true, &cluster->links_by_name));
    LUO_TRY(sort_names(&m, cluster->nnodes, false, &cluster->nodes_by_name));
    cluster->nodes = nodes;
    cluster->links = m.links;
    cluster->nlinks = m.n;
    return LUO_OK;
}
