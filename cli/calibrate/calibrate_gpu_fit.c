/* calibrate_gpu_fit.c: measured rows and facts to the constants of a profile and a stack. */
#include <math.h>
#include <string.h>

#include "cli/calibrate/calibrate_gpu.h"

const char *luo_gpu_fact_text(const luo_measured *measured, const char *key)
{
    const size_t n = strlen(key);
    for (int32_t i = 0; i < measured->nfacts; i++)
        if (strncmp(measured->facts[i].name, key, n) == 0 && measured->facts[i].name[n] == ' ')
            return measured->facts[i].name + n + 1;
    return "";
}

const char *luo_gpu_name(const luo_gpu_calibration *calibration)
{
    const char *device = luo_gpu_fact_text(&calibration->rows, "device");
    return *device || !calibration->known ? device : calibration->known->name;
}

static luo_op_time *calibration_rows(const luo_measured *measured, int32_t *n)
{
    luo_op_time *rows = LUO_NEW_N(measured->arena, luo_op_time, measured->nops);
    *n = 0;
    for (int32_t i = 0; rows && i < measured->nops; i++)
        if (!measured->ops[i].validation) rows[(*n)++] = measured->ops[i].row;
    return rows;
}

static double fastest_stream(const luo_measured *measured)
{
    double most = 0;
    for (int32_t i = 0; i < measured->nops; i++) {
        const luo_op_time *time = &measured->ops[i].row;
        if (!measured->ops[i].validation && strcmp(time->op, "stream") == 0 && time->seconds > 0)
            most = fmax(most, (double)time->m / time->seconds);
    }
    return most;
}

/* Steps of networks: `step_gpu_s NAME`, `step_kernels NAME`, `step_s NAME`. */
static luo_host_row *host_rows(const luo_measured *measured, int32_t *n)
{
    luo_host_row *rows = LUO_NEW_N(measured->arena, luo_host_row, measured->nfacts);
    *n = 0;
    for (int32_t i = 0; rows && i < measured->nfacts; i++) {
        if (strncmp(measured->facts[i].name, "step_s ", 7) != 0) continue;
        const char *name = measured->facts[i].name + 7;
        const char *gpu = luo_arena_printf(measured->arena, "step_gpu_s %s", name);
        const char *kernels = luo_arena_printf(measured->arena, "step_kernels %s", name);
        if (!gpu || !kernels) return NULL;
        const double count = luo_measured_fact(measured, kernels, 0);
        /* a stamp begins where the last kernel ended: a launch more than what is between stamps */
        const double stamps_s = 1e-6 * fmax(0, luo_measured_fact(measured, "launch_us", 0)) * count;
        const luo_host_row row = {luo_measured_fact(measured, gpu, 0) - stamps_s, count,
                                  measured->facts[i].value};
        if (row.gpu_s > 0 && row.kernels > 0 && row.step_s > 0) rows[(*n)++] = row;
    }
    return rows;
}

/* Collectives of several nodes, measured on --cluster. */
static luo_status fit_net(luo_gpu_calibration *calibration, luo_err *err)
{
    const luo_measured *measured = &calibration->rows;
    luo_net_row *rows = LUO_NEW_N(measured->arena, luo_net_row, measured->ncomm);
    int32_t n = 0;
    if (!rows) return luo_err_nomem(err);
    for (int32_t i = 0; i < measured->ncomm; i++) {
        const struct luo_measured_comm *comm = &measured->comm[i];
        if (comm->coll < 0 || comm->nodes < 2 || comm->validation) continue;
        if (!calibration->cluster)
            return luo_err_set(err, LUO_EINPUT,
                               "the tables have collectives of %d nodes, and how fast those reach "
                               "the fabric is not told; give --cluster.",
                               (int)comm->nodes);
        const luo_node_group *group = &calibration->cluster->groups[0];
        const int32_t members = comm->devices / comm->nodes;
        const double rate = luo_cost_node_bytes_per_s(group);
        if (members < 1 || !(rate > 0)) continue;
        rows[n++] = (luo_net_row){
            comm->coll, comm->nodes, members,       (double)members / group->devices_per_node,
            rate,       comm->bytes, comm->seconds, 0};
    }
    calibration->net_rows = n;
    if (n) calibration->net = luo_fit_net(rows, n);
    return LUO_OK;
}

/* Tables of communication alone: the constants are those of --profile. */
static void keep_known(luo_gpu_calibration *calibration)
{
    const luo_profile *profile = calibration->known;
    const double value[] = {[LUO_GPU_LAUNCH] = 1e6 * profile->launch_s,
                            [LUO_GPU_GEMM_RATIO] = profile->gemm_ratio,
                            [LUO_GPU_GEMM_DEPTH] = profile->gemm_depth,
                            [LUO_GPU_MEMORY_RATIO] = profile->memory_ratio,
                            [LUO_GPU_ATTENTION_F] = profile->attention_forward_ratio,
                            [LUO_GPU_ATTENTION_B] = profile->attention_backward_ratio,
                            [LUO_GPU_ATTENTION_DEPTH] = profile->attention_depth};
    memcpy(calibration->fit.value, value, sizeof value);
    memcpy(calibration->fit.peak_flops, profile->peak_flops, sizeof profile->peak_flops);
}

luo_status luo_gpu_calibration_fit(luo_gpu_calibration *calibration, luo_err *err)
{
    int32_t n = 0;
    const double launch_us = luo_measured_fact(&calibration->rows, "launch_us", -1);
    luo_gpu_base base = {.sm_count = luo_measured_fact(&calibration->rows, "sm_count", 0),
                         .launch_s = launch_us < 0 ? -1 : 1e-6 * launch_us};
    if (calibration->known) {
        memcpy(base.peak_flops, calibration->known->peak_flops, sizeof base.peak_flops);
        base.memory_bytes_per_s = calibration->known->memory_bytes_per_s;
        if (!(base.sm_count > 0)) base.sm_count = calibration->known->sm_count;
    }
    const luo_op_time *rows = calibration_rows(&calibration->rows, &n);
    const luo_host_row *steps = host_rows(&calibration->rows, &calibration->host_rows);
    if (!rows || !steps) return luo_err_nomem(err);
    if (calibration->rows.nops == 0 && calibration->known)
        keep_known(calibration);
    else
        LUO_TRY(luo_gpu_fit_rows(&(luo_gpu_rows){rows, n}, &base, calibration->seed,
                                 &calibration->fit, err));
    calibration->memory_measured = !(base.memory_bytes_per_s > 0);
    calibration->memory_bytes_per_s =
        calibration->memory_measured ? fastest_stream(&calibration->rows) : base.memory_bytes_per_s;
    LUO_TRY(fit_net(calibration, err));
    if (calibration->host_rows > 0)
        calibration->host_error = luo_fit_host(steps, calibration->host_rows, calibration->seed,
                                               &calibration->host_launch_us,
                                               &calibration->host_exponent, calibration->host_weak);
    return LUO_OK;
}
