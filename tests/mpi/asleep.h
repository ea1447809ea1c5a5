/* asleep.h: collective calls whose ranks wait asleep. MPI spins, and a test has more ranks than
 * there are cores: in a program that includes this, those that wait for another (for rank 0, which
 * trains the reference alone) leave it the cores. For one source of a program. */
#ifndef LUO_TESTS_MPI_ASLEEP_H
#define LUO_TESTS_MPI_ASLEEP_H
#include <mpi.h>
#include <time.h>

static inline int luo_meet_asleep(MPI_Comm comm)
{
    MPI_Request all;
    int code = PMPI_Ibarrier(comm, &all);
    for (int done = 0, tries = 0; code == MPI_SUCCESS; tries++) {
        code = PMPI_Test(&all, &done, MPI_STATUS_IGNORE);
        if (done) break;
        nanosleep(&(struct timespec){0, tries < 20 ? 50000 : 1000000}, NULL);
    }
    return code;
}

int MPI_Barrier(MPI_Comm comm)
{
    return luo_meet_asleep(comm);
}

int MPI_Allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    const int code = luo_meet_asleep(comm);
    return code == MPI_SUCCESS ? PMPI_Allreduce(from, to, n, type, op, comm) : code;
}

int MPI_Bcast(void *what, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
    const int code = luo_meet_asleep(comm);
    return code == MPI_SUCCESS ? PMPI_Bcast(what, n, type, root, comm) : code;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out)
{
    const int code = luo_meet_asleep(comm);
    return code == MPI_SUCCESS ? PMPI_Comm_dup(comm, out) : code;
}
#endif
