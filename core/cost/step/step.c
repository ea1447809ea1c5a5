#include "core/cost/step/step.h"

#include <math.h>
#include <string.h>

#include "core/cost/step/memory.h"
#include "core/cost/step/step_internal.h"

/* A form is c*B*s*L*h^2 + (c/6)*B*s^2*L*h + 6*B*s*h*V; 128 bits hold it for any real network. */
static double flops(int64_t c, int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    const __int128 tokens = (__int128)B * s;
    const __int128 square = (__int128)c * h + c / 6 * s;
    return (double)(tokens * h * (square * L + (__int128)6 * V));
}

double luo_step_flops_72(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    return flops(72, B, s, L, h, V);
}

double luo_step_flops_96(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    return flops(96, B, s, L, h, V);
}

const int32_t *step_devices(const stepper *w, int32_t pipeline, int32_t stage)
{
    return w->s->dev + ((int64_t)pipeline * w->s->pp + stage) * step_width(w->s);
}

int64_t step_layers(const luo_step_spec *spec, int32_t stage)
{
    int64_t n = 0;
    if (!spec->layers)
        return spec->model->layers / spec->pp + (stage < spec->model->layers % spec->pp);
    for (int32_t c = 0; c < spec->chunks; c++) n += spec->layers[(int64_t)c * spec->pp + stage];
    return n;
}

int64_t step_chunk_layers(const luo_step_spec *spec, int32_t stage, int32_t chunk)
{
    return spec->layers ? spec->layers[(int64_t)chunk * spec->pp + stage]
                        : step_layers(spec, stage) / spec->chunks;
}

int64_t step_chunk_first(const luo_step_spec *spec, int32_t stage, int32_t chunk)
{
    int64_t first = step_first_layer(spec, stage);
    for (int32_t c = 0; c < chunk; c++) first += step_chunk_layers(spec, stage, c);
    return first;
}

int64_t step_first_layer(const luo_step_spec *spec, int32_t stage)
{
    int64_t first = 0;
    for (int32_t k = 0; k < stage; k++) first += step_layers(spec, k);
    return first;
}

/* Of a sequence with its pads: cuts among ranks are exact, and so is one among tensor ranks. */
static int64_t padded(const luo_step_spec *spec)
{
    const int64_t n = luo_context_multiple(&spec->context);
    const bool cut = n > 1 && (spec->context.inner > 1 || spec->sequence_parallel);
    return luo_context_pad(spec->sequence_tokens, cut ? n * spec->tp : n);
}

luo_layer_shape luo_step_layer(const luo_step_spec *spec, int64_t layer)
{
    return (luo_layer_shape){.model = spec->model,
                             .layer = layer,
                             .tokens = spec->micro_batch_sequences * padded(spec),
                             .sequence_tokens = padded(spec),
                             .tp = spec->tp,
                             .context = spec->context,
                             .experts_among = spec->experts_among,
                             .sequence_parallel = spec->sequence_parallel};
}

/* Parameters of a stage on one device. */
static double stage_parameters(const luo_step_spec *spec, int32_t stage)
{
    const int64_t first = step_first_layer(spec, stage), n = step_layers(spec, stage);
    const double table =
        (double)luo_mem_vocab(spec->model, spec->tp) * (double)spec->model->hidden / spec->tp;
    /* a table on both stages is updated by both; of its copy with ZeRO-2 and 3 there is no state */
    const bool own = !spec->model->tied_embeddings || step_holds_ends(spec);
    const double part = step_holds_ends(spec) && spec->zero == 1 ? table / 2 : table;
    double sum = (stage == 0 ? part : 0) + (stage == spec->pp - 1 && own ? part : 0);
    for (int64_t l = first; l < first + n; l++)
        sum += luo_mem_layer_parameters(spec->model, l, spec->tp);
    return sum;
}

/* Do two layers cost the same? Only experts make a difference. */
static bool alike(const luo_model *model, int64_t a, int64_t b)
{
    return model->moe.experts == 0 ||
           luo_mem_layer_parameters(model, a, 1) == luo_mem_layer_parameters(model, b, 1);
}

const int32_t *step_replicas(const stepper *w, int32_t stage, int32_t i)
{
    const int32_t c = step_ranks(w->s);
    for (int32_t k = 0; k < step_copies(w->s); k++)
        w->group[k] = step_devices(w, k / c, stage)[k % c * w->s->tp + i];
    return w->group;
}

/* Gradients are complete in BW. */
static luo_layer_cost of_weights(luo_layer_cost c)
{
    c.backward = c.weight;
    memcpy(c.done, c.weight_done, sizeof c.done);
    memcpy(c.due, c.weight_due, sizeof c.due);
    return c;
}

static luo_status layer_list(const stepper *w, int32_t pipeline, int32_t stage, double *forward,
                             double *backward)
{
    const int64_t first = step_first_layer(w->s, stage), n = step_layers(w->s, stage);
    luo_layer_cost cost = {0};
    for (int64_t i = 0; i < n; i++) {
        luo_layer_shape shape = luo_step_layer(w->s, first + i);
        LUO_TRY(step_beside(w, stage, &shape));
        w->beside[first + i] = shape.beside;
        if (i == 0 || !alike(w->s->model, first + i, first + i - 1))
            LUO_TRY(luo_cost_layer(w->ctx, &shape, step_devices(w, pipeline, stage),
                                   w->s->recompute, &cost, w->err));
        forward[i] = cost.forward;
        backward[i] = w->weight ? cost.input : cost.backward;
        w->layer[first + i] = w->weight ? of_weights(cost) : cost;
    }
    return LUO_OK;
}

/* Embedding and head, where the stage has them. */
static luo_status cost_ends(const stepper *w, int32_t pipeline, int32_t stage,
                            luo_pair_cost *embedding, luo_pair_cost *head)
{
    const luo_layer_shape shape = luo_step_layer(w->s, 0);
    const int32_t *dev = step_devices(w, pipeline, stage);
    *embedding = *head = (luo_pair_cost){0};
    if (stage == 0) LUO_TRY(luo_cost_embedding(w->ctx, &shape, dev, embedding, w->err));
    return stage == w->s->pp - 1 ? luo_cost_head(w->ctx, &shape, dev, head, w->err) : LUO_OK;
}

/* BW of a stage: its layers, its ends, whose gradients are complete there. */
static void cost_weights(stepper *w, int32_t stage, const luo_pair_cost *embedding,
                         const luo_pair_cost *head)
{
    const int64_t first = step_first_layer(w->s, stage), n = step_layers(w->s, stage);
    w->weight[stage] = embedding->weight + head->weight;
    for (int64_t i = first; i < first + n; i++) w->weight[stage] += w->layer[i].weight;
    if (stage == 0) w->embedding.backward = w->embedding.done = embedding->weight;
    if (stage == w->s->pp - 1) w->head.backward = w->head.done = head->weight;
}

/* Seconds of one micro-batch on a stage; chunks share its time as they share its layers, its ends
 * go to the first or last chunk. */
static luo_status cost_stage(stepper *w, int32_t pipeline, int32_t stage)
{
    const luo_step_spec *spec = w->s;
    const size_t mark = luo_arena_mark(w->scratch);
    const int64_t n = step_layers(spec, stage);
    double *forward = LUO_NEW_N(w->scratch, double, 2 * n + 2);
    double f = 0, b = 0;
    luo_pair_cost embedding, head;
    if (!forward) return luo_err_nomem(w->err);
    double *backward = forward + n;
    LUO_TRY(layer_list(w, pipeline, stage, forward, backward));
    for (int64_t i = 0; i < n; i++) {
        f += forward[i];
        b += backward[i];
    }
    LUO_TRY(cost_ends(w, pipeline, stage, &embedding, &head));
    if (stage == 0) w->embedding = embedding;
    if (stage == spec->pp - 1) w->head = head;
    const int32_t first = stage * spec->chunks, last = first + spec->chunks - 1;
    for (int32_t c = first; c <= last; c++) {
        const double part = spec->layers && n > 0
                                ? (double)n / (double)spec->layers[(c - first) * spec->pp + stage]
                                : spec->chunks;
        w->forward[c] = f / part;
        w->backward[c] = b / part;
    }
    w->forward[first] += embedding.forward;
    w->backward[first] += w->weight ? embedding.input : embedding.backward;
    w->forward[last] += head.forward;
    w->backward[last] += w->weight ? head.input : head.backward;
    if (w->weight) cost_weights(w, stage, &embedding, &head);
    luo_arena_reset(w->scratch, mark);
    return step_make_beats(w, stage);
}

/* Transfer from stage k to the next; the last link joins stage p-1 to 0 (interleaved). */
static luo_status cost_transfer(const stepper *w, int32_t pipeline, int32_t k)
{
    const luo_step_spec *spec = w->s;
    const luo_cluster *cluster = w->ctx->cluster;
    const int32_t *a = step_devices(w, pipeline, k);
    const int32_t *b = step_devices(w, pipeline, (k + 1) % spec->pp);
    double worst = 0;
    const luo_layer_shape shape = luo_step_layer(spec, 0);
    for (int32_t i = 0; i < step_width(spec); i++) {
        const bool same = cluster->devices[a[i]].node == cluster->devices[b[i]].node;
        int64_t bytes =
            luo_layer_tokens(&shape) * spec->model->hidden * luo_dtype_bytes(w->ctx->dtype);
        if (spec->sequence_parallel || (w->ctx->stack->scatter_gather && !same)) bytes /= spec->tp;
        double t = 0;
        LUO_TRY(luo_cost_p2p(w->ctx, a[i], b[i], bytes, 0, &t, w->err));
        worst = fmax(worst, t);
    }
    w->transfer[k] = worst;
    return LUO_OK;
}

/* Does pipeline d cost what d - 1 cost? Same GPU types and the same neighbours on a node. */
static bool same_as_before(const stepper *w, int32_t d)
{
    const luo_cluster *cluster = w->ctx->cluster;
    const int32_t *m = w->s->pipeline_micro_batches;
    if (m && m[d] != m[d - 1]) return false;
    const int32_t n = w->s->pp * step_width(w->s);
    const int32_t *x = step_devices(w, d - 1, 0), *y = step_devices(w, d, 0);
    for (int32_t i = 0; i < n; i++) {
        const luo_device *p = &cluster->devices[x[i]], *q = &cluster->devices[y[i]];
        if (p->group != q->group ||
            (cluster->groups[p->group].scale_up != LUO_SCALE_UP_NVSWITCH && p->slot != q->slot))
            return false;
        if (i == 0) continue;
        if (luo_cluster_link_class(cluster, x[i - 1], x[i]) !=
            luo_cluster_link_class(cluster, y[i - 1], y[i]))
            return false;
    }
    return true;
}

static void turn(void *stepper_, int32_t stage, const luo_task *t, luo_turn *x)
{
    stepper *w = stepper_;
    step_stage *k = &w->stage[stage];
    const int32_t at = stage * w->s->chunks + t->chunk;
    const bool back = t->phase != LUO_TASK_F;
    const step_beats *beats = &(back ? k->backward_beats : k->forward_beats)[t->chunk];
    if (beats->n > 0) {
        step_play(w, stage, beats, x);
        return;
    }
    const double *seconds = t->phase == LUO_TASK_BW ? w->weight : back ? w->backward : w->forward;
    x->end = x->start + seconds[at];
    if (!back && t->micro_batch == 0) x->end = step_first(w, stage, t->chunk, x->start);
    k->worked = x->free = x->end;
}

static luo_status cost_pipelines(stepper *w, luo_step_cost *out)
{
    const luo_step_spec *spec = w->s;
    for (int32_t d = 0; d < spec->dp; d++) {
        const int32_t m =
            spec->pipeline_micro_batches ? spec->pipeline_micro_batches[d] : spec->micro_batches;
        double makespan = 0, ideal = 0;
        w->same[d] = d > 0 && same_as_before(w, d);
        if (w->same[d]) continue;
        for (int32_t k = 0; k < spec->pp; k++) {
            double both = 0;
            LUO_TRY(cost_stage(w, d, k));
            if (spec->pp > 1) LUO_TRY(cost_transfer(w, d, k));
            w->stage[k].lane = w->stage[k].worked = 0;
            for (int32_t c = 0; c < spec->chunks; c++)
                both += w->forward[k * spec->chunks + c] + w->backward[k * spec->chunks + c] +
                        (w->weight ? w->weight[k * spec->chunks + c] : 0);
            ideal = fmax(ideal, both * m);
        }
        if (d == 0) LUO_TRY(step_gather(w));
        const luo_course course = {.kind = spec->schedule,
                                   .S = spec->pp,
                                   .m = m,
                                   .v = spec->chunks,
                                   .transfer = spec->pp > 1 ? w->transfer : NULL,
                                   .blocking = w->ctx->stack->p2p_blocking,
                                   .turn = turn,
                                   .ctx = w,
                                   .last = w->last};
        LUO_TRY(luo_sched_course(w->scratch, &course, &makespan, w->err));
        LUO_TRY(step_ready(w));
        out->pipeline = fmax(out->pipeline, makespan);
        out->ideal = fmax(out->ideal, ideal);
    }
    return LUO_OK;
}

/* The norm of all gradients, before any of them is used. */
static luo_status cost_norm(const stepper *w, double *seconds)
{
    const luo_step_spec *spec = w->s;
    const int32_t all = w->ctx->cluster->ndevices, n = spec->dp * spec->pp * step_width(spec);
    const size_t mark = luo_arena_mark(w->scratch);
    bool *used = LUO_NEW_N(w->scratch, bool, all);
    int32_t *dev = LUO_NEW_N(w->scratch, int32_t, n), at = 0;
    if (!used || !dev) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) used[spec->dev[i]] = true;
    for (int32_t d = 0; d < all; d++) /* those of a node side by side */
        if (used[d]) dev[at++] = d;
    LUO_TRY(luo_cost_group(w->ctx, LUO_COLL_AR, dev, at, 4, 0, seconds, w->err));
    luo_arena_reset(w->scratch, mark);
    return LUO_OK;
}

static luo_status cost_rest(stepper *w, luo_step_cost *out)
{
    const luo_step_spec *spec = w->s;
    for (int32_t k = 0; k < spec->pp; k++) {
        const double params =
            stage_parameters(spec, k) / (spec->zero >= 1 ? step_shard_size(spec) : 1);
        for (int32_t d = 0; d < spec->dp; d++) {
            double opt = 0;
            if (w->same[d]) continue;
            LUO_TRY(luo_cost_optimizer(w->ctx, step_devices(w, d, k)[0], params, &opt, w->err));
            out->optimizer = fmax(out->optimizer, opt);
        }
    }
    double norm = 0;
    LUO_TRY(step_exposed(w, out->pipeline, &out->dp, &out->tied));
    LUO_TRY(cost_norm(w, &norm));
    out->optimizer += norm;
    return LUO_OK;
}

luo_status luo_cost_step(luo_arena *scratch, const luo_cost_ctx *ctx, const luo_step_spec *s,
                         luo_step_cost *out, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    const bool splits = luo_sched_splits(s->schedule);
    if (splits && s->zero >= 2)
        return luo_err_set(err, LUO_EINPUT,
                           "schedule `%s` with zero %d: gradients that are cut in every "
                           "micro-batch need a whole backward; use zero 0 or 1, or schedule "
                           "`1f1b`.",
                           luo_sched_name(s->schedule), s->zero);
    luo_step_cost cost = {.jitter = luo_cost_jitter(ctx->stack,
                                                    s->dp * s->pp * step_width(s))};
    stepper w = {.scratch = scratch, .ctx = ctx, .s = s, .err = err,
                 .forward = LUO_NEW_N(scratch, double, s->pp * s->chunks),
                 .backward = LUO_NEW_N(scratch, double, s->pp * s->chunks),
                 .weight = splits ? LUO_NEW_N(scratch, double, s->pp) : NULL,
                 .transfer = LUO_NEW_N(scratch, double, s->pp),
                 .last = LUO_NEW_N(scratch, double, s->pp * s->chunks),
                 .layer = LUO_NEW_N(scratch, luo_layer_cost, s->model->layers),
                 .beside = LUO_NEW_N(scratch, double, s->model->layers),
                 .group = LUO_NEW_N(scratch, int32_t, 2 * (int64_t)step_copies(s)),
                 .same = LUO_NEW_N(scratch, bool, s->dp)};
    if (!w.forward || !w.backward || (splits && !w.weight) || !w.transfer || !w.last || !w.layer ||
        !w.beside || !w.group || !w.same) {
        st = luo_err_nomem(err);
        goto out;
    }
    LUO_TRY_OUT(step_dp_open(&w));
    LUO_TRY_OUT(cost_pipelines(&w, &cost));
    LUO_TRY_OUT(cost_rest(&w, &cost));
    cost.step = (cost.pipeline + cost.dp + cost.tied + cost.optimizer) * cost.jitter;
    *out = cost;
out:
    luo_arena_reset(scratch, mark);
    return st;
}
