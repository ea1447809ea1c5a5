/* step.h: a whole training step of a uniform plan in closed form
 * (docs/cost-model.md#a-whole-step). */
#ifndef LUO_CORE_COST_STEP_STEP_H
#define LUO_CORE_COST_STEP_STEP_H
#include "core/cost/step/layer.h"
#include "core/graph/schedule/sched.h"

typedef struct luo_step_spec {
    const luo_model *model;
    int64_t sequence_tokens, micro_batch_sequences; /* s, b */
    int32_t micro_batches;                          /* m, of each pipeline */
    int32_t tp, pp, dp, chunks; /* t, p, D, v (1 unless interleaved) */
    luo_context context; /* of every pipeline, equal shares; c 0: 1 */
    luo_sched_kind schedule;
    int recompute; /* 0 none, 1 selective, 2 full; all layers */
    int32_t zero, prefetch_depth; /* prefetch_depth: of zero 3 */
    bool keep_weights; /* zero 3: gathered once a step (shard grad-op) */
    int32_t shard_pipelines; /* zero 3: pipelines of a group (shard hybrid); 0: all */
    bool sequence_parallel;
    int32_t experts_among; /* as in luo_layer_shape */
    luo_bucketing bucket;  /* of the plan; unsaid: the stack's */
    const int64_t *layers; /* [chunk*pp + stage]; NULL: the first layers % pp stages have one more,
                              chunks share them evenly */
    const int32_t *pipeline_micro_batches; /* per pipeline, where they differ; NULL: micro_batches
                                              each. Pre: zero <= 1 */
    const int32_t *dev;    /* [((pipeline*pp + stage)*c + rank)*tp + i] */
} luo_step_spec;

typedef struct luo_step_cost { /* seconds; step = (pipeline + dp + tied + optimizer) * jitter */
    double step, pipeline, dp, tied; /* dp, tied: what is seen of them behind the last backward */
    double optimizer;                /* with the norm of all gradients before it */
    double jitter;      /* the factor */
    double ideal;       /* busiest stage without waiting: m * (F + B) of the slowest stage */
} luo_step_cost;

/* F_k, B_k = layers of the stage by luo_cost_layer + embedding or head; transfers between stages
 * by luo_cost_p2p of b*s*h*e bytes (over t with sequence parallelism, or scatter_gather between
 * nodes); pipelines one by one, the slowest counts (alike neighbours are costed once).
 * Gradients: the buckets of the rule, as programs have them, each reduced over the replicas of its
 * stage when it is complete (dp_overlap off: when the stage's last backward is done), one after
 * another; with ZeRO 1 and 2 reduce-scatters, and the first forward waits for the gathers of the
 * weights it reads (dp_overlap off: for all). The slowest stage counts. Sequence parallelism sums
 * what every device holds whole over the tensor group first. ZeRO 2 cuts gradients in every
 * micro-batch, ZeRO 3 gathers the weights in every task as well, unit by unit: beats of
 * core/cost/step/step_units.c, which are luo_cost_fsdp where nothing is added up. A tied table
 * on two stages: one call of both ends, behind all others; ZeRO 2 and 3: the head's gradient moves
 * to the first stage, whose bucket waits for it, and the head waits for its copy. zb_h1: BI and BW
 * of a layer are those of luo_layer_cost, gradients are complete in the last BW. Context
 * parallelism: sequences are padded as plans pad them, layers have its messages, stages send the
 * tokens of a rank, and a weight has dp*c copies. Optimizer: slowest stage. Pre: sizes >= 1;
 * interleaved: pp*chunks divides layers unless they are given, pp divides micro_batches. Errors:
 * E1, E2, E4; LUO_EINPUT of luo_sched_makespan, and for zb_h1 with ZeRO 2 or 3; LUO_ENOMEM. */
luo_status luo_cost_step(luo_arena *scratch, const luo_cost_ctx *ctx, const luo_step_spec *s,
                         luo_step_cost *out, luo_err *err);

/* The shape of a layer in such a step, or of embedding and head: what luo_cost_layer, _embedding
 * and _head are asked with. */
luo_layer_shape luo_step_layer(const luo_step_spec *spec, int64_t layer);

/* FLOP of one step of B sequences of s tokens (SC'21 eq. 3): 72 form without recompute,
 * 96 form with full recompute; attention in full, the head once. Exact but for one rounding. */
double luo_step_flops_72(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V);
double luo_step_flops_96(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V);
#endif
