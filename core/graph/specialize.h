/* core/graph/specialize.h: one annotated graph becomes one program per device (HSPMD 11). */
#ifndef LUO_CORE_GRAPH_SPECIALIZE_H
#define LUO_CORE_GRAPH_SPECIALIZE_H
#include "core/graph/bucket.h"
#include "core/graph/graph.h"

typedef struct luo_length { /* of a micro-batch */
    int64_t tokens;
    int64_t sequence_tokens; /* tokens / sequence_tokens sequences of that length cost the same */
} luo_length;

typedef struct luo_pipe {
    int32_t micro_batches;
    const int32_t *length; /* per micro-batch, index in luo_spec.lengths */
    const bool *full;      /* per layer: run forward again in backward */
} luo_pipe;

typedef struct luo_spec {
    luo_graph *graph; /* annotated and differentiated */
    int32_t npipelines, nlengths;
    const luo_pipe *pipes;
    const luo_length *lengths; /* distinct */
    luo_sched_kind schedule;
    luo_planner_opts planner;
    luo_bucketing bucket; /* of luo_bucketing_of; rule unit where weights are gathered per task */
    int32_t prefetch;     /* of such: units gathered ahead */
} luo_spec;

/* Finds pipelines and stages from the annotations (11.2), resolves every Reshard once per distinct
 * (source, destination, shape), and writes one role per structure. The hash is not set.
 * Errors: LUO_EINPUT with the sentences of 11.2; LUO_EUNSUP from resolution; LUO_ENOMEM.
 * Owner:  arena. Cost: O(roles * operations + devices * slots), resolutions apart. */
luo_status luo_graph_specialize(luo_arena *arena, const luo_spec *spec, luo_programs **out,
                                luo_err *err);
#endif
