#include "core/cost/step.h"

#include <math.h>

#include "core/cost/memory.h"
#include "core/cost/overlap.h"
#include "core/cost/step_in.h"

/* A form is c*B*s*L*h^2 + (c/6)*B*s^2*L*h + 6*B*s*h*V; 128 bits hold it for any real network. */
static double flops(int64_t c, int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    const __int128 tokens = (__int128)B * s;
    const __int128 square = (__int128)c * h + c / 6 * s;
    return (double)(tokens * h * (square * L + (__int128)6 * V));
}

double luo_flops_72(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    return flops(72, B, s, L, h, V);
}

double luo_flops_96(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    return flops(96, B, s, L, h, V);
}

const int32_t *step_devices(const stepper *w, int32_t pipeline, int32_t stage)
{
    return w->s->dev + ((int64_t)pipeline * w->s->pp + stage) * w->s->tp;
}

int64_t step_layers(const luo_step_spec *s, int32_t stage)
{
    if (s->layers) return s->layers[stage];
    return s->model->layers / s->pp + (stage < s->model->layers % s->pp);
}

int64_t step_first_layer(const luo_step_spec *s, int32_t stage)
{
    int64_t first = 0;
    for (int32_t k = 0; k < stage; k++) first += step_layers(s, k);
    return first;
}

static luo_layer_shape shape_of(const luo_step_spec *s, int64_t layer)
{
    return (luo_layer_shape){.model = s->model, .layer = layer,
                             .tokens = s->micro_batch_sequences * s->sequence_tokens,
                             .sequence_tokens = s->sequence_tokens, .tp = s->tp, .cp = 1,
                             .sequence_parallel = s->sequence_parallel};
}

/* Parameters of a stage on one device. */
static double stage_parameters(const luo_step_spec *s, int32_t stage)
{
    const int64_t first = step_first_layer(s, stage), n = step_layers(s, stage);
    const double table =
        (double)luo_mem_vocab(s->model, s->tp) * (double)s->model->hidden / s->tp;
    const bool own = !s->model->tied_embeddings; /* else the first stage updates it for the head */
    double sum = (stage == 0 ? table : 0) + (stage == s->pp - 1 && own ? table : 0);
    for (int64_t l = first; l < first + n; l++) sum += luo_mem_layer_parameters(s->model, l, s->tp);
    return sum;
}

/* Do two layers cost the same? Only experts make a difference. */
static bool alike(const luo_model *m, int64_t a, int64_t b)
{
    return m->moe.experts == 0 ||
           luo_mem_layer_parameters(m, a, 1) == luo_mem_layer_parameters(m, b, 1);
}

const int32_t *step_replicas(const stepper *w, int32_t stage, int32_t i)
{
    for (int32_t d = 0; d < w->s->dp; d++) w->group[d] = step_devices(w, d, stage)[i];
    return w->group;
}

static luo_status layer_list(const stepper *w, int32_t pipeline, int32_t stage, double *forward,
                             double *backward)
{
    const int64_t first = step_first_layer(w->s, stage), n = step_layers(w->s, stage);
    luo_layer_cost cost = {0};
    for (int64_t i = 0; i < n; i++) {
        const luo_layer_shape l = shape_of(w->s, first + i);
        if (i == 0 || !alike(w->s->model, first + i, first + i - 1))
            LUO_TRY(luo_cost_layer(w->ctx, &l, step_devices(w, pipeline, stage), w->s->recompute,
                                   &cost, w->err));
        forward[i] = cost.forward;
        backward[i] = cost.backward;
        w->layer[first + i] = cost;
    }
    return LUO_OK;
}

/* Embedding and head, where the stage has them. */
static luo_status cost_ends(const stepper *w, int32_t pipeline, int32_t stage,
                            luo_pair_cost *embedding, luo_pair_cost *head)
{
    const luo_layer_shape l = shape_of(w->s, 0);
    const int32_t *dev = step_devices(w, pipeline, stage);
    *embedding = *head = (luo_pair_cost){0};
    if (stage == 0) LUO_TRY(luo_cost_embedding(w->ctx, &l, dev, embedding, w->err));
    return stage == w->s->pp - 1 ? luo_cost_head(w->ctx, &l, dev, head, w->err) : LUO_OK;
}

typedef struct units { /* of a stage: embedding, layers, head; as far as it has them */
    int64_t n;
    double *forward, *backward, *parameters;
} units;

static void add_unit(units *u, double forward, double backward, double parameters)
{
    u->forward[u->n] = forward;
    u->backward[u->n] = backward;
    u->parameters[u->n++] = parameters;
}

/* ZeRO 3: gathers of weights and scatters of gradients beside the units; f, b: of the stage. */
static luo_status fsdp(const stepper *w, int32_t stage, const units *u, double *f, double *b)
{
    const luo_step_spec *s = w->s;
    double *gather = LUO_NEW_N(w->scratch, double, 2 * u->n);
    if (!gather) return luo_err_nomem(w->err);
    double *scatter = gather + u->n;
    const int32_t *group = step_replicas(w, stage, 0);
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    for (int64_t i = 0; i < u->n; i++) {
        const double params = u->parameters[i];
        gather[i] = i ? gather[i - 1] : 0;
        scatter[i] = i ? scatter[i - 1] : 0;
        if (i > 0 && params == u->parameters[i - 1]) continue;
        LUO_TRY(luo_cost_group(w->ctx, LUO_COLL_AG, group, s->dp, (int64_t)(params * e), 0,
                               &gather[i], w->err));
        LUO_TRY(luo_cost_group(w->ctx, LUO_COLL_RS, group, s->dp,
                               (int64_t)(params * luo_stack_grad_bytes(w->ctx->stack)), 0,
                               &scatter[i], w->err));
    }
    luo_fsdp r = {0, 0};
    if (w->ctx->stack->dp_overlap > 0)
        luo_cost_fsdp((int32_t)u->n, u->forward, u->backward, gather, scatter, s->prefetch_depth,
                      &r);
    else /* one after another */
        for (int64_t i = 0; i < u->n; i++) {
            r.forward_end += gather[i] + u->forward[i];
            r.end += 2 * gather[i] + u->forward[i] + u->backward[i] + scatter[i];
        }
    *f = r.forward_end;
    *b = r.end - r.forward_end;
    return LUO_OK;
}

/* With ZeRO 3 the ends are units like the layers; a tied table travels with the embedding. */
static luo_status cost_sharded(const stepper *w, int32_t stage, const double *forward,
                               const double *backward, luo_pair_cost *embedding,
                               luo_pair_cost *head, double *f, double *b)
{
    const luo_step_spec *s = w->s;
    const int64_t n = step_layers(s, stage), first = step_first_layer(s, stage);
    const double h = (double)s->model->hidden;
    const double table = (double)luo_mem_vocab(s->model, s->tp) * h / s->tp;
    const bool apart = !s->model->tied_embeddings || s->pp > 1;
    double *room = LUO_NEW_N(w->scratch, double, 3 * (n + 2));
    if (!room) return luo_err_nomem(w->err);
    units u = {.forward = room, .backward = room + n + 2, .parameters = room + 2 * (n + 2)};
    if (stage == 0) add_unit(&u, embedding->forward, embedding->backward, table);
    for (int64_t i = 0; i < n; i++)
        add_unit(&u, forward[i], backward[i], luo_mem_layer_parameters(s->model, first + i, s->tp));
    if (stage == s->pp - 1) add_unit(&u, head->forward, head->backward, h + (apart ? table : 0));
    *embedding = *head = (luo_pair_cost){0};
    return fsdp(w, stage, &u, f, b);
}

/* Seconds of one micro-batch on a stage; chunks share its layers evenly, its ends go to the first
 * or last chunk. */
static luo_status cost_stage(stepper *w, int32_t pipeline, int32_t stage)
{
    const luo_step_spec *s = w->s;
    const size_t mark = luo_arena_mark(w->scratch);
    const int64_t n = step_layers(s, stage);
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
    if (stage == s->pp - 1) w->head = head;
    if (s->zero >= 3 && s->dp > 1)
        LUO_TRY(cost_sharded(w, stage, forward, backward, &embedding, &head, &f, &b));
    const int32_t first = stage * s->chunks, last = first + s->chunks - 1;
    for (int32_t c = first; c <= last; c++) {
        w->forward[c] = f / s->chunks;
        w->backward[c] = b / s->chunks;
    }
    w->forward[first] += embedding.forward;
    w->backward[first] += embedding.backward;
    w->forward[last] += head.forward;
    w->backward[last] += head.backward;
    luo_arena_reset(w->scratch, mark);
    return LUO_OK;
}

/* Transfer from stage k to the next; the last link joins stage p-1 to 0 (interleaved). */
static luo_status cost_transfer(const stepper *w, int32_t pipeline, int32_t k)
{
    const luo_step_spec *s = w->s;
    const luo_cluster *c = w->ctx->cluster;
    const int32_t *a = step_devices(w, pipeline, k);
    const int32_t *b = step_devices(w, pipeline, (k + 1) % s->pp);
    double worst = 0;
    for (int32_t i = 0; i < s->tp; i++) {
        const bool same = c->devices[a[i]].node == c->devices[b[i]].node;
        int64_t bytes = s->micro_batch_sequences * s->sequence_tokens * s->model->hidden *
                        luo_dtype_bytes(w->ctx->dtype);
        if (s->sequence_parallel || (w->ctx->stack->scatter_gather && !same)) bytes /= s->tp;
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
    const luo_cluster *c = w->ctx->cluster;
    const int32_t n = w->s->pp * w->s->tp;
    const int32_t *x = step_devices(w, d - 1, 0), *y = step_devices(w, d, 0);
    for (int32_t i = 0; i < n; i++) {
        const luo_device *p = &c->devices[x[i]], *q = &c->devices[y[i]];
        if (p->group != q->group || (c->groups[p->group].scale_up != LUO_SCALE_UP_NVSWITCH &&
                                     p->slot != q->slot))
            return false;
        if (i == 0) continue;
        if (luo_cluster_link_class(c, x[i - 1], x[i]) != luo_cluster_link_class(c, y[i - 1], y[i]))
            return false;
    }
    return true;
}

static luo_status cost_pipelines(stepper *w, luo_step_cost *out)
{
    const luo_step_spec *s = w->s;
    for (int32_t d = 0; d < s->dp; d++) {
        double makespan = 0, ideal = 0;
        if (d > 0 && same_as_before(w, d)) continue;
        for (int32_t k = 0; k < s->pp; k++) {
            double both = 0;
            LUO_TRY(cost_stage(w, d, k));
            if (s->pp > 1) LUO_TRY(cost_transfer(w, d, k));
            for (int32_t c = 0; c < s->chunks; c++)
                both += w->forward[k * s->chunks + c] + w->backward[k * s->chunks + c];
            ideal = fmax(ideal, both * s->micro_batches);
        }
        if (d == 0) LUO_TRY(step_gather(w));
        const luo_course course = {.kind = s->schedule, .S = s->pp, .m = s->micro_batches,
                                   .v = s->chunks, .forward = w->forward, .backward = w->backward,
                                   .transfer = s->pp > 1 ? w->transfer : NULL,
                                   .blocking = w->ctx->stack->p2p_blocking,
                                   .first = step_first, .ctx = w, .last = w->last};
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
    const luo_step_spec *s = w->s;
    const int32_t all = w->ctx->cluster->ndevices, n = s->dp * s->pp * s->tp;
    const size_t mark = luo_arena_mark(w->scratch);
    bool *used = LUO_NEW_N(w->scratch, bool, all);
    int32_t *dev = LUO_NEW_N(w->scratch, int32_t, n), at = 0;
    if (!used || !dev) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) used[s->dev[i]] = true;
    for (int32_t d = 0; d < all; d++) /* those of a node side by side */
        if (used[d]) dev[at++] = d;
    LUO_TRY(luo_cost_group(w->ctx, LUO_COLL_AR, dev, at, 4, 0, seconds, w->err));
    luo_arena_reset(w->scratch, mark);
    return LUO_OK;
}

static luo_status cost_rest(stepper *w, luo_step_cost *out)
{
    const luo_step_spec *s = w->s;
    for (int32_t k = 0; k < s->pp; k++) {
        const double params = stage_parameters(s, k) / (s->zero >= 1 ? s->dp : 1);
        for (int32_t d = 0; d < s->dp; d++) {
            double opt = 0;
            if (d > 0 && same_as_before(w, d)) continue;
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
    luo_step_cost cost = {.jitter = luo_cost_jitter(ctx->stack, s->tp * s->pp * s->dp)};
    stepper w = {.scratch = scratch, .ctx = ctx, .s = s, .err = err,
                 .forward = LUO_NEW_N(scratch, double, s->pp * s->chunks),
                 .backward = LUO_NEW_N(scratch, double, s->pp * s->chunks),
                 .transfer = LUO_NEW_N(scratch, double, s->pp),
                 .last = LUO_NEW_N(scratch, double, s->pp * s->chunks),
                 .layer = LUO_NEW_N(scratch, luo_layer_cost, s->model->layers),
                 .group = LUO_NEW_N(scratch, int32_t, s->dp)};
    if (!w.forward || !w.backward || !w.transfer || !w.last || !w.layer || !w.group) {
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
