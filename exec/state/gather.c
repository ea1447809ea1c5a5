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

static luo_status wait_for(luo_gatherer *g, MPI_Request *request, luo_err *err)
{
    return g->wait ? g->wait(g->ctx, request, err) : poll(err, request);
}

/* Sizes at rank 0, and room for all. */
static luo_status make_room(luo_gatherer *g, luo_err *err)
{
    int64_t total = 0;
    for (int r = 0; r < g->n; r++) total += g->sizes[r];
    if (total <= g->cap) return LUO_OK;
    char *more = realloc(g->gathered, (size_t)total);
    if (!more) return luo_err_nomem(err);
    g->gathered = more;
    g->cap = total;
    return LUO_OK;
}

/* Rank 0 may have no room: nobody sends before all know that there is some. */
static luo_status agree(luo_gatherer *g, int64_t n, luo_err *err)
{
    MPI_Request req;
    luo_status st = LUO_OK;
    LUO_TRY(mpi(err, MPI_Igather(&n, 1, MPI_INT64_T, g->sizes, 1, MPI_INT64_T, 0, g->comm, &req),
                "a gather"));
    LUO_TRY(wait_for(g, &req, err));
    if (g->rank == 0) st = make_room(g, err);
    int fits = st == LUO_OK;
    LUO_TRY(mpi(err, MPI_Ibcast(&fits, 1, MPI_INT, 0, g->comm, &req), "a broadcast"));
    LUO_TRY(wait_for(g, &req, err));
    if (fits || g->rank == 0) return st;
    return luo_err_set(err, LUO_ECANCELED, "rank 0 has no room for what it is to write.");
}

/* Between this rank and `other`, part by part. */
static luo_status pass(luo_gatherer *g, bool sends, int other, char *at, int64_t n, luo_err *err)
{
    for (int64_t done = 0; done < n; done += PART_MOST) {
        MPI_Request req;
        const int part = (int)(n - done < PART_MOST ? n - done : PART_MOST);
        const int code = sends ? MPI_Isend(at + done, part, MPI_BYTE, other, 0, g->comm, &req)
                               : MPI_Irecv(at + done, part, MPI_BYTE, other, 0, g->comm, &req);
        LUO_TRY(mpi(err, code, sends ? "a send" : "a receive"));
        LUO_TRY(wait_for(g, &req, err));
    }
    return LUO_OK;
}

static luo_status collect(luo_gatherer *g, const void *mine, int64_t n, luo_err *err)
{
    LUO_TRY(agree(g, n, err));
    if (g->rank > 0) return pass(g, true, 0, (char *)(uintptr_t)mine, n, err);
    char *at = g->gathered;
    for (int r = 0; r < g->n; r++) {
        g->parts[r] = at;
        if (r > 0) LUO_TRY(pass(g, false, r, at, g->sizes[r], err));
        if (r == 0 && n > 0) memcpy(at, mine, (size_t)n);
        at += g->sizes[r];
    }
    return LUO_OK;
}

static luo_status bytes(void *ctx, const void *mine, int64_t n, const void *const **out,
                        const int64_t **sizes, int32_t *ranks, luo_err *err)
{
    luo_gatherer *g = ctx;
    LUO_TRY(collect(g, mine, n, err));
    *out = g->parts;
    *sizes = g->sizes;
    *ranks = g->n;
    return LUO_OK;
}

luo_gather luo_gatherer_gather(luo_gatherer *g)
{
    return (luo_gather){g, g->rank == 0, bytes};
}

static luo_status open(luo_gatherer *g, MPI_Comm comm, luo_err *err)
{
    LUO_TRY(mpi(err, MPI_Comm_dup(comm, &g->comm), "copying a communicator"));
    MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(g->comm, &g->rank);
    MPI_Comm_size(g->comm, &g->n);
    g->sizes = calloc((size_t)g->n, sizeof *g->sizes);
    g->parts = calloc((size_t)g->n, sizeof *g->parts);
    return g->sizes && g->parts ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_gatherer_open(MPI_Comm comm, luo_gather_wait wait, void *ctx, luo_gatherer **out,
                             luo_err *err)
{
    luo_gatherer *g = calloc(1, sizeof *g);
    if (!g) return luo_err_nomem(err);
    *g = (luo_gatherer){.comm = MPI_COMM_NULL, .wait = wait, .ctx = ctx};
    const luo_status st = open(g, comm, err);
    if (st == LUO_OK)
        *out = g;
    else
        luo_gatherer_close(g);
    return st;
}

void luo_gatherer_close(luo_gatherer *g)
{
    if (!g) return;
    if (g->comm != MPI_COMM_NULL) MPI_Comm_free(&g->comm);
    free(g->gathered);
    free(g->sizes);
    free(g->parts);
    free(g);
}
