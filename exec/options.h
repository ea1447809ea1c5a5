/* options.h: what `luoshu run` tells an executor , as
 * luo_backend_config.options. Strings may be NULL: not given. */
#ifndef LUO_EXEC_OPTIONS_H
#define LUO_EXEC_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

typedef enum luo_launcher {
    LUO_LAUNCH_MPIRUN, /* the one that the path finds */
    LUO_LAUNCH_SRUN,
    LUO_LAUNCH_NONE,
    LUO_LAUNCH_LOCAL /* mpirun on this host alone: luo_launch_mpirun */
} luo_launcher;

typedef struct luo_rendezvous luo_rendezvous; /* exec/coordinator/launch.h */

typedef struct luo_exec_options {
    const char *program; /* path of the rank program (luoshu-rank, luoshu-rank-cuda) */
    /* How a rank reads the same inputs, as arguments behind its own: `--scenario F`, or `--model F`
     * and `--cluster F`; then `--set PATH=VALUE` as often as needed. */
    int32_t ninputs;
    const char *const *inputs;
    const char *log;    /* what the launcher and the ranks write; NULL: nowhere. Gone if empty */
    const char *listen; /* address of this host for its ranks; NULL: by the way to the others */
    const struct luo_cluster *cluster; /* whose file may name hosts; NULL: of none */
    const char *hostfile, *data, *save_init, *load, *resume, *dump_batches;
    const char *checkpoints; /* folder for them */
    luo_launcher launcher;
    const luo_rendezvous *rendezvous; /* LUO_LAUNCH_NONE: from luo_launch_split */
    int32_t ranks;        /* 0: as many as the cluster has devices */
    int32_t max_restarts; /* of processes that died by themselves */
    int32_t keep;         /* checkpoints kept */
    double stuck_s;
    /* cuda: NCCL_ALGO and NCCL_PROTO of all ranks; NULL: as the environment has them */
    const char *nccl_algo, *nccl_proto;
    bool gpus;             /* cuda: what starts with NCCL_ or CUDA_ goes to other hosts .. */
    const char *forward;   /* .. and so do these variables, "NAME,FI_*"; NULL: none */
    bool share_gpus;       /* cuda: more ranks of a host than it has GPUs are no mistake */
    struct luo_device_info *device_info; /* out: of rank 0, once ranks are set up; NULL: not kept */
} luo_exec_options;
#endif
