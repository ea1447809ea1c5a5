/* env.h: where a layer runs: devices in the order of the cluster, the stage, the batch. */
#ifndef LUO_CORE_PLAN_AUTO_ENV_H
#define LUO_CORE_PLAN_AUTO_ENV_H
#include <stdbool.h>
#include <stdint.h>

#include "core/plan/auto/link.h"

typedef struct luo_auto_cluster {
    int32_t devices;
    const double *flops;       /* by device: FLOP/s that a layer reaches, above 0 */
    const double *limit_bytes; /* by device: memory that a plan may fill */
    luo_auto_link_fn link;     /* asked for groups of up to all devices */
    const void *link_ctx;
} luo_auto_cluster;

typedef struct luo_auto_env {
    const luo_auto_cluster *cluster;
    int32_t first, devices; /* of the stage: first .. first + devices - 1 */
    int64_t batch;          /* B, samples of a step */
    int32_t micro_batches;  /* m */
    int32_t in_flight;      /* micro-batches whose activations a device keeps */
    bool uneven;            /* mixed groups share by speed; else their slowest rank counts */
    double slow_comm, slow_compute; /* kc, kb: how much longer communication and computation take
                                       while both run; LUO_AUTO_SLOW_COMM, .._COMPUTE */
} luo_auto_env;

/* Galvatron's default factors of both. */
#define LUO_AUTO_SLOW_COMM 1.3
#define LUO_AUTO_SLOW_COMPUTE 1.2
#endif
