/* Memory and the closed form of a step of one uniform plan. */
#include <math.h>

#include "core/plan/uniform/uniform_internal.h"

static int64_t layers_of(const uniform_search *s, const uniform_shape *x, int32_t stage)
{
    int64_t n = 0;
    if (!x->layers) return s->model->layers / x->frame->pp;
    for (int32_t c = 0; c < x->chunks; c++) n += x->layers[c * x->frame->pp + stage];
    return n;
}

/* What is held in memory, which may have more experts than what is priced. */
static const luo_model *held(const uniform_search *s)
{
    return s->opts->shared ? s->opts->shared : s->model;
}

/* Layers without experts of the stage, chunk by chunk. */
static int64_t dense_layers(const uniform_search *s, const uniform_shape *x, int32_t stage)
{
    const luo_model *model = held(s);
    const int32_t pp = x->frame->pp;
    int64_t at = 0, n = 0;
    if (model->moe.experts == 0) return 0;
    for (int32_t v = 0; v < x->chunks * pp; v++) {
        const int64_t end = at + (x->layers ? x->layers[v] : model->layers / pp / x->chunks);
        if (v % pp == stage)
            n += end - at - luo_model_expert_layers(model, end) +
                 luo_model_expert_layers(model, at);
        at = end;
    }
    return n;
}

/* Whole stages side by side have the experts together; their gradients are cut once a step. */
static bool can_share(const uniform_search *s, const uniform_shape *x)
{
    const int32_t width = uniform_width(x->frame), share = s->opts->share;
    const int32_t pipelines = share / width;
    if (!s->opts->shared) return true;
    return share % width == 0 && x->frame->dp % pipelines == 0 && (pipelines == 1 || x->zero < 2);
}

/* Weights that are gathered once a step are whole as with ZeRO-2. */
static bool keeps_weights(const uniform_shape *x)
{
    return x->zero == 3 && x->shard == LUO_SHARD_GRAD_OP;
}

static luo_mem_spec memory_spec(const uniform_search *s, const uniform_shape *x, int32_t stage,
                                const luo_memory_rules *rules)
{
    const luo_uniform_opts *opts = s->opts;
    const uniform_frame *f = x->frame;
    const luo_bucketing own = {.rule = keeps_weights(x) ? LUO_BUCKET_UNIT
                                                          : LUO_BUCKET_UNSAID};
    return (luo_mem_spec){.model = held(s),
                          .layers = (double)layers_of(s, x, stage),
                          .dense_layers = (double)dense_layers(s, x, stage),
                          .experts_among = opts->shared ? opts->share : 0,
                          .recompute_layers = -1,
                          .recompute = f->recompute,
                          .sequence_tokens = opts->sequence_tokens,
                          .micro_batch_tokens = opts->sequence_tokens * f->micro_batch_sequences,
                          .tp = f->tp,
                          .context = f->context,
                          .stage = stage,
                          .stages = f->pp,
                          .chunks = x->chunks,
                          .micro_batches = (int32_t)f->micro_batches,
                          .replicas = x->group ? x->group : f->dp,
                          .zero = keeps_weights(x) ? 2 : x->zero,
                          .bucket = luo_bucketing_of(own, opts->stack->bucket),
                          .gathered = LUO_PREFETCH_DEFAULT + 1,
                          .schedule = x->schedule,
                          .embedding = stage == 0,
                          .head = stage == f->pp - 1,
                          .sequence_parallel = opts->sequence_parallel,
                          .attention_fused = opts->stack->attention_fused,
                          .rules = rules};
}

static void count(uniform_search *s, uniform_shape *x, int32_t dev, const luo_mem *m)
{
    const luo_profile *prof = luo_cluster_profile(s->cluster, dev);
    const double r = ((double)m->needed + prof->reserved_bytes) / prof->memory_bytes;
    if (r <= x->memory_ratio) return;
    x->memory_ratio = r;
    if (r <= 1 || r >= s->tightest) return;
    s->tight_device = dev;
    s->needs = m->needed;
    s->has = (int64_t)(prof->memory_bytes - prof->reserved_bytes);
}

/* Stages between two of equally many layers keep less than the first of them, but not where they
 * wait with more weight gradients. */
static bool like_before(const uniform_search *s, const uniform_shape *x, int32_t stage)
{
    return !luo_sched_splits(x->schedule) && stage > 1 && stage < x->frame->pp - 1 &&
           layers_of(s, x, stage) == layers_of(s, x, stage - 1) &&
           dense_layers(s, x, stage) == dense_layers(s, x, stage - 1);
}

void uniform_weigh(uniform_search *s, uniform_shape *x)
{
    const uniform_frame *f = x->frame;
    const luo_memory_rules rules = luo_stack_memory(s->opts->stack);
    const int32_t pipelines = s->several ? f->dp : 1, members = s->several ? uniform_width(f) : 1;
    x->memory_ratio = can_share(s, x) ? 0 : INFINITY;
    if (x->memory_ratio > 1) return;
    s->nmemory++;
    uniform_place(s, f);
    for (int32_t p = 0; p < f->pp; p++) {
        const luo_mem_spec spec = memory_spec(s, x, p, &rules);
        luo_mem m;
        if (!s->several && like_before(s, x, p)) continue;
        luo_mem_stage(&spec, &m);
        for (int32_t d = 0; d < pipelines; d++)
            for (int32_t i = 0; i < members; i++)
                count(s, x, uniform_stage(s, f, d, p)[i], &m);
    }
    if (x->memory_ratio > 1 && x->memory_ratio < s->tightest) s->tightest = x->memory_ratio;
}

luo_status uniform_price(uniform_search *s, uniform_shape *x)
{
    const luo_step_in in = {.model = s->model, .cluster = s->cluster, .stack = s->opts->stack,
                            .sequence_tokens = s->opts->sequence_tokens};
    const size_t mark = luo_arena_mark(s->scratch);
    luo_plan *plan;
    s->npriced++;
    LUO_TRY(uniform_make_plan(s, s->scratch, x, &plan));
    LUO_TRY(luo_plan_step(s->scratch, &in, plan, &x->cost, s->err));
    luo_arena_reset(s->scratch, mark);
    return LUO_OK;
}
