/* hap_cluster.h: numbers of the planner `hap` from a cluster: by the cost model, or as given. */
#ifndef LUO_CORE_PLAN_HAP_HAP_CLUSTER_H
#define LUO_CORE_PLAN_HAP_HAP_CLUSTER_H
#include "core/cost/cost.h"
#include "core/plan/hap/numbers.h"

typedef struct luo_hap_devices { /* by type, ids rising within a type */
    int32_t n, ntypes;
    const int32_t *device;
    int32_t count[LUO_HAP_TYPES];
    const luo_profile *profile[LUO_HAP_TYPES];
    double slowdown[LUO_HAP_TYPES]; /* of the group times of the device; types differ in it too */
} luo_hap_devices;

/* Types of the usable devices, in the order of their first appearance: a profile at a speed, so
 * that a slow device is of a type of its own.
 *   rate  by device of the cluster: how many times slower it is than its group; below 1 counts as 1
 * Pre:    usable[0..n) rises, n >= 1; their rates are finite.
 * Errors: LUO_E2BIG more than LUO_HAP_TYPES types; LUO_ENOMEM. Owner: arena. */
luo_status luo_hap_devices_of(luo_arena *arena, const luo_cluster *cluster, const int32_t *usable,
                              int32_t n, const double *rate, luo_hap_devices *out, luo_err *err);

/* Speeds: work of an operation at even shares over its time by the cost model, one per operation
 * and type. Lines through the closed forms at 1 MiB and 64 MiB; grouped forms: a broadcast costs
 * the latency of a message for every doubling of the devices, and all pieces pass the slowest pair
 * of neighbours. Memory: of the profile, less what is reserved. Errors: LUO_EINPUT a number that
 * the profile lacks; LUO_ENOMEM. Owner: arena. */
luo_status luo_hap_cluster_numbers(luo_arena *arena, const luo_hap_graph *graph,
                                   const luo_cost_ctx *ctx, const luo_hap_devices *devices,
                                   luo_hap_numbers *out, luo_err *err);

typedef struct luo_hap_type_params { /* NAN: not given; INFINITY: free */
    const char *profile;
    double speed[LUO_HAP_CLASSES]; /* FLOP/s; elt bytes/s */
} luo_hap_type_params;

typedef struct luo_hap_params { /* key `hap` of docs/formats.md#luoshuparams1; ntypes 0: not given
                                 */
    int32_t ntypes;
    const luo_hap_type_params *type;
    luo_hap_line line[LUO_HAP_LINKS];
} luo_hap_params;

/* The same as given. Errors: LUO_EINPUT a type of the cluster is not there. */
luo_status luo_hap_cluster_given(const luo_hap_params *params, const luo_hap_devices *devices,
                                 luo_hap_numbers *out, luo_err *err);
#endif
