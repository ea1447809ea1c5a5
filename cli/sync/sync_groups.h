/* sync_groups.h: --groups: how workers that average in groups find each other. */
#ifndef LUO_CLI_SYNC_SYNC_GROUPS_H
#define LUO_CLI_SYNC_SYNC_GROUPS_H
#include "cli/args.h"
#include "core/sync/loop.h"

/* Reads `wait_s=0.001,max_group=4,..` into opts; parts are those of `training` in a scenario
 * (docs/formats.md#training), and `comm` of processes. Pre: opts->mode and workers. host: as
 * processes. *comm: luo_sync_comm. Errors: LUO_EUSAGE, also a part that this mode or backend does
 * not have. */
luo_status luo_sync_groups_read(const luo_args *args, bool host, luo_loop_opts *opts, int *comm,
                                luo_err *err);
#endif
