/* intern.h: dense ids for keys made of 32-bit integers. Exact: keys are compared, not
 * only hashed. Ids are given in the order of first use, so no order comes from the hash. */
#ifndef LUO_CORE_GRAPH_INTERN_H
#define LUO_CORE_GRAPH_INTERN_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

typedef struct luo_intern {
    luo_arena *arena;
    int32_t n, cap;      /* keys; slots (a power of two) */
    int32_t *slot;       /* id + 1; 0: free */
    struct luo_intern_key {
        uint64_t hash;
        int32_t len;
        const int32_t *at;
    } *key; /* by id; room for cap / 2 */
} luo_intern;

void luo_intern_init(luo_intern *intern, luo_arena *arena);
/* Id of the key, made if missing; -1: out of memory. fresh (may be NULL): it was made now. */
int32_t luo_intern_id(luo_intern *intern, const int32_t *key, int32_t len, bool *fresh);
#endif
