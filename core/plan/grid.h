/* grid.h: a plan of equal pipelines from its shape. */
#ifndef LUO_CORE_PLAN_GRID_H
#define LUO_CORE_PLAN_GRID_H
#include "core/plan/plan.h"

typedef struct luo_grid {
    const char *name;
    const luo_model *model;
    const luo_cluster *cluster;
    luo_dtype dtype;
    int64_t sequence_tokens, micro_batches; /* per pipeline */
    int32_t micro_batch_sequences, zero, pipelines, stages, tp;
    int32_t chunks; /* of a stage; 0: 1; more: interleaved */
    int32_t context_parallel; /* 0: 1 */
    bool sequence_parallel, staggered;
    luo_recompute recompute;
    const int32_t *dev;    /* [((pipeline*stages + stage)*context_parallel + c)*tp + i] */
    const int64_t *layers; /* [chunk*stages + stage]; NULL: equal */
    const int32_t *pipeline_micro_batches; /* per pipeline; NULL: micro_batches each */
} luo_grid;

/* 1F1B, embedding first, head last. Pre: layers sum to the model's; NULL: stages (and chunks)
 * divide them.
 * Errors: LUO_ENOMEM. Owner: arena, devices are copied. */
luo_status luo_plan_grid(luo_arena *arena, const luo_grid *grid, luo_plan **out, luo_err *err);
#endif
