#include "core/cost/cluster.h"

#include <ctype.h>
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

static luo_status check_mesh(const luo_node_group *group, luo_err *err)
{
    uint64_t seen[64] = {0};
    int32_t pairs = 0;
    for (int32_t i = 0; i < group->nmesh; i++) {
        const luo_mesh_link *link = &group->mesh[i];
        if (link->a < 0 || link->a >= link->b || link->b >= group->devices_per_node ||
            link->lanes < 1)
            return luo_err_set(err, LUO_EINPUT,
                               "`scale_up_links` of node group `%s` joins slots %d and %d by %d "
                               "lanes; slots a < b below %d and 1 lane or more are expected.",
                               group->name, link->a, link->b, link->lanes, group->devices_per_node);
        if (seen[link->a] >> link->b & 1)
            return luo_err_set(err, LUO_EINPUT,
                               "`scale_up_links` of node group `%s` lists slots %d and %d twice; "
                               "give one pair with more lanes.",
                               group->name, link->a, link->b);
        seen[link->a] |= UINT64_C(1) << link->b;
        pairs++;
    }
    const int32_t all = group->devices_per_node * (group->devices_per_node - 1) / 2;
    if (pairs < all && !group->has_pcie)
        return luo_err_set(err, LUO_EINPUT,
                           "`scale_up_links` of node group `%s` joins %d of %d pairs and there is "
                           "no `pcie` for the others; give it.",
                           group->name, pairs, all);
    return LUO_OK;
}

/* What a profile says of its kind holds for a node: threads share its cores, or none does. */
static luo_status check_types(const luo_node_group *group, luo_err *err)
{
    for (int32_t s = 1; group->profiles && s < group->devices_per_node; s++) {
        const luo_profile *first = group->profile, *other = group->profiles[s];
        if (first == other) continue;
        if (first->cpu != other->cpu)
            return luo_err_set(err, LUO_EINPUT,
                               "`profiles` of node group `%s` has `%s` of kind `%s` beside `%s` of "
                               "kind `%s`; types of one kind are expected in a node.",
                               group->name, first->name, first->cpu ? "cpu" : "gpu", other->name,
                               other->cpu ? "cpu" : "gpu");
        if (group->scale_up == LUO_SCALE_UP_NVSWITCH)
            return luo_err_set(err, LUO_EINPUT,
                               "`profiles` of node group `%s` has `%s` beside `%s` behind an "
                               "`nvswitch`, whose boards carry GPUs of one type; choose `mesh` or "
                               "`none` with `pcie`, or one type.",
                               group->name, first->name, other->name);
    }
    return LUO_OK;
}

static luo_status check_inside(const luo_node_group *group, luo_err *err)
{
    LUO_TRY(check_types(group, err));
    if (group->scale_up == LUO_SCALE_UP_MESH) LUO_TRY(check_mesh(group, err));
    if (group->scale_up != LUO_SCALE_UP_NONE && group->scale_up_bytes_per_s <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "`scale_up` of node group `%s` has no `bandwidth_gbytes_per_s`; give "
                           "a number above 0.",
                           group->name);
    if (group->scale_up == LUO_SCALE_UP_NONE && !group->has_pcie && group->devices_per_node > 1)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` has %d devices a node and nothing that joins them; "
                           "give `scale_up` or `pcie`.",
                           group->name, group->devices_per_node);
    if (group->has_pcie && group->sockets > 1 && luo_group_switches(group) > 1 &&
        group->socket_bytes_per_s <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "`pcie` of node group `%s` has %d sockets and no `socket_gbytes_per_s`; "
                           "give it.",
                           group->name, group->sockets);
    return LUO_OK;
}

static luo_status check_group(const luo_cluster *cluster, int32_t gi, bool several, luo_err *err)
{
    const luo_node_group *group = &cluster->groups[gi];
    for (int32_t i = 0; i < gi; i++)
        if (strcmp(cluster->groups[i].name, group->name) == 0)
            return luo_err_set(err, LUO_EINPUT,
                               "two node groups are named `%s`; names must differ.", group->name);
    if (group->nracks != 1 && group->nracks != group->nodes)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` lists %d racks for %d nodes; one, or one per node, is "
                           "expected.",
                           group->name, group->nracks, group->nodes);
    if (several && group->nics < 1)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` has no `nics`; they are needed when there is more "
                           "than one node.",
                           group->name);
    if (several && cluster->fabric == LUO_FABRIC_RAIL && group->nics != cluster->groups[0].nics)
        return luo_err_set(err, LUO_EINPUT,
                           "node group `%s` has %d NICs a node and `%s` has %d; fabric `rail` "
                           "needs equal numbers.",
                           group->name, group->nics, cluster->groups[0].name,
                           cluster->groups[0].nics);
    return check_inside(group, err);
}

static void fill_defaults(luo_node_group *group)
{
    static const char *const first_rack[] = {"r0"};
    if (!group->site) group->site = "main";
    if (group->nracks < 1) {
        group->racks = first_rack;
        group->nracks = 1;
    }
    if (group->base_slowdown <= 0) group->base_slowdown = 1;
    if (group->sockets < 1) group->sockets = 1;
    if (group->devices_per_switch < 1) group->devices_per_switch = group->devices_per_node;
    if (group->host_cores <= 0) group->host_cores = 1;
}

static luo_status check(luo_cluster *cluster, luo_err *err)
{
    int64_t devices = 0, nodes = 0;
    for (int32_t i = 0; i < cluster->ngroups; i++) {
        const luo_node_group *group = &cluster->groups[i];
        if (group->nodes < 1 || group->devices_per_node < 1 || group->devices_per_node > 64)
            return luo_err_set(err, LUO_EINPUT,
                               "node group `%s` has %d nodes of %d devices; 1 node or more of 1 to "
                               "64 devices is expected.",
                               group->name, group->nodes, group->devices_per_node);
        fill_defaults(&cluster->groups[i]);
    }
    for (int32_t i = 0; i < cluster->ngroups; i++) {
        devices += (int64_t)cluster->groups[i].nodes * cluster->groups[i].devices_per_node;
        nodes += cluster->groups[i].nodes;
    }
    if (devices > LUO_DEVICES_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "cluster `%s` has %lld devices; at most %d are expected.", cluster->name,
                           (long long)devices, LUO_DEVICES_MAX);
    if (devices < 1)
        return luo_err_set(err, LUO_EINPUT, "cluster `%s` has no device; give a node group.",
                           cluster->name);
    if (nodes > 1 && cluster->fabric != LUO_FABRIC_SINGLE && cluster->rack_uplink_bytes_per_s <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "fabric `%s` has no `rack_uplink_gbytes_per_s`; give it.",
                           cluster->fabric == LUO_FABRIC_RAIL ? "rail" : "two_tier");
    for (int32_t i = 0; i < cluster->ngroups; i++) LUO_TRY(check_group(cluster, i, nodes > 1, err));
    cluster->ndevices = (int32_t)devices;
    cluster->nnodes = (int32_t)nodes;
    return LUO_OK;
}

/* That of the slot; a new one where no slot before has its profile. */
static int32_t find_kind(luo_cluster *cluster, luo_device_kind *kinds, int32_t group, int32_t slot)
{
    const luo_profile *profile = luo_node_group_profile(&cluster->groups[group], slot);
    int32_t k = cluster->nkinds - 1;
    while (k >= 0 && kinds[k].group == group && luo_device_kind_profile(cluster, k) != profile) k--;
    if (k >= 0 && kinds[k].group == group) return k;
    kinds[cluster->nkinds] = (luo_device_kind){group, slot};
    return cluster->nkinds++;
}

static luo_status number_nodes(luo_arena *arena, luo_cluster *cluster, numbering *racks,
                               numbering *sites, luo_err *err)
{
    luo_node *nodes = LUO_NEW_N(arena, luo_node, cluster->nnodes);
    luo_device *devices = LUO_NEW_N(arena, luo_device, cluster->ndevices);
    int32_t *rack_site = LUO_NEW_N(arena, int32_t, cluster->nnodes);
    luo_device_kind *kinds = LUO_NEW_N(arena, luo_device_kind, cluster->ngroups * 64);
    if (!nodes || !devices || !rack_site || !kinds) return luo_err_nomem(err);
    cluster->kinds = kinds;
    cluster->nkinds = 0;
    int32_t at = 0, dev = 0;
    for (int32_t gi = 0; gi < cluster->ngroups; gi++) {
        const luo_node_group *group = &cluster->groups[gi];
        for (int32_t k = 0; k < group->nodes; k++, at++) {
            luo_node *node = &nodes[at];
            *node = (luo_node){.name = luo_arena_printf(arena, "%s-%d", group->name, k),
                               .group = gi,
                               .index = k,
                               .first_device = dev,
                               .nvlink = -1,
                               .pcie = -1,
                               .pcie_switch = -1,
                               .socket = -1,
                               .nic = -1};
            if (!node->name) return luo_err_nomem(err);
            const int32_t known = racks->n;
            LUO_TRY(number_of(sites, group->site, &node->site, err));
            LUO_TRY(number_of(racks, group->racks[group->nracks > 1 ? k : 0], &node->rack, err));
            if (node->rack == known) rack_site[node->rack] = node->site;
            if (rack_site[node->rack] != node->site)
                return luo_err_set(err, LUO_EINPUT,
                                   "rack `%s` stands in sites `%s` and `%s`; name the racks of "
                                   "different sites differently.",
                                   racks->names[node->rack], sites->names[rack_site[node->rack]],
                                   group->site);
            for (int32_t s = 0; s < group->devices_per_node; s++)
                devices[dev++] = (luo_device){gi, at, s, find_kind(cluster, kinds, gi, s)};
        }
    }
    cluster->nodes = nodes;
    cluster->devices = devices;
    cluster->racks = racks->names;
    cluster->nracks = racks->n;
    cluster->sites = sites->names;
    cluster->nsites = sites->n;
    return LUO_OK;
}

static luo_status number(luo_arena *arena, luo_cluster *cluster, luo_err *err)
{
    luo_status st = LUO_OK;
    numbering racks = {.names = LUO_NEW_N(arena, const char *, cluster->nnodes)};
    numbering sites = {.names = LUO_NEW_N(arena, const char *, cluster->ngroups)};
    if (!racks.names || !sites.names) return luo_err_nomem(err);
    LUO_TRY_OUT(number_nodes(arena, cluster, &racks, &sites, err));
out:
    luo_map_free(&racks.map);
    luo_map_free(&sites.map);
    return st;
}

static luo_status check_standby(const luo_cluster *cluster, luo_err *err)
{
    for (int32_t i = 0; i < cluster->nstandby; i++)
        if (cluster->standby[i] < 0 || cluster->standby[i] >= cluster->ndevices)
            return luo_err_set(err, LUO_EINPUT,
                               "`standby` names device %d; cluster `%s` has devices 0 to %d.",
                               cluster->standby[i], cluster->name, cluster->ndevices - 1);
    return LUO_OK;
}

/* What base_slowdown and all of health make of a device stays within the range of slowdowns. */
static luo_status add_health(const luo_health *health, const luo_target *target,
                             const luo_cluster *cluster, double *slow, luo_err *err)
{
    for (int32_t k = 0; !health->down && k < target->choices[0].ndev; k++) {
        const int32_t d = target->choices[0].dev[k];
        const double all =
            (slow[d] > 0 ? slow[d] : luo_cluster_base_slowdown(cluster, d)) * health->slowdown;
        if (!(all <= luo_quantity_at(LUO_Q_SLOWDOWN)->highest))
            return luo_err_set(err, LUO_EINPUT,
                               "device %d is %g times slower by this and what stands before it; "
                               "up to %g all together are taken.",
                               d, all, luo_quantity_at(LUO_Q_SLOWDOWN)->highest);
        slow[d] = all;
    }
    return LUO_OK;
}

static luo_status check_health(luo_arena *arena, const luo_cluster *cluster, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    double *slow = LUO_NEW_N(arena, double, cluster->ndevices);
    if (!slow) return luo_err_nomem(err);
    for (int32_t i = 0; i < cluster->nhealth; i++) {
        const luo_health *health = &cluster->health[i];
        const size_t here = luo_arena_mark(arena);
        luo_target target;
        luo_status st = luo_target_parse(arena, cluster, health->target, &target, err);
        if (st == LUO_OK && target.any)
            st = luo_err_set(err, LUO_EINPUT,
                             "`target` is `%s`; health needs a fixed one, without `any`.",
                             health->target);
        if (st == LUO_OK) st = add_health(health, &target, cluster, slow, err);
        luo_arena_reset(arena, here);
        if (st != LUO_OK) return luo_err_at(err, st, NULL, health->line, health->col);
    }
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

luo_status luo_cluster_finish(luo_arena *arena, luo_cluster *cluster, luo_err *err)
{
    LUO_TRY(check(cluster, err));
    LUO_TRY(number(arena, cluster, err));
    LUO_TRY(luo_cluster_build_links(arena, cluster, err));
    LUO_TRY(check_standby(cluster, err));
    return check_health(arena, cluster, err);
}

const luo_profile *luo_node_group_profile(const luo_node_group *group, int32_t slot)
{
    return group->profiles ? group->profiles[slot] : group->profile;
}

const luo_profile *luo_cluster_profile(const luo_cluster *cluster, int32_t dev)
{
    const luo_device *at = &cluster->devices[dev];
    return luo_node_group_profile(&cluster->groups[at->group], at->slot);
}

const luo_profile *luo_device_kind_profile(const luo_cluster *cluster, int32_t kind)
{
    const luo_device_kind *at = &cluster->kinds[kind];
    return luo_node_group_profile(&cluster->groups[at->group], at->slot);
}

void luo_node_group_say_profiles(luo_str *text, const luo_node_group *group)
{
    const int32_t n = group->devices_per_node;
    for (int32_t s = 0; s < n; s++) {
        const luo_profile *profile = luo_node_group_profile(group, s);
        int32_t count = 0;
        for (int32_t k = 0; k < n && count >= 0; k++) {
            if (luo_node_group_profile(group, k) != profile) continue;
            count = k < s ? -1 : count + 1; /* -1: said before */
        }
        if (count == n) luo_str_add(text, profile->name);
        else if (count > 0)
            luo_str_addf(text, "%s%d %s", s > 0 ? " + " : "", (int)count, profile->name);
    }
}

double luo_cluster_base_slowdown(const luo_cluster *cluster, int32_t dev)
{
    return cluster->groups[cluster->devices[dev].group].base_slowdown;
}

/* ---- names of hosts ---- */

static bool is_host_word(const char *word, size_t n)
{
    if (n == 0 || !isalnum((unsigned char)word[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)word[i]) && !strchr(".-_", word[i])) return false;
    return true;
}

bool luo_cluster_is_host_name(const char *name)
{
    const char *at = strchr(name, '@');
    if (at && !is_host_word(name, (size_t)(at - name))) return false;
    if (at) name = at + 1;
    return is_host_word(name, strlen(name));
}
