/* step_dp.c: gradients and weights between the replicas of a uniform plan, bucket by
 * bucket as the programs have them. All replicas of a stage are one group, so its calls follow each
 * other in the order in which they are ready. */
#include <math.h>
#include <stdlib.h>

#include "core/cost/overlap.h"
#include "core/cost/step/step_internal.h"
#include "core/graph/specialize/bucket.h"

/* ---- buckets ---- */

double step_sum_bytes(const stepper *w)
{
    const double own = w->ctx->dtype == LUO_F64 ? 8 : 4;
    return w->ctx->stack->grad_comm_bytes > 0 ? w->ctx->stack->grad_comm_bytes : own;
}

luo_bucketing step_rule(const stepper *w)
{
    luo_bucketing rule = luo_bucketing_of(w->s->bucket, w->ctx->stack->bucket);
    if (w->s->zero == 3) rule.rule = LUO_BUCKET_UNIT;
    return rule;
}

luo_status step_close(const stepper *w, luo_bucketing rule, const step_tensor *t, int32_t n,
                      bool weights, int32_t **bucket, int32_t *nbuckets)
{
    const luo_step_spec *spec = w->s;
    const int64_t each = weights ? luo_dtype_bytes(w->ctx->dtype)
                                 : w->ctx->dtype == LUO_F64 ? 8 : 4;
    luo_bucket_item *item = LUO_NEW_N(w->scratch, luo_bucket_item, n);
    *bucket = LUO_NEW_N(w->scratch, int32_t, n);
    if (!item || !*bucket) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) {
        const bool summed = !weights && t[i].whole && spec->sequence_parallel && spec->tp > 1;
        const bool apart = summed || (step_goes_apart(spec, &t[i]) && spec->zero >= 1);
        item[i] = (luo_bucket_item){.key = t[i].alone ? 2 : apart, .unit = t[i].unit,
                                    .opens = weights, .elements = t[i].elements,
                                    .bytes = t[i].elements * each};
        (*bucket)[i] = i;
    }
    *nbuckets = n;
    if (luo_bucketing_is_off(rule)) return LUO_OK;
    return luo_bucket_close(w->scratch, rule, spec->dp, item, n, 3, *bucket, nbuckets, w->err);
}

bool step_cuts_whole(const luo_step_spec *spec, const step_tensor *t, bool weights)
{
    if (!weights && !spec->sequence_parallel && step_goes_apart(spec, t)) return false;
    return t->whole && spec->zero >= 1 && spec->tp > 1 &&
           (spec->sequence_parallel || !step_has_copies(spec));
}

double step_moved(const luo_step_spec *spec, const step_tensor *t, bool weights)
{
    return (double)t->elements / (step_cuts_whole(spec, t, weights) ? step_inside(spec) : 1);
}

step_members step_way(const luo_step_spec *spec, const step_tensor *t, bool weights)
{
    const bool inside = weights ? spec->zero >= 1 : spec->sequence_parallel;
    return step_goes_apart(spec, t) && inside ? STEP_PIPELINES : STEP_SHARD;
}

/* In the order in which programs have them: by pipeline. */
static const int32_t *both_ends(const stepper *w, int32_t i, int32_t *n)
{
    *n = 0;
    for (int32_t d = 0; d < w->s->dp; d++)
        for (int32_t end = 0; end < 2; end++)
            for (int32_t r = 0; r < step_ranks(w->s); r++)
                w->group[(*n)++] =
                    step_devices(w, d, end ? w->s->pp - 1 : 0)[r * w->s->tp + i];
    return w->group;
}

/* Of the i-th devices of a stage: those of the first group, or of the first of every group. */
static const int32_t *members_of(const stepper *w, step_members members, int32_t stage, int32_t i,
                                 int32_t *n)
{
    const int32_t size = step_shard_size(w->s), all = step_copies(w->s);
    int32_t *dev = w->group;
    if (members == STEP_ENDS) return both_ends(w, i, n);
    step_replicas(w, stage, i);
    const int32_t step = members == STEP_COPIES ? size : step_ranks(w->s);
    *n = members == STEP_SHARD ? size : members == STEP_COPIES ? all / size : size / step;
    for (int32_t k = 0; members != STEP_SHARD && k < *n; k++) dev[k] = dev[k * step];
    return dev;
}

static luo_status call_seconds(const stepper *w, step_members members, int coll, int32_t stage,
                               int64_t bytes, double *seconds)
{
    *seconds = 0;
    for (int32_t i = 0; i < w->s->tp; i++) {
        double t = 0;
        int32_t n = 0;
        const int32_t *group = members_of(w, members, stage, i, &n);
        if (n < 2) return LUO_OK;
        if (i > 0 && luo_cluster_link_class(w->ctx->cluster, group[0],
                                            step_devices(w, 0, stage)[0]) == 1)
            continue; /* the lanes of a tensor group within nodes cost alike */
        LUO_TRY(luo_cost_group(w->ctx, coll, group, n, bytes, 0, &t, w->err));
        *seconds = fmax(*seconds, t);
    }
    return LUO_OK;
}

/* The group is the same for every pipeline at hand, and takes as long as its members are many. */
luo_status step_call_seconds(const stepper *w, step_members members, int coll, int32_t stage,
                             double bytes, double *seconds)
{
    step_stage *k = &w->stage[stage];
    const int64_t whole = (int64_t)bytes;
    for (int32_t i = 0; i < k->nknown && i < STEP_KNOWN; i++) {
        const step_known *x = &k->known[i];
        if (x->members != members || x->coll != coll || x->bytes != whole) continue;
        *seconds = x->seconds;
        return LUO_OK;
    }
    LUO_TRY(call_seconds(w, members, coll, stage, whole, seconds));
    k->known[k->nknown++ % STEP_KNOWN] = (step_known){members, coll, whole, *seconds};
    return LUO_OK;
}

luo_status step_dp_open(stepper *w)
{
    const luo_step_spec *spec = w->s;
    int64_t most = 0;
    w->stage = LUO_NEW_N(w->scratch, step_stage, spec->pp);
    if (!w->stage) return luo_err_nomem(w->err);
    for (int32_t k = 0; k < spec->pp; k++) {
        const int64_t layers = step_layers(spec, k);
        const int64_t room = STEP_LAYER_TENSORS * layers + STEP_END_TENSORS * spec->chunks;
        w->stage[k].call = LUO_NEW_N(w->scratch, step_call, room);
        w->stage[k].arrives = LUO_NEW_N(w->scratch, double *, spec->chunks);
        w->stage[k].forward_beats = LUO_NEW_N(w->scratch, step_beats, 2 * spec->chunks);
        w->stage[k].backward_beats = w->stage[k].forward_beats + spec->chunks;
        if (!w->stage[k].call || !w->stage[k].arrives || !w->stage[k].forward_beats)
            return luo_err_nomem(w->err);
        if (room > most) most = room;
    }
    w->room = LUO_NEW_N(w->scratch, step_tensor, most);
    return w->room ? LUO_OK : luo_err_nomem(w->err);
}

/* ---- weights ---- */

/* Seconds of a gather inside the tensor group of a stage. */
static luo_status inside_seconds(const stepper *w, int32_t stage, double bytes, double *seconds)
{
    return luo_cost_group(w->ctx, LUO_COLL_AG, step_devices(w, 0, stage), step_inside(w->s),
                          (int64_t)bytes, 0, seconds, w->err);
}

/* What is cut over the tensor group is gathered there afterwards, in buckets of its own. */
static luo_status gather_whole(stepper *w, int32_t stage, int32_t n, double *arrives)
{
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    int32_t k = 0, *bucket = NULL, nbuckets = 0, *of = LUO_NEW_N(w->scratch, int32_t, n);
    double now = 0;
    if (!of) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < n; i++) {
        if (!step_cuts_whole(w->s, &w->room[i], true)) continue;
        of[k] = i;
        w->room[k++] = w->room[i];
    }
    LUO_TRY(step_close(w, step_rule(w), w->room, k, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++) {
        double bytes = 0, t = 0;
        for (int32_t i = 0; i < k; i++) {
            if (bucket[i] != b) continue;
            bytes += e * (double)w->room[i].elements;
            now = fmax(now, arrives[of[i]]);
        }
        LUO_TRY(inside_seconds(w, stage, bytes, &t));
        now += t;
        for (int32_t i = 0; i < k; i++)
            if (bucket[i] == b) arrives[of[i]] = now;
    }
    w->stage[stage].gathered = fmax(w->stage[stage].gathered, now);
    return LUO_OK;
}

/* Tensor by tensor, one call after another. */
static luo_status gather_alone(stepper *w, int32_t stage, int32_t n, double *arrives, double *now)
{
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    for (int32_t i = 0; i < n; i++) {
        const step_tensor *x = &w->room[i];
        double t = 0;
        arrives[i] = *now;
        if (x->table && step_holds_ends(w->s)) continue; /* gather_table */
        LUO_TRY(step_call_seconds(w, step_way(w->s, x, true), LUO_COLL_AG, stage,
                                  e * step_moved(w->s, x, true), &t));
        *now += t;
        if (step_cuts_whole(w->s, x, true)) {
            LUO_TRY(inside_seconds(w, stage, e * (double)x->elements, &t));
            *now += t;
        }
        arrives[i] = *now;
    }
    return LUO_OK;
}

static luo_status gather_chunk(stepper *w, int32_t stage, int32_t chunk, double *now)
{
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    const int32_t n = step_reads(w, stage, chunk, w->room);
    int32_t *bucket = NULL, nbuckets = 0;
    double *arrives = LUO_NEW_N(w->scratch, double, n);
    if (!arrives) return luo_err_nomem(w->err);
    w->stage[stage].arrives[chunk] = arrives;
    if (luo_bucketing_is_off(step_rule(w))) return gather_alone(w, stage, n, arrives, now);
    LUO_TRY(step_close(w, step_rule(w), w->room, n, true, &bucket, &nbuckets));
    for (int32_t b = 0; b < nbuckets; b++) {
        double bytes = 0, t = 0;
        step_members way = STEP_SHARD;
        for (int32_t i = 0; i < n; i++) {
            if (bucket[i] != b || (w->room[i].table && step_holds_ends(w->s))) continue;
            bytes += e * step_moved(w->s, &w->room[i], true);
            way = step_way(w->s, &w->room[i], true);
        }
        if (bytes > 0) LUO_TRY(step_call_seconds(w, way, LUO_COLL_AG, stage, bytes, &t));
        *now += t;
        for (int32_t i = 0; i < n; i++)
            if (bucket[i] == b) arrives[i] = *now;
    }
    return gather_whole(w, stage, n, arrives);
}

/* ZeRO-2: the head's stage gets its copy of a table, the pieces that it cuts gradients to, which it
 * gathers there behind its own weights. */
static luo_status send_table(stepper *w)
{
    const luo_step_spec *spec = w->s;
    const int32_t last = spec->pp - 1;
    const double bytes = (double)luo_dtype_bytes(w->ctx->dtype) * (double)step_table(spec);
    double move = 0, gather = 0;
    if (step_gathers_each(spec)) return LUO_OK; /* long before the first micro-batch is there */
    LUO_TRY(luo_cost_p2p(w->ctx, step_devices(w, 0, 0)[0], step_devices(w, 0, last)[0],
                         (int64_t)(bytes / step_shard_size(spec)), 0, &move, w->err));
    LUO_TRY(step_call_seconds(w, STEP_SHARD, LUO_COLL_AG, last, bytes, &gather));
    const double *arrives = w->stage[0].arrives[0]; /* it lies in what is gathered there */
    w->table_there = fmax((arrives ? arrives[0] : 0) + move, w->stage[last].gathered) + gather;
    w->stage[last].gathered = fmax(w->stage[last].gathered, w->table_there);
    return LUO_OK;
}

/* A table that both ends hold is gathered in front of all other weights, among all that have some
 * of it (ZeRO-1). */
static luo_status gather_table(stepper *w)
{
    const double e = (double)luo_dtype_bytes(w->ctx->dtype);
    if (!step_holds_ends(w->s) || w->s->zero == 0) return LUO_OK;
    LUO_TRY(step_call_seconds(w, STEP_ENDS, LUO_COLL_AG, 0, e * (double)step_table(w->s),
                              &w->table_there));
    w->stage[0].gathered = w->stage[w->s->pp - 1].gathered = w->table_there;
    return LUO_OK;
}

luo_status step_gather(stepper *w)
{
    const luo_step_spec *spec = w->s;
    const bool gathers =
        step_copies(spec) * spec->tp > 1 && spec->zero >= 1 && !step_gathers_each(spec);
    LUO_TRY(gather_table(w));
    for (int32_t k = 0; k < spec->pp && gathers; k++) {
        double now = w->stage[k].gathered;
        for (int32_t c = 0; c < spec->chunks; c++) LUO_TRY(gather_chunk(w, k, c, &now));
        w->stage[k].gathered = fmax(w->stage[k].gathered, now);
    }
    return step_is_split(spec) && !step_holds_ends(spec) ? send_table(w) : LUO_OK;
}

double step_first(const stepper *w, int32_t stage, int32_t chunk, double start)
{
    const luo_step_spec *spec = w->s;
    const double all = w->forward[stage * spec->chunks + chunk];
    const double *arrives = w->stage[stage].arrives[chunk];
    if (!w->ctx->stack->dp_overlap) return fmax(start, w->stage[stage].gathered) + all;
    double now = start, was = 0;
    if (step_holds_ends(spec) && step_is_first(stage, chunk)) now = fmax(now, w->table_there);
    const int32_t n = arrives ? step_reads(w, stage, chunk, w->room) : 0;
    for (int32_t i = 0; i < n; i++) {
        now = fmax(now + w->room[i].at - was, arrives[i]);
        was = w->room[i].at;
    }
    if (step_is_split(spec) && step_is_last(spec, stage, chunk)) {
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
    const bool copies = step_has_copies(w->s);
    const luo_bucketing rule = luo_bucketing_of(w->s->bucket, w->ctx->stack->bucket);
    const step_beats *beats = &w->stage[stage].backward_beats[chunk];
    const int32_t n = step_done(w, stage, chunk, w->room), from = *ncalls;
    int32_t *bucket = NULL, nbuckets = 0;
    for (int32_t i = 0; i < n; i++) w->room[i].alone = w->room[i].table;
    LUO_TRY(step_close(w, rule, w->room, n, false, &bucket, &nbuckets));
    step_stage *k = &w->stage[stage];
    for (int32_t i = 0; i < nbuckets; i++) k->call[from + i].elements = 0;
    for (int32_t i = 0; i < n; i++) {
        step_call *c = &k->call[from + bucket[i]];
        const double parts = copies ? step_shard_size(w->s) : 1;
        c->elements += (int64_t)(step_moved(w->s, &w->room[i], false) / parts);
        c->order = from + bucket[i];
        c->table = w->room[i].table;
        c->whole = step_goes_apart(w->s, &w->room[i]);
        c->summed = !copies && w->room[i].whole && w->s->sequence_parallel && w->s->tp > 1;
        c->ready = fmax(c->ready, copies ? fmax(beats->kept[beats->bucket[i]], w->stage[stage].lane)
                                         : begin + w->room[i].at);
    }
    *ncalls += nbuckets;
    return LUO_OK;
}

luo_status step_ready(stepper *w)
{
    const luo_step_spec *spec = w->s;
    const bool waits = !w->ctx->stack->dp_overlap, copies = step_has_copies(spec);
    for (int32_t k = 0; k < spec->pp && (copies || !step_scatters_each(spec)); k++) {
        step_stage *stage = &w->stage[k];
        int32_t ncalls = 0;
        const size_t mark = luo_arena_mark(w->scratch);
        for (int32_t c = 0; c < spec->chunks; c++) {
            LUO_TRY(ready_chunk(w, k, c, &ncalls));
            stage->end =
                fmax(stage->end,
                     copies ? stage->worked
                            : w->last[c * spec->pp + k] +
                                  (w->weight ? w->weight : w->backward)[k * spec->chunks + c]);
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
    const double each = step_sum_bytes(w);
    int64_t known = -1;
    double seconds = 0;
    for (int32_t i = 0; i < k->ncalls; i++) {
        step_call *c = &k->call[i];
        const double bytes = each * (double)c->elements;
        const bool copies = step_has_copies(w->s), sp = w->s->sequence_parallel;
        const bool kept = c->table || copies || (c->whole && !sp);
        if (c->table && step_holds_ends(w->s)) continue; /* sum_ends */
        const int coll = w->s->zero >= 1 && !kept ? LUO_COLL_RS : LUO_COLL_AR;
        const step_members way = copies           ? STEP_COPIES
                                 : c->whole && sp ? STEP_PIPELINES
                                                  : STEP_SHARD;
        if (c->elements != known || c->table || c->whole)
            LUO_TRY(step_call_seconds(w, way, coll, stage, bytes, &seconds));
        known = c->table || c->whole ? -1 : c->elements;
        c->seconds = seconds;
        if (!c->summed) continue;
        double sum = 0;
        const bool cut = w->s->zero >= 1;
        LUO_TRY(luo_cost_group(w->ctx, cut ? LUO_COLL_RS : LUO_COLL_AR, step_devices(w, 0, stage),
                               step_inside(w->s),
                               (int64_t)bytes * (cut ? step_inside(w->s) : 1), 0, &sum, w->err));
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
    if (step_holds_ends(w->s)) k->table = *end;
    luo_arena_reset(w->scratch, mark);
    return LUO_OK;
}

/* One call of both ends, behind all others of theirs (core/graph/specialize/spec_order.c). */
static luo_status sum_ends(const stepper *w, double *end)
{
    const step_stage *first = &w->stage[0], *last = &w->stage[w->s->pp - 1];
    const double bytes = step_sum_bytes(w) * (double)step_table(w->s);
    double seconds = 0;
    LUO_TRY(step_call_seconds(w, STEP_ENDS, w->s->zero >= 1 ? LUO_COLL_RS : LUO_COLL_AR, 0, bytes,
                              &seconds));
    *end = fmax(first->table, last->table) + seconds;
    return LUO_OK;
}

/* ZeRO-2 and 3: the pieces to which the head's micro-batches were cut move to the first stage and
 * are added there, once the copies of them are summed. */
static luo_status move_pieces(const stepper *w, double *end)
{
    const luo_step_spec *spec = w->s;
    const int32_t *to = step_devices(w, 0, 0), *from = step_devices(w, 0, spec->pp - 1);
    const double cells = (double)step_table(spec) / step_shard_size(spec);
    const double bytes = step_sum_bytes(w) * cells;
    double move = 0, sum = 0;
    if (!step_has_copies(spec))
        for (int32_t k = 0; k < spec->pp; k++) w->stage[k].table = w->stage[k].worked;
    LUO_TRY(luo_cost_p2p(w->ctx, from[0], to[0], (int64_t)bytes, 0, &move, w->err));
    LUO_TRY(luo_cost_stream(luo_cluster_profile(w->ctx->cluster, to[0]),
                            3.0 * (w->ctx->dtype == LUO_F64 ? 8 : 4) * cells,
                            &sum, w->err));
    sum = luo_cost_host(w->ctx->stack, sum, 1);
    *end = fmax(w->stage[0].table, w->stage[spec->pp - 1].table + move) + sum;
    return LUO_OK;
}

luo_status step_exposed(stepper *w, double pipeline, double *dp, double *tied)
{
    const luo_step_spec *spec = w->s;
    double end = pipeline;
    *dp = *tied = 0;
    if (!step_scatters_each(spec) || step_has_copies(spec))
        for (int32_t k = 0; k < spec->pp; k++) {
            double t = 0;
            LUO_TRY(stage_exposed(w, k, &t));
            end = fmax(end, t);
        }
    *dp = end - pipeline;
    if (!step_is_split(spec)) return LUO_OK;
    double with = 0;
    LUO_TRY(step_holds_ends(spec) ? sum_ends(w, &with) : move_pieces(w, &with));
    *tied = fmax(0, with - end);
    return LUO_OK;
}
