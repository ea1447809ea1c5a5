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

static size_t slot(const luo_map *m, uint64_t key)
{
    size_t i = (size_t)mix(key) & (m->cap - 1);
    while (m->keys[i] && m->keys[i] != key + 1) i = (i + 1) & (m->cap - 1);
    return i;
}

static int grow(luo_map *m)
{
    luo_map big = {.cap = m->cap ? 2 * m->cap : 64, .n = m->n};
    big.keys = calloc(big.cap, sizeof *big.keys);
    big.values = malloc(big.cap * sizeof *big.values);
    if (!big.keys || !big.values) {
        free(big.keys);
        free(big.values);
        return 0;
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (!m->keys[i]) continue;
        const size_t j = slot(&big, m->keys[i] - 1);
        big.keys[j] = m->keys[i];
        big.values[j] = m->values[i];
    }
    luo_map_free(m);
    *m = big;
    return 1;
}

int64_t *luo_map_at(luo_map *m, uint64_t key, int64_t fresh)
{
    if (2 * (m->n + 1) > m->cap && !grow(m)) return NULL;
    const size_t i = slot(m, key);
    if (!m->keys[i]) {
        m->keys[i] = key + 1;
        m->values[i] = fresh;
        m->n++;
    }
    return &m->values[i];
}

int64_t luo_map_get(const luo_map *m, uint64_t key, int64_t otherwise)
{
    if (!m->cap) return otherwise;
    const size_t i = slot(m, key);
    return m->keys[i] ? m->values[i] : otherwise;
}

void luo_map_clear(luo_map *m)
{
    if (m->cap) memset(m->keys, 0, m->cap * sizeof *m->keys);
    m->n = 0;
}

void luo_map_free(luo_map *m)
{
    free(m->keys);
    free(m->values);
    memset(m, 0, sizeof *m);
}
