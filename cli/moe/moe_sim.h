/* moe_sim.h: `luoshu moe exchange` and `luoshu moe layer` (docs/moe.md). */
#ifndef LUO_CLI_MOE_MOE_SIM_H
#define LUO_CLI_MOE_MOE_SIM_H
#include "cli/cli.h"
#include "core/cost/cost.h"
#include "core/io/result/resultset.h"

/* Is it the `kind` of a summary.json of these? */
bool luo_moe_kind_is(const char *kind);

/* What both have. */
typedef struct luo_moe_sim {
    const luo_cluster *cluster;
    luo_stack stack;
    const char *dir;
    luo_set set; /* opened when all has been computed */
} luo_moe_sim;
/* Computes, takes the folder, writes the table and summary.json into it, says what is in them.
 * Errors: LUO_EUSAGE; those of luo_alltoall_links_of, of luo_moe_layer_of; LUO_EIO; LUO_ENOMEM;
 * err is empty where cli->diags has it. */
luo_status luo_moe_exchange_run(luo_cli *cli, luo_moe_sim *sim, luo_err *err);
luo_status luo_moe_layers(luo_cli *cli, luo_moe_sim *sim, luo_err *err);
#endif
