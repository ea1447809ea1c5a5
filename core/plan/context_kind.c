/* context_kind.c: how sequences are cut among devices where the plan says `auto`: by what
 * the cost model sees of their messages beside a layer's work
 * (docs/architecture/context.md#which-tokens). */
#include <stdint.h>

#include "core/cost/step/layer.h"
#include "core/plan/planners.h"

typedef struct choice {
    luo_context_kind kind;
    int32_t inner; /* as luo_context */
} choice;

/* Ranks of the first node, the neighbours of `2d`; 0: no such part. */
static int32_t neighbours(const luo_cluster *cluster, const luo_stage *stage)
{
    const int32_t tp = luo_stage_tp(stage);
    int32_t n = 1;
    while (n < stage->context_parallel &&
           cluster->devices[stage->dev[n * tp]].node == cluster->devices[stage->dev[0]].node)
        n++;
    return n > 1 && n < stage->context_parallel && stage->context_parallel % n == 0 ? n : 0;
}

/* Has every rank of an exchange a query head of every tensor rank? */
static bool heads_do(const luo_model *model, const luo_pipeline *pipeline, int32_t inner)
{
    for (int32_t k = 0; k < pipeline->nstages; k++) {
        const luo_stage *stage = &pipeline->stages[k];
        uint64_t sum = 0, least = UINT32_MAX;
        for (int32_t i = 0; i < luo_stage_tp(stage); i++) {
            const uint32_t w = stage->shares ? stage->shares[i] : 1;
            sum += w;
            if (w < least) least = w;
        }
        if (sum == 0 || (uint64_t)model->heads * least / sum < (uint64_t)inner) return false;
    }
    return true;
}

luo_status luo_plan_context_exposed(const luo_cost_ctx *ctx, const luo_model *model,
                                    const luo_plan *plan, int32_t pipeline, int32_t inner,
                                    double *seconds, luo_err *err)
{
    const luo_pipeline *pipe = &plan->pipelines[pipeline];
    const int32_t c = pipe->stages[0].context_parallel;
    const luo_context context = {.c = c, .inner = inner, .zigzag = model->causal && inner < c};
    *seconds = 0;
    for (int32_t k = 0; k < pipe->nstages; k++) {
        const luo_stage *stage = &pipe->stages[k];
        const int32_t tp = luo_stage_tp(stage);
        luo_layer_shape shape =
            luo_layer_of(model, pipe->micro_batch_sequences, plan->sequence_tokens, tp, context,
                         plan->sequence_parallel && tp > 1);
        luo_layer_cost cost;
        shape.layer = model->layers - 1;
        LUO_TRY(luo_cost_layer(ctx, &shape, stage->dev, (int)stage->recompute, &cost, err));
        const double seen = cost.forward_comm + cost.backward_comm;
        if (seen > *seconds) *seconds = seen;
    }
    return LUO_OK;
}

/* In the order of ties. */
static int32_t list_choices(const luo_cluster *cluster, const luo_model *model,
                            const luo_pipeline *pipeline, choice out[3])
{
    const luo_stage *stage = &pipeline->stages[0];
    const int32_t some = neighbours(cluster, stage);
    int32_t n = 0;
    out[n++] = (choice){LUO_CONTEXT_RING, 1};
    if (heads_do(model, pipeline, stage->context_parallel))
        out[n++] = (choice){LUO_CONTEXT_A2A, stage->context_parallel};
    if (some && heads_do(model, pipeline, some)) out[n++] = (choice){LUO_CONTEXT_2D, some};
    return n;
}

static choice best_of(const luo_cost_ctx *ctx, const luo_model *model, const luo_plan *plan,
                      int32_t i)
{
    choice list[3], best = {LUO_CONTEXT_RING, 1};
    double least = 0;
    const int32_t n = list_choices(ctx->cluster, model, &plan->pipelines[i], list);
    for (int32_t k = 0; k < n; k++) {
        double seconds = 0;
        if (luo_plan_context_exposed(ctx, model, plan, i, list[k].inner, &seconds, NULL) != LUO_OK)
            return (choice){LUO_CONTEXT_RING, 1}; /* no costs are known */
        if (k > 0 && seconds >= least * (1 - 1e-9)) continue;
        least = seconds;
        best = list[k];
    }
    return best;
}

void luo_plan_settle_context(luo_plan *plan, const luo_model *model, const luo_cluster *cluster)
{
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = cluster, .stack = &stack, .dtype = plan->dtype};
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pipe = &plan->pipelines[i];
        const luo_stage *first = pipe->stages;
        if (first->context_parallel < 2 || first->context_kind != LUO_CONTEXT_AUTO) continue;
        const choice best = best_of(&ctx, model, plan, i);
        for (int32_t k = 0; k < pipe->nstages; k++) {
            luo_stage *stage = (luo_stage *)(uintptr_t)&pipe->stages[k]; /* the plan is ours */
            stage->context_kind = best.kind;
            stage->context_inner = best.kind == LUO_CONTEXT_2D ? best.inner : 0;
        }
    }
}
