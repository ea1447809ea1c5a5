/* hap_ops.h: what is known of an operation by its kind. */
#ifndef LUO_CORE_PLAN_HAP_GRAPH_HAP_OPS_H
#define LUO_CORE_PLAN_HAP_GRAPH_HAP_OPS_H
#include "core/plan/hap_graph/hap_graph.h"

typedef struct luo_hap_op_desc {
    const char *name;
    luo_hap_class class;
    int32_t nin, nout;
    uint32_t lin;
    void (*need)(luo_hap_op *op);
    void (*work)(const luo_hap_graph *graph, luo_hap_op *op);
    bool sends;
} luo_hap_op_desc;

/* Pre: kind < LUO_HAP_KINDS. */
const luo_hap_op_desc *luo_hap_op_desc_of(luo_hap_kind kind);
/* Product of the extents of all axes of the two main operands. */
double luo_hap_op_product(const luo_hap_op *op);
#endif
