/* Collectives between nodes: the half-size curve and, below it, NCCL's protocols
 * for small messages (docs/cost-model.md). */
#include <math.h>

#include "core/cost/collective.h"

/* Down or up a tree of `nodes` nodes: the smallest s with 2^s >= nodes. */
static int32_t depth(int32_t nodes)
{
    int32_t s = 0;
    while ((INT64_C(1) << s) < nodes) s++;
    return s;
}

/* A ring passes each node once to reduce and once more to gather, a tree its depth. NCCL has trees
 * for an all-reduce alone (src/graph/tuning.cc, public code); all else goes N - 1 steps, and
 * all-to-all has as many messages one after another. */
int32_t luo_net_algorithm_steps(int coll, int32_t nodes, luo_net_algorithm algorithm)
{
    if (nodes < 2) return 0;
    if (coll != LUO_COLL_AR) return nodes - 1;
    return 2 * (algorithm == LUO_NET_RING ? nodes - 1 : depth(nodes));
}

/* Steps are those of the profile's LL step; LL128 keeps its ratio to LL. */
static luo_net low_latency_time(const luo_net_link *link, int coll, int32_t nodes, double bytes,
                                const luo_protocol *protocol)
{
    const double step =
        link->step_s * protocol->step_s[LUO_OVER_NET] / luo_protocols[LUO_LL].step_s[LUO_OVER_NET];
    const double bw =
        link->ratio * fmin(link->node_bytes_per_s, link->bytes_per_s) * protocol->factor;
    if (link->no_nccl) return (luo_net){HUGE_VAL, 0};
    return (luo_net){protocol->once_s +
                         luo_net_algorithm_steps(coll, nodes, LUO_NET_LL) * (step + link->line_s),
                     luo_cost_volume(coll, nodes) * bytes / bw};
}

/* docs/cost-model.md#between-nodes: the half-size point of all-to-all is 0.075 of the others'. */
static luo_net ring_time(const luo_net_link *link, int coll, int32_t nodes, double bytes)
{
    const double volume = luo_cost_volume(coll, nodes), steps = nodes * volume;
    const double half = link->half_bytes * (coll == LUO_COLL_A2A ? 0.075 : 1);
    return (luo_net){steps * (half / (link->ratio * link->node_bytes_per_s) + link->line_s),
                     volume * bytes /
                         (link->ratio * fmin(link->node_bytes_per_s, link->bytes_per_s))};
}

/* The members of a node together send what a ring of whole tensors passes on once; in an all-to-all
 * each of them has bytes of its own, and messages of its own. */
luo_net luo_net_time(const luo_net_link *link, int coll, int32_t nodes, double bytes,
                     luo_net_algorithm algorithm)
{
    luo_net_link all = *link;
    const double members = coll == LUO_COLL_A2A ? link->members : 1;
    all.half_bytes *= members;
    bytes *= members;
    switch (algorithm) {
    case LUO_NET_LL:
        return low_latency_time(&all, coll, nodes, bytes, &luo_protocols[LUO_LL]);
    case LUO_NET_LL128:
        return low_latency_time(&all, coll, nodes, bytes, &luo_protocols[LUO_LL128]);
    case LUO_NET_RING:
    case LUO_NET_ALGORITHMS:
        break;
    }
    return ring_time(&all, coll, nodes, bytes);
}
