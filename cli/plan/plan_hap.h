/* plan_hap.h: one call of `luoshu plan hap`, for its files. */
#ifndef LUO_CLI_PLAN_PLAN_HAP_H
#define LUO_CLI_PLAN_PLAN_HAP_H
#include "cli/plan/plan.h"
#include "core/plan/hap/baseline.h"
#include "core/plan/hap/hap_cluster.h"

typedef struct luo_hap_call {
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_dtype dtype;
    luo_hap_devices devices;
    int64_t sequences, tokens;
    const char *params; /* file, NULL: numbers of the cost model */
    luo_hap_job job;
    int baseline; /* luo_hap_baseline to report instead of a search; -1: none */
    luo_hap_graph *graph;
    luo_hap_numbers numbers;
    luo_hap_result *result;
    luo_hap_result *against[LUO_HAP_BASELINES]; /* NULL: there is none */
    luo_hap_cuts *cuts;                         /* at the result's shares */
    double planning_s;
} luo_hap_call;

/* The plan file of --out. Errors: as luo_hap_emit and luo_plan_write. */
luo_status luo_hap_call_write(luo_cli *cli, const luo_hap_call *call, luo_err *err);
void luo_hap_call_text(luo_cli *cli, const luo_hap_call *call);
void luo_hap_call_json(luo_cli *cli, const luo_hap_call *call);
#endif
