/* core/cost/overlap.h: communication that hides behind compute (accuracy.md 6). */
#ifndef LUO_CORE_COST_OVERLAP_H
#define LUO_CORE_COST_OVERLAP_H
#include <stdint.h>

/* Seconds of one collective of so many bytes. */
typedef double (*luo_coll_seconds)(const void *ctx, double bytes);

typedef struct luo_overlap {
    double exposed, total; /* seconds after the end of backward; of all collectives */
    int32_t buckets;
} luo_overlap;
/* Gradient buckets: layer n-1 finishes backward first. Consecutive layers join a bucket; it closes
 * before the layer that would push it over cap bytes, and after layer 0; it is ready when its last
 * layer finished; collectives run one after another (6.3). Source: torch DDP, Megatron. */
void luo_cost_ddp_overlap(int32_t n, const double *backward_seconds, const double *bytes,
                          double cap, luo_coll_seconds collective, const void *ctx,
                          luo_overlap *out);

typedef struct luo_fsdp {
    double forward_end, end; /* seconds from the start of the step */
} luo_fsdp;
/* One micro-batch of FSDP or ZeRO-3, as programs have it (core/graph/spec_units_emit.c): gathers
 * and scatters of n units share one lane in issue order; at most depth + 1 gathered units are alive
 * (depth 0 to 62, clamped), in backward the gradients of two; no gather begins before the forward
 * part has ended. Depth 1 is torch's. See: tests/unit/check_layer.c. */
void luo_cost_fsdp(int32_t n, const double *forward, const double *backward, const double *gather,
                   const double *scatter, int32_t depth, luo_fsdp *out);
#endif
