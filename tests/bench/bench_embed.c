/* bench_embed.c: cached embeddings and their partition on synthetic Zipf keys, processor time.
 * Wanted on one core: 10^6 key operations a second under each policy (an operation: a key looked up
 * or updated), and a million samples of 26 keys in 8 parts, 5 rounds, in 30 s. And how all of it
 * grows with the keys: bytes of memory a key and seconds at 10^7 keys, with LUO_SCALE=10 at 10^8 (5
 * GiB, 3 minutes). */
#include <unistd.h>

#include "core/sync/draws.h"
#include "core/sync/embed/gmp.h"
#include "core/sync/embed/het_loop.h"
#include "core/sync/embed/zipf.h"
#include "tests/bench/bench.h"

enum { VOCAB = 1000000, BATCH = 26 * 1024, ITERATIONS = 40, SAMPLES = 1000000, SLOTS = 26 };

static void zipf(luo_arena *arena, luo_zipf *out)
{
    double start = luo_bench_cpu();
    if (luo_zipf_make(arena, 1.05, VOCAB, out, NULL) != LUO_OK) luo_bench_fail("no memory");
    printf("zipf_table_1e6 %.6f s\n", luo_bench_cpu() - start);
    int64_t sum = 0;
    start = luo_bench_cpu();
    for (uint64_t k = 0; k < 10 * VOCAB; k++) sum += luo_zipf_key(out, luo_draw_u(1, 0, k));
    printf("zipf_draws %.0f 1/s\n", 10 * VOCAB / (luo_bench_cpu() - start));
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
        const double start = luo_bench_cpu();
        if (luo_het_lookup(het, keys, BATCH, NULL, NULL, NULL) != LUO_OK ||
            luo_het_update(het, keys, grads, BATCH, NULL) != LUO_OK)
            luo_bench_fail("no memory");
        seconds += luo_bench_cpu() - start;
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
    const double start = luo_bench_cpu();
    if (luo_gmp_make(arena, &graph, &opts, &gmp, NULL) != LUO_OK) luo_bench_fail("no memory");
    const double before = luo_gmp_cost(&gmp);
    const int32_t rounds = luo_gmp_refine(&gmp);
    const double seconds = luo_bench_cpu() - start;
    printf("gmp_1e6x26x8 %.6f s\ngmp_rounds %d 1\n", seconds, rounds);
    printf("gmp_per_million_edges %.6f s\n", seconds / (SLOTS * SAMPLES / 1e6));
    printf("gmp_cost_left %.6f 1\n", luo_gmp_cost(&gmp) / before);
}

/* ---- how it grows ---- */

/* Bytes that this process has in memory now. */
static double resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long long pages = 0;
    if (!f || fscanf(f, "%*d %lld", &pages) != 1) luo_bench_fail("no /proc/self/statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static int power_of(int64_t keys)
{
    int power = 0;
    for (; keys >= 10; keys /= 10) power++;
    return power;
}

static void grow_zipf(int64_t vocab)
{
    luo_arena *arena = luo_arena_new(0);
    luo_zipf zipf;
    int64_t sum = 0;
    const double before = resident(), start = luo_bench_cpu();
    if (luo_zipf_make(arena, 1.05, vocab, &zipf, NULL) != LUO_OK) luo_bench_fail("no memory");
    const double made = luo_bench_cpu();
    for (uint64_t k = 0; k < 10000000; k++) sum += luo_zipf_key(&zipf, luo_draw_u(1, 0, k));
    printf("zipf_1e%d_table %.3f s\nzipf_1e%d_draws %.0f 1/s\nzipf_1e%d_per_key %.1f B\n",
           power_of(vocab), made - start, power_of(vocab), 1e7 / (luo_bench_cpu() - made),
           power_of(vocab), (resident() - before) / (double)vocab);
    if (sum == 0) luo_bench_fail("all keys are 0");
    luo_arena_free(arena);
}

typedef struct walk { /* through all keys, a batch after the other */
    int64_t keys;
    double before, most; /* bytes in memory */
} walk;

static luo_status next_batch(void *ctx, int32_t worker, int64_t k, uint64_t *keys, luo_err *err)
{
    walk *w = ctx;
    (void)worker;
    (void)err;
    for (int64_t i = 0; i < BATCH; i++) keys[i] = (uint64_t)((k * BATCH + i) % w->keys);
    if (w->most < resident() - w->before) w->most = resident() - w->before;
    return LUO_OK;
}

/* The simulated servers with a row for every key, and a worker that keeps a thousandth of them. */
static void grow_rows(int64_t keys, bool dense)
{
    luo_arena *arena = luo_arena_new(0);
    walk w = {.keys = keys, .before = resident()};
    luo_het_loop sum;
    const luo_het_loop_opts opts = {.workers = 1,
                                    .servers = 1,
                                    .iterations = (keys + BATCH - 1) / BATCH,
                                    .keys = BATCH,
                                    .vocab = dense ? (int32_t)keys : 0,
                                    .batch = next_batch,
                                    .ctx = &w,
                                    .cache = {.rows = keys / 1000, .policy = LUO_HET_LFU},
                                    .wire = luo_het_wire_cached(128),
                                    .net = {0, 1}};
    const double start = luo_bench_cpu();
    if (luo_het_loop_run(arena, &opts, &sum, NULL) != LUO_OK) luo_bench_fail("no memory");
    const char *how = dense ? "dense" : "index";
    printf("het_rows_1e%d_%s %.0f 1/s\nhet_rows_1e%d_%s_per_key %.1f B\n", power_of(keys), how,
           2.0 * (double)sum.traffic.updates / (luo_bench_cpu() - start), power_of(keys), how,
           w.most / (double)keys);
    luo_tally_free(&sum.missed);
    luo_arena_free(arena);
}

/* 1.04 edges an embedding, the first of each slot's more often than the last. */
static void grow_partition(int32_t embeds)
{
    luo_arena *arena = luo_arena_new(0);
    const int32_t samples = embeds / 25, each = embeds / SLOTS;
    const double before = resident();
    int64_t *first = LUO_NEW_N(arena, int64_t, samples + 1);
    int32_t *embed = LUO_NEW_N(arena, int32_t, (int64_t)samples * SLOTS);
    if (!first || !embed) luo_bench_fail("no memory");
    for (int32_t i = 0; i < samples; i++) {
        first[i + 1] = first[i] + SLOTS;
        for (int32_t s = 0; s < SLOTS; s++) {
            const double u = luo_draw_u(1, (uint64_t)i, (uint64_t)s);
            embed[first[i] + s] = s * each + (int32_t)(u * u * u * each);
        }
    }
    const luo_bigraph graph = {samples, embeds, first, embed};
    const luo_gmp_opts opts = {.parts = 8,
                               .rounds = 1,
                               .batch = 512,
                               .balance = 100,
                               .load_weight = 0.01,
                               .cm = luo_gmp_costs(arena, 8, 8, 1, 1)};
    const double given = resident(), start = luo_bench_cpu();
    luo_gmp gmp;
    if (luo_gmp_make(arena, &graph, &opts, &gmp, NULL) != LUO_OK) luo_bench_fail("no memory");
    luo_gmp_refine(&gmp);
    printf("gmp_1e%d_round %.3f s\ngmp_1e%d_per_key %.1f B\ngmp_1e%d_samples_per_key %.1f B\n",
           power_of(embeds), luo_bench_cpu() - start, power_of(embeds),
           (resident() - given) / embeds, power_of(embeds), (given - before) / embeds);
    luo_arena_free(arena);
}

int main(void)
{
    const char *scale = getenv("LUO_SCALE");
    const int32_t many = scale && atoi(scale) >= 10 ? 100000000 : 10000000;
    luo_arena *arena = luo_arena_new(0);
    luo_zipf keys;
    zipf(arena, &keys);
    for (int p = 0; p < LUO_HET_POLICIES; p++) cache(&keys, (luo_het_policy)p);
    partition(arena, &keys);
    luo_arena_free(arena);
    grow_zipf(many);
    grow_rows(10000000, false);
    grow_rows(many, true);
    grow_partition(many);
    return 0;
}
