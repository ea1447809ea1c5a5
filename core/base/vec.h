/* vec.h: room for one more in an array that grows: a pointer, how many are there, how many fit;
 * and the order of what is in it. */
#ifndef LUO_CORE_BASE_VEC_H
#define LUO_CORE_BASE_VEC_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

/* False: out of memory, and nothing has changed. at: pointer to the first; n: int32_t or int64_t;
 * cap: int32_t or int64_t, 0 at first, grows to twice as many. What is new is not cleared. Each is
 * named once more than it is read: no side effects. Cost: amortised O(1). */
#define LUO_VEC_ROOM(at, n, cap) LUO_VEC_ROOM_IN(NULL, at, n, cap) /* the caller's, by free() */
#define LUO_VEC_ROOM_IN(arena, at, n, cap)                                                         \
    ((n) < (cap) || _Generic((cap), int32_t                                                        \
                             : luo_vec_grow32, int64_t                                             \
                             : luo_vec_grow64)(arena, (void *)&(at), &(cap), sizeof *(at)))

/* Of the two above. at: to the pointer. */
bool luo_vec_grow32(luo_arena *arena, void *at, int32_t *cap, size_t bytes);
bool luo_vec_grow64(luo_arena *arena, void *at, int64_t *cap, size_t bytes);

/* For qsort and bsearch: rising. */
int luo_vec_by_int32(const void *a, const void *b);
int luo_vec_by_double(const void *a, const void *b);
#endif
