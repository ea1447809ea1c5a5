/* main_cuda.c: `luoshu-rank-cuda`: one process of a run on GPUs, as exec/main.c is one on
 * processors. */
#include <stdio.h>
#include <string.h>

#include "exec/rank/agent.h"
#include "exec/cuda/calibrate/calibrate.h"
#include "exec/cuda/executor.h"
#include "exec/cuda/gpu.h"

/* Standard error of a rank is the log of the run. */
static void say(int32_t rank, const char *text)
{
    fprintf(stderr, "luoshu-rank-cuda: warning: rank %d: %s.\n", (int)rank, text);
}

int main(int argc, char **argv)
{
    luo_err err = {0};
    int code = 0;
    gpu_prepare_environment(); /* before CUDA starts */
    const luo_status st = argc > 1 && strcmp(argv[1], "--calibrate") == 0
                              ? luo_calibrate_main(argc, argv, &gpu_measuring, &err)
                              : luo_rank_main(argc, argv, &luo_cuda_executor, say, &code, &err);
    if (st == LUO_OK) return code;
    fprintf(stderr, "luoshu-rank-cuda: error: %s\n", err.text);
    return luo_status_exit(st);
}
