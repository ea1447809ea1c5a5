/* exec/host/gather.c: bytes of all ranks at rank 0, for those who write state to files. */
#include <stdlib.h>
#include <string.h>

#include "exec/host/job.h"

enum { PART_MOST = 1 << 30 }; /* bytes of one MPI message */

static luo_status wait_for(luo_exec *x, MPI_Request *req, luo_err *err)
{
    return host_wait(x, NULL, 1, req, err);
}

/* Sizes at rank 0, and room for all. */
static luo_status make_room(luo_exec *x, luo_err *err)
{
    int64_t total = 0;
    for (int32_t r = 0; r < x->config.nranks; r++) total += x->sizes[r];
    if (total <= x->gathered_cap) return LUO_OK;
    char *more = realloc(x->gathered, (size_t)total);
    if (!more) return luo_err_nomem(err);
    x->gathered = more;
    x->gathered_cap = total;
    return LUO_OK;
}

/* Rank 0 may have no room: nobody sends before all know that there is some. */
static luo_status agree(luo_exec *x, int64_t n, luo_err *err)
{
    MPI_Request req;
    luo_status st = LUO_OK;
    LUO_TRY(host_mpi(err,
                     MPI_Igather(&n, 1, MPI_INT64_T, x->sizes, 1, MPI_INT64_T, 0, x->p2p, &req),
                     "a gather"));
    LUO_TRY(wait_for(x, &req, err));
    if (x->config.rank == 0) st = make_room(x, err);
    int fits = st == LUO_OK;
    LUO_TRY(host_mpi(err, MPI_Ibcast(&fits, 1, MPI_INT, 0, x->p2p, &req), "a broadcast"));
    LUO_TRY(wait_for(x, &req, err));
    if (fits || x->config.rank == 0) return st;
    return luo_err_set(err, LUO_ECANCELED, "rank 0 has no room for what it is to write.");
}

/* Between this rank and `other`, part by part. */
static luo_status pass(luo_exec *x, bool sends, int32_t other, char *at, int64_t n, luo_err *err)
{
    for (int64_t done = 0; done < n; done += PART_MOST) {
        MPI_Request req;
        const int part = (int)(n - done < PART_MOST ? n - done : PART_MOST);
        const int code = sends ? MPI_Isend(at + done, part, MPI_BYTE, (int)other, 0, x->p2p, &req)
                               : MPI_Irecv(at + done, part, MPI_BYTE, (int)other, 0, x->p2p, &req);
        LUO_TRY(host_mpi(err, code, sends ? "a send" : "a receive"));
        LUO_TRY(wait_for(x, &req, err));
    }
    return LUO_OK;
}

static luo_status collect(luo_exec *x, const void *mine, int64_t n, luo_err *err)
{
    LUO_TRY(agree(x, n, err));
    if (x->config.rank > 0) return pass(x, true, 0, (char *)(uintptr_t)mine, n, err);
    char *at = x->gathered;
    for (int32_t r = 0; r < x->config.nranks; r++) {
        x->parts[r] = at;
        if (r > 0) LUO_TRY(pass(x, false, r, at, x->sizes[r], err));
        if (r == 0 && n > 0) memcpy(at, mine, (size_t)n);
        at += x->sizes[r];
    }
    return LUO_OK;
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
