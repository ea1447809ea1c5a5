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
static int32_t neighbours(const luo_cluster *c, const luo_stage *s)
{
    const int32_t tp = luo_stage_tp(s);
    int32_t n = 1;
    while (n < s->context_parallel &&
           c->devices[s->dev[n * tp]].node == c->devices[s->dev[0]].node)
        n++;
    return n > 1 && n < s->context_parallel && s->context_parallel % n == 0 ? n : 0;
}

/* Has every rank of an exchange a query head of every tensor rank? */
static bool heads_do(const luo_model *m, const luo_pipeline *p, int32_t inner)
{
    for (int32_t k = 0; k < p->nstages; k++) {
        const luo_stage *s = &p->stages[k];
        uint64_t sum = 0, least = UINT32_MAX;
        for (int32_t i = 0; i < luo_stage_tp(s); i++) {
            const uint32_t w = s->shares ? s->shares[i] : 1;
            sum += w;
            if (w < least) least = w;
        }
        if (sum == 0 || (uint64_t)m->heads * least / sum < (uint64_t)inner) return false;
    }
    return true;
}

luo_status luo_context_exposed(const luo_cost_ctx *ctx, const luo_model *m, const luo_plan *p,
                               int32_t pipeline, int32_t inner, double *seconds, luo_err *err)
{
    const luo_pipeline *pipe = &p->pipelines[pipeline];
    const int32_t c = pipe->stages[0].context_parallel;
    const luo_context x = {.c = c, .inner = inner, .zigzag = m->causal && inner < c};
    const int64_t each = luo_context_pad(p->sequence_tokens, luo_context_multiple(&x));
    *seconds = 0;
    for (int32_t k = 0; k < pipe->nstages; k++) {
        const luo_stage *s = &pipe->stages[k];
        const int32_t tp = luo_stage_tp(s);
        const luo_layer_shape l = {.model = m, .layer = m->layers - 1, .sequence_tokens = each,
                                   .tokens = each * pipe->micro_batch_sequences, .tp = tp,
                                   .context = x,
                                   .sequence_parallel = p->sequence_parallel && tp > 1};
        luo_layer_cost cost;
        LUO_TRY(luo_cost_layer(ctx, &l, s->dev, (int)s->recompute, &cost, err));
        const double seen = cost.forward_comm + cost.backward_comm;
        if (seen > *seconds) *seconds = seen;
    }
    return LUO_OK;
}

/* In the order of ties. */
static int32_t list_choices(const luo_cluster *c, const luo_model *m, const luo_pipeline *p,
                            choice out[3])
{
    const luo_stage *s = &p->stages[0];
    const int32_t some = neighbours(c, s);
    int32_t n = 0;
    out[n++] = (choice){LUO_CONTEXT_RING, 1};
    if (heads_do(m, p, s->context_parallel))
        out[n++] = (choice){LUO_CONTEXT_A2A, s->context_parallel};
    if (some && heads_do(m, p, some)) out[n++] = (choice){LUO_CONTEXT_2D, some};
    return n;
}

static choice best_of(const luo_cost_ctx *ctx, const luo_model *m, const luo_plan *p, int32_t i)
{
    choice list[3], best = {LUO_CONTEXT_RING, 1};
    double least = 0;
    const int32_t n = list_choices(ctx->cluster, m, &p->pipelines[i], list);
    for (int32_t k = 0; k < n; k++) {
        double seconds = 0;
        if (luo_context_exposed(ctx, m, p, i, list[k].inner, &seconds, NULL) != LUO_OK)
            return (choice){LUO_CONTEXT_RING, 1}; /* no costs are known */
        if (k > 0 && seconds >= least * (1 - 1e-9)) continue;
        least = seconds;
        best = list[k];
    }
    return best;
}

void luo_plan_settle_context(luo_plan *p, const luo_model *m, const luo_cluster *c)
{
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = c, .stack = &stack, .dtype = p->dtype};
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_pipeline *pipe = &p->pipelines[i];
        const luo_stage *first = pipe->stages;
        if (first->context_parallel < 2 || first->context_kind != LUO_CONTEXT_AUTO) continue;
        const choice best = best_of(&ctx, m, p, i);
        for (int32_t k = 0; k < pipe->nstages; k++) {
            luo_stage *s = (luo_stage *)(uintptr_t)&pipe->stages[k]; /* the plan is ours */
            s->context_kind = best.kind;
            s->context_inner = best.kind == LUO_CONTEXT_2D ? best.inner : 0;
        }
    }
}
