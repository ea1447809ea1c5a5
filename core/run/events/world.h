/* world.h: the state of a cluster at a time, and dated changes of it. */
#ifndef LUO_CORE_RUN_EVENTS_WORLD_H
#define LUO_CORE_RUN_EVENTS_WORLD_H
#include "core/cost/cluster.h"

typedef struct luo_world {
    int32_t ndevices, nlinks;
    double *slowdown; /* per device, >= 1: product of all active slowdowns, health included */
    bool *up;         /* per device */
    double *link_factor;          /* per link, 0 < f <= 1; 0: down */
    double *link_extra_latency_s; /* per link */
} luo_world;

typedef enum luo_change_kind {
    LUO_CHANGE_SLOWDOWN, /* device: value = new slowdown */
    LUO_CHANGE_DOWN,     /* device */
    LUO_CHANGE_UP,       /* device */
    LUO_CHANGE_LINK      /* link: value = new factor (0: down), latency_s = new extra latency */
} luo_change_kind;

typedef struct luo_change {
    double at_s; /* run time */
    luo_change_kind kind;
    int32_t target; /* device or link */
    double value, latency_s;
    bool hard; /* DOWN: the process of the device is killed, on backends that have processes */
} luo_change;

luo_status luo_world_new(luo_arena *arena, const luo_cluster *cluster, luo_world **out,
                         luo_err *err);
void luo_world_apply(luo_world *world, const luo_change *change);
void luo_world_copy(luo_world *to, const luo_world *from); /* Pre: same sizes */
bool luo_world_equal(const luo_world *a, const luo_world *b);
#endif
