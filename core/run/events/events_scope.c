/* What the arrivals of processes hit. Made once per device, node and NIC, when first hit, so that
 * looking ahead takes no memory. */
#include <math.h>

#include "core/run/events/events_internal.h"

luo_status luo_scopes_make(luo_events *events, luo_err *err)
{
    const luo_cluster *cluster = events->scenario->cluster;
    events->dev_choice = LUO_NEW_N(events->arena, const luo_choice *, cluster->ndevices);
    events->node_choice = LUO_NEW_N(events->arena, const luo_choice *, cluster->nnodes);
    events->nic_choice = LUO_NEW_N(events->arena, const luo_choice *, cluster->nlinks);
    return events->dev_choice && events->node_choice && events->nic_choice ? LUO_OK
                                                                           : luo_err_nomem(err);
}

static luo_status one_device(luo_events *events, int32_t device, luo_err *err)
{
    luo_choice *choice = LUO_NEW(events->arena, luo_choice);
    int32_t *dev = LUO_NEW(events->arena, int32_t);
    char *name = luo_arena_printf(events->arena, "device:%d", device);
    if (!choice || !dev || !name) return luo_err_nomem(err);
    *dev = device;
    *choice = (luo_choice){.name = name, .ndev = 1, .dev = dev};
    events->dev_choice[device] = choice;
    return LUO_OK;
}

static luo_status one_nic(luo_events *events, int32_t link, luo_err *err)
{
    luo_choice *choice = LUO_NEW(events->arena, luo_choice);
    int32_t *at = LUO_NEW(events->arena, int32_t);
    char *name =
        luo_arena_printf(events->arena, "link:%s", events->scenario->cluster->links[link].name);
    if (!choice || !at || !name) return luo_err_nomem(err);
    *at = link;
    *choice = (luo_choice){.name = name, .nlink = 1, .link = at};
    events->nic_choice[link] = choice;
    return LUO_OK;
}

static luo_status one_node(luo_events *events, int32_t node, luo_err *err)
{
    luo_target target;
    char *text =
        luo_arena_printf(events->arena, "node:%s", events->scenario->cluster->nodes[node].name);
    if (!text) return luo_err_nomem(err);
    LUO_TRY(luo_target_parse(events->arena, events->scenario->cluster, text, &target, err));
    events->node_choice[node] = target.choices;
    return LUO_OK;
}

luo_status luo_scope_choice(luo_events *events, const luo_event_source *src, int32_t device,
                            const luo_draws *draws, const luo_choice **out, luo_err *err)
{
    const luo_cluster *cluster = events->scenario->cluster;
    const int32_t node = cluster->devices[device].node,
                  nics = cluster->groups[cluster->nodes[node].group].nics;
    const bool link = src->cause ? src->cause->scope == LUO_SCOPE_LINK
                                 : luo_event_traits_of(src->kind).hits == LUO_HITS_LINKS;
    *out = NULL;
    if (src->cause && src->cause->scope == LUO_SCOPE_JOB) return LUO_OK;
    if (link && nics > 0) {
        const int32_t at = cluster->nodes[node].nic + (int32_t)floor(draws->pick * (double)nics);
        if (!events->nic_choice[at]) LUO_TRY(one_nic(events, at, err));
        *out = events->nic_choice[at];
        return LUO_OK;
    }
    if (src->cause && src->cause->scope == LUO_SCOPE_NODE) {
        if (!events->node_choice[node]) LUO_TRY(one_node(events, node, err));
        *out = events->node_choice[node];
        return LUO_OK;
    }
    return luo_scope_device(events, device, out, err);
}

luo_status luo_scope_device(luo_events *events, int32_t device, const luo_choice **out,
                            luo_err *err)
{
    if (!events->dev_choice[device]) LUO_TRY(one_device(events, device, err));
    *out = events->dev_choice[device];
    return LUO_OK;
}
