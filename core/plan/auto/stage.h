/* stage.h: the cheapest strategies of the layers of one stage, and what the pipeline sees of it. */
#ifndef LUO_CORE_PLAN_AUTO_STAGE_H
#define LUO_CORE_PLAN_AUTO_STAGE_H
#include "core/plan/auto/cost.h"

/* May that layer of the model use that strategy? For what a user has fixed. Pure. */
typedef bool (*luo_auto_allow_fn)(const void *ctx, int32_t layer, const luo_auto_strategy *s);

typedef struct luo_auto_stage_in {
    luo_auto_env env;
    const luo_auto_layer *layer; /* of the model */
    int32_t first_layer, layers; /* those of the stage */
    const luo_auto_strategy *strategy;
    int32_t strategies;
    double unit_bytes;       /* of memory in the programme */
    luo_auto_allow_fn allow; /* NULL: all are allowed */
    const void *allow_ctx;
} luo_auto_stage_in;

typedef enum luo_auto_verdict {
    LUO_AUTO_FITS,
    LUO_AUTO_NO_MEMORY,
    LUO_AUTO_NO_STRATEGY /* a layer has none that deals the batch, cuts the layer and is allowed */
} luo_auto_verdict;

typedef struct luo_auto_stage {
    luo_auto_verdict verdict;
    int32_t first_layer, layers, first_device;
    int64_t cells;         /* of the programme's table */
    int64_t budget, least; /* units; least: that any choice needs */
    /* if it fits: */
    int32_t *choice;   /* by layer of the stage: index of its strategy */
    int64_t *units;    /* by layer of the stage */
    int64_t used;      /* their sum */
    double step_s;     /* least sum of layers and changes */
    double forward_s;  /* of a micro-batch: F, two all-reduces of tp, half of the gathers and of
                          the changes */
    double backward_s; /* what is left of it */
    double exposed_s;  /* synchronization of gradients that does not hide, per step */
    int64_t samples_in, samples_out; /* lb of its first and last layer */
} luo_auto_stage;

/* Rows of cost are computed once for layers of the same descriptor that follow each other, unless
 * `allow` may tell them apart.
 * Memory: ceil(bytes / unit) per layer, floor(limit / unit) in all, both of the stage's smallest
 *         limit; where limits differ this is never too little.
 * Pre:    layers >= 1; strategies are of env.devices devices.
 * Errors: LUO_ENOMEM; LUO_E2BIG more strategies than the programme takes. That nothing fits is no
 *         error: out->verdict. Owner: arena.
 * Cost:   that of luo_auto_dp, and strategies^2 * devices.
 * See:    tests/unit/check_auto.c, AP7. */
luo_status luo_auto_stage_solve(luo_arena *arena, const luo_auto_stage_in *in, luo_auto_stage *out,
                                luo_err *err);
#endif
