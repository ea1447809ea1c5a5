/* The choice of `luoshu plan malleus`: what the search found against the plans of the other
 * policies for the same devices, the base plan and the running one, by the simulated step. */
#include <math.h>

#include "cli/plan/plan_judge.h"
#include "cli/plan/plan_malleus.h"
#include "core/plan/replan/reroute.h"

typedef struct asked {
    luo_malleus_call *call;
    luo_judge judge;
} asked;

static luo_status step_s(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    asked *a = run;
    const int64_t tokens = a->call->job.sequence_tokens;
    return luo_judge_step(&a->judge, p, tokens ? tokens : p->sequence_tokens, a->call->rate,
                          seconds, err);
}

/* By what plans are ranked; with numbers of --params by theirs. */
static luo_judged ranking(const luo_malleus_call *c)
{
    if (c->judged != LUO_JUDGED_AUTO) return c->judged;
    if (c->job.params) return LUO_JUDGED_PUBLISHED;
    return luo_plan_is_judged(c->judged, c->cluster) ? LUO_JUDGED_SIMULATED : LUO_JUDGED_OBJECTIVE;
}

/* The answer lists groups of devices, and a lost stage has none: policy `malleus` takes such plans,
 * the verb does not print them. */
static void drop_rerouted(luo_offers *o)
{
    int32_t n = 0;
    for (int32_t i = 0; i < o->n; i++)
        if (!luo_plan_is_rerouted(o->at[i].plan)) o->at[n++] = o->at[i];
    o->n = n;
}

static luo_status judge_all(luo_cli *cli, asked *a, luo_err *err)
{
    luo_malleus_call *c = a->call;
    const int32_t n = c->cluster->ndevices;
    luo_scenario sc = {.model = c->model, .cluster = c->cluster, .stack = c->stack,
                       .seed = c->job.seed};
    luo_policy_spec spec;
    bool *none = LUO_NEW_N(cli->arena, bool, n);
    double *rate = LUO_NEW_N(cli->arena, double, n);
    if (!none || !rate) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) rate[d] = c->candidate[d] ? c->rate[d] : (double)INFINITY;
    luo_policy_defaults(&spec, "malleus");
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = c->job.base,
                             .plan = c->prev ? c->prev : c->job.base, .rate = rate,
                             .leaving = none, .candidate = c->candidate,
                             .micro_batches = c->answer.in.micro_batches,
                             .sequence_tokens = c->job.sequence_tokens
                                                    ? c->job.sequence_tokens
                                                    : c->job.base->sequence_tokens,
                             .memory_factor = c->job.memory_factor, .step_s = step_s,
                             .closed_form = c->closed_form, .run = a};
    LUO_TRY(luo_offers_all(cli->arena, &now, &c->job, &c->offers, err));
    drop_rerouted(&c->offers);
    return luo_offers_judge(&c->offers, &now, err);
}

/* Devices that could hold layers and do not. */
static int32_t idle(const luo_malleus_call *c)
{
    const luo_malleus_plan *p = &c->answer.found->plans[0];
    int32_t n = 0;
    for (int32_t i = 0; i < p->nstandby; i++) n += c->candidate[p->standby[i]];
    return n;
}

static void say_doubts(luo_cli *cli, luo_malleus_call *c)
{
    const double objective = c->offers.at[0].objective_s, step = c->offers.at[0].step_s;
    const char *doubt[] = {c->closed_form ? NULL : luo_plan_apart(cli->arena, step, objective),
                           luo_plan_idle(cli->arena, idle(c), "")};
    for (int i = 0; i < 2; i++)
        if (doubt[i]) luo_call_warn(cli, c, LUO_WARNING, "%s", doubt[i]);
}

luo_status luo_call_choose(luo_cli *cli, luo_malleus_call *c, luo_err *err)
{
    asked a = {.call = c, .judge = luo_plan_judge(c->model, c->cluster, &c->stack)};
    const luo_judged by = ranking(c);
    if (by == LUO_JUDGED_PUBLISHED || c->answer.found->search.skipped) return LUO_OK;
    c->closed_form = by == LUO_JUDGED_OBJECTIVE;
    luo_status st = judge_all(cli, &a, err);
    luo_judge_free(&a.judge);
    LUO_TRY(st);
    if (luo_plan_hash(c->offers.at[0].plan) != luo_plan_hash(c->answer.plan))
        LUO_TRY(luo_malleus_take(cli->arena, &c->answer, c->offers.at[0].plan, err));
    say_doubts(cli, c);
    return LUO_OK;
}
