/* Memory and the closed form of a step of one uniform plan. */
#include <math.h>

#include "core/plan/uniform/uniform_internal.h"

static int64_t layers_of(const uniform_search *search, const uniform_shape *shape, int32_t stage)
{
    int64_t n = 0;
    if (!shape->layers) return search->model->layers / shape->frame->pp;
    for (int32_t c = 0; c < shape->chunks; c++) n += shape->layers[c * shape->frame->pp + stage];
    return n;
}

/* What is held in memory, which may have more experts than what is priced. */
static const luo_model *held(const uniform_search *search)
{
    return search->opts->shared ? search->opts->shared : search->model;
}

/* Layers without experts of the stage, chunk by chunk. */
static int64_t dense_layers(const uniform_search *search, const uniform_shape *shape, int32_t stage)
{
    const luo_model *model = held(search);
    const int32_t pp = shape->frame->pp;
    int64_t at = 0, n = 0;
    if (model->moe.experts == 0) return 0;
    for (int32_t v = 0; v < shape->chunks * pp; v++) {
        const int64_t end =
            at + (shape->layers ? shape->layers[v] : model->layers / pp / shape->chunks);
        if (v % pp == stage)
            n += end - at - luo_model_expert_layers(model, end) +
                 luo_model_expert_layers(model, at);
        at = end;
    }
    return n;
}

/* Whole stages side by side have the experts together; their gradients are cut once a step. */
static bool can_share(const uniform_search *search, const uniform_shape *shape)
{
    const int32_t width = uniform_width(shape->frame), share = search->opts->share;
    const int32_t pipelines = share / width;
    if (!search->opts->shared) return true;
    return share % width == 0 && shape->frame->dp % pipelines == 0 &&
           (pipelines == 1 || shape->zero < 2);
}

/* Weights that are gathered once a step are whole as with ZeRO-2. */
static bool keeps_weights(const uniform_shape *shape)
{
    return shape->zero == 3 && shape->shard == LUO_SHARD_GRAD_OP;
}

static luo_mem_spec memory_spec(const uniform_search *search, const uniform_shape *shape,
                                int32_t stage, const luo_memory_rules *rules)
{
    const luo_uniform_opts *opts = search->opts;
    const uniform_frame *frame = shape->frame;
    const luo_bucketing own = {.rule = keeps_weights(shape) ? LUO_BUCKET_UNIT : LUO_BUCKET_UNSAID};
    return (luo_mem_spec){.model = held(search),
                          .layers = (double)layers_of(search, shape, stage),
                          .dense_layers = (double)dense_layers(search, shape, stage),
                          .experts_among = opts->shared ? opts->share : 0,
                          .recompute_layers = -1,
                          .recompute = frame->recompute,
                          .sequence_tokens = opts->sequence_tokens,
                          .micro_batch_tokens =
                              opts->sequence_tokens * frame->micro_batch_sequences,
                          .tp = frame->tp,
                          .context = frame->context,
                          .stage = stage,
                          .stages = frame->pp,
                          .chunks = shape->chunks,
                          .micro_batches = (int32_t)frame->micro_batches,
                          .replicas = shape->group ? shape->group : frame->dp,
                          .zero = keeps_weights(shape) ? 2 : shape->zero,
                          .bucket = luo_bucketing_of(own, opts->stack->bucket),
                          .gathered = LUO_PREFETCH_DEFAULT + 1,
                          .schedule = shape->schedule,
                          .embedding = stage == 0,
                          .head = stage == frame->pp - 1,
                          .sequence_parallel = opts->sequence_parallel,
                          .attention_fused = opts->stack->attention_fused,
                          .rules = rules};
}

static void count(uniform_search *search, uniform_shape *shape, int32_t dev, const luo_mem *mem)
{
    const luo_profile *prof = luo_cluster_profile(search->cluster, dev);
    const double r = ((double)mem->needed + prof->reserved_bytes) / prof->memory_bytes;
    if (r <= shape->memory_ratio) return;
    shape->memory_ratio = r;
    if (r <= 1 || r >= search->tightest) return;
    search->tight_device = dev;
    search->needs = mem->needed;
    search->has = (int64_t)(prof->memory_bytes - prof->reserved_bytes);
}

/* Stages between two of equally many layers keep less than the first of them, but not where they
 * wait with more weight gradients. */
static bool like_before(const uniform_search *search, const uniform_shape *shape, int32_t stage)
{
    return !luo_sched_splits(shape->schedule) && stage > 1 && stage < shape->frame->pp - 1 &&
           layers_of(search, shape, stage) == layers_of(search, shape, stage - 1) &&
           dense_layers(search, shape, stage) == dense_layers(search, shape, stage - 1);
}

void uniform_weigh(uniform_search *search, uniform_shape *shape)
{
    const uniform_frame *frame = shape->frame;
    const luo_memory_rules rules = luo_stack_memory(search->opts->stack);
    const int32_t pipelines = search->several ? frame->dp : 1,
                  members = search->several ? uniform_width(frame) : 1;
    shape->memory_ratio = can_share(search, shape) ? 0 : INFINITY;
    if (shape->memory_ratio > 1) return;
    search->nmemory++;
    uniform_place(search, frame);
    for (int32_t p = 0; p < frame->pp; p++) {
        const luo_mem_spec spec = memory_spec(search, shape, p, &rules);
        luo_mem mem;
        if (!search->several && like_before(search, shape, p)) continue;
        luo_mem_stage(&spec, &mem);
        for (int32_t d = 0; d < pipelines; d++)
            for (int32_t i = 0; i < members; i++)
                count(search, shape, uniform_stage(search, frame, d, p)[i], &mem);
    }
    if (shape->memory_ratio > 1 && shape->memory_ratio < search->tightest)
        search->tightest = shape->memory_ratio;
}

luo_status uniform_price(uniform_search *search, uniform_shape *shape)
{
    const luo_step_in in = {.model = search->model,
                            .cluster = search->cluster,
                            .stack = search->opts->stack,
                            .sequence_tokens = search->opts->sequence_tokens};
    const size_t mark = luo_arena_mark(search->scratch);
    luo_plan *plan;
    search->npriced++;
    LUO_TRY(uniform_make_plan(search, search->scratch, shape, &plan));
    LUO_TRY(luo_plan_step(search->scratch, &in, plan, &shape->cost, search->err));
    luo_arena_reset(search->scratch, mark);
    return LUO_OK;
}
