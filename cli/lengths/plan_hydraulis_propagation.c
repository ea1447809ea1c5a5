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

luo_status luo_hydraulis_propagate(luo_cli *cli, luo_hydraulis_call *call, int32_t plan,
                                   luo_err *err)
{
    const luo_step_place place = luo_hydraulis_place(call);
    const luo_propagation_in in = {&place, &call->stack, call->params.grad_bytes,
                                   call->params.prop_overlap};
    luo_err why = {0};
    if (!call->propagated) LUO_TRY(make_room(cli, call, err));
    if (call->propagated[plan]) return LUO_OK;
    luo_propagation *out = &call->propagation[plan];
    const luo_status st =
        luo_propagation_of(cli->arena, &in, &call->pool, &call->found.plan[plan], out, &why);
    if (st == LUO_ENOMEM) return luo_err_nomem(err);
    if (st != LUO_OK) {
        luo_hydraulis_warn(cli, call,
                           "plan %d: what moves from and to the optimizer is not known: %s", plan,
                           why.text);
        *out = (luo_propagation){.down_ms = NAN, .up_ms = NAN, .exposed_ms = NAN};
    }
    call->propagation_ms[plan] = isfinite(out->exposed_ms) ? out->exposed_ms : 0;
    call->propagated[plan] = true;
    return LUO_OK;
}
