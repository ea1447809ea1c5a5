/* check_devices.c: devices that exist, are up, and are used once. */
#include "core/plan/check/check_internal.h"

static bool *down_devices(luo_checker *c)
{
    bool *down = LUO_NEW_N(c->arena, bool, c->cluster->ndevices + 1);
    for (int32_t h = 0; down && h < c->cluster->nhealth; h++) {
        const luo_health *x = &c->cluster->health[h];
        luo_target target;
        if (!x->down || luo_target_parse(c->arena, c->cluster, x->target, &target, NULL) != LUO_OK)
            continue; /* a bad target is an error of the cluster file, reported there */
        for (int32_t k = 0; target.nchoices == 1 && k < target.choices[0].ndev; k++)
            down[target.choices[0].dev[k]] = true;
    }
    if (!down) c->failed = true;
    return down;
}

static void check_device(luo_checker *c, int32_t i, int32_t s, int32_t k, int32_t *by,
                         const bool *down)
{
    const int32_t d = c->p->pipelines[i].stages[s].dev[k];
    luo_check_place(c, "/pipelines/%d/stages/%d/devices/%d", i, s, k);
    if (d < 0 || d >= c->p->devices) {
        luo_check_find(c, "device %d is not among the %d devices of the plan; ids are 0 to %d.", d,
                       c->p->devices, c->p->devices - 1);
        return;
    }
    if (by[d])
        luo_check_find(c, "device %d is used twice; it already stands in a stage of pipeline %d.",
                       d, by[d] - 1);
    by[d] = i + 1;
    if (down && d < c->cluster->ndevices && down[d])
        luo_check_find(c, "device %d is down in cluster `%s`; leave it out.", d, c->cluster->name);
}

static void check_state_layout(luo_checker *c)
{
    const luo_state_layout *l = &c->p->state_layout;
    if (!l->ndev) return;
    luo_check_place(c, "/state_layout");
    if ((int64_t)l->data * l->tensor * l->pipeline != l->ndev)
        luo_check_find(c, "state layout %d x %d x %d needs %lld devices; %d are listed.", l->data,
                       l->tensor, l->pipeline, (long long)l->data * l->tensor * l->pipeline,
                       l->ndev);
    bool *seen = LUO_NEW_N(c->arena, bool, c->p->devices > 0 ? c->p->devices : 1);
    if (!seen) c->failed = true;
    for (int32_t k = 0; seen && k < l->ndev; k++) {
        luo_check_place(c, "/state_layout/devices/%d", k);
        if (l->dev[k] < 0 || l->dev[k] >= c->p->devices)
            luo_check_find(c, "device %d is not among the %d devices of the plan; ids are 0 to %d.",
                           l->dev[k], c->p->devices, c->p->devices - 1);
        else if (seen[l->dev[k]])
            luo_check_find(c, "device %d is listed twice; each device holds one part.", l->dev[k]);
        else
            seen[l->dev[k]] = true;
    }
}

void luo_check_devices(luo_checker *c)
{
    int32_t *by = LUO_NEW_N(c->arena, int32_t, c->p->devices > 0 ? c->p->devices : 1);
    const bool *down = c->cluster ? down_devices(c) : NULL;
    if (!by) c->failed = true;
    if (c->failed) return;
    if (c->cluster && c->p->devices != c->cluster->ndevices) {
        luo_check_place(c, "/devices");
        luo_check_find(c, "`devices` is %d; cluster `%s` has %d.", c->p->devices, c->cluster->name,
                       c->cluster->ndevices);
    }
    for (int32_t i = 0; i < c->p->npipelines; i++)
        for (int32_t s = 0; s < c->p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < c->p->pipelines[i].stages[s].ndev; k++)
                check_device(c, i, s, k, by, down);
    check_state_layout(c);
}
