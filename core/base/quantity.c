#include "core/base/quantity.h"

#include <assert.h>
#include <math.h>

static const luo_quantity table[LUO_QUANTITIES] = {
#define ROW(id, name, unit, lowest, highest) [id] = {name, unit, lowest, highest},
    LUO_QUANTITY_LIST(ROW)
#undef ROW
};

const luo_quantity *luo_quantity_at(luo_quantity_id id)
{
    assert(id > LUO_Q_NONE && id < LUO_QUANTITIES);
    return &table[id];
}

bool luo_quantity_holds(luo_quantity_id id, double v)
{
    const luo_quantity *quantity = luo_quantity_at(id);
    return v >= quantity->lowest && v <= quantity->highest;
}

double luo_quantity_clamp(luo_quantity_id id, double v)
{
    const luo_quantity *quantity = luo_quantity_at(id);
    return fmin(fmax(v, quantity->lowest), quantity->highest);
}

luo_limit luo_limit_for(const luo_limit *l, double v)
{
    luo_limit p = *l;
    if (l->of == LUO_Q_NONE) return p;
    p.lo = luo_quantity_at(l->of)->lowest / l->unit;
    p.hi = luo_quantity_at(l->of)->highest / l->unit;
    p.or_zero = l->or_zero && v > 0 && v < p.lo;
    if (l->or_zero && !p.or_zero) p.lo = 0;
    return p;
}

bool luo_limit_holds(const luo_limit *l, double v)
{
    const luo_limit p = luo_limit_for(l, v);
    return (p.open ? v > p.lo : v >= p.lo) && v <= p.hi;
}
