/* session.h: runs the policies of a scenario, each in a process of its own, as many at a time
 * as there are cores (real runs one after the other), shows progress, and makes the result set
 * (docs/results.md). */
#ifndef LUO_CLI_RUN_SESSION_H
#define LUO_CLI_RUN_SESSION_H
#include "cli/cli.h"
#include "core/io/result/resultset.h"
#include "core/run/driver.h"
#include "exec/options.h"

typedef struct luo_session {
    const luo_scenario *scenario;
    luo_run_opts run;
    const char *dir; /* of the result set */
    luo_set *set;    /* its folder, opened already; closed by the run. NULL: it opens its own */
    bool force, plots, keep_programs, verbose;
    bool bare;       /* a plan without a scenario */
    const char *seed; /* in place of the scenario's and of --seed; NULL: those */
    const luo_exec_options *exec; /* of a real run; its checkpoints are set per policy */
    int32_t at_once; /* policies; 0: one per core */
    double limit_s;  /* wall clock; 0: none */
    int32_t ninputs, noverrides;
    const char *const *inputs; /* paths, for config/ and the manifest */
    const char *const *overrides;
    int32_t nmore; /* overrides behind those of the command; before its inputs are read */
    const char *const *more;
} luo_session;

/* Fills dir/POLICY/ for every policy, then compare.csv, compare.json and plots/; prints the table
 * and the paths. Errors are in cli->diags: LUO_ENO a policy lost; LUO_ETIMEOUT --limit-s; the
 * worst of the runs. Signals: the rows written so far stay; exit 128 + n. */
luo_status luo_session_run(luo_cli *cli, const luo_session *session);
#endif
