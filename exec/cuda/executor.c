/* executor.c: CUDA's row of exec/rank/rank.h. Pre: MPI is initialised, and one thread calls
 * it. */
#include "exec/cuda/executor.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "exec/cuda/job.h"

static luo_status choose(luo_exec *exec, luo_err *err)
{
    if (exec->config.dtype == LUO_F32 || exec->config.dtype == LUO_BF16) return LUO_OK;
    return luo_err_set(err, LUO_EUNSUP,
                       "GPUs compute in f32 and bf16 here, not in %s; use --dtype.",
                       luo_dtype_name(exec->config.dtype));
}

/* What one rank cannot do none begins, since the rest is done in common; and graphs are for all or
 * none. */
static luo_status agree(luo_exec *exec, luo_status mine, luo_err *err)
{
    int here[2] = {mine != LUO_OK, !exec->graphs}, any[2] = {0, 0};
    if (MPI_Allreduce(here, any, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS)
        return luo_err_set(err, LUO_EBACKEND, "MPI failed when the ranks opened their GPUs.");
    exec->graphs = !any[1];
    if (mine != LUO_OK || !any[0]) return mine;
    return luo_err_set(err, LUO_ECANCELED, "another rank could not open its GPU.");
}

static luo_status open_gpu(luo_exec *exec, luo_err *err)
{
    void *probe, *there;
    LUO_TRY(choose(exec, err));
    gpu_prepare_environment(); /* where main has not done it */
    LUO_TRY(gpu_open(exec->config.local, &exec->facts, err));
    LUO_TRY(gpu_alloc_mapped((int64_t)sizeof(uint64_t), "the clock", &probe, &there, err));
    exec->probe = probe;
    exec->device_probe = there;
    LUO_TRY(gpu_lanes_open(exec, err));
    LUO_TRY(gpu_blas_open(&exec->blas, err));
    return gpu_clock_read(exec, GPU_CLOCK_ROUNDS, err);
}

static luo_status open_all(luo_exec *exec, luo_err *err)
{
    LUO_TRY(agree(exec, open_gpu(exec, err), err));
    LUO_TRY(gpu_comms_open(&exec->config, &exec->facts, &exec->comms, err));
    LUO_TRY(gpu_gather_open(exec, err));
    return gpu_watch_open(exec, err);
}

static void close_exec(luo_exec *exec)
{
    if (!exec) return;
    if (exec->watcher) gpu_watcher_stop(exec->watcher);
    gpu_gather_close(exec);
    if (exec->comms) gpu_comms_close(exec->comms);
    if (exec->blas) gpu_blas_close(exec->blas);
    gpu_lanes_close(exec);
    gpu_free_sums(exec);
    gpu_free_mapped(exec->probe);
    pthread_mutex_destroy(&exec->watched);
    luo_arena_free(exec->arena);
}

/* The coordinator sees a step that hangs, and can name who waits for whom: ranks alone do not,
 * unless they are told to. */
static double patience(void)
{
    const char *text = getenv("LUO_CUDA_STUCK_S");
    const double s = text ? strtod(text, NULL) : 0;
    return s > 0 ? s : INFINITY;
}

static luo_status open_exec(const luo_rank_config *config, luo_exec **out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 16);
    luo_exec *exec = arena ? LUO_NEW(arena, luo_exec) : NULL;
    if (!exec) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    const char *graphs = getenv("LUO_CUDA_GRAPHS");
    pthread_mutex_init(&exec->watched, NULL);
    exec->arena = arena;
    exec->config = *config;
    exec->device = config->device_of[config->rank];
    exec->stuck_s = patience();
    exec->window = GPU_WINDOW;
    exec->graphs = !graphs || strcmp(graphs, "0") != 0;
    prctl(PR_SET_TIMERSLACK, 1UL); /* short sleeps of the wait loop mean what they say */
    const luo_status st = open_all(exec, err);
    if (st == LUO_OK)
        *out = exec;
    else
        close_exec(exec);
    return st;
}

/* 13010 is "13.1", as CUDA counts. */
static void say_version(char *text, size_t size, int32_t version)
{
    snprintf(text, size, "%d.%d", (int)(version / 1000), (int)(version % 1000 / 10));
}

static void tell(const luo_exec *exec, luo_device_info *out)
{
    snprintf(out->device, sizeof out->device, "%s", exec->facts.name);
    say_version(out->driver, sizeof out->driver, exec->facts.driver);
    say_version(out->cuda, sizeof out->cuda, exec->facts.runtime);
    gpu_nccl_version(exec->facts.nccl, out->nccl);
    gpu_blas_version(out->blas, sizeof out->blas);
    snprintf(out->warning, sizeof out->warning, "%s", gpu_comms_warning(exec->comms));
}

/* What came up since the last time. */
static const char *remark(luo_exec *exec)
{
    if (!exec->remark[0] || exec->told) return NULL;
    exec->told = true;
    return exec->remark;
}

const luo_rank_executor luo_cuda_executor = {.name = "cuda",
                                        .open = open_exec,
                                        .close = close_exec,
                                        .bind = gpu_bind,
                                        .unbind = gpu_unbind,
                                        .state = gpu_state,
                                        .step = gpu_step,
                                        .move = gpu_move,
                                        .gather = gpu_gather,
                                        .fetch = gpu_fetch,
                                        .store = gpu_store,
                                        .tell = tell,
                                        .remark = remark};
