/* search.h: the fastest pipeline of stages, over stages, micro-batches and strategies of layers. */
#ifndef LUO_CORE_PLAN_AUTO_SEARCH_H
#define LUO_CORE_PLAN_AUTO_SEARCH_H
#include "core/plan/auto/stage.h"

typedef enum luo_auto_uneven { LUO_AUTO_EVEN, LUO_AUTO_UNEVEN, LUO_AUTO_BOTH } luo_auto_uneven;

typedef struct luo_auto_job {
    const luo_auto_layer *layer; /* embedding and head are layers too */
    int32_t layers;
    luo_auto_cluster cluster;
    int64_t batch;                  /* samples of a step */
    double unit_bytes;              /* of memory, such as 16 MiB */
    int32_t stages_most;            /* 0: any number */
    int32_t stages, micro_batches;  /* fixed by the user; 0: searched */
    bool checkpointing;             /* may layers run their forward part twice? */
    luo_auto_uneven uneven;         /* of mixed speeds; no matter where all are equal */
    double slow_comm, slow_compute; /* as in luo_auto_env */
    luo_auto_allow_fn allow;        /* NULL: all is allowed */
    const void *allow_ctx;
} luo_auto_job;

/* The pipelines that may be tried: p divides the devices, p <= layers and stages_most; m a power of
 * two that divides the batch, m >= p, unless m is fixed. */
typedef struct luo_auto_tried {
    int32_t stages, micro_batches;
    bool uneven;
    int32_t strategies; /* of a stage */
    int64_t cells;      /* of all tables */
    luo_auto_verdict verdict;
    double step_s; /* INFINITY: it does not fit */
} luo_auto_tried;

typedef struct luo_auto_found {
    int32_t stages, micro_batches;
    bool uneven;
    double step_s;
    luo_auto_stage *stage;
    luo_auto_strategy *strategy; /* by layer of the model */
    int32_t ntried;
    luo_auto_tried *tried; /* in the order of the search: even before uneven, p, m */
} luo_auto_found;

/* The pipeline of least step time. Layers are cut by forward FLOP over the speed of the stage's
 * devices (luo_auto_cut), each stage gets the strategies that cost least (luo_auto_stage_solve),
 * and the step is that of the 1F1B schedule by events and the longest synchronization of gradients
 * that shows. A boundary costs latency + A lb / bw in each direction, on a link of its own. Order:
 * of equal steps (1e-12) even shares, fewer stages, fewer micro-batches; within a stage that of
 * luo_auto_dp. Pre:    layers >= 1, devices >= 1, batch >= 1, unit_bytes > 0. Errors: LUO_EINPUT
 * (luo_auto_layers_check); LUO_EUSAGE `batch 7 cannot be divided by any number of micro-batches
 * and data degree; try 8.`; LUO_EINFEASIBLE `no strategy fits 40.0 GiB on device 0; the smallest
 * needs 46.3 GiB.`, or no strategy is left for a layer; LUO_ENOMEM. Owner:  arena. Cost: p and m
 * times that of the stages' programmes. Source: Galvatron (VLDB 2023); differs: events instead of a
 * closed form, which is only an upper bound; changes of strategy are part of a micro-batch. See:
 * tests/prop/prop_auto_pipelines.c; tests/unit/check_auto.c, AP7 and AP8. */
luo_status luo_auto_search(luo_arena *arena, const luo_auto_job *job, luo_auto_found *out,
                           luo_err *err);

/* Where stage i of a pipeline of so many stages runs: what luo_auto_deal_samples and
 * luo_auto_deal_units ask for to say what each rank of it gets. Keeps a pointer into job. */
luo_auto_env luo_auto_search_env(const luo_auto_job *job, int32_t stages, int32_t micro_batches,
                                 bool uneven, int32_t i);

/* Step of given stages: 1F1B by events, boundaries, and the longest exposed synchronization.
 * Pre: every stage fits. Errors: LUO_ENOMEM. Cost: O(stages * micro_batches). */
luo_status luo_auto_search_score(luo_arena *scratch, const luo_auto_job *job,
                                 const luo_auto_stage *stage, int32_t stages, int32_t micro_batches,
                                 double *step_s, luo_err *err);
#endif
