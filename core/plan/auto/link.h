/* link.h: which link a group of ranks is limited by. */
#ifndef LUO_CORE_PLAN_AUTO_LINK_H
#define LUO_CORE_PLAN_AUTO_LINK_H
#include <stdint.h>

typedef struct luo_auto_link {
    double latency_s, bytes_per_s;
} luo_auto_link;

/* All groups of one factor in a stage: of the devices first .. first + devices - 1, those of
 * `degree` ranks that are `stride` apart. Pre: devices is a multiple of degree * stride. */
typedef struct luo_auto_groups {
    int32_t first, devices, degree, stride;
} luo_auto_groups;

/* The slowest link inside any of the groups. Pure: the same groups, the same answer. */
typedef luo_auto_link (*luo_auto_link_fn)(const void *ctx, luo_auto_groups groups);

/* ctx: const luo_auto_link *, the same everywhere. */
luo_auto_link luo_auto_link_flat(const void *ctx, luo_auto_groups groups);

typedef struct luo_auto_nodes {
    const int32_t *node;          /* by device; devices of a node stand together */
    const int32_t *devices;       /* by node */
    const luo_auto_link *inside;  /* by node */
    const luo_auto_link *between; /* by node: all of its network */
} luo_auto_nodes;

/* ctx: const luo_auto_nodes *. A group within a node has the link inside it. One of several nodes
 * gets of each node's network the share of that node's devices which it holds, as the groups of the
 * other devices send at the same time. Slowest: fewest bytes/s, then the larger latency.
 * Cost: O(devices). */
luo_auto_link luo_auto_link_nodes(const void *ctx, luo_auto_groups groups);
#endif
