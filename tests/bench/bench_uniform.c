/* bench_uniform.c: the uniform planner's whole search by closed form, all it searches:
 * `uniform_DEVICES_s VALUE s` median of three, `uniform_DEVICES_shapes` and `_priced`. */
#include "core/io/read/read.h"
#include "core/plan/planners.h"
#include "tests/bench/bench.h"

enum { REPEAT = 3 };

static void one(const char *cluster, const char *model, int32_t devices, int64_t batch)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_diags diags;
    luo_cluster *c = NULL;
    luo_model *m = NULL;
    luo_uniform_result *r = NULL;
    luo_err err = {0};
    double took[REPEAT];
    int32_t n = 0;
    luo_diags_init(&diags, arena);
    luo_read_cluster(arena, cluster, &c, &diags);
    luo_read_model(arena, model, &m, &diags);
    if (!c || !m) luo_bench_fail("bench_uniform: run from the root of the repository");
    const luo_uniform_opts o = {.batch_sequences = batch, .sequence_tokens = 4096, .top = 16,
                                .families = 8, .zero = -1, .cp = -1, .zero_most = 3, .shard = -1,
                                .recompute = -1, .schedule = -1, .layers = LUO_UNIFORM_BOTH,
                                .types = true, .sequence_parallel = true};
    for (int k = 0; k < REPEAT; k++) {
        const double start = luo_bench_now();
        if (luo_plan_uniform(arena, m, c, &o, &r, &n, &err) != LUO_OK)
            luo_bench_fail("%s", err.text);
        took[k] = luo_bench_now() - start;
    }
    printf("uniform_%d_s %.3f s\n", devices, luo_bench_median(took, REPEAT));
    printf("uniform_%d_shapes %lld 1\n", devices, (long long)r->shapes);
    printf("uniform_%d_priced %lld 1\n", devices, (long long)r->priced);
    luo_arena_free(arena);
}

int main(void)
{
    one("scenarios/clusters/a100-64.yaml", "scenarios/models/llama-70b.yaml", 64, 128);
    one("scenarios/clusters/h100-1024.yaml", "scenarios/models/llama-70b.yaml", 1024, 1024);
    one("scenarios/clusters/h100-16384.yaml", "scenarios/models/llama-405b.yaml", 16384, 16384);
    return 0;
}
