/* arena.c: chained blocks. A position is the total number of bytes handed out before
 * it, so that a mark is one number and survives growth. */
#include "core/base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, FIRST = 4096, MAX_BLOCK = 1 << 24 };

typedef struct block {
    struct block *prev;
    size_t start; /* position of the first byte of this block */
    size_t size, used;
} block;

struct luo_arena {
    block *top;
    size_t next_bytes;
    void *newest; /* last block handed out, for growing in place */
};

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

enum { HEAD = (sizeof(block) + ALIGN - 1) / ALIGN * ALIGN };

static char *base_of(block *b)
{
    return (char *)b + HEAD;
}

static block *push_block(luo_arena *arena, size_t bytes)
{
    size_t size = arena->next_bytes;
    if (size < bytes) size = bytes;
    if (size > SIZE_MAX - HEAD) return NULL;
    block *b = malloc(HEAD + size);
    if (!b) return NULL;
    b->prev = arena->top;
    b->start = arena->top ? arena->top->start + arena->top->used : 0;
    b->size = size;
    b->used = 0;
    arena->top = b;
    if (arena->next_bytes < MAX_BLOCK) arena->next_bytes *= 2;
    return b;
}

luo_arena *luo_arena_new(size_t first_bytes)
{
    luo_arena *arena = calloc(1, sizeof *arena);
    if (!arena) return NULL;
    arena->next_bytes = round_up(first_bytes ? first_bytes : FIRST);
    if (!push_block(arena, 0)) {
        free(arena);
        return NULL;
    }
    return arena;
}

void luo_arena_free(luo_arena *arena)
{
    if (!arena) return;
    while (arena->top) {
        block *b = arena->top;
        arena->top = b->prev;
        free(b);
    }
    free(arena);
}

void *luo_arena_alloc(luo_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - ALIGN) return NULL;
    const size_t need = bytes ? round_up(bytes) : ALIGN;
    block *b = arena->top;
    if (b->size - b->used < need && !(b = push_block(arena, need))) return NULL;
    arena->newest = base_of(b) + b->used;
    b->used += need;
    return arena->newest;
}

void *luo_arena_calloc(luo_arena *arena, size_t n, size_t bytes)
{
    if (bytes && n > SIZE_MAX / bytes) return NULL;
    void *p = luo_arena_alloc(arena, n * bytes);
    if (p) memset(p, 0, n * bytes);
    return p;
}

void *luo_arena_grow(luo_arena *arena, void *p, size_t old_bytes, size_t new_bytes)
{
    assert(new_bytes >= old_bytes);
    block *b = arena->top;
    if (p && p == arena->newest) {
        const size_t at = (size_t)((char *)p - base_of(b));
        const size_t need = round_up(new_bytes);
        if (at <= b->size && need >= new_bytes && b->size - at >= need) {
            b->used = at + need;
            return p;
        }
    }
    void *q = luo_arena_alloc(arena, new_bytes);
    if (q && p && old_bytes) memcpy(q, p, old_bytes);
    return q;
}

char *luo_arena_strndup(luo_arena *arena, const char *s, size_t n)
{
    char *p = luo_arena_alloc(arena, n + 1);
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *luo_arena_strdup(luo_arena *arena, const char *s)
{
    return luo_arena_strndup(arena, s, strlen(s));
}

char *luo_arena_printf(luo_arena *arena, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : luo_arena_alloc(arena, (size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

size_t luo_arena_mark(const luo_arena *arena)
{
    return arena->top->start + arena->top->used;
}

void luo_arena_reset(luo_arena *arena, size_t mark)
{
    while (arena->top->start > mark && arena->top->prev) {
        block *b = arena->top;
        arena->top = b->prev;
        free(b);
    }
    assert(mark >= arena->top->start && mark - arena->top->start <= arena->top->used);
    arena->top->used = mark - arena->top->start;
    arena->newest = NULL;
}

size_t luo_arena_used(const luo_arena *arena)
{
    return luo_arena_mark(arena);
}
