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

const host_group *host_find_group(const luo_exec *exec, const luo_group *group)
{
    for (const host_group *h = exec->groups; h; h = h->next)
        if (h->stream == group->stream && h->n == group->n &&
            memcmp(h->dev, group->dev, (size_t)group->n * sizeof *group->dev) == 0)
            return h;
    return NULL;
}

static luo_status world_ranks(luo_exec *exec, const luo_group *group, int *rank, bool *inside,
                              luo_err *err)
{
    *inside = false;
    for (int32_t i = 0; i < group->n; i++) {
        rank[i] = (int)luo_bound_rank_of(&exec->config, group->dev[i]);
        if (rank[i] < 0)
            return luo_err_set(err, LUO_EBACKEND,
                               "the plan needs device %d, for which no rank "
                               "runs; give more --ranks.",
                               (int)group->dev[i]);
        *inside |= group->dev[i] == exec->device;
    }
    return LUO_OK;
}

static luo_status make_comm(luo_exec *exec, int n, const int *rank, int tag, MPI_Comm *out,
                            luo_err *err)
{
    MPI_Group world, some;
    MPI_Comm_group(exec->p2p, &world);
    MPI_Group_incl(world, n, rank, &some);
    const int code = MPI_Comm_create_group(exec->p2p, some, tag, out);
    MPI_Group_free(&some);
    MPI_Group_free(&world);
    LUO_TRY(host_mpi(err, code, "making a communicator"));
    MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    return LUO_OK;
}

/* Only its members call MPI for a group; the order is that of the program on all of them. */
static luo_status open_group(luo_exec *exec, const luo_group *group, int tag, luo_err *err)
{
    bool inside;
    host_group *h = LUO_NEW(exec->arena, host_group);
    int32_t *dev = LUO_NEW_N(exec->arena, int32_t, group->n);
    int *rank = LUO_NEW_N(exec->arena, int, group->n);
    if (!h || !dev || !rank) return luo_err_nomem(err);
    LUO_TRY(world_ranks(exec, group, rank, &inside, err));
    memcpy(dev, group->dev, (size_t)group->n * sizeof *dev);
    *h = (host_group){group->stream, group->n, dev, MPI_COMM_NULL, exec->groups};
    if (inside) LUO_TRY(make_comm(exec, (int)group->n, rank, tag, &h->comm, err));
    exec->groups = h;
    return LUO_OK;
}

luo_status host_open_groups(luo_exec *exec, const luo_programs *set, luo_err *err)
{
    for (int32_t i = 0; i < set->ngroups; i++)
        if (!host_find_group(exec, &set->groups[i]))
            LUO_TRY(open_group(exec, &set->groups[i], (int)i, err));
    return LUO_OK;
}
