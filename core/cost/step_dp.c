/* core/cost/step_dp.c: gradients and weights between the replicas of a uniform plan, bucket by
 * bucket as the programs have them. All replicas of a stage are one group, so its calls follow each
 * other in the order in which they are ready. */
#include <math.h>
#include <stdlib.h>

#include "core/cost/memory.h"
#include "core/cost/overlap.h"
#include "core/cost/step_in.h"
#include "core/graph/bucket.h"

typedef struct step_tensor {
    double at; /* in its task: first read, or complete */
    int64_t elements;
    int32_t unit;
    bool whole; /* on every device of the tensor group */
    bool table; /* one that two stages share: it travels alone */
} step_tensor;

enum { LAYER_TENSORS = 24, END_TENSORS = 8 };

/* ---- tensors ---- */

static void add(step_tensor *t, int32_t *n, int64_t elements, bool whole)
{
    if (elements > 0) t[(*n)++] = (step_tensor){.elements = elements, .whole = whole};
}

static int64_t share(int64_t whole, int32_t parts)
{
    return (whole + parts - 1) / parts;
}

static void add_norm(const luo_model *m, step_tensor *t, int32_t *n)
{
    add(t, n, m->hidden, true);
    if (m->norm == LUO_NORM_LAYER) add(t, n, m->hidden, true);
}

/* Experts: all their matrices at once. */
static void add_mlp(const luo_step_spec *s, int64_t layer, luo_layer_part part, step_tensor *t,
                    int32_t *n)
{
    const luo_model *m = s->model;
    const int32_t ins = m->activation == LUO_ACT_SWIGLU ? 2 : 1;
    const int64_t f = share(m->ffn_hidden, s->tp);
    if (m->moe.experts > 0) {
        const double attention = (double)(m->hidden * m->head_dim) *
                                 (double)(2 * m->heads + 2 * m->kv_heads) / s->tp;
        const double all = luo_mem_layer_parameters(m, layer, s->tp) - attention;
        if (part == LUO_LAYER_UP) add(t, n, (int64_t)all, false);
        return;
    }
    if (part == LUO_LAYER_DOWN) {
        add(t, n, f * m->hidden, false);
        if (m->linear_bias) add(t, n, m->hidden, true);
        return;
    }
    for (int32_t i = 0; i < ins; i++) add(t, n, f * m->hidden, false);
    for (int32_t i = 0; m->linear_bias && i < ins; i++) add(t, n, f, false);
}

/* Tensors of a part of a layer, in the order in which forward reads them. */
static int32_t part_tensors(const luo_step_spec *s, int64_t layer, luo_layer_part part,
                            step_tensor *t)
{
    const luo_model *m = s->model;
    const int64_t width[3] = {share(m->heads, s->tp) * m->head_dim,
                              share(m->kv_heads, s->tp) * m->head_dim,
                              share(m->kv_heads, s->tp) * m->head_dim};
    int32_t n = 0;
    switch (part) {
    case LUO_LAYER_NORM1:
    case LUO_LAYER_NORM2: add_norm(m, t, &n); break;
    case LUO_LAYER_QKV:
        for (int i = 0; i < 3; i++) add(t, &n, width[i] * m->hidden, false);
        for (int i = 0; m->qkv_bias && i < 3; i++) add(t, &n, width[i], false);
        if (m->qk_norm) add(t, &n, m->head_dim, true);
        if (m->qk_norm) add(t, &n, m->head_dim, true);
        break;
    case LUO_LAYER_OUT:
        add(t, &n, width[0] * m->hidden, false);
        if (m->linear_bias) add(t, &n, m->hidden, true);
        break;
    default: add_mlp(s, layer, part, t, &n);
    }
    return n;
}

static int64_t table_elements(const luo_step_spec *s)
{
    return luo_mem_vocab(s->model, s->tp) / s->tp * s->model->hidden;
}

bool step_is_split(const luo_step_spec *s)
{
    return s->pp > 1 && s->model->tied_embeddings;
}

static bool is_first(int32_t stage, int32_t chunk)
{
    return stage == 0 && chunk == 0;
}

static bool is_last(const luo_step_spec *s, int32_t stage, int32_t chunk)
{
    return stage == s->pp - 1 && chunk == s->chunks - 1;
}

static int32_t put(step_tensor *t, int32_t n, double at, int64_t unit)
{
    for (int32_t i = 0; i < n; i++) t[i].at = at, t[i].unit = (int32_t)unit;
    return n;
}

static int32_t embedding_tensors(const luo_step_spec *s, step_tensor *t)
{
    int32_t n = 0;
    add(t, &n, table_elements(s), false);
    t->table = step_is_split(s);
    if (s->model->position == LUO_POS_LEARNED)
        add(t, &n, s->model->max_sequence_tokens * s->model->hidden, true);
    return n;
}

/* Weights of a chunk in the order in which its forward reads them. */
static int32_t list_reads(const stepper *w, int32_t stage, int32_t chunk, step_tensor *t)
{
    const luo_step_spec *s = w->s;
    const int64_t each = step_layers(s, stage) / s->chunks;
    const int64_t first = step_first_layer(s, stage) + chunk * each;
    double base = 0;
    int32_t n = 0;
    if (is_first(stage, chunk)) {
        n = put(t, embedding_tensors(s, t), 0, -1);
        base = w->embedding.forward;
    }
    for (int64_t l = first; l < first + each; l++) {
        for (int part = 0; part < LUO_LAYER_PARTS; part++)
            n += put(t + n, part_tensors(s, l, (luo_layer_part)part, t + n),
                     base + w->layer[l].read[part], l);
        base += w->layer[l].forward;
    }
    if (!is_last(s, stage, chunk)) return n;
    int32_t more = 0;
    add_norm(s->model, t + n, &more);
    n += put(t + n, more, base, s->model->layers);
    more = 0;
    if (!s->model->tied_embeddings) add(t + n, &more, table_elements(s), false);
    return n + put(t + n, more, base + w->head.read, s->model->layers);
}

/* Gradients of a chunk in the order in which its backward completes them. */
static int32_t list_done(const stepper *w, int32_t stage, int32_t chunk, step_tensor *t)
{
    const luo_step_spec *s = w->s;
    const int64_t each = step_layers(s, stage) / s->chunks;
    const int64_t first = step_first_layer(s, stage) + chunk * each;
    double base = 0;
    int32_t n = 0;
    if (is_last(s, stage, chunk)) {
        if (!s->model->tied_embeddings || s->pp > 1) add(t, &n, table_elements(s), false);
        if (n) t->table = step_is_split(s);
        put(t, n, w->head.done, s->model->layers);
        int32_t more = 0;
        add_norm(s->model, t + n, &more);
        n += put(t + n, more, w->head.backward, s->model->layers);
        base = w->head.backward;
    }
    for (int64_t l = first + each - 1; l >= first; l--) {
        for (int part = LUO_LAYER_PARTS - 1; part >= 0; part--) {
            step_tensor some[LAYER_TENSORS];
            const int32_t more = put(some, part_tensors(s, l, (luo_layer_part)part, some),
                                     base + w->layer[l].done[part], l);
            for (int32_t i = more; i-- > 0;) t[n++] = some[i];
        }
        base += w->layer[l].backward;
    }
    if (!is_first(stage, chunk)) return n;
    step_tensor ends[END_TENSORS];
    const int32_t more = put(ends, embedding_tensors(s, ends), base + w->embedding.done, -1);
    for (int32_t i = more; i-- > 0;) t[n++] = ends[i];
    return n;
}

/* ---- buckets ---- */

static double sum_bytes(const stepper *w)
{
    const double own = w->ctx->dtype == LUO_F64 ? 8 : 4;
    return w->ctx->stack->grad_comm_bytes > 0 ? w->ctx->stack->grad_comm_bytes : own;
}

/* Number of the bucket of every tensor. */
static luo_status close(const stepper *w, const step_tensor *t, int32_t n, bool weights,
                        int32_t **bucket, int32_t *nbuckets)
{
    const luo_step_spec *s = w->s;
    const int64_t each = weights ? luo_dtype_bytes(w->ctx->dtype)
                                 : w->ctx->dtype == LUO_F64 ? 8 : 4;
    const luo_bucketing rule = luo_bucketing_of(s->bucket, w->ctx->stack->bucket);
    luo_bucket_item *item = LUO_NEW_N(w->scratch, luo_bucket_item, n);
    *bucket = LUO_NEW_N(w->scratch, int32_t, n);
    if (!item || !*bucket) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) {
        const bool apart = !weights && t[i].whole && s->sequence_parallel && s->tp > 1;
        item[i] = (luo_bucket_item){.key = t[i].table ? 2 : apart, .unit = t[i].unit,
                                    .opens = weights, .elements = t[i].elements,
                                    .bytes = t[i].elements * each};
        (*bucket)[i] = i;
    }
    *nbuckets = n;
    if (luo_bucketing_is_off(rule)) return LUO_OK;
    return luo_bucket_close(w->scratch, rule, s->dp, item, n, 3, *bucket, nbuckets, w->err);
}

/* With ZeRO what every device of the tensor group holds whole is cut over that group, too. */
static bool cuts_whole(const luo_step_spec *s, const step_tensor *t)
{
    return t->whole && s->zero >= 1 && s->tp > 1;
}

static double moved(const luo_step_spec *s, const step_tensor *t)
{
    return (double)t->elements / (cuts_whole(s, t) ? s->tp : 1);
}

/* Seconds of a call of the replicas of a stage, the slowest of its devices' groups. */
static luo_status call_seconds(const stepper *w, int coll, int32_t stage, double bytes,
                               double *seconds)
{
    *seconds = 0;
    for (int32_t i = 0; i < w->s->tp && w->s->dp > 1; i++) {
        double t = 0;
        const int32_t *group = step_replicas(w, stage, i);
        if (i > 0 && luo_cluster_link_class(w->ctx->cluster, group[0],
                                            step_devices(w, 0, stage)[0]) == 1)
            continue; /* the lanes of a tensor group within nodes cost alike */
        LUO_TRY(luo_cost_group(w->ctx, coll, group, w->s->dp, (int64_t)bytes, 0, &t, w->err));
        *seconds = fmax(*seconds, t);
    }
    return LUO_OK;
}

luo_status step_dp_open(stepper *w)
{
    const luo_step_spec *s = w->s;
    int64_t most = 0;
    w->stage = LUO_NEW_N(w->scratch, step_stage, s->pp);
    if (!w->stage) return luo_err_nomem(w->err);
    for (int32_t k = 0; k < s->pp; k++) {
        const int64_t layers = step_layers(s, k);
        const int64_t room = LAYER_TENSORS * layers + END_TENSORS * s->chunks;
        w->stage[k].call = LUO_NEW_N(w->scratch, step_call, room);
        w->stage[k].arrives = LUO_NEW_N(w->scratch, double *, s->chunks);
        if (!w->stage[k].call || !w->stage[k].arrives) return luo_err_nomem(w->err);
        if (room > most) most = room;
    }
    w->room = LUO_NEW_N(w->scratch, step_tensor, most);
    return w->room ? LUO_OK : luo_err_nomem(w->err);
}

/* ---- weights ---- */

/* What is cut over the tensor group is gathered there afterwards, in buckets of its own. */
static luo_status gather_whole(stepper *w, int32_t stage, int32_t n, double *arrives)
{
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    int32_t k = 0, *bucket = NULL, nbuckets = 0, *of = LUO_NEW_N(w->scratch, int32_t, n);
    double now = 0;
    if (!of) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) {
        if (!cuts_whole(w->s, &w->room[i])) continue;
        of[k] = i;
        w->room[k++] = w->room[i];
    }
    LUO_TRY(close(w, w->room, k, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++) {
        double bytes = 0, t = 0;
        for (int32_t i = 0; i < k; i++) {
            if (bucket[i] != b) continue;
            bytes += e * (double)w->room[i].elements;
            now = fmax(now, arrives[of[i]]);
        }
        LUO_TRY(luo_cost_group(w->ctx, LUO_COLL_AG, step_devices(w, 0, stage), w->s->tp,
                               (int64_t)bytes, 0, &t, w->err));
        now += t;
        for (int32_t i = 0; i < k; i++)
            if (bucket[i] == b) arrives[of[i]] = now;
    }
    w->stage[stage].gathered = fmax(w->stage[stage].gathered, now);
    return LUO_OK;
}

static luo_status gather_chunk(stepper *w, int32_t stage, int32_t chunk, double *now)
{
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    const int32_t n = list_reads(w, stage, chunk, w->room);
    int32_t *bucket = NULL, nbuckets = 0;
    double *arrives = LUO_NEW_N(w->scratch, double, n);
    if (!arrives) return luo_err_nomem(w->err);
    LUO_TRY(close(w, w->room, n, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++) {
        double bytes = 0, t = 0;
        for (int32_t i = 0; i < n; i++)
            if (bucket[i] == b) bytes += e * moved(w->s, &w->room[i]);
        LUO_TRY(call_seconds(w, LUO_COLL_AG, stage, bytes, &t));
        *now += t;
        for (int32_t i = 0; i < n; i++)
            if (bucket[i] == b) arrives[i] = *now;
    }
    w->stage[stage].arrives[chunk] = arrives;
    return gather_whole(w, stage, n, arrives);
}

luo_status step_gather(stepper *w)
{
    const luo_step_spec *s = w->s;
    const bool gathers = s->dp > 1 && (s->zero == 1 || s->zero == 2);
    for (int32_t k = 0; k < s->pp && gathers; k++) {
        double now = 0;
        for (int32_t c = 0; c < s->chunks; c++) LUO_TRY(gather_chunk(w, k, c, &now));
        w->stage[k].gathered = fmax(w->stage[k].gathered, now);
    }
    if (!step_is_split(s)) return LUO_OK;
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    double move = 0;
    LUO_TRY(luo_cost_p2p(w->ctx, step_devices(w, 0, 0)[0], step_devices(w, 0, s->pp - 1)[0],
                         (int64_t)(e * (double)table_elements(s)), 0, &move, w->err));
    w->table_there = fmax(w->stage[0].gathered, w->stage[s->pp - 1].gathered) + move;
    w->stage[s->pp - 1].gathered = fmax(w->stage[s->pp - 1].gathered, w->table_there);
    return LUO_OK;
}

double step_first(const void *stepper_, int32_t stage, int32_t chunk, double start)
{
    const stepper *w = stepper_;
    const luo_step_spec *s = w->s;
    const double all = w->forward[stage * s->chunks + chunk];
    const double *arrives = w->stage[stage].arrives[chunk];
    if (w->ctx->stack->dp_overlap <= 0) return fmax(start, w->stage[stage].gathered) + all;
    double now = start, was = 0;
    const int32_t n = arrives ? list_reads(w, stage, chunk, w->room) : 0;
    for (int32_t i = 0; i < n; i++) {
        now = fmax(now + w->room[i].at - was, arrives[i]);
        was = w->room[i].at;
    }
    if (step_is_split(s) && is_last(s, stage, chunk)) {
        const double at = all - w->head.forward + w->head.read;
        now = fmax(now + at - was, w->table_there);
        was = at;
    }
    return now + all - was;
}

/* ---- gradients ---- */

static luo_status ready_chunk(stepper *w, int32_t stage, int32_t chunk, int32_t *ncalls)
{
    const double begin = w->last[chunk * w->s->pp + stage];
    const int32_t n = list_done(w, stage, chunk, w->room), from = *ncalls;
    int32_t *bucket = NULL, nbuckets = 0;
    LUO_TRY(close(w, w->room, n, false, &bucket, &nbuckets));
    step_stage *k = &w->stage[stage];
    for (int32_t i = 0; i < nbuckets; i++) k->call[from + i].elements = 0;
    for (int32_t i = 0; i < n; i++) {
        step_call *c = &k->call[from + bucket[i]];
        c->elements += (int64_t)moved(w->s, &w->room[i]);
        c->order = from + bucket[i];
        c->table = w->room[i].table;
        c->summed = w->room[i].whole && w->s->sequence_parallel && w->s->tp > 1;
        c->ready = fmax(c->ready, begin + w->room[i].at);
    }
    *ncalls += nbuckets;
    return LUO_OK;
}

luo_status step_ready(stepper *w)
{
    const luo_step_spec *s = w->s;
    const bool waits = w->ctx->stack->dp_overlap <= 0;
    for (int32_t k = 0; k < s->pp; k++) {
        step_stage *stage = &w->stage[k];
        int32_t ncalls = 0;
        const size_t mark = luo_arena_mark(w->scratch);
        for (int32_t c = 0; c < s->chunks; c++) {
            LUO_TRY(ready_chunk(w, k, c, &ncalls));
            stage->end = fmax(stage->end,
                              w->last[c * s->pp + k] + w->backward[k * s->chunks + c]);
        }
        luo_arena_reset(w->scratch, mark);
        stage->ncalls = ncalls;
        for (int32_t i = 0; waits && i < ncalls; i++)
            stage->call[i].ready = fmax(stage->call[i].ready, stage->end);
    }
    return LUO_OK;
}

static int by_ready(const void *a, const void *b)
{
    const step_call *x = a, *y = b;
    if (x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static luo_status price(const stepper *w, int32_t stage)
{
    const step_stage *k = &w->stage[stage];
    const double each = sum_bytes(w);
    int64_t known = -1;
    double seconds = 0;
    for (int32_t i = 0; i < k->ncalls; i++) {
        step_call *c = &k->call[i];
        const double bytes = each * (double)c->elements;
        const int coll = w->s->zero >= 1 && !c->table ? LUO_COLL_RS : LUO_COLL_AR;
        if (c->elements != known || c->table)
            LUO_TRY(call_seconds(w, coll, stage, bytes, &seconds));
        known = c->table ? -1 : c->elements;
        c->seconds = seconds;
        if (!c->summed) continue;
        double sum = 0;
        const bool cut = w->s->zero >= 1;
        LUO_TRY(luo_cost_group(w->ctx, cut ? LUO_COLL_RS : LUO_COLL_AR, step_devices(w, 0, stage),
                               w->s->tp, (int64_t)bytes * (cut ? w->s->tp : 1), 0, &sum, w->err));
        c->seconds += sum;
    }
    return LUO_OK;
}

/* The timetable of a stage: seconds after its last backward. */
static luo_status stage_exposed(stepper *w, int32_t stage, double *end)
{
    step_stage *k = &w->stage[stage];
    luo_overlap o;
    const size_t mark = luo_arena_mark(w->scratch);
    LUO_TRY(price(w, stage));
    qsort(k->call, (size_t)k->ncalls, sizeof *k->call, by_ready);
    double *ready = LUO_NEW_N(w->scratch, double, k->ncalls);
    double *seconds = LUO_NEW_N(w->scratch, double, k->ncalls);
    if (!ready || !seconds) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < k->ncalls; i++) {
        ready[i] = k->call[i].ready;
        seconds[i] = k->call[i].seconds;
        if (!k->call[i].table) continue;
        luo_cost_ddp_overlap(i + 1, ready, seconds, 0, &o);
        k->table = o.exposed;
    }
    luo_cost_ddp_overlap(k->ncalls, ready, seconds, k->end, &o);
    *end = k->end + o.exposed;
    if (w->s->zero == 2) /* the same calls in every micro-batch, one after another */
        *end = fmax(*end, o.total * w->s->micro_batches);
    luo_arena_reset(w->scratch, mark);
    return LUO_OK;
}

/* Both stages sum their halves; the head's moves to the first stage and is added there. */
static luo_status shared_table(const stepper *w, double *end)
{
    const luo_step_spec *s = w->s;
    const int32_t *to = step_devices(w, 0, 0), *from = step_devices(w, 0, s->pp - 1);
    const double bytes = sum_bytes(w) * (double)table_elements(s);
    double move = 0, sum = 0;
    LUO_TRY(luo_cost_p2p(w->ctx, from[0], to[0], (int64_t)bytes, 0, &move, w->err));
    LUO_TRY(luo_cost_stream(luo_cluster_profile(w->ctx->cluster, to[0]),
                            3.0 * (w->ctx->dtype == LUO_F64 ? 8 : 4) * (double)table_elements(s),
                            &sum, w->err));
    sum = luo_cost_host(w->ctx->stack, sum, 1);
    *end = fmax(w->stage[0].table, w->stage[s->pp - 1].table + move) + sum;
    return LUO_OK;
}

luo_status step_exposed(stepper *w, double pipeline, double *dp, double *tied)
{
    const luo_step_spec *s = w->s;
    double end = pipeline;
    *dp = *tied = 0;
    if (s->zero < 3)
        for (int32_t k = 0; k < s->pp; k++) {
            double t = 0;
            LUO_TRY(stage_exposed(w, k, &t));
            end = fmax(end, t);
        }
    *dp = end - pipeline;
    if (!step_is_split(s)) return LUO_OK;
    double with = 0;
    LUO_TRY(shared_table(w, &with));
    *tied = fmax(0, with - end);
    return LUO_OK;
}
