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
static luo_status layer_seconds(luo_groups *groups, const int32_t *dev, double *out, luo_err *err)
{
    const luo_snapshot *now = groups->now;
    const luo_device *at = now->scenario->cluster->devices;
    double mixed = 0, *known = &groups->layer_s[at[dev[0]].kind];
    for (int32_t i = 1; i < groups->tp; i++)
        if (at[dev[i]].kind != at[dev[0]].kind) known = &mixed;
    if (*known == 0) {
        const luo_cost_ctx ctx = {.cluster = now->scenario->cluster,
                                  .stack = &now->scenario->stack, .dtype = now->base->dtype};
        const luo_context none = {.c = 1, .inner = 1};
        luo_layer_shape shape =
            luo_layer_of(now->scenario->model, now->base->micro_batch_sequences,
                         now->sequence_tokens, groups->tp, none, now->base->sequence_parallel);
        luo_layer_cost cost;
        shape.layer = now->scenario->model->layers - 1;
        LUO_TRY(
            luo_cost_layer(&ctx, &shape, dev, (int)luo_groups_pattern(now)->recompute, &cost, err));
        *known = cost.forward + cost.backward;
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

static luo_status add_group(luo_groups *groups, const int32_t *dev, luo_err *err)
{
    double worst = 1, y;
    memcpy(groups->dev + (int64_t)groups->n * groups->tp, dev, (size_t)groups->tp * sizeof *dev);
    for (int32_t i = 0; i < groups->tp; i++) worst = fmax(worst, groups->now->rate[dev[i]]);
    LUO_TRY(layer_seconds(groups, dev, &y, err));
    groups->y[groups->n++] = worst < groups->now->spec->threshold_slowdown ? y : y * worst;
    return LUO_OK;
}

static luo_status make_arrays(luo_arena *arena, luo_groups *groups, luo_err *err)
{
    const luo_cluster *cluster = groups->now->scenario->cluster;
    groups->dev = LUO_NEW_N(arena, int32_t, cluster->ndevices);
    groups->y = LUO_NEW_N(arena, double, cluster->ndevices);
    groups->first = LUO_NEW_N(arena, int32_t, cluster->nnodes + 1);
    groups->kind = LUO_NEW_N(arena, int32_t, cluster->nnodes);
    groups->layer_s = LUO_NEW_N(arena, double, cluster->nkinds);
    groups->caps = LUO_NEW_N(arena, luo_groups_cap_memo, cluster->nkinds);
    return groups->dev && groups->y && groups->first && groups->kind && groups->layer_s &&
                   groups->caps
               ? LUO_OK
               : luo_err_nomem(err);
}

/* Are the groups of the last two nodes alike? */
static bool as_before(const luo_groups *groups)
{
    const luo_cluster *cluster = groups->now->scenario->cluster;
    if (groups->nnodes < 2) return false;
    const int32_t *f = groups->first + groups->nnodes, n = f[0] - f[-1];
    if (n != f[-1] - f[-2]) return false;
    const int32_t a = groups->dev[(int64_t)f[-2] * groups->tp],
                  b = groups->dev[(int64_t)f[-1] * groups->tp];
    return cluster->devices[a].group == cluster->devices[b].group &&
           memcmp(groups->y + f[-2], groups->y + f[-1], (size_t)n * sizeof *groups->y) == 0;
}

luo_status luo_groups_find(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                           luo_groups *out, luo_err *err)
{
    const luo_cluster *cluster = now->scenario->cluster;
    luo_groups groups = {.now = now, .tp = full_size(now->base)};
    int32_t *dev = LUO_NEW_N(arena, int32_t, cluster->ndevices);
    if (!dev) return luo_err_nomem(err);
    LUO_TRY(make_arrays(arena, &groups, err));
    for (int32_t d = 0; d < cluster->ndevices; d++) dev[d] = d;
    for (int32_t n = 0; n < cluster->nnodes; n++) {
        const luo_node *node = &cluster->nodes[n];
        if (!node_stays(now, node, slow_too)) continue;
        for (int32_t s = 0; s + groups.tp <= cluster->groups[node->group].devices_per_node;
             s += groups.tp)
            LUO_TRY(add_group(&groups, dev + node->first_device + s, err));
        if (groups.n == groups.first[groups.nnodes]) continue;
        groups.first[++groups.nnodes] = groups.n;
        const int32_t last = groups.nnodes - 1;
        groups.kind[last] = as_before(&groups) ? groups.kind[last - 1] : last;
    }
    *out = groups;
    return LUO_OK;
}

static double room_of(const luo_groups *groups, int32_t dev)
{
    const luo_profile *profile = luo_cluster_profile(groups->now->scenario->cluster, dev);
    return profile->memory_bytes * groups->now->memory_factor - profile->reserved_bytes;
}

int64_t luo_groups_cap(const void *ctx, int32_t group, int32_t stages, int32_t stage,
                       int32_t pipelines, int64_t micro_batches)
{
    const luo_groups *groups = ctx;
    const luo_snapshot *now = groups->now;
    const int32_t *member = groups->dev + (int64_t)group * groups->tp;
    int32_t dev = member[0]; /* the one with least room */
    for (int32_t i = 1; i < groups->tp; i++)
        if (room_of(groups, member[i]) < room_of(groups, dev)) dev = member[i];
    luo_groups_cap_memo *known = &groups->caps[now->scenario->cluster->devices[dev].kind];
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
                         .tp = groups->tp,
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
    const double room = room_of(groups, dev);
    int64_t lo = 0, hi = spec.model->layers;
    while (lo < hi) { /* most layers that fit: memory grows with them */
        luo_mem mem;
        const int64_t mid = (lo + hi + 1) / 2;
        spec.layers = (double)mid;
        luo_mem_stage(&spec, &mem);
        if ((double)mem.needed <= room)
            lo = mid;
        else hi = mid - 1;
    }
    *known = (luo_groups_cap_memo){stages, stage, pipelines, lo};
    return lo;
}

luo_status luo_groups_times(luo_arena *arena, const luo_snapshot *now, luo_pipe_time **out,
                            luo_err *err)
{
    const luo_plan *plan = now->plan;
    luo_groups groups = {.now = now};
    groups.layer_s = LUO_NEW_N(arena, double, now->scenario->cluster->nkinds);
    luo_pipe_time *pipes = LUO_NEW_N(arena, luo_pipe_time, plan->npipelines);
    if (!groups.layer_s || !pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        double *t = LUO_NEW_N(arena, double, pl->nstages);
        if (!t) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) {
            const luo_stage *st = &pl->stages[s];
            double worst = 1, y;
            groups.tp = luo_stage_tp(st);
            memset(groups.layer_s, 0,
                   (size_t)now->scenario->cluster->nkinds * sizeof *groups.layer_s);
            LUO_TRY(layer_seconds(&groups, st->dev, &y, err));
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
