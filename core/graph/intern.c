/* core/graph/intern.c */
#include "core/graph/intern.h"

#include <string.h>

void luo_intern_init(luo_intern *intern, luo_arena *arena)
{
    *intern = (luo_intern){.arena = arena};
}

static uint64_t hash_of(const int32_t *key, int32_t len)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(len + 1);
    for (int32_t i = 0; i < len; i++) {
        h = (h ^ (uint32_t)key[i]) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    return h;
}

static bool grow(luo_intern *intern)
{
    const int32_t cap = intern->cap ? 2 * intern->cap : 64;
    int32_t *slot = luo_arena_calloc(intern->arena, (size_t)cap, sizeof *slot);
    struct luo_intern_key *key = luo_arena_alloc(intern->arena, (size_t)cap / 2 * sizeof *key);
    if (!slot || !key) return false;
    if (intern->n) memcpy(key, intern->key, (size_t)intern->n * sizeof *key);
    for (int32_t id = 0; id < intern->n; id++) {
        size_t i = (size_t)key[id].hash & (size_t)(cap - 1);
        while (slot[i]) i = (i + 1) & (size_t)(cap - 1);
        slot[i] = id + 1;
    }
    intern->cap = cap;
    intern->slot = slot;
    intern->key = key;
    return true;
}

static bool same(const struct luo_intern_key *intern_key, uint64_t hash, const int32_t *key,
                 int32_t len)
{
    return intern_key->hash == hash && intern_key->len == len &&
           (len == 0 || memcmp(intern_key->at, key, (size_t)len * sizeof *key) == 0);
}

int32_t luo_intern_id(luo_intern *intern, const int32_t *key, int32_t len, bool *fresh)
{
    if (2 * (intern->n + 1) > intern->cap && !grow(intern)) return -1;
    const uint64_t hash = hash_of(key, len);
    size_t i = (size_t)hash & (size_t)(intern->cap - 1);
    for (; intern->slot[i]; i = (i + 1) & (size_t)(intern->cap - 1)) {
        if (!same(&intern->key[intern->slot[i] - 1], hash, key, len)) continue;
        if (fresh) *fresh = false;
        return intern->slot[i] - 1;
    }
    int32_t *copy = luo_arena_alloc(intern->arena, (size_t)len * sizeof *copy);
    if (!copy) return -1;
    if (len) memcpy(copy, key, (size_t)len * sizeof *copy);
    intern->key[intern->n] = (struct luo_intern_key){hash, len, copy};
    intern->slot[i] = intern->n + 1;
    if (fresh) *fresh = true;
    return intern->n++;
}
