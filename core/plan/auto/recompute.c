/* Stages by time and memory. */
#include "core/plan/auto/recompute.h"

#include <math.h>
#include <string.h>

#include "core/cost/step/memory.h"
#include "core/cost/step/layer.h"

typedef struct stage_cost { /* slowest, and fullest, pipeline */
    double layer, again;    /* seconds of a layer and micro-batch; what recomputing it adds */
    double ends;            /* embedding, head */
    double *room_bytes;     /* per pipeline: what its fullest device has */
    int32_t *recompute;     /* by number of layers: how many of them have to be; -1: no room */
} stage_cost;

typedef struct balancing {
    luo_arena *arena;
    const luo_auto_recompute_in *in;
    const luo_plan *plan;
    luo_cost_ctx cost;
    luo_memory_rules rules;
    int32_t stages, layers;
    stage_cost *stage;
    luo_err *err;
} balancing;

bool luo_auto_recompute_knows(const luo_plan *plan, const luo_model *model)
{
    if (plan->nannotations || plan->nassignment || model->moe.experts > 0 ||
        !luo_model_has_layers(model))
        return false;
    if (luo_sched_splits(plan->schedule)) return false;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        if (plan->pipelines[i].nstages != plan->pipelines[0].nstages) return false;
        if (plan->pipelines[i].micro_batch_tokens) return false;
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (plan->pipelines[i].stages[s].nreroute) return false;
    }
    return true;
}

/* ---- seconds ---- */

static luo_layer_shape shape_of(const balancing *b, int32_t pipeline, const luo_stage *st)
{
    const luo_pipeline *p = &b->plan->pipelines[pipeline];
    return luo_layer_of(b->in->model, p->micro_batch_sequences, b->in->sequence_tokens,
                        luo_stage_tp(st), luo_plan_context(b->plan, b->in->model->causal, pipeline),
                        b->plan->sequence_parallel);
}

static double slowest_rate(const balancing *b, const luo_stage *st)
{
    double rate = 1;
    for (int32_t k = 0; k < st->ndev && b->in->rate; k++)
        rate = fmax(rate, b->in->rate[st->dev[k]]);
    return rate;
}

static luo_status ends_of(const balancing *b, const luo_layer_shape *shape, const luo_stage *st,
                          double *out)
{
    luo_pair_cost cost;
    *out = 0;
    if (st->embedding) {
        LUO_TRY(luo_cost_embedding(&b->cost, shape, st->dev, &cost, b->err));
        *out += cost.forward + cost.backward;
    }
    if (st->head) {
        LUO_TRY(luo_cost_head(&b->cost, shape, st->dev, &cost, b->err));
        *out += cost.forward + cost.backward;
    }
    return LUO_OK;
}

static luo_status price_stage(const balancing *b, int32_t pipeline, int32_t s)
{
    const luo_stage *st = &b->plan->pipelines[pipeline].stages[s];
    const luo_layer_shape shape = shape_of(b, pipeline, st);
    const double rate = slowest_rate(b, st);
    luo_layer_cost plain, full;
    double ends;
    LUO_TRY(luo_cost_layer(&b->cost, &shape, st->dev, LUO_RECOMPUTE_NONE, &plain, b->err));
    LUO_TRY(luo_cost_layer(&b->cost, &shape, st->dev, LUO_RECOMPUTE_FULL, &full, b->err));
    LUO_TRY(ends_of(b, &shape, st, &ends));
    stage_cost *cost = &b->stage[s];
    const double layer = rate * (plain.forward + plain.backward);
    cost->again = fmax(cost->again, rate * (full.backward - plain.backward));
    cost->layer = fmax(cost->layer, layer);
    cost->ends = fmax(cost->ends, rate * ends);
    return LUO_OK;
}

/* ---- memory ---- */

static luo_mem_spec memory_spec(const balancing *b, int32_t pipeline, int32_t s, double layers,
                                double recompute)
{
    const luo_plan *plan = b->plan;
    const luo_pipeline *p = &plan->pipelines[pipeline];
    const luo_stage *st = &p->stages[s];
    const bool keeps = plan->zero == 3 && plan->sharding.kind == LUO_SHARD_GRAD_OP;
    const luo_bucketing own = {.rule = keeps ? LUO_BUCKET_UNIT : LUO_BUCKET_UNSAID};
    const bool groups = plan->zero == 3 && plan->sharding.kind == LUO_SHARD_HYBRID;
    return (luo_mem_spec){.model = b->in->model,
                          .layers = layers,
                          .recompute_layers = recompute,
                          .recompute = LUO_RECOMPUTE_FULL,
                          .sequence_tokens = b->in->sequence_tokens,
                          .micro_batch_tokens = b->in->sequence_tokens * p->micro_batch_sequences,
                          .tp = luo_stage_tp(st),
                          .context = luo_plan_context(plan, b->in->model->causal, pipeline),
                          .stage = s,
                          .stages = p->nstages,
                          .chunks = plan->chunks,
                          .micro_batches = p->micro_batches,
                          .replicas = groups ? plan->sharding.pipelines : plan->npipelines,
                          .zero = keeps ? 2 : plan->zero,
                          .bucket = luo_bucketing_of(own, b->in->stack->bucket),
                          .gathered = luo_sharding_depth(&plan->sharding) + 1,
                          .schedule = plan->schedule,
                          .embedding = st->embedding,
                          .head = st->head,
                          .sequence_parallel = plan->sequence_parallel,
                          .attention_fused = b->in->stack->attention_fused,
                          .rules = &b->rules};
}

static double room_of(const balancing *b, const luo_stage *st)
{
    const double factor = b->in->memory_factor > 0 ? b->in->memory_factor : 1;
    double room = INFINITY;
    for (int32_t k = 0; k < st->ndev; k++) {
        const luo_profile *prof = luo_cluster_profile(b->in->cluster, st->dev[k]);
        room = fmin(room, factor * prof->memory_bytes - prof->reserved_bytes);
    }
    return room;
}

/* Does the pipeline need as much as the one before, and has no less room? */
static bool like_before(const balancing *b, int32_t pipeline, int32_t s)
{
    const luo_pipeline *now = &b->plan->pipelines[pipeline], *was = now - 1;
    const double *room = b->stage[s].room_bytes;
    return now->stages[s].ndev == was->stages[s].ndev &&
           now->stages[s].context_parallel == was->stages[s].context_parallel &&
           now->micro_batches == was->micro_batches && room[pipeline] >= room[pipeline - 1];
}

static bool fits(const balancing *b, int32_t s, int32_t layers, int32_t recompute)
{
    for (int32_t i = 0; i < b->plan->npipelines; i++) {
        const luo_mem_spec spec = memory_spec(b, i, s, layers, recompute);
        luo_mem mem;
        if (i > 0 && like_before(b, i, s)) continue;
        luo_mem_stage(&spec, &mem);
        if ((double)mem.needed > b->stage[s].room_bytes[i]) return false;
    }
    return true;
}

/* The fewest layers that have to be recomputed. */
static int32_t least_recompute(const balancing *b, int32_t s, int32_t layers)
{
    int32_t lo = 0, hi = layers;
    if (fits(b, s, layers, 0)) return 0;
    if (!fits(b, s, layers, layers)) return -1;
    while (hi - lo > 1) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (fits(b, s, layers, mid))
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

static luo_status weigh_stage(const balancing *b, int32_t s)
{
    stage_cost *cost = &b->stage[s];
    const int32_t most = b->layers - b->stages + 1;
    cost->room_bytes = LUO_NEW_N(b->arena, double, b->plan->npipelines);
    cost->recompute = LUO_NEW_N(b->arena, int32_t, most + 1);
    if (!cost->room_bytes || !cost->recompute) return luo_err_nomem(b->err);
    for (int32_t i = 0; i < b->plan->npipelines; i++)
        cost->room_bytes[i] = room_of(b, &b->plan->pipelines[i].stages[s]);
    for (int32_t n = 1; n <= most; n++)
        cost->recompute[n] = n > 1 && cost->recompute[n - 1] < 0 ? -1 : least_recompute(b, s, n);
    return LUO_OK;
}

/* ---- the programme ---- */

typedef struct best_cut { /* of the first stages, with so many layers in all */
    double most, sum;
    int32_t own; /* layers of the last of these stages */
} best_cut;

static double seconds_of(const stage_cost *cost, int32_t layers)
{
    return layers * cost->layer + cost->recompute[layers] * cost->again + cost->ends;
}

static void extend(const balancing *b, int32_t s, const best_cut *before, best_cut *now)
{
    const stage_cost *cost = &b->stage[s];
    const int32_t most = b->layers - b->stages + 1;
    for (int32_t all = s + 1; all <= b->layers; all++) {
        now[all] = (best_cut){INFINITY, INFINITY, 0};
        for (int32_t n = 1; n <= most && n <= all - s; n++) {
            const best_cut *cut = &before[all - n];
            if (cost->recompute[n] < 0) break;
            const double own = seconds_of(cost, n), peak = fmax(cut->most, own),
                         sum = cut->sum + own;
            if (peak < now[all].most || (peak == now[all].most && sum < now[all].sum))
                now[all] = (best_cut){peak, sum, n};
        }
    }
}

/* own: layers of each stage. */
static luo_status cut(const balancing *b, int32_t *own, luo_auto_recomputed *out)
{
    const int32_t width = b->layers + 1;
    best_cut *table = LUO_NEW_N(b->arena, best_cut, (int64_t)(b->stages + 1) * width);
    if (!table) return luo_err_nomem(b->err);
    for (int32_t l = 1; l < width; l++) table[l] = (best_cut){INFINITY, INFINITY, 0};
    for (int32_t s = 0; s < b->stages; s++)
        extend(b, s, table + (int64_t)s * width, table + (int64_t)(s + 1) * width);
    if (!isfinite(table[(int64_t)b->stages * width + b->layers].most))
        return luo_err_set(b->err, LUO_EINFEASIBLE,
                           "%d layers do not fit in %d stages with all of them recomputed.",
                           b->layers, b->stages);
    const best_cut *best = &table[(int64_t)b->stages * width + b->layers];
    out->slowest_s = best->most;
    out->sum_s = best->sum;
    for (int32_t s = b->stages, left = b->layers; s > 0; s--) {
        own[s - 1] = table[(int64_t)s * width + left].own;
        left -= own[s - 1];
    }
    return LUO_OK;
}

static int32_t layers_of(const luo_range *range, int32_t n)
{
    int32_t layers = 0;
    for (int32_t k = 0; k < n; k++) layers += range[k].hi - range[k].lo;
    return layers;
}

/* The plan as it was given. */
static void price_given(const balancing *b, luo_auto_recomputed *out)
{
    const luo_pipeline *pipeline = &b->plan->pipelines[0];
    out->was_slowest_s = out->was_sum_s = 0;
    for (int32_t s = 0; s < b->stages; s++) {
        const luo_stage *st = &pipeline->stages[s];
        const stage_cost *cost = &b->stage[s];
        const int32_t layers = layers_of(st->layers, st->nlayers);
        const int32_t again = st->recompute != LUO_RECOMPUTE_FULL ? 0
                              : st->nrecompute ? layers_of(st->recompute_layers, st->nrecompute)
                                               : layers;
        const double seconds = layers * cost->layer + again * cost->again + cost->ends;
        out->was_slowest_s = fmax(out->was_slowest_s, seconds);
        out->was_sum_s += seconds / b->plan->chunks;
    }
}

/* Several chunks: the layers are as they are. */
static luo_status keep(const balancing *b, int32_t *own, luo_auto_recomputed *out)
{
    const luo_pipeline *pipeline = &b->plan->pipelines[0];
    out->slowest_s = out->sum_s = 0;
    for (int32_t s = 0; s < b->stages; s++) {
        own[s] = layers_of(pipeline->stages[s].layers, pipeline->stages[s].nlayers);
        if (b->stage[s].recompute[own[s]] < 0)
            return luo_err_set(b->err, LUO_EINFEASIBLE,
                               "%d layers do not fit on stage %d with all of them recomputed.",
                               own[s], s);
        out->slowest_s = fmax(out->slowest_s, seconds_of(&b->stage[s], own[s]));
        out->sum_s += seconds_of(&b->stage[s], own[s]) / b->plan->chunks;
    }
    return LUO_OK;
}

/* ---- the plan ---- */

/* Layers lo .. of one chunk, the first `again` of them recomputed. */
static luo_status set_stage(const balancing *b, int32_t lo, int32_t layers, int32_t again,
                            luo_stage *st)
{
    luo_range *at = LUO_NEW_N(b->arena, luo_range, 2);
    if (!at) return luo_err_nomem(b->err);
    at[0] = (luo_range){lo, lo + layers};
    at[1] = (luo_range){lo, lo + again};
    st->nlayers = 1;
    st->layers = at;
    st->recompute = again ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
    st->nrecompute = again && again < layers;
    st->recompute_layers = st->nrecompute ? at + 1 : NULL;
    return LUO_OK;
}

/* Layers of several chunks stay; of each as many are recomputed as of the others. */
static luo_status set_chunks(const balancing *b, int32_t again, luo_stage *st)
{
    luo_range *at = LUO_NEW_N(b->arena, luo_range, st->nlayers);
    int32_t n = 0;
    if (!at) return luo_err_nomem(b->err);
    for (int32_t c = 0; c < st->nlayers; c++) {
        const int32_t lo = st->layers[c].lo, most = st->layers[c].hi - lo;
        int32_t own = again / st->nlayers + (c < again % st->nlayers);
        if (own > most) own = most;
        if (own > 0) at[n++] = (luo_range){lo, lo + own};
    }
    st->recompute = again ? LUO_RECOMPUTE_FULL : LUO_RECOMPUTE_NONE;
    st->nrecompute = n;
    st->recompute_layers = n ? at : NULL;
    return LUO_OK;
}

static luo_status rewrite(const balancing *b, const int32_t *own, luo_plan **out)
{
    LUO_TRY(luo_plan_copy(b->arena, b->plan, out, b->err));
    luo_pipeline *pipelines = LUO_NEW_N(b->arena, luo_pipeline, b->plan->npipelines);
    if (!pipelines) return luo_err_nomem(b->err);
    for (int32_t i = 0; i < b->plan->npipelines; i++) {
        luo_stage *stages = LUO_NEW_N(b->arena, luo_stage, b->stages);
        if (!stages) return luo_err_nomem(b->err);
        pipelines[i] = (*out)->pipelines[i];
        memcpy(stages, pipelines[i].stages, (size_t)b->stages * sizeof *stages);
        for (int32_t s = 0, lo = 0; s < b->stages; lo += own[s++]) {
            const int32_t again = b->stage[s].recompute[own[s]];
            LUO_TRY(b->plan->chunks > 1 ? set_chunks(b, again, &stages[s])
                                        : set_stage(b, lo, own[s], again, &stages[s]));
        }
        pipelines[i].stages = stages;
    }
    (*out)->pipelines = pipelines;
    return LUO_OK;
}

luo_status luo_auto_recompute(luo_arena *arena, const luo_auto_recompute_in *in,
                              const luo_plan *plan, luo_auto_recomputed *out, luo_err *err)
{
    balancing b = {.arena = arena,
                   .in = in,
                   .plan = plan,
                   .cost = {.cluster = in->cluster, .stack = in->stack, .dtype = plan->dtype},
                   .rules = luo_stack_memory(in->stack),
                   .stages = plan->pipelines[0].nstages,
                   .layers = plan->layers,
                   .err = err};
    int32_t *own = LUO_NEW_N(arena, int32_t, b.stages);
    b.stage = LUO_NEW_N(arena, stage_cost, b.stages);
    if (!own || !b.stage) return luo_err_nomem(err);
    for (int32_t s = 0; s < b.stages; s++) {
        for (int32_t i = 0; i < plan->npipelines; i++) LUO_TRY(price_stage(&b, i, s));
        LUO_TRY(weigh_stage(&b, s));
    }
    price_given(&b, out);
    LUO_TRY(plan->chunks > 1 ? keep(&b, own, out) : cut(&b, own, out));
    return rewrite(&b, own, &out->plan);
}
