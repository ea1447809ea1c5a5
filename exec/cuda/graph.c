/* graph.c: a step that nothing disturbs is launched once as it is, so that all libraries
 * have made what they need, captured the next time, and from then on launched whole. What changes
 * between such steps is read from device memory, so the captured work stays right; its bits are
 * those of a step that is launched anew. Steps with a trace have a graph of their own, with its
 * stamps in it: launched one by one, small operations would be traced with the host's time for
 * launches between them. Parts of a step are launched one by one: what one of them adds to lies
 * elsewhere in the next step. Which steps are captured is the same on all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "exec/cuda/job.h"

/* Nothing in it depends on this step alone; all ranks say so of the same steps. */
static bool undisturbed(const luo_rank *rank)
{
    return rank->x->graphs && !rank->job->no_graph && rank->order->quiet && rank->order->part.n < 2;
}

static luo_status walk_anew(luo_rank *rank, luo_status (*walk)(luo_rank *rank))
{
    gpu_stamps_begin(rank->job, NULL);
    gpu_stamps_forget(rank->job);
    return walk(rank);
}

/* The capture is ended whatever the walk says, or the stream would stay in it. */
static luo_status capture(luo_rank *rank, const gpu_graph *graph,
                          luo_status (*walk)(luo_rank *rank), cudaGraph_t *out, luo_err *err)
{
    const cudaStream_t stream = rank->x->stream[LUO_STREAM_COMPUTE];
    luo_err end = {0};
    gpu_stamps_begin(rank->job, graph);
    gpu_stamps_forget(rank->job);
    LUO_TRY(gpu_check(err, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                      "beginning to capture a step"));
    rank->captures = true;
    const luo_status st = walk(rank);
    rank->captures = false;
    const luo_status ended = gpu_check(&end, cudaStreamEndCapture(stream, out), "capturing a step");
    if (st != LUO_OK) return luo_err_set(err, st, "%s", rank->err.text);
    return ended == LUO_OK ? LUO_OK : luo_err_set(err, ended, "%s", end.text);
}

static luo_status make(luo_rank *rank, gpu_graph *g, luo_status (*walk)(luo_rank *rank),
                       luo_err *err)
{
    cudaGraph_t graph = NULL;
    if (rank->x->config.model->moe.experts)
        return luo_err_set(err, LUO_EUNSUP, "the host reads counts of experts' rows in them.");
    if (rank->job->bound.set->n > 1) LUO_TRY(gpu_comms_captures(rank->x->comms, err));
    luo_status st = capture(rank, g, walk, &graph, err);
    if (st == LUO_OK)
        st = gpu_check(err, cudaGraphInstantiate(&g->exec, graph, 0), "making a graph of a step");
    gpu_watch_goes_on(rank->x);
    if (st != LUO_OK) g->exec = NULL;
    if (graph) (void)cudaGraphDestroy(graph);
    g->has_loss = rank->has_loss;
    return st;
}

/* MPI ranks of the plan. */
static luo_status members(const luo_rank *r, MPI_Group *out, luo_err *err)
{
    const luo_programs *set = r->job->bound.set;
    MPI_Group world;
    int *rank = LUO_NEW_N(r->scratch, int, set->n);
    if (!rank) return luo_err_nomem(err);
    for (int32_t i = 0; i < set->n; i++)
        rank[i] = (int)luo_bound_rank_of(&r->x->config, set->at[i].device);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    const int code = MPI_Group_incl(world, (int)set->n, rank, out);
    MPI_Group_free(&world);
    if (code == MPI_SUCCESS) return LUO_OK;
    return luo_err_set(err, LUO_EBACKEND, "MPI failed to group the ranks of a plan.");
}

/* To NCCL communication is captured on all of its ranks or on none, so one that cannot do it keeps
 * the others from it. In the same step on all of them; once per program. A rank that never comes
 * holds the others up here, in MPI, where only the coordinator sees it: to the watchdog here they
 * go on. */
static luo_status agree(luo_rank *rank, luo_status mine, luo_err *err)
{
    MPI_Group group;
    MPI_Comm comm;
    int bad = mine != LUO_OK, any = 1;
    luo_err why = {0};
    if (rank->job->bound.set->n == 1) return mine;
    LUO_TRY(members(rank, &group, mine == LUO_OK ? err : &why));
    atomic_store(&rank->x->agrees, true);
    int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, rank->job->id, &comm);
    MPI_Group_free(&group);
    if (code == MPI_SUCCESS) {
        code = MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, comm);
        MPI_Comm_free(&comm);
    }
    atomic_store(&rank->x->agrees, false);
    if (mine != LUO_OK) return mine;
    if (code == MPI_SUCCESS && !any) return LUO_OK;
    return luo_err_set(err, LUO_ECANCELED, "another rank could not capture its part.");
}

/* It works without; but whoever reads the log shall know why steps take longer: once, and of what
 * holds for all ranks from one of them. */
static void refuse(luo_rank *rank, luo_status st, const luo_err *why)
{
    char text[sizeof rank->x->remark];
    gpu_graph_close(rank->job);
    rank->job->no_graph = true;
    rank->err = (luo_err){0};
    if (st == LUO_EUNSUP && rank->job->bound.set->at[0].device != rank->x->device) return;
    const size_t n = strlen(why->text);
    snprintf(text, sizeof text,
             "steps are not captured as CUDA graphs but launched one by one: %.*s",
             (int)(n > 0 && why->text[n - 1] == '.' ? n - 1 : n), why->text);
    if (strcmp(text, rank->x->remark) == 0) return;
    memcpy(rank->x->remark, text, sizeof text);
    rank->x->told = false;
}

/* The watchdog may take the graphs away meanwhile; a launch returns at once. */
static luo_status launch(luo_rank *rank, const gpu_graph *graph, luo_err *err)
{
    luo_status st;
    pthread_mutex_lock(&rank->x->watched);
    st = graph->exec
             ? gpu_check(err, cudaGraphLaunch(graph->exec, rank->x->stream[LUO_STREAM_COMPUTE]),
                         "launching a step")
             : luo_err_set(err, LUO_EPEER, "the communicators of the step were aborted.");
    pthread_mutex_unlock(&rank->x->watched);
    return st;
}

luo_status gpu_graph_launch(luo_rank *rank, luo_status (*walk)(luo_rank *rank), luo_err *err)
{
    gpu_graph *graph = &rank->job->graph[rank->order->trace];
    luo_err why = {0};
    if (!undisturbed(rank)) return walk_anew(rank, walk);
    if (++graph->quiet == 2) {
        const luo_status st = agree(rank, make(rank, graph, walk, &why), &why);
        if (st != LUO_OK) refuse(rank, st, &why);
    }
    if (!graph->exec) return walk_anew(rank, walk);
    gpu_stamps_begin(rank->job, graph);
    rank->has_loss = graph->has_loss;
    return launch(rank, graph, err);
}

void gpu_graph_close(luo_job *job)
{
    for (int i = 0; i < GPU_GRAPHS; i++) {
        if (job->graph[i].exec) (void)cudaGraphExecDestroy(job->graph[i].exec);
        job->graph[i].exec = NULL;
    }
}
