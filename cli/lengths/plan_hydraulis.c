/* plan_hydraulis.c: `luoshu plan hydraulis`: proposals for a distribution of lengths, then steps of
 * drawn batches under every policy. */
#include "cli/lengths/plan_hydraulis.h"

#include <math.h>
#include <string.h>

#include "cli/run/progress.h"

luo_step_place luo_hydraulis_place(const luo_hydraulis_call *call)
{
    return (luo_step_place){.model = call->model,
                            .cluster = call->cluster,
                            .ndevices = call->ndevices,
                            .devices = call->devices,
                            .dtype = call->model->dtype,
                            .ctx = call->in.rule.most,
                            .layout = &call->layout,
                            .layout_devices = call->layout_devices};
}

luo_step_place luo_hydraulis_step_place(const luo_hydraulis_call *call,
                                        const luo_hydraulis_step *step)
{
    luo_step_place place = luo_hydraulis_place(call);
    if (!place.layout_devices) place.layout_devices = call->devices;
    place.devices = step->devices;
    return place;
}

luo_status luo_hydraulis_step_frame(luo_cli *cli, const luo_hydraulis_call *call,
                                    const luo_hydraulis_step *step, luo_plan **out, luo_err *err)
{
    const luo_step_place place = luo_hydraulis_step_place(call, step);
    return luo_step_plan_frame(cli->arena, &place, &step->of->setup.pool, &step->replicas, out,
                               err);
}

/* Replicas take the devices in their order. */
static luo_status set_speeds(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    double *rate = LUO_NEW_N(cli->arena, double, call->ndevices);
    if (!rate) return luo_err_nomem(err);
    for (int32_t i = 0; i < call->ndevices; i++)
        rate[i] = call->type[i] * call->rate[call->devices[i]];
    for (int32_t p = 0; p < call->found.n; p++)
        luo_step_speeds(&call->pool, &call->found.plan[p], rate);
    call->place_rate = rate;
    return LUO_OK;
}

/* A sequence in the table that no entry holds can never be planned. */
static luo_status check_longest(const luo_hydraulis_call *call, luo_err *err)
{
    const luo_histogram *histogram = &call->found.histogram;
    int64_t most = 0;
    for (int32_t k = 0; k < call->pool.n; k++)
        if (luo_pool_devices(&call->pool.entry[k]) <= call->ndevices &&
            call->pool.entry[k].cap > most)
            most = call->pool.entry[k].cap;
    if (histogram->n == 0 || histogram->length[histogram->n - 1] <= most) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "%lld tokens exceed every strategy (largest cap %lld); a smaller --ctx, "
                       "--context-parallel or more memory is needed.",
                       (long long)histogram->length[histogram->n - 1], (long long)most);
}

/* The best as one plan for all batches: on batches like those of the steps, or by its proposal. */
static int32_t best_plan(const luo_hydraulis_call *call)
{
    int32_t best = 0;
    if (call->nsteps > 0) return call->rivals.plan;
    for (int32_t p = 1; p < call->found.n; p++)
        if (call->found.ms[p] < call->found.ms[best]) best = p;
    return best;
}

static luo_status write_plan(luo_cli *cli, luo_hydraulis_call *call, int32_t k, int32_t p,
                             const luo_plan *plan, luo_err *err)
{
    call->written[k] = p;
    if (k == 0) call->plan_hash = luo_plan_hash(plan);
    return luo_plan_write(cli, k, plan, err);
}

/* The best one first, then the others in their order. Where the last step has a plan that is not
 * in the list, that is the first. */
static luo_status write_plans(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    int64_t top;
    int32_t k = 0;
    const luo_step_place place = luo_hydraulis_place(call);
    const luo_hydraulis_step *last = call->nsteps > 0 ? &call->step[call->nsteps - 1] : NULL;
    const bool own = last && !luo_hydraulis_is_listed(call, last);
    LUO_TRY(luo_args_int(&cli->args, "top", 1, 1, 1000, &top, err));
    call->nwritten = top < call->found.n + own ? (int32_t)top : call->found.n + own;
    call->written = LUO_NEW_N(cli->arena, int32_t, call->nwritten);
    if (!call->written) return luo_err_nomem(err);
    luo_plan *plan;
    if (own) {
        LUO_TRY(luo_hydraulis_step_frame(cli, call, last, &plan, err));
        LUO_TRY(write_plan(cli, call, k++, -1, plan, err));
    }
    const int32_t best = best_plan(call);
    for (int32_t i = 0; k < call->nwritten; i++) {
        const int32_t p = i == 0 ? best : i <= best ? i - 1 : i;
        LUO_TRY(
            luo_step_plan_frame(cli->arena, &place, &call->pool, &call->found.plan[p], &plan, err));
        LUO_TRY(write_plan(cli, call, k++, p, plan, err));
    }
    return LUO_OK;
}

luo_status luo_hydraulis_plan(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    const double start = luo_cli_wall_s();
    LUO_TRY(luo_candidates_make(cli->arena, &call->in, &call->found, err));
    call->proposal_s = luo_cli_wall_s() - start;
    LUO_TRY(check_longest(call, err));
    LUO_TRY(set_speeds(cli, call, err));
    return luo_hydraulis_rivals(cli, call, err);
}

static luo_status answer(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    LUO_TRY(luo_hydraulis_read(cli, call, err));
    LUO_TRY(luo_hydraulis_plan(cli, call, err));
    LUO_TRY(luo_hydraulis_steps(cli, call, err));
    LUO_TRY(write_plans(cli, call, err));
    if (cli->as_json)
        luo_hydraulis_json(cli, call);
    else
        luo_hydraulis_text(cli, call);
    return LUO_OK;
}

luo_status luo_hydraulis_answer(luo_cli *cli,
                                luo_status (*how)(luo_cli *, luo_hydraulis_call *, luo_err *),
                                luo_err *err)
{
    luo_hydraulis_call *call = LUO_NEW(cli->arena, luo_hydraulis_call);
    if (!call) return luo_err_nomem(err);
    const luo_status st = how(cli, call, err);
    luo_orders_free(&call->orders);
    return st;
}

luo_status luo_plan_hydraulis_run(luo_cli *cli, luo_err *err)
{
    return luo_hydraulis_answer(cli, answer, err);
}
