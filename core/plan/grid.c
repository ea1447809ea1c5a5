#include "core/plan/grid.h"

#include <assert.h>
#include <string.h>

static int32_t chunks_of(const luo_grid *g)
{
    return g->chunks > 1 ? g->chunks : 1;
}

/* Layers of a virtual stage, and the first of them. */
static luo_range range_of(const luo_grid *g, int32_t chunk, int32_t stage)
{
    const int32_t at = chunk * g->stages + stage;
    const int64_t equal = g->model->layers / g->stages / chunks_of(g);
    int64_t lo = at * equal, n = equal;
    if (g->layers) {
        lo = 0;
        for (int32_t i = 0; i < at; i++) lo += g->layers[i];
        n = g->layers[at];
    }
    return (luo_range){(int32_t)lo, (int32_t)(lo + n)};
}

static luo_status make_stage(luo_arena *arena, const luo_grid *g, int32_t pipeline, int32_t stage,
                             luo_stage *out, luo_err *err)
{
    const int32_t chunks = chunks_of(g), context = g->context_parallel ? g->context_parallel : 1;
    const int32_t width = g->tp * context;
    luo_range *range = LUO_NEW_N(arena, luo_range, chunks);
    int32_t *dev = LUO_NEW_N(arena, int32_t, width);
    if (!range || !dev) return luo_err_nomem(err);
    for (int32_t c = 0; c < chunks; c++) range[c] = range_of(g, c, stage);
    memcpy(dev, g->dev + ((int64_t)pipeline * g->stages + stage) * width,
           (size_t)width * sizeof *dev);
    *out = (luo_stage){.nlayers = chunks, .layers = range, .ndev = width, .dev = dev,
                       .context_parallel = context, .recompute = g->recompute,
                       .embedding = stage == 0, .head = stage == g->stages - 1};
    return LUO_OK;
}

static luo_status make_pipeline(luo_arena *arena, const luo_grid *g, int32_t pipeline,
                                luo_pipeline *out, luo_err *err)
{
    luo_stage *stages = LUO_NEW_N(arena, luo_stage, g->stages);
    const int64_t own = g->pipeline_micro_batches ? g->pipeline_micro_batches[pipeline]
                                                  : g->micro_batches;
    if (!stages) return luo_err_nomem(err);
    for (int32_t s = 0; s < g->stages; s++)
        LUO_TRY(make_stage(arena, g, pipeline, s, &stages[s], err));
    assert(range_of(g, chunks_of(g) - 1, g->stages - 1).hi == g->model->layers);
    *out = (luo_pipeline){.micro_batches = (int32_t)own,
                          .micro_batch_sequences = g->micro_batch_sequences, .nstages = g->stages,
                          .stages = stages};
    return LUO_OK;
}

luo_status luo_plan_grid(luo_arena *arena, const luo_grid *g, luo_plan **out, luo_err *err)
{
    luo_plan *p = LUO_NEW(arena, luo_plan);
    luo_pipeline *pipelines = LUO_NEW_N(arena, luo_pipeline, g->pipelines);
    const char *name = luo_arena_strdup(arena, g->name);
    if (!p || !pipelines || !name) return luo_err_nomem(err);
    for (int32_t d = 0; d < g->pipelines; d++)
        LUO_TRY(make_pipeline(arena, g, d, &pipelines[d], err));
    *p = (luo_plan){.name = name, .model = g->model->name, .cluster = g->cluster->name,
                    .layers = (int32_t)g->model->layers, .devices = g->cluster->ndevices,
                    .dtype = g->dtype, .sequence_tokens = g->sequence_tokens,
                    .micro_batch_sequences = g->micro_batch_sequences, .zero = g->zero,
                    .sequence_parallel = g->sequence_parallel, .staggered = g->staggered,
                    .schedule = chunks_of(g) > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B,
                    .chunks = chunks_of(g), .npipelines = g->pipelines, .pipelines = pipelines};
    *out = p;
    return LUO_OK;
}
