/* gate.c: what a gate may be, its capacity and the weight of its auxiliary loss. */
#include "core/graph/moe/gate.h"

#include <math.h>

const char *luo_gate_kind_name(luo_gate_kind kind)
{
    static const char *const names[] = {LUO_GATE_LIST(LUO_WORD_TEXT)};
    return names[kind];
}

double luo_gate_kept(double capacity_factor)
{
    return capacity_factor > 0 ? fmin(1, capacity_factor) : 1;
}

int64_t luo_gate_capacity(const luo_gate *gate, int64_t tokens)
{
    return gate->k * (int64_t)ceil((double)tokens / gate->experts * gate->capacity_factor);
}

double luo_gate_aux_weight(const luo_gate *gate, double aux_loss, int64_t tokens, int64_t step)
{
    const double each = gate->kind == LUO_GATE_KTOP1 ? gate->experts / gate->k : gate->experts;
    if (!(step > 0 && tokens > 0)) return 0;
    return aux_loss *
           (gate->kind == LUO_GATE_SAM ? 1 / (double)step : each / ((double)tokens * (double)step));
}

luo_status luo_gate_check(const luo_gate *gate, luo_err *err)
{
    const int32_t groups = gate->groups > 0 ? gate->groups : 1;
    const int32_t kept = gate->groups_kept > 0 ? gate->groups_kept : groups;
    const int32_t each = gate->experts / groups;
    if (gate->experts < 1 || gate->k < 1 || gate->k > gate->experts)
        return luo_err_set(err, LUO_EINPUT, "gate: k is %d but there are %d experts.", (int)gate->k,
                           (int)gate->experts);
    if (gate->k > LUO_GATE_CHOICES)
        return luo_err_set(err, LUO_EINPUT, "gate: k is %d; up to %d are taken.", (int)gate->k,
                           (int)LUO_GATE_CHOICES);
    if ((gate->kind == LUO_GATE_HASH || gate->kind == LUO_GATE_BALANCED) && gate->k != 1)
        return luo_err_set(err, LUO_EINPUT, "gate: k is %d; this gate gives 1.", (int)gate->k);
    if (gate->experts % groups || kept > groups)
        return luo_err_set(err, LUO_EINPUT, "gate: %d groups, %d kept, do not fit %d experts.",
                           (int)groups, (int)kept, (int)gate->experts);
    if (gate->kind == LUO_GATE_KTOP1 && gate->experts % gate->k)
        return luo_err_set(err, LUO_EINPUT, "gate: %d prototypes do not divide %d experts.",
                           (int)gate->k, (int)gate->experts);
    if (gate->k > each * (gate->kind == LUO_GATE_SAM ? 1 : kept))
        return luo_err_set(err, LUO_EINPUT, "gate: k is %d but %d experts can be chosen.",
                           (int)gate->k, (int)(each * (gate->kind == LUO_GATE_SAM ? 1 : kept)));
    return LUO_OK;
}
