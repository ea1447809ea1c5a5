/* Steps of `luoshu plan hydraulis`: one batch after another under every policy, by the pool and on
 * the simulator. */
#include <math.h>
#include <string.h>

#include "cli/lengths/plan_hydraulis.h"
#include "cli/run/progress.h"
#include "core/run/policy/judge_layouts.h"

/* ---- rivals ---- */

static luo_status choose_rivals(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    call->rivals = (luo_length_rivals){.pool = &call->pool,
                                       .candidates = &call->found,
                                       .devices = call->ndevices,
                                       .rate = call->place_rate,
                                       .ctx = call->in.rule.most,
                                       .alike = -1,
                                       .switch_ms = call->switch_ms,
                                       .step = call->opts};
    return luo_length_choose_on_samples(cli->arena, &call->lengths, &call->in.rule,
                                        call->in.sequences, call->in.seed, call->in.grid_step,
                                        &call->rivals, err);
}

/* Optimizer state where uniform_best has it, unless --os says where: so that its plan, which is one
 * of ours, costs us no more than it. Where plans are simulated, so are layouts (judge_layout). */
static luo_status settle_layout(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    const luo_step_place place = luo_hydraulis_place(call);
    luo_step_place own;
    call->alike = call->rivals.uniform;
    if (luo_args_has(&cli->args, "os") || call->rivals.uniform < 0) return LUO_OK;
    LUO_TRY(luo_length_plan_layout(cli->arena, &call->rivals, &place, call->rivals.uniform,
                                   &call->layout, &own, err));
    call->layout_devices = own.layout_devices;
    return LUO_OK;
}

luo_status luo_hydraulis_rivals(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    if (call->nsteps == 0) return LUO_OK;
    LUO_TRY(choose_rivals(cli, call, err));
    return settle_layout(cli, call, err);
}

/* On the first batches. */
static luo_status judge_layout(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    const luo_step_place place = luo_hydraulis_place(call);
    const int32_t n = call->nsteps < LUO_JUDGE_BATCHES ? call->nsteps : LUO_JUDGE_BATCHES;
    luo_length_sample batch[LUO_JUDGE_BATCHES];
    luo_arena *scratch = luo_arena_new(0);
    luo_judged_layout best;
    if (!scratch) return luo_err_nomem(err);
    for (int32_t k = 0; k < n; k++)
        batch[k] = (luo_length_sample){call->step[k].length, call->step[k].n};
    static const luo_length_policy rivals[] = {
        LUO_LENGTH_POLICY_PACK_DYNAMIC, LUO_LENGTH_POLICY_UNIFORM_BEST, LUO_LENGTH_POLICY_ONE_PLAN};
    luo_status st = LUO_OK;
    for (size_t r = 0; r < sizeof rivals / sizeof *rivals && st == LUO_OK; r++)
        st = luo_judge_rival(scratch, &judge, rivals[r], &place, batch, n, call->rate,
                             &call->rivals, err);
    if (st == LUO_OK)
        st = luo_judge_layouts(cli->arena, scratch, &judge, &call->rivals, &place, batch, n,
                               call->rate, &best, err);
    luo_arena_free(scratch);
    if (st != LUO_OK) return st;
    call->layout = best.layout;
    call->layout_devices = best.devices;
    call->alike = best.alike >= 0 ? best.alike : call->rivals.uniform;
    call->learned = best.learned;
    return LUO_OK;
}

/* ---- on the simulator ---- */

static void cannot_run(luo_cli *cli, luo_hydraulis_call *call, luo_length_policy policy,
                       const luo_hydraulis_step *step, const luo_err *why)
{
    luo_hydraulis_warn(cli, call, "%s, step %d cannot run: %s", luo_length_policy_name(policy),
                       (int)(step - call->step), why->text);
}

/* *seconds: NAN: a part of the step cannot run. */
static luo_status simulate(luo_cli *cli, luo_hydraulis_call *call, luo_length_policy policy,
                           const luo_hydraulis_step *step, const luo_length_plans *plans,
                           double *seconds, luo_err *err)
{
    luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    *seconds = 0;
    for (int32_t k = 0; k < plans->n; k++) {
        luo_judgement judged;
        luo_err why = {0};
        judge.part = (luo_step_part){.index = k, .n = plans->n};
        const luo_status st = luo_judge_plan(&judge, plans->part[k].plan, call->in.rule.most,
                                             call->rate, &judged, &why);
        if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
        if (!isfinite(judged.seconds)) cannot_run(cli, call, policy, step, &why);
        *seconds += isfinite(judged.seconds) ? judged.seconds : (double)NAN;
    }
    return LUO_OK;
}

/* ---- steps ---- */

/* The planner's own: by simulated steps, or by the pool. */
static luo_status run_planner(luo_cli *cli, luo_hydraulis_call *call, int32_t current,
                              luo_hydraulis_step *step, luo_err *err)
{
    const luo_length_policy own = LUO_LENGTH_POLICY_HYDRAULIS;
    const luo_step_place place = luo_hydraulis_place(call);
    luo_judged_lengths judged = {.seconds = NAN};
    luo_length_rivals with = call->rivals;
    with.uniform = call->alike;
    if (!call->judged) /* the simulator knows what moves; a pool does not */
        with.step.extra_ms = call->propagation_ms;
    const double start = luo_cli_wall_s();
    LUO_TRY(luo_length_plan(cli->arena, &with, &place, own, current, step->length, step->n,
                            &judged.plans, err));
    step->plan_ms = 1e3 * (luo_cli_wall_s() - start);
    if (call->judged) {
        const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
        luo_err why = {0};
        const luo_status st =
            luo_judge_lengths(cli->arena, &judge, &with, &place, current, step->length, step->n,
                              true, call->rate, &call->learned, &judged, &why);
        if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
        if (!isfinite(judged.seconds)) cannot_run(cli, call, own, step, &why);
    }
    step->plan = judged.plans.step;
    step->event_ms[own] = step->plan.event;
    step->step_s[own] = isfinite(judged.seconds) ? judged.seconds : (double)NAN;
    return LUO_OK;
}

static luo_status run_rival(luo_cli *cli, luo_hydraulis_call *call, luo_length_policy policy,
                            luo_hydraulis_step *step, luo_err *err)
{
    const luo_step_place place = luo_hydraulis_place(call);
    luo_length_plans plans;
    luo_err why = {0};
    step->event_ms[policy] = step->step_s[policy] = NAN;
    const luo_status st = luo_length_plan(cli->arena, &call->rivals, &place, policy, -1,
                                          step->length, step->n, &plans, &why);
    if (st == LUO_EINFEASIBLE) return LUO_OK;
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    step->event_ms[policy] = plans.ms;
    return call->judged ? simulate(cli, call, policy, step, &plans, &step->step_s[policy], err)
                        : LUO_OK;
}

static void measure(luo_hydraulis_call *call, luo_hydraulis_step *step)
{
    for (int32_t i = 0; i < step->n; i++) {
        step->tokens += step->length[i];
        if (step->length[i] > step->longest) step->longest = step->length[i];
    }
    luo_pool plain = {0, call->pool.entry}; /* entries without context parallelism come first */
    while (plain.n < call->pool.n && plain.entry[plain.n].cp == 1) plain.n++;
    step->floor =
        luo_step_floor_of(&call->pool, call->ndevices, call->place_rate, step->length, step->n);
    step->plain =
        luo_step_floor_of(&plain, call->ndevices, call->place_rate, step->length, step->n);
}

static luo_status draw(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    luo_length_source source = luo_length_source_open(call->in.seed);
    call->step = LUO_NEW_N(cli->arena, luo_hydraulis_step, call->nsteps);
    if (!call->step) return luo_err_nomem(err);
    for (int32_t s = 0; s < call->nsteps; s++) {
        luo_hydraulis_step *step = &call->step[s];
        LUO_TRY(luo_lengths_batch(cli->arena, &call->lengths, &call->in.rule, call->in.sequences,
                                  &source, &step->length, &step->n, err));
        measure(call, step);
    }
    return LUO_OK;
}

static luo_status open_steps(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(draw(cli, call, err));
    const bool judges = call->judged && !luo_args_has(&cli->args, "os");
    if (judges) LUO_TRY(judge_layout(cli, call, err));
    for (int32_t p = 0; p < call->found.n; p++) LUO_TRY(luo_hydraulis_propagate(cli, call, p, err));
    return judges ? LUO_OK
                  : luo_lengths_learn_open(cli->arena, &call->pool, &call->found,
                                           call->propagation_ms, &call->learned, err);
}

luo_status luo_hydraulis_steps(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    int32_t current = -1;
    if (call->nsteps == 0) return LUO_OK;
    LUO_TRY(open_steps(cli, call, err));
    for (int32_t s = 0; s < call->nsteps; s++) {
        luo_hydraulis_step *step = &call->step[s];
        for (int32_t p = 0; p < LUO_LENGTH_POLICIES; p++)
            if (p != LUO_LENGTH_POLICY_HYDRAULIS)
                LUO_TRY(run_rival(cli, call, (luo_length_policy)p, step, err));
        LUO_TRY(run_planner(cli, call, current, step, err));
        step->switched = s > 0 && step->plan.plan != current;
        current = step->plan.plan;
    }
    return LUO_OK;
}

double luo_hydraulis_mean(const luo_hydraulis_call *call, luo_length_policy policy, bool simulated)
{
    double sum = 0;
    for (int32_t s = 0; s < call->nsteps; s++)
        sum += simulated ? call->step[s].step_s[policy] : call->step[s].event_ms[policy];
    return call->nsteps > 0 ? sum / call->nsteps : (double)NAN;
}
