/* json_number.h: numbers as JSON writes them. */
#ifndef LUO_CORE_IO_JSON_NUMBER_H
#define LUO_CORE_IO_JSON_NUMBER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The JSON number grammar of docs/formats.md#rules-for-all-files over all of text[0..n). whole: no
 * fraction and no exponent. */
bool luo_json_number_form(const char *text, size_t n, bool whole);
/* Value of such a text. False: wrong form, or not finite, or (whole) beyond 64 bits. */
bool luo_json_number_float(const char *text, size_t n, double *out);
bool luo_json_number_whole(const char *text, size_t n, int64_t *out);
#endif
