/* step_links.c: gradients and weights between pipelines that differ (docs/planners.md
 * #which-plan-is-taken): what their calls put on links. The slices of the widest group are calls of
 * their own, each with its bytes on every link on the way, up and down apart. */
#include <math.h>

#include "core/plan/compile_clock.h"
#include "core/plan/step/step_internal.h"

/* ---- what a slice puts on links ---- */

/* Devices of a slice; room for two a pipeline. */
static int32_t members_of(const stepper *w, const step_run *run, int32_t slice, int32_t *dev)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->plan->npipelines; i++) {
        const luo_stage *stages = w->plan->pipelines[i].stages, *stage = &stages[run->stage[i]];
        dev[n++] = stage->dev[slice * luo_stage_tp(stage) / run->widest];
        if (!run->also || run->also[i] == run->stage[i]) continue;
        stage = &stages[run->also[i]];
        dev[n++] = stage->dev[slice * luo_stage_tp(stage) / run->widest];
    }
    return n;
}

static void put(step_links *links, int32_t at, double seconds)
{
    if (links->sum[at] == 0) links->touched[links->ntouched++] = at;
    links->sum[at] += seconds;
}

static void put_flow(step_links *links, const luo_flow *flow, double bytes)
{
    const luo_cluster *cluster = links->w->in->cluster;
    luo_hop hop[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, flow->src, flow->dst, hop);
    for (int32_t k = 0; k < n && flow->bytes > 0; k++) {
        const luo_link *link = &cluster->links[hop[k].link];
        const double bw = hop[k].up ? link->bytes_per_s : link->down_bytes_per_s;
        if (bw > 0) put(links, 2 * hop[k].link + hop[k].up, flow->bytes / bytes / bw);
    }
}

/* Keeps what was put, and forgets it. */
static luo_status keep_loads(step_links *links, step_slice *slice)
{
    slice->loads = LUO_NEW_N(links->w->scratch, step_load, links->ntouched);
    if (!slice->loads) return luo_err_nomem(links->w->err);
    for (slice->nloads = 0; slice->nloads < links->ntouched; slice->nloads++) {
        const int32_t at = links->touched[slice->nloads];
        slice->loads[slice->nloads] = (step_load){at, links->sum[at]};
        links->sum[at] = 0;
    }
    links->ntouched = 0;
    return LUO_OK;
}

static luo_status price_slice(step_links *links, step_slice *slice, int64_t bytes)
{
    const stepper *w = links->w;
    const int coll = step_sum_of(w, links->weights);
    const size_t mark = luo_arena_mark(w->scratch);
    luo_flow *flow;
    int32_t n = 0;
    slice->fixed = 0;
    if (slice->ndev > 1) {
        LUO_TRY(luo_cost_flow(w->scratch, &w->ctx, coll, slice->dev, slice->ndev, bytes, &flow, &n,
                              w->err));
        for (int32_t k = 0; k < n; k++) {
            put_flow(links, &flow[k], (double)bytes);
            slice->fixed = fmax(slice->fixed, flow[k].delay_s);
        }
    }
    luo_arena_reset(w->scratch, mark);
    return keep_loads(links, slice);
}

luo_status step_price_pair(step_links *links, int32_t src, int32_t dst, int64_t bytes,
                           step_slice *slice)
{
    luo_flow flow;
    luo_cost_p2p_flow(&links->w->ctx, src, dst, bytes, &flow);
    put_flow(links, &flow, 1);
    slice->fixed = flow.delay_s + luo_cluster_path_latency(links->w->in->cluster, src, dst);
    return keep_loads(links, slice);
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

static luo_status list_slices(stepper *w, const step_run *run, step_slice *slices)
{
    for (int32_t k = 0; k < run->widest; k++) {
        slices[k].dev = LUO_NEW_N(w->scratch, int32_t, 2 * (int64_t)w->plan->npipelines);
        if (!slices[k].dev) return luo_err_nomem(w->err);
        slices[k].ndev = members_of(w, run, k, slices[k].dev);
    }
    return LUO_OK;
}

luo_status step_open_links(stepper *w, bool weights, step_links *links)
{
    const int64_t n = 2 * (int64_t)w->in->cluster->nlinks;
    *links = (step_links){.w = w,
                          .weights = weights,
                          .sum = LUO_NEW_N(w->scratch, double, n),
                          .touched = LUO_NEW_N(w->scratch, int32_t, n)};
    for (int32_t k = 0; k < w->nruns + step_holds_ends(w); k++) w->run[k].priced = NULL;
    return links->sum && links->touched ? LUO_OK : luo_err_nomem(w->err);
}

luo_status step_price_slices(step_links *links, int32_t run, int64_t bytes,
                             const step_slice **slices)
{
    stepper *w = links->w;
    step_run *r = &w->run[run];
    for (const step_priced *priced = r->priced; priced; priced = priced->next)
        if (priced->bytes == bytes && priced->weights == links->weights)
            return *slices = priced->slices, LUO_OK;
    step_priced *priced = LUO_NEW(w->scratch, step_priced);
    step_slice *made = LUO_NEW_N(w->scratch, step_slice, r->widest);
    if (!priced || !made) return luo_err_nomem(w->err);
    LUO_TRY(list_slices(w, r, made));
    for (int32_t k = 0; k < r->widest; k++) {
        LUO_TRY(price_slice(links, &made[k], bytes));
        LUO_TRY(order_by(w, step_sum_of(w, links->weights), &made[k], bytes));
    }
    *priced = (step_priced){bytes, links->weights, made, r->priced};
    r->priced = priced;
    *slices = made;
    return LUO_OK;
}

void step_join_table(const stepper *w, step_call *call)
{
    call->run = w->nruns;
    call->elements = step_table(w, w->run[w->nruns].widest);
}

/* ---- weights ---- */

/* Adds the calls of a run, and which of them brings each tensor of step_reads. */
static luo_status list_gathers(stepper *w, step_run *run)
{
    int32_t nbuckets = 0, *bucket = NULL;
    run->nreads = step_reads(w, run, step_stage_of(w, run, 0), step_chunk_of(w, run, 0), w->room);
    run->arrives = LUO_NEW_N(w->scratch, double, run->nreads + 1);
    if (!run->arrives) return luo_err_nomem(w->err);
    LUO_TRY(step_close(w, step_rule(w), run, w->room, run->nreads, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++)
        w->calls[w->ncalls + b] = (step_call){.run = (int32_t)(run - w->run)};
    for (int32_t i = 0; i < run->nreads; i++) {
        step_call *call = &w->calls[w->ncalls + bucket[i]];
        call->elements += (int64_t)step_moved(w, run, &w->room[i], true);
        if (w->room[i].table && step_holds_ends(w)) step_join_table(w, call);
        bucket[i] += w->ncalls;
    }
    run->brought_by = bucket;
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
            const step_call *call = &w->calls[w->run[k].brought_by[i]];
            w->run[k].arrives[i] = call->end;
            if (call->run == w->nruns) w->table_there = call->end;
            w->gathered = fmax(w->gathered, call->end);
        }
    w->ncalls = 0;
    return LUO_OK;
}
