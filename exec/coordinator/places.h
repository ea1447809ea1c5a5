/* places.h: on which host the rank of a device has to be, and which of the devices there it is.
 *
 * A node of the cluster is a host: the one of `hosts` in the cluster file, else that of its number
 * in the hostfile or the batch system's list. One host alone has all nodes, and so has this one
 * where no other is named. Both follow from the device alone, so that one that has left moves no
 * other to another host or another GPU. */
#ifndef LUO_EXEC_COORDINATOR_PLACES_H
#define LUO_EXEC_COORDINATOR_PLACES_H
#include "core/base/arena.h"
#include "core/cost/cluster.h"
#include "exec/options.h"

typedef struct luo_places { /* of the ranks of a start */
    int32_t *place;         /* by rank: number of its device among those of its host */
    const char **host;      /* by rank, as the launcher knows it; NULL: the launcher's to choose */
    const char **told;      /* by rank, as the rank may know it; an entry NULL: not known */
} luo_places;

/* For n devices, by rank.
 * Errors: LUO_EINPUT a device's node has no host; those of luo_hosts_of_run. Owner: arena. */
luo_status luo_places_find(luo_arena *arena, const luo_exec_options *options,
                           const luo_cluster *cluster, const int32_t *device_of, int32_t n,
                           luo_places *out, luo_err *err);
#endif
