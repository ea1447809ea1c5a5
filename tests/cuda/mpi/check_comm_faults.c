/* check_comm_faults.c: what becomes of communicators when something goes wrong: a
 * rank that stays away, graphs that hold what is aborted; on the stand-in for NCCL also splits that
 * are refused and a network that breaks. Run by `mpirun -n 8`. */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "exec/clock.h"
#include "tests/cuda/mpi/comm_lab.h"
#include "tests/standin/standin.h"
#include "tests/standin/standin_nccl.h"

static const int32_t everybody[LAB_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

static gpu_comm *group(lab *l, int32_t stream, int32_t n, const int32_t *dev)
{
    gpu_comm *g = NULL;
    lab_must(l, gpu_comms_make(l->comms, stream, n, dev, &g, &l->err) == LUO_OK, "a communicator");
    return g;
}

/* A sum over a group; it ends. */
static void sum(lab *l, gpu_comm *g, const char *what)
{
    lab_block b = lab_alloc(l, 4);
    lab_put(b.host, 0, 4, (float)(l->rank + 1));
    lab_send_block(l, &b);
    lab_expect(l,
               gpu_all_reduce(g, b.device, b.device, 1, 4, LUO_REDUCE_SUM, l->stream[1], &l->err) ==
                   LUO_OK,
               what);
    lab_get_block(l, &b);
    lab_expect(l, lab_get(b.host, 0, 4) == 36, what);
    lab_free(&b);
}

/* ---- splits that are refused ---- */

static void check_refused_splits(lab *l)
{
    lab_open(l);
    sum(l, group(l, LUO_STREAM_TP, LAB_RANKS, everybody), "before");
    const int64_t inits = standin_nccl_count().inits;
    standin_nccl_refuse_splits(true);
    sum(l, group(l, LUO_STREAM_DP, LAB_RANKS, everybody), "by a unique id");
    lab_expect(l, standin_nccl_count().inits > inits, "unique ids were used");
    standin_nccl_refuse_splits(false);
    sum(l, group(l, LUO_STREAM_MOVE, LAB_RANKS, everybody), "and again");
    lab_close(l);
}

/* ---- the watchdog ---- */

typedef struct watched {
    lab *l;
    _Atomic int64_t progress;
} watched;

static int64_t progress(void *ctx)
{
    return ((watched *)ctx)->progress;
}

static const char *broken(void *ctx)
{
    return gpu_comms_broken(((watched *)ctx)->l->comms);
}

static void describe(void *ctx, char *text, size_t n)
{
    snprintf(text, n, "device %d waits in all_reduce", ((watched *)ctx)->l->rank);
}

static void abort_all(void *ctx)
{
    gpu_comms_abort(((watched *)ctx)->l->comms);
}

/* Until the stream is empty, as a step waits for its end. */
static void await(lab *l, cudaStream_t stream)
{
    const double began = luo_clock_s();
    cudaError_t code;
    while ((code = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        lab_must(l, luo_clock_s() - began < 60, "a stream that ends");
        usleep(200);
    }
    lab_expect(l, code == cudaSuccess, "a stream without an error");
}

typedef struct graph { /* a captured sum */
    cudaGraph_t graph;
    cudaGraphExec_t exec;
} graph;

static graph capture(lab *l, gpu_comm *g, const lab_block *b)
{
    graph it;
    const cudaStream_t s = l->stream[1];
    bool good = cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    good &= gpu_all_reduce(g, b->device, b->device, 1, 4, LUO_REDUCE_SUM, s, &l->err) == LUO_OK;
    good &= cudaStreamEndCapture(s, &it.graph) == cudaSuccess;
    good &= cudaGraphInstantiate(&it.exec, it.graph, 0) == cudaSuccess;
    lab_must(l, good, "a graph");
    return it;
}

/* Rank 6 stays away from a sum (`breaks`: its network breaks, as seen by rank 2): those that wait
 * notice, abort, and are told; calls fail from then on; the end does not hang. Rank 6 aborts after
 * they have: NCCL tells those that wait for one who aborts of a broken connection. */
static void check_watch(lab *l, bool captured, bool breaks)
{
    watched w = {.l = l};
    const gpu_watched what = {&w, progress, broken, describe, abort_all};
    gpu_watcher *watcher;
    graph held = {0};
    luo_err err = {0};
    lab_block b = lab_alloc(l, 4);
    lab_open(l);
    gpu_comm *g = group(l, LUO_STREAM_TP, LAB_RANKS, everybody);
    sum(l, g, "before it goes wrong");
    if (captured) held = capture(l, g, &b);
    lab_must(l, gpu_watcher_start(&what, &watcher, &l->err) == LUO_OK, "a watcher");
    /* on a GPU that eight processes share, the others may take seconds to begin */
    gpu_watcher_arm(watcher, breaks ? INFINITY : standin_is_here() ? 0.4 : 12);
    const bool away = l->rank == 6, sees = breaks && l->rank == 2;
    if (!away && captured)
        lab_must(l, cudaGraphLaunch(held.exec, l->stream[1]) == cudaSuccess, "a launch");
    else if (!away)
        lab_must(l,
                 gpu_all_reduce(g, b.device, b.device, 1, 4, LUO_REDUCE_SUM, l->stream[1],
                                &l->err) == LUO_OK,
                 "a sum that does not end");
    if (sees) standin_nccl_break();
    if (away && !breaks) MPI_Barrier(MPI_COMM_WORLD);
    if (!sees && (away || breaks)) { /* as when the coordinator ends them */
        usleep(300000);
        gpu_comms_abort(l->comms);
    }
    await(l, l->stream[1]);
    if (!away && !breaks) MPI_Barrier(MPI_COMM_WORLD);
    const luo_status st = gpu_watcher_disarm(watcher, &err);
    char want[96];
    snprintf(want, sizeof want, ": device %d waits in all_reduce; all ", l->rank);
    if (sees || (!breaks && !away)) {
        lab_expect(l, st == (breaks ? LUO_EPEER : LUO_ESTUCK), "the verdict");
        lab_expect(l, strstr(err.text, want) != NULL, err.text);
        lab_expect(l,
                   !breaks || strstr(err.text, "remote process exited or there was a network error "
                                               "in the communicator of ") == err.text,
                   err.text);
    }
    lab_expect(l,
               gpu_all_reduce(g, b.device, b.device, 1, 4, LUO_REDUCE_SUM, l->stream[1], &l->err) ==
                   LUO_EPEER,
               "a call after the abort");
    lab_expect(l, gpu_comms_broken(l->comms) == NULL, "nothing breaks after its end");
    gpu_watcher_stop(watcher);
    if (held.exec) cudaGraphExecDestroy(held.exec); /* NCCL waits for them */
    if (held.graph) cudaGraphDestroy(held.graph);
    lab_close(l);
    lab_expect(l, standin_nccl_count().alive == 0, "nothing is left");
    lab_free(&b);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Aborts that do not end hold up nobody for ever. */
static void check_held_aborts(lab *l)
{
    lab_open(l);
    sum(l, group(l, LUO_STREAM_TP, LAB_RANKS, everybody), "before");
    standin_nccl_hold_aborts(true);
    gpu_comms_abort(l->comms);
    const double began = luo_clock_s();
    lab_close(l);
    const double took = luo_clock_s() - began;
    lab_expect(l, took > 5, "aborts are waited for");
    lab_expect(l, standin_nccl_count().alive == 2, "two are left");
    standin_nccl_hold_aborts(false);
    while (standin_nccl_count().alive > 0 && luo_clock_s() < began + 60) usleep(1000);
    lab_expect(l, standin_nccl_count().alive == 0, "they end");
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(void)
{
    lab l;
    lab_begin(&l);
    if (standin_is_here()) check_refused_splits(&l);
    check_watch(&l, false, false);
    check_watch(&l, true, false);
    if (standin_is_here()) check_held_aborts(&l);
    if (standin_is_here()) check_watch(&l, false, true);
    return lab_end(&l, "communicators in trouble");
}
