/* The stand-in itself: streams, events, captures, copies. What no event orders happens in any
 * order, and what events order in that one. */
#include <cuda_runtime_api.h>
#include <math.h>

#include "tests/check_main.h"
#include "tests/cuda/forked.h"
#include "tests/standin/engine.h"
#include "tests/standin/standin.h"

enum { SEEDS = 60 };

static void good(cudaError_t code)
{
    ck_assert_msg(code == cudaSuccess, "%s", cudaGetErrorString(code));
}
static void is(cudaError_t code, cudaError_t wanted)
{
    ck_assert_msg(code == wanted, "%s instead of %s", cudaGetErrorName(code),
                  cudaGetErrorName(wanted));
}
static cudaStream_t stream_of_own(void)
{
    cudaStream_t s = NULL;
    good(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
static cudaEvent_t event_of_own(void)
{
    cudaEvent_t e = NULL;
    good(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}
static int *device_ints(int n)
{
    void *p = NULL;
    good(cudaMalloc(&p, (size_t)n * sizeof(int)));
    return p;
}
/* A number on the device, after everything else. */
static int read_int(const int *at)
{
    int v = 0;
    good(cudaDeviceSynchronize());
    good(cudaMemcpy(&v, at, sizeof v, cudaMemcpyDeviceToHost));
    return v;
}

/* How often a reader in stream b sees what stream a wrote, over many seeds. */
static int times_seen(bool with_event)
{
    int seen = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        standin_seed(seed);
        cudaStream_t a = stream_of_own(), b = stream_of_own();
        cudaEvent_t written = event_of_own();
        int *x = device_ints(1), *y = device_ints(1);
        good(cudaMemsetAsync(x, 0x11, sizeof *x, a));
        good(cudaEventRecord(written, a));
        if (with_event) good(cudaStreamWaitEvent(b, written, 0));
        good(cudaMemcpyAsync(y, x, sizeof *x, cudaMemcpyDeviceToDevice, b));
        seen += read_int(y) == 0x11111111;
        good(cudaEventDestroy(written));
        good(cudaStreamDestroy(a));
        good(cudaStreamDestroy(b));
        good(cudaFree(x));
        good(cudaFree(y));
    }
    return seen;
}
START_TEST(streams_race_unless_an_event_orders_them)
{
    const int seen = times_seen(false);
    ck_assert_int_gt(seen, 0);
    ck_assert_int_lt(seen, SEEDS);
    ck_assert_int_eq(times_seen(true), SEEDS);
}
END_TEST

/* An event that is recorded again: who waited before waits for the first record. */
START_TEST(a_wait_is_for_the_record_before_it)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        standin_seed(seed);
        cudaStream_t a = stream_of_own(), b = stream_of_own();
        cudaEvent_t e = event_of_own();
        int *x = device_ints(2), *y = device_ints(1);
        good(cudaStreamWaitEvent(b, e, 0)); /* never recorded: no wait */
        good(cudaMemsetAsync(x, 1, sizeof *x, a));
        good(cudaEventRecord(e, a));
        good(cudaStreamWaitEvent(b, e, 0));
        good(cudaMemsetAsync(x + 1, 2, sizeof *x, a));
        good(cudaEventRecord(e, a));
        good(cudaMemcpyAsync(y, x, sizeof *x, cudaMemcpyDeviceToDevice, b));
        good(cudaEventSynchronize(e));
        good(cudaEventQuery(e));
        ck_assert_int_eq(read_int(x + 1), 0x02020202);
        ck_assert_int_eq(read_int(y), 0x01010101);
        good(cudaEventDestroy(e));
        good(cudaStreamDestroy(a));
        good(cudaStreamDestroy(b));
        good(cudaFree(x));
        good(cudaFree(y));
    }
}
END_TEST

/* cudaMemset belongs to the legacy stream, which streams that do not block know nothing of. */
static int times_after_memset(unsigned int flags)
{
    int after = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        standin_seed(seed);
        cudaStream_t s = NULL;
        good(cudaStreamCreateWithFlags(&s, flags));
        int *x = device_ints(1);
        good(cudaMemset(x, 0, sizeof *x));
        good(cudaMemsetAsync(x, 1, sizeof *x, s));
        after += read_int(x) == 0x01010101;
        good(cudaStreamDestroy(s));
        good(cudaFree(x));
    }
    return after;
}
START_TEST(the_legacy_stream_orders_only_streams_that_block)
{
    ck_assert_int_eq(times_after_memset(cudaStreamDefault), SEEDS);
    ck_assert_int_lt(times_after_memset(cudaStreamNonBlocking), SEEDS);
}
END_TEST

/* ---- copies ---- */

START_TEST(pageable_memory_is_read_at_the_call_pinned_memory_later)
{
    int from_pinned = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        standin_seed(seed);
        cudaStream_t s = stream_of_own();
        int *x = device_ints(2), plain = 1, *pinned = NULL;
        good(cudaHostAlloc((void **)&pinned, sizeof *pinned, cudaHostAllocMapped));
        *pinned = 1;
        good(cudaMemcpyAsync(x, &plain, sizeof *x, cudaMemcpyHostToDevice, s));
        good(cudaMemcpyAsync(x + 1, pinned, sizeof *x, cudaMemcpyHostToDevice, s));
        plain = *pinned = 2;
        ck_assert_int_eq(read_int(x), 1);
        from_pinned += read_int(x + 1) == 1;
        good(cudaFreeHost(pinned));
        good(cudaStreamDestroy(s));
        good(cudaFree(x));
    }
    ck_assert_int_lt(from_pinned, SEEDS);
    ck_assert_int_gt(from_pinned, 0);
}
END_TEST
START_TEST(copies_are_checked)
{
    int *x = device_ints(4), host[4] = {0};
    is(cudaMemcpy(x, host, 5 * sizeof *x, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    is(cudaMemcpy(host, x, sizeof host, cudaMemcpyHostToDevice), cudaErrorInvalidMemcpyDirection);
    is(cudaMemset(host, 0, sizeof host), cudaErrorInvalidValue);
    is(cudaGetLastError(), cudaErrorInvalidValue);
    is(cudaGetLastError(), cudaSuccess);
    good(cudaMemset2DAsync(x, 8, 0, 4, 2, NULL)); /* every other one of four */
    ck_assert_int_eq(read_int(x), 0);
    ck_assert_int_eq(read_int(x + 1), -1); /* fresh memory is 0xff */
    ck_assert_int_eq(read_int(x + 2), 0);
    good(cudaFree(x));
    is(cudaFree(x), cudaErrorInvalidValue);
}
END_TEST
/* ---- captures ---- */

/* y = what x held at the launch: copied to z in a second stream of the capture, then back. */
static cudaGraphExec_t capture(cudaStream_t a, cudaStream_t b, const int *x, int *y, int *z)
{
    cudaEvent_t begun = event_of_own(), done = event_of_own();
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    good(cudaMemcpyAsync(y, x, sizeof *x, cudaMemcpyDeviceToDevice, a));
    good(cudaEventRecord(begun, a));
    good(cudaStreamWaitEvent(b, begun, 0));
    good(cudaMemcpyAsync(z, y, sizeof *x, cudaMemcpyDeviceToDevice, b));
    good(cudaEventRecord(done, b));
    good(cudaStreamWaitEvent(a, done, 0));
    good(cudaMemsetAsync(y, 0, sizeof *y, a));
    good(cudaStreamEndCapture(a, &graph));
    size_t nodes = 0;
    good(cudaGraphGetNodes(graph, NULL, &nodes));
    ck_assert_uint_eq(nodes, 3);
    is(cudaEventQuery(done), cudaErrorCapturedEvent);
    good(cudaGraphInstantiate(&exec, graph, 0));
    good(cudaGraphDestroy(graph));
    good(cudaEventDestroy(begun));
    good(cudaEventDestroy(done));
    return exec;
}
START_TEST(a_graph_does_again_what_was_captured)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        standin_seed(seed);
        cudaStream_t a = stream_of_own(), b = stream_of_own();
        int *x = device_ints(1), *y = device_ints(1), *z = device_ints(1);
        cudaGraphExec_t exec = capture(a, b, x, y, z);
        ck_assert_int_eq(read_int(z), -1); /* captured, not done */
        for (int i = 1; i <= 3; i++) {
            good(cudaMemsetAsync(x, i, sizeof *x, a));
            good(cudaGraphLaunch(exec, a));
            good(cudaMemsetAsync(x, 77, sizeof *x, a));
            if (i == 2) continue; /* two launches follow each other */
            ck_assert_int_eq(read_int(z), i * 0x01010101);
            ck_assert_int_eq(read_int(y), 0);
        }
        good(cudaGraphExecDestroy(exec));
        good(cudaStreamDestroy(a));
        good(cudaStreamDestroy(b));
        good(cudaFree(x));
        good(cudaFree(y));
        good(cudaFree(z));
    }
    const standin_counts left = standin_count();
    ck_assert(left.allocations + left.streams + left.events + left.graphs + left.executables == 0);
}
END_TEST

START_TEST(what_may_not_be_captured)
{
    cudaStream_t a = stream_of_own(), b = stream_of_own();
    cudaEvent_t e = event_of_own(), outside = event_of_own();
    cudaGraph_t graph = NULL;
    int *x = device_ints(1);
    void *p = NULL;
    good(cudaEventRecord(outside, b));
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    is(cudaStreamWaitEvent(a, outside, 0), cudaErrorStreamCaptureIsolation);
    is(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    is(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
    is(cudaMemsetAsync(x, 0, 4, a), cudaErrorStreamCaptureInvalidated);
    is(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    is(cudaEventQuery(outside), cudaErrorStreamCaptureUnsupported);
    is(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    is(cudaStreamSynchronize(a), cudaErrorStreamCaptureUnsupported);
    is(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    good(cudaEventQuery(outside));
    good(cudaEventRecord(e, a));
    good(cudaStreamWaitEvent(b, e, 0));
    good(cudaMemsetAsync(x, 0, 4, b)); /* nobody waits for it */
    is(cudaStreamEndCapture(b, &graph), cudaErrorStreamCaptureUnmatched);
    is(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    good(cudaEventRecord(e, a));
    good(cudaStreamWaitEvent(b, e, 0));
    good(cudaMemsetAsync(x, 0, 4, b));
    is(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureUnjoined);
    ck_assert_int_eq(read_int(x), -1);
    good(cudaEventDestroy(e));
    good(cudaEventDestroy(outside));
}
END_TEST

/* ---- work that goes on by itself ---- */

typedef struct slow { /* done when somebody says so */
    bool begun, may_end;
    int32_t dropped;
} slow;
static cudaError_t begin_slow(void *ctx, void **run)
{
    ((slow *)ctx)->begun = true;
    *run = ctx;
    return cudaSuccess;
}
static cudaError_t poll_slow(void *ctx, void *run)
{
    return ctx == run && ((slow *)ctx)->may_end ? cudaSuccess : cudaErrorNotReady;
}
static void drop_slow(void *ctx)
{
    ((slow *)ctx)->dropped++;
}
START_TEST(polled_work_holds_its_stream_and_no_other)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        standin_seed(seed);
        slow it = {0};
        const standin_work work = {begin_slow, poll_slow, drop_slow, &it, "something slow"};
        cudaStream_t a = stream_of_own(), b = stream_of_own();
        int *x = device_ints(2);
        good(standin_enqueue(a, &work));
        good(cudaMemsetAsync(x, 1, sizeof *x, a));
        good(cudaMemsetAsync(x + 1, 1, sizeof *x, b));
        good(cudaStreamSynchronize(b));
        while (!it.begun) is(cudaStreamQuery(a), cudaErrorNotReady);
        for (int i = 0; i < 20; i++) is(cudaStreamQuery(a), cudaErrorNotReady);
        it.may_end = true;
        good(cudaStreamSynchronize(a));
        ck_assert_int_eq(it.dropped, 1);
        ck_assert_int_eq(read_int(x), 0x01010101);
        good(cudaStreamDestroy(a));
        good(cudaStreamDestroy(b));
        good(cudaFree(x));
    }
}
END_TEST

START_TEST(calls_fail_when_told_to)
{
    int *x = NULL;
    standin_fail(STANDIN_MALLOC, 1);
    x = device_ints(1);
    is(cudaMalloc((void **)&x, 4), cudaErrorMemoryAllocation);
    x = device_ints(1);
    standin_set_memory(1 << 20);
    is(cudaMalloc((void **)&x, 2 << 20), cudaErrorMemoryAllocation);
}
END_TEST

LUO_SUITE("cuda.streams", LUO_T(streams_race_unless_an_event_orders_them),
          LUO_T(a_wait_is_for_the_record_before_it),
          LUO_T(the_legacy_stream_orders_only_streams_that_block),
          LUO_T(pageable_memory_is_read_at_the_call_pinned_memory_later), LUO_T(copies_are_checked),
          LUO_T(a_graph_does_again_what_was_captured), LUO_T(what_may_not_be_captured),
          LUO_T(polled_work_holds_its_stream_and_no_other), LUO_T(calls_fail_when_told_to))
