#include "core/base/utf8.h"

#include <stdio.h>
#include <string.h>

size_t luo_utf8_sequence(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    if (n == 0) return 0;
    if (p[0] < 0x80) return p[0] != 0;
    if (n >= 2 && p[0] >= 0xc2 && p[0] <= 0xdf && (p[1] & 0xc0) == 0x80) return 2;
    if (n >= 3 && (p[0] & 0xf0) == 0xe0 && (p[1] & 0xc0) == 0x80 && (p[2] & 0xc0) == 0x80) {
        const unsigned c = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        return c >= 0x800 && (c < 0xd800 || c > 0xdfff) ? 3 : 0;
    }
    if (n >= 4 && (p[0] & 0xf8) == 0xf0 && (p[1] & 0xc0) == 0x80 && (p[2] & 0xc0) == 0x80 &&
        (p[3] & 0xc0) == 0x80) {
        const unsigned c =
            (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
        return c >= 0x10000 && c <= 0x10ffff ? 4 : 0;
    }
    return 0;
}

bool luo_utf8_valid(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t k = luo_utf8_sequence(text + i, n - i);
        if (!k) return false;
        i += k;
    }
    return true;
}

/* Is the character of k bytes one that drives a terminal? */
static bool drives(const unsigned char *p, size_t k)
{
    const bool c1 = k == 2 && p[0] == 0xc2 && p[1] < 0xa0; /* 0x9b alone begins an escape */
    return (p[0] < 0x20 && p[0] != '\t' && p[0] != '\n') || p[0] == 0x7f || c1;
}

bool luo_utf8_drives(const char *text)
{
    while (*text >= ' ' && *text < 0x7f) text++; /* all of nearly every text */
    for (size_t n = strlen(text), k; n > 0; text += k, n -= k) {
        k = luo_utf8_sequence(text, n);
        if (k == 0) k = 1;
        if (drives((const unsigned char *)text, k)) return true;
    }
    return false;
}

/* What is shown for the next character of text[0..n), n > 0; *taken: its bytes in text. */
static const char *shown(const char *text, size_t n, size_t *taken, char *buf, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t k = luo_utf8_sequence(text, n);
    *taken = k ? k : 1;
    if (k == 0) return LUO_UTF8_BAD;
    if (p[0] == '\n' || p[0] == '\r') return " ";
    if (drives(p, k))
        snprintf(buf, size, "\\x%02x", p[k - 1]);
    else
        snprintf(buf, size, "%.*s", (int)k, text);
    return buf;
}

void luo_utf8_show(char *out, size_t size, const char *text)
{
    const size_t n = strlen(text);
    char buf[8];
    size_t at = 0, fits = 0; /* fits: where ".." would still have room */
    for (size_t i = 0, taken; i < n; i += taken) {
        if (text[i] >= ' ' && text[i] < 0x7f && at + 3 < size) { /* nearly all of every text */
            out[at++] = text[i];
            fits = at;
            taken = 1;
            continue;
        }
        const char *piece = shown(text + i, n - i, &taken, buf, sizeof buf);
        const size_t k = strlen(piece);
        if (at + 3 <= size) fits = at;
        if (at + k >= size) {
            snprintf(out + fits, size - fits, "..");
            return;
        }
        memcpy(out + at, piece, k);
        at += k;
    }
    out[at] = 0;
}
