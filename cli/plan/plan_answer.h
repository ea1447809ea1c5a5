/* plan_answer.h: the sentence above what a planner prints: what to choose, how long it takes. */
#ifndef LUO_CLI_PLAN_PLAN_ANSWER_H
#define LUO_CLI_PLAN_PLAN_ANSWER_H
#include "cli/cli.h"
#include "core/cost/spread.h"
#include "core/plan/plan.h"

typedef struct luo_plan_answer {
    const char *file; /* that the plan was written to */
    const luo_plan *plan;
    const luo_model *model;
    const luo_cluster *cluster;
    double step_s; /* < 0: not known */
    bool closed;   /* step_s is the closed form's; else simulated */
    const luo_time_range *range; /* of a simulated step, else NULL */
    double memory_ratio;         /* of the fullest device; < 0: not told */
    const char *next;            /* what the second is of; NULL: there is none */
    double next_s;
    const char *apart; /* of the second: luo_cli_range_apart; "": not known */
} luo_plan_answer;

/* Prints it, to nobody where the document is asked for. */
void luo_plan_answer_print(luo_cli *cli, const luo_plan_answer *answer);
/* `8 x (tp 2, pp 4, 16 micro-batches of 1) + ..`; of more than a few kinds of pipelines how many
 * there are and the ends of their sizes. */
void luo_plan_shape_say(luo_str *text, const luo_plan *plan);
#endif
