/* say.h: limits of values, and the words that messages of all readers share. */
#ifndef LUO_CORE_IO_SAY_H
#define LUO_CORE_IO_SAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/quantity.h"
#include "core/base/words.h"

/* "a plain number above 0", "a whole number from 0 to 3": what is expected of a value. An upper
 * limit of a million or more, which nobody meets by intent, is named only when v is above it, and
 * so is the lowest value of a quantity below 1. */
const char *luo_limit_say(const luo_limit *l, bool whole, double v, char *buf, size_t size);

/* The JSON number grammar of docs/formats.md#rules-for-all-files over all of text[0..n). whole: no
 * fraction and no exponent. */
bool luo_number_form(const char *text, size_t n, bool whole);
/* Value of such a text. False: wrong form, or not finite, or (whole) beyond 64 bits. */
bool luo_number_float(const char *text, size_t n, double *out);
bool luo_number_whole(const char *text, size_t n, int64_t *out);

/* The second half of an unknown-key message: "did you mean `slowdown`?", the key with the unit, or
 * the list of keys. *meant (may be NULL): index of the key suggested, -1 none. */
void luo_say_unknown(luo_str *text, const char *word, const char *const *names, int n, int *meant);
#endif
