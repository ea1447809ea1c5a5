/* plan_uniform.h: one call of `luoshu plan uniform`, for its files. */
#ifndef LUO_CLI_PLAN_PLAN_UNIFORM_H
#define LUO_CLI_PLAN_PLAN_UNIFORM_H
#include "cli/plan/plan.h"
#include "cli/plan/plan_judge.h"
#include "cli/range.h"

enum { LUO_UNIFORM_WARNINGS = 4 };

typedef struct luo_uniform_call {
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_uniform_opts opts;
    luo_judged judged;
    int32_t top; /* rows wanted */
    luo_uniform_result *found;
    int32_t nfound;
    luo_judged_plan *plan; /* fastest first; by closed form: only the first has been simulated */
    int32_t nplans;
    bool by_simulation;
    luo_programs *set; /* of the first */
    luo_time_range range; /* of the first's simulated step */
    const char *apart;    /* of the second by simulated step: is it apart from the first? "" */
    double planning_s;
    const luo_uniform_result *closed; /* best by closed form of those that can run */
    int nwarnings;
    const char *warning[LUO_UNIFORM_WARNINGS];
} luo_uniform_call;

/* All that options say of uniform plans; what they leave open is searched. */
luo_status luo_uniform_dimensions(luo_cli *cli, luo_uniform_opts *opts, luo_err *err);
/* Rows that are printed and written. */
int32_t luo_uniform_rows(const luo_uniform_call *call);
void luo_uniform_text(luo_cli *cli, const luo_uniform_call *call);
void luo_uniform_json(luo_cli *cli, const luo_uniform_call *call);
#endif
