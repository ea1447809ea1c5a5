/* moe_layer.h: what the time of a layer with experts is made of.
 *
 * Nothing is costed here that is not costed elsewhere: the layer is compiled as a plan of one layer
 * (core/plan/compile.h), one pipeline a device, experts dealt to all of them, and its instructions
 * are costed as those of every program (core/cost/cost.h). */
#ifndef LUO_CORE_PLAN_MOE_MOE_LAYER_H
#define LUO_CORE_PLAN_MOE_MOE_LAYER_H
#include "core/cost/cost.h"
#include "core/graph/moe/load.h"
#include "core/plan/plan.h"

/*   gate       the router's product, choices, and what is known together of them
 *   transform  rows by expert and token, and together again
 *   exchange   counts, rows, and their gradients
 *   experts    products and activations; shared experts too */
#define LUO_MOE_PART_LIST(X)                                                                       \
    X(LUO_MOE_GATE, "gate")                                                                        \
    X(LUO_MOE_TRANSFORM, "transform")                                                              \
    X(LUO_MOE_EXCHANGE, "exchange")                                                                \
    X(LUO_MOE_EXPERTS, "experts")
typedef enum luo_moe_part { LUO_MOE_PART_LIST(LUO_WORD_VALUE) LUO_MOE_PARTS } luo_moe_part;

typedef struct luo_moe_layer {
    double seconds[2][LUO_MOE_PARTS];  /* forward, backward; of the device that takes longest */
    double expert_ratio, device_ratio; /* rows of the busiest one over the mean */
} luo_moe_layer;

typedef struct luo_moe_layer_in {
    const luo_model *model; /* its first layer with experts */
    const luo_cluster *cluster;
    const luo_stack *stack;
    luo_dtype dtype;
    int32_t devices; /* the first ones of the cluster have all experts together */
    luo_alltoall_kind exchange;
    int64_t tokens;  /* of a device */
    double exponent; /* of Zipf's law; 0: experts are alike */
} luo_moe_layer_in;

/* Parts follow each other, since every device waits for the exchange; sums of gradients between
 * copies count nowhere. The host's floor is shared as in a layer of a plan.
 * Pre:    the model has experts; 1 <= devices <= those of the cluster; tokens >= 1.
 * Errors: LUO_EINPUT more devices than experts, or an exchange by node or through leaders and not
 *         equally many in every node; those of luo_plan_compile and luo_cost_role.
 * Cost:   one compilation of a layer.
 * See:    tests/unit/check_moe_layer.c */
luo_status luo_moe_layer_of(const luo_moe_layer_in *in, luo_moe_layer *out, luo_err *err);
#endif
