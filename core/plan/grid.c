#include "core/plan/grid.h"

#include <assert.h>
#include <string.h>

static int32_t chunks_of(const luo_grid *g)
{
    return g->chunks > 1 ? g->chunks : 1;
}

/* first: the first layer of the stage's first chunk; the others follow a whole pipeline later. */
static luo_status make_stage(luo_arena *arena, const luo_grid *g, int32_t pipeline, int32_t stage,
                             int64_t first, int64_t layers, luo_stage *out, luo_err *err)
{
    const int32_t chunks = chunks_of(g), context = g->context_parallel ? g->context_parallel : 1;
    const int32_t width = g->tp * context;
    luo_range *range = LUO_NEW_N(arena, luo_range, chunks);
    int32_t *dev = LUO_NEW_N(arena, int32_t, width);
    if (!range || !dev) return luo_err_nomem(err);
    for (int32_t c = 0; c < chunks; c++) {
        const int64_t lo = first + c * g->stages * layers;
        range[c] = (luo_range){(int32_t)lo, (int32_t)(lo + layers)};
    }
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
    const int64_t equal = g->model->layers / g->stages / chunks_of(g);
    int64_t first = 0;
    if (!stages) return luo_err_nomem(err);
    for (int32_t s = 0; s < g->stages; s++) {
        const int64_t layers = g->layers ? g->layers[s] : equal;
        LUO_TRY(make_stage(arena, g, pipeline, s, first, layers, &stages[s], err));
        first += layers;
    }
    assert(first * chunks_of(g) == g->model->layers);
    *out = (luo_pipeline){.micro_batches = (int32_t)g->micro_batches,
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
                    .sequence_parallel = g->sequence_parallel,
                    .schedule = chunks_of(g) > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B,
                    .chunks = chunks_of(g), .npipelines = g->pipelines, .pipelines = pipelines};
    *out = p;
    return LUO_OK;
}
