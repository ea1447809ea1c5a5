#include "core/run/lengths/planning.h"

#include <math.h>

luo_status luo_planning_open(luo_arena *arena, double plan_s, int32_t workers, int32_t window,
                             luo_planning *out, luo_err *err)
{
    *out = (luo_planning){.plan_s = plan_s,
                          .workers = workers,
                          .window = window,
                          .free_s = LUO_NEW_N(arena, double, workers),
                          .start_s = LUO_NEW_N(arena, double, window + 1)};
    return out->free_s && out->start_s ? LUO_OK : luo_err_nomem(err);
}

/* From when on the plan of a step may be made. */
static double allowed(const luo_planning *p, int64_t step, double now)
{
    if (p->window == 0) return now;
    const double opened = step < p->window ? 0 : p->start_s[step % p->window];
    return step >= p->again ? fmax(opened, p->again_s) : opened;
}

double luo_planning_ready(luo_planning *p, int64_t step, double now)
{
    int32_t first = 0;
    for (int32_t w = 1; w < p->workers; w++)
        if (p->free_s[w] < p->free_s[first]) first = w;
    p->free_s[first] = fmax(p->free_s[first], allowed(p, step, now)) + p->plan_s;
    return p->free_s[first];
}

void luo_planning_began(luo_planning *p, int64_t step, double start_s)
{
    if (p->window > 0) p->start_s[step % p->window] = start_s;
}

void luo_planning_restart(luo_planning *p, int64_t step, double now)
{
    p->again = step;
    p->again_s = now;
    for (int32_t w = 0; w < p->workers; w++) p->free_s[w] = now;
}
