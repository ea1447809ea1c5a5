/* The straggler planner on a model and a cluster (docs/planners.md#rates and
 * docs/planners.md#placement and docs/formats.md#luoshuparams1): numbers in, plan out. */
#include "core/plan/malleus/malleus_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/malleus/malleus_job_internal.h"
#include "core/plan/replan/reroute.h"

/* ---- what the base plan may be ---- */

static luo_status refuse(luo_err *err, const char *what, const char *right)
{
    return luo_err_set(err, LUO_EINPUT, "the base plan has %s; planner `malleus` needs %s.", what,
                       right);
}

static bool equal_shares(const luo_stage *st)
{
    for (int32_t i = 1; st->shares && i < luo_stage_tp(st); i++)
        if (st->shares[i] != st->shares[0]) return false;
    return true;
}

static luo_status check_stage(const luo_stage *st, const luo_stage *like, luo_err *err)
{
    if (st->context_parallel > 1) return refuse(err, "context parallelism", "none");
    if (!equal_shares(st)) return refuse(err, "uneven shares", "equal ones");
    if (st->nrecompute || st->recompute != like->recompute)
        return refuse(err, "recompute in a part of its layers", "one mode for all");
    if (st->experts_dealt != like->experts_dealt)
        return refuse(err, "experts both cut and dealt", "one way for all");
    return LUO_OK;
}

static luo_status check_base(const luo_plan *plan, luo_err *err)
{
    if (plan->schedule != LUO_SCHED_1F1B || plan->chunks != 1)
        return refuse(err, "another schedule than `1f1b`", "`1f1b` with one chunk");
    if (plan->zero >= 2) return refuse(err, "ZeRO-2 or 3", "zero 0 or 1, as its pipelines differ");
    if (luo_plan_is_rerouted(plan)) return refuse(err, "a stage without devices", "some for each");
    if (luo_plan_has_context(plan))
        return refuse(err, "context parallelism", "`context_parallel` 1");
    if (plan->nannotations) return refuse(err, "annotations of its own", "derived ones");
    if (plan->nassignment) return refuse(err, "an assignment of sequences", "equal micro-batches");
    if (plan->ngroups) return refuse(err, "expert groups", "none");
    if (plan->state_layout.ndev) return refuse(err, "a state layout", "none");
    if (plan->npinned) return refuse(err, "pinned parts", "none");
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        if (pl->micro_batch_tokens || pl->micro_batch_sequences != plan->micro_batch_sequences)
            return refuse(err, "uneven micro-batches", "micro-batches of one size");
        for (int32_t s = 0; s < pl->nstages; s++)
            LUO_TRY(check_stage(&pl->stages[s], &plan->pipelines[0].stages[0], err));
    }
    return LUO_OK;
}

luo_status luo_malleus_check(const luo_malleus_job *job, luo_err *err)
{
    if (job->params && job->params->zero_replicas > 1)
        return luo_err_set(err, LUO_EINPUT, "`zero_replicas` is %d; a plan keeps one copy of what "
                           "ZeRO cuts, so 1 is expected.", job->params->zero_replicas);
    return check_base(job->base, err);
}

/* ---- planner input ---- */

static bool is_candidate(const luo_malleus_job *job, int32_t device)
{
    return !isinf(job->rate[device]) && (!job->candidate || job->candidate[device]);
}

static int by_place(const void *a, const void *b)
{
    const luo_malleus_device *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

/* Devices that are candidates by node, kind and number. */
static luo_status list_devices(luo_arena *arena, const luo_kinds *kinds, luo_malleus_in *in,
                               luo_err *err)
{
    const luo_malleus_job *job = kinds->job;
    const int32_t n = job->cluster->ndevices;
    luo_malleus_device *device = LUO_NEW_N(arena, luo_malleus_device, n);
    if (!device) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++)
        if (is_candidate(job, d))
            device[in->ndevices++] = (luo_malleus_device){d, job->cluster->devices[d].node,
                                                          luo_kinds_of(kinds, d), job->rate[d]};
    qsort(device, (size_t)in->ndevices, sizeof *device, by_place);
    in->devices = device;
    return LUO_OK;
}

/* The candidates are just the devices of the base plan. */
static luo_status is_whole(luo_arena *arena, const luo_malleus_job *job, int32_t candidates,
                           bool *out, luo_err *err)
{
    int32_t *dev, n;
    LUO_TRY(luo_plan_devices(arena, job->base, &dev, &n, err));
    *out = n == candidates;
    for (int32_t i = 0; i < n; i++) *out = *out && is_candidate(job, dev[i]);
    return LUO_OK;
}

static luo_status make_input(luo_arena *arena, const luo_kinds *kinds, luo_malleus_in *in,
                             luo_err *err)
{
    const luo_malleus_job *job = kinds->job;
    const luo_stage *like = &job->base->pipelines[0].stages[0];
    *in = (luo_malleus_in){.nkinds = kinds->n,
                           .kinds = kinds->at,
                           .dp = kinds->dp,
                           .tp = kinds->tp,
                           .pp = kinds->pp,
                           .layers = job->model->layers,
                           .micro_batches = kinds->micro_batches,
                           .threshold = job->threshold > 0 ? job->threshold : 1.2,
                           .cap = luo_kinds_cap,
                           .cap_ctx = kinds,
                           .max_stages = job->memory_table ? job->params->nk : 0,
                           .rank = job->rank,
                           .top_k = job->top_k,
                           .split2 = job->split2,
                           .rising = job->rising,
                           .search_healthy = job->search_healthy,
                           .dp_auto = job->dp_auto,
                           .quick = job->quick,
                           .seed = job->seed,
                           .full_recompute = like->recompute == LUO_RECOMPUTE_FULL};
    LUO_TRY(list_devices(arena, kinds, in, err));
    return is_whole(arena, job, in->ndevices, &in->whole, err);
}

static luo_status no_device(const luo_malleus_job *job, luo_err *err)
{
    const int32_t n = job->cluster->ndevices;
    int32_t failed = 0;
    for (int32_t d = 0; d < n; d++) failed += isinf(job->rate[d]);
    if (failed == n)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "no usable device is left; %d of %d have failed.", failed, n);
    return luo_err_set(err, LUO_EINFEASIBLE, "no usable device is left; %d of %d have failed, the "
                       "others are on standby.", failed, n);
}

/* The stage would have to hold its even share; what that takes against what there is. */
static luo_status no_room(const luo_kinds *kinds, const luo_malleus_tight *tight, luo_err *err)
{
    const luo_kind_room *room = &kinds->room[tight->kind];
    const int64_t share = (kinds->job->model->layers + tight->stages - 1) / tight->stages;
    const double mib =
        luo_kinds_mib(kinds, tight->kind, tight->size, tight->stages, tight->stage, 1, share);
    if (!isfinite(mib)) return LUO_EINFEASIBLE; /* beyond the table: the planner's sentence */
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "no plan fits in memory; the tightest stage (device "
                       "%d) needs %.1f GiB of %.1f; try more stages, `recompute` or `zero` 1.",
                       tight->device, mib / 1024, (room->bound - room->gap) / 1024);
}

/* ---- a plan that is there, as the planner would have said it ---- */

static luo_status say_stage(luo_arena *arena, const luo_kinds *kinds, const luo_pipeline *pl,
                            int32_t s, luo_malleus_stage *out, luo_err *err)
{
    const luo_stage *st = &pl->stages[s];
    const int32_t kind = luo_kinds_of(kinds, st->dev[0]);
    const luo_range range = st->layers[0];
    int64_t cap = INT64_MAX;
    luo_malleus_group *group = LUO_NEW(arena, luo_malleus_group);
    int32_t *dev = LUO_NEW_N(arena, int32_t, st->ndev);
    if (!group || !dev) return luo_err_nomem(err);
    memcpy(dev, st->dev, (size_t)st->ndev * sizeof *dev);
    *group = (luo_malleus_group){kinds->job->cluster->devices[dev[0]].node, kind, st->ndev, dev, 0};
    LUO_TRY(luo_kinds_y(kinds, st, kinds->job->rate, &group->y, err));
    for (int32_t i = 0; i < st->ndev; i++) {
        const int64_t own = luo_kinds_cap(kinds, luo_kinds_of(kinds, st->dev[i]), st->ndev,
                                          pl->nstages, s, kinds->dp);
        if (own < cap) cap = own;
    }
    *out = (luo_malleus_stage){group, range.lo, range.hi, cap, group->y * (range.hi - range.lo)};
    return LUO_OK;
}

/* m: micro-batches per pipeline. */
static luo_status say_plan(luo_arena *arena, const luo_kinds *kinds, const luo_plan *plan,
                           const int64_t *m, bool full, luo_malleus_plan *out, luo_err *err)
{
    luo_malleus_pipe *pipes = LUO_NEW_N(arena, luo_malleus_pipe, plan->npipelines);
    luo_pipe_time *time;
    if (!pipes) return luo_err_nomem(err);
    LUO_TRY(luo_kinds_times(arena, kinds, plan, kinds->job->rate, m, &time, err));
    *out = (luo_malleus_plan){.npipes = plan->npipelines, .pipes = pipes};
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        luo_malleus_stage *stages = LUO_NEW_N(arena, luo_malleus_stage, pl->nstages);
        luo_malleus_pipe pipe = {.nstages = pl->nstages, .stages = stages, .micro_batches = m[i]};
        if (!stages) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) {
            LUO_TRY(say_stage(arena, kinds, pl, s, &stages[s], err));
            pipe.o = fmax(pipe.o, stages[s].t);
            pipe.fill += stages[s].t;
        }
        out->steady = fmax(out->steady, pipe.o * (double)m[i]);
        out->filled = fmax(out->filled, pipe.o * (double)(m[i] - 1) + pipe.fill);
        pipes[i] = pipe;
    }
    return luo_replan_event_time(arena, time, plan->npipelines, full, &out->event, err);
}

/* Micro-batches of the base plan's pipelines; dealt anew when the batch is another one. */
static luo_status split_batch(luo_arena *arena, const luo_kinds *kinds, bool full, int64_t **out,
                              luo_err *err)
{
    const luo_plan *plan = kinds->job->base;
    int64_t sum = 0, *m = LUO_NEW_N(arena, int64_t, plan->npipelines);
    luo_pipe_time *time;
    double event;
    if (!m) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) sum += m[i] = plan->pipelines[i].micro_batches;
    *out = m;
    if (sum == kinds->micro_batches) return LUO_OK;
    LUO_TRY(luo_kinds_times(arena, kinds, plan, NULL, NULL, &time, err));
    return luo_replan_rebalance(arena, time, plan->npipelines, kinds->micro_batches, full, m,
                                &event, err);
}

/* Base plan on healthy devices (6, 14). */
static luo_status healthy(luo_arena *arena, const luo_kinds *kinds, const int64_t *m, bool full,
                          luo_malleus_answer *out, luo_err *err)
{
    const luo_plan *plan = kinds->job->base;
    luo_pipe_time *time;
    LUO_TRY(luo_kinds_times(arena, kinds, plan, NULL, m, &time, err));
    for (int32_t i = 0; i < plan->npipelines; i++) {
        double o = 0;
        for (int32_t s = 0; s < time[i].stages; s++) o = fmax(o, time[i].t[s]);
        out->healthy_steady = fmax(out->healthy_steady, o * (double)m[i]);
    }
    return luo_replan_event_time(arena, time, plan->npipelines, full, &out->healthy_event, err);
}

/* Work per time of the base plan's healthy devices over that of the devices there are now; with one
 * type this is n / sum 1/x. */
static luo_status oracle(luo_arena *arena, const luo_kinds *kinds, luo_malleus_answer *out,
                         luo_err *err)
{
    const luo_malleus_job *job = kinds->job;
    double then = 0, now = 0;
    int32_t *dev, n;
    bool *based = LUO_NEW_N(arena, bool, job->cluster->ndevices);
    LUO_TRY(luo_plan_devices(arena, job->base, &dev, &n, err));
    if (!based) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        then += 1 / kinds->at[luo_kinds_of(kinds, dev[i])].base;
        based[dev[i]] = true;
    }
    for (int32_t d = 0; d < job->cluster->ndevices; d++)
        if (!isinf(job->rate[d]) && (based[d] || is_candidate(job, d)))
            now += 1 / (kinds->at[luo_kinds_of(kinds, d)].base * fmax(1, job->rate[d]));
    out->oracle = out->healthy_event * then / now;
    return LUO_OK;
}

/* ---- the plan ---- */

static luo_status make_stage(luo_arena *arena, const luo_malleus_job *job,
                             const luo_malleus_pipe *pipe, int32_t s, luo_stage *out, luo_err *err)
{
    const luo_malleus_stage *st = &pipe->stages[s];
    const luo_stage *like = &job->base->pipelines[0].stages[0];
    luo_range *range = LUO_NEW(arena, luo_range);
    if (!range) return luo_err_nomem(err);
    *range = (luo_range){(int32_t)st->lo, (int32_t)st->hi};
    *out = (luo_stage){.nlayers = 1,
                       .layers = range,
                       .ndev = st->group->size,
                       .dev = st->group->devices,
                       .context_parallel = 1,
                       .recompute = like->recompute,
                       .experts_dealt = like->experts_dealt,
                       .embedding = s == 0,
                       .head = s == pipe->nstages - 1};
    return LUO_OK;
}

static double ranked(const luo_malleus_job *job, const luo_malleus_plan *plan)
{
    return job->rank == LUO_RANK_STEADY  ? plan->steady
           : job->rank == LUO_RANK_EVENT ? plan->event
                                         : plan->filled;
}

static luo_status make_plan(luo_arena *arena, const luo_kinds *kinds, const luo_malleus_plan *best,
                            double bound, luo_plan **out, luo_err *err)
{
    const luo_malleus_job *job = kinds->job;
    luo_plan plan = *job->base;
    luo_pipeline *pipes = LUO_NEW_N(arena, luo_pipeline, best->npipes);
    if (!pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < best->npipes; i++) {
        const luo_malleus_pipe *from = &best->pipes[i];
        luo_stage *stages = LUO_NEW_N(arena, luo_stage, from->nstages);
        if (!stages) return luo_err_nomem(err);
        for (int32_t s = 0; s < from->nstages; s++)
            LUO_TRY(make_stage(arena, job, from, s, &stages[s], err));
        pipes[i] = (luo_pipeline){.micro_batches = (int32_t)from->micro_batches,
                                  .micro_batch_sequences = job->base->micro_batch_sequences,
                                  .nstages = from->nstages, .stages = stages};
    }
    plan.name = "malleus";
    plan.model = job->model->name;
    plan.cluster = job->cluster->name;
    plan.npipelines = best->npipes;
    plan.pipelines = pipes;
    plan.meta_json = luo_arena_printf(arena,
                                      "{\"bound_s\":%.9g,\"event_s\":%.9g,\"objective_s\":"
                                      "%.9g,\"planner\":\"malleus\"}",
                                      bound * kinds->tau_s, best->event * kinds->tau_s,
                                      ranked(job, best) * kinds->tau_s);
    if (!plan.meta_json) return luo_err_nomem(err);
    return luo_plan_copy(arena, &plan, out, err); /* nothing of it points into the base plan */
}

/* ---- standby and excluded ---- */

static luo_status list_rest(luo_arena *arena, const luo_malleus_job *job, luo_malleus_plan *best,
                            luo_malleus_answer *out, luo_err *err)
{
    const int32_t n = job->cluster->ndevices;
    bool *used = LUO_NEW_N(arena, bool, n);
    int32_t *standby = LUO_NEW_N(arena, int32_t, n), *excluded = LUO_NEW_N(arena, int32_t, n);
    if (!used || !standby || !excluded) return luo_err_nomem(err);
    for (int32_t i = 0; i < best->npipes; i++)
        for (int32_t s = 0; s < best->pipes[i].nstages; s++) {
            const luo_malleus_group *group = best->pipes[i].stages[s].group;
            for (int32_t d = 0; d < group->size; d++) used[group->devices[d]] = true;
        }
    best->nstandby = 0;
    for (int32_t d = 0; d < n; d++) {
        if (isinf(job->rate[d])) excluded[out->nexcluded++] = d;
        else if (!used[d]) standby[best->nstandby++] = d;
    }
    best->standby = standby;
    out->excluded = excluded;
    return LUO_OK;
}

/* ---- all of it ---- */

/* The next best plans after the first. */
static luo_status offer_more(luo_arena *arena, const luo_kinds *kinds,
                             const luo_malleus_found *found, luo_malleus_answer *out, luo_err *err)
{
    const luo_malleus_job *job = kinds->job;
    const int32_t most = job->offers > 1 && !found->search.skipped ? job->offers : 1;
    out->offer = LUO_NEW_N(arena, luo_plan *, most);
    if (!out->offer) return luo_err_nomem(err);
    out->offer[out->noffers++] = out->plan;
    for (; out->noffers < most && out->noffers < found->n; out->noffers++) {
        luo_malleus_plan placed;
        LUO_TRY(luo_malleus_place(arena, kinds, &found->plans[out->noffers],
                                  job->prev ? job->prev : job->base, &placed, err));
        LUO_TRY(make_plan(arena, kinds, &placed, found->bound, &out->offer[out->noffers], err));
    }
    return LUO_OK;
}

static luo_status finish(luo_arena *arena, const luo_kinds *kinds, const luo_malleus_found *found,
                         const int64_t *m, luo_malleus_answer *out, luo_err *err)
{
    const luo_malleus_job *job = kinds->job;
    const bool full = out->in.full_recompute;
    luo_malleus_found *malleus_found = LUO_NEW(arena, luo_malleus_found);
    luo_malleus_plan *plans = LUO_NEW_N(arena, luo_malleus_plan, found->n);
    if (!malleus_found || !plans) return luo_err_nomem(err);
    *malleus_found = *found;
    malleus_found->plans = plans;
    memcpy(plans, found->plans, (size_t)found->n * sizeof *plans);
    if (malleus_found->search.skipped) /* what runs is the base plan itself, not one like it */
        LUO_TRY(say_plan(arena, kinds, job->base, m, full, &plans[0], err));
    else
        LUO_TRY(luo_malleus_place(arena, kinds, &found->plans[0], job->prev ? job->prev : job->base,
                                  &plans[0], err));
    LUO_TRY(list_rest(arena, job, &plans[0], out, err));
    LUO_TRY(make_plan(arena, kinds, &plans[0], malleus_found->bound, &out->plan, err));
    out->found = malleus_found;
    return offer_more(arena, kinds, found, out, err);
}

luo_status luo_plan_malleus(luo_arena *arena, const luo_malleus_job *job, luo_malleus_answer *out,
                            luo_err *err)
{
    luo_malleus_answer answer = {0};
    luo_malleus_found *found;
    int64_t *m = NULL;
    luo_malleus_tight tight = {.device = -1};
    luo_kinds *kinds = LUO_NEW(arena, luo_kinds);
    luo_malleus_job *own = LUO_NEW(arena, luo_malleus_job); /* answer.in points to it */
    if (!kinds || !own) return luo_err_nomem(err);
    *own = *job;
    LUO_TRY(luo_malleus_check(job, err));
    LUO_TRY(luo_kinds_make(arena, own, kinds, err));
    LUO_TRY(make_input(arena, kinds, &answer.in, err));
    if (answer.in.ndevices == 0) return no_device(job, err);
    answer.in.tight = &tight;
    const luo_status st = luo_malleus(arena, &answer.in, &found, err);
    answer.in.tight = NULL;
    if (st == LUO_EINFEASIBLE && tight.device >= 0) return no_room(kinds, &tight, err);
    LUO_TRY(st);
    answer.tau_s = kinds->tau_s;
    LUO_TRY(split_batch(arena, kinds, answer.in.full_recompute, &m, err));
    LUO_TRY(healthy(arena, kinds, m, answer.in.full_recompute, &answer, err));
    LUO_TRY(oracle(arena, kinds, &answer, err));
    LUO_TRY(finish(arena, kinds, found, m, &answer, err));
    *out = answer;
    return LUO_OK;
}

luo_status luo_malleus_take(luo_arena *arena, luo_malleus_answer *answer, const luo_plan *plan,
                            luo_err *err)
{
    const luo_kinds *kinds = answer->in.cap_ctx;
    luo_malleus_found *found = LUO_NEW(arena, luo_malleus_found);
    luo_malleus_plan *plans = LUO_NEW_N(arena, luo_malleus_plan, answer->found->n + 1);
    int64_t *m = LUO_NEW_N(arena, int64_t, plan->npipelines);
    if (!found || !plans || !m) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) m[i] = plan->pipelines[i].micro_batches;
    *found = *answer->found;
    memcpy(plans + 1, found->plans, (size_t)found->n * sizeof *plans);
    found->plans = plans;
    found->n++;
    found->dp = plan->npipelines;
    LUO_TRY(say_plan(arena, kinds, plan, m, answer->in.full_recompute, &plans[0], err));
    answer->nexcluded = 0;
    LUO_TRY(list_rest(arena, kinds->job, &plans[0], answer, err));
    answer->found = found;
    return luo_plan_copy(arena, plan, &answer->plan, err);
}

static bool usable(const luo_plan *plan, const double *rate)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t d = 0; d < plan->pipelines[i].stages[s].ndev; d++)
                if (isinf(rate[plan->pipelines[i].stages[s].dev[d]])) return false;
    return true;
}

luo_status luo_malleus_event_s(luo_arena *scratch, const luo_malleus_job *job, const luo_plan *plan,
                               double *seconds, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    const bool full = job->base->pipelines[0].stages[0].recompute == LUO_RECOMPUTE_FULL;
    luo_status st = LUO_OK;
    luo_pipe_time *time;
    luo_kinds kinds;
    const luo_plan *loaded;
    double event = INFINITY;
    LUO_TRY_OUT(luo_plan_loaded(scratch, plan, &loaded, err));
    LUO_TRY_OUT(luo_kinds_make(scratch, job, &kinds, err));
    LUO_TRY_OUT(luo_kinds_times(scratch, &kinds, loaded, job->rate, NULL, &time, err));
    if (usable(plan, job->rate))
        LUO_TRY_OUT(luo_replan_event_time(scratch, time, plan->npipelines, full, &event, err));
    *seconds = event * kinds.tau_s;
out:
    luo_arena_reset(scratch, mark);
    return st;
}

luo_status luo_malleus_step(luo_arena *scratch, const luo_malleus_job *job, const luo_plan *plan,
                            luo_step_cost *out, luo_err *err)
{
    const int64_t given = job->sequence_tokens;
    const luo_step_in in = {job->model, job->cluster, job->stack,
                                 given > 0 ? given : job->base->sequence_tokens, job->rate};
    return luo_plan_step(scratch, &in, plan, out, err);
}
