/* pool_memory.h: constants of the published memory formula, and what else a user may say of a pool
 * (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_HYDRAULIS_POOL_MEMORY_H
#define LUO_CORE_PLAN_HYDRAULIS_POOL_MEMORY_H
#include "core/plan/hydraulis/pool_model.h"

/* `--params` (docs/formats.md#luoshuparams1): what is given replaces the model's value. */
typedef struct luo_pool_params {
    int32_t nact;            /* 0: not given */
    const double *act_bytes; /* as in luo_pool_memory; the last one holds for wider groups */
    double state_bytes;      /* 0: not given */
    double optimizer_share, safe_gib, gap_mib; /* below 0: not given */
    double bound_mib;                          /* 0: not given */
    double prop_overlap;                       /* 0 if not given */
    int32_t grad_bytes;                        /* 2 or 4, also if not given */
} luo_pool_params;

luo_pool_params luo_pool_params_none(void); /* nothing is given */

/* What `params` gives; the rest from the model and the cluster: activations and state of a layer in
 * closed form, the smallest memory of the devices, LUO_POOL_GAP_MIB below it, no other reserve.
 * Pre: the model has layers of one kind. Cost: O(devices). */
enum { LUO_POOL_GAP_MIB = 4096 };
luo_pool_memory luo_pool_memory_of(const luo_pool_model_in *in, const luo_pool_params *params);
#endif
