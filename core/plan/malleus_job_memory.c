/* Most layers a stage can hold (Malleus 7): by the table of `--params`, or from the model. */
#include <math.h>

#include "core/cost/memory.h"
#include "core/plan/malleus_job_build.h"

static const double MIB = 1048576.0;

/* ---- 7.1: the table. k_mib counts from the last stage: it has the last entry. ---- */

static double table_k(const luo_malleus_params *q, int32_t in_flight)
{
    return in_flight <= q->nk ? q->k_mib[q->nk - in_flight] : INFINITY;
}

static int64_t table_cap(const luo_kinds *k, const luo_kind_room *room, int32_t size,
                         int32_t stages, int32_t stage)
{
    const luo_malleus_params *q = k->job->params;
    const double h = (double)k->tp / size;
    const double emb = stage == 0 || stage == stages - 1 ? q->emb_mib : 0;
    const double left = (room->bound - room->gap - q->extra_mib) / h - emb;
    return left > 0 ? (int64_t)floor(left / table_k(q, stages - stage)) : 0;
}

static double table_mib(const luo_kinds *k, int32_t size, int32_t stages, int32_t stage,
                        int64_t layers)
{
    const luo_malleus_params *q = k->job->params;
    const double emb = stage == 0 || stage == stages - 1 ? q->emb_mib : 0;
    const double per = layers > 0 ? table_k(q, stages - stage) * (double)layers : 0;
    return (per + emb) * k->tp / size + q->extra_mib;
}

/* ---- 7.2: the model. Memory of a stage is fixed + layers * per_layer. ---- */

typedef struct line {
    double fixed, per_layer; /* MiB */
} line;

/* Weights, gradients in f32 and what is made of them in passing, optimizer (ZeRO shares it between
 * the pipelines). */
static double state_mib(const luo_kinds *k, double parameters, int32_t pipelines)
{
    luo_mem m = {0};
    luo_mem_state(parameters, luo_dtype_bytes(k->job->base->dtype), 4, k->job->base->zero,
                  pipelines, &m);
    return ((double)(m.weights + m.gradients + m.optimizer) + parameters) / MIB;
}

static double tables(const luo_model *m, int32_t stages, int32_t stage)
{
    const bool first = stage == 0, last = stage == stages - 1;
    return first && last && m->tied_embeddings ? 1 : (double)first + (double)last;
}

static line model_line(const luo_kinds *k, const luo_kind_room *room, int32_t size,
                       int32_t stages, int32_t stage, int32_t pipelines)
{
    const luo_malleus_job *job = k->job;
    const luo_model *m = job->model;
    const int recompute = (int)job->base->pipelines[0].stages[0].recompute;
    const luo_mem_spec s = {.model = m, .sequence_tokens = k->sequence_tokens, .tp = size,
                            .micro_batch_tokens =
                                k->sequence_tokens * job->base->micro_batch_sequences,
                            .sequence_parallel = job->base->sequence_parallel,
                            .attention_fused = job->stack->attention_fused};
    const double vocab = (double)luo_mem_vocab(m, size);
    const double act = luo_mem_layer_activations(&s, recompute) / MIB;
    line l = {.fixed = room->context + (double)s.micro_batch_tokens * vocab / size * 6 / MIB};
    l.fixed += tables(m, stages, stage) *
               state_mib(k, vocab * (double)m->hidden / size, pipelines);
    if (recompute == 2) l.fixed += luo_mem_layer_activations(&s, 0) / MIB;
    l.per_layer = state_mib(k, k->layer_parameters / size, pipelines) + (stages - stage) * act;
    return l;
}

/* ---- either ---- */

int64_t luo_kinds_cap(const void *ctx, int32_t kind, int32_t size, int32_t stages, int32_t stage,
                      int32_t pipelines)
{
    const luo_kinds *k = ctx;
    const luo_kind_room *room = &k->room[kind];
    if (k->job->memory_table) return table_cap(k, room, size, stages, stage);
    const line l = model_line(k, room, size, stages, stage, pipelines);
    const double left = room->bound - room->gap - l.fixed;
    return left > 0 ? (int64_t)floor(left / l.per_layer) : 0;
}

double luo_kinds_mib(const luo_kinds *k, int32_t kind, int32_t size, int32_t stages,
                     int32_t stage, int32_t pipelines, int64_t layers)
{
    if (k->job->memory_table) return table_mib(k, size, stages, stage, layers);
    const line l = model_line(k, &k->room[kind], size, stages, stage, pipelines);
    return l.fixed + l.per_layer * (double)layers;
}
