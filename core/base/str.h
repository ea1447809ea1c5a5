/* str.h: a string that grows. Names that a user meant: words.h. */
#ifndef LUO_CORE_BASE_STR_H
#define LUO_CORE_BASE_STR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* {0} is an empty string. at is always ended by 0 once something was added. Memory from malloc.
 * After out of memory `failed` is set and further additions do nothing. */
typedef struct luo_str {
    char *at;
    size_t len, cap;
    bool failed;
} luo_str;

void luo_str_add(luo_str *s, const char *text);
void luo_str_addn(luo_str *s, const char *text, size_t n);
void luo_str_addc(luo_str *text, char c);
void luo_str_addi(luo_str *text, int64_t v); /* decimal; faster than addf */
void luo_str_addf(luo_str *text, const char *fmt, ...) LUO_PRINTF(2, 3);
/* As one word of a POSIX shell: quoted where it is not plain. */
void luo_str_add_word(luo_str *text, const char *word);
void luo_str_clear(luo_str *text); /* keeps the memory */
void luo_str_free(luo_str *text);
const char *luo_str_get(const luo_str *text); /* "" when empty */
#endif
