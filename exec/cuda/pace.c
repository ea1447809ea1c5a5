/* pace.c: the device's clock beside the host's, and stragglers.
 *
 * Two clocks are compared by a stamp: the host reads its own before the launch and after the stamp
 * is seen, and takes the middle. What is left is an error of at most half the time between the
 * two readings, some microseconds; it shifts all times of a step alike. */
#include <math.h>
#include <stdlib.h>

#include "exec/cuda/job.h"

/* Two crystals drift apart by some millionths: an older reading is worth less by so much. */
static const double drift = 50e-6;

static int64_t host_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static luo_status read_once(luo_exec *exec, gpu_clock *out, luo_err *err)
{
    const volatile uint64_t *slot = exec->probe;
    const cudaStream_t stream = exec->stream[LUO_STREAM_COMPUTE];
    *exec->probe = 0;
    const int64_t before = host_ns();
    LUO_TRY(gpu_check(err, gpu_stamp(stream, exec->device_probe), "reading the device's clock"));
    while (*slot == 0) {
        const cudaError_t code = cudaStreamQuery(stream);
        if (code != cudaErrorNotReady) LUO_TRY(gpu_check(err, code, "reading the device's clock"));
    }
    const int64_t after = host_ns();
    *out = (gpu_clock){.offset_ns = (int64_t)*slot - (before + (after - before) / 2),
                       .error_ns = (after - before) / 2,
                       .at_ns = after};
    return LUO_OK;
}

luo_status gpu_clock_read(luo_exec *exec, int rounds, luo_err *err)
{
    gpu_clock best = exec->clock;
    bool found = best.at_ns != 0;
    if (found) best.error_ns += (int64_t)(drift * (double)(host_ns() - best.at_ns));
    for (int i = 0; i < rounds; i++) {
        gpu_clock clock;
        LUO_TRY(read_once(exec, &clock, err));
        if (found && clock.error_ns > best.error_ns) continue;
        best = exec->clock = clock;
        found = true;
    }
    return LUO_OK;
}

double gpu_clock_host_s(const luo_exec *exec, uint64_t stamp)
{
    return 1e-9 * (double)((int64_t)stamp - exec->clock.offset_ns);
}

static uint64_t device_ns(const luo_exec *exec, double at_s)
{
    if (!(at_s > 0)) return 0; /* since ever */
    const double most = 4e18;  /* for ever */
    const double ns = fmin(at_s * 1e9, most - 1e9 * 86400 * 36500);
    const int64_t at = (int64_t)ns + exec->clock.offset_ns;
    return at > 0 ? (uint64_t)at : 0;
}

/* ---- stragglers ---- */

static luo_status make_room(luo_job *job, int32_t n, luo_err *err)
{
    void *at, *there;
    if (n <= job->cap_pace) return LUO_OK;
    LUO_TRY(gpu_alloc_mapped(2 * n * (int64_t)sizeof *job->pace, "the pace", &at, &there, err));
    gpu_free_mapped(job->pace);
    job->pace = at;
    job->device_pace = there;
    job->cap_pace = 2 * n;
    return LUO_OK;
}

luo_status gpu_pace_open(luo_job *job, luo_err *err)
{
    void *clocks;
    LUO_TRY(gpu_alloc(2 * (int64_t)sizeof(uint64_t), "the pace", &clocks, err));
    job->since = clocks;
    job->spun = job->since + 1;
    return make_room(job, 32, err);
}

void gpu_pace_close(luo_job *job)
{
    gpu_free(job->since);
    gpu_free_mapped(job->pace);
}

/* A step may allocate room for more dates than ever before. */
luo_status gpu_pace_begin(luo_rank *rank, luo_err *err)
{
    luo_job *job = rank->job;
    const luo_step_order *order = rank->order;
    rank->npace = 0;
    for (int32_t i = 0; i < order->npace; i++)
        if (order->pace[i].slowdown > 1) rank->npace = order->npace;
    if (rank->npace == 0) return LUO_OK;
    LUO_TRY(make_room(job, rank->npace, err));
    for (int32_t i = 0; i < rank->npace; i++)
        job->pace[i] = (gpu_pace){device_ns(rank->x, order->pace[i].at_s), order->pace[i].slowdown};
    return LUO_OK;
}

luo_status gpu_pace_before(luo_rank *rank)
{
    if (rank->npace == 0) return LUO_OK;
    return gpu_check(&rank->err, gpu_stamp(rank->x->stream[LUO_STREAM_COMPUTE], rank->job->since),
                     "a straggler's clock");
}

luo_status gpu_pace_after(luo_rank *rank)
{
    const luo_job *job = rank->job;
    const uint64_t most_ns = UINT64_C(60000000000); /* no instruction is to hang for ever */
    if (rank->npace == 0) return LUO_OK;
    return gpu_check(&rank->err,
                     gpu_spin(rank->x->stream[LUO_STREAM_COMPUTE], job->since, rank->npace,
                              job->device_pace, most_ns, job->device_answer, job->spun),
                     "a straggler's spin");
}
