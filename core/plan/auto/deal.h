/* deal.h: which samples and which part of a layer every rank of a stage gets.
 *
 * Equal ranks get equal parts, which have to be whole. Where speeds differ and the environment says
 * `uneven`, the ranks of a tp group cut heads and feed-forward width in proportion to speed, and
 * data groups deal whole samples in proportion to the summed speed of their tp groups. */
#ifndef LUO_CORE_PLAN_AUTO_DEAL_H
#define LUO_CORE_PLAN_AUTO_DEAL_H
#include "core/plan/auto/env.h"
#include "core/plan/auto/layer.h"
#include "core/plan/auto/strategy.h"

/* Why a strategy is left out. */
typedef enum luo_auto_skip {
    LUO_AUTO_TAKEN,
    LUO_AUTO_SKIP_BATCH, /* samples cannot be dealt: not whole, or none for some rank */
    LUO_AUTO_SKIP_WIDTH  /* heads or width cannot be cut: not whole, or none for some rank */
} luo_auto_skip;

/* `total` things in proportion to speed: luo_share_round of the speeds, which luo_share_snap rounds
 * to 2^-20 of their sum first, so that noise of the last bits decides nothing.
 * Shapes: speed[n], out[n]. Pre: n >= 1, 1 <= total < 2^31, speeds finite, above 0.
 * Errors: LUO_ENOMEM. Cost: O(n * things left after the floors), fewer than n.
 * See:    tests/unit/check_auto.c, AP9. */
luo_status luo_auto_deal_by_speed(luo_arena *scratch, int64_t total, const double *speed, int32_t n,
                                  int64_t *out, luo_err *err);

/* Samples lo[r] <= i < hi[r] of a micro-batch for every rank r of the stage.
 * Shapes: lo, hi: env->devices. Errors: LUO_ENOMEM. Out: *skip; if taken, lo and hi.
 * Pre:    the product of the strategy's degrees is env->devices. Cost: O(devices). */
luo_status luo_auto_deal_samples(luo_arena *scratch, const luo_auto_env *env,
                                 const luo_auto_strategy *strategy, int64_t *lo, int64_t *hi,
                                 luo_auto_skip *skip, luo_err *err);

/* Units of a layer, such as heads, that every rank gets within its tp group: all without tp.
 * Shapes: part: env->devices. Errors: LUO_ENOMEM. Out: *skip; if taken, part.
 * Pre:    units >= 1 and below 2^31. */
luo_status luo_auto_deal_units(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, int64_t units, int64_t *part,
                               luo_auto_skip *skip, luo_err *err);

/* The part of the layer that every rank computes, 0 < share[r] <= 1: 1 without tp. Heads or
 * feed-forward width, whichever is dealt worse; a layer with neither is cut exactly.
 * Shapes: share: env->devices. Errors: LUO_ENOMEM. Out: *skip; if taken, share. */
luo_status luo_auto_deal_width(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, const luo_auto_layer *layer,
                               double *share, luo_auto_skip *skip, luo_err *err);
#endif
