/* step.c: a whole step in closed form: courses of pipelines, then norm and optimizer. */
#include "core/plan/step/step.h"

#include <math.h>
#include <string.h>

#include "core/plan/replan/reroute.h"
#include "core/plan/step/step_internal.h"

/* A form is c*B*s*L*h^2 + (c/6)*B*s^2*L*h + 6*B*s*h*V; 128 bits hold it for any real network. */
static double flops(int64_t c, int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    const __int128 tokens = (__int128)B * s;
    const __int128 square = (__int128)c * h + c / 6 * s;
    return (double)(tokens * h * (square * L + (__int128)6 * V));
}

double luo_step_flops_72(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    return flops(72, B, s, L, h, V);
}

double luo_step_flops_96(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V)
{
    return flops(96, B, s, L, h, V);
}

double luo_plan_mfu(const luo_plan *plan, const luo_model *model, const luo_cluster *cluster,
                    double step_s)
{
    double peak = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            const luo_stage *st = &plan->pipelines[i].stages[k];
            for (int32_t d = 0; d < st->ndev; d++)
                peak += luo_cluster_profile(cluster, st->dev[d])->peak_flops[plan->dtype];
        }
    const double flop = (double)luo_plan_tokens(plan) *
                        luo_model_flops_per_token(model, plan->sequence_tokens);
    return step_s > 0 && peak > 0 ? flop / (peak * step_s) : 0;
}

/* ---- what is known ---- */

static bool same_layout(const luo_plan *plan, int32_t i)
{
    const luo_pipeline *a = &plan->pipelines[0], *b = &plan->pipelines[i];
    if (a->nstages != b->nstages) return false;
    for (int32_t s = 0; s < a->nstages; s++) {
        const luo_stage *x = &a->stages[s], *y = &b->stages[s];
        if (x->ndev != y->ndev || x->context_parallel != y->context_parallel ||
            x->nlayers != y->nlayers || x->ndev != a->stages[0].ndev)
            return false;
        if (memcmp(x->layers, y->layers, (size_t)x->nlayers * sizeof *x->layers) != 0) return false;
    }
    return true;
}

static bool is_alike(const luo_plan *plan)
{
    bool alike = true;
    for (int32_t i = 0; i < plan->npipelines && alike; i++) alike = same_layout(plan, i);
    return alike;
}

/* Do devices of a node that belong to several stages share its NICs? Then it matters who sends
 * when. */
static bool shares_nics(const luo_cluster *cluster, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const luo_stage *st = &plan->pipelines[i].stages[s];
            const luo_node_group *group = &cluster->groups[cluster->devices[st->dev[0]].group];
            if (group->nics < group->devices_per_node && st->ndev < group->devices_per_node)
                return true;
        }
    return false;
}

static bool goes_by_lanes(const luo_cluster *cluster, const luo_plan *plan)
{
    if (!is_alike(plan)) return false;
    return plan->zero >= 2 || luo_plan_has_context(plan) || !shares_nics(cluster, plan);
}

bool luo_plan_step_knows(const luo_plan *plan)
{
    if (luo_sched_splits(plan->schedule) && plan->zero >= 2) return false;
    if (luo_plan_is_rerouted(plan)) return false;
    if (plan->nannotations || plan->nassignment || plan->ngroups) return false;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        if (plan->pipelines[i].micro_batch_tokens) return false;
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (plan->pipelines[i].stages[s].shares || plan->pipelines[i].stages[s].context_shares)
                return false;
    }
    return is_alike(plan) || (plan->zero < 2 && !luo_plan_has_context(plan));
}

/* ---- courses ---- */

#define SLOW 0.1 /* what stages send over what they compute: above it messages are played */

typedef struct course {
    stepper *w;
    step_pipe *pipe;
    int32_t m;
} course;

/* A turn that was played beside gathers is taken over as it was. */
static void keep_turn(const course *run, int32_t stage, const luo_task *task, luo_turn *turn)
{
    const step_pipe *pipe = run->pipe;
    step_stage *s = &pipe->stage[stage];
    step_turn *kept = &s->turns[s->nturns];
    const bool back = task->phase != LUO_TASK_F;
    const int32_t link = back ? (stage + pipe->n - 1) % pipe->n : stage;
    const double sent = back ? pipe->back[link] : pipe->transfer[link];
    *step_place(s, task, run->w->plan->chunks, run->m) = s->nturns++;
    kept->task = *task;
    if (kept->done > 0) {
        turn->start = kept->began;
        turn->free = kept->done;
        turn->end = kept->there > 0 ? kept->there - sent : kept->done;
    }
    kept->start = turn->start;
    kept->end = turn->free;
}

static void turn(void *ctx, int32_t stage, const luo_task *task, luo_turn *x)
{
    const course *run = ctx;
    step_stage *s = &run->pipe->stage[stage];
    const step_chunk *chunk = &s->chunk[task->chunk];
    const bool back = task->phase != LUO_TASK_F;
    const step_beats *beats = back ? &chunk->backward_beats : &chunk->forward_beats;
    if (beats->n > 0) {
        step_play(run->w, s, beats, x);
        return;
    }
    const double seconds = task->phase == LUO_TASK_BW ? chunk->weight
                           : back                     ? chunk->backward
                                                      : chunk->forward;
    const bool first = !back && task->micro_batch == 0;
    x->end = first ? step_first(run->w, s, chunk, x->start) : x->start + seconds;
    x->free = x->end;
    if (s->turns) keep_turn(run, stage, task, x);
    s->worked = x->free;
}

static void finish(const stepper *w, step_pipe *pipe, int32_t m, const double *last, double *ideal)
{
    const bool splits = luo_sched_splits(w->plan->schedule);
    for (int32_t k = 0; k < pipe->n; k++) {
        step_stage *stage = &pipe->stage[k];
        double both = 0;
        for (int32_t c = 0; c < stage->at->nlayers; c++) {
            step_chunk *chunk = &stage->chunk[c];
            chunk->last = last[c * pipe->n + k];
            stage->end = fmax(stage->end, chunk->last + (splits ? chunk->weight : chunk->backward));
            both += chunk->forward + chunk->backward + chunk->weight;
        }
        if (step_has_copies(w)) stage->end = stage->worked;
        *ideal = fmax(*ideal, both * m);
    }
}

/* What pipelines that differ send and compute is played beside the calls between them. */
static luo_status open_turns(const stepper *w, int32_t i)
{
    const int64_t each = (int64_t)w->plan->chunks * w->plan->pipelines[i].micro_batches;
    for (int32_t k = 0; k < w->pipe[i].n; k++) {
        step_stage *stage = &w->pipe[i].stage[k];
        stage->turns = LUO_NEW_N(w->scratch, step_turn, each * luo_sched_phases(w->plan->schedule));
        stage->place = LUO_NEW_N(w->scratch, int32_t, each * (LUO_TASK_BW + 1));
        if (!stage->turns || !stage->place) return luo_err_nomem(w->err);
    }
    return LUO_OK;
}

static luo_status run_course(stepper *w, int32_t i, luo_step_cost *out)
{
    const luo_plan *plan = w->plan;
    step_pipe *pipe = &w->pipe[i];
    const int32_t m = plan->pipelines[i].micro_batches;
    const size_t mark = luo_arena_mark(w->scratch);
    course c = {w, pipe, m};
    double *last = LUO_NEW_N(w->scratch, double, pipe->n * plan->chunks), makespan = 0;
    if (!last) return luo_err_nomem(w->err);
    const luo_course x = {.kind = plan->schedule,
                          .S = pipe->n,
                          .m = m,
                          .v = plan->chunks,
                          .transfer = pipe->n > 1 ? pipe->transfer : NULL,
                          .back = pipe->back,
                          .blocking = w->in->stack->p2p_blocking,
                          .turn = turn,
                          .ctx = &c,
                          .last = last};
    LUO_TRY(luo_sched_course(w->scratch, &x, &makespan, w->err));
    finish(w, pipe, m, last, &out->ideal);
    out->pipeline = fmax(out->pipeline, makespan);
    luo_arena_reset(w->scratch, mark);
    return LUO_OK;
}

/* ---- the rest ---- */

/* The norm of all gradients stands before it. */
static luo_status cost_optimizer(const stepper *w, double *seconds)
{
    double worst = 0, norm = 0, cost = 0;
    for (int32_t i = 0; i < w->plan->npipelines; i++)
        for (int32_t s = 0; s < w->pipe[i].n && !w->pipe[i].same; s++) {
            const step_stage *st = &w->pipe[i].stage[s];
            const double mine = step_parameters(w, &w->pipe[i], s) /
                                (w->plan->zero >= 1 ? step_shard_size(w) : 1);
            LUO_TRY(luo_cost_optimizer(&w->ctx, st->at->dev, st->at->ndev, mine, &cost, w->err));
            worst = fmax(worst, cost * st->rate);
        }
    norm = luo_cost_group_seconds(&w->ctx, LUO_COLL_AR, w->devices, w->ndev, 4, 0);
    *seconds = worst + norm;
    return LUO_OK;
}

static luo_status run_courses(stepper *w, luo_step_cost *out)
{
    out->pipeline = out->ideal = 0;
    for (int32_t i = 0; i < w->plan->npipelines; i++) {
        if (w->pipe[i].same) continue;
        for (int32_t k = 0; k < w->pipe[i].n; k++) {
            w->pipe[i].stage[k].end = 0;
            w->pipe[i].stage[k].nturns = 0;
        }
        LUO_TRY(run_course(w, i, out));
    }
    return LUO_OK;
}

/* Programs put calls in order by what they know: work on healthy devices, by the default stack
 * (core/graph/specialize/spec_clock.c, core/plan/compile_clock.c). */
static luo_status estimate_sums(stepper *w)
{
    luo_stack stack;
    luo_stack_default(&stack);
    luo_step_in in = *w->in;
    in.stack = &stack;
    in.rate = NULL;
    stepper by = {.scratch = w->scratch,
                  .in = &in,
                  .plan = w->plan,
                  .ctx = {.cluster = in.cluster, .stack = &stack, .dtype = w->plan->dtype},
                  .err = w->err,
                  .estimates = true,
                  .ranks = w->ranks,
                  .bucket = w->bucket};
    luo_step_cost cost;
    stack.dp_overlap = true;
    LUO_TRY(step_open_pipes(&by));
    LUO_TRY(step_open_runs(&by));
    LUO_TRY(run_courses(&by, &cost));
    LUO_TRY(step_list_sums(&by));
    for (int32_t k = 0; k < w->ncalls; k++) w->calls[k].estimate = by.calls[k].ready;
    return LUO_OK;
}

/* Does what stages send take long enough to hold up other calls, or to be held up? */
static bool sends_slowly(const stepper *w)
{
    for (int32_t i = 0; i < w->plan->npipelines; i++)
        for (int32_t k = 0; k < w->pipe[i].n; k++) {
            const step_pipe *pipe = &w->pipe[i];
            const step_chunk *chunk = &pipe->stage[k].chunk[0];
            if (pipe->transfer[k] + pipe->back[k] >
                SLOW * (chunk->forward + chunk->backward + chunk->weight))
                return true;
        }
    return false;
}

static luo_status solve(stepper *w, luo_step_cost *out)
{
    const bool differs = !w->by_lanes && w->plan->npipelines > 1;
    LUO_TRY(luo_plan_devices(w->scratch, w->plan, &w->devices, &w->ndev, w->err));
    LUO_TRY(step_open_pipes(w));
    LUO_TRY(step_open_runs(w));
    LUO_TRY(step_make_beats(w));
    LUO_TRY(step_gather(w));
    w->plays = differs && sends_slowly(w);
    for (int32_t i = 0; i < w->plan->npipelines && w->plays; i++)
        if (!w->pipe[i].same) LUO_TRY(open_turns(w, i));
    LUO_TRY(run_courses(w, out));
    if (w->plays) {
        LUO_TRY(step_play_begin(w));
        LUO_TRY(run_courses(w, out));
    }
    LUO_TRY(step_list_sums(w));
    if (differs) LUO_TRY(estimate_sums(w));
    LUO_TRY(step_exposed(w, out->pipeline, &out->dp, &out->tied));
    LUO_TRY(cost_optimizer(w, &out->optimizer));
    out->jitter = luo_cost_jitter(w->in->stack, w->ndev);
    out->step = (out->pipeline + out->dp + out->tied + out->optimizer) * out->jitter;
    return LUO_OK;
}

static bool is_usable(const luo_step_in *in, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines && in->rate; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const luo_stage *st = &plan->pipelines[i].stages[s];
            for (int32_t d = 0; d < st->ndev; d++)
                if (isinf(in->rate[st->dev[d]])) return false;
        }
    return true;
}

luo_status luo_plan_step(luo_arena *scratch, const luo_step_in *in, const luo_plan *plan,
                         luo_step_cost *out, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    stepper w = {
        .scratch = scratch,
        .in = in,
        .plan = plan,
        .ctx = {.cluster = in->cluster, .stack = in->stack, .dtype = plan->dtype},
        .err = err,
        .by_lanes = goes_by_lanes(in->cluster, plan),
        .ranks = plan->pipelines[0].stages[0].context_parallel > 1
                     ? plan->pipelines[0].stages[0].context_parallel : 1,
        .bucket = luo_bucketing_of(plan->bucket, in->stack->bucket)};
    *out = (luo_step_cost){.step = INFINITY};
    if (!is_usable(in, plan)) return LUO_OK;
    const luo_status st = solve(&w, out);
    luo_arena_reset(scratch, mark);
    return st;
}
