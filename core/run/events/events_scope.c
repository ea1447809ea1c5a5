/* What the arrivals of processes hit. Made once per device, node and NIC, when first hit, so that
 * looking ahead takes no memory. */
#include <math.h>

#include "core/run/events/events_internal.h"

luo_status luo_scopes_make(luo_events *e, luo_err *err)
{
    const luo_cluster *c = e->scenario->cluster;
    e->dev_choice = LUO_NEW_N(e->arena, const luo_choice *, c->ndevices);
    e->node_choice = LUO_NEW_N(e->arena, const luo_choice *, c->nnodes);
    e->nic_choice = LUO_NEW_N(e->arena, const luo_choice *, c->nlinks);
    return e->dev_choice && e->node_choice && e->nic_choice ? LUO_OK : luo_err_nomem(err);
}

static luo_status one_device(luo_events *e, int32_t device, luo_err *err)
{
    luo_choice *c = LUO_NEW(e->arena, luo_choice);
    int32_t *dev = LUO_NEW(e->arena, int32_t);
    char *name = luo_arena_printf(e->arena, "device:%d", device);
    if (!c || !dev || !name) return luo_err_nomem(err);
    *dev = device;
    *c = (luo_choice){.name = name, .ndev = 1, .dev = dev};
    e->dev_choice[device] = c;
    return LUO_OK;
}

static luo_status one_nic(luo_events *e, int32_t link, luo_err *err)
{
    luo_choice *c = LUO_NEW(e->arena, luo_choice);
    int32_t *at = LUO_NEW(e->arena, int32_t);
    char *name = luo_arena_printf(e->arena, "link:%s", e->scenario->cluster->links[link].name);
    if (!c || !at || !name) return luo_err_nomem(err);
    *at = link;
    *c = (luo_choice){.name = name, .nlink = 1, .link = at};
    e->nic_choice[link] = c;
    return LUO_OK;
}

static luo_status one_node(luo_events *e, int32_t node, luo_err *err)
{
    luo_target t;
    char *text = luo_arena_printf(e->arena, "node:%s", e->scenario->cluster->nodes[node].name);
    if (!text) return luo_err_nomem(err);
    LUO_TRY(luo_target_parse(e->arena, e->scenario->cluster, text, &t, err));
    e->node_choice[node] = t.choices;
    return LUO_OK;
}

luo_status luo_scope_choice(luo_events *e, const luo_event_source *src, int32_t device,
                            const luo_draws *d, const luo_choice **out, luo_err *err)
{
    const luo_cluster *c = e->scenario->cluster;
    const int32_t node = c->devices[device].node, nics = c->groups[c->nodes[node].group].nics;
    const bool link = src->cause ? src->cause->scope == LUO_SCOPE_LINK
                                 : src->kind == LUO_EVENT_LINK;
    *out = NULL;
    if (src->cause && src->cause->scope == LUO_SCOPE_JOB) return LUO_OK;
    if (link && nics > 0) {
        const int32_t at = c->nodes[node].nic + (int32_t)floor(d->pick * (double)nics);
        if (!e->nic_choice[at]) LUO_TRY(one_nic(e, at, err));
        *out = e->nic_choice[at];
        return LUO_OK;
    }
    if (src->cause && src->cause->scope == LUO_SCOPE_NODE) {
        if (!e->node_choice[node]) LUO_TRY(one_node(e, node, err));
        *out = e->node_choice[node];
        return LUO_OK;
    }
    return luo_scope_device(e, device, out, err);
}

luo_status luo_scope_device(luo_events *e, int32_t device, const luo_choice **out, luo_err *err)
{
    if (!e->dev_choice[device]) LUO_TRY(one_device(e, device, err));
    *out = e->dev_choice[device];
    return LUO_OK;
}
