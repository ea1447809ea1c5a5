/* Most layers a stage can hold (docs/planners.md#memory): memory is a line, fixed + layers *
 * per_layer, whose parts come from the model or, where `--params` gives them, from a table. */
#include <math.h>

#include "core/cost/step/memory.h"
#include "core/plan/malleus/malleus_job_internal.h"

static const double MIB = 1048576.0;

typedef struct line {
    double fixed, per_layer; /* MiB */
} line;

typedef struct place { /* one device of this stage */
    int32_t kind, size, stages, stage, pipelines;
} place;

/* Weights, gradients in f32 and what is made of them in passing, optimizer (ZeRO shares it between
 * the pipelines). */
static double state_mib(const luo_kinds *kinds, double parameters, int32_t pipelines)
{
    luo_mem mem = {0};
    luo_mem_state(parameters, luo_dtype_bytes(kinds->job->base->dtype), 4, kinds->job->base->zero,
                  pipelines, &mem);
    return ((double)(mem.weights + mem.gradients + mem.optimizer) + parameters) / MIB;
}

static luo_mem_spec spec_of(const luo_kinds *kinds, const place *p)
{
    const luo_plan *base = kinds->job->base;
    return (luo_mem_spec){.model = kinds->job->model,
                          .sequence_tokens = kinds->sequence_tokens,
                          .tp = p->size,
                          .sequence_parallel = base->sequence_parallel,
                          .micro_batch_tokens =
                              kinds->sequence_tokens * base->micro_batch_sequences,
                          .attention_fused = kinds->job->stack->attention_fused};
}

/* The table counts from the last stage, which has its last entry; smaller groups hold more. */
static double layer_mib(const luo_kinds *kinds, const place *p)
{
    const luo_malleus_params *params = kinds->job->params;
    const int32_t in_flight = p->stages - p->stage;
    const int recompute = (int)kinds->job->base->pipelines[0].stages[0].recompute;
    const luo_mem_spec spec = spec_of(kinds, p);
    if (kinds->job->memory_table)
        return in_flight <= params->nk ? params->k_mib[params->nk - in_flight] * kinds->tp / p->size
                                       : INFINITY;
    return state_mib(kinds, kinds->layer_parameters / p->size, p->pipelines) +
           in_flight * luo_mem_layer_activations(&spec, recompute) / MIB;
}

/* Embedding and head, one of them or both in one stage. Two stages share the state of a tied one as
 * twice as many pipelines would. */
static double tables_mib(const luo_kinds *kinds, const place *p)
{
    const luo_malleus_params *params = kinds->job->params;
    const luo_model *model = kinds->job->model;
    const bool first = p->stage == 0, last = p->stage == p->stages - 1;
    const bool both = model->tied_embeddings && p->stages > 1;
    const double n = first && last && model->tied_embeddings ? 1 : (double)first + (double)last;
    if (params && params->emb_mib > 0)
        return first || last ? params->emb_mib * kinds->tp / p->size : 0;
    return n * state_mib(kinds,
                         (double)luo_mem_vocab(model, p->size) * (double)model->hidden / p->size,
                         both ? 2 * p->pipelines : p->pipelines);
}

/* Context, and logits with their gradient. */
static double extra_mib(const luo_kinds *kinds, const place *p)
{
    const luo_malleus_params *params = kinds->job->params;
    const luo_mem_spec spec = spec_of(kinds, p);
    if (params && params->extra_mib > 0) return params->extra_mib;
    return kinds->room[p->kind].context + (double)spec.micro_batch_tokens / p->size * 6 / MIB *
                                              (double)luo_mem_vocab(kinds->job->model, p->size);
}

static line line_of(const luo_kinds *kinds, const place *p)
{
    const luo_mem_spec spec = spec_of(kinds, p);
    line l = {tables_mib(kinds, p) + extra_mib(kinds, p), layer_mib(kinds, p)};
    if (!kinds->job->memory_table &&
        kinds->job->base->pipelines[0].stages[0].recompute == LUO_RECOMPUTE_FULL)
        l.fixed += luo_mem_layer_activations(&spec, 0) / MIB; /* of the layer run again */
    return l;
}

int64_t luo_kinds_cap(const void *ctx, int32_t kind, int32_t size, int32_t stages, int32_t stage,
                      int32_t pipelines)
{
    const luo_kinds *kinds = ctx;
    const place p = {kind, size, stages, stage, pipelines};
    const line l = line_of(kinds, &p);
    const double left = kinds->room[kind].bound - kinds->room[kind].gap - l.fixed;
    return left > 0 ? (int64_t)floor(left / l.per_layer) : 0;
}

double luo_kinds_mib(const luo_kinds *kinds, int32_t kind, int32_t size, int32_t stages,
                     int32_t stage, int32_t pipelines, int64_t layers)
{
    const place p = {kind, size, stages, stage, pipelines};
    const line l = line_of(kinds, &p);
    return layers > 0 ? l.fixed + l.per_layer * (double)layers : l.fixed;
}
