#include "core/sync/embed/het_cache.h"

#include <assert.h>

#include "core/base/rng.h"

luo_status luo_het_cache_init(luo_arena *arena, luo_het_cache *cache, luo_het_policy policy,
                              int32_t rows, luo_err *err)
{
    uint64_t entries = 4;
    while (entries < 2 * (uint64_t)rows) entries *= 2;
    *cache = (luo_het_cache){.policy = policy, .cap = rows, .lowest = LUO_HET_NONE};
    cache->mask = entries - 1;
    cache->row = LUO_NEW_N(arena, luo_het_row, rows);
    cache->bucket = LUO_NEW_N(arena, luo_het_bucket, (size_t)rows + 1);
    cache->index = LUO_NEW_N(arena, int32_t, entries);
    if (!cache->row || !cache->bucket || !cache->index) return luo_err_nomem(err);
    for (int32_t i = 0; i < rows; i++) cache->row[i].next = i + 1 < rows ? i + 1 : LUO_HET_NONE;
    for (int32_t i = 0; i <= rows; i++) cache->bucket[i].next = i < rows ? i + 1 : LUO_HET_NONE;
    cache->free_row = rows ? 0 : LUO_HET_NONE;
    return LUO_OK;
}

/* ---- index: linear probing, and no marks of what was deleted ---- */

static uint64_t home_of(const luo_het_cache *cache, uint64_t key)
{
    return luo_rng_at(key, 0) & cache->mask;
}

static uint64_t entry_of(const luo_het_cache *cache, uint64_t key)
{
    uint64_t i = home_of(cache, key);
    while (cache->index[i] && cache->row[cache->index[i] - 1].key != key) i = (i + 1) & cache->mask;
    return i;
}

int32_t luo_het_cache_find(const luo_het_cache *cache, uint64_t key)
{
    return cache->index[entry_of(cache, key)] - 1;
}

/* What stands behind the gap moves into it, unless its home lies between the two. */
static void forget(luo_het_cache *cache, uint64_t key)
{
    uint64_t gap = entry_of(cache, key);
    for (uint64_t i = (gap + 1) & cache->mask; cache->index[i]; i = (i + 1) & cache->mask) {
        const uint64_t home = home_of(cache, cache->row[cache->index[i] - 1].key);
        if (((i - home) & cache->mask) < ((i - gap) & cache->mask)) continue;
        cache->index[gap] = cache->index[i];
        gap = i;
    }
    cache->index[gap] = 0;
}

/* ---- buckets ---- */

/* A new bucket behind `before`; LUO_HET_NONE: in front of all. */
static int32_t bucket_new(luo_het_cache *cache, int64_t rank, int32_t before)
{
    const int32_t b = cache->free_bucket;
    const int32_t next = before == LUO_HET_NONE ? cache->lowest : cache->bucket[before].next;
    cache->free_bucket = cache->bucket[b].next;
    cache->bucket[b] = (luo_het_bucket){
        .rank = rank, .first = LUO_HET_NONE, .last = LUO_HET_NONE, .before = before, .next = next};
    if (before == LUO_HET_NONE)
        cache->lowest = b;
    else
        cache->bucket[before].next = b;
    if (next != LUO_HET_NONE) cache->bucket[next].before = b;
    return b;
}

static void bucket_free(luo_het_cache *cache, int32_t b)
{
    const luo_het_bucket old = cache->bucket[b];
    if (old.before == LUO_HET_NONE)
        cache->lowest = old.next;
    else
        cache->bucket[old.before].next = old.next;
    if (old.next != LUO_HET_NONE) cache->bucket[old.next].before = old.before;
    cache->bucket[b].next = cache->free_bucket;
    cache->free_bucket = b;
}

static void append(luo_het_cache *cache, int32_t row, int32_t b)
{
    luo_het_bucket *bucket = &cache->bucket[b];
    cache->row[row].bucket = b;
    cache->row[row].before = bucket->last;
    cache->row[row].next = LUO_HET_NONE;
    if (bucket->last == LUO_HET_NONE)
        bucket->first = row;
    else
        cache->row[bucket->last].next = row;
    bucket->last = row;
}

/* The bucket stays, even if it is empty then. */
static void detach(luo_het_cache *cache, int32_t row)
{
    const luo_het_row *old = &cache->row[row];
    luo_het_bucket *bucket = &cache->bucket[old->bucket];
    if (old->before == LUO_HET_NONE)
        bucket->first = old->next;
    else
        cache->row[old->before].next = old->next;
    if (old->next == LUO_HET_NONE)
        bucket->last = old->before;
    else
        cache->row[old->next].before = old->before;
}

/* The bucket of the next rank, made if there is none. */
static int32_t bucket_above(luo_het_cache *cache, int32_t b)
{
    const int64_t rank = cache->bucket[b].rank + 1;
    const int32_t next = cache->bucket[b].next;
    if (next != LUO_HET_NONE && cache->bucket[next].rank == rank) return next;
    return bucket_new(cache, rank, b);
}

/* ---- rows ---- */

void luo_het_cache_touch(luo_het_cache *cache, int32_t row)
{
    const int32_t b = cache->row[row].bucket;
    if (b == LUO_HET_NONE) return; /* pinned */
    detach(cache, row);
    if (cache->policy == LUO_HET_LRU)
        append(cache, row, b);
    else if (cache->policy == LUO_HET_LFUOPT && cache->bucket[b].rank == LUO_HET_LEVELS)
        cache->row[row].bucket = LUO_HET_NONE;
    else
        append(cache, row, bucket_above(cache, b));
    if (cache->bucket[b].first == LUO_HET_NONE) bucket_free(cache, b);
}

int32_t luo_het_cache_victim(const luo_het_cache *cache)
{
    return cache->lowest == LUO_HET_NONE ? LUO_HET_NONE : cache->bucket[cache->lowest].first;
}

void luo_het_cache_remove(luo_het_cache *cache, int32_t row)
{
    const int32_t b = cache->row[row].bucket;
    forget(cache, cache->row[row].key);
    if (b != LUO_HET_NONE) {
        detach(cache, row);
        if (cache->bucket[b].first == LUO_HET_NONE) bucket_free(cache, b);
    }
    cache->row[row].next = cache->free_row;
    cache->free_row = row;
    cache->n--;
}

int32_t luo_het_cache_insert(luo_het_cache *cache, uint64_t key)
{
    assert(cache->n < cache->cap);
    const int32_t row = cache->free_row;
    int32_t b = cache->lowest;
    cache->free_row = cache->row[row].next;
    cache->index[entry_of(cache, key)] = row + 1;
    cache->row[row] = (luo_het_row){.key = key, .version = -1};
    if (b == LUO_HET_NONE || cache->bucket[b].rank > 1) b = bucket_new(cache, 1, LUO_HET_NONE);
    append(cache, row, b);
    cache->n++;
    return row;
}
