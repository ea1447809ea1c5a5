/* step_links.c: gradients and weights between pipelines that differ (docs/planners.md
 * #which-plan-is-taken).
 *
 * The slices of the widest group are calls of their own. Each puts its bytes on every link on the
 * way, up and down apart, behind what is there already, and its time on a lane of each of its
 * devices, of which a narrow stage's serve several slices. Calls of disjoint groups meet in no link
 * and run side by side. */
#include <math.h>

#include "core/plan/step/step_internal.h"

/* ---- what a slice puts on links ---- */

typedef struct loads { /* of the slice at hand */
    stepper *w;
    bool weights;
    double *sum; /* per link and direction */
    int32_t *touched, ntouched;
} loads;

/* Devices of a slice; room for two a pipeline. */
static int32_t members_of(const stepper *w, const step_run *r, int32_t slice, int32_t *dev)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->plan->npipelines; i++) {
        const luo_stage *stages = w->plan->pipelines[i].stages, *s = &stages[r->stage[i]];
        dev[n++] = s->dev[slice * luo_stage_tp(s) / r->widest];
        if (!r->also || r->also[i] == r->stage[i]) continue;
        s = &stages[r->also[i]];
        dev[n++] = s->dev[slice * luo_stage_tp(s) / r->widest];
    }
    return n;
}

static void put(loads *x, int32_t at, double seconds)
{
    if (x->sum[at] == 0) x->touched[x->ntouched++] = at;
    x->sum[at] += seconds;
}

static void put_flow(loads *x, const luo_flow *f, double bytes)
{
    const luo_cluster *cluster = x->w->in->cluster;
    luo_hop hop[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, f->src, f->dst, hop);
    for (int32_t k = 0; k < n; k++) {
        const luo_link *link = &cluster->links[hop[k].link];
        const double bw = hop[k].up ? link->bytes_per_s : link->down_bytes_per_s;
        if (bw > 0) put(x, 2 * hop[k].link + hop[k].up, f->bytes / bytes / bw);
    }
}

/* Keeps what was put, and forgets it. */
static luo_status keep_loads(loads *x, step_slice *slice)
{
    slice->loads = LUO_NEW_N(x->w->scratch, step_load, x->ntouched);
    if (!slice->loads) return luo_err_nomem(x->w->err);
    for (slice->nloads = 0; slice->nloads < x->ntouched; slice->nloads++) {
        const int32_t at = x->touched[slice->nloads];
        slice->loads[slice->nloads] = (step_load){at, x->sum[at]};
        x->sum[at] = 0;
    }
    x->ntouched = 0;
    return LUO_OK;
}

static luo_status price_slice(loads *x, step_slice *slice, int64_t bytes)
{
    const stepper *w = x->w;
    const int coll = x->weights           ? LUO_COLL_AG
                     : w->plan->zero >= 1 ? LUO_COLL_RS
                                          : LUO_COLL_AR;
    const size_t mark = luo_arena_mark(w->scratch);
    luo_flow *flow;
    int32_t n = 0;
    slice->fixed = 0;
    if (slice->ndev > 1) {
        LUO_TRY(luo_cost_flow(w->scratch, &w->ctx, coll, slice->dev, slice->ndev, bytes, &flow, &n,
                              w->err));
        for (int32_t k = 0; k < n; k++) {
            put_flow(x, &flow[k], (double)bytes);
            slice->fixed = fmax(slice->fixed, flow[k].delay_s);
        }
    }
    luo_arena_reset(w->scratch, mark);
    return keep_loads(x, slice);
}

/* Bytes of a slice of the run's mean bucket; a table on two stages is one. */
static luo_status mean_bytes(const loads *x, const step_run *r, int64_t *bytes)
{
    stepper *w = x->w;
    const double each = x->weights ? (double)luo_dtype_bytes(w->plan->dtype) : step_sum_bytes(w);
    const size_t mark = luo_arena_mark(w->scratch);
    double sum = (double)step_table(w, r->widest);
    int32_t n, *bucket, nbuckets = 1;
    if (!r->also) {
        sum = 0;
        n = step_done(w, r, step_stage_of(w, r, 0), step_chunk_of(w, r, 0), w->other);
        for (int32_t i = 0; i < n; i++) sum += (double)w->other[i].elements;
        LUO_TRY(step_close(w, step_rule(w), r, w->other, n, x->weights, &bucket, &nbuckets));
    }
    *bytes = (int64_t)(sum * each / (nbuckets > 0 ? nbuckets : 1));
    luo_arena_reset(w->scratch, mark);
    return LUO_OK;
}

/* Of its mean bucket. */
static luo_status price_run(loads *x, step_run *r)
{
    const stepper *w = x->w;
    int64_t bytes;
    LUO_TRY(mean_bytes(x, r, &bytes));
    r->slices = LUO_NEW_N(w->scratch, step_slice, r->widest);
    if (!r->slices) return luo_err_nomem(w->err);
    for (int32_t k = 0; k < r->widest; k++) {
        step_slice *slice = &r->slices[k];
        slice->dev = LUO_NEW_N(w->scratch, int32_t, 2 * (int64_t)w->plan->npipelines);
        if (!slice->dev) return luo_err_nomem(w->err);
        slice->ndev = members_of(w, r, k, slice->dev);
        LUO_TRY(price_slice(x, slice, bytes));
    }
    return LUO_OK;
}

luo_status step_open_links(stepper *w, bool weights)
{
    const int64_t n = 2 * (int64_t)w->in->cluster->nlinks;
    loads x = {.w = w, .weights = weights, .sum = LUO_NEW_N(w->scratch, double, n),
               .touched = LUO_NEW_N(w->scratch, int32_t, n)};
    w->busy = LUO_NEW_N(w->scratch, double, n);
    w->taken = LUO_NEW_N(w->scratch, double, w->in->cluster->ndevices);
    if (!x.sum || !x.touched || !w->busy || !w->taken) return luo_err_nomem(w->err);
    for (int32_t k = 0; k < w->nruns + step_holds_ends(w); k++)
        LUO_TRY(price_run(&x, &w->run[k]));
    return LUO_OK;
}

/* ---- the timetable ---- */

/* Two bounds: what lies on its links before it, and what its devices have had on their lanes. */
static double carry_slice(stepper *w, const step_slice *slice, double ready, double bytes)
{
    double end = ready, alone = 0;
    for (int32_t k = 0; k < slice->nloads; k++) {
        double *busy = &w->busy[slice->loads[k].at];
        const double moving = slice->loads[k].seconds * bytes;
        *busy = fmax(*busy, ready) + moving;
        end = fmax(end, *busy);
        alone = fmax(alone, moving);
    }
    end += slice->fixed;
    for (int32_t i = 0; i < slice->ndev; i++) {
        double *taken = &w->taken[slice->dev[i]];
        *taken = fmax(*taken, ready) + (slice->fixed + alone) / w->bucket.lanes;
        end = fmax(end, *taken);
    }
    return end;
}

void step_carry(stepper *w, step_call *c, double each)
{
    const step_run *r = &w->run[c->run];
    c->end = c->ready;
    for (int32_t k = 0; k < r->widest; k++)
        c->end = fmax(c->end,
                      carry_slice(w, &r->slices[k], c->ready, (double)c->elements * each));
}

/* ---- weights ---- */

static luo_status gather_run(stepper *w, step_run *r)
{
    const double each = (double)luo_dtype_bytes(w->plan->dtype);
    const int32_t n = step_reads(w, r, step_stage_of(w, r, 0), step_chunk_of(w, r, 0), w->room);
    int32_t *bucket = NULL, nbuckets = 0;
    r->arrives = LUO_NEW_N(w->scratch, double, n + 1);
    if (!r->arrives) return luo_err_nomem(w->err);
    LUO_TRY(step_close(w, step_rule(w), r, w->room, n, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++) {
        step_call c = {.run = (int32_t)(r - w->run)};
        for (int32_t i = 0; i < n; i++) {
            if (bucket[i] != b) continue;
            c.elements += w->room[i].elements;
            if (w->room[i].table && step_holds_ends(w)) c.run = w->nruns;
        }
        step_carry(w, &c, each);
        for (int32_t i = 0; i < n; i++)
            if (bucket[i] == b) r->arrives[i] = c.end;
        if (c.run == w->nruns) w->table_there = c.end;
        w->gathered = fmax(w->gathered, c.end);
    }
    return LUO_OK;
}

/* In the order of layers: what stands in front is needed first. */
luo_status step_gather_links(stepper *w)
{
    LUO_TRY(step_open_links(w, true));
    for (int32_t k = 0; k < w->nruns; k++) LUO_TRY(gather_run(w, &w->run[k]));
    return LUO_OK;
}
