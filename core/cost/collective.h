/* core/cost/collective.h: what collective.c, flow.c and p2p.c share; for core/cost only. */
#ifndef LUO_CORE_COST_COLLECTIVE_H
#define LUO_CORE_COST_COLLECTIVE_H
#include "core/cost/cost.h"

/* The members of a group that live on one node. */
typedef struct luo_members {
    int32_t node, n;
    uint64_t slots; /* bit s: slot s takes part */
} luo_members;

/* Walks the nodes of dev[0..n) in order of first appearance; start with {cluster, dev, n}. */
typedef struct luo_member_walk {
    const luo_cluster *cluster;
    const int32_t *dev;
    int32_t n, at;
    bool scattered; /* devices of one node do not follow each other */
} luo_member_walk;
luo_member_walk luo_members_of(const luo_cluster *c, const int32_t *dev, int32_t n);
bool luo_members_next(luo_member_walk *w, luo_members *out);
/* Device number i (in slot order) of the members. */
int32_t luo_members_device(const luo_cluster *c, const luo_members *m, int32_t i);

/* Bus bandwidth inside the node for n members at size `bytes`, and the one that large messages
 * reach. Pre: n >= 2, bytes > 0. Errors: E4. */
typedef struct luo_busbw {
    double at_size, largest;
} luo_busbw;
luo_status luo_node_busbw(const luo_cost_ctx *ctx, int coll, const luo_members *m, int32_t n,
                          double bytes, luo_busbw *out, luo_err *err);

/* What 5.3 needs of the whole group. */
typedef struct luo_spread {
    int32_t nodes, least;    /* N; fewest members on a node */
    double bytes_per_s;      /* narrowest uplink or line left through; HUGE_VAL: none */
    double step_latency_s;   /* of the slowest line */
} luo_spread;
luo_spread luo_group_spread(const luo_cluster *c, const int32_t *dev, int32_t n);
/* Latency part N*VOL(N)*alpha_n (+ lines) and bandwidth part of t_net on a node, for share 1. */
typedef struct luo_net {
    double delay_s, seconds;
} luo_net;
luo_net luo_node_net(const luo_cost_ctx *ctx, int coll, const luo_spread *s, int32_t node,
                     double bytes);
/* What the flow of one device gets of the NICs when all devices of its node send. */
double luo_lane_bytes_per_s(const luo_node_group *g);
#endif
