/* Seconds of the stages of a family of uniform plans: what layers are balanced by, micro-batches
 * dealt by, and bounds made of. */
#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/uniform/uniform_internal.h"

/* ---- of a layer, by devices that are alike ---- */

/* What the cost model sees of the devices of a stage: types, slots of a mesh, and which of them
 * share node, rack and site. */
static uint64_t signature(const uniform_search *search, const int32_t *dev, int32_t n, uint64_t h)
{
    const luo_cluster *cluster = search->cluster;
    const luo_node *first = &cluster->nodes[cluster->devices[dev[0]].node];
    int32_t node = cluster->devices[dev[0]].node, rank = 0;
    for (int32_t i = 0; i < n; i++) {
        const luo_device *device = &cluster->devices[dev[i]];
        const luo_node *at = &cluster->nodes[device->node];
        const bool plain = cluster->groups[device->group].scale_up == LUO_SCALE_UP_NVSWITCH;
        if (device->node != node) rank++;
        node = device->node;
        const int32_t part[] = {device->group, plain ? 0 : device->slot, rank,
                                at->rack == first->rack, at->site == first->site};
        h = luo_hash_bytes(h, part, sizeof part);
    }
    return h;
}

enum { OF_LAYER, OF_EMBEDDING, OF_HEAD };

static luo_layer_shape layer_of(const uniform_search *search, const uniform_frame *frame)
{
    return luo_layer_of(search->model, frame->micro_batch_sequences, search->opts->sequence_tokens,
                        frame->tp, frame->context, search->opts->sequence_parallel);
}

/* Layers of several kinds: the least of them, so that bounds hold. */
static luo_status layer_seconds(const uniform_search *search, const uniform_frame *frame,
                                const int32_t *dev, double out[2])
{
    luo_layer_shape shape = layer_of(search, frame);
    bool seen[LUO_LAYER_KINDS] = {false};
    out[0] = out[1] = INFINITY;
    for (int64_t l = 0; l < search->model->layers; l++) {
        luo_layer_cost cost;
        const int32_t kind = luo_model_layer_kind(search->model, l);
        if (seen[kind]) continue;
        seen[kind] = true;
        shape.layer = l;
        LUO_TRY(luo_cost_layer(&search->cost, &shape, dev, frame->recompute, &cost, search->err));
        out[0] = fmin(out[0], cost.forward);
        out[1] = fmin(out[1], cost.backward);
    }
    return LUO_OK;
}

static luo_status seconds_anew(const uniform_search *search, const uniform_frame *frame, int what,
                               const int32_t *dev, double out[2])
{
    const luo_layer_shape shape = layer_of(search, frame);
    luo_pair_cost pair = {0};
    if (what == OF_LAYER) return layer_seconds(search, frame, dev, out);
    LUO_TRY((what == OF_EMBEDDING ? luo_cost_embedding : luo_cost_head)(&search->cost, &shape, dev,
                                                                        &pair, search->err));
    out[0] = pair.forward;
    out[1] = pair.backward;
    return LUO_OK;
}

/* Room for one more; its number. */
static luo_status remember(uniform_search *search, const double seconds[2])
{
    if (!LUO_VEC_ROOM_IN(search->scratch, search->seconds, search->nseconds, search->cap_seconds))
        return luo_err_nomem(search->err);
    memcpy(search->seconds[search->nseconds++], seconds, sizeof *search->seconds);
    return LUO_OK;
}

/* Forward and backward of a layer or an end on those devices. */
static luo_status seconds_of(uniform_search *search, const uniform_frame *frame, int what,
                             const int32_t *dev, double out[2])
{
    const int32_t key[] = {what,
                           frame->tp,
                           frame->micro_batch_sequences,
                           frame->recompute,
                           frame->context.c,
                           frame->context.inner,
                           frame->context.zigzag};
    const uint64_t h = signature(search, dev, uniform_width(frame),
                                 luo_hash_bytes(LUO_HASH_EMPTY, key, sizeof key));
    int64_t *known = luo_map_at(&search->known, h ? h : 1, -1);
    if (!known) return luo_err_nomem(search->err);
    if (*known < 0) {
        LUO_TRY(seconds_anew(search, frame, what, dev, out));
        *known = search->nseconds;
        return remember(search, out);
    }
    memcpy(out, search->seconds[*known], sizeof *search->seconds);
    return LUO_OK;
}

/* ---- of the stages of a pipeline ---- */

typedef struct stages {
    double *forward, *backward, embedding[2], head[2];
} stages;

static luo_status stages_new(uniform_search *search, int32_t pp, stages *out)
{
    *out = (stages){.forward = LUO_NEW_N(search->scratch, double, pp),
                    .backward = LUO_NEW_N(search->scratch, double, pp)};
    return out->forward && out->backward ? LUO_OK : luo_err_nomem(search->err);
}

static luo_status fill(uniform_search *search, const uniform_frame *frame, int32_t pipeline,
                       stages *out)
{
    for (int32_t k = 0; k < frame->pp; k++) {
        double t[2];
        LUO_TRY(seconds_of(search, frame, OF_LAYER, uniform_stage(search, frame, pipeline, k), t));
        out->forward[k] = t[0];
        out->backward[k] = t[1];
    }
    LUO_TRY(seconds_of(search, frame, OF_EMBEDDING, uniform_stage(search, frame, pipeline, 0),
                       out->embedding));
    return seconds_of(search, frame, OF_HEAD, uniform_stage(search, frame, pipeline, frame->pp - 1),
                      out->head);
}

/* Of its slowest stage and of all, with equally many layers. */
static double slowest(const uniform_search *search, const uniform_frame *frame, const stages *x,
                      double *all)
{
    const double each = (double)search->model->layers / frame->pp;
    double most = 0;
    *all = 0;
    for (int32_t k = 0; k < frame->pp; k++) {
        double t = each * (x->forward[k] + x->backward[k]);
        if (k == 0) t += x->embedding[0] + x->embedding[1];
        if (k == frame->pp - 1) t += x->head[0] + x->head[1];
        most = fmax(most, t);
        *all += t;
    }
    return most;
}

static void keep_slower(int32_t pp, const stages *x, stages *most)
{
    for (int32_t k = 0; k < pp; k++) {
        most->forward[k] = fmax(most->forward[k], x->forward[k]);
        most->backward[k] = fmax(most->backward[k], x->backward[k]);
    }
    for (int i = 0; i < 2; i++) {
        most->embedding[i] = fmax(most->embedding[i], x->embedding[i]);
        most->head[i] = fmax(most->head[i], x->head[i]);
    }
}

/* ---- a frame ---- */

/* Micro-batches of the step, one at least to each pipeline. */
static luo_status deal_by_speed(uniform_search *search, uniform_frame *frame, const double *each,
                                const double *all, bool *good)
{
    const int64_t M = search->opts->batch_sequences / frame->micro_batch_sequences;
    int64_t *lo = LUO_NEW_N(search->scratch, int64_t, frame->dp);
    int64_t *out = LUO_NEW_N(search->scratch, int64_t, frame->dp);
    int32_t *dealt = LUO_NEW_N(search->scratch, int32_t, frame->dp);
    if (!lo || !out || !dealt) return luo_err_nomem(search->err);
    *good = M >= frame->dp;
    if (!*good) return LUO_OK;
    for (int32_t d = 0; d < frame->dp; d++) lo[d] = 1;
    LUO_TRY(luo_plan_split_micro_batches(frame->dp, each, all, true, M, lo, out, search->err));
    *good = false;
    frame->micro_batches = 0;
    for (int32_t d = 0; d < frame->dp; d++) {
        dealt[d] = (int32_t)out[d];
        if (out[d] != out[0]) *good = true; /* else it is the plan with equal ones */
        if (out[d] > frame->micro_batches) frame->micro_batches = out[d];
    }
    frame->dealt = dealt;
    return LUO_OK;
}

/* The pipeline with most to do. */
static int32_t busiest(const uniform_frame *frame, const double *each)
{
    int32_t best = 0;
    double most = -1;
    for (int32_t d = 0; d < frame->dp; d++) {
        const double t = each[d] * (frame->dealt ? frame->dealt[d] : 1);
        if (t > most) best = d;
        most = fmax(most, t);
    }
    return best;
}

luo_status uniform_finish_frame(uniform_search *search, uniform_frame *frame, bool deal, bool *good)
{
    const int32_t n =
        search->pool[frame->pool].mixed ? frame->dp : 1; /* else they are taken as alike */
    double *each = LUO_NEW_N(search->scratch, double, n),
           *all = LUO_NEW_N(search->scratch, double, n);
    stages most, own;
    if (!each || !all) return luo_err_nomem(search->err);
    *good = true;
    LUO_TRY(stages_new(search, frame->pp, &most));
    LUO_TRY(stages_new(search, frame->pp, &own));
    uniform_place(search, frame);
    if (search->pool[frame->pool].mixed && uniform_is_of_one_type(search, frame)) {
        *good = false; /* the pool of that type has it */
        return LUO_OK;
    }
    for (int32_t d = 0; d < n; d++) {
        LUO_TRY(fill(search, frame, d, &own));
        keep_slower(frame->pp, &own, &most);
        each[d] = slowest(search, frame, &own, &all[d]);
    }
    if (deal) LUO_TRY(deal_by_speed(search, frame, each, all, good));
    const int32_t d = n > 1 ? busiest(frame, each) : 0;
    LUO_TRY(fill(search, frame, d, &own));
    frame->forward = most.forward;
    frame->backward = most.backward;
    frame->own_forward = own.forward;
    frame->own_backward = own.backward;
    memcpy(frame->embedding, most.embedding, sizeof frame->embedding);
    memcpy(frame->head, most.head, sizeof frame->head);
    memcpy(frame->own_embedding, own.embedding, sizeof frame->own_embedding);
    memcpy(frame->own_head, own.head, sizeof frame->own_head);
    frame->own_micro_batches = frame->dealt ? frame->dealt[d] : frame->micro_batches;
    return LUO_OK;
}

/* ---- layers ---- */

/* Of a stage into its chunks: the first ones have one more. */
static int64_t chunk_layers(int64_t n, int32_t chunks, int32_t c)
{
    return n / chunks + (c < n % chunks);
}

/* Stages from the last, so that of equal ones the later have more layers: they keep less. */
luo_status uniform_balance(uniform_search *search, const uniform_frame *frame, int32_t chunks,
                           const int64_t **layers)
{
    const int32_t pp = frame->pp;
    const int64_t L = search->model->layers;
    double *w = LUO_NEW_N(search->scratch, double, pp),
           *off = LUO_NEW_N(search->scratch, double, pp);
    int64_t *lo = LUO_NEW_N(search->scratch, int64_t, pp),
            *n = LUO_NEW_N(search->scratch, int64_t, pp);
    bool equal = true;
    *layers = NULL;
    if (!w || !off || !lo || !n) return luo_err_nomem(search->err);
    if ((int64_t)pp * chunks > L) return LUO_OK;
    for (int32_t k = 0; k < pp; k++) {
        const int32_t j = pp - 1 - k;
        w[j] = frame->forward[k] + frame->backward[k];
        off[j] = (k == 0 ? frame->embedding[0] + frame->embedding[1] : 0) +
                 (k == pp - 1 ? frame->head[0] + frame->head[1] : 0);
        lo[j] = chunks;
    }
    LUO_TRY(luo_plan_minmax(pp, w, off, L, lo, NULL, n, NULL, search->err));
    int64_t *out = LUO_NEW_N(search->scratch, int64_t, (int64_t)pp * chunks);
    if (!out) return luo_err_nomem(search->err);
    for (int32_t c = 0; c < chunks; c++)
        for (int32_t k = 0; k < pp; k++) {
            out[c * pp + k] = chunk_layers(n[pp - 1 - k], chunks, c);
            if (out[c * pp + k] * pp * chunks != L) equal = false;
        }
    if (!equal) *layers = out;
    return LUO_OK;
}

/* ---- a bound ---- */

/* On one stage: what the first micro-batch has behind it, all of its own work, what the last has
 * before it. */
double uniform_bound(const uniform_search *search, const uniform_shape *shape)
{
    const uniform_frame *frame = shape->frame;
    const int32_t pp = frame->pp, v = shape->chunks;
    double before = 0, most = 0;
    for (int32_t k = 0; k < pp; k++) {
        double first[2] = {0, 0}, all = 0;
        for (int32_t c = 0; c < v; c++) {
            const double n = shape->layers ? (double)shape->layers[c * pp + k]
                                           : (double)search->model->layers / ((double)pp * v);
            double t[2] = {n * frame->own_forward[k], n * frame->own_backward[k]};
            for (int i = 0; i < 2; i++) {
                if (k == 0 && c == 0) t[i] += frame->own_embedding[i];
                if (k == pp - 1 && c == v - 1) t[i] += frame->own_head[i];
                if (c == 0) first[i] = t[i];
                all += t[i];
            }
        }
        most = fmax(most, before + (double)frame->own_micro_batches * all);
        before += first[0] + (luo_sched_splits(shape->schedule) ? 0 : first[1]);
    }
    return most * luo_cost_jitter(search->opts->stack, frame->dp * pp * uniform_width(frame)) *
           (1 - 1e-9);
}
