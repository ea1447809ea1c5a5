/* arena.h: memory that is given back all at once.
 *
 * A function that returns memory takes the arena first. Blocks are chained, grow by doubling up
 * to 16 MiB and never move. Scratch work: mark, work, reset. Not for use by two threads at once.
 */
#ifndef LUO_CORE_BASE_ARENA_H
#define LUO_CORE_BASE_ARENA_H
#include <stddef.h>

typedef struct luo_arena luo_arena;

/* NULL: out of memory. first_bytes: a hint for the first block; 0 = 4096. */
luo_arena *luo_arena_new(size_t first_bytes);
void luo_arena_free(luo_arena *arena); /* NULL is fine */
/* bytes aligned to 16; NULL: out of memory. bytes = 0 gives a valid pointer. */
void *luo_arena_alloc(luo_arena *arena, size_t bytes);
/* The same, all bits zero; n * bytes is checked for overflow. */
void *luo_arena_calloc(luo_arena *arena, size_t n, size_t bytes);
/* Grows a block made by this arena (in place when it is the newest); keeps old_bytes. */
void *luo_arena_grow(luo_arena *arena, void *p, size_t old_bytes, size_t new_bytes);
char *luo_arena_strdup(luo_arena *arena, const char *s);
char *luo_arena_strndup(luo_arena *arena, const char *s, size_t n);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
char *luo_arena_printf(luo_arena *arena, const char *fmt, ...);
/* Everything allocated after the mark is given back by the reset (memory is kept for reuse). */
size_t luo_arena_mark(const luo_arena *arena);
void luo_arena_reset(luo_arena *arena, size_t mark);
/* Bytes handed out and still alive. */
size_t luo_arena_used(const luo_arena *arena);

#define LUO_NEW(arena, type) ((type *)luo_arena_calloc((arena), 1, sizeof(type)))
#define LUO_NEW_N(arena, type, n) ((type *)luo_arena_calloc((arena), (size_t)(n), sizeof(type)))
#endif
