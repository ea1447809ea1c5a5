/* plan_rates.h: what the cluster's health and --rates say of the devices. */
#ifndef LUO_CLI_PLAN_PLAN_RATES_H
#define LUO_CLI_PLAN_PLAN_RATES_H
#include "cli/load.h"

static const double LUO_RATE_WATCHED = 1.2; /* docs/planners.md#malleus */

/* Per device: *rate, slowdown as the table has it, INFINITY where it is down; *candidate: may it
 * hold layers? The cluster's standby devices stay out unless the table names them; a device that
 * stands by in the table is taken again when it is fast. What is down in the cluster file stays
 * down. Errors: those of the table, in cli->diags; LUO_ENOMEM. Owner: cli->arena. */
luo_status luo_plan_rates(luo_cli *cli, const luo_cluster *cluster, double **rate, bool **candidate,
                          luo_err *err);
#endif
