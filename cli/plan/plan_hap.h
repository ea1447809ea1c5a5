/* plan_hap.h: one call of `luoshu plan hap`, for its files. */
#ifndef LUO_CLI_PLAN_PLAN_HAP_H
#define LUO_CLI_PLAN_PLAN_HAP_H
#include "cli/plan/plan.h"
#include "cli/range.h"
#include "core/plan/hap/baseline.h"
#include "core/plan/hap/hap_cluster.h"
#include "core/plan/hap_graph/hap_network.h"
#include "core/run/scenario.h"

typedef struct luo_hap_call {
    luo_model *model; /* NULL: network */
    int network;      /* luo_hap_network; -1: model */
    luo_cluster *cluster;
    luo_stack stack;
    luo_dtype dtype;
    luo_hap_devices devices;
    double *rate; /* of the cluster's devices, as luo_plan_rates */
    int64_t sequences, tokens;
    const char *params; /* file, NULL: numbers of the cost model */
    luo_hap_job job;
    bool whole;   /* lengths of pieces are whole numbers */
    int baseline; /* luo_hap_baseline to report instead of a search; -1: none */
    luo_hap_graph *graph;
    luo_hap_numbers numbers;
    luo_hap_result *result;
    luo_hap_result *against[LUO_HAP_BASELINES]; /* NULL: there is none */
    luo_hap_cuts *cuts;                         /* at the result's shares */
    luo_judged rank;
    double step_s; /* simulated; NAN: not asked, INFINITY: it does not run, see why */
    luo_time_range range; /* of step_s, where it is finite and the plan is the answer */
    const char *why;
    bool out_of_memory; /* why is that its program needs more than the planner has counted */
    double planning_s;
} luo_hap_call;

/* What the options say but of sizes and files. Errors: LUO_EUSAGE a value that is not known,
 * options that do not go together. */
luo_status luo_hap_call_options(const luo_args *args, luo_hap_call *call, luo_err *err);
/* Are the letters of --rules axes of the graph? Errors: LUO_EUSAGE. */
luo_status luo_hap_call_check_rules(const luo_hap_call *call, luo_err *err);

/* The program as a plan. Errors: as luo_hap_emit. Owner: the arena of cli. */
luo_status luo_hap_call_plan(luo_cli *cli, const luo_hap_call *call, luo_plan **out, luo_err *err);
/* Simulates a step of the result, if plans are simulated on this cluster. */
luo_status luo_hap_call_judge(luo_cli *cli, luo_hap_call *call, luo_err *err);
/* The result by simulated steps: the fastest of the best pairs of all starts, of equal ones the
 * first. Errors: as luo_hap_alternate. */
luo_status luo_hap_call_rank(luo_cli *cli, luo_hap_call *call, luo_err *err);

/* call->range, if the result was simulated. Errors: those of luo_judge_range_of_plan. */
luo_status luo_hap_call_range(luo_cli *cli, luo_hap_call *call, luo_err *err);

/* The plan file of --out. Errors: as luo_hap_emit and luo_plan_write. */
luo_status luo_hap_call_write(luo_cli *cli, const luo_hap_call *call, luo_err *err);
void luo_hap_call_text(luo_cli *cli, const luo_hap_call *call);
void luo_hap_call_json(luo_cli *cli, const luo_hap_call *call);
#endif
