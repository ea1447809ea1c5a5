/* het_cache.h: which rows a worker keeps: an index by key and the order in which they go; not for
 * others than het.c.
 *
 * Rows of equal rank stand in one bucket, the one touched longest ago first; buckets ascend by
 * rank. With lru there is one bucket; with lfu the rank is the number of touches; with lfuopt it
 * ends at LUO_HET_LEVELS, and a row touched once more is in no bucket: it is pinned. */
#ifndef LUO_CORE_SYNC_EMBED_HET_CACHE_H
#define LUO_CORE_SYNC_EMBED_HET_CACHE_H
#include "core/sync/embed/het.h"

enum { LUO_HET_LEVELS = 10 };

typedef struct luo_het_row {
    uint64_t key;
    int64_t version, pending;
    int32_t bucket;       /* LUO_HET_NONE: pinned, or free */
    int32_t before, next; /* in the bucket; `next` also chains free rows */
} luo_het_row;

typedef struct luo_het_bucket {
    int64_t rank;
    int32_t first, last;  /* rows */
    int32_t before, next; /* buckets; `next` also chains free ones */
} luo_het_bucket;

typedef struct luo_het_cache {
    luo_het_policy policy;
    int32_t cap, n; /* rows */
    luo_het_row *row;
    luo_het_bucket *bucket;                /* cap + 1 */
    int32_t free_row, free_bucket, lowest; /* LUO_HET_NONE: no more */
    int32_t *index;                        /* 1 + row, by hash of its key; 0: free */
    uint64_t mask;                         /* entries of index - 1 */
} luo_het_cache;

/* Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_het_cache_init(luo_arena *arena, luo_het_cache *cache, luo_het_policy policy,
                              int32_t rows, luo_err *err);
/* The row of key, LUO_HET_NONE: it has none. All below: expected O(1). */
int32_t luo_het_cache_find(const luo_het_cache *cache, uint64_t key);
void luo_het_cache_touch(luo_het_cache *cache, int32_t row);
/* The row that goes next. LUO_HET_NONE: none may. */
int32_t luo_het_cache_victim(const luo_het_cache *cache);
void luo_het_cache_remove(luo_het_cache *cache, int32_t row);
/* A row for key, with version -1 and nothing pending. Pre: n < cap, and key has none. */
int32_t luo_het_cache_insert(luo_het_cache *cache, uint64_t key);
#endif
