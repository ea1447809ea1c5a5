/* load.h: files named by options, the backends of this build, and common option values. */
#ifndef LUO_CLI_LOAD_H
#define LUO_CLI_LOAD_H
#include "cli/cli.h"
#include "core/cost/spread.h"
#include "core/hspmd/bsr/bsr.h"
#include "core/io/read/read.h"
#include "core/plan/compile.h"
#include "core/run/backend.h"

extern const luo_backend *const luo_backends[];
extern const int luo_nbackends;

/* --dead into a planner. Owner: cli->arena. */
luo_status luo_cli_dead(luo_cli *cli, luo_planner_opts *opts, luo_err *err);
/* What --dtype says; NULL: it is not given. Errors: LUO_EUSAGE. */
luo_status luo_cli_dtype(luo_cli *cli, const char **out, luo_err *err);
/* A model file, in the type that --dtype says. Errors are in cli->diags. */
luo_status luo_cli_model_file(luo_cli *cli, const char *path, luo_model **out);
/* The file of --model or --cluster, required by the verb. Errors are in cli->diags. */
luo_status luo_cli_model(luo_cli *cli, luo_model **out);
luo_status luo_cli_cluster(luo_cli *cli, luo_cluster **out);
/* One note where the plan pads the rows of the model's vocabulary. */
void luo_cli_say_vocab(luo_cli *cli, const luo_plan *plan, const luo_model *model);
/* Reads a plan, in the type that --dtype says, and checks it against model and cluster (either may
 * be NULL); findings are placed in the file. doc (may be NULL): the file. */
luo_status luo_cli_plan(luo_cli *cli, const char *path, const luo_model *model,
                        const luo_cluster *cluster, luo_plan **out, const luo_doc **doc);
/* The same of a plan that may have been made when the cluster had fewer devices: its numbers are
 * those of the first ones. Pre: cluster. */
luo_status luo_cli_plan_of_part(luo_cli *cli, const char *path, const luo_model *model,
                                const luo_cluster *cluster, luo_plan **out);
/* --stack, or the default. */
luo_status luo_cli_stack(luo_cli *cli, luo_stack *out);
/* luo_plan_compile with the program check, for a command; errors are placed in doc. stack: its
 * buckets, of plans that say nothing, and its rules of memory. */
luo_status luo_cli_compile(luo_cli *cli, const luo_plan *plan, const luo_doc *doc,
                           const luo_model *model, const luo_cluster *cluster,
                           const luo_stack *stack, luo_programs **out);
/* Device memory of a compiled plan. Errors: LUO_EOOM with its sentence; LUO_ENOMEM. */
luo_status luo_cli_fits(luo_cli *cli, const luo_plan *plan, const luo_cluster *cluster,
                        const luo_programs *set, luo_err *err);
/* Seconds of one step on the simulator (flow, folded). rate: slowdown per device instead of the
 * cluster's health, what is below 1 or not finite counts as 1; NULL: as the cluster has it. */
luo_status luo_cli_one_step(luo_cli *cli, const luo_programs *set, const luo_cluster *cluster,
                            const luo_stack *stack, luo_dtype dtype, const double *rate,
                            double *seconds);
/* The same of the cluster as it is, with where the time goes in the mean over the devices. */
luo_status luo_cli_step_parts(luo_cli *cli, const luo_programs *set, const luo_cluster *cluster,
                              const luo_stack *stack, luo_dtype dtype, double *seconds,
                              luo_parts *mean);
/* The range of that step, rate as for luo_cli_one_step. */
luo_status luo_cli_step_range(luo_cli *cli, const luo_programs *set, const luo_cluster *cluster,
                              const luo_stack *stack, luo_dtype dtype, const double *rate,
                              luo_time_range *out);
#endif
