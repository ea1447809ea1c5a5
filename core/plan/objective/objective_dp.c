/* Gradients and weights between the pipelines of a plan, bucket by bucket
 * (docs/planners.md#which-plan-is-taken).
 *
 * A run is a run of layers that the same stages hold: one set of devices for each slice of the
 * widest group. All slices of a bucket are one call here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/step/memory.h"
#include "core/plan/objective/objective_internal.h"

typedef struct load { /* of a link in one direction: seconds for each byte of a slice */
    int32_t at;       /* 2 * link + up */
    double seconds;
} load;

typedef struct run {
    int32_t lo, hi, widest, narrowest;
    int32_t *stage;      /* per pipeline */
    const int32_t *also; /* the other end of a tied table; NULL: none */
    int32_t nloads;
    load *loads;
    double fixed;    /* seconds of a bucket, whatever its size */
    double elements; /* of a slice: all of the run */
} run;

typedef struct item { /* a matrix of a layer, or an end: unit -1, layer, layers */
    int32_t run, unit;
    double part;      /* of its unit's backward is over when it is complete */
    int64_t elements; /* of a slice */
} item;

typedef struct call {
    int32_t run, order;
    double ready, elements;
} call;

typedef struct traffic {
    objective *o;
    bool weights;
    double each; /* bytes of an element */
    int32_t nruns, nitems, ncalls;
    bool ends; /* embedding and head hold a tied table: it is runs[nruns] */
    run *runs;
    item *items;
    int32_t *bucket; /* of item i */
    call *calls;
    double *sum;     /* per link and direction: of the run at hand */
    int32_t *touched, ntouched;
    double *busy; /* per link and direction: until when */
} traffic;

/* ---- who shares what ---- */

static luo_status find_runs(traffic *t)
{
    const objective *o = t->o;
    const int32_t L = (int32_t)o->in->model->layers, n = o->plan->npipelines;
    bool *cut = LUO_NEW_N(o->arena, bool, L + 1);
    if (!cut) return luo_err_nomem(o->err);
    for (int32_t i = 0; i < n; i++)
        for (int32_t s = 0; s < o->pipe[i].n; s++) cut[o->pipe[i].stage[s].lo] = true;
    for (int32_t l = 0; l < L; l++) t->nruns += cut[l];
    t->runs = LUO_NEW_N(o->arena, run, t->nruns + 1);
    int32_t *stage = LUO_NEW_N(o->arena, int32_t, (size_t)t->nruns * (size_t)n);
    if (!t->runs || !stage) return luo_err_nomem(o->err);
    for (int32_t l = 0, k = -1; l < L; l++) {
        if (!cut[l]) continue;
        if (k >= 0) t->runs[k].hi = l;
        run *r = &t->runs[++k];
        *r = (run){.lo = l, .hi = L, .widest = 1, .narrowest = INT32_MAX,
                   .stage = stage + (size_t)k * (size_t)n};
        for (int32_t i = 0; i < n; i++) {
            int32_t s = k > 0 ? t->runs[k - 1].stage[i] : 0;
            while (o->pipe[i].stage[s].hi <= l) s++;
            r->stage[i] = s;
            const int32_t tp = o->pipe[i].stage[s].tp;
            if (tp > r->widest) r->widest = tp;
            if (tp < r->narrowest) r->narrowest = tp;
        }
    }
    return LUO_OK;
}

/* A tied table on the first stages and on the last ones. */
static void find_ends(traffic *t)
{
    const objective *o = t->o;
    const run *first = &t->runs[0], *last = &t->runs[t->nruns - 1];
    t->ends = obj_holds_ends(o);
    t->runs[t->nruns] = (run){.stage = first->stage,
                              .also = last->stage,
                              .widest = first->widest > last->widest ? first->widest
                                                                     : last->widest};
}

/* Devices of a slice; room for two a pipeline. */
static int32_t members_of(const traffic *t, const run *r, int32_t slice, int32_t *dev)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->o->plan->npipelines; i++) {
        const obj_stage *s = &t->o->pipe[i].stage[r->stage[i]];
        dev[n++] = s->at->dev[slice * s->tp / r->widest];
        if (!r->also || r->also[i] == r->stage[i]) continue;
        s = &t->o->pipe[i].stage[r->also[i]];
        dev[n++] = s->at->dev[slice * s->tp / r->widest];
    }
    return n;
}

/* ---- what a bucket puts on links ---- */

static void put(traffic *t, int32_t at, double seconds)
{
    if (t->sum[at] == 0) t->touched[t->ntouched++] = at;
    t->sum[at] += seconds;
}

static void put_flow(traffic *t, const luo_flow *f, double bytes)
{
    const luo_cluster *cluster = t->o->in->cluster;
    luo_hop hop[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, f->src, f->dst, hop);
    for (int32_t k = 0; k < n; k++) {
        const luo_link *link = &cluster->links[hop[k].link];
        const double bw = hop[k].up ? link->bytes_per_s : link->down_bytes_per_s;
        if (bw > 0) put(t, 2 * hop[k].link + hop[k].up, f->bytes / bytes / bw);
    }
}

static luo_status price_slice(traffic *t, run *r, int32_t slice, int32_t *dev, int64_t bytes)
{
    const objective *o = t->o;
    const int coll = t->weights ? LUO_COLL_AG : o->plan->zero >= 1 ? LUO_COLL_RS : LUO_COLL_AR;
    const size_t mark = luo_arena_mark(o->arena);
    luo_flow *flow;
    int32_t n;
    const int32_t members = members_of(t, r, slice, dev);
    if (members < 2) return LUO_OK;
    LUO_TRY(luo_cost_flow(o->arena, &o->ctx, coll, dev, members, bytes, &flow, &n, o->err));
    for (int32_t k = 0; k < n; k++) {
        put_flow(t, &flow[k], (double)bytes);
        r->fixed = fmax(r->fixed, flow[k].delay_s);
    }
    luo_arena_reset(o->arena, mark);
    return LUO_OK;
}

/* Of a bucket of usual size. */
static luo_status price_run(traffic *t, run *r)
{
    const objective *o = t->o;
    const double usual = fmax(40e6, 1e6 * o->plan->npipelines);
    const int64_t bytes = (int64_t)(fmin(usual, r->elements) * t->each);
    int32_t *dev = LUO_NEW_N(o->arena, int32_t, 2 * (int64_t)o->plan->npipelines);
    if (!dev) return luo_err_nomem(o->err);
    t->ntouched = 0;
    for (int32_t k = 0; k < r->widest; k++) LUO_TRY(price_slice(t, r, k, dev, bytes));
    r->loads = LUO_NEW_N(o->arena, load, t->ntouched);
    if (!r->loads) return luo_err_nomem(o->err);
    for (; r->nloads < t->ntouched; r->nloads++) {
        const int32_t at = t->touched[r->nloads];
        r->loads[r->nloads] = (load){at, t->sum[at]};
        t->sum[at] = 0;
    }
    return LUO_OK;
}

/* ---- buckets ---- */

static void add_item(traffic *t, int32_t at, int32_t unit, double elements, double part)
{
    if (elements < 1) return;
    t->items[t->nitems++] = (item){at, unit, part, (int64_t)elements};
    t->runs[at].elements += elements;
}

enum { MATRICES = 7 };

/* Matrices of a layer in the order in which forward reads them, as parts of its parameters. */
static int32_t matrices(const luo_model *model, double part[MATRICES])
{
    const double h = (double)model->head_dim, f = (double)model->ffn_hidden;
    const double q = h * (double)model->heads, kv = h * (double)model->kv_heads;
    const double size[MATRICES] = {q, kv, kv, q, f, model->activation == LUO_ACT_SWIGLU ? f : 0, f};
    double sum = 0;
    if (model->moe.experts > 0 || luo_model_is_latent(model)) {
        part[0] = 1;
        return 1;
    }
    for (int i = 0; i < MATRICES; i++) sum += size[i];
    for (int i = 0; i < MATRICES; i++) part[i] = size[i] / sum;
    return MATRICES;
}

static void add_layer(traffic *t, int32_t at, int32_t l)
{
    const luo_model *model = t->o->in->model;
    const double all = luo_mem_layer_parameters(model, model->layers - 1, t->runs[at].widest);
    double part[MATRICES], done = 0;
    const int32_t n = matrices(model, part);
    for (int32_t k = 0; k < n; k++) {
        const double mine = part[t->weights ? k : n - 1 - k];
        done += mine;
        add_item(t, at, l, all * mine, done);
    }
}

static void add_end(traffic *t, int32_t at, bool head)
{
    const luo_model *model = t->o->in->model;
    if (t->ends) at = t->nruns;
    const int32_t w = t->runs[at].widest;
    if (head && (t->ends || (model->tied_embeddings && t->o->pipe[0].n == 1)))
        return; /* the embedding's */
    add_item(t, at, head ? (int32_t)model->layers : -1,
             (double)luo_mem_vocab(model, w) * (double)model->hidden / w, 1);
}

/* Weights as forward reads them, gradients as backward completes them. */
static luo_status list_items(traffic *t)
{
    const int32_t L = (int32_t)t->o->in->model->layers;
    t->items = LUO_NEW_N(t->o->arena, item, MATRICES * L + 2);
    if (!t->items) return luo_err_nomem(t->o->err);
    if (t->weights) add_end(t, 0, false);
    else add_end(t, t->nruns - 1, true);
    for (int32_t k = 0; k < t->nruns; k++) {
        const int32_t at = t->weights ? k : t->nruns - 1 - k, n = t->runs[at].hi - t->runs[at].lo;
        for (int32_t l = 0; l < n; l++)
            add_layer(t, at, t->weights ? t->runs[at].lo + l : t->runs[at].hi - 1 - l);
    }
    if (t->weights) add_end(t, t->nruns - 1, true);
    else add_end(t, 0, false);
    return LUO_OK;
}

static luo_status close_buckets(traffic *t)
{
    const objective *o = t->o;
    const luo_bucketing rule = luo_bucketing_of(o->plan->bucket, o->in->stack->bucket);
    luo_bucket_item *x = LUO_NEW_N(o->arena, luo_bucket_item, t->nitems);
    t->bucket = LUO_NEW_N(o->arena, int32_t, t->nitems);
    if (!x || !t->bucket) return luo_err_nomem(o->err);
    for (int32_t i = 0; i < t->nitems; i++) {
        const item *it = &t->items[i];
        t->bucket[i] = i;
        x[i] = (luo_bucket_item){.key = it->run, .unit = it->unit, .opens = t->weights,
                                 .elements = it->elements,
                                 .bytes = (int64_t)(t->each * (double)it->elements)};
    }
    t->ncalls = t->nitems;
    if (!luo_bucketing_is_off(rule))
        LUO_TRY(luo_bucket_close(o->arena, rule, o->plan->npipelines, x, t->nitems,
                                 t->nruns + t->ends, t->bucket, &t->ncalls, o->err));
    t->calls = LUO_NEW_N(o->arena, call, t->ncalls);
    return t->calls ? LUO_OK : luo_err_nomem(o->err);
}

/* When the last pipeline has completed a gradient. */
static double complete(const traffic *t, const item *it)
{
    const objective *o = t->o;
    const run *r = &t->runs[it->run];
    const int32_t L = (int32_t)o->in->model->layers;
    const bool waits = !o->in->stack->dp_overlap;
    double last = 0;
    for (int32_t i = 0; i < o->plan->npipelines; i++) {
        const obj_stage *s = &o->pipe[i].stage[r->stage[i]];
        double at = s->last + obj_task(s, true);
        if (it->unit == L) at = s->last + s->ends[1].done;
        else if (it->unit >= 0)
            at = s->last + s->ends[1].backward + s->backward * (s->hi - 1 - it->unit + it->part);
        last = fmax(last, waits ? s->last + obj_task(s, true) : at);
    }
    return last;
}

static void fill_calls(traffic *t)
{
    for (int32_t i = 0; i < t->nitems; i++) {
        const item *it = &t->items[i];
        call *c = &t->calls[t->bucket[i]];
        c->run = it->run;
        c->order = t->bucket[i];
        c->elements += (double)it->elements;
        if (!t->weights) c->ready = fmax(c->ready, complete(t, it));
    }
}

static int by_ready(const void *a, const void *b)
{
    const call *x = a, *y = b;
    if (x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* ---- the timetable ---- */

/* A narrow stage serves several slices. */
static double wait_for(obj_stage *s, const run *r, double ready, int32_t lanes)
{
    const double turns = fmax(1, (double)r->widest / s->tp / lanes);
    return s->waits = fmax(s->waits, ready) + r->fixed / lanes * turns;
}

static double make_call(traffic *t, const call *c, int32_t lanes)
{
    const objective *o = t->o;
    const run *r = &t->runs[c->run];
    double end = c->ready, fixed = 0;
    for (int32_t k = 0; k < r->nloads; k++) {
        double *busy = &t->busy[r->loads[k].at];
        *busy = fmax(*busy, c->ready) + r->loads[k].seconds * c->elements * t->each;
        end = fmax(end, *busy);
    }
    for (int32_t i = 0; i < o->plan->npipelines; i++) {
        fixed = fmax(fixed, wait_for(&o->pipe[i].stage[r->stage[i]], r, c->ready, lanes));
        if (r->also && r->also[i] != r->stage[i])
            fixed = fmax(fixed, wait_for(&o->pipe[i].stage[r->also[i]], r, c->ready, lanes));
    }
    return fmax(end + r->fixed, fixed);
}

static luo_status prepare(traffic *t)
{
    const objective *o = t->o;
    const int32_t n = 2 * o->in->cluster->nlinks;
    t->sum = LUO_NEW_N(o->arena, double, n);
    t->busy = LUO_NEW_N(o->arena, double, n);
    t->touched = LUO_NEW_N(o->arena, int32_t, n);
    if (!t->sum || !t->busy || !t->touched) return luo_err_nomem(o->err);
    LUO_TRY(find_runs(t));
    find_ends(t);
    LUO_TRY(list_items(t));
    for (int32_t k = 0; k < t->nruns + t->ends; k++) LUO_TRY(price_run(t, &t->runs[k]));
    LUO_TRY(close_buckets(t));
    fill_calls(t);
    for (int32_t i = 0; i < o->plan->npipelines; i++)
        for (int32_t s = 0; s < o->pipe[i].n; s++)
            o->pipe[i].stage[s].waits = 0;
    return LUO_OK;
}

static int32_t lanes_of(const objective *o)
{
    return luo_bucketing_of(o->plan->bucket, o->in->stack->bucket).lanes;
}

luo_status obj_gradients(objective *o, double *end)
{
    const double own = o->plan->dtype == LUO_F64 ? 8 : 4, said = o->in->stack->grad_comm_bytes;
    traffic t = {.o = o, .each = said > 0 ? said : own};
    const size_t mark = luo_arena_mark(o->arena);
    *end = 0;
    LUO_TRY(prepare(&t));
    qsort(t.calls, (size_t)t.ncalls, sizeof *t.calls, by_ready);
    for (int32_t k = 0; k < t.ncalls; k++)
        *end = fmax(*end, make_call(&t, &t.calls[k], lanes_of(o)));
    luo_arena_reset(o->arena, mark);
    return LUO_OK;
}

/* In the order of layers: what stands in front is needed first. */
luo_status obj_weights(objective *o)
{
    traffic t = {.o = o, .weights = true, .each = (double)luo_dtype_bytes(o->plan->dtype)};
    const int32_t L = (int32_t)o->in->model->layers;
    const size_t mark = luo_arena_mark(o->arena);
    double last = 0;
    LUO_TRY(prepare(&t));
    for (int32_t k = 0; k < t.ncalls; k++) {
        t.calls[k].ready = make_call(&t, &t.calls[k], lanes_of(o));
        last = fmax(last, t.calls[k].ready);
    }
    for (int32_t i = 0; i < t.nitems; i++) {
        const int32_t unit = t.items[i].unit;
        double *at = unit < 0 ? &o->ends_arrive[0] : unit == L ? &o->ends_arrive[1]
                                                               : &o->arrives[unit];
        *at = fmax(*at, !o->in->stack->dp_overlap ? last : t.calls[t.bucket[i]].ready);
    }
    if (t.ends) o->ends_arrive[1] = o->ends_arrive[0];
    luo_arena_reset(o->arena, mark);
    return LUO_OK;
}
