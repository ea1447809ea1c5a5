/* tokens.h: files of training data, by their names: which entries they
 * hold, and where a document ends. Read by exec/data and by `luoshu import lengths-tokens`. */
#ifndef LUO_CORE_IO_TOKENS_H
#define LUO_CORE_IO_TOKENS_H
#include <stdint.h>

#include "core/base/err.h"

/* Bytes of an entry: 2 of .u16, 4 of .u32, little endian; 1 of any other name: a text, whose bytes
 * are tokens and whose documents end after empty lines. */
int32_t luo_tokens_width(const char *path);
/* The entry that ends a document and is no token: the largest one. Pre: width is 2 or 4. */
uint32_t luo_tokens_end(int32_t width);
/* Errors: LUO_EINPUT JSON by its name, which would be learnt with its braces. */
luo_status luo_tokens_check_name(const char *path, luo_err *err);
/* Errors: LUO_EINPUT so many bytes are no whole number of entries. */
luo_status luo_tokens_check_size(const char *path, int64_t bytes, luo_err *err);
/* The entry at p. Pre: width is 1, 2 or 4. Inline: it is read once for every token. */
static inline uint32_t luo_tokens_entry(const unsigned char *p, int32_t width)
{
    if (width == 1) return p[0];
    if (width == 2) return (uint32_t)p[0] | (uint32_t)p[1] << 8;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
#endif
