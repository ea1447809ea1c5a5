#include "core/run/events/reach.h"

#include <string.h>

static const luo_node_group *group_of(const luo_cluster *c, int32_t node)
{
    return &c->groups[c->nodes[node].group];
}

/* Does the device in this slot need the link of its node? */
static bool needs(const luo_cluster *c, const luo_link *l, int32_t slot)
{
    const luo_node_group *g = group_of(c, l->node);
    switch (l->kind) {
    case LUO_LINK_NVLINK:
        if (g->scale_up == LUO_SCALE_UP_NVSWITCH) return l->index == slot;
        return g->mesh[l->index].a == slot || g->mesh[l->index].b == slot;
    case LUO_LINK_PCIE: return l->index == slot;
    case LUO_LINK_PCIE_SWITCH: return slot / g->devices_per_switch == l->index;
    case LUO_LINK_NIC:
        return g->nic_shared || slot * g->nics / g->devices_per_node == l->index;
    case LUO_LINK_SOCKET:
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
    case LUO_LINK_STORAGE:
        break;
    }
    return true;
}

static void cut_node(const luo_cluster *c, const luo_link *l, bool *usable)
{
    const luo_node *node = &c->nodes[l->node];
    for (int32_t s = 0; s < group_of(c, l->node)->devices_per_node; s++)
        if (needs(c, l, s)) usable[node->first_device + s] = false;
}

static void cut_rack(const luo_cluster *c, int32_t rack, bool *usable)
{
    for (int32_t d = 0; d < c->ndevices; d++)
        if (c->nodes[c->devices[d].node].rack == rack) usable[d] = false;
}

static int32_t site_devices(const luo_cluster *c, const char *site)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->ngroups; i++)
        if (strcmp(c->groups[i].site, site) == 0)
            n += c->groups[i].nodes * c->groups[i].devices_per_node;
    return n;
}

static void cut_site(const luo_cluster *c, const luo_site_link *l, bool *usable)
{
    const char *lost = site_devices(c, l->a) < site_devices(c, l->b) ? l->a : l->b;
    for (int32_t d = 0; d < c->ndevices; d++)
        if (strcmp(c->groups[c->devices[d].group].site, lost) == 0) usable[d] = false;
}

void luo_reach(const luo_cluster *c, const luo_world *w, bool *usable)
{
    memcpy(usable, w->up, (size_t)c->ndevices * sizeof *usable);
    for (int32_t i = 0; i < c->nlinks; i++) {
        const luo_link *l = &c->links[i];
        if (w->link_factor[i] > 0 || l->kind == LUO_LINK_STORAGE) continue;
        if (l->kind == LUO_LINK_LINE) cut_site(c, &c->site_links[l->index], usable);
        else if (l->kind != LUO_LINK_UPLINK) cut_node(c, l, usable);
        else if (c->nracks > 1) cut_rack(c, l->rack, usable);
    }
}

bool luo_reach_link_touches(const luo_cluster *c, int32_t link, const bool *in_plan)
{
    const luo_link *l = &c->links[link];
    if (l->node < 0 && l->rack < 0) return true;
    for (int32_t d = 0; d < c->ndevices; d++) {
        const int32_t node = c->devices[d].node;
        if (!in_plan[d]) continue;
        if (l->node >= 0 ? node == l->node : c->nodes[node].rack == l->rack) return true;
    }
    return false;
}
