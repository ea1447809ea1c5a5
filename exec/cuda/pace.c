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

static luo_status read_once(luo_exec *x, gpu_clock *out, luo_err *err)
{
    const volatile uint64_t *slot = x->probe;
    const cudaStream_t stream = x->stream[LUO_STREAM_COMPUTE];
    *x->probe = 0;
    const int64_t before = host_ns();
    LUO_TRY(gpu_check(err, gpu_stamp(stream, x->device_probe), "reading the device's clock"));
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

luo_status gpu_clock_read(luo_exec *x, int rounds, luo_err *err)
{
    gpu_clock best = x->clock;
    bool found = best.at_ns != 0;
    if (found) best.error_ns += (int64_t)(drift * (double)(host_ns() - best.at_ns));
    for (int i = 0; i < rounds; i++) {
        gpu_clock c;
        LUO_TRY(read_once(x, &c, err));
        if (found && c.error_ns > best.error_ns) continue;
        best = x->clock = c;
        found = true;
    }
    return LUO_OK;
}

double gpu_clock_host_s(const luo_exec *x, uint64_t stamp)
{
    return 1e-9 * (double)((int64_t)stamp - x->clock.offset_ns);
}

static uint64_t device_ns(const luo_exec *x, double at_s)
{
    if (!(at_s > 0)) return 0; /* since ever */
    const double most = 4e18;  /* for ever */
    const double ns = fmin(at_s * 1e9, most - 1e9 * 86400 * 36500);
    const int64_t at = (int64_t)ns + x->clock.offset_ns;
    return at > 0 ? (uint64_t)at : 0;
}

/* ---- stragglers ---- */

static luo_status make_room(luo_job *j, int32_t n, luo_err *err)
{
    void *at, *there;
    if (n <= j->cap_pace) return LUO_OK;
    LUO_TRY(gpu_alloc_mapped(2 * n * (int64_t)sizeof *j->pace, "the pace", &at, &there, err));
    gpu_free_mapped(j->pace);
    j->pace = at;
    j->device_pace = there;
    j->cap_pace = 2 * n;
    return LUO_OK;
}

luo_status gpu_pace_open(luo_job *j, luo_err *err)
{
    void *clocks;
    LUO_TRY(gpu_alloc(2 * (int64_t)sizeof(uint64_t), "the pace", &clocks, err));
    j->since = clocks;
    j->spun = j->since + 1;
    return make_room(j, 32, err);
}

void gpu_pace_close(luo_job *j)
{
    gpu_free(j->since);
    gpu_free_mapped(j->pace);
}

/* A step may allocate room for more dates than ever before. */
luo_status gpu_pace_begin(luo_rank *r, luo_err *err)
{
    luo_job *j = r->job;
    const luo_step_order *o = r->order;
    r->npace = 0;
    for (int32_t i = 0; i < o->npace; i++)
        if (o->pace[i].slowdown > 1) r->npace = o->npace;
    if (r->npace == 0) return LUO_OK;
    LUO_TRY(make_room(j, r->npace, err));
    for (int32_t i = 0; i < r->npace; i++)
        j->pace[i] = (gpu_pace){device_ns(r->x, o->pace[i].at_s), o->pace[i].slowdown};
    return LUO_OK;
}

luo_status gpu_pace_before(luo_rank *r)
{
    if (r->npace == 0) return LUO_OK;
    return gpu_check(&r->err, gpu_stamp(r->x->stream[LUO_STREAM_COMPUTE], r->job->since),
                     "a straggler's clock");
}

luo_status gpu_pace_after(luo_rank *r)
{
    const luo_job *j = r->job;
    const uint64_t most_ns = UINT64_C(60000000000); /* no instruction is to hang for ever */
    if (r->npace == 0) return LUO_OK;
    return gpu_check(&r->err,
                     gpu_spin(r->x->stream[LUO_STREAM_COMPUTE], j->since, r->npace, j->device_pace,
                              most_ns, j->device_answer, j->spun),
                     "a straggler's spin");
}
