/* sync_run.h: options that `sim --sync` and `run --sync` read alike. */
#ifndef LUO_CLI_SYNC_SYNC_RUN_H
#define LUO_CLI_SYNC_SYNC_RUN_H
#include "cli/cli.h"
#include "core/sync/loop.h"

/* Errors of all: LUO_EUSAGE; LUO_ENOMEM. Owner: cli->arena. */

/* Options of one mode alone: are they given where they may be, and where they have to be? */
luo_status luo_sync_run_mode(const luo_args *args, luo_loop_mode mode, luo_err *err);
/* --compute-s: one number, or one for each worker; *out: by worker. */
luo_status luo_sync_run_compute(luo_cli *cli, int32_t workers, const double **out, luo_err *err);
/* Options of preduce. Pre: opts->workers. */
luo_status luo_sync_run_preduce(const luo_args *args, luo_loop_opts *opts, luo_err *err);
#endif
