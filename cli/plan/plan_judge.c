#include "cli/plan/plan_judge.h"

#include <math.h>

static const double APART = 0.10; /* of closed form and simulated step */

bool luo_plan_is_judged(luo_judged asked, const luo_cluster *cluster)
{
    if (asked != LUO_JUDGED_AUTO) return asked == LUO_JUDGED_SIMULATED;
    return cluster->ndevices <= LUO_JUDGE_DEVICES;
}

luo_judge luo_plan_judge(const luo_model *model, const luo_cluster *cluster, const luo_stack *stack)
{
    return (luo_judge){.simulator = luo_backend_find(luo_backends, luo_nbackends, "sim"),
                       .model = model,
                       .cluster = cluster,
                       .stack = stack,
                       .bucket = stack->bucket,
                       .comm = LUO_COMM_FLOW};
}

const char *luo_plan_apart(luo_arena *arena, double step_s, double objective_s)
{
    if (fabs(objective_s - step_s) <= APART * step_s) return NULL;
    return luo_arena_printf(arena, "the step is %.6g s when simulated and %.6g s by the "
                            "objective.", step_s, objective_s);
}

const char *luo_plan_idle(luo_arena *arena, int32_t n, const char *which)
{
    if (n == 0) return NULL;
    return luo_arena_printf(arena, "usable devices that stay idle: %d%s%s; every plan that was "
                            "tried with more of them is slower.", n, which[0] ? ", " : "", which);
}
