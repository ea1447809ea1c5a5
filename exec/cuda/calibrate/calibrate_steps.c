/* calibrate_steps.c: steps of small networks: what their operations take on the device,
 * and what a step takes in all. What is between, the host costs. */
#include <stdlib.h>

#include "core/base/stats.h"
#include "exec/calibrate/calibrate_trial.h"
#include "exec/cuda/calibrate/calibrate.h"
#include "exec/cuda/executor.h"

/* From such whose host cannot keep up to such that hide it. */
static const luo_network networks[] = {
    {"h64", 64, 160, 1, 1, 64, 256, 64, 1, 2, false},
    {"h512", 512, 1376, 8, 8, 64, 8192, 512, 1, 4, false},
    {"h1024", 1024, 2816, 16, 16, 64, 32000, 512, 1, 4, false},
    {"h1024.b4", 1024, 2816, 16, 16, 64, 32000, 1024, 4, 4, false},
    {"h2048", 2048, 5632, 16, 16, 128, 32000, 1024, 1, 4, false},
    {"h2048.b4", 2048, 5632, 16, 16, 128, 32000, 2048, 4, 4, false},
    {"h768.g", 768, 3072, 12, 12, 64, 50304, 1024, 2, 4, true},
};
enum { NETWORKS = sizeof networks / sizeof *networks, STEPS = 12 };

/* The first two steps warm up, and a graph may be captured in them. */
static luo_status time_steps(gpu_bench *bench, luo_trial_run *run, bool trace, double *step_s,
                             double *device_s, int32_t *kernels)
{
    const int32_t n = bench->m->networks < INT32_MAX ? 1 : STEPS;
    double whole[STEPS] = {0}, inside[STEPS] = {0};
    luo_step_report report;
    for (int32_t i = -3; i < n; i++) {
        LUO_TRY(luo_trial_run_step(run, i + 3, trace, &report, bench->err));
        if (i < 0) continue;
        whole[i] = report.end_s - report.start_s;
        inside[i] = 0;
        for (int32_t k = 0; k < report.nrecords; k++)
            inside[i] += report.records[k].end_s - report.records[k].start_s;
        *kernels = report.nrecords;
    }
    *step_s = luo_stats_median(whole, n);
    *device_s = luo_stats_median(inside, n);
    return LUO_OK;
}

static luo_status measure(gpu_bench *bench, const luo_network *network)
{
    const luo_dtype dtype = bench->facts.major >= 8 ? LUO_BF16 : LUO_F32;
    luo_trial_run run;
    double step_s = 0, device_s = 0, ignored;
    int32_t kernels = 0, none;
    luo_status st =
        luo_trial_run_open(bench->m, &luo_cuda_executor, network, dtype, &run, bench->err);
    if (st == LUO_OK) st = time_steps(bench, &run, true, &ignored, &device_s, &kernels);
    if (st == LUO_OK) st = time_steps(bench, &run, false, &step_s, &ignored, &none);
    luo_trial_run_close(&run);
    if (st == LUO_EOOM) return LUO_OK; /* a GPU of little memory tells less */
    if (st != LUO_OK) return st;
    luo_str_addf(&bench->m->facts, "step_gpu_s %s,%.9f\nstep_kernels %s,%d\nstep_s %s,%.9f\n",
                 network->name, device_s, network->name, kernels, network->name, step_s);
    return LUO_OK;
}

luo_status gpu_measure_steps(gpu_bench *bench)
{
    for (int32_t i = 0; i < NETWORKS && i < bench->m->networks; i++)
        if (!bench->m->quick || i % 2 == 1) LUO_TRY(measure(bench, &networks[i]));
    return LUO_OK;
}
