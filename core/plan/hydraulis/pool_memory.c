/* The model's part of the published memory formula. */
#include "core/plan/hydraulis/pool_memory.h"

#include <math.h>

#include "core/cost/step/memory.h"

luo_pool_params luo_pool_params_none(void)
{
    return (luo_pool_params){.optimizer_share = -1, .safe_gib = -1, .gap_mib = -1, .grad_bytes = 4};
}

/* Of a token, layer and hidden unit, times the tensor group's size. */
static double act_bytes(const luo_pool_model_in *in, int32_t tp)
{
    enum { TOKENS = 4096 };
    const luo_mem_spec spec = {.model = in->model,
                               .micro_batch_tokens = TOKENS,
                               .sequence_tokens = TOKENS,
                               .tp = tp,
                               .sequence_parallel = true,
                               .attention_fused = in->stack->attention_fused};
    return luo_mem_layer_activations(&spec, 0) * tp / ((double)TOKENS * (double)in->model->hidden);
}

/* Weight 2, gradient 2, master weight and moments 12: the published split, of which three quarters
 * lie in the optimizer's layout. */
static double state_bytes(const luo_model *model)
{
    const double hidden = (double)model->hidden;
    return 16 * luo_mem_layer_parameters(model, 0, 1) / (hidden * hidden);
}

static double bound_mib(const luo_pool_model_in *in)
{
    double least = INFINITY;
    for (int32_t i = 0; i < in->ndevices; i++)
        least = fmin(least, luo_cluster_profile(in->cluster, in->devices[i])->memory_bytes);
    return least / (1024 * 1024);
}

luo_pool_memory luo_pool_memory_of(const luo_pool_model_in *in, const luo_pool_params *params)
{
    const luo_model *model = in->model;
    luo_pool_memory memory = {
        .layers = model->layers,
        .hidden = model->hidden,
        .vocabulary = model->vocab,
        .state_bytes = params->state_bytes > 0 ? params->state_bytes : state_bytes(model),
        .optimizer_share = params->optimizer_share >= 0 ? params->optimizer_share : 0.75,
        .safe_gib = params->safe_gib >= 0 ? params->safe_gib : 0,
        .gap_mib = params->gap_mib >= 0 ? params->gap_mib : LUO_POOL_GAP_MIB,
        .bound_mib = params->bound_mib > 0 ? params->bound_mib : bound_mib(in)};
    for (int32_t k = 0; k < LUO_POOL_TP_KINDS; k++) {
        const int32_t last = params->nact - 1;
        memory.act_bytes[k] =
            params->nact > 0 ? params->act_bytes[k < last ? k : last] : act_bytes(in, 1 << k);
    }
    return memory;
}
