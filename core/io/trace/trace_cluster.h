/* trace_cluster.h: the nodes and types of a run whose tables are all that is left; not for others
 * than trace_table.c. */
#ifndef LUO_CORE_IO_TRACE_TRACE_CLUSTER_H
#define LUO_CORE_IO_TRACE_TRACE_CLUSTER_H
#include "core/cost/cluster.h"
#include "core/io/io.h"

/* Nodes and types of DIR/devices.csv; where there is none, the devices of DIR/FILE, an ops.csv, in
 * one node. It has no links but those between neighbours. Errors: LUO_EINPUT in diags, also a
 * device of FILE that devices.csv lacks; LUO_ENOMEM. Owner: arena. */
luo_status luo_trace_cluster(luo_arena *arena, const char *dir, const char *file, luo_cluster **out,
                             luo_diags *diags);
#endif
