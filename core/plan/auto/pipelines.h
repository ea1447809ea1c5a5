/* pipelines.h: the search over layers, strategies and memory for a model on a cluster, as plans. */
#ifndef LUO_CORE_PLAN_AUTO_PIPELINES_H
#define LUO_CORE_PLAN_AUTO_PIPELINES_H
#include "core/plan/auto/search.h"
#include "core/plan/planners.h"

typedef struct luo_auto_pipelines_in {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    int64_t batch_sequences, sequence_tokens;
    const int32_t *devices; /* usable, ascending */
    int32_t ndevices;
    const double *rate;   /* per device: slowdown; NULL: 1 all */
    int32_t tp, pp, zero; /* fixed; 0 or -1 (zero): searched */
    bool sequence_parallel;
} luo_auto_pipelines_in;

typedef struct luo_auto_pipelines_plan {
    luo_plan *plan;
    double step_s; /* of the search's own cost model */
} luo_auto_pipelines_plan;
enum { LUO_AUTO_PIPELINES = 16 };

/* For every tensor degree up to a node's devices, copies of the state (ZeRO-1) and shards (ZeRO-3):
 * the best of luo_auto_search among strategies of that degree and kind, so that a plan can say it:
 * pipelines for the data degree, the search's stages, layers and micro-batches, and the layers that
 * are checkpointed. Devices are used if their number is a multiple of stages and tensor degree.
 * Layers: FLOP and bytes of our own cost model at the speed that it gives a device for one whole
 * layer; a link is the scale-up network, or the nodes' NICs.
 * out: at most LUO_AUTO_PIPELINES, fastest first. *n: 0: no strategy fits.
 * Pre: the model is a transformer without experts. Errors: those of the cost model; LUO_ENOMEM.
 * Owner: arena. Cost: that of luo_auto_search for each degree and kind.
 * Source: Galvatron (VLDB 2023); differs: all layers have one degree. See:
 * tests/unit/check_auto_pipelines.c. */
luo_status luo_auto_pipelines(luo_arena *arena, const luo_auto_pipelines_in *in,
                              luo_auto_pipelines_plan *out, int32_t *n, luo_err *err);
#endif
