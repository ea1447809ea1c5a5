/* check_devices.c: devices that exist, are up, and are used once. */
#include "core/plan/check/check_internal.h"

static bool *down_devices(luo_checker *checker)
{
    bool *down = LUO_NEW_N(checker->arena, bool, checker->cluster->ndevices + 1);
    for (int32_t h = 0; down && h < checker->cluster->nhealth; h++) {
        const luo_health *health = &checker->cluster->health[h];
        luo_target target;
        if (!health->down || luo_target_parse(checker->arena, checker->cluster, health->target,
                                              &target, NULL) != LUO_OK)
            continue; /* a bad target is an error of the cluster file, reported there */
        for (int32_t k = 0; target.nchoices == 1 && k < target.choices[0].ndev; k++)
            down[target.choices[0].dev[k]] = true;
    }
    if (!down) checker->failed = true;
    return down;
}

static void check_device(luo_checker *checker, int32_t i, int32_t s, int32_t k, int32_t *by,
                         const bool *down)
{
    const int32_t d = checker->p->pipelines[i].stages[s].dev[k];
    luo_check_place(checker, "/pipelines/%d/stages/%d/devices/%d", i, s, k);
    if (d < 0 || d >= checker->p->devices) {
        luo_check_find(checker,
                       "device %d is not among the %d devices of the plan; ids are 0 to %d.", d,
                       checker->p->devices, checker->p->devices - 1);
        return;
    }
    if (by[d])
        luo_check_find(checker,
                       "device %d is used twice; it already stands in a stage of pipeline %d.", d,
                       by[d] - 1);
    by[d] = i + 1;
    if (down && d < checker->cluster->ndevices && down[d])
        luo_check_find(checker, "device %d is down in cluster `%s`; leave it out.", d,
                       checker->cluster->name);
}

static void check_state_layout(luo_checker *checker)
{
    const luo_state_layout *layout = &checker->p->state_layout;
    if (!layout->ndev) return;
    luo_check_place(checker, "/state_layout");
    if ((int64_t)layout->data * layout->tensor * layout->pipeline != layout->ndev)
        luo_check_find(checker, "state layout %d x %d x %d needs %lld devices; %d are listed.",
                       layout->data, layout->tensor, layout->pipeline,
                       (long long)layout->data * layout->tensor * layout->pipeline, layout->ndev);
    bool *seen = LUO_NEW_N(checker->arena, bool, checker->p->devices > 0 ? checker->p->devices : 1);
    if (!seen) checker->failed = true;
    for (int32_t k = 0; seen && k < layout->ndev; k++) {
        luo_check_place(checker, "/state_layout/devices/%d", k);
        if (layout->dev[k] < 0 || layout->dev[k] >= checker->p->devices)
            luo_check_find(checker,
                           "device %d is not among the %d devices of the plan; ids are 0 to %d.",
                           layout->dev[k], checker->p->devices, checker->p->devices - 1);
        else if (seen[layout->dev[k]])
            luo_check_find(checker, "device %d is listed twice; each device holds one part.",
                           layout->dev[k]);
        else
            seen[layout->dev[k]] = true;
    }
}

void luo_check_devices(luo_checker *checker)
{
    int32_t *by =
        LUO_NEW_N(checker->arena, int32_t, checker->p->devices > 0 ? checker->p->devices : 1);
    const bool *down = checker->cluster ? down_devices(checker) : NULL;
    if (!by) checker->failed = true;
    if (checker->failed) return;
    if (checker->cluster && checker->p->devices != checker->cluster->ndevices) {
        luo_check_place(checker, "/devices");
        luo_check_find(checker, "`devices` is %d; cluster `%s` has %d.", checker->p->devices,
                       checker->cluster->name, checker->cluster->ndevices);
    }
    for (int32_t i = 0; i < checker->p->npipelines; i++)
        for (int32_t s = 0; s < checker->p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < checker->p->pipelines[i].stages[s].ndev; k++)
                check_device(checker, i, s, k, by, down);
    check_state_layout(checker);
}
