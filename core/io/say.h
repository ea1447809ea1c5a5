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
const char *luo_say_limit(const luo_limit *l, bool whole, double v, char *buf, size_t size);

/* The second half of an unknown-key message: "did you mean `slowdown`?", the key with the unit, or
 * the list of keys. *meant (may be NULL): index of the key suggested, -1 none. */
void luo_say_unknown(luo_str *text, const char *word, const char *const *names, int n, int *meant);
#endif
