#include "exec/rank/boot.h"

#include <mpi.h>
#include <stdlib.h>

/* Of sanitized builds. Open MPI loads parts, keeps what they allocate and unloads them, at the end
 * at the latest: what it takes in MPI_Init is not looked at, and leaks are looked for before it
 * ends. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));
extern void __lsan_do_leak_check(void) __attribute__((weak));

struct luo_boot {
    MPI_Comm comm;
    int rank, n;
};

static luo_status mpi(int code, const char *what, luo_err *err)
{
    char why[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return LUO_OK;
    MPI_Error_string(code, why, &n);
    return luo_err_set(err, LUO_EBACKEND, "MPI cannot %s: %s.",
                       what, why);
}

static luo_status open_world(luo_boot *boot, luo_err *err)
{
    int given = 0;
    if (__lsan_disable) __lsan_disable();
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    if (__lsan_enable) __lsan_enable();
    LUO_TRY(mpi(code, "begin", err));
    if (given < MPI_THREAD_FUNNELED)
        return luo_err_set(err, LUO_EBACKEND,
                           "this MPI allows no second thread; one with "
                           "MPI_THREAD_FUNNELED is expected.");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    LUO_TRY(mpi(MPI_Comm_dup(MPI_COMM_WORLD, &boot->comm), "copy the world", err));
    MPI_Comm_rank(boot->comm, &boot->rank);
    MPI_Comm_size(boot->comm, &boot->n);
    return LUO_OK;
}

luo_status luo_boot_open(luo_boot **out, int32_t *rank, int32_t *n, luo_err *err)
{
    luo_boot *boot = calloc(1, sizeof *boot);
    if (!boot) return luo_err_nomem(err);
    boot->comm = MPI_COMM_NULL;
    const luo_status st = open_world(boot, err);
    if (st != LUO_OK) {
        luo_boot_close(boot);
        return st;
    }
    *rank = boot->rank;
    *n = boot->n;
    *out = boot;
    return LUO_OK;
}

void luo_boot_close(luo_boot *boot)
{
    int begun = 0, over = 0;
    if (!boot) return;
    if (boot->comm != MPI_COMM_NULL) MPI_Comm_free(&boot->comm);
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    if (__lsan_do_leak_check) __lsan_do_leak_check();
    if (begun && !over) MPI_Finalize();
    free(boot);
}

/* Some rank of the host wants what a lower one wants as well. Nothing is allocated, since all would
 * have to agree on a failure: n rounds among the ranks of one host, once. */
static luo_status doubly_wanted(MPI_Comm host, int n, int rank, int32_t want, int *out,
                                luo_err *err)
{
    int mine = 0;
    for (int k = 0; k < n; k++) {
        int32_t other = want;
        LUO_TRY(mpi(MPI_Bcast(&other, 1, MPI_INT32_T, k, host), "tell all ranks", err));
        mine |= k != rank && other == want;
    }
    return mpi(MPI_Allreduce(&mine, out, 1, MPI_INT, MPI_MAX, host), "agree", err);
}

luo_status luo_boot_local(luo_boot *boot, int32_t want, int32_t *out, luo_err *err)
{
    MPI_Comm host;
    int n = 0, rank = 0, doubly = 0;
    LUO_TRY(mpi(MPI_Comm_split_type(boot->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
                "tell hosts apart", err));
    MPI_Comm_size(host, &n);
    MPI_Comm_rank(host, &rank);
    const luo_status st = doubly_wanted(host, n, rank, want, &doubly, err);
    MPI_Comm_free(&host);
    *out = doubly ? rank : want;
    return st;
}

luo_status luo_boot_tell(luo_boot *boot, void *data, size_t size, luo_err *err)
{
    return mpi(MPI_Bcast(data, (int)size, MPI_BYTE, 0, boot->comm), "tell all ranks", err);
}

luo_status luo_boot_agree(luo_boot *boot, luo_status mine, luo_err *err)
{
    int bad = mine != LUO_OK, any = 0;
    const luo_status st =
        mpi(MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, boot->comm), "agree", NULL);
    if (mine != LUO_OK) return mine;
    if (st != LUO_OK) return luo_err_set(err, st, "MPI cannot agree.");
    if (!any) return LUO_OK;
    return luo_err_set(err, LUO_ECANCELED, "another rank refused.");
}
