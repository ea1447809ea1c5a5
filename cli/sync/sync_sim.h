/* sync_sim.h: `luoshu sim` without a file: an option selects what is simulated instead of a
 * scenario. A selector is a row of the table in sync_sim.c and one function. */
#ifndef LUO_CLI_SYNC_SYNC_SIM_H
#define LUO_CLI_SYNC_SYNC_SIM_H
#include "cli/cli.h"
#include "core/sync/straggler.h"

typedef struct luo_sync_sim {
    const char *name;           /* of the option that selects it */
    const char *const *options; /* that it takes beside itself and --json, --quiet, --color; ended
                                 * by NULL */
    luo_status (*run)(luo_cli *cli, luo_err *err); /* err is empty where cli->diags has it */
} luo_sync_sim;

/* The selector among the options; NULL: none is given. */
const luo_sync_sim *luo_sync_sim_find(const luo_args *args);
/* Checks that the selector takes every option that is given, and runs it. Errors are in
 * cli->diags. */
luo_status luo_sync_sim_run(luo_cli *cli, const luo_sync_sim *sim);
/* With a file. Errors: LUO_EUSAGE an option that is a selector's alone. */
luo_status luo_sync_sim_none(const luo_args *args, luo_err *err);

/* --straggler, of several selectors, with the file of a trace. Errors: LUO_EUSAGE; those of the
 * file, which are in cli->diags. */
luo_status luo_sync_straggler_read(luo_cli *cli, int32_t workers, luo_straggler *out,
                                   luo_err *err);

/* Selectors: --sync (sync_run.c); --embed: embed_sim.h; --moe: cli/moe/moe_sim.h. */
extern const char *const luo_sync_run_options[];
luo_status luo_sync_run(luo_cli *cli, luo_err *err);
#endif
