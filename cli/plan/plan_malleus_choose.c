/* The choice of `luoshu plan malleus`: what the search found against the plans of the other
 * policies for the same devices, the base plan and the running one, by the simulated step. */
#include <math.h>

#include "cli/plan/plan_judge.h"
#include "cli/plan/plan_malleus.h"
#include "core/io/read/read.h"
#include "core/plan/replan/reroute.h"

typedef struct asked {
    luo_malleus_call *call;
    luo_judge judge;
} asked;

static luo_status step_s(void *run, const luo_plan *plan, double *seconds, luo_err *err)
{
    asked *a = run;
    const int64_t tokens = a->call->job.sequence_tokens;
    return luo_judge_step(&a->judge, plan, tokens ? tokens : plan->sequence_tokens, a->call->rate,
                          seconds, err);
}

/* By what plans are ranked; with numbers of --params by theirs. */
static luo_judged ranking(const luo_malleus_call *call)
{
    if (call->judged != LUO_JUDGED_AUTO) return call->judged;
    if (call->job.params) return LUO_JUDGED_PUBLISHED;
    return luo_plan_is_judged(call->judged, call->cluster) ? LUO_JUDGED_SIMULATED
                                                           : LUO_JUDGED_OBJECTIVE;
}

/* The answer lists groups of devices, and a lost stage has none: policy `malleus` takes such plans,
 * the verb does not print them. Nor does it print micro-batches of another size than is asked. */
static void drop_others(const luo_cli *cli, const luo_malleus_call *call, luo_offers *offers)
{
    const luo_args *args = &cli->args;
    const bool sized =
        luo_args_has(args, "micro-batches") || luo_args_has(args, "micro-batch-size");
    const int32_t size = call->job.base->micro_batch_sequences;
    int32_t n = 0;
    for (int32_t i = 0; i < offers->n; i++) {
        const luo_plan *plan = offers->at[i].plan;
        if (luo_plan_is_rerouted(plan) || (sized && plan->micro_batch_sequences != size)) continue;
        offers->at[n++] = offers->at[i];
    }
    offers->n = n;
}

static luo_status judge_all(luo_cli *cli, asked *a, luo_err *err)
{
    luo_malleus_call *call = a->call;
    const int32_t n = call->cluster->ndevices;
    luo_scenario sc = {.model = call->model,
                       .cluster = call->cluster,
                       .stack = call->stack,
                       .seed = call->job.seed};
    luo_policy_spec spec;
    bool *none = LUO_NEW_N(cli->arena, bool, n);
    double *rate = LUO_NEW_N(cli->arena, double, n);
    if (!none || !rate) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) rate[d] = call->candidate[d] ? call->rate[d] : (double)INFINITY;
    luo_read_policy_defaults(&spec, "malleus");
    const luo_snapshot now = {.scenario = &sc,
                              .spec = &spec,
                              .base = call->job.base,
                              .plan = call->prev ? call->prev : call->job.base,
                              .rate = rate,
                              .leaving = none,
                              .candidate = call->candidate,
                              .micro_batches = call->answer.in.micro_batches,
                              .sequence_tokens = call->job.sequence_tokens
                                                     ? call->job.sequence_tokens
                                                     : call->job.base->sequence_tokens,
                              .memory_factor = call->job.memory_factor,
                              .step_s = step_s,
                              .closed_form = call->closed_form,
                              .run = a};
    LUO_TRY(luo_offers_all(cli->arena, &now, &call->job, &call->offers, err));
    drop_others(cli, call, &call->offers);
    return luo_offers_judge(&call->offers, &now, err);
}

/* Devices that could hold layers and do not. */
static int32_t idle(const luo_malleus_call *call)
{
    const luo_malleus_plan *plan = &call->answer.found->plans[0];
    int32_t n = 0;
    for (int32_t i = 0; i < plan->nstandby; i++) n += call->candidate[plan->standby[i]];
    return n;
}

static void say_doubts(luo_cli *cli, luo_malleus_call *call)
{
    const double objective = call->offers.at[0].objective_s, step = call->offers.at[0].step_s;
    const char *doubt[] = {call->closed_form ? NULL : luo_plan_apart(cli->arena, step, objective),
                           luo_plan_idle(cli->arena, idle(call), "")};
    for (int i = 0; i < 2; i++)
        if (doubt[i]) luo_malleus_call_warn(cli, call, LUO_WARNING, "%s", doubt[i]);
}

luo_status luo_malleus_call_choose(luo_cli *cli, luo_malleus_call *call, luo_err *err)
{
    asked a = {.call = call, .judge = luo_plan_judge(call->model, call->cluster, &call->stack)};
    const luo_judged by = ranking(call);
    if (by == LUO_JUDGED_PUBLISHED || call->answer.found->search.skipped) return LUO_OK;
    call->closed_form = by == LUO_JUDGED_OBJECTIVE;
    luo_status st = judge_all(cli, &a, err);
    luo_judge_free(&a.judge);
    LUO_TRY(st);
    if (luo_plan_hash(call->offers.at[0].plan) != luo_plan_hash(call->answer.plan))
        LUO_TRY(luo_malleus_take(cli->arena, &call->answer, call->offers.at[0].plan, err));
    say_doubts(cli, call);
    return LUO_OK;
}
