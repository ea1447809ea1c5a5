/* main.c: `luoshu-rank`: one process of a real run. `luoshu run` starts it, also for toy models;
 * `luoshu calibrate` as well, to measure. */
#include <cblas.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "exec/rank/agent.h"
#include "exec/calibrate/calibrate.h"
#include "exec/sync/sync_rank.h"

/* Standard error of a rank is the log of the run. */
static void say(int32_t rank, const char *text)
{
    fprintf(stderr, "luoshu-rank: warning: rank %d: %s.\n", (int)rank, text);
}

/* What a rank gives back it keeps: programs change between steps, and pages that the system takes
 * away and gives again would be paid for at every change. */
static void keep_memory(void)
{
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

int main(int argc, char **argv)
{
    luo_err err = {0};
    int code = 0;
    openblas_set_num_threads(1); /* a rank is one core; before anything computes */
    luo_status st;
    keep_memory();
    if (argc > 1 && strcmp(argv[1], "--calibrate") == 0)
        st = luo_calibrate_main(argc, argv, &luo_host_measuring, &err);
    else if (argc > 1 && strcmp(argv[1], "--sync-toy") == 0)
        st = luo_sync_rank_main(argc, argv, &err);
    else
        st = luo_rank_main(argc, argv, &luo_host_executor, say, &code, &err);
    if (st == LUO_OK) return code;
    fprintf(stderr, "luoshu-rank: error: %s\n", err.text);
    return luo_status_exit(st);
}
