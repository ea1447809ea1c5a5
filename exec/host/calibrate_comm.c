/* exec/host/calibrate_comm.c: collectives and messages, measured with the executor's own waiting.
 *
 * A collective takes from when its last participant has begun to when the last has ended: that is
 * when the simulator lets it start, too. Clocks of one host are the same clock. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/profile.h"
#include "exec/calibrate.h"
#include "exec/host/job.h"

enum { REPEAT_LEAST = 9, REPEAT_MOST = 40 };

typedef struct tester {
    luo_measurer *m;
    luo_exec *x;
    MPI_Comm group; /* of this rank's group; n ranks */
    int n;
    char *a, *b, *c; /* c: where messages are packed */
    int *counts, *starts;
    double seconds[REPEAT_MOST];
    luo_err *err;
} tester;

static luo_status barrier(tester *t, MPI_Comm comm)
{
    MPI_Request q;
    LUO_TRY(host_mpi(t->err, MPI_Ibarrier(comm, &q), "a barrier"));
    return host_wait(t->x, NULL, 1, &q, t->err);
}

/* ---- one collective ---- */

static int begin_collective(tester *t, luo_collective what, int count, MPI_Request *q)
{
    const int part = count / t->n;
    switch (what) {
    case LUO_ALL_REDUCE:
        return MPI_Iallreduce(MPI_IN_PLACE, t->a, count, MPI_FLOAT, MPI_SUM, t->group, q);
    case LUO_REDUCE_SCATTER:
        return MPI_Ireduce_scatter(t->a, t->b, t->counts, MPI_FLOAT, MPI_SUM, t->group, q);
    case LUO_ALL_GATHER:
        return MPI_Iallgatherv(t->a, part, MPI_FLOAT, t->b, t->counts, t->starts, MPI_FLOAT,
                               t->group, q);
    case LUO_ALL_TO_ALL:
        return MPI_Ialltoall(t->a, part, MPI_FLOAT, t->b, part, MPI_FLOAT, t->group, q);
    default:
        return MPI_Ibcast(t->a, count, MPI_FLOAT, 0, t->group, q);
    }
}

static luo_status time_collective(tester *t, luo_collective what, int64_t bytes, double *seconds)
{
    const int count = (int)(bytes / 4) / t->n * t->n;
    double edge[2]; /* when it began, when it ended: the latest of all */
    MPI_Request q;
    for (int i = 0; i < t->n; i++) {
        t->counts[i] = count / t->n;
        t->starts[i] = i * (count / t->n);
    }
    LUO_TRY(barrier(t, t->group));
    edge[0] = host_now();
    LUO_TRY(host_mpi(t->err, begin_collective(t, what, count, &q), "a collective"));
    LUO_TRY(host_wait(t->x, NULL, 1, &q, t->err));
    edge[1] = host_now();
    MPI_Iallreduce(MPI_IN_PLACE, edge, 2, MPI_DOUBLE, MPI_MAX, t->group, &q);
    LUO_TRY(host_wait(t->x, NULL, 1, &q, t->err));
    *seconds = edge[1] - edge[0];
    return LUO_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What else runs on the machine only adds. */
static double lower_quartile(tester *t, int n)
{
    qsort(t->seconds, (size_t)n, sizeof *t->seconds, by_value);
    return t->seconds[n / 4];
}

/* As many times as fit in the budget, equally often on all ranks of the group. */
static luo_status measure_collective(tester *t, luo_collective what, int64_t bytes, double *out)
{
    const double budget = t->m->quick ? 0.02 : 0.08;
    double sum = 0;
    int n = 0;
    LUO_TRY(time_collective(t, what, bytes, &t->seconds[0])); /* warms up */
    while (n < REPEAT_MOST && (n < REPEAT_LEAST || sum < budget)) {
        LUO_TRY(time_collective(t, what, bytes, &t->seconds[n]));
        sum += t->seconds[n++];
    }
    *out = lower_quartile(t, n);
    return LUO_OK;
}

/* ---- groups ---- */

static const int64_t sizes[] = {1 << 10, 1 << 12, 1 << 14, 1 << 16,
                                1 << 18, 1 << 20, 1 << 22, INT64_C(1) << 24};
enum { SIZES = sizeof sizes / sizeof *sizes };

static luo_status open_group(tester *t, int n)
{
    t->n = n;
    return host_mpi(t->err, MPI_Comm_split(t->x->p2p, t->m->rank / n, t->m->rank, &t->group),
                    "making a communicator");
}

/* alone: the first group, while the other ranks wait for it. */
static luo_status measure_size(tester *t, luo_collective what, int64_t bytes, bool alone)
{
    double seconds = 0;
    LUO_TRY(barrier(t, t->x->p2p));
    if (!alone || t->m->rank < t->n) LUO_TRY(measure_collective(t, what, bytes, &seconds));
    LUO_TRY(barrier(t, t->x->p2p));
    if (t->m->rank == 0)
        luo_str_addf(&t->m->collectives, "%s,f32,%d,1,%lld,%.3f,%s\n", luo_collective_name(what),
                     t->n, (long long)bytes, 1e6 * seconds, alone ? "calibration" : "validation");
    return LUO_OK;
}

static luo_status measure_group(tester *t, int n)
{
    LUO_TRY(open_group(t, n));
    luo_status st = LUO_OK;
    for (int what = 0; st == LUO_OK && what < LUO_COLLECTIVES; what++)
        for (int i = 0; st == LUO_OK && i < SIZES; i++) {
            if (t->m->quick && i % 2) continue;
            st = measure_size(t, (luo_collective)what, sizes[i], true);
            if (st == LUO_OK && n < t->m->nranks && what == LUO_ALL_REDUCE && i % 2 == 0)
                st = measure_size(t, (luo_collective)what, sizes[i], false);
        }
    MPI_Comm_free(&t->group);
    return st;
}

/* ---- messages ---- */

/* From when rank 0 packs to when rank 1 has unpacked, rank 1 waiting for it. */
static luo_status time_message(tester *t, int64_t bytes, double *seconds)
{
    double edge[2] = {0, 0};
    MPI_Request q;
    LUO_TRY(barrier(t, t->group));
    if (t->m->rank % 2 == 0) {
        edge[0] = host_now();
        memcpy(t->c, t->a, (size_t)bytes);
        LUO_TRY(
            host_mpi(t->err, MPI_Isend(t->c, (int)bytes, MPI_CHAR, 1, 0, t->group, &q), "a send"));
        LUO_TRY(host_wait(t->x, NULL, 1, &q, t->err));
    } else {
        LUO_TRY(host_mpi(t->err, MPI_Irecv(t->c, (int)bytes, MPI_CHAR, 0, 0, t->group, &q),
                         "a receive"));
        LUO_TRY(host_wait(t->x, NULL, 1, &q, t->err));
        memcpy(t->b, t->c, (size_t)bytes);
        edge[1] = host_now();
    }
    MPI_Iallreduce(MPI_IN_PLACE, edge, 2, MPI_DOUBLE, MPI_MAX, t->group, &q);
    LUO_TRY(host_wait(t->x, NULL, 1, &q, t->err));
    *seconds = edge[1] - edge[0];
    return LUO_OK;
}

static luo_status measure_message(tester *t, int64_t bytes, bool alone)
{
    double seconds = 0;
    LUO_TRY(barrier(t, t->x->p2p));
    if (!alone || t->m->rank < 2) {
        const int n = t->m->quick ? REPEAT_LEAST : REPEAT_MOST / 2;
        for (int k = -1; k < n; k++) LUO_TRY(time_message(t, bytes, &t->seconds[k < 0 ? 0 : k]));
        seconds = lower_quartile(t, n);
    }
    LUO_TRY(barrier(t, t->x->p2p));
    if (t->m->rank == 0)
        luo_str_addf(&t->m->transfers, "pcie,%lld,%.3f,%s\n", (long long)bytes, 1e6 * seconds,
                     alone ? "calibration" : "validation");
    return LUO_OK;
}

static luo_status measure_messages(tester *t)
{
    LUO_TRY(open_group(t, 2));
    luo_status st = LUO_OK;
    if (t->m->nranks % 2 == 0 || t->m->rank < t->m->nranks - 1)
        for (int i = 0; st == LUO_OK && i < SIZES; i++) {
            if (t->m->quick && i % 2) continue;
            st = measure_message(t, sizes[i], true);
            if (st == LUO_OK && t->m->nranks > 2 && i % 2 == 0)
                st = measure_message(t, sizes[i], false);
        }
    MPI_Comm_free(&t->group);
    return st;
}

/* ---- all ---- */

/* "Open MPI v4.1.4, package .." and "OpenBLAS 0.3.21 NO_LAPACKE ..": what stands before the
 * details. */
void luo_measure_libraries(luo_measurer *m)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(mpi, &n);
    mpi[strcspn(mpi, ",\n")] = 0;
    const char *blas = openblas_get_config();
    size_t words = strcspn(blas, " ");
    if (blas[words]) words += 1 + strcspn(blas + words + 1, " ");
    if (m->rank == 0) luo_str_addf(&m->facts, "driver %s and %.*s,1\n", mpi, (int)words, blas);
}

static luo_status measure_all(tester *t)
{
    const size_t most = (size_t)sizes[SIZES - 1];
    t->a = calloc(1, most);
    t->b = calloc(1, most);
    t->c = calloc(1, most);
    t->counts = calloc((size_t)t->m->nranks, sizeof *t->counts);
    t->starts = calloc((size_t)t->m->nranks, sizeof *t->starts);
    if (!t->a || !t->b || !t->c || !t->counts || !t->starts) return luo_err_nomem(t->err);
    for (int n = 2; n <= t->m->nranks; n *= 2)
        if (t->m->nranks % n == 0) LUO_TRY(measure_group(t, n));
    return measure_messages(t);
}

luo_status luo_measure_comm(luo_measurer *m, luo_err *err)
{
    int32_t *device_of = calloc((size_t)m->nranks, sizeof *device_of);
    if (!device_of) return luo_err_nomem(err);
    for (int32_t r = 0; r < m->nranks; r++) device_of[r] = r;
    const luo_rank_config config = {
        .rank = m->rank, .nranks = m->nranks, .device_of = device_of, .dtype = LUO_F32};
    tester t = {.m = m, .err = err};
    luo_status st = luo_host_executor.open(&config, &t.x, err);
    if (st == LUO_OK) st = measure_all(&t);
    free(t.a);
    free(t.b);
    free(t.c);
    free(t.counts);
    free(t.starts);
    if (t.x) luo_host_executor.close(t.x);
    free(device_of);
    return st;
}
