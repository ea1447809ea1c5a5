/* eliminate.h: configurations of the nodes of a branching graph, without a memory limit.
 *
 * A node with one input and one output is folded into an edge between its neighbours; what is left
 * when there are no more such nodes is the core, which is solved by trying every configuration of
 * its lowest source and going on. */
#ifndef LUO_TESTS_PARKED_ELIMINATE_H
#define LUO_TESTS_PARKED_ELIMINATE_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_AUTO_ELIMINATE_MOST = 1000000 }; /* combinations of the core */

typedef struct luo_auto_graph_edge {
    int32_t from, to;
    const double *cost; /* [configuration of from][configuration of to], of both directions */
} luo_auto_graph_edge;

typedef struct luo_auto_graph {
    int32_t nodes;
    const int32_t *configs;    /* by node, 1 at least */
    const double *const *cost; /* by node: [configuration] */
    int32_t nedges;
    const luo_auto_graph_edge *edge; /* several between the same nodes add up */
} luo_auto_graph;

/* The least sum of costs of nodes and edges.
 * Shapes: config[nodes]. *core (NULL: not wanted): nodes of the core.
 * Order:  nodes are eliminated from the lowest number on; of equal costs the lowest configuration.
 * Pre:    nodes >= 1, costs are numbers.
 * Errors: LUO_EINPUT the graph has a circle; LUO_EINFEASIBLE the core needs more than
 *         LUO_AUTO_ELIMINATE_MOST combinations: `graph core of 31 nodes is too large for
 *         elimination; use --method dp.`; LUO_ENOMEM. Out: config, *cost (NULL: not wanted).
 * Cost:   O(nodes^2 + eliminated * configs^3), then times the combinations of the core.
 * Source: Hetu v1's published program, distributed_strategies/optcnn.py (elimination of nodes and
 *         edges as in OptCNN).
 * See:    tests/prop/prop_auto.c (exhaustive); tests/unit/check_auto.c, AP10. */
luo_status luo_auto_eliminate(luo_arena *scratch, const luo_auto_graph *graph, int32_t *config,
                              double *cost, int32_t *core, luo_err *err);
#endif
