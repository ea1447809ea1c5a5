/* experts.c: what the builder has to know of a plan's experts, and what is refused. */
#include "core/plan/annotate.h"

static int32_t find_stage(const luo_pipeline *pipe, int32_t layer)
{
    for (int32_t s = 0; s < pipe->nstages; s++)
        for (int32_t r = 0; r < pipe->stages[s].nlayers; r++)
            if (layer >= pipe->stages[s].layers[r].lo && layer < pipe->stages[s].layers[r].hi)
                return s;
    return -1;
}

/* Groups of several pipelines would exchange rows between them. */
static luo_status check_groups(const luo_plan *plan, luo_err *err)
{
    for (int32_t g = 0; g < plan->ngroups; g++)
        if (plan->expert_groups[g].n > 1)
            return luo_err_part(err,
                                luo_err_set(err, LUO_EINPUT,
                                            "expert group %d joins %d pipelines, for which no "
                                            "program is built yet; give groups of one pipeline.",
                                            (int)g, (int)plan->expert_groups[g].n),
                                "/expert_groups");
    return LUO_OK;
}

static luo_status check_stage(const luo_plan *plan, const luo_model *model, int32_t i, int32_t k,
                              luo_err *err)
{
    const luo_stage *stage = &plan->pipelines[i].stages[k];
    if (stage->experts_dealt && stage->ndev > model->moe.experts)
        return luo_err_set(err, LUO_EINPUT,
                           "pipeline %d, stage %d: %lld experts can not be dealt to %d devices; "
                           "use experts: tensor or fewer devices.",
                           (int)i, (int)k, (long long)model->moe.experts, (int)stage->ndev);
    if (stage->context_parallel > 1 && !stage->experts_dealt)
        return luo_err_set(err, LUO_EINPUT,
                           "pipeline %d, stage %d: context_parallel %d with experts cut by tensor "
                           "parallelism is not built yet; use experts: expert.",
                           (int)i, (int)k, (int)stage->context_parallel);
    return LUO_OK;
}

static int32_t divisor(int32_t a, int32_t b)
{
    while (b) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Every pipeline's devices of a layer send rows; the least number that all of theirs divide. */
static luo_status find_layer(const luo_plan *plan, const luo_model *model, int32_t layer,
                             bool *dealt, int32_t *sources, luo_err *err)
{
    *sources = 1;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const int32_t k = find_stage(&plan->pipelines[i], layer);
        if (k < 0) continue; /* found where places are looked for */
        const luo_stage *stage = &plan->pipelines[i].stages[k];
        LUO_TRY(check_stage(plan, model, i, k, err));
        if (stage->experts_dealt) *sources *= stage->ndev / divisor(*sources, stage->ndev);
        if (i > 0 && *dealt != stage->experts_dealt)
            return luo_err_set(err, LUO_EINPUT,
                               "layer %d has experts dealt in some pipelines and cut in others; "
                               "they must agree.",
                               (int)layer);
        *dealt = stage->experts_dealt;
    }
    return LUO_OK;
}

luo_status luo_plan_expert_opts(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                                luo_build_opts *out, luo_err *err)
{
    bool *dealt = LUO_NEW_N(arena, bool, model->layers);
    int32_t *sources = LUO_NEW_N(arena, int32_t, model->layers);
    if (!dealt || !sources) return luo_err_nomem(err);
    LUO_TRY(check_groups(plan, err));
    for (int32_t l = 0; l < (int32_t)model->layers; l++)
        LUO_TRY(find_layer(plan, model, l, &dealt[l], &sources[l], err));
    out->dealt = dealt;
    out->sources = sources;
    return LUO_OK;
}
