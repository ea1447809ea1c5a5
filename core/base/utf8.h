/* utf8.h: what is UTF-8, and a form of any bytes that can be shown to a user. */
#ifndef LUO_CORE_BASE_UTF8_H
#define LUO_CORE_BASE_UTF8_H
#include <stdbool.h>
#include <stddef.h>

/* Length of the UTF-8 sequence at the start of text[0..n); 0: there is no valid one (n is 0, a 0
 * byte, a bad byte, a sequence that is cut). */
size_t luo_utf8_sequence(const char *text, size_t n);
/* True if text[0..n) is valid UTF-8 without a 0 byte. */
bool luo_utf8_valid(const char *text, size_t n);

/* True if a character of valid UTF-8 drives a terminal: a control character other than tab and line
 * end, which luo_utf8_show writes as `\x1b`. */
bool luo_utf8_drives(const char *text);

/* What stands for a byte that is no UTF-8. */
#define LUO_UTF8_BAD "\xef\xbf\xbd"

/* text as a line that does a terminal no harm and is valid UTF-8: U+FFFD for each bad byte, a space
 * for a line end, `\x1b` for other control characters. At most size - 1 bytes and a 0; what
 * does not fit ends in "..". */
void luo_utf8_show(char *out, size_t size, const char *text);
#endif
