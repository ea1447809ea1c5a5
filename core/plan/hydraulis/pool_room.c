/* Two replicas of an entry, compiled and weighed. */
#include "core/plan/hydraulis/pool_room.h"

#include <math.h>

#include "core/plan/compile.h"
#include "core/plan/planners.h"

enum { REPLICAS = 2, TRIES = 4 };

/* Every replica has pp micro-batches of one sequence of so many tokens. */
static luo_status make_plan(luo_arena *arena, const luo_step_place *place, const luo_pool *pool,
                            int32_t entry, int64_t tokens, luo_plan **out, luo_err *err)
{
    const luo_pool_entry *pool_entry = &pool->entry[entry];
    const int32_t fit = place->ndevices / luo_pool_devices(pool_entry),
                  n = fit < REPLICAS ? fit : REPLICAS;
    luo_replica replica[REPLICAS];
    luo_packed packed[REPLICAS];
    int64_t *each = LUO_NEW_N(arena, int64_t, pool_entry->pp);
    int64_t *length = LUO_NEW_N(arena, int64_t, (int64_t)n * pool_entry->pp);
    int32_t *assign = LUO_NEW_N(arena, int32_t, (int64_t)n * pool_entry->pp);
    int32_t *bin = LUO_NEW_N(arena, int32_t, (int64_t)n * pool_entry->pp);
    if (!each || !length || !assign || !bin) return luo_err_nomem(err);
    for (int32_t u = 0; u < pool_entry->pp; u++) each[u] = tokens;
    for (int32_t r = 0; r < n; r++) {
        replica[r] = (luo_replica){entry, 1};
        packed[r] = (luo_packed){.nbins = pool_entry->pp, .tokens = each};
        for (int32_t u = 0; u < pool_entry->pp; u++) {
            length[r * pool_entry->pp + u] = tokens;
            assign[r * pool_entry->pp + u] = r;
            bin[r * pool_entry->pp + u] = u;
        }
    }
    const luo_replicas replicas = {n, replica};
    const luo_step_plan step = {.assign = assign, .bin = bin, .packed = packed};
    return luo_step_plan_make(arena, place, pool, &replicas, &step, length, NULL,
                              n * pool_entry->pp, out, err);
}

/* Of the fullest device; INFINITY: it does not compile. */
static luo_status ratio_of(const luo_step_place *place, const luo_stack *stack,
                           const luo_pool *pool, int32_t entry, int64_t tokens, double *ratio,
                           luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    const luo_compile_opts opts = {
        .unnamed = true, .bucket = stack->bucket, .memory = luo_stack_memory(stack)};
    luo_plan *plan = NULL;
    luo_programs *set = NULL;
    int32_t worst;
    if (!arena) return luo_err_nomem(err);
    *ratio = INFINITY;
    luo_status st = make_plan(arena, place, pool, entry, tokens, &plan, err);
    if (st == LUO_OK)
        st = luo_plan_compile(arena, plan, place->model, place->cluster, &opts, &set, err);
    if (st == LUO_OK) {
        luo_memory *memory = LUO_NEW_N(arena, luo_memory, set->n);
        st = memory ? luo_plan_memory(arena, set, memory, err) : luo_err_nomem(err);
        if (st == LUO_OK) luo_plan_fits(plan, place->cluster, set, memory, ratio, &worst, NULL);
    }
    luo_arena_free(arena);
    return st == LUO_ENOMEM ? st : LUO_OK;
}

/* Memory is a line in the tokens: two points of it say where it reaches the room. */
static luo_status lower(const luo_step_place *place, const luo_stack *stack, luo_pool *pool,
                        int32_t entry, luo_err *err)
{
    const int64_t unit = (int64_t)LUO_POOL_ROUND * pool->entry[entry].cp;
    int64_t high = pool->entry[entry].cap, low = high / 2 / unit * unit;
    double at_high, at_low;
    LUO_TRY(ratio_of(place, stack, pool, entry, high, &at_high, err));
    if (at_high <= 1) return LUO_OK;
    pool->entry[entry].cap = 0;
    if (low < unit || !isfinite(at_high)) return LUO_OK;
    LUO_TRY(ratio_of(place, stack, pool, entry, low, &at_low, err));
    for (int i = 0; i < TRIES && at_high > at_low; i++) {
        const double slope = (at_high - at_low) / (double)(high - low);
        const int64_t next = (int64_t)((1 - at_low) / slope + (double)low) / unit * unit;
        if (next < unit) return LUO_OK;
        high = next < high ? next : high - unit;
        if (high < unit) return LUO_OK;
        LUO_TRY(ratio_of(place, stack, pool, entry, high, &at_high, err));
        if (at_high > 1) continue;
        pool->entry[entry].cap = high;
        return LUO_OK;
    }
    return LUO_OK;
}

luo_status luo_pool_room_check(const luo_step_place *place, const luo_stack *stack, luo_pool *pool,
                               luo_err *err)
{
    for (int32_t k = 0; k < pool->n; k++)
        if (pool->entry[k].cap > 0 && luo_pool_devices(&pool->entry[k]) <= place->ndevices)
            LUO_TRY(lower(place, stack, pool, k, err));
    return LUO_OK;
}
