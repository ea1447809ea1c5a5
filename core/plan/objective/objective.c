/* The closed form of a step: stages, courses of pipelines, update. */
#include "core/plan/objective/objective.h"

#include <math.h>
#include <string.h>

#include "core/cost/step/memory.h"
#include "core/plan/annotate.h"
#include "core/plan/objective/objective_internal.h"
#include "core/plan/replan/reroute.h"

bool luo_objective_knows(const luo_plan *plan)
{
    if (plan->schedule != LUO_SCHED_1F1B || plan->chunks != 1 || plan->zero >= 2) return false;
    if (luo_plan_is_rerouted(plan) || luo_plan_has_context(plan)) return false;
    if (plan->nannotations || plan->nassignment || plan->ngroups) return false;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        if (plan->pipelines[i].micro_batch_tokens) return false;
        if (plan->pipelines[i].micro_batch_sequences != plan->pipelines[0].micro_batch_sequences)
            return false;
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (plan->pipelines[i].stages[s].shares) return false;
    }
    return true;
}

static double slowest(const objective *o, const luo_stage *st)
{
    double worst = 1;
    for (int32_t i = 0; i < st->ndev; i++) worst = fmax(worst, o->in->rate[st->dev[i]]);
    return worst;
}

/* ---- stages ---- */

enum { SIZES = 8 };

typedef struct known { /* costs of healthy stages, by node group and size: 1, 2, 4 .. */
    bool layer, ends[2];
    luo_layer_cost cost;
    luo_pair_cost end[2];
} known;

/* Where it is remembered; fresh: of a stage like no other. */
static known *look_up(const objective *o, known *table, known *fresh, const luo_stage *st)
{
    const luo_cluster *cluster = o->in->cluster;
    const luo_device *first = &cluster->devices[st->dev[0]];
    int32_t size = 0;
    *fresh = (known){0};
    while (size < SIZES && 1 << size != st->ndev) size++;
    if (st->experts_dealt != o->plan->pipelines[0].stages[0].experts_dealt) return fresh;
    if (size == SIZES || cluster->groups[first->group].scale_up != LUO_SCALE_UP_NVSWITCH)
        return fresh;
    for (int32_t i = 1; i < st->ndev; i++)
        if (cluster->devices[st->dev[i]].node != first->node) return fresh;
    return &table[first->group * SIZES + size];
}

static luo_status cost_end(const objective *o, const luo_layer_shape *shape, const luo_stage *st,
                           int which, known *k)
{
    if (k->ends[which]) return LUO_OK;
    LUO_TRY((which ? luo_cost_head : luo_cost_embedding)(&o->ctx, shape, st->dev, &k->end[which],
                                                         o->err));
    k->ends[which] = true;
    return LUO_OK;
}

static luo_pair_cost slowed(luo_pair_cost c, double rate)
{
    c.forward *= rate;
    c.backward *= rate;
    c.done *= rate;
    return c;
}

/* Communication inside the group is not slowed: it waits. */
static luo_status time_stage(const objective *o, known *table, const luo_stage *st, bool first,
                             bool last, obj_stage *out)
{
    known fresh, *k = look_up(o, table, &fresh, st);
    luo_layer_shape shape = o->shape;
    const double rate = slowest(o, st);
    shape.tp = luo_stage_tp(st);
    shape.sequence_parallel = o->plan->sequence_parallel && shape.tp > 1;
    shape.experts_among = st->experts_dealt ? luo_plan_experts_among(o->plan, shape.tp) : 0;
    shape.experts_exchange = o->plan->moe_exchange;
    if (!k->layer)
        LUO_TRY(luo_cost_layer(&o->ctx, &shape, st->dev, (int)st->recompute, &k->cost, o->err));
    k->layer = true;
    const luo_layer_cost *c = &k->cost;
    *out = (obj_stage){.at = st,
                       .tp = shape.tp,
                       .lo = st->layers[0].lo,
                       .hi = st->layers[0].hi,
                       .forward = (c->forward - c->forward_comm) * rate + c->forward_comm,
                       .backward = (c->backward - c->backward_comm) * rate + c->backward_comm};
    if (first) LUO_TRY(cost_end(o, &shape, st, 0, k));
    if (last) LUO_TRY(cost_end(o, &shape, st, 1, k));
    if (first) out->ends[0] = slowed(k->end[0], rate);
    if (last) out->ends[1] = slowed(k->end[1], rate);
    return LUO_OK;
}

static bool leaves(const objective *o, const luo_stage *a, const luo_stage *b)
{
    const luo_device *d = o->in->cluster->devices;
    return d[a->dev[0]].node != d[b->dev[0]].node;
}

/* How many devices of a node send to another behind stage s: pipelines go in step. */
static int32_t *senders(const objective *o, const luo_stage *st, int32_t s)
{
    const int32_t node = o->in->cluster->devices[st->dev[0]].node;
    return &o->senders[(size_t)node * (size_t)o->most_stages + (size_t)s];
}

static luo_status count_senders(objective *o)
{
    const luo_plan *plan = o->plan;
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].nstages > o->most_stages)
            o->most_stages = plan->pipelines[i].nstages;
    o->senders = LUO_NEW_N(o->arena, int32_t,
                           (size_t)o->in->cluster->nnodes * (size_t)o->most_stages);
    if (!o->senders) return luo_err_nomem(o->err);
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s + 1 < plan->pipelines[i].nstages; s++) {
            const luo_stage *stage = &plan->pipelines[i].stages[s], *b = stage + 1;
            const int32_t least = stage->ndev < b->ndev ? stage->ndev : b->ndev;
            if (leaves(o, stage, b)) *senders(o, stage, s) += least;
        }
    return LUO_OK;
}

/* From the devices of stage s to those of the next: with sequence parallelism each has its part of
 * the tokens, else everyone of the next needs all of them. */
static luo_status time_transfer(const objective *o, const obj_stage *a, int32_t s, double *seconds)
{
    const obj_stage *b = a + 1;
    const luo_cluster *cluster = o->in->cluster;
    const int32_t n = a->tp > b->tp ? a->tp : b->tp, least = a->tp + b->tp - n;
    const int32_t nics = cluster->groups[cluster->devices[a->at->dev[0]].group].nics;
    const bool cut = o->plan->sequence_parallel, far = leaves(o, a->at, b->at);
    const int64_t all = o->shape.tokens * o->in->model->hidden * luo_dtype_bytes(o->plan->dtype);
    const int32_t sharers = far ? *senders(o, a->at, s) : 0;
    double worst = 0;
    for (int32_t i = 0; i < n; i += n / least) { /* narrow devices: theirs follow each other */
        double t = 0;
        LUO_TRY(luo_cost_p2p(&o->ctx, a->at->dev[i * a->tp / n], b->at->dev[i * b->tp / n],
                             cut ? all / least : all,
                             far ? 1.0 / (sharers > nics ? sharers : nics) : 0, &t, o->err));
        worst = fmax(worst, t);
    }
    *seconds = worst;
    return LUO_OK;
}

static luo_status time_pipe(const objective *o, known *table, const luo_pipeline *pl, obj_pipe *out)
{
    *out = (obj_pipe){.n = pl->nstages, .stage = LUO_NEW_N(o->arena, obj_stage, pl->nstages),
                      .transfer = LUO_NEW_N(o->arena, double, pl->nstages)};
    if (!out->stage || !out->transfer) return luo_err_nomem(o->err);
    for (int32_t s = 0; s < pl->nstages; s++)
        LUO_TRY(time_stage(o, table, &pl->stages[s], s == 0, s == pl->nstages - 1,
                           &out->stage[s]));
    for (int32_t s = 0; s + 1 < pl->nstages; s++)
        LUO_TRY(time_transfer(o, &out->stage[s], s, &out->transfer[s]));
    return LUO_OK;
}

/* ---- courses ---- */

typedef struct course {
    const objective *o;
    obj_pipe *pipe;
} course;

/* The first forward part waits for the weights it reads. */
static double first_forward(const objective *o, const obj_stage *s, double t)
{
    if (s->ends[0].forward > 0) t = fmax(t, o->ends_arrive[0]) + s->ends[0].forward;
    for (int32_t l = s->lo; l < s->hi; l++) t = fmax(t, o->arrives[l]) + s->forward;
    if (s->ends[1].forward > 0) t = fmax(t, o->ends_arrive[1]) + s->ends[1].forward;
    return t;
}

static void turn(void *ctx, int32_t stage, const luo_task *t, luo_turn *x)
{
    const course *c = ctx;
    obj_stage *s = &c->pipe->stage[stage];
    const bool backward = t->phase != LUO_TASK_F;
    if (backward) s->last = x->start;
    x->end = !backward && t->micro_batch == 0 ? first_forward(c->o, s, x->start)
                                              : x->start + obj_task(s, backward);
    x->free = x->end;
}

static bool same_course(const luo_plan *plan, const obj_pipe *pipe, int32_t i)
{
    const obj_pipe *a = &pipe[i - 1], *b = &pipe[i];
    if (a->n != b->n || plan->pipelines[i - 1].micro_batches != plan->pipelines[i].micro_batches)
        return false;
    for (int32_t s = 0; s < a->n; s++) {
        const obj_stage *x = &a->stage[s], *y = &b->stage[s];
        if (x->lo != y->lo || x->hi != y->hi || x->forward != y->forward ||
            x->backward != y->backward || a->transfer[s] != b->transfer[s])
            return false;
        for (int k = 0; k < 2; k++)
            if (x->ends[k].forward != y->ends[k].forward) return false;
    }
    return true;
}

static luo_status run_course(objective *o, int32_t i)
{
    obj_pipe *p = &o->pipe[i];
    course c = {o, p};
    if (i > 0 && same_course(o->plan, o->pipe, i)) {
        for (int32_t s = 0; s < p->n; s++) p->stage[s].last = p[-1].stage[s].last;
        p->end = p[-1].end;
        return LUO_OK;
    }
    const luo_course x = {.kind = LUO_SCHED_1F1B, .S = p->n,
                          .m = o->plan->pipelines[i].micro_batches, .v = 1,
                          .transfer = p->n > 1 ? p->transfer : NULL,
                          .blocking = o->in->stack->p2p_blocking, .turn = turn, .ctx = &c};
    const size_t mark = luo_arena_mark(o->arena);
    LUO_TRY(luo_sched_course(o->arena, &x, &p->end, o->err));
    luo_arena_reset(o->arena, mark);
    return LUO_OK;
}

/* ---- the rest ---- */

static luo_status time_update(objective *o, double *seconds)
{
    const luo_plan *plan = o->plan;
    const luo_model *model = o->in->model;
    double worst = 0, norm = 0, before = -1, cost = 0;
    int32_t *dev, last = -1;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < o->pipe[i].n; s++) {
            const obj_stage *st = &o->pipe[i].stage[s];
            const bool both = obj_holds_ends(o), tail = s == o->pipe[i].n - 1;
            const int32_t ends =
                (s == 0) + (tail && (!model->tied_embeddings || (both && s > 0)));
            const double table = (double)luo_mem_vocab(model, st->tp) * (double)model->hidden /
                                 st->tp / (both && plan->zero >= 1 ? 2 : 1);
            const double all =
                table * ends +
                (st->hi - st->lo) * luo_mem_layer_parameters(model, model->layers - 1, st->tp);
            const double mine = all / (plan->zero >= 1 ? plan->npipelines : 1);
            const int32_t group = o->in->cluster->devices[st->at->dev[0]].group;
            if (mine != before || group != last)
                LUO_TRY(luo_cost_optimizer(&o->ctx, st->at->dev[0], mine, &cost, o->err));
            before = mine;
            last = group;
            worst = fmax(worst, cost * slowest(o, st->at));
        }
    LUO_TRY(luo_plan_devices(o->arena, plan, &dev, &o->ndev, o->err));
    LUO_TRY(luo_cost_group(&o->ctx, LUO_COLL_AR, dev, o->ndev, 4, 0, &norm, o->err));
    *seconds = worst + norm;
    return LUO_OK;
}

static luo_status open(objective *o)
{
    const luo_plan *plan = o->plan;
    known *table = LUO_NEW_N(o->arena, known, o->in->cluster->ngroups * SIZES);
    o->pipe = LUO_NEW_N(o->arena, obj_pipe, plan->npipelines);
    o->arrives = LUO_NEW_N(o->arena, double, o->in->model->layers);
    if (!table || !o->pipe || !o->arrives) return luo_err_nomem(o->err);
    LUO_TRY(count_senders(o));
    for (int32_t i = 0; i < plan->npipelines; i++)
        LUO_TRY(time_pipe(o, table, &plan->pipelines[i], &o->pipe[i]));
    return LUO_OK;
}

static luo_status solve(objective *o, luo_objective *out)
{
    const luo_plan *plan = o->plan;
    double there = 0;
    LUO_TRY(open(o));
    const bool shares = plan->npipelines > 1 || obj_holds_ends(o);
    if (shares && plan->zero >= 1) LUO_TRY(obj_weights(o));
    for (int32_t i = 0; i < plan->npipelines; i++) {
        LUO_TRY(run_course(o, i));
        out->work = fmax(out->work, o->pipe[i].end);
    }
    if (shares) LUO_TRY(obj_gradients(o, &there));
    out->traffic = fmax(0, there - out->work);
    LUO_TRY(time_update(o, &out->update));
    out->step = (out->work + out->traffic + out->update) *
                luo_cost_jitter(o->in->stack, o->ndev);
    return LUO_OK;
}

luo_status luo_plan_objective(luo_arena *scratch, const luo_objective_in *in, const luo_plan *plan,
                              luo_objective *out, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    objective o = {
        .arena = scratch,
        .in = in,
        .plan = plan,
        .err = err,
        .ctx = {.cluster = in->cluster, .stack = in->stack, .dtype = plan->dtype},
        .shape = {.model = in->model,
                  .layer = in->model->layers - 1,
                  .tokens = in->sequence_tokens * plan->pipelines[0].micro_batch_sequences,
                  .sequence_tokens = in->sequence_tokens,
                  .context = {.c = 1, .inner = 1}}};
    *out = (luo_objective){.step = INFINITY};
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (isinf(slowest(&o, &plan->pipelines[i].stages[s]))) return LUO_OK;
    const luo_status st = solve(&o, out);
    luo_arena_reset(scratch, mark);
    return st;
}
