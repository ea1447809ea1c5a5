/* Steps of `luoshu plan hydraulis`: one batch after another under every policy, by the pool and on
 * the simulator. */
#include <math.h>
#include <string.h>

#include "cli/plan/plan_hydraulis.h"
#include "cli/run/progress.h"

enum { SAMPLES = 4 };

/* ---- rivals ---- */

static luo_status choose_rivals(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    luo_length_source source = {.rng = luo_rng_stream(call->in.seed, "hydraulis")};
    luo_length_sample sample[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        int64_t *length;
        LUO_TRY(luo_lengths_batch(cli->arena, &call->lengths, &call->in.rule, call->in.sequences,
                                  &source, &length, &sample[s].n, err));
        sample[s].length = length;
    }
    call->rivals = (luo_length_rivals){.pool = &call->pool,
                                       .candidates = &call->found,
                                       .devices = call->ndevices,
                                       .rate = call->place_rate,
                                       .ctx = call->in.rule.most,
                                       .alike = -1,
                                       .switch_ms = call->switch_ms,
                                       .step = call->opts};
    return luo_length_rivals_choose(cli->arena, sample, SAMPLES, call->in.grid_step, &call->rivals,
                                    err);
}

/* ---- on the simulator ---- */

/* Replicas of a policy's step; none for hotspa, whose step is several plans. */
static luo_status replicas_of(luo_cli *cli, const luo_hydraulis_call *call,
                              luo_length_policy policy, const luo_step_plan *plan,
                              luo_replicas *out, luo_err *err)
{
    const luo_length_rivals *r = &call->rivals;
    *out = (luo_replicas){0};
    switch (policy) {
    case LUO_LENGTH_POLICY_PADDING:
    case LUO_LENGTH_POLICY_PACK_STATIC:
    case LUO_LENGTH_POLICY_PACK_DYNAMIC:
        return luo_length_alike(cli->arena, &call->rivals, r->alike, out, err);
    case LUO_LENGTH_POLICY_UNIFORM_BEST:
        return luo_length_alike(cli->arena, &call->rivals, r->uniform, out, err);
    case LUO_LENGTH_POLICY_ONE_PLAN:
    case LUO_LENGTH_POLICY_HYDRAULIS:
        *out = call->found.plan[plan->plan];
        return LUO_OK;
    case LUO_LENGTH_POLICY_HOTSPA:
    case LUO_LENGTH_POLICIES:
        break;
    }
    return LUO_OK;
}

/* What padding fills up is computed as well: it counts as sequences of its own. */
static luo_status padded_lengths(luo_cli *cli, const luo_hydraulis_call *call,
                                 luo_length_policy policy, const luo_hydraulis_step *step,
                                 luo_step_plan *plan, int64_t **length, int32_t *n, luo_err *err)
{
    const bool full = policy == LUO_LENGTH_POLICY_PADDING;
    const bool fills = full || policy == LUO_LENGTH_POLICY_PACK_STATIC;
    const int64_t ctx = call->in.rule.most;
    luo_replicas alike;
    *length = step->length;
    *n = step->n;
    if (!fills) return LUO_OK;
    LUO_TRY(luo_length_alike(cli->arena, &call->rivals, call->rivals.alike, &alike, err));
    int64_t *own = LUO_NEW_N(cli->arena, int64_t, 2 * (int64_t)step->n);
    int32_t *assign = LUO_NEW_N(cli->arena, int32_t, 2 * (int64_t)step->n);
    int32_t *bin = LUO_NEW_N(cli->arena, int32_t, 2 * (int64_t)step->n), count = step->n;
    if (!own || !assign || !bin) return luo_err_nomem(err);
    for (int32_t i = 0; i < step->n; i++) own[i] = full ? ctx : step->length[i];
    memcpy(assign, plan->assign, (size_t)step->n * sizeof *assign);
    memcpy(bin, plan->bin, (size_t)step->n * sizeof *bin);
    for (int32_t r = 0; r < alike.n && !full; r++)
        for (int32_t u = 0; u < plan->packed[r].nbins; u++) {
            int64_t used = 0;
            for (int32_t i = 0; i < step->n; i++)
                if (assign[i] == r && bin[i] == u) used += own[i];
            if (used == ctx) continue;
            own[count] = ctx - used;
            assign[count] = r;
            bin[count++] = u;
        }
    plan->assign = assign;
    plan->bin = bin;
    *length = own;
    *n = count;
    return LUO_OK;
}

static void cannot_run(luo_cli *cli, luo_hydraulis_call *call, luo_length_policy policy,
                       const luo_hydraulis_step *step, const luo_err *why)
{
    luo_hydraulis_warn(cli, call, "%s, step %d cannot run: %s", luo_length_policy_name(policy),
                       (int)(step - call->step), why->text);
}

static luo_status simulate(luo_cli *cli, luo_hydraulis_call *call, luo_length_policy policy,
                           const luo_hydraulis_step *step, luo_step_plan plan, double *seconds,
                           luo_err *err)
{
    const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
    const luo_step_place place = luo_hydraulis_place(call);
    luo_replicas replicas;
    luo_judgement judged;
    luo_plan *made;
    int64_t *length;
    int32_t n;
    LUO_TRY(replicas_of(cli, call, policy, &plan, &replicas, err));
    if (replicas.n == 0) return LUO_OK;
    LUO_TRY(padded_lengths(cli, call, policy, step, &plan, &length, &n, err));
    LUO_TRY(luo_step_plan_make(cli->arena, &place, &call->pool, &replicas, &plan, length, n, &made,
                               err));
    luo_err why = {0};
    LUO_TRY(luo_judge_plan(&judge, made, call->in.rule.most, call->rate, &judged, &why));
    *seconds = isfinite(judged.seconds) ? judged.seconds : (double)NAN;
    if (!isfinite(judged.seconds)) cannot_run(cli, call, policy, step, &why);
    return LUO_OK;
}

/* ---- steps ---- */

/* The planner's own: by simulated steps, or by the pool. */
static luo_status run_planner(luo_cli *cli, luo_hydraulis_call *call, int32_t current,
                              luo_hydraulis_step *step, luo_err *err)
{
    const luo_length_policy own = LUO_LENGTH_POLICY_HYDRAULIS;
    luo_judged_lengths judged = {.seconds = NAN};
    luo_step_opts opts = call->opts;
    opts.current = current;
    /* The simulator knows what moves; a pool does not. */
    for (int32_t p = 0; p < call->found.n && !call->judged; p++)
        LUO_TRY(luo_hydraulis_propagate(cli, call, p, err));
    if (!call->judged) opts.extra_ms = call->propagation_ms;
    const double start = luo_cli_wall_s();
    LUO_TRY(luo_step_choose(cli->arena, &call->pool, call->found.plan, call->found.n, step->length,
                            step->n, &opts, &step->plan, err));
    step->plan_ms = 1e3 * (luo_cli_wall_s() - start);
    if (call->judged) {
        const luo_judge judge = luo_plan_judge(call->model, call->cluster, &call->stack);
        const luo_step_place place = luo_hydraulis_place(call);
        luo_err why = {0};
        LUO_TRY(luo_judge_lengths(cli->arena, &judge, &place, &call->pool, call->found.plan,
                                  call->found.n, step->length, step->n, &opts, call->rate,
                                  call->extra_ms, &judged, &why));
        step->plan = judged.step;
        if (!isfinite(judged.seconds)) cannot_run(cli, call, own, step, &why);
    }
    LUO_TRY(luo_hydraulis_propagate(cli, call, step->plan.plan, err));
    step->event_ms[own] = step->plan.event;
    step->step_s[own] = isfinite(judged.seconds) ? judged.seconds : (double)NAN;
    return LUO_OK;
}

static luo_status run_rival(luo_cli *cli, luo_hydraulis_call *call, luo_length_policy policy,
                            luo_hydraulis_step *step, luo_err *err)
{
    luo_step_plan plan;
    luo_err why = {0};
    step->event_ms[policy] = step->step_s[policy] = NAN;
    const luo_status st =
        luo_length_policy_step(cli->arena, &call->rivals, policy, -1, step->length, step->n,
                               &step->event_ms[policy], &plan, &why);
    if (st == LUO_EINFEASIBLE) return LUO_OK;
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    return call->judged ? simulate(cli, call, policy, step, plan, &step->step_s[policy], err)
                        : LUO_OK;
}

static void measure(luo_hydraulis_call *call, luo_hydraulis_step *step)
{
    for (int32_t i = 0; i < step->n; i++) {
        step->tokens += step->length[i];
        if (step->length[i] > step->longest) step->longest = step->length[i];
    }
    step->floor = luo_step_floor_of(&call->pool, call->ndevices, step->length, step->n);
}

luo_status luo_hydraulis_steps(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    luo_length_source source = luo_length_source_open(call->in.seed);
    int32_t current = -1;
    if (call->nsteps == 0) return LUO_OK;
    LUO_TRY(choose_rivals(cli, call, err));
    call->step = LUO_NEW_N(cli->arena, luo_hydraulis_step, call->nsteps);
    call->extra_ms = LUO_NEW_N(cli->arena, double, call->found.n);
    if (!call->step || !call->extra_ms) return luo_err_nomem(err);
    for (int32_t s = 0; s < call->nsteps; s++) {
        luo_hydraulis_step *step = &call->step[s];
        LUO_TRY(luo_lengths_batch(cli->arena, &call->lengths, &call->in.rule, call->in.sequences,
                                  &source, &step->length, &step->n, err));
        measure(call, step);
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
