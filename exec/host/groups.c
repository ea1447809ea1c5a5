/* groups.c: communicators, made once per (stream, devices) and kept as long as the
 * executor: plans that come back find theirs. */
#include <string.h>

#include "exec/host/job.h"

luo_status host_mpi(luo_err *err, int code, const char *what)
{
    if (code == MPI_SUCCESS) return LUO_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return luo_err_set(err, LUO_EBACKEND, "MPI failed in %s: %s.", what, text);
}

const host_group *host_find_group(const luo_exec *x, const luo_group *g)
{
    for (const host_group *h = x->groups; h; h = h->next)
        if (h->stream == g->stream && h->n == g->n &&
            memcmp(h->dev, g->dev, (size_t)g->n * sizeof *g->dev) == 0)
            return h;
    return NULL;
}

static luo_status world_ranks(luo_exec *x, const luo_group *g, int *rank, bool *inside,
                              luo_err *err)
{
    *inside = false;
    for (int32_t i = 0; i < g->n; i++) {
        rank[i] = (int)luo_rank_of(&x->config, g->dev[i]);
        if (rank[i] < 0)
            return luo_err_set(err, LUO_EBACKEND,
                               "the plan needs device %d, for which no rank "
                               "runs; give more --ranks.",
                               (int)g->dev[i]);
        *inside |= g->dev[i] == x->device;
    }
    return LUO_OK;
}

static luo_status make_comm(luo_exec *x, int n, const int *rank, int tag, MPI_Comm *out,
                            luo_err *err)
{
    MPI_Group world, some;
    MPI_Comm_group(x->p2p, &world);
    MPI_Group_incl(world, n, rank, &some);
    const int code = MPI_Comm_create_group(x->p2p, some, tag, out);
    MPI_Group_free(&some);
    MPI_Group_free(&world);
    LUO_TRY(host_mpi(err, code, "making a communicator"));
    MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    return LUO_OK;
}

/* Only its members call MPI for a group; the order is that of the program on all of them. */
static luo_status open_group(luo_exec *x, const luo_group *g, int tag, luo_err *err)
{
    bool inside;
    host_group *h = LUO_NEW(x->arena, host_group);
    int32_t *dev = LUO_NEW_N(x->arena, int32_t, g->n);
    int *rank = LUO_NEW_N(x->arena, int, g->n);
    if (!h || !dev || !rank) return luo_err_nomem(err);
    LUO_TRY(world_ranks(x, g, rank, &inside, err));
    memcpy(dev, g->dev, (size_t)g->n * sizeof *dev);
    *h = (host_group){g->stream, g->n, dev, MPI_COMM_NULL, x->groups};
    if (inside) LUO_TRY(make_comm(x, (int)g->n, rank, tag, &h->comm, err));
    x->groups = h;
    return LUO_OK;
}

luo_status host_open_groups(luo_exec *x, const luo_programs *set, luo_err *err)
{
    for (int32_t i = 0; i < set->ngroups; i++)
        if (!host_find_group(x, &set->groups[i]))
            LUO_TRY(open_group(x, &set->groups[i], (int)i, err));
    return LUO_OK;
}
