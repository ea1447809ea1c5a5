#include "core/run/policy/judge.h"

#include <math.h>
#include <string.h>

#include "core/cost/profile.h"
#include "core/plan/compile.h"
#include "core/plan/planners.h"
#include "core/run/parts.h"

/* Devices outside the plan have no part in its step. */
static uint64_t key_of(const luo_plan *plan, int64_t tokens, const double *rate,
                       const luo_world *links)
{
    uint64_t h = luo_plan_hash(plan);
    h = luo_hash_bytes(h, &tokens, sizeof tokens);
    for (int32_t l = 0; links && l < links->nlinks; l++) {
        h = luo_hash_bytes(h, &links->link_factor[l], sizeof *links->link_factor);
        h = luo_hash_bytes(h, &links->link_extra_latency_s[l], sizeof *links->link_extra_latency_s);
    }
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++) {
                const double slowdown = fmax(1, rate[plan->pipelines[i].stages[s].dev[k]]);
                h = luo_hash_bytes(h, &slowdown, sizeof slowdown);
            }
    return h ? h : 1;
}

int64_t luo_judge_bits(double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

double luo_judge_number(int64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static luo_status check(luo_arena *arena, const luo_judge *judge, const luo_plan *plan,
                        bool as_it_is, luo_err *err)
{
    luo_cluster cluster = *judge->cluster;
    luo_plan_finding *finding;
    int32_t n = 0;
    if (!as_it_is) cluster.nhealth = 0;
    const luo_status st = luo_plan_check(arena, plan, judge->model, &cluster, &finding, &n);
    if (st == LUO_OK || n == 0) return st;
    return luo_err_set(err, finding[0].st, "plan `%s` %s: %s", plan->name, finding[0].pointer,
                       finding[0].text);
}

static luo_status compile(luo_arena *arena, const luo_judge *judge, const luo_plan *plan,
                          int64_t tokens, luo_programs **set, double *memory_ratio, luo_err *err)
{
    const luo_compile_opts opts = {.sequence_tokens = tokens,
                                   .interrupted = judge->interrupted,
                                   .load = judge->load,
                                   .memory = luo_stack_memory(judge->stack),
                                   .unnamed = true};
    int32_t device;
    LUO_TRY(luo_plan_compile(arena, plan, judge->model, judge->cluster, &opts, set, err));
    luo_memory *memory = LUO_NEW_N(arena, luo_memory, (*set)->n);
    if (!memory) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(arena, *set, memory, err));
    return luo_plan_fits(plan, judge->cluster, *set, memory, memory_ratio, &device, err);
}

/* What the busiest device works longer than the mean. */
static double imbalance(const luo_parts *parts, int32_t n, const luo_parts *mean)
{
    double most = 0;
    for (int32_t i = 0; i < n; i++)
        most = fmax(most, parts[i].compute_s + parts[i].recompute_s + parts[i].tp_s +
                              parts[i].ep_s + parts[i].cp_s);
    const double all = mean->compute_s + mean->recompute_s + mean->tp_s + mean->ep_s + mean->cp_s;
    return fmax(0, fmin(most - all, mean->bubble_s));
}

luo_status luo_judge_simulate(luo_arena *scratch, const luo_judge *judge, const luo_programs *set,
                              luo_dtype dtype, const double *rate, luo_judgement *out, luo_err *err)
{
    const luo_backend_config config = {.cluster = judge->cluster,
                                       .stack = judge->stack,
                                       .model = judge->model,
                                       .dtype = dtype,
                                       .comm = judge->comm,
                                       .one_comm_stream = judge->one_comm_stream,
                                       .interrupted = judge->interrupted,
                                       .fold = true};
    luo_backend_state *backend;
    luo_world *world;
    luo_step_result result = {0};
    if (judge->watch) judge->watch(judge->watcher);
    LUO_TRY(luo_world_new(scratch, judge->cluster, &world, err));
    for (int32_t d = 0; rate && d < world->ndevices; d++) {
        world->up[d] = true;
        world->slowdown[d] = isfinite(rate[d]) ? fmax(1, rate[d]) : 1;
    }
    for (int32_t l = 0; judge->links && l < world->nlinks; l++) {
        world->link_factor[l] = judge->links->link_factor[l];
        world->link_extra_latency_s[l] = judge->links->link_extra_latency_s[l];
    }
    LUO_TRY(judge->simulator->open(&config, &backend, err));
    const luo_step_request request = {.programs = set, .world = world, .part = judge->part};
    luo_status st = judge->simulator->run_ranks(backend, &request, &result, err);
    if (st == LUO_OK && result.status != LUO_OK)
        st = luo_err_set(err, result.status, "%s", result.text);
    out->seconds = result.end_s - result.start_s;
    if (st == LUO_OK && result.parts && result.n > 0) {
        out->mean = luo_parts_mean(result.parts, result.n);
        out->imbalance_s = imbalance(result.parts, result.n, &out->mean);
    }
    judge->simulator->close(backend);
    return st;
}

static bool usable(const luo_plan *plan, const double *rate)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < plan->pipelines[i].stages[s].ndev; k++)
                if (isinf(rate[plan->pipelines[i].stages[s].dev[k]])) return false;
    return true;
}

static luo_status compile_and_simulate(luo_arena *arena, const luo_judge *judge,
                                       const luo_plan *given, int64_t tokens, const double *rate,
                                       luo_judgement *out, luo_err *err)
{
    luo_programs *set = NULL;
    luo_plan plan = *given;
    plan.bucket = luo_bucketing_over(plan.bucket, judge->bucket);
    if (rate && !usable(&plan, rate))
        return luo_err_set(err, LUO_EINFEASIBLE, "a device of plan `%s` is not usable.",
                           plan.name);
    LUO_TRY(check(arena, judge, &plan, !rate, err));
    LUO_TRY(compile(arena, judge, &plan, tokens, &set, &out->memory_ratio, err));
    return luo_judge_simulate(arena, judge, set, plan.dtype, rate, out, err);
}

luo_status luo_judge_plan(const luo_judge *judge, const luo_plan *plan, int64_t sequence_tokens,
                          const double *rate, luo_judgement *out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    *out = (luo_judgement){0};
    if (!arena) return luo_err_nomem(err);
    const luo_status st = compile_and_simulate(arena, judge, plan, sequence_tokens, rate, out, err);
    luo_arena_free(arena);
    if (st == LUO_ENOMEM || st == LUO_EBACKEND || st == LUO_ECANCELED) return st;
    if (st != LUO_OK) out->seconds = INFINITY;
    return LUO_OK;
}

luo_status luo_judge_step(luo_judge *judge, const luo_plan *plan, int64_t sequence_tokens,
                          const double *rate, double *seconds, luo_err *err)
{
    luo_judgement judgement;
    int64_t *known = luo_map_at(&judge->known, key_of(plan, sequence_tokens, rate, judge->links),
                                luo_judge_bits(-1));
    if (!known) return luo_err_nomem(err);
    *seconds = luo_judge_number(*known);
    if (*seconds >= 0) return LUO_OK;
    LUO_TRY(luo_judge_plan(judge, plan, sequence_tokens, rate, &judgement, err));
    *seconds = judgement.seconds;
    *known = luo_judge_bits(*seconds);
    return LUO_OK;
}

void luo_judge_free(luo_judge *judge)
{
    luo_map_free(&judge->known);
}

luo_status luo_judge_uniform(luo_arena *arena, const luo_judge *judge,
                             const luo_uniform_result *result, int32_t n, int64_t sequence_tokens,
                             const double *rate, luo_judged_plan **out, int32_t *nout, luo_err *err)
{
    luo_judged_plan *at = LUO_NEW_N(arena, luo_judged_plan, n);
    luo_err why = {0};
    int32_t kept = 0;
    if (!at) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        luo_judged_plan plan = {.result = &result[i]};
        const luo_status st =
            luo_judge_plan(judge, result[i].plan, sequence_tokens, rate, &plan.step, &why);
        if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
        if (isinf(plan.step.seconds)) continue;
        int32_t place = kept++;
        for (; place > 0 && at[place - 1].step.seconds > plan.step.seconds; place--)
            at[place] = at[place - 1];
        at[place] = plan;
    }
    *out = at;
    *nout = kept;
    if (kept > 0) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE, "no plan fits; the last of %d tried: %s", n, why.text);
}
