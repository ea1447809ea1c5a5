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
static double allowed(const luo_planning *planning, int64_t step, double now)
{
    if (planning->window == 0) return now;
    const double opened = step < planning->window ? 0 : planning->start_s[step % planning->window];
    return step >= planning->again ? fmax(opened, planning->again_s) : opened;
}

double luo_planning_ready(luo_planning *planning, int64_t step, double now)
{
    int32_t first = 0;
    for (int32_t w = 1; w < planning->workers; w++)
        if (planning->free_s[w] < planning->free_s[first]) first = w;
    planning->free_s[first] =
        fmax(planning->free_s[first], allowed(planning, step, now)) + planning->plan_s;
    return planning->free_s[first];
}

void luo_planning_began(luo_planning *planning, int64_t step, double start_s)
{
    if (planning->window > 0) planning->start_s[step % planning->window] = start_s;
}

void luo_planning_restart(luo_planning *planning, int64_t step, double now)
{
    planning->again = step;
    planning->again_s = now;
    for (int32_t w = 0; w < planning->workers; w++) planning->free_s[w] = now;
}
