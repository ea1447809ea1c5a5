/* plan_auto.h: one call of `luoshu plan auto`, for its files. */
#ifndef LUO_CLI_PLAN_PLAN_AUTO_H
#define LUO_CLI_PLAN_PLAN_AUTO_H
#include "cli/plan/plan.h"
#include "cli/plan/plan_judge.h"
#include "cli/plan/plan_shares.h"
#include "cli/range.h"
#include "core/run/auto/auto.h"

typedef struct luo_auto_call {
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_scenario scenario; /* what malleus is asked with */
    luo_policy_spec spec;
    luo_auto_in in;
    luo_judge judge;
    double *rate;
    bool *candidate;
    luo_auto_answer answer;
    luo_time_range range[LUO_AUTO_PLANNERS]; /* of those that have a plan */
    uint64_t program;
    double faster_s[LUO_PLAN_LINKS]; /* the winner's step with such links; NAN: not asked */
    double planning_s;
} luo_auto_call;

/* The same where sequences differ in length (--lengths): policies for them, on drawn batches. */
luo_status luo_auto_of_lengths(luo_cli *cli, luo_err *err);
/* The same for a model with embedding tables: ways of keeping them, in core/run/tables/. */
luo_status luo_auto_no_tables(const luo_args *args, luo_err *err); /* of others: their options */
luo_status luo_auto_of_tables(luo_cli *cli, const luo_model *model, luo_err *err);
void luo_auto_text(luo_cli *cli, const luo_auto_call *call);
void luo_auto_json(luo_cli *cli, const luo_auto_call *call);
#endif
