/* bench_embed.c: cached embeddings and their partition on synthetic Zipf keys. Wanted on one core:
 * 10^6 key operations a second under each policy (an operation: a key looked up or updated), and a
 * million samples of 26 keys in 8 parts, 5 rounds, in 30 s. */
#include "core/sync/draws.h"
#include "core/sync/embed/gmp.h"
#include "core/sync/embed/het.h"
#include "core/sync/embed/zipf.h"
#include "tests/bench/bench.h"

enum { VOCAB = 1000000, BATCH = 26 * 1024, ITERATIONS = 40, SAMPLES = 1000000, SLOTS = 26 };

static void zipf(luo_arena *arena, luo_zipf *out)
{
    double start = luo_bench_now();
    if (luo_zipf_make(arena, 1.05, VOCAB, out, NULL) != LUO_OK) luo_bench_fail("no memory");
    printf("zipf_table_1e6 %.6f s\n", luo_bench_now() - start);
    int64_t sum = 0;
    start = luo_bench_now();
    for (uint64_t k = 0; k < 10 * VOCAB; k++) sum += luo_zipf_key(out, luo_draw_u(1, 0, k));
    printf("zipf_draws %.0f 1/s\n", 10 * VOCAB / (luo_bench_now() - start));
    if (sum == 0) luo_bench_fail("all keys are 0");
}

static void cache(const luo_zipf *keys_of, luo_het_policy policy)
{
    static uint64_t keys[BATCH];
    static double grads[BATCH];
    luo_het_store store = {.width = 1};
    luo_het *het = NULL;
    const luo_het_opts opts = {.rows = VOCAB / 10,
                               .policy = policy,
                               .pull_bound = 10,
                               .push_bound = 10,
                               .width = 1,
                               .link = {luo_het_store_exchange, &store}};
    double seconds = 0;
    if (luo_het_new(&opts, &het, NULL) != LUO_OK) luo_bench_fail("no memory");
    for (uint64_t k = 0; k < ITERATIONS; k++) {
        for (uint64_t i = 0; i < BATCH; i++) {
            keys[i] = (uint64_t)luo_zipf_key(keys_of, luo_draw_u(1, 0, k * BATCH + i));
            grads[i] = 1;
        }
        const double start = luo_bench_now();
        if (luo_het_lookup(het, keys, BATCH, NULL, NULL, NULL) != LUO_OK ||
            luo_het_update(het, keys, grads, BATCH, NULL) != LUO_OK)
            luo_bench_fail("no memory");
        seconds += luo_bench_now() - start;
    }
    printf("het_%s %.0f 1/s\n", luo_het_policy_name(policy), 2.0 * BATCH * ITERATIONS / seconds);
    luo_het_free(het);
    luo_het_store_free(&store);
}

/* Every slot has a vocabulary of its own, so that no sample has an embedding twice. */
static luo_bigraph samples(luo_arena *arena, const luo_zipf *keys_of)
{
    int64_t *first = LUO_NEW_N(arena, int64_t, SAMPLES + 1);
    int32_t *embed = LUO_NEW_N(arena, int32_t, (int64_t)SAMPLES * SLOTS);
    const int32_t each = VOCAB / SLOTS;
    if (!first || !embed) luo_bench_fail("no memory");
    for (int32_t i = 0; i < SAMPLES; i++) {
        first[i + 1] = first[i] + SLOTS;
        for (int32_t s = 0; s < SLOTS; s++) {
            const double u = luo_draw_u(1, (uint64_t)i, (uint64_t)s);
            embed[first[i] + s] = s * each + (int32_t)(luo_zipf_key(keys_of, u) % each);
        }
    }
    return (luo_bigraph){SAMPLES, VOCAB, first, embed};
}

static void partition(luo_arena *arena, const luo_zipf *keys_of)
{
    const luo_bigraph graph = samples(arena, keys_of);
    luo_gmp gmp;
    const luo_gmp_opts opts = {.parts = 8,
                               .rounds = 5,
                               .batch = 8192,
                               .balance = 100,
                               .load_weight = 0.01,
                               .cm = luo_gmp_costs(arena, 8, 8, 1, 1)};
    const double start = luo_bench_now();
    if (luo_gmp_make(arena, &graph, &opts, &gmp, NULL) != LUO_OK) luo_bench_fail("no memory");
    const double before = luo_gmp_cost(&gmp);
    const int32_t rounds = luo_gmp_refine(&gmp);
    const double seconds = luo_bench_now() - start;
    printf("gmp_1e6x26x8 %.6f s\ngmp_rounds %d 1\n", seconds, rounds);
    printf("gmp_per_million_edges %.6f s\n", seconds / (SLOTS * SAMPLES / 1e6));
    printf("gmp_cost_left %.6f 1\n", luo_gmp_cost(&gmp) / before);
}

int main(void)
{
    luo_arena *arena = luo_arena_new(0);
    luo_zipf keys;
    zipf(arena, &keys);
    for (int p = 0; p < LUO_HET_POLICIES; p++) cache(&keys, (luo_het_policy)p);
    partition(arena, &keys);
    luo_arena_free(arena);
    return 0;
}
