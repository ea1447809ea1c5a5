/* baseline.h: programs without a search, to compare with. */
#ifndef LUO_CORE_PLAN_HAP_BASELINE_H
#define LUO_CORE_PLAN_HAP_BASELINE_H
#include "core/plan/hap/alternate.h"

/* What the planner is compared with, by the same cost (compat: as published), without factors and
 * ZeRO, memory or not. */
#define LUO_HAP_BASELINE_LIST(X)                                                                   \
    X(LUO_HAP_DP_EV, "dp-ev") /* batches alike */                                                  \
    X(LUO_HAP_DP_CP, "dp-cp") /* batches by speed */                                               \
    X(LUO_HAP_EP, "ep")       /* batches alike, experts apart */
typedef enum luo_hap_baseline {
#define LUO_HAP_VALUE(value, word) value,
    LUO_HAP_BASELINE_LIST(LUO_HAP_VALUE)
#undef LUO_HAP_VALUE
        LUO_HAP_BASELINES
} luo_hap_baseline;
const char *luo_hap_baseline_name(luo_hap_baseline baseline);
/* *out is NULL for `ep` of a graph without experts. Errors, owner: as luo_hap_alternate. */
luo_status luo_hap_baseline_find(luo_arena *arena, const luo_hap_graph *graph,
                                 const luo_hap_numbers *numbers, const luo_hap_job *job,
                                 luo_hap_baseline baseline, luo_hap_result **out, luo_err *err);
#endif
