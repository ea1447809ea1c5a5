/* executor.c: the host's row of exec/rank/rank.h. Pre: MPI is initialised, one thread calls
 * it, and BLAS runs in one thread. */
#include <sys/prctl.h>
#include <unistd.h>

#include "core/graph/rope.h"
#include "exec/host/job.h"

static luo_status choose(luo_exec *exec, luo_err *err)
{
    switch (exec->config.dtype) {
    case LUO_F32:
        exec->k = &luo_kernels_f32;
        exec->type = MPI_FLOAT;
        return LUO_OK;
    case LUO_F64:
        exec->k = &luo_kernels_f64;
        exec->type = MPI_DOUBLE;
        return LUO_OK;
    case LUO_BF16:
        break;
    }
    return luo_err_set(err, LUO_EUNSUP,
                       "the host computes in f32 and f64, not in %s; use "
                       "--dtype f32.",
                       luo_dtype_name(exec->config.dtype));
}

static luo_status open_mpi(luo_exec *exec, luo_err *err)
{
    int *limit, found = 0;
    MPI_Comm local;
    LUO_TRY(host_mpi(err, MPI_Comm_dup(MPI_COMM_WORLD, &exec->p2p), "start-up"));
    MPI_Comm_set_errhandler(exec->p2p, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found);
    exec->tag_limit = found ? *limit : 32767;
    int here = 1;
    LUO_TRY(host_mpi(err,
                     MPI_Comm_split_type(exec->p2p, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local),
                     "start-up"));
    MPI_Comm_size(local, &here);
    MPI_Comm_free(&local);
    exec->spins = here <= sysconf(_SC_NPROCESSORS_ONLN);
    return LUO_OK;
}

static luo_status wait_gather(void *ctx, MPI_Request *request, luo_err *err)
{
    return host_wait(ctx, NULL, 1, request, err);
}

static luo_status gather(luo_exec *exec, luo_gather *out)
{
    *out = luo_gatherer_gather(exec->gatherer);
    return LUO_OK;
}

static void close_exec(luo_exec *exec)
{
    if (!exec) return;
    for (host_group *group = exec->groups; group; group = group->next)
        if (group->comm != MPI_COMM_NULL) MPI_Comm_free(&group->comm);
    if (exec->p2p != MPI_COMM_NULL) MPI_Comm_free(&exec->p2p);
    luo_gatherer_close(exec->gatherer);
    host_free_sums(exec);
    luo_arena_free(exec->arena);
}

static luo_status open_exec(const luo_rank_config *config, luo_exec **out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    luo_exec *exec = arena ? LUO_NEW(arena, luo_exec) : NULL;
    if (!exec) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    *exec = (luo_exec){.arena = arena,
                       .config = *config,
                       .p2p = MPI_COMM_NULL,
                       .device = config->device_of[config->rank]};
    exec->config.messages_inside = !config->calls_beside;
    prctl(PR_SET_TIMERSLACK, 1UL); /* short sleeps of the wait loop mean what they say */
    luo_status st = choose(exec, err);
    if (st == LUO_OK) st = open_mpi(exec, err);
    if (st == LUO_OK) st = luo_gatherer_open(exec->p2p, wait_gather, exec, &exec->gatherer, err);
    if (st == LUO_OK)
        *out = exec;
    else
        close_exec(exec);
    return st;
}

static luo_state *state_of(luo_job *job)
{
    return &job->state;
}

const luo_rank_executor luo_host_executor = {.name = "host",
                                        .open = open_exec,
                                        .close = close_exec,
                                        .bind = host_bind,
                                        .unbind = host_unbind,
                                        .state = state_of,
                                        .step = host_step,
                                        .move = host_move,
                                        .gather = gather};
