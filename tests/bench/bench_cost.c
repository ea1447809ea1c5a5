/* bench_cost.c: speed of core/cost; one line each: name value unit. */
#include "core/io/read/read.h"
#include "tests/bench/bench.h"
#include "tests/step_fixture.h"

int main(void)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_diags diags;
    luo_cluster *c = NULL;
    luo_model *m = NULL;
    luo_stack stack;
    double sum = 0, t = 0;
    luo_diags_init(&diags, arena);
    double start = luo_bench_now();
    luo_read_cluster(arena, "scenarios/clusters/h100-16384.yaml", &c, &diags);
    if (c) printf("cluster_16384_read %.3f s\n", luo_bench_now() - start);
    luo_read_model(arena, "scenarios/models/llama-70b.yaml", &m, &diags);
    if (!c || !m) luo_bench_fail("bench_cost: run from the root of the repository");
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = c, .stack = &stack, .dtype = LUO_BF16};
    enum { GEMMS = 2000000, PATHS = 2000000, STEPS = 200 };
    start = luo_bench_now();
    for (int i = 0; i < GEMMS; i++) {
        const luo_gemm g = {2048 + i % 64, 4096, 1024, 1, 2, LUO_GEMM_PLAIN};
        luo_cost_gemm(luo_cluster_profile(c, 0), LUO_BF16, &g, &t, NULL);
        sum += t;
    }
    printf("cost_gemm %.1f ns\n", (luo_bench_now() - start) / GEMMS * 1e9);
    start = luo_bench_now();
    for (int32_t i = 0; i < PATHS; i++) {
        luo_hop hops[LUO_PATH_MAX];
        sum += luo_cluster_path(c, i % 16384, (int32_t)((int64_t)i * 7919 % 16384), hops);
    }
    printf("cluster_path %.1f ns\n", (luo_bench_now() - start) / PATHS * 1e9);
    int32_t *dev = LUO_NEW_N(arena, int32_t, 16384);
    for (int32_t i = 0; i < 16384; i++) dev[i] = i;
    luo_grid s = {.model = m, .cluster = c, .dtype = LUO_BF16, .sequence_tokens = 4096,
                  .micro_batch_sequences = 1, .micro_batches = 64, .tp = 8, .stages = 8,
                  .pipelines = 1, .sequence_parallel = true, .dev = dev};
    const luo_bucketing unsaid = {0};
    luo_step_cost out;
    start = luo_bench_now();
    for (int i = 0; i < STEPS; i++) luo_test_step(arena, &s, &stack, unsaid, &out, NULL);
    printf("cost_step_pp8 %.1f us\n", (luo_bench_now() - start) / STEPS * 1e6);
    s.pipelines = 256;
    start = luo_bench_now();
    luo_test_step(arena, &s, &stack, unsaid, &out, NULL);
    printf("cost_step_16384 %.3f ms\n", (luo_bench_now() - start) * 1e3);
    luo_flow *flows;
    int32_t n = 0;
    start = luo_bench_now();
    luo_cost_flow(arena, &ctx, LUO_COLL_AR, dev, 16384, 1 << 30, &flows, &n, NULL);
    printf("cost_flow_16384 %.3f ms\n", (luo_bench_now() - start) * 1e3);
    luo_arena_free(arena);
    return sum > 0 && out.step > 0 && n > 0 ? 0 : 1;
}
