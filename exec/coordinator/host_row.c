/* host_row.c: the table. */
#include <stdio.h>

#include "exec/coordinator/coord.h"
#include "exec/coordinator/host.h"

static luo_status host_describe(char *text, size_t size)
{
    snprintf(text, size,
             "host: one process a device through MPI, OpenBLAS with one thread each, "
             "f32 or f64, wall clock");
    return LUO_OK;
}

static luo_status host_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err)
{
    if (config->dtype != LUO_F32 && config->dtype != LUO_F64)
        return luo_err_set(err, LUO_EINPUT,
                           "the plan's dtype is bf16; the host backend computes "
                           "in f32 and f64.");
    return luo_coord_open(config, out, err);
}

const luo_backend luo_host_backend = {
    .name = "host",
    .caps = LUO_CAP_DATA | LUO_CAP_LINK_EVENTS | LUO_CAP_PARTS,
    .describe = host_describe,
    .open = host_open,
    .close = luo_coord_close,
    .run_ranks = luo_coord_run,
    .state = luo_coord_state,
    .now = luo_coord_now,
    .sleep_until = luo_coord_sleep_until,
};
