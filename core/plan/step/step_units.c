/* step_units.c: tasks of ZeRO 2 and 3, beat by beat as the programs have them
 * (core/graph/specialize/spec_units_emit.c). All replicas of a stage are one group, so its calls
 * are one lane.
 *
 * Units are embedding, layers and head. ZeRO 3 gathers a unit when the work of the unit depth + 1
 * before is done. The gradients of a bucket (ZeRO 3: of a unit) are cut when they are complete, and
 * their pieces are added up behind the next cut, so that a lane that is late holds the work up. */
#include <math.h>

#include "core/plan/step/step_internal.h"

/* ---- sums of pieces ---- */

/* A run of one stage: what a layer is asked about before there are runs. */
static step_run alone_of(const step_stage *stage)
{
    return (step_run){.widest = stage->shape.tp};
}

/* Does a device copy its slice of what all devices of the tensor group have? A call that follows
 * reads it where it lies, if it is one of a bucket. */
static bool copies(const stepper *w, const step_run *run, const step_tensor *tensor)
{
    if (!step_cuts_whole(w, run, tensor, false) || w->plan->sequence_parallel) return false;
    return step_shard_size(w) == 1 || luo_bucketing_is_off(step_rule(w));
}

/* GPU seconds of a kernel that reads two pieces and writes one, and of the copy before, if any. */
static luo_status sum_seconds(const stepper *w, const step_stage *stage, const step_tensor *tensor,
                              double seconds[2])
{
    const step_run run = alone_of(stage);
    const luo_profile *profile = luo_cluster_profile(w->in->cluster, stage->at->dev[0]);
    const double bytes = (w->plan->dtype == LUO_F64 ? 8 : 4) * step_moved(w, &run, tensor, false);
    const int32_t ranks = step_way(w, &run, tensor, false) == STEP_PIPELINES ? w->ranks : 1;
    seconds[1] = 0;
    LUO_TRY(luo_cost_stream(profile, 3 * bytes * ranks / step_shard_size(w), &seconds[0], w->err));
    return copies(w, &run, tensor) ? luo_cost_stream(profile, 2 * bytes, &seconds[1], w->err)
                                   : LUO_OK;
}

luo_status step_beside(const stepper *w, const step_stage *stage, luo_layer_shape *shape)
{
    step_tensor tensor[STEP_LAYER_TENSORS];
    if (!step_scatters_each(w)) return LUO_OK;
    const int32_t n = step_layer_tensors(w, shape->layer, stage->shape.tp, tensor);
    shape->beside = 0;
    shape->beside_kernels = n;
    for (int32_t i = 0; i < n; i++) {
        double seconds[2];
        LUO_TRY(sum_seconds(w, stage, &tensor[i], seconds));
        shape->beside += seconds[0] + seconds[1];
        shape->beside_kernels += seconds[1] > 0;
    }
    return LUO_OK;
}

/* ---- beats ---- */

typedef struct builder {
    stepper *w;
    const step_run *run;
    const step_stage *s;
    const step_chunk *c;
    step_beats *b;
    double computes; /* of the unit at hand, as in step_beat */
    bool failed;
    int32_t n, nbuckets, *bucket; /* of the tensors at hand */
    int32_t *first, *last, *next; /* tensors of a bucket; -1: the end */
    step_tensor *t;
    int32_t *complete; /* by bucket: mark */
    int32_t *call;   /* by bucket: its last call */
    int32_t called;  /* bucket whose pieces wait to be added up; -1: none */
    bool *added;     /* by bucket */
} builder;

static step_beat *beat(builder *x, step_beat_kind kind)
{
    step_beats *beats = x->b;
    if (beats->n == beats->cap) {
        const size_t was = (size_t)beats->cap * sizeof *beats->at;
        step_beat *at = luo_arena_grow(x->w->scratch, beats->at, was, 2 * was + 64 * sizeof *at);
        if (!at) {
            x->failed = true;
            beats->n = 0;
            return beats->cap > 0 ? beats->at : NULL;
        }
        beats->at = at;
        beats->cap = 2 * beats->cap + 64;
    }
    beats->at[beats->n] = (step_beat){.kind = kind};
    return &beats->at[beats->n++];
}

static void work(builder *x, double seconds)
{
    step_beat *b = seconds > 0 ? beat(x, STEP_WORK) : NULL;
    if (!b) return;
    b->seconds = seconds;
    b->computes = x->computes;
}

static int32_t call(builder *x, double seconds, int32_t since)
{
    step_beat *b = beat(x, STEP_CALL);
    if (!b) return -1;
    b->seconds = seconds;
    b->since = since;
    return b->call = x->b->ncalls++;
}

/* A moment that a later call refers to. */
static int32_t mark(builder *x)
{
    step_beat *b = beat(x, STEP_MARK);
    return b ? b->call = x->b->ncalls++ : -1;
}

static void await(builder *x, int32_t which)
{
    step_beat *b = which >= 0 ? beat(x, STEP_WAIT) : NULL;
    if (b) b->call = which;
}

/* ---- units ---- */

typedef struct unit {
    int32_t id; /* as step_tensor.unit */
    double forward, backward;
    double computes[2]; /* share of them that is no call of the tensor group */
    /* Of its calls, among replicas and then inside the tensor group: seconds in forward and in
     * backward, and when backward needs what they bring; negative: it does not. */
    double gather[2][2], reread[2];
    int32_t call[2];
} unit;

static int32_t list_units(const builder *x, unit *u)
{
    const step_stage *stage = x->s;
    const step_chunk *chunk = x->c;
    int32_t n = 0;
    if (chunk->embedding)
        u[n++] = (unit){.id = -1,
                        .forward = stage->embedding.forward,
                        .backward = stage->embedding.backward,
                        .computes = {1, 1},
                        .reread = {-1, -1}};
    for (int32_t l = chunk->lo; l < chunk->hi; l++) {
        const luo_layer_cost *cost = &chunk->layer[l - chunk->lo]->cost;
        u[n++] = (unit){.id = l, .forward = cost->forward, .backward = cost->backward,
                        .computes = {1 - cost->forward_comm / cost->forward,
                                     1 - cost->backward_comm / cost->backward},
                        .reread = {cost->reread, cost->renorm}};
    }
    if (chunk->head)
        u[n++] = (unit){.id = (int32_t)x->w->in->model->layers,
                        .forward = stage->head.forward,
                        .backward = stage->head.backward,
                        .computes = {1, 1},
                        .reread = {stage->head.reread, stage->head.done}};
    return n;
}

static luo_status gather_seconds(const builder *x, int32_t n, double seconds[2])
{
    const stepper *w = x->w;
    const double e = (double)luo_dtype_bytes(w->plan->dtype);
    double bytes[2] = {0, 0}, whole = 0, apart = 0;
    seconds[1] = 0;
    for (int32_t i = 0; i < n; i++) {
        const bool away = step_way(w, x->run, &x->t[i], true) == STEP_PIPELINES;
        bytes[away] += e * step_moved(w, x->run, &x->t[i], true);
        if (step_cuts_whole(w, x->run, &x->t[i], true)) whole += e * (double)x->t[i].elements;
    }
    LUO_TRY(step_call_seconds(w, x->run, STEP_SHARD, LUO_COLL_AG, bytes[0], &seconds[0]));
    LUO_TRY(step_call_seconds(w, x->run, STEP_PIPELINES, LUO_COLL_AG, bytes[1], &apart));
    if (whole <= 0) return LUO_OK;
    seconds[1] = luo_cost_group_seconds(&w->ctx, LUO_COLL_AG, step_inner(w, x->run),
                                        step_inside(w, x->run), (int64_t)whole, 0);
    seconds[1] += apart;
    return LUO_OK;
}

/* Forward reads what the unit's tensors are; a tied table is in the embedding and read by the head
 * in backward. */
static luo_status cost_gathers(builder *x, unit *u, int32_t nu)
{
    const bool tied = x->w->in->model->tied_embeddings && !step_is_split(x->w);
    step_tensor *all = x->t;
    const int32_t n = step_reads(x->w, x->run, x->s, x->c, all);
    double table[2] = {0, 0};
    for (int32_t k = 0, i = 0; k < nu; k++) {
        int32_t m = 0;
        while (i + m < n && all[i + m].unit == u[k].id) m++;
        x->t = all + i;
        LUO_TRY(gather_seconds(x, m, u[k].gather[0]));
        if (tied && u[k].id < 0) { /* apart from the positions */
            LUO_TRY(gather_seconds(x, 1, table));
            x->t++;
            LUO_TRY(gather_seconds(x, m - 1, u[k].gather[0]));
        }
        for (int c = 0; c < 2; c++) {
            u[k].gather[1][c] = u[k].gather[0][c] + (tied && k == nu - 1 ? table[c] : 0);
            if (tied && u[k].id < 0) u[k].gather[0][c] += table[c];
        }
        i += m;
    }
    x->t = all;
    return LUO_OK;
}

static void gather(builder *x, unit *u, int32_t n, int32_t k, bool backward, bool at_start)
{
    if (k >= n) return;
    unit *at = &u[backward ? n - 1 - k : k];
    for (int c = 0; c < 2; c++)
        if (at->gather[backward][c] > 0)
            at->call[c] = call(x, at->gather[backward][c], at_start ? STEP_AT_START : STEP_NOW);
}

static void forward_beats(builder *x, unit *u, int32_t n)
{
    const int32_t depth = luo_sharding_depth(&x->w->plan->sharding);
    for (int32_t k = 0; k <= depth; k++) gather(x, u, n, k, false, true);
    for (int32_t k = 0; k < n; k++) {
        for (int c = 0; c < 2; c++) await(x, u[k].call[c]);
        x->computes = u[k].computes[0];
        work(x, u[k].forward);
        gather(x, u, n, k + 1 + depth, false, false);
    }
    beat(x, STEP_END);
}

/* ---- scatters ---- */

/* With sequence parallelism what is whole is summed inside the tensor group first. */
static bool is_apart(const builder *x, const step_tensor *tensor)
{
    return tensor->whole && step_sums_inside(x->s);
}

static bool is_summed(const builder *x, int32_t bucket)
{
    return is_apart(x, &x->t[x->first[bucket]]);
}

static luo_status scatter_inside(builder *x, int32_t bucket, int32_t since)
{
    const stepper *w = x->w;
    double bytes = 0, seconds = 0;
    for (int32_t i = x->first[bucket]; i >= 0; i = x->next[i])
        bytes += step_sum_bytes(w) * (double)x->t[i].elements;
    seconds = luo_cost_group_seconds(&w->ctx, LUO_COLL_RS, step_inner(w, x->run),
                                     step_inside(w, x->run), (int64_t)bytes, 0);
    call(x, seconds, since);
    return LUO_OK;
}

static luo_status scatter(builder *x, int32_t bucket, int32_t since)
{
    const stepper *w = x->w;
    double bytes = 0, seconds = 0;
    for (int32_t i = x->first[bucket]; i >= 0; i = x->next[i])
        bytes += step_sum_bytes(w) * step_moved(w, x->run, &x->t[i], false);
    const step_members way = step_way(w, x->run, &x->t[x->first[bucket]], false);
    LUO_TRY(step_call_seconds(w, x->run, way, LUO_COLL_RS, bytes, &seconds));
    x->call[bucket] = call(x, seconds, since);
    return LUO_OK;
}

static bool is_layer(const builder *x, int32_t id)
{
    return id >= 0 && id < x->w->in->model->layers;
}

/* Pieces of a layer: its part of what the layer's sums take; else a kernel each. */
static luo_status add_pieces(builder *x, int32_t bucket)
{
    const stepper *w = x->w;
    double sum = 0;
    if (bucket < 0 || x->added[bucket]) return LUO_OK;
    x->added[bucket] = true;
    await(x, x->call[bucket]);
    for (int32_t i = x->first[bucket]; i >= 0; i = x->next[i]) {
        double seconds[2];
        const int32_t l = x->t[i].unit;
        const step_layer *layer = is_layer(x, l) ? x->c->layer[l - x->c->lo] : NULL;
        LUO_TRY(sum_seconds(w, x->s, &x->t[i], seconds));
        for (int k = 0; k < 2; k++)
            sum += layer ? seconds[k] * layer->cost.beside / layer->beside
                         : luo_cost_host(w->in->stack, seconds[k], 1) * x->s->rate;
    }
    work(x, sum);
    step_beat *b = beat(x, STEP_KEEP);
    if (b) b->call = bucket;
    return LUO_OK;
}

/* Behind a call those of the one before are added up. */
static luo_status turn(builder *x, int32_t bucket)
{
    const int32_t before = x->called;
    if (bucket < 0) return LUO_OK;
    x->called = bucket;
    return add_pieces(x, before);
}

static luo_status list_buckets(builder *x)
{
    luo_arena *scratch = x->w->scratch;
    x->n = step_done(x->w, x->run, x->s, x->c, x->t);
    const bool alone = step_shard_size(x->w) == 1;
    LUO_TRY(step_close(x->w, step_rule(x->w), x->run, x->t, x->n, false, &x->bucket,
                       &x->nbuckets));
    /* with one replica only what a tensor group sums travels; the rest is added up one by one */
    for (int32_t i = 0; alone && i < x->n; i++)
        if (!is_apart(x, &x->t[i])) x->bucket[i] = x->nbuckets++;
    x->b->bucket = x->bucket;
    x->b->kept = LUO_NEW_N(scratch, double, x->nbuckets);
    if (!x->b->kept) return luo_err_nomem(x->w->err);
    x->complete = LUO_NEW_N(scratch, int32_t, x->nbuckets);
    x->call = LUO_NEW_N(scratch, int32_t, x->nbuckets);
    x->added = LUO_NEW_N(scratch, bool, x->nbuckets);
    x->first = LUO_NEW_N(scratch, int32_t, x->nbuckets);
    x->last = LUO_NEW_N(scratch, int32_t, x->nbuckets);
    x->next = LUO_NEW_N(scratch, int32_t, x->n);
    if (!x->complete || !x->call || !x->added || !x->first || !x->last || !x->next)
        return luo_err_nomem(x->w->err);
    for (int32_t b = 0; b < x->nbuckets; b++) x->first[b] = x->last[b] = x->call[b] = -1;
    for (int32_t i = 0; i < x->n; i++) {
        const int32_t b = x->bucket[i];
        x->next[i] = -1;
        if (x->last[b] >= 0) x->next[x->last[b]] = i;
        else x->first[b] = i;
        x->last[b] = i;
    }
    x->called = -1;
    return LUO_OK;
}

/* Work of a unit up to a time of its own. */
static void until(builder *x, double time, double *now)
{
    work(x, time - *now);
    *now = fmax(*now, time);
}

/* Waits for a call where its weights are needed, once. */
static void reread(builder *x, const unit *u, int which, double *now)
{
    if (u->call[which] < 0 || u->reread[which] < 0 || *now > u->reread[which]) return;
    until(x, u->reread[which], now);
    await(x, u->call[which]);
}

/* A bucket that ends behind tensor i. */
static luo_status scatter_behind(builder *x, int32_t i)
{
    const int32_t bucket = x->bucket[i];
    if (x->last[bucket] != i) return LUO_OK;
    if (is_summed(x, bucket)) LUO_TRY(scatter_inside(x, bucket, STEP_NOW));
    LUO_TRY(scatter(x, bucket, STEP_NOW));
    return turn(x, bucket);
}

/* Those of a unit, its tensors from..to-1, behind its work, in the order of their first tensors;
 * what was summed inside the tensor group follows them. */
static luo_status scatter_unit(builder *x, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++) {
        const int32_t b = x->bucket[i];
        if (x->first[b] != i) continue;
        LUO_TRY(is_summed(x, b) ? scatter_inside(x, b, x->complete[b])
                                : scatter(x, b, x->complete[b]));
    }
    for (int32_t i = from; i < to; i++) {
        const int32_t b = x->bucket[i];
        if (x->first[b] == i && is_summed(x, b)) LUO_TRY(scatter(x, b, STEP_NOW));
    }
    return LUO_OK;
}

/* Those of the unit before are added up. */
static luo_status turn_unit(builder *x, int32_t from)
{
    for (int32_t i = 0; i < from; i++) LUO_TRY(add_pieces(x, x->bucket[i]));
    return LUO_OK;
}

static luo_status backward_beats(builder *x, unit *u, int32_t n, bool by_unit)
{
    const int32_t depth =
        step_gathers_each(x->w) ? luo_sharding_depth(&x->w->plan->sharding) : n;
    double base = 0;
    for (int32_t k = 0; k <= depth; k++) gather(x, u, n, k, true, true);
    for (int32_t k = 0, i = 0; k < n; k++) {
        const unit *at = &u[n - 1 - k];
        double now = 0;
        const int32_t from = i;
        x->computes = at->computes[1];
        reread(x, at, 0, &now);
        for (; i < x->n && x->t[i].unit == at->id; i++) {
            if (x->t[i].at - base > at->reread[1]) reread(x, at, 1, &now);
            until(x, x->t[i].at - base, &now);
            if (!by_unit) LUO_TRY(scatter_behind(x, i));
            else if (x->last[x->bucket[i]] == i) x->complete[x->bucket[i]] = mark(x);
        }
        work(x, at->backward - now);
        if (k == n - 1) beat(x, STEP_END);
        if (by_unit) LUO_TRY(scatter_unit(x, from, i));
        gather(x, u, n, k + 1 + depth, true, false);
        if (by_unit) LUO_TRY(turn_unit(x, from));
        base += at->backward;
    }
    for (int32_t b = 0; b < x->nbuckets; b++) LUO_TRY(add_pieces(x, b));
    return LUO_OK;
}

/* ---- a stage ---- */

static luo_status make_chunk(builder *x, step_chunk *chunk)
{
    stepper *w = x->w;
    unit *u = LUO_NEW_N(w->scratch, unit, chunk->hi - chunk->lo + 2);
    if (!u) return luo_err_nomem(w->err);
    const int32_t n = list_units(x, u);
    for (int32_t i = 0; i < n; i++) u[i].call[0] = u[i].call[1] = -1;
    x->t = w->room;
    if (step_gathers_each(w)) {
        LUO_TRY(cost_gathers(x, u, n));
        x->b = &chunk->forward_beats;
        LUO_TRY(step_loss(w, x->run, &x->b->loss));
        forward_beats(x, u, n);
    }
    for (int32_t i = 0; i < n; i++) u[i].call[0] = u[i].call[1] = -1;
    x->b = &chunk->backward_beats;
    LUO_TRY(step_loss(w, x->run, &x->b->loss));
    LUO_TRY(list_buckets(x));
    LUO_TRY(backward_beats(x, u, n, step_rule(w).rule == LUO_BUCKET_UNIT));
    return x->failed ? luo_err_nomem(w->err) : LUO_OK;
}

static luo_status make_run(stepper *w, const step_run *run, int32_t pipeline)
{
    step_chunk *chunk = step_chunk_of(w, run, pipeline);
    builder x = {.w = w, .run = run, .s = step_stage_of(w, run, pipeline), .c = chunk};
    LUO_TRY(make_chunk(&x, chunk));
    const int32_t most = chunk->backward_beats.ncalls > chunk->forward_beats.ncalls
                             ? chunk->backward_beats.ncalls
                             : chunk->forward_beats.ncalls;
    if (most <= w->nends) return LUO_OK;
    w->ends = LUO_NEW_N(w->scratch, double, most);
    if (!w->ends) return luo_err_nomem(w->err);
    w->nends = most;
    return LUO_OK;
}

luo_status step_make_beats(stepper *w)
{
    if (!step_scatters_each(w)) return LUO_OK;
    for (int32_t i = 0; i < w->plan->npipelines; i++)
        for (int32_t r = 0; r < w->nruns && !w->pipe[i].same; r++)
            LUO_TRY(make_run(w, &w->run[r], i));
    return LUO_OK;
}

/* ---- a task ---- */

/* Work beside calls, which are under way until the lane is free. */
static double slowed(const step_stage *stage, const step_beats *beats, const step_beat *work,
                     double now)
{
    const double more = luo_cost_beside(work->seconds, fmax(0, stage->lane - now), beats->loss);
    return work->seconds + work->computes * (more - work->seconds);
}

/* Without shard_overlap work and calls take turns: each waits for all that was issued before. */
void step_play(stepper *w, step_stage *stage, const step_beats *beats, luo_turn *turn)
{
    const bool turns = !w->in->stack->shard_overlap;
    double now = turn->start;
    for (int32_t i = 0; i < beats->n; i++) {
        const step_beat *at = &beats->at[i];
        double *end = &w->ends[at->kind == STEP_KEEP ? 0 : at->call], since = now;
        switch (at->kind) {
        case STEP_WORK:
            if (turns) now = fmax(now, stage->lane);
            now += slowed(stage, beats, at, now);
            break;
        case STEP_MARK: *end = now; break;
        case STEP_KEEP:
            beats->kept[at->call] = now;
            break;
        case STEP_WAIT: now = fmax(now, *end); break;
        case STEP_END:
            turn->end = now;
            break;
        case STEP_CALL:
            if (at->since == STEP_AT_START)
                since = stage->worked;
            else if (at->since >= 0 && !turns) since = w->ends[at->since];
            *end = stage->lane = fmax(stage->lane, since) + at->seconds;
        }
    }
    stage->worked = turn->free = now;
}
