#include "core/cost/cluster.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/quantity.h"
#include "core/cost/cluster_internal.h"

/* Names are numbered in order of first appearance; a map from their hash keeps that O(1). */
typedef struct numbering {
    luo_map map;
    const char **names;
    int32_t n;
} numbering;

static luo_status number_of(numbering *k, const char *name, int32_t *out, luo_err *err)
{
    int64_t *slot = luo_map_at(&k->map, luo_hash_str(LUO_HASH_EMPTY, name), k->n);
    if (!slot) return luo_err_nomem(err);
    int32_t i = (int32_t)*slot;
    if (i < k->n && strcmp(k->names[i], name) != 0) /* two names of one hash */
        for (i = 0; i < k->n && strcmp(k->names[i], name) != 0;) i++;
    if (i == k->n) k->names[k->n++] = name;
    *out = i;
    return LUO_OK;
}

static luo_status check_mesh(const luo_node_group *g, luo_err *err)
{
    uint64_t seen[64] = {0};
    int32_t pairs = 0;
    for (int32_t i = 0; i < g->nmesh; i++) {
        const luo_mesh_link *l = &g->mesh[i];
        if (l->a < 0 || l->a >= l->b || l->b >= g->devices_per_node || l->lanes < 1)
            return luo_err_set(err, LUO_EINPUT,
                               "`scale_up_links` of node group `%s` joins slots %d and %d by %d "
                               "lanes; slots a < b below %d and 1 lane or more are expected.",
                               g->name, l->a, l->b, l->lanes, g->devices_per_node);
        if (seen[l->a] >> l->b & 1)
            return luo_err_set(err, LUO_EINPUT,
                               "`scale_up_links` of node group `%s` lists slots %d and %d twice; "
                               "give one pair with more lanes.",
                               g->name, l->a, l->b);
        seen[l->a] |= UINT64_C(1) << l->b;
        pairs++;
    }
    const int32_t all = g->devices_per_node * (g->devices_per_node - 1) / 2;
    if (pairs < all && !g->has_pcie)
        return luo_err_set(err, LUO_EINPUT,
                           "`scale_up_links` of node group `%s` joins %d of %d pairs and there is "
                           "no `pcie` for the others; give it.",
                           g->name, pairs, all);
    return LUO_OK;
}

static luo_status check_inside(const luo_node_group *g, luo_err *err)
{
    if (g->scale_up == LUO_SCALE_UP_MESH) LUO_TRY(check_mesh(g, err));
    if (g->scale_up != LUO_SCALE_UP_NONE && g->scale_up_bytes_per_s <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "`scale_up` of node group `%s` has no `bandwidth_gbytes_per_s`; give "
                           "a number above 0.",
                           g->name);
    if (g->scale_up == LUO_SCALE_UP_NONE && !g->has_pcie && g->devices_per_node > 1)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` has %d devices a node and nothing that joins them; "
                           "give `scale_up` or `pcie`.",
                           g->name, g->devices_per_node);
    if (g->has_pcie && g->sockets > 1 && luo_group_switches(g) > 1 && g->socket_bytes_per_s <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "`pcie` of node group `%s` has %d sockets and no `socket_gbytes_per_s`; "
                           "give it.",
                           g->name, g->sockets);
    return LUO_OK;
}

static luo_status check_group(const luo_cluster *c, int32_t gi, bool several, luo_err *err)
{
    const luo_node_group *g = &c->groups[gi];
    for (int32_t i = 0; i < gi; i++)
        if (strcmp(c->groups[i].name, g->name) == 0)
            return luo_err_set(err, LUO_EINPUT,
                               "two node groups are named `%s`; names must differ.", g->name);
    if (g->nracks != 1 && g->nracks != g->nodes)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` lists %d racks for %d nodes; one, or one per node, is "
                           "expected.",
                           g->name, g->nracks, g->nodes);
    if (several && g->nics < 1)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` has no `nics`; they are needed when there is more "
                           "than one node.",
                           g->name);
    if (several && c->fabric == LUO_FABRIC_RAIL && g->nics != c->groups[0].nics)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` has %d NICs a node and `%s` has %d; fabric `rail` "
                           "needs equal numbers.",
                           g->name, g->nics, c->groups[0].name, c->groups[0].nics);
    return check_inside(g, err);
}

static void fill_defaults(luo_node_group *g)
{
    static const char *const first_rack[] = {"r0"};
    if (!g->site) g->site = "main";
    if (g->nracks < 1) {
        g->racks = first_rack;
        g->nracks = 1;
    }
    if (g->base_slowdown <= 0) g->base_slowdown = 1;
    if (g->sockets < 1) g->sockets = 1;
    if (g->devices_per_switch < 1) g->devices_per_switch = g->devices_per_node;
    if (g->host_cores <= 0) g->host_cores = 1;
}

static luo_status check(luo_cluster *c, luo_err *err)
{
    int64_t devices = 0, nodes = 0;
    for (int32_t i = 0; i < c->ngroups; i++) {
        const luo_node_group *g = &c->groups[i];
        if (g->nodes < 1 || g->devices_per_node < 1 || g->devices_per_node > 64)
            return luo_err_set(err, LUO_EINPUT,
                               "node group `%s` has %d nodes of %d devices; 1 node or more of 1 to "
                               "64 devices is expected.",
                               g->name, g->nodes, g->devices_per_node);
        fill_defaults(&c->groups[i]);
    }
    for (int32_t i = 0; i < c->ngroups; i++) {
        devices += (int64_t)c->groups[i].nodes * c->groups[i].devices_per_node;
        nodes += c->groups[i].nodes;
    }
    if (devices > LUO_DEVICES_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "cluster `%s` has %lld devices; at most %d are expected.", c->name,
                           (long long)devices, LUO_DEVICES_MAX);
    if (devices < 1)
        return luo_err_set(err, LUO_EINPUT, "cluster `%s` has no device; give a node group.",
                           c->name);
    if (nodes > 1 && c->fabric != LUO_FABRIC_SINGLE && c->rack_uplink_bytes_per_s <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "fabric `%s` has no `rack_uplink_gbytes_per_s`; give it.",
                           c->fabric == LUO_FABRIC_RAIL ? "rail" : "two_tier");
    for (int32_t i = 0; i < c->ngroups; i++) LUO_TRY(check_group(c, i, nodes > 1, err));
    c->ndevices = (int32_t)devices;
    c->nnodes = (int32_t)nodes;
    return LUO_OK;
}

static luo_status number_nodes(luo_arena *arena, luo_cluster *c, numbering *racks,
                               numbering *sites, luo_err *err)
{
    luo_node *nodes = LUO_NEW_N(arena, luo_node, c->nnodes);
    luo_device *devices = LUO_NEW_N(arena, luo_device, c->ndevices);
    int32_t *rack_site = LUO_NEW_N(arena, int32_t, c->nnodes);
    if (!nodes || !devices || !rack_site) return luo_err_nomem(err);
    int32_t at = 0, dev = 0;
    for (int32_t gi = 0; gi < c->ngroups; gi++) {
        const luo_node_group *g = &c->groups[gi];
        for (int32_t k = 0; k < g->nodes; k++, at++) {
            luo_node *n = &nodes[at];
            *n = (luo_node){.name = luo_arena_printf(arena, "%s-%d", g->name, k),
                            .group = gi, .index = k, .first_device = dev, .nvlink = -1,
                            .pcie = -1, .pcie_switch = -1, .socket = -1, .nic = -1};
            if (!n->name) return luo_err_nomem(err);
            const int32_t known = racks->n;
            LUO_TRY(number_of(sites, g->site, &n->site, err));
            LUO_TRY(number_of(racks, g->racks[g->nracks > 1 ? k : 0], &n->rack, err));
            if (n->rack == known) rack_site[n->rack] = n->site;
            if (rack_site[n->rack] != n->site)
                return luo_err_set(err, LUO_EINPUT,
                                   "rack `%s` stands in sites `%s` and `%s`; name the racks of "
                                   "different sites differently.",
                                   racks->names[n->rack], sites->names[rack_site[n->rack]],
                                   g->site);
            for (int32_t s = 0; s < g->devices_per_node; s++)
                devices[dev++] = (luo_device){.group = gi, .node = at, .slot = s};
        }
    }
    c->nodes = nodes;
    c->devices = devices;
    c->racks = racks->names;
    c->nracks = racks->n;
    c->sites = sites->names;
    c->nsites = sites->n;
    return LUO_OK;
}

static luo_status number(luo_arena *arena, luo_cluster *c, luo_err *err)
{
    luo_status st = LUO_OK;
    numbering racks = {.names = LUO_NEW_N(arena, const char *, c->nnodes)};
    numbering sites = {.names = LUO_NEW_N(arena, const char *, c->ngroups)};
    if (!racks.names || !sites.names) return luo_err_nomem(err);
    LUO_TRY_OUT(number_nodes(arena, c, &racks, &sites, err));
out:
    luo_map_free(&racks.map);
    luo_map_free(&sites.map);
    return st;
}

static luo_status check_standby(const luo_cluster *c, luo_err *err)
{
    for (int32_t i = 0; i < c->nstandby; i++)
        if (c->standby[i] < 0 || c->standby[i] >= c->ndevices)
            return luo_err_set(err, LUO_EINPUT,
                               "`standby` names device %d; cluster `%s` has devices 0 to %d.",
                               c->standby[i], c->name, c->ndevices - 1);
    return LUO_OK;
}

/* What base_slowdown and all of health make of a device stays within the range of slowdowns. */
static luo_status add_health(const luo_health *h, const luo_target *t, const luo_cluster *c,
                             double *slow, luo_err *err)
{
    for (int32_t k = 0; !h->down && k < t->choices[0].ndev; k++) {
        const int32_t d = t->choices[0].dev[k];
        const double all = (slow[d] > 0 ? slow[d] : luo_cluster_base_slowdown(c, d)) * h->slowdown;
        if (!(all <= luo_quantity_at(LUO_Q_SLOWDOWN)->highest))
            return luo_err_set(err, LUO_EINPUT,
                               "device %d is %g times slower by this and what stands before it; "
                               "up to %g all together are taken.",
                               d, all, luo_quantity_at(LUO_Q_SLOWDOWN)->highest);
        slow[d] = all;
    }
    return LUO_OK;
}

static luo_status check_health(luo_arena *arena, const luo_cluster *c, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    double *slow = LUO_NEW_N(arena, double, c->ndevices);
    if (!slow) return luo_err_nomem(err);
    for (int32_t i = 0; i < c->nhealth; i++) {
        const luo_health *h = &c->health[i];
        const size_t here = luo_arena_mark(arena);
        luo_target t;
        luo_status st = luo_target_parse(arena, c, h->target, &t, err);
        if (st == LUO_OK && t.any)
            st = luo_err_set(err, LUO_EINPUT,
                             "`target` is `%s`; health needs a fixed one, without `any`.",
                             h->target);
        if (st == LUO_OK) st = add_health(h, &t, c, slow, err);
        luo_arena_reset(arena, here);
        if (st != LUO_OK) return luo_err_at(err, st, NULL, h->line, h->col);
    }
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

luo_status luo_cluster_finish(luo_arena *arena, luo_cluster *c, luo_err *err)
{
    LUO_TRY(check(c, err));
    LUO_TRY(number(arena, c, err));
    LUO_TRY(luo_cluster_build_links(arena, c, err));
    LUO_TRY(check_standby(c, err));
    return check_health(arena, c, err);
}

const luo_profile *luo_cluster_profile(const luo_cluster *c, int32_t dev)
{
    return c->groups[c->devices[dev].group].profile;
}

double luo_cluster_base_slowdown(const luo_cluster *c, int32_t dev)
{
    return c->groups[c->devices[dev].group].base_slowdown;
}
