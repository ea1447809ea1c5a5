/* pool_model_internal.h: pieces of a pool from the cost model that strategies with unequal stages
 * share with those whose stages are alike. For core/plan/hydraulis/ only. */
#ifndef LUO_CORE_PLAN_HYDRAULIS_POOL_MODEL_INTERNAL_H
#define LUO_CORE_PLAN_HYDRAULIS_POOL_MODEL_INTERNAL_H
#include "core/plan/hydraulis/pool_model.h"

enum { LUO_POOL_SPEED_TOKENS = 4096 }; /* by which speeds are compared */

typedef struct luo_pool_parts { /* milliseconds of one sequence, forward and backward */
    double layer, embedding, head;
} luo_pool_parts;
/* On tp devices. Errors: those of luo_cost_layer. */
luo_status luo_pool_parts_of(const luo_pool_model_in *in, int32_t tp, const int32_t *dev,
                             int64_t tokens, luo_pool_parts *out, luo_err *err);

typedef struct luo_pool_stage {
    int32_t tp, index, of; /* ranks; number of the stage among so many */
    int32_t replicas;      /* over which the optimizer's state is cut */
    double layers;
} luo_pool_stage;
/* Bytes over room of a device of the stage, with as many micro-batches of so many tokens as there
 * are stages. ZeRO-1 over all replicas stands for the optimizer's layout, whose shards are as
 * large. */
double luo_pool_stage_ratio(const luo_pool_model_in *in, const luo_pool_stage *stage, int32_t dev,
                            int64_t tokens);
/* Most tokens, a multiple of LUO_POOL_ROUND, whose ratio is at most 1. Pre: it rises with the
 * tokens. */
int64_t luo_pool_room_of(double (*ratio)(const void *of, int64_t tokens), const void *of);

/* a, b, c and util from the milliseconds of the slowest stage. Pre: entry->cap > 0. Errors: those
 * of ms_of. */
luo_status luo_pool_fill_costs(luo_status (*ms_of)(const void *of, int64_t tokens, double *ms,
                                                   luo_err *err),
                               const void *of, const luo_pool_model_in *in, luo_pool_entry *entry,
                               luo_err *err);
#endif
