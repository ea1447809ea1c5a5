#include "exec/limits.h"

#include <sys/resource.h>

/* Of the address space, measured with Open MPI 4.1.4 and OpenBLAS 0.3.21 on x86-64: a rank of one
 * has mapped 220 MiB after MPI_Init and a first collective, the buffer of OpenBLAS 128 MiB, and
 * every further rank of the host 4 MiB, its segment of shared memory. SPARE: the rank's program,
 * stacks and heaps of its threads, and what it reads. */
enum { MPI_MIB = 220, EACH_MIB = 4, BLAS_MIB = 128, SPARE_MIB = 64 };

luo_status luo_limits_check(int32_t nranks, luo_err *err)
{
    const rlim_t mib = MPI_MIB + BLAS_MIB + SPARE_MIB + EACH_MIB * (rlim_t)nranks;
    struct rlimit most;
    if (getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY ||
        most.rlim_cur >= mib << 20)
        return LUO_OK;
    return luo_err_set(err, LUO_ENOMEM,
                       "a rank takes %llu MiB of addresses for MPI and BLAS before it computes, "
                       "and a process may take %llu KiB (`ulimit -v`); allow more.",
                       (unsigned long long)mib, (unsigned long long)most.rlim_cur / 1024);
}
