/* The planner's numbers of a model on a cluster (docs/planners.md): kinds, base rates, alpha, tau,
 * and the y of any stage. */
#include <math.h>
#include <string.h>

#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"
#include "core/plan/malleus/malleus_job_internal.h"

enum { CONTEXT_MIB = 4500, GAP_MIB = 4096 };

static const luo_stage *pattern(const luo_plan *plan)
{
    return &plan->pipelines[0].stages[0];
}

luo_status luo_kinds_layer_s(const luo_kinds *kinds, const int32_t *dev, int32_t tp, int32_t cp,
                             double *seconds, luo_err *err)
{
    const luo_malleus_job *job = kinds->job;
    const luo_cost_ctx ctx = {.cluster = job->cluster, .stack = job->stack,
                              .dtype = job->base->dtype};
    const luo_context context = {.c = cp, .inner = 1, .zigzag = job->model->causal};
    luo_layer_shape shape =
        luo_layer_of(job->model, job->base->micro_batch_sequences, kinds->sequence_tokens, tp,
                     context, job->base->sequence_parallel && tp > 1);
    luo_layer_cost cost;
    shape.layer = job->model->layers - 1;
    LUO_TRY(luo_cost_layer(&ctx, &shape, dev, (int)pattern(job->base)->recompute, &cost, err));
    *seconds = cost.forward + cost.backward;
    return LUO_OK;
}

/* ---- one kind of device ---- */

typedef struct kind_costs {
    double layer_s[LUO_KIND_SIZES]; /* of tp >> k devices; sizes that no node holds as the next */
    luo_kind_room room;
} kind_costs;

static int32_t sizes_of(int32_t tp)
{
    int32_t n = 1;
    while (tp >> n > 0) n++;
    return n;
}

static luo_status time_kind(const luo_kinds *kinds, int32_t kind, kind_costs *out, luo_err *err)
{
    const luo_cluster *cluster = kinds->job->cluster;
    int32_t dev[1 << (LUO_KIND_SIZES - 1)], per_node = 0, d = 0;
    const int32_t n = sizes_of(kinds->tp);
    while (cluster->devices[d].kind != kind) d++;
    const int32_t node = cluster->devices[d].node;
    for (; d < cluster->ndevices && cluster->devices[d].node == node && per_node < kinds->tp; d++)
        if (cluster->devices[d].kind == kind) dev[per_node++] = d;
    for (int32_t s = n - 1; s >= 0; s--) {
        const int32_t size = kinds->tp >> s;
        if (size > per_node) out->layer_s[s] = out->layer_s[s + 1];
        else
            LUO_TRY(luo_kinds_layer_s(kinds, dev, size, 1, &out->layer_s[s], err));
    }
    return LUO_OK;
}

/* A processor has no context, no communicators and no fragments of a caching allocator to pay. */
static luo_kind_room room_of(const luo_malleus_job *job, int32_t kind)
{
    const luo_profile *profile = luo_device_kind_profile(job->cluster, kind);
    const luo_malleus_params *params = job->params;
    const double factor = job->memory_factor > 0 ? job->memory_factor : 1;
    luo_kind_room room = {.context = profile->cpu ? 0 : CONTEXT_MIB,
                          .gap = profile->cpu ? 0 : GAP_MIB,
                          .bound = (profile->memory_bytes * factor - profile->reserved_bytes) /
                                   1048576.0};
    if (params && params->bound_mib > 0) room.bound = params->bound_mib * factor;
    if (params && params->gap_mib >= 0) room.gap = params->gap_mib;
    if (params && params->context_mib > 0) room.context = params->context_mib;
    return room;
}

/* ---- kinds ---- */

static void make_kind(const luo_kinds *kinds, const kind_costs *costs, double *alpha,
                      double fastest, luo_malleus_kind *out)
{
    const luo_malleus_params *params = kinds->job->params;
    alpha[0] = 1;
    for (int32_t s = 1; s < sizes_of(kinds->tp); s++) { /* rising: a small group is never faster */
        const double a =
            params && params->nalpha ? params->alpha[s] : costs->layer_s[s] / costs->layer_s[0];
        alpha[s] = a > alpha[s - 1] ? a : alpha[s - 1];
    }
    *out = (luo_malleus_kind){.base = costs->layer_s[0] / fastest, .alpha = alpha};
}

static bool same_kind(const luo_kinds *kinds, int32_t a, const luo_malleus_kind *kind,
                      const luo_kind_room *room)
{
    return kinds->at[a].base == kind->base &&
           memcmp(kinds->at[a].alpha, kind->alpha,
                  (size_t)sizes_of(kinds->tp) * sizeof *kind->alpha) == 0 &&
           kinds->room[a].bound == room->bound && kinds->room[a].gap == room->gap &&
           kinds->room[a].context == room->context;
}

static luo_status check_alpha(const luo_kinds *kinds, luo_err *err)
{
    const luo_malleus_params *params = kinds->job->params;
    if (!params || params->nalpha == 0 || params->nalpha >= sizes_of(kinds->tp)) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "`alpha` has %d values; groups of %d devices and their "
                       "halves need %d.",
                       params->nalpha, kinds->tp, sizes_of(kinds->tp));
}

static luo_status list_kinds(luo_arena *arena, luo_kinds *kinds, const kind_costs *costs,
                             luo_err *err)
{
    double fastest = INFINITY;
    for (int32_t g = 0; g < kinds->job->cluster->nkinds; g++)
        fastest = fmin(fastest, costs[g].layer_s[0]);
    for (int32_t g = 0; g < kinds->job->cluster->nkinds; g++) {
        double *alpha = LUO_NEW_N(arena, double, LUO_KIND_SIZES);
        luo_malleus_kind kind;
        int32_t i = 0;
        if (!alpha) return luo_err_nomem(err);
        make_kind(kinds, &costs[g], alpha, fastest, &kind);
        while (i < kinds->n && !same_kind(kinds, i, &kind, &costs[g].room)) i++;
        kinds->at[i] = kind;
        kinds->room[i] = costs[g].room;
        kinds->of_kind[g] = i;
        if (i == kinds->n) kinds->n++;
    }
    kinds->model_tau_s = fastest;
    kinds->tau_s =
        kinds->job->params && kinds->job->params->tau_s > 0 ? kinds->job->params->tau_s : fastest;
    return LUO_OK;
}

static void read_shape(luo_kinds *kinds)
{
    const luo_plan *plan = kinds->job->base;
    kinds->dp = kinds->job->pipelines > 0 ? kinds->job->pipelines : plan->npipelines;
    kinds->tp = kinds->pp = 1;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        kinds->micro_batches += plan->pipelines[i].micro_batches;
        if (plan->pipelines[i].nstages > kinds->pp) kinds->pp = plan->pipelines[i].nstages;
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const int32_t tp = luo_stage_tp(&plan->pipelines[i].stages[s]);
            if (tp > kinds->tp) kinds->tp = tp;
        }
    }
    kinds->sequence_tokens = plan->sequence_tokens;
    if (kinds->job->sequence_tokens > 0) kinds->sequence_tokens = kinds->job->sequence_tokens;
    for (int64_t l = 0; l < kinds->job->model->layers; l++)
        kinds->layer_parameters += luo_mem_layer_parameters(kinds->job->model, l, 1);
    kinds->layer_parameters /= (double)kinds->job->model->layers;
    if (kinds->job->micro_batches > 0) kinds->micro_batches = kinds->job->micro_batches;
}

luo_status luo_kinds_make(luo_arena *arena, const luo_malleus_job *job, luo_kinds *out,
                          luo_err *err)
{
    luo_kinds kinds = {.job = job};
    const int32_t n = job->cluster->nkinds;
    read_shape(&kinds);
    if ((kinds.tp & (kinds.tp - 1)) != 0 || kinds.tp > 1 << (LUO_KIND_SIZES - 1))
        return luo_err_set(err, LUO_EINPUT,
                           "the base plan has groups of %d devices; a power of "
                           "two up to 64 is expected.",
                           kinds.tp);
    LUO_TRY(check_alpha(&kinds, err));
    kind_costs *costs = LUO_NEW_N(arena, kind_costs, n);
    kinds.of_kind = LUO_NEW_N(arena, int32_t, n);
    kinds.at = LUO_NEW_N(arena, luo_malleus_kind, n);
    kinds.room = LUO_NEW_N(arena, luo_kind_room, n);
    if (!costs || !kinds.of_kind || !kinds.at || !kinds.room) return luo_err_nomem(err);
    for (int32_t g = 0; g < n; g++) {
        LUO_TRY(time_kind(&kinds, g, &costs[g], err));
        costs[g].room = room_of(job, g);
    }
    LUO_TRY(list_kinds(arena, &kinds, costs, err));
    *out = kinds;
    return LUO_OK;
}

/* ---- y of a stage ---- */

/* The kind that decides, by the largest base rate, and whether its table has this size. */
static bool in_table(const luo_kinds *kinds, const luo_stage *st, int32_t *kind, int32_t *size)
{
    const luo_cluster *cluster = kinds->job->cluster;
    bool node = true;
    *kind = luo_kinds_of(kinds, st->dev[0]);
    for (int32_t i = 1; i < st->ndev; i++) {
        const int32_t other = luo_kinds_of(kinds, st->dev[i]);
        if (kinds->at[other].base > kinds->at[*kind].base) *kind = other;
        node = node && cluster->devices[st->dev[i]].node == cluster->devices[st->dev[0]].node;
    }
    for (*size = 0; kinds->tp >> *size > 0; ++*size)
        if (kinds->tp >> *size == st->ndev) return node && st->context_parallel == 1;
    return false;
}

luo_status luo_kinds_y(const luo_kinds *kinds, const luo_stage *st, const double *rate, double *y,
                       luo_err *err)
{
    int32_t kind, size;
    double worst = 1, seconds = 0;
    for (int32_t i = 0; rate && i < st->ndev; i++)
        worst = fmax(worst, luo_kinds_rate(kinds, rate[st->dev[i]]));
    if (in_table(kinds, st, &kind, &size)) {
        *y = kinds->at[kind].alpha[size] * kinds->at[kind].base * worst;
        return LUO_OK;
    }
    LUO_TRY(
        luo_kinds_layer_s(kinds, st->dev, luo_stage_tp(st), st->context_parallel, &seconds, err));
    *y = seconds / kinds->model_tau_s * worst;
    return LUO_OK;
}

luo_status luo_kinds_times(luo_arena *arena, const luo_kinds *kinds, const luo_plan *plan,
                           const double *rate, const int64_t *m, luo_pipe_time **out, luo_err *err)
{
    luo_pipe_time *pipes = LUO_NEW_N(arena, luo_pipe_time, plan->npipelines);
    if (!pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        double *t = LUO_NEW_N(arena, double, pl->nstages);
        if (!t) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) {
            double y;
            LUO_TRY(luo_kinds_y(kinds, &pl->stages[s], rate, &y, err));
            for (int32_t r = 0; r < pl->stages[s].nlayers; r++)
                if (pl->stages[s].layers[r].hi > pl->stages[s].layers[r].lo)
                    t[s] += y * (pl->stages[s].layers[r].hi - pl->stages[s].layers[r].lo);
        }
        pipes[i] = (luo_pipe_time){pl->nstages, t, m ? m[i] : pl->micro_batches};
    }
    *out = pipes;
    return LUO_OK;
}
