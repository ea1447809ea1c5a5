/* annotate.h: from a plan to annotations (docs/annotations.md#from-a-plan-to-annotations). */
#ifndef LUO_CORE_PLAN_ANNOTATE_H
#define LUO_CORE_PLAN_ANNOTATE_H
#include "core/graph/graph.h"
#include "core/graph/moe/load.h"
#include "core/plan/plan.h"

/* What the builder has to know of the plan: key-value heads cut or whole, head apart or not, what
 * ZeRO cuts. Errors: LUO_EINPUT for what cannot be compiled: zero 2 and 3 over pipelines that
 * differ in borders or micro-batches, with `state_layout`, hybrid over unlike groups; experts over
 * pipelines that differ. Owner: arena, of what out points to. */
luo_status luo_plan_build_opts(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                               luo_build_opts *out, luo_err *err);
/* experts.c: the part of it that is about experts. */
luo_status luo_plan_expert_opts(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                                luo_build_opts *out, luo_err *err);
/* Devices that have all experts together, out of those of a group's stage that experts are dealt
 * to. */
static inline int32_t luo_plan_experts_among(const luo_plan *plan, int32_t ndev)
{
    return plan->expert_parallel ? plan->expert_parallel : ndev;
}
/* Rows, counts or weights of experts that groups of pipelines share. stage: by pipeline. Owner:
 * arena; not canonical. Errors: LUO_ENOMEM. */
luo_status luo_plan_expert_ann(luo_arena *arena, const luo_plan *plan, const int32_t *stage,
                               luo_form form, luo_ann *out, luo_err *err);
/* Rows of the busiest device over the mean of those that have all experts of a layer together, mean
 * over the layers with experts that are dealt; 1 where nothing is dealt or load is NULL.
 * tokens: of a sequence. Errors: LUO_EPARSE annotations; LUO_ENOMEM. Cost: O(pipelines layers
 * experts). */
luo_status luo_plan_expert_imbalance(luo_arena *scratch, const luo_plan *plan,
                                     const luo_model *model, const luo_expert_load *load,
                                     int64_t tokens, double *out, luo_err *err);
/* Annotates leaves and Reshards, raw annotations of the plan included, and deduces the forward
 * part. Errors: LUO_EINPUT, LUO_EDEDUCE, LUO_EPARSE; LUO_ENOMEM. */
luo_status luo_plan_annotate(luo_graph *graph, const luo_plan *plan, luo_err *err);
/* What a form is inside pipeline i, on stage stage, and across pipelines (hspmd key of the top
 * level). Errors: LUO_ENOMEM. Owner: arena; not canonical. */
luo_status luo_plan_group(luo_arena *arena, const luo_graph *graph, const luo_plan *plan, int32_t i,
                          const luo_stage *stage, luo_form form, luo_grp *out, luo_err *err);
int32_t luo_plan_form_top(luo_form form);
/* Raw annotation of a Reshard made by differentiation; ctx: luo_annotate_raw. */
typedef struct luo_annotate_raw {
    luo_graph *g;
    const luo_plan *plan;
    luo_err err; /* of a raw annotation that cannot be read */
} luo_annotate_raw;
int32_t luo_plan_override(void *ctx, const char *tensor);
/* After differentiation: every raw annotation names a tensor, and where the tensor is deduced it
 * agrees (docs/annotations.md#raw-annotations item 3). */
luo_status luo_plan_check_raw(luo_graph *graph, const luo_plan *plan, luo_err *err);
#endif
