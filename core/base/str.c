#include "core/base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool room(luo_str *text, size_t more)
{
    if (text->failed) return false;
    if (text->cap - text->len > more) return true;
    size_t cap = text->cap ? text->cap : 64;
    while (cap - text->len <= more) cap *= 2;
    char *at = realloc(text->at, cap);
    if (!at) {
        text->failed = true;
        return false;
    }
    text->at = at;
    text->cap = cap;
    return true;
}

void luo_str_addn(luo_str *s, const char *text, size_t n)
{
    if (!room(s, n)) return;
    memcpy(s->at + s->len, text, n);
    s->len += n;
    s->at[s->len] = 0;
}

void luo_str_add(luo_str *s, const char *text)
{
    luo_str_addn(s, text, strlen(text));
}

void luo_str_addc(luo_str *text, char c)
{
    luo_str_addn(text, &c, 1);
}

void luo_str_addi(luo_str *text, int64_t v)
{
    char buf[24], *p = buf + sizeof buf;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do *--p = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0) *--p = '-';
    luo_str_addn(text, p, (size_t)(buf + sizeof buf - p));
}

void luo_str_addf(luo_str *text, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && room(text, (size_t)n)) {
        vsnprintf(text->at + text->len, (size_t)n + 1, fmt, again);
        text->len += (size_t)n;
    }
    va_end(again);
}

void luo_str_clear(luo_str *text)
{
    text->len = 0;
    if (text->at) text->at[0] = 0;
}

void luo_str_free(luo_str *text)
{
    free(text->at);
    memset(text, 0, sizeof *text);
}

const char *luo_str_get(const luo_str *text)
{
    return text->at ? text->at : "";
}

void luo_str_add_word(luo_str *text, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
    if (*word && word[strspn(word, plain)] == 0) {
        luo_str_add(text, word);
        return;
    }
    luo_str_addc(text, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            luo_str_add(text, "'\\''");
        else
            luo_str_addc(text, *word);
    }
    luo_str_addc(text, '\'');
}
