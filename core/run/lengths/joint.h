/* joint.h: which devices go to which replicas when some are slow (docs/policies.md#uneven-lengths,
 * `stragglers`). */
#ifndef LUO_CORE_RUN_LENGTHS_JOINT_H
#define LUO_CORE_RUN_LENGTHS_JOINT_H
#include "core/cost/cluster.h"

/* Replicas take devices in an order; these are tried. In the last two the devices of a node stand
 * by rising rate, so that slow ones share a replica: nodes with slow devices last, where the narrow
 * replicas of a plan are, or first, where the wide ones are. */
typedef enum luo_joint_order {
    LUO_JOINT_AS_THEY_ARE,
    LUO_JOINT_SLOW_LAST,
    LUO_JOINT_SLOW_FIRST,
    LUO_JOINT_ORDERS
} luo_joint_order;

/* In: devices[n], those of a node side by side, and their rates. Out: place[n]: which of them takes
 * place k. Equal nodes and devices keep their order. Errors: LUO_ENOMEM. Cost: O(n log n). */
luo_status luo_joint_place(luo_arena *scratch, const luo_cluster *cluster, const int32_t *devices,
                           const double *rate, int32_t n, luo_joint_order order, int32_t *place,
                           luo_err *err);
#endif
