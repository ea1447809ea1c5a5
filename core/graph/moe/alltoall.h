/* alltoall.h: three ways for the rows of experts to reach their devices.
 *
 * Notation: N nodes of G devices, M = N G; every device holds M blocks of c rows, block m for
 * device m, and has M blocks afterwards, block m from device m. S bytes a device.
 *   flat    every device to every other
 *   leader  a node's rows meet on its first device, nodes exchange, the leader deals them out
 *   2d      devices of a node exchange by the index of the receiver, then equal indices of all
 *           nodes do
 * Source: leader HetuMoE (hierarchical all-to-all); differs: any N, G, c. 2d is ours.
 */
#ifndef LUO_CORE_GRAPH_MOE_ALLTOALL_H
#define LUO_CORE_GRAPH_MOE_ALLTOALL_H
#include <stdint.h>

typedef enum luo_alltoall_kind {
    LUO_ALLTOALL_FLAT,
    LUO_ALLTOALL_LEADER,
    LUO_ALLTOALL_2D
} luo_alltoall_kind;

typedef struct luo_alltoall {
    int32_t nodes, each; /* N, G */
    int64_t rows;        /* c */
} luo_alltoall;

/* Place of row i of a leader's buffer of G devices' rows before the nodes exchange, and after: from
 * (device, node, peer, row) to (node, peer, device, row), and back. */
int64_t luo_alltoall_gathered(const luo_alltoall *x, int64_t i);
int64_t luo_alltoall_dealt(const luo_alltoall *x, int64_t i);

/* Moves row ids: in, out [M x M c]; work: as many. All three kinds give the same. */
void luo_alltoall_move(const luo_alltoall *x, luo_alltoall_kind kind, const int64_t *in,
                       int64_t *out, int64_t *work);

typedef struct luo_alltoall_links {            /* one NIC a node */
    double message_s, bytes_per_s;             /* between nodes */
    double inner_message_s, inner_bytes_per_s; /* inside a node */
    double memory_bytes_per_s;
} luo_alltoall_links;
/* Seconds for S bytes a device. */
double luo_alltoall_seconds(const luo_alltoall *x, luo_alltoall_kind kind,
                            const luo_alltoall_links *links, double bytes);
/* Bytes a device below which leader is faster than flat; 0: it never is. */
double luo_alltoall_limit(const luo_alltoall *x, const luo_alltoall_links *links);
#endif
