/* Steps of `luoshu plan hydraulis`: one batch after another under every policy, by the pool and on
 * the simulator. */
#include <math.h>
#include <string.h>

#include "cli/lengths/plan_hydraulis.h"
#include "cli/run/progress.h"
#include "core/io/read/read.h"
#include "core/run/lengths/planning.h"
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

/* one_plan and hotspa have their state where they are fastest, as in a run, and not where ours is
 * best. */
static luo_status judge_rivals(luo_cli *cli, luo_hydraulis_call *call, luo_arena *scratch,
                               const luo_judge *judge, const luo_length_sample *batch, int32_t n,
                               luo_err *err)
{
    static const luo_length_policy own[] = {LUO_LENGTH_POLICY_ONE_PLAN, LUO_LENGTH_POLICY_HOTSPA};
    const luo_step_place place = luo_hydraulis_place(call);
    LUO_TRY(luo_judge_rival(scratch, judge, LUO_LENGTH_POLICY_PACK_DYNAMIC, &place, batch, n,
                            call->rate, &call->rivals, err));
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        LUO_TRY(luo_judge_rival_layout(cli->arena, scratch, judge, own[k], &call->rivals, &place,
                                       batch, n, call->rate, &call->rival_layout[own[k]], err));
    return LUO_OK;
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
    luo_status st = judge_rivals(cli, call, scratch, &judge, batch, n, err);
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

/* Orders of the devices, as runs have them. */
static luo_status open_orders(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    luo_orders *orders = &call->orders;
    const luo_length_setup setup = {.pool = call->pool,
                                    .layout = call->layout,
                                    .found = call->found,
                                    .rivals = call->rivals,
                                    .place = luo_hydraulis_place(call),
                                    .moved_ms = call->propagation_ms,
                                    .type = call->type,
                                    .mixed = luo_length_setup_mixes(call->type, call->ndevices)};
    orders->in = (luo_length_setup_in){.model = call->model,
                                       .cluster = call->cluster,
                                       .stack = &call->stack,
                                       .ndevices = call->ndevices,
                                       .devices = call->devices,
                                       .lengths = &call->lengths,
                                       .rule = call->in.rule,
                                       .limit = call->in.sequences,
                                       .seed = call->in.seed,
                                       .proposals = call->proposals,
                                       .switch_ms = call->switch_ms,
                                       .step = call->opts,
                                       .device_step = call->in.device_step,
                                       .grid_step = call->in.grid_step};
    luo_length_setup_copy(&orders->choice.setup, &setup);
    orders->choice.setup.rivals.uniform = call->alike;
    orders->choice.learned = call->learned;
    orders->rate = LUO_NEW_N(cli->arena, double, call->ndevices);
    double *speed = LUO_NEW_N(cli->arena, double, call->ndevices);
    if (!orders->rate || !speed) return luo_err_nomem(err);
    for (int32_t i = 0; i < call->ndevices; i++) {
        orders->rate[i] = call->rate[call->devices[i]];
        speed[i] = call->place_rate[i];
    }
    luo_length_setup_speeds(&orders->choice.setup, speed);
    return luo_orders_forget(orders, err);
}

static luo_status keep(luo_cli *cli, luo_hydraulis_call *call, const luo_orders_answer *answer,
                       luo_hydraulis_step *step, luo_err *err)
{
    const luo_length_plans *plans = &answer->judged.plans;
    const luo_replicas *from = &answer->of->setup.found.plan[plans->step.plan];
    step->plan = plans->step;
    step->of = answer->of;
    step->devices = answer->devices;
    step->replicas = (luo_replicas){from->n, LUO_NEW_N(cli->arena, luo_replica, from->n)};
    if (!step->replicas.replica) return luo_err_nomem(err);
    memcpy(step->replicas.replica, from->replica, (size_t)from->n * sizeof *from->replica);
    luo_step_speeds(&answer->of->setup.pool, &step->replicas, answer->speed);
    return luo_hydraulis_step_moves(cli, call, step, err);
}

/* The planner's own: by simulated steps, or by the pool. before: NULL: there is none. */
static luo_status run_planner(luo_cli *cli, luo_hydraulis_call *call,
                              const luo_hydraulis_step *before, luo_hydraulis_step *step,
                              luo_err *err)
{
    const luo_length_policy own = LUO_LENGTH_POLICY_HYDRAULIS;
    const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    const luo_orders_ask ask = {.policy = own,
                                .judge = call->judged ? &judge : NULL,
                                .joint = call->joint,
                                .sure = true,
                                .length = step->length,
                                .n = step->n,
                                .chosen = before ? before->of : NULL,
                                .current = before ? before->plan.plan : -1};
    luo_orders_ask timed = ask;
    luo_orders_answer answer;
    timed.judge = NULL; /* what is simulated is no planning */
    const double start = luo_cli_wall_s();
    LUO_TRY(luo_orders_choose(cli->arena, &call->orders, &timed, &answer, err));
    step->plan_ms = 1e3 * (luo_cli_wall_s() - start);
    if (call->judged) LUO_TRY(luo_orders_choose(cli->arena, &call->orders, &ask, &answer, err));
    const double seconds = answer.judged.seconds;
    if (call->judged && !isfinite(seconds)) cannot_run(cli, call, own, step, &answer.why);
    step->step_s[own] = isfinite(seconds) ? seconds : (double)NAN;
    step->event_ms[own] = answer.judged.plans.step.event;
    return keep(cli, call, &answer, step, err);
}

static luo_step_place place_of_rival(const luo_hydraulis_call *call, luo_length_policy policy)
{
    const luo_judged_layout *own = &call->rival_layout[policy];
    luo_step_place place = luo_hydraulis_place(call);
    if (own->layout.tp == 0 || !isfinite(own->seconds)) return place;
    place.layout = &own->layout;
    place.layout_devices = own->devices;
    return place;
}

static luo_status run_rival(luo_cli *cli, luo_hydraulis_call *call, luo_length_policy policy,
                            luo_hydraulis_step *step, luo_err *err)
{
    const luo_step_place place = place_of_rival(call, policy);
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

/* A pool does not know what moves; the simulator does. */
static luo_status learn_open(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(luo_lengths_learn_open(cli->arena, &call->pool, &call->found, call->propagation_ms,
                                   &call->learned, err));
    if (!call->judged) luo_lengths_guess_all(&call->learned);
    return LUO_OK;
}

static luo_status open_steps(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(draw(cli, call, err));
    const bool judges = call->judged && !luo_args_has(&cli->args, "os");
    if (judges) LUO_TRY(judge_layout(cli, call, err));
    for (int32_t p = 0; p < call->found.n; p++) LUO_TRY(luo_hydraulis_propagate(cli, call, p, err));
    return judges ? LUO_OK : learn_open(cli, call, err);
}

/* Steps follow one another, as they take on the simulator, or by the pool; plans are made ahead as
 * runs make them by default. */
static luo_status add_stalls(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    const luo_length_policy own = LUO_LENGTH_POLICY_HYDRAULIS;
    luo_policy_spec spec;
    luo_planning planning;
    double now = 0;
    luo_read_policy_defaults(&spec, luo_length_policy_name(own));
    LUO_TRY(
        luo_planning_open(cli->arena, 0, spec.lengths.workers, spec.lengths.ahead, &planning, err));
    for (int32_t s = 0; s < call->nsteps; s++) {
        const luo_hydraulis_step *step = &call->step[s];
        planning.plan_s = 1e-3 * step->plan_ms;
        const double ready = luo_planning_ready(&planning, s, now);
        const bool simulated = isfinite(step->step_s[own]);
        if (s > 0) call->stall_s += fmax(0, ready - now); /* the first is there */
        if (s > 0) now = fmax(now, ready);
        luo_planning_began(&planning, s, now);
        now += simulated ? step->step_s[own] : 1e-3 * step->event_ms[own];
    }
    return LUO_OK;
}

luo_status luo_hydraulis_steps(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    const luo_hydraulis_step *before = NULL;
    if (call->nsteps == 0) return LUO_OK;
    LUO_TRY(open_steps(cli, call, err));
    LUO_TRY(open_orders(cli, call, err));
    for (int32_t s = 0; s < call->nsteps; s++) {
        luo_hydraulis_step *step = &call->step[s];
        for (int32_t p = 0; p < LUO_LENGTH_POLICIES; p++)
            if (p != LUO_LENGTH_POLICY_HYDRAULIS)
                LUO_TRY(run_rival(cli, call, (luo_length_policy)p, step, err));
        LUO_TRY(run_planner(cli, call, before, step, err));
        step->switched = before && (step->plan.plan != before->plan.plan || step->of != before->of);
        before = step;
    }
    return add_stalls(cli, call, err);
}

double luo_hydraulis_mean(const luo_hydraulis_call *call, luo_length_policy policy, bool simulated)
{
    double sum = 0;
    for (int32_t s = 0; s < call->nsteps; s++)
        sum += simulated ? call->step[s].step_s[policy] : call->step[s].event_ms[policy];
    return call->nsteps > 0 ? sum / call->nsteps : (double)NAN;
}
