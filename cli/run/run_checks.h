/* run_checks.h: what a real run can know before its first process is started. */
#ifndef LUO_CLI_RUN_RUN_CHECKS_H
#define LUO_CLI_RUN_RUN_CHECKS_H
#include "cli/run/session.h"

typedef struct luo_real_backend {
    const luo_backend *row;
    const char *program; /* of a rank */
    luo_dtype refused;
    const char *computes; /* in the others */
    bool gpus;
} luo_real_backend;

/* By --backend; the first when it is not given. Errors: LUO_EUSAGE. */
luo_status luo_real_backend_of(const luo_args *args, const luo_real_backend **out, luo_err *err);
/* Plans and model are in a type that the backend computes in. Errors: LUO_EINPUT. */
luo_status luo_run_check_dtype(const luo_scenario *sc, const luo_real_backend *backend,
                               luo_err *err);
/* Kernels compute the model, on sequences as long as data or plans have. Errors: LUO_EINPUT. */
luo_status luo_run_check_model(const luo_scenario *sc, luo_err *err);
/* No policy is a bound, which can only be simulated. Errors: LUO_EINPUT. */
luo_status luo_run_check_bounds(const luo_scenario *sc, luo_err *err);

/* With checkpoints, --save-init or --load: has every parameter of the model a place in a Hugging
 * Face file? Errors: LUO_EUNREP, LUO_ENOMEM. */
luo_status luo_run_check_names(luo_cli *cli, const luo_scenario *sc,
                               const luo_exec_options *options, luo_err *err);
/* With --resume: a whole checkpoint of this model and precision; another seed or other data is a
 * warning. Errors: LUO_EINPUT, LUO_EPARSE; LUO_ENOMEM. */
luo_status luo_run_check_resume(luo_cli *cli, const luo_scenario *sc,
                                const luo_exec_options *options, luo_err *err);
/* Processes of a bare plan that no death can bring onto other devices: up to the last device of the
 * plan and of the cluster's standby. 0: out of memory. */
int32_t luo_run_ranks(luo_cli *cli, const luo_scenario *sc, luo_err *err);
#endif
