/* Links of a cluster: one pass per kind, so that they stand by kind, node or rack, index. */
#include <stdlib.h>
#include <string.h>

#include "core/cost/cluster_internal.h"

const char *luo_link_kind_name(luo_link_kind k)
{
    static const char *const names[] = {"nvlink", "pcie",   "pcie", "socket",
                                        "nic",    "uplink", "line", "storage"};
    return names[k];
}

int32_t luo_group_switches(const luo_node_group *g)
{
    return (g->devices_per_node + g->devices_per_switch - 1) / g->devices_per_switch;
}

int32_t luo_group_switch_socket(const luo_node_group *g, int32_t pcie_switch)
{
    return (int32_t)((int64_t)pcie_switch * g->sockets / luo_group_switches(g));
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
static int32_t node_links(const luo_node_group *g, luo_link_kind kind)
{
    const int32_t switches = luo_group_switches(g);
    switch (kind) {
    case LUO_LINK_NVLINK:
        if (g->scale_up == LUO_SCALE_UP_MESH) return g->nmesh;
        return g->scale_up == LUO_SCALE_UP_NVSWITCH ? g->devices_per_node : 0;
    case LUO_LINK_PCIE: return g->has_pcie ? g->devices_per_node : 0;
    case LUO_LINK_PCIE_SWITCH: return g->has_pcie && switches > 1 ? switches : 0;
    case LUO_LINK_SOCKET: return g->has_pcie && switches > 1 && g->sockets > 1 ? 1 : 0;
    case LUO_LINK_NIC: return g->nics;
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
    case LUO_LINK_STORAGE:
        break; /* of no node */
    }
    return 0;
}

static luo_link node_link(const luo_node_group *g, luo_link_kind kind, int32_t i)
{
    luo_link l = {.kind = kind, .rack = -1, .index = i};
    switch (kind) {
    case LUO_LINK_NVLINK:
        l.bytes_per_s = g->scale_up_bytes_per_s;
        l.latency_s = g->scale_up_latency_s / 2;
        if (g->scale_up == LUO_SCALE_UP_MESH) {
            l.bytes_per_s *= g->mesh[i].lanes;
            l.latency_s *= 2;
        }
        break;
    case LUO_LINK_SOCKET:
        l.bytes_per_s = g->socket_bytes_per_s;
        l.latency_s = g->pcie_latency_s / 2;
        break;
    case LUO_LINK_NIC:
        l.bytes_per_s = g->nic_bytes_per_s;
        l.latency_s = g->nic_latency_s / 2;
        break;
    case LUO_LINK_PCIE:
    case LUO_LINK_PCIE_SWITCH:
        l.bytes_per_s = g->pcie_bytes_per_s;
        l.latency_s = g->pcie_latency_s / 2;
        break;
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
    case LUO_LINK_STORAGE:
        break; /* of no node */
    }
    l.down_bytes_per_s = l.bytes_per_s;
    return l;
}

static int32_t *first_of(luo_node *n, luo_link_kind kind)
{
    switch (kind) {
    case LUO_LINK_NVLINK: return &n->nvlink;
    case LUO_LINK_PCIE: return &n->pcie;
    case LUO_LINK_PCIE_SWITCH: return &n->pcie_switch;
    case LUO_LINK_SOCKET: return &n->socket;
    case LUO_LINK_NIC:
        return &n->nic;
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
        const luo_node_group *g = &m->c->groups[node->group];
        const int32_t n = node_links(g, kind);
        if (n > 0) *first_of(node, kind) = m->n;
        for (int32_t k = 0; k < n; k++) {
            luo_link *l = &m->links[m->n++];
            *l = node_link(g, kind, k);
            l->node = i;
            l->name = kind == LUO_LINK_SOCKET
                          ? luo_arena_printf(m->arena, "%s/socket", node->name)
                          : luo_arena_printf(m->arena, "%s/%s%d", node->name, names[kind], k);
            if (!l->name) return luo_err_nomem(m->err);
        }
    }
    return LUO_OK;
}

static int32_t rack_uplinks(const luo_cluster *c)
{
    if (c->fabric == LUO_FABRIC_SINGLE || c->nnodes < 2) return 0;
    return c->fabric == LUO_FABRIC_RAIL ? c->groups[0].nics : 1;
}

static luo_status make_uplinks(maker *m)
{
    const luo_cluster *c = m->c;
    const int32_t per_rack = rack_uplinks(c);
    int32_t *first = LUO_NEW_N(m->arena, int32_t, c->nracks);
    if (!first) return luo_err_nomem(m->err);
    for (int32_t r = 0; r < c->nracks; r++) {
        first[r] = per_rack ? m->n : -1;
        for (int32_t k = 0; k < per_rack; k++) {
            const double share = c->rack_uplink_bytes_per_s / per_rack;
            const char *name = c->fabric == LUO_FABRIC_RAIL
                                   ? luo_arena_printf(m->arena, "%s/up%d", c->racks[r], k)
                                   : luo_arena_printf(m->arena, "%s/up", c->racks[r]);
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
    luo_cluster *c = m->c;
    c->first_line = c->nsite_links ? m->n : -1;
    for (int32_t i = 0; i < c->nsite_links; i++) {
        const luo_site_link *s = &c->site_links[i];
        const char *name = luo_arena_printf(m->arena, "%s-%s/line", s->a, s->b);
        if (!name) return luo_err_nomem(m->err);
        m->links[m->n++] =
            (luo_link){.name = name, .kind = LUO_LINK_LINE, .node = -1, .rack = -1, .index = i,
                       .bytes_per_s = s->bytes_per_s, .latency_s = s->latency_s,
                       .down_bytes_per_s = s->bytes_per_s};
    }
    c->storage = -1;
    if (c->storage_read_bytes_per_s > 0 || c->storage_write_bytes_per_s > 0) {
        c->storage = m->n;
        m->links[m->n++] = (luo_link){.name = "storage", .kind = LUO_LINK_STORAGE, .node = -1,
                                      .rack = -1, .bytes_per_s = c->storage_write_bytes_per_s,
                                      .down_bytes_per_s = c->storage_read_bytes_per_s};
    }
    return LUO_OK;
}

static int32_t site_number(const luo_cluster *c, const char *name)
{
    for (int32_t i = 0; i < c->nsites; i++)
        if (strcmp(c->sites[i], name) == 0) return i;
    return -1;
}

static luo_status check_site_links(const luo_cluster *c, luo_err *err)
{
    for (int32_t i = 0; i < c->nsite_links; i++) {
        const luo_site_link *l = &c->site_links[i];
        const char *missing = site_number(c, l->a) < 0 ? l->a : l->b;
        if (site_number(c, missing) < 0)
            return luo_err_set(err, LUO_EINPUT,
                               "`site_links` names site `%s`; no node group stands there.",
                               missing);
        if (strcmp(l->a, l->b) == 0)
            return luo_err_set(err, LUO_EINPUT,
                               "`site_links` joins site `%s` to itself; two sites are expected.",
                               l->a);
        for (int32_t k = 0; k < i; k++) {
            const luo_site_link *o = &c->site_links[k];
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
static void route_to(const luo_cluster *c, int32_t to, int32_t *routes, int32_t *steps,
                     int32_t *queue)
{
    for (int32_t i = 0; i < c->nsites; i++) steps[i] = -1;
    steps[to] = 0;
    queue[0] = to;
    for (int32_t head = 0, n = 1; head < n; head++) {
        const int32_t at = queue[head];
        for (int32_t k = 0; k < c->nsite_links; k++) {
            const int32_t a = site_number(c, c->site_links[k].a);
            const int32_t b = site_number(c, c->site_links[k].b);
            const int32_t from = a == at ? b : b == at ? a : -1;
            if (from < 0 || steps[from] >= 0) continue;
            steps[from] = steps[at] + 1;
            routes[from * c->nsites + to] = k;
            queue[n++] = from;
        }
    }
}

static luo_status make_site_routes(maker *m)
{
    luo_cluster *c = m->c;
    const int32_t n = c->nsites;
    int32_t *routes = LUO_NEW_N(m->arena, int32_t, (size_t)n * (size_t)n);
    int32_t *steps = LUO_NEW_N(m->arena, int32_t, 2 * n);
    if (!routes || !steps) return luo_err_nomem(m->err);
    for (int32_t i = 0; i < n * n; i++) routes[i] = -1;
    for (int32_t to = 0; to < n; to++) {
        route_to(c, to, routes, steps, steps + n);
        for (int32_t from = 0; from < n; from++)
            if (steps[from] < 0 || steps[from] > LUO_PATH_MAX - 6)
                return luo_err_set(m->err, LUO_EINPUT,
                                   "sites `%s` and `%s` are not joined by %d lines or fewer; add "
                                   "one to `site_links`.",
                                   c->sites[to], c->sites[from], LUO_PATH_MAX - 6);
    }
    c->site_routes = routes;
    return LUO_OK;
}

static luo_status make_mesh_pairs(maker *m)
{
    const int32_t **all = LUO_NEW_N(m->arena, const int32_t *, m->c->ngroups);
    if (!all) return luo_err_nomem(m->err);
    for (int32_t gi = 0; gi < m->c->ngroups; gi++) {
        const luo_node_group *g = &m->c->groups[gi];
        if (g->scale_up != LUO_SCALE_UP_MESH) continue;
        const int32_t d = g->devices_per_node;
        int32_t *pairs = LUO_NEW_N(m->arena, int32_t, d * d);
        if (!pairs) return luo_err_nomem(m->err);
        for (int32_t i = 0; i < d * d; i++) pairs[i] = -1;
        for (int32_t i = 0; i < g->nmesh; i++) {
            pairs[g->mesh[i].a * d + g->mesh[i].b] = i;
            pairs[g->mesh[i].b * d + g->mesh[i].a] = i;
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

static int32_t count_links(const luo_cluster *c)
{
    int64_t n = (int64_t)c->nracks * rack_uplinks(c) + c->nsite_links + 1;
    for (int32_t i = 0; i < c->ngroups; i++)
        for (luo_link_kind k = LUO_LINK_NVLINK; k <= LUO_LINK_NIC; k++)
            n += (int64_t)c->groups[i].nodes * node_links(&c->groups[i], k);
    return n > INT32_MAX ? -1 : (int32_t)n;
}

luo_status luo_cluster_build_links(luo_arena *arena, luo_cluster *c, luo_err *err)
{
    LUO_TRY(check_site_links(c, err));
    const int32_t room = count_links(c);
    if (room < 0)
        return luo_err_set(err, LUO_E2BIG,
                           "cluster `%s` has more than %d links; use fewer NICs or nodes.", c->name,
                           INT32_MAX);
    luo_node *nodes = LUO_NEW_N(arena, luo_node, c->nnodes);
    maker m = {arena, c, nodes, LUO_NEW_N(arena, luo_link, room), 0, err};
    if (!nodes || !m.links) return luo_err_nomem(err);
    memcpy(nodes, c->nodes, (size_t)c->nnodes * sizeof *nodes);
    for (luo_link_kind k = LUO_LINK_NVLINK; k <= LUO_LINK_NIC; k++)
        LUO_TRY(make_node_links(&m, k));
    LUO_TRY(make_uplinks(&m));
    LUO_TRY(make_lines(&m));
    LUO_TRY(make_site_routes(&m));
    LUO_TRY(make_mesh_pairs(&m));
    LUO_TRY(sort_names(&m, m.n, true, &c->links_by_name));
    LUO_TRY(sort_names(&m, c->nnodes, false, &c->nodes_by_name));
    c->nodes = nodes;
    c->links = m.links;
    c->nlinks = m.n;
    return LUO_OK;
}
