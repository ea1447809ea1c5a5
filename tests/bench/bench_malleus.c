/* bench_malleus.c: the straggler planner on the settings of the computed vectors, median of
 * nine plannings each, and the most memory after each size. Prints `malleus_ID_ms VALUE ms`,
 * `malleus_ID_event_ratio VALUE 1` (planned event time over the healthy one of the same cluster)
 * and `malleus_SIZE_peak VALUE MiB`. docs/speed.md wants 64 devices in 50 ms, 1,024 in 1 s, 16,384
 * in 10 s. */
#include <stdio.h>
#include <sys/resource.h>

#include "tests/bench/bench.h"
#include "tests/malleus_fixture.h"

enum { DEVICES = 16384, REPEAT = 9 };
static luo_malleus_device devices[DEVICES];

static double event_of(const luo_malleus_in *in, double *took)
{
    luo_arena *a = luo_arena_new(0);
    luo_malleus_found *f;
    luo_err err = {0};
    const double start = luo_bench_now();
    if (luo_malleus(a, in, &f, &err) != LUO_OK) luo_bench_fail("%s", err.text);
    *took = luo_bench_now() - start;
    const double event = f->plans[0].event;
    luo_arena_free(a);
    return event;
}

static void one(const char *id, const char *rank, const luo_malleus_in *in, double healthy)
{
    double took[REPEAT], event = 0;
    for (int k = 0; k < REPEAT; k++) event = event_of(in, &took[k]);
    printf("malleus_%s%s_ms %.3f ms\n", id, rank, 1e3 * luo_bench_median(took, REPEAT));
    printf("malleus_%s%s_event_ratio %.4f 1\n", id, rank, event / healthy);
}

static void both(const char *id, luo_malleus_in *in, const setting *s)
{
    static luo_malleus_device all[DEVICES];
    double took;
    const luo_malleus_in base = make_in(s, all);
    const double healthy = event_of(&base, &took);
    in->rank = LUO_RANK_FILLED;
    one(id, "", in, healthy);
    in->rank = LUO_RANK_STEADY;
    one(id, "_steady", in, healthy);
}

static void peak(const char *what)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("malleus_%s_peak %.1f MiB\n", what, (double)u.ru_maxrss / 1024);
}

int main(void)
{
    for (int k = 0; k < (int)(sizeof pl_rows / sizeof *pl_rows); k++) {
        luo_malleus_in in = make_pl(&pl_rows[k], devices);
        both(pl_rows[k].id, &in, pl_rows[k].s);
    }
    peak("64");
    luo_malleus_in in = make_many(&s1024, devices, 64, 16);
    both("1024", &in, &s1024);
    peak("1024");
    in = make_many(&s16384, devices, 256, 64);
    both("16384", &in, &s16384);
    peak("16384");
    return 0;
}
