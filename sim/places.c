#include "sim/places.h"

#include "core/base/hash.h"

typedef struct users { /* per node and rack of the cluster: its place; -1: no program is there */
    int32_t *node, *rack;
} users;

static luo_status make_users(luo_arena *arena, const luo_cluster *cluster, const luo_programs *set,
                             users *out, luo_err *err)
{
    int32_t nodes = 0, racks = 0;
    *out = (users){LUO_NEW_N(arena, int32_t, cluster->nnodes),
                   LUO_NEW_N(arena, int32_t, cluster->nracks)};
    if (!out->node || !out->rack) return luo_err_nomem(err);
    for (int32_t i = 0; i < set->n; i++) {
        const int32_t device = set->at[i].device;
        if (device < 0 || device >= cluster->ndevices)
            return luo_err_set(err, LUO_EINPUT,
                               "a program is of device %d, and the cluster has %d devices.", device,
                               cluster->ndevices);
        const luo_node *node = &cluster->nodes[cluster->devices[device].node];
        out->node[cluster->devices[device].node] = 1;
        if (node->rack >= 0) out->rack[node->rack] = 1;
    }
    for (int32_t i = 0; i < cluster->nnodes; i++) out->node[i] = out->node[i] ? nodes++ : -1;
    for (int32_t i = 0; i < cluster->nracks; i++) out->rack[i] = out->rack[i] ? racks++ : -1;
    return LUO_OK;
}

static bool is_used(const users *used, const luo_link *link)
{
    if (link->node >= 0) return used->node[link->node] >= 0;
    return link->rack < 0 || used->rack[link->rack] >= 0;
}

luo_status sim_places_make(luo_arena *arena, const luo_cluster *cluster, const luo_programs *set,
                           sim_places *out, luo_err *err)
{
    users used;
    int32_t *device = LUO_NEW_N(arena, int32_t, set->n);
    int32_t *link = LUO_NEW_N(arena, int32_t, cluster->nlinks);
    int32_t *device_place = LUO_NEW_N(arena, int32_t, cluster->ndevices);
    int32_t *link_place = LUO_NEW_N(arena, int32_t, cluster->nlinks);
    if (!device || !link || !device_place || !link_place) return luo_err_nomem(err);
    LUO_TRY(make_users(arena, cluster, set, &used, err));
    *out = (sim_places){set->n, 0, device, link, device_place, link_place};
    for (int32_t d = 0; d < cluster->ndevices; d++) device_place[d] = -1;
    for (int32_t i = 0; i < set->n; i++) {
        device[i] = set->at[i].device;
        device_place[device[i]] = i;
    }
    for (int32_t l = 0; l < cluster->nlinks; l++) {
        link_place[l] = is_used(&used, &cluster->links[l]) ? out->nlinks : -1;
        if (link_place[l] >= 0) link[out->nlinks++] = l;
    }
    return LUO_OK;
}

#define ADD(hash, value) luo_hash_bytes(hash, &(value), sizeof(value))

static uint64_t hash_devices(uint64_t h, const luo_cluster *cluster, const users *used,
                             const sim_places *places)
{
    for (int32_t i = 0; i < places->ndevices; i++) {
        const luo_device *device = &cluster->devices[places->device[i]];
        const luo_node *node = &cluster->nodes[device->node];
        const int32_t at[] = {used->node[device->node], device->slot, device->group,
                              node->rack >= 0 ? used->rack[node->rack] : -1, node->site};
        h = ADD(h, at);
    }
    return h;
}

static uint64_t hash_links(uint64_t h, const luo_cluster *cluster, const users *used,
                           const sim_places *places)
{
    for (int32_t i = 0; i < places->nlinks; i++) {
        const luo_link *link = &cluster->links[places->link[i]];
        const int32_t at[] = {(int32_t)link->kind, link->index,
                              link->node >= 0 ? used->node[link->node] : -1,
                              link->rack >= 0 ? used->rack[link->rack] : -1};
        const double numbers[] = {link->bytes_per_s, link->latency_s, link->down_bytes_per_s};
        h = ADD(h, at);
        h = ADD(h, numbers);
    }
    return h;
}

luo_status sim_places_hash(luo_arena *scratch, const luo_cluster *cluster, const luo_programs *set,
                           const sim_places *places, uint64_t *hash, luo_err *err)
{
    users used;
    LUO_TRY(make_users(scratch, cluster, set, &used, err));
    LUO_TRY(luo_programs_hash_placed(set, places->device_place, cluster->ndevices, hash, err));
    *hash = hash_devices(*hash, cluster, &used, places);
    *hash = hash_links(*hash, cluster, &used, places);
    return LUO_OK;
}
