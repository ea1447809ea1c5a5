/* cuda_row.c: the table. The coordinator is that of host; only its ranks know CUDA. */
#include <stdio.h>

#include "exec/coordinator/coord.h"
#include "exec/coordinator/cuda.h"

static luo_status cuda_describe(char *text, size_t size)
{
    snprintf(text, size,
             "cuda: one process a GPU through MPI, cuBLASLt and NCCL, bf16 with f32 master "
             "weights, or f32, wall clock");
    return LUO_OK;
}

static luo_status cuda_open(const luo_backend_config *config, luo_backend_state **out, luo_err *err)
{
    if (config->dtype != LUO_F32 && config->dtype != LUO_BF16)
        return luo_err_set(err, LUO_EINPUT,
                           "the plan's dtype is f64; the cuda backend computes in bf16 and f32.");
    return luo_coord_open(config, out, err);
}

const luo_backend luo_cuda_backend = {
    .name = "cuda",
    .caps = LUO_CAP_DATA | LUO_CAP_LINK_EVENTS | LUO_CAP_ISSUE_ORDER | LUO_CAP_PARTS,
    .describe = cuda_describe,
    .open = cuda_open,
    .close = luo_coord_close,
    .run_ranks = luo_coord_run,
    .state = luo_coord_state,
    .now = luo_coord_now,
    .sleep_until = luo_coord_sleep_until,
};
