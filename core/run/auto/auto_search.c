/* Layers and recompute of the stages anew, on the devices, groups and micro-batches of uniform
 * plans: of the best ones, and of those that recompute everything, which memory may not ask for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/auto/pipelines.h"
#include "core/plan/auto/recompute.h"
#include "core/run/auto/auto_internal.h"

enum {
    PIPELINES = 3, /* of the search over strategies, that are simulated */
    SIMULATED = 8,
    FRAMES = 3 * (LUO_JUDGE_BEST + LUO_JUDGE_FAMILIES)
};
/* Of the memory by the closed form, tried one after another until the compiled plan fits. */
static const double FACTORS[] = {1, 0.97, 0.94};
enum { TRIES = sizeof FACTORS / sizeof *FACTORS };

typedef struct frame {
    const luo_uniform_result *of;
    double seconds; /* closed form of the step with its stages anew */
} frame;

static luo_status replan(const auto_asking *asking, const luo_plan *plan, double factor,
                         luo_auto_recomputed *out, luo_err *err)
{
    const luo_auto_in *in = asking->in;
    const luo_auto_recompute_in ask = {.model = in->judge->model,
                                       .cluster = in->judge->cluster,
                                       .stack = in->judge->stack,
                                       .sequence_tokens = in->opts.sequence_tokens,
                                       .rate = in->rate,
                                       .memory_factor = factor};
    return luo_auto_recompute(asking->arena, &ask, plan, out, err);
}

/* The closed form of the step, with what the stages' seconds change of it. */
static double step_of(const luo_uniform_result *result, const luo_auto_recomputed *recomputed)
{
    int32_t most = 0;
    for (int32_t i = 0; i < result->plan->npipelines; i++)
        if (result->plan->pipelines[i].micro_batches > most)
            most = result->plan->pipelines[i].micro_batches;
    const double was = (most - 1) * recomputed->was_slowest_s + recomputed->was_sum_s;
    const double now = (most - 1) * recomputed->slowest_s + recomputed->sum_s;
    return result->objective_s + (now - was) * result->jitter;
}

static luo_status add_frames(const auto_asking *asking, const luo_uniform_result *result, int32_t n,
                             frame *out, int32_t *nout, luo_err *err)
{
    for (int32_t i = 0; i < n && *nout < FRAMES; i++) {
        luo_auto_recomputed recomputed;
        luo_err why = {0};
        if (!luo_auto_recompute_knows(result[i].plan, asking->in->judge->model)) continue;
        const size_t mark = luo_arena_mark(asking->arena);
        const luo_status st = replan(asking, result[i].plan, FACTORS[0], &recomputed, &why);
        luo_arena_reset(asking->arena, mark);
        if (st == LUO_ENOMEM) return luo_err_set(err, st, "%s", why.text);
        if (st == LUO_OK) out[(*nout)++] = (frame){&result[i], step_of(&result[i], &recomputed)};
    }
    return LUO_OK;
}

static int by_seconds(const void *p, const void *q)
{
    const frame *a = p, *b = q;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* Those that fit only with everything recomputed; schedule: as in luo_uniform_opts. */
static luo_status add_recomputed(const auto_asking *asking, int32_t schedule, frame *out,
                                 int32_t *n, luo_err *err)
{
    luo_uniform_opts opts = asking->in->opts;
    luo_uniform_result *found;
    int32_t nfound;
    opts.recompute = LUO_RECOMPUTE_FULL;
    opts.schedule = schedule;
    opts.top = LUO_JUDGE_BEST;
    opts.families = LUO_JUDGE_FAMILIES;
    LUO_TRY(auto_list_uniform(asking, asking->in->judge->model, opts, &found, &nfound, err));
    return add_frames(asking, found, nfound, out, n, err);
}

static luo_status list_frames(const auto_asking *asking, frame *f, int32_t *n, luo_err *err)
{
    const luo_uniform_opts *opts = &asking->in->opts;
    const int32_t plain = 1 + (int)LUO_SCHED_1F1B;
    LUO_TRY(add_frames(asking, asking->uniform, asking->nuniform, f, n, err));
    if (opts->recompute >= 0) return LUO_OK;
    LUO_TRY(add_recomputed(asking, opts->schedule, f, n, err));
    if (opts->schedule < 0 && opts->chunks <= 1) LUO_TRY(add_recomputed(asking, plain, f, n, err));
    qsort(f, (size_t)*n, sizeof *f, by_seconds);
    return LUO_OK;
}

static bool is_new(const luo_plan *plan, const uint64_t *seen, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (seen[i] == luo_plan_hash(plan)) return false;
    return true;
}

static luo_status try_frame(const auto_asking *asking, const frame *f, uint64_t *seen,
                            int32_t *nseen, luo_auto_candidate *out, luo_err *err)
{
    for (int k = 0; k < TRIES; k++) {
        luo_auto_recomputed recomputed;
        luo_auto_candidate now = {.planner = out->planner, .step = {.seconds = INFINITY}};
        if (replan(asking, f->of->plan, FACTORS[k], &recomputed, err) != LUO_OK) return LUO_OK;
        if (!is_new(recomputed.plan, seen, *nseen)) return LUO_OK;
        seen[(*nseen)++] = luo_plan_hash(recomputed.plan);
        LUO_TRY(auto_try(asking, recomputed.plan, &now, err));
        out->tried += now.tried;
        if (!now.plan && !out->plan) memcpy(out->why, now.why, sizeof out->why);
        if (!now.plan) continue;
        if (now.step.seconds < out->step.seconds) {
            now.tried = out->tried;
            *out = now;
        }
        return LUO_OK;
    }
    return LUO_OK;
}

/* What is given has to be what that search can be told; its pipelines are alike, 1F1B and without
 * context parallelism. */
static bool may_search(const luo_uniform_opts *opts, const luo_model *model)
{
    const bool plain = opts->schedule <= 0 || opts->schedule == 1 + (int)LUO_SCHED_1F1B;
    return plain && model->moe.experts == 0 && luo_model_has_layers(model) && opts->cp <= 1 &&
           !opts->tp_pp_dp && opts->chunks <= 1 && opts->dp == 0 &&
           opts->micro_batch_sequences == 0 && opts->recompute < 0 && opts->shard <= 0 &&
           (opts->zero < 0 || opts->zero_most >= 3 || opts->zero < 3);
}

/* The search over layers and strategies, each answer also with its stages anew by our closed form
 * of memory. */
static luo_status try_pipelines(const auto_asking *asking, luo_auto_candidate *out, luo_err *err)
{
    const luo_auto_in *in = asking->in;
    const luo_uniform_opts *opts = &in->opts;
    const luo_model *model = in->judge->model;
    const int32_t most = opts->zero_most > 0 ? opts->zero_most : 1;
    const luo_auto_pipelines_in ask = {.model = model,
                                       .cluster = in->judge->cluster,
                                       .stack = in->judge->stack,
                                       .batch_sequences = opts->batch_sequences,
                                       .sequence_tokens = opts->sequence_tokens,
                                       .devices = asking->devices,
                                       .ndevices = asking->ndevices,
                                       .rate = in->rate,
                                       .tp = opts->tp,
                                       .pp = opts->pp,
                                       .zero = most < 3 && opts->zero < 0 ? 1 : opts->zero,
                                       .sequence_parallel = opts->sequence_parallel};
    luo_auto_pipelines_plan plan[LUO_AUTO_PIPELINES];
    int32_t n;
    if (!in->simulated || !may_search(opts, model)) return LUO_OK; /* it takes long for many */
    LUO_TRY(luo_auto_pipelines(asking->arena, &ask, plan, &n, err));
    for (int32_t i = 0; i < n && i < PIPELINES; i++) {
        luo_auto_recomputed again;
        luo_err why = {0};
        LUO_TRY(auto_try(asking, plan[i].plan, out, err));
        if (!luo_auto_recompute_knows(plan[i].plan, model) ||
            replan(asking, plan[i].plan, FACTORS[1], &again, &why) != LUO_OK)
            continue;
        LUO_TRY(auto_try(asking, again.plan, out, err));
    }
    return LUO_OK;
}

luo_status auto_ask_search(auto_asking *asking, luo_auto_candidate *out, luo_err *err)
{
    frame *f = LUO_NEW_N(asking->arena, frame, FRAMES);
    uint64_t seen[SIMULATED * TRIES];
    int32_t n = 0, nseen = 0;
    if (!f) return luo_err_nomem(err);
    LUO_TRY(list_frames(asking, f, &n, err));
    for (int32_t i = 0; i < n && i < (asking->in->simulated ? SIMULATED : 1); i++) {
        luo_err why = {0};
        const luo_status st = try_frame(asking, &f[i], seen, &nseen, out, &why);
        LUO_TRY(auto_refuse(st, &why, out, err));
    }
    LUO_TRY(try_pipelines(asking, out, err));
    LUO_TRY(auto_try_experts(asking, out, err));
    if (out->plan || out->why[0]) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE, "no plan with alike layers has room");
}
