/* collective.h: what collective.c, flow.c and p2p.c share; for core/cost only. */
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
luo_member_walk luo_members_of(const luo_cluster *cluster, const int32_t *dev, int32_t n);
bool luo_members_next(luo_member_walk *walk, luo_members *out);
/* Device number i (in slot order) of the members. */
int32_t luo_members_device(const luo_cluster *cluster, const luo_members *members, int32_t i);
/* Its profile; NULL where a member before it has the same, so that each type is met once. */
const luo_profile *luo_members_type(const luo_cluster *cluster, const luo_members *members,
                                    int32_t i);

/* Bus bandwidth inside the node for n members at size `bytes`, and the one that large messages
 * reach: of the slowest type that takes part, or by the tables of one of them. Pre: n >= 2,
 * bytes > 0. */
typedef struct luo_busbw {
    double at_size, largest;
} luo_busbw;
luo_busbw luo_busbw_of_node(const luo_cost_ctx *ctx, int coll, const luo_members *members,
                            int32_t n, double bytes);
luo_busbw luo_busbw_of_profile(const luo_cost_ctx *ctx, int coll, const luo_members *members,
                               const luo_profile *profile, int32_t n, double bytes);

/* A table belongs to the links that it was measured over; over others each byte takes so many
 * seconds more (or less), while what messages of all sizes wait for stays (docs/cost-model.md
 * #tables-and-links). best: bandwidth that the table's large messages reach. measured: that of its
 * links, 0: not told; then no more than `most` is reached. */
double luo_cost_table_more(double best, double measured, double declared, double most);
/* Are the profile's curves of the links inside a node of the group, or of links not told? */
bool luo_busbw_curves_apply(const luo_node_group *group, const luo_profile *profile);
/* Curves of links that are not those of the members. */
bool luo_busbw_curves_elsewhere(const luo_cluster *cluster, const luo_members *members,
                                const luo_profile *profile, luo_tables_note *out);

/* What the formula between nodes needs of the whole group. */
typedef struct luo_spread {
    int32_t nodes, least;  /* N; fewest members on a node */
    double bytes_per_s;    /* narrowest uplink or line left through; HUGE_VAL: none */
    double step_latency_s; /* of the slowest line */
} luo_spread;
luo_spread luo_spread_of(const luo_cluster *cluster, const int32_t *dev, int32_t n);

/* A protocol of NCCL: share of the link's bandwidth that it reaches, seconds that a collective
 * needs once, and a ring step over NVLink, PCIe, the network. Latencies of NCCL's own tuner (nccl
 * src/graph/tuning.cc, public code; docs/cost-model.md#inside-a-node); it is used for nothing
 * else. */
typedef struct luo_protocol {
    double factor, once_s, step_s[3];
} luo_protocol;
typedef enum luo_protocol_id { LUO_LL, LUO_LL128, LUO_SIMPLE, LUO_PROTOCOLS } luo_protocol_id;
enum { LUO_OVER_NVLINK, LUO_OVER_PCIE, LUO_OVER_NET };
extern const luo_protocol luo_protocols[LUO_PROTOCOLS];

/* How a collective of several nodes goes: in large pieces round a ring, by the half-size curve, or
 * in N - 1 steps, of an all-reduce a tree's, of a protocol of low latency (docs/cost-model.md). */
typedef enum luo_net_algorithm {
    LUO_NET_RING,
    LUO_NET_LL,
    LUO_NET_LL128,
    LUO_NET_ALGORITHMS
} luo_net_algorithm;
/* What the time of a way depends on, besides the collective. */
typedef struct luo_net_link {
    double node_bytes_per_s, ratio, half_bytes; /* of the node; net_ratio, net_half_bytes */
    double step_s;                              /* net_step_s: a network step of LL */
    double bytes_per_s; /* narrowest uplink or line of the group; HUGE_VAL: none */
    double line_s;      /* latency of the slowest line, felt at each step */
    bool no_nccl;       /* not NCCL: the curve alone */
    int32_t members;    /* of a node: what leaves it in an all-to-all, where each sends its own */
} luo_net_link;
/* Latency part and bandwidth part of t_net for share 1; delay_s is HUGE_VAL for a way that the
 * collective does not have. */
typedef struct luo_net {
    double delay_s, seconds;
} luo_net;
luo_net luo_net_time(const luo_net_link *link, int coll, int32_t nodes, double bytes,
                     luo_net_algorithm algorithm);
/* Steps one after another of a way between `nodes` nodes. */
int32_t luo_net_algorithm_steps(int coll, int32_t nodes, luo_net_algorithm algorithm);
/* Of the members of a node: of the slowest type that takes part. */
luo_net luo_net_of_node(const luo_cost_ctx *ctx, int coll, const luo_spread *spread,
                        const luo_members *members, double bytes, luo_net_algorithm algorithm);
/* Seconds of the slowest node by each way so far: start with zeros, add every node. */
typedef struct luo_net_times {
    double seconds[LUO_NET_ALGORITHMS];
} luo_net_times;
void luo_net_times_add(luo_net_times *times, const luo_cost_ctx *ctx, int coll,
                       const luo_spread *spread, const luo_members *members, double bytes,
                       double share);
luo_net_algorithm luo_net_times_best(const luo_net_times *times); /* the ring on ties */
/* What the flow of one device gets of the NICs when all devices of its node send. */
double luo_net_lane_bytes_per_s(const luo_node_group *group);
#endif
