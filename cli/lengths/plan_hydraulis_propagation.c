/* What moves between the optimizer's layout and the plans of `luoshu plan hydraulis`, per plan
 * once. */
#include <math.h>

#include "cli/lengths/plan_hydraulis.h"

static luo_status make_room(luo_cli *cli, luo_hydraulis_call *call, luo_err *err)
{
    call->propagation = LUO_NEW_N(cli->arena, luo_propagation, call->found.n);
    call->propagation_ms = LUO_NEW_N(cli->arena, double, call->found.n);
    call->propagated = LUO_NEW_N(cli->arena, bool, call->found.n);
    if (!call->propagation || !call->propagation_ms || !call->propagated) return luo_err_nomem(err);
    return LUO_OK;
}

static luo_status moved_of(luo_cli *cli, luo_hydraulis_call *call, const luo_step_place *place,
                           const luo_pool *pool, const luo_replicas *replicas, int32_t plan,
                           luo_propagation *out, luo_err *err)
{
    const luo_propagation_in in = {place, &call->stack, call->params.grad_bytes,
                                   call->params.prop_overlap};
    luo_err why = {0};
    const luo_status st = luo_propagation_of(cli->arena, &in, pool, replicas, out, &why);
    if (st == LUO_ENOMEM) return luo_err_nomem(err);
    if (st == LUO_OK) return LUO_OK;
    luo_hydraulis_warn(cli, call, "plan %d: what moves from and to the optimizer is not known: %s",
                       plan, why.text);
    *out = (luo_propagation){.down_ms = NAN, .up_ms = NAN, .exposed_ms = NAN};
    return LUO_OK;
}

luo_status luo_hydraulis_propagate(luo_cli *cli, luo_hydraulis_call *call, int32_t plan,
                                   luo_err *err)
{
    const luo_step_place place = luo_hydraulis_place(call);
    if (!call->propagated) LUO_TRY(make_room(cli, call, err));
    if (call->propagated[plan]) return LUO_OK;
    luo_propagation *out = &call->propagation[plan];
    LUO_TRY(moved_of(cli, call, &place, &call->pool, &call->found.plan[plan], plan, out, err));
    call->propagation_ms[plan] = isfinite(out->exposed_ms) ? out->exposed_ms : 0;
    call->propagated[plan] = true;
    return LUO_OK;
}

luo_status luo_hydraulis_step_moves(luo_cli *cli, luo_hydraulis_call *call,
                                    luo_hydraulis_step *step, luo_err *err)
{
    const luo_step_place place = luo_hydraulis_step_place(call, step);
    if (luo_hydraulis_is_listed(call, step)) {
        step->moves = call->propagation[step->plan.plan];
        return LUO_OK;
    }
    return moved_of(cli, call, &place, &step->of->setup.pool, &step->replicas, step->plan.plan,
                    &step->moves, err);
}
