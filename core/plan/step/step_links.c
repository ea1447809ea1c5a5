/* step_links.c: gradients and weights between pipelines that differ (docs/planners.md
 * #which-plan-is-taken): what their calls put on links. The slices of the widest group are calls of
 * their own, each with its bytes on every link on the way, up and down apart. */
#include <math.h>

#include "core/plan/compile_clock.h"
#include "core/plan/step/step_internal.h"

/* ---- what a slice puts on links ---- */

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

static void put(step_links *x, int32_t at, double seconds)
{
    if (x->sum[at] == 0) x->touched[x->ntouched++] = at;
    x->sum[at] += seconds;
}

static void put_flow(step_links *x, const luo_flow *f, double bytes)
{
    const luo_cluster *cluster = x->w->in->cluster;
    luo_hop hop[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, f->src, f->dst, hop);
    for (int32_t k = 0; k < n && f->bytes > 0; k++) {
        const luo_link *link = &cluster->links[hop[k].link];
        const double bw = hop[k].up ? link->bytes_per_s : link->down_bytes_per_s;
        if (bw > 0) put(x, 2 * hop[k].link + hop[k].up, f->bytes / bytes / bw);
    }
}

/* Keeps what was put, and forgets it. */
static luo_status keep_loads(step_links *x, step_slice *slice)
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

static luo_status price_slice(step_links *x, step_slice *slice, int64_t bytes)
{
    const stepper *w = x->w;
    const int coll = step_sum_of(w, x->weights);
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

luo_status step_price_pair(step_links *x, int32_t src, int32_t dst, int64_t bytes,
                           step_slice *slice)
{
    luo_flow flow;
    luo_cost_p2p_flow(&x->w->ctx, src, dst, bytes, &flow);
    put_flow(x, &flow, 1);
    slice->fixed = flow.delay_s + luo_cluster_path_latency(x->w->in->cluster, src, dst);
    return keep_loads(x, slice);
}

static luo_status order_by(const stepper *w, int coll, step_slice *slice, int64_t bytes)
{
    luo_plan_clock by;
    double fixed, moving;
    luo_plan_clock_init(&by, w->in->cluster, w->plan->dtype);
    LUO_TRY(by.clock.call(&by, coll, slice->dev, slice->ndev, bytes, &fixed, &moving,
                          &slice->order_link));
    slice->order_fixed = step_ns_of(fixed);
    slice->order_moving = step_ns_of(moving);
    return LUO_OK;
}

static luo_status list_slices(stepper *w, const step_run *r, step_slice *slices)
{
    for (int32_t k = 0; k < r->widest; k++) {
        slices[k].dev = LUO_NEW_N(w->scratch, int32_t, 2 * (int64_t)w->plan->npipelines);
        if (!slices[k].dev) return luo_err_nomem(w->err);
        slices[k].ndev = members_of(w, r, k, slices[k].dev);
    }
    return LUO_OK;
}

luo_status step_open_links(stepper *w, bool weights, step_links *x)
{
    const int64_t n = 2 * (int64_t)w->in->cluster->nlinks;
    *x = (step_links){.w = w, .weights = weights, .sum = LUO_NEW_N(w->scratch, double, n),
                      .touched = LUO_NEW_N(w->scratch, int32_t, n)};
    for (int32_t k = 0; k < w->nruns + step_holds_ends(w); k++) w->run[k].priced = NULL;
    return x->sum && x->touched ? LUO_OK : luo_err_nomem(w->err);
}

luo_status step_price_slices(step_links *x, int32_t run, int64_t bytes, const step_slice **slices)
{
    stepper *w = x->w;
    step_run *r = &w->run[run];
    for (const step_priced *p = r->priced; p; p = p->next)
        if (p->bytes == bytes && p->weights == x->weights) return *slices = p->slices, LUO_OK;
    step_priced *p = LUO_NEW(w->scratch, step_priced);
    step_slice *made = LUO_NEW_N(w->scratch, step_slice, r->widest);
    if (!p || !made) return luo_err_nomem(w->err);
    LUO_TRY(list_slices(w, r, made));
    for (int32_t k = 0; k < r->widest; k++) {
        LUO_TRY(price_slice(x, &made[k], bytes));
        LUO_TRY(order_by(w, step_sum_of(w, x->weights), &made[k], bytes));
    }
    *p = (step_priced){bytes, x->weights, made, r->priced};
    r->priced = p;
    *slices = made;
    return LUO_OK;
}

void step_join_table(const stepper *w, step_call *c)
{
    c->run = w->nruns;
    c->elements = step_table(w, w->run[w->nruns].widest);
}

/* ---- weights ---- */

/* Adds the calls of a run, and which of them brings each tensor of step_reads. */
static luo_status list_gathers(stepper *w, step_run *r)
{
    int32_t nbuckets = 0, *bucket = NULL;
    r->nreads = step_reads(w, r, step_stage_of(w, r, 0), step_chunk_of(w, r, 0), w->room);
    r->arrives = LUO_NEW_N(w->scratch, double, r->nreads + 1);
    if (!r->arrives) return luo_err_nomem(w->err);
    LUO_TRY(step_close(w, step_rule(w), r, w->room, r->nreads, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++)
        w->calls[w->ncalls + b] = (step_call){.run = (int32_t)(r - w->run)};
    for (int32_t i = 0; i < r->nreads; i++) {
        step_call *c = &w->calls[w->ncalls + bucket[i]];
        c->elements += (int64_t)step_moved(w, r, &w->room[i], true);
        if (w->room[i].table && step_holds_ends(w)) step_join_table(w, c);
        bucket[i] += w->ncalls;
    }
    r->brought_by = bucket;
    w->ncalls += nbuckets;
    return LUO_OK;
}

/* In the order of layers: what stands in front is needed first. */
luo_status step_gather_links(stepper *w, bool beside_tasks)
{
    w->ncalls = 0;
    for (int32_t k = 0; k < w->nruns; k++) LUO_TRY(list_gathers(w, &w->run[k]));
    LUO_TRY(step_carry(w, w->ncalls, true, beside_tasks));
    w->gathered = 0;
    for (int32_t k = 0; k < w->nruns; k++)
        for (int32_t i = 0; i < w->run[k].nreads; i++) {
            const step_call *c = &w->calls[w->run[k].brought_by[i]];
            w->run[k].arrives[i] = c->end;
            if (c->run == w->nruns) w->table_there = c->end;
            w->gathered = fmax(w->gathered, c->end);
        }
    w->ncalls = 0;
    return LUO_OK;
}
