/* check_delay.c: how long messages wait on a slow link: by the host's rule, at every
 * time, and that a stream waits so long. */
#include <math.h>

#include "core/base/rng.h"
#include "exec/clock.h"
#include "exec/cuda/delay.h"
#include "exec/cuda/gpu.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { DEVICES = 4 };
typedef struct luo_delay change;

/* As exec/host/transfer.c has it. */
static double host_rule(const luo_step_order *o, const luo_slot *s, double now)
{
    double most = 0;
    for (int32_t m = 0; m < s->nmessage; m++) {
        double wait = 0;
        if (!s->message[m].send) continue;
        for (int32_t d = 0; d < o->ndelay; d++)
            if (o->delay[d].at_s <= now && o->delay[d].device == s->message[m].peer)
                wait = o->delay[d].extra_s + o->delay[d].s_per_byte * (double)s->message[m].bytes;
        if (wait > most) most = wait;
    }
    return most;
}

static uint64_t row_at(int32_t n, const gpu_delay_row *row, double s)
{
    uint64_t wait = 0;
    for (int32_t i = 0; i < n; i++)
        if ((double)row[i].at_ns <= s * 1e9 + 5e9) wait = row[i].wait_ns;
    return wait;
}

START_TEST(as_the_host)
{
    int waits = 0;
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng r = luo_rng_seed(seed);
        change c[12];
        luo_message m[3];
        gpu_delay_row row[GPU_DELAYS];
        luo_step_order o = {.delay = c, .ndelay = (int32_t)luo_rng_pick(&r, 12)};
        luo_slot s = {.nmessage = 1 + (int32_t)luo_rng_pick(&r, 3), .message = m};
        for (int32_t d = 0; d < o.ndelay; d++)
            c[d] = (change){.at_s = (d ? c[d - 1].at_s : 0) + (double)luo_rng_pick(&r, 3),
                            .device = (int32_t)luo_rng_pick(&r, DEVICES),
                            .s_per_byte = 1e-6 * (double)luo_rng_pick(&r, 3),
                            .extra_s = 1e-3 * (double)luo_rng_pick(&r, 3)};
        for (int32_t i = 0; i < s.nmessage; i++)
            m[i] = (luo_message){.peer = (int32_t)luo_rng_pick(&r, DEVICES),
                                 .send = luo_rng_pick(&r, 3) > 0,
                                 .bytes = luo_rng_pick(&r, 10000)};
        const int32_t n = gpu_delay_rows(&o, &s, 5000000000, row);
        for (double t = -0.5; t < 30; t += 0.5) {
            const double want = host_rule(&o, &s, t);
            ck_assert_msg(fabs((double)row_at(n, row, t) - 1e9 * want) < 2,
                          "LUO_SEED=%llu LUO_CASES=1: at %g s", (unsigned long long)seed, t);
            waits += want > 0;
        }
    }
    ck_assert_int_gt(waits, 1000);
}
END_TEST

/* More changes than there is room for: the first ones are kept, and the last holds in the end. */
START_TEST(many_changes)
{
    enum { MANY = 3 * GPU_DELAYS };
    change c[MANY];
    gpu_delay_row row[GPU_DELAYS];
    const luo_message m = {.peer = 1, .send = true, .bytes = 1};
    const luo_slot s = {.nmessage = 1, .message = &m};
    for (int i = 0; i < MANY; i++) c[i] = (change){i, 1, 0, 1e-3 * (i + 1)};
    const luo_step_order o = {.delay = c, .ndelay = MANY};
    ck_assert_int_eq(gpu_delay_rows(&o, &s, 0, row), GPU_DELAYS);
    ck_assert(row[7].at_ns == 7000000000U && row[7].wait_ns == 8000000);
    ck_assert(row[GPU_DELAYS - 1].wait_ns == MANY * 1000000);
}
END_TEST

static double stream_waits(cudaStream_t stream, int32_t n, const gpu_delay_row *row,
                           const gpu_step_answer *answer)
{
    const double began = luo_clock_s();
    ck_assert_int_eq(gpu_delay(stream, n, row, answer), cudaSuccess);
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
    return luo_clock_s() - began;
}

START_TEST(a_stream_waits)
{
    cudaStream_t stream;
    void *answer, *there;
    luo_err err = {0};
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ck_assert_int_eq(
        gpu_alloc_mapped((int64_t)sizeof(gpu_step_answer), "an answer", &answer, &there, &err),
        LUO_OK);
    const uint64_t ages = UINT64_C(1000000000000); /* whoever waits for so long does not end */
    const gpu_delay_row row[] = {{0, 30000000}, {UINT64_MAX, ages}}, none = {UINT64_MAX, ages};
    ck_assert_double_ge(stream_waits(stream, 2, row, there), 0.03);
    stream_waits(stream, 1, &none, there);
    stream_waits(stream, 0, row, there);
    const gpu_delay_row now = {0, ages};
    ((volatile gpu_step_answer *)answer)->drain = 1; /* a step that is given up does not wait */
    stream_waits(stream, 1, &now, there);
    gpu_free_mapped(answer);
    cudaStreamDestroy(stream);
}
END_TEST

LUO_SUITE("cuda.delay", LUO_T(as_the_host), LUO_T(many_changes), LUO_T(a_stream_waits))
