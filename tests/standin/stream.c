/* stream.c: streams and events. The legacy stream comes after all work of streams
 * that block, and before what they are given later; non-blocking streams know nothing of it. */
#include <stdlib.h>
#include <string.h>

#include "ops.h"

struct CUstream_st standin_legacy = {.blocking = true};
static int64_t nstreams, nevents;
static uint32_t ids;

struct CUstream_st *standin_stream(cudaStream_t stream)
{
    if (stream == NULL || stream == cudaStreamLegacy) return &standin_legacy;
    for (struct CUstream_st *s = standin_legacy.next; s; s = s->next)
        if (s == stream) return s;
    return NULL;
}

/* ---- giving work to a stream ---- */

/* After all streams that block: the legacy stream's own work. */
static cudaError_t push_legacy(standin_job *job)
{
    standin_op **after = malloc((size_t)(nstreams + 1) * sizeof *after);
    if (!after) return cudaErrorMemoryAllocation;
    int32_t n = 0;
    after[n++] = standin_legacy.tail;
    for (struct CUstream_st *s = standin_legacy.next; s; s = s->next)
        if (s->blocking) after[n++] = s->tail;
    standin_op *op = standin_op_make(job, n, after);
    free(after);
    if (!op) return cudaErrorMemoryAllocation;
    standin_op_release(standin_legacy.tail);
    standin_legacy.tail = op;
    return cudaSuccess;
}
static cudaError_t push_after(struct CUstream_st *s, standin_job *job, standin_op *other)
{
    standin_op *const after[3] = {s->tail, other, s->blocking ? standin_legacy.tail : NULL};
    standin_op *op = standin_op_make(job, 3, after);
    if (!op) return cudaErrorMemoryAllocation;
    standin_op_in_lane(op, s->id);
    standin_op_release(s->tail);
    s->tail = op;
    return cudaSuccess;
}
cudaError_t standin_push(struct CUstream_st *s, standin_job *job)
{
    return s == &standin_legacy ? push_legacy(job) : push_after(s, job, NULL);
}

cudaError_t standin_enqueue(cudaStream_t stream, const standin_work *work)
{
    struct CUstream_st *s = standin_stream(stream);
    cudaError_t code = s ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (s == &standin_legacy) code = standin_capture_forbids(s);
    if (code != cudaSuccess) {
        if (work->drop) work->drop(work->ctx);
        return code;
    }
    if (s->capture) return standin_capture_work(s, work);
    standin_job *job = standin_job_make(work);
    if (!job) return cudaErrorMemoryAllocation;
    code = standin_push(s, job);
    standin_job_release(job);
    standin_after_enqueue();
    return code;
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
{
    STANDIN_ENTER();
    if (flags & ~(unsigned int)cudaStreamNonBlocking) return standin_leave(cudaErrorInvalidValue);
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s) return standin_leave(cudaErrorMemoryAllocation);
    s->blocking = !(flags & cudaStreamNonBlocking);
    s->priority = priority;
    s->id = ++ids;
    s->next = standin_legacy.next;
    standin_legacy.next = s;
    nstreams++;
    *out = s;
    return standin_leave(cudaSuccess);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithPriority(out, cudaStreamDefault, 0);
}
/* What the stream was given goes on. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    standin_lock();
    struct CUstream_st **at = &standin_legacy.next;
    while (*at && *at != stream) at = &(*at)->next;
    struct CUstream_st *s = *at;
    if (!s) return standin_leave(cudaErrorInvalidResourceHandle);
    if (s->capture) return standin_leave(standin_capture_forbids(s));
    *at = s->next;
    nstreams--;
    standin_op_release(s->tail);
    standin_tails_free(&s->tails);
    free(s);
    return standin_leave(standin_device_error());
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    STANDIN_ENTER();
    struct CUstream_st *s = standin_stream(stream);
    if (!s) return standin_leave(cudaErrorInvalidResourceHandle);
    const cudaError_t code = standin_capture_forbids(s);
    if (code != cudaSuccess) return standin_leave(code);
    if (s == &standin_legacy) { /* work of the streams that block counts as its own */
        const cudaError_t pushed = push_legacy(NULL);
        if (pushed != cudaSuccess) return standin_leave(pushed);
    }
    return standin_leave(standin_wait(s->tail));
}
static cudaError_t look_at(standin_op *op)
{
    if (standin_op_done(op)) return cudaSuccess;
    int moved = 0;
    for (uint32_t n = standin_below(6); n > 0; n--) moved += standin_progress();
    if (!moved) standin_breathe();
    if (standin_device_error() != cudaSuccess) return standin_device_error();
    return standin_op_done(op) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    STANDIN_ENTER();
    struct CUstream_st *s = standin_stream(stream);
    if (!s) return standin_leave(cudaErrorInvalidResourceHandle);
    const cudaError_t code = standin_capture_forbids(s);
    return standin_leave(code != cudaSuccess ? code : look_at(s->tail));
}
cudaError_t cudaDeviceSynchronize(void)
{
    STANDIN_ENTER();
    const cudaError_t code = standin_capture_forbids(NULL);
    return standin_leave(code != cudaSuccess ? code : standin_wait_all());
}

typedef struct host_call {
    cudaHostFn_t fn;
    void *ctx;
} host_call;
static cudaError_t run_host(void *ctx, void **run)
{
    (void)run;
    const host_call *c = ctx;
    c->fn(c->ctx);
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *ctx)
{
    STANDIN_ENTER();
    host_call *c = malloc(sizeof *c);
    if (!c) return standin_leave(cudaErrorMemoryAllocation);
    *c = (host_call){fn, ctx};
    const standin_work work = {run_host, NULL, free, c, "a function of the host"};
    return standin_leave(standin_enqueue(stream, &work));
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    STANDIN_ENTER();
    struct CUevent_st *event = calloc(1, sizeof *event);
    if (!event) return standin_leave(cudaErrorMemoryAllocation);
    event->flags = flags;
    nevents++;
    *out = event;
    return standin_leave(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    standin_lock();
    if (!event) return standin_leave(cudaErrorInvalidResourceHandle);
    standin_op_release(event->op);
    standin_tails_free(&event->tails);
    free(event);
    nevents--;
    return standin_leave(standin_device_error());
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    STANDIN_ENTER();
    struct CUstream_st *s = standin_stream(stream);
    if (!s || !event) return standin_leave(cudaErrorInvalidResourceHandle);
    if (s->capture) return standin_leave(standin_capture_record(s, event));
    cudaError_t code = s == &standin_legacy ? standin_capture_forbids(s) : cudaSuccess;
    if (code == cudaSuccess) code = standin_push(s, NULL);
    if (code != cudaSuccess) return standin_leave(code);
    standin_op_release(event->op);
    event->op = standin_op_keep(s->tail);
    event->capture = 0;
    standin_after_enqueue();
    return standin_leave(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    STANDIN_ENTER();
    struct CUstream_st *s = standin_stream(stream);
    if (!s || !event) return standin_leave(cudaErrorInvalidResourceHandle);
    if (flags != 0) return standin_leave(cudaErrorInvalidValue);
    if (s->capture || event->capture) return standin_leave(standin_capture_wait(s, event));
    if (standin_op_done(event->op)) return standin_leave(cudaSuccess);
    if (s == &standin_legacy) return standin_leave(cudaErrorNotSupported);
    return standin_leave(push_after(s, NULL, event->op));
}
/* An event that is asked about: not one of a capture, and not beside one. */
static cudaError_t asked(cudaEvent_t event)
{
    if (!event) return cudaErrorInvalidResourceHandle;
    if (event->capture) return cudaErrorCapturedEvent;
    return standin_capture_forbids(NULL);
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    STANDIN_ENTER();
    const cudaError_t code = asked(event);
    return standin_leave(code != cudaSuccess ? code : look_at(event->op));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    STANDIN_ENTER();
    const cudaError_t code = asked(event);
    return standin_leave(code != cudaSuccess ? code : standin_wait(event->op));
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    STANDIN_ENTER();
    if (!from || !to || !from->op || !to->op || (from->flags | to->flags) & cudaEventDisableTiming)
        return standin_leave(cudaErrorInvalidResourceHandle);
    if (!standin_op_done(from->op) || !standin_op_done(to->op))
        return standin_leave(cudaErrorNotReady);
    *ms = (float)((double)standin_op_time(to->op) - (double)standin_op_time(from->op)) / 1e6f;
    return standin_leave(cudaSuccess);
}
void standin_count_streams(standin_counts *out)
{
    out->streams = nstreams;
    out->events = nevents;
}
