/* main.c: `luoshu-rank`: one process of a real run. `luoshu run` starts it, also for toy models;
 * `luoshu calibrate` as well, to measure. */
#include <cblas.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "exec/calibrate/calibrate.h"
#include "exec/limits.h"
#include "exec/rank/agent.h"
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

/* OpenBLAS takes its buffer when it is first asked for a product, keeps it, and tries for ever
 * where there is no memory for it (0.3.21, blas_memory_alloc). So it gets it here, before MPI has
 * taken its share; SIDE is above what goes without the buffer (100 x 100 x 100). */
static luo_status take_blas_buffer(luo_err *err)
{
    enum { BUFFER = (128 << 20) + (1 << 16), SIDE = 128 };
    void *room = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *square = room == MAP_FAILED ? NULL : calloc(SIDE * SIDE, sizeof *square);
    if (room != MAP_FAILED) munmap(room, BUFFER);
    if (!square)
        return luo_err_set(err, LUO_ENOMEM,
                           "a rank gets no %d MiB of memory for the buffer of OpenBLAS; allow "
                           "more (`ulimit -v`, `ulimit -d`).",
                           BUFFER >> 20);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, square, SIDE,
                square, SIDE, 0, square, SIDE);
    free(square);
    return LUO_OK;
}

static luo_status run_rank(int argc, char **argv, int *code, luo_err *err)
{
    LUO_TRY(luo_limits_check(1, err));
    LUO_TRY(take_blas_buffer(err));
    if (argc > 1 && strcmp(argv[1], "--calibrate") == 0)
        return luo_calibrate_main(argc, argv, &luo_host_measuring, err);
    if (argc > 1 && strcmp(argv[1], "--sync-toy") == 0) return luo_sync_rank_main(argc, argv, err);
    return luo_rank_main(argc, argv, &luo_host_executor, say, code, err);
}

int main(int argc, char **argv)
{
    luo_err err = {0};
    int code = 0;
    openblas_set_num_threads(1); /* a rank is one core; before anything computes */
    keep_memory();
    const luo_status st = run_rank(argc, argv, &code, &err);
    if (st == LUO_OK) return code;
    fprintf(stderr, "luoshu-rank: error: %s\n", err.text);
    return luo_status_exit(st);
}
