#include "core/run/policy/plan_cache.h"

#include <math.h>
#include <string.h>

static bool same_rate(double now, double then, double gap, double threshold)
{
    return fabs(now - then) < fmax(gap, 0.15 * then) && (now < threshold) == (then < threshold);
}

static bool same(const luo_snapshot_key *now, const luo_snapshot_key *then, double gap,
                 double threshold)
{
    if (now->n != then->n || now->memory_factor != then->memory_factor ||
        now->sequence_tokens != then->sequence_tokens ||
        now->micro_batches != then->micro_batches || now->failures != then->failures ||
        memcmp(now->candidate, then->candidate, (size_t)now->n * sizeof *now->candidate) != 0)
        return false;
    for (int32_t d = 0; d < now->n; d++)
        if (now->candidate[d] && !same_rate(now->rate[d], then->rate[d], gap, threshold))
            return false;
    return true;
}

const luo_snapshot_known *luo_plan_cache_find(const luo_plan_cache *cache,
                                              const luo_snapshot_key *key, double gap,
                                              double threshold)
{
    for (int32_t i = 0; i < cache->n; i++) {
        const int32_t at = (cache->newest - i + LUO_PLAN_CACHE) % LUO_PLAN_CACHE;
        if (same(key, &cache->at[at].key, gap, threshold)) return &cache->at[at];
    }
    return NULL;
}

luo_status luo_plan_cache_add(luo_plan_cache *cache, luo_arena *arena, const luo_snapshot_key *key,
                              const luo_plan *const *plans, int32_t n, luo_err *err)
{
    const int32_t at = cache->n == 0 ? 0 : (cache->newest + 1) % LUO_PLAN_CACHE;
    const bool used = cache->n == LUO_PLAN_CACHE;
    double *rate = used ? (double *)cache->at[at].key.rate : LUO_NEW_N(arena, double, key->n);
    bool *candidate = used ? (bool *)cache->at[at].key.candidate : LUO_NEW_N(arena, bool, key->n);
    luo_plan *copy[LUO_PLAN_CACHE_PLANS];
    if (!rate || !candidate) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) LUO_TRY(luo_plan_copy(arena, plans[i], &copy[i], err));
    memcpy(rate, key->rate, (size_t)key->n * sizeof *rate);
    memcpy(candidate, key->candidate, (size_t)key->n * sizeof *candidate);
    cache->at[at].key = *key;
    cache->at[at].key.rate = rate;
    cache->at[at].key.candidate = candidate;
    cache->at[at].n = n;
    for (int32_t i = 0; i < n; i++) cache->at[at].plan[i] = copy[i];
    cache->newest = at;
    if (!used) cache->n++;
    return LUO_OK;
}
