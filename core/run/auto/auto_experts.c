/* Plans whose experts are shared out among devices, for models that have experts: the frame is that
 * of a uniform plan of a model with so many fewer experts, which is what a device then holds. */
#include <math.h>
#include <string.h>

#include "core/run/auto/auto_internal.h"

enum {
    OF_EACH = 3, /* frames of every degree that are simulated */
    DEGREES = 31
};

/* Groups of so many neighbouring pipelines share their experts, which are dealt out whole. */
static luo_status share_out(const auto_asking *asking, const luo_plan *frame, int32_t pipelines,
                            luo_plan **out, luo_err *err)
{
    luo_arena *arena = asking->arena;
    LUO_TRY(luo_plan_copy(arena, frame, out, err));
    luo_plan *plan = *out;
    const int32_t n = plan->npipelines, groups = pipelines > 1 ? n / pipelines : 0;
    luo_pipeline *pipe = LUO_NEW_N(arena, luo_pipeline, n);
    struct luo_expert_group *group = LUO_NEW_N(arena, struct luo_expert_group, groups);
    int32_t *number = LUO_NEW_N(arena, int32_t, n);
    if (!pipe || !group || !number) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        luo_stage *st = LUO_NEW_N(arena, luo_stage, plan->pipelines[i].nstages);
        if (!st) return luo_err_nomem(err);
        pipe[i] = plan->pipelines[i];
        memcpy(st, pipe[i].stages, (size_t)pipe[i].nstages * sizeof *st);
        for (int32_t s = 0; s < pipe[i].nstages; s++) st[s].experts_dealt = true;
        pipe[i].stages = st;
        number[i] = i;
    }
    for (int32_t g = 0; g < groups; g++)
        group[g] = (struct luo_expert_group){pipelines, number + (int64_t)g * pipelines};
    plan->pipelines = pipe;
    plan->ngroups = groups;
    plan->expert_groups = groups ? group : NULL;
    return LUO_OK;
}

/* So many devices share the experts of a frame, whole stages of them: other frames are not
 * listed. *fits: it was simulated. */
static luo_status try_frame(const auto_asking *asking, const luo_plan *frame, int32_t degree,
                            luo_auto_candidate *out, bool *fits, luo_err *err)
{
    luo_plan *plan;
    luo_auto_candidate now = {.planner = out->planner, .step = {.seconds = INFINITY}};
    LUO_TRY(share_out(asking, frame, degree / frame->pipelines[0].stages[0].ndev, &plan, err));
    LUO_TRY(auto_try(asking, plan, &now, err));
    now.tried += out->tried;
    *fits = now.plan != NULL;
    if (*fits ? now.step.seconds < out->step.seconds : !out->plan) *out = now;
    else out->tried = now.tried;
    return LUO_OK;
}

static luo_status try_degree(const auto_asking *asking, int32_t degree, int32_t recompute,
                             luo_auto_candidate *out, luo_err *err)
{
    luo_uniform_opts opts = asking->in->opts;
    luo_uniform_result *found;
    luo_model fewer = *asking->in->judge->model;
    int32_t n;
    fewer.moe.experts /= degree;
    if (fewer.moe.experts_per_token > fewer.moe.experts) /* as many rows, on as many devices */
        fewer.moe.experts_per_token = fewer.moe.experts;
    opts.recompute = recompute;
    opts.top = OF_EACH;
    opts.families = OF_EACH;
    opts.shared = asking->in->judge->model;
    opts.share = degree;
    LUO_TRY(auto_list_uniform(asking, &fewer, opts, &found, &n, err));
    for (int32_t i = 0; i < n; i++) {
        bool fits;
        /* they are by objective, in which no rows go to experts of others yet */
        if (!auto_has_hope(asking, found[i].objective_s, AUTO_HOPELESS_CLOSED, out)) break;
        LUO_TRY(try_frame(asking, found[i].plan, degree, out, &fits, err));
        if (!asking->in->simulated && fits) break;
    }
    return LUO_OK;
}

/* The degrees that are tried: small ones first, but large ones where nothing fits without. */
static int32_t list_degrees(const auto_asking *asking, int32_t *out)
{
    const int64_t experts = asking->in->judge->model->moe.experts;
    int32_t n = 0;
    for (int32_t degree = 2; degree <= experts && degree <= asking->ndevices; degree *= 2)
        if (experts % degree == 0) out[n++] = degree;
    for (int32_t i = 0; asking->nbase == 0 && i < n / 2; i++) {
        const int32_t other = out[i];
        out[i] = out[n - 1 - i];
        out[n - 1 - i] = other;
    }
    return n;
}

/* Several devices of a node share experts with devices of others: pipelines of a group lie behind
 * each other, so the first group is like all. */
static bool crosses_nodes(const luo_plan *plan, const luo_cluster *cluster)
{
    const struct luo_expert_group none = {1, (const int32_t[]){0}};
    const struct luo_expert_group *group = plan->ngroups ? plan->expert_groups : &none;
    const luo_stage *first = &plan->pipelines[group->pipeline[0]].stages[0];
    const int32_t node = cluster->devices[first->dev[0]].node;
    int32_t here = 0, elsewhere = 0;
    for (int32_t k = 0; k < group->n; k++) {
        const luo_stage *st = &plan->pipelines[group->pipeline[k]].stages[0];
        for (int32_t i = 0; i < st->ndev; i++) {
            const bool same = cluster->devices[st->dev[i]].node == node;
            here += same;
            elsewhere += !same;
        }
    }
    return first->experts_dealt && here > 1 && elsewhere > 0;
}

/* A plan with rows that travel in another way. */
static luo_status try_exchange(const auto_asking *asking, const luo_plan *from,
                               luo_alltoall_kind kind, luo_auto_candidate *out, luo_err *err)
{
    luo_plan *plan;
    luo_err why = {0};
    if (from->moe_exchange == kind) return LUO_OK;
    LUO_TRY(luo_plan_copy(asking->arena, from, &plan, err));
    plan->moe_exchange = kind;
    luo_auto_candidate now = *out;
    const luo_status st = auto_try(asking, plan, &now, &why);
    if (st != LUO_OK) return auto_refuse(st, &why, &now, err); /* nodes that are not alike */
    *out = now;
    return LUO_OK;
}

/* The best plan with rows that travel by node, or through leaders, where those are other ways. */
static luo_status try_by_node(const auto_asking *asking, luo_auto_candidate *out, luo_err *err)
{
    const luo_plan *from = out->plan;
    if (!from || !crosses_nodes(from, asking->in->judge->cluster)) return LUO_OK;
    LUO_TRY(try_exchange(asking, from, LUO_ALLTOALL_2D, out, err));
    if (!asking->in->simulated) return LUO_OK; /* each row's way is a message of its own */
    return try_exchange(asking, from, LUO_ALLTOALL_LEADER, out, err);
}

luo_status auto_try_experts(const auto_asking *asking, luo_auto_candidate *out, luo_err *err)
{
    const int32_t asked = asking->in->opts.recompute;
    int32_t degree[DEGREES];
    const int32_t n = list_degrees(asking, degree);
    for (int32_t k = 0; k < n; k++) {
        const bool before = out->plan != NULL;
        LUO_TRY(try_degree(asking, degree[k], asked, out, err));
        /* Rows of experts need more room than those of so many fewer. */
        if (asked < 0 && (asking->in->simulated || !out->plan))
            LUO_TRY(try_degree(asking, degree[k], LUO_RECOMPUTE_FULL, out, err));
        /* A step of many devices takes seconds: one degree that fits, and the next. */
        if (!asking->in->simulated && before) break;
    }
    return try_by_node(asking, out, err);
}
