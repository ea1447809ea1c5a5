/* cli/run_checks.h: what a real run can know before its first process is started. */
#ifndef LUO_CLI_RUN_CHECKS_H
#define LUO_CLI_RUN_CHECKS_H
#include "cli/session.h"

/* With checkpoints, --save-init or --load: has every parameter of the model a place in a Hugging
 * Face file? Errors: LUO_EUNREP, LUO_ENOMEM. */
luo_status luo_run_check_names(luo_cli *cli, const luo_scenario *sc, const luo_exec_options *x,
                               luo_err *err);
/* With --resume: a whole checkpoint of this model and precision; another seed or other data is a
 * warning. Errors: LUO_EINPUT, LUO_EPARSE; LUO_ENOMEM. */
luo_status luo_run_check_resume(luo_cli *cli, const luo_scenario *sc, const luo_exec_options *x,
                                luo_err *err);
/* Processes of a bare plan that no death can bring onto other devices: up to the last device of the
 * plan and of the cluster's standby. 0: out of memory. */
int32_t luo_run_ranks(luo_cli *cli, const luo_scenario *sc, luo_err *err);
#endif
