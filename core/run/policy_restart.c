/* Nodes with a failed or slow device leave; the rest restarts from a checkpoint with the best
 * uniform plan (Malleus, section 14). Choices of ours where the page is silent:
 * - a node that comes back, or whose devices are fast again, is taken in when the event time saved
 *   over payback_steps pays for the restart (the adopt test of section 5);
 * - slow nodes stay when no plan fits without them;
 * - nodes announced to leave count as gone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/cost/layer.h"
#include "core/cost/memory.h"
#include "core/plan/grid.h"
#include "core/plan/replan.h"
#include "core/run/policy.h"

typedef struct memo { /* the last answer of layer_cap for a node group */
    int32_t stages, stage, pipelines;
    int64_t cap;
} memo;

typedef struct groups { /* of tp devices inside nodes */
    const luo_picture *now;
    int32_t n, tp;
    int32_t *dev;    /* n * tp */
    double *y;       /* seconds of a layer and micro-batch */
    double *layer_s; /* per node group of the cluster, nominal; 0: not yet asked */
    memo *caps;      /* per node group */
} groups;

static const luo_stage *pattern(const luo_picture *now)
{
    return &now->base->pipelines[0].stages[0];
}

/* Largest tensor-parallel size of the base plan, which new groups have as well. */
static int32_t full_size(const luo_plan *p)
{
    int32_t tp = 1;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            if (p->pipelines[i].stages[s].ndev > tp) tp = p->pipelines[i].stages[s].ndev;
    return tp;
}

static luo_status layer_seconds(groups *g, const int32_t *dev, double *out, luo_err *err)
{
    const luo_picture *now = g->now;
    const int32_t kind = now->scenario->cluster->devices[dev[0]].group;
    if (g->layer_s[kind] == 0) {
        const luo_cost_ctx ctx = {.cluster = now->scenario->cluster,
                                  .stack = &now->scenario->stack, .dtype = now->base->dtype};
        const luo_layer_shape s = {
            .model = now->scenario->model, .layer = now->scenario->model->layers - 1,
            .tokens = now->sequence_tokens * now->base->micro_batch_sequences,
            .sequence_tokens = now->sequence_tokens, .tp = g->tp, .cp = 1,
            .sequence_parallel = now->base->sequence_parallel};
        luo_layer_cost c;
        LUO_TRY(luo_cost_layer(&ctx, &s, dev, (int)pattern(now)->recompute, &c, err));
        g->layer_s[kind] = c.forward + c.backward;
    }
    *out = g->layer_s[kind];
    return LUO_OK;
}

static bool node_stays(const luo_picture *now, const luo_node *node, bool slow_too)
{
    const luo_cluster *c = now->scenario->cluster;
    for (int32_t s = 0; s < c->groups[node->group].devices_per_node; s++) {
        const int32_t d = node->first_device + s;
        if (isinf(now->rate[d]) || now->leaving[d]) return false;
        if (!slow_too && now->rate[d] >= now->spec->threshold_slowdown) return false;
    }
    return true;
}

static luo_status add_group(groups *g, const int32_t *dev, luo_err *err)
{
    double worst = 1, y;
    memcpy(g->dev + (int64_t)g->n * g->tp, dev, (size_t)g->tp * sizeof *dev);
    for (int32_t i = 0; i < g->tp; i++) worst = fmax(worst, g->now->rate[dev[i]]);
    LUO_TRY(layer_seconds(g, dev, &y, err));
    g->y[g->n++] = worst < g->now->spec->threshold_slowdown ? y : y * worst;
    return LUO_OK;
}

static luo_status find_groups(luo_arena *arena, const luo_picture *now, bool slow_too, groups *out,
                              luo_err *err)
{
    const luo_cluster *c = now->scenario->cluster;
    groups g = {.now = now, .tp = full_size(now->base)};
    g.dev = LUO_NEW_N(arena, int32_t, c->ndevices);
    g.y = LUO_NEW_N(arena, double, c->ndevices);
    g.layer_s = LUO_NEW_N(arena, double, c->ngroups);
    g.caps = LUO_NEW_N(arena, memo, c->ngroups);
    int32_t *dev = LUO_NEW_N(arena, int32_t, c->ndevices);
    if (!g.dev || !g.y || !g.layer_s || !g.caps || !dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < c->ndevices; d++) dev[d] = d;
    for (int32_t n = 0; n < c->nnodes; n++) {
        const luo_node *node = &c->nodes[n];
        if (!node_stays(now, node, slow_too)) continue;
        for (int32_t s = 0; s + g.tp <= c->groups[node->group].devices_per_node; s += g.tp)
            LUO_TRY(add_group(&g, dev + node->first_device + s, err));
    }
    *out = g;
    return LUO_OK;
}

/* Layers that the closed form of memory leaves room for (luo_cap_fn). */
static int64_t layer_cap(const void *ctx, int32_t group, int32_t stages, int32_t stage,
                         int32_t pipelines, int64_t micro_batches)
{
    const groups *g = ctx;
    const luo_picture *now = g->now;
    const int32_t dev = g->dev[(int64_t)group * g->tp];
    const luo_profile *p = luo_cluster_profile(now->scenario->cluster, dev);
    memo *known = &g->caps[now->scenario->cluster->devices[dev].group];
    if (known->stages == stages && known->stage == stage && known->pipelines == pipelines)
        return known->cap;
    luo_mem_spec s = {.model = now->scenario->model, .recompute_layers = -1,
                      .recompute = (int)pattern(now)->recompute,
                      .micro_batch_tokens = now->sequence_tokens * now->base->micro_batch_sequences,
                      .sequence_tokens = now->sequence_tokens, .tp = g->tp, .stage = stage,
                      .stages = stages, .chunks = 1, .micro_batches = (int32_t)micro_batches,
                      .replicas = pipelines, .zero = now->base->zero, .schedule = LUO_SCHED_1F1B,
                      .embedding = stage == 0, .head = stage == stages - 1,
                      .sequence_parallel = now->base->sequence_parallel,
                      .attention_fused = now->scenario->stack.attention_fused};
    const double room = p->memory_bytes * now->memory_factor - p->reserved_bytes;
    int64_t lo = 0, hi = s.model->layers;
    while (lo < hi) { /* most layers that fit: memory grows with them */
        luo_mem m;
        const int64_t mid = (lo + hi + 1) / 2;
        s.layers = (double)mid;
        luo_mem_stage(&s, &m);
        if ((double)m.peak <= room) lo = mid;
        else hi = mid - 1;
    }
    *known = (memo){stages, stage, pipelines, lo};
    return lo;
}

static luo_status make_plan(luo_arena *arena, const groups *g, const luo_restart_plan *r,
                            const luo_plan **out, luo_err *err)
{
    const luo_picture *now = g->now;
    int32_t *dev = LUO_NEW_N(arena, int32_t, (int64_t)r->pipelines * r->stages * g->tp);
    if (!dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < r->pipelines; d++)
        for (int32_t s = 0; s < r->stages; s++)
            memcpy(dev + ((int64_t)d * r->stages + s) * g->tp,
                   g->dev + (int64_t)r->group[d + r->pipelines * s] * g->tp,
                   (size_t)g->tp * sizeof *dev);
    const luo_grid grid = {.name = "restart", .model = now->scenario->model,
                           .cluster = now->scenario->cluster, .dtype = now->base->dtype,
                           .sequence_tokens = now->base->sequence_tokens,
                           .micro_batches = r->micro_batches,
                           .micro_batch_sequences = now->base->micro_batch_sequences,
                           .zero = now->base->zero, .pipelines = r->pipelines,
                           .stages = r->stages, .tp = g->tp,
                           .sequence_parallel = now->base->sequence_parallel,
                           .recompute = pattern(now)->recompute, .dev = dev, .layers = r->layers};
    luo_plan *p;
    LUO_TRY(luo_plan_grid(arena, &grid, &p, err));
    *out = p;
    return LUO_OK;
}

static luo_status best_plan(luo_arena *arena, const luo_picture *now, bool slow_too,
                            const luo_plan **plan, double *event, luo_err *err)
{
    groups g;
    luo_restart_plan r;
    LUO_TRY(find_groups(arena, now, slow_too, &g, err));
    if (g.n == 0)
        return luo_err_set(err, LUO_EINFEASIBLE, "no usable node is left; one at least is needed.");
    const luo_restart_in in = {.ngroups = g.n, .y = g.y, .layers = now->scenario->model->layers,
                               .micro_batches = now->micro_batches,
                               .strict_uniform = now->spec->strict_uniform,
                               .full_recompute = pattern(now)->recompute == LUO_RECOMPUTE_FULL,
                               .cap = layer_cap, .cap_ctx = &g};
    LUO_TRY(luo_restart_shape(arena, &in, &r, err));
    *event = r.event;
    return make_plan(arena, &g, &r, plan, err);
}

/* Event time of the running plan by the same closed form, under today's rates. */
static luo_status running_event(luo_arena *arena, const luo_picture *now, double *out,
                                luo_err *err)
{
    const luo_plan *p = now->plan;
    groups g = {.now = now};
    g.layer_s = LUO_NEW_N(arena, double, now->scenario->cluster->ngroups);
    luo_pipe_time *pipes = LUO_NEW_N(arena, luo_pipe_time, p->npipelines);
    if (!g.layer_s || !pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_pipeline *pl = &p->pipelines[i];
        double *t = LUO_NEW_N(arena, double, pl->nstages);
        if (!t) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) {
            const luo_stage *st = &pl->stages[s];
            double worst = 1, y;
            g.tp = luo_stage_tp(st);
            memset(g.layer_s, 0, (size_t)now->scenario->cluster->ngroups * sizeof *g.layer_s);
            LUO_TRY(layer_seconds(&g, st->dev, &y, err));
            for (int32_t k = 0; k < st->ndev; k++) worst = fmax(worst, now->rate[st->dev[k]]);
            for (int32_t k = 0; k < st->nlayers; k++)
                t[s] += (st->layers[k].hi - st->layers[k].lo) * y *
                        (worst < now->spec->threshold_slowdown ? 1 : worst);
        }
        pipes[i] = (luo_pipe_time){pl->nstages, t, pl->micro_batches};
    }
    return luo_event_time(arena, pipes, p->npipelines,
                          pattern(now)->recompute == LUO_RECOMPUTE_FULL, out, err);
}

/* Is a device of the running plan so slow, or announced to leave, that its node has to go? */
static bool must_leave(const luo_picture *now)
{
    const luo_plan *p = now->plan;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < p->pipelines[i].stages[s].ndev; k++) {
                const int32_t d = p->pipelines[i].stages[s].dev[k];
                if (now->leaving[d] || now->rate[d] >= now->spec->threshold_slowdown) return true;
            }
    return false;
}

static luo_status decide(luo_arena *arena, const luo_picture *now, luo_decision *out, luo_err *err)
{
    const bool failed = now->news & LUO_NEWS_FAIL;
    luo_err why = {0};
    *out = (luo_decision){.verb = LUO_KEEP, .old_s = -1, .new_s = -1};
    luo_status st = best_plan(arena, now, false, &out->plan, &out->new_s, &why);
    if (st == LUO_EINFEASIBLE) st = best_plan(arena, now, true, &out->plan, &out->new_s, &why);
    if (st == LUO_EINFEASIBLE) {
        out->verb = failed ? LUO_WAIT : LUO_KEEP;
        snprintf(out->why, sizeof out->why, "%.150s", why.text);
        return LUO_OK;
    }
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    const bool other = luo_plan_hash(out->plan) != luo_plan_hash(now->plan);
    if (!failed && !other) {
        snprintf(out->why, sizeof out->why, "the running plan is the best one");
        return LUO_OK;
    }
    if (failed || must_leave(now)) {
        out->verb = LUO_RESTART;
        snprintf(out->why, sizeof out->why, "restart on %d pipelines", out->plan->npipelines);
        snprintf(out->figures, sizeof out->figures, "%.6g s a step", out->new_s);
        return LUO_OK;
    }
    LUO_TRY(running_event(arena, now, &out->old_s, err));
    const double gain = (out->old_s - out->new_s) * now->spec->payback_steps;
    out->verb = gain > now->restart_cost_s ? LUO_RESTART : LUO_KEEP;
    snprintf(out->why, sizeof out->why, "a restart %s",
             out->verb == LUO_KEEP ? "does not pay" : "pays");
    snprintf(out->figures, sizeof out->figures,
             "%.6g s saved in %.0f steps for a restart of %.6g s", gain, now->spec->payback_steps,
             now->restart_cost_s);
    return LUO_OK;
}

const luo_policy luo_policy_restart = {.name = "restart", .plans = true, .decide = decide};
