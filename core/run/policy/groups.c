/* Groups of whole nodes, and what they take and hold by closed forms. */
#include "core/run/policy/groups.h"

#include <math.h>
#include <string.h>

#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"

const luo_stage *luo_groups_pattern(const luo_snapshot *now)
{
    return &now->base->pipelines[0].stages[0];
}

/* Largest tensor-parallel size of the base plan, which new groups have as well. */
static int32_t full_size(const luo_plan *plan)
{
    int32_t tp = 1;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (plan->pipelines[i].stages[s].ndev > tp) tp = plan->pipelines[i].stages[s].ndev;
    return tp;
}

/* Groups of one kind are alike, those that mix types are not. */
static luo_status layer_seconds(luo_groups *g, const int32_t *dev, double *out, luo_err *err)
{
    const luo_snapshot *now = g->now;
    const luo_device *at = now->scenario->cluster->devices;
    double mixed = 0, *known = &g->layer_s[at[dev[0]].kind];
    for (int32_t i = 1; i < g->tp; i++)
        if (at[dev[i]].kind != at[dev[0]].kind) known = &mixed;
    if (*known == 0) {
        const luo_cost_ctx ctx = {.cluster = now->scenario->cluster,
                                  .stack = &now->scenario->stack, .dtype = now->base->dtype};
        const luo_context none = {.c = 1, .inner = 1};
        luo_layer_shape shape =
            luo_layer_of(now->scenario->model, now->base->micro_batch_sequences,
                         now->sequence_tokens, g->tp, none, now->base->sequence_parallel);
        luo_layer_cost c;
        shape.layer = now->scenario->model->layers - 1;
        LUO_TRY(
            luo_cost_layer(&ctx, &shape, dev, (int)luo_groups_pattern(now)->recompute, &c, err));
        *known = c.forward + c.backward;
    }
    *out = *known;
    return LUO_OK;
}

static bool node_stays(const luo_snapshot *now, const luo_node *node, bool slow_too)
{
    const luo_cluster *cluster = now->scenario->cluster;
    for (int32_t s = 0; s < cluster->groups[node->group].devices_per_node; s++) {
        const int32_t d = node->first_device + s;
        if (isinf(now->rate[d]) || now->leaving[d]) return false;
        if (!slow_too && now->rate[d] >= now->spec->threshold_slowdown) return false;
    }
    return true;
}

static luo_status add_group(luo_groups *g, const int32_t *dev, luo_err *err)
{
    double worst = 1, y;
    memcpy(g->dev + (int64_t)g->n * g->tp, dev, (size_t)g->tp * sizeof *dev);
    for (int32_t i = 0; i < g->tp; i++) worst = fmax(worst, g->now->rate[dev[i]]);
    LUO_TRY(layer_seconds(g, dev, &y, err));
    g->y[g->n++] = worst < g->now->spec->threshold_slowdown ? y : y * worst;
    return LUO_OK;
}

static luo_status make_arrays(luo_arena *arena, luo_groups *g, luo_err *err)
{
    const luo_cluster *cluster = g->now->scenario->cluster;
    g->dev = LUO_NEW_N(arena, int32_t, cluster->ndevices);
    g->y = LUO_NEW_N(arena, double, cluster->ndevices);
    g->first = LUO_NEW_N(arena, int32_t, cluster->nnodes + 1);
    g->kind = LUO_NEW_N(arena, int32_t, cluster->nnodes);
    g->layer_s = LUO_NEW_N(arena, double, cluster->nkinds);
    g->caps = LUO_NEW_N(arena, luo_groups_cap_memo, cluster->nkinds);
    return g->dev && g->y && g->first && g->kind && g->layer_s && g->caps ? LUO_OK
                                                                          : luo_err_nomem(err);
}

/* Are the groups of the last two nodes alike? */
static bool as_before(const luo_groups *g)
{
    const luo_cluster *cluster = g->now->scenario->cluster;
    if (g->nnodes < 2) return false;
    const int32_t *f = g->first + g->nnodes, n = f[0] - f[-1];
    if (n != f[-1] - f[-2]) return false;
    const int32_t a = g->dev[(int64_t)f[-2] * g->tp], b = g->dev[(int64_t)f[-1] * g->tp];
    return cluster->devices[a].group == cluster->devices[b].group &&
           memcmp(g->y + f[-2], g->y + f[-1], (size_t)n * sizeof *g->y) == 0;
}

luo_status luo_groups_find(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                           luo_groups *out, luo_err *err)
{
    const luo_cluster *cluster = now->scenario->cluster;
    luo_groups g = {.now = now, .tp = full_size(now->base)};
    int32_t *dev = LUO_NEW_N(arena, int32_t, cluster->ndevices);
    if (!dev) return luo_err_nomem(err);
    LUO_TRY(make_arrays(arena, &g, err));
    for (int32_t d = 0; d < cluster->ndevices; d++) dev[d] = d;
    for (int32_t n = 0; n < cluster->nnodes; n++) {
        const luo_node *node = &cluster->nodes[n];
        if (!node_stays(now, node, slow_too)) continue;
        for (int32_t s = 0; s + g.tp <= cluster->groups[node->group].devices_per_node; s += g.tp)
            LUO_TRY(add_group(&g, dev + node->first_device + s, err));
        if (g.n == g.first[g.nnodes]) continue;
        g.first[++g.nnodes] = g.n;
        const int32_t last = g.nnodes - 1;
        g.kind[last] = as_before(&g) ? g.kind[last - 1] : last;
    }
    *out = g;
    return LUO_OK;
}

static double room_of(const luo_groups *g, int32_t dev)
{
    const luo_profile *profile = luo_cluster_profile(g->now->scenario->cluster, dev);
    return profile->memory_bytes * g->now->memory_factor - profile->reserved_bytes;
}

int64_t luo_groups_cap(const void *ctx, int32_t group, int32_t stages, int32_t stage,
                       int32_t pipelines, int64_t micro_batches)
{
    const luo_groups *g = ctx;
    const luo_snapshot *now = g->now;
    const int32_t *member = g->dev + (int64_t)group * g->tp;
    int32_t dev = member[0]; /* the one with least room */
    for (int32_t i = 1; i < g->tp; i++)
        if (room_of(g, member[i]) < room_of(g, dev)) dev = member[i];
    luo_groups_cap_memo *known = &g->caps[now->scenario->cluster->devices[dev].kind];
    if (known->stages == stages && known->stage == stage && known->pipelines == pipelines)
        return known->cap;
    const luo_memory_rules rules = luo_stack_memory(&now->scenario->stack);
    luo_mem_spec spec = {.model = now->scenario->model,
                         .rules = &rules,
                         .recompute_layers = -1,
                         .dense_layers = -1,
                         .recompute = (int)luo_groups_pattern(now)->recompute,
                         .micro_batch_tokens =
                             now->sequence_tokens * now->base->micro_batch_sequences,
                         .sequence_tokens = now->sequence_tokens,
                         .tp = g->tp,
                         .stage = stage,
                         .stages = stages,
                         .chunks = 1,
                         .micro_batches = (int32_t)micro_batches,
                         .replicas = pipelines,
                         .zero = now->base->zero,
                         .schedule = LUO_SCHED_1F1B,
                         .embedding = stage == 0,
                         .head = stage == stages - 1,
                         .sequence_parallel = now->base->sequence_parallel,
                         .attention_fused = now->scenario->stack.attention_fused};
    const double room = room_of(g, dev);
    int64_t lo = 0, hi = spec.model->layers;
    while (lo < hi) { /* most layers that fit: memory grows with them */
        luo_mem m;
        const int64_t mid = (lo + hi + 1) / 2;
        spec.layers = (double)mid;
        luo_mem_stage(&spec, &m);
        if ((double)m.needed <= room) lo = mid;
        else hi = mid - 1;
    }
    *known = (luo_groups_cap_memo){stages, stage, pipelines, lo};
    return lo;
}

luo_status luo_groups_times(luo_arena *arena, const luo_snapshot *now, luo_pipe_time **out,
                            luo_err *err)
{
    const luo_plan *plan = now->plan;
    luo_groups g = {.now = now};
    g.layer_s = LUO_NEW_N(arena, double, now->scenario->cluster->nkinds);
    luo_pipe_time *pipes = LUO_NEW_N(arena, luo_pipe_time, plan->npipelines);
    if (!g.layer_s || !pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        double *t = LUO_NEW_N(arena, double, pl->nstages);
        if (!t) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) {
            const luo_stage *st = &pl->stages[s];
            double worst = 1, y;
            g.tp = luo_stage_tp(st);
            memset(g.layer_s, 0, (size_t)now->scenario->cluster->nkinds * sizeof *g.layer_s);
            LUO_TRY(layer_seconds(&g, st->dev, &y, err));
            for (int32_t k = 0; k < st->ndev; k++) worst = fmax(worst, now->rate[st->dev[k]]);
            for (int32_t k = 0; k < st->nlayers; k++)
                t[s] += (st->layers[k].hi - st->layers[k].lo) * y *
                        (worst < now->spec->threshold_slowdown ? 1 : worst);
        }
        pipes[i] = (luo_pipe_time){pl->nstages, t, pl->micro_batches};
    }
    *out = pipes;
    return LUO_OK;
}

luo_status luo_groups_event(luo_arena *arena, const luo_snapshot *now, double *out, luo_err *err)
{
    luo_pipe_time *pipes;
    LUO_TRY(luo_groups_times(arena, now, &pipes, err));
    return luo_replan_event_time(arena, pipes, now->plan->npipelines,
                                 luo_groups_pattern(now)->recompute == LUO_RECOMPUTE_FULL, out,
                                 err);
}
