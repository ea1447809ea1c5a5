/* calibrate.h: measures the machine that it runs on, with the executor's own code: what
 * `luoshu-rank --calibrate DIR` does under mpirun, once per number of ranks.
 *
 * Operations are measured where they run: every rank trains small models of its own on its device,
 * all at once, so that caches, cores and memory are shared as they are with so many ranks; the
 * times are those of the instructions of rank 0. The shapes are those of tiny to 25M-parameter
 * networks and of their tensor-parallel shares. Every fifth network is held out: its rows have the
 * role validation, and no fit sees them.
 */
#ifndef LUO_EXEC_CALIBRATE_CALIBRATE_H
#define LUO_EXEC_CALIBRATE_CALIBRATE_H
#include "core/base/str.h"
#include "exec/rank/rank.h"

typedef struct luo_measurer {
    const char *dir; /* where the tables go */
    int32_t rank, nranks, cores;
    bool quick;
    int32_t networks; /* at most so many are measured (cuda: sizes of each kind); for tests */
    luo_str ops, collectives, transfers, facts; /* rows of the tables, rank 0 only */
} luo_measurer;

/* calibrate_ops.c: rows of op_times (core/cost/cpu.h), and facts:
 * `instruction_us` what the interpreter needs beside an instruction; `compute_s NAME`, processor
 * seconds of a step of a network, and `again_s NAME`, the same at the end; with more ranks than
 * cores `sharing NAME`, how much more processor time a step of a network takes than with as many
 * ranks as cores. rows: networks are measured, not only what sharing costs. Collective. */
luo_status luo_calibrate_ops(luo_measurer *measurer, const luo_rank_executor *executor, bool rows,
                             luo_err *err);

/* calibrate_copy.c: rows of op_times, op `copy`, m = elements of 4 bytes. */
luo_status luo_calibrate_copies(luo_measurer *measurer, luo_err *err);

/* What an executor measures, one after the other; facts as well. Collective. */
typedef struct luo_measuring {
    luo_status (*ops)(luo_measurer *m, bool rows, luo_err *err);
    luo_status (*comm)(luo_measurer *m, luo_err *err);
} luo_measuring;
extern const luo_measuring luo_host_measuring; /* exec/host */

/* The main function: `luoshu-rank --calibrate DIR [--quick] [--no-ops] [--networks N]` writes
 * DIR/op_times-N.csv, collective_times-N.csv, p2p_times-N.csv and facts-N.csv, N the number of
 * ranks. Errors: LUO_EUSAGE, LUO_EBACKEND, LUO_EIO, LUO_ENOMEM. */
luo_status luo_calibrate_main(int argc, char **argv, const luo_measuring *how, luo_err *err);
#endif
