/* bench_hydraulis.c: the planner for uneven lengths: processor time of its proposals, and of the
 * choice of a plan, dispatch and packing of one step, as `luoshu plan hydraulis` does them. The
 * published 32B pool and its formula of memory, syn-web (synthetic), 32K context. Prints
 * `hydraulis_DEVICES_propose_MODE_s` (the programme of one mode), `_candidates_s` (both modes and
 * the mixed plans), `_step_ms` (median over the batches), `_step_most_ms`, and what they worked on:
 * `_candidates`, `_sequences`, and `_ratio`, the mean step by the pool over that of the fastest
 * equal replicas (nothing that moves counts). docs/speed.md wants 1,024 devices with 1.6M tokens
 * in 100 ms and 2 s, 32 with 200,000 in 20 ms, and 1 s for a grid of 128 tokens. */
#include <math.h>

#include "core/plan/length_policies/length_policy.h"
#include "tests/bench/bench.h"
#include "tests/hydraulis_fixture.h"

enum { CTX = 32768, REPEAT = 5, BATCHES = 24, SEED = 5, LIMIT = 1 << 20, KICKS = -1, MOST = 16 };

typedef struct scene {
    luo_arena *arena;
    int32_t devices;
    luo_pool pool;
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    luo_candidates_in in;
    luo_candidates found;
} scene;

static void open_scene(scene *s, int32_t devices, int32_t device_step, int64_t tokens, int64_t grid)
{
    *s = (scene){.arena = luo_arena_new(0), .devices = devices};
    s->pool = POOL_32B(s->arena, devices / 16, 16, 1);
    if (!luo_length_preset("syn-web", CTX, s->parts, &s->lengths)) luo_bench_fail("no syn-web");
    s->in = (luo_candidates_in){.pool = &s->pool,
                                .lengths = &s->lengths,
                                .rule = {.tokens = tokens, .most = CTX, .least = 32},
                                .seed = SEED,
                                .devices = devices,
                                .device_step = device_step,
                                .grid_step = grid,
                                .floor = true,
                                .published = true,
                                .sequences = LIMIT};
}

/* ---- proposals ---- */

static double propose(const scene *s, luo_propose_mode mode)
{
    luo_arena *a = luo_arena_new(0);
    const int32_t points = (int32_t)(CTX / s->in.grid_step);
    int64_t *end = LUO_NEW_N(a, int64_t, points);
    luo_histogram h;
    luo_proposal *out;
    int32_t n;
    luo_err err = {0};
    if (!end) luo_bench_fail("no memory");
    for (int32_t j = 0; j < points; j++) end[j] = (j + 1) * s->in.grid_step;
    if (luo_lengths_histogram(a, &s->lengths, SEED, (double)s->in.rule.tokens, CTX, &h, &err) !=
        LUO_OK)
        luo_bench_fail("%s", err.text);
    const luo_propose_grid grid = {points, end};
    const double start = luo_bench_cpu();
    if (luo_propose(a, &s->pool, &h, s->devices, s->in.device_step, &grid, mode, &out, &n, &err) !=
        LUO_OK)
        luo_bench_fail("%s", err.text);
    const double took = luo_bench_cpu() - start;
    luo_arena_free(a);
    return took;
}

static double candidates(scene *s)
{
    luo_err err = {0};
    const double start = luo_bench_cpu();
    if (luo_candidates_make(s->arena, &s->in, &s->found, &err) != LUO_OK)
        luo_bench_fail("%s", err.text);
    return luo_bench_cpu() - start;
}

static void proposals(scene *s, const char *name)
{
    static const char *const word[] = {"floor", "public"};
    double took[REPEAT];
    for (int mode = 0; mode < 2; mode++) {
        for (int k = 0; k < REPEAT; k++) took[k] = propose(s, (luo_propose_mode)mode);
        printf("hydraulis_%s_propose_%s_s %.3f s\n", name, word[mode],
               luo_bench_median(took, REPEAT));
    }
    for (int k = 0; k < REPEAT; k++) took[k] = candidates(s);
    printf("hydraulis_%s_candidates_s %.3f s\n", name, luo_bench_median(took, REPEAT));
    printf("hydraulis_%s_candidates %d 1\n", name, s->found.n);
}

/* ---- steps ---- */

static double step(const scene *s, const int64_t *length, int32_t n, int32_t *current, double *took)
{
    luo_arena *a = luo_arena_new(0);
    luo_step_plan out;
    luo_err err = {0};
    const luo_step_opts opts = {.kicks = KICKS, .most = MOST, .seed = SEED, .current = *current};
    const double start = luo_bench_cpu();
    if (luo_step_choose(a, &s->pool, s->found.plan, s->found.n, length, n, &opts, &out, &err) !=
        LUO_OK)
        luo_bench_fail("%s", err.text);
    *took = 1e3 * (luo_bench_cpu() - start);
    const double event = out.event;
    *current = out.plan;
    luo_arena_free(a);
    return event;
}

/* Equal replicas, dispatched and packed as ours are; INFINITY: they cannot take the batch. */
static double alike(const scene *s, int32_t entry, const int64_t *length, int32_t n)
{
    luo_arena *a = luo_arena_new(0);
    luo_length_rivals r = {.pool = &s->pool,
                           .candidates = &s->found,
                           .devices = s->devices,
                           .ctx = CTX,
                           .alike = entry,
                           .uniform = entry,
                           .step = {.kicks = KICKS, .most = MOST, .seed = SEED, .current = -1}};
    double ms = INFINITY;
    if (s->pool.entry[entry].cap < CTX ||
        luo_length_policy_step(a, &r, LUO_LENGTH_POLICY_UNIFORM_BEST, -1, length, n, &ms, NULL,
                               NULL) != LUO_OK)
        ms = INFINITY;
    luo_arena_free(a);
    return ms;
}

static void steps(scene *s, const char *name)
{
    luo_length_source source = luo_length_source_open(SEED);
    double took[BATCHES], ours = 0, *theirs = LUO_NEW_N(s->arena, double, s->pool.n);
    int64_t sequences = 0;
    int32_t current = -1;
    if (!theirs) luo_bench_fail("no memory");
    for (int b = 0; b < BATCHES; b++) {
        int64_t *length;
        int32_t n;
        luo_err err = {0};
        if (luo_lengths_batch(s->arena, &s->lengths, &s->in.rule, LIMIT, &source, &length, &n,
                              &err) != LUO_OK)
            luo_bench_fail("%s", err.text);
        ours += step(s, length, n, &current, &took[b]);
        for (int32_t k = 0; k < s->pool.n; k++) theirs[k] += alike(s, k, length, n);
        sequences += n;
    }
    double best = INFINITY;
    for (int32_t k = 0; k < s->pool.n; k++) best = fmin(best, theirs[k]);
    printf("hydraulis_%s_step_ms %.2f ms\n", name, luo_bench_median(took, BATCHES));
    printf("hydraulis_%s_step_most_ms %.2f ms\n", name, took[BATCHES - 1]);
    printf("hydraulis_%s_sequences %lld 1\n", name, (long long)sequences / BATCHES);
    printf("hydraulis_%s_ratio %.4f 1\n", name, ours / best);
}

static void both(const char *name, int32_t devices, int32_t device_step, int64_t tokens,
                 int64_t grid)
{
    scene s;
    open_scene(&s, devices, device_step, tokens, grid);
    proposals(&s, name);
    steps(&s, name);
    luo_arena_free(s.arena);
}

int main(void)
{
    both("32", 32, 1, 200000, 1024);
    both("32_grid128", 32, 1, 200000, 128);
    both("1024", 1024, 4, 1600000, 1024);
    return 0;
}
