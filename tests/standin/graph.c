/* graph.c: captures, and graphs made of them. A node comes after those that stood at
 * the end of its stream; a launch makes ops of all nodes, which the engine draws like any others.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops.h"

typedef struct node {
    standin_job *job;
    uint32_t lane; /* stream that it was captured in */
    standin_tails after;
} node;
struct CUgraph_st {
    int32_t n, room;
    node *node;
};
struct CUgraphExec_st {
    struct CUgraph_st nodes;
    standin_op *last; /* launches of the same follow each other */
};
struct standin_capture {
    uint64_t id;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    struct CUstream_st *origin;
    bool spoilt;
    struct CUgraph_st *graph;
    standin_capture *next;
};

static standin_capture *captures; /* under way */
static uint64_t ids;
static int64_t ngraphs, nexecs;
static _Thread_local enum cudaStreamCaptureMode own_mode = cudaStreamCaptureModeGlobal;

/* ---- sets of nodes ---- */

void standin_tails_free(standin_tails *t)
{
    free(t->node);
    *t = (standin_tails){0};
}
static bool has(const standin_tails *t, int32_t index)
{
    for (int32_t i = 0; i < t->n; i++)
        if (t->node[i] == index) return true;
    return false;
}
static bool add(standin_tails *t, int32_t index)
{
    if (has(t, index)) return true;
    if (t->n == t->room) {
        const int32_t more = t->room ? 2 * t->room : 4;
        int32_t *at = realloc(t->node, (size_t)more * sizeof *at);
        if (!at) return false;
        t->node = at;
        t->room = more;
    }
    t->node[t->n++] = index;
    return true;
}
static bool add_all(standin_tails *t, const standin_tails *more)
{
    for (int32_t i = 0; i < more->n; i++)
        if (!add(t, more->node[i])) return false;
    return true;
}

/* ---- graphs ---- */

static int32_t add_node(struct CUgraph_st *g, standin_job *job, uint32_t lane,
                        const standin_tails *after)
{
    if (g->n == g->room) {
        const int32_t more = g->room ? 2 * g->room : 64;
        node *at = realloc(g->node, (size_t)more * sizeof *at);
        if (!at) return -1;
        g->node = at;
        g->room = more;
    }
    node *it = &g->node[g->n];
    *it = (node){.job = job, .lane = lane};
    if (!add_all(&it->after, after)) {
        standin_tails_free(&it->after);
        return -1;
    }
    job->refs++;
    return g->n++;
}
static void clear(struct CUgraph_st *g)
{
    for (int32_t i = 0; i < g->n; i++) {
        standin_job_release(g->node[i].job);
        standin_tails_free(&g->node[i].after);
    }
    free(g->node);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    standin_lock();
    if (!graph) return standin_leave(cudaErrorInvalidValue);
    clear(graph);
    free(graph);
    ngraphs--;
    return standin_leave(standin_device_error());
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    STANDIN_ENTER();
    if (nodes) return standin_leave(cudaErrorNotSupported);
    *n = (size_t)graph->n;
    return standin_leave(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    STANDIN_ENTER();
    if (!graph || flags != 0) return standin_leave(cudaErrorInvalidValue);
    struct CUgraphExec_st *x = calloc(1, sizeof *x);
    if (!x) return standin_leave(cudaErrorMemoryAllocation);
    for (int32_t i = 0; i < graph->n; i++)
        if (add_node(&x->nodes, graph->node[i].job, graph->node[i].lane, &graph->node[i].after) <
            0) {
            clear(&x->nodes);
            free(x);
            return standin_leave(cudaErrorMemoryAllocation);
        }
    nexecs++;
    *out = x;
    return standin_leave(cudaSuccess);
}
/* A launch that goes on is waited for. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    standin_lock();
    if (!exec) return standin_leave(cudaErrorInvalidValue);
    const cudaError_t code = standin_wait(exec->last);
    standin_op_release(exec->last);
    clear(&exec->nodes);
    free(exec);
    nexecs--;
    return standin_leave(code);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    STANDIN_ENTER();
    return standin_leave(exec && standin_stream(stream) ? cudaSuccess : cudaErrorInvalidValue);
}

/* Ops of all nodes. before: what the first ones come after; ends: room for n, gets all ops. */
static bool launch_nodes(const struct CUgraph_st *g, standin_op *before, standin_op **ends)
{
    standin_op **after = malloc((size_t)(g->n + 1) * sizeof *after);
    bool good = after != NULL;
    int32_t made = 0;
    for (; good && made < g->n; made++) {
        const node *it = &g->node[made];
        int32_t n = 0;
        after[n++] = before;
        for (int32_t i = 0; i < it->after.n; i++) after[n++] = ends[it->after.node[i]];
        ends[made] = standin_op_make(it->job, n, after);
        if (ends[made])
            standin_op_in_lane(ends[made], it->lane);
        else
            good = false;
    }
    free(after);
    return good;
}
static cudaError_t launch(cudaGraphExec_t x, struct CUstream_st *s)
{
    const struct CUgraph_st *g = &x->nodes;
    standin_op **ends = calloc((size_t)g->n + 1, sizeof(standin_op *));
    if (!ends) return cudaErrorMemoryAllocation;
    cudaError_t code = standin_push(s, NULL);
    standin_op *const both[2] = {s->tail, x->last};
    standin_op *before = code == cudaSuccess ? standin_op_make(NULL, 2, both) : NULL;
    standin_op *join = NULL;
    if (before && launch_nodes(g, before, ends)) {
        ends[g->n] = before;
        join = standin_op_make(NULL, g->n + 1, ends);
        ends[g->n] = NULL;
    }
    standin_op_release(before);
    for (int32_t i = 0; i < g->n; i++) standin_op_release(ends[i]);
    free(ends);
    if (!join) return cudaErrorMemoryAllocation;
    standin_op_release(s->tail);
    s->tail = join;
    standin_op_release(x->last);
    x->last = standin_op_keep(join);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    STANDIN_ENTER();
    struct CUstream_st *s = standin_stream(stream);
    if (!exec || !s) return standin_leave(cudaErrorInvalidResourceHandle);
    if (s->capture) return standin_leave(cudaErrorNotSupported);
    const cudaError_t code = launch(exec, s);
    standin_after_enqueue();
    return standin_leave(code);
}

/* ---- captures ---- */

static cudaError_t spoil(standin_capture *c, cudaError_t code)
{
    c->spoilt = true;
    return code;
}
cudaError_t standin_capture_forbids(struct CUstream_st *s)
{
    if (s && s->capture) return spoil(s->capture, cudaErrorStreamCaptureUnsupported);
    for (standin_capture *c = captures; c; c = c->next) {
        if (s == &standin_legacy) {
            if (c->origin->blocking) return spoil(c, cudaErrorStreamCaptureImplicit);
            continue;
        }
        if (own_mode == cudaStreamCaptureModeRelaxed || c->mode == cudaStreamCaptureModeRelaxed)
            continue;
        if (c->mode == cudaStreamCaptureModeGlobal || pthread_equal(c->thread, pthread_self()))
            return spoil(c, cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}
bool standin_capturing(cudaStream_t stream)
{
    const struct CUstream_st *s = standin_stream(stream);
    return s && s->capture;
}
uint64_t standin_capture_id(cudaStream_t stream)
{
    const struct CUstream_st *s = standin_stream(stream);
    return s && s->capture ? s->capture->id : 0;
}
static int32_t capture_us;
void standin_slow_capture(int32_t us)
{
    capture_us = us;
}
cudaError_t standin_capture_work(struct CUstream_st *s, const standin_work *work)
{
    if (capture_us > 0) usleep((useconds_t)capture_us);
    standin_capture *c = s->capture;
    standin_job *job = standin_job_make(work);
    if (!job) return spoil(c, cudaErrorMemoryAllocation);
    cudaError_t code = c->spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    if (code == cudaSuccess) {
        const int32_t it = add_node(c->graph, job, s->id, &s->tails);
        s->tails.n = 0;
        if (it < 0 || !add(&s->tails, it)) code = spoil(c, cudaErrorMemoryAllocation);
    }
    standin_job_release(job);
    return code;
}
cudaError_t standin_capture_record(struct CUstream_st *s, cudaEvent_t event)
{
    if (s->capture->spoilt) return cudaErrorStreamCaptureInvalidated;
    standin_op_release(event->op);
    event->op = NULL;
    event->capture = s->capture->id;
    event->tails.n = 0;
    if (!add_all(&event->tails, &s->tails)) return spoil(s->capture, cudaErrorMemoryAllocation);
    return cudaSuccess;
}
cudaError_t standin_capture_wait(struct CUstream_st *s, cudaEvent_t event)
{
    if (!event->capture && !event->op) return cudaSuccess; /* never recorded */
    if (!event->capture) return spoil(s->capture, cudaErrorStreamCaptureIsolation);
    standin_capture *c = captures;
    while (c && c->id != event->capture) c = c->next;
    if (!c) return cudaErrorInvalidValue; /* of a capture that has ended */
    if (c->spoilt) return cudaErrorStreamCaptureInvalidated;
    if (s == &standin_legacy) return spoil(c, cudaErrorStreamCaptureImplicit);
    if (s->capture && s->capture != c) return spoil(c, cudaErrorStreamCaptureMerge);
    s->capture = c;
    if (!add_all(&s->tails, &event->tails)) return spoil(c, cudaErrorMemoryAllocation);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    STANDIN_ENTER();
    struct CUstream_st *s = standin_stream(stream);
    if (!s) return standin_leave(cudaErrorInvalidResourceHandle);
    if (s == &standin_legacy) return standin_leave(cudaErrorStreamCaptureUnsupported);
    if (s->capture) return standin_leave(cudaErrorIllegalState);
    standin_capture *c = calloc(1, sizeof *c);
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!c || !g) {
        free(c);
        free(g);
        return standin_leave(cudaErrorMemoryAllocation);
    }
    *c = (standin_capture){.id = ++ids,
                           .mode = mode,
                           .thread = pthread_self(),
                           .origin = s,
                           .graph = g,
                           .next = captures};
    captures = c;
    s->capture = c;
    return standin_leave(cudaSuccess);
}

/* Marks what `from` comes after, and `from`. Nodes only come after nodes with smaller numbers. */
static void mark_before(const struct CUgraph_st *g, const standin_tails *from, bool *marked)
{
    for (int32_t i = 0; i < from->n; i++) marked[from->node[i]] = true;
    for (int32_t i = g->n - 1; i >= 0; i--)
        if (marked[i])
            for (int32_t k = 0; k < g->node[i].after.n; k++)
                marked[g->node[i].after.node[k]] = true;
}
/* Has the origin waited for everything in the end? */
static cudaError_t all_joined(const standin_capture *c)
{
    const struct CUgraph_st *g = c->graph;
    bool *marked = calloc((size_t)g->n + 1, sizeof *marked);
    if (!marked) return cudaErrorMemoryAllocation;
    mark_before(g, &c->origin->tails, marked);
    bool all = true;
    for (int32_t i = 0; i < g->n; i++) all = all && marked[i];
    free(marked);
    return all ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}
static void leave_capture(standin_capture *c)
{
    for (struct CUstream_st *s = standin_legacy.next; s; s = s->next)
        if (s->capture == c) {
            s->capture = NULL;
            s->tails.n = 0;
        }
    standin_capture **at = &captures;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    free(c);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    STANDIN_ENTER();
    struct CUstream_st *s = standin_stream(stream);
    if (!s) return standin_leave(cudaErrorInvalidResourceHandle);
    standin_capture *c = s->capture;
    *out = NULL;
    if (!c) return standin_leave(cudaErrorIllegalState);
    if (c->origin != s) return standin_leave(spoil(c, cudaErrorStreamCaptureUnmatched));
    if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
        return standin_leave(spoil(c, cudaErrorStreamCaptureWrongThread));
    const cudaError_t code = c->spoilt ? cudaErrorStreamCaptureInvalidated : all_joined(c);
    if (code == cudaSuccess) {
        *out = c->graph;
        ngraphs++;
    } else {
        clear(c->graph);
        free(c->graph);
    }
    leave_capture(c);
    return standin_leave(code);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    STANDIN_ENTER();
    const struct CUstream_st *s = standin_stream(stream);
    if (!s) return standin_leave(cudaErrorInvalidResourceHandle);
    *out = !s->capture          ? cudaStreamCaptureStatusNone
           : s->capture->spoilt ? cudaStreamCaptureStatusInvalidated
                                : cudaStreamCaptureStatusActive;
    return standin_leave(cudaSuccess);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    const enum cudaStreamCaptureMode was = own_mode;
    own_mode = *mode;
    *mode = was;
    return cudaSuccess;
}
void standin_count_graphs(standin_counts *out)
{
    out->graphs = ngraphs;
    out->executables = nexecs;
}
