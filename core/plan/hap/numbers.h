/* numbers.h: how fast GPU types compute and collectives move, as the planner `hap` counts it. */
#ifndef LUO_CORE_PLAN_HAP_NUMBERS_H
#define LUO_CORE_PLAN_HAP_NUMBERS_H
#include "core/plan/hap_graph/hap_graph.h"

/* Measured forms of communication; grouped: as many broadcasts or reduces as there are devices, of
 * exact pieces, instead of pieces padded to the longest. */
#define LUO_HAP_LINK_LIST(X)                                                                       \
    X(LUO_HAP_LINK_AG, "allgather")                                                                \
    X(LUO_HAP_LINK_AG_GROUPED, "allgather_grouped")                                                \
    X(LUO_HAP_LINK_RS, "reducescatter")                                                            \
    X(LUO_HAP_LINK_RS_GROUPED, "reducescatter_grouped")                                            \
    X(LUO_HAP_LINK_AR, "allreduce")                                                                \
    X(LUO_HAP_LINK_A2A, "alltoall")                                                                \
    X(LUO_HAP_LINK_P2P, "p2p")
typedef enum luo_hap_link {
#define LUO_HAP_VALUE(value, word) value,
    LUO_HAP_LINK_LIST(LUO_HAP_VALUE)
#undef LUO_HAP_VALUE
        LUO_HAP_LINKS
} luo_hap_link;
const char *luo_hap_link_name(luo_hap_link link);

typedef struct luo_hap_line {
    double latency_s;         /* of one operation */
    double bandwidth_bytes_s; /* of the whole padded tensor; 0: this form is not available */
} luo_hap_line;

/* GPU types in the order of their first appearance; devices in that order too. Of one name there
 * are several where devices differ in speed. */
typedef struct luo_hap_numbers {
    int32_t ntypes;
    const char *name[LUO_HAP_TYPES];
    double slowdown[LUO_HAP_TYPES]; /* is in the speeds already; for what is printed */
    int32_t count[LUO_HAP_TYPES];                 /* devices of the type */
    double speed[LUO_HAP_TYPES][LUO_HAP_CLASSES]; /* work per second; INFINITY: free, NAN: absent */
    const double *op_speed;                       /* [operation][type]; NULL: by class */
    double memory_bytes[LUO_HAP_TYPES];           /* of a device; 0: no limit is known */
    luo_hap_line line[LUO_HAP_LINKS];
    bool
        fractional; /* pieces as shares say, not whole lengths (to compare with published models) */
} luo_hap_numbers;

/* Does every operation of the graph have a speed on every type, and every collective a bandwidth?
 * Grouped forms may be absent. Errors: LUO_EINPUT. */
luo_status luo_hap_numbers_check(const luo_hap_numbers *numbers, const luo_hap_graph *graph,
                                 luo_err *err);
int32_t luo_hap_numbers_devices(const luo_hap_numbers *numbers);
/* Speed of type `type` at operation o of the graph. */
double luo_hap_numbers_speed(const luo_hap_numbers *numbers, const luo_hap_graph *graph, int32_t o,
                             int32_t type);
#endif
