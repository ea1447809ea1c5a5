#include "exec/calibrate/calibrate.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/io.h"
#include "exec/rank/boot.h"

static luo_status read_args(int argc, char **argv, bool *ops, luo_measurer *measurer, luo_err *err)
{
    *ops = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--calibrate") == 0 && i + 1 < argc)
            measurer->dir = argv[++i];
        else if (strcmp(argv[i], "--quick") == 0)
            measurer->quick = true;
        else if (strcmp(argv[i], "--networks") == 0 && i + 1 < argc)
            measurer->networks = atoi(argv[++i]);
        else if (strcmp(argv[i], "--no-ops") == 0)
            *ops = false;
        else
            return luo_err_set(err, LUO_EUSAGE,
                               "unknown argument `%s`; `luoshu calibrate` starts this program with "
                               "the right ones.",
                               argv[i]);
    }
    if (measurer->dir) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE, "`--calibrate` has no value; a folder is expected.");
}

static luo_status write_table(const luo_measurer *measurer, const char *dir, const char *name,
                              const char *head, const luo_str *rows, luo_err *err)
{
    luo_str path = {0}, text = {0};
    if (rows->len == 0 && !rows->failed) return LUO_OK;
    luo_str_addf(&path, "%s/%s-%d.csv", dir, name, measurer->nranks);
    luo_str_add(&text, head);
    luo_str_addn(&text, luo_str_get(rows), rows->len);
    const luo_status st = path.failed || text.failed || rows->failed
                              ? luo_err_nomem(err)
                              : luo_file_write_own(path.at, text.at, text.len, err);
    luo_str_free(&path);
    luo_str_free(&text);
    return st;
}

static luo_status write_all(const luo_measurer *measurer, const char *dir, luo_err *err)
{
    LUO_TRY(write_table(measurer, dir, "op_times", "op,dtype,m,n,k,time_us,samples,role\n",
                        &measurer->ops, err));
    LUO_TRY(write_table(measurer, dir, "collective_times",
                        "collective,dtype,devices,nodes,size_bytes,time_us,role\n",
                        &measurer->collectives, err));
    LUO_TRY(write_table(measurer, dir, "p2p_times", "class,size_bytes,time_us,role\n",
                        &measurer->transfers, err));
    return write_table(measurer, dir, "facts", "name,value\n", &measurer->facts, err);
}

static luo_status measure(luo_measurer *measurer, const luo_measuring *how, bool ops, luo_err *err)
{
    LUO_TRY(how->ops(measurer, ops, err));
    if (measurer->nranks > 1) LUO_TRY(how->comm(measurer, err));
    return measurer->rank == 0 ? write_all(measurer, measurer->dir, err) : LUO_OK;
}

luo_status luo_calibrate_main(int argc, char **argv, const luo_measuring *how, luo_err *err)
{
    luo_measurer measurer = {.networks = INT_MAX};
    bool ops;
    luo_boot *boot;
    LUO_TRY(read_args(argc, argv, &ops, &measurer, err));
    LUO_TRY(luo_boot_open(&boot, &measurer.rank, &measurer.nranks, err));
    measurer.cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    /* a rank less measures nothing */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    const luo_status st = measure(&measurer, how, ops, err);
    luo_str_free(&measurer.ops);
    luo_str_free(&measurer.collectives);
    luo_str_free(&measurer.transfers);
    luo_str_free(&measurer.facts);
    if (st == LUO_OK) luo_boot_close(boot);
    return st; /* else the process ends without MPI_Finalize, so that mpirun ends the others */
}
