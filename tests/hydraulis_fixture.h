/* hydraulis_fixture.h: strategies and pools that tests of the planner for uneven lengths share. */
#ifndef LUO_TESTS_HYDRAULIS_FIXTURE_H
#define LUO_TESTS_HYDRAULIS_FIXTURE_H
#include <stdlib.h>

#include "core/io/read/read.h"
#include "core/plan/hydraulis/dispatch.h"
#include "core/plan/hydraulis/pack.h"
#include "core/plan/lengths/lengths.h"

#define ENTRY(tp_, pp_, a_, b_, c_, cap_, util_)                                                   \
    {                                                                                              \
        .tp = (tp_), .cp = 1, .pp = (pp_), .a = (a_), .b = (b_), .c = (c_), .cap = (cap_),         \
        .util = (util_)                                                                            \
    }

/* Models of the published pools, and their files (scenarios/pools/). */
typedef struct published_model {
    const char *name;
    int64_t layers, hidden, vocabulary;
} published_model;
static const published_model published_7b = {"7b-a800", 32, 4096, 30592};
static const published_model published_13b = {"13b-a800", 40, 5120, 30592};
static const published_model published_32b = {"32b-a800", 60, 6656, 30592};
static const published_model published_7b_a100 = {"7b-a100-40g", 32, 4096, 50304};

static inline luo_pool_memory published_memory(luo_arena *arena, const published_model *p)
{
    const luo_model model = {.layers = p->layers, .hidden = p->hidden, .vocab = p->vocabulary};
    const luo_pool_model_in in = {.model = &model};
    luo_params params = {0};
    luo_diags diags;
    luo_diags_init(&diags, arena);
    const char *path = luo_arena_printf(arena, "scenarios/pools/%s.yaml", p->name);
    if (luo_read_params(arena, path, &params, &diags) != LUO_OK) abort();
    return luo_pool_memory_of(&in, &params.pool);
}

/* With caps by the published formula. */
static inline luo_pool published_pool(luo_arena *arena, const published_model *p,
                                      luo_optimizer_layout layout)
{
    luo_pool pool = {0};
    luo_diags diags;
    luo_diags_init(&diags, arena);
    const luo_pool_memory memory = published_memory(arena, p);
    const char *path = luo_arena_printf(arena, "scenarios/pools/%s.csv", p->name);
    if (luo_read_pool(arena, path, &pool, &diags) != LUO_OK) abort();
    luo_pool_fill_caps(&pool, &memory, &layout);
    return pool;
}
#define POOL_7B(arena, ...)                                                                        \
    published_pool(arena, &published_7b, (luo_optimizer_layout){__VA_ARGS__})
#define POOL_32B(arena, ...)                                                                       \
    published_pool(arena, &published_32b, (luo_optimizer_layout){__VA_ARGS__})

static inline int32_t entry_of(const luo_pool *pool, int32_t tp, int32_t pp)
{
    for (int32_t i = 0; i < pool->n; i++)
        if (pool->entry[i].tp == tp && pool->entry[i].pp == pp && pool->entry[i].cp == 1) return i;
    return -1;
}
#endif
