/* alltoall_links.h: what a cluster says of the links that rows of experts cross
 * (core/graph/moe/alltoall.h). */
#ifndef LUO_CORE_COST_ALLTOALL_LINKS_H
#define LUO_CORE_COST_ALLTOALL_LINKS_H
#include "core/cost/cost.h"
#include "core/graph/moe/alltoall.h"

typedef struct luo_alltoall_cluster {
    luo_alltoall shape; /* nodes; devices of a node, of unlike ones of the smallest; one row */
    bool even;          /* all nodes have as many */
    bool joined;        /* several devices a node: links inside one are known, else made up */
    luo_alltoall_links links;
    double free_bytes; /* of the device with the least memory, less what its profile reserves */
} luo_alltoall_cluster;

/* Messages go as luo_cost_p2p has them: they begin as luo_cost_p2p_start says, and a byte takes
 * what each of many takes; between nodes with the part of a node's bandwidth that one NIC has.
 * Memory as luo_cost_stream has it. What is slowest decides: the first node of every group to the
 * first of another and to the next of its own, the first device of a node to all others there.
 * Errors: LUO_EINPUT one node only; those of luo_cost_p2p and luo_cost_stream.
 * Cost: O(groups^2 + devices of a node). See: tests/unit/check_alltoall_links.c */
luo_status luo_alltoall_links_of(const luo_cost_ctx *ctx, luo_alltoall_cluster *out, luo_err *err);
#endif
