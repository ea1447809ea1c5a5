#include "core/base/vec.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 16 };

bool luo_vec_grow64(luo_arena *arena, void *at, int64_t *cap, size_t bytes)
{
    void *old, *more = NULL;
    const int64_t room = *cap > 0 ? 2 * *cap : FIRST;
    memcpy(&old, at, sizeof old); /* a pointer of any type */
    if (room < *cap || (uint64_t)room > SIZE_MAX / 2 / bytes) return false;
    if (arena)
        more = luo_arena_grow(arena, old, (size_t)*cap * bytes, (size_t)room * bytes);
    else
        more = realloc(old, (size_t)room * bytes);
    if (!more) return false;
    memcpy(at, &more, sizeof more);
    *cap = room;
    return true;
}

bool luo_vec_grow32(luo_arena *arena, void *at, int32_t *cap, size_t bytes)
{
    int64_t room = *cap;
    if (*cap > INT32_MAX / 2 || !luo_vec_grow64(arena, at, &room, bytes)) return false;
    *cap = (int32_t)room;
    return true;
}

int luo_vec_by_int32(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int luo_vec_by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
