/* cluster_internal.h: the two halves of luo_cluster_finish; for cluster*.c, and for who writes the
 * cluster as a file of others. */
#ifndef LUO_CORE_COST_CLUSTER_INTERNAL_H
#define LUO_CORE_COST_CLUSTER_INTERNAL_H
#include "core/cost/cluster.h"

/* Makes links, their indices, mesh pairs, site routes and the sorted names.
 * Pre: nodes, racks and sites are numbered and checked. */
luo_status luo_cluster_build_links(luo_arena *arena, luo_cluster *cluster, luo_err *err);

/* PCIe switches of a node; socket of such a switch. */
int32_t luo_group_switches(const luo_node_group *group);
int32_t luo_group_switch_socket(const luo_node_group *group, int32_t pcie_switch);
#endif
