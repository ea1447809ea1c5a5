/* explain.h: the parts of `luoshu explain`. */
#ifndef LUO_CLI_EXPLAIN_EXPLAIN_H
#define LUO_CLI_EXPLAIN_EXPLAIN_H
#include "cli/load.h"
#include "core/cost/cost.h"

typedef struct luo_explain {
    luo_arena *arena;
    const luo_plan *plan;
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_programs *set;
    const luo_memory *memory; /* of the devices of set, in order */
    luo_cost_ctx cost;
    double closed_s;  /* a step by the closed form; 0: it does not know such plans */
    bool annotations; /* of parameters are printed, too */
    bool simulated;  /* a step was: */
    double step_s;   /* of it, on the cluster as it is */
    luo_parts parts; /* of it, mean over the devices */
    luo_time_range range; /* of step_s */
} luo_explain;

/* Prints the answer in a sentence, then stages, annotations, communication and memory of a plan. */
luo_status luo_explain_plan(FILE *out, const luo_explain *explain, luo_err *err);
/* The same numbers as keys of an open document. */
luo_status luo_explain_plan_json(luo_jsonw *json, const luo_explain *explain, luo_err *err);
/* Prints nodes, devices and links; dimensions and parameters; values with their sources. */
void luo_explain_cluster(FILE *out, const luo_cluster *cluster);
luo_status luo_explain_model(FILE *out, const luo_model *model, luo_err *err);
void luo_explain_profile(FILE *out, const luo_profile *profile);
#endif
