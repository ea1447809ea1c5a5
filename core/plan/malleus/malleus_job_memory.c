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
static double state_mib(const luo_kinds *k, double parameters, int32_t pipelines)
{
    luo_mem m = {0};
    luo_mem_state(parameters, luo_dtype_bytes(k->job->base->dtype), 4, k->job->base->zero,
                  pipelines, &m);
    return ((double)(m.weights + m.gradients + m.optimizer) + parameters) / MIB;
}

static luo_mem_spec spec_of(const luo_kinds *k, const place *p)
{
    const luo_plan *base = k->job->base;
    return (luo_mem_spec){.model = k->job->model, .sequence_tokens = k->sequence_tokens,
                          .tp = p->size, .sequence_parallel = base->sequence_parallel,
                          .micro_batch_tokens = k->sequence_tokens * base->micro_batch_sequences,
                          .attention_fused = k->job->stack->attention_fused};
}

/* The table counts from the last stage, which has its last entry; smaller groups hold more. */
static double layer_mib(const luo_kinds *k, const place *p)
{
    const luo_malleus_params *q = k->job->params;
    const int32_t in_flight = p->stages - p->stage;
    const int recompute = (int)k->job->base->pipelines[0].stages[0].recompute;
    const luo_mem_spec s = spec_of(k, p);
    if (k->job->memory_table)
        return in_flight <= q->nk ? q->k_mib[q->nk - in_flight] * k->tp / p->size : INFINITY;
    return state_mib(k, k->layer_parameters / p->size, p->pipelines) +
           in_flight * luo_mem_layer_activations(&s, recompute) / MIB;
}

/* Embedding and head, one of them or both in one stage. */
static double tables_mib(const luo_kinds *k, const place *p)
{
    const luo_malleus_params *q = k->job->params;
    const luo_model *m = k->job->model;
    const bool first = p->stage == 0, last = p->stage == p->stages - 1;
    const double n = first && last && m->tied_embeddings ? 1 : (double)first + (double)last;
    if (q && q->emb_mib > 0) return first || last ? q->emb_mib * k->tp / p->size : 0;
    return n * state_mib(k, (double)luo_mem_vocab(m, p->size) * (double)m->hidden / p->size,
                         p->pipelines);
}

/* Context, and logits with their gradient. */
static double extra_mib(const luo_kinds *k, const place *p)
{
    const luo_malleus_params *q = k->job->params;
    const luo_mem_spec s = spec_of(k, p);
    if (q && q->extra_mib > 0) return q->extra_mib;
    return k->room[p->kind].context + (double)s.micro_batch_tokens / p->size * 6 / MIB *
                                          (double)luo_mem_vocab(k->job->model, p->size);
}

static line line_of(const luo_kinds *k, const place *p)
{
    const luo_mem_spec s = spec_of(k, p);
    line l = {tables_mib(k, p) + extra_mib(k, p), layer_mib(k, p)};
    if (!k->job->memory_table &&
        k->job->base->pipelines[0].stages[0].recompute == LUO_RECOMPUTE_FULL)
        l.fixed += luo_mem_layer_activations(&s, 0) / MIB; /* of the layer run again */
    return l;
}

int64_t luo_kinds_cap(const void *ctx, int32_t kind, int32_t size, int32_t stages, int32_t stage,
                      int32_t pipelines)
{
    const luo_kinds *k = ctx;
    const place p = {kind, size, stages, stage, pipelines};
    const line l = line_of(k, &p);
    const double left = k->room[kind].bound - k->room[kind].gap - l.fixed;
    return left > 0 ? (int64_t)floor(left / l.per_layer) : 0;
}

double luo_kinds_mib(const luo_kinds *k, int32_t kind, int32_t size, int32_t stages,
                     int32_t stage, int32_t pipelines, int64_t layers)
{
    const place p = {kind, size, stages, stage, pipelines};
    const line l = line_of(k, &p);
    return layers > 0 ? l.fixed + l.per_layer * (double)layers : l.fixed;
}
