/* places.h: devices and links that a program set uses, by their order alone.
 *
 * Plans that differ in nothing but which nodes they have, one after another in the same order and
 * in racks in the same order, make programs that the simulator cannot tell apart: it looks devices
 * and links up, and compares their numbers, but does not count with them. A place is the position
 * of such a device or link among those that the set uses, so equal steps have equal places. */
#ifndef LUO_SIM_PLACES_H
#define LUO_SIM_PLACES_H
#include "core/run/backend.h"

typedef struct sim_places {
    int32_t ndevices, nlinks;
    const int32_t *device; /* of the programs, ascending */
    const int32_t *link;   /* of their nodes and racks, and all of neither; ascending */
    const int32_t *device_place, *link_place; /* by number of the cluster; -1: none */
} sim_places;

/* Owner: arena. Errors: LUO_EINPUT a program is of a device that the cluster has not; LUO_ENOMEM.
 * Cost: O(devices + links of the cluster). */
luo_status sim_places_make(luo_arena *arena, const luo_cluster *cluster, const luo_programs *set,
                           sim_places *out, luo_err *err);
/* A name of the programs with places for devices, and of where the places are: slot, node group,
 * which share a node, a rack, and what their links are. A set on another cluster is told apart by
 * more than this. Pre: places are those of the set. Errors: LUO_ENOMEM. Cost: that of
 * luo_programs_hash. */
luo_status sim_places_hash(luo_arena *scratch, const luo_cluster *cluster, const luo_programs *set,
                           const sim_places *places, uint64_t *hash, luo_err *err);
#endif
