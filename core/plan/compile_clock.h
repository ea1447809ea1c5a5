/* compile_clock.h: seconds by which luo_graph_specialize puts calls in order. */
#ifndef LUO_CORE_PLAN_COMPILE_CLOCK_H
#define LUO_CORE_PLAN_COMPILE_CLOCK_H
#include "core/cost/cluster.h"
#include "core/graph/specialize/specialize.h"

typedef struct luo_plan_clock { /* stays where it is: clock.ctx points to it */
    const luo_cluster *cluster;
    luo_stack stack;
    luo_dtype dtype;
    luo_spec_clock clock;
} luo_plan_clock;
void luo_plan_clock_init(luo_plan_clock *clock, const luo_cluster *cluster, luo_dtype dtype);
#endif
