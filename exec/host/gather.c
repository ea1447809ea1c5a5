/* exec/host/gather.c: bytes of all ranks at rank 0, for those who write state to files. */
#include <limits.h>
#include <stdlib.h>

#include "exec/host/job.h"

static luo_status room(luo_exec *x, int64_t total, luo_err *err)
{
    if (total > INT_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "a tensor has over 2 GiB; checkpoints of it can not be "
                           "gathered.");
    if (total <= x->gathered_cap) return LUO_OK;
    char *more = realloc(x->gathered, (size_t)total);
    if (!more) return luo_err_nomem(err);
    x->gathered = more;
    x->gathered_cap = total;
    return LUO_OK;
}

static luo_status collect(luo_exec *x, const void *mine, int64_t n, luo_err *err)
{
    MPI_Request req;
    const int32_t ranks = x->config.nranks;
    int64_t total = 0;
    LUO_TRY(host_mpi(err,
                     MPI_Igather(&n, 1, MPI_INT64_T, x->sizes, 1, MPI_INT64_T, 0, x->p2p, &req),
                     "a gather"));
    LUO_TRY(host_wait(x, NULL, 1, &req, err));
    for (int32_t r = 0; x->config.rank == 0 && r < ranks; r++) total += x->sizes[r];
    LUO_TRY(room(x, total > n ? total : n, err));
    for (int32_t r = 0, at = 0; x->config.rank == 0 && r < ranks; r++) {
        x->counts[r] = (int)x->sizes[r];
        x->starts[r] = at;
        x->parts[r] = x->gathered + at;
        at += x->counts[r];
    }
    LUO_TRY(host_mpi(err,
                     MPI_Igatherv(mine, (int)n, MPI_BYTE, x->gathered, x->counts, x->starts,
                                  MPI_BYTE, 0, x->p2p, &req),
                     "a gather"));
    return host_wait(x, NULL, 1, &req, err);
}

static luo_status bytes(void *ctx, const void *mine, int64_t n, const void *const **out,
                        const int64_t **sizes, int32_t *ranks, luo_err *err)
{
    luo_exec *x = ctx;
    LUO_TRY(collect(x, mine, n, err));
    *out = x->parts;
    *sizes = x->sizes;
    *ranks = x->config.nranks;
    return LUO_OK;
}

luo_status host_gather(luo_exec *x, luo_gather *out)
{
    *out = (luo_gather){x, x->config.rank == 0, bytes};
    return LUO_OK;
}
