/* exec/options.h: what `luoshu run` tells an executor (conventions.md 3.2), as
 * luo_backend_config.options. Strings may be NULL: not given. */
#ifndef LUO_EXEC_OPTIONS_H
#define LUO_EXEC_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

typedef enum luo_launcher { LUO_LAUNCH_MPIRUN, LUO_LAUNCH_SRUN, LUO_LAUNCH_NONE } luo_launcher;

typedef struct luo_exec_options {
    const char *program;   /* path of the rank program (luoshu-rank) */
    int32_t ninputs;       /* how a rank reads the same inputs: arguments behind its own */
    const char *const *inputs;
    const char *hostfile, *data, *save_init, *load, *resume, *dump_batches;
    const char *checkpoints; /* folder for them */
    luo_launcher launcher;
    int32_t ranks;         /* 0: as many as the cluster has devices */
    int32_t max_restarts;  /* of processes that died by themselves */
    int32_t keep;          /* checkpoints kept */
    double stuck_s;
} luo_exec_options;
#endif
