#include "core/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t luo_hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * UINT64_C(0x100000001b3);
    return h;
}

uint64_t luo_hash_str(uint64_t h, const char *s)
{
    return luo_hash_bytes(h, s, strlen(s));
}

char *luo_hash_print(uint64_t h, char buf[17])
{
    snprintf(buf, 17, "%016llx", (unsigned long long)h);
    return buf;
}

/* A stored key is key + 1, so that 0 marks a free slot; the key UINT64_MAX is not allowed. */
static uint64_t mix(uint64_t k)
{
    k ^= k >> 33;
    k *= UINT64_C(0xff51afd7ed558ccd);
    k ^= k >> 33;
    k *= UINT64_C(0xc4ceb9fe1a85ec53);
    return k ^ (k >> 33);
}

static size_t slot(const luo_map *map, uint64_t key)
{
    size_t i = (size_t)mix(key) & (map->cap - 1);
    while (map->keys[i] && map->keys[i] != key + 1) i = (i + 1) & (map->cap - 1);
    return i;
}

static int grow(luo_map *map)
{
    luo_map big = {.cap = map->cap ? 2 * map->cap : 64, .n = map->n};
    big.keys = calloc(big.cap, sizeof *big.keys);
    big.values = malloc(big.cap * sizeof *big.values);
    if (!big.keys || !big.values) {
        free(big.keys);
        free(big.values);
        return 0;
    }
    for (size_t i = 0; i < map->cap; i++) {
        if (!map->keys[i]) continue;
        const size_t j = slot(&big, map->keys[i] - 1);
        big.keys[j] = map->keys[i];
        big.values[j] = map->values[i];
    }
    luo_map_free(map);
    *map = big;
    return 1;
}

int64_t *luo_map_at(luo_map *map, uint64_t key, int64_t fresh)
{
    if (2 * (map->n + 1) > map->cap && !grow(map)) return NULL;
    const size_t i = slot(map, key);
    if (!map->keys[i]) {
        map->keys[i] = key + 1;
        map->values[i] = fresh;
        map->n++;
    }
    return &map->values[i];
}

int64_t luo_map_get(const luo_map *map, uint64_t key, int64_t otherwise)
{
    if (!map->cap) return otherwise;
    const size_t i = slot(map, key);
    return map->keys[i] ? map->values[i] : otherwise;
}

void luo_map_clear(luo_map *map)
{
    if (map->cap) memset(map->keys, 0, map->cap * sizeof *map->keys);
    map->n = 0;
}

void luo_map_free(luo_map *map)
{
    free(map->keys);
    free(map->values);
    memset(map, 0, sizeof *map);
}
