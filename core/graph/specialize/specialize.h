/* specialize.h: one annotated graph becomes one program per device
 * (docs/architecture/programs.md). */
#ifndef LUO_CORE_GRAPH_SPECIALIZE_SPECIALIZE_H
#define LUO_CORE_GRAPH_SPECIALIZE_SPECIALIZE_H
#include "core/graph/graph.h"
#include "core/graph/moe/alltoall.h"
#include "core/graph/moe/load.h"
#include "core/graph/specialize/bucket.h"
#include "core/graph/specialize/pattern.h"

typedef struct luo_length { /* of a micro-batch */
    int64_t tokens;
    int64_t sequence_tokens; /* tokens / sequence_tokens sequences of that length cost the same */
    /* Where a micro-batch of a pipeline with absent devices runs, is part of its length: per absent
     * device, the one that does its work; -1: of another pipeline. NULL: none is absent there. */
    const int32_t *stands;
} luo_length;

typedef struct luo_pipe {
    int32_t micro_batches;
    const int32_t *length; /* per micro-batch, index in luo_spec.lengths */
    const bool *full;      /* per layer: run forward again in backward */
    const bool *selective; /* per layer: only the attention core, where it is not fused */
    int32_t first;         /* number of its first micro-batch in tasks */
} luo_pipe;

/* Estimates by which calls are put in order: of healthy devices, so that what happens to a cluster
 * changes no program. kind: devices of one kind work alike. call: of `bytes` on a group, seconds of
 * the part that waits and of that which moves data; link: 0 inside a node, 1 beyond.
 * Errors: any; calls are then ordered without estimates. */
typedef struct luo_spec_clock {
    const void *ctx;
    int32_t (*kind)(const void *ctx, int32_t device);
    luo_status (*work)(const void *ctx, int32_t device, const luo_cost_key *key, double *seconds);
    luo_status (*call)(const void *ctx, int32_t coll, const int32_t *dev, int32_t n, int64_t bytes,
                       double *fixed, double *moving, int32_t *link);
} luo_spec_clock;

typedef struct luo_spec {
    luo_graph *graph; /* annotated and differentiated */
    int32_t npipelines, nlengths;
    const luo_pipe *pipes;
    const luo_length *lengths; /* distinct */
    luo_sched_kind schedule;
    /* Devices from first_absent on, nabsent of them, are in the annotations and not there: what
     * lasts over micro-batches lies on the others, the work of micro-batches is done by those that
     * stand in for them (luo_length.stands). 0: all are there. */
    int32_t first_absent, nabsent;
    luo_planner_opts planner;
    luo_bucketing bucket; /* of luo_bucketing_of; rule unit where weights are gathered per task */
    luo_bucketing post;   /* the same for what is summed once a step */
    int32_t prefetch;     /* of such: units gathered ahead */
    int32_t dp_lanes;     /* of stream dp on every device, 1 to LUO_DP_LANES; 0: 1 */
    luo_alltoall_kind exchange;  /* how rows of experts travel */
    const int32_t *node_of;      /* per device; NULL: exchange is flat */
    const luo_expert_load *load; /* costs of experts; NULL: all get equally many rows */
    luo_patterns *patterns;      /* of specializations before; NULL: none */
    const luo_spec_clock *clock; /* NULL: a call waits 1 and moves a byte in 1, and gradients are
                                    complete in the order of the operations that make them so */
} luo_spec;

/* Finds pipelines and stages from the annotations, resolves every Reshard once per distinct
 * (source, destination, shape), and writes one role per structure. The hash is not set.
 * Pre: a schedule that cuts backward in two has no graph that scatters gradients in every task.
 * Errors: LUO_EINPUT each with its sentence; LUO_EUNSUP from resolution; LUO_ENOMEM.
 * Owner:  arena. Cost: O(roles * operations + devices * slots), resolutions apart. */
luo_status luo_graph_specialize(luo_arena *arena, const luo_spec *spec, luo_programs **out,
                                luo_err *err);
#endif
