#include "cli/plan/plan_rates.h"

#include <math.h>

#include "core/io/read/read.h"
#include "core/run/events/world.h"

luo_status luo_plan_rates(luo_cli *cli, const luo_cluster *cluster, double **rate, bool **candidate,
                          luo_err *err)
{
    const char *path = luo_args_get(&cli->args, "rates", NULL);
    const int32_t n = cluster->ndevices;
    luo_world *world;
    luo_rate_row *rows;
    int32_t nrows = 0;
    LUO_TRY(luo_world_new(cli->arena, cluster, &world, err));
    *rate = LUO_NEW_N(cli->arena, double, n);
    *candidate = LUO_NEW_N(cli->arena, bool, n);
    if (!*rate || !*candidate) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) {
        (*rate)[d] = world->up[d] ? world->slowdown[d] : (double)INFINITY;
        (*candidate)[d] = true;
    }
    for (int32_t i = 0; i < cluster->nstandby; i++) (*candidate)[cluster->standby[i]] = false;
    if (path) LUO_TRY(luo_read_rates(cli->arena, path, cluster, &rows, &nrows, &cli->diags));
    for (int32_t i = 0; i < nrows; i++) { /* a device's last one holds */
        const luo_rate_row *row = &rows[i];
        if (!world->up[row->device]) continue;
        (*rate)[row->device] = row->rate;
        (*candidate)[row->device] = row->state != LUO_RATE_STANDBY || row->rate < LUO_RATE_WATCHED;
    }
    return LUO_OK;
}
