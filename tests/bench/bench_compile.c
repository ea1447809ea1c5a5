/* bench_compile.c: plan to programs, B-S and B-L of docs/speed.md.
 *
 * B-S: published plan 1 (48 devices, 60 layers, ZeRO-1, sequence parallelism): under 50 ms.
 * B-L: 128 pipelines of 16 stages of 8 devices, 60 layers: under 5 s and 4 GB.
 * Steps of uneven lengths: 4 replicas of 8 devices, 60 layers, the optimizer in a layout of its
 * own, two or three micro-batches each; processor time of a step's programs, hash included, every
 * role emitted (`compile_lengths_emitted_ms`) and bound to patterns of the steps before
 * (`compile_lengths_bound_ms`), and the second over the first (`compile_lengths_ratio`). */
#include <sys/resource.h>

#include "core/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/plan_make.h"

enum { RUNS = 5, PIPES = 128, STAGES = 16, TP = 8, LAYERS = 60, REPLICAS = 4, LENGTHS = 12 };

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

/* ---- uneven lengths ---- */

static luo_plan *replicas_plan(luo_arena *a)
{
    luo_plan *p = luo_test_plan(a, "3: [0-7]*60 || 3: [8-15]*60 || 3: [16-23]*60 || 3: [24-31]*60");
    int32_t *dev = LUO_NEW_N(a, int32_t, REPLICAS * TP);
    if (!dev) luo_bench_fail("no memory");
    for (int32_t i = 0; i < REPLICAS * TP; i++) dev[i] = i;
    p->state_layout = (luo_state_layout){2, 16, 1, REPLICAS * TP, dev};
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, 25, 1};
    return p;
}

static void draw_lengths(luo_arena *a, luo_rng *r, luo_plan *p)
{
    luo_pipeline *pipes = (luo_pipeline *)p->pipelines;
    for (int32_t i = 0; i < p->npipelines; i++) {
        const int32_t n = pipes[i].micro_batches = 2 + (int32_t)luo_rng_pick(r, 2);
        int64_t *tokens = LUO_NEW_N(a, int64_t, n);
        if (!tokens) luo_bench_fail("no memory");
        for (int32_t k = 0; k < n; k++) tokens[k] = 128 * (64 + luo_rng_pick(r, 64));
        pipes[i].micro_batch_tokens = tokens;
    }
}

static double step_of(const luo_plan *p, const luo_model *m, luo_patterns *patterns, uint64_t *hash)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    const luo_compile_opts opts = {.patterns = patterns};
    luo_programs *set = NULL;
    luo_err err = {0};
    const double start = luo_bench_cpu();
    if (luo_plan_compile(arena, p, m, NULL, &opts, &set, &err) != LUO_OK)
        luo_bench_fail("%s", err.text);
    const double seconds = luo_bench_cpu() - start;
    *hash = set->hash;
    luo_arena_free(arena);
    return seconds;
}

static void uneven_lengths(luo_arena *a, const luo_model *m)
{
    luo_plan *p = replicas_plan(a);
    luo_rng r = luo_rng_seed(5);
    luo_patterns *patterns, *none;
    luo_err err = {0};
    double emitted[LENGTHS], bound[LENGTHS];
    if (luo_patterns_open(a, 0, &none, &err) != LUO_OK ||
        luo_patterns_open(a, LUO_PATTERN_BYTES, &patterns, &err) != LUO_OK)
        luo_bench_fail("%s", err.text);
    for (int k = 0; k < LENGTHS; k++) {
        uint64_t want, got;
        draw_lengths(a, &r, p);
        emitted[k] = 1e3 * step_of(p, m, none, &want);
        bound[k] = 1e3 * step_of(p, m, patterns, &got);
        if (want != got) luo_bench_fail("bound programs are others than emitted ones");
    }
    luo_patterns_free(patterns);
    luo_patterns_free(none);
    const double one = luo_bench_median(emitted, LENGTHS), two = luo_bench_median(bound, LENGTHS);
    printf("compile_lengths_emitted_ms %.1f ms\n", one);
    printf("compile_lengths_bound_ms %.1f ms\n", two);
    printf("compile_lengths_ratio %.3f 1\n", two / one);
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
    uneven_lengths(a, &m);
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
