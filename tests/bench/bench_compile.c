/* bench_compile.c: plan to programs, B-S and B-L of docs/speed.md.
 *
 * B-S: published plan 1 (48 devices, 60 layers, ZeRO-1, sequence parallelism): under 50 ms.
 * B-L: 128 pipelines of 16 stages of 8 devices, 60 layers: under 5 s and 4 GB. */
#include <sys/resource.h>

#include "tests/bench/bench.h"
#include "tests/plan_make.h"

enum { RUNS = 5, PIPES = 128, STAGES = 16, TP = 8, LAYERS = 60 };

static const char plan1[] =
    "16: [0-3]*11 [4-7]*11 [32-35]*38 || 16: [8-11]*11 [12-15]*11 [36-39]*38 || "
    "16: [16-19]*11 [20-23]*11 [40-43]*38 || 16: [24-27]*11 [28-31]*11 [44-47]*38";

static double compile(const luo_plan *p, const luo_model *m, bool check, uint64_t *hash)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    const luo_compile_opts opts = {.check = check};
    luo_programs *set = NULL;
    luo_err err = {0};
    const double start = luo_bench_now();
    if (luo_plan_compile(arena, p, m, NULL, &opts, &set, &err) != LUO_OK)
        luo_bench_fail("%s", err.text);
    const double seconds = luo_bench_now() - start;
    *hash = set->hash;
    luo_arena_free(arena);
    return seconds;
}

static double median_of(const luo_plan *p, const luo_model *m)
{
    double t[RUNS];
    uint64_t first = 0, hash = 0;
    for (int i = 0; i < RUNS; i++) {
        t[i] = compile(p, m, false, &hash);
        if (i == 0) first = hash;
        if (hash != first) luo_bench_fail("two runs gave different programs");
    }
    return luo_bench_median(t, RUNS);
}

/* 12 stages of 4 layers, then 4 of 3. */
static luo_plan *large_plan(luo_arena *a)
{
    luo_str line = {0};
    for (int p = 0; p < PIPES; p++) {
        luo_str_addf(&line, "%s64:", p ? " || " : "");
        for (int s = 0; s < STAGES; s++) {
            const int first = (p * STAGES + s) * TP;
            luo_str_addf(&line, " [%d-%d]*%d", first, first + TP - 1, s < 12 ? 4 : 3);
        }
    }
    luo_plan *p = luo_test_plan(a, luo_str_get(&line));
    luo_str_free(&line);
    return p;
}

int main(void)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_model m = luo_test_llama(LAYERS, 6656, 17920, 64, 30592);
    luo_plan *p = luo_test_plan(a, plan1);
    uint64_t hash;
    p->zero = 1;
    printf("compile_plan1_s %.4f s\n", median_of(p, &m));
    printf("check_plan1_s %.4f s\n", compile(p, &m, true, &hash) - compile(p, &m, false, &hash));
    p = large_plan(a);
    for (p->zero = 0; p->zero <= 1; p->zero++)
        printf("compile_16384%s_s %.3f s\n", p->zero ? "_zero1" : "", median_of(p, &m));
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("compile_16384_peak_mib %.0f MiB\n", (double)use.ru_maxrss / 1024);
    p->zero = 1;
    printf("check_16384_s %.3f s\n", compile(p, &m, true, &hash));
    luo_arena_free(a);
    return 0;
}
