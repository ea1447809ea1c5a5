/* hydraulis_fixture.h: strategies and pools that tests of the planner for uneven lengths share. */
#ifndef LUO_TESTS_HYDRAULIS_FIXTURE_H
#define LUO_TESTS_HYDRAULIS_FIXTURE_H
#include "core/plan/hydraulis/dispatch.h"
#include "core/plan/hydraulis/pack.h"
#include "core/plan/lengths/lengths.h"

#define ENTRY(tp_, pp_, a_, b_, c_, cap_, util_)                                                   \
    {                                                                                              \
        .tp = (tp_), .cp = 1, .pp = (pp_), .a = (a_), .b = (b_), .c = (c_), .cap = (cap_),         \
        .util = (util_)                                                                            \
    }

/* Published coefficients (public code of Hydraulis, generate_strategy_*.py); utils by tp. */
static const luo_pool_entry pool_7b[] = {
    ENTRY(1, 2, 1.37240947e-06, 9.46477810e-02, 15.0471, 0, 384),
    ENTRY(1, 4, 9.55466937e-07, 4.55224977e-02, 14.2737, 0, 384),
    ENTRY(1, 8, 4.71839253e-07, 2.37632988e-02, 7.7435, 0, 384),
    ENTRY(2, 1, 2.05448457e-06, 9.67076442e-02, 65.1790, 0, 512),
    ENTRY(2, 2, 1.02663458e-06, 4.90736142e-02, 31.8667, 0, 512),
    ENTRY(2, 4, 5.24734001e-07, 2.49896203e-02, 17.4716, 0, 512),
    ENTRY(2, 8, 2.61470756e-07, 1.32181135e-02, 8.6590, 0, 512),
    ENTRY(4, 1, 1.03043340e-06, 5.64777342e-02, 56.6978, 0, 768),
    ENTRY(4, 2, 5.16172276e-07, 2.85116473e-02, 28.9898, 0, 768),
    ENTRY(4, 4, 2.57919500e-07, 1.46761838e-02, 14.9830, 0, 768),
    ENTRY(8, 1, 5.06885473e-07, 3.66182377e-02, 44.3175, 0, 1024),
    ENTRY(8, 2, 2.53715597e-07, 1.84675589e-02, 22.9765, 0, 1024),
    ENTRY(16, 1, 3.01808129e-07, 2.92311085e-02, 65.2363, 0, 1280),
};
static const luo_pool_entry pool_32b[] = {
    ENTRY(1, 2, 0, 4.8988971e-01, 22.8824, 0, 384),
    ENTRY(1, 4, 9.39192752e-07, 2.12596087e-01, 35.9947, 0, 384),
    ENTRY(2, 1, 2.97455561e-05, 3.86957078e-01, 156.2009, 0, 512),
    ENTRY(2, 2, 3.73416233e-06, 2.13060059e-01, 80.7167, 0, 512),
    ENTRY(2, 4, 1.97033746e-06, 1.06558744e-01, 42.9449, 0, 512),
    ENTRY(2, 6, 1.31605318e-06, 7.18051676e-02, 28.6163, 0, 512),
    ENTRY(4, 1, 3.86950049e-06, 2.38996833e-01, 120.6948, 0, 768),
    ENTRY(4, 2, 2.04563898e-06, 1.18301177e-01, 65.4239, 0, 768),
    ENTRY(4, 4, 1.05779156e-06, 5.92119769e-02, 35.3353, 0, 768),
    ENTRY(4, 6, 7.02993498e-07, 3.98508980e-02, 24.0720, 0, 768),
    ENTRY(8, 1, 2.12548718e-06, 1.41411593e-01, 122.9102, 0, 1024),
    ENTRY(8, 2, 1.06789378e-06, 7.10582460e-02, 61.7678, 0, 1024),
    ENTRY(8, 3, 6.85518086e-07, 4.82754236e-02, 38.0697, 0, 1024),
    ENTRY(8, 4, 4.91076016e-07, 3.70804063e-02, 25.4424, 0, 1024),
    ENTRY(16, 1, 1.37779723e-06, 1.02435387e-01, 145.7476, 0, 1280),
};
static const luo_pool_memory memory_7b = {32, 4096, 30592, {38, 39, 42, 48, 61}, 210, 0.75,
                                          6,  5000, 81252};
static const luo_pool_memory memory_32b = {60, 6656, 30592, {36, 36, 37, 42, 50}, 201, 0.75,
                                           10, 5000, 81252};

/* A copy with caps. */
static inline luo_pool pool_with_caps(luo_arena *arena, const luo_pool_entry *entry, int32_t n,
                                      const luo_pool_memory *memory, luo_optimizer_layout layout)
{
    luo_pool pool = {n, LUO_NEW_N(arena, luo_pool_entry, n)};
    for (int32_t i = 0; i < n; i++) pool.entry[i] = entry[i];
    luo_pool_fill_caps(&pool, memory, &layout);
    return pool;
}
#define POOL_7B(arena, ...)                                                                        \
    pool_with_caps(arena, pool_7b, LUO_ROWS(pool_7b), &memory_7b,                                  \
                   (luo_optimizer_layout){__VA_ARGS__})
#define POOL_32B(arena, ...)                                                                       \
    pool_with_caps(arena, pool_32b, LUO_ROWS(pool_32b), &memory_32b,                               \
                   (luo_optimizer_layout){__VA_ARGS__})

static inline int32_t entry_of(const luo_pool *pool, int32_t tp, int32_t pp)
{
    for (int32_t i = 0; i < pool->n; i++)
        if (pool->entry[i].tp == tp && pool->entry[i].pp == pp && pool->entry[i].cp == 1) return i;
    return -1;
}
#endif
