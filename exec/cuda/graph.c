/* exec/cuda/graph.c: a step that nothing disturbs is launched once as it is, so that all libraries
 * have made what they need, captured the next time, and from then on launched whole. What changes
 * between such steps is read from device memory, so the captured work stays right; its bits are
 * those of a step that is launched anew. */
#include <stdio.h>

#include "exec/cuda/job.h"

/* Nothing in it depends on this step alone. */
static bool undisturbed(const luo_rank *r)
{
    return r->x->graphs && !r->job->graph.refused && !r->order->trace && r->npace == 0 &&
           r->order->ndelay == 0;
}

static luo_status walk_anew(luo_rank *r, luo_status (*walk)(luo_rank *r))
{
    gpu_stamps_begin(r->job, false);
    gpu_stamps_forget(r->job);
    return walk(r);
}

/* The capture is ended whatever the walk says, or the stream would stay in it. */
static luo_status capture(luo_rank *r, luo_status (*walk)(luo_rank *r), cudaGraph_t *out,
                          luo_err *err)
{
    const cudaStream_t stream = r->x->stream[LUO_STREAM_COMPUTE];
    luo_err end = {0};
    gpu_stamps_begin(r->job, true);
    gpu_stamps_forget(r->job);
    LUO_TRY(gpu_check(err, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                      "beginning to capture a step"));
    const luo_status st = walk(r);
    const luo_status ended = gpu_check(&end, cudaStreamEndCapture(stream, out), "capturing a step");
    if (st != LUO_OK) return luo_err_set(err, st, "%s", r->err.text);
    return ended == LUO_OK ? LUO_OK : luo_err_set(err, ended, "%s", end.text);
}

static luo_status make(luo_rank *r, luo_status (*walk)(luo_rank *r), luo_err *err)
{
    gpu_graph *g = &r->job->graph;
    cudaGraph_t graph = NULL;
    luo_status st = capture(r, walk, &graph, err);
    if (st == LUO_OK)
        st = gpu_check(err, cudaGraphInstantiate(&g->exec, graph, 0), "making a graph of a step");
    if (st != LUO_OK) g->exec = NULL;
    if (graph) (void)cudaGraphDestroy(graph);
    g->has_loss = r->has_loss;
    return st;
}

/* It works without; but whoever reads the log shall know why steps take longer. */
static void refuse(luo_rank *r, const luo_err *why)
{
    r->job->graph.refused = true;
    snprintf(r->x->remark, sizeof r->x->remark,
             "steps are not captured as CUDA graphs but launched one by one: %.900s", why->text);
    r->x->told = false;
    r->err = (luo_err){0};
}

luo_status gpu_graph_launch(luo_rank *r, luo_status (*walk)(luo_rank *r), luo_err *err)
{
    gpu_graph *g = &r->job->graph;
    luo_err why = {0};
    if (!undisturbed(r)) return walk_anew(r, walk);
    if (++g->quiet > 1 && !g->exec && make(r, walk, &why) != LUO_OK) refuse(r, &why);
    if (!g->exec) return walk_anew(r, walk);
    gpu_stamps_begin(r->job, true);
    r->has_loss = g->has_loss;
    return gpu_check(err, cudaGraphLaunch(g->exec, r->x->stream[LUO_STREAM_COMPUTE]),
                     "launching a step");
}

void gpu_graph_close(luo_job *j)
{
    if (j->graph.exec) (void)cudaGraphExecDestroy(j->graph.exec);
}
