/* step_stages.c: seconds of the stages of all pipelines. */
#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/cost/step/memory.h"
#include "core/plan/annotate.h"
#include "core/plan/step/step_internal.h"

/* ---- devices that are alike ---- */

/* The same GPU types in the same places of their nodes, their neighbours as far away? */
static bool same_devices(const luo_cluster *cluster, const int32_t *a, const int32_t *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const luo_device *x = &cluster->devices[a[i]], *y = &cluster->devices[b[i]];
        if (x->kind != y->kind) return false;
        if (cluster->groups[x->group].scale_up != LUO_SCALE_UP_NVSWITCH && x->slot != y->slot)
            return false;
        if (i > 0 && luo_cluster_link_class(cluster, a[i - 1], a[i]) !=
                         luo_cluster_link_class(cluster, b[i - 1], b[i]))
            return false;
    }
    return true;
}

/* ---- layers ---- */

/* What one layer of a stage costs; those like it ask no more. */
typedef struct step_costed {
    const step_stage *of;
    int recompute;
    int32_t kind; /* of the layer */
    step_layer *layer;
} step_costed;

static bool same_shape(const luo_layer_shape *a, const luo_layer_shape *b)
{
    return a->tp == b->tp && a->tokens == b->tokens && a->context.c == b->context.c &&
           a->context.inner == b->context.inner && a->context.zigzag == b->context.zigzag &&
           a->experts_among == b->experts_among;
}

static bool same_stage(const luo_cluster *cluster, const step_stage *a, const step_stage *b)
{
    return a == b || (a->rate == b->rate && a->at->ndev == b->at->ndev &&
                      same_shape(&a->shape, &b->shape) &&
                      same_devices(cluster, a->at->dev, b->at->dev, a->at->ndev));
}

/* Communication inside the group is not slowed: it waits. waits: 1, or 0 where it does not count.
 */
static void slow_down(luo_layer_cost *cost, double rate, double waits)
{
    const double comm[2] = {waits * cost->forward_comm, waits * cost->backward_comm};
    const double forward = (cost->forward - cost->forward_comm) * rate + comm[0];
    const double backward = (cost->backward - cost->backward_comm) * rate + comm[1];
    const double forth = cost->forward > 0 ? forward / cost->forward : 1;
    const double back = cost->backward > 0 ? backward / cost->backward : 1;
    cost->forward = forward;
    cost->backward = backward;
    for (int part = 0; part < LUO_LAYER_PARTS; part++) {
        cost->read[part] *= forth;
        cost->done[part] *= back;
        cost->due[part] *= back;
        cost->weight_done[part] *= rate;
        cost->weight_due[part] *= rate;
    }
    cost->reread *= back;
    cost->renorm *= back;
    cost->input = (cost->input - cost->backward_comm) * rate + comm[1];
    cost->weight *= rate;
    cost->beside *= rate;
}

static luo_status cost_layer(stepper *w, const step_stage *stage, int64_t layer, int recompute,
                             step_layer *out)
{
    luo_layer_shape shape = stage->shape;
    luo_layer_cost *cost = &out->cost;
    shape.layer = layer;
    LUO_TRY(step_beside(w, stage, &shape));
    LUO_TRY(luo_cost_layer(&w->ctx, &shape, stage->at->dev, recompute, cost, w->err));
    if (stage->rate > 1 || w->estimates) slow_down(cost, stage->rate, !w->estimates);
    out->beside = shape.beside;
    if (!luo_sched_splits(w->plan->schedule)) return LUO_OK;
    out->input = cost->input;
    cost->backward = cost->weight;
    memcpy(cost->done, cost->weight_done, sizeof cost->done);
    memcpy(cost->due, cost->weight_due, sizeof cost->due);
    return LUO_OK;
}

static int recompute_of(const luo_stage *st, int32_t layer)
{
    if (st->nrecompute == 0) return (int)st->recompute;
    for (int32_t i = 0; i < st->nrecompute; i++)
        if (layer >= st->recompute_layers[i].lo && layer < st->recompute_layers[i].hi)
            return (int)st->recompute;
    return LUO_RECOMPUTE_NONE;
}

static luo_status find_layer(stepper *w, const step_stage *stage, int32_t layer,
                             const step_layer **out)
{
    const luo_model *model = w->in->model;
    const int recompute = recompute_of(stage->at, layer);
    const int32_t kind = luo_model_layer_kind(model, layer);
    for (int32_t i = w->nlayers; i-- > 0;) {
        const step_costed *costed = &w->layers[i];
        if (costed->recompute != recompute || costed->kind != kind ||
            !same_stage(w->in->cluster, costed->of, stage))
            continue;
        *out = costed->layer;
        return LUO_OK;
    }
    if (!LUO_VEC_ROOM_IN(w->scratch, w->layers, w->nlayers, w->cap_layers))
        return luo_err_nomem(w->err);
    step_costed *costed = &w->layers[w->nlayers];
    *costed = (step_costed){stage, recompute, kind, LUO_NEW(w->scratch, step_layer)};
    if (!costed->layer) return luo_err_nomem(w->err);
    LUO_TRY(cost_layer(w, stage, layer, recompute, costed->layer));
    w->nlayers++;
    *out = costed->layer;
    return LUO_OK;
}

/* ---- stages ---- */

static luo_status cost_end(const stepper *w, const step_stage *stage, bool head, luo_pair_cost *out)
{
    const double rate = stage->rate;
    LUO_TRY((head ? luo_cost_head : luo_cost_embedding)(&w->ctx, &stage->shape, stage->at->dev, out,
                                                        w->err));
    *out = (luo_pair_cost){out->forward * rate, out->backward * rate, out->read * rate,
                           out->done * rate, out->reread * rate, out->input * rate,
                           out->weight * rate};
    return LUO_OK;
}

/* zb_h1: gradients are complete in BW. */
static void cost_task(const stepper *w, step_stage *stage, step_chunk *chunk)
{
    const bool splits = luo_sched_splits(w->plan->schedule);
    luo_pair_cost *end[2] = {chunk->embedding ? &stage->embedding : NULL,
                             chunk->head ? &stage->head : NULL};
    for (int32_t l = chunk->lo; l < chunk->hi; l++) {
        const step_layer *layer = chunk->layer[l - chunk->lo];
        chunk->forward += layer->cost.forward;
        chunk->backward += splits ? layer->input : layer->cost.backward;
        chunk->weight += splits ? layer->cost.weight : 0;
    }
    for (int k = 0; k < 2; k++) {
        if (!end[k]) continue;
        chunk->forward += end[k]->forward;
        chunk->backward += splits ? end[k]->input : end[k]->backward;
        chunk->weight += splits ? end[k]->weight : 0;
        if (splits) end[k]->backward = end[k]->done = end[k]->weight;
    }
}

static luo_status cost_stage(stepper *w, step_stage *stage)
{
    const int32_t chunks = stage->at->nlayers;
    stage->chunk = LUO_NEW_N(w->scratch, step_chunk, chunks);
    if (!stage->chunk) return luo_err_nomem(w->err);
    if (stage->at->embedding) LUO_TRY(cost_end(w, stage, false, &stage->embedding));
    if (stage->at->head) LUO_TRY(cost_end(w, stage, true, &stage->head));
    for (int32_t k = 0; k < chunks; k++) {
        step_chunk *chunk = &stage->chunk[k];
        *chunk = (step_chunk){.lo = stage->at->layers[k].lo,
                              .hi = stage->at->layers[k].hi,
                              .embedding = stage->at->embedding && k == 0,
                              .head = stage->at->head && k == chunks - 1};
        chunk->layer = LUO_NEW_N(w->scratch, const step_layer *, chunk->hi - chunk->lo + 1);
        if (!chunk->layer) return luo_err_nomem(w->err);
        for (int32_t l = chunk->lo; l < chunk->hi; l++)
            LUO_TRY(find_layer(w, stage, l, &chunk->layer[l - chunk->lo]));
        cost_task(w, stage, chunk);
    }
    return LUO_OK;
}

static double slowest(const stepper *w, const luo_stage *st)
{
    double worst = 1;
    for (int32_t i = 0; i < st->ndev && w->in->rate; i++)
        worst = fmax(worst, w->in->rate[st->dev[i]]);
    return worst;
}

static step_stage open_stage(const stepper *w, int32_t pipeline, const luo_stage *st)
{
    const luo_plan *plan = w->plan;
    const luo_context context = luo_plan_context(plan, w->in->model->causal, pipeline);
    const int32_t tp = luo_stage_tp(st);
    luo_layer_shape shape = luo_layer_of(
        w->in->model, plan->pipelines[pipeline].micro_batch_sequences, w->in->sequence_tokens, tp,
        context, plan->sequence_parallel && tp > 1);
    shape.experts_among = st->experts_dealt ? luo_plan_experts_among(plan, tp) : 0;
    shape.experts_exchange = plan->moe_exchange;
    return (step_stage){.at = st, .shape = shape, .rate = slowest(w, st)};
}

/* ---- pipelines ---- */

/* Does pipeline i cost what the one before costs? Ends of stages are neighbours, too. */
static bool same_as_before(const stepper *w, int32_t i)
{
    const luo_pipeline *a = &w->plan->pipelines[i - 1], *b = &w->plan->pipelines[i];
    const step_pipe *pipe = &w->pipe[i - 1];
    if (a->micro_batches != b->micro_batches || a->nstages != b->nstages) return false;
    for (int32_t s = 0; s < b->nstages; s++) {
        const luo_stage *p = &a->stages[s], *q = &b->stages[s];
        const step_stage mine = open_stage(w, i, q);
        if (p->nlayers != q->nlayers || p->recompute != q->recompute || p->nrecompute ||
            q->nrecompute || !same_stage(w->in->cluster, &pipe->stage[s], &mine))
            return false;
        if (memcmp(p->layers, q->layers, (size_t)p->nlayers * sizeof *p->layers) != 0) return false;
        const int32_t from[2] = {a->stages[s ? s - 1 : 0].dev[0], b->stages[s ? s - 1 : 0].dev[0]};
        if (luo_cluster_link_class(w->in->cluster, from[0], p->dev[0]) !=
            luo_cluster_link_class(w->in->cluster, from[1], q->dev[0]))
            return false;
        if (step_next(w, b, s) && *step_senders(w, p->dev[0], s) != *step_senders(w, q->dev[0], s))
            return false;
    }
    return true;
}

static luo_status open_pipe(stepper *w, int32_t i)
{
    const luo_pipeline *pl = &w->plan->pipelines[i];
    step_pipe *pipe = &w->pipe[i];
    *pipe = (step_pipe){.n = pl->nstages,
                        .stage = LUO_NEW_N(w->scratch, step_stage, pl->nstages),
                        .transfer = LUO_NEW_N(w->scratch, double, pl->nstages),
                        .back = LUO_NEW_N(w->scratch, double, pl->nstages)};
    if (!pipe->stage || !pipe->transfer || !pipe->back) return luo_err_nomem(w->err);
    for (int32_t s = 0; s < pipe->n; s++) {
        pipe->stage[s] = open_stage(w, i, &pl->stages[s]);
        pipe->stage[s].index = s;
        LUO_TRY(cost_stage(w, &pipe->stage[s]));
    }
    for (int32_t s = 0; s < pipe->n; s++)
        if (step_next(w, pl, s) && !w->estimates) step_cost_message(w, pipe, s);
    return LUO_OK;
}

luo_status step_open_pipes(stepper *w)
{
    w->pipe = LUO_NEW_N(w->scratch, step_pipe, w->plan->npipelines);
    if (!w->pipe) return luo_err_nomem(w->err);
    LUO_TRY(step_count_senders(w));
    for (int32_t i = 0; i < w->plan->npipelines; i++) {
        if (i > 0 && same_as_before(w, i)) {
            w->pipe[i] = w->pipe[i - 1];
            w->pipe[i].same = true;
            continue;
        }
        LUO_TRY(open_pipe(w, i));
    }
    return LUO_OK;
}
