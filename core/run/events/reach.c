#include "core/run/events/reach.h"

#include <string.h>

static const luo_node_group *group_of(const luo_cluster *cluster, int32_t node)
{
    return &cluster->groups[cluster->nodes[node].group];
}

/* Does the device in this slot need the link of its node? */
static bool needs(const luo_cluster *cluster, const luo_link *link, int32_t slot)
{
    const luo_node_group *group = group_of(cluster, link->node);
    switch (link->kind) {
    case LUO_LINK_NVLINK:
        if (group->scale_up == LUO_SCALE_UP_NVSWITCH) return link->index == slot;
        return group->mesh[link->index].a == slot || group->mesh[link->index].b == slot;
    case LUO_LINK_PCIE:
        return link->index == slot;
    case LUO_LINK_PCIE_SWITCH:
        return slot / group->devices_per_switch == link->index;
    case LUO_LINK_NIC:
        return group->nic_shared || slot * group->nics / group->devices_per_node == link->index;
    case LUO_LINK_SOCKET:
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
    case LUO_LINK_STORAGE:
        break;
    }
    return true;
}

static void cut_node(const luo_cluster *cluster, const luo_link *link, bool *usable)
{
    const luo_node *node = &cluster->nodes[link->node];
    for (int32_t s = 0; s < group_of(cluster, link->node)->devices_per_node; s++)
        if (needs(cluster, link, s)) usable[node->first_device + s] = false;
}

static void cut_rack(const luo_cluster *cluster, int32_t rack, bool *usable)
{
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (cluster->nodes[cluster->devices[d].node].rack == rack) usable[d] = false;
}

static int32_t site_devices(const luo_cluster *cluster, const char *site)
{
    int32_t n = 0;
    for (int32_t i = 0; i < cluster->ngroups; i++)
        if (strcmp(cluster->groups[i].site, site) == 0)
            n += cluster->groups[i].nodes * cluster->groups[i].devices_per_node;
    return n;
}

static void cut_site(const luo_cluster *cluster, const luo_site_link *link, bool *usable)
{
    const char *lost =
        site_devices(cluster, link->a) < site_devices(cluster, link->b) ? link->a : link->b;
    for (int32_t d = 0; d < cluster->ndevices; d++)
        if (strcmp(cluster->groups[cluster->devices[d].group].site, lost) == 0) usable[d] = false;
}

void luo_reach(const luo_cluster *cluster, const luo_world *world, bool *usable)
{
    memcpy(usable, world->up, (size_t)cluster->ndevices * sizeof *usable);
    for (int32_t i = 0; i < cluster->nlinks; i++) {
        const luo_link *link = &cluster->links[i];
        if (world->link_factor[i] > 0 || link->kind == LUO_LINK_STORAGE) continue;
        if (link->kind == LUO_LINK_LINE)
            cut_site(cluster, &cluster->site_links[link->index], usable);
        else if (link->kind != LUO_LINK_UPLINK)
            cut_node(cluster, link, usable);
        else if (cluster->nracks > 1)
            cut_rack(cluster, link->rack, usable);
    }
}

bool luo_reach_link_touches(const luo_cluster *cluster, int32_t link, const bool *in_plan)
{
    const luo_link *l = &cluster->links[link];
    if (l->node < 0 && l->rack < 0) return true;
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        const int32_t node = cluster->devices[d].node;
        if (!in_plan[d]) continue;
        if (l->node >= 0 ? node == l->node : cluster->nodes[node].rack == l->rack) return true;
    }
    return false;
}
