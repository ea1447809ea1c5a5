/* calibrate_gpu.h: `luoshu calibrate --backend cuda`, and `--from` tables of GPUs: a profile, a
 * stack and a cluster of one node from measured rows (docs/calibration.md). */
#ifndef LUO_CLI_CALIBRATE_CALIBRATE_GPU_H
#define LUO_CLI_CALIBRATE_CALIBRATE_GPU_H
#include "cli/calibrate/calibrate.h"
#include "core/cost/fit/gpu_fit.h"

typedef struct luo_gpu_calibration {
    const char *dir;
    int32_t ranks; /* GPUs of the node */
    uint64_t seed;
    luo_profile *known;   /* --profile: peaks of a datasheet; NULL: none */
    luo_cluster *cluster; /* --cluster: where rows of several nodes were measured; NULL: none */
    const char
        *tables[3]; /* op_times, collective_times, p2p_times as the profile names them; NULL */
    luo_measured rows;
    luo_gpu_fit fit;
    double memory_bytes_per_s; /* W, and whether it was measured */
    bool memory_measured;
    int32_t host_rows; /* steps that the stack was fitted on; 0: its defaults stay */
    double host_launch_us, host_exponent, host_error;
    bool host_weak[2];
    int32_t net_rows; /* collectives of several nodes; 0: net_ratio keeps its default */
    luo_net_fitted net;
} luo_gpu_calibration;

/* The text of a fact `KEY TEXT`, "" without it. */
const char *luo_gpu_fact_text(const luo_measured *measured, const char *key);
/* What the device calls itself; where no fact says it, the name of --profile. */
const char *luo_gpu_name(const luo_gpu_calibration *calibration);
/* Fits op_times rows, steps if there are facts of some, collectives of several nodes if there are
 * rows of them. Errors: LUO_EINPUT, LUO_ENOMEM. */
luo_status luo_gpu_calibration_fit(luo_gpu_calibration *calibration, luo_err *err);
/* DIR/profile.yaml, stack.yaml and cluster.yaml. Errors: LUO_EIO, LUO_ENOMEM. */
luo_status luo_gpu_calibration_write(const luo_gpu_calibration *calibration, luo_err *err);
/* Rows of calibrate.csv: operations by the formulas alone (exact sizes are read from the table when
 * a run is simulated), communication by the profile with its tables. Errors are in cli->diags. */
luo_status luo_gpu_calibration_score(luo_cli *cli, const luo_gpu_calibration *calibration,
                                     luo_str *text,
                                     luo_calibration_errors errors[LUO_CAL_KINDS][2]);

/* The verb's two ways; both print and write all files. ranks 0: all GPUs of this host. */
luo_status luo_calibrate_gpus_check(luo_cli *cli); /* can GPUs be measured by this build? */
luo_status luo_calibrate_gpus(luo_cli *cli, const char *dir, bool quick, int32_t ranks);
luo_status luo_calibrate_gpu_tables(luo_cli *cli, const char *dir, const luo_measured *rows,
                                    const char *const tables[3]);
#endif
