/* hash.h: FNV-1a, 64 bits (docs/formats.md#words-units-names). It identifies; it is no
 * protection. */
#ifndef LUO_CORE_BASE_HASH_H
#define LUO_CORE_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>

#define LUO_HASH_EMPTY UINT64_C(0xcbf29ce484222325)

/* Continues h over n bytes; start with LUO_HASH_EMPTY. */
uint64_t luo_hash_bytes(uint64_t h, const void *p, size_t n);
uint64_t luo_hash_str(uint64_t h, const char *s);
/* 16 hex digits and a 0 into buf[17]; returns buf. */
char *luo_hash_print(uint64_t h, char buf[17]);

/* Map from 64-bit keys to 64-bit values, open addressing. Never iterated: no order may come from
 * a hash table. Memory from malloc; luo_map_free gives it back. */
typedef struct luo_map {
    uint64_t *keys;
    int64_t *values;
    size_t cap, n;
} luo_map; /* {0} is an empty map */
/* Value slot of key, created as `fresh` if missing; NULL: out of memory. */
int64_t *luo_map_at(luo_map *map, uint64_t key, int64_t fresh);
/* Value of key or `otherwise`. */
int64_t luo_map_get(const luo_map *map, uint64_t key, int64_t otherwise);
void luo_map_clear(luo_map *map);
void luo_map_free(luo_map *map);
#endif
