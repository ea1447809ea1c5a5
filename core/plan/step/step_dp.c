/* step_dp.c: gradients and weights between pipelines, bucket by bucket as the programs have them.
 *
 * Where all pipelines are alike the replicas of a stage are one group, and its calls follow each
 * other in the order in which they are ready; else calls share links
 * (core/plan/step/step_links.c). */
#include <math.h>
#include <stdlib.h>

#include "core/plan/step/step_internal.h"

/* ---- runs ---- */

static void cut_at(bool *cut, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t c = 0; c < plan->pipelines[i].stages[s].nlayers; c++)
                cut[plan->pipelines[i].stages[s].layers[c].lo] = true;
}

/* The stage of a pipeline that has layer lo first, or has it, and its chunk; empty chunks have
 * none. */
static void find_stage(const stepper *w, step_run *run, int32_t pipeline)
{
    const step_pipe *pipe = &w->pipe[pipeline];
    for (int32_t s = 0; s < pipe->n; s++)
        for (int32_t c = 0; c < pipe->stage[s].at->nlayers; c++) {
            step_chunk *chunk = &pipe->stage[s].chunk[c];
            if (run->lo < chunk->lo || run->lo >= chunk->hi) continue;
            run->stage[pipeline] = s;
            run->chunk[pipeline] = c;
            if (pipe->stage[s].shape.tp > run->widest) run->widest = pipe->stage[s].shape.tp;
        }
}

static luo_status open_run(stepper *w, int32_t lo, int32_t hi)
{
    const int32_t n = w->plan->npipelines;
    step_run *run = &w->run[w->nruns];
    *run = (step_run){.lo = lo,
                      .hi = hi,
                      .embedding = lo == 0,
                      .head = hi == w->in->model->layers,
                      .stage = LUO_NEW_N(w->scratch, int32_t, n),
                      .chunk = LUO_NEW_N(w->scratch, int32_t, n)};
    if (!run->stage || !run->chunk) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) {
        find_stage(w, run, i);
        step_chunk *chunk = step_chunk_of(w, run, i);
        if (w->pipe[i].same) continue;
        if (chunk->nruns++ == 0) chunk->first_run = w->nruns;
    }
    w->nruns++;
    return LUO_OK;
}

/* A table on the first stages and on the last ones: a run of its own. */
static void open_ends(stepper *w)
{
    const step_run *first = &w->run[0], *last = &w->run[w->nruns - 1];
    w->run[w->nruns] = (step_run){.stage = first->stage, .chunk = first->chunk,
                                  .also = last->stage,
                                  .widest = first->widest > last->widest ? first->widest
                                                                         : last->widest};
}

luo_status step_open_runs(stepper *w)
{
    const int32_t layers = (int32_t)w->in->model->layers;
    int32_t runs = 0, most = 0, before = 0;
    bool *cut = LUO_NEW_N(w->scratch, bool, layers + 1);
    if (!cut) return luo_err_nomem(w->err);
    cut_at(cut, w->plan);
    cut[layers] = true;
    for (int32_t l = 1; l <= layers; l++) runs += cut[l];
    w->run = LUO_NEW_N(w->scratch, step_run, runs + 1);
    if (!w->run) return luo_err_nomem(w->err);
    for (int32_t l = 1; l <= layers; l++) {
        if (!cut[l]) continue;
        LUO_TRY(open_run(w, before, l));
        if (l - before > most) most = l - before;
        before = l;
    }
    open_ends(w);
    const int32_t room = STEP_LAYER_TENSORS * most + STEP_END_TENSORS * 2;
    w->room = LUO_NEW_N(w->scratch, step_tensor, 2 * (int64_t)room);
    w->lane = w->by_lanes ? LUO_NEW_N(w->scratch, step_lane, w->pipe[0].n) : NULL;
    w->group = LUO_NEW_N(w->scratch, int32_t, 2 * (int64_t)step_copies(w));
    w->calls = LUO_NEW_N(w->scratch, step_call,
                         STEP_LAYER_TENSORS * (int64_t)layers + STEP_END_TENSORS * 2);
    if (!w->room || (w->by_lanes && !w->lane) || !w->group || !w->calls)
        return luo_err_nomem(w->err);
    w->other = w->room + room;
    return LUO_OK;
}

/* ---- buckets ---- */

double step_sum_bytes(const stepper *w)
{
    const double own = w->plan->dtype == LUO_F64 ? 8 : 4;
    return w->in->stack->grad_comm_bytes > 0 ? w->in->stack->grad_comm_bytes : own;
}

luo_bucketing step_rule(const stepper *w)
{
    luo_bucketing rule = w->bucket;
    if (w->plan->zero == 3) rule.rule = LUO_BUCKET_UNIT;
    return rule;
}

luo_status step_close(const stepper *w, luo_bucketing rule, const step_run *run,
                      const step_tensor *tensor, int32_t n, bool weights, int32_t **bucket,
                      int32_t *nbuckets)
{
    const int64_t each = weights ? luo_dtype_bytes(w->plan->dtype)
                                 : w->plan->dtype == LUO_F64 ? 8 : 4;
    luo_bucket_item *item = LUO_NEW_N(w->scratch, luo_bucket_item, n);
    *bucket = LUO_NEW_N(w->scratch, int32_t, n);
    if (!item || !*bucket) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) {
        const bool summed =
            !weights && tensor[i].whole && w->plan->sequence_parallel && run->widest > 1;
        const bool apart = summed || (step_goes_apart(w, run, &tensor[i]) && w->plan->zero >= 1);
        item[i] = (luo_bucket_item){.key = tensor[i].alone ? 2 : apart,
                                    .unit = tensor[i].unit,
                                    .opens = weights,
                                    .elements = tensor[i].elements,
                                    .bytes = tensor[i].elements * each};
        (*bucket)[i] = i;
    }
    *nbuckets = n;
    if (luo_bucketing_is_off(rule)) return LUO_OK;
    return luo_bucket_close(w->scratch, rule, w->plan->npipelines, item, n, 3, *bucket, nbuckets,
                            w->err);
}

bool step_cuts_whole(const stepper *w, const step_run *run, const step_tensor *tensor, bool weights)
{
    const bool sums = w->plan->sequence_parallel;
    if (!weights && !sums && step_goes_apart(w, run, tensor)) return false;
    return tensor->whole && w->plan->zero >= 1 && run->widest > 1 && (sums || !step_has_copies(w));
}

double step_moved(const stepper *w, const step_run *run, const step_tensor *tensor, bool weights)
{
    return (double)tensor->elements /
           (step_cuts_whole(w, run, tensor, weights) ? step_inside(w, run) : 1);
}

step_members step_way(const stepper *w, const step_run *run, const step_tensor *tensor,
                      bool weights)
{
    const bool inside = weights ? w->plan->zero >= 1 : w->plan->sequence_parallel;
    return step_goes_apart(w, run, tensor) && inside ? STEP_PIPELINES : STEP_SHARD;
}

/* ---- calls where pipelines are alike ---- */

static const luo_stage *plan_stage(const stepper *w, int32_t pipeline, int32_t stage)
{
    return &w->plan->pipelines[pipeline].stages[stage];
}

/* In the order in which programs have them: by pipeline. */
static int32_t both_ends(const stepper *w, int32_t i)
{
    const int32_t tp = w->run[0].widest;
    int32_t n = 0;
    for (int32_t d = 0; d < w->plan->npipelines; d++)
        for (int32_t end = 0; end < 2; end++)
            for (int32_t k = 0; k < w->ranks; k++)
                w->group[n++] =
                    plan_stage(w, d, end ? w->pipe[d].n - 1 : 0)->dev[k * tp + i];
    return n;
}

/* Of the i-th devices of a stage: those of the first group, or of the first of every group. */
static int32_t members_of(const stepper *w, const step_run *run, step_members members, int32_t i)
{
    const int32_t size = step_shard_size(w), all = step_copies(w), ranks = w->ranks;
    if (members == STEP_ENDS) return both_ends(w, i);
    const int32_t step = members == STEP_COPIES ? size : members == STEP_PIPELINES ? ranks : 1;
    const int32_t n = members == STEP_COPIES ? all / size : size / step;
    for (int32_t k = 0; k < n; k++)
        w->group[k] =
            plan_stage(w, k * step / ranks, run->stage[0])->dev[k * step % ranks * run->widest + i];
    return n;
}

static luo_status call_seconds(const stepper *w, const step_run *run, step_members members,
                               int coll, int64_t bytes, double *seconds)
{
    *seconds = 0;
    for (int32_t i = 0; i < run->widest; i++) {
        const int32_t n = members_of(w, run, members, i);
        if (n < 2) return LUO_OK;
        if (i > 0 &&
            luo_cluster_link_class(w->in->cluster, w->group[0], step_inner(w, run)[0]) == 1)
            continue; /* the lanes of a tensor group within nodes cost alike */
        const double t = luo_cost_group_seconds(&w->ctx, coll, w->group, n, bytes, 0);
        *seconds = fmax(*seconds, t);
    }
    return LUO_OK;
}

luo_status step_loss(const stepper *w, const step_run *run, double *loss)
{
    *loss = 0;
    if (luo_cluster_profile(w->in->cluster, step_inner(w, run)[0])->cpu) return LUO_OK;
    const int32_t n = members_of(w, run, STEP_SHARD, 0);
    if (n > 1) *loss = luo_cost_overlap_loss(&w->ctx, w->group, n);
    return LUO_OK;
}

luo_status step_call_seconds(const stepper *w, const step_run *run, step_members members, int coll,
                             double bytes, double *seconds)
{
    step_lane *lane = &w->lane[run->stage[0]];
    const int64_t whole = (int64_t)bytes;
    for (int32_t i = 0; i < lane->nknown && i < STEP_KNOWN; i++) {
        const step_known *known = &lane->known[i];
        if (known->members != members || known->coll != coll || known->bytes != whole) continue;
        *seconds = known->seconds;
        return LUO_OK;
    }
    LUO_TRY(call_seconds(w, run, members, coll, whole, seconds));
    lane->known[lane->nknown++ % STEP_KNOWN] = (step_known){members, coll, whole, *seconds};
    return LUO_OK;
}

/* ---- weights ---- */

/* Seconds of a gather inside the tensor group of a stage. */
static luo_status inside_seconds(const stepper *w, const step_run *run, double bytes,
                                 double *seconds)
{
    *seconds = luo_cost_group_seconds(&w->ctx, LUO_COLL_AG, step_inner(w, run), step_inside(w, run),
                                      (int64_t)bytes, 0);
    return LUO_OK;
}

/* What is cut over the tensor group is gathered there afterwards, in buckets of its own. */
static luo_status gather_whole(stepper *w, const step_run *run, int32_t n, double *now)
{
    const double e = (double)luo_dtype_bytes(w->plan->dtype);
    int32_t k = 0, *bucket = NULL, nbuckets = 0, *of = LUO_NEW_N(w->scratch, int32_t, n);
    if (!of) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) {
        if (!step_cuts_whole(w, run, &w->room[i], true)) continue;
        of[k] = i;
        w->room[k++] = w->room[i];
    }
    LUO_TRY(step_close(w, step_rule(w), run, w->room, k, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++) {
        double bytes = 0, t = 0;
        for (int32_t i = 0; i < k; i++) {
            if (bucket[i] != b) continue;
            bytes += e * (double)w->room[i].elements;
            *now = fmax(*now, run->arrives[of[i]]);
        }
        LUO_TRY(inside_seconds(w, run, bytes, &t));
        *now += t;
        for (int32_t i = 0; i < k; i++)
            if (bucket[i] == b) run->arrives[of[i]] = *now;
    }
    return LUO_OK;
}

/* Tensor by tensor, one call after another. */
static luo_status gather_alone(stepper *w, const step_run *run, int32_t n, double *now)
{
    const double e = (double)luo_dtype_bytes(w->plan->dtype);
    for (int32_t i = 0; i < n; i++) {
        const step_tensor *tensor = &w->room[i];
        double t = 0;
        run->arrives[i] = *now;
        if (tensor->table && step_holds_ends(w)) continue; /* gather_table */
        LUO_TRY(step_call_seconds(w, run, step_way(w, run, tensor, true), LUO_COLL_AG,
                                  e * step_moved(w, run, tensor, true), &t));
        *now += t;
        if (step_cuts_whole(w, run, tensor, true)) {
            LUO_TRY(inside_seconds(w, run, e * (double)tensor->elements, &t));
            *now += t;
        }
        run->arrives[i] = *now;
    }
    return LUO_OK;
}

static luo_status gather_buckets(stepper *w, const step_run *run, int32_t n, double *now)
{
    const double e = (double)luo_dtype_bytes(w->plan->dtype);
    int32_t *bucket = NULL, nbuckets = 0;
    LUO_TRY(step_close(w, step_rule(w), run, w->room, n, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++) {
        double bytes = 0, t = 0;
        step_members way = STEP_SHARD;
        for (int32_t i = 0; i < n; i++) {
            if (bucket[i] != b || (w->room[i].table && step_holds_ends(w))) continue;
            bytes += e * step_moved(w, run, &w->room[i], true);
            way = step_way(w, run, &w->room[i], true);
        }
        if (bytes > 0) LUO_TRY(step_call_seconds(w, run, way, LUO_COLL_AG, bytes, &t));
        *now += t;
        for (int32_t i = 0; i < n; i++)
            if (bucket[i] == b) run->arrives[i] = *now;
    }
    return LUO_OK;
}

/* Of the weights of a run, behind those of its stage before it. */
static luo_status gather_run(stepper *w, step_run *run, double *now)
{
    const step_chunk *chunk = step_chunk_of(w, run, 0);
    const int32_t n = step_reads(w, run, step_stage_of(w, run, 0), chunk, w->room);
    double whole = 0;
    run->arrives = LUO_NEW_N(w->scratch, double, n + 1);
    if (!run->arrives) return luo_err_nomem(w->err);
    if (luo_bucketing_is_off(step_rule(w))) return gather_alone(w, run, n, now);
    LUO_TRY(gather_buckets(w, run, n, now));
    LUO_TRY(gather_whole(w, run, n, &whole));
    w->lane[run->stage[0]].gathered = fmax(w->lane[run->stage[0]].gathered, whole);
    return LUO_OK;
}

/* ZeRO-2: the head's stage gets its copy of a table, the pieces that it cuts gradients to, which it
 * gathers there behind its own weights. */
static luo_status send_table(stepper *w)
{
    const step_run *first = &w->run[0], *last = &w->run[w->nruns - 1];
    const double bytes =
        (double)luo_dtype_bytes(w->plan->dtype) * (double)step_table(w, first->widest);
    step_lane *lane = &w->lane[last->stage[0]];
    double move = 0, gather = 0;
    if (step_gathers_each(w)) return LUO_OK; /* long before the first micro-batch is there */
    move = luo_cost_p2p_seconds(&w->ctx, step_inner(w, first)[0], step_inner(w, last)[0],
                                (int64_t)(bytes / step_shard_size(w)), 0);
    LUO_TRY(step_call_seconds(w, last, STEP_SHARD, LUO_COLL_AG, bytes, &gather));
    /* it lies in what is gathered there */
    w->table_there = fmax((first->arrives ? first->arrives[0] : 0) + move, lane->gathered) + gather;
    lane->gathered = fmax(lane->gathered, w->table_there);
    return LUO_OK;
}

/* A table that both ends hold is gathered in front of all other weights, among all that have some
 * of it (ZeRO-1). */
static luo_status gather_table(stepper *w)
{
    const double e = (double)luo_dtype_bytes(w->plan->dtype);
    const step_run *first = &w->run[0], *last = &w->run[w->nruns - 1];
    if (!step_holds_ends(w) || w->plan->zero == 0) return LUO_OK;
    LUO_TRY(step_call_seconds(w, first, STEP_ENDS, LUO_COLL_AG,
                              e * (double)step_table(w, first->widest), &w->table_there));
    w->lane[first->stage[0]].gathered = w->lane[last->stage[0]].gathered = w->table_there;
    return LUO_OK;
}

static luo_status gather_alike(stepper *w)
{
    const bool gathers = step_copies(w) * w->run[0].widest > 1 && w->plan->zero >= 1 &&
                         !step_gathers_each(w);
    LUO_TRY(gather_table(w));
    double *now = LUO_NEW_N(w->scratch, double, w->pipe[0].n);
    if (!now) return luo_err_nomem(w->err);
    for (int32_t k = 0; k < w->pipe[0].n; k++) now[k] = w->lane[k].gathered;
    for (int32_t k = 0; k < w->nruns && gathers; k++)
        LUO_TRY(gather_run(w, &w->run[k], &now[w->run[k].stage[0]]));
    for (int32_t k = 0; k < w->pipe[0].n; k++)
        w->lane[k].gathered = fmax(w->lane[k].gathered, now[k]);
    return step_is_split(w) && !step_holds_ends(w) ? send_table(w) : LUO_OK;
}

luo_status step_gather(stepper *w)
{
    if (w->by_lanes) return gather_alike(w);
    return w->plan->zero >= 1 ? step_gather_links(w, false) : LUO_OK;
}

/* When a stage has all its weights. Pre: pipelines differ. */
static double gathered_of(const stepper *w, const step_stage *stage)
{
    double latest =
        step_holds_ends(w) && (stage->at->embedding || stage->at->head) ? w->table_there : 0;
    for (int32_t c = 0; c < stage->at->nlayers; c++)
        for (int32_t k = 0; k < stage->chunk[c].nruns; k++) {
            const step_run *run = &w->run[stage->chunk[c].first_run + k];
            for (int32_t i = 0; i < run->nreads; i++) latest = fmax(latest, run->arrives[i]);
        }
    return latest;
}

double step_first(const stepper *w, const step_stage *stage, const step_chunk *chunk, double start)
{
    const step_run *first = &w->run[chunk->first_run];
    double now = start, was = 0;
    if (!w->in->stack->dp_overlap)
        return fmax(start, w->by_lanes ? w->lane[stage->index].gathered : gathered_of(w, stage)) +
               chunk->forward;
    if (step_holds_ends(w) && chunk->embedding) now = fmax(now, w->table_there);
    for (int32_t k = 0; k < chunk->nruns; k++) {
        const int32_t n = first[k].arrives ? step_reads(w, &first[k], stage, chunk, w->room) : 0;
        for (int32_t i = 0; i < n; i++) {
            now = fmax(now + w->room[i].at - was, first[k].arrives[i]);
            was = w->room[i].at;
        }
    }
    if (step_is_split(w) && chunk->head) {
        const double at = chunk->forward - stage->head.forward + stage->head.read;
        now = fmax(now + at - was, w->table_there);
        was = at;
    }
    return now + chunk->forward - was;
}

/* ---- gradients ---- */

/* When the last pipeline has completed the gradients of each bucket of a run. */
static void find_ready(const stepper *w, const step_run *run, int32_t n, const int32_t *bucket,
                       int32_t nbuckets, step_call *calls)
{
    const bool copies = step_has_copies(w), waits = !w->in->stack->dp_overlap;
    for (int32_t d = 0; d < w->plan->npipelines; d++) {
        const step_stage *stage = step_stage_of(w, run, d);
        const step_chunk *chunk = step_chunk_of(w, run, d);
        const step_beats *beats = &chunk->backward_beats;
        for (int32_t i = 0; w->pipe[d].same && !w->by_lanes && i < nbuckets; i++)
            calls[i].after[d] = calls[i].after[d - 1];
        if (w->pipe[d].same) continue;
        step_done(w, run, stage, chunk, w->other);
        for (int32_t i = 0; i < n; i++) {
            step_call *call = &calls[bucket[i]];
            const double at = copies ? fmax(beats->kept[beats->bucket[i]], stage->lane)
                                     : chunk->last + w->other[i].at;
            call->ready = fmax(call->ready, waits ? fmax(at, stage->end) : at);
            if (call->after) call->after[d] = fmax(call->after[d], w->other[i].at);
        }
    }
}

/* A run's buckets. Where pipelines differ a table on two stages is a call of its own. */
static luo_status list_calls(stepper *w, const step_run *run)
{
    const bool copies = step_has_copies(w);
    const double parts = copies ? step_shard_size(w) : 1;
    const step_stage *stage = step_stage_of(w, run, 0);
    const int32_t n = step_done(w, run, stage, step_chunk_of(w, run, 0), w->room), from = w->ncalls;
    int32_t *bucket = NULL, nbuckets = 0;
    for (int32_t i = 0; i < n; i++) w->room[i].alone = w->room[i].table;
    LUO_TRY(step_close(w, w->bucket, run, w->room, n, false, &bucket, &nbuckets));
    for (int32_t i = 0; i < nbuckets; i++) {
        step_call *call = &w->calls[from + i];
        *call = (step_call){.run = (int32_t)(run - w->run), .order = from + i};
        if (w->by_lanes) continue;
        call->after = LUO_NEW_N(w->scratch, double, w->plan->npipelines);
        if (!call->after) return luo_err_nomem(w->err);
    }
    for (int32_t i = 0; i < n; i++) {
        step_call *call = &w->calls[from + bucket[i]];
        const step_tensor *tensor = &w->room[i];
        call->elements += (int64_t)(step_moved(w, run, tensor, false) / parts);
        call->table = tensor->table;
        call->whole = step_goes_apart(w, run, tensor);
        call->summed = !copies && tensor->whole && step_sums_inside(stage);
    }
    find_ready(w, run, n, bucket, nbuckets, &w->calls[from]);
    w->ncalls += nbuckets;
    return LUO_OK;
}

static int by_ready(const void *a, const void *b)
{
    const step_call *x = a, *y = b;
    if (x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static luo_status price(const stepper *w, step_call *call)
{
    const step_run *run = &w->run[call->run];
    const double bytes = step_sum_bytes(w) * (double)call->elements;
    const bool copies = step_has_copies(w), sums = w->plan->sequence_parallel;
    const bool cuts = w->plan->zero >= 1;
    const bool kept = call->table || copies || (call->whole && !sums);
    if (call->table && step_holds_ends(w)) return LUO_OK; /* sum_ends */
    const step_members way = copies                ? STEP_COPIES
                             : call->whole && sums ? STEP_PIPELINES
                                                   : STEP_SHARD;
    LUO_TRY(step_call_seconds(w, run, way, cuts && !kept ? LUO_COLL_RS : LUO_COLL_AR, bytes,
                              &call->seconds));
    if (!call->summed) return LUO_OK;
    const double sum = luo_cost_group_seconds(&w->ctx, cuts ? LUO_COLL_RS : LUO_COLL_AR,
                                              step_inner(w, run), step_inside(w, run),
                                              (int64_t)bytes * (cuts ? step_inside(w, run) : 1), 0);
    call->seconds += sum;
    return LUO_OK;
}

/* Lane by lane; *end: of the last call. */
static luo_status sum_alike(stepper *w, double *end)
{
    for (int32_t k = 0; k < w->ncalls; k++) {
        step_call *call = &w->calls[k];
        step_lane *lane = &w->lane[w->run[call->run].stage[0]];
        LUO_TRY(price(w, call));
        lane->end = fmax(lane->end, call->ready) + call->seconds;
        if (call->table) lane->table = lane->end;
        *end = fmax(*end, lane->end);
    }
    for (int32_t d = 0; d < w->plan->npipelines && step_holds_ends(w); d++)
        for (int32_t k = 0; k < w->pipe[d].n; k++)
            w->lane[k].table =
                fmax(w->lane[k].table, fmax(w->lane[k].end, w->pipe[d].stage[k].end));
    return LUO_OK;
}

/* One call of both ends, behind all others of theirs (core/graph/specialize/spec_order.c). */
static luo_status sum_ends(const stepper *w, double *end)
{
    const step_run *first = &w->run[0], *last = &w->run[w->nruns - 1];
    const double bytes = step_sum_bytes(w) * (double)step_table(w, first->widest);
    double seconds = 0;
    LUO_TRY(step_call_seconds(w, first, STEP_ENDS, w->plan->zero >= 1 ? LUO_COLL_RS : LUO_COLL_AR,
                              bytes, &seconds));
    *end = fmax(w->lane[first->stage[0]].table, w->lane[last->stage[0]].table) + seconds;
    return LUO_OK;
}

/* ZeRO-2 and 3: the pieces to which the head's micro-batches were cut move to the first stage and
 * are added there, once the copies of them are summed. */
static luo_status move_pieces(const stepper *w, double *end)
{
    const step_run *first = &w->run[0], *last = &w->run[w->nruns - 1];
    const int32_t to = step_inner(w, first)[0], from = step_inner(w, last)[0];
    const double cells = (double)step_table(w, first->widest) / step_shard_size(w);
    double there[2] = {w->lane[first->stage[0]].table, w->lane[last->stage[0]].table};
    double move = 0, sum = 0;
    for (int32_t d = 0; d < w->plan->npipelines && !step_has_copies(w); d++) {
        there[0] = fmax(there[0], w->pipe[d].stage[first->stage[0]].worked);
        there[1] = fmax(there[1], w->pipe[d].stage[last->stage[0]].worked);
    }
    move = luo_cost_p2p_seconds(&w->ctx, from, to, (int64_t)(step_sum_bytes(w) * cells), 0);
    LUO_TRY(luo_cost_stream(luo_cluster_profile(w->in->cluster, to),
                            3.0 * (w->plan->dtype == LUO_F64 ? 8 : 4) * cells, &sum, w->err));
    sum = luo_cost_host(w->in->stack, sum, 1);
    *end = fmax(there[0], there[1] + move) + sum;
    return LUO_OK;
}

/* Calls share links; *end: of the last. */
static luo_status sum_links(stepper *w, double *end)
{
    int32_t n = 0;
    for (int32_t k = 0; k < w->ncalls; k++) {
        step_call *call = &w->calls[k];
        const bool table = call->table && step_holds_ends(w);
        if (table && w->run[call->run].head) continue; /* the embedding's */
        if (table) step_join_table(w, call);
        w->calls[n++] = *call;
    }
    w->ncalls = n;
    LUO_TRY(step_carry(w, n, false, w->plays));
    for (int32_t k = 0; k < n; k++) *end = fmax(*end, w->calls[k].end);
    for (int32_t i = 0; i < w->plan->npipelines && w->plays; i++)
        for (int32_t k = 0; k < w->pipe[i].n; k++) *end = fmax(*end, w->pipe[i].stage[k].end);
    return LUO_OK;
}

luo_status step_list_sums(stepper *w)
{
    const bool sums = !step_scatters_each(w) || step_has_copies(w);
    w->ncalls = 0;
    for (int32_t k = 0; k < w->nruns && sums; k++)
        LUO_TRY(list_calls(w, &w->run[w->by_lanes ? k : w->nruns - 1 - k]));
    return LUO_OK;
}

luo_status step_exposed(stepper *w, double pipeline, double *dp, double *tied)
{
    double end = pipeline, with = 0;
    *dp = *tied = 0;
    if (w->by_lanes) qsort(w->calls, (size_t)w->ncalls, sizeof *w->calls, by_ready);
    if (!w->by_lanes) LUO_TRY(sum_links(w, &end));
    else LUO_TRY(sum_alike(w, &end));
    *dp = end - pipeline;
    if (!w->by_lanes || !step_is_split(w)) return LUO_OK;
    LUO_TRY(step_holds_ends(w) ? sum_ends(w, &with) : move_pieces(w, &with));
    *tied = fmax(0, with - end);
    return LUO_OK;
}
