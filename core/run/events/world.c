/* world.c: the state of a cluster at a time. */
#include "core/run/events/world.h"

#include <string.h>

static luo_status world_alloc(luo_arena *arena, const luo_cluster *cluster, luo_world **out,
                              luo_err *err)
{
    luo_world *world = LUO_NEW(arena, luo_world);
    if (!world) return luo_err_nomem(err);
    world->ndevices = cluster->ndevices;
    world->nlinks = cluster->nlinks;
    world->slowdown = LUO_NEW_N(arena, double, cluster->ndevices);
    world->up = LUO_NEW_N(arena, bool, cluster->ndevices);
    world->link_factor = LUO_NEW_N(arena, double, cluster->nlinks);
    world->link_extra_latency_s = LUO_NEW_N(arena, double, cluster->nlinks);
    if (!world->slowdown || !world->up || !world->link_factor || !world->link_extra_latency_s)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < cluster->ndevices; i++) {
        world->slowdown[i] = 1;
        world->up[i] = true;
    }
    for (int32_t i = 0; i < cluster->nlinks; i++) world->link_factor[i] = 1;
    *out = world;
    return LUO_OK;
}

/* A device that is down keeps its slowdown: it comes back as slow as it was. Links go down only
 * where links are named: nobody uses those of a node whose devices are all down, and a device that
 * comes back must find them up. */
static luo_status apply_health(luo_arena *arena, const luo_cluster *cluster, luo_world *world,
                               luo_err *err)
{
    for (int32_t i = 0; i < cluster->nhealth; i++) {
        const luo_health *health = &cluster->health[i];
        const size_t mark = luo_arena_mark(arena);
        luo_target target;
        LUO_TRY(luo_err_at(err, luo_target_parse(arena, cluster, health->target, &target, err),
                           NULL, health->line, health->col));
        for (int32_t k = 0; k < target.choices[0].ndev; k++) {
            const int32_t d = target.choices[0].dev[k];
            if (health->down)
                world->up[d] = false;
            else
                world->slowdown[d] *= health->slowdown;
        }
        for (int32_t k = 0;
             target.kind == LUO_TARGET_LINKS && health->down && k < target.choices[0].nlink; k++)
            world->link_factor[target.choices[0].link[k]] = 0;
        luo_arena_reset(arena, mark);
    }
    return LUO_OK;
}

luo_status luo_world_new(luo_arena *arena, const luo_cluster *cluster, luo_world **out,
                         luo_err *err)
{
    luo_world *world = NULL;
    LUO_TRY(world_alloc(arena, cluster, &world, err));
    LUO_TRY(apply_health(arena, cluster, world, err));
    *out = world;
    return LUO_OK;
}

void luo_world_apply(luo_world *world, const luo_change *change)
{
    switch (change->kind) {
    case LUO_CHANGE_SLOWDOWN:
        world->slowdown[change->target] = change->value;
        break;
    case LUO_CHANGE_DOWN:
        world->up[change->target] = false;
        break;
    case LUO_CHANGE_UP:
        world->up[change->target] = true;
        break;
    case LUO_CHANGE_LINK:
        world->link_factor[change->target] = change->value;
        world->link_extra_latency_s[change->target] = change->latency_s;
        break;
    }
}

void luo_world_copy(luo_world *to, const luo_world *from)
{
    const size_t devices = (size_t)from->ndevices, links = (size_t)from->nlinks;
    memcpy(to->slowdown, from->slowdown, devices * sizeof *to->slowdown);
    memcpy(to->up, from->up, devices * sizeof *to->up);
    memcpy(to->link_factor, from->link_factor, links * sizeof *to->link_factor);
    memcpy(to->link_extra_latency_s, from->link_extra_latency_s,
           links * sizeof *to->link_extra_latency_s);
}

bool luo_world_equal(const luo_world *a, const luo_world *b)
{
    const size_t devices = (size_t)a->ndevices, links = (size_t)a->nlinks;
    return a->ndevices == b->ndevices && a->nlinks == b->nlinks &&
           memcmp(a->slowdown, b->slowdown, devices * sizeof *a->slowdown) == 0 &&
           memcmp(a->up, b->up, devices * sizeof *a->up) == 0 &&
           memcmp(a->link_factor, b->link_factor, links * sizeof *a->link_factor) == 0 &&
           memcmp(a->link_extra_latency_s, b->link_extra_latency_s,
                  links * sizeof *a->link_extra_latency_s) == 0;
}
