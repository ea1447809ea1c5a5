/* simgrid_xml.c: a cluster as a platform file of SimGrid: one flat zone under DijkstraCache, with
 * the links of the cluster, both of their ways apart, and routers for what they meet in.
 *
 * Dijkstra takes the route of fewest links, whatever their bandwidth, and goes through hosts too.
 * So that it takes those of luo_cluster_path, edges are made as long as the following says, by
 * links without latency that hold nothing up ("pad"):
 *
 *   device, switch of NVLink           5    two devices: 10
 *   device, device of a mesh          10    through a third device: 20
 *   device, PCIe switch                6    two devices: 12 to 15
 *   device, gateway to its NIC         8    two devices: 16
 *   PCIe switch, socket; two sockets   1
 *   leaf, spine                        3    so nobody changes rails inside a node, which takes 10
 *
 * Half of the latency of a switch of the fabric stands on every edge into it ("hop"). */
#include "core/io/export/export_internal.h"

#include <string.h>

#include "core/cost/cluster_internal.h"

#define SIMGRID "a SimGrid platform file"
enum { NVSWITCH = 5, MESH = 10, PCIE = 6, GATEWAY = 8 };

typedef struct edge {
    luo_str way[2]; /* the links there, and back: in the other order and direction */
    int32_t links;
} edge;

typedef struct platform {
    luo_arena *arena;
    const luo_cluster *cluster;
    luo_str *text;
    bool failed;
} platform;

/* ---- names ---- */

/* Racks and sites may have any text for a name. */
static const char *escape(platform *to, const char *text)
{
    static const char special[] = "&<>\"";
    static const char *const entity[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    if (text && text[strcspn(text, special)] == 0) return text;
    luo_str out = {0};
    for (; text && *text; text++) {
        const char *at = strchr(special, *text);
        if (at)
            luo_str_add(&out, entity[at - special]);
        else
            luo_str_addc(&out, *text);
    }
    const char *copy = out.failed || !text ? NULL : luo_arena_strdup(to->arena, luo_str_get(&out));
    luo_str_free(&out);
    to->failed |= !copy;
    return copy ? copy : "";
}

static const char *name_host(platform *to, int32_t device)
{
    const luo_device *d = &to->cluster->devices[device];
    return escape(to,
                  luo_arena_printf(to->arena, "%s/%d", to->cluster->nodes[d->node].name, d->slot));
}

/* k below 0: there is but one. */
static const char *name_in(platform *to, const char *owner, const char *what, int32_t k)
{
    if (k < 0) return escape(to, luo_arena_printf(to->arena, "%s/%s", owner, what));
    return escape(to, luo_arena_printf(to->arena, "%s/%s%d", owner, what, k));
}

static const char *name_rack_leaf(platform *to, int32_t rack, int32_t k)
{
    const bool rail = to->cluster->fabric == LUO_FABRIC_RAIL;
    return name_in(to, to->cluster->racks[rack], "leaf", rail ? k : -1);
}

static const char *name_spine(platform *to, int32_t site)
{
    return name_in(to, to->cluster->sites[site], "spine", -1);
}

/* Where NIC k of a node ends: the switch of a site, or the leaf of a rack, or of a rail there. */
static const char *name_leaf(platform *to, const luo_node *node, int32_t k)
{
    return to->cluster->fabric == LUO_FABRIC_SINGLE ? name_spine(to, node->site)
                                                    : name_rack_leaf(to, node->rack, k);
}

/* ---- edges ---- */

static void put_before(luo_str *way, const char *link)
{
    luo_str old = *way;
    *way = (luo_str){0};
    luo_str_add(way, link);
    luo_str_add(way, luo_str_get(&old));
    way->failed |= old.failed;
    luo_str_free(&old);
}

static void add_link(edge *e, const char *name, const char *there, const char *back)
{
    luo_str one = {0}, other = {0};
    luo_str_addf(&one, "<link_ctn id=\"%s\"%s/>", name, there);
    luo_str_addf(&other, "<link_ctn id=\"%s\"%s/>", name, back);
    luo_str_add(&e->way[0], luo_str_get(&one));
    put_before(&e->way[1], luo_str_get(&other));
    e->way[0].failed |= one.failed || other.failed;
    luo_str_free(&one);
    luo_str_free(&other);
    e->links++;
}

/* up: the first way goes away from the devices. */
static void add_cluster_link(platform *to, edge *e, int32_t link, bool up)
{
    static const char *const ways[] = {" direction=\"DOWN\"", " direction=\"UP\""};
    add_link(e, escape(to, to->cluster->links[link].name), ways[up], ways[!up]);
}

static void add_hops(edge *e, int32_t n)
{
    for (int32_t i = 0; i < n; i++) add_link(e, "hop", "", "");
}

static void add_pads(edge *e, int32_t links)
{
    while (e->links < links) add_link(e, "pad", "", "");
}

static void put_edge(platform *to, edge *e, const char *from, const char *into)
{
    luo_str_addf(to->text, "    <route src=\"%s\" dst=\"%s\" symmetrical=\"NO\">%s</route>\n", from,
                 into, luo_str_get(&e->way[0]));
    luo_str_addf(to->text, "    <route src=\"%s\" dst=\"%s\" symmetrical=\"NO\">%s</route>\n", into,
                 from, luo_str_get(&e->way[1]));
    to->failed |= e->way[0].failed || e->way[1].failed;
    luo_str_free(&e->way[0]);
    luo_str_free(&e->way[1]);
}

/* ---- hosts, routers, links ---- */

static luo_status put_hosts(export_job *job, platform *to)
{
    const luo_cluster *cluster = to->cluster;
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        const luo_profile *profile = luo_cluster_profile(cluster, d);
        double flops;
        if (luo_profile_peak(profile, LUO_BF16, &flops, NULL) != LUO_OK)
            LUO_TRY(luo_profile_peak(profile, LUO_F32, &flops, job->err));
        luo_str_addf(to->text, "    <host id=\"%s\" speed=\"", name_host(to, d));
        export_add_number(to->text, flops / luo_cluster_base_slowdown(cluster, d));
        luo_str_add(to->text, "f\"/>\n");
    }
    return LUO_OK;
}

static void put_router(platform *to, const char *id)
{
    luo_str_addf(to->text, "    <router id=\"%s\"/>\n", id);
}

static int32_t count_switches(const luo_node_group *group)
{
    return group->has_pcie ? luo_group_switches(group) : 0;
}

static void put_node_routers(platform *to, const luo_node *node)
{
    const luo_node_group *group = &to->cluster->groups[node->group];
    if (group->scale_up == LUO_SCALE_UP_NVSWITCH)
        put_router(to, name_in(to, node->name, "nvswitch", -1));
    for (int32_t k = 0; k < count_switches(group); k++)
        put_router(to, name_in(to, node->name, "pcieswitch", k));
    for (int32_t k = 0; count_switches(group) > 1 && k < group->sockets; k++)
        put_router(to, name_in(to, node->name, "cpu", k));
    for (int32_t k = 0; k < group->nics; k++) put_router(to, name_in(to, node->name, "gw", k));
}

static bool has_fabric(const luo_cluster *cluster)
{
    return cluster->nnodes > 1;
}

static int32_t count_rails(const luo_cluster *cluster)
{
    return cluster->fabric == LUO_FABRIC_RAIL ? cluster->groups[0].nics : 1;
}

static void put_routers(platform *to)
{
    const luo_cluster *cluster = to->cluster;
    for (int32_t n = 0; n < cluster->nnodes; n++) put_node_routers(to, &cluster->nodes[n]);
    if (!has_fabric(cluster)) return;
    for (int32_t r = 0; r < cluster->nracks && cluster->fabric != LUO_FABRIC_SINGLE; r++)
        for (int32_t k = 0; k < count_rails(cluster); k++) put_router(to, name_rack_leaf(to, r, k));
    for (int32_t s = 0; s < cluster->nsites; s++) put_router(to, name_spine(to, s));
}

static void put_link(platform *to, const char *id, double bytes_per_s, double latency_s,
                     const char *sharing)
{
    luo_str_addf(to->text, "    <link id=\"%s\" bandwidth=\"", id);
    export_add_number(to->text, bytes_per_s);
    luo_str_add(to->text, "Bps\" latency=\"");
    export_add_number(to->text, latency_s);
    luo_str_addf(to->text, "s\" sharing_policy=\"%s\"/>\n", sharing);
}

static void put_links(platform *to)
{
    const luo_cluster *cluster = to->cluster;
    put_link(to, "pad", 1e15, 0, "FATPIPE");
    put_link(to, "hop", 1e15, cluster->hop_latency_s / 2, "FATPIPE");
    for (int32_t l = 0; l < cluster->nlinks; l++) {
        const luo_link *link = &cluster->links[l];
        if (link->kind == LUO_LINK_STORAGE) continue; /* joins no two devices */
        put_link(to, escape(to, link->name), link->bytes_per_s, link->latency_s, "SPLITDUPLEX");
    }
}

/* ---- inside a node ---- */

static void join_switch(platform *to, const luo_node *node, int32_t slot)
{
    edge e = {0};
    add_cluster_link(to, &e, node->nvlink + slot, true);
    add_pads(&e, NVSWITCH);
    put_edge(to, &e, name_host(to, node->first_device + slot),
             name_in(to, node->name, "nvswitch", -1));
}

static void join_mesh(platform *to, const luo_node *node, int32_t pair)
{
    const luo_mesh_link *mesh = &to->cluster->groups[node->group].mesh[pair];
    edge e = {0};
    add_cluster_link(to, &e, node->nvlink + pair, true);
    add_pads(&e, MESH);
    put_edge(to, &e, name_host(to, node->first_device + mesh->a),
             name_host(to, node->first_device + mesh->b));
}

static void join_pcie(platform *to, const luo_node *node, int32_t slot)
{
    const luo_node_group *group = &to->cluster->groups[node->group];
    edge e = {0};
    add_cluster_link(to, &e, node->pcie + slot, true);
    add_pads(&e, PCIE);
    put_edge(to, &e, name_host(to, node->first_device + slot),
             name_in(to, node->name, "pcieswitch", slot / group->devices_per_switch));
}

/* PCIe switches to their sockets, and sockets to each other over the one link that they have. */
static void join_sockets(platform *to, const luo_node *node)
{
    const luo_node_group *group = &to->cluster->groups[node->group];
    const int32_t switches = count_switches(group);
    if (switches < 2) return;
    for (int32_t k = 0; k < switches; k++) {
        edge e = {0};
        add_cluster_link(to, &e, node->pcie_switch + k, true);
        put_edge(to, &e, name_in(to, node->name, "pcieswitch", k),
                 name_in(to, node->name, "cpu", luo_group_switch_socket(group, k)));
    }
    for (int32_t a = 0; a < group->sockets; a++)
        for (int32_t b = a + 1; b < group->sockets; b++) {
            edge e = {0};
            add_cluster_link(to, &e, node->socket, true);
            put_edge(to, &e, name_in(to, node->name, "cpu", a), name_in(to, node->name, "cpu", b));
        }
}

static void join_node(platform *to, const luo_node *node)
{
    const luo_node_group *group = &to->cluster->groups[node->group];
    for (int32_t i = 0; i < group->devices_per_node && group->scale_up == LUO_SCALE_UP_NVSWITCH;
         i++)
        join_switch(to, node, i);
    for (int32_t i = 0; i < group->nmesh && group->scale_up == LUO_SCALE_UP_MESH; i++)
        join_mesh(to, node, i);
    for (int32_t i = 0; i < group->devices_per_node && group->has_pcie; i++) join_pcie(to, node, i);
    if (group->has_pcie) join_sockets(to, node);
}

/* ---- between nodes ---- */

static void join_gateway(platform *to, const luo_node *node, int32_t slot)
{
    const int32_t device = node->first_device + slot;
    const int32_t nic = luo_cluster_nic(to->cluster, device, device);
    edge e = {0};
    if (to->cluster->groups[node->group].has_pcie)
        add_cluster_link(to, &e, node->pcie + slot, true);
    add_pads(&e, GATEWAY);
    put_edge(to, &e, name_host(to, device), name_in(to, node->name, "gw", nic));
}

static void join_fabric(platform *to, const luo_node *node)
{
    const luo_node_group *group = &to->cluster->groups[node->group];
    for (int32_t i = 0; i < group->devices_per_node; i++) join_gateway(to, node, i);
    for (int32_t k = 0; k < group->nics; k++) {
        edge e = {0};
        add_cluster_link(to, &e, node->nic + k, true);
        add_hops(&e, 1);
        put_edge(to, &e, name_in(to, node->name, "gw", k), name_leaf(to, node, k));
    }
}

static int32_t site_of_rack(const luo_cluster *cluster, int32_t rack)
{
    for (int32_t n = 0; n < cluster->nnodes; n++)
        if (cluster->nodes[n].rack == rack) return cluster->nodes[n].site;
    return 0;
}

static void join_racks(platform *to)
{
    const luo_cluster *cluster = to->cluster;
    for (int32_t r = 0; r < cluster->nracks; r++) {
        const char *spine = name_spine(to, site_of_rack(cluster, r));
        for (int32_t k = 0; k < count_rails(cluster); k++) {
            edge e = {0};
            add_hops(&e, 1);
            if (cluster->uplinks[r] >= 0) add_cluster_link(to, &e, cluster->uplinks[r] + k, true);
            add_hops(&e, 1);
            put_edge(to, &e, name_rack_leaf(to, r, k), spine);
        }
    }
}

/* Two sites by the lines between them, whole, so that nothing chooses other ones. */
static void join_sites(platform *to, int32_t from, int32_t into)
{
    const luo_cluster *cluster = to->cluster;
    edge e = {0};
    for (int32_t at = from; at != into;) {
        const int32_t k = cluster->site_routes[at * cluster->nsites + into];
        const bool up = strcmp(cluster->site_links[k].a, cluster->sites[at]) == 0;
        const char *next = up ? cluster->site_links[k].b : cluster->site_links[k].a;
        add_hops(&e, 1);
        add_cluster_link(to, &e, cluster->first_line + k, up);
        add_hops(&e, 1);
        for (at = 0; strcmp(cluster->sites[at], next) != 0;) at++;
    }
    add_pads(&e, e.links + 1);
    put_edge(to, &e, name_spine(to, from), name_spine(to, into));
}

static void put_routes(platform *to)
{
    const luo_cluster *cluster = to->cluster;
    for (int32_t n = 0; n < cluster->nnodes; n++) {
        join_node(to, &cluster->nodes[n]);
        if (has_fabric(cluster)) join_fabric(to, &cluster->nodes[n]);
    }
    if (!has_fabric(cluster)) return;
    if (cluster->fabric != LUO_FABRIC_SINGLE) join_racks(to);
    for (int32_t a = 0; a < cluster->nsites; a++)
        for (int32_t b = a + 1; b < cluster->nsites; b++) join_sites(to, a, b);
}

static luo_status check_cluster(export_job *job)
{
    const luo_cluster *cluster = job->source->cluster;
    for (int32_t g = 0; g < cluster->ngroups && has_fabric(cluster); g++)
        if (cluster->groups[g].nic_shared && cluster->groups[g].nics > 1)
            return luo_err_set(job->err, LUO_EUNREP,
                               SIMGRID " can't express the %d shared NICs of group `%s`: which of "
                                       "them is taken depends on both ends of a route.",
                               cluster->groups[g].nics, cluster->groups[g].name);
    return LUO_OK;
}

luo_status export_simgrid(export_job *job)
{
    luo_str text = {0};
    platform to = {job->arena, job->source->cluster, &text, false};
    LUO_TRY(check_cluster(job));
    luo_str_add(&text, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                       "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n");
    luo_str_addf(&text, "  <zone id=\"%s\" routing=\"DijkstraCache\">\n",
                 escape(&to, to.cluster->name));
    const luo_status st = put_hosts(job, &to);
    if (st != LUO_OK) {
        luo_str_free(&text);
        return st;
    }
    put_routers(&to);
    put_links(&to);
    put_routes(&to);
    luo_str_add(&text, "  </zone>\n</platform>\n");
    text.failed |= to.failed;
    return export_put(job, NULL, &text);
}
