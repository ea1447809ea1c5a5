/* bench_sync.c: iterations of simulated workers a second, in every mode, without and with rows that
 * are received; 1,000,000 wanted. And lambda2 of 64 and of as many workers as there may be. */
#include "core/sync/draws.h"
#include "core/sync/loop.h"
#include "core/sync/mixing.h"
#include "tests/bench/bench.h"

enum { TIMES = 5, ITERATIONS = 1000000 };

static luo_status receive(void *ctx, const luo_loop_row *row, luo_err *err)
{
    (void)err;
    *(double *)ctx += row->wait_s;
    return LUO_OK;
}

/* Workers of slightly different speeds, some of which sleep now and then: hardly two events are at
 * one time. */
static void mode(luo_loop_mode mode, int32_t workers)
{
    double s[TIMES], *compute = malloc((size_t)workers * sizeof *compute), waited = 0;
    int64_t updates = 0;
    if (!compute) luo_bench_fail("no memory");
    for (int32_t w = 0; w < workers; w++)
        compute[w] = 1 + 0.1 * luo_draw_u(1, 1000000, (uint64_t)w);
    luo_loop_opts opts = {.mode = mode,
                          .workers = workers,
                          .compute_s = compute,
                          .straggler = {.kind = LUO_STRAGGLER_BERN, .p = 0.1, .sleep_s = 0.5},
                          .horizon_s = 1.4 * ITERATIONS / workers,
                          .staleness = 3,
                          .sync_s = 0.1,
                          .preduce = {.max_group = workers, .wait_s = 0.05, .guard = 10},
                          .sink = {receive, NULL, &waited}};
    for (int i = 0; i < TIMES; i++) {
        luo_arena *arena = luo_arena_new(1 << 20);
        luo_loop_summary summary;
        const double start = luo_bench_now();
        if (luo_loop_run(arena, &opts, &summary, NULL) != LUO_OK) luo_bench_fail("no loop");
        s[i] = luo_bench_now() - start;
        updates = summary.updates;
        luo_arena_free(arena);
    }
    printf("sync_%s_%d_rate %.0f iterations/s\n", luo_loop_mode_name(mode), workers,
           (double)updates / luo_bench_median(s, TIMES));
    free(compute);
}

static void lambda2(int32_t workers)
{
    double s[TIMES], value = 0;
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_mixing mixing;
    if (luo_mixing_new(arena, workers, &mixing, NULL) != LUO_OK) luo_bench_fail("no mixing");
    for (int32_t w = 0; w + 2 < workers; w++) {
        const int32_t member[] = {w, w + 1, w + 2};
        luo_mixing_add(&mixing, member, NULL, 3);
    }
    for (int i = 0; i < TIMES; i++) {
        const double start = luo_bench_now();
        if (luo_mixing_lambda2(arena, &mixing, NULL, &value, NULL) != LUO_OK)
            luo_bench_fail("no lambda2");
        s[i] = luo_bench_now() - start;
    }
    printf("sync_lambda2_%d %.6f s\n", workers, luo_bench_median(s, TIMES));
    luo_arena_free(arena);
}

int main(void)
{
    static const int32_t workers[] = {64, 10000};
    for (int i = 0; i < 2; i++)
        for (int m = 0; m < LUO_LOOP_MODES; m++) mode((luo_loop_mode)m, workers[i]);
    lambda2(64);
    lambda2(LUO_MIXING_WORKERS);
    return 0;
}
