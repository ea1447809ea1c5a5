/* traffic.h: what devices said to each other over steps whose programs differ, by who they are:
 * programs of one frame number their groups and exchanges batch by batch. */
#ifndef LUO_CORE_RUN_LENGTHS_TRAFFIC_H
#define LUO_CORE_RUN_LENGTHS_TRAFFIC_H
#include "core/base/hash.h"
#include "core/run/backend.h"

typedef struct luo_traffic {
    luo_arena *arena;
    luo_map at;       /* row by stream, collective and devices */
    luo_programs set; /* groups and exchanges that rows name; no program */
    luo_group *groups;
    luo_exchange *exchanges;
    int32_t group_room, exchange_room;
    luo_comm_use *use;
    int32_t n, room;
} luo_traffic;

/* Adds the traffic of a step of `set`. Messages of all tensors between the same devices are one
 * row. Pre: *traffic all 0 but for the arena at first. Errors: LUO_ENOMEM. Owner: arena, but for
 * the map: luo_traffic_free. Cost: O(groups + messages of the set). */
luo_status luo_traffic_add(luo_traffic *traffic, const luo_programs *set, const luo_comm_use *use,
                           int32_t n, luo_err *err);
void luo_traffic_free(luo_traffic *traffic);
#endif
