#include "exec/state/gather.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PART_MOST = 1 << 30 }; /* bytes of one MPI message */

struct luo_gatherer {
    MPI_Comm comm;
    int rank, n;
    luo_gather_wait wait;
    void *ctx;
    char *gathered;
    int64_t cap, *sizes;
    const void **parts;
};

static luo_status mpi(luo_err *err, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return LUO_OK;
    MPI_Error_string(code, text, &n);
    return luo_err_set(err, LUO_EBACKEND, "MPI failed in %s: %s.", what, text);
}

/* A checkpoint is large: nobody misses what a sleep takes. */
static luo_status poll(luo_err *err, MPI_Request *request)
{
    for (int done = 0, tries = 0;; tries++) {
        LUO_TRY(mpi(err, MPI_Test(request, &done, MPI_STATUS_IGNORE), "a wait"));
        if (done) return LUO_OK;
        if (tries > 1000) nanosleep(&(struct timespec){0, 100000}, NULL);
    }
}

static luo_status wait_for(luo_gatherer *gatherer, MPI_Request *request, luo_err *err)
{
    return gatherer->wait ? gatherer->wait(gatherer->ctx, request, err) : poll(err, request);
}

/* Sizes at rank 0, and room for all. */
static luo_status make_room(luo_gatherer *gatherer, luo_err *err)
{
    int64_t total = 0;
    for (int r = 0; r < gatherer->n; r++) total += gatherer->sizes[r];
    if (total <= gatherer->cap) return LUO_OK;
    char *more = realloc(gatherer->gathered, (size_t)total);
    if (!more) return luo_err_nomem(err);
    gatherer->gathered = more;
    gatherer->cap = total;
    return LUO_OK;
}

/* Rank 0 may have no room: nobody sends before all know that there is some. */
static luo_status agree(luo_gatherer *gatherer, int64_t n, luo_err *err)
{
    MPI_Request req;
    luo_status st = LUO_OK;
    LUO_TRY(mpi(
        err,
        MPI_Igather(&n, 1, MPI_INT64_T, gatherer->sizes, 1, MPI_INT64_T, 0, gatherer->comm, &req),
        "a gather"));
    LUO_TRY(wait_for(gatherer, &req, err));
    if (gatherer->rank == 0) st = make_room(gatherer, err);
    int fits = st == LUO_OK;
    LUO_TRY(mpi(err, MPI_Ibcast(&fits, 1, MPI_INT, 0, gatherer->comm, &req), "a broadcast"));
    LUO_TRY(wait_for(gatherer, &req, err));
    if (fits || gatherer->rank == 0) return st;
    return luo_err_set(err, LUO_ECANCELED, "rank 0 has no room for what it is to write.");
}

/* Between this rank and `other`, part by part. */
static luo_status pass(luo_gatherer *gatherer, bool sends, int other, char *at, int64_t n,
                       luo_err *err)
{
    for (int64_t done = 0; done < n; done += PART_MOST) {
        MPI_Request req;
        const int part = (int)(n - done < PART_MOST ? n - done : PART_MOST);
        const int code = sends
                             ? MPI_Isend(at + done, part, MPI_BYTE, other, 0, gatherer->comm, &req)
                             : MPI_Irecv(at + done, part, MPI_BYTE, other, 0, gatherer->comm, &req);
        LUO_TRY(mpi(err, code, sends ? "a send" : "a receive"));
        LUO_TRY(wait_for(gatherer, &req, err));
    }
    return LUO_OK;
}

static luo_status collect(luo_gatherer *gatherer, const void *mine, int64_t n, luo_err *err)
{
    LUO_TRY(agree(gatherer, n, err));
    if (gatherer->rank > 0) return pass(gatherer, true, 0, (char *)(uintptr_t)mine, n, err);
    char *at = gatherer->gathered;
    for (int r = 0; r < gatherer->n; r++) {
        gatherer->parts[r] = at;
        if (r > 0) LUO_TRY(pass(gatherer, false, r, at, gatherer->sizes[r], err));
        if (r == 0 && n > 0) memcpy(at, mine, (size_t)n);
        at += gatherer->sizes[r];
    }
    return LUO_OK;
}

static luo_status bytes(void *ctx, const void *mine, int64_t n, const void *const **out,
                        const int64_t **sizes, int32_t *ranks, luo_err *err)
{
    luo_gatherer *gatherer = ctx;
    LUO_TRY(collect(gatherer, mine, n, err));
    *out = gatherer->parts;
    *sizes = gatherer->sizes;
    *ranks = gatherer->n;
    return LUO_OK;
}

luo_gather luo_gatherer_gather(luo_gatherer *gatherer)
{
    return (luo_gather){gatherer, gatherer->rank == 0, bytes};
}

static luo_status open(luo_gatherer *gatherer, MPI_Comm comm, luo_err *err)
{
    LUO_TRY(mpi(err, MPI_Comm_dup(comm, &gatherer->comm), "copying a communicator"));
    MPI_Comm_set_errhandler(gatherer->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(gatherer->comm, &gatherer->rank);
    MPI_Comm_size(gatherer->comm, &gatherer->n);
    gatherer->sizes = calloc((size_t)gatherer->n, sizeof *gatherer->sizes);
    gatherer->parts = calloc((size_t)gatherer->n, sizeof *gatherer->parts);
    return gatherer->sizes && gatherer->parts ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_gatherer_open(MPI_Comm comm, luo_gather_wait wait, void *ctx, luo_gatherer **out,
                             luo_err *err)
{
    luo_gatherer *gatherer = calloc(1, sizeof *gatherer);
    if (!gatherer) return luo_err_nomem(err);
    *gatherer = (luo_gatherer){.comm = MPI_COMM_NULL, .wait = wait, .ctx = ctx};
    const luo_status st = open(gatherer, comm, err);
    if (st == LUO_OK)
        *out = gatherer;
    else
        luo_gatherer_close(gatherer);
    return st;
}

void luo_gatherer_close(luo_gatherer *gatherer)
{
    if (!gatherer) return;
    if (gatherer->comm != MPI_COMM_NULL) MPI_Comm_free(&gatherer->comm);
    free(gatherer->gathered);
    free(gatherer->sizes);
    free(gatherer->parts);
    free(gatherer);
}
