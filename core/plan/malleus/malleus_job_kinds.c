/* The planner's numbers of a model on a cluster (docs/planners.md): kinds, base rates, alpha, tau,
 * and the y of any stage. */
#include <math.h>
#include <string.h>

#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"
#include "core/plan/malleus/malleus_job_internal.h"

enum { CONTEXT_MIB = 4500, GAP_MIB = 4096 };

static const luo_stage *pattern(const luo_plan *p)
{
    return &p->pipelines[0].stages[0];
}

luo_status luo_kinds_layer_s(const luo_kinds *k, const int32_t *dev, int32_t tp, int32_t cp,
                             double *seconds, luo_err *err)
{
    const luo_malleus_job *job = k->job;
    const luo_cost_ctx ctx = {.cluster = job->cluster, .stack = job->stack,
                              .dtype = job->base->dtype};
    const luo_layer_shape s = {
        .model = job->model, .layer = job->model->layers - 1, .tp = tp,
        .context = {.c = cp, .inner = 1, .zigzag = job->model->causal},
        .tokens = k->sequence_tokens * job->base->micro_batch_sequences,
        .sequence_tokens = k->sequence_tokens,
        .sequence_parallel = job->base->sequence_parallel && tp > 1};
    luo_layer_cost c;
    LUO_TRY(luo_cost_layer(&ctx, &s, dev, (int)pattern(job->base)->recompute, &c, err));
    *seconds = c.forward + c.backward;
    return LUO_OK;
}

/* ---- one node group ---- */

typedef struct group_costs {
    double layer_s[LUO_KIND_SIZES]; /* of tp >> k devices; sizes that no node holds as the next */
    luo_kind_room room;
} group_costs;

static int32_t sizes_of(int32_t tp)
{
    int32_t n = 1;
    while (tp >> n > 0) n++;
    return n;
}

static luo_status time_group(const luo_kinds *k, int32_t group, group_costs *out, luo_err *err)
{
    const luo_cluster *c = k->job->cluster;
    int32_t dev[1 << (LUO_KIND_SIZES - 1)], first = 0;
    const int32_t n = sizes_of(k->tp), per_node = c->groups[group].devices_per_node;
    while (c->devices[first].group != group) first++;
    for (int32_t i = 0; i < k->tp; i++) dev[i] = first + i;
    for (int32_t s = n - 1; s >= 0; s--) {
        const int32_t size = k->tp >> s;
        if (size > per_node) out->layer_s[s] = out->layer_s[s + 1];
        else LUO_TRY(luo_kinds_layer_s(k, dev, size, 1, &out->layer_s[s], err));
    }
    return LUO_OK;
}

/* A processor has no context, no communicators and no fragments of a caching allocator to pay. */
static luo_kind_room room_of(const luo_malleus_job *job, int32_t group)
{
    const luo_profile *p = job->cluster->groups[group].profile;
    const luo_malleus_params *q = job->params;
    const double factor = job->memory_factor > 0 ? job->memory_factor : 1;
    luo_kind_room r = {.context = p->cpu ? 0 : CONTEXT_MIB, .gap = p->cpu ? 0 : GAP_MIB,
                       .bound = (p->memory_bytes * factor - p->reserved_bytes) / 1048576.0};
    if (q && q->bound_mib > 0) r.bound = q->bound_mib * factor;
    if (q && q->gap_mib >= 0) r.gap = q->gap_mib;
    if (q && q->context_mib > 0) r.context = q->context_mib;
    return r;
}

/* ---- kinds ---- */

static void make_kind(const luo_kinds *k, const group_costs *c, double *alpha, double fastest,
                      luo_malleus_kind *out)
{
    const luo_malleus_params *q = k->job->params;
    alpha[0] = 1;
    for (int32_t s = 1; s < sizes_of(k->tp); s++) { /* rising: a small group is never faster */
        const double a = q && q->nalpha ? q->alpha[s] : c->layer_s[s] / c->layer_s[0];
        alpha[s] = a > alpha[s - 1] ? a : alpha[s - 1];
    }
    *out = (luo_malleus_kind){.base = c->layer_s[0] / fastest, .alpha = alpha};
}

static bool same_kind(const luo_kinds *k, int32_t a, const luo_malleus_kind *b,
                      const luo_kind_room *room)
{
    return k->at[a].base == b->base &&
           memcmp(k->at[a].alpha, b->alpha, (size_t)sizes_of(k->tp) * sizeof *b->alpha) == 0 &&
           k->room[a].bound == room->bound && k->room[a].gap == room->gap &&
           k->room[a].context == room->context;
}

static luo_status check_alpha(const luo_kinds *k, luo_err *err)
{
    const luo_malleus_params *q = k->job->params;
    if (!q || q->nalpha == 0 || q->nalpha >= sizes_of(k->tp)) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "`alpha` has %d values; groups of %d devices and their "
                       "halves need %d.", q->nalpha, k->tp, sizes_of(k->tp));
}

static luo_status list_kinds(luo_arena *arena, luo_kinds *k, const group_costs *costs,
                             luo_err *err)
{
    double fastest = INFINITY;
    for (int32_t g = 0; g < k->job->cluster->ngroups; g++)
        fastest = fmin(fastest, costs[g].layer_s[0]);
    for (int32_t g = 0; g < k->job->cluster->ngroups; g++) {
        double *alpha = LUO_NEW_N(arena, double, LUO_KIND_SIZES);
        luo_malleus_kind kind;
        int32_t i = 0;
        if (!alpha) return luo_err_nomem(err);
        make_kind(k, &costs[g], alpha, fastest, &kind);
        while (i < k->n && !same_kind(k, i, &kind, &costs[g].room)) i++;
        k->at[i] = kind;
        k->room[i] = costs[g].room;
        k->of_group[g] = i;
        if (i == k->n) k->n++;
    }
    k->model_tau_s = fastest;
    k->tau_s = k->job->params && k->job->params->tau_s > 0 ? k->job->params->tau_s : fastest;
    return LUO_OK;
}

static void read_shape(luo_kinds *k)
{
    const luo_plan *p = k->job->base;
    k->dp = k->job->pipelines > 0 ? k->job->pipelines : p->npipelines;
    k->tp = k->pp = 1;
    for (int32_t i = 0; i < p->npipelines; i++) {
        k->micro_batches += p->pipelines[i].micro_batches;
        if (p->pipelines[i].nstages > k->pp) k->pp = p->pipelines[i].nstages;
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
            const int32_t tp = luo_stage_tp(&p->pipelines[i].stages[s]);
            if (tp > k->tp) k->tp = tp;
        }
    }
    k->sequence_tokens = p->sequence_tokens;
    if (k->job->sequence_tokens > 0) k->sequence_tokens = k->job->sequence_tokens;
    for (int64_t l = 0; l < k->job->model->layers; l++)
        k->layer_parameters += luo_mem_layer_parameters(k->job->model, l, 1);
    k->layer_parameters /= (double)k->job->model->layers;
    if (k->job->micro_batches > 0) k->micro_batches = k->job->micro_batches;
}

luo_status luo_kinds_make(luo_arena *arena, const luo_malleus_job *job, luo_kinds *out,
                          luo_err *err)
{
    luo_kinds k = {.job = job};
    const int32_t n = job->cluster->ngroups;
    read_shape(&k);
    if ((k.tp & (k.tp - 1)) != 0 || k.tp > 1 << (LUO_KIND_SIZES - 1))
        return luo_err_set(err, LUO_EINPUT, "the base plan has groups of %d devices; a power of "
                           "two up to 64 is expected.", k.tp);
    LUO_TRY(check_alpha(&k, err));
    group_costs *costs = LUO_NEW_N(arena, group_costs, n);
    k.of_group = LUO_NEW_N(arena, int32_t, n);
    k.at = LUO_NEW_N(arena, luo_malleus_kind, n);
    k.room = LUO_NEW_N(arena, luo_kind_room, n);
    if (!costs || !k.of_group || !k.at || !k.room) return luo_err_nomem(err);
    for (int32_t g = 0; g < n; g++) {
        LUO_TRY(time_group(&k, g, &costs[g], err));
        costs[g].room = room_of(job, g);
    }
    LUO_TRY(list_kinds(arena, &k, costs, err));
    *out = k;
    return LUO_OK;
}

/* ---- y of a stage ---- */

/* The kind that decides, by the largest base rate, and whether its table has this size. */
static bool in_table(const luo_kinds *k, const luo_stage *st, int32_t *kind, int32_t *size)
{
    const luo_cluster *c = k->job->cluster;
    bool node = true;
    *kind = luo_kinds_of(k, st->dev[0]);
    for (int32_t i = 1; i < st->ndev; i++) {
        const int32_t other = luo_kinds_of(k, st->dev[i]);
        if (k->at[other].base > k->at[*kind].base) *kind = other;
        node = node && c->devices[st->dev[i]].node == c->devices[st->dev[0]].node;
    }
    for (*size = 0; k->tp >> *size > 0; ++*size)
        if (k->tp >> *size == st->ndev) return node && st->context_parallel == 1;
    return false;
}

luo_status luo_kinds_y(const luo_kinds *k, const luo_stage *st, const double *rate, double *y,
                       luo_err *err)
{
    int32_t kind, size;
    double worst = 1, seconds = 0;
    for (int32_t i = 0; rate && i < st->ndev; i++)
        worst = fmax(worst, luo_kinds_rate(k, rate[st->dev[i]]));
    if (in_table(k, st, &kind, &size)) {
        *y = k->at[kind].alpha[size] * k->at[kind].base * worst;
        return LUO_OK;
    }
    LUO_TRY(luo_kinds_layer_s(k, st->dev, luo_stage_tp(st), st->context_parallel, &seconds, err));
    *y = seconds / k->model_tau_s * worst;
    return LUO_OK;
}

luo_status luo_kinds_times(luo_arena *arena, const luo_kinds *k, const luo_plan *p,
                           const double *rate, const int64_t *m, luo_pipe_time **out,
                           luo_err *err)
{
    luo_pipe_time *pipes = LUO_NEW_N(arena, luo_pipe_time, p->npipelines);
    if (!pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < p->npipelines; i++) {
        const luo_pipeline *pl = &p->pipelines[i];
        double *t = LUO_NEW_N(arena, double, pl->nstages);
        if (!t) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) {
            double y;
            LUO_TRY(luo_kinds_y(k, &pl->stages[s], rate, &y, err));
            for (int32_t r = 0; r < pl->stages[s].nlayers; r++)
                if (pl->stages[s].layers[r].hi > pl->stages[s].layers[r].lo)
                    t[s] += y * (pl->stages[s].layers[r].hi - pl->stages[s].layers[r].lo);
        }
        pipes[i] = (luo_pipe_time){pl->nstages, t, m ? m[i] : pl->micro_batches};
    }
    *out = pipes;
    return LUO_OK;
}
