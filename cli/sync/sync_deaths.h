/* sync_deaths.h: --die: who dies when. */
#ifndef LUO_CLI_SYNC_SYNC_DEATHS_H
#define LUO_CLI_SYNC_SYNC_DEATHS_H
#include "cli/sync/sync_cost.h"

/* Reads `3=12.5,server=30` into opts, by time ascending: a worker, `server` (one of them; where
 * there may be some) or `controller` (of preduce), and seconds. Errors: LUO_EUSAGE; LUO_ENOMEM. */
luo_status luo_sync_deaths_read(luo_cli *cli, luo_loop_mode mode, const luo_sync_cost *cost,
                                luo_loop_opts *opts, luo_err *err);
#endif
