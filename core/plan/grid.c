#include "core/plan/grid.h"

#include <assert.h>
#include <string.h>

static int32_t chunks_of(const luo_grid *grid)
{
    return grid->chunks > 1 ? grid->chunks : 1;
}

/* Layers of a virtual stage, and the first of them. */
static luo_range range_of(const luo_grid *grid, int32_t chunk, int32_t stage)
{
    const int32_t at = chunk * grid->stages + stage;
    const int64_t equal = grid->model->layers / grid->stages / chunks_of(grid);
    int64_t lo = at * equal, n = equal;
    if (grid->layers) {
        lo = 0;
        for (int32_t i = 0; i < at; i++) lo += grid->layers[i];
        n = grid->layers[at];
    }
    return (luo_range){(int32_t)lo, (int32_t)(lo + n)};
}

static luo_status make_stage(luo_arena *arena, const luo_grid *grid, int32_t pipeline,
                             int32_t stage, luo_stage *out, luo_err *err)
{
    const int32_t chunks = chunks_of(grid),
                  context = grid->context_parallel ? grid->context_parallel : 1;
    const int32_t width = grid->tp * context;
    luo_range *range = LUO_NEW_N(arena, luo_range, chunks);
    int32_t *dev = LUO_NEW_N(arena, int32_t, width);
    if (!range || !dev) return luo_err_nomem(err);
    for (int32_t c = 0; c < chunks; c++) range[c] = range_of(grid, c, stage);
    memcpy(dev, grid->dev + ((int64_t)pipeline * grid->stages + stage) * width,
           (size_t)width * sizeof *dev);
    *out = (luo_stage){.nlayers = chunks,
                       .layers = range,
                       .ndev = width,
                       .dev = dev,
                       .context_parallel = context,
                       .recompute = grid->recompute,
                       .embedding = stage == 0,
                       .head = stage == grid->stages - 1};
    return LUO_OK;
}

static luo_status make_pipeline(luo_arena *arena, const luo_grid *grid, int32_t pipeline,
                                luo_pipeline *out, luo_err *err)
{
    luo_stage *stages = LUO_NEW_N(arena, luo_stage, grid->stages);
    const int64_t own =
        grid->pipeline_micro_batches ? grid->pipeline_micro_batches[pipeline] : grid->micro_batches;
    if (!stages) return luo_err_nomem(err);
    for (int32_t s = 0; s < grid->stages; s++)
        LUO_TRY(make_stage(arena, grid, pipeline, s, &stages[s], err));
    assert(range_of(grid, chunks_of(grid) - 1, grid->stages - 1).hi == grid->model->layers);
    *out = (luo_pipeline){.micro_batches = (int32_t)own,
                          .micro_batch_sequences = grid->micro_batch_sequences,
                          .nstages = grid->stages,
                          .stages = stages};
    return LUO_OK;
}

luo_status luo_plan_grid(luo_arena *arena, const luo_grid *grid, luo_plan **out, luo_err *err)
{
    luo_plan *plan = LUO_NEW(arena, luo_plan);
    luo_pipeline *pipelines = LUO_NEW_N(arena, luo_pipeline, grid->pipelines);
    const char *name = luo_arena_strdup(arena, grid->name);
    if (!plan || !pipelines || !name) return luo_err_nomem(err);
    for (int32_t d = 0; d < grid->pipelines; d++)
        LUO_TRY(make_pipeline(arena, grid, d, &pipelines[d], err));
    *plan = (luo_plan){.name = name,
                       .model = grid->model->name,
                       .cluster = grid->cluster->name,
                       .layers = (int32_t)grid->model->layers,
                       .devices = grid->cluster->ndevices,
                       .dtype = grid->dtype,
                       .sequence_tokens = grid->sequence_tokens,
                       .micro_batch_sequences = grid->micro_batch_sequences,
                       .zero = grid->zero,
                       .sequence_parallel = grid->sequence_parallel,
                       .staggered = grid->staggered,
                       .schedule = chunks_of(grid) > 1 ? LUO_SCHED_INTERLEAVED : LUO_SCHED_1F1B,
                       .chunks = chunks_of(grid),
                       .npipelines = grid->pipelines,
                       .pipelines = pipelines};
    *out = plan;
    return LUO_OK;
}
