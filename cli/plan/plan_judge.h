/* plan_judge.h: plans of `luoshu plan` ranked by simulated steps: when, by whom, and what is
 * said of it, alike for all planners. */
#ifndef LUO_CLI_PLAN_PLAN_JUDGE_H
#define LUO_CLI_PLAN_PLAN_JUDGE_H
#include "cli/load.h"
#include "core/run/policy/judge.h"
#include "core/run/scenario.h"

/* Are plans simulated? Unasked on clusters of up to LUO_JUDGE_DEVICES devices. */
bool luo_plan_is_judged(luo_judged asked, const luo_cluster *cluster);
/* The simulator, as plans are judged with. Free its `known`. */
luo_judge luo_plan_judge(const luo_model *model, const luo_cluster *cluster,
                         const luo_stack *stack);
/* A sentence where the two differ by more than 10 %, else NULL. Owner: arena. */
const char *luo_plan_apart(luo_arena *arena, double step_s, double objective_s);
/* A sentence about usable devices that a plan leaves out; NULL: none. which: their set, or "". */
const char *luo_plan_idle(luo_arena *arena, int32_t n, const char *which);
#endif
