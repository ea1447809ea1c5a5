#include "core/run/policy/judge_range.h"

#include "core/plan/compile.h"

double luo_judge_operations(const luo_programs *set)
{
    double sum = 0;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_program *program = &set->at[i];
        for (int32_t k = 0; k < program->ntask; k++)
            sum += set->roles[program->role].seg[program->tasks[k].seg].n;
    }
    return sum;
}

typedef struct simulated { /* what is predicted */
    luo_judge judge;
    const luo_programs *set;
    luo_dtype dtype;
    const double *rate;
} simulated;

static luo_status seconds_of(void *ctx, luo_arena *scratch, const luo_cluster *cluster,
                             const luo_stack *stack, double *seconds, luo_err *err)
{
    const simulated *s = ctx;
    luo_judge judge = s->judge;
    luo_judgement step = {0};
    judge.cluster = cluster;
    judge.stack = stack;
    LUO_TRY(luo_judge_simulate(scratch, &judge, s->set, s->dtype, s->rate, &step, err));
    *seconds = step.seconds;
    return LUO_OK;
}

/* Above the limit of `work`, communication is by closed forms. */
static simulated begin_steps(const luo_judge *judge, const luo_programs *set, luo_dtype dtype,
                             const double *rate, const luo_work *work, double steps)
{
    simulated s = {.judge = *judge, .set = set, .dtype = dtype, .rate = rate};
    if (steps * luo_judge_operations(set) > (double)luo_work_most(work, LUO_WORK_RANGES))
        s.judge.comm = LUO_COMM_MODEL;
    return s;
}

luo_status luo_judge_range(luo_arena *arena, const luo_judge *judge, const luo_programs *set,
                           luo_dtype dtype, const double *rate, const luo_work *work,
                           luo_time_range *out, luo_err *err)
{
    luo_constants constants;
    LUO_TRY(luo_constants_of(arena, judge->cluster, judge->stack, &constants, err));
    simulated s = begin_steps(judge, set, dtype, rate, work, 2.0 * constants.n);
    const luo_prediction prediction = {seconds_of, &s};
    return luo_time_range_of(arena, &constants, &prediction, out, err);
}

static luo_status compile_and_range(luo_arena *arena, luo_arena *scratch, const luo_judge *judge,
                                    const luo_plan *given, int64_t tokens, const double *rate,
                                    const luo_work *work, luo_time_range *out, luo_err *err)
{
    luo_programs *set;
    luo_plan plan = *given;
    const luo_compile_opts opts = {.sequence_tokens = tokens,
                                   .interrupted = judge->interrupted,
                                   .load = judge->load,
                                   .memory = luo_stack_memory(judge->stack),
                                   .unnamed = true};
    plan.bucket = luo_bucketing_over(plan.bucket, judge->bucket);
    LUO_TRY(luo_plan_compile(scratch, &plan, judge->model, judge->cluster, &opts, &set, err));
    return luo_judge_range(arena, judge, set, plan.dtype, rate, work, out, err);
}

luo_status luo_judge_range_of_plan(luo_arena *arena, const luo_judge *judge, const luo_plan *plan,
                                   int64_t sequence_tokens, const double *rate,
                                   const luo_work *work, luo_time_range *out, luo_err *err)
{
    luo_arena *scratch = luo_arena_new(1 << 16);
    if (!scratch) return luo_err_nomem(err);
    const luo_status st =
        compile_and_range(arena, scratch, judge, plan, sequence_tokens, rate, work, out, err);
    luo_arena_free(scratch);
    return st;
}

luo_status luo_judge_draws(luo_arena *arena, const luo_judge *judge, const luo_programs *set,
                           luo_dtype dtype, const double *rate, const luo_work *work, uint64_t seed,
                           int32_t n, double *out, luo_err *err)
{
    luo_constants constants;
    LUO_TRY(luo_constants_of(arena, judge->cluster, judge->stack, &constants, err));
    simulated s = begin_steps(judge, set, dtype, rate, work, n);
    const luo_prediction prediction = {seconds_of, &s};
    return luo_spread_draws(arena, &constants, &prediction, seed, n, out, err);
}
