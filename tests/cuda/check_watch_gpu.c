/* check_watch_gpu.c: the watchdog of a rank: its state machine on a clock of the test,
 * and its thread with communicators that are none. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "exec/clock.h"
#include "exec/cuda/comm/comm.h"
#include "tests/check_main.h"

/* ---- the state machine ---- */

enum { ARM = 1, DISARM };

static const struct {
    double at_s;
    int act;          /* before the look */
    int64_t progress; /* of the look */
    const char *broken;
    gpu_watch_verdict says;
    const char *text; /* NULL: as before */
} rows[] = {
    {0, 0, 1, "torn", GPU_WATCH_GOES_ON, ""}, /* never armed */
    {1, ARM, 1, NULL, GPU_WATCH_GOES_ON, ""},
    {2.9, 0, 1, NULL, GPU_WATCH_GOES_ON, ""},
    {3, 0, 2, NULL, GPU_WATCH_GOES_ON, ""}, /* just in time */
    {4.9, 0, 2, NULL, GPU_WATCH_GOES_ON, ""},
    {5, 0, 2, NULL, GPU_WATCH_STUCK, "stuck for 2.0 s"},
    {6, 0, 2, NULL, GPU_WATCH_GOES_ON, NULL}, /* said once */
    {7, 0, 3, "torn", GPU_WATCH_GOES_ON, NULL},
    {8, ARM, 3, NULL, GPU_WATCH_GOES_ON, ""}, /* the old number is new after arming */
    {9.9, 0, 3, NULL, GPU_WATCH_GOES_ON, ""},
    {9.95, 0, 4, "torn", GPU_WATCH_BROKEN, "torn"}, /* an error comes before progress */
    {20, 0, 4, NULL, GPU_WATCH_GOES_ON, NULL},
    {21, ARM, 4, "torn again", GPU_WATCH_BROKEN, "torn again"},
    {22, DISARM, 4, "torn", GPU_WATCH_GOES_ON, NULL},
    {23, ARM, -7, NULL, GPU_WATCH_GOES_ON, ""},
    {24, DISARM, -7, "torn", GPU_WATCH_GOES_ON, ""},
    {99, 0, -7, NULL, GPU_WATCH_GOES_ON, ""},
};

START_TEST(machine)
{
    gpu_watch w = {0};
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        char before[LUO_ERR_TEXT];
        snprintf(before, sizeof before, "%s", w.text);
        if (rows[i].act == ARM) gpu_watch_arm(&w, rows[i].at_s, 2);
        if (rows[i].act == DISARM) gpu_watch_disarm(&w);
        const gpu_watch_verdict v =
            gpu_watch_look(&w, rows[i].at_s, rows[i].progress, rows[i].broken);
        ck_assert_msg(v == rows[i].says, "row %d says %d", i, (int)v);
        ck_assert_str_eq(w.text, rows[i].text ? rows[i].text : before);
    }
    gpu_watch_arm(&w, 0, INFINITY);
    ck_assert_int_eq(gpu_watch_look(&w, 0, 1, NULL), GPU_WATCH_GOES_ON);
    ck_assert_int_eq(gpu_watch_look(&w, 1e12, 1, NULL), GPU_WATCH_GOES_ON);
    ck_assert_int_eq(gpu_watch_look(&w, 1e12, 1, "torn"), GPU_WATCH_BROKEN);
}
END_TEST

/* ---- communicators that are none ---- */

typedef struct fake {
    _Atomic int64_t progress;
    _Atomic bool moves, torn;
    _Atomic int aborts, looks;
    gpu_watcher *watcher;
} fake;

static int64_t progress(void *ctx)
{
    fake *f = ctx;
    return f->moves ? ++f->progress : f->progress;
}

static const char *broken(void *ctx)
{
    fake *f = ctx;
    f->looks++;
    return f->torn ? "remote process exited" : NULL;
}

static void describe(void *ctx, char *text, size_t n)
{
    (void)ctx;
    snprintf(text, n, "device 3 waits in all_reduce of `x`");
}

static void abort_it(void *ctx)
{
    fake *f = ctx;
    f->aborts++;
}

static void start(fake *f)
{
    luo_err err = {0};
    const gpu_watched what = {f, progress, broken, describe, abort_it};
    ck_assert_int_eq(gpu_watcher_start(&what, &f->watcher, &err), LUO_OK);
}

static luo_status ends(fake *f, const char *text)
{
    luo_err err = {0};
    const luo_status st = gpu_watcher_disarm(f->watcher, &err);
    if (text) ck_assert_str_eq(err.text, text);
    return st;
}

static void until(const fake *f, int aborts)
{
    const double began = luo_clock_s();
    while (f->aborts < aborts && luo_clock_s() < began + 30) usleep(500);
    ck_assert_int_eq(f->aborts, aborts);
}

START_TEST(goes_on)
{
    fake f = {.moves = true};
    start(&f);
    usleep(20000);
    ck_assert_int_eq(f.looks, 0); /* nothing is asked while nothing is under way */
    gpu_watcher_arm(f.watcher, 0.05);
    usleep(200000);
    ck_assert_int_eq(ends(&f, ""), LUO_OK);
    ck_assert_int_gt(f.looks, 3);
    f.moves = false; /* and not after it has ended */
    f.torn = true;
    usleep(100000);
    ck_assert_int_eq(f.aborts, 0);
    ck_assert_int_eq(ends(&f, ""), LUO_OK);
    gpu_watcher_stop(f.watcher);
}
END_TEST

START_TEST(stalls)
{
    fake f = {.moves = false};
    start(&f);
    gpu_watcher_arm(f.watcher, 0.05);
    until(&f, 1);
    usleep(150000);
    ck_assert_int_eq(f.aborts, 1); /* once */
    luo_err err = {0};
    ck_assert_int_eq(gpu_watcher_disarm(f.watcher, &err), LUO_ESTUCK);
    ck_assert_int_eq(strncmp(err.text, "stuck for ", 10), 0);
    ck_assert_ptr_nonnull(strstr(err.text, " s: device 3 waits in all_reduce of `x`; all ranks "
                                           "have to go on."));
    ck_assert_int_eq(ends(&f, err.text), LUO_ESTUCK); /* it stays .. */
    gpu_watcher_arm(f.watcher, 0.05);                 /* .. until armed again */
    until(&f, 2);
    f.moves = true;
    ck_assert_int_eq(ends(&f, NULL), LUO_ESTUCK);
    gpu_watcher_arm(f.watcher, 0.05);
    usleep(100000);
    ck_assert_int_eq(ends(&f, ""), LUO_OK);
    ck_assert_int_eq(f.aborts, 2);
    gpu_watcher_stop(f.watcher);
}
END_TEST

START_TEST(breaks)
{
    fake f = {.moves = true};
    start(&f);
    gpu_watcher_arm(f.watcher, INFINITY);
    usleep(100000);
    ck_assert_int_eq(f.aborts, 0);
    f.torn = true;
    until(&f, 1);
    ck_assert_int_eq(ends(&f, "remote process exited: device 3 waits in all_reduce of `x`; all "
                              "processes have to start again."),
                     LUO_EPEER);
    gpu_watcher_arm(f.watcher, INFINITY);
    gpu_watcher_stop(f.watcher); /* while it is armed */
}
END_TEST

/* Steps of random length beside errors at random times: every step that ends badly was aborted
 * once, and no other was. */
START_TEST(races)
{
    fake f = {.moves = true};
    luo_rng rng = luo_rng_seed(7);
    int bad = 0;
    start(&f);
    for (int i = 0; i < 300; i++) {
        const bool tears = luo_rng_pick(&rng, 3) == 0;
        gpu_watcher_arm(f.watcher, luo_rng_pick(&rng, 2) ? INFINITY : 0.008);
        usleep((useconds_t)luo_rng_pick(&rng, 600));
        f.torn = tears;
        usleep((useconds_t)luo_rng_pick(&rng, 3000));
        const luo_status st = ends(&f, NULL);
        ck_assert(st == LUO_OK || (tears && st == LUO_EPEER));
        bad += st != LUO_OK;
        ck_assert_int_eq(f.aborts, bad);
        f.torn = false;
    }
    gpu_watcher_stop(f.watcher);
    ck_assert_int_eq(f.aborts, bad);
    ck_assert_int_gt(bad, 0);
}
END_TEST

LUO_SUITE("cuda.watch", LUO_T(machine), LUO_T(goes_on), LUO_T(stalls), LUO_T(breaks), LUO_T(races))
