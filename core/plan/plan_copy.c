/* plan_copy.c: a plan into another arena, down to the last string. */
#include <string.h>

#include "core/plan/plan.h"

typedef struct copier {
    luo_arena *arena;
    bool failed;
} copier;

static void *block(copier *c, const void *from, int64_t n, size_t bytes)
{
    if (!from || n <= 0) return NULL;
    void *to = luo_arena_alloc(c->arena, (size_t)n * bytes);
    if (to) memcpy(to, from, (size_t)n * bytes);
    else c->failed = true;
    return to;
}

static const char *text(copier *c, const char *from)
{
    if (!from) return NULL;
    const char *to = luo_arena_strdup(c->arena, from);
    if (!to) c->failed = true;
    return to;
}

static const luo_stage *stages(copier *c, const luo_stage *from, int32_t n)
{
    luo_stage *to = block(c, from, n, sizeof *to);
    for (int32_t i = 0; to && i < n; i++) {
        to[i].layers = block(c, from[i].layers, from[i].nlayers, sizeof(luo_range));
        to[i].dev = block(c, from[i].dev, from[i].ndev, sizeof(int32_t));
        to[i].shares = block(c, from[i].shares, luo_stage_tp(&from[i]), sizeof(uint32_t));
        to[i].context_shares =
            block(c, from[i].context_shares, from[i].context_parallel, sizeof(uint32_t));
        to[i].recompute_layers =
            block(c, from[i].recompute_layers, from[i].nrecompute, sizeof(luo_range));
        to[i].reroute = block(c, from[i].reroute, from[i].nreroute, sizeof(luo_reroute));
    }
    return to;
}

static const luo_pipeline *pipelines(copier *c, const luo_pipeline *from, int32_t n)
{
    luo_pipeline *to = block(c, from, n, sizeof *to);
    for (int32_t i = 0; to && i < n; i++) {
        to[i].micro_batch_tokens =
            block(c, from[i].micro_batch_tokens, from[i].micro_batches, sizeof(int64_t));
        to[i].stages = stages(c, from[i].stages, from[i].nstages);
    }
    return to;
}

static const luo_plan_annotation *annotations(copier *c, const luo_plan *plan)
{
    luo_plan_annotation *to = block(c, plan->annotations, plan->nannotations, sizeof *to);
    for (int32_t i = 0; to && i < plan->nannotations; i++) {
        to[i].tensor = text(c, to[i].tensor);
        to[i].annotation = text(c, to[i].annotation);
        to[i].at = text(c, to[i].at);
        to[i].variant = text(c, to[i].variant);
    }
    return to;
}

static void groups_and_pins(copier *c, const luo_plan *plan, luo_plan *to)
{
    struct luo_expert_group *group = block(c, plan->expert_groups, plan->ngroups, sizeof *group);
    for (int32_t i = 0; group && i < plan->ngroups; i++)
        group[i].pipeline = block(c, group[i].pipeline, group[i].n, sizeof(int32_t));
    const char **pins = block(c, plan->pinned, plan->npinned, sizeof *pins);
    for (int32_t i = 0; pins && i < plan->npinned; i++) pins[i] = text(c, pins[i]);
    to->expert_groups = group;
    to->pinned = pins;
}

luo_status luo_plan_copy(luo_arena *arena, const luo_plan *plan, luo_plan **out, luo_err *err)
{
    copier c = {.arena = arena};
    luo_plan *to = block(&c, plan, 1, sizeof *to);
    if (!to) return luo_err_nomem(err);
    to->name = text(&c, plan->name);
    to->model = text(&c, plan->model);
    to->cluster = text(&c, plan->cluster);
    to->meta_json = text(&c, plan->meta_json);
    to->pipelines = pipelines(&c, plan->pipelines, plan->npipelines);
    to->annotations = annotations(&c, plan);
    to->assignment = block(&c, plan->assignment, plan->nassignment, sizeof(luo_assignment));
    to->state_layout.dev =
        block(&c, plan->state_layout.dev, plan->state_layout.ndev, sizeof(int32_t));
    groups_and_pins(&c, plan, to);
    if (c.failed) return luo_err_nomem(err);
    *out = to;
    return LUO_OK;
}
