/* cost.h: seconds and bytes of one layer under one strategy, and of a change of strategy.
 *
 * Notation: B batch, m micro-batches, d degree of dp or sdp, t degree of tp, V FLOP/s, F, P, A of
 * the layer, lb = B / (m d) samples of a rank, alpha and bw the slowest link of a factor's groups.
 * With mixed speeds lb, 1/t and V are those of each rank, and the slowest rank counts. */
#ifndef LUO_CORE_PLAN_AUTO_COST_H
#define LUO_CORE_PLAN_AUTO_COST_H
#include "core/plan/auto/deal.h"

typedef struct luo_auto_cost {
    luo_auto_skip skip;   /* not LUO_AUTO_TAKEN: all else is 0 */
    double forward_s;     /* F lb / (t V), of a micro-batch */
    double backward_s;    /* twice that, and once more under checkpointing */
    double tp_s;          /* 4 all-reduces of A lb bytes, 6 under checkpointing */
    double tp_forward_s;  /* the 2 of the forward part */
    double gather_s;      /* sdp: weights, for the forward and for the backward part */
    double micro_batch_s; /* all of the above */
    double sync_s;        /* gradients of a step: all-reduce, sdp: reduce-scatter */
    double exposed_s;     /* what that adds to the last backward part */
    double step_s;        /* m micro-batches and exposed_s */
    int64_t samples;      /* of the rank with most */
    double bytes;         /* of the fullest rank: 16 per parameter, and activations in flight */
    double scaled_bytes;  /* the same in units of the stage's smallest limit: what a rank with more
                             memory holds counts less */
} luo_auto_cost;

/* Communication of `comm` seconds beside a backward part of `compute` seconds: both are slowed, by
 * kc and kb, while both run. Source: Galvatron's published program, layer_cost.py. */
double luo_auto_cost_overlap(double comm, double compute, double kc, double kb);

/* Cost of a layer.
 * Pre:    the strategy's degrees multiply to env->devices; layer is checked.
 * Errors: LUO_ENOMEM. A strategy that cannot deal batch or width is no error: out->skip.
 * Cost:   O(devices) and two calls of the cluster's link function.
 * Source: Galvatron (VLDB 2023), layer_cost.py; differs: 4 all-reduces of tp (they count 6 messages
 * of a gather's size), 16 bytes of state per parameter, sdp gathers for the backward part as well.
 * See:    tests/unit/check_auto.c, AP5 and AP6. */
luo_status luo_auto_cost_layer(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_layer *layer, const luo_auto_strategy *strategy,
                               luo_auto_cost *out, luo_err *err);

/* moved[a*n + b]: samples of a micro-batch that the rank with most has to receive when layers
 * change from strategy a to b: those it had not. Strategies whose samples cannot be dealt: 0.
 * Shapes: strategy[n], moved[n*n]. Errors: LUO_ENOMEM. Cost: O(n^2 * devices). */
luo_status luo_auto_cost_moved(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, int32_t n, int64_t *moved,
                               luo_err *err);

/* The link of a group of all devices of the stage, which a change of strategy uses. */
luo_auto_link luo_auto_cost_stage_link(const luo_auto_env *env);

/* Seconds of a step, forward and backward, of a change that moves so many samples of so many bytes
 * each over that link; 0 for none. */
double luo_auto_cost_change(const luo_auto_env *env, luo_auto_link link, double boundary_bytes,
                            int64_t moved);
#endif
