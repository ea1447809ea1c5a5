/* experts.c: what the builder has to know of a plan's experts, what is refused, and where experts
 * lie that several pipelines share. */
#include <string.h>

#include "core/hspmd/bounds.h"
#include "core/plan/annotate.h"
#include "core/plan/annotated.h"

/* ---- groups of pipelines ---- */

/* Entry of `expert_groups` that has pipeline i; -1: none, it is alone. */
static int32_t group_of(const luo_plan *plan, int32_t i)
{
    for (int32_t g = 0; g < plan->ngroups; g++)
        for (int32_t k = 0; k < plan->expert_groups[g].n; k++)
            if (plan->expert_groups[g].pipeline[k] == i) return g;
    return -1;
}

/* The same of every pipeline at once: to be asked pipeline by pipeline takes their square. */
static luo_status find_groups(luo_arena *arena, const luo_plan *plan, int32_t **out, luo_err *err)
{
    int32_t *group = LUO_NEW_N(arena, int32_t, plan->npipelines);
    if (!group) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) group[i] = -1;
    for (int32_t g = plan->ngroups - 1; g >= 0; g--)
        for (int32_t k = 0; k < plan->expert_groups[g].n; k++)
            group[plan->expert_groups[g].pipeline[k]] = g;
    *out = group;
    return LUO_OK;
}

/* Pipelines of the group of pipeline i, which is its first, in the order of their numbers; how
 * many. */
static int32_t members_of(const int32_t *group, int32_t P, int32_t i, int32_t *out)
{
    int32_t n = 0;
    out[n++] = i;
    for (int32_t k = i + 1; group[i] >= 0 && k < P; k++)
        if (group[k] == group[i]) out[n++] = k;
    return n;
}

/* The devices of a group's stages, which all have equally many. */
static luo_status join(luo_arena *arena, const luo_plan *plan, const int32_t *stage,
                       const int32_t *pipeline, int32_t n, const int32_t key[2], luo_grp *out,
                       luo_err *err)
{
    int32_t ndev = 0, at = 0;
    for (int32_t k = 0; k < n; k++)
        ndev += plan->pipelines[pipeline[k]].stages[stage[pipeline[k]]].ndev;
    int32_t *dev = LUO_NEW_N(arena, int32_t, ndev);
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, 2);
    if (!dev || !ent) return luo_err_nomem(err);
    for (int32_t k = 0; k < n; k++) {
        const luo_stage *s = &plan->pipelines[pipeline[k]].stages[stage[pipeline[k]]];
        memcpy(dev + at, s->dev, (size_t)s->ndev * sizeof *dev);
        at += s->ndev;
    }
    const int32_t among = luo_plan_experts_among(plan, ndev);
    ent[0] = (luo_ent){key[0], ndev / among, NULL};
    ent[1] = (luo_ent){key[1], among, NULL};
    *out = (luo_grp){ndev, dev, 2, ent};
    return LUO_OK;
}

luo_status luo_plan_expert_ann(luo_arena *arena, const luo_plan *plan, const int32_t *stage,
                               luo_form form, luo_ann *out, luo_err *err)
{
    const int32_t P = plan->npipelines;
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, P);
    uint32_t *share = LUO_NEW_N(arena, uint32_t, P);
    int32_t *pipeline = LUO_NEW_N(arena, int32_t, P), *group = NULL, n = 0;
    bool *told = LUO_NEW_N(arena, bool, plan->ngroups + 1);
    if (!grp || !share || !pipeline || !told) return luo_err_nomem(err);
    LUO_TRY(find_groups(arena, plan, &group, err));
    for (int32_t i = 0; i < P; i++) {
        if (group[i] >= 0 && told[group[i]]) continue; /* with its first */
        if (group[i] >= 0) told[group[i]] = true;
        const int32_t members = members_of(group, P, i, pipeline);
        const bool counts = form == LUO_FORM_COUNTS, rows = form == LUO_FORM_ROWS;
        const int32_t key[2] = {counts ? 0 : rows ? 1 : LUO_DUP, counts};
        LUO_TRY(join(arena, plan, stage, pipeline, members, key, &grp[n], err));
        share[n++] = (uint32_t)members;
    }
    *out = (luo_ann){.u = n, .h = n > 1 ? luo_plan_form_top(form) : LUO_H_NONE, .grp = grp};
    if (out->h >= 0) out->hshare = share;
    return LUO_OK;
}

/* ---- what is refused ---- */

static luo_status in_groups(luo_status st, luo_err *err)
{
    return luo_err_part(err, st, "/expert_groups");
}

/* What runs again exchanges rows again. */
static bool recomputes_alike(const luo_stage *a, const luo_stage *b)
{
    bool same = a->recompute == b->recompute && a->nrecompute == b->nrecompute;
    for (int32_t r = 0; same && r < a->nrecompute; r++)
        same = a->recompute_layers[r].lo == b->recompute_layers[r].lo &&
               a->recompute_layers[r].hi == b->recompute_layers[r].hi;
    return same;
}

/* Pipelines of a group meet in every micro-batch. */
static luo_status check_alike(const luo_plan *plan, int32_t g, int32_t i, int32_t k, luo_err *err)
{
    const luo_pipeline *a = &plan->pipelines[i], *b = &plan->pipelines[k];
    if (a->micro_batches != b->micro_batches)
        return in_groups(luo_err_set(err, LUO_EINPUT,
                                     "expert group %d: pipelines %d and %d have %d and %d "
                                     "micro-batches.",
                                     (int)g, (int)i, (int)k, (int)a->micro_batches,
                                     (int)b->micro_batches),
                         err);
    bool same = a->nstages == b->nstages;
    for (int32_t s = 0; same && s < a->nstages; s++)
        same = a->stages[s].ndev == b->stages[s].ndev &&
               a->stages[s].context_parallel == b->stages[s].context_parallel &&
               a->stages[s].experts_dealt && b->stages[s].experts_dealt &&
               recomputes_alike(&a->stages[s], &b->stages[s]);
    if (same) return LUO_OK;
    return in_groups(luo_err_set(err, LUO_EINPUT,
                                 "expert group %d: pipelines %d and %d need experts: expert and "
                                 "stages of equally many devices, cut and recomputed alike.",
                                 (int)g, (int)i, (int)k),
                     err);
}

static luo_status check_groups(const luo_plan *plan, luo_build_opts *out, luo_err *err)
{
    for (int32_t g = 0; g < plan->ngroups; g++)
        for (int32_t k = 1; k < plan->expert_groups[g].n; k++) {
            const int32_t *pipeline = plan->expert_groups[g].pipeline;
            out->joins = true;
            LUO_TRY(check_alike(plan, g, pipeline[0], pipeline[k], err));
        }
    if (out->joins && plan->zero >= 2)
        return luo_err_set(err, LUO_EINPUT,
                           "zero %d with experts that pipelines share is not built yet; use zero "
                           "1.",
                           (int)plan->zero);
    return LUO_OK;
}

/* Devices that the experts of pipeline i, stage k are dealt to. */
static int32_t dealt_to(const luo_plan *plan, int32_t i, int32_t k)
{
    const int32_t g = group_of(plan, i);
    return plan->pipelines[i].stages[k].ndev * (g >= 0 ? plan->expert_groups[g].n : 1);
}

static luo_status check_stage(const luo_plan *plan, const luo_model *model, int32_t i, int32_t k,
                              luo_err *err)
{
    const luo_stage *stage = &plan->pipelines[i].stages[k];
    const int32_t all = dealt_to(plan, i, k), among = luo_plan_experts_among(plan, all);
    if (stage->experts_dealt && all % among)
        return luo_err_part(err,
                            luo_err_set(err, LUO_EINPUT, "expert_parallel %d does not divide %d.",
                                        (int)among, (int)all),
                            "/expert_parallel");
    if (stage->experts_dealt && among > model->moe.experts)
        return luo_err_set(err, LUO_EINPUT,
                           "pipeline %d, stage %d: %lld experts cannot be dealt to %d devices; "
                           "use experts: tensor or fewer devices.",
                           (int)i, (int)k, (long long)model->moe.experts, (int)among);
    if (!stage->experts_dealt && plan->expert_parallel)
        return luo_err_part(err,
                            luo_err_set(err, LUO_EINPUT,
                                        "expert_parallel %d is of experts that are dealt; use "
                                        "experts: expert in stage %d of pipeline %d.",
                                        (int)plan->expert_parallel, (int)k, (int)i),
                            "/expert_parallel");
    if (!stage->experts_dealt && plan->moe_exchange)
        return luo_err_part(err,
                            luo_err_set(err, LUO_EINPUT,
                                        "moe_exchange: %s is of experts that are dealt; use "
                                        "experts: expert in stage %d of pipeline %d.",
                                        luo_alltoall_kind_name(plan->moe_exchange), (int)k, (int)i),
                            "/moe_exchange");
    if (stage->nreroute && stage->experts_dealt)
        return luo_err_set(err, LUO_EINPUT,
                           "pipeline %d, stage %d: other pipelines cannot do the part of a stage "
                           "whose experts are dealt; use experts: tensor.",
                           (int)i, (int)k);
    return LUO_OK;
}

/* ---- layers ---- */

static int32_t find_stage(const luo_pipeline *pipe, int32_t layer)
{
    for (int32_t s = 0; s < pipe->nstages; s++)
        for (int32_t r = 0; r < pipe->stages[s].nlayers; r++)
            if (layer >= pipe->stages[s].layers[r].lo && layer < pipe->stages[s].layers[r].hi)
                return s;
    return -1;
}

/* Every pipeline's devices, or ranks, of a layer have rows; the least number that all of theirs
 * divide. */
static luo_status find_layer(const luo_plan *plan, const luo_model *model, int32_t layer,
                             bool *dealt, int32_t *sources, luo_err *err)
{
    *sources = 1;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const int32_t k = find_stage(&plan->pipelines[i], layer);
        if (k < 0) continue; /* found where places are looked for */
        const luo_stage *stage = &plan->pipelines[i].stages[k];
        LUO_TRY(check_stage(plan, model, i, k, err));
        const int32_t n = stage->experts_dealt ? stage->ndev : stage->context_parallel;
        *sources *= n / (int32_t)luo_bounds_gcd(*sources, n);
        if (i > 0 && *dealt != stage->experts_dealt)
            return luo_err_set(err, LUO_EINPUT,
                               "layer %d has experts dealt in some pipelines and cut in others; "
                               "they must agree.",
                               (int)layer);
        *dealt = stage->experts_dealt;
    }
    return LUO_OK;
}

luo_status luo_plan_expert_opts(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                                luo_build_opts *out, luo_err *err)
{
    bool *dealt = LUO_NEW_N(arena, bool, model->layers);
    int32_t *sources = LUO_NEW_N(arena, int32_t, model->layers);
    if (!dealt || !sources) return luo_err_nomem(err);
    LUO_TRY(check_groups(plan, out, err));
    for (int32_t l = 0; l < (int32_t)model->layers; l++)
        LUO_TRY(find_layer(plan, model, l, &dealt[l], &sources[l], err));
    out->dealt = dealt;
    out->sources = sources;
    return LUO_OK;
}

/* ---- loads ---- */

typedef struct imbalance {
    luo_arena *arena;
    const luo_plan *plan;
    const luo_model *model;
    const luo_expert_load *load;
    int64_t tokens, *counts; /* of a sequence; of a layer */
    double sum;
    int64_t n;
    luo_err *err;
} imbalance;

/* A layer whose experts `among` devices have, by shares or alike, for the tokens of all of them. */
static luo_status add_layer(imbalance *b, int32_t layer, int64_t tokens, int32_t among,
                            const uint32_t *share)
{
    const int32_t experts = (int32_t)b->model->moe.experts;
    const luo_gate gate = luo_model_gate(b->model);
    double ratio;
    LUO_TRY(luo_load_layer(b->arena, b->load, layer, &gate, tokens, among, b->counts, b->err));
    LUO_TRY(luo_load_imbalance(b->arena, b->counts, experts, among, share, &ratio, b->err));
    b->sum += ratio;
    b->n++;
    return LUO_OK;
}

/* Layers of pipeline i, stage k: those who have all experts together route their own tokens. */
static luo_status add_stage(imbalance *b, int32_t i, int32_t k)
{
    const luo_stage *stage = &b->plan->pipelines[i].stages[k];
    const int32_t among = luo_plan_experts_among(b->plan, dealt_to(b->plan, i, k));
    const int64_t own = b->tokens * b->plan->pipelines[i].micro_batch_sequences / stage->ndev;
    for (int32_t r = 0; r < stage->nlayers; r++)
        for (int32_t l = stage->layers[r].lo; l < stage->layers[r].hi; l++) {
            if (!luo_model_has_experts(b->model, l)) continue;
            LUO_TRY(add_layer(b, l, own * among, among, NULL));
        }
    return LUO_OK;
}

/* The same where the plan says it of every layer. */
static luo_status add_annotated(imbalance *b)
{
    const luo_pipeline *pipe = &b->plan->pipelines[0];
    const luo_grp *rows;
    for (int32_t l = 0; l < (int32_t)b->model->layers; l++) {
        LUO_TRY(luo_plan_annotated_rows(b->arena, b->plan, l, &rows, b->err));
        if (!rows) continue;
        LUO_TRY(add_layer(b, l, b->tokens * pipe->micro_batch_sequences, luo_grp_count(rows, 0),
                          luo_grp_share(rows, 0)));
    }
    return LUO_OK;
}

luo_status luo_plan_expert_imbalance(luo_arena *scratch, const luo_plan *plan,
                                     const luo_model *model, const luo_expert_load *load,
                                     int64_t tokens, double *out, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    imbalance b = {scratch, plan, model, load, tokens, NULL, 0, 0, err};
    luo_status st = LUO_OK;
    *out = 1;
    if (!load || model->moe.experts == 0) return LUO_OK;
    b.counts = LUO_NEW_N(scratch, int64_t, model->moe.experts);
    if (!b.counts) return luo_err_nomem(err);
    if (luo_plan_is_annotated(plan)) st = add_annotated(&b);
    for (int32_t i = 0; i < plan->npipelines && st == LUO_OK; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages && st == LUO_OK; k++)
            if (plan->pipelines[i].stages[k].experts_dealt) st = add_stage(&b, i, k);
    if (b.n > 0) *out = b.sum / (double)b.n;
    luo_arena_reset(scratch, mark);
    return st;
}
