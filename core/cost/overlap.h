/* overlap.h: communication that hides behind compute (docs/cost-model.md#overlap). */
#ifndef LUO_CORE_COST_OVERLAP_H
#define LUO_CORE_COST_OVERLAP_H
#include <stdint.h>

#include "core/cost/profile.h"
#include "core/graph/program/program.h"

/* Of collectives of tensor parallelism, and of rows of experts: what the stack leaves of their
 * time, tp_exposed_factor; of all else 1. */
static inline double luo_overlap_exposed_factor(const luo_stack *stack, const luo_instr *in)
{
    const bool shared = in->kind == LUO_INSTR_COLLECTIVE || luo_instr_trades(in);
    return shared && in->stream == LUO_STREAM_TP ? stack->tp_exposed_factor : 1;
}

typedef struct luo_overlap {
    double exposed, total; /* seconds after the end of backward; of all collectives */
} luo_overlap;
/* Buckets of gradients: bucket i is complete at ready[i], ascending, and its collective takes
 * seconds[i]; they run one after another. end: of backward. Source: torch DDP, Megatron. */
void luo_cost_ddp_overlap(int32_t n, const double *ready, const double *seconds, double end,
                          luo_overlap *out);

typedef struct luo_fsdp {
    double forward_end, end; /* seconds from the start of the step */
} luo_fsdp;
/* One micro-batch of FSDP or ZeRO-3, as programs have it (core/graph/specialize/spec_units_emit.c):
 * gathers and scatters of n units share one lane in issue order; at most depth + 1 gathered units
 * are alive (depth 0 to 62, clamped), in backward the gradients of two; no gather begins before the
 * forward part has ended. Depth 1 is torch's. What steps are costed by
 * (core/plan/step/step_units.c) knows more: stages, sums of pieces, tensor groups. See:
 * tests/unit/check_layer.c, tests/diff/diff_sim_closed.c. */
void luo_cost_fsdp(int32_t n, const double *forward, const double *backward, const double *gather,
                   const double *scatter, int32_t depth, luo_fsdp *out);
#endif
