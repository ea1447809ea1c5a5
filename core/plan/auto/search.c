/* All stages, micro-batches and ways of sharing, each solved and scored. */
#include "core/plan/auto/search.h"

#include <assert.h>
#include <math.h>

#include "core/base/vec.h"
#include "core/graph/schedule/sched.h"
#include "core/plan/auto/cut.h"
#include "core/plan/auto/search_internal.h"

static const double EQUAL = 1e-12; /* of two steps */

bool luo_auto_search_stages(const luo_auto_job *job, int32_t p)
{
    if (job->cluster.devices % p || p > job->layers) return false;
    if (job->stages) return p == job->stages;
    return !job->stages_most || p <= job->stages_most;
}

int32_t luo_auto_search_first_micro_batches(const luo_auto_job *job, int32_t p)
{
    int32_t m = 1;
    if (job->micro_batches) return job->micro_batches;
    while (m < p) m *= 2;
    return m;
}

typedef struct search {
    luo_arena *arena, *scratch;
    const luo_auto_job *job;
    luo_auto_found best;
    luo_auto_shortage shortage;
    int32_t tried_cap;
} search;

typedef struct pipeline { /* one that is tried */
    luo_auto_tried as;
    luo_auto_strategy *strategy; /* of a stage */
    luo_auto_stage *stage;
} pipeline;

/* ---- the step of a pipeline ---- */

static double boundary_s(const luo_auto_job *job, const luo_auto_stage *from,
                         const luo_auto_stage *to)
{
    const int32_t g = to->first_device - from->first_device;
    const luo_auto_groups pairs = {from->first_device, 2 * g, 2, g};
    const luo_auto_link link = job->cluster.link(job->cluster.link_ctx, pairs);
    const luo_auto_layer *last = &job->layer[to->first_layer - 1];
    const int64_t samples = from->samples_out > to->samples_in ? from->samples_out : to->samples_in;
    return link.latency_s + last->boundary_bytes * (double)samples / link.bytes_per_s;
}

luo_status luo_auto_search_score(luo_arena *scratch, const luo_auto_job *job,
                                 const luo_auto_stage *stage, int32_t stages, int32_t micro_batches,
                                 double *step_s, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    double *forward = LUO_NEW_N(scratch, double, stages), exposed = 0, events;
    double *backward = LUO_NEW_N(scratch, double, stages);
    double *transfer = LUO_NEW_N(scratch, double, stages);
    if (!forward || !backward || !transfer) LUO_TRY_OUT(luo_err_nomem(err));
    for (int32_t i = 0; i < stages; i++) {
        forward[i] = stage[i].forward_s;
        backward[i] = stage[i].backward_s;
        exposed = fmax(exposed, stage[i].exposed_s);
        if (i + 1 < stages) transfer[i] = boundary_s(job, &stage[i], &stage[i + 1]);
    }
    LUO_TRY_OUT(luo_sched_makespan(scratch, LUO_SCHED_1F1B, stages, micro_batches, 1, forward,
                                   backward, NULL, transfer, false, &events, err));
    *step_s = events + exposed;
out:
    luo_arena_reset(scratch, mark);
    return st;
}

/* ---- one pipeline ---- */

static double stage_speed(const luo_auto_job *job, const luo_auto_tried *tried, int32_t stage)
{
    const int32_t g = job->cluster.devices / tried->stages;
    const double *flops = job->cluster.flops + (int64_t)stage * g;
    double sum = 0, least = INFINITY;
    for (int32_t r = 0; r < g; r++) {
        sum += flops[r];
        least = fmin(least, flops[r]);
    }
    return tried->uneven ? sum : g * least;
}

static luo_status cut_layers(search *x, const luo_auto_tried *as, int32_t *count, luo_err *err)
{
    const luo_auto_job *job = x->job;
    double *work = LUO_NEW_N(x->scratch, double, job->layers);
    double *speed = LUO_NEW_N(x->scratch, double, as->stages);
    if (!work || !speed) return luo_err_nomem(err);
    for (int32_t l = 0; l < job->layers; l++) work[l] = job->layer[l].forward_flop;
    for (int32_t i = 0; i < as->stages; i++) speed[i] = stage_speed(job, as, i);
    return luo_auto_cut(x->scratch, work, job->layers, speed, as->stages, count, NULL, err);
}

luo_auto_env luo_auto_search_env(const luo_auto_job *job, int32_t stages, int32_t micro_batches,
                                 bool uneven, int32_t i)
{
    const int32_t g = job->cluster.devices / stages, behind = stages - i;
    return (luo_auto_env){.cluster = &job->cluster,
                          .first = i * g,
                          .devices = g,
                          .batch = job->batch,
                          .micro_batches = micro_batches,
                          .in_flight = behind < micro_batches ? behind : micro_batches,
                          .uneven = uneven,
                          .slow_comm = job->slow_comm,
                          .slow_compute = job->slow_compute};
}

static luo_auto_stage_in stage_in(const luo_auto_job *job, const pipeline *pipe, int32_t i)
{
    const luo_auto_tried *as = &pipe->as;
    return (luo_auto_stage_in){
        .env = luo_auto_search_env(job, as->stages, as->micro_batches, as->uneven, i),
        .layer = job->layer,
        .strategy = pipe->strategy,
        .strategies = as->strategies,
        .unit_bytes = job->unit_bytes,
        .allow = job->allow,
        .allow_ctx = job->allow_ctx};
}

/* Solves stage by stage. Whatever does not fit ends the pipeline, but for memory all stages are
 * looked at: the tightest one is what has to be said of it. */
static luo_status solve_stages(search *x, pipeline *pipe, const int32_t *count, luo_err *err)
{
    luo_auto_tried *as = &pipe->as;
    for (int32_t i = 0, layer = 0; i < as->stages; layer += count[i++]) {
        luo_auto_stage_in in = stage_in(x->job, pipe, i);
        in.first_layer = layer;
        in.layers = count[i];
        LUO_TRY(luo_auto_stage_solve(x->arena, &in, &pipe->stage[i], err));
        as->cells += pipe->stage[i].cells;
        if (pipe->stage[i].verdict > as->verdict) as->verdict = pipe->stage[i].verdict;
        if (as->verdict == LUO_AUTO_NO_STRATEGY) return LUO_OK;
    }
    if (as->verdict == LUO_AUTO_NO_MEMORY)
        luo_auto_shortage_note(&x->shortage, x->job, pipe->stage, as->stages);
    return LUO_OK;
}

static bool keep_tried(search *x, const luo_auto_tried *as)
{
    if (!LUO_VEC_ROOM_IN(x->arena, x->best.tried, x->best.ntried, x->tried_cap)) return false;
    x->best.tried[x->best.ntried++] = *as;
    return true;
}

static luo_status keep_best(search *x, const pipeline *pipe, luo_err *err)
{
    luo_auto_found *best = &x->best;
    luo_auto_strategy *strategy = LUO_NEW_N(x->arena, luo_auto_strategy, x->job->layers);
    if (!strategy) return luo_err_nomem(err);
    for (int32_t i = 0; i < pipe->as.stages; i++) {
        const luo_auto_stage *stage = &pipe->stage[i];
        for (int32_t l = 0; l < stage->layers; l++)
            strategy[stage->first_layer + l] = pipe->strategy[stage->choice[l]];
    }
    best->stages = pipe->as.stages;
    best->micro_batches = pipe->as.micro_batches;
    best->uneven = pipe->as.uneven;
    best->step_s = pipe->as.step_s;
    best->stage = pipe->stage;
    best->strategy = strategy;
    return LUO_OK;
}

static luo_status try_pipeline(search *x, pipeline *pipe, luo_err *err)
{
    luo_auto_tried *as = &pipe->as;
    const size_t mark = luo_arena_mark(x->scratch);
    int32_t *count = LUO_NEW_N(x->scratch, int32_t, as->stages);
    pipe->stage = LUO_NEW_N(x->arena, luo_auto_stage, as->stages);
    if (!count || !pipe->stage) return luo_err_nomem(err);
    LUO_TRY(cut_layers(x, as, count, err));
    LUO_TRY(solve_stages(x, pipe, count, err));
    if (as->verdict == LUO_AUTO_FITS)
        LUO_TRY(luo_auto_search_score(x->scratch, x->job, pipe->stage, as->stages,
                                      as->micro_batches, &as->step_s, err));
    if (!keep_tried(x, as)) return luo_err_nomem(err);
    if (as->step_s < x->best.step_s * (1 - EQUAL)) LUO_TRY(keep_best(x, pipe, err));
    luo_arena_reset(x->scratch, mark);
    return LUO_OK;
}

/* ---- all pipelines ---- */

static luo_status try_micro_batches(search *x, bool uneven, int32_t p, luo_err *err)
{
    const luo_auto_job *job = x->job;
    pipeline pipe = {0};
    int32_t strategies;
    LUO_TRY(luo_auto_strategies(x->arena, job->cluster.devices / p, job->checkpointing,
                                &pipe.strategy, &strategies, err));
    for (int64_t m = luo_auto_search_first_micro_batches(job, p); m <= job->batch; m *= 2) {
        pipe.as = (luo_auto_tried){.stages = p,
                                   .micro_batches = (int32_t)m,
                                   .uneven = uneven,
                                   .strategies = strategies,
                                   .step_s = INFINITY};
        if (m <= INT32_MAX && job->batch % m == 0) LUO_TRY(try_pipeline(x, &pipe, err));
        if (job->micro_batches) break;
    }
    return LUO_OK;
}

static bool mixed(const luo_auto_cluster *cluster)
{
    for (int32_t d = 1; d < cluster->devices; d++)
        if (cluster->flops[d] != cluster->flops[0]) return true;
    return false;
}

static luo_status try_all(search *x, luo_err *err)
{
    const luo_auto_uneven ways = mixed(&x->job->cluster) ? x->job->uneven : LUO_AUTO_EVEN;
    for (int uneven = 0; uneven < 2; uneven++) {
        if (ways != LUO_AUTO_BOTH && ways != (luo_auto_uneven)uneven) continue;
        for (int32_t p = 1; p <= x->job->cluster.devices; p++)
            if (luo_auto_search_stages(x->job, p)) LUO_TRY(try_micro_batches(x, uneven, p, err));
    }
    return LUO_OK;
}

luo_status luo_auto_search(luo_arena *arena, const luo_auto_job *job, luo_auto_found *out,
                           luo_err *err)
{
    luo_status st = LUO_OK;
    search x = {.arena = arena, .job = job, .best = {.step_s = INFINITY}};
    assert(job->layers >= 1 && job->cluster.devices >= 1 && job->batch >= 1);
    assert(job->unit_bytes > 0);
    LUO_TRY(luo_auto_layers_check(job->layer, job->layers, err));
    x.scratch = luo_arena_new(0);
    if (!x.scratch) return luo_err_nomem(err);
    LUO_TRY_OUT(try_all(&x, err));
    if (isinf(x.best.step_s)) LUO_TRY_OUT(luo_auto_search_refuse(x.scratch, job, &x.shortage, err));
    *out = x.best;
out:
    luo_arena_free(x.scratch);
    return st;
}
