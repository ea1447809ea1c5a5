/* sync_run.h: `luoshu sync`, simulated, and options that it reads as processes do. */
#ifndef LUO_CLI_SYNC_SYNC_RUN_H
#define LUO_CLI_SYNC_SYNC_RUN_H
#include "cli/cli.h"
#include "core/sync/loop.h"

/* Errors of all: LUO_EUSAGE; LUO_ENOMEM; err is empty where cli->diags has them. Owner:
 * cli->arena. */

/* Options of one mode alone: are they given where they may be, and where they have to be? */
luo_status luo_sync_run_mode(const luo_args *args, luo_loop_mode mode, luo_err *err);
/* --compute-s: one number, or one for each worker; *out: by worker. */
luo_status luo_sync_run_compute(luo_cli *cli, int32_t workers, const double **out, luo_err *err);
/* --straggler, with the file of a trace. Errors: also those of the file. */
luo_status luo_sync_straggler_read(luo_cli *cli, int32_t workers, luo_straggler *out,
                                   luo_err *err);
/* Workers under that mode, simulated, into --out. Errors: also LUO_ELOST, LUO_EIO, LUO_E2BIG. */
luo_status luo_sync_run(luo_cli *cli, luo_loop_mode mode, luo_err *err);
#endif
